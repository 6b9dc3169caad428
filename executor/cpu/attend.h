#pragma once
#include "executor/cpu/array.h"
#include "executor/cpu/visible.h"

// What forward and backward of fused attention share: blocks of scores, some queries by some keys
// of one head, made anew where they are needed and never kept (Dao et al. 2022; running maximum and
// sum: Milakov and Gimelshein 2018).

enum { QUERY_BLOCK = 64, KEY_BLOCK = 128 };

struct attend {
    const struct kernel_call *call;
    const struct op *op;
    int64_t batch_count, queries, keys, heads, kv_heads, width, value_width;
    int64_t first_batch, first_query, first_key, first_head;  // in the whole
    int64_t whole_queries, whole_keys, whole_heads;
    const REAL *q, *k, *v;
    const REAL *sink;  // by head; NULL without
    const REAL
        *chosen;  // [batch][query][chosen_count] keys, ascending, -1 behind the last; NULL: all
    int64_t chosen_count;
    // Distance of neighbours along seq.
    int64_t q_stride, k_stride, v_stride, out_stride;
};

// Reads the shapes of q, k, v and the result; a text when they do not fit together.
const char *attend_read(struct attend *attend, const struct kernel_call *call, int first_input);

// One head of one sequence, and the block in hand.
struct head {
    int64_t batch, head, kv_head;  // here
    const REAL *q, *k, *v;         // first query, first key
    int64_t out, lse;              // offsets, by query
    REAL slope;                    // of alibi; 0 = none
};
struct head attend_head(const struct attend *attend, int64_t batch, int64_t head);

struct tile {
    int64_t query, query_count, key, key_count;  // here
};
// Moves a tile on to the next queries, or the next keys of a range: those of a tile stand behind
// one another in the sequence. It begins as {0}, its keys with key_count 0; false: there are no
// more.
bool attend_next_queries(const struct attend *attend, struct tile *tile);
bool attend_next_keys(const struct attend *attend, struct range range, struct tile *tile);
// Keys that some query of query .. query + query_count - 1 sees.
struct range attend_keys(const struct attend *attend, const struct head *head, int64_t query,
                         int64_t query_count);
// Of one query of a block, relative to the block's first key.
struct range attend_visible(const struct attend *attend, const struct head *head,
                            const struct tile *tile, int64_t query);
// scores[query][KEY_BLOCK] = scale q . k, soft cap and alibi included; `slopes`, unless NULL, gets
// the derivative of the soft cap.
void attend_scores(const struct attend *attend, const struct head *head, const struct tile *tile,
                   REAL *scores, REAL *slopes);
// Takes what a query does not see out of a row of scores, minus infinity in its place, and rounds
// its range to whole lanes; what lies outside of these is set to 0, up to `keys`.
struct range attend_mask(struct range range, int64_t keys, REAL *row);
// Multiplies a row of probabilities by the dropout mask over the share that is kept.
void attend_drop(const struct attend *attend, const struct head *head, const struct tile *tile,
                 int64_t query, struct range range, REAL *row);
// executor/cpu/chosen.c: where keys are chosen, forward and backward of the whole call.
const char *attend_chosen(struct cpu_device *device, const struct attend *attend);
const char *attend_chosen_backward(const struct attend *attend);
