#include "planner/scan.h"

#include "core/progress.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scan_group {
    const struct space_group *group;
    struct space_tail *tails;
    int tail_count;
    double bound_s;
    int ordinal;  // breaks ties
};

struct scan {
    struct arena *arena, *scratch;
    const struct scan_request *request;
    struct space *space;
    struct composer *composer;
    struct scan_group *groups;
    int group_count;
    int64_t limit_bytes;
    double unfit_count;  // plans of the tail at hand, in one way to divide its stages
    struct scan_result result;
    double progress_s, start_s;
};

// The best plan of one tail.
struct pick {
    struct candidate plan;
    bool found;
};

static void pick_better(const struct scan *scan, struct pick *pick, const struct candidate *plan)
{
    enum objective objective = scan->request->objective;
    if (pick->found && candidate_compare(objective, plan, &pick->plan) >= 0) return;
    pick->plan = *plan;
    pick->found = true;
}

static void price(struct scan *scan, struct candidate *plan)
{
    plan->cost = composer_cost(scan->composer, &plan->parallel);
    plan->closed_form_s = plan->cost.step_s;
    scan->result.priced_count++;
}

static bool fits(struct scan *scan, struct candidate *plan)
{
    plan->memory = composer_memory(scan->composer, &plan->parallel, &plan->worst_stage);
    bool ok = plan->memory.reserved_bytes <= scan->limit_bytes;
    if (!ok) scan->unfit_count++;
    return ok;
}

static bool may_take(const struct scan *scan, double step_s, int64_t reserved_bytes)
{
    return scan->request->search->exhaustive ||
           ranking_may_take(&scan->result.ranking, step_s, reserved_bytes);
}

// The cheaper question first: time, unless memory is what is ranked.
static void consider(struct scan *scan, const struct parallel *parallel, struct pick *pick)
{
    struct candidate plan = {.parallel = *parallel};
    if (scan->request->objective == OBJECTIVE_MEMORY) {
        if (!fits(scan, &plan) && !scan->request->search->exhaustive) return;
        if (!may_take(scan, 0, plan.memory.reserved_bytes)) return;
        price(scan, &plan);
    } else {
        price(scan, &plan);
        if (!may_take(scan, plan.cost.step_s, 0) || !fits(scan, &plan)) return;
    }
    if (plan.memory.reserved_bytes > scan->limit_bytes) return;
    scan->result.bound_s = fmin(scan->result.bound_s, plan.closed_form_s);
    pick_better(scan, pick, &plan);
}

// The more layers are redone, the slower the step and the smaller its memory, so the fewest that
// meet the limit are the best: found by halving. Exhaustive search asks for each number instead.
static void consider_fewest(struct scan *scan, struct parallel *parallel, int low, int high,
                            struct pick *pick)
{
    struct candidate plan = {.parallel = *parallel};
    plan.parallel.recompute_layers = low;
    if (scan->request->objective != OBJECTIVE_MEMORY) {
        price(scan, &plan);
        if (!may_take(scan, plan.cost.step_s, 0)) return;
    }
    plan.parallel.recompute_layers = high;
    if (!fits(scan, &plan)) {
        scan->unfit_count += high - low;
        return;
    }
    int64_t limit_bytes = scan->limit_bytes;
    if (scan->request->objective == OBJECTIVE_MEMORY) limit_bytes = plan.memory.reserved_bytes;
    int first = low;
    while (first < high) {
        int stage, middle = first + (high - first) / 2;
        parallel->recompute_layers = middle;
        struct memory_parts parts = composer_memory(scan->composer, parallel, &stage);
        if (parts.reserved_bytes <= limit_bytes) {
            high = middle;
        } else {
            first = middle + 1;
        }
    }
    scan->unfit_count += first - low;
    parallel->recompute_layers = first;
    consider(scan, parallel, pick);
}

static void consider_layers(struct scan *scan, struct parallel *parallel,
                            const struct space_tail *tail, struct pick *pick)
{
    int low = tail->layers_low, high = tail->layers_high;
    if (low < high && !scan->request->search->exhaustive) {
        consider_fewest(scan, parallel, low, high, pick);
        return;
    }
    for (int layers = low; layers <= high; layers++) {
        parallel->recompute_layers = layers;
        consider(scan, parallel, pick);
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
                      const struct space_tail *tail, const int *balance)
{
    struct parallel parallel = space_parallel(scan->space, group->group, tail, tail->layers_low);
    struct pick pick = {0};
    scan->unfit_count = 0;
    consider_layers(scan, &parallel, tail, &pick);
    double unfit_count = scan->unfit_count;
    if (take_balance(&parallel, balance)) {
        scan->unfit_count = 0;
        consider_layers(scan, &parallel, tail, &pick);
        unfit_count = fmin(unfit_count, scan->unfit_count);
    }
    scan->result.unfit_count += unfit_count;
    if (pick.found) ranking_offer(&scan->result.ranking, &pick.plan);
}

// The plan whose blocks every plan of the group is at least as slow as: the least recompute, and of
// ZeRO what communicates least.
static struct parallel lightest(const struct scan *scan, const struct scan_group *group,
                                const struct space_tail *like)
{
    struct space_tail tail = *like;
    for (int i = 0; i < group->tail_count; i++) {
        if (group->tails[i].recompute < tail.recompute) tail.recompute = group->tails[i].recompute;
        if (group->tails[i].zero < tail.zero) tail.zero = group->tails[i].zero;
    }
    return space_parallel(scan->space, group->group, &tail, tail.layers_low);
}

// Balanced stages are searched where nobody pinned them.
static const int *balance_of(struct scan *scan, const struct scan_group *group)
{
    struct parallel parallel = lightest(scan, group, &group->tails[0]);
    if (parallel.degree[AXIS_PP] == 1 || parallel.stage_layers_count > 0) return NULL;
    return composer_balance(scan->composer, &parallel);
}

static void enter_group(struct scan *scan, const struct scan_group *group)
{
    struct parallel parallel =
        space_parallel(scan->space, group->group, &group->tails[0], group->tails[0].layers_low);
    composer_group(scan->composer, &parallel);
}

static void scan_group(struct scan *scan, const struct scan_group *group)
{
    enter_group(scan, group);
    const int *balance = balance_of(scan, group);
    for (int i = 0; i < group->tail_count; i++) {
        scan_tail(scan, group, &group->tails[i], balance);
    }
}

static bool same_pipeline(const struct space_tail *a, const struct space_tail *b)
{
    return a->vpp == b->vpp && a->schedule == b->schedule;
}

// The fastest pipeline of the group, with even or balanced stages, its lightest blocks, and nothing
// once a step.
static double group_bound(struct scan *scan, const struct scan_group *group, const int *balance)
{
    double bound_s = INFINITY;
    for (int i = 0; i < group->tail_count; i++) {
        const struct space_tail *tail = &group->tails[i];
        if (i > 0 && same_pipeline(tail, tail - 1)) continue;
        struct parallel parallel = lightest(scan, group, tail);
        if (parallel.recompute != RECOMPUTE_NONE && parallel.recompute_layers < 0) {
            parallel.recompute_layers = 0;  // of partial recompute the fewest layers
        }
        bound_s = fmin(bound_s, composer_bound(scan->composer, &parallel));
        if (!take_balance(&parallel, balance)) continue;
        bound_s = fmin(bound_s, composer_bound(scan->composer, &parallel));
    }
    return bound_s;
}

// Whether any plan of the group fits. Between none and all layers memory lies between the two, so
// the ends of a tail's range answer for it.
static bool group_fits(struct scan *scan, const struct scan_group *group, const int *balance)
{
    for (int i = group->tail_count - 1; i >= 0; i--) {
        const struct space_tail *tail = &group->tails[i];
        struct parallel parallel =
            space_parallel(scan->space, group->group, tail, tail->layers_high);
        do {
            int stage;
            struct memory_parts parts = composer_memory(scan->composer, &parallel, &stage);
            if (parts.reserved_bytes <= scan->limit_bytes) return true;
        } while (parallel.stage_layers != balance && take_balance(&parallel, balance));
    }
    return false;
}

static void add_group(struct scan *scan, const struct space_group *group)
{
    struct arena_mark mark = arena_mark(scan->scratch);
    struct space_tail *tails = NULL;
    int capacity = 0;
    int count =
        space_tails(scan->scratch, scan->space, &scan->request->graphs, group, &tails, &capacity);
    if (count > 0) {
        struct scan_group *added = &scan->groups[scan->group_count];
        *added = (struct scan_group){
            .group = group, .tail_count = count, .ordinal = scan->group_count++};
        added->tails = ARENA_NEW(scan->arena, struct space_tail, count);
        memcpy(added->tails, tails, (size_t)count * sizeof *tails);
        for (int i = 0; i < count; i++) {
            scan->result.considered_count += space_tail_count(&tails[i]);
        }
    }
    arena_reset(scan->scratch, mark);
}

static double plan_count(const struct scan_group *group)
{
    double count = 0;
    for (int i = 0; i < group->tail_count; i++) {
        count += space_tail_count(&group->tails[i]);
    }
    return count;
}

static bool same_family(const struct space_group *a, const struct space_group *b)
{
    return a->mesh == b->mesh && a->attention == b->attention && a->sp == b->sp;
}

// Memory first: a larger micro-batch never needs less, so the groups of a family (which stand in
// ascending order) are dropped from the first on that has no room.
static int drop_unfit(struct scan *scan)
{
    int kept = 0;
    const struct space_group *full = NULL;
    for (int i = 0; i < scan->group_count; i++) {
        struct scan_group group = scan->groups[i];
        const int *balance = NULL;
        bool unfit = full && same_family(full, group.group);
        if (!unfit) {
            enter_group(scan, &group);
            balance = balance_of(scan, &group);
            unfit = !group_fits(scan, &group, balance);
            if (unfit) full = group.group;
        }
        if (unfit) {
            scan->result.unfit_count += plan_count(&group);
            continue;
        }
        group.bound_s = group_bound(scan, &group, balance);
        scan->result.bound_s = fmin(scan->result.bound_s, group.bound_s);
        scan->groups[kept++] = group;
    }
    return kept;
}

static int by_bound(const void *left, const void *right)
{
    const struct scan_group *a = left, *b = right;
    if (a->bound_s != b->bound_s) return a->bound_s < b->bound_s ? -1 : 1;
    return (a->ordinal > b->ordinal) - (a->ordinal < b->ordinal);
}

// At most five times a second.
static void report_progress(struct scan *scan, int done)
{
    const struct search_request *search = scan->request->search;
    if (!search->progress) return;
    double now_s = clock_s();
    if (now_s - scan->progress_s < 0.2) return;
    const struct ranking *ranking = &scan->result.ranking;
    double best_s = ranking->count > 0 ? ranking->items[0].cost.step_s : 0;
    double elapsed_s = now_s - scan->start_s;
    search->progress(search->progress_context, (double)done / scan->group_count, best_s,
                     elapsed_s > 0 ? scan->result.priced_count / elapsed_s : 0);
    scan->progress_s = now_s;
}

struct scan_result scan_space(struct arena *arena, struct arena *scratch,
                              const struct scan_request *request)
{
    struct scan scan = {
        .arena = arena, .scratch = scratch, .request = request, .space = request->space};
    scan.start_s = scan.progress_s = clock_s();
    scan.limit_bytes =
        request->ignore_limit ? INT64_MAX : cluster_device_bytes(request->search->cluster);
    scan.composer = composer_new(arena, scratch, request->memo);
    scan.result.ranking = ranking_new(arena, request->objective, request->keep);
    scan.groups = ARENA_NEW(arena, struct scan_group, request->space->group_count);
    for (int i = 0; i < request->space->group_count; i++) {
        add_group(&scan, &request->space->groups[i]);
    }
    scan.result.bound_s = INFINITY;
    bool pruned = !request->search->exhaustive;
    int count = pruned ? drop_unfit(&scan) : scan.group_count;
    if (pruned) qsort(scan.groups, (size_t)count, sizeof *scan.groups, by_bound);
    for (int i = 0; i < count; i++) {
        report_progress(&scan, i);
        bool time_decides = request->objective != OBJECTIVE_MEMORY;
        if (time_decides && !may_take(&scan, scan.groups[i].bound_s, 0)) break;
        scan_group(&scan, &scan.groups[i]);
    }
    return scan.result;
}

struct candidate candidate_copy(struct arena *arena, const struct candidate *plan)
{
    struct candidate copy = *plan;
    int count = plan->parallel.stage_layers_count;
    if (count == 0) return copy;
    int *layers = ARENA_NEW(arena, int, count);
    memcpy(layers, plan->parallel.stage_layers, (size_t)count * sizeof *layers);
    copy.parallel.stage_layers = layers;
    return copy;
}

bool scan_best(struct arena *arena, const struct search_request *request, struct candidate *best)
{
    struct arena work = {0}, scratch = {0};
    struct search_request quiet = *request;
    quiet.progress = NULL;
    struct scan_request scan = {.search = &quiet, .keep = 1, .objective = request->objective};
    scan.memo = memo_new(&work, &scratch, &quiet);
    scan.graphs = (struct space_graphs){memo_graph_of, scan.memo};
    scan.space = space_make(&work, &quiet, &scan.graphs);
    struct scan_result result = scan_space(&work, &scratch, &scan);
    bool found = result.ranking.count > 0;
    if (found) *best = candidate_copy(arena, &result.ranking.items[0]);
    arena_free(&scratch);
    arena_free(&work);
    return found;
}
