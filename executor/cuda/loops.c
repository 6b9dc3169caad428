#include "executor/cuda/image.h"
#include "plan/attend_loops.h"

#include <assert.h>

// Operators of imported graphs over rows and matrices of a sample: softmax, products of what
// operators made, and attention. The same as executor/cpu/loops.c computes.

static bool is_backward(const struct kernel_call *call)
{
    return call->op->phase != PHASE_FORWARD;
}

// Forward x -> y; backward d_y, y -> d_x.
const char *cuda_row_softmax(const struct run *run)
{
    const struct kernel_call *call = run->call;
    int64_t width = call->op->work.strided->steps[0][0];
    int64_t elements = array_elements(&call->inputs[0]);
    if (call->input_count != 1 + is_backward(call) || elements % width != 0)
        return "a softmax of other rows";
    struct softmax_args args = {.rows = elements / width,
                                .keys = width,
                                .query_stride = 1,
                                .queries = 1,
                                .head_stride = 1,
                                .heads = 1,
                                .x = run_input(run, 0),
                                .d = run_input(run, 0),
                                .adds_x = call_adds(call, 0)};
    *(is_backward(call) ? &args.d_x : &args.y) = run_output(run, 0);
    if (is_backward(call)) args.y = run_input(run, 1);
    if (elements > 0)
        (is_backward(call) ? kernel_softmax_backward : kernel_softmax)(run->on, &args);
    return NULL;
}

// a b -> y; backward d_y, b -> d_a, and a, d_y -> d_b: gradients stand behind all other tensors of
// the block (models/autodiff.c), so that the order of the two tells which is made.
const char *cuda_row_products(const struct run *run)
{
    const struct kernel_call *call = run->call;
    const struct op *op = call->op;
    const struct op_work *work = &op->work;
    bool makes_left = is_backward(call) && op->inputs[0] > op->inputs[1];
    bool makes_right = is_backward(call) && !makes_left;
    int64_t rows = work->rows, columns = work->columns, depth = work->depth;
    int64_t left = rows * depth, right = depth * columns, made = rows * columns;
    int64_t sizes[] = {makes_left ? made : left, makes_right ? made : right,
                       makes_left    ? left
                       : makes_right ? right
                                     : made};
    int64_t count = array_elements(&call->outputs[0]) / sizes[2];
    if (array_elements(&call->inputs[0]) != count * sizes[0] ||
        array_elements(&call->inputs[1]) != count * sizes[1])
        return "the factors of a product do not fit";
    struct matrix a = {run_input(run, 0), depth, 1, sizes[0]};
    struct matrix b = {run_input(run, 1), columns, 1, sizes[1]};
    struct cuda_matmul product = {.rows = makes_right ? depth : rows,
                                  .columns = makes_left ? depth : columns,
                                  .inner = makes_left    ? columns
                                           : makes_right ? rows
                                                         : depth,
                                  .batch = count,
                                  .alpha = 1,
                                  .beta = call_adds(call, 0),
                                  .a = a,
                                  .b = b};
    if (makes_left) product.a.row_stride = columns;
    if (makes_left) product.b.row_stride = 1, product.b.column_stride = columns;
    if (makes_right) product.a.row_stride = 1, product.a.column_stride = depth;
    product.c = (struct matrix){run_output(run, 0), product.columns, 1, sizes[2]};
    return count > 0 ? cuda_multiply(run->device, run->stream, &product) : NULL;
}

// Scores at a time; an emulation has fewer, to need several rounds.
#if defined(CUDA_EMULATED)
enum { SCORES = 1 << 12 };
#else
enum { SCORES = ATTEND_SCORES };
#endif

enum side { QUERY, KEY, VALUE, RESULT, SIDES };

// Attention, and what some heads of it have at hand: operands and their gradients, and scores.
struct attended {
    const struct run *run;
    const struct strided *loops;
    struct attend_rounds rounds;
    bool is_backward, is_causal;
    int64_t queries, keys, heads;
    struct reals of[SIDES], d[SIDES];
    struct reals scores, weights, d_scores, d_weights;
};

// Rows of queries or keys by the numbers of each, from this place on.
static struct matrix rows_of(const struct attended *a, const struct reals *of, enum side side)
{
    int loop = side == KEY || side == VALUE ? 3 : 2;
    return (struct matrix){of[side], a->loops->steps[side][loop], 1, a->rounds.batch.steps[side]};
}
static struct matrix scores_of(const struct attended *a, struct reals scores)
{
    return (struct matrix){scores, a->keys, 1, a->queries * a->keys};
}
static struct matrix turned(struct matrix m)
{
    return (struct matrix){m.reals, m.column_stride, m.row_stride, m.batch_stride};
}

// c (+)= factor a b; inner is summed over.
static const char *multiply(const struct attended *a, struct matrix left, struct matrix right,
                            struct matrix made, const int64_t sizes[3], double factor, double beta)
{
    struct cuda_matmul product = {.rows = sizes[0],
                                  .columns = sizes[1],
                                  .inner = sizes[2],
                                  .batch = a->heads,
                                  .alpha = factor,
                                  .beta = beta,
                                  .a = left,
                                  .b = right,
                                  .c = made};
    return cuda_multiply(a->run->device, a->run->stream, &product);
}

// Weights of all keys for each query of these heads.
static const char *score(const struct attended *a)
{
    const int64_t sizes[] = {a->queries, a->keys, a->loops->sizes[4]};
    const char *fault = multiply(a, rows_of(a, a->of, QUERY), turned(rows_of(a, a->of, KEY)),
                                 scores_of(a, a->scores), sizes, a->run->call->op->work.scalar, 0);
    struct softmax_args args = {.sight = {.causal = a->is_causal},
                                .rows = a->heads * a->queries,
                                .keys = a->keys,
                                .query_stride = 1,
                                .queries = a->queries,
                                .head_stride = 1,
                                .heads = 1,
                                .x = a->scores,
                                .y = a->weights};
    if (!fault) kernel_softmax(a->run->on, &args);
    return fault;
}

static const char *heads_forward(const struct attended *a)
{
    const int64_t sizes[] = {a->queries, a->loops->sizes[5], a->keys};
    const char *fault = score(a);
    return fault ? fault
                 : multiply(a, scores_of(a, a->weights), rows_of(a, a->of, VALUE),
                            rows_of(a, a->of, RESULT), sizes, 1, call_adds(a->run->call, 0));
}

// Scores are made again. Every gradient is added to what is there, which began with 0.
static const char *heads_backward(const struct attended *a)
{
    int64_t depth = a->loops->sizes[4], width = a->loops->sizes[5];
    double scale = a->run->call->op->work.scalar;
    struct matrix weights = scores_of(a, a->weights), d_scores = scores_of(a, a->d_scores);
    const char *fault = score(a);
    if (!fault)
        fault = multiply(a, turned(weights), rows_of(a, a->d, RESULT), rows_of(a, a->d, VALUE),
                         (const int64_t[]){a->keys, width, a->queries}, 1, 1);
    if (!fault)
        fault = multiply(a, rows_of(a, a->d, RESULT), turned(rows_of(a, a->of, VALUE)),
                         scores_of(a, a->d_weights), (const int64_t[]){a->queries, a->keys, width},
                         1, 0);
    if (fault) return fault;
    struct softmax_args args = {.rows = a->heads * a->queries,
                                .keys = a->keys,
                                .y = a->weights,
                                .d = a->d_weights,
                                .d_x = a->d_scores};
    kernel_softmax_backward(a->run->on, &args);
    fault = multiply(a, d_scores, rows_of(a, a->of, KEY), rows_of(a, a->d, QUERY),
                     (const int64_t[]){a->queries, depth, a->keys}, scale, 1);
    return fault ? fault
                 : multiply(a, turned(d_scores), rows_of(a, a->of, QUERY), rows_of(a, a->d, KEY),
                            (const int64_t[]){a->keys, depth, a->queries}, scale, 1);
}

static bool make_room(struct attended *a)
{
    const struct run *run = a->run;
    int number = run_input(run, 0).number;
    int64_t scores = a->rounds.heads * a->queries * a->keys, narrow = scores * number_bytes(number);
    a->scores = (struct reals){run_scratch(run, SCRATCH_SCORES, scores * 4), NUMBER_FP32};
    a->weights = (struct reals){run_scratch(run, SCRATCH_WEIGHTS, narrow), number};
    if (!a->scores.data || !a->weights.data || !a->is_backward)
        return a->scores.data && a->weights.data;
    a->d_weights = (struct reals){run_scratch(run, SCRATCH_D_WEIGHTS, scores * 4), NUMBER_FP32};
    a->d_scores = (struct reals){run_scratch(run, SCRATCH_D_SCORES, narrow), number};
    return a->d_weights.data && a->d_scores.data;
}

// The heads of one round: where it stands in the loops beside the batch, and in the batch.
static const char *run_round(const struct attended *whole, int64_t round)
{
    struct attended a = *whole;
    const struct attend_rounds *r = &a.rounds;
    int64_t parts = (r->batch.count + r->heads - 1) / r->heads, left = round / parts;
    int64_t first = round % parts * r->heads;
    a.heads = first + r->heads > r->batch.count ? r->batch.count - first : r->heads;
    for (int i = 0; i < SIDES; i++) {
        int64_t at = first * r->batch.steps[i], rest = left;
        for (int l = 0; l < r->other_count; l++) {
            at += rest % r->others[l].count * r->others[l].steps[i];
            rest /= r->others[l].count;
        }
        if (a.of[i].data) a.of[i] = reals_at(a.of[i], at);
        if (a.d[i].data) a.d[i] = reals_at(a.d[i], at);
    }
    return a.is_backward ? heads_backward(&a) : heads_forward(&a);
}

// Forward q, k, v -> y, and sums that other kernels keep, which are 0 here; backward d_y, q, k,
// v(, y and these) -> d_q, d_k, d_v.
const char *cuda_row_attention(const struct run *run)
{
    const struct kernel_call *call = run->call;
    const struct strided *s = call->op->work.strided;
    struct attended a = {.run = run,
                         .loops = s,
                         .is_backward = is_backward(call),
                         .is_causal = call->op->work.type == IMPORTED_CAUSAL_ATTENTION,
                         .queries = s->sizes[2],
                         .keys = s->sizes[3]};
    if (call->input_count < 3 + a.is_backward || call->output_count < 2 + a.is_backward)
        return "attention of other tensors than query, key and value";
    int64_t samples = array_size(&call->outputs[0], DIM_BATCH), sample[SIDES];
    for (int i = 0; i < SIDES; i++) {
        int at = i == RESULT && a.is_backward ? 0 : i + a.is_backward;
        const struct kernel_array *side =
            i == RESULT && !a.is_backward ? &call->outputs[0] : &call->inputs[at];
        sample[i] = samples > 0 ? array_elements(side) / samples : 0;
        struct reals reals = reals_of(run->device, side);
        if (i == RESULT && a.is_backward)
            a.d[i] = reals;
        else
            a.of[i] = reals;
        if (i < RESULT && a.is_backward) a.d[i] = run_output(run, i);
    }
    const char *fault = NULL;
    for (int i = a.is_backward ? 0 : 1; i < call->output_count && !fault; i++)
        fault = cuda_begin_sum(run->device, run->stream, call, i);
    if (fault || samples < 1) return fault;
    a.rounds = attend_rounds(s, samples, sample, SCORES);
    if (!make_room(&a)) return CUDA_NO_MEMORY;
    for (int64_t round = 0; round < a.rounds.rounds && !fault; round++)
        fault = run_round(&a, round);
    return fault;
}
