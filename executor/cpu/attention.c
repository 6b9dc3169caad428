#include "executor/cpu/attend.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/sums.h"

// Forward: for some queries of one head, all keys block by block, with a running maximum, sum and
// result that are scaled down when a larger score comes. What earlier blocks of a ring left is such
// a running state too: its maximum is the log-sum-exp, its sum 1. So is a sink: a score whose value
// is zero.

struct running {
    REAL maximum[QUERY_BLOCK], sum[QUERY_BLOCK];
    REAL *result;  // [query][value_width]
    REAL *scores;  // [query][KEY_BLOCK]
};

static void begin(const struct attend *a, const struct head *head, const struct tile *tile,
                  struct running *state)
{
    const REAL *out = a->call->outputs[0].data, *lse = a->call->outputs[1].data;
    for (int64_t i = 0; i < tile->query_count; i++) {
        int64_t query = tile->query + i;
        REAL *row = state->result + i * a->value_width;
        state->maximum[i] = -(REAL)HUGE_VAL;
        state->sum[i] = 0;
        if (a->call->merges) {
            state->maximum[i] = lse[head->lse + query * a->heads];
            state->sum[i] = state->maximum[i] > -(REAL)HUGE_VAL ? 1 : 0;
            memcpy(row, out + head->out + query * a->out_stride,
                   (size_t)a->value_width * sizeof(REAL));
            continue;
        }
        memset(row, 0, (size_t)a->value_width * sizeof(REAL));
        if (a->sink) state->maximum[i] = a->sink[head->head];
        if (a->sink) state->sum[i] = 1;
    }
}

FAST static REAL largest_of(struct range range, const REAL *x, REAL largest)
{
    return LARGEST(i, range.first, range.end, largest, x[i]);
}

// Scores to their exponentials; returns the sum.
FAST static REAL exp_row(struct range range, REAL largest, REAL *x)
{
    return SUM(i, range.first, range.end, x[i] = real_exp(x[i] - largest));
}

FAST static void scale_row(int64_t count, REAL factor, REAL *x)
{
    VECTOR for (int64_t i = 0; i < count; i++) x[i] *= factor;
}

// Scores to probabilities, as far as the maximum is known.
static void weigh(const struct attend *a, const struct head *head, const struct tile *tile,
                  struct running *state)
{
    for (int64_t i = 0; i < tile->query_count; i++) {
        REAL *row = state->scores + i * KEY_BLOCK, before = state->maximum[i];
        struct range range = attend_visible(a, head, tile, tile->query + i);
        if (range.first == range.end) {
            memset(row, 0, (size_t)tile->key_count * sizeof(REAL));
            continue;
        }
        struct range wide = attend_mask(range, tile->key_count, row);
        REAL largest = largest_of(wide, row, before), sum = exp_row(wide, largest, row);
        if (largest > before) {
            REAL factor = real_exp(before - largest);
            state->sum[i] *= factor;
            scale_row(a->value_width, factor, state->result + i * a->value_width);
        }
        state->maximum[i] = largest;
        state->sum[i] += sum;
        if (a->op->dropout_ratio > 0) attend_drop(a, head, tile, tile->query + i, range, row);
    }
}

static void end(const struct attend *a, const struct head *head, const struct tile *tile,
                struct running *state)
{
    REAL *out = a->call->outputs[0].data, *lse = a->call->outputs[1].data;
    for (int64_t i = 0; i < tile->query_count; i++) {
        int64_t query = tile->query + i;
        REAL sum = state->sum[i], *row = state->result + i * a->value_width;
        scale_row(a->value_width, sum > 0 ? 1 / sum : 0, row);
        memcpy(out + head->out + query * a->out_stride, row, (size_t)a->value_width * sizeof(REAL));
        lse[head->lse + query * a->heads] = state->maximum[i] + (REAL)log((double)sum);
    }
}

static void attend_block(const struct attend *a, const struct head *head, struct tile tile,
                         struct running *state)
{
    struct range range = attend_keys(a, head, tile.query, tile.query_count);
    // What earlier blocks left stays as it is.
    if (a->call->merges && range.first == range.end) return;
    begin(a, head, &tile, state);
    while (attend_next_keys(a, range, &tile)) {
        attend_scores(a, head, &tile, state->scores, NULL);
        weigh(a, head, &tile, state);
        cpu_multiply(&(struct cpu_matmul){.rows = tile.query_count,
                                          .columns = a->value_width,
                                          .inner = tile.key_count,
                                          .alpha = 1,
                                          .beta = 1,
                                          .a = state->scores,
                                          .b = head->v + tile.key * a->v_stride,
                                          .c = state->result,
                                          .a_stride = KEY_BLOCK,
                                          .b_stride = a->v_stride,
                                          .c_stride = a->value_width});
    }
    end(a, head, &tile, state);
}

const char *cpu_attention(struct cpu_device *device, const struct kernel_call *call)
{
    struct attend a;
    struct running state = {0};
    struct kernel_call folded = *call;
    const char *fault = call_fold_attention(&folded, 0);
    if (!fault) fault = attend_read(&a, &folded, 0);
    if (fault) return fault;
    if (a.op->top_k > 0) return attend_chosen(device, &a);
    int64_t bytes = QUERY_BLOCK * (KEY_BLOCK + a.value_width) * (int64_t)sizeof(REAL);
    state.scores = cpu_scratch(device, SCRATCH_SCORES, bytes);
    if (!state.scores) return cpu_no_memory(device);
    state.result = state.scores + QUERY_BLOCK * KEY_BLOCK;
    for (int64_t i = 0; i < a.batch_count * a.heads; i++) {
        struct head head = attend_head(&a, i / a.heads, i % a.heads);
        struct tile tile = {0};
        while (attend_next_queries(&a, &tile))
            attend_block(&a, &head, tile, &state);
    }
    return NULL;
}
