#include "reports/whatif/whatif_sizes.h"

#include "models/scaled.h"
#include "planner/batch.h"
#include "planner/choice.h"

#include <assert.h>

// Sizes are tried by the batch, so that all processors have work; the first of the list that fits
// is the answer whatever the batch.
enum { TOGETHER = 8 };

// The size after `gpus`: one more inside a node, one node more outside.
static int64_t next_size(const struct cluster *cluster, const struct sweep_list *sizes,
                         int64_t gpus)
{
    assert(gpus >= 0);
    if (sizes->count > 0) {
        for (int i = 0; i < sizes->count; i++) {
            if (sizes->values[i] > (double)gpus) return (int64_t)sizes->values[i];
        }
        return INT64_MAX;
    }
    int64_t per_node = cluster->nodes[0].gpus;
    return gpus < per_node ? gpus + 1 : (gpus / per_node + 1) * per_node;
}

// The largest size that may be the answer.
static int64_t largest_size(const struct sweep *sweep, const struct cluster *cluster,
                            const struct sweep_list *sizes, int64_t most, struct least_gpus *found)
{
    bool grows = cluster->node_group_count == 1 && cluster->nodes[0].nics.count > 0;
    if (!grows && most > cluster->rank_count) most = cluster->rank_count;
    if (sweep->sequences_per_gpu == 0 || sizes->count == 1) return most;
    int64_t bearable = batch_limit(sweep->workload.optimizer) / sweep->sequences_per_gpu;
    found->is_past = bearable < most;
    return found->is_past ? bearable : most;
}

// One sweep point of this size.
static bool make_scenario(struct arena *arena, const struct sweep *sweep,
                          const struct cluster *cluster, int64_t gpus, struct scenario *scenario,
                          struct err *err)
{
    double size = (double)gpus;
    struct sweep one = *sweep;
    struct sweep_points points;
    one.clusters = &cluster;
    one.cluster_count = 1;
    one.axes[SWEEP_NODES] = (struct sweep_list){0};
    one.axes[SWEEP_GPUS] = (struct sweep_list){&size, 1};
    if (!sweep_points(arena, &one, &points, err)) return false;
    assert(points.count == 1);
    *scenario = points.items[0].scenario;
    return true;
}

const char *least_gpus_none(const struct least_gpus *found)
{
    return found->is_past ? "nothing fits with a batch that the optimizer is known to bear"
                          : "nothing fits";
}

bool least_gpus_find(struct arena *arena, const struct scenario_request *request,
                     const struct sweep *sweep, const struct cluster *cluster,
                     const struct sweep_list *sizes, int64_t most, struct least_gpus *found,
                     struct err *err)
{
    struct scenario_request quick = *request;
    quick.may_idle = false;  // sizes, not speeds
    quick.nothing = SEARCH_FITS_ONLY;
    quick.progress = NULL;
    *found = (struct least_gpus){0};
    int64_t last = largest_size(sweep, cluster, sizes, most, found);
    int64_t gpus = next_size(cluster, sizes, 0);
    while (gpus <= last && !found->cluster) {
        struct scenario scenarios[TOGETHER];
        struct scenario_outcome outcomes[TOGETHER];
        int count = 0;
        for (; count < TOGETHER && gpus <= last; gpus = next_size(cluster, sizes, gpus)) {
            if (!make_scenario(arena, sweep, cluster, gpus, &scenarios[count++], err)) return false;
            found->tried = gpus;
        }
        if (!scenarios_run(arena, &quick, scenarios, count, outcomes, err)) return false;
        for (int i = 0; i < count && !found->cluster; i++) {
            if (outcomes[i].status != SCENARIO_FITS) continue;
            found->cluster = scenarios[i].cluster;
            found->batch = scenarios[i].workload.global_batch;
            found->outcome = outcomes[i];
        }
    }
    return true;
}

// Ways to move things, tier by tier; a tier may also do what those before it do.
static const struct {
    enum capacity tier;
    const char *words;
} MOVES[] = {
    {CAPACITY_GPU, "none"},
    {CAPACITY_HOST, "optimizer"},
    {CAPACITY_HOST, "activations"},
    {CAPACITY_HOST, "optimizer,activations"},
    {CAPACITY_HOST, "optimizer,parameters,activations"},
    {CAPACITY_HOST, "optimizer,parameters,gradients,activations"},
    {CAPACITY_NVME, "optimizer@nvme"},
    {CAPACITY_NVME, "optimizer@nvme,activations"},
    {CAPACITY_NVME, "optimizer@nvme,activations@nvme"},
    {CAPACITY_NVME, "optimizer@nvme,parameters,gradients,activations"},
    {CAPACITY_NVME, "optimizer@nvme,parameters@nvme,gradients,activations@nvme"},
};
enum { MOVE_COUNT = sizeof MOVES / sizeof *MOVES };

const char *capacity_name(enum capacity tier)
{
    static const char *const NAMES[] = {"GPU", "host", "nvme"};
    assert(tier < sizeof NAMES / sizeof *NAMES);
    return NAMES[tier];
}

// Does a model of so many steps fit with what the tier may move? `*exists`: false where the family
// ends before.
static bool try_model(struct arena *arena, const struct scenario_request *request,
                      const struct scenario *scenario, enum capacity tier, int64_t steps,
                      struct largest_model *found, bool *fits, struct err *err)
{
    struct scenario scenarios[MOVE_COUNT];
    struct scenario_outcome outcomes[MOVE_COUNT];
    struct err none = {0};
    const struct model_config *model = model_scaled(arena, request->model, steps, &none);
    *fits = false;
    if (!model) return true;
    int count = 0;
    for (int i = 0; i < MOVE_COUNT && MOVES[i].tier <= tier; i++) {
        struct offload offload;
        bool known = offload_parse(MOVES[i].words, &offload);
        assert(known);
        (void)known;
        struct scenario *one = &scenarios[count++];
        *one = *scenario;
        one->model = model;
        one->tokens = 0;
        one->pins.search_offload = false;
        pins_set(&one->pins, CHOICE_OFFLOAD, offload_value(&offload), offload_value(&offload));
    }
    if (!scenarios_run(arena, request, scenarios, count, outcomes, err)) return false;
    for (int i = 0; i < count && !*fits; i++) {
        if (outcomes[i].status != SCENARIO_FITS) continue;
        *fits = true;
        found->tiers[tier].model = model;
        found->tiers[tier].steps = steps;
        found->tiers[tier].parameter_count = outcomes[i].parameter_count;
        found->tiers[tier].offload = MOVES[i].words;
        found->tiers[tier].outcome = outcomes[i];
    }
    return true;
}

// `low` fits (or is 0), `high` does not.
static bool find_tier(struct arena *arena, const struct scenario_request *request,
                      const struct scenario *scenario, enum capacity tier, int64_t low,
                      struct largest_model *found, struct err *err)
{
    int64_t high = low > 0 ? 2 * low : 1;
    bool fits = false;
    for (;; high *= 2) {
        if (!try_model(arena, request, scenario, tier, high, found, &fits, err)) return false;
        if (!fits) break;
        low = high;
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (!try_model(arena, request, scenario, tier, middle, found, &fits, err)) return false;
        if (fits) low = middle;
        if (!fits) high = middle;
    }
    return true;
}

bool largest_model_find(struct arena *arena, const struct scenario_request *request,
                        const struct scenario *scenario, struct largest_model *found,
                        struct err *err)
{
    struct scenario_request quick = *request;
    quick.may_idle = false;  // sizes, not speeds
    quick.nothing = SEARCH_FITS_ONLY;
    quick.progress = NULL;
    *found = (struct largest_model){0};
    if (model_scale_step(request->model, err) == 0) return false;
    for (int tier = 0; tier < CAPACITY_COUNT; tier++) {
        if (tier > 0) found->tiers[tier] = found->tiers[tier - 1];
        if (!find_tier(arena, &quick, scenario, (enum capacity)tier, found->tiers[tier].steps,
                       found, err)) {
            return false;
        }
    }
    return true;
}
