#include "planner/branches.h"

#include "plan/branches.h"
#include "planner/choice.h"
#include "planner/ranking.h"
#include "planner/scan.h"
#include "planner/uneven_split.h"

#include <assert.h>

// Chains that are split by branches, and plans of these that are changed further.
enum { SEEDS = 8, CLIMBERS = 6, KEPT = 24 };

struct splitting {
    struct arena *arena;
    struct uneven_split split;
    const struct graph *graph;
    struct ranking ranking;
    struct err refused;       // why the first one cannot be
    bool was_tried, settles;  // settles: the best one is looked at more closely
};

static const struct graph *graph_of(struct arena *arena, const struct search_request *request)
{
    const struct import_options options = {0};
    return model_graph(arena, request->model, &options);
}

bool branches_are_asked(const struct search_request *request)
{
    const struct pins *pins = &request->pins;
    if (pins->branches == BRANCHES_ON) return true;
    bool may_be = pins->branches == BRANCHES_FREE && stack_is_executed(request->stack) &&
                  request->objective == OBJECTIVE_TIME && request->cluster->rank_count > 1 &&
                  pins->replica_count == 0 && !pins->per_operator && pins->layout_count == 0;
    if (!may_be) return false;
    struct arena scratch = {0};
    const struct graph *graph = graph_of(&scratch, request);
    bool is_asked = graph->alone != NULL;
    arena_free(&scratch);
    return is_asked;
}

static void offer(struct splitting *splitting, const struct parallel *parallel)
{
    const struct search_request *request = splitting->split.request;
    struct candidate played;
    if (search_should_stop(request)) return;
    if (!splitting->was_tried)
        (void)!program_check(splitting->graph, request->cluster, &request->workload, parallel,
                             &splitting->refused);
    splitting->was_tried = true;
    if (uneven_play(&splitting->split, parallel, &played))
        (void)ranking_offer(&splitting->ranking, &played);
}

static int sum_of(const int *ranks, int first, int end)
{
    int sum = 0;
    for (int s = first; s < end; s++)
        sum += ranks ? ranks[s] : 1;
    return sum;
}

static int layers_before(const struct graph *graph, int position)
{
    int count = 0;
    for (int i = 0; i < position; i++)
        count += graph->blocks[graph->sequence[i]].role == BLOCK_LAYER;
    return count;
}

const int *branches_layers(struct arena *arena, const struct graph *graph, int stages, int in_front,
                           int between, const int *ranks)
{
    assert(in_front >= 1 && between >= 0 && in_front + between < stages);
    int *layers = ARENA_NEW(arena, int, stages), begin = 0;
    (void)branches_begin(graph, &begin, 1);
    int join = begin;
    while (between > 0 && join < graph->sequence_count && graph->alone[graph->sequence[join]] >= 0)
        join++;
    int ends[] = {in_front, in_front + between, stages};
    int befores[] = {0, layers_before(graph, begin), layers_before(graph, join),
                     graph->layer_count};
    for (int s = 0; s < stages; s++) {
        int part = 0;
        while (s >= ends[part])
            part++;
        int first = part > 0 ? ends[part - 1] : 0, own = befores[part + 1] - befores[part];
        int all = sum_of(ranks, first, ends[part]), at = sum_of(ranks, first, s);
        layers[s] = own * (at + sum_of(ranks, s, s + 1)) / all - own * at / all;
    }
    assert(sum_of(layers, 0, stages) == graph->layer_count && "each layer is on one stage");
    return layers;
}

bool branches_put(const struct pins *pins, struct parallel *parallel)
{
    const struct schedule_row *row = schedule_row(parallel->schedule);
    if (parallel->degree[AXIS_PP] < 2) return false;
    if (!row->runs_trees) {
        parallel->schedule = row->backward_fused ? SCHEDULE_1F1B : SCHEDULE_ZB_H1;
        parallel->in_flight = 0;
    }
    assert(schedule_row(parallel->schedule)->runs_trees);
    parallel->vpp = 1;
    parallel->branches = true;
    if (pins->stage_layers_count == 0) parallel->stage_layers_count = 0;
    return pins_allow(pins, CHOICE_SCHEDULE, parallel->schedule) &&
           pins_allow(pins, CHOICE_VPP, parallel->vpp) &&
           pins_allow(pins, CHOICE_IN_FLIGHT, parallel->in_flight);
}

static void try_seed(struct splitting *splitting, const struct parallel *seed)
{
    const struct pins *pins = &splitting->split.request->pins;
    struct parallel parallel = *seed;
    int stages = seed->degree[AXIS_PP];
    if (!branches_put(pins, &parallel)) return;
    offer(splitting, &parallel);
    if (pins->stage_layers_count > 0 || !splitting->graph->alone) return;
    for (int in_front = 1; in_front < stages; in_front++) {
        parallel.stage_layers =
            branches_layers(splitting->arena, splitting->graph, stages, in_front, 0, NULL);
        parallel.stage_layers_count = stages;
        offer(splitting, &parallel);
    }
}

// Seeds with a pipeline, of which the search may have found none worth while.
static void seek_piped(struct splitting *splitting, const struct search_request *chains)
{
    struct search_request request = *chains;
    struct search_result more = {0};
    struct err none = {0};
    request.top = SEEDS;
    request.nothing = SEARCH_FITS_ONLY;
    request.pins.supposed = true;
    if (request.cluster->rank_count < BRANCHES_STAGES) return;
    if (!pins_get(&request.pins, CHOICE_PP).set)
        pins_set(&request.pins, CHOICE_PP, BRANCHES_STAGES, request.cluster->rank_count);
    if (!pins_get(&request.pins, CHOICE_VPP).set) pins_set(&request.pins, CHOICE_VPP, 1, 1);
    if (!search_plans(splitting->arena, &request, &more, &none)) return;
    for (int i = 0; i < more.best_count; i++)
        try_seed(splitting, &more.best[i].parallel);
}

static bool take_better(struct splitting *splitting, const struct parallel *parallel,
                        struct candidate *best)
{
    const struct pins *pins = &splitting->split.request->pins;
    struct candidate played;
    bool is_better = pins_allow(pins, CHOICE_MICRO_BATCH, parallel->micro_batch) &&
                     pins_allow(pins, CHOICE_SCHEDULE, parallel->schedule) &&
                     pins_allow(pins, CHOICE_IN_FLIGHT, parallel->in_flight) &&
                     uneven_play(&splitting->split, parallel, &played) &&
                     candidate_compare(splitting->ranking.objective, &played, best) < 0;
    if (is_better) *best = played;
    return is_better;
}

// Every number of stages for what is in front of the first branch, for the branch alone and for the
// rest: layers that go from one to the other one at a time make neither stage the branch's own.
static bool other_splits(struct splitting *splitting, const struct parallel *from,
                         struct candidate *best)
{
    int stages = from->degree[AXIS_PP];
    bool is_better = false;
    for (int in_front = 1; in_front < stages; in_front++) {
        for (int between = 0; in_front + between < stages; between++) {
            struct parallel parallel = *from;
            parallel.stage_layers = branches_layers(splitting->arena, splitting->graph, stages,
                                                    in_front, between, NULL);
            parallel.stage_layers_count = stages;
            is_better |= take_better(splitting, &parallel, best);
        }
    }
    return is_better;
}

// The next smaller (step -1) or larger number of sequences that divides those of a replica; 0:
// none.
static int next_size(const struct splitting *splitting, const struct parallel *from, int step)
{
    int64_t batch = splitting->split.request->workload.global_batch / from->degree[AXIS_DP];
    for (int64_t size = from->micro_batch + step; size >= 1 && size <= batch; size += step)
        if (batch % size == 0) return (int)size;
    return 0;
}

// How much slower than the best a plan may be that is looked at more closely: with it 4 of 240
// drawn questions miss the best of all splits, by 1.3 % at most.
static const double NEAR_RATIO = 1.1;

// A plan with other turns may be best with other layers: one that is hardly slower gets them first.
static bool take_settled(struct splitting *splitting, const struct parallel *parallel,
                         struct candidate *best)
{
    struct candidate played;
    bool is_near = uneven_play(&splitting->split, parallel, &played) &&
                   played.cost.step_s < NEAR_RATIO * best->cost.step_s;
    if (is_near && splitting->settles) uneven_climb(&splitting->split, &played);
    bool is_better = is_near && candidate_compare(splitting->ranking.objective, &played, best) < 0;
    if (is_better) *best = played;
    return is_better;
}

// Other splits, and the micro-batch next to it, in each schedule of trees.
static bool other_turns(struct splitting *splitting, struct candidate *best)
{
    static const enum schedule_kind SCHEDULES[] = {SCHEDULE_1F1B, SCHEDULE_ZB_H1, SCHEDULE_ZB_H2};
    const struct parallel from = best->parallel;
    const struct pins *pins = &splitting->split.request->pins;
    bool is_open = pins->stage_layers_count == 0, is_better = false;
    for (int step = -1; step <= 1; step++) {
        struct parallel parallel = from;
        if (step != 0) parallel.micro_batch = next_size(splitting, &from, step);
        if (parallel.micro_batch == 0 ||
            !pins_allow(pins, CHOICE_MICRO_BATCH, parallel.micro_batch))
            continue;
        if (is_open) is_better |= other_splits(splitting, &parallel, best);
        is_better |= take_settled(splitting, &parallel, best);
        parallel.in_flight = 0;
        for (size_t i = 0; i < sizeof SCHEDULES / sizeof *SCHEDULES; i++) {
            parallel.schedule = SCHEDULES[i];
            if (pins_allow(pins, CHOICE_SCHEDULE, parallel.schedule) &&
                pins_allow(pins, CHOICE_IN_FLIGHT, 0))
                is_better |= take_settled(splitting, &parallel, best);
        }
    }
    return is_better;
}

// A layer from any stage to any other: a branch that is not the busiest may be what others wait
// for.
static bool other_layers(struct splitting *splitting, struct candidate *best)
{
    const struct parallel from = best->parallel;
    int stages = from.degree[AXIS_PP], split[STAGE_MAX];
    const int *layers = from.stage_layers;
    bool is_better = false;
    if (splitting->split.request->pins.stage_layers_count > 0) return false;
    if (from.stage_layers_count == 0) {
        if (!branches_split(splitting->graph, stages, split)) return false;
        layers = split;
    }
    for (int at = 0; at < stages * stages; at++) {
        int give = at / stages, take = at % stages;
        if (give == take || layers[give] == 0) continue;
        struct parallel other = from;
        int *moved = ARENA_COPY(splitting->arena, int, layers, stages);
        moved[give]--;
        moved[take]++;
        other.stage_layers = moved;
        other.stage_layers_count = stages;
        is_better |= take_better(splitting, &other, best);
    }
    return is_better;
}

static void climb(struct splitting *splitting, struct candidate *best)
{
    enum { ROUNDS_MOST = 16 };
    uneven_climb(&splitting->split, best);
    for (int i = 0; i < ROUNDS_MOST && !search_should_stop(splitting->split.request); i++) {
        bool is_better = other_turns(splitting, best);
        if (!is_better && splitting->settles) is_better = other_layers(splitting, best);
        if (!is_better) return;
        uneven_climb(&splitting->split, best);
    }
}

// The best one is climbed from again, unless the best chain is so much faster that it stays behind.
static void settle(struct splitting *splitting, bool is_wanted, const struct search_result *chains)
{
    struct ranking *ranking = &splitting->ranking;
    const struct candidate *chain = chains->best_count > 0 ? &chains->best[0] : NULL;
    ranking_sort(ranking);
    if (ranking->count == 0) return;
    if (!is_wanted && chain && ranking->items[0].cost.step_s > NEAR_RATIO * chain->cost.step_s)
        return;
    struct candidate best = ranking->items[0];
    splitting->settles = true;
    climb(splitting, &best);
    (void)ranking_offer(ranking, &best);
    ranking_sort(ranking);
}

static void keep_other(struct branches_answer *answer, const struct candidate *plan)
{
    assert(plan->cost.step_s > 0);
    answer->has_other = true;
    answer->other_s = plan->cost.step_s;
    answer->other = plan->parallel;
}

static int wanted_of(const struct search_request *request)
{
    return request->top > 0 ? request->top : 1;
}

// Branched plans in front, and where they are not all that is wanted the chains among them.
static void take_best(struct splitting *splitting, const struct search_request *request,
                      struct search_result *result)
{
    int wanted = wanted_of(request);
    struct ranking *all = &splitting->ranking;
    for (int i = 0; i < result->best_count && request->pins.branches != BRANCHES_ON; i++)
        (void)ranking_offer(all, &result->best[i]);
    ranking_sort(all);
    result->best = ARENA_NEW(splitting->arena, struct candidate, wanted);
    result->best_count = 0;
    for (int i = 0; i < all->count && result->best_count < wanted; i++) {
        const struct candidate *before =
            result->best_count > 0 ? &result->best[result->best_count - 1] : NULL;
        if (before && candidate_compare(all->objective, before, &all->items[i]) == 0) continue;
        result->best[result->best_count++] = candidate_copy(splitting->arena, &all->items[i]);
    }
    assert(result->best_count >= 1 && "a better plan was there to be taken");
    result->considered_count += splitting->split.played_count;
    result->priced_count += splitting->split.played_count;
    result->cut_count = 0;
    result->bound_s = result->layers_s = 0;
    result->bound_bytes = 0;
    if (result->status != SEARCH_STOPPED) result->status = SEARCH_FEASIBLE;
}

bool branches_check_pinned(const struct search_request *request, struct err *err)
{
    if (request->pins.branches != BRANCHES_ON) return true;
    if (!stack_is_executed(request->stack))
        return err_set(err, ERR_USAGE,
                       "--branches: stack %s has every stage hand on to the next; --stack "
                       "meshwright runs branches side by side",
                       request->stack->name);
    struct arena scratch = {0};
    const struct graph *graph = graph_of(&scratch, request);
    if (!graph->alone) (void)!branches_refuse_chain(graph, request->model->name, err);
    arena_free(&scratch);
    if (err->kind) return false;
    int ranks = request->cluster->rank_count;
    return ranks >= BRANCHES_STAGES ||
           err_set(err, ERR_USAGE,
                   "--branches: takes %d stages at least, for what is in front of a branch, the "
                   "branch and what joins it, each of a GPU or more; there are %d",
                   BRANCHES_STAGES, ranks);
}

bool branches_search(struct arena *arena, const struct search_request *request,
                     struct search_result *result, struct branches_answer *answer, struct err *err)
{
    bool is_wanted = request->pins.branches == BRANCHES_ON;
    struct search_request own = *request;
    *answer = (struct branches_answer){.is_asked = true};
    if (!branches_check_pinned(request, err)) return false;
    const struct graph *graph = graph_of(arena, request);
    own.pins.branches = BRANCHES_OFF;
    if (own.top < SEEDS) own.top = SEEDS;  // whatever is wanted
    if (is_wanted) own.nothing = SEARCH_FITS_ONLY;
    if (!search_plans(arena, &own, result, err)) return false;
    struct splitting splitting = {.arena = arena,
                                  .split = {.arena = arena, .request = &own},
                                  .graph = graph,
                                  .ranking = ranking_new(arena, request->objective, KEPT)};
    for (int i = 0; i < result->best_count && i < SEEDS; i++)
        try_seed(&splitting, &result->best[i].parallel);
    seek_piped(&splitting, &own);
    for (int i = 0; i < CLIMBERS && i < splitting.ranking.count; i++)
        climb(&splitting, &splitting.ranking.items[i]);
    settle(&splitting, is_wanted, result);
    answer->played_count = splitting.split.played_count;
    const struct candidate *chain = result->best_count > 0 ? &result->best[0] : NULL;
    const struct candidate *best = splitting.ranking.count > 0 ? &splitting.ranking.items[0] : NULL;
    bool is_better =
        best && (is_wanted || !chain || candidate_compare(request->objective, best, chain) < 0);
    if (is_better && chain) keep_other(answer, chain);
    if (!is_better && best) keep_other(answer, best);
    if (is_better) take_best(&splitting, request, result);
    if (result->best_count > wanted_of(request)) result->best_count = wanted_of(request);
    if (is_better || !is_wanted) return true;
    if (splitting.refused.kind) return err_set(err, ERR_USAGE, "%s", splitting.refused.text);
    return err_set(err, ERR_USAGE, "--branches: no plan with branches side by side fits");
}
