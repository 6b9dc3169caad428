#include "planner/scan_plan.h"

#include <assert.h>
#include <math.h>

// Of plans of one tail; of none yet the degrees are 0.
static bool same_ways(const struct parallel *a, const struct parallel *b)
{
    return a->recompute == b->recompute && a->recompute_classes == b->recompute_classes &&
           a->recompute_layers == b->recompute_layers && a->stage_layers == b->stage_layers &&
           a->stage_layers_count == b->stage_layers_count && a->degree[0] == b->degree[0] &&
           offload_value(&a->offload) == offload_value(&b->offload);
}

void tail_price(struct scan_tail *tail, struct candidate *plan)
{
    if (!same_ways(&plan->parallel, &tail->priced.parallel)) {
        tail->priced.parallel = plan->parallel;
        tail->priced.cost = composer_cost(tail->scan->composer, &plan->parallel);
    }
    tail->scan->result.priced_count++;
    plan->cost = tail->priced.cost;
    assert(plan->cost.step_s > 0);
    plan->closed_form_s = plan->cost.step_s;
}

static bool hosts_have_room(const struct scan *scan, const struct candidate *plan)
{
    return scan->request->ignore_limit || plan->host_short_bytes == 0;
}

bool tail_fits(struct scan *scan, struct candidate *plan)
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

void tail_take(struct scan_tail *tail, const struct candidate *plan)
{
    assert(plan->closed_form_s > 0 && plan->memory.reserved_bytes > 0);
    struct scan *scan = tail->scan;
    scan->result.bound_s = fmin(scan->result.bound_s, plan->closed_form_s);
    pick_better(scan->request->objective, &tail->pick, plan);
}

bool tail_loses(const struct scan_tail *tail, double step_s)
{
    if (!tail->pick.found || !tail->is_bounded) return false;
    return step_ns(step_s) > step_ns(tail->pick.plan.cost.step_s);
}

double tail_least_update_s(const struct scan_tail *tail, const struct offload *offload)
{
    bool is_away = tail->is_bounded && offload->optimizer != TIER_DEVICE;
    return is_away ? tail->scan->host_update_s[tail->ways->zero > 0] * (1 - 1e-9) : 0;
}

bool tail_may_take(const struct scan_tail *tail, double least_s)
{
    return scan_may_take(tail->scan, least_s, 0) && !tail_loses(tail, least_s);
}

// Of several chunks a stage the order of tasks is dear to go through: their sum is asked first.
static bool is_busy(struct scan_tail *tail, const struct parallel *parallel)
{
    if (parallel->vpp == 1 || scan_is_exhaustive(tail->scan)) return false;
    if (tail->scan->result.ranking.count == 0 && !tail->pick.found) return false;
    return !tail_may_take(tail, composer_busiest(tail->scan->composer, parallel));
}

// Of layers that are recomputed only the commonest are lowered to say so.
static bool is_outdone(struct scan_tail *tail, const struct parallel *parallel)
{
    struct scan *scan = tail->scan;
    if (parallel->recompute == RECOMPUTE_NONE || scan_is_exhaustive(scan)) return false;
    if (scan->result.ranking.count == 0 && !tail->pick.found) return false;
    if (!scan->saturated || composer_knows(scan->composer, parallel)) return false;
    const struct saturated *commonest = scan->saturated[scan->probe_kind];
    scan->saturated[scan->probe_kind] = NULL;
    double least_s = composer_guessed(scan->composer, parallel, scan->saturated);
    scan->saturated[scan->probe_kind] = commonest;
    if (scan_is_replayed(parallel)) least_s += tail_least_update_s(tail, &parallel->offload);
    return !tail_may_take(tail, least_s);
}

bool tail_may_be_fast(struct scan_tail *tail, struct candidate *plan)
{
    struct scan *scan = tail->scan;
    double least_s = 0;
    if (is_outdone(tail, &plan->parallel) || is_busy(tail, &plan->parallel)) {
        scan->any = true;
        return false;
    }
    if (scan_is_replayed(&plan->parallel) && !scan_is_exhaustive(scan)) {
        least_s = composer_bound(scan->composer, &plan->parallel) +
                  tail_least_update_s(tail, &plan->parallel.offload);
    } else {
        tail_price(tail, plan);
        least_s = plan->cost.step_s;
    }
    bool may = tail_may_take(tail, least_s);
    scan->any |= !may;
    return may;
}

// The cheaper question first: time, unless memory is what is ranked.
bool tail_consider(struct scan_tail *tail, const struct parallel *parallel)
{
    struct scan *scan = tail->scan;
    struct candidate plan = {.parallel = *parallel};
    if (scan_time_decides(scan)) {
        if (!tail_may_be_fast(tail, &plan)) return true;
        if (!tail_fits(scan, &plan)) return false;
    } else {
        if (!tail_fits(scan, &plan) && !scan_is_exhaustive(scan)) return false;
        if (!scan_may_take(scan, 0, plan.memory.reserved_bytes)) return true;
    }
    if (plan.memory.reserved_bytes > scan->limit_bytes || !hosts_have_room(scan, &plan))
        return false;
    if (plan.cost.step_s <= 0) tail_price(tail, &plan);
    tail_take(tail, &plan);
    return true;
}
