#include "planner/scan_group.h"

#include "planner/scan_tail.h"

#include <assert.h>
#include <math.h>

bool scan_may_take(const struct scan *scan, double step_s, int64_t reserved_bytes)
{
    double below_s = scan->request->search->below_s;
    if (below_s > 0 && step_s >= below_s) return false;
    return scan_is_exhaustive(scan) ||
           ranking_may_take(&scan->result.ranking, step_s, reserved_bytes);
}

bool scan_meets(struct scan *scan, const struct parallel *parallel, int64_t limit_bytes)
{
    if (!composer_meets(scan->composer, parallel, limit_bytes)) return false;
    return scan->request->ignore_limit || composer_host_shortfall(scan->composer, parallel) == 0;
}

void scan_set_recompute(struct parallel *parallel, const struct space_recompute *recompute,
                        int layers)
{
    assert(layers >= -1);
    parallel->recompute = recompute->recompute;
    parallel->recompute_classes = recompute->classes;
    parallel->recompute_layers = layers;
}

// Puts the balanced stages in, if there are any and each has a layer for every chunk.
static bool take_balance(struct parallel *parallel, const int *balance)
{
    for (int stage = 0; stage < parallel->degree[AXIS_PP]; stage++) {
        if (!balance || balance[stage] < parallel->vpp) return false;
    }
    parallel->stage_layers = balance;
    parallel->stage_layers_count = parallel->degree[AXIS_PP];
    return true;
}

static void scan_tail(struct scan *scan, const struct scan_group *group,
                      const struct space_tail *tail, double work_s)
{
    struct parallel even = space_first(scan->space, group->group, tail), balanced = even;
    bool has_balance = take_balance(&balanced, group->balance);
    tail_scan(scan, tail, &even, has_balance ? &balanced : NULL, work_s);
}

// The plan whose blocks every plan of the tail is at least as slow as: nothing is recomputed unless
// all that the group has is one way to recompute.
static struct parallel lightest_of(const struct scan *scan, const struct scan_group *group,
                                   const struct space_tail *tail)
{
    assert(tail->recompute_count > 0);
    static const struct space_recompute NONE = {RECOMPUTE_NONE, 0, -1, -1, 0};
    const struct space_recompute *recompute = &tail->recomputes[0];
    bool forced = group->tails->recomputes && scan->space->recomputes.count == 1;
    if (!forced) recompute = &NONE;
    return space_parallel(scan->space, group->group, tail, recompute, recompute->layers_low);
}

// Of every plan of the group: of ZeRO what communicates least.
static struct parallel lightest(const struct scan *scan, const struct scan_group *group,
                                const struct space_tail *like)
{
    struct space_tail tail = *like;
    tail.zero = group->tails->zero_least;
    return lightest_of(scan, group, &tail);
}

static bool same_pipeline(const struct space_tail *a, const struct space_tail *b)
{
    return a->vpp == b->vpp && a->schedule == b->schedule && a->in_flight == b->in_flight;
}

// Whether the plan has room in one of the ways to recompute of the tail: that which recomputes
// least, whose blocks are known, and then that which recomputes most and so mostly frees most.
static bool any_recompute_fits(struct scan *scan, struct parallel *parallel,
                               const struct space_tail *tail)
{
    if (composer_floor_bytes(scan->composer, parallel) > scan->limit_bytes) return false;
    scan_set_recompute(parallel, &tail->recomputes[0], tail->recomputes[0].layers_low);
    bool keeps_all = parallel->recompute == RECOMPUTE_NONE;
    if (keeps_all && scan_meets(scan, parallel, scan->limit_bytes)) return true;
    for (int i = tail->recompute_count - 1; i >= 0; i--) {
        scan_set_recompute(parallel, &tail->recomputes[i], tail->recomputes[i].layers_high);
        if (scan_meets(scan, parallel, scan->limit_bytes)) return true;
    }
    return false;
}

// Of tails that differ in ZeRO alone the one that shards most needs least, but for ZeRO 3, whose
// gathered blocks may take more than it spares; where something is moved off the device all are
// taken to have room.
bool group_has_room(struct scan *scan, const struct scan_group *group)
{
    const struct space_tails *tails = group->tails;
    if (tails->state_tiers != 1u << TIER_DEVICE || tails->moves_activations) return true;
    for (int i = 0; i < tails->count; i++) {
        const struct space_tail *tail = &tails->tails[i];
        bool has_next = i + 1 < tails->count && same_pipeline(tail, tail + 1);
        if (has_next && tail->zero < tail[1].zero && tail[1].zero < 3) continue;
        struct parallel parallel = space_first(scan->space, group->group, tail);
        if (any_recompute_fits(scan, &parallel, tail)) return true;
        if (take_balance(&parallel, group->balance) && any_recompute_fits(scan, &parallel, tail))
            return true;
    }
    return false;
}

// Balanced stages are searched where nobody pinned them, and nobody describes a pipeline that runs.
void group_enter(struct scan *scan, struct scan_group *group)
{
    assert(group->tails->count > 0 && "a group without plans is passed over");
    struct parallel parallel = lightest(scan, group, &group->tails->tails[0]);
    composer_group(scan->composer, &parallel);
    bool may_balance = parallel.degree[AXIS_PP] > 1 && !search_fixes_stages(scan->request->search);
    group->balance = may_balance ? composer_balance(scan->composer, &parallel) : NULL;
}

static double pipeline_bound(struct scan *scan, const struct scan_group *group,
                             const struct space_tail *tail)
{
    struct parallel parallel = lightest(scan, group, tail);
    if (parallel.recompute != RECOMPUTE_NONE && parallel.recompute_layers < 0 &&
        tail->recomputes[0].layers_low != -1) {
        parallel.recompute_layers = 0;  // of partial recompute the fewest layers
    }
    double bound_s = composer_bound(scan->composer, &parallel);
    if (!take_balance(&parallel, group->balance)) return bound_s;
    return fmin(bound_s, composer_bound(scan->composer, &parallel));
}

double group_bound(struct scan *scan, const struct scan_group *group)
{
    const struct space_tail *tails = group->tails->tails;
    double bound_s = INFINITY;
    for (int i = 0; i < group->tails->count; i++) {
        if (i > 0 && same_pipeline(&tails[i], &tails[i - 1])) continue;
        bound_s = fmin(bound_s, pipeline_bound(scan, group, &tails[i]));
    }
    return bound_s;
}

// What the plans of a group that have room take, as far as it is known.
struct room {
    struct scan *scan;
    double least_s;
    bool lowers, pressed;
};

// No plan of the tail that divides its stages so and has room is faster. `light` is one at the
// stage of ZeRO that communicates least. Where more is communicated what is recomputed may hide it:
// of several ways to treat layers the fastest counts.
static void take_room(struct room *room, const struct space_tail *tail,
                      const struct parallel *light, const struct parallel *own)
{
    struct scan *scan = room->scan;
    double bound_s = light->vpp > 1 ? composer_busiest(scan->composer, light)
                                    : composer_bound(scan->composer, light);
    if (bound_s >= room->least_s) return;
    bool keeps_all = tail->recomputes[0].recompute == RECOMPUTE_NONE;
    if (keeps_all && scan_may_take(scan, bound_s, 0)) {
        struct candidate kept = {.parallel = *own};
        bool has_room = scan_meets(scan, own, scan->limit_bytes);
        room->pressed |= !has_room;
        if (!has_room || memo_sharding(own) != SHARDING_STATES)
            bound_s = fmax(bound_s, tail_pressed_s(scan, tail, &kept, room->lowers, room->least_s));
    }
    room->least_s = fmin(room->least_s, bound_s);
}

// Whether the next tail differs in nothing but that it stores less.
static bool is_leaner(const struct space_tails *tails, int next)
{
    if (next == tails->count) return false;
    const struct space_tail *tail = &tails->tails[next];
    return same_pipeline(tail, tail - 1) && tail->zero == 1;
}

double group_room_bound(struct scan *scan, struct scan_group *group, bool lowers)
{
    const struct space_tails *tails = group->tails;
    struct room room = {scan, INFINITY, lowers, false};
    if (tails->state_tiers != 1u << TIER_DEVICE || tails->moves_activations) return 0;
    for (int i = 0; i < tails->count && room.least_s > group->bound_s; i++) {
        const struct space_tail *tail = &tails->tails[i];
        struct parallel light = lightest(scan, group, tail), own = lightest_of(scan, group, tail);
        if (own.recompute != RECOMPUTE_NONE) return 0;
        if (is_leaner(tails, i + 1)) continue;
        take_room(&room, tail, &light, &own);
        if (take_balance(&light, group->balance) && take_balance(&own, group->balance))
            take_room(&room, tail, &light, &own);
    }
    group->pressed |= room.pressed;
    return room.least_s;
}

void group_scan(struct scan *scan, struct scan_group *group)
{
    const struct space_tail *tails = group->tails->tails;
    bool bounded = !scan_is_exhaustive(scan) && scan_time_decides(scan);
    double bound_s = 0;
    scan->pressed = false;
    for (int i = 0; i < group->tails->count; i++) {
        if (search_should_stop(scan->request->search)) {
            scan->result.stopped = scan->any = true;
            return;
        }
        bool same = i > 0 && same_pipeline(&tails[i], &tails[i - 1]);
        if (bounded && !same) bound_s = pipeline_bound(scan, group, &tails[i]);
        bool may = scan_may_take(scan, bound_s, 0);
        scan->any |= !may;
        if (may) scan_tail(scan, group, &tails[i], bound_s);
    }
    group->pressed |= scan->pressed;
}
