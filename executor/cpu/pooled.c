#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/vector.h"

#include <assert.h>

// Attention to near tokens and to entries of far ones (OP_POOLED, models/op_pool.h): a query of a
// head at a time, over tokens and then over entries.

struct attended {
    const struct kernel_call *call;
    int64_t batch, queries, keys, heads, width, entries, chosen_count;
    int64_t first_query, q_stride, out_stride;
    const REAL *q, *x, *sink, *of_entries;
    const REAL *chosen;  // [batch][query][chosen_count] entries, ascending, -1 behind; NULL: all
    REAL *scores;
    const REAL **rows;  // what the scores are of
};

// What a query sees: tokens first .. end - 1, and so many entries.
struct seen {
    int64_t first, end, entries;
    const REAL *chosen;
};

static struct seen seen_by(const struct attended *p, int64_t batch, int64_t query)
{
    assert(query >= 0 && query < p->queries && p->call->op->rate > 0);
    const struct op *op = p->call->op;
    int64_t at = p->first_query + query;
    struct seen seen = {.first = at + 1 - op->window, .end = at + 1};
    if (op->window <= 0 || seen.first < 0) seen.first = 0;
    seen.entries = (at + 1) / op->rate;
    if (seen.entries > p->entries) seen.entries = p->entries;
    if (!p->chosen) return seen;
    seen.chosen = p->chosen + (batch * p->queries + query) * p->chosen_count;
    seen.entries = 0;
    while (seen.entries < p->chosen_count && seen.chosen[seen.entries] >= 0)
        seen.entries++;
    return seen;
}

static int64_t entry_of(const struct seen *seen, int64_t i)
{
    return seen->chosen ? (int64_t)seen->chosen[i] : i;
}

// Keys, which are values as well, in order; returns how many.
static int64_t gather(const struct attended *p, int64_t batch, const struct seen *seen)
{
    int64_t count = 0;
    for (int64_t k = seen->first; k < seen->end; k++)
        p->rows[count++] = p->x + (batch * p->keys + k) * p->width;
    for (int64_t i = 0; i < seen->entries; i++)
        p->rows[count++] = p->of_entries + (batch * p->entries + entry_of(seen, i)) * p->width;
    return count;
}

static void attend(const struct attended *p, int64_t count, const REAL *q, REAL sink, REAL *out,
                   REAL *lse)
{
    REAL largest = sink, sum;
    assert(p->rows && p->scores);
    for (int64_t i = 0; i < count; i++) {
        REAL score = (REAL)p->call->op->scalar * vector_dot(p->width, q, p->rows[i]);
        p->scores[i] = score;
        largest = score > largest ? score : largest;
    }
    sum = real_exp(sink - largest);
    memset(out, 0, (size_t)p->width * sizeof(REAL));
    for (int64_t i = 0; i < count; i++) {
        REAL weight = real_exp(p->scores[i] - largest);
        sum += weight;
        vector_add_times(p->width, weight, p->rows[i], out);
    }
    vector_scale(p->width, 1 / sum, out);
    *lse = largest + (REAL)log((double)sum);
}

static const char *open_call(struct cpu_device *device, const struct kernel_call *call, int first,
                             struct attended *p)
{
    const struct kernel_array *q = &call->inputs[first], *x = q + 1, *sink = q + 2;
    const struct kernel_array *entries = q + 3, *chosen = q + 4;
    bool has_choice = call->op->top_k > 0;
    bool fits = q->rank == 4 && x->rank == 4 && x->sizes[2] == 1 && sink->rank == 1 &&
                entries->rank == 3 && x->sizes[3] == q->sizes[3] &&
                entries->sizes[2] == q->sizes[3] && call->op->rate > 0;
    if (!fits || (has_choice && (chosen->rank != 3 || chosen->sizes[1] != q->sizes[1])))
        return "queries (batch, seq, heads, width), one head of keys, a sink and entries are "
               "wanted";
    if (x->sizes[1] != x->whole[1] || entries->sizes[1] != entries->whole[1])
        return "attention to entries wants all tokens and all entries";
    *p = (struct attended){.call = call,
                           .batch = q->sizes[0],
                           .queries = q->sizes[1],
                           .keys = x->sizes[1],
                           .heads = q->sizes[2],
                           .width = q->sizes[3],
                           .entries = entries->sizes[1],
                           .chosen_count = has_choice ? chosen->sizes[2] : 0,
                           .first_query = q->first[1],
                           .q = q->data,
                           .x = x->data,
                           .sink = sink->data,
                           .of_entries = entries->data,
                           .chosen = has_choice ? chosen->data : NULL};
    int64_t most = p->keys + p->entries, each = (int64_t)(sizeof(REAL) + sizeof(REAL *));
    REAL *room = cpu_scratch(device, SCRATCH_SCORES, most * each + (int64_t)sizeof(REAL *));
    if (!room) return cpu_no_memory(device);
    p->rows = (const REAL **)(void *)room;
    p->scores = (REAL *)(void *)(p->rows + most);
    return NULL;
}

const char *cpu_pooled(struct cpu_device *device, const struct kernel_call *call)
{
    struct attended p;
    const char *fault = open_call(device, call, 0, &p);
    if (fault) return fault;
    REAL *out = call->outputs[0].data, *lse = call->outputs[1].data;
    for (int64_t row = 0; row < p.batch * p.queries; row++) {
        int64_t batch = row / p.queries;
        struct seen seen = seen_by(&p, batch, row % p.queries);
        int64_t count = gather(&p, batch, &seen);
        for (int64_t h = 0; h < p.heads; h++) {
            int64_t at = row * p.heads + h;
            attend(&p, count, p.q + at * p.width, p.sink[h], out + at * p.width, lse + at);
        }
    }
    return NULL;
}

// As in chosen.c: d_score = p (d . v - d . out) scale, and of a sink, whose value is zero,
// -p (d . out). Keys are values: each has both gradients.
struct slopes {
    const REAL *d, *out, *lse;
    REAL *d_q, *d_x, *d_sink, *d_entries;
};

static void row_backward(const struct attended *p, const struct slopes *s, int64_t row)
{
    int64_t batch = row / p->queries;
    struct seen seen = seen_by(p, batch, row % p->queries);
    int64_t count = gather(p, batch, &seen), near = seen.end - seen.first;
    for (int64_t h = 0; h < p->heads; h++) {
        int64_t at = row * p->heads + h;
        const REAL *q = p->q + at * p->width, *d = s->d + at * p->width;
        REAL factor = (REAL)p->call->op->scalar,
             mean = vector_dot(p->width, d, s->out + at * p->width);
        s->d_sink[h] -= real_exp(p->sink[h] - s->lse[at]) * mean;
        for (int64_t i = 0; i < count; i++) {
            const REAL *of = p->rows[i];
            REAL *to = i < near ? s->d_x + (batch * p->keys + seen.first + i) * p->width
                                : s->d_entries +
                                      (batch * p->entries + entry_of(&seen, i - near)) * p->width;
            REAL weight = real_exp(factor * vector_dot(p->width, q, of) - s->lse[at]);
            REAL slope = weight * (vector_dot(p->width, d, of) - mean) * factor;
            vector_add_times(p->width, slope, of, s->d_q + at * p->width);
            vector_add_times(p->width, slope, q, to);
            vector_add_times(p->width, weight, d, to);
        }
    }
}

const char *cpu_pooled_backward(struct cpu_device *device, const struct kernel_call *call)
{
    struct attended p;
    const char *fault = open_call(device, call, 1, &p);
    if (fault) return fault;
    for (int i = 0; i < 4; i++)
        call_begin_sum(call, i);
    struct slopes s = {.d = call->inputs[0].data,
                       .out = call->inputs[call->input_count - 2].data,
                       .lse = call->inputs[call->input_count - 1].data,
                       .d_q = call->outputs[0].data,
                       .d_x = call->outputs[1].data,
                       .d_sink = call->outputs[2].data,
                       .d_entries = call->outputs[3].data};
    for (int64_t row = 0; row < p.batch * p.queries; row++)
        row_backward(&p, &s, row);
    return NULL;
}
