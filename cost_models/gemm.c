#include "cost_models/gemm.h"
#include "cost_models/measured.h"

#include <assert.h>
#include <math.h>

// What runs for a contraction: joined with its neighbours or alone, one GEMM or a group of them,
// narrow or in 16 bits.

// Contractions that run as one share a mark; 0: alone.
static int merge_of(const struct instr *instr)
{
    bool is_gemm = instr->collective == COLLECTIVE_NONE && instr->kind == OP_CONTRACT;
    return is_gemm ? instr->merge : 0;
}

// Recomputed work is never merged with first work: it runs at another time.
static bool is_together(const struct instr *a, const struct instr *b)
{
    return a->phase == b->phase && a->recompute == b->recompute && merge_of(a) == merge_of(b);
}

// Forward shares the left operand and adds columns; the gradient of that operand sums over all of
// them; weight gradients share it again, on whichever side it stands.
static void gemm_join(struct gemm *sum, const struct gemm *next, enum phase phase)
{
    assert(sum->batch == next->batch && "they share an operand");
    if (phase == PHASE_BACKWARD) {
        sum->k += next->k;
    } else if (sum->m == next->m) {
        sum->n += next->n;
    } else {
        sum->m += next->m;
    }
}

int contraction_joined(const struct block_program *program, const struct instr *instr,
                       const struct instr *joined[CONTRACTION_JOINED_MAX], struct gemm *gemm)
{
    int count = 0;
    *gemm = instr->gemm;
    joined[count++] = instr;
    if (!merge_of(instr)) return count;
    // Of recomputed forward work the op is still a forward one.
    enum phase phase = program->block->ops[instr->op].phase;
    int end = program->phase_first[instr->phase + 1];
    for (int i = program->phase_first[instr->phase]; i < end; i++) {
        const struct instr *other = &program->instrs[i];
        if (other == instr || !is_together(instr, other)) continue;
        if (other < instr) return 0;
        gemm_join(gemm, &other->gemm, phase);
        assert(count < CONTRACTION_JOINED_MAX);
        joined[count++] = other;
    }
    return count;
}

static int merge_of_producer(const struct block_program *program, const struct instr *reader,
                             int buffer)
{
    for (const struct instr *instr = reader - 1; instr >= program->instrs; instr--) {
        for (int i = 0; i < instr->output_count; i++) {
            if (instr->outputs[i] == buffer) return merge_of(instr);
        }
    }
    return 0;
}

// One GEMM has already added up the input gradients of contractions that it joined.
bool contraction_has_summed(const struct block_program *program, const struct instr *instr)
{
    if (instr->kind != OP_ADD || instr->phase != PHASE_BACKWARD || instr->recompute) return false;
    int first = merge_of_producer(program, instr, instr->inputs[0]);
    for (int i = 1; i < instr->input_count && first; i++) {
        if (merge_of_producer(program, instr, instr->inputs[i]) != first) return false;
    }
    return first != 0;
}

static const struct tensor *parameter_of(const struct block_program *program,
                                         const struct instr *instr)
{
    const struct op *ops = program->block->ops;
    const struct op *forward = &ops[ops[instr->op].forward_op];
    for (int i = 0; i < forward->input_count; i++) {
        const struct tensor *tensor = &program->block->tensors[forward->inputs[i]];
        if (tensor->role == TENSOR_PARAMETER) return tensor;
    }
    return NULL;
}

static unsigned low_precision_gemms(const struct compute_context *context)
{
    return stack_low_precision_gemms(context->stack, context->precision);
}

// Blocks whose GEMMs with a parameter may be narrow.
static bool is_narrowed(const struct compute_context *context, const struct block *block)
{
    if (block->role == BLOCK_HEAD)
        return context->stack->narrow_head && compute_is_block_scaled_fp8(context);
    return block->role == BLOCK_LAYER;
}

// GEMMs of activations, the router's and those of a number an expert stay in 16 bits, as in
// Transformer Engine, and the head's where the stack does not say otherwise.
static enum precision gemm_precision(const struct compute_context *context,
                                     const struct block_program *program, const struct instr *instr,
                                     const struct tensor *parameter)
{
    if (precision_bytes(context->precision) >= 2) return context->precision;
    // Of recomputed forward work the op is still a forward one.
    enum phase phase = program->block->ops[instr->op].phase;
    bool is_linear = is_narrowed(context, program->block) && parameter && parameter->rank > 1 &&
                     tensor_find_dim(parameter, DIM_GATE) < 0;
    bool is_low_precision = is_linear && low_precision_gemms(context) >> phase & 1;
    return is_low_precision ? context->precision
                            : wide_precision(context->device, context->precision);
}

// The kernel that made it has quantised it.
static bool is_made_low_precision(const struct compute_context *context, const struct block *block,
                                  const struct tensor *operand)
{
    return operand->producer >= 0 &&
           compute_is_in_group(context, block, &block->ops[operand->producer]);
}

bool gemm_is_low_precision(const struct compute_context *context,
                           const struct block_program *program, const struct instr *instr)
{
    if (instr->collective != COLLECTIVE_NONE || instr->kind != OP_CONTRACT) return false;
    const struct tensor *parameter = parameter_of(program, instr);
    return precision_bytes(gemm_precision(context, program, instr, parameter)) < 2;
}

// Elements of the operands that this low-precision GEMM is the first to use, and how many they are.
static double fresh_elements(const struct compute_context *context,
                             const struct block_program *program, const struct instr *instr,
                             const struct gemm *gemm, int *operand_count)
{
    const struct op *op = &program->block->ops[instr->op];
    unsigned narrow = low_precision_gemms(context);
    double elements = 0;
    *operand_count = 0;
    for (int i = 0; i < 2; i++) {
        const struct tensor *operand = &program->block->tensors[op->inputs[i]];
        bool is_weight = operand->role == TENSOR_PARAMETER;
        bool is_gradient = operand->role == TENSOR_GRADIENT;
        bool is_fresh = is_weight
                            ? op->phase == PHASE_FORWARD && !context->stack->cached_weight_cast
                            : op->phase != PHASE_WEIGHT;
        // The weight gradient reads what the other two GEMMs have quantised, if they did.
        enum phase before = is_gradient ? PHASE_BACKWARD : PHASE_FORWARD;
        if (op->phase == PHASE_WEIGHT) is_fresh = !(narrow >> before & 1);
        // Our own engine casts what it reads, unless another product has, as the buffers say, or
        // the weight is kept.
        if (stack_is_executed(context->stack))
            is_fresh = !program->buffers[instr->inputs[i]].cast && instr->weight_cast != 1 + i;
        if (!is_fresh || is_made_low_precision(context, program->block, operand)) continue;
        double rows = (double)(i == 0 ? gemm->m : gemm->n);
        elements += (double)gemm->batch * rows * (double)gemm->k;
        *operand_count += 1;
    }
    return elements;
}

// A walk over each operand: narrow numbers are written beside the wide ones that are read.
static void add_cast(const struct compute_context *context, double elements, int operand_count,
                     struct compute_cost *cost)
{
    double kernels = context->stack->cast_kernels * operand_count;
    stream_beside(context, elements * context->stack->cast_bytes, kernels, cost);
}

static bool is_grouped(const struct tensor *parameter)
{
    return parameter && tensor_find_dim(parameter, DIM_EXPERT) >= 0;
}

// The GEMM that runs for an instruction.
struct gemm_use {
    struct gemm gemm;
    struct compute_context own;  // in its precision
    unsigned traits;
    enum phase phase;
};

// False: an earlier one does its work.
static bool find_gemm(const struct compute_context *context, const struct block_program *program,
                      const struct instr *instr, struct gemm_use *use)
{
    const struct instr *joined[CONTRACTION_JOINED_MAX];
    if (!contraction_joined(program, instr, joined, &use->gemm)) return false;
    const struct tensor *parameter = parameter_of(program, instr);
    use->own = *context;
    use->own.precision = gemm_precision(context, program, instr, parameter);
    const struct tensor *result =
        &program->block->tensors[program->block->ops[instr->op].outputs[0]];
    bool accumulates = context->stack->fp32_gradient_accumulation &&
                       stack_gradient_bytes(context->stack, context->precision) > 2 &&
                       result->role == TENSOR_PARAMETER_GRADIENT;
    // Our own begin a sum once a step, and those that are scattered in each micro-batch every time.
    unsigned sums = stack_is_executed(context->stack) ? GEMM_BEGINS : GEMM_ACCUMULATES;
    use->traits = (accumulates ? sums : 0) | (is_grouped(parameter) ? (unsigned)GEMM_GROUPED : 0);
    // Of recomputed forward work the op is still a forward one.
    use->phase = program->block->ops[instr->op].phase;
    return true;
}

bool contraction_shape(const struct compute_context *context, const struct block_program *program,
                       const struct instr *instr, struct kernel *shape)
{
    struct gemm_use use;
    if (!find_gemm(context, program, instr, &use)) return false;
    *shape = measured_gemm_shape(&use.own, &use.gemm, use.traits, use.phase);
    return true;
}

// Kernels are measured alone and in short, at a clock that may lie above the data sheet's: the peak
// limits what is said of long runs.
static double measured_s(const struct compute_context *context, const struct gemm *gemm,
                         const struct kernel *measured)
{
    double flop = 2 * (double)gemm->batch * (double)gemm->m * (double)gemm->n * (double)gemm->k;
    double least_s = flop / context->device->peak_flop_per_s[context->precision];
    return fmax(measured->s / context->stack->gemm_scale, least_s) +
           context->device->launch_latency_s;
}

// Calls that work on a part of a relay: one a sequence, whose rows stand behind one another.
// `gemm` becomes that of one.
static int64_t calls_of(const struct block_program *program, const struct instr *instr,
                        struct gemm *gemm)
{
    if (!instr->rows || instr->dim != DIM_SEQ || instr->batch == 1) return 1;
    const struct op *op = &program->block->ops[instr->op];
    bool is_summed = tensor_find_dim(&program->block->tensors[op->outputs[0]], DIM_BATCH) < 0;
    bool is_first = tensor_find_dim(&program->block->tensors[op->inputs[0]], DIM_BATCH) >= 0;
    int64_t *tokens = is_summed ? &gemm->k : is_first ? &gemm->m : &gemm->n;
    assert(*tokens % instr->batch == 0);
    *tokens /= instr->batch;
    return instr->batch;
}

struct compute_cost gemm_price(const struct compute_context *context,
                               const struct block_program *program, const struct instr *instr)
{
    struct gemm_use use;
    if (!find_gemm(context, program, instr, &use)) return (struct compute_cost){0};
    const struct gemm *gemm = &use.gemm;
    struct gemm one = use.gemm;
    double calls = (double)calls_of(program, instr, &one);
    bool is_split = use.traits & GEMM_GROUPED && !context->stack->grouped_gemm_fused;
    struct compute_cost cost = {.kernel_count = is_split ? (double)gemm->batch : calls};
    cost.s = calls * gemm_s(&use.own, &one, use.traits, &cost.bound);
    // All calls of a plan's instruction were measured together.
    cost.measured = measured_gemm(&use.own, gemm, use.traits, use.phase);
    if (cost.measured) cost.s = measured_s(&use.own, gemm, cost.measured);
    if (precision_bytes(use.own.precision) < 2) {
        int operand_count;
        double elements = fresh_elements(context, program, instr, gemm, &operand_count);
        assert(elements >= 0 && operand_count >= 0 && operand_count <= 2);
        add_cast(context, elements, operand_count, &cost);
    }
    return cost;
}

double gemm_adding_s(const struct compute_context *context, const struct block_program *program,
                     const struct instr *instr)
{
    struct gemm_use use;
    enum bound bound;
    if (instr->kind != OP_CONTRACT || instr->collective != COLLECTIVE_NONE) return 0;
    if (!find_gemm(context, program, instr, &use) || !(use.traits & GEMM_BEGINS)) return 0;
    // What was measured was adding.
    if (measured_gemm(&use.own, &use.gemm, use.traits, use.phase)) return 0;
    struct gemm one = use.gemm;
    double calls = (double)calls_of(program, instr, &one);
    unsigned adds = (use.traits & ~(unsigned)GEMM_BEGINS) | GEMM_ACCUMULATES;
    double more_s =
        gemm_s(&use.own, &one, adds, &bound) - gemm_s(&use.own, &one, use.traits, &bound);
    assert(more_s >= 0 && "who adds reads more");
    return calls * more_s;
}

double weight_cast_s(const struct compute_context *context, const struct block_program *program,
                     int *scale_count)
{
    bool is_low_precision = is_narrowed(context, program->block) && low_precision_gemms(context);
    *scale_count = is_low_precision ? 3 * program->linear_count : 0;
    if (!is_low_precision || !context->stack->cached_weight_cast) return 0;
    struct compute_cost cost = {0};
    add_cast(context, (double)program->linear_elements, program->linear_count, &cost);
    return cost.s;
}
