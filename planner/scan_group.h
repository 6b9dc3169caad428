#pragma once
#include "planner/scan.h"

// What a scan does with one group: its bound, whether any of its plans fits, the plans themselves.

struct scan {
    struct arena *arena, *scratch;
    const struct scan_request *request;
    struct space *space;
    struct composer *composer;
    int64_t limit_bytes;
    double unfit_count;  // plans of the tail at hand, in one way to divide its stages
    bool pressed;        // a plan of the group that keeps everything has no room
    bool any;            // a plan of the group fits and may be kept, or was too slow to be asked
    // Of the group at hand: no update of states on hosts takes less; [whether ZeRO shards them].
    double host_update_s[2];
    const struct saturated **saturated;  // [kind of block] of its layers
    int probe_kind;                      // the commonest of them
    struct scan_result result;
};

// One micro-batch, or one sequence, through the whole model, and through each of its commonest
// layers.
struct probe {
    struct bound_work work;
    double layer_s;
    struct copy_window window;  // of such a layer: what it computes,
    double hideable_s;          // and waits for that more compute may hide
};

struct scan_group {
    const struct space_group *group;
    const struct space_tails *tails;
    bool pushed;            // asked about
    int others_priced;      // kinds of layers, beside the commonest one
    bool done;              // scanned, or a smaller micro-batch has no room
    struct probe sequence;  // of its family: a lower bound on one sequence
    double bound_s;         // a lower bound on its plans, what states on hosts take left out
    double whole_s;         // no plan that fits is faster: with that, and what making room takes
    double kept_s;          // a lower bound on its plans, if there were room to keep everything
    bool pressed;           // there is not, for all of them
    double late_s;          // a lower bound on its plans before an update that makes them too slow
    const int *balance;     // balanced stages; NULL: the even ones are best, or pinned
};

static inline bool scan_is_exhaustive(const struct scan *scan)
{
    return scan->request->search->exhaustive;
}

static inline bool scan_time_decides(const struct scan *scan)
{
    return scan->request->objective != OBJECTIVE_MEMORY;
}

// Where W stands apart the closed form replays the schedule, which takes longer, and, as of any
// list schedule, longer tasks may end it a little earlier (Graham 1969). There nothing is
// recomputed that has room, and of whole layers the fewest that meet the limit: that is what the
// space means by a tail.
static inline bool scan_is_replayed(const struct parallel *parallel)
{
    return !schedule_row(parallel->schedule)->backward_fused;
}

// Whether device and hosts have room. Neither holds more with more layers recomputed.
bool scan_meets(struct scan *scan, const struct parallel *parallel, int64_t limit_bytes);
// Recomputed in so many layers of each stage.
void scan_set_recompute(struct parallel *parallel, const struct space_recompute *recompute,
                        int layers);

// Whether a plan with these lower limits could still be taken in; in an exhaustive scan always.
bool scan_may_take(const struct scan *scan, double step_s, int64_t reserved_bytes);
// Makes the group the one that the composer is asked about, and balances its stages.
void group_enter(struct scan *scan, struct scan_group *group);
// Whether any plan of the group, which was entered, has room. Asked of the leanest of its plans.
bool group_has_room(struct scan *scan, const struct scan_group *group);
// The fastest pipeline of the group, with even or balanced stages, its lightest blocks, and nothing
// once a step.
double group_bound(struct scan *scan, const struct scan_group *group);
// The fastest of its plans that have room, none of which is below: as far as what is recomputed for
// it is known without lowering it, or (`lowers`) with. INFINITY: none has room. Notes whether one
// that keeps everything has none.
double group_room_bound(struct scan *scan, struct scan_group *group, bool lowers);
// Offers the best plan of every tail to the ranking.
void group_scan(struct scan *scan, struct scan_group *group);
