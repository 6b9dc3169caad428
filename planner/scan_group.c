#include "planner/scan_group.h"

#include "planner/pick.h"
#include "planner/refine.h"

#include <math.h>

static bool is_exhaustive(const struct scan *scan)
{
    return scan->request->search->exhaustive;
}

// Where W stands apart the closed form replays the schedule, which takes longer, and, as of any
// list schedule, longer tasks may end it a little earlier (Graham 1969). There nothing is
// recomputed that has room, and of whole layers the fewest that meet the limit: that is what the
// space means by a tail.
static bool is_replayed(const struct parallel *parallel)
{
    return !schedule_row(parallel->schedule)->backward_fused;
}

bool scan_may_take(const struct scan *scan, double step_s, int64_t reserved_bytes)
{
    double below_s = scan->request->search->below_s;
    if (below_s > 0 && step_s >= below_s) return false;
    return is_exhaustive(scan) || ranking_may_take(&scan->result.ranking, step_s, reserved_bytes);
}

static void price(struct scan *scan, struct candidate *plan)
{
    plan->cost = composer_cost(scan->composer, &plan->parallel);
    plan->closed_form_s = plan->cost.step_s;
    scan->result.priced_count++;
}

static bool time_decides(const struct scan *scan)
{
    return scan->request->objective != OBJECTIVE_MEMORY;
}

static bool hosts_have_room(const struct scan *scan, const struct candidate *plan)
{
    return scan->request->ignore_limit || plan->host_short_bytes == 0;
}

static bool fits(struct scan *scan, struct candidate *plan)
{
    plan->memory = composer_memory(scan->composer, &plan->parallel, &plan->worst_stage);
    plan->host_short_bytes = composer_host_shortfall(scan->composer, &plan->parallel);
    bool ok = plan->memory.reserved_bytes <= scan->limit_bytes && hosts_have_room(scan, plan);
    if (!ok) scan->unfit_count++;
    bool may = time_decides(scan) || scan_may_take(scan, 0, plan->memory.reserved_bytes);
    scan->any |= ok && may;
    return ok;
}

static void take(struct scan *scan, const struct candidate *plan, struct pick *pick)
{
    scan->result.bound_s = fmin(scan->result.bound_s, plan->closed_form_s);
    pick_better(scan->request->objective, pick, plan);
}

// Whether the plan may be among the best by time: asked of the closed form, or, where that is dear,
// of a bound below it.
static bool may_be_fast(struct scan *scan, struct candidate *plan)
{
    bool may = false;
    if (is_replayed(&plan->parallel) && !is_exhaustive(scan)) {
        may = scan_may_take(scan, composer_bound(scan->composer, &plan->parallel), 0);
    } else {
        price(scan, plan);
        may = scan_may_take(scan, plan->cost.step_s, 0);
    }
    scan->any |= !may;
    return may;
}

// The cheaper question first: time, unless memory is what is ranked.
static void consider(struct scan *scan, const struct parallel *parallel, struct pick *pick)
{
    struct candidate plan = {.parallel = *parallel};
    if (time_decides(scan)) {
        if (!may_be_fast(scan, &plan) || !fits(scan, &plan)) return;
    } else {
        if (!fits(scan, &plan) && !is_exhaustive(scan)) return;
        if (!scan_may_take(scan, 0, plan.memory.reserved_bytes)) return;
    }
    if (plan.memory.reserved_bytes > scan->limit_bytes || !hosts_have_room(scan, &plan)) return;
    if (plan.cost.step_s <= 0) price(scan, &plan);
    take(scan, &plan, pick);
}

// Neither device nor host holds more with more layers recomputed.
static bool meets(struct scan *scan, const struct parallel *parallel, int64_t limit_bytes)
{
    if (!composer_meets(scan->composer, parallel, limit_bytes)) return false;
    return scan->request->ignore_limit || composer_host_shortfall(scan->composer, parallel) == 0;
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
static bool any_may_be_fast(struct scan *scan, const struct parallel *parallel, int low, int high)
{
    struct candidate plan = {.parallel = *parallel};
    plan.parallel.recompute_layers = low;
    if (may_be_fast(scan, &plan)) return true;
    int asked = low;
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        int layers = recomputed_and_moved(parallel, class, low, high);
        if (layers == asked) continue;
        asked = layers;
        plan = (struct candidate){.parallel = *parallel};
        plan.parallel.recompute_layers = layers;
        if (may_be_fast(scan, &plan)) return true;
    }
    return false;
}

// The more layers are recomputed, the slower the step and the smaller its memory, so the fewest
// that meet the limit are the best: found by halving; or as many as are moved. Exhaustive search
// asks for each number instead.
static void consider_fewest(struct scan *scan, struct parallel *parallel, int low, int high,
                            struct pick *pick)
{
    struct candidate plan = {.parallel = *parallel};
    if (time_decides(scan) && !any_may_be_fast(scan, parallel, low, high)) return;
    plan.parallel.recompute_layers = high;
    if (!fits(scan, &plan)) {
        scan->unfit_count += high - low;
        return;
    }
    int64_t limit_bytes = time_decides(scan) ? scan->limit_bytes : plan.memory.reserved_bytes;
    int first = low, meeting = high;
    while (first < meeting) {
        int middle = first + (meeting - first) / 2;
        parallel->recompute_layers = middle;
        if (meets(scan, parallel, limit_bytes)) {
            meeting = middle;
        } else {
            first = middle + 1;
        }
    }
    scan->unfit_count += first - low;
    parallel->recompute_layers = first;
    consider(scan, parallel, pick);
    int asked = first;
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        int layers = recomputed_and_moved(parallel, class, first, high);
        if (layers == asked) continue;
        asked = parallel->recompute_layers = layers;
        consider(scan, parallel, pick);
    }
}

static void set_recompute(struct parallel *parallel, const struct space_recompute *recompute,
                          int layers)
{
    parallel->recompute = recompute->recompute;
    parallel->recompute_classes = recompute->classes;
    parallel->recompute_layers = layers;
}

static void consider_layers(struct scan *scan, struct parallel *parallel,
                            const struct space_recompute *recompute, struct pick *pick)
{
    int low = recompute->layers_low, high = recompute->layers_high;
    set_recompute(parallel, recompute, low);
    if (low < high && (!is_exhaustive(scan) || is_replayed(parallel))) {
        consider_fewest(scan, parallel, low, high, pick);
        return;
    }
    for (int layers = low; layers <= high; layers++) {
        parallel->recompute_layers = layers;
        consider(scan, parallel, pick);
    }
}

// What keeps everything stands first and is the fastest of the tail: where it fits, or is too slow
// already, nothing else has to be lowered.
static bool settles(struct scan *scan, const struct parallel *parallel, struct pick *pick)
{
    struct candidate plan = {.parallel = *parallel};
    if (!may_be_fast(scan, &plan)) return true;
    bool slower = pick->found && plan.cost.step_s > pick->plan.cost.step_s;
    if (slower && !is_replayed(parallel)) return true;
    if (!fits(scan, &plan)) {
        scan->pressed = true;
        return false;
    }
    if (plan.cost.step_s <= 0) price(scan, &plan);
    take(scan, &plan, pick);
    return true;
}

static double recompute_plan_count(const struct space_tail *tail, unsigned move)
{
    double count = 0;
    for (int i = 0; i < tail->recompute_count; i++) {
        if (tail->recomputes[i].moves & move)
            count += tail->recomputes[i].layers_high - tail->recomputes[i].layers_low + 1;
    }
    return count;
}

static bool is_allowed(const struct scan *scan, const struct parallel *parallel)
{
    int64_t value = offload_value(&parallel->offload);
    return pins_allow(&scan->request->search->pins, CHOICE_OFFLOAD, value);
}

// All ways to recompute beside one choice of what is moved, `move` its bit. Returns whether nothing
// else that is moved can be better.
static bool consider_recomputes(struct scan *scan, struct parallel *parallel,
                                const struct space_tail *tail, unsigned move, struct pick *pick)
{
    if (!is_allowed(scan, parallel)) return false;
    set_recompute(parallel, &tail->recomputes[0], tail->recomputes[0].layers_low);
    int64_t floor_bytes = is_exhaustive(scan) ? 0 : composer_floor_bytes(scan->composer, parallel);
    if (floor_bytes > scan->limit_bytes) {
        scan->pressed = true;
        scan->unfit_count += recompute_plan_count(tail, move);
        return false;
    }
    if (!time_decides(scan) && !scan_may_take(scan, 0, floor_bytes)) return false;
    bool keeps_all = parallel->recompute == RECOMPUTE_NONE && tail->recomputes[0].moves & move;
    // Of moved layers there is less to copy where they are recomputed.
    const struct offload *offload = &parallel->offload;
    bool is_fastest =
        keeps_all && !offload_moves_activations(offload) && !offload_moves_parameters(offload);
    bool asked =
        is_fastest && time_decides(scan) && (!is_exhaustive(scan) || is_replayed(parallel));
    if (asked && settles(scan, parallel, pick)) return true;
    scan->pressed |= !asked;
    for (int i = asked; i < tail->recompute_count; i++) {
        if (tail->recomputes[i].moves & move)
            consider_layers(scan, parallel, &tail->recomputes[i], pick);
    }
    return false;
}

static bool holds_moved(struct scan *scan, struct parallel *parallel, const struct space_move *move,
                        int layers)
{
    parallel->offload = space_moved(move, layers);
    return composer_meets(scan->composer, parallel, scan->limit_bytes);
}

// The fewest moved layers with which the device has room beside the most that are recomputed; past
// `high` where there are none. A device never holds more with more layers moved.
static int fewest_moved(struct scan *scan, struct parallel *parallel, const struct space_move *move)
{
    int first = move->layers_low, high = move->layers_high;
    if (!holds_moved(scan, parallel, move, high)) return high + 1;
    while (first < high) {
        int middle = first + (high - first) / 2;
        if (holds_moved(scan, parallel, move, middle)) {
            high = middle;
        } else {
            first = middle + 1;
        }
    }
    return first;
}

// The more layers are moved, the slower the step and the fewer need be recomputed: numbers of them
// are tried from the fewest that leave room until nothing needs to be recomputed any more, or until
// the step is too slow whatever is recomputed.
static void consider_moved(struct scan *scan, struct parallel *parallel,
                           const struct space_move *move, const struct space_recompute *recompute,
                           struct pick *pick)
{
    parallel->offload = space_moved(move, move->layers_low);
    set_recompute(parallel, recompute, recompute->layers_low);
    if (time_decides(scan) &&
        !any_may_be_fast(scan, parallel, recompute->layers_low, recompute->layers_high))
        return;
    set_recompute(parallel, recompute, recompute->layers_high);
    int first = fewest_moved(scan, parallel, move);
    scan->unfit_count +=
        (double)(first - move->layers_low) * (recompute->layers_high - recompute->layers_low + 1);
    for (int layers = first; layers <= move->layers_high; layers++) {
        struct candidate plan = {.parallel = *parallel};
        plan.parallel.offload = space_moved(move, layers);
        set_recompute(&plan.parallel, recompute, recompute->layers_low);
        if (time_decides(scan) &&
            !any_may_be_fast(scan, &plan.parallel, recompute->layers_low, recompute->layers_high))
            return;
        if (!is_allowed(scan, &plan.parallel)) continue;
        consider_layers(scan, &plan.parallel, recompute, pick);
        set_recompute(&plan.parallel, recompute, recompute->layers_low);
        if (time_decides(scan) && meets(scan, &plan.parallel, scan->limit_bytes)) return;
    }
}

static void consider_moves(struct scan *scan, struct parallel *parallel,
                           const struct space_tail *tail, struct pick *pick)
{
    for (int m = 0; m < tail->move_count; m++) {
        const struct space_move *move = &tail->moves[m];
        bool each = is_exhaustive(scan) && !is_replayed(parallel);
        if (move->layers_high == 0 || each) {
            for (int layers = move->layers_low; layers <= move->layers_high; layers++) {
                parallel->offload = space_moved(move, layers);
                bool settled = consider_recomputes(scan, parallel, tail, 1u << m, pick);
                if (settled && offload_is_none(&move->offload)) return;
            }
            continue;
        }
        // What is stored whatever is recomputed or moved of activations bounds them all.
        parallel->offload = space_moved(move, move->layers_high);
        if (composer_floor_bytes(scan->composer, parallel) > scan->limit_bytes) {
            scan->unfit_count +=
                recompute_plan_count(tail, 1u << m) * (move->layers_high - move->layers_low + 1);
            continue;
        }
        for (int i = 0; i < tail->recompute_count; i++) {
            if (tail->recomputes[i].moves >> m & 1)
                consider_moved(scan, parallel, move, &tail->recomputes[i], pick);
        }
    }
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
                      const struct space_tail *tail)
{
    struct parallel parallel = space_first(scan->space, group->group, tail);
    struct pick pick = {0};
    scan->unfit_count = 0;
    consider_moves(scan, &parallel, tail, &pick);
    refine_note(scan, &parallel, tail);
    double unfit_count = scan->unfit_count;
    if (take_balance(&parallel, group->balance)) {
        scan->unfit_count = 0;
        consider_moves(scan, &parallel, tail, &pick);
        refine_note(scan, &parallel, tail);
        unfit_count = fmin(unfit_count, scan->unfit_count);
    }
    scan->result.unfit_count += unfit_count;
    if (pick.found) ranking_offer(&scan->result.ranking, &pick.plan);
}

// The plan whose blocks every plan of the group is at least as slow as: of ZeRO what communicates
// least, and nothing recomputed unless all that the group has is one way to recompute.
static struct parallel lightest(const struct scan *scan, const struct scan_group *group,
                                const struct space_tail *like)
{
    static const struct space_recompute NONE = {RECOMPUTE_NONE, 0, -1, -1, 0};
    const struct space_recompute *recompute = &like->recomputes[0];
    struct space_tail tail = *like;
    tail.zero = group->tails->zero_least;
    bool forced = group->tails->recomputes && scan->space->recomputes.count == 1;
    if (!forced) recompute = &NONE;
    return space_parallel(scan->space, group->group, &tail, recompute, recompute->layers_low);
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
    set_recompute(parallel, &tail->recomputes[0], tail->recomputes[0].layers_low);
    bool keeps_all = parallel->recompute == RECOMPUTE_NONE;
    if (keeps_all && meets(scan, parallel, scan->limit_bytes)) return true;
    for (int i = tail->recompute_count - 1; i >= 0; i--) {
        set_recompute(parallel, &tail->recomputes[i], tail->recomputes[i].layers_high);
        if (meets(scan, parallel, scan->limit_bytes)) return true;
    }
    return false;
}

// Of tails that differ in ZeRO alone the one that shards most needs least; where something is moved
// off the device all are taken to have room.
bool group_has_room(struct scan *scan, const struct scan_group *group)
{
    const struct space_tails *tails = group->tails;
    if (tails->moves_states || tails->moves_activations) return true;
    for (int i = 0; i < tails->count; i++) {
        const struct space_tail *tail = &tails->tails[i];
        if (i + 1 < tails->count && same_pipeline(tail, tail + 1) && tail->zero < tail[1].zero)
            continue;
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

void group_scan(struct scan *scan, struct scan_group *group)
{
    const struct space_tail *tails = group->tails->tails;
    bool bounded = !is_exhaustive(scan) && time_decides(scan);
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
        if (may) scan_tail(scan, group, &tails[i]);
    }
    group->pressed |= scan->pressed;
}
