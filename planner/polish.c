#include "planner/polish.h"

#include "cost_models/stack.h"
#include "plan/program.h"
#include "plan/stages.h"

#include <assert.h>
#include <string.h>

struct polish {
    struct arena *arena;
    const struct scan_request *request;
    struct composer *composer;
    const struct graph *graph;  // of the plan at hand
    int priced, most;           // tries of the plan at hand
    struct candidate best;
};

static bool is_allowed(const struct polish *polish, const struct parallel *parallel)
{
    const struct search_request *search = polish->request->search;
    struct err err = {0};
    int64_t rounds = parallel_micro_batch_count(parallel, search->workload.global_batch);
    return pins_allow_all(&search->pins, parallel, NULL) &&
           stack_can_run(search->stack, parallel, NULL, NULL) &&
           stack_check_rounds(search->stack, parallel->schedule, parallel->degree[AXIS_PP], rounds,
                              &err) &&
           program_check(polish->graph, search->cluster, &search->workload, parallel, &err);
}

// Takes the plan where it is legal, has room and is better than the best so far.
static bool try(struct polish *polish, const struct parallel *wanted)
{
    const struct search_request *search = polish->request->search;
    struct parallel changed = *wanted, *parallel = &changed;
    changed.accumulates = stack_accumulates(search->stack, wanted, search->workload.global_batch);
    if (polish->priced >= polish->most || !is_allowed(polish, parallel)) return false;
    struct candidate plan = {.parallel = *parallel};
    polish->priced++;
    composer_group(polish->composer, parallel);
    bool by_time = search->objective != OBJECTIVE_MEMORY;
    if (by_time && composer_busiest(polish->composer, parallel) >= polish->best.closed_form_s)
        return false;
    if (by_time && composer_bound(polish->composer, parallel) >= polish->best.closed_form_s)
        return false;
    plan.cost = composer_cost(polish->composer, parallel);
    plan.closed_form_s = plan.cost.step_s;
    if (by_time && plan.closed_form_s >= polish->best.closed_form_s) return false;
    plan.memory = composer_memory(polish->composer, parallel, &plan.worst_stage);
    if (plan.memory.reserved_bytes > cluster_device_bytes(search->cluster)) return false;
    if (composer_host_shortfall(polish->composer, parallel) > 0) return false;
    if (candidate_compare(search->objective, &plan, &polish->best) >= 0) return false;
    polish->best = plan;
    return true;
}

// The layers of each stage as they are.
static int *stages_of(struct polish *polish, const struct parallel *parallel)
{
    composer_group(polish->composer, parallel);
    const struct division *division = composer_division(polish->composer, parallel);
    int *layers = ARENA_NEW(polish->arena, int, division->stage_count);
    memcpy(layers, division->stage_layers, (size_t)division->stage_count * sizeof *layers);
    return layers;
}

// One layer from any stage to any other.
static bool move_layers(struct polish *polish)
{
    const struct search_request *search = polish->request->search;
    struct parallel parallel = polish->best.parallel;
    int stages = parallel.degree[AXIS_PP];
    if (stages == 1 || search_fixes_stages(search)) return false;
    const int *now = stages_of(polish, &parallel);
    bool better = false;
    for (int i = 0; i < stages * stages; i++) {
        int from = i / stages, to = i % stages;
        if (from == to || now[from] == 0 || polish->priced >= polish->most) continue;
        int *layers = ARENA_NEW(polish->arena, int, stages);
        memcpy(layers, now, (size_t)stages * sizeof *layers);
        layers[from]--, layers[to]++;
        parallel.stage_layers = layers;
        parallel.stage_layers_count = stages;
        better |= try(polish, &parallel);
    }
    return better;
}

// Every set of classes, recomputed in all layers and in fewer and fewer while there is room.
static bool recompute_classes(struct polish *polish)
{
    const struct search_request *search = polish->request->search;
    if (pins_get(&search->pins, CHOICE_RECOMPUTE).set) return false;
    const struct parallel start = polish->best.parallel;
    if (start.recompute == RECOMPUTE_NONE && search->objective != OBJECTIVE_MEMORY) return false;
    unsigned known = space_classes(search, polish->graph);
    bool better = false;
    for (unsigned set = known; set; set = (set - 1) & known) {
        struct parallel parallel = start;
        parallel.recompute = RECOMPUTE_SELECTIVE;
        parallel.recompute_classes = set == 1u << OP_CLASS_ATTENTION ? 0 : set;
        parallel.recompute_layers = -1;
        better |= try(polish, &parallel);
        composer_group(polish->composer, &parallel);
        int most = composer_division(polish->composer, &parallel)->layers_most;
        for (int layers = most - 1; layers > 0 && search->objective != OBJECTIVE_MEMORY; layers--) {
            parallel.recompute_layers = layers;
            better |= try(polish, &parallel);
        }
    }
    return better;
}

// Its own way to recompute in more and in fewer layers, and in none.
static bool relayer(struct polish *polish)
{
    const struct search_request *search = polish->request->search;
    struct parallel parallel = polish->best.parallel;
    if (pins_get(&search->pins, CHOICE_RECOMPUTE_LAYERS).set) return false;
    if (parallel.recompute == RECOMPUTE_NONE) return false;
    composer_group(polish->composer, &parallel);
    int most = composer_division(polish->composer, &parallel)->layers_most;
    bool better = false;
    for (parallel.recompute_layers = most - 1; parallel.recompute_layers > 0;
         parallel.recompute_layers--)
        better |= try(polish, &parallel);
    parallel.recompute_layers = -1;
    better |= try(polish, &parallel);
    parallel.recompute = RECOMPUTE_NONE;
    parallel.recompute_classes = 0;
    return try(polish, &parallel) || better;
}

// Only for what the stack's users shard in groups; a group of one shards nothing.
static bool regroup(struct polish *polish)
{
    const struct search_request *search = polish->request->search;
    struct parallel parallel = polish->best.parallel;
    int ranks = parallel.degree[AXIS_DP] * parallel.degree[AXIS_CP];
    bool better = false;
    if (!(search->stack->zero_stages_grouped >> parallel.zero & 1)) return false;
    bool has_parts = parallel.zero_gradients > 0 || parallel.zero_parameters > 0;
    for (int group = 2; group < ranks && parallel.zero > 0 && !has_parts; group++) {
        if (ranks % group != 0) continue;
        parallel.zero_group = group;
        better |= try(polish, &parallel);
    }
    return better;
}

static bool recap(struct polish *polish)
{
    struct parallel parallel = polish->best.parallel;
    bool better = false;
    if (parallel.schedule != SCHEDULE_ZB_AUTO) return false;
    for (int cap = 1; cap < 2 * parallel.degree[AXIS_PP]; cap++) {
        parallel.in_flight = cap;
        better |= try(polish, &parallel);
    }
    return better;
}

// Tries the plan with what is counted off the device of as few layers as leave room: which layers
// makes no difference to the step, and how many is all that does.
static bool fewest_away(struct polish *polish, struct parallel *parallel, int16_t *layers,
                        int least, int most)
{
    assert(least >= 1 && least <= most && most <= OFFLOAD_LAYERS_MAX);
    int64_t limit_bytes = cluster_device_bytes(polish->request->search->cluster);
    int low = least, high = most, stage;
    composer_group(polish->composer, parallel);
    while (low < high) {
        *layers = (int16_t)(low + (high - low) / 2);
        bool fits =
            composer_memory(polish->composer, parallel, &stage).reserved_bytes <= limit_bytes;
        if (fits) high = *layers;
        if (!fits) low = *layers + 1;
    }
    *layers = (int16_t)low;
    return try(polish, parallel);
}

// Classes of operators have counts of their own, beside which nothing else has one.
static bool takes_counts(const struct offload *offload)
{
    for (int class = 1; class < OP_CLASS_COUNT; class ++)
        if (offload->layers[class] != offload->layers[0]) return false;
    return true;
}

// Where states are all off the device, or parameters beside them, and beside each number of layers
// that are recomputed, for these share the room. Of the two parameters come back: they take less
// room and move in every micro-batch.
static bool keep_more(struct polish *polish)
{
    const struct search_request *search = polish->request->search;
    const struct pins *pins = &search->pins;
    struct parallel parallel = polish->best.parallel;
    struct offload *offload = &parallel.offload;
    if (!pins->search_offload || pins_get(pins, CHOICE_OFFLOAD).set) return false;
    if (search->objective == OBJECTIVE_MEMORY || offload->optimizer == TIER_DEVICE) return false;
    if (!takes_counts(offload)) return false;
    composer_group(polish->composer, &parallel);
    int layers = composer_division(polish->composer, &parallel)->layers_most;
    int most = layers < OFFLOAD_LAYERS_MAX ? layers : OFFLOAD_LAYERS_MAX;
    int16_t *away =
        offload_moves_parameters(offload) ? &offload->parameter_layers : &offload->optimizer_layers;
    *away = (int16_t)most;
    if (most < 1 || !is_allowed(polish, &parallel)) return false;
    bool better = fewest_away(polish, &parallel, away, 1, most);
    bool is_open =
        parallel.recompute != RECOMPUTE_NONE && !pins_get(pins, CHOICE_RECOMPUTE_LAYERS).set;
    for (int i = 1; i < layers && is_open; i++) {
        parallel.recompute_layers = i;
        better |= fewest_away(polish, &parallel, away, 1, most);
    }
    return better;
}

// States of as few layers as leave room, or gradients or parameters where these leave, with
// activations as they are and all kept, beside each way to recompute of the space: what makes room
// otherwise may take longer than what leaves of some layers, where that of all takes longest. Of
// one stage: those of a pipeline take long to ask.
static bool part_layers(struct polish *polish)
{
    const struct search_request *search = polish->request->search;
    const struct space *space = polish->request->space;
    const struct parallel was = polish->best.parallel;
    struct parallel parallel = was;
    struct offload *offload = &parallel.offload;
    bool is_open = search->pins.search_offload && !pins_get(&search->pins, CHOICE_OFFLOAD).set;
    bool keeps_all = offload_is_none(offload) && was.recompute == RECOMPUTE_NONE;
    bool fetches = offload_moves_parameters(offload), returns = offload_moves_gradients(offload);
    int16_t *away = fetches   ? &offload->parameter_layers
                    : returns ? &offload->gradient_layers
                              : &offload->optimizer_layers;
    int least = !fetches && returns ? OFFLOAD_GRADIENTS_LEAST : 1;
    if (!is_open || search->objective == OBJECTIVE_MEMORY || keeps_all) return false;
    if (was.degree[AXIS_PP] > 1) return false;
    bool better = false;
    for (int i = 0; i < 2 * space->recomputes.count; i++) {
        if (i % 2 == 1 && (!offload_moves_activations(&was.offload) || !takes_counts(&was.offload)))
            continue;
        parallel = was;
        if (i % 2 == 0) {
            offload->activations = TIER_DEVICE;
            memset(offload->layers, 0, sizeof offload->layers);
        }
        if (offload->optimizer == TIER_DEVICE) offload->optimizer = TIER_HOST;
        parallel.recompute =
            recompute_of_value(space->recomputes.values[i / 2], &parallel.recompute_classes);
        parallel.recompute_layers = -1;
        if (!is_allowed(polish, &parallel)) continue;
        composer_group(polish->composer, &parallel);
        int most = composer_division(polish->composer, &parallel)->layers_most;
        if (most < least || most > OFFLOAD_LAYERS_MAX) continue;
        if (least > 1) offload->optimizer_layers = 0;
        better |= fewest_away(polish, &parallel, away, least, most);
    }
    return better;
}

// Where gradients are all off the device: those of as few layers as leave room, with parameters off
// it as they are and with all of them, for these share the room as well.
static bool keep_gradients(struct polish *polish)
{
    const struct search_request *search = polish->request->search;
    struct parallel parallel = polish->best.parallel;
    struct offload *offload = &parallel.offload;
    const struct offload was = *offload;
    if (!search->pins.search_offload || pins_get(&search->pins, CHOICE_OFFLOAD).set) return false;
    if (search->objective == OBJECTIVE_MEMORY || !offload_moves_gradients(offload)) return false;
    if (!takes_counts(offload)) return false;
    composer_group(polish->composer, &parallel);
    int most = composer_division(polish->composer, &parallel)->layers_most;
    if (most > OFFLOAD_LAYERS_MAX) most = OFFLOAD_LAYERS_MAX;
    if (was.optimizer_layers > 0 && was.optimizer_layers < most) most = was.optimizer_layers;
    bool better = false;
    for (int all = 0; all < 2 && most >= OFFLOAD_GRADIENTS_LEAST; all++) {
        *offload = was;
        if (all) offload->parameter_layers = 0;
        offload->gradient_layers = (int16_t)most;
        if (!is_allowed(polish, &parallel)) continue;
        better |= fewest_away(polish, &parallel, &offload->gradient_layers, OFFLOAD_GRADIENTS_LEAST,
                              most);
    }
    return better;
}

static bool same_degrees(const struct space_mesh *mesh, const struct parallel *parallel)
{
    return memcmp(mesh->degree, parallel->degree, sizeof mesh->degree) == 0 &&
           mesh->cp_kind == parallel->cp_kind;
}

// Its mesh laid over the ranks in the other orders of the space: the best order of one split of the
// layers need not be that of another, and shard groups may be other than any of the space.
static bool reorder(struct polish *polish)
{
    const struct space *space = polish->request->space;
    struct parallel parallel = polish->best.parallel;
    bool better = false;
    for (int i = 0; i < space->mesh_count; i++) {
        const struct space_mesh *mesh = &space->meshes[i];
        if (!same_degrees(mesh, &parallel)) continue;
        if (memcmp(parallel.order, mesh->order, sizeof parallel.order) == 0) continue;
        parallel.order_count = mesh->order_count;
        memcpy(parallel.order, mesh->order, sizeof parallel.order);
        better |= try(polish, &parallel);
    }
    return better;
}

// Everything else that may be moved off the device, where that is searched.
static bool move_off(struct polish *polish)
{
    const struct search_request *search = polish->request->search;
    struct parallel parallel = polish->best.parallel;
    struct space_move moves[SPACE_MOVE_MAX];
    bool better = false;
    if (!search->pins.search_offload || pins_get(&search->pins, CHOICE_OFFLOAD).set) return false;
    composer_group(polish->composer, &parallel);
    int most = composer_division(polish->composer, &parallel)->layers_most;
    int count = space_moves(search, parallel.zero, most, moves);
    for (int i = 0; i < count; i++) {
        for (int layers = moves[i].layers_low; layers <= moves[i].layers_high; layers++) {
            parallel.offload = space_moved(&moves[i], layers);
            better |= try(polish, &parallel);
        }
    }
    return better;
}

// Whether the plan divides its layers, or recomputes classes, as no plan of the space does.
static bool is_outside(const struct polish *polish, const struct parallel *parallel)
{
    const struct space *space = polish->request->space;
    if (parallel->stage_layers_count > 0 && !space->flop_stages) return true;
    int value = recompute_value(parallel->recompute, parallel->recompute_classes);
    for (int i = 0; i < space->recomputes.count; i++)
        if (space->recomputes.values[i] == value) return false;
    return true;
}

// The first cap that the space has for the schedule (planner/space_tails.c); its own stays.
static int first_cap(const struct polish *polish, const struct parallel *parallel)
{
    const struct parallel *own = &polish->best.parallel;
    int stages = parallel->degree[AXIS_PP];
    if (parallel->schedule == own->schedule) return own->in_flight;
    if (parallel->schedule == SCHEDULE_ZB_AUTO) return stages;
    bool searched = polish->request->search->stack->searched_zero_bubble;
    return searched && parallel->schedule == SCHEDULE_ZB_H2 ? 2 * stages : 0;
}

// The same with the fewest layers recomputed that leave room; -1: not legal, or none recomputed.
static int fewest_layers(struct polish *polish, struct parallel parallel)
{
    int64_t limit_bytes = cluster_device_bytes(polish->request->search->cluster);
    if (parallel.recompute == RECOMPUTE_NONE || !is_allowed(polish, &parallel)) return -1;
    composer_group(polish->composer, &parallel);
    int low = 1, high = composer_division(polish->composer, &parallel)->layers_most, stage;
    while (low < high) {
        parallel.recompute_layers = low + (high - low) / 2;
        bool fits =
            composer_memory(polish->composer, &parallel, &stage).reserved_bytes <= limit_bytes;
        if (fits) high = parallel.recompute_layers;
        if (!fits) low = parallel.recompute_layers + 1;
    }
    return low;
}

// Of a plan that the space does not hold no other schedule, number of chunks or ZeRO was asked,
// which may have room for other layers.
static bool reschedule(struct polish *polish)
{
    const struct space *space = polish->request->space;
    struct parallel parallel = polish->best.parallel;
    bool better = false;
    if (parallel.degree[AXIS_PP] == 1 || !is_outside(polish, &parallel)) return false;
    int most = space->layer_count / parallel.degree[AXIS_PP] + 1;
    for (int i = 0; i < space->schedules.count; i++) {
        parallel.schedule = (enum schedule_kind)space->schedules.values[i];
        parallel.in_flight = first_cap(polish, &parallel);
        bool chunked = schedule_takes_chunks(parallel.schedule);
        for (parallel.vpp = 1; parallel.vpp <= (chunked ? most : 1); parallel.vpp++) {
            better |= try(polish, &parallel);
            struct parallel fewer = parallel;
            fewer.recompute_layers = fewest_layers(polish, parallel);
            if (fewer.recompute_layers > 0) better |= try(polish, &fewer);
        }
    }
    return better;
}

static bool reshard(struct polish *polish)
{
    const struct space *space = polish->request->space;
    struct parallel parallel = polish->best.parallel;
    bool better = false;
    if (!is_outside(polish, &parallel)) return false;
    for (int i = 0; i < space->zeros.count; i++) {
        parallel.zero = space->zeros.values[i];
        if (parallel.zero < 1) parallel.zero_group = 0;
        if (parallel.zero < 2) parallel.zero_gradients = 0;
        if (parallel.zero < 3) parallel.zero_parameters = 0;
        better |= try(polish, &parallel);
    }
    return better;
}

// Two plans may be improved to the same one.
static bool holds(const struct ranking *ranking, const struct candidate *plan)
{
    for (int i = 0; i < ranking->count; i++)
        if (candidate_compare(ranking->objective, &ranking->items[i], plan) == 0) return true;
    return false;
}

// Layers that were moved and came back are the even split again, which is the same plan unless
// chunks of stages lie otherwise in it.
static void name_even(struct polish *polish)
{
    struct candidate even = polish->best;
    const struct parallel *named = &polish->best.parallel;
    even.parallel.stage_layers = NULL;
    even.parallel.stage_layers_count = 0;
    if (polish->request->space->flop_stages) return;
    if (named->stage_layers_count == 0 || !is_allowed(polish, &even.parallel)) return;
    composer_group(polish->composer, &even.parallel);
    const struct division *division = composer_division(polish->composer, &even.parallel);
    for (int i = 0; i < named->stage_layers_count; i++)
        if (division->stage_layers[i] != named->stage_layers[i]) return;
    even.cost = composer_cost(polish->composer, &even.parallel);
    even.closed_form_s = even.cost.step_s;
    even.memory = composer_memory(polish->composer, &even.parallel, &even.worst_stage);
    bool is_same = step_ns(even.cost.step_s) == step_ns(polish->best.cost.step_s) &&
                   even.memory.reserved_bytes == polish->best.memory.reserved_bytes;
    if (is_same) polish->best = even;
}

// The best that so many tries make of a plan.
static struct candidate improve(struct polish *polish, const struct candidate *plan, int most)
{
    assert(most >= 1 && plan->cost.step_s > 0);
    // What changes least stands first, and is tried again after each gain; what has most tries
    // last.
    static bool (*const MOVES[])(struct polish *) = {
        reorder, keep_more,   part_layers, keep_gradients, relayer,           regroup,
        recap,   move_layers, reshard,     reschedule,     recompute_classes, move_off};
    const struct parallel *parallel = &plan->parallel;
    polish->best = *plan;
    polish->priced = 0;
    polish->most = most;
    polish->graph =
        memo_graph(polish->request->memo, parallel->attention, parallel->degree[AXIS_TP]);
    for (size_t move = 0; move < sizeof MOVES / sizeof *MOVES;)
        move = MOVES[move](polish) ? 0 : move + 1;
    name_even(polish);
    assert(candidate_compare(polish->request->search->objective, &polish->best, plan) <= 0);
    return polish->best;
}

void polish(struct arena *arena, struct arena *scratch, const struct scan_request *request,
            struct ranking *ranking)
{
    struct polish polish = {.arena = arena, .request = request};
    if (pins_describe_run(&request->search->pins)) return;
    struct ranking better = ranking_new(arena, ranking->objective, ranking->capacity);
    polish.composer = composer_new(arena, scratch, request->memo);
    struct candidate first = {0};
    for (int i = 0; i < ranking->count; i++) {
        int most = i == 0 ? POLISH_MOST : POLISH_MOST_OTHERS;
        struct candidate plan = improve(&polish, &ranking->items[i], most);
        if (i == 0) first = plan;
        if (!holds(&better, &plan)) ranking_offer(&better, &plan);
    }
    // Another that came out first had few tries.
    if (better.count > 0 && candidate_compare(ranking->objective, &better.items[0], &first) < 0) {
        struct candidate plan = improve(&polish, &better.items[0], POLISH_MOST);
        if (!holds(&better, &plan)) ranking_offer(&better, &plan);
    }
    assert((better.count > 0) == (ranking->count > 0) && better.count <= ranking->capacity);
    *ranking = better;
}
