#include "plan/branches.h"
#include "planner/branches.h"
#include "planner/choice.h"
#include "planner/meshes_check.h"
#include "planner/meshes_giving.h"
#include "planner/meshes_prices.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

// Numbers of ranks for each stage, searched or pinned. The best plans with one mesh for all say how
// stages train: sp, ZeRO, what is recomputed (a way). For each way, each number of sequences that
// stages take at a time and each number of stages the ranks, their tp and the layers are shared out
// so that the busiest stage is as little busy as can be (planner/rank_split.h). No plan of so many
// micro-batches is shorter than these times its busiest stage, so that what cannot be shorter than
// the best plan played so far is passed by. The others are played whole, the most promising first.
//
// Stages of branches side by side have layers of the branches: those of the best plans with one
// mesh, and of each number of stages in front of the first branch, for which only the ranks are
// shared out.
enum {
    SEEDS = 8,
    BRANCHED = 3,
    IN_FRONT_MOST = 4,
    WAYS_MAX = 12,
    STAGES_MOST = 16,
    SIZES_MOST = 12,
    PLAYED_EACH = 12
};

// Plans this much slower than the best are played as well: they may become better ones, and show
// what divisions are worth.
static const double MORE_RATIO = 1.25;

struct ranked_split {
    struct rank_split split;
    int stages;
    int64_t sequences;
    double step_s;  // as if stages sent nothing
};

struct dividing {
    struct giving *giving;
    struct parallel ways[WAYS_MAX];
    int way_count;
    struct ranked_split *divisions;  // of one way
    int division_count, capacity;
    const struct parallel *branched;  // whose stages are asked about, with its layers; NULL: chains
    const double *stage_ratio;        // of its layers
};

static double best_s(const struct giving *giving)
{
    const struct ranking *ranking = &giving->ranking;
    bool is_time = ranking->objective != OBJECTIVE_MEMORY;
    return is_time && ranking->count > 0 ? ranking->items[0].cost.step_s : INFINITY;
}

static bool is_same_way(const struct parallel *a, const struct parallel *b)
{
    return a->sp == b->sp && a->zero == b->zero && a->recompute == b->recompute &&
           a->recompute_classes == b->recompute_classes &&
           a->recompute_layers == b->recompute_layers && a->schedule == b->schedule &&
           a->attention == b->attention && a->degree[AXIS_CP] == b->degree[AXIS_CP] &&
           a->cp_kind == b->cp_kind && a->tp_kind == b->tp_kind &&
           a->degree[AXIS_EP] == b->degree[AXIS_EP] && a->degree[AXIS_ETP] == b->degree[AXIS_ETP];
}

static void add_way(struct dividing *dividing, const struct parallel *way)
{
    bool is_new = dividing->way_count < WAYS_MAX;
    for (int i = 0; i < dividing->way_count && is_new; i++)
        is_new = !is_same_way(&dividing->ways[i], way);
    if (is_new) dividing->ways[dividing->way_count++] = *way;
}

// What a plan says of how stages train; beside it shards of the states, and all recomputed.
static void add_ways(struct dividing *dividing, const struct parallel *seed)
{
    const struct pins *asked = dividing->giving->asked;
    struct parallel way = *seed;
    way.vpp = 1;
    way.in_flight = 0;
    if (pins_allow(asked, CHOICE_SCHEDULE, SCHEDULE_1F1B)) way.schedule = SCHEDULE_1F1B;
    if (!pins_allow(asked, CHOICE_VPP, 1) || schedule_takes_chunks(way.schedule)) return;
    way.stage_layers_count = way.replica_count = way.stage_tp_count = way.stage_ranks_count = 0;
    giving_keep_groups(dividing->giving, &way);
    way.branches = false;
    parallel_default_order(&way);
    add_way(dividing, &way);
    if (way.degree[AXIS_EP] * way.degree[AXIS_ETP] > 1 && pins_allow(asked, CHOICE_EP, 1) &&
        pins_allow(asked, CHOICE_ETP, 1)) {
        struct parallel whole = way;
        whole.degree[AXIS_EP] = whole.degree[AXIS_ETP] = 1;
        add_way(dividing, &whole);
    }
    if (way.zero == 0 && pins_allow(asked, CHOICE_ZERO, 1)) {
        struct parallel sharded = way;
        sharded.zero = 1;
        add_way(dividing, &sharded);
    }
    if (pins_get(asked, CHOICE_RECOMPUTE).set || pins_get(asked, CHOICE_RECOMPUTE_LAYERS).set)
        return;
    way.recompute = RECOMPUTE_FULL;
    way.recompute_classes = 0;
    way.recompute_layers = -1;
    add_way(dividing, &way);
}

static void seek_ways(struct dividing *dividing, const struct pins *pins, enum search_nothing last)
{
    struct search_request request = *dividing->giving->split.request;
    struct search_result found = {0};
    struct err none = {0};
    request.pins = *pins;
    request.top = SEEDS;
    request.nothing = last;
    if (!search_plans(dividing->giving->arena, &request, &found, &none)) return;
    for (int i = 0; i < found.best_count; i++)
        add_ways(dividing, &found.best[i].parallel);
    if (found.best_count == 0 && found.closest.parallel.degree[AXIS_PP] > 0)
        add_ways(dividing, &found.closest.parallel);
}

static struct pins seed_pins(const struct giving *giving)
{
    struct pins pins = giving_seed_pins(giving->arena, giving->asked);
    pins.degree[AXIS_DP] = pins.micro_batch = (struct int_range){0};
    return pins;
}

// Of plans in a pipeline, and of any.
static void find_ways(struct dividing *dividing)
{
    const struct giving *giving = dividing->giving;
    struct pins pins = seed_pins(giving), piped;
    pins_clear(&pins, CHOICE_PP);
    pins.stage_layers_count = 0;
    pins.branches = BRANCHES_OFF;
    piped = pins;
    int ranks = giving->split.request->cluster->rank_count;
    if (ranks > 1) pins_set(&piped, CHOICE_PP, 2, ranks);
    seek_ways(dividing, &piped, SEARCH_CLOSEST);
    seek_ways(dividing, &pins, SEARCH_FITS_ONLY);
}

static void keep(struct dividing *dividing, const struct rank_question *question, int64_t sequences,
                 const struct rank_split *split)
{
    assert(question->micro_batches >= 1 && split->sum_s >= split->worst_s * (1 - 1e-9));
    if (dividing->division_count == dividing->capacity) return;
    dividing->divisions[dividing->division_count++] = (struct ranked_split){
        *split, question->stages, sequences,
        (question->micro_batches - 1) * split->worst_s + split->sum_s + split->end_s};
}

// Where the first and the last stage have to be alike each shape that both can have.
static void divide_tied(struct dividing *dividing, struct rank_question *question,
                        int64_t sequences, double limit_s)
{
    const struct rank_places *places = question->places;
    struct arena *arena = dividing->giving->arena;
    struct rank_split best, split;
    bool is_found = false;
    for (int i = places->first_option[0]; i < places->first_option[1]; i++) {
        question->ends_ranks = places->options[i].ranks;
        question->ends_tp = places->options[i].tp;
        if (!rank_split_best(arena, question, limit_s, &split)) continue;
        best = split;
        limit_s = split.worst_s * (1 - 1e-3);
        is_found = true;
    }
    if (is_found) keep(dividing, question, sequences, &best);
}

static int stages_most(const struct dividing *dividing, int layers)
{
    assert(layers >= 2);
    const struct giving *giving = dividing->giving;
    const struct pins *asked = giving->asked;
    int pinned = asked->stage_ranks_count > 0 ? asked->stage_ranks_count : asked->stage_tp_count;
    if (dividing->branched) return dividing->branched->degree[AXIS_PP];
    int most = giving->split.request->cluster->rank_count;
    struct int_range pp = pins_get(asked, CHOICE_PP);
    if (layers + 2 < most) most = layers + 2;
    if (pinned > 0) return pinned;
    if (pp.set && pp.high < most) most = (int)pp.high;
    return pp.set || most < STAGES_MOST ? most : STAGES_MOST;
}

// Whether every list of stages that is pinned has so many.
static bool is_count(const struct pins *asked, int stages)
{
    const int counts[] = {asked->stage_layers_count, asked->stage_ranks_count,
                          asked->stage_tp_count};
    for (int i = 0; i < 3; i++)
        if (counts[i] > 0 && counts[i] != stages) return false;
    return true;
}

// So many sequences at a time, over any number of stages.
static void divide(struct dividing *dividing, struct mesh_shapes *shapes, int64_t sequences)
{
    assert(dividing->giving->split.request->workload.global_batch % sequences == 0);
    struct giving *giving = dividing->giving;
    const struct pins *asked = giving->asked;
    struct arena work = {0};
    const struct parallel *branched = dividing->branched;
    int layers = mesh_shapes_layers(shapes), most = stages_most(dividing, layers);
    bool has_count = branched || asked->stage_ranks_count > 0 || asked->stage_tp_count > 0;
    int least = has_count ? most : 2;
    struct rank_question question = {
        .places = mesh_shapes_places(&work, shapes, sequences),
        .layers = layers,
        .micro_batches = (int)(giving->split.request->workload.global_batch / sequences),
        .ranks = asked->stage_ranks_count > 0 ? asked->stage_ranks : NULL,
        .tp = asked->stage_tp_count > 0 ? asked->stage_tp : NULL,
        .stage_layers = branched                        ? branched->stage_layers
                        : asked->stage_layers_count > 0 ? asked->stage_layers
                                                        : NULL,
        .stage_ratio = dividing->stage_ratio,
    };
    double limit_s = MORE_RATIO * best_s(giving) / question.micro_batches;
    for (int stages = least; question.places && stages <= most; stages++) {
        bool is_asked = pins_allow(asked, CHOICE_PP, stages) && is_count(asked, stages);
        struct rank_split split;
        if (!is_asked || search_should_stop(giving->split.request)) continue;
        question.stages = stages;
        question.ends_ranks = question.ends_tp = 0;
        if (mesh_shapes_are_tied(shapes))
            divide_tied(dividing, &question, sequences, limit_s);
        else if (rank_split_best(giving->arena, &question, limit_s, &split))
            keep(dividing, &question, sequences, &split);
    }
    arena_free(&work);
}

static int compare_divisions(const void *a, const void *b)
{
    const struct ranked_split *left = a, *right = b;
    if (left->step_s != right->step_s) return left->step_s < right->step_s ? -1 : 1;
    if (left->stages != right->stages) return left->stages < right->stages ? -1 : 1;
    return left->sequences < right->sequences ? -1 : left->sequences > right->sequences;
}

static struct parallel plan_of(const struct parallel *way, const struct ranked_split *division)
{
    struct parallel parallel = *way;
    const struct rank_split *split = &division->split;
    parallel.degree[AXIS_PP] = division->stages;
    parallel.stage_ranks = split->ranks;
    parallel.stage_tp = split->tp;
    parallel.stage_layers = split->layers;
    parallel.stage_ranks_count = parallel.stage_tp_count = parallel.stage_layers_count =
        division->stages;
    bool divides = meshes_put_degrees(&parallel, division->sequences);
    assert(divides && "options say so");
    (void)divides;
    return parallel;
}

static void play(struct dividing *dividing, const struct parallel *way)
{
    struct giving *giving = dividing->giving;
    int played = 0;
    qsort(dividing->divisions, (size_t)dividing->division_count, sizeof *dividing->divisions,
          compare_divisions);
    for (int i = 0; i < dividing->division_count && played < PLAYED_EACH; i++) {
        struct parallel parallel = plan_of(way, &dividing->divisions[i]);
        parallel.branches = dividing->branched != NULL;
        parallel.layouts = giving->asked->layouts;
        parallel.layout_count = giving->asked->layout_count;
        bool may_win = dividing->divisions[i].step_s < MORE_RATIO * best_s(giving);
        if (!may_win || !giving_is_asked(giving, &parallel)) continue;
        giving_find_reason(giving, &parallel);
        giving_try_layers(giving, &parallel);
        played++;
    }
}

// Divisors of the batch, of which the cluster has use.
static int sizes_of(const struct giving *giving, int64_t sizes[SIZES_MOST])
{
    int64_t batch = giving->split.request->workload.global_batch;
    int64_t most = 4 * (int64_t)giving->split.request->cluster->rank_count;
    int count = 0;
    for (int64_t size = 1; size <= batch && size <= most && count < SIZES_MOST; size++)
        if (batch % size == 0) sizes[count++] = size;
    assert(count >= 1 && "1 divides every batch");
    return count;
}

static void divide_ways(struct dividing *dividing)
{
    struct giving *giving = dividing->giving;
    const struct search_request *request = giving->split.request;
    int64_t sizes[SIZES_MOST];
    int size_count = sizes_of(giving, sizes);
    for (int i = 0; i < dividing->way_count; i++) {
        struct mesh_shapes *shapes =
            mesh_shapes_new(giving->arena, request, giving->asked, &dividing->ways[i]);
        dividing->division_count = 0;
        if (mesh_shapes_layers(shapes) < 2) continue;
        for (int k = 0; k < size_count && !search_should_stop(request); k++)
            divide(dividing, shapes, sizes[k]);
        play(dividing, &dividing->ways[i]);
    }
}

// Multiplications of a layer of each stage over those of the mean one.
static const double *ratios_of(struct arena *arena, const struct graph *graph, int stages,
                               const int *layers)
{
    double *ratios = ARENA_NEW(arena, double, stages), all = 0;
    int stage = 0, left = layers[0];
    for (int i = 0; i < graph->sequence_count; i++) {
        const struct block *block = &graph->blocks[graph->sequence[i]];
        if (block->role != BLOCK_LAYER) continue;
        while (left == 0)
            left = layers[++stage];
        double work = (double)graph_block_matmul_count(graph, block);
        ratios[stage] += work / layers[stage];
        all += work / graph->layer_count;
        left--;
    }
    for (int s = 0; s < stages; s++)
        ratios[s] = ratios[s] > 0 && all > 0 ? ratios[s] / all : 1;
    return ratios;
}

// The stages of a plan with branches and one mesh.
static void divide_branched(struct dividing *dividing, const struct parallel *found)
{
    const struct giving *giving = dividing->giving;
    const struct search_request *request = giving->split.request;
    struct parallel branched = parallel_copy(giving->arena, found);
    const struct graph *graph =
        evaluation_graph(giving->arena, request->model, request->stack, found);
    int *layers = ARENA_NEW(giving->arena, int, found->degree[AXIS_PP]);
    if (found->stage_layers_count == 0) {
        if (!branches_split(graph, found->degree[AXIS_PP], layers)) return;
        branched.stage_layers = layers;
        branched.stage_layers_count = found->degree[AXIS_PP];
    }
    dividing->branched = &branched;
    dividing->stage_ratio =
        ratios_of(giving->arena, graph, branched.stage_layers_count, branched.stage_layers);
    dividing->way_count = 0;
    add_ways(dividing, &branched);
    divide_ways(dividing);
    dividing->branched = NULL;
    dividing->stage_ratio = NULL;
}

static bool has_stages_of(const struct parallel *a, const struct parallel *b)
{
    int stages = a->degree[AXIS_PP];
    if (b->degree[AXIS_PP] != stages || a->stage_layers_count != b->stage_layers_count)
        return false;
    for (int s = 0; s < a->stage_layers_count; s++)
        if (a->stage_layers[s] != b->stage_layers[s]) return false;
    return true;
}

// Other numbers of stages in front of the first branch: ranks of their own may need fewer.
static void divide_in_front(struct dividing *dividing, const struct parallel *found)
{
    struct arena *arena = dividing->giving->arena;
    const struct search_request *request = dividing->giving->split.request;
    const struct graph *graph = evaluation_graph(arena, request->model, request->stack, found);
    struct parallel parallel = *found;
    int stages = found->degree[AXIS_PP];
    if (dividing->giving->asked->stage_layers_count > 0) return;
    parallel.stage_layers_count = stages;
    for (int in_front = 1; in_front < stages && in_front <= IN_FRONT_MOST; in_front++) {
        parallel.stage_layers = branches_layers(arena, graph, stages, in_front, 0, NULL);
        divide_branched(dividing, &parallel);
    }
}

static void divide_branches(struct dividing *dividing)
{
    struct giving *giving = dividing->giving;
    struct search_request request = *giving->split.request;
    struct search_result found = {0};
    struct branches_answer answer;
    struct err none = {0};
    request.pins = seed_pins(giving);
    request.pins.branches = BRANCHES_ON;
    request.top = SEEDS;
    if (!branches_search(giving->arena, &request, &found, &answer, &none)) return;
    for (int i = 0, count = 0; i < found.best_count && count < BRANCHED; i++) {
        bool is_new = true;
        for (int k = 0; k < i; k++)
            is_new &= !has_stages_of(&found.best[k].parallel, &found.best[i].parallel);
        if (is_new) divide_branched(dividing, &found.best[i].parallel), count++;
    }
    if (found.best_count > 0) divide_in_front(dividing, &found.best[0].parallel);
}

bool giving_seek_divisions(struct giving *giving, struct search_result *result, struct err *err)
{
    struct dividing dividing = {.giving = giving, .capacity = SIZES_MOST * STAGES_MOST};
    struct err why = {0};
    // One mesh for all may not fit, or not be legal for so many ranks; or it was sought before.
    if (!giving->answer->has_alike && !giving_seek_alike(giving, result, &why)) {
        if (why.kind != ERR_USAGE) return err_set(err, why.kind, "%s", why.text);
        *result = (struct search_result){0};
    }
    find_ways(&dividing);
    if (dividing.way_count == 0 && why.kind) return err_set(err, why.kind, "%s", why.text);
    dividing.divisions = ARENA_NEW(giving->arena, struct ranked_split, dividing.capacity);
    if (giving->asked->branches != BRANCHES_ON) divide_ways(&dividing);
    if (giving->may_branch) divide_branches(&dividing);
    return true;
}

void giving_seek_found(struct giving *giving)
{
    const struct pins *asked = giving->asked;
    const struct parallel *best = &giving->ranking.items[0].parallel;
    struct search_result found = {0};
    struct err none = {0};
    if (best->stage_ranks_count == 0) return;
    struct parallel kept = parallel_copy(giving->arena, best);
    struct pins pins = *asked;
    pins.search_stage_ranks = pins.search_stage_tp = false;
    pins.stage_ranks = kept.stage_ranks;
    pins.stage_ranks_count = kept.stage_ranks_count;
    pins.stage_tp = kept.stage_tp;
    pins.stage_tp_count = kept.stage_tp_count;
    giving->asked = &pins;
    (void)!giving_seek_ranks(giving, &found, &none);
    giving->asked = asked;
}
