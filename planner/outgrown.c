#include "planner/outgrown.h"

#include "core/units.h"
#include "planner/choice.h"
#include "planner/ranking.h"

#include <assert.h>

enum { RUNG_MAX = 6 };
static const int64_t SMALL_BUCKET_BYTES = (int64_t)4 << 20;

struct rung {
    struct pins pins;
    const struct parallel *mesh;  // asked in its mesh alone; NULL: in every one
    const char *said;
};
struct rungs {
    struct rung items[RUNG_MAX];
    int count;
};

static struct pins *add(struct rungs *rungs, const char *said)
{
    assert(rungs->count >= 1 && rungs->count < RUNG_MAX);
    struct rung *rung = &rungs->items[rungs->count];
    *rung = rungs->items[rungs->count - 1];
    rung->said = said;
    rungs->count++;
    return &rung->pins;
}

static bool has_drives(const struct cluster *cluster)
{
    const struct offload parameters = {.optimizer = TIER_NVME, .parameters = TIER_NVME};
    struct err none = {0};
    return program_check_offload(cluster, &parameters, &none);
}

static struct rungs rungs_of(const struct search_request *request, bool says_memory)
{
    struct rungs rungs = {.count = 1, .items = {{.pins = request->pins}}};
    const struct pins *pins = &request->pins;
    unsigned offers = request->stack->offload;
    bool is_open = !pins_get(pins, CHOICE_OFFLOAD).set && offers != 0;
    if (is_open && !pins->search_offload && says_memory)
        add(&rungs, "--offload auto")->search_offload = true;
    const struct pins *last = &rungs.items[rungs.count - 1].pins;
    if (!is_open || !last->search_offload || !(offers >> OFFLOADS_PARAMETERS & 1)) return rungs;
    add(&rungs, "--offload auto, parameters on the host")->search_parameters = TIER_HOST;
    if (!pins_get(pins, CHOICE_BUCKET_BYTES).set)
        pins_set(add(&rungs, "--offload auto, parameters on the host, --bucket-bytes 4194304"),
                 CHOICE_BUCKET_BYTES, SMALL_BUCKET_BYTES, SMALL_BUCKET_BYTES);
    if (offers >> OFFLOADS_GRADIENTS & 1)
        add(&rungs, "--offload auto, parameters and gradients on the host")->search_gradients =
            true;
    if (offers >> OFFLOADS_PARAMETERS_NVME & 1 && has_drives(request->cluster))
        add(&rungs, "--offload auto, parameters on NVMe")->search_parameters = TIER_NVME;
    return rungs;
}

// A search on one rung. `is_whole`: what would help is found out as well where nothing fits.
static bool try_rung(struct arena *arena, const struct search_request *request,
                     const struct rung *rung, bool is_whole, struct search_result *result,
                     struct uneven_answer *answer, struct err *err)
{
    struct search_request own = *request;
    own.pins = rung->pins;
    for (int axis = 0; axis < AXIS_COUNT && rung->mesh; axis++) {
        int degree = rung->mesh->degree[axis];
        own.pins.degree[axis] = (struct int_range){degree, degree, true};
        own.pins.supposed = true;
    }
    if (!is_whole) own.nothing = SEARCH_FITS_ONLY;
    return uneven_search(arena, &own, result, answer, err);
}

// Whether what makes room takes time, on one stage: those of a pipeline take long to ask.
static bool is_pressed(const struct search_result *result)
{
    if (result->best_count == 0) return false;
    const struct parallel *best = &result->best[0].parallel;
    return best->degree[AXIS_PP] == 1 &&
           (!offload_is_none(&best->offload) || best->recompute != RECOMPUTE_NONE);
}

// What else may leave: gradients or parameters, where neither has to, gradients in the place of
// parameters, and both: what fits in several ways is not fastest in that which was asked first.
// Where neither has to, the mesh of the answer is asked alone: all meshes would take as long for
// each as the first search did.
static struct rungs rivals_of(const struct search_request *request, const struct rung *rung,
                              const struct search_result *result)
{
    struct rungs rungs = {.count = 1, .items = {*rung}};
    const struct pins *pins = &rung->pins;
    unsigned offers = request->stack->offload;
    bool is_open = pins->search_offload && !pins_get(pins, CHOICE_OFFLOAD).set;
    bool by_time = request->objective != OBJECTIVE_MEMORY;
    bool has_both = offers >> OFFLOADS_GRADIENTS & offers >> OFFLOADS_PARAMETERS & 1;
    if (!is_open || !by_time || !has_both || pins->search_parameters == TIER_NVME) return rungs;
    if (pins->search_parameters == TIER_DEVICE) {
        if (!is_pressed(result)) return rungs;
        rungs.items[0].mesh = &result->best[0].parallel;
    }
    struct pins *gradients = add(&rungs, "--offload auto, gradients on the host");
    gradients->search_gradients = true;
    gradients->search_parameters = TIER_DEVICE;
    if (pins->search_parameters == TIER_DEVICE) {
        struct pins *parameters = add(&rungs, "--offload auto, parameters on the host");
        parameters->search_gradients = false;
        parameters->search_parameters = TIER_HOST;
    }
    if (pins->search_gradients) return rungs;
    struct pins *both = add(&rungs, "--offload auto, parameters and gradients on the host");
    both->search_gradients = true;
    both->search_parameters = TIER_HOST;
    return rungs;
}

static bool is_faster(const struct search_result *a, const struct search_result *b)
{
    return a->best_count > 0 && b->best_count > 0 &&
           step_ns(a->best[0].cost.step_s) < step_ns(b->best[0].cost.step_s);
}

// Plans of other meshes that move as much were not asked.
static void forget_bounds(struct search_result *result)
{
    result->bound_s = result->layers_s = 0;
    for (int i = 0; i < result->cut_count; i++)
        result->cuts[i].bound_s = 0;
}

// The result is that of the first; becomes that of the one whose number is returned.
static int fastest_of(struct arena *arena, const struct search_request *request,
                      const struct rungs *rivals, struct search_result *result,
                      struct uneven_answer *answer)
{
    int fastest = 0;
    for (int r = 1; r < rivals->count && result->best_count > 0; r++) {
        struct err refused = {0};
        struct search_result other;
        struct uneven_answer other_answer;
        const struct rung *rival = &rivals->items[r];
        if (!try_rung(arena, request, rival, false, &other, &other_answer, &refused)) continue;
        if (!is_faster(&other, result)) continue;
        fastest = r;
        if (rival->mesh && request->cluster->rank_count > 1) forget_bounds(&other);
        *result = other;
        *answer = other_answer;
    }
    return fastest;
}

bool outgrown_search(struct arena *arena, struct search_request *request, bool says_memory,
                     struct search_result *result, struct uneven_answer *answer,
                     struct outgrown *outgrown, struct err *err)
{
    *outgrown = (struct outgrown){0};
    const struct rungs rungs = rungs_of(request, says_memory);
    int answered = 0;
    bool is_whole = rungs.count == 1;
    if (!try_rung(arena, request, &rungs.items[0], is_whole, result, answer, err)) return false;
    for (int r = 1; r < rungs.count && result->status == SEARCH_NOTHING_FITS; r++) {
        struct err refused = {0};
        struct search_result other;
        struct uneven_answer other_answer;
        // What is pinned may have no plan there.
        if (!try_rung(arena, request, &rungs.items[r], false, &other, &other_answer, &refused))
            continue;
        answered = r;
        *result = other;
        *answer = other_answer;
    }
    const struct rung *rung = &rungs.items[answered];
    const struct rungs rivals = rivals_of(request, rung, result);
    rung = &rivals.items[fastest_of(arena, request, &rivals, result, answer)];
    bool lacks_remedies = result->status == SEARCH_NOTHING_FITS && !is_whole;
    if (lacks_remedies && !try_rung(arena, request, rung, true, result, answer, err)) return false;
    request->pins = rung->pins;
    assert((answered == 0 || rung->said) && "every rung but the first has words");
    if (answered > 0)
        outgrown->said = arena_print(
            arena, "nothing fits %s with all of it on the device; searched with %s",
            units_bytes(arena, (double)cluster_device_bytes(request->cluster)), rung->said);
    return true;
}
