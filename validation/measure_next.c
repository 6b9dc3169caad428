#include "validation/measure_next.h"
#include "planner/choice.h"
#include "validation/fit_terms.h"
#include "validation/trial.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Slopes are central differences over this many spreads to each side, as in fit_solve.c.
static const double DIFFERENCE = 0.1;

static const struct measure_row ROWS[MEASURE_KIND_COUNT] = {
    [MEASURE_PRODUCTS] = {"products", "matrix products of the plan's shapes", 2, false, false},
    [MEASURE_ATTENTION] = {"attention", "attention of the plan's shapes", 1, false, false},
    [MEASURE_MEMORY] = {"memory", "copies within the device's memory", 1, false, false},
    [MEASURE_LAUNCHES] = {"launches", "kernels that do nothing, one after the other", 1, false,
                          false},
    [MEASURE_NODE_LINKS] = {"node links", "all-gather inside a node", 2, false, false},
    [MEASURE_NETWORK] = {"network", "all-gather over two nodes, a GPU of each", 3, true, false},
    [MEASURE_EXPERTS] = {"experts", "a few layers with experts, on one node", 10, false, true},
    [MEASURE_OVERLAP] = {"overlap", "a few layers with what runs beside them", 10, false, true},
};

const struct measure_row *measure_row(enum measure_kind kind)
{
    assert(kind >= 0 && kind < MEASURE_KIND_COUNT);
    return &ROWS[kind];
}

// How the keys of a term begin, and what measures them.
static const struct {
    const char *key;
    enum measure_kind kind;
} KEYS[] = {
    {"efficiency.gemm_ratio", MEASURE_PRODUCTS},
    {"gemm_scale", MEASURE_PRODUCTS},
    {"unaligned_gemm_ratio", MEASURE_PRODUCTS},
    {"efficiency.attention", MEASURE_ATTENTION},
    {"attention_", MEASURE_ATTENTION},
    {"efficiency.memory_ratio", MEASURE_MEMORY},
    {"element_wise_scale", MEASURE_MEMORY},
    {"cast_bytes", MEASURE_MEMORY},
    {"loss_", MEASURE_MEMORY},
    {"accumulate_bytes", MEASURE_MEMORY},
    {"gradient_passes", MEASURE_MEMORY},
    {"launch_latency_s", MEASURE_LAUNCHES},
    {"host_", MEASURE_LAUNCHES},
    {"network_", MEASURE_NETWORK},
    {"grouped_gemm_ratio", MEASURE_EXPERTS},
    {"permute_passes", MEASURE_EXPERTS},
    {"route_kernels", MEASURE_EXPERTS},
    {"expert_", MEASURE_EXPERTS},
    {"overlap_ratio", MEASURE_OVERLAP},
    {"tp_overlap_ratio", MEASURE_OVERLAP},
    {"ep_overlap_ratio", MEASURE_OVERLAP},
    {"contention_ratio", MEASURE_OVERLAP},
};

static enum measure_kind kind_of(const struct fit_parameter *parameter, const char *node_fabric)
{
    assert(parameter->member_count > 0);
    const char *key = parameter->members[0].key;
    if (parameter->owner == CONSTANT_FABRIC) {
        bool is_inside = strcmp(parameter->owner_name, node_fabric) == 0;
        return is_inside ? MEASURE_NODE_LINKS : MEASURE_NETWORK;
    }
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        if (strncmp(key, KEYS[i].key, strlen(KEYS[i].key)) == 0) return KEYS[i].kind;
    return MEASURE_KIND_COUNT;  // what a step has beside its layers
}

// The kept plans with constants that may be moved.
struct slopes {
    struct arena *arena;
    struct device *device;
    struct stack *stack;
    struct fabrics *fabrics;
    struct trial_program **programs;
    int plan_count;
    struct fit_parameters parameters;
    double *ln_s, *slope;  // [plan], [plan][term]
};

static double ln_step(struct slopes *slopes, int plan)
{
    return log(trial_program_closed_form_s(slopes->programs[plan], slopes->device, slopes->stack,
                                           slopes->fabrics));
}

// Kept plans are given, so that nothing is searched again.
static bool lower_plans(struct slopes *slopes, const struct search_request *request,
                        const struct search_result *result, struct err *err)
{
    struct arena *arena = slopes->arena;
    struct row *row = ARENA_NEW(arena, struct row, 1);
    slopes->programs = ARENA_NEW(arena, struct trial_program *, result->best_count);
    for (int i = 0; i < result->best_count; i++) {
        struct trial *trial = ARENA_NEW(arena, struct trial, 1);
        *trial = (struct trial){
            .row = row,
            .model = request->model,
            .cluster = request->cluster,
            .stack = request->stack,
            .workload = request->workload,
            .pins = pins_none(),
            .is_given = true,
            .parallel = result->best[i].parallel,
        };
        trial_answer(arena, trial, request->fabrics, NULL);
        if (!trial->answered) return err_set(err, ERR_USAGE, "%s", trial->why_not);
        slopes->programs[slopes->plan_count++] = trial_program_new(arena, trial);
    }
    return true;
}

// Constants are moved in place and put back, as all prices read them.
static void set_terms(struct slopes *slopes)
{
    assert(slopes->plan_count > 0);
    struct fit_machines machines = {
        .devices = &slopes->device,
        .stacks = &slopes->stack,
        .fabrics = slopes->fabrics,
        .device_count = 1,
        .stack_count = 1,
    };
    slopes->parameters = fit_parameters_make(slopes->arena, &machines, true);
    int count = slopes->parameters.count, plans = slopes->plan_count;
    double *z = ARENA_NEW(slopes->arena, double, count);
    slopes->ln_s = ARENA_NEW(slopes->arena, double, plans);
    slopes->slope = ARENA_NEW(slopes->arena, double, plans *count);
    for (int p = 0; p < plans; p++)
        slopes->ln_s[p] = ln_step(slopes, p);
    for (int t = 0; t < count; t++) {
        for (int side = -1; side <= 1; side += 2) {
            z[t] = side * DIFFERENCE;
            fit_parameters_set(&slopes->parameters, z);
            for (int p = 0; p < plans; p++)
                slopes->slope[p * count + t] += side * ln_step(slopes, p) / (2 * DIFFERENCE);
        }
        z[t] = 0;
    }
    fit_parameters_set(&slopes->parameters, z);
}

// Terms of several devices could not be told apart by one benchmark.
static bool has_one_device(const struct cluster *cluster)
{
    for (int i = 1; i < cluster->node_group_count; i++)
        if (strcmp(cluster->nodes[i].device->name, cluster->nodes[0].device->name) != 0)
            return false;
    return true;
}

bool measure_next_make(struct arena *arena, const struct search_request *request,
                       const struct search_result *result, int wanted, uint64_t seed,
                       struct measure_next *next, struct err *err)
{
    *next = (struct measure_next){0};
    if (!has_one_device(request->cluster))
        return err_set(err, ERR_USAGE, "CLUSTER: expected devices of one kind, found several");
    const struct node_group *node = &request->cluster->nodes[0];
    struct slopes slopes = {
        .arena = arena,
        .device = device_copy(arena, node->device),
        .stack = stack_copy(arena, request->stack),
        .fabrics = fabrics_copy(arena, request->fabrics),
    };
    if (!lower_plans(&slopes, request, result, err)) return false;
    set_terms(&slopes);
    int count = slopes.parameters.count;
    enum measure_kind *kinds = ARENA_NEW(arena, enum measure_kind, count);
    const struct fabric *inside =
        fabrics_find(slopes.fabrics, node->intra.kind, node->intra.bandwidth_bytes_per_s);
    const char *name = inside ? fabric_name(arena, inside) : "";
    for (int t = 0; t < count; t++)
        kinds[t] = kind_of(&slopes.parameters.items[t], name);
    measure_choose(arena, slopes.ln_s, slopes.plan_count, slopes.slope, kinds, count, wanted, seed,
                   next);
    return true;
}
