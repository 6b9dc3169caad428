#include "plan/lower/lower.h"

#include "plan/lower/casts.h"
#include "plan/lower/fusion.h"
#include "plan/lower/groups.h"
#include "plan/lower/lowering.h"
#include "plan/lower/relay.h"
#include "plan/passes.h"

#include <assert.h>

// Forward ops in order, then their backward, then the weight gradients, each op through
// lowering_op; around them what a block has to do as a whole: its boundaries, recomputed work, and
// the storage layouts of its parameters (ZeRO).

struct op_layouts *lower_layouts(struct arena *arena, const struct differentiated *facts)
{
    return ARENA_NEW(arena, struct op_layouts, facts->block->op_count);
}

// Products of 8 bits have factors for what they read and none for what they write: nothing is done
// to a result before it is written.
static unsigned joins_in_bytes(unsigned joins)
{
    return joins &
           ~(1u << JOIN_BIAS | 1u << JOIN_GELU | 1u << JOIN_GELU_SLOPE | 1u << JOIN_BIAS_GRADIENT);
}

// What runs as one GEMM of our engine has its weights and their gradients side by side, which what
// ZeRO moves one by one has not (whether or not it does: sums of the same programs are those of all
// its stages). In 8 bits they have one factor, as what they share has, which is cast for all.
static unsigned joins_of(const struct lower_request *request)
{
    unsigned joins = request->joins;
    const struct parallel *parallel = request->parallel;
    // Weights that are gathered one by one do not stand side by side.
    if (parallel->tp_kind != TP_1D) joins &= ~(1u << JOIN_MERGED);
    if (!pass_is_on(parallel, PASS_FUSION)) joins &= ~joins_of_pass();
    if (!joins_are_executed(request->joins)) return joins;
    if (!pass_is_on(parallel, PASS_COMBINE)) joins &= ~(1u << JOIN_MERGED);
    bool is_in_bytes =
        precision_bytes(request->precision) < 2 && request->block->role == BLOCK_LAYER;
    return is_in_bytes ? joins_in_bytes(joins) : joins;
}

static struct lowering start(struct arena *arena, const struct lower_request *request,
                             struct differentiated *made)
{
    const struct differentiated *facts = request->differentiated;
    if (!facts) {
        block_differentiate(arena, request->block, made);
        facts = made;
    }
    const struct block *block = facts->block;
    assert(facts->forward_op_count >= 0 && facts->forward_op_count <= block->op_count);
    unsigned data = mesh_axes_of(request->mesh, AXIS_DP);
    struct lowering low = {
        .arena = arena,
        .request = request,
        .facts = facts,
        .block = block,
        .mesh = request->mesh,
        .batch = (int64_t)request->parallel->micro_batch * mesh_size(request->mesh, data),
        .joins = joins_of(request),
        .layouts = request->layouts ? request->layouts : lower_layouts(arena, facts),
        .places = ARENA_NEW(arena, struct place, block->tensor_count),
        .program = ARENA_NEW(arena, struct block_program, 1),
        .instr_capacity = block->op_count + block->op_count / 4 + 16,
        .buffer_capacity = 2 * block->tensor_count + 16,
        .group = 1,
    };
    low.saved =
        lowering_saved(arena, facts, request->recompute, request->parallel->recompute_classes);
    low.program->block = block;
    low.program->instrs = ARENA_NEW(arena, struct instr, low.instr_capacity);
    low.program->buffers = ARENA_NEW(arena, struct buffer, low.buffer_capacity);
    low.backing = ARENA_NEW(arena, struct backing, low.buffer_capacity);
    for (int t = 0; t < block->tensor_count; t++)
        lowering_forget(&low, t);
    for (int i = 0; i < BLOCK_EDGES; i++) {
        low.program->inputs[i] = low.program->input_gradients[i] = -1;
        low.program->outputs[i] = low.program->output_gradients[i] = -1;
    }
    return low;
}

static bool stores_apart(const struct lowering *low)
{
    for (int i = 0; i < low->mesh->axis_count; i++) {
        const struct technique *technique =
            technique_at(low->request->parallel, &low->mesh->axes[i]);
        if (technique && technique->stores) return true;
    }
    return false;
}

// The layout that a parameter is kept in where op reads it in another, and what that has for its
// gradient and the terms of it.
static struct layout keep_stored(struct lowering *low, int tensor, const struct layout *read)
{
    assert(low->stored && low->block->tensors[tensor].role == TENSOR_PARAMETER);
    const struct block *block = low->block;
    struct layout stored =
        strategy_stored(low->mesh, low->request->parallel, &block->tensors[tensor], read);
    struct layout apart = {.of = {0}};
    for (int i = 0; i < low->mesh->axis_count; i++)
        if (stored.of[i] != read->of[i]) apart.of[i] = stored.of[i];
    low->stored[tensor] = apart;
    for (int t = 0; t < block->tensor_count; t++) {
        bool is_its = block->tensors[t].gradient_of == tensor;
        if (is_its && block->tensors[t].role == TENSOR_PARAMETER_GRADIENT) low->stored[t] = apart;
    }
    return stored;
}

// Parameters and ids lie as their first reader needs them, block inputs as the block before left
// them.
static void place_sources(struct lowering *low)
{
    const struct block *block = low->block;
    for (int i = 0; i < block->input_count; i++) {
        int t = block->inputs[i];
        struct layout layout =
            strategy_boundary(low->mesh, low->request->parallel, &block->tensors[t]);
        low->program->inputs[i] = lowering_buffer(low, t, &layout);
        lowering_set_home(low, t, low->program->inputs[i]);
    }
    for (int o = 0; o < low->facts->forward_op_count; o++) {
        const struct op *op = &block->ops[o];
        const struct op_layouts *layouts = lowering_layouts(low, o);
        for (int i = 0; i < op->input_count; i++) {
            int t = op->inputs[i];
            if (block->tensors[t].producer >= 0 || low->places[t].home >= 0) continue;
            struct layout layout = layouts->inputs[i];
            bool is_parameter = block->tensors[t].role == TENSOR_PARAMETER;
            if (is_parameter && low->stored) layout = keep_stored(low, t, &layout);
            lowering_set_home(low, t, lowering_buffer(low, t, &layout));
        }
    }
}

static bool is_decayed(const struct block *block, int tensor, int forward_op_count)
{
    for (int o = 0; o < forward_op_count; o++) {
        const struct op *op = &block->ops[o];
        if (!op_has_product(op->kind) && op->kind != OP_GATHER) continue;
        for (int i = 0; i < op->input_count; i++) {
            if (op->inputs[i] == tensor) return true;
        }
    }
    return false;
}

static void list_parameters(struct lowering *low)
{
    struct block_program *program = low->program;
    program->parameter_count = low->facts->parameter_count;
    program->parameters = ARENA_NEW(low->arena, struct parameter, program->parameter_count);
    for (int i = 0; i < program->parameter_count; i++) {
        int t = low->facts->parameters[i];
        const struct tensor *tensor = &low->block->tensors[t];
        struct layout layout = lowering_home_layout(low, t);
        program->parameters[i] = (struct parameter){
            .tensor = t,
            .tie = tensor->tie,
            .tensor_count = 1,
            .elements = layout_local_elements(&layout, low->mesh, tensor, 1, 1),
            .kind = parameter_kind_of(tensor_find_dim(tensor, DIM_EXPERT) >= 0, tensor->frozen),
            .decayed = is_decayed(low->block, t, low->facts->forward_op_count),
            .layout = layout,
        };
        const struct parameter *parameter = &program->parameters[i];
        program->parameter_elements += parameter->elements;
        if (!tensor->frozen) program->trained_elements += parameter->elements;
        bool is_router = tensor_find_dim(tensor, DIM_GATE) >= 0;
        if (!parameter->decayed || parameter->tie || is_router) continue;
        program->linear_elements += parameter->elements;
        program->linear_count++;
    }
}

static void begin_phase(struct lowering *low, enum phase phase)
{
    assert(phase >= low->phase && "phases follow each other");
    low->phase = phase;
    low->program->phase_first[phase] = low->program->instr_count;
}

static void lower_forward(struct lowering *low)
{
    const struct block *block = low->block;
    begin_phase(low, PHASE_FORWARD);
    lowering_gather_parameters(low);
    for (int o = 0; o < low->facts->forward_op_count; o++)
        lowering_op(low, o);
    // The head's outputs are the loss of each token: nobody needs those elsewhere.
    for (int i = 0; i < block->output_count; i++) {
        int t = block->outputs[i];
        struct layout layout = lowering_home_layout(low, t);
        if (block->role != BLOCK_HEAD) {
            layout = strategy_boundary(low->mesh, low->request->parallel, &block->tensors[t]);
        }
        low->program->outputs[i] = lowering_read(low, t, &layout);
        lowering_set_home(low, t, low->program->outputs[i]);
        int64_t bytes = low->program->buffers[low->program->outputs[i]].bytes;
        // A prediction module and the head are never on two stages.
        bool is_sent = block->role != BLOCK_HEAD && !block->mtp;
        if (is_sent) low->program->output_bytes += bytes;
        low->program->output_layout = layout;
    }
}

// From here on a forward tensor is either kept, as it was made and as it was moved, or has to be
// made again. Of what is kept only the layouts that backward reads are saved: lowering_memory.
static void forget_forward(struct lowering *low)
{
    for (int t = 0; t < low->block->tensor_count; t++) {
        bool is_activation = low->block->tensors[t].role == TENSOR_ACTIVATION;
        if (is_activation && !low->saved[t]) lowering_forget(low, t);
    }
}

static bool is_recomputed(const struct lowering *low, const struct op *op)
{
    const struct lower_request *request = low->request;
    return lowering_is_recomputed(op, request->recompute, request->parallel->recompute_classes);
}

static void make_inputs_again(struct lowering *low, int index);

static void recompute(struct lowering *low, int index)
{
    assert(!low->recompute && index < low->facts->forward_op_count);
    make_inputs_again(low, index);
    low->recompute = true;
    lowering_op(low, index);
    low->recompute = false;
}

// Runs the op whose result was dropped once more, or the whole region that it belongs to.
static void make_again(struct lowering *low, int tensor)
{
    const struct block *block = low->block;
    int producer = block->tensors[tensor].producer;
    if (low->places[tensor].home >= 0) return;
    assert(producer >= 0 && is_recomputed(low, &block->ops[producer]));
    enum op_class class = block->ops[producer].class;
    if (!lowering_is_region(class)) return recompute(low, producer);
    for (int o = 0; o < low->facts->forward_op_count; o++) {
        if (block->ops[o].class == class) recompute(low, o);
    }
}

static void make_inputs_again(struct lowering *low, int index)
{
    const struct op *op = &low->block->ops[index];
    bool is_sum = op->kind == OP_ADD;
    const int *inputs = is_sum ? low->facts->sums[index].inputs : op->inputs;
    int count = is_sum ? low->facts->sums[index].input_count : op->input_count;
    for (int i = 0; i < count; i++) {
        if (low->block->tensors[inputs[i]].role == TENSOR_ACTIVATION) make_again(low, inputs[i]);
    }
}

// A block recomputed whole is a group of its own: a gathered copy made in it is not kept for the
// weight gradients, which would hold it for the length of the block.
static void recompute_whole(struct lowering *low)
{
    if (low->request->recompute != RECOMPUTE_FULL) return;
    low->recompute = true;
    for (int o = 0; o < low->facts->forward_op_count; o++)
        lowering_op(low, o);
    low->recompute = false;
    if (!lowering_is_apart(low)) low->group++;
}

// An embedding whose rows are not worked on any more only adds to the gradient of its table.
static bool reads_weights_again(const struct lowering *low)
{
    if (low->request->recompute != RECOMPUTE_NONE) return true;
    for (int o = low->facts->forward_op_count; o < low->block->op_count; o++) {
        const struct op *op = &low->block->ops[o];
        for (int i = 0; i < op->input_count; i++) {
            if (low->block->tensors[op->inputs[i]].role == TENSOR_PARAMETER) return true;
        }
    }
    return false;
}

static void place_output_gradients(struct lowering *low)
{
    for (int i = 0; i < low->block->output_count; i++) {
        int gradient = low->facts->gradients.of_output[i];
        if (gradient < 0) continue;
        struct layout layout = lowering_home_layout(low, low->block->outputs[i]);
        low->program->output_gradients[i] = lowering_buffer(low, gradient, &layout);
        lowering_set_home(low, gradient, low->program->output_gradients[i]);
    }
}

// The gradient of a parameter that is kept split goes to where that is as soon as it is made.
static void put_gradients(struct lowering *low, int index)
{
    assert(index >= low->facts->forward_op_count && "forward makes no gradient");
    const struct op *op = &low->block->ops[index];
    for (int i = 0; low->stored && i < op->output_count; i++) {
        int t = op->outputs[i];
        const struct tensor *tensor = &low->block->tensors[t];
        if (tensor->role != TENSOR_PARAMETER_GRADIENT) continue;
        if (low->facts->gradients.of_parameter[tensor->gradient_of] != t) continue;
        struct layout want = lowering_home_layout(low, t);
        if (lowering_is_stored(low, t, &want)) continue;
        for (int a = 0; a < low->mesh->axis_count; a++)
            if (low->stored[t].of[a] > 0) want.of[a] = low->stored[t].of[a];
        lowering_set_home(low, t, lowering_change(low, low->places[t].home, &want));
    }
}

// Frozen weights that no gradient goes through have forward operators alone.
static bool block_is_differentiated(const struct block *block)
{
    return block->op_count > 0 && block->ops[block->op_count - 1].phase != PHASE_FORWARD;
}

static void lower_backward(struct lowering *low)
{
    const struct block *block = low->block;
    begin_phase(low, PHASE_BACKWARD);
    low->group++;
    place_output_gradients(low);
    forget_forward(low);
    // Shards are gathered whether or not backward reads them, as software does; nothing is fetched
    // for nobody.
    bool moves = offload_moves_parameters(&low->request->parallel->offload);
    bool is_differentiated = block_is_differentiated(block);
    bool is_read = !moves || reads_weights_again(low);
    if (moves && is_differentiated && is_read) {
        low->program->weights_turn = low->request->stays_turn;
        low->program->weights_rounds = low->request->stays_rounds;
    }
    if (is_differentiated && is_read && !low->program->weights_turn)
        lowering_gather_parameters(low);
    if (is_differentiated) recompute_whole(low);
    bool is_selective = low->request->recompute == RECOMPUTE_SELECTIVE ||
                        low->request->recompute == RECOMPUTE_PER_OP;
    for (int o = low->facts->forward_op_count; o < block->op_count; o++) {
        // As late as can be, so that little else is alive beside it: for a weight gradient beside
        // the input gradient of the same op, after which it may run.
        if (is_selective) make_inputs_again(low, o);
        if (block->ops[o].phase != PHASE_BACKWARD) continue;
        lowering_op(low, o);
        put_gradients(low, o);
    }
    for (int i = 0; i < block->input_count; i++) {
        int gradient = low->facts->gradients.of_input[i];
        if (gradient < 0) continue;
        struct layout layout =
            strategy_boundary(low->mesh, low->request->parallel, &block->tensors[block->inputs[i]]);
        low->program->input_gradients[i] = lowering_read(low, gradient, &layout);
    }
}

// What is left partial is summed once a step, by whoever runs the program. ZeRO has reduced the
// rest, except where an axis of the shard group splits the parameter itself (sinks under Ulysses).
static void record_gradients(struct lowering *low)
{
    for (int i = 0; i < low->program->parameter_count; i++) {
        struct parameter *parameter = &low->program->parameters[i];
        int gradient = low->facts->gradients.of_parameter[parameter->tensor];
        unsigned sharded = lowering_is_sharded(low, 2, parameter->kind)
                               ? lowering_shard_axes(low, parameter->kind, STORED_GRADIENTS)
                               : 0;
        if (!parameter_kind_is_trained(parameter->kind)) continue;
        assert(gradient >= 0);
        struct layout made = lowering_home_layout(low, gradient);
        unsigned partial = layout_partial_axes(&made);
        for (int a = 0; a < low->mesh->axis_count; a++) {
            assert((partial >> a & 1) || made.of[a] == parameter->layout.of[a]);
            if (made.of[a] > 0) sharded &= ~(1u << a);
        }
        assert((partial & sharded) == sharded);
        parameter->gradient_partial_axes = partial & ~sharded;
    }
}

static void lower_weights(struct lowering *low)
{
    begin_phase(low, PHASE_WEIGHT);
    for (int o = low->facts->forward_op_count; o < low->block->op_count; o++) {
        if (low->block->ops[o].phase != PHASE_WEIGHT) continue;
        lowering_op(low, o);
        put_gradients(low, o);
    }
    lowering_scatter_gradients(low);
    low->program->phase_first[PHASE_COUNT] = low->program->instr_count;
    record_gradients(low);
}

struct block_program *lower_sharding(struct arena *arena, const struct lower_request *request,
                                     const struct block_program *whole)
{
    enum { INSTRS_FIRST = 8 };
    struct lowering low = {
        .arena = arena,
        .request = request,
        .block = whole->block,
        .mesh = request->mesh,
        .program = ARENA_NEW(arena, struct block_program, 1),
        .instr_capacity = INSTRS_FIRST,
        .buffer_capacity = 2 * INSTRS_FIRST,
    };
    struct block_program *program = low.program;
    program->block = whole->block;
    program->instrs = ARENA_NEW(arena, struct instr, low.instr_capacity);
    program->buffers = ARENA_NEW(arena, struct buffer, low.buffer_capacity);
    low.backing = ARENA_NEW(arena, struct backing, low.buffer_capacity);
    program->begins = whole->begins;
    program->begins.each_time = lowering_is_sharded(&low, 2, PARAMETER_DENSE);
    program->parameter_count = whole->parameter_count;
    program->parameters =
        ARENA_COPY(arena, struct parameter, whole->parameters, whole->parameter_count);
    begin_phase(&low, PHASE_FORWARD);
    lowering_gather_parameters(&low);
    begin_phase(&low, PHASE_BACKWARD);
    if (block_is_differentiated(whole->block)) lowering_gather_parameters(&low);
    begin_phase(&low, PHASE_WEIGHT);
    lowering_scatter_gradients(&low);
    program->phase_first[PHASE_COUNT] = program->instr_count;
    for (int i = 0; i < program->parameter_count; i++) {
        struct parameter *parameter = &program->parameters[i];
        if (!lowering_is_sharded(&low, 2, parameter->kind)) continue;
        parameter->gradient_partial_axes &=
            ~lowering_shard_axes(&low, parameter->kind, STORED_GRADIENTS);
    }
    return program;
}

static void cast(struct lowering *low)
{
    const struct offload *offload = &low->request->parallel->offload;
    bool stays =
        !lowering_is_sharded(low, 3, PARAMETER_DENSE) && !offload_moves_parameters(offload);
    casts_form(low->arena, low->program, low->buffer_capacity, low->mesh);
    casts_keep_weights(low->arena, low->program, low->mesh, stays);
}

// Our own engine's groups, or what other software fuses.
static void join(struct lowering *low)
{
    if (joins_are_executed(low->request->joins)) {
        groups_form(low->arena, low->program, low->buffer_capacity, low->mesh, low->joins);
        if (precision_bytes(low->request->precision) < 2) cast(low);
    } else if (low->joins >> JOIN_CHAIN & 1) {
        fusion_mark(low->arena, low->program);
    }
}

struct block_program *lower_block(struct arena *arena, const struct lower_request *request)
{
    assert(request->seq_len > 0 && request->parallel->micro_batch > 0);
    struct differentiated made;
    struct lowering low = start(arena, request, &made);
    if (stores_apart(&low)) low.stored = ARENA_NEW(arena, struct layout, low.block->tensor_count);
    place_sources(&low);
    list_parameters(&low);
    lowering_weights(&low);
    lower_forward(&low);
    lower_backward(&low);
    lower_weights(&low);
    if (pass_is_on(request->parallel, PASS_EARLY_STOP)) lowering_stop_early(&low);
    lowering_relay(&low);
    join(&low);
    lowering_begins(&low);
    lowering_memory(&low);
    low.program->weights_away = offload_moves_parameters(&request->parallel->offload);
    return low.program;
}
