#include "planner/meshes.h"

#include "core/divisor.h"
#include "planner/choice.h"
#include "planner/meshes_check.h"
#include "planner/ranking.h"
#include "planner/scan.h"
#include "planner/uneven_split.h"

#include <assert.h>
#include <string.h>

// Plans of the search that are given other meshes, and of these the ones that are changed further.
enum { SEEDS = 8, RANKS_SEEDS = 4, CLIMBERS = 3, KEPT = 24 };

struct giving {
    struct arena *arena;
    struct uneven_split split;
    const struct pins *asked;  // `split.request` has no pins of meshes
    struct ranking ranking;
    struct meshes_answer *answer;
    struct err refused;  // why the first plan with the pinned meshes cannot be
    bool has_size;       // some micro-batch can be split by all stages
};

bool meshes_are_asked(const struct pins *pins)
{
    return pins->stage_tp_count > 0 || pins->search_stage_tp || pins->stage_ranks_count > 0;
}

static void keep_alike(struct giving *giving, const struct candidate *played)
{
    struct meshes_answer *answer = giving->answer;
    if (parallel_has_meshes(&played->parallel)) return;
    if (answer->has_alike && answer->alike_s <= played->cost.step_s) return;
    answer->has_alike = true;
    answer->alike_s = played->cost.step_s;
    answer->alike = parallel_copy(giving->arena, &played->parallel);
}

static void offer(struct giving *giving, const struct parallel *parallel)
{
    struct candidate played;
    if (search_should_stop(giving->split.request)) return;
    if (!uneven_play(&giving->split, parallel, &played)) return;
    keep_alike(giving, &played);
    // What is pinned is what is wanted; the others say what it is worth.
    bool is_wanted = giving->asked->search_stage_tp || parallel->stage_tp_count > 0 ||
                     parallel->stage_ranks_count > 0;
    for (int i = 0; i < giving->ranking.count && is_wanted; i++) {
        const struct candidate *known = &giving->ranking.items[i];
        is_wanted = candidate_compare(giving->ranking.objective, known, &played) != 0;
    }
    if (is_wanted) (void)ranking_offer(&giving->ranking, &played);
}

// What is pinned is refused with the reason where no plan can have it.
static void find_reason(struct giving *giving, const struct parallel *parallel)
{
    const struct search_request *request = giving->split.request;
    struct arena work = {0};
    if (!giving->has_size && !giving->asked->search_stage_tp) {
        const struct graph *graph =
            evaluation_graph(&work, request->model, request->stack, parallel);
        (void)!program_check(graph, request->cluster, &request->workload, parallel,
                             &giving->refused);
    }
    giving->has_size = true;
    arena_free(&work);
}

// With the layers as they are, and as the stages are fast.
static void try_layers(struct giving *giving, const struct parallel *parallel)
{
    struct parallel layers = *parallel;
    offer(giving, parallel);
    if (uneven_layers(&giving->split, &layers)) offer(giving, &layers);
}

// The seed's sequences a micro-batch where the stage with least tp can split them; else as often
// that many, and the fewest that it can.
static void try_meshes(struct giving *giving, const struct parallel *seed, const int *tps)
{
    struct parallel parallel = *seed;
    int stages = seed->degree[AXIS_PP],
        parts = seed->degree[AXIS_TP] / meshes_smallest(tps, stages);
    int64_t each = giving->split.request->workload.global_batch / seed->degree[AXIS_DP];
    int sizes[] = {seed->micro_batch % parts == 0 ? seed->micro_batch : seed->micro_batch * parts,
                   parts};
    parallel.stage_tp = tps;
    parallel.stage_tp_count = stages;
    for (int i = 0; i < 2; i++) {
        bool is_legal = each % sizes[i] == 0 && (i == 0 || sizes[1] != sizes[0]) &&
                        pins_allow(giving->asked, CHOICE_MICRO_BATCH, sizes[i]);
        parallel.micro_batch = sizes[i];
        if (!is_legal) continue;
        find_reason(giving, &parallel);
        try_layers(giving, &parallel);
    }
}

static const int *meshes_of(struct arena *arena, int stages, int first, int end, int inside,
                            int outside)
{
    int *tps = ARENA_NEW(arena, int, stages);
    for (int s = 0; s < stages; s++)
        tps[s] = s >= first && s < end ? inside : outside;
    return tps;
}

static void try_all(struct giving *giving, const struct parallel *seed)
{
    int stages = seed->degree[AXIS_PP], tp = seed->degree[AXIS_TP];
    for (int less = 1; less < tp; less++) {
        if (tp % less != 0) continue;
        for (int cut = 1; cut < stages; cut++) {
            try_meshes(giving, seed, meshes_of(giving->arena, stages, 0, cut, less, tp));
            try_meshes(giving, seed, meshes_of(giving->arena, stages, cut, stages, less, tp));
        }
        if (stages < 3) continue;
        try_meshes(giving, seed, meshes_of(giving->arena, stages, 1, stages - 1, less, tp));
        try_meshes(giving, seed, meshes_of(giving->arena, stages, 1, stages - 1, tp, less));
    }
}

// The fewest sequences of a round that the dp of all stages divides, as micro-batches of the stage
// whose degrees the plan has; 0: the ranks of one are no multiple of its tp and cp.
static int64_t round_of(const struct parallel *parallel)
{
    int64_t sequences = 1;
    for (int s = 0; s < parallel->stage_ranks_count; s++) {
        int each = parallel_stage_tp(parallel, s) * parallel->degree[AXIS_CP];
        if (parallel->stage_ranks[s] % each != 0) return 0;
        sequences = common_multiple(sequences, parallel->stage_ranks[s] / each);
    }
    return sequences;
}

// A plan of another number of ranks with those that each stage is to have.
static struct parallel with_ranks(const struct giving *giving, const struct parallel *seed)
{
    const struct pins *asked = giving->asked;
    struct parallel parallel = *seed;
    int widest = 0;
    parallel.stage_ranks = asked->stage_ranks;
    parallel.stage_ranks_count = asked->stage_ranks_count;
    parallel.stage_tp = asked->stage_tp;
    parallel.stage_tp_count = asked->stage_tp_count;
    parallel.zero_group = parallel.zero_gradients = parallel.zero_parameters = 0;
    parallel_default_order(&parallel);
    while (parallel_stage_tp(&parallel, widest) != parallel.degree[AXIS_TP])
        widest++;
    parallel.degree[AXIS_DP] =
        asked->stage_ranks[widest] / (parallel.degree[AXIS_TP] * parallel.degree[AXIS_CP]);
    if (parallel.degree[AXIS_DP] < 1) parallel.degree[AXIS_DP] = 1;
    return parallel;
}

// With as many sequences a round as divide the batch, in powers of two of the fewest.
static void try_ranks(struct giving *giving, const struct parallel *seed)
{
    enum { DOUBLINGS = 4 };
    struct parallel parallel = with_ranks(giving, seed);
    int64_t batch = giving->split.request->workload.global_batch, round = round_of(&parallel);
    int64_t dp = parallel.degree[AXIS_DP];
    if (!pins_allow(giving->asked, CHOICE_DP, dp)) return;
    if (round == 0) {
        find_reason(giving, &parallel);
        return;
    }
    for (int i = 0; i < DOUBLINGS; i++, round *= 2) {
        parallel.micro_batch = (int)(round / dp);
        bool is_legal =
            batch % round == 0 && pins_allow(giving->asked, CHOICE_MICRO_BATCH, round / dp);
        if (!is_legal) continue;
        find_reason(giving, &parallel);
        try_layers(giving, &parallel);
    }
}

// Other numbers of micro-batches may not interleave, and stages with fewer ranks lack room that the
// seed's have.
static void try_ways(struct giving *giving, const struct parallel *seed)
{
    const struct pins *asked = giving->asked;
    struct parallel plain = *seed;
    bool may_be_plain = seed->vpp > 1 && pins_allow(asked, CHOICE_VPP, 1) &&
                        pins_allow(asked, CHOICE_SCHEDULE, SCHEDULE_1F1B);
    if (may_be_plain) {
        plain.vpp = 1;
        plain.schedule = SCHEDULE_1F1B;
        plain.in_flight = 0;
        try_ranks(giving, &plain);
    }
    try_ranks(giving, seed);
    if (pins_get(asked, CHOICE_RECOMPUTE).set || pins_get(asked, CHOICE_RECOMPUTE_LAYERS).set ||
        plain.recompute == RECOMPUTE_FULL || plain.vpp > 1)
        return;
    plain.recompute = RECOMPUTE_FULL;
    plain.recompute_classes = 0;
    plain.recompute_layers = -1;
    try_ranks(giving, &plain);
}

// The best plans with one mesh that these pins leave, as seeds.
static bool seek(struct giving *giving, const struct pins *pins, struct search_result *result,
                 struct err *err)
{
    struct search_request request = *giving->split.request;
    request.pins = *pins;
    request.top = SEEDS;
    request.nothing = SEARCH_FITS_ONLY;
    *result = (struct search_result){0};
    if (!search_plans(giving->arena, &request, result, err)) return false;
    for (int i = 0; i < result->best_count; i++) {
        const struct parallel *seed = &result->best[i].parallel;
        if (i == 0 || giving->asked->search_stage_tp) offer(giving, seed);
        if (giving->asked->search_stage_tp)
            try_all(giving, seed);
        else
            try_meshes(giving, seed, giving->asked->stage_tp);
    }
    return true;
}

// Choices that meshes of their own make others good: where stages have dp that the seed had none
// of, shards; where a stage splits the sequences of a micro-batch, more of them.
static bool try_value(struct giving *giving, struct candidate *best, enum choice choice,
                      int64_t value)
{
    struct parallel parallel = best->parallel;
    struct candidate played;
    if (choice_value(&parallel, choice) == value) return false;
    if (!pins_allow(&giving->split.request->pins, choice, value)) return false;
    choice_put(&parallel, choice, value);
    if (!uneven_play(&giving->split, &parallel, &played)) return false;
    if (candidate_compare(giving->ranking.objective, &played, best) >= 0) return false;
    *best = played;
    best->parallel = parallel_copy(giving->arena, &played.parallel);
    return true;
}

static int layers_most(const struct giving *giving, const struct parallel *parallel)
{
    struct arena work = {0};
    const struct search_request *request = giving->split.request;
    const struct graph *graph = evaluation_graph(&work, request->model, request->stack, parallel);
    int stages = parallel->degree[AXIS_PP], most = (graph->layer_count + stages - 1) / stages;
    if (parallel->stage_layers_count > 0) most = meshes_largest(parallel->stage_layers, stages);
    arena_free(&work);
    return most;
}

// The fewest layers a stage that have to be recomputed for the plan to fit; seeds have other ranks.
static bool recompute_less(struct giving *giving, struct candidate *best)
{
    const struct parallel *parallel = &best->parallel;
    bool is_better = false;
    if (parallel->stage_ranks_count == 0 || parallel->recompute == RECOMPUTE_NONE) return false;
    int most = parallel->recompute_layers;
    if (most < 0) most = layers_most(giving, parallel);
    for (int least = 0; least < most;) {
        int layers = (least + most) / 2;
        bool is_less = try_value(giving, best, CHOICE_RECOMPUTE_LAYERS, layers);
        is_better |= is_less;
        *(is_less ? &most : &least) = is_less ? layers : layers + 1;
    }
    return is_better;
}

static bool better_once(struct giving *giving, struct candidate *best)
{
    enum { ZERO_LAST = 3 };
    const struct parallel *parallel = &best->parallel;
    int64_t each = giving->split.request->workload.global_batch / parallel->degree[AXIS_DP];
    int size = parallel->micro_batch;
    bool is_better = size * 2 <= each && each % (size * 2) == 0 &&
                     try_value(giving, best, CHOICE_MICRO_BATCH, size * 2);
    if (size % 2 == 0) is_better |= try_value(giving, best, CHOICE_MICRO_BATCH, size / 2);
    for (int zero = 0; zero <= ZERO_LAST; zero++)
        is_better |= try_value(giving, best, CHOICE_ZERO, zero);
    is_better |= try_value(giving, best, CHOICE_SP, !best->parallel.sp);
    is_better |= recompute_less(giving, best);
    return is_better;
}

static void better(struct giving *giving, struct candidate *best)
{
    enum { ROUNDS_MOST = 16 };
    uneven_climb(&giving->split, best);
    for (int i = 0; i < ROUNDS_MOST && better_once(giving, best); i++) {
        if (search_should_stop(giving->split.request)) return;
        uneven_climb(&giving->split, best);
    }
}

// Of the search that finds the seeds.
static struct pins with_meshes(const struct pins *asked)
{
    struct pins pins = *asked;
    pins.stage_tp_count = pins.stage_ranks_count = 0;
    pins.search_stage_tp = false;
    pins.supposed = true;
    return pins;
}

// A cluster like this one with so many ranks in each of the stages: of its first nodes, or of more
// than there are.
static const struct cluster *cluster_of_ranks(struct arena *arena, const struct cluster *cluster,
                                              int ranks)
{
    struct cluster *own = ARENA_NEW(arena, struct cluster, 1);
    *own = *cluster;
    own->nodes = ARENA_NEW(arena, struct node_group, cluster->node_group_count);
    own->node_count = 0;
    for (int i = 0, all = 0; i < cluster->node_group_count; i++) {
        struct node_group *group = &own->nodes[i];
        bool is_last = i == cluster->node_group_count - 1;
        *group = cluster->nodes[i];
        int wanted = (ranks - all + group->gpus - 1) / group->gpus;
        if (is_last || wanted < group->count) group->count = wanted;
        all += group->count * group->gpus;
        own->node_count += group->count;
        own->node_group_count = i + 1;
        if (all >= ranks) break;
    }
    own->rank_count = ranks;
    own->idle_gpus = 0;
    return own;
}

// What seeds keep: dp and the micro-batch are those of other numbers of ranks.
static struct pins pins_of_seeds(const struct pins *asked)
{
    struct pins pins = with_meshes(asked);
    int count = asked->stage_ranks_count;
    if (asked->stage_tp_count > 0) {
        int most = meshes_largest(asked->stage_tp, count);
        pins_set(&pins, CHOICE_TP, most, most);
    }
    pins_set(&pins, CHOICE_PP, count, count);
    if (!pins_get(&pins, CHOICE_EP).set) pins_set(&pins, CHOICE_EP, 1, 1);
    if (!pins_get(&pins, CHOICE_ETP).set) pins_set(&pins, CHOICE_ETP, 1, 1);
    pins.degree[AXIS_DP] = pins.micro_batch = (struct int_range){0};
    return pins;
}

// The best plans where all stages have so many ranks, or the one that lacks least room.
static bool seek_alike(struct giving *giving, int ranks, struct err *err)
{
    struct search_request like = *giving->split.request;
    struct search_result found = {0};
    int count = giving->asked->stage_ranks_count;
    like.pins = pins_of_seeds(giving->asked);
    like.cluster = cluster_of_ranks(giving->arena, like.cluster, ranks * count);
    like.top = RANKS_SEEDS;
    like.nothing = SEARCH_CLOSEST;
    if (!search_plans(giving->arena, &like, &found, err)) return false;
    for (int i = 0; i < found.best_count; i++)
        try_ways(giving, &found.best[i].parallel);
    if (found.best_count == 0 && found.closest.parallel.degree[AXIS_PP] > 0)
        try_ways(giving, &found.closest.parallel);
    return true;
}

// Seeds have as many ranks in all stages as the largest, the smallest and the mean: of the first
// every degree, of the others no room that is not there. What they are compared with is one mesh
// for all.
static bool seek_ranks(struct giving *giving, struct search_result *result, struct err *err)
{
    const int *ranks = giving->asked->stage_ranks;
    int count = giving->asked->stage_ranks_count;
    struct search_request alike = *giving->split.request;
    int sizes[] = {meshes_largest(ranks, count), meshes_smallest(ranks, count),
                   alike.cluster->rank_count / count};
    bool has_seeds = false;
    struct err why = {0};
    for (int i = 0; i < 3; i++) {
        why = (struct err){0};
        bool is_new = (i == 0 || sizes[i] != sizes[0]) && (i < 2 || sizes[i] != sizes[1]);
        if (is_new) has_seeds |= seek_alike(giving, sizes[i], &why);
    }
    if (!has_seeds) return err_set(err, why.kind, "%s", why.text);
    alike.top = 1;
    alike.nothing = SEARCH_FITS_ONLY;
    *result = (struct search_result){0};
    why = (struct err){0};
    if (!search_plans(giving->arena, &alike, result, &why)) *result = (struct search_result){0};
    if (result->best_count > 0) offer(giving, &result->best[0].parallel);
    return true;
}

// Stages of pinned meshes, and the least sequences that each of them can split.
static bool seek_pinned(struct giving *giving, struct search_result *result, struct err *err)
{
    const struct pins *asked = giving->asked;
    struct pins pins = with_meshes(asked);
    int most = meshes_largest(asked->stage_tp, asked->stage_tp_count);
    pins_set(&pins, CHOICE_TP, most, most);
    pins_set(&pins, CHOICE_PP, asked->stage_tp_count, asked->stage_tp_count);
    return seek(giving, &pins, result, err);
}

// Of the plans that any pins leave, and of those that have stages and tp at all.
static bool seek_any(struct giving *giving, struct search_result *result, struct err *err)
{
    struct pins pins = with_meshes(giving->asked), piped = pins;
    int ranks = giving->split.request->cluster->rank_count;
    struct search_result more;
    struct err none = {0};
    if (!seek(giving, &pins, result, err)) return false;
    if (ranks < 2) return true;
    if (!pins_get(&piped, CHOICE_TP).set) pins_set(&piped, CHOICE_TP, 2, ranks);
    if (!pins_get(&piped, CHOICE_PP).set) pins_set(&piped, CHOICE_PP, 2, ranks);
    (void)seek(giving, &piped, &more, &none);
    return true;
}

static void take_best(struct giving *giving, const struct search_request *request,
                      struct search_result *result)
{
    int wanted = request->top > 0 ? request->top : 1;
    const struct ranking *ranking = &giving->ranking;
    result->best = ARENA_NEW(giving->arena, struct candidate, wanted);
    result->best_count = 0;
    for (int i = 0; i < ranking->count && result->best_count < wanted; i++) {
        // Plans that were made better may have become one.
        const struct candidate *plan = &ranking->items[i];
        bool is_new =
            result->best_count == 0 ||
            candidate_compare(ranking->objective, &result->best[result->best_count - 1], plan) != 0;
        if (is_new) result->best[result->best_count++] = candidate_copy(giving->arena, plan);
    }
    result->considered_count += giving->split.played_count;
    result->priced_count += giving->split.played_count;
    result->cut_count = 0;
    result->bound_s = result->layers_s = 0;
    result->bound_bytes = 0;
    if (result->status != SEARCH_STOPPED) result->status = SEARCH_FEASIBLE;
}

bool meshes_search(struct arena *arena, const struct search_request *request,
                   struct search_result *result, struct meshes_answer *answer, struct err *err)
{
    struct search_request own = *request;
    *answer = (struct meshes_answer){.is_asked = true};
    if (!meshes_check_pinned(request, err)) return false;
    own.pins = with_meshes(&request->pins);
    struct giving giving = {.arena = arena,
                            .split = {arena, &own, 0},
                            .asked = &request->pins,
                            .ranking = ranking_new(arena, request->objective, KEPT),
                            .answer = answer};
    bool done = request->pins.stage_ranks_count > 0 ? seek_ranks(&giving, result, err)
                : request->pins.search_stage_tp     ? seek_any(&giving, result, err)
                                                    : seek_pinned(&giving, result, err);
    if (!done) return false;
    for (int i = 0; i < CLIMBERS && i < giving.ranking.count; i++)
        better(&giving, &giving.ranking.items[i]);
    ranking_sort(&giving.ranking);
    answer->played_count = giving.split.played_count;
    if (giving.ranking.count > 0) {
        take_best(&giving, request, result);
        return true;
    }
    if (giving.refused.kind) return err_set(err, ERR_USAGE, "%s", giving.refused.text);
    return err_set(err, ERR_USAGE, "%s: %s",
                   request->pins.stage_ranks_count > 0 ? "--stage-ranks" : "--stage-tp",
                   giving.has_size || result->best_count == 0
                       ? "no plan of these meshes fits"
                       : "no micro-batch that all of these stages can split divides the "
                         "sequences of a replica");
}
