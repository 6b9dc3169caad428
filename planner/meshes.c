#include "planner/meshes.h"

#include "planner/choice.h"
#include "planner/ranking.h"
#include "planner/scan.h"
#include "planner/uneven_split.h"

#include <assert.h>
#include <string.h>

// Plans of the search that are given other meshes, and of these the ones that are changed further.
enum { SEEDS = 8, CLIMBERS = 3, KEPT = 24 };

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
    return pins->stage_tp_count > 0 || pins->search_stage_tp;
}

static int smallest(const int *tps, int count)
{
    int least = tps[0];
    for (int s = 1; s < count; s++)
        if (tps[s] < least) least = tps[s];
    return least;
}

static int largest(const int *tps, int count)
{
    int most = tps[0];
    for (int s = 1; s < count; s++)
        if (tps[s] > most) most = tps[s];
    return most;
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
    bool is_wanted = giving->asked->search_stage_tp || parallel->stage_tp_count > 0;
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
    int stages = seed->degree[AXIS_PP], parts = seed->degree[AXIS_TP] / smallest(tps, stages);
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
    pins.stage_tp_count = 0;
    pins.search_stage_tp = false;
    pins.supposed = true;
    return pins;
}

static bool check_pinned(const struct search_request *request, struct err *err)
{
    const struct pins *pins = &request->pins;
    if (!stack_is_executed(request->stack))
        return err_set(err, ERR_USAGE,
                       "--stage-tp: stack %s gives all stages one mesh; --stack meshwright runs "
                       "unlike ones",
                       request->stack->name);
    if (pins->replica_count > 0)
        return err_set(err, ERR_USAGE, "--stage-tp: not with --replica-batches");
    if (pins->branches == BRANCHES_ON)
        return err_set(err, ERR_USAGE, "--stage-tp: not with --branches on");
    if (pins->search_stage_tp) return true;
    int most = largest(pins->stage_tp, pins->stage_tp_count);
    for (int s = 0; s < pins->stage_tp_count; s++)
        if (most % pins->stage_tp[s] != 0)
            return err_set(err, ERR_USAGE,
                           "--stage-tp: %d for stage %d does not divide %d, the "
                           "largest",
                           pins->stage_tp[s], s, most);
    if (!pins_allow(pins, CHOICE_TP, most))
        return err_set(err, ERR_USAGE,
                       "--stage-tp: the largest is %d, which --tp does not allow; they are one",
                       most);
    if (pins_allow(pins, CHOICE_PP, pins->stage_tp_count)) return true;
    return err_set(err, ERR_USAGE, "--stage-tp: %d numbers, which --pp does not allow; one a stage",
                   pins->stage_tp_count);
}

// Stages of pinned meshes, and the least sequences that each of them can split.
static bool seek_pinned(struct giving *giving, struct search_result *result, struct err *err)
{
    const struct pins *asked = giving->asked;
    struct pins pins = with_meshes(asked);
    int most = largest(asked->stage_tp, asked->stage_tp_count);
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
    if (!check_pinned(request, err)) return false;
    own.pins = with_meshes(&request->pins);
    struct giving giving = {.arena = arena,
                            .split = {arena, &own, 0},
                            .asked = &request->pins,
                            .ranking = ranking_new(arena, request->objective, KEPT),
                            .answer = answer};
    bool done = request->pins.search_stage_tp ? seek_any(&giving, result, err)
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
    return err_set(
        err, ERR_USAGE,
        giving.has_size || result->best_count == 0
            ? "--stage-tp: no plan of these meshes fits"
            : "--stage-tp: no micro-batch that all of these stages can split divides the "
              "sequences of a replica");
}
