#include "cost_models/strided.h"
#include "cost_models/parameters.h"
#include "models/op_image.h"
#include "plan/attend_loops.h"
#include "plan/strided_sums.h"

#include <assert.h>
#include <math.h>

// Beside one reading of inputs and writing of outputs.
struct beside {
    double launches, bytes;
};

// Numbers of one sample, and whether all samples have the same.
static int64_t numbers_of(const struct tensor *tensor, bool *is_weight)
{
    int64_t numbers = 1;
    *is_weight = tensor_find_dim(tensor, DIM_BATCH) < 0;
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->extents[i].dim != DIM_BATCH) numbers *= tensor->extents[i].size;
    return numbers;
}

// What is added up for each number of a tensor, which is side `side` of the loops: where pieces of
// a sum are added up by another launch these are written and read.
static struct beside of_sum(const struct block *block, int tensor, const struct strided *loops,
                            int side, int64_t batch)
{
    bool is_weight;
    int64_t numbers = numbers_of(&block->tensors[tensor], &is_weight), turns = 1;
    for (int l = 0; l < loops->count; l++)
        if (loops->steps[side][l] == 0) turns *= loops->sizes[l];
    *(is_weight ? &turns : &numbers) *= batch;
    int64_t pieces = strided_pieces(numbers, turns);
    if (pieces <= 1) return (struct beside){1, 0};
    return (struct beside){2, 2.0 * sizeof(float) * (double)(pieces * numbers)};
}

// Gradients of both operands are launches of their own that read the result's.
static struct beside of_gradients(const struct block *block, const struct op *op, int64_t batch,
                                  double made_bytes)
{
    struct beside beside = {0, -made_bytes};
    for (int i = 0; i < op->output_count; i++) {
        struct beside sum = of_sum(block, op->outputs[i], op->work.strided, i, batch);
        beside.launches += sum.launches;
        beside.bytes += made_bytes + sum.bytes;
    }
    assert(beside.launches >= op->output_count && beside.bytes >= 0);
    return beside;
}

// A launch for each part; parts that are weights are added up over samples.
static struct beside of_parts(const struct block *block, const struct op *op, int64_t batch)
{
    bool is_forward = op->phase == PHASE_FORWARD, joins = op->work.type == IMPORTED_JOIN;
    if (joins == is_forward) return (struct beside){op->input_count, 0};
    struct beside beside = {0, 0};
    for (int i = 0; i < op->output_count; i++) {
        static const struct strided NO_LOOPS = {0};
        struct beside sum = of_sum(block, op->outputs[i], &NO_LOOPS, 0, batch);
        beside.launches += sum.launches;
        beside.bytes += sum.bytes;
    }
    return beside;
}

// Where a move leaves numbers out these are filled with zeros first, and what it moves is added.
static struct beside of_move(const struct block *block, const struct op *op, double made_bytes,
                             double whole_bytes)
{
    bool is_weight;
    int64_t whole = numbers_of(&block->tensors[op->outputs[0]], &is_weight);
    if (whole == strided_elements(op->work.strided)) return (struct beside){1, 0};
    return (struct beside){2, made_bytes + fmin(made_bytes, whole_bytes)};
}

// Scores in fp32, and weights, of so many heads: what their GEMMs and softmax take, so often.
static void add_heads(const struct compute_context *context, const struct op *op, int64_t heads,
                      double times, struct compute_cost *cost)
{
    const int64_t *sizes = op->work.strided->sizes;
    int64_t queries = sizes[2], keys = sizes[3], depth = sizes[4], width = sizes[5];
    const struct gemm forward[] = {{heads, queries, keys, depth}, {heads, queries, width, keys}};
    const struct gemm backward[] = {{heads, queries, keys, depth},
                                    {heads, keys, width, queries},
                                    {heads, queries, keys, width},
                                    {heads, queries, depth, keys},
                                    {heads, keys, depth, queries}};
    bool is_forward = op->phase == PHASE_FORWARD;
    int count = is_forward ? 2 : 5, softmaxes = is_forward ? 1 : 2;
    double scores = (double)(heads * queries * keys);
    double narrow = parameter_weight_bytes(context->precision);
    for (int i = 0; i < count; i++)
        cost->s +=
            times * gemm_s(context, is_forward ? &forward[i] : &backward[i], 0, &cost->bound);
    // A GEMM that makes scores writes fp32; a softmax reads that and writes weights, and backward
    // reads these as well.
    double bytes = softmaxes * (2 * sizeof(float) * scores) + (is_forward ? 0 : narrow * scores);
    cost->s += times * (stream_s(context, bytes) + softmaxes * context->device->launch_latency_s);
    cost->kernel_count += times * (count + softmaxes);
}

static struct attend_rounds rounds_of(const struct block *block, const struct op *op, int64_t batch)
{
    bool is_backward = op->phase != PHASE_FORWARD, is_weight;
    int64_t sample[LOOPS_INPUTS];
    for (int i = 0; i < LOOPS_INPUTS; i++) {
        int result = is_backward ? op->inputs[0] : op->outputs[0];
        int tensor = i == LOOPS_INPUTS - 1 ? result : op->inputs[i + is_backward];
        sample[i] = numbers_of(&block->tensors[tensor], &is_weight);
    }
    return attend_rounds(op->work.strided, batch, sample, ATTEND_SCORES);
}

static bool is_attention(const struct op *op)
{
    return op->work.type == IMPORTED_ATTENTION || op->work.type == IMPORTED_CAUSAL_ATTENTION;
}

// Gradients begin with 0 and are added to.
static struct compute_cost attend_price(const struct compute_context *context,
                                        const struct block_program *program,
                                        const struct instr *instr)
{
    struct compute_context own = *context;
    own.precision = wide_precision(context->device, context->precision);
    const struct op *op = &program->block->ops[instr->op];
    struct attend_rounds rounds = rounds_of(program->block, op, instr->batch);
    struct compute_cost cost = {.bound = BOUND_COMPUTE};
    double others = 1;
    if (rounds.heads < 1) return cost;
    for (int l = 0; l < rounds.other_count; l++)
        others *= (double)rounds.others[l].count;
    int64_t full = rounds.batch.count / rounds.heads, last = rounds.batch.count % rounds.heads;
    add_heads(&own, op, rounds.heads, others * (double)full, &cost);
    if (last > 0) add_heads(&own, op, last, others, &cost);
    for (int i = 0; i < instr->output_count && op->phase != PHASE_FORWARD; i++)
        cost.s += stream_s(&own, 2 * (double)program->buffers[instr->outputs[i]].bytes);
    return cost;
}

double strided_bytes(const struct block_program *program, const struct instr *instr,
                     double element_bytes)
{
    const struct op *op = &program->block->ops[instr->op];
    if (!op->work.strided || !is_attention(op)) return 0;
    struct attend_rounds rounds = rounds_of(program->block, op, instr->batch);
    double scores =
        (double)(rounds.heads * op->work.strided->sizes[2] * op->work.strided->sizes[3]);
    return (op->phase == PHASE_FORWARD ? 1 : 2) * scores * (sizeof(float) + element_bytes);
}

static struct beside beside_of(const struct block_program *program, const struct instr *instr)
{
    const struct op *op = &program->block->ops[instr->op];
    bool is_forward = op->phase == PHASE_FORWARD;
    double first_bytes = (double)program->buffers[instr->inputs[0]].bytes;
    switch (op->work.type) {
    case IMPORTED_SPLIT:
    case IMPORTED_JOIN:
        return of_parts(program->block, op, instr->batch);
    case IMPORTED_ROW_SUM:
    case IMPORTED_ROW_MEAN:
    case IMPORTED_PAD:
        return of_sum(program->block, op->outputs[0], op->work.strided, is_forward ? 1 : 0,
                      instr->batch);
    case IMPORTED_ADD:
    case IMPORTED_SUBTRACT:
    case IMPORTED_MULTIPLY:
    case IMPORTED_DIVIDE:
        if (is_forward) break;
        return of_gradients(program->block, op, instr->batch, first_bytes);
    case IMPORTED_MOVE:
        if (is_forward) break;
        return of_move(program->block, op, first_bytes,
                       (double)program->buffers[instr->outputs[0]].bytes);
    default:
        break;
    }
    return (struct beside){1, 0};
}

struct compute_cost strided_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr,
                                  struct compute_cost stream)
{
    if (is_attention(&program->block->ops[instr->op])) return attend_price(context, program, instr);
    struct beside beside = beside_of(program, instr);
    double launch_s = context->device->launch_latency_s;
    stream.s += stream_s(context, beside.bytes);
    stream.s += launch_s * (beside.launches - stream.kernel_count);
    stream.kernel_count = beside.launches;
    return stream;
}
