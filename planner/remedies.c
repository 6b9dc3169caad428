#include "planner/remedies.h"

#include "core/units.h"
#include "planner/scan.h"

#include <assert.h>

struct remedy {
    const char *text;
    double step_s;
};

enum { REMEDY_MAX = sizeof((struct search_result *)0)->remedies / sizeof(const char *) };

// "(+3 % time)" beside the plan that does not fit.
static const char *time_text(struct arena *arena, double step_s, double reference_s)
{
    double ratio = step_s / reference_s - 1;
    return arena_print(arena, "%s%s time", ratio < 0 ? "" : "+", units_ratio(arena, ratio));
}

// The values of these choices as options: "--tp 4 --dp 2". Context parallelism that nobody asked
// for and the plan does not have goes without saying.
static const char *options_text(struct arena *arena, const struct pins *pins,
                                const struct parallel *parallel, const enum choice *choices,
                                int count)
{
    const char *text = "";
    for (int i = 0; i < count; i++) {
        bool is_cp = choices[i] == CHOICE_CP && !pins_get(pins, CHOICE_CP).set;
        if (is_cp && choice_value(parallel, CHOICE_CP) == 1) continue;
        const char *option = choice_option(arena, choices[i]);
        const char *value = choice_text(arena, choices[i], choice_value(parallel, choices[i]));
        text = arena_print(arena, "%s%s%s %s", text, *text ? " " : "", option, value);
    }
    return text;
}

static void insert(struct remedy *remedies, int *count, int most, const struct remedy *remedy)
{
    assert(*count >= 0 && *count <= most);
    int at = *count;
    while (at > 0 && remedies[at - 1].step_s > remedy->step_s) {
        at--;
    }
    if (at == most) return;
    if (*count < most) (*count)++;
    for (int i = *count - 1; i > at; i--) {
        remedies[i] = remedies[i - 1];
    }
    remedies[at] = *remedy;
}

// Gives up the pins of these choices; true when that leaves a plan that fits.
static bool try_free(struct arena *arena, const struct search_request *request,
                     const struct search_result *result, const enum choice *choices, int count,
                     struct remedy *remedy)
{
    struct search_request freed = *request;
    struct candidate best;
    bool any = false;
    for (int i = 0; i < count; i++) {
        bool is_offload = choices[i] == CHOICE_OFFLOAD;
        bool is_fixed = is_offload && !request->pins.search_offload;
        any |= is_fixed || pins_get(&request->pins, choices[i]).set;
        pins_clear(&freed.pins, choices[i]);
        if (is_offload) freed.pins.search_offload = true;
    }
    if (!any || !scan_good(arena, &freed, &best)) return false;
    const char *options = options_text(arena, &request->pins, &best.parallel, choices, count);
    remedy->step_s = best.cost.step_s;
    remedy->text = arena_print(arena, "%s needs %s reserved (%s)", options,
                               units_bytes(arena, (double)best.memory.reserved_bytes),
                               time_text(arena, best.cost.step_s, result->closest.cost.step_s));
    return true;
}

// Unclipped, gradients of a single micro-batch pass through rooms and are never whole: worth a word
// where all else has left the device already.
static bool try_unclipped(struct arena *arena, const struct search_request *request,
                          const struct search_result *result, struct remedy *remedy)
{
    struct search_request freed = *request;
    struct candidate best;
    bool is_asked = request->pins.search_parameters != TIER_DEVICE && !request->workload.unclipped;
    freed.workload.unclipped = true;
    if (!is_asked || !scan_good(arena, &freed, &best)) return false;
    remedy->step_s = best.cost.step_s;
    remedy->text = arena_print(arena, "--clip off needs %s reserved (%s)",
                               units_bytes(arena, (double)best.memory.reserved_bytes),
                               time_text(arena, best.cost.step_s, result->closest.cost.step_s));
    return true;
}

// The scores of a loss in parts, where our executor can make them so.
static bool try_loss_chunks(struct arena *arena, const struct search_request *request,
                            const struct search_result *result, struct remedy *remedy)
{
    static const int COUNTS[] = {4, 8, 16, 32};
    bool is_asked =
        stack_is_executed(request->stack) && !pins_get(&request->pins, CHOICE_LOSS_CHUNKS).set;
    for (size_t i = 0; is_asked && i < sizeof COUNTS / sizeof *COUNTS; i++) {
        struct search_request freed = *request;
        struct candidate best;
        struct err refused = {0};
        pins_set(&freed.pins, CHOICE_LOSS_CHUNKS, COUNTS[i], COUNTS[i]);
        if (!search_check_request(&freed, &refused)) return false;
        if (!scan_good(arena, &freed, &best)) continue;
        remedy->step_s = best.cost.step_s;
        remedy->text = arena_print(arena, "--loss-chunks %d needs %s reserved (%s)", COUNTS[i],
                                   units_bytes(arena, (double)best.memory.reserved_bytes),
                                   time_text(arena, best.cost.step_s, result->closest.cost.step_s));
        return true;
    }
    return false;
}

static int free_pins(struct arena *arena, const struct search_request *request,
                     const struct search_result *result, struct remedy *remedies, int most)
{
    static const enum choice SINGLES[] = {
        CHOICE_ZERO,      CHOICE_RECOMPUTE, CHOICE_RECOMPUTE_LAYERS, CHOICE_MICRO_BATCH,
        CHOICE_SP,        CHOICE_VPP,       CHOICE_SCHEDULE,         CHOICE_ATTENTION,
        CHOICE_EP,        CHOICE_ETP,       CHOICE_ZERO_GROUP,       CHOICE_CP_KIND,
        CHOICE_IN_FLIGHT, CHOICE_OFFLOAD};
    static const enum choice DEGREES[] = {CHOICE_TP, CHOICE_CP, CHOICE_PP, CHOICE_DP};
    enum { DEGREE_COUNT = sizeof DEGREES / sizeof *DEGREES };
    int count = 0;
    struct remedy remedy;
    for (size_t i = 0; i < sizeof SINGLES / sizeof *SINGLES; i++) {
        if (!try_free(arena, request, result, &SINGLES[i], 1, &remedy)) continue;
        insert(remedies, &count, most, &remedy);
    }
    if (try_unclipped(arena, request, result, &remedy)) insert(remedies, &count, most, &remedy);
    if (try_loss_chunks(arena, request, result, &remedy)) insert(remedies, &count, most, &remedy);
    if (try_free(arena, request, result, DEGREES, DEGREE_COUNT, &remedy)) {
        insert(remedies, &count, most, &remedy);
    }
    return count;
}

// The next numbers of nodes that hold the model; a pinned dp follows them, since more GPUs leave
// nothing else to grow.
static bool try_nodes(struct arena *arena, const struct search_request *request,
                      struct remedy *remedy)
{
    static const int FACTORS_X4[] = {5,  6,  7,  8,  10, 12, 14,  16,  20,  24,
                                     28, 32, 40, 48, 64, 96, 128, 256, 512, 1024};
    const struct cluster *cluster = request->cluster;
    if (cluster->node_group_count != 1) return false;
    int64_t tried = cluster->node_count;
    for (size_t i = 0; i < sizeof FACTORS_X4 / sizeof *FACTORS_X4; i++) {
        int64_t nodes = (int64_t)cluster->node_count * FACTORS_X4[i] / 4;
        if (nodes <= tried || nodes > CLUSTER_NODES_MAX) continue;
        tried = nodes;
        struct node_group group = cluster->nodes[0];
        struct cluster larger = *cluster;
        struct search_request more = *request;
        struct err refused = {0};
        struct candidate best;
        larger.nodes = &group;
        more.cluster = &larger;
        pins_clear(&more.pins, CHOICE_DP);
        if (!cluster_set_nodes(&larger, nodes, &refused)) return false;
        if (!scan_good(arena, &more, &best)) continue;
        remedy->step_s = best.cost.step_s;
        remedy->text = arena_print(arena, "%lld GPUs (--nodes %lld) need %s reserved each",
                                   (long long)larger.rank_count, (long long)nodes,
                                   units_bytes(arena, (double)best.memory.reserved_bytes));
        return true;
    }
    return false;
}

void remedies_find(struct arena *arena, const struct search_request *request,
                   struct search_result *result)
{
    assert(result->best_count == 0 && "where a plan fits nothing has to be given up");
    struct remedy remedies[REMEDY_MAX];
    // They stand in the order of their steps, whatever else was wanted of a plan that fits.
    struct search_request timed = *request;
    timed.objective = OBJECTIVE_TIME;
    int count = free_pins(arena, &timed, result, remedies, REMEDY_MAX - 2);
    if (try_nodes(arena, &timed, &remedies[count])) count++;
    remedies[count++].text =
        arena_print(arena, "devices with %s of memory",
                    units_bytes(arena, (double)result->closest.memory.reserved_bytes));
    for (int i = 0; i < count; i++) {
        result->remedies[i] = remedies[i].text;
    }
    result->remedy_count = count;
}
