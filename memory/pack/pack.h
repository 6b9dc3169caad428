#pragma once
#include "core/arena.h"

#include <stdint.h>

// Where each buffer lies in one arena: no two that live at once overlap, and the arena is as low as
// can be (dynamic storage allocation, NP-hard). Any units; the order scheduler uses bytes and
// steps.

struct pack_buffer {
    int64_t lower, upper;  // alive in [lower, upper); lower <= upper, equal: never alive
    int64_t size;          // > 0
    int64_t alignment;     // of its offset, >= 1
    int64_t fixed_offset;  // -1 = free
};

struct pack_problem {
    const struct pack_buffer *buffers;
    int count;
    int64_t capacity;  // 0 = none; with one the first packing that fits under it is the answer
};

// How the offsets were found.
enum pack_mode { PACK_GREEDY, PACK_SEARCH, PACK_REPAIR, PACK_MODE_COUNT };
const char *pack_mode_name(enum pack_mode mode);

struct pack_options {
    double deadline_s;    // of clock_s(); 0 = none
    int64_t node_cap;     // of the exact search in all; 0 = the default
    double patience;      // of pack_large: work without a better packing; 0 = until its most
    int64_t enough;       // a height below which long chains of repairs are of no use; 0 = none
    bool no_search;       // greedy rules only
    bool every_rule_off;  // tests: exact search without dominance, memo and inference
    uint64_t seed;        // of restarts
};

struct pack_result {
    int64_t *offsets;  // [count]; of buffers that never live: 0
    int64_t height;    // of the arena
    int64_t bound;     // no packing is lower: most size alive at once, or higher where search has
                       // refuted that
    bool fits;         // height <= capacity, or no capacity given
    bool infeasible;   // proven: nothing fits under the capacity, or fixed ones overlap
    enum pack_mode mode;
    int64_t node_count;
    double work;  // of pack_large: buffers times buffers moved, and what rules take
    int restart_count;
};

// The result lives in `arena`.
struct pack_result pack_solve(struct arena *arena, struct arena *scratch,
                              const struct pack_problem *problem,
                              const struct pack_options *options);

// For qsort of pointers into one array: by birth, of equal ones as they lie there.
int pack_compare_births(const void *left, const void *right);

// Most size alive at once, or the top of the highest fixed buffer.
int64_t pack_bound(struct arena *scratch, const struct pack_problem *problem);

// The parts of pack_solve, for tests and baselines. Each fills offsets[] and returns the height.

// memory/pack/pack_greedy.c: every rule of the portfolio, the lowest wins.
int64_t pack_greedy(struct arena *scratch, const struct pack_problem *problem, int64_t *offsets);
// One rule: longest-lived first, best fit: the layout heuristic that ROAM is compared with.
int64_t pack_long_lived_best_fit(struct arena *scratch, const struct pack_problem *problem,
                                 int64_t *offsets);

// memory/pack/pack_search.c: whether all fit under `height`.
enum pack_answer { PACK_YES, PACK_NO, PACK_UNKNOWN };  // unknown: a cap or the deadline was hit
enum pack_answer pack_search(struct arena *scratch, const struct pack_problem *problem,
                             int64_t height, const struct pack_options *options, int64_t *offsets,
                             struct pack_result *counts);

// memory/pack/pack_large.c: for problems that are too large to search. Every rule of the
// portfolio, each packing brought down to the bound (or the capacity) by ejection chains
// (pack_order.h), longer and longer ones where short ones do not close. Never higher than
// pack_greedy unless deadline or patience stops it. Adds moves to node_count, chains to
// restart_count, sets the mode.
int64_t pack_large(struct arena *scratch, const struct pack_problem *problem,
                   const struct pack_options *options, int64_t *offsets,
                   struct pack_result *counts);
