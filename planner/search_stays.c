#include "planner/search_stays.h"

#include "planner/question.h"
#include "simulator/closed_form.h"

#include <assert.h>
#include <string.h>

// What shares the room: layers whose states, parameters, gradients and activations leave and which
// are recomputed, blocks and layers whose parameters stay for a while.
enum count { STATES, AWAY, GRADIENTS, ACTIVATIONS, RECOMPUTED, TURN, BETWEEN, COUNTS };
static const int STAYS[COUNTS] = {-1, -1, -1, -1, -1, 1, 1};  // the way in which more stays

struct point {
    int at[COUNTS];
    struct candidate plan;
};

struct staying {
    struct arena *arena, *scratch;
    const struct search_request *search;
    struct parallel like;  // the plan at hand, in one way to recompute
    struct offload moved;  // of it
    bool has[COUNTS];      // what of it there is
    enum count held;       // leaves as it does; COUNTS: none
    int layers, tried;
    struct point here, best;
};

// One more than all layers: all that is no layer, too. Gradients of too few layers stay all.
static struct offload offload_of(const struct staying *staying, const int at[COUNTS])
{
    assert(at[ACTIVATIONS] >= 0 && at[ACTIVATIONS] <= staying->layers);
    struct offload offload = staying->moved;
    int all = staying->layers + 1;
    if (staying->has[STATES])
        offload.optimizer_layers = (int16_t)(at[STATES] == all ? 0 : at[STATES]);
    if (staying->has[AWAY]) offload.parameter_layers = (int16_t)(at[AWAY] == all ? 0 : at[AWAY]);
    offload.gradients = staying->has[GRADIENTS] && at[GRADIENTS] >= OFFLOAD_GRADIENTS_LEAST;
    bool counts = offload.gradients && at[GRADIENTS] != all;
    offload.gradient_layers = (int16_t)(counts ? at[GRADIENTS] : 0);
    if (at[ACTIVATIONS] == 0)
        offload.activations = TIER_DEVICE;
    else if (offload.activations == TIER_DEVICE)
        offload.activations = TIER_HOST;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        offload.layers[class] =
            (int16_t)(at[ACTIVATIONS] == staying->layers ? -1 : at[ACTIVATIONS]);
    offload.turn_blocks = (int16_t)at[TURN];
    offload.between_layers = (int16_t)at[BETWEEN];
    return offload;
}

// Prices the point; false where it is not legal or has no room.
static bool weigh(struct staying *staying, struct point *point)
{
    struct parallel parallel = staying->like;
    struct evaluation evaluation = {0};
    struct err err = {0};
    parallel.offload = offload_of(staying, point->at);
    if (staying->has[RECOMPUTED])
        parallel.recompute_layers =
            point->at[RECOMPUTED] == staying->layers ? -1 : point->at[RECOMPUTED];
    if (!pins_allow_all(&staying->search->pins, &parallel, NULL)) return false;
    struct evaluation_request request = search_question(staying->search, &parallel);
    struct arena_mark mark = arena_mark(staying->arena);
    bool fits = evaluate(staying->arena, staying->scratch, &request, &evaluation, &err);
    staying->tried++;
    if (fits) {
        struct candidate *plan = &point->plan;
        *plan = (struct candidate){.parallel = parallel, .cost = closed_form(evaluation.price)};
        plan->closed_form_s = plan->cost.step_s;
        plan->memory = evaluation.stage_memory[evaluation.worst_stage];
        plan->worst_stage = evaluation.worst_stage;
        fits = plan->memory.reserved_bytes <= cluster_device_bytes(staying->search->cluster) &&
               hosts_shortfall(&evaluation.hosts) <= 0;
    }
    arena_reset(staying->arena, mark);
    return fits;
}

static bool is_shorter(const struct point *a, const struct point *b)
{
    return step_ns(a->plan.closed_form_s) < step_ns(b->plan.closed_form_s);
}

// No more may stay for a while than leave, and what is no layer not from backward to forward; no
// gradients leave but those of states that do.
static bool is_point(const struct staying *staying, const int at[COUNTS])
{
    static const int LOW[COUNTS] = {1, 1, OFFLOAD_GRADIENTS_LEAST - 1, 0, 1, 0, 0};
    int layers = staying->layers, all = layers + 1, away = at[AWAY];
    int states = staying->has[STATES] ? at[STATES] : all;
    if (states < OFFLOAD_GRADIENTS_LEAST) states = OFFLOAD_GRADIENTS_LEAST - 1;
    const int high[COUNTS] = {all, all, states, layers, layers, away, away < all ? away : layers};
    for (int count = 0; count < COUNTS; count++)
        if (staying->has[count] && (at[count] < LOW[count] || at[count] > high[count]))
            return false;
    return true;
}

// So many more of one count stay; of `other` as many fewer, unless it is the same.
static bool step(struct staying *staying, enum count which, enum count other, int by)
{
    struct point next = staying->here;
    if (staying->tried >= SEARCH_STAYS_MOST) return false;
    next.at[which] += STAYS[which] * by;
    if (other != which) next.at[other] -= STAYS[other] * by;
    if (!staying->has[which] || !staying->has[other]) return false;
    if (which == staying->held || other == staying->held) return false;
    // Gradients leave of no more layers than their states.
    if (which == STATES && next.at[GRADIENTS] > next.at[STATES])
        next.at[GRADIENTS] = next.at[STATES];
    if (!is_point(staying, next.at)) return false;
    if (!weigh(staying, &next) || !is_shorter(&next, &staying->here)) return false;
    staying->here = next;
    return true;
}

static bool step_any(struct staying *staying, int by)
{
    for (enum count which = 0; which < COUNTS; which++)
        if (step(staying, which, which, by)) return true;
    for (enum count which = 0; which < COUNTS; which++)
        for (enum count other = 0; other < COUNTS; other++)
            if (other != which && step(staying, which, other, by)) return true;
    return false;
}

static void climb(struct staying *staying, struct point from)
{
    assert(staying->layers <= OFFLOAD_LAYERS_MAX && "counts of layers have 16 bits");
    if (!weigh(staying, &from)) return;
    staying->here = from;
    for (bool again = true; again; staying->held = COUNTS) {
        again = staying->held != COUNTS;
        for (int by = staying->layers; by > 0; by = step_any(staying, by) ? by : by / 2)
            continue;
    }
    if (is_shorter(&staying->here, &staying->best)) staying->best = staying->here;
}

static int count_layers(const struct graph *graph)
{
    int layers = 0;
    for (int i = 0; i < graph->sequence_count; i++)
        layers += graph->blocks[graph->sequence[i]].role == BLOCK_LAYER;
    return layers;
}

static bool may_stay(const struct parallel *parallel)
{
    struct parallel asked = *parallel;
    struct err err = {0};
    asked.offload.turn_blocks = 1;
    return offload_moves_parameters(&parallel->offload) && stays_check(&asked, &err);
}

// States of some layers, beside all else that may leave: where they are the host's.
static bool may_share(const struct search_request *search, const struct parallel *parallel)
{
    return parallel->offload.optimizer == TIER_HOST && parallel->degree[AXIS_PP] == 1 &&
           !offload_moves_parameters(&parallel->offload) &&
           parallel->offload.activations != TIER_NVME && stack_is_executed(search->stack);
}

// Of classes of operators that have counts of their own the most: beside another count all have
// one.
static int activations_of(const struct offload *moved, int layers)
{
    int most = 0;
    for (int class = 0; class < OP_CLASS_COUNT; class ++) {
        int count = moved->layers[class] < 0 ? layers : moved->layers[class];
        if (count > most) most = count;
    }
    return most < layers ? most : layers;
}

// From all that leaves with states of all layers, with and without activations and gradients.
static void climb_shares(struct staying *staying, struct point most)
{
    int all = staying->layers + 1;
    most.at[STATES] = all;
    for (int way = 0; way < 4; way++) {
        most.at[GRADIENTS] = way & 1 ? all : OFFLOAD_GRADIENTS_LEAST - 1;
        most.at[ACTIVATIONS] = way & 2 ? staying->layers : 0;
        staying->tried = 0;
        // States of a layer are more bytes than its gradients: those stay only where there is room
        // beside them.
        staying->held = way & 1 ? GRADIENTS : COUNTS;
        climb(staying, most);
    }
}

static void better(struct staying *staying)
{
    const struct offload *moved = &staying->moved;
    const struct parallel *parallel = &staying->like;
    int layers = staying->layers, all = layers + 1, recomputed = parallel->recompute_layers;
    bool parts = moved->gradients && moved->gradient_layers > 0;
    bool stays = offload_moves_parameters(moved);
    unsigned offers = stays ? 0 : staying->search->stack->offload;
    const bool has[COUNTS] = {!stays,
                              stays,
                              moved->gradients || offers >> OFFLOADS_GRADIENTS & 1,
                              offload_moves_activations(moved) ||
                                  offers >> OFFLOADS_ACTIVATIONS & 1,
                              parallel->recompute != RECOMPUTE_NONE,
                              stays,
                              stays};
    struct point now = {.at = {moved->optimizer_layers > 0 ? moved->optimizer_layers : all,
                               moved->parameter_layers > 0 ? moved->parameter_layers : all,
                               parts ? moved->gradient_layers : all, activations_of(moved, layers),
                               recomputed < 0 || recomputed > layers ? layers : recomputed}};
    if (!stays && !moved->gradients) now.at[GRADIENTS] = OFFLOAD_GRADIENTS_LEAST - 1;
    if (layers > OFFLOAD_LAYERS_MAX) return;
    memcpy(staying->has, has, sizeof has);
    climb(staying, now);
    if (!stays) {
        climb_shares(staying, now);
        if (parallel->recompute == RECOMPUTE_FULL) return;
        staying->like.recompute = RECOMPUTE_FULL;
        staying->like.recompute_classes = 0;
        staying->has[RECOMPUTED] = true;
        now.at[RECOMPUTED] = layers;
        climb_shares(staying, now);
        return;
    }
    struct point most = now;
    most.at[AWAY] = most.at[GRADIENTS] = all;
    staying->tried = 0;
    if (memcmp(now.at, most.at, sizeof now.at) != 0) climb(staying, most);
}

void search_stays(struct arena *arena, struct arena *scratch, const struct scan_request *request,
                  struct ranking *ranking)
{
    const struct search_request *search = request->search;
    if (search->objective == OBJECTIVE_MEMORY || pins_describe_run(&search->pins)) return;
    if (!search->pins.search_offload || pins_get(&search->pins, CHOICE_OFFLOAD).set) return;
    for (int i = 0; i < ranking->count && i < SEARCH_STAYS_PLANS; i++) {
        struct candidate *plan = &ranking->items[i];
        const struct parallel *parallel = &plan->parallel;
        if (!may_stay(parallel) && !may_share(search, parallel)) continue;
        struct staying staying = {.arena = arena,
                                  .scratch = scratch,
                                  .search = search,
                                  .like = *parallel,
                                  .held = COUNTS,
                                  .moved = parallel->offload,
                                  .best = {.plan = *plan}};
        staying.layers =
            count_layers(memo_graph(request->memo, parallel->attention, parallel->degree[AXIS_TP]));
        better(&staying);
        assert(step_ns(staying.best.plan.closed_form_s) <= step_ns(plan->closed_form_s));
        *plan = staying.best.plan;
    }
    ranking_sort(ranking);
}
