#include "reports/whatif/whatif_placed.h"

#include "memory/placement/placement_plan.h"
#include "models/scaled.h"
#include "plan/step_end.h"
#include "planner/choice.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double SENSIBLE_RATIO = 0.5;
enum { AHEAD_MOST = 1, INTERVALS_MOST = 10000 };

struct asking {
    struct arena *arena;
    const struct scenario_request *request;
    const struct scenario *scenario;
    const struct cluster *clusters[CAPACITY_COUNT];
};

// The same hosts without drives.
static const struct cluster *without_nvme(struct arena *arena, const struct cluster *cluster)
{
    struct cluster *copy = ARENA_NEW(arena, struct cluster, 1);
    struct node_group *nodes = ARENA_NEW(arena, struct node_group, cluster->node_group_count);
    *copy = *cluster;
    for (int i = 0; i < cluster->node_group_count; i++) {
        nodes[i] = cluster->nodes[i];
        nodes[i].host.nvme_bytes = 0;
        nodes[i].host.nvme_bytes_per_s = 0;
    }
    copy->nodes = nodes;
    return copy;
}

// The layout of the least memory. False where the stack has none.
static bool find_layout(struct arena *arena, const struct asking *asking,
                        const struct model_config *model, const struct cluster *cluster,
                        int64_t micro_batch, struct parallel *parallel, bool *found,
                        struct err *err)
{
    struct scenario_request least = *asking->request;
    struct scenario scenario = *asking->scenario;
    struct scenario_outcome outcome;
    struct offload moved;
    bool known = offload_parse("optimizer,activations", &moved);
    assert(known);
    (void)known;
    least.objective = OBJECTIVE_MEMORY;
    least.may_idle = false;
    least.nothing = SEARCH_CLOSEST;
    least.progress = NULL;
    least.workers = 1;
    scenario.model = model;
    scenario.cluster = cluster;
    scenario.tokens = 0;
    scenario.pins.search_offload = false;
    pins_set(&scenario.pins, CHOICE_OFFLOAD, offload_value(&moved), offload_value(&moved));
    pins_set(&scenario.pins, CHOICE_PP, 1, 1);
    if (!pins_get(&scenario.pins, CHOICE_MICRO_BATCH).set)
        pins_set(&scenario.pins, CHOICE_MICRO_BATCH, micro_batch, micro_batch);
    *found = false;
    if (!scenarios_run(arena, &least, &scenario, 1, &outcome, err)) return false;
    *found = outcome.status == SCENARIO_FITS || outcome.status == SCENARIO_NOTHING_FITS;
    *parallel = outcome.best.parallel;
    return true;
}

// One size as a plan whose state is placed.
struct placed_one {
    struct evaluation_request request;
    struct evaluation *evaluation;
    struct price_context context;
    struct placed_plan plan;
    bool updates_ahead, fits;
};

// The stage whose largest moment needs most paces memory; it is the one with the largest reserve.
static bool place(struct arena *arena, struct placed_one *one, int micro_batches, struct err *err)
{
    const struct placement_question question = {
        .program = one->evaluation->program,
        .context = &one->context,
        .stage = one->evaluation->worst_stage,
        .device_bytes = one->evaluation->prediction.device_bytes,
        .updates_on_host = true,
        .updates_ahead = one->updates_ahead,
        .micro_batches = micro_batches,
        .interval_most = INTERVALS_MOST,
    };
    one->fits = placed_plan_make(arena, &question, &one->plan, err);
    if (!one->fits && err->kind == ERR_USAGE) {
        *err = (struct err){0};
        return true;
    }
    one->fits = one->fits && placement_least_bytes(&one->plan.problem) <= question.device_bytes;
    return !err->kind;
}

static bool try_size(struct arena *arena, const struct asking *asking,
                     const struct model_config *model, const struct cluster *cluster,
                     int64_t micro_batch, struct placed_one *one, struct err *err)
{
    struct parallel parallel;
    bool found = false;
    *one = (struct placed_one){0};
    if (!find_layout(arena, asking, model, cluster, micro_batch, &parallel, &found, err))
        return false;
    if (!found) return true;
    one->request = (struct evaluation_request){
        .model = model,
        .cluster = cluster,
        .stack = asking->request->stack,
        .fabrics = asking->request->fabrics,
        .workload = asking->scenario->workload,
        .parallel = parallel,
    };
    one->request.workload.tokens = 0;
    one->evaluation = ARENA_NEW(arena, struct evaluation, 1);
    one->context = evaluation_context(&one->request);
    struct arena scratch = {0};
    bool ok = evaluate(arena, &scratch, &one->request, one->evaluation, err);
    arena_free(&scratch);
    if (!ok && err->kind == ERR_USAGE) {
        *err = (struct err){0};
        return true;
    }
    return ok && place(arena, one, 2, err);
}

static bool size_fits(const struct asking *asking, enum capacity tier, int64_t steps, bool *fits,
                      struct err *err)
{
    struct arena arena = {0};
    struct err none = {0};
    struct placed_one one = {0};
    const struct model_config *model = model_scaled(&arena, asking->request->model, steps, &none);
    bool ok = !model || try_size(&arena, asking, model, asking->clusters[tier], 1, &one, err);
    *fits = ok && one.fits;
    arena_free(&arena);
    return ok;
}

// The largest number of steps that fits, by doubling and halving; 0: none.
static bool find_largest(const struct asking *asking, enum capacity tier, int64_t *low,
                         struct err *err)
{
    int64_t high = *low > 0 ? 2 * *low : 1;
    bool fits = true;
    for (; fits; high *= 2) {
        if (!size_fits(asking, tier, high, &fits, err)) return false;
        if (!fits) break;
        *low = high;
    }
    while (high - *low > 1) {
        int64_t middle = *low + (high - *low) / 2;
        if (!size_fits(asking, tier, middle, &fits, err)) return false;
        if (fits) *low = middle;
        if (!fits) high = middle;
    }
    return true;
}

// Seconds of the whole step: what few micro-batches take, and what one more of them takes for each
// of the others.
static bool weigh(struct arena *arena, struct placed_one *one, struct placed_size *size,
                  struct err *err)
{
    const struct placement_options options = {
        .ahead_most = AHEAD_MOST, .column_most = 1, .planned_alone = true};
    struct placed_result of[2];
    int count[2] = {2, 3}, all = one->evaluation->program->shape.micro_batch_count;
    int last = all > 2 ? 1 : 0;
    for (int i = 0; i <= last; i++) {
        struct placement_solution solution;
        if (!place(arena, one, count[i], err)) return false;
        count[i] = one->plan.micro_batches;
        bool fits = one->fits && placement_solve(arena, &one->plan.problem, &options, &solution);
        assert(fits && "what fits for two micro-batches fits for three");
        (void)fits;
        of[i] = solution.policies[PLACEMENT_PLANNED];
    }
    const struct placed_result *a = &of[0], *b = &of[last];
    int more = count[last] - count[0];
    double others = more > 0 ? (double)(all - count[last]) / more : 0;
    size->step_s = b->step_s + others * (b->step_s - a->step_s);
    size->compute_s = b->compute_s + others * (b->compute_s - a->compute_s);
    size->busiest_s = b->link_s + others * (b->link_s - a->link_s);
    return true;
}

// One micro-batch size of one model; `*fits`: whether it does.
static bool weigh_size(const struct asking *asking, enum capacity tier, int64_t micro_batch,
                       struct placed_size *size, bool *fits, struct err *err)
{
    struct arena arena = {0};
    struct placed_one one;
    bool ok = try_size(&arena, asking, size->model, asking->clusters[tier], micro_batch, &one, err);
    *fits = ok && one.fits;
    if (*fits) ok = weigh(&arena, &one, size, err);
    // Behind a norm hosts update in the faster of two orders.
    struct placed_size ahead = *size;
    one.updates_ahead = ok && *fits && !step_streams(&one.request.workload);
    if (one.updates_ahead) ok = weigh(&arena, &one, &ahead, err);
    if (ok && ahead.step_s < size->step_s) *size = ahead;
    if (ok && *fits) {
        const struct workload *workload = &one.request.workload;
        const struct prediction *prediction = &one.evaluation->prediction;
        memcpy(size->home_bytes, one.plan.home_bytes, sizeof size->home_bytes);
        size->parameter_count = (double)one.evaluation->graph->parameter_count;
        size->layout = arena_copy(asking->arena,
                                  parallel_text(&arena, &one.request.parallel, one.request.stack));
        size->tokens_per_s =
            (double)workload->global_batch * (double)workload->seq_len / size->step_s;
        size->flop_per_s_per_gpu =
            prediction->model_flop_per_s_per_gpu * prediction->step_s / size->step_s;
    }
    arena_free(&arena);
    return ok;
}

// The fastest micro-batch: twice as large ones move state half as often, as long as they fit.
static bool add_size(const struct asking *asking, enum capacity tier, int64_t steps,
                     struct placed_sizes *found, struct err *err)
{
    struct placed_size best = {.step_s = INFINITY};
    const struct model_config *model =
        model_scaled(asking->arena, asking->request->model, steps, err);
    if (!model) return false;
    bool is_pinned = pins_get(&asking->scenario->pins, CHOICE_MICRO_BATCH).set, fits = true;
    int64_t most = is_pinned ? 1 : asking->scenario->workload.global_batch;
    for (int64_t micro_batch = 1; micro_batch <= most && fits; micro_batch *= 2) {
        struct placed_size size = {.model = model, .steps = steps};
        if (!weigh_size(asking, tier, micro_batch, &size, &fits, err)) return false;
        if (fits && size.step_s < best.step_s) best = size;
    }
    assert(found->count < PLACED_SIZES_MOST);
    if (best.step_s < INFINITY) found->sizes[found->count++] = best;
    return true;
}

// Sizes by doubling up to the largest of a tier, and that.
static bool add_sizes(const struct asking *asking, enum capacity tier, int64_t from, int64_t steps,
                      struct placed_sizes *found, struct err *err)
{
    for (int64_t at = 1; at < steps; at *= 2) {
        if (at > from && !add_size(asking, tier, at, found, err)) return false;
    }
    if (steps > from && !add_size(asking, tier, steps, found, err)) return false;
    found->largest[tier] = found->count - 1;
    return true;
}

static int find_sensible(const struct placed_sizes *found)
{
    double best = 0;
    int sensible = -1;
    for (int i = 0; i < found->count; i++) {
        if (found->sizes[i].flop_per_s_per_gpu > best) best = found->sizes[i].flop_per_s_per_gpu;
    }
    for (int i = 0; i < found->count; i++) {
        if (found->sizes[i].flop_per_s_per_gpu >= SENSIBLE_RATIO * best) sensible = i;
    }
    return sensible;
}

bool placed_sizes_find(struct arena *arena, const struct scenario_request *request,
                       const struct scenario *scenario, struct placed_sizes *found, struct err *err)
{
    struct asking asking = {.arena = arena, .request = request, .scenario = scenario};
    int64_t steps[CAPACITY_COUNT] = {0};
    asking.clusters[CAPACITY_HOST] = without_nvme(arena, scenario->cluster);
    asking.clusters[CAPACITY_NVME] = scenario->cluster;
    *found = (struct placed_sizes){.largest = {-1, -1, -1}, .sensible = -1};
    for (int i = 0; i < scenario->cluster->node_group_count; i++)
        found->has_nvme |= scenario->cluster->nodes[i].host.nvme_bytes > 0;
    found->is_piped = !pins_allow(&scenario->pins, CHOICE_PP, 1);
    if (found->is_piped) return true;
    for (int tier = CAPACITY_HOST; tier < CAPACITY_COUNT; tier++) {
        steps[tier] = steps[tier - 1];
        if (!find_largest(&asking, (enum capacity)tier, &steps[tier], err)) return false;
        if (!add_sizes(&asking, (enum capacity)tier, steps[tier - 1], steps[tier], found, err))
            return false;
    }
    found->sensible = find_sensible(found);
    return true;
}
