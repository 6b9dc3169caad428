#include "planner/scan_tail.h"

#include "planner/scan_plan.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Recomputing may be faster than keeping the same: a phase that waits for the host hides what is
// made again in it and moves out of one that does not, products that keep casts apart are merged,
// more compute hides more. In 7,700 drawn pairs of plans 12 were, by up to 0.7 %. So of tails that
// come so near to winning with everything kept each way to recompute is asked as well.
static const double FASTER_RATIO = 0.02;

// Of what is moved of a layer that is recomputed there is less to copy, so recomputing as many
// layers as are moved may be faster than recomputing fewer; the seconds are linear up to there. By
// class of operators; `low` where none is moved.
static int recomputed_and_moved(const struct parallel *parallel, int class, int low, int high)
{
    assert(low <= high);
    int moved = parallel->offload.layers[class];
    if (moved < 0 || moved > high) return high;
    return moved > low ? moved : low;
}

// Asked of the numbers of recomputed layers between which no other is faster, the most among them:
// recomputing may be faster than keeping (FASTER_RATIO).
static bool any_may_be_fast(struct scan_tail *tail, const struct parallel *parallel, int low,
                            int high)
{
    struct candidate plan = {.parallel = *parallel};
    plan.parallel.recompute_layers = low;
    if (tail_may_be_fast(tail, &plan)) return true;
    int asked = low;
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        int layers = recomputed_and_moved(parallel, class, low, high);
        if (layers == asked) continue;
        asked = layers;
        plan = (struct candidate){.parallel = *parallel};
        plan.parallel.recompute_layers = layers;
        if (tail_may_be_fast(tail, &plan)) return true;
    }
    if (asked == high) return false;
    plan = (struct candidate){.parallel = *parallel};
    plan.parallel.recompute_layers = high;
    return tail_may_be_fast(tail, &plan);
}

// The more layers are recomputed, the slower the step and the smaller its memory, so the fewest
// that meet the limit are the best: found by halving; or as many as are moved; or all, where
// recomputing is faster. Exhaustive search asks for each number instead. Returns the most
// recomputed layers with which a plan that moves more may still be better.
static int consider_fewest(struct scan_tail *tail, struct parallel *parallel, int low, int high)
{
    struct scan *scan = tail->scan;
    bool by_time = scan_time_decides(scan);
    struct candidate plan = {.parallel = *parallel};
    if (by_time && !any_may_be_fast(tail, parallel, low, high)) return low - 1;
    plan.parallel.recompute_layers = high;
    if (!tail_fits(scan, &plan)) {
        scan->unfit_count += high - low;
        return high;
    }
    int64_t limit_bytes = by_time ? scan->limit_bytes : plan.memory.reserved_bytes;
    int first = low, meeting = high;
    while (first < meeting) {
        int middle = first + (meeting - first) / 2;
        parallel->recompute_layers = middle;
        if (scan_meets(scan, parallel, limit_bytes)) {
            meeting = middle;
            continue;
        }
        first = middle + 1;
        if (tail->is_bounded && !any_may_be_fast(tail, parallel, first, high)) break;
    }
    scan->unfit_count += first - low;
    if (first < meeting) return first - 1;
    parallel->recompute_layers = first;
    tail_consider(tail, parallel);
    int asked = first;
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        int layers = recomputed_and_moved(parallel, class, first, high);
        if (layers == asked) continue;
        asked = parallel->recompute_layers = layers;
        tail_consider(tail, parallel);
    }
    parallel->recompute_layers = high;
    if (asked != high) tail_consider(tail, parallel);
    return first - 1;
}

// Returns the same.
static int consider_layers(struct scan_tail *tail, struct parallel *parallel,
                           const struct space_recompute *recompute)
{
    int low = recompute->layers_low, high = recompute->layers_high;
    scan_set_recompute(parallel, recompute, low);
    if (low < high && (!scan_is_exhaustive(tail->scan) || scan_is_replayed(parallel)))
        return consider_fewest(tail, parallel, low, high);
    int most = high;
    for (int layers = low; layers <= high; layers++) {
        parallel->recompute_layers = layers;
        if (tail_consider(tail, parallel) && layers <= most) most = layers - 1;
    }
    return most;
}

// What is to be asked beside states in one place.
enum settled { SETTLED_NOT, SETTLED_SLOW, SETTLED_HELD };

// Whether families of plans may be left out, which an exhaustive search goes through; longer tasks
// may end a replayed schedule a little earlier.
static bool prunes(const struct scan_tail *tail, const struct parallel *parallel)
{
    return tail->is_bounded && !scan_is_replayed(parallel);
}

// Whether what has no room with everything kept is too slow however room is made. Asked first as if
// layers were as large as can be, and then of the commonest as they are.
static bool is_too_pressed(struct scan_tail *tail, const struct candidate *kept)
{
    struct scan *scan = tail->scan;
    const struct offload *offload = &kept->parallel.offload;
    bool moves_more = offload_moves_parameters(offload) || offload_moves_gradients(offload);
    if (!tail->is_bounded || moves_more) return false;
    double update_s = scan_is_replayed(&kept->parallel) ? tail_least_update_s(tail, offload) : 0;
    if (tail_may_take(tail, tail_pressed_s(scan, tail->ways, kept, false, 0) + update_s) &&
        tail_may_take(tail, tail_pressed_s(scan, tail->ways, kept, true, 0) + update_s))
        return false;
    // NVMe is no faster than the host, and spares the device no more.
    if (offload->optimizer == TIER_HOST) tail->is_lost[TIER_NVME] = true;
    scan->any = tail->is_lost[offload->optimizer] = true;
    return true;
}

static void consider_faster(struct scan_tail *tail, const struct candidate *kept, int move)
{
    const struct space_tail *ways = tail->ways;
    double step_s = kept->cost.step_s;
    if (step_s <= 0) step_s = composer_bound(tail->scan->composer, &kept->parallel);
    if (!tail_may_take(tail, step_s * (1 - FASTER_RATIO))) return;
    for (int i = 1; i < ways->recompute_count; i++) {
        const struct space_recompute *recompute = &ways->recomputes[i];
        struct parallel parallel = kept->parallel;
        if (!(recompute->moves >> move & 1)) continue;
        scan_set_recompute(&parallel, recompute, recompute->layers_high);
        tail_consider(tail, &parallel);
    }
}

// What keeps everything stands first and is the fastest of those that have the states where it has
// them, or nearly so: where it fits, or is by far too slow, nothing else of them has to be lowered.
// Updates of states on the device are short: there its memory is asked before its price.
static enum settled settles(struct scan_tail *tail, const struct parallel *parallel, int move)
{
    struct scan *scan = tail->scan;
    struct candidate plan = {.parallel = *parallel};
    enum tier states = parallel->offload.optimizer;
    bool is_weighed = prunes(tail, parallel) && states == TIER_DEVICE;
    bool has_room = is_weighed && tail_fits(scan, &plan);
    scan->pressed |= is_weighed && !has_room;
    if (is_weighed && !has_room && is_too_pressed(tail, &plan)) return SETTLED_NOT;
    if (!tail_may_be_fast(tail, &plan)) {
        consider_faster(tail, &plan, move);
        return SETTLED_SLOW;
    }
    if (!is_weighed) has_room = tail_fits(scan, &plan);
    if (!has_room) {
        scan->pressed = true;
        tail->seen.kept_s[states] = plan.cost.step_s;
        if (!is_weighed) (void)is_too_pressed(tail, &plan);
        return SETTLED_NOT;
    }
    if (plan.cost.step_s <= 0) tail_price(tail, &plan);
    tail_take(tail, &plan);
    consider_faster(tail, &plan, move);
    return SETTLED_HELD;
}

// What is stored whatever is recomputed or moved of activations hangs on where states are.
static int64_t floor_bytes_of(struct scan_tail *tail, const struct parallel *parallel)
{
    int64_t *bytes = &tail->seen.floor_bytes[parallel->offload.optimizer];
    if (*bytes <= 0) *bytes = composer_floor_bytes(tail->scan->composer, parallel);
    return *bytes;
}

// All ways to recompute beside the move, which moves no activations or so many layers.
static enum settled consider_recomputes(struct scan_tail *tail, struct parallel *parallel, int move)
{
    struct scan *scan = tail->scan;
    const struct space_tail *ways = tail->ways;
    bool exhaustive = scan_is_exhaustive(scan);
    if (!tail_allows(scan, parallel)) return SETTLED_NOT;
    scan_set_recompute(parallel, &ways->recomputes[0], ways->recomputes[0].layers_low);
    int64_t floor_bytes = exhaustive ? 0 : floor_bytes_of(tail, parallel);
    if (floor_bytes > scan->limit_bytes) {
        scan->pressed = true;
        scan->unfit_count += tail_recompute_count(ways, move);
        return SETTLED_NOT;
    }
    if (!scan_time_decides(scan) && !scan_may_take(scan, 0, floor_bytes)) return SETTLED_NOT;
    bool keeps_all = parallel->recompute == RECOMPUTE_NONE && ways->recomputes[0].moves >> move & 1;
    // Of moved layers there is less to copy where they are recomputed.
    const struct offload *offload = &parallel->offload;
    bool is_fastest =
        keeps_all && !offload_moves_activations(offload) && !offload_moves_parameters(offload);
    bool asked =
        is_fastest && scan_time_decides(scan) && (!exhaustive || scan_is_replayed(parallel));
    enum settled settled = asked ? settles(tail, parallel, move) : SETTLED_NOT;
    if (settled != SETTLED_NOT) return settled;
    if (tail->is_lost[offload->optimizer]) return SETTLED_NOT;
    scan->pressed |= !asked;
    for (int i = asked; i < ways->recompute_count; i++) {
        if (!(ways->recomputes[i].moves >> move & 1)) continue;
        int most = consider_layers(tail, parallel, &ways->recomputes[i]);
        if (prunes(tail, parallel) && !offload_moves_activations(offload))
            tail->recomputed_most[offload->optimizer][i] = most;
    }
    return SETTLED_NOT;
}

static bool holds_moved(struct scan *scan, struct parallel *parallel, const struct space_move *move,
                        int layers)
{
    parallel->offload = space_moved(move, layers);
    return composer_meets(scan->composer, parallel, scan->limit_bytes);
}

// Whether so many layers moved may be fast, whatever is recomputed.
static bool may_move(struct scan_tail *tail, const struct parallel *parallel,
                     const struct space_move *move, int layers,
                     const struct space_recompute *recompute)
{
    if (!scan_time_decides(tail->scan)) return true;
    struct parallel moved = *parallel;
    moved.offload = space_moved(move, layers);
    scan_set_recompute(&moved, recompute, recompute->layers_low);
    return any_may_be_fast(tail, &moved, recompute->layers_low, recompute->layers_high);
}

// The fewest moved layers with which the device has room beside the most that are recomputed; past
// `high` where there are none, or they are too slow. A device never holds more with more layers
// moved.
static int fewest_moved(struct scan_tail *tail, const struct parallel *like,
                        const struct space_move *move, const struct space_recompute *recompute)
{
    struct scan *scan = tail->scan;
    struct parallel parallel = *like;
    int first = move->layers_low, high = move->layers_high, end = high + 1;
    scan_set_recompute(&parallel, recompute, recompute->layers_high);
    if (!may_move(tail, like, move, first, recompute)) return end;
    if (!holds_moved(scan, &parallel, move, high)) {
        scan->unfit_count +=
            (double)(end - first) * (recompute->layers_high - recompute->layers_low + 1);
        return end;
    }
    while (first < high) {
        int middle = first + (high - first) / 2;
        if (holds_moved(scan, &parallel, move, middle)) {
            high = middle;
            continue;
        }
        scan->unfit_count +=
            (double)(middle + 1 - first) * (recompute->layers_high - recompute->layers_low + 1);
        first = middle + 1;
        if (!may_move(tail, like, move, first, recompute)) return end;
    }
    return first;
}

// Whether the least that any number of moved and recomputed layers leaves on the device may be
// among the smallest, where plans that have no room need not be counted.
static bool may_be_small(struct scan_tail *tail, const struct parallel *parallel,
                         const struct space_move *move, const struct space_recompute *recompute)
{
    struct scan *scan = tail->scan;
    if (scan_time_decides(scan) || !scan->request->ignore_limit) return true;
    struct parallel most = *parallel;
    int stage;
    most.offload = space_moved(move, move->layers_high);
    scan_set_recompute(&most, recompute, recompute->layers_high);
    return scan_may_take(scan, 0, composer_memory(scan->composer, &most, &stage).reserved_bytes);
}

// The more layers are moved, the slower the step and the fewer need be recomputed: numbers of them
// are tried from the fewest that leave room until nothing needs to be recomputed any more, or until
// the step is too slow whatever is recomputed.
static void consider_moved(struct scan_tail *tail, const struct parallel *parallel,
                           const struct space_move *move, const struct space_recompute *recompute)
{
    struct scan *scan = tail->scan;
    if (!may_be_small(tail, parallel, move, recompute)) return;
    int first = fewest_moved(tail, parallel, move, recompute);
    for (int layers = first; layers <= move->layers_high; layers++) {
        if (!may_move(tail, parallel, move, layers, recompute)) return;
        struct parallel moved = *parallel;
        moved.offload = space_moved(move, layers);
        if (!tail_allows(scan, &moved)) continue;
        consider_layers(tail, &moved, recompute);
        scan_set_recompute(&moved, recompute, recompute->layers_low);
        if (scan_time_decides(scan) && scan_meets(scan, &moved, scan->limit_bytes)) return;
    }
}

// Whole layers of activations beside all ways to recompute.
static void consider_activations(struct scan_tail *tail, struct parallel *parallel, int m)
{
    const struct space_tail *ways = tail->ways;
    struct space_move move = ways->moves[m];
    parallel->offload = space_moved(&move, move.layers_high);
    if (floor_bytes_of(tail, parallel) > tail->scan->limit_bytes) {
        tail->scan->unfit_count +=
            tail_recompute_count(ways, m) * (move.layers_high - move.layers_low + 1);
        return;
    }
    bool is_behind = move.offload.activations == TIER_NVME && prunes(tail, parallel);
    if (is_behind && tail_twin(tail->scan, ways, m, TIER_HOST, move.offload.optimizer) >= 0)
        move.layers_low = tail_past_host(tail->scan, parallel, &move);
    for (int i = 0; i < ways->recompute_count && move.layers_low <= move.layers_high; i++) {
        if (!(ways->recomputes[i].moves >> m & 1)) continue;
        struct space_recompute recompute = ways->recomputes[i];
        int most = tail->recomputed_most[move.offload.optimizer][i];
        if (most < recompute.layers_low) continue;
        recompute.layers_high = most;
        consider_moved(tail, parallel, &move, &recompute);
    }
}

static void consider_move(struct scan_tail *tail, struct parallel *parallel, int m)
{
    const struct space_move *move = &tail->ways->moves[m];
    bool each = scan_is_exhaustive(tail->scan) && !scan_is_replayed(parallel);
    if (move->layers_high > 0 && !each) {
        consider_activations(tail, parallel, m);
        return;
    }
    for (int layers = move->layers_low; layers <= move->layers_high; layers++) {
        parallel->offload = space_moved(move, layers);
        enum settled settled = consider_recomputes(tail, parallel, m);
        // Longer tasks may end a replayed schedule a little earlier.
        bool is_sure = settled == SETTLED_SLOW || !scan_is_replayed(parallel);
        bool settles_all =
            offload_is_none(&move->offload) || (is_sure && !scan_is_exhaustive(tail->scan));
        if (settled != SETTLED_NOT && settles_all) tail->settled = move->offload.optimizer;
    }
}

// Whether states on hosts or behind them make everything too slow, whatever else is done.
static bool is_update_too_long(struct scan_tail *tail, const struct offload *offload)
{
    double update_s = tail_least_update_s(tail, offload), least_s = tail->work_s + update_s;
    if (update_s <= 0 || (scan_may_take(tail->scan, least_s, 0) && !tail_loses(tail, least_s)))
        return false;
    return tail->scan->any = true;
}

static void consider_moves(struct scan_tail *tail, const struct parallel *first)
{
    assert(tail->ways->move_count <= SPACE_MOVE_MAX);
    assert(tail->ways->recompute_count <= 2 * SPACE_VALUE_MAX);
    struct scan *scan = tail->scan;
    struct parallel parallel = *first;
    double sum = 0;
    tail->settled = TIER_COUNT;
    memset(tail->is_lost, 0, sizeof tail->is_lost);
    tail->seen = (struct refine_seen){0};
    for (int i = 0; i < TIER_COUNT * tail->ways->recompute_count; i++) {
        int way = i / TIER_COUNT;
        tail->recomputed_most[i % TIER_COUNT][way] = tail->ways->recomputes[way].layers_high;
    }
    for (int m = 0; m < tail->ways->move_count; m++) {
        enum tier states = tail->ways->moves[m].offload.optimizer;
        if (states >= tail->settled || !space_has_move(tail->ways, m)) continue;
        if (is_update_too_long(tail, &tail->ways->moves[m].offload)) {
            tail->settled = states;
            continue;
        }
        bool is_lost = tail->is_lost[states];
        bool is_over = tail->seen.floor_bytes[states] > scan->limit_bytes;
        bool asks_twin = tail->is_bounded && !is_lost && !is_over;
        int twin = asks_twin ? tail_host_twin(scan, tail->ways, &parallel, m) : -1;
        scan->unfit_count = 0;
        if (twin < 0 && !is_lost) consider_move(tail, &parallel, m);
        tail->unfit_count[m] = twin < 0 ? scan->unfit_count : tail->unfit_count[twin];
        sum += tail->unfit_count[m];
    }
    scan->unfit_count = sum;
    refine_note(scan, first, tail->ways, tail->settled, &tail->seen);
}

void tail_scan(struct scan *scan, const struct space_tail *ways, const struct parallel *even,
               const struct parallel *balanced, double work_s)
{
    assert(ways->recompute_count > 0 && ways->move_count > 0 && work_s >= 0);
    bool moves = ways->move_count > 1 || !offload_is_none(&ways->moves[0].offload);
    bool is_bounded = moves && scan_time_decides(scan) && !scan_is_exhaustive(scan);
    struct scan_tail tail = {
        .scan = scan, .ways = ways, .work_s = work_s, .is_bounded = is_bounded};
    consider_moves(&tail, even);
    double unfit_count = scan->unfit_count;
    if (balanced) {
        consider_moves(&tail, balanced);
        unfit_count = fmin(unfit_count, scan->unfit_count);
    }
    scan->result.unfit_count += unfit_count;
    if (tail.pick.found) ranking_offer(&scan->result.ranking, &tail.pick.plan);
}
