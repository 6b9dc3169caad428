#include "executor/cpu/attend.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/vector.h"

// Attention to the keys that were chosen for each query (models/op_choose.h): a query of a head at
// a time, and of the keys no others are looked at. In a ring those that are not here are another
// block's.

struct seen {
    const REAL *chosen;  // of the query
    int64_t first;       // of those chosen that are here
    int64_t end;
};

static struct seen seen_by(const struct attend *a, const struct head *head, int64_t query)
{
    struct seen seen = {.chosen = a->chosen + (head->batch * a->queries + query) * a->chosen_count};
    while (seen.first < a->chosen_count && seen.chosen[seen.first] >= 0 &&
           (int64_t)seen.chosen[seen.first] < a->first_key)
        seen.first++;
    seen.end = seen.first;
    while (seen.end < a->chosen_count && seen.chosen[seen.end] >= 0 &&
           (int64_t)seen.chosen[seen.end] < a->first_key + a->keys)
        seen.end++;
    return seen;
}

static int64_t key_of(const struct attend *a, const struct seen *seen, int64_t i)
{
    return (int64_t)seen->chosen[i] - a->first_key;
}

// What the query makes of its keys; a later block of a ring joins what is there by its log-sum-exp,
// in which a sink is already: the first block begins with it.
static void attend_row(const struct attend *a, const struct head *head, int64_t query, REAL *scores)
{
    struct seen seen = seen_by(a, head, query);
    REAL *out = (REAL *)a->call->outputs[0].data + head->out + query * a->out_stride;
    REAL *lse = (REAL *)a->call->outputs[1].data + head->lse + query * a->heads;
    bool has_before = a->call->merges && *lse > -(REAL)HUGE_VAL;
    const REAL *sink = a->sink && !a->call->merges ? a->sink + head->head : NULL;
    REAL begun = sink ? *sink : -(REAL)HUGE_VAL, largest = has_before ? *lse : begun;
    if (a->call->merges && seen.first == seen.end) return;
    for (int64_t i = seen.first; i < seen.end; i++) {
        const REAL *k = head->k + key_of(a, &seen, i) * a->k_stride;
        REAL x = (REAL)a->op->scalar * vector_dot(a->width, head->q + query * a->q_stride, k);
        scores[i] = x;
        largest = x > largest ? x : largest;
    }
    REAL sum = has_before ? real_exp(*lse - largest) : sink ? real_exp(*sink - largest) : 0;
    if (has_before) {
        vector_scale(a->value_width, sum, out);
    } else {
        memset(out, 0, (size_t)a->value_width * sizeof(REAL));
    }
    for (int64_t i = seen.first; i < seen.end; i++) {
        REAL p = real_exp(scores[i] - largest);
        sum += p;
        vector_add_times(a->value_width, p, head->v + key_of(a, &seen, i) * a->v_stride, out);
    }
    vector_scale(a->value_width, sum > 0 ? 1 / sum : 0, out);
    *lse = largest + (REAL)log((double)sum);
}

const char *attend_chosen(struct cpu_device *device, const struct attend *a)
{
    int64_t bytes = a->chosen_count * (int64_t)sizeof(REAL);
    REAL *scores = cpu_scratch(device, SCRATCH_SCORES, bytes);
    if (!scores) return cpu_no_memory(device);
    for (int64_t i = 0; i < a->batch_count * a->heads; i++) {
        struct head head = attend_head(a, i / a->heads, i % a->heads);
        for (int64_t query = 0; query < a->queries; query++)
            attend_row(a, &head, query, scores);
    }
    return NULL;
}

// As in attention_backward.c: d_score = p (d . v - d . out) scale, and of a sink, whose value is
// zero, -p (d . out).
static void row_backward(const struct attend *a, const struct head *head, int64_t query)
{
    const struct kernel_call *call = a->call;
    const struct kernel_array *d_q = &call->outputs[0], *d_k = d_q + 1, *d_v = d_q + 2;
    const struct seen seen = seen_by(a, head, query);
    const REAL *out = (const REAL *)call->inputs[call->input_count - 2].data + head->out;
    const REAL *lse = (const REAL *)call->inputs[call->input_count - 1].data + head->lse;
    const REAL *d = (const REAL *)call->inputs[0].data + head->out + query * a->out_stride;
    const REAL *q = head->q + query * a->q_stride;
    REAL mean = vector_dot(a->value_width, d, out + query * a->out_stride);
    int64_t row = head->batch * a->queries + query, keys = head->batch * a->keys;
    bool has_sink = a->sink && call->output_count > 3 && !call->merges;
    if (has_sink)
        ((REAL *)call->outputs[3].data)[head->head] -=
            real_exp(a->sink[head->head] - lse[query * a->heads]) * mean;
    REAL *of_q = (REAL *)d_q->data + row * array_stride(d_q, 1) + head->head * a->width;
    for (int64_t i = seen.first; i < seen.end; i++) {
        int64_t key = key_of(a, &seen, i);
        const REAL *k = head->k + key * a->k_stride, *v = head->v + key * a->v_stride;
        REAL *of_k = (REAL *)d_k->data + (keys + key) * array_stride(d_k, 1);
        REAL *of_v = (REAL *)d_v->data + (keys + key) * array_stride(d_v, 1);
        REAL p = real_exp((REAL)a->op->scalar * vector_dot(a->width, q, k) - lse[query * a->heads]);
        REAL d_score = p * (vector_dot(a->value_width, d, v) - mean) * (REAL)a->op->scalar;
        vector_add_times(a->width, d_score, k, of_q);
        vector_add_times(a->width, d_score, q, of_k + head->kv_head * a->width);
        vector_add_times(a->value_width, p, d, of_v + head->kv_head * a->value_width);
    }
}

const char *attend_chosen_backward(const struct attend *a)
{
    for (int i = 0; i < a->call->output_count && !a->call->merges; i++)
        call_begin_sum(a->call, i);
    for (int64_t i = 0; i < a->batch_count * a->heads; i++) {
        struct head head = attend_head(a, i / a->heads, i % a->heads);
        for (int64_t query = 0; query < a->queries; query++)
            row_backward(a, &head, query);
    }
    return NULL;
}
