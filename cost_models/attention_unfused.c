#include "cost_models/attention_unfused.h"
#include "cost_models/parameters.h"

#include <assert.h>
#include <math.h>

// executor/cuda/attention.c: as many scores as are in memory at a time, but for one head of them.
static const double SCORES_MOST = 1 << 26;

static bool is_backward(const struct instr *instr)
{
    return instr->kind == OP_ATTENTION_BACKWARD;
}

// A sequence of whole chunks is as many sequences, and one within a chunk has none.
static bool cuts_chunk(const struct instr *instr)
{
    if (!instr->chunked || instr->window <= 0 || instr->kv_seq <= instr->window) return false;
    return instr->seq != instr->kv_seq || instr->seq % instr->window != 0;
}

// The lines of plan/unfused.inc as conditions on one instruction.
static bool breaks(enum unfused rule, enum precision precision, const struct block_program *program,
                   const struct instr *instr)
{
    const struct op *op = &program->block->ops[instr->op];
    int64_t widest = instr->head_dim > instr->value_dim ? instr->head_dim : instr->value_dim;
    switch (rule) {
    case UNFUSED_FP32:
        return precision == PRECISION_FP32;
    case UNFUSED_DROPOUT:
        return op->dropout_ratio > 0;
    case UNFUSED_PREFIX:
        return op->prefix > 0;
    case UNFUSED_WIDE_BACKWARD:
        return is_backward(instr) && widest > FUSED_BACKWARD_WIDTH;
    case UNFUSED_WIDTH:
        return instr->head_dim % FUSED_WIDTH_UNIT || instr->value_dim % FUSED_WIDTH_UNIT;
    case UNFUSED_UNEVEN_HEADS:
        return instr->kv_heads > 1 && instr->heads % instr->kv_heads != 0;
    case UNFUSED_RING_WINDOW:
        return op->window > 0 && streamed_input(program, instr) != NULL;
    case UNFUSED_CUT_CHUNK:
        return cuts_chunk(instr);
    case UNFUSED_ODD_CHOICE:
        return op->top_k > 0 && instr->seq * instr->heads % FUSED_CHOICE_UNIT;
    case UNFUSED_COUNT:
        break;
    }
    return false;
}

enum unfused attention_unfused(const struct stack *stack, enum precision precision,
                               const struct block_program *program, const struct instr *instr)
{
    for (int rule = 0; rule < UNFUSED_COUNT && stack->unfused_attention; rule++) {
        if (!(stack->unfused_attention >> rule & 1)) continue;
        if (breaks((enum unfused)rule, precision, program, instr)) return (enum unfused)rule;
    }
    return UNFUSED_COUNT;
}

// Keys of one call: all, or a block of a ring.
static double keys_of(const struct block_program *program, const struct instr *instr)
{
    return (double)(streamed_input(program, instr) ? instr->seq : instr->kv_seq);
}

// Heads that share keys, or all where each has its own.
static double heads_alike(const struct instr *instr)
{
    assert(instr->heads > 0 && instr->kv_heads > 0);
    bool shares = instr->heads > instr->kv_heads;
    return (double)instr->heads / (shares ? (double)instr->kv_heads : 1);
}

// As many of them as have room for their scores: what is worked on at a time.
static double heads_at_once(const struct block_program *program, const struct instr *instr)
{
    double scores = (double)instr->seq * keys_of(program, instr);
    return fmax(1, fmin(heads_alike(instr), floor(SCORES_MOST / scores)));
}

// In all sequences, and blocks of a ring.
static double calls_of(const struct block_program *program, const struct instr *instr)
{
    double alike = heads_alike(instr), blocks = (double)instr->kv_seq / keys_of(program, instr);
    return (double)(instr->batch * instr->heads) / alike * blocks *
           ceil(alike / heads_at_once(program, instr));
}

// All scores of a rectangle, whatever is seen of them: forward two products, backward five. Scores
// are of fp32, which a product in 16 bits writes 2 bytes more of; the kernel between reads them and
// writes the weights; backward has gradients of both beside.
struct compute_cost unfused_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr)
{
    struct compute_context own = *context;
    own.precision = wide_precision(context->device, context->precision);
    double element = precision_bytes(own.precision), kernel = context->device->launch_latency_s;
    int64_t batch = instr->batch * instr->heads, q = instr->seq, k = instr->kv_seq;
    int64_t width = instr->head_dim, value = instr->value_dim;
    const struct gemm products[] = {{batch, q, value, k}, {batch, q, k, width},
                                    {batch, q, k, value}, {batch, q, width, k},
                                    {batch, k, width, q}, {batch, k, value, q}};
    int first = is_backward(instr) ? 1 : 0, end = is_backward(instr) ? 6 : 2;
    struct compute_cost cost = {.bound = BOUND_MEMORY};
    for (int i = first; i < end; i++) {
        enum bound bound;
        cost.s += gemm_s(&own, &products[i], 0, &bound) - kernel;
    }
    double pairs = (double)batch * (double)q * (double)k, sides = is_backward(instr) ? 2 : 1;
    cost.s += stream_s(context, pairs * sides * (4 - element + 4 + element));
    // Of gradients of shared keys a head's product is by itself; both begin at zero and end narrow.
    double calls = calls_of(program, instr), blocks = (double)k / keys_of(program, instr);
    double key_products = instr->heads > instr->kv_heads ? (double)batch * blocks : calls;
    cost.kernel_count = is_backward(instr) ? 4 * calls + 2 * key_products + 2 : 3 * calls;
    assert(cost.kernel_count >= 3 && isfinite(cost.s) && cost.s >= 0);
    cost.s += kernel * cost.kernel_count;
    return cost;
}

// Backward has the gradients of scores beside the scores, and adds up those of shared keys in fp32.
static double scratch_bytes(const struct block_program *program, const struct instr *instr,
                            double element)
{
    double keys = keys_of(program, instr);
    double scores = heads_at_once(program, instr) * (double)instr->seq * keys * (4 + element);
    double sums = (double)(instr->batch * instr->kv_heads * (instr->head_dim + instr->value_dim)) *
                  keys * sizeof(float);
    return is_backward(instr) ? 2 * scores + sums : scores;
}

double score_bytes(const struct stack *stack, enum precision precision,
                   const struct block_program *block)
{
    double bytes = stack->score_buffer ? (double)block->score_bytes : 0;
    double element = parameter_weight_bytes(precision);
    for (int i = 0; i < block->instr_count && stack->unfused_attention; i++) {
        const struct instr *instr = &block->instrs[i];
        bool attends = instr->kind == OP_ATTENTION || is_backward(instr);
        if (!attends || instr->collective != COLLECTIVE_NONE) continue;
        if (attention_unfused(stack, precision, block, instr) != UNFUSED_COUNT)
            bytes = fmax(bytes, scratch_bytes(block, instr, element));
    }
    return bytes;
}
