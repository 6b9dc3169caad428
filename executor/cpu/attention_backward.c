#include "executor/cpu/attend.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/vector.h"

#include <assert.h>

// Backward: block by block again, probabilities from the scores and the log-sum-exp. With P the
// probabilities, D the gradient of the result and m_i = D_i . out_i:
// d_v += P^T D, d_score = P (D v^T - m) scale, d_q += d_score k, d_k += d_score^T q,
// and of a sink d_sink -= its probability times m_i.

struct gradients {
    const REAL *d, *out, *lse;
    REAL *d_q, *d_k, *d_v, *d_sink;
    int64_t d_q_stride, d_k_stride, d_v_stride;
    REAL *scores, *slopes, *d_scores;  // [query][KEY_BLOCK]
    REAL mean[QUERY_BLOCK];
};

static void read_means(const struct attend *a, const struct head *head, const struct tile *tile,
                       struct gradients *g)
{
    for (int64_t i = 0; i < tile->query_count; i++) {
        int64_t at = head->out + (tile->query + i) * a->out_stride;
        g->mean[i] = vector_dot(a->value_width, g->d + at, g->out + at);
        if (!g->d_sink) continue;
        REAL lse = g->lse[head->lse + (tile->query + i) * a->heads];
        g->d_sink[head->head] -= real_exp(a->sink[head->head] - lse) * g->mean[i];
    }
}

FAST static void exp_row(struct range range, REAL lse, REAL *x)
{
    VECTOR for (int64_t i = range.first; i < range.end; i++) x[i] = real_exp(x[i] - lse);
}

// D v^T to the gradients of the scores. `p` was dropped from where `d` was.
FAST static void score_row(int64_t keys, REAL mean, REAL scale, const REAL *p, const REAL *slopes,
                           REAL *d)
{
    if (slopes) {
        VECTOR for (int64_t i = 0; i < keys; i++) d[i] = p[i] * (d[i] - mean) * scale * slopes[i];
    } else {
        VECTOR for (int64_t i = 0; i < keys; i++) d[i] = p[i] * (d[i] - mean) * scale;
    }
}

static void make_probabilities(const struct attend *a, const struct head *head,
                               const struct tile *tile, struct gradients *g)
{
    attend_scores(a, head, tile, g->scores, a->op->softcap > 0 ? g->slopes : NULL);
    for (int64_t i = 0; i < tile->query_count; i++) {
        REAL *row = g->scores + i * KEY_BLOCK;
        struct range range = attend_visible(a, head, tile, tile->query + i);
        // A query that sees nothing has no log-sum-exp either.
        if (range.first == range.end) {
            memset(row, 0, (size_t)tile->key_count * sizeof(REAL));
            continue;
        }
        exp_row(attend_mask(range, tile->key_count, row),
                g->lse[head->lse + (tile->query + i) * a->heads], row);
    }
}

static void drop(const struct attend *a, const struct head *head, const struct tile *tile,
                 REAL *rows)
{
    for (int64_t i = 0; i < tile->query_count; i++) {
        struct range range = attend_visible(a, head, tile, tile->query + i);
        attend_drop(a, head, tile, tile->query + i, range, rows + i * KEY_BLOCK);
    }
}

// d_scores = D v^T, and d_v += P^T D; with dropout both through the mask.
static void values_backward(const struct attend *a, const struct head *head,
                            const struct tile *tile, struct gradients *g)
{
    const REAL *d = g->d + head->out + tile->query * a->out_stride;
    REAL *p = g->scores;
    cpu_multiply(&(struct cpu_matmul){.is_b_turned = true,
                                      .rows = tile->query_count,
                                      .columns = tile->key_count,
                                      .inner = a->value_width,
                                      .alpha = 1,
                                      .a = d,
                                      .b = head->v + tile->key * a->v_stride,
                                      .c = g->d_scores,
                                      .a_stride = a->out_stride,
                                      .b_stride = a->v_stride,
                                      .c_stride = KEY_BLOCK});
    if (a->op->dropout_ratio > 0) {
        p = g->d_scores + QUERY_BLOCK * KEY_BLOCK;
        memcpy(p, g->scores, QUERY_BLOCK * KEY_BLOCK * sizeof(REAL));
        drop(a, head, tile, p);
        drop(a, head, tile, g->d_scores);
    }
    cpu_multiply(&(struct cpu_matmul){.is_a_turned = true,
                                      .rows = tile->key_count,
                                      .columns = a->value_width,
                                      .inner = tile->query_count,
                                      .alpha = 1,
                                      .beta = 1,
                                      .a = p,
                                      .b = d,
                                      .c = g->d_v + head->kv_head * a->value_width +
                                           (head->batch * a->keys + tile->key) * g->d_v_stride,
                                      .a_stride = KEY_BLOCK,
                                      .b_stride = a->out_stride,
                                      .c_stride = g->d_v_stride});
}

// d_q += d_scores k, d_k += d_scores^T q.
static void scores_backward(const struct attend *a, const struct head *head,
                            const struct tile *tile, struct gradients *g)
{
    int64_t query = head->batch * a->queries + tile->query;
    int64_t key = head->batch * a->keys + tile->key;
    cpu_multiply(&(struct cpu_matmul){.rows = tile->query_count,
                                      .columns = a->width,
                                      .inner = tile->key_count,
                                      .alpha = 1,
                                      .beta = 1,
                                      .a = g->d_scores,
                                      .b = head->k + tile->key * a->k_stride,
                                      .c = g->d_q + head->head * a->width + query * g->d_q_stride,
                                      .a_stride = KEY_BLOCK,
                                      .b_stride = a->k_stride,
                                      .c_stride = g->d_q_stride});
    cpu_multiply(&(struct cpu_matmul){.is_a_turned = true,
                                      .rows = tile->key_count,
                                      .columns = a->width,
                                      .inner = tile->query_count,
                                      .alpha = 1,
                                      .beta = 1,
                                      .a = g->d_scores,
                                      .b = head->q + tile->query * a->q_stride,
                                      .c = g->d_k + head->kv_head * a->width + key * g->d_k_stride,
                                      .a_stride = KEY_BLOCK,
                                      .b_stride = a->q_stride,
                                      .c_stride = g->d_k_stride});
}

static void attend_block_backward(const struct attend *a, const struct head *head, struct tile tile,
                                  struct gradients *g)
{
    assert(tile.query_count > 0 && tile.query_count <= QUERY_BLOCK);
    struct range range = attend_keys(a, head, tile.query, tile.query_count);
    if (a->call->merges && range.first == range.end) return;
    read_means(a, head, &tile, g);
    while (attend_next_keys(a, range, &tile)) {
        make_probabilities(a, head, &tile, g);
        values_backward(a, head, &tile, g);
        for (int64_t i = 0; i < tile.query_count; i++) {
            int64_t at = i * KEY_BLOCK;
            score_row(tile.key_count, g->mean[i], (REAL)a->op->scalar, g->scores + at,
                      a->op->softcap > 0 ? g->slopes + at : NULL, g->d_scores + at);
        }
        scores_backward(a, head, &tile, g);
    }
}

// Results and log-sum-exp are the last two inputs. A later block of a ring adds to what is there;
// the sink's part, which does not depend on keys, is the first block's.
static const char *read_gradients(struct cpu_device *device, const struct attend *a,
                                  struct gradients *g)
{
    const struct kernel_call *call = a->call;
    g->d = call->inputs[0].data;
    g->out = call->inputs[call->input_count - 2].data;
    g->lse = call->inputs[call->input_count - 1].data;
    g->scores =
        cpu_scratch(device, SCRATCH_SCORES, 4 * QUERY_BLOCK * KEY_BLOCK * (int64_t)sizeof(REAL));
    if (!g->scores) return cpu_no_memory(device);
    g->slopes = g->scores + QUERY_BLOCK * KEY_BLOCK;
    g->d_scores = g->slopes + QUERY_BLOCK * KEY_BLOCK;
    for (int i = 0; i < call->output_count && !call->merges; i++)
        call_begin_sum(call, i);
    g->d_q = call->outputs[0].data;
    g->d_k = call->outputs[1].data;
    g->d_v = call->outputs[2].data;
    g->d_q_stride = array_stride(&call->outputs[0], 1);
    g->d_k_stride = array_stride(&call->outputs[1], 1);
    g->d_v_stride = array_stride(&call->outputs[2], 1);
    g->d_sink = a->sink && call->output_count > 3 && !call->merges ? call->outputs[3].data : NULL;
    return NULL;
}

const char *cpu_attention_backward(struct cpu_device *device, const struct kernel_call *call)
{
    struct attend a;
    struct gradients g = {0};
    struct kernel_call folded = *call;
    const char *fault = call_fold_attention(&folded, 1);
    if (!fault) fault = attend_read(&a, &folded, 1);
    if (!fault && a.op->top_k > 0) return attend_chosen_backward(&a);
    if (!fault) fault = read_gradients(device, &a, &g);
    if (fault) return fault;
    assert(g.d_scores && "what has no room is a fault");
    for (int64_t i = 0; i < a.batch_count * a.heads; i++) {
        struct head head = attend_head(&a, i / a.heads, i % a.heads);
        struct tile tile = {0};
        while (attend_next_queries(&a, &tile))
            attend_block_backward(&a, &head, tile, &g);
    }
    return NULL;
}
