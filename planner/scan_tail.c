#include "planner/scan_tail.h"

#include "planner/pick.h"
#include "planner/refine.h"

#include <math.h>
#include <string.h>

// One tail while it is scanned.
struct tail {
    struct scan *scan;
    const struct space_tail *ways;
    struct pick pick;
    double work_s;                       // no plan takes less before its update
    bool is_bounded;                     // by time, of several places for what is moved
    enum tier settled;                   // states there and behind it leave nothing to ask
    double unfit_count[SPACE_MOVE_MAX];  // of one way to divide its stages
    // [states][way to recompute]: beside activations that are moved no more layers are recomputed,
    // since that is no faster than what was asked without
    int recomputed_most[TIER_COUNT][2 * SPACE_VALUE_MAX];
    bool is_lost[TIER_COUNT];  // of states there nothing that has room is fast
    struct refine_seen seen;
    struct candidate priced;  // the last that was
};

// Of plans of one tail; of none yet the degrees are 0.
static bool same_ways(const struct parallel *a, const struct parallel *b)
{
    return a->recompute == b->recompute && a->recompute_classes == b->recompute_classes &&
           a->recompute_layers == b->recompute_layers && a->stage_layers == b->stage_layers &&
           a->stage_layers_count == b->stage_layers_count && a->degree[0] == b->degree[0] &&
           offload_value(&a->offload) == offload_value(&b->offload);
}

static void price(struct tail *tail, struct candidate *plan)
{
    if (!same_ways(&plan->parallel, &tail->priced.parallel)) {
        tail->priced.parallel = plan->parallel;
        tail->priced.cost = composer_cost(tail->scan->composer, &plan->parallel);
    }
    tail->scan->result.priced_count++;
    plan->cost = tail->priced.cost;
    plan->closed_form_s = plan->cost.step_s;
}

static bool hosts_have_room(const struct scan *scan, const struct candidate *plan)
{
    return scan->request->ignore_limit || plan->host_short_bytes == 0;
}

static bool fits(struct scan *scan, struct candidate *plan)
{
    // Whose device has no room is not asked what its host has.
    int64_t asked_bytes = scan->request->ignore_limit ? INT64_MAX : scan->limit_bytes;
    plan->memory = composer_memory_and_hosts(scan->composer, &plan->parallel, asked_bytes,
                                             &plan->worst_stage, &plan->host_short_bytes);
    bool ok = plan->memory.reserved_bytes <= scan->limit_bytes && hosts_have_room(scan, plan);
    if (!ok) scan->unfit_count++;
    bool may = scan_time_decides(scan) || scan_may_take(scan, 0, plan->memory.reserved_bytes);
    scan->any |= ok && may;
    return ok;
}

static void take(struct tail *tail, const struct candidate *plan)
{
    struct scan *scan = tail->scan;
    scan->result.bound_s = fmin(scan->result.bound_s, plan->closed_form_s);
    pick_better(scan->request->objective, &tail->pick, plan);
}

// Whether a plan of the tail is faster whatever this one needs.
static bool loses(const struct tail *tail, double step_s)
{
    if (!tail->pick.found || !tail->is_bounded) return false;
    return step_ns(step_s) > step_ns(tail->pick.plan.cost.step_s);
}

// No update of such a plan takes less, behind all else of the step.
static double least_update_s(const struct tail *tail, const struct offload *offload)
{
    bool is_away = tail->is_bounded && offload->optimizer != TIER_DEVICE;
    return is_away ? tail->scan->host_update_s[tail->ways->zero > 0] * (1 - 1e-9) : 0;
}

static bool may_take(const struct tail *tail, double least_s)
{
    return scan_may_take(tail->scan, least_s, 0) && !loses(tail, least_s);
}

// Of several chunks a stage the order of tasks is dear to go through: their sum is asked first.
static bool is_busy(struct tail *tail, const struct parallel *parallel)
{
    if (parallel->vpp == 1 || scan_is_exhaustive(tail->scan)) return false;
    if (tail->scan->result.ranking.count == 0 && !tail->pick.found) return false;
    return !may_take(tail, composer_busiest(tail->scan->composer, parallel));
}

// Whether the plan may be among the best by time: asked of the closed form, or, where that is dear,
// of a bound below it.
static bool may_be_fast(struct tail *tail, struct candidate *plan)
{
    struct scan *scan = tail->scan;
    double least_s = 0;
    if (is_busy(tail, &plan->parallel)) {
        scan->any = true;
        return false;
    }
    if (scan_is_replayed(&plan->parallel) && !scan_is_exhaustive(scan)) {
        least_s = composer_bound(scan->composer, &plan->parallel) +
                  least_update_s(tail, &plan->parallel.offload);
    } else {
        price(tail, plan);
        least_s = plan->cost.step_s;
    }
    bool may = may_take(tail, least_s);
    scan->any |= !may;
    return may;
}

// The cheaper question first: time, unless memory is what is ranked. False where it has no room.
static bool consider(struct tail *tail, const struct parallel *parallel)
{
    struct scan *scan = tail->scan;
    struct candidate plan = {.parallel = *parallel};
    if (scan_time_decides(scan)) {
        if (!may_be_fast(tail, &plan)) return true;
        if (!fits(scan, &plan)) return false;
    } else {
        if (!fits(scan, &plan) && !scan_is_exhaustive(scan)) return false;
        if (!scan_may_take(scan, 0, plan.memory.reserved_bytes)) return true;
    }
    if (plan.memory.reserved_bytes > scan->limit_bytes || !hosts_have_room(scan, &plan))
        return false;
    if (plan.cost.step_s <= 0) price(tail, &plan);
    take(tail, &plan);
    return true;
}

// Of what is moved of a layer that is recomputed there is less to copy, so recomputing as many
// layers as are moved may be faster than recomputing fewer; the seconds are linear up to there. By
// class of operators; `low` where none is moved.
static int recomputed_and_moved(const struct parallel *parallel, int class, int low, int high)
{
    int moved = parallel->offload.layers[class];
    if (moved < 0 || moved > high) return high;
    return moved > low ? moved : low;
}

// Asked of the numbers of recomputed layers between which no other is faster.
static bool any_may_be_fast(struct tail *tail, const struct parallel *parallel, int low, int high)
{
    struct candidate plan = {.parallel = *parallel};
    plan.parallel.recompute_layers = low;
    if (may_be_fast(tail, &plan)) return true;
    int asked = low;
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        int layers = recomputed_and_moved(parallel, class, low, high);
        if (layers == asked) continue;
        asked = layers;
        plan = (struct candidate){.parallel = *parallel};
        plan.parallel.recompute_layers = layers;
        if (may_be_fast(tail, &plan)) return true;
    }
    return false;
}

// The more layers are recomputed, the slower the step and the smaller its memory, so the fewest
// that meet the limit are the best: found by halving; or as many as are moved. Exhaustive search
// asks for each number instead. Returns the most recomputed layers with which a plan that moves
// more may still be better.
static int consider_fewest(struct tail *tail, struct parallel *parallel, int low, int high)
{
    struct scan *scan = tail->scan;
    bool by_time = scan_time_decides(scan);
    struct candidate plan = {.parallel = *parallel};
    if (by_time && !any_may_be_fast(tail, parallel, low, high)) return low - 1;
    plan.parallel.recompute_layers = high;
    if (!fits(scan, &plan)) {
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
    consider(tail, parallel);
    int asked = first;
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        int layers = recomputed_and_moved(parallel, class, first, high);
        if (layers == asked) continue;
        asked = parallel->recompute_layers = layers;
        consider(tail, parallel);
    }
    return first - 1;
}

// Returns the same.
static int consider_layers(struct tail *tail, struct parallel *parallel,
                           const struct space_recompute *recompute)
{
    int low = recompute->layers_low, high = recompute->layers_high;
    scan_set_recompute(parallel, recompute, low);
    if (low < high && (!scan_is_exhaustive(tail->scan) || scan_is_replayed(parallel)))
        return consider_fewest(tail, parallel, low, high);
    int most = high;
    for (int layers = low; layers <= high; layers++) {
        parallel->recompute_layers = layers;
        if (consider(tail, parallel) && layers <= most) most = layers - 1;
    }
    return most;
}

// What is to be asked beside states in one place.
enum settled { SETTLED_NOT, SETTLED_SLOW, SETTLED_HELD };

// Whether families of plans may be left out, which an exhaustive search goes through; longer tasks
// may end a replayed schedule a little earlier.
static bool prunes(const struct tail *tail, const struct parallel *parallel)
{
    return tail->is_bounded && !scan_is_replayed(parallel);
}

// Whether what has no room with everything kept is too slow however room is made. Asked first as if
// layers were as large as can be, and then of the commonest as they are.
static bool is_too_pressed(struct tail *tail, const struct candidate *kept)
{
    struct scan *scan = tail->scan;
    const struct offload *offload = &kept->parallel.offload;
    bool moves_more = offload_moves_parameters(offload) || offload_moves_gradients(offload);
    if (!tail->is_bounded || moves_more) return false;
    double update_s = scan_is_replayed(&kept->parallel) ? least_update_s(tail, offload) : 0;
    if (may_take(tail, tail_pressed_s(scan, tail->ways, kept, false) + update_s) &&
        may_take(tail, tail_pressed_s(scan, tail->ways, kept, true) + update_s))
        return false;
    // NVMe is no faster than the host, and spares the device no more.
    if (offload->optimizer == TIER_HOST) tail->is_lost[TIER_NVME] = true;
    scan->any = tail->is_lost[offload->optimizer] = true;
    return true;
}

// What keeps everything stands first and is the fastest of those that have the states where it has
// them: where it fits, or is too slow already, nothing else of them has to be lowered. Updates of
// states on the device are short: there its memory is asked before its price.
static enum settled settles(struct tail *tail, const struct parallel *parallel)
{
    struct scan *scan = tail->scan;
    struct candidate plan = {.parallel = *parallel};
    enum tier states = parallel->offload.optimizer;
    bool is_weighed = prunes(tail, parallel) && states == TIER_DEVICE;
    bool has_room = is_weighed && fits(scan, &plan);
    scan->pressed |= is_weighed && !has_room;
    if (is_weighed && !has_room && is_too_pressed(tail, &plan)) return SETTLED_NOT;
    if (!may_be_fast(tail, &plan)) return SETTLED_SLOW;
    if (!is_weighed) has_room = fits(scan, &plan);
    if (!has_room) {
        scan->pressed = true;
        tail->seen.kept_s[states] = plan.cost.step_s;
        if (!is_weighed) (void)is_too_pressed(tail, &plan);
        return SETTLED_NOT;
    }
    if (plan.cost.step_s <= 0) price(tail, &plan);
    take(tail, &plan);
    return SETTLED_HELD;
}

// What is stored whatever is recomputed or moved of activations hangs on where states are.
static int64_t floor_bytes_of(struct tail *tail, const struct parallel *parallel)
{
    int64_t *bytes = &tail->seen.floor_bytes[parallel->offload.optimizer];
    if (*bytes <= 0) *bytes = composer_floor_bytes(tail->scan->composer, parallel);
    return *bytes;
}

// All ways to recompute beside the move, which moves no activations or so many layers.
static enum settled consider_recomputes(struct tail *tail, struct parallel *parallel, int move)
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
    enum settled settled = asked ? settles(tail, parallel) : SETTLED_NOT;
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
static bool may_move(struct tail *tail, const struct parallel *parallel,
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
static int fewest_moved(struct tail *tail, const struct parallel *like,
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
static bool may_be_small(struct tail *tail, const struct parallel *parallel,
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
static void consider_moved(struct tail *tail, const struct parallel *parallel,
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
static void consider_activations(struct tail *tail, struct parallel *parallel, int m)
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

static void consider_move(struct tail *tail, struct parallel *parallel, int m)
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
static bool is_update_too_long(struct tail *tail, const struct offload *offload)
{
    double update_s = least_update_s(tail, offload), least_s = tail->work_s + update_s;
    if (update_s <= 0 || (scan_may_take(tail->scan, least_s, 0) && !loses(tail, least_s)))
        return false;
    return tail->scan->any = true;
}

static void consider_moves(struct tail *tail, const struct parallel *first)
{
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
    bool is_bounded = ways->move_count > 1 && scan_time_decides(scan) && !scan_is_exhaustive(scan);
    struct tail tail = {.scan = scan, .ways = ways, .work_s = work_s, .is_bounded = is_bounded};
    consider_moves(&tail, even);
    double unfit_count = scan->unfit_count;
    if (balanced) {
        consider_moves(&tail, balanced);
        unfit_count = fmin(unfit_count, scan->unfit_count);
    }
    scan->result.unfit_count += unfit_count;
    if (tail.pick.found) ranking_offer(&scan->result.ranking, &tail.pick.plan);
}
