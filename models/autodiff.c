#include "models/autodiff.h"

#include "models/builder.h"
#include "models/op.h"

#include <assert.h>
#include <string.h>

// Ops are walked from the last to the first. When an op is reached, all readers of its output have
// handed in their gradient contributions, so that the sum of them is the whole gradient.

struct contributions {
    int tensors[OP_INPUT_MAX];
    int count;
    int expected;  // readers that will hand in one; decides the names
    int given;     // handed in so far
    int sums;      // of as many as a sum has inputs
};

struct autodiff {
    struct builder builder;
    int forward_tensor_count, forward_op_count;
    struct contributions *of;  // by forward tensor
};

static struct block *block_of(struct autodiff *diff)
{
    return diff->builder.block;
}

static void add_up(struct autodiff *diff, int tensor, int forward_op, const char *name);
static int first_reader(const struct block *block, int tensor);

// What has more readers than a sum has inputs is added up in between.
static void contribute(struct autodiff *diff, int tensor, int gradient)
{
    struct contributions *of = &diff->of[tensor];
    if (of->count == OP_INPUT_MAX) {
        const struct tensor *forward = &block_of(diff)->tensors[tensor];
        int op = forward->producer >= 0 ? forward->producer : first_reader(block_of(diff), tensor);
        add_up(diff, tensor, op,
               arena_print(diff->builder.arena, "d_%s.sum%d", forward->name, ++of->sums));
    }
    of->tensors[of->count++] = gradient;
    of->given++;
}

static int gradient_tensor(struct autodiff *diff, int tensor, const char *name)
{
    bool is_parameter = block_of(diff)->tensors[tensor].role == TENSOR_PARAMETER;
    struct shape shape = builder_shape(&diff->builder, tensor);
    enum tensor_role role = is_parameter ? TENSOR_PARAMETER_GRADIENT : TENSOR_GRADIENT;
    int gradient =
        builder_tensor(&diff->builder, name, role, block_of(diff)->tensors[tensor].element, shape);
    block_of(diff)->tensors[gradient].gradient_of = tensor;
    block_of(diff)->tensors[gradient].density = block_of(diff)->tensors[tensor].density;
    return gradient;
}

// A new contribution to the gradient of `tensor`: "d_name" when it is the only one, else numbered.
static int new_contribution(struct autodiff *diff, int tensor)
{
    const struct contributions *of = &diff->of[tensor];
    struct arena *arena = diff->builder.arena;
    const char *forward = block_of(diff)->tensors[tensor].name;
    const char *name = of->expected > 1 ? arena_print(arena, "d_%s.%d", forward, of->given)
                                        : arena_print(arena, "d_%s", forward);
    int gradient = gradient_tensor(diff, tensor, name);
    contribute(diff, tensor, gradient);
    return gradient;
}

static enum phase phase_for(const struct autodiff *diff, int tensor)
{
    bool is_parameter = diff->builder.block->tensors[tensor].role == TENSOR_PARAMETER;
    return is_parameter ? PHASE_WEIGHT : PHASE_BACKWARD;
}

// The gradient of a forward tensor, summed where it has several readers; -1 when nothing reads it.
static int total(struct autodiff *diff, int tensor, int forward_op)
{
    struct contributions *of = &diff->of[tensor];
    if (of->count == 0) return -1;
    if (of->count > 1)
        add_up(diff, tensor, forward_op,
               arena_print(diff->builder.arena, "d_%s", block_of(diff)->tensors[tensor].name));
    return of->tensors[0];
}

// Later questions for the same gradient get the sum.
static void add_up(struct autodiff *diff, int tensor, int forward_op, const char *name)
{
    struct contributions *of = &diff->of[tensor];
    struct op op = {.name = name,
                    .kind = OP_ADD,
                    .phase = phase_for(diff, tensor),
                    .forward_op = forward_op,
                    .scalar = 1,
                    .input_count = of->count,
                    .output_count = 1};
    memcpy(op.inputs, of->tensors, sizeof op.inputs);
    int sum = op.outputs[0] = gradient_tensor(diff, tensor, name);
    builder_op(&diff->builder, op);
    of->tensors[0] = sum;
    of->count = 1;
}

// The backward op of forward op `index`: what it computes with is inherited, what it links is not.
static struct op derived(struct autodiff *diff, int index, enum op_kind kind, enum phase phase)
{
    assert(index >= 0 && index < diff->forward_op_count);
    struct op op = block_of(diff)->ops[index];
    op.name = arena_print(diff->builder.arena, "d_%s", op.name);
    op.kind = kind;
    op.phase = phase;
    op.forward_op = index;
    op.input_count = op.output_count = 0;
    memset(op.inputs, 0, sizeof op.inputs);
    memset(op.outputs, 0, sizeof op.outputs);
    return op;
}

static void add_input(struct op *op, int tensor)
{
    assert(op->input_count < OP_INPUT_MAX);
    op->inputs[op->input_count++] = tensor;
}

static void add_output(struct op *op, int tensor)
{
    assert(op->output_count < OP_OUTPUT_MAX);
    op->outputs[op->output_count++] = tensor;
}

// C = A.B: dA = dC.B and dB = A.dC. The dims keep their names, so that the einsum itself says what
// is summed, and with it how a split of C makes dA or dB partial.
static void contract_backward(struct autodiff *diff, int index, int gradient)
{
    for (int side = 0; side < 2; side++) {
        const struct op *forward = &block_of(diff)->ops[index];
        int wanted = forward->inputs[side], other = forward->inputs[1 - side];
        if (!op_has_gradient(block_of(diff), forward, side)) continue;
        struct op op = derived(diff, index, forward->kind, phase_for(diff, wanted));
        op.name = arena_print(diff->builder.arena, "d_%s.%c", block_of(diff)->ops[index].name,
                              "ab"[side]);
        add_input(&op, side == 0 ? gradient : other);
        add_input(&op, side == 0 ? other : gradient);
        add_output(&op, new_contribution(diff, wanted));
        builder_op(&diff->builder, op);
    }
}

static bool has_same_dims(const struct tensor *a, const struct tensor *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->extents[i].dim != b->extents[i].dim) return false;
    }
    return true;
}

// The gradient of a sum is the gradient of each term; a term that was repeated over some dims (a
// bias over batch and seq) gets the sum over them.
static void add_backward(struct autodiff *diff, int index, int gradient)
{
    for (int i = 0; i < block_of(diff)->ops[index].input_count; i++) {
        const struct op *forward = &block_of(diff)->ops[index];
        const struct tensor *tensors = block_of(diff)->tensors;
        int wanted = forward->inputs[i];
        if (!op_has_gradient(block_of(diff), forward, i)) continue;
        if (has_same_dims(&tensors[wanted], &tensors[gradient])) {
            contribute(diff, wanted, gradient);
            continue;
        }
        struct op op = derived(diff, index, OP_REDUCE, phase_for(diff, wanted));
        add_input(&op, gradient);
        add_output(&op, new_contribution(diff, wanted));
        builder_op(&diff->builder, op);
    }
}

// Whether its outputs are parts of what it reads, each with a gradient of its own.
static bool is_split(const struct op *op)
{
    return op->kind == OP_OPERATOR || op->kind == OP_PART;
}

// One op for all kinds that read (gradient, what the rule saves) and write one gradient for each
// input that has one. The rule's order, inputs then outputs, is the order of models/graph.h.
static void kernel_backward(struct autodiff *diff, int index, int gradient, enum op_kind kind)
{
    struct op forward = block_of(diff)->ops[index];
    bool is_lookup = kind == OP_GATHER_BACKWARD;
    enum phase phase = is_lookup ? phase_for(diff, forward.inputs[1]) : PHASE_BACKWARD;
    struct op op = derived(diff, index, kind, phase);
    unsigned bits = op_rule(forward.kind)->saves(block_of(diff), &forward);
    add_input(&op, gradient);
    for (int i = 0; i < forward.output_count && is_split(&forward); i++) {
        int other = total(diff, forward.outputs[i], index);
        if (other >= 0 && other != gradient) add_input(&op, other);
    }
    for (int i = 0; i < forward.input_count; i++) {
        if (bits >> i & 1) add_input(&op, forward.inputs[i]);
    }
    for (int i = 0; i < forward.output_count; i++) {
        if (bits >> (SAVES_OUTPUT + i) & 1) add_input(&op, forward.outputs[i]);
    }
    for (int i = 0; i < forward.input_count; i++) {
        if (!op_has_gradient(block_of(diff), &forward, i)) continue;
        // Kernels tell their results by their places: what has none is behind them.
        assert(i == 0 || !block_of(diff)->tensors[forward.inputs[i - 1]].frozen);
        add_output(&op, new_contribution(diff, forward.inputs[i]));
    }
    // Of what reads data alone (an image that is scaled) nobody wants a gradient.
    if (op.output_count > 0) builder_op(&diff->builder, op);
}

// Zeros for the parameters that the choice alone reads: it has no derivative.
static void choose_backward(struct autodiff *diff, int index)
{
    struct op op = derived(diff, index, OP_CHOOSE_BACKWARD, PHASE_WEIGHT);
    add_input(&op, block_of(diff)->ops[index].outputs[0]);
    for (int o = 0; o <= index; o++) {
        struct op of = block_of(diff)->ops[o];
        for (int i = 0; i < of.input_count && of.chooses; i++) {
            const struct tensor *tensor = &block_of(diff)->tensors[of.inputs[i]];
            if (tensor->role != TENSOR_PARAMETER || tensor->frozen) continue;
            add_output(&op, new_contribution(diff, of.inputs[i]));
        }
    }
    if (op.output_count > 0) builder_op(&diff->builder, op);
}

// Kinds whose backward is one kernel; contractions and sums are not among them, and what stands in
// no forward block has OP_CONTRACT, the zero of the enum.
static const enum op_kind KERNELS[OP_KIND_COUNT] = {
    [OP_ELEMENTWISE] = OP_ELEMENTWISE,
    [OP_EXPAND] = OP_REDUCE,
    [OP_DROPOUT] = OP_DROPOUT,
    [OP_NORM] = OP_NORM_BACKWARD,
    [OP_SOFTMAX] = OP_SOFTMAX_BACKWARD,
    [OP_ATTENTION] = OP_ATTENTION_BACKWARD,
    [OP_GATHER] = OP_GATHER_BACKWARD,
    [OP_LOSS] = OP_LOSS_BACKWARD,
    [OP_CONCAT] = OP_CONCAT_BACKWARD,
    [OP_PART] = OP_CONCAT,
    [OP_FLATTEN] = OP_FLATTEN,
    [OP_ROUTE] = OP_ROUTE_BACKWARD,
    [OP_DISPATCH] = OP_DISPATCH_BACKWARD,
    [OP_COMBINE] = OP_COMBINE_BACKWARD,
    [OP_OPERATOR] = OP_OPERATOR_BACKWARD,
    [OP_CONV] = OP_CONV_BACKWARD,
    [OP_SCAN] = OP_SCAN_BACKWARD,
    [OP_DELTA] = OP_DELTA_BACKWARD,
    [OP_LINEAR_LOSS] = OP_LINEAR_LOSS_BACKWARD,
    [OP_SINKHORN] = OP_SINKHORN_BACKWARD,
    [OP_POOL] = OP_POOL_BACKWARD,
    [OP_POOLED] = OP_POOLED_BACKWARD,
};

// Behind frozen inputs alone there is nothing to do.
static bool wants_gradient(const struct block *block, const struct op *op)
{
    for (int i = 0; i < op->input_count; i++) {
        if (op_has_gradient(block, op, i)) return true;
    }
    return false;
}

static void op_backward(struct autodiff *diff, int index, int gradient)
{
    assert(gradient >= diff->forward_tensor_count);
    const struct op *op = &block_of(diff)->ops[index];
    if (!wants_gradient(block_of(diff), op)) return;
    if (op_is_gemm(op->kind)) {
        contract_backward(diff, index, gradient);
    } else if (op->kind == OP_ADD) {
        add_backward(diff, index, gradient);
    } else if (op->function == FUNCTION_ALIBI) {
        contribute(diff, op->inputs[0], gradient);  // what it adds is a constant
    } else {
        assert(KERNELS[op->kind] != OP_CONTRACT);
        kernel_backward(diff, index, gradient, KERNELS[op->kind]);
    }
}

static void count_readers(struct autodiff *diff)
{
    const struct block *block = block_of(diff);
    for (int o = 0; o < diff->forward_op_count; o++) {
        for (int i = 0; i < block->ops[o].input_count; i++) {
            diff->of[block->ops[o].inputs[i]].expected += op_has_gradient(block, &block->ops[o], i);
        }
    }
    for (int i = 0; i < block->output_count; i++) {
        diff->of[block->outputs[i]].expected++;
    }
}

// The strategy of a sum over the readers of a block input is that of the first of them. What goes
// on to the next block unread has nothing to sum.
static int first_reader(const struct block *block, int tensor)
{
    for (int o = 0; o < block->op_count; o++) {
        for (int i = 0; i < block->ops[o].input_count; i++) {
            if (block->ops[o].inputs[i] == tensor) return o;
        }
    }
    bool is_output = false;
    for (int i = 0; i < block->output_count; i++)
        is_output = is_output || block->outputs[i] == tensor;
    assert(is_output && "nothing reads this tensor");
    return -1;
}

static void finish(struct autodiff *diff, struct block_gradients *gradients)
{
    const struct block *block = block_of(diff);
    for (int i = 0; i < block->input_count; i++) {
        int input = block->inputs[i];
        assert(block->tensors[input].role == TENSOR_ACTIVATION);
        gradients->of_input[i] = total(diff, input, first_reader(block, input));
    }
    for (int t = 0; t < diff->forward_tensor_count; t++) {
        const struct tensor *tensor = &block_of(diff)->tensors[t];
        if (tensor->role != TENSOR_PARAMETER || tensor->frozen) continue;
        total(diff, t, first_reader(block_of(diff), t));
    }
    int count = block_of(diff)->tensor_count;
    gradients->of_parameter = ARENA_NEW(diff->builder.arena, int, count);
    for (int t = 0; t < count; t++) {
        const struct tensor *tensor = &block_of(diff)->tensors[t];
        bool is_trained = tensor->role == TENSOR_PARAMETER && !tensor->frozen;
        gradients->of_parameter[t] = is_trained ? diff->of[t].tensors[0] : -1;
        assert(!is_trained || diff->of[t].count == 1);
    }
}

struct block *autodiff_block(struct arena *arena, const struct block *forward,
                             struct block_gradients *gradients)
{
    struct autodiff diff = {.builder = builder_copy(arena, forward),
                            .forward_tensor_count = forward->tensor_count,
                            .forward_op_count = forward->op_count,
                            .of = ARENA_NEW(arena, struct contributions, forward->tensor_count)};
    *gradients = (struct block_gradients){{-1, -1}, {-1, -1}, NULL};
    count_readers(&diff);
    for (int i = 0; i < forward->output_count; i++) {
        int output = forward->outputs[i];
        bool is_choice = tensor_find_dim(&forward->tensors[output], DIM_CHOSEN) >= 0;
        gradients->of_output[i] = is_choice ? -1 : new_contribution(&diff, output);
    }
    for (int o = forward->op_count - 1; o >= 0; o--) {
        const struct op *op = &forward->ops[o];
        int gradient = total(&diff, op->outputs[0], o);
        for (int i = 1; i < op->output_count && gradient < 0 && is_split(op); i++)
            gradient = total(&diff, op->outputs[i], o);
        if (gradient >= 0) op_backward(&diff, o, gradient);
        if (op->kind == OP_CHOOSE) choose_backward(&diff, o);
    }
    finish(&diff, gradients);
    return block_of(&diff);
}
