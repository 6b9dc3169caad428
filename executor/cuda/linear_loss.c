#include "executor/cuda/cuda.h"
#include "executor/linear_loss_call.h"

#include <assert.h>

// A product and the loss of its scores, a part of the columns at a time: what its kernels are given
// (executor/cuda/loss.cu), the same as executor/cpu/linear_loss.c computes.

struct scores {
    struct linear_loss_call of;
    struct matrix x, weight;
    const int64_t *labels;
    struct reals part;  // [rows][width]
};

// With room for the widest part where `makes` says so.
static const char *begin(const struct run *run, int input, bool makes, struct scores *s)
{
    struct linear_loss_call of;
    const char *fault = linear_loss_read(run->call, input, &of);
    *s = (struct scores){.of = of,
                         .x = {run_input(run, input), of.x_stride, 1, 0},
                         .weight = {run_input(run, input + 1), of.is_turned ? 1 : of.columns,
                                    of.is_turned ? of.depth : 1, 0},
                         .labels = run->call->inputs[input + 2].data};
    if (fault || !makes) return fault;
    assert(of.columns == 0 || (of.width > 0 && of.width <= of.columns));
    s->part.number = s->x.reals.number;
    int64_t bytes = of.rows * of.width * number_bytes(s->part.number);
    s->part.data = run_scratch(run, SCRATCH_SCORES, bytes);
    return s->part.data || bytes == 0 ? NULL : CUDA_NO_MEMORY;
}

// Columns of the weight are rows of what it is stored as, where that is turned.
static struct matrix columns_from(struct matrix weight, int64_t at)
{
    assert(at >= 0);
    weight.reals = reals_at(weight.reals, at * weight.column_stride);
    return weight;
}

static struct matrix turned(struct matrix m)
{
    return (struct matrix){m.reals, m.column_stride, m.row_stride, 0};
}

// The last part may be narrower: its rows lie one behind another all the same.
static struct matrix part_of(const struct scores *s, int64_t at)
{
    return (struct matrix){s->part, linear_loss_columns(&s->of, at), 1, 0};
}

// The scores of the columns from `at` on.
static const char *make_part(const struct run *run, const struct scores *s, int64_t at)
{
    return cuda_multiply(run->device, run->stream,
                         &(struct cuda_matmul){.rows = s->of.rows,
                                               .columns = linear_loss_columns(&s->of, at),
                                               .inner = s->of.depth,
                                               .batch = 1,
                                               .alpha = run->call->op->scalar,
                                               .a = s->x,
                                               .b = columns_from(s->weight, at),
                                               .c = part_of(s, at)});
}

static struct loss_args args_of(const struct scores *s, int64_t at)
{
    return (struct loss_args){.rows = s->of.rows,
                              .count = linear_loss_columns(&s->of, at),
                              .real = linear_loss_real(&s->of, at),
                              .first = s->of.first + at,
                              .labels = s->labels,
                              .logits = s->part};
}

// The log-sum-exp of all columns here, in the place of the loss, and the label's score in that of
// the log-sum-exp.
static const char *sum_parts(const struct run *run, const struct scores *s)
{
    const char *fault = NULL;
    for (int64_t at = 0; at < s->of.columns && !fault; at += s->of.width) {
        fault = make_part(run, s, at);
        struct loss_args args = args_of(s, at);
        args.value = run_output(run, 0);
        args.lse = run_output(run, 1);
        args.adds_value = at > 0;  // later parts join what is there
        if (!fault) kernel_loss_chunk(run->on, &args);
    }
    return fault;
}

// Between the exchanges: the joined log-sum-exp, the label's score, and the loss of both.
static void run_part(const struct run *run, const struct scores *s)
{
    struct loss_args args = {.part = run->call->part,
                             .rows = s->of.rows,
                             .first = s->of.first,
                             .real = s->of.real,
                             .labels = s->labels,
                             .value = run_output(run, 0),
                             .lse = run_output(run, 1),
                             .inner = reals_of(run->device, &run->call->inner)};
    assert(args.part >= 0 && args.part <= 6);
    if (args.part == 5) {
        kernel_label_score(run->on,
                           &(struct label_score_args){.rows = s->of.rows,
                                                      .depth = s->of.depth,
                                                      .x_stride = s->x.row_stride,
                                                      .row_stride = s->weight.row_stride,
                                                      .column_stride = s->weight.column_stride,
                                                      .first = s->of.first,
                                                      .real = s->of.real,
                                                      .factor = (float)run->call->op->scalar,
                                                      .labels = s->labels,
                                                      .x = s->x.reals,
                                                      .weight = s->weight.reals,
                                                      .scores = args.inner});
    } else if (args.part % 2 || args.part == 0) {
        kernel_loss_join(run->on, &args);
    } else {
        kernel_loss(run->on, &args);
    }
}

const char *cuda_linear_loss(const struct run *run)
{
    struct scores s;
    bool makes = run->call->part < 2;
    const char *fault = begin(run, 0, makes, &s);
    // Nothing can be said yet: parts 1 to 6 follow.
    bool waits = run->call->part == 0 && s.of.is_split;
    if (fault || waits || s.of.rows == 0) return fault;
    if (makes) fault = sum_parts(run, &s);
    if (!fault) run_part(run, &s);
    return fault;
}

// What rows hand back is a sum over all parts: in fp32, where it has 16 bits at the end.
struct sum {
    struct matrix of;
    bool is_apart;
};
static const char *begin_sum(const struct run *run, const struct scores *s, struct sum *sum)
{
    const struct kernel_array *d_x = &run->call->outputs[0];
    struct reals own = run_output(run, 0);
    *sum = (struct sum){.of = {own, array_stride(d_x, d_x->rank - 2), 1, 0},
                        .is_apart = own.number != NUMBER_FP32 && s->of.width < s->of.columns};
    if (!sum->is_apart) return NULL;
    int64_t bytes = s->of.rows * s->of.depth * (int64_t)sizeof(float);
    sum->of =
        (struct matrix){{run_scratch(run, SCRATCH_RESULT, bytes), NUMBER_FP32}, s->of.depth, 1, 0};
    return sum->of.reals.data ? NULL : CUDA_NO_MEMORY;
}

// From fp32 to the gradient's own numbers, added where the caller wants that.
static void end_sum(const struct run *run, const struct scores *s, const struct sum *sum)
{
    const struct kernel_array *d_x = &run->call->outputs[0];
    if (!sum->is_apart) return;
    kernel_terms(run->on, &(struct terms_args){
                              .rank = 2,
                              .term_count = 1,
                              .adds = call_adds(run->call, 0),
                              .sizes = {s->of.rows, s->of.depth},
                              .out = run_output(run, 0),
                              .out_strides = {array_stride(d_x, d_x->rank - 2), 1},
                              .term = {sum->of.reals},
                              .strides = {{s->of.depth, 1}},
                          });
}

// The gradient of rows adds up over parts, that of the weight is a part of it each.
static const char *add_products(const struct run *run, const struct scores *s, int64_t at,
                                const struct sum *sum)
{
    const struct kernel_call *call = run->call;
    bool adds = call_adds(call, 0) && !sum->is_apart;
    struct cuda_matmul product = {.rows = s->of.rows,
                                  .columns = s->of.depth,
                                  .inner = linear_loss_columns(&s->of, at),
                                  .batch = 1,
                                  .alpha = call->op->scalar,
                                  .beta = adds || at > 0,
                                  .a = part_of(s, at),
                                  .b = turned(columns_from(s->weight, at)),
                                  .c = sum->of};
    const char *fault = cuda_multiply(run->device, run->stream, &product);
    if (fault || call->output_count < 2) return fault;
    struct matrix d_weight = s->weight;
    d_weight.reals = run_output(run, 1);
    product.rows = s->of.depth, product.columns = product.inner, product.inner = s->of.rows;
    product.beta = call_adds(call, 1);
    product.a = turned(s->x);
    product.b = part_of(s, at);
    product.c = columns_from(d_weight, at);
    return cuda_multiply(run->device, run->stream, &product);
}

const char *cuda_linear_loss_backward(const struct run *run)
{
    struct scores s;
    struct sum sum;
    const struct kernel_call *call = run->call;
    const char *fault = begin(run, 1, true, &s);
    bool is_none = s.of.rows == 0 || s.of.columns == 0;
    for (int i = 0; i < call->output_count && is_none && !fault; i++)
        fault = cuda_begin_sum(run->device, run->stream, call, i);
    if (fault || is_none) return fault;
    fault = begin_sum(run, &s, &sum);
    for (int64_t at = 0; at < s.of.columns && !fault; at += s.of.width) {
        fault = make_part(run, &s, at);
        struct loss_args args = args_of(&s, at);
        args.lse = run_input(run, 4);
        args.d = run_input(run, 0);
        args.d_logits = s.part;
        if (fault) break;
        kernel_loss_backward(run->on, &args);
        fault = add_products(run, &s, at, &sum);
    }
    if (!fault) end_sum(run, &s, &sum);
    return fault;
}
