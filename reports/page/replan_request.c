#include "reports/page/replan.h"

#include "plan/plan.h"
#include "planner/choice.h"
#include "reports/whatif/sweep.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// What a change may hold; zero is absent.
struct replan_change {
    int64_t gpus, seq_len, global_batch;
    double tokens;
    double network_ratio, intra_ratio, memory_ratio, flop_ratio;
    double price_per_gpu_hour;
    const char *currency, *precision;
    bool keep;
};

#define RATIO_LOW 0.01
#define RATIO_HIGH 100

static const struct json_field CHANGE_FIELDS[] = {
    {JSON_OPT_I64(struct replan_change, gpus, 1, CLUSTER_GPUS_MAX)},
    {JSON_OPT_I64(struct replan_change, seq_len, 1, 1e12)},
    {JSON_OPT_I64(struct replan_change, global_batch, 1, 1 << 20)},
    {JSON_OPT_F64(struct replan_change, tokens, 1, 1e30)},
    {JSON_OPT_F64(struct replan_change, network_ratio, RATIO_LOW, RATIO_HIGH)},
    {JSON_OPT_F64(struct replan_change, intra_ratio, RATIO_LOW, RATIO_HIGH)},
    {JSON_OPT_F64(struct replan_change, memory_ratio, RATIO_LOW, RATIO_HIGH)},
    {JSON_OPT_F64(struct replan_change, flop_ratio, RATIO_LOW, RATIO_HIGH)},
    {JSON_OPT_F64(struct replan_change, price_per_gpu_hour, 1e-6, 1e9)},
    {JSON_OPT_TEXT(struct replan_change, currency)},
    {JSON_OPT_TEXT(struct replan_change, precision)},
    {JSON_OPT_BOOL(struct replan_change, keep)},
    {JSON_OPT_ANY("stack")},
    {JSON_OPT_ANY("cluster")},
    {JSON_OPT_ANY("pins")},
    {0},
};

// What kernels were measured to take is of another device than a faster one.
static void scale_device(struct device *device, const struct replan_change *change)
{
    assert(change->memory_ratio > 0 && change->flop_ratio > 0);
    device->memory_bytes = (int64_t)floor((double)device->memory_bytes * change->memory_ratio);
    if (change->flop_ratio == 1) return;
    device->kernels = NULL;
    for (int i = 0; i < PRECISION_COUNT; i++) {
        device->peak_flop_per_s[i] *= change->flop_ratio;
    }
}

static void scale_cluster(struct arena *arena, const struct replan_change *change,
                          struct cluster *cluster)
{
    assert(change->intra_ratio > 0 && change->network_ratio > 0);
    for (int i = 0; i < cluster->node_group_count; i++) {
        struct node_group *group = &cluster->nodes[i];
        struct device *device = device_copy(arena, group->device);
        scale_device(device, change);
        group->device = device;
        group->intra.bandwidth_bytes_per_s *= change->intra_ratio;
        group->nics.bandwidth_bytes_per_s *= change->network_ratio;
    }
    if (change->price_per_gpu_hour <= 0) return;
    const char *currency = cluster->price.currency ? cluster->price.currency : change->currency;
    cluster->price =
        (struct price){.per_gpu_hour = change->price_per_gpu_hour, .currency = currency};
}

// The plan's cluster as the change has it; what comes out must be one that a plan can be read with.
static struct cluster *changed_cluster(struct arena *arena, const struct json *at,
                                       const struct replan_change *change,
                                       const struct cluster *base, struct err *err)
{
    if (change->price_per_gpu_hour > 0 && !base->price.currency && !change->currency) {
        struct json price = json_get(at, "price_per_gpu_hour", err);
        json_fail(&price, err, "cluster %s has no currency: \"currency\" is missing", base->name);
        return NULL;
    }
    int64_t gpus = change->gpus > 0 ? change->gpus : base->rank_count;
    assert(gpus > 0);
    struct cluster *cluster = sweep_cluster(arena, base, gpus, err);
    if (!cluster) return NULL;
    if (gpus == base->rank_count) cluster->idle_gpus = base->idle_gpus;
    scale_cluster(arena, change, cluster);
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct device *device = cluster->nodes[i].device;
        for (int p = 0; p < PRECISION_COUNT; p++) {
            if (device->peak_flop_per_s[p] <= DEVICE_PEAK_HIGH) continue;
            struct json ratio = json_get(at, "flop_ratio", err);
            json_fail(&ratio, err, "%g of %s is no rate", change->flop_ratio, device->name);
            return NULL;
        }
    }
    return cluster;
}

static bool change_workload(const struct json *at, const struct replan_change *change,
                            struct workload *workload, struct err *err)
{
    if (change->precision && !precision_from_name(change->precision, &workload->precision)) {
        struct json precision = json_get(at, "precision", err);
        return json_fail(&precision, err, "%s is no precision", change->precision);
    }
    if (change->seq_len > 0) workload->seq_len = change->seq_len;
    if (change->global_batch > 0) workload->global_batch = change->global_batch;
    if (change->tokens > 0) workload->tokens = change->tokens;
    return true;
}

// Another cluster in place of the plan's, with as many GPUs unless the change says how many.
static const struct cluster *base_cluster(struct arena *arena, const struct json *change,
                                          const struct cluster *planned, int64_t *gpus,
                                          struct err *err)
{
    if (!json_has(change, "cluster")) return planned;
    struct json object = json_get(change, "cluster", err);
    const struct cluster *cluster = err->kind ? NULL : cluster_read(arena, &object, err);
    if (*gpus == 0) *gpus = planned->rank_count;
    return cluster;
}

// As it runs the model.
static const struct stack *wanted_stack(struct arena *arena, const struct json *change,
                                        const struct json *planned, bool has_experts,
                                        struct err *err)
{
    if (!json_has(change, "stack")) return stack_read(arena, planned, err);
    struct json object = json_get(change, "stack", err);
    const struct stack *stack = err->kind ? NULL : stack_read(arena, &object, err);
    return stack ? stack_for_model(arena, stack, has_experts) : NULL;
}

// All but dp, which is what the GPUs leave.
static void keep_choices(const struct parallel *parallel, struct pins *pins)
{
    for (int i = 0; i < CHOICE_COUNT; i++) {
        enum choice choice = (enum choice)i;
        int64_t value = choice_value(parallel, choice);
        if (choice != CHOICE_DP) pins_set(pins, choice, value, value);
    }
    pins->stage_layers = parallel->stage_layers;
    pins->stage_layers_count = parallel->stage_layers_count;
}

// "8", "full", or of a number also "1..8".
static bool read_pin(struct arena *arena, enum choice choice, const char *words, struct pins *pins,
                     struct err *err)
{
    int64_t low = 0, high = 0;
    const char *dots = strstr(words, "..");
    if (!dots) {
        if (!choice_parse(choice, words, &low, err)) return false;
        pins_set(pins, choice, low, low);
        return true;
    }
    const char *first = arena_print(arena, "%.*s", (int)(dots - words), words);
    if (!choice_parse(choice, first, &low, err)) return false;
    if (!choice_parse(choice, dots + strlen(".."), &high, err)) return false;
    if (low > high) {
        return err_set(err, ERR_USAGE, "%s: a range ends where it starts or later, found %s",
                       choice_name(choice), words);
    }
    assert(low <= high);
    pins_set(pins, choice, low, high);
    return true;
}

bool replan_pins(struct arena *arena, const struct json *change, struct pins *pins, struct err *err)
{
    if (!json_has(change, "pins")) return true;
    struct json object = json_get(change, "pins", err);
    int count = json_member_count(&object, err);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json item = json_item(&object, i);
        enum choice choice;
        if (!choice_from_name(json_key(&item), &choice, err)) return false;
        const char *words =
            json_is_number(&item)
                ? arena_print(arena, "%lld", (long long)json_i64(&item, 0, 1 << 30, err))
                : json_text(&item, err);
        if (!err->kind) read_pin(arena, choice, words, pins, err);
    }
    // "full" alone means every layer, as on the command line.
    if (json_has(&object, choice_name(CHOICE_RECOMPUTE)) &&
        !json_has(&object, choice_name(CHOICE_RECOMPUTE_LAYERS)))
        pins_set(pins, CHOICE_RECOMPUTE_LAYERS, -1, -1);
    return !err->kind;
}

static struct plan *read_plan(struct arena *arena, const struct json *base, struct err *err)
{
    struct json *plan = ARENA_NEW(arena, struct json, 1);
    *plan = json_get(base, "plan", err);
    return err->kind ? NULL : plan_read(arena, plan, err);
}

bool replan_request(struct arena *arena, const struct json *base, const struct json *change,
                    struct search_request *request, struct err *err)
{
    struct replan_change wanted = {
        .network_ratio = 1, .intra_ratio = 1, .memory_ratio = 1, .flop_ratio = 1};
    json_read(change, CHANGE_FIELDS, &wanted, err);
    struct plan *plan = err->kind ? NULL : read_plan(arena, base, err);
    if (!plan) return false;
    const struct cluster *base_of = base_cluster(arena, change, plan->cluster, &wanted.gpus, err);
    if (!base_of) return false;
    const struct cluster *cluster = changed_cluster(arena, change, &wanted, base_of, err);
    if (!cluster || !change_workload(change, &wanted, &plan->workload, err)) return false;

    *request = (struct search_request){
        .model = plan->model,
        .cluster = cluster,
        .workload = plan->workload,
        .pins = pins_none(),
        .top = 5,
    };
    int64_t moved = choice_value(&plan->parallel, CHOICE_OFFLOAD);
    if (!offload_is_none(&plan->parallel.offload))
        pins_set(&request->pins, CHOICE_OFFLOAD, moved, moved);
    if (wanted.keep) keep_choices(&plan->parallel, &request->pins);
    if (!replan_pins(arena, change, &request->pins, err)) return false;
    const struct import_options options = {.flash = true};
    bool has_experts = model_graph(arena, plan->model, &options)->expert_count > 0;
    request->stack = wanted_stack(arena, change, &plan->stack, has_experts, err);
    struct json fabrics = json_get(base, "fabrics", err);
    request->fabrics = err->kind ? NULL : fabrics_read(arena, &fabrics, err);
    return request->fabrics && fabrics_cover(request->fabrics, cluster, err);
}
