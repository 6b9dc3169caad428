#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/image.h"
#include "executor/cpu/sums.h"
#include "executor/cpu/visible.h"

// Softmax over keys where attention is not fused. Keys that a query may not see have probability 0.

FAST static void softmax_row(struct range range, const REAL *sink, const REAL *x, REAL *y)
{
    REAL start = sink ? *sink : -(REAL)HUGE_VAL;
    REAL largest = LARGEST(i, range.first, range.end, start, x[i]);
    REAL total = SUM(i, range.first, range.end, y[i] = real_exp(x[i] - largest));
    if (sink) total += real_exp(*sink - largest);
    REAL factor = total > 0 ? 1 / total : 0;
    VECTOR for (int64_t i = range.first; i < range.end; i++) y[i] *= factor;
}

void cpu_softmax_row(int64_t width, const REAL *x, REAL *y)
{
    softmax_row((struct range){0, width}, NULL, x, y);
}

// The head of a row of scores, dims (batch, head, seq, kv_seq) in whatever order.
static int64_t head_of(const struct kernel_array *scores, int head, int64_t at)
{
    return at / array_stride(scores, head) % scores->sizes[head];
}

static const char *plain_softmax(const struct kernel_call *call)
{
    const struct kernel_array *scores = &call->inputs[0];
    int64_t keys = array_last(scores), elements = array_elements(scores);
    const REAL *x = scores->data;
    REAL *y = call->outputs[0].data;
    for (int64_t i = 0; i < elements; i += keys)
        softmax_row((struct range){0, keys}, NULL, x + i, y + i);
    return NULL;
}

const char *cpu_softmax(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    const struct kernel_array *scores = &call->inputs[0];
    const char *fault = call_check_softmax(call);
    if (fault) return fault;
    if (call_is_plain_softmax(call)) return plain_softmax(call);
    int head = array_find(scores, DIM_HEAD), seq = array_find(scores, DIM_SEQ);
    int batch = array_find(scores, DIM_BATCH);
    int64_t keys = array_last(scores), elements = array_elements(scores);
    const REAL *x = scores->data, *sinks = call->input_count > 1 ? call->inputs[1].data : NULL;
    REAL *y = call->outputs[0].data;
    for (int64_t i = 0; i < elements; i += keys) {
        int64_t query = scores->first[seq] + i / array_stride(scores, seq) % scores->sizes[seq];
        int64_t sequence =
            scores->first[batch] + i / array_stride(scores, batch) % scores->sizes[batch];
        struct range range = visible(call->op, query, scores->first[scores->rank - 1], keys,
                                     call_document(call, sequence, query));
        const REAL *sink = sinks ? sinks + head_of(scores, head, i) : NULL;
        softmax_row(range, sink, x + i, y + i);
        memset(y + i, 0, (size_t)range.first * sizeof(REAL));
        memset(y + i + range.end, 0, (size_t)(keys - range.end) * sizeof(REAL));
    }
    return NULL;
}

// Returns the gradient of the row's sink.
FAST static REAL softmax_row_backward(int64_t keys, const REAL *d, const REAL *p, REAL *d_x)
{
    REAL dot = SUM(i, 0, keys, d[i] * p[i]), sum = SUM(i, 0, keys, p[i]);
    VECTOR for (int64_t i = 0; i < keys; i++) d_x[i] = p[i] * (d[i] - dot);
    return -(1 - sum) * dot;
}

const char *cpu_softmax_backward(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    const struct kernel_array *scores = &call->inputs[0];
    const char *fault = call_check_softmax(call);
    if (fault) return fault;
    int64_t keys = array_last(scores), elements = array_elements(scores);
    const REAL *d = scores->data, *p = call->inputs[1].data;
    REAL *d_x = call->outputs[0].data, *d_sink = NULL;
    if (call->output_count > 1) {
        call_begin_sum(call, 1);
        d_sink = call->outputs[1].data;
    }
    int head = array_find(scores, DIM_HEAD);
    for (int64_t i = 0; i < elements; i += keys) {
        REAL sink = softmax_row_backward(keys, d + i, p + i, d_x + i);
        if (d_sink) d_sink[head_of(scores, head, i)] += sink;
    }
    return NULL;
}
