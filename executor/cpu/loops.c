#include "executor/cpu/image.h"
#include "executor/cpu/sums.h"

#include <assert.h>

// Operators of imported graphs over rows and matrices of a sample: softmax, sums and means over
// places, pads, products of what operators made, and attention.

static bool is_backward(const struct kernel_call *call)
{
    return call->op->phase != PHASE_FORWARD;
}

// Forward x -> y; backward d_y, y -> d_x.
const char *cpu_row_softmax(const struct kernel_call *call)
{
    int64_t width = call->op->work.strided->steps[0][0];
    int64_t elements = array_elements(&call->inputs[0]);
    const REAL *x = call->inputs[0].data;
    REAL *made = call->outputs[0].data;
    if (call->input_count != 1 + is_backward(call) || elements % width != 0)
        return "a softmax of other rows";
    if (!made || !x) return NULL;
    if (!is_backward(call)) {
        for (int64_t at = 0; at < elements; at += width)
            cpu_softmax_row(width, x + at, made + at);
        return NULL;
    }
    const REAL *y = call->inputs[1].data;
    call_begin_sum(call, 0);
    for (int64_t at = 0; at < elements; at += width) {
        REAL sum = SUM(i, at, at + width, x[i] * y[i]);
        VECTOR for (int64_t i = at; i < at + width; i++) made[i] += y[i] * (x[i] - sum);
    }
    return NULL;
}

// Between the numbers of what is read, in order of the loops, and where they go in the result.
const char *cpu_row_place(const struct kernel_call *call)
{
    const struct op_work *work = &call->op->work;
    const struct strided *s = work->strided;
    const struct kernel_array *large = is_backward(call) ? &call->outputs[0] : &call->inputs[0];
    const struct kernel_array *placed = is_backward(call) ? &call->inputs[0] : &call->outputs[0];
    int64_t samples = array_size(large, DIM_BATCH);
    REAL *x = large->data, *y = placed->data;
    if (call->input_count != 1) return "sums of other tensors than one";
    if (samples < 1 || !x || !y) return NULL;
    int64_t loops = strided_elements(s), made = array_elements(placed) / samples;
    int64_t read = array_elements(large) / samples;
    if (!strided_fits(s, 0, read) || !strided_fits(s, 1, made))
        return "loops over parts of an image";
    REAL factor = work->type == IMPORTED_ROW_MEAN ? (REAL)made / (REAL)read : 1;
    call_begin_sum(call, 0);
    for (int64_t i = 0; i < samples * loops; i++) {
        int64_t sample = i / loops, left = i % loops, from = s->first[0], to = s->first[1];
        for (int l = s->count - 1; l >= 0; l--) {
            from += left % s->sizes[l] * s->steps[0][l];
            to += left % s->sizes[l] * s->steps[1][l];
            left /= s->sizes[l];
        }
        REAL *large_at = x + sample * read + from, *at = y + sample * made + to;
        if (is_backward(call)) *large_at += factor * *at;
        if (!is_backward(call)) *at += factor * *large_at;
    }
    return NULL;
}

// a b -> y; backward d_y, b -> d_a, and a, d_y -> d_b: gradients stand behind all other tensors of
// the block (models/autodiff.c), so that the order of the two tells which is made.
const char *cpu_row_products(const struct kernel_call *call)
{
    const struct op *op = call->op;
    const struct op_work *work = &op->work;
    bool makes_left = is_backward(call) && op->inputs[0] > op->inputs[1];
    bool makes_right = is_backward(call) && !makes_left;
    int64_t rows = work->rows, columns = work->columns, depth = work->depth;
    int64_t sizes[] = {rows * (makes_left ? columns : depth),
                       makes_right ? rows * columns : depth * columns,
                       makes_left    ? rows * depth
                       : makes_right ? depth * columns
                                     : rows * columns};
    int64_t count = array_elements(&call->outputs[0]) / sizes[2];
    if (array_elements(&call->inputs[0]) != count * sizes[0] ||
        array_elements(&call->inputs[1]) != count * sizes[1])
        return "the factors of a product do not fit";
    if (!call->outputs[0].data) return NULL;
    struct cpu_matmul product = {.rows = makes_right ? depth : rows,
                                 .columns = makes_left ? depth : columns,
                                 .inner = makes_left    ? columns
                                          : makes_right ? rows
                                                        : depth,
                                 .is_a_turned = makes_right,
                                 .is_b_turned = makes_left,
                                 .alpha = 1,
                                 .beta = call_adds(call, 0),
                                 .a_stride = makes_left ? columns : depth,
                                 .b_stride = columns,
                                 .c_stride = makes_left ? depth : columns};
    for (int64_t i = 0; i < count; i++) {
        product.a = (const REAL *)call->inputs[0].data + i * sizes[0];
        product.b = (const REAL *)call->inputs[1].data + i * sizes[1];
        product.c = (REAL *)call->outputs[0].data + i * sizes[2];
        cpu_multiply(&product);
    }
    return NULL;
}

// Query, key, value and result, or their gradients, of one sample and head.
struct attended {
    const struct kernel_call *call;
    const struct strided *loops;
    int64_t queries, keys, depth, width;
    REAL *q, *k, *v, *y;
    REAL *d_q, *d_k, *d_v, *d_y;
    REAL *scores, *d_scores;
};

static REAL *head_of(const struct attended *a, const struct kernel_array *array, int side,
                     int64_t sample, int64_t head)
{
    const struct strided *s = a->loops;
    int64_t samples = array_size(array, DIM_BATCH);
    return (REAL *)array->data + sample * (array_elements(array) / samples) +
           head / s->sizes[1] * s->steps[side][0] + head % s->sizes[1] * s->steps[side][1];
}

static int64_t row_of(const struct attended *a, int side)
{
    assert(side >= 0 && side < 4);
    return a->loops->steps[side][side == 1 || side == 2 ? 3 : 2];
}

// Probabilities of all keys for each query.
static void score(const struct attended *a)
{
    bool is_causal = a->call->op->work.type == IMPORTED_CAUSAL_ATTENTION;
    cpu_multiply(&(struct cpu_matmul){.rows = a->queries,
                                      .columns = a->keys,
                                      .inner = a->depth,
                                      .is_b_turned = true,
                                      .alpha = a->call->op->work.scalar,
                                      .a = a->q,
                                      .b = a->k,
                                      .c = a->scores,
                                      .a_stride = row_of(a, 0),
                                      .b_stride = row_of(a, 1),
                                      .c_stride = a->keys});
    for (int64_t i = 0; i < a->queries; i++) {
        REAL *row = a->scores + i * a->keys;
        int64_t seen = is_causal && i + 1 < a->keys ? i + 1 : a->keys;
        cpu_softmax_row(seen, row, row);
        memset(row + seen, 0, (size_t)(a->keys - seen) * sizeof(REAL));
    }
}

// y (+)= scores v and the like: rows x inner by inner x columns. Sides are q, k, v and y, 0 to 3.
static void share_out(const struct attended *a, bool is_turned, const REAL *scores, double factor,
                      double beta, const REAL *of, int of_side, REAL *to, int to_side)
{
    assert(of_side >= 0 && of_side < 4 && to_side >= 0 && to_side < 4);
    cpu_multiply(&(struct cpu_matmul){.rows = is_turned ? a->keys : a->queries,
                                      .columns = to_side < 2 ? a->depth : a->width,
                                      .inner = is_turned ? a->queries : a->keys,
                                      .is_a_turned = is_turned,
                                      .alpha = factor,
                                      .beta = beta,
                                      .a = scores,
                                      .b = of,
                                      .c = to,
                                      .a_stride = a->keys,
                                      .b_stride = row_of(a, of_side),
                                      .c_stride = row_of(a, to_side)});
}

static void attend_backward(const struct attended *a)
{
    double scale = a->call->op->work.scalar;
    score(a);
    share_out(a, true, a->scores, 1, 1, a->d_y, 3, a->d_v, 2);
    cpu_multiply(&(struct cpu_matmul){.rows = a->queries,
                                      .columns = a->keys,
                                      .inner = a->width,
                                      .is_b_turned = true,
                                      .alpha = 1,
                                      .a = a->d_y,
                                      .b = a->v,
                                      .c = a->d_scores,
                                      .a_stride = row_of(a, 3),
                                      .b_stride = row_of(a, 2),
                                      .c_stride = a->keys});
    for (int64_t i = 0; i < a->queries; i++) {
        REAL *p = a->scores + i * a->keys, *d = a->d_scores + i * a->keys;
        REAL sum = SUM(j, 0, a->keys, p[j] * d[j]);
        VECTOR for (int64_t j = 0; j < a->keys; j++) d[j] = p[j] * (d[j] - sum);
    }
    share_out(a, false, a->d_scores, scale, 1, a->k, 1, a->d_q, 0);
    share_out(a, true, a->d_scores, scale, 1, a->q, 0, a->d_k, 1);
}

static void set_sides(struct attended *a, int64_t sample, int64_t head)
{
    assert(sample >= 0 && head >= 0 && head < a->loops->sizes[0] * a->loops->sizes[1]);
    const struct kernel_call *call = a->call;
    const struct kernel_array *in = call->inputs + is_backward(call), *out = call->outputs;
    a->q = head_of(a, &in[0], 0, sample, head);
    a->k = head_of(a, &in[1], 1, sample, head);
    a->v = head_of(a, &in[2], 2, sample, head);
    if (!is_backward(call)) {
        a->y = head_of(a, &out[0], 3, sample, head);
        return;
    }
    a->d_y = head_of(a, &call->inputs[0], 3, sample, head);
    a->d_q = head_of(a, &out[0], 0, sample, head);
    a->d_k = head_of(a, &out[1], 1, sample, head);
    a->d_v = head_of(a, &out[2], 2, sample, head);
}

// Forward q, k, v -> y, and what other kernels keep of sums, which is 0 here; backward d_y, q, k,
// v(, y and these) -> d_q, d_k, d_v. Probabilities are made again.
const char *cpu_row_attention(struct cpu_device *device, const struct kernel_call *call)
{
    const struct strided *s = call->op->work.strided;
    struct attended a = {.call = call,
                         .loops = s,
                         .queries = s->sizes[2],
                         .keys = s->sizes[3],
                         .depth = s->sizes[4],
                         .width = s->sizes[5]};
    int64_t samples = array_size(&call->outputs[0], DIM_BATCH), heads = s->sizes[0] * s->sizes[1];
    int64_t bytes = a.queries * a.keys * (int64_t)sizeof(REAL) + 1;
    if (call->input_count < 3 + is_backward(call) || call->output_count < 2)
        return "attention of other tensors than query, key and value";
    if (!call->outputs[0].data || samples < 1) return NULL;
    a.scores = cpu_scratch(device, SCRATCH_SCORES, bytes);
    a.d_scores = cpu_scratch(device, SCRATCH_ROWS, bytes);
    if (!a.scores || !a.d_scores) return cpu_no_memory(device);
    for (int i = 0; i < call->output_count; i++)
        call_begin_sum(call, i);
    for (int64_t i = 0; i < samples * heads; i++) {
        set_sides(&a, i / heads, i % heads);
        if (is_backward(call)) {
            attend_backward(&a);
            continue;
        }
        score(&a);
        share_out(&a, false, a.scores, 1, 0, a.v, 2, a.y, 3);
    }
    return NULL;
}
