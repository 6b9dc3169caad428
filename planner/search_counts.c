#include "planner/search_counts.h"

#include "planner/choice.h"
#include "planner/polish.h"
#include "planner/search_stays.h"

#include <assert.h>
#include <limits.h>

// Groups that are priced of each count behind the first plan that fits, and plans kept of it.
enum { LOOKS = 100, KEPT = 3 };
// What is bettered by other classes to recompute starts so much slower.
static const double MOVED_RATIO = 1.2;

struct counting {
    struct arena *arena, *scratch;
    const struct scan_request *request;
    struct ranking found;
};

// Whether plans of the space make room in ways that take time, and what leaves may do in layers.
static bool may_count(const struct scan_request *request, const struct ranking *ranking)
{
    const struct search_request *search = request->search;
    const struct pins *pins = &search->pins;
    bool is_open = pins->search_offload && !pins_get(pins, CHOICE_OFFLOAD).set;
    if (!is_open || pins->search_parameters != TIER_DEVICE || pins_describe_run(pins)) return false;
    if (search->objective == OBJECTIVE_MEMORY || !stack_is_executed(search->stack)) return false;
    if (ranking->count == 0) return false;
    const struct parallel *best = &ranking->items[0].parallel;
    return !offload_is_none(&best->offload) || best->recompute != RECOMPUTE_NONE;
}

// Offers the best plans of at most so many stages that move just this, or what they like (NULL);
// whether one is the fastest
// of all.
static bool ask(struct counting *counting, const struct offload *moved, int stages_most,
                int looks_most, double below_s)
{
    assert(looks_most >= 0 && below_s > 0 && stages_most >= 1);
    struct search_request pinned = *counting->request->search;
    struct int_range *stages = &pinned.pins.degree[AXIS_PP];
    if (stages->set && stages->low > stages_most) return false;
    if (!stages->set || stages->high > stages_most)
        *stages = (struct int_range){stages->set ? stages->low : 1, stages_most, true};
    pinned.progress = NULL;
    pinned.exhaustive = false;
    pinned.below_s = below_s;
    if (moved) pins_set(&pinned.pins, CHOICE_OFFLOAD, offload_value(moved), offload_value(moved));
    struct scan_request scan = *counting->request;
    scan.search = &pinned;
    scan.bases = NULL;
    scan.keep = KEPT;
    scan.looks_most = looks_most;
    scan.space = space_make(counting->arena, &pinned, &scan.graphs);
    struct scan_result result = scan_space(counting->arena, counting->scratch, &scan);
    struct ranking *found = &counting->found;
    for (int i = 0; i < result.ranking.count; i++)
        (void)ranking_offer(found, &result.ranking.items[i]);
    return result.ranking.count > 0 &&
           candidate_compare(found->objective, &result.ranking.items[0], &found->items[0]) == 0;
}

// What was found is bettered and offered to the ranking.
static void better(struct counting *counting, struct ranking *ranking)
{
    const struct scan_request *request = counting->request;
    struct ranking *found = &counting->found;
    if (found->count > 0) {
        polish(counting->arena, counting->scratch, request, found);
        search_stays(counting->arena, counting->scratch, request, found);
    }
    for (int i = 0; i < found->count; i++)
        (void)ranking_offer(ranking, &found->items[i]);
    *found = ranking_new(counting->arena, ranking->objective, ranking->capacity);
}

static void move_activations(struct counting *counting, double below_s, struct ranking *ranking)
{
    struct offload all = {.activations = TIER_HOST};
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        all.layers[class] = -1;
    (void)ask(counting, &all, INT_MAX, 0, below_s * MOVED_RATIO);
    better(counting, ranking);
}

static void move_states(struct counting *counting, double below_s, struct ranking *ranking)
{
    struct offload some = {.optimizer = TIER_HOST,
                           .gradients = counting->request->search->pins.search_gradients};
    int most = counting->request->space->layer_count, best = 0;
    if (most > OFFLOAD_LAYERS_MAX) most = OFFLOAD_LAYERS_MAX;
    for (int layers = 1; layers < most; layers *= 2) {
        some.optimizer_layers = (int16_t)layers;
        // Stages of fewer layers, but for one more that a balance may give them, have moved all
        // theirs with half as many.
        int stages_most =
            layers < 4 ? INT_MAX : counting->request->space->layer_count / (layers / 2);
        if (ask(counting, &some, stages_most, LOOKS, below_s)) best = layers;
    }
    some.optimizer_layers = (int16_t)best;
    if (best > 0) (void)ask(counting, &some, INT_MAX, 0, below_s);
    better(counting, ranking);
}

// Plans of one stage, whose numbers of layers are bettered together, behind better ones of several.
static void stay_whole(struct counting *counting, double below_s, struct ranking *ranking)
{
    (void)ask(counting, NULL, 1, LOOKS, below_s * MOVED_RATIO);
    better(counting, ranking);
}

void search_counts(struct arena *arena, struct arena *scratch, const struct scan_request *request,
                   double below_s, struct ranking *ranking)
{
    if (!may_count(request, ranking)) return;
    bool moves_states = ranking->items[0].parallel.offload.optimizer != TIER_DEVICE;
    bool is_piped = ranking->items[0].parallel.degree[AXIS_PP] > 1;
    struct counting counting = {.arena = arena, .scratch = scratch, .request = request};
    counting.found = ranking_new(arena, ranking->objective, ranking->capacity);
    if (!request->search->pins.search_gradients) move_activations(&counting, below_s, ranking);
    if (moves_states) move_states(&counting, below_s, ranking);
    if (is_piped) stay_whole(&counting, below_s, ranking);
}
