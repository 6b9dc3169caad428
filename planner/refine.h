#pragma once
#include "planner/scan_group.h"

// What the space holds of recompute and offload are whole layers: the first N of each stage
// recomputed one way, or moved. Classes of operators with a count of layers each are too many to go
// through; for them the integer program is asked (planner/keep_plan.h), of tails that could still
// win: those that whole layers make room for, but that would be faster than the best plan of the
// space if everything were kept. Nothing that a tail recomputes or moves makes it faster than that,
// so that the least of these times bounds the plans by classes too.

// That are asked of, fastest first; and their stages together, since a question of many stages
// takes long, but REFINE_LEAST whatever they have.
enum { REFINE_MOST = 20, REFINE_STAGES_MOST = 100, REFINE_LEAST = 4 };

// A tail with even or balanced stages and one place for the optimizer's states.
struct refine_base {
    struct candidate kept;  // with everything kept: its time, or a bound below it
    const struct space_tail *tail;
};
// Starts as {.arena = arena}.
struct refine_bases {
    struct arena *arena;
    struct refine_base *items;
    int count, capacity;
};

// What is known of a tail by where states are; 0: not asked.
struct refine_seen {
    double kept_s[TIER_COUNT];        // with everything kept, which has no room
    int64_t floor_bytes[TIER_COUNT];  // composer_floor_bytes
};

// While the tail is scanned; `first` is a plan of it. With states at `settled` or behind it nothing
// is faster than the best of the tail. Does nothing where scan->request->bases is NULL.
void refine_note(struct scan *scan, const struct parallel *first, const struct space_tail *tail,
                 enum tier settled, const struct refine_seen *seen);

// Whether no plan that would take so long if everything were kept will be asked of: a plan is no
// slower, or as many as are asked. True where nobody asks.
bool refine_is_behind(const struct scan *scan, double kept_s);

struct refine_result {
    double layers_s;  // the best of the space
    bool stopped;     // by the search being told to
    double bound_s;   // no plan by classes of a tail that was noted is faster; INFINITY: there are
                      // none that could win
    int asked_count;
};
// Offers to the ranking what it finds; of a tail that is in the ranking already the better plan
// stays.
struct refine_result refine(struct arena *arena, struct arena *scratch,
                            const struct scan_request *request, struct ranking *ranking);
