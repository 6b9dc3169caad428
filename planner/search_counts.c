#include "planner/search_counts.h"

#include "planner/choice.h"
#include "planner/polish.h"
#include "planner/search_stays.h"

// Groups that are priced of each count behind the first plan that fits, and plans kept of it.
enum { LOOKS = 100, KEPT = 3 };

// Whether counts may be faster: states leave, and nothing else has to beside them.
static bool may_count(const struct scan_request *request, const struct ranking *ranking)
{
    const struct search_request *search = request->search;
    const struct pins *pins = &search->pins;
    bool is_open = pins->search_offload && !pins_get(pins, CHOICE_OFFLOAD).set;
    if (!is_open || pins->search_parameters != TIER_DEVICE || pins_describe_run(pins)) return false;
    if (search->objective == OBJECTIVE_MEMORY || !stack_is_executed(search->stack)) return false;
    return ranking->count > 0 && ranking->items[0].parallel.offload.optimizer != TIER_DEVICE;
}

// Offers plans that move states of so many layers of each stage; whether one is the fastest.
static bool count(struct arena *arena, struct arena *scratch, const struct scan_request *request,
                  int layers, int looks_most, double below_s, struct ranking *counted)
{
    const struct offload some = {.optimizer = TIER_HOST,
                                 .optimizer_layers = (int16_t)layers,
                                 .gradients = request->search->pins.search_gradients};
    struct search_request pinned = *request->search;
    pinned.progress = NULL;
    pinned.exhaustive = false;
    pinned.below_s = below_s;
    pins_set(&pinned.pins, CHOICE_OFFLOAD, offload_value(&some), offload_value(&some));
    struct scan_request scan = *request;
    scan.search = &pinned;
    scan.bases = NULL;
    scan.keep = KEPT;
    scan.looks_most = looks_most;
    scan.space = space_make(arena, &pinned, &request->graphs);
    struct scan_result found = scan_space(arena, scratch, &scan);
    for (int i = 0; i < found.ranking.count; i++)
        (void)ranking_offer(counted, &found.ranking.items[i]);
    return found.ranking.count > 0 &&
           candidate_compare(counted->objective, &found.ranking.items[0], &counted->items[0]) == 0;
}

void search_counts(struct arena *arena, struct arena *scratch, const struct scan_request *request,
                   double below_s, struct ranking *ranking)
{
    if (!may_count(request, ranking)) return;
    struct ranking counted = ranking_new(arena, ranking->objective, ranking->capacity);
    int most = request->space->layer_count, best = 0;
    if (most > OFFLOAD_LAYERS_MAX) most = OFFLOAD_LAYERS_MAX;
    for (int layers = 1; layers < most; layers *= 2)
        if (count(arena, scratch, request, layers, LOOKS, below_s, &counted)) best = layers;
    if (best == 0) return;
    (void)count(arena, scratch, request, best, 0, below_s, &counted);
    polish(arena, scratch, request, &counted);
    search_stays(arena, scratch, request, &counted);
    for (int i = 0; i < counted.count; i++)
        (void)ranking_offer(ranking, &counted.items[i]);
}
