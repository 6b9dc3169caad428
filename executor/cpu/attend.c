#include "executor/cpu/attend.h"

#include "executor/cpu/functions.h"
#include "executor/cpu/random_words.h"
#include "executor/cpu/sums.h"

#include <assert.h>

const char *attend_read(struct attend *attend, const struct kernel_call *call, int first_input)
{
    const struct kernel_array *q = &call->inputs[first_input], *k = q + 1, *v = q + 2;
    const char *fault = call_check_attention(call, first_input);
    if (fault) return fault;
    *attend = (struct attend){.call = call,
                              .op = call->op,
                              .batch_count = q->sizes[0],
                              .queries = q->sizes[1],
                              .keys = k->sizes[1],
                              .heads = q->sizes[2],
                              .kv_heads = k->sizes[2],
                              .width = q->sizes[3],
                              .value_width = v->sizes[3],
                              .first_batch = q->first[0],
                              .first_query = q->first[1],
                              .first_key = k->first[1],
                              .first_head = q->first[2],
                              .whole_queries = q->whole[1],
                              .whole_keys = k->whole[1],
                              .whole_heads = q->whole[2],
                              .q = q->data,
                              .k = k->data,
                              .v = v->data};
    attend->q_stride = array_stride(q, 1);
    attend->k_stride = array_stride(k, 1);
    attend->v_stride = array_stride(v, 1);
    attend->out_stride = attend->heads * attend->value_width;
    const struct kernel_array *sink = call_sink(call, first_input);
    attend->sink = sink ? sink->data : NULL;
    if (call->op->top_k == 0) return NULL;
    fault = call_check_chosen(call, first_input);
    if (fault) return fault;
    attend->chosen = call_chosen(call, first_input)->data;
    attend->chosen_count = call_chosen(call, first_input)->sizes[2];
    return NULL;
}

struct head attend_head(const struct attend *a, int64_t batch, int64_t head)
{
    const struct kernel_array *k = &a->call->inputs[a->op->kind == OP_ATTENTION ? 1 : 2];
    int64_t group = a->whole_heads / k->whole[2];
    int64_t kv_head = (a->first_head + head) / group - k->first[2];
    assert(kv_head >= 0 && kv_head < a->kv_heads && "the keys of a head are here");
    struct head at = {.batch = batch, .head = head, .kv_head = kv_head};
    at.q = a->q + batch * a->queries * a->q_stride + head * a->width;
    at.k = a->k + batch * a->keys * a->k_stride + kv_head * a->width;
    at.v = a->v + batch * a->keys * a->v_stride + kv_head * a->value_width;
    at.out = batch * a->queries * a->out_stride + head * a->value_width;
    at.lse = batch * a->queries * a->heads + head;
    if (a->op->alibi > 0) {
        double exponent = -8.0 * (double)(a->first_head + head + 1) / (double)a->call->head_count;
        at.slope = (REAL)(a->op->alibi * exp2(exponent));
    }
    return at;
}

// Of some keys that stand behind one another in the sequence, those that a query sees.
static struct range sees(const struct attend *a, const struct head *head, int64_t query,
                         int64_t key, int64_t count)
{
    const struct sequence_order *order = &a->call->order;
    int64_t at = sequence_place(order, a->first_query + query);
    int64_t document = call_document(a->call, a->first_batch + head->batch, at);
    return visible(a->op, at, sequence_place(order, a->first_key + key), count, document);
}

// Of all keys here. Places of a block of keys only rise, so that what a query sees of a half and of
// the half behind it is one range.
static struct range sees_of_all(const struct attend *a, const struct head *head, int64_t query)
{
    int64_t half = sequence_together(&a->call->order, a->first_key, a->keys);
    struct range range = sees(a, head, query, 0, half);
    if (half == a->keys) return range;
    struct range behind = sees(a, head, query, half, a->keys - half);
    if (behind.end == 0) return range;
    assert((range.first == range.end || (range.end == half && behind.first == 0)) && "one range");
    if (range.first == range.end) range.first = half + behind.first;
    return (struct range){range.first, half + behind.end};
}

// Documents begin later and later along a sequence: what the first query sees comes first.
struct range attend_keys(const struct attend *a, const struct head *head, int64_t query,
                         int64_t query_count)
{
    assert(query >= 0 && query_count > 0 && query + query_count <= a->queries);
    struct range range = sees_of_all(a, head, query);
    range.end = sees_of_all(a, head, query + query_count - 1).end;
    return range;
}

bool attend_next_queries(const struct attend *a, struct tile *tile)
{
    tile->query += tile->query_count;
    int64_t left = a->queries - tile->query, most = left < QUERY_BLOCK ? left : QUERY_BLOCK;
    tile->query_count = sequence_together(&a->call->order, a->first_query + tile->query, most);
    return left > 0;
}

bool attend_next_keys(const struct attend *a, struct range range, struct tile *tile)
{
    tile->key = tile->key_count > 0 ? tile->key + tile->key_count : range.first;
    int64_t left = range.end - tile->key, most = left < KEY_BLOCK ? left : KEY_BLOCK;
    tile->key_count = sequence_together(&a->call->order, a->first_key + tile->key, most);
    return left > 0;
}

struct range attend_visible(const struct attend *a, const struct head *head,
                            const struct tile *tile, int64_t query)
{
    return sees(a, head, query, tile->key, tile->key_count);
}

FAST static void cap(int64_t count, REAL limit, REAL *x, REAL *slopes)
{
    VECTOR for (int64_t i = 0; i < count; i++)
    {
        REAL t = real_tanh(x[i] / limit);
        x[i] = limit * t;
        if (slopes) slopes[i] = 1 - t * t;
    }
}

FAST static void add_alibi(int64_t count, REAL slope, int64_t key, REAL *x)
{
    VECTOR for (int64_t i = 0; i < count; i++) x[i] += slope * (REAL)(key + i);
}

void attend_scores(const struct attend *a, const struct head *head, const struct tile *tile,
                   REAL *scores, REAL *slopes)
{
    assert(tile->key_count > 0 && tile->key_count <= KEY_BLOCK && tile->query_count <= QUERY_BLOCK);
    cpu_multiply(&(struct cpu_matmul){.is_b_turned = true,
                                      .rows = tile->query_count,
                                      .columns = tile->key_count,
                                      .inner = a->width,
                                      .alpha = a->op->scalar,
                                      .a = head->q + tile->query * a->q_stride,
                                      .b = head->k + tile->key * a->k_stride,
                                      .c = scores,
                                      .a_stride = a->q_stride,
                                      .b_stride = a->k_stride,
                                      .c_stride = KEY_BLOCK});
    if (a->op->softcap <= 0 && head->slope == 0) return;
    for (int64_t i = 0; i < tile->query_count; i++) {
        REAL *row = scores + i * KEY_BLOCK;
        if (a->op->softcap > 0) {
            cap(tile->key_count, (REAL)a->op->softcap, row, slopes ? slopes + i * KEY_BLOCK : NULL);
        }
        int64_t key = sequence_place(&a->call->order, a->first_key + tile->key);
        if (head->slope != 0) add_alibi(tile->key_count, head->slope, key, row);
    }
}

struct range attend_mask(struct range range, int64_t keys, REAL *row)
{
    struct range wide = {range.first / LANES * LANES, (range.end + LANES - 1) / LANES * LANES};
    for (int64_t i = 0; i < wide.first; i++)
        row[i] = 0;
    for (int64_t i = wide.first; i < range.first; i++)
        row[i] = -(REAL)HUGE_VAL;
    for (int64_t i = range.end; i < wide.end; i++)
        row[i] = -(REAL)HUGE_VAL;
    for (int64_t i = wide.end; i < keys; i++)
        row[i] = 0;
    return wide;
}

_Static_assert(KEY_BLOCK % LANES == 0, "a block holds whole lanes");

FAST static void keep_row(int64_t count, uint32_t threshold, const uint32_t *words, REAL factor,
                          REAL *row)
{
    VECTOR for (int64_t i = 0; i < count; i++) row[i] = words[i] >= threshold ? row[i] * factor : 0;
}

void attend_drop(const struct attend *a, const struct head *head, const struct tile *tile,
                 int64_t query, struct range range, REAL *row)
{
    // The index that the same probability has in the whole tensor (batch, head, seq, kv_seq).
    int64_t at = (a->first_batch + head->batch) * a->whole_heads + a->first_head + head->head;
    const struct sequence_order *order = &a->call->order;
    at = at * a->whole_queries + sequence_place(order, a->first_query + query);
    at = at * a->whole_keys + sequence_place(order, a->first_key + tile->key);
    REAL factor = (REAL)(1 / (1 - a->op->dropout_ratio));
    uint32_t words[KEY_BLOCK], threshold = dropout_threshold(a->op->dropout_ratio);
    cpu_random_words(a->call->key, (uint64_t)(at + range.first), range.end - range.first, words);
    keep_row(range.end - range.first, threshold, words, factor, row + range.first);
}
