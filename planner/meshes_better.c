#include "planner/choice.h"
#include "planner/meshes_check.h"
#include "planner/meshes_giving.h"

#include <assert.h>
#include <string.h>

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
    assert(most >= 0);
    for (int least = 0; least < most;) {
        int layers = (least + most) / 2;
        bool is_less = try_value(giving, best, CHOICE_RECOMPUTE_LAYERS, layers);
        is_better |= is_less;
        *(is_less ? &most : &least) = is_less ? layers : layers + 1;
    }
    return is_better;
}

// With the layers as they are, and as the stages are fast.
static bool try_plan(struct giving *giving, struct candidate *best, const struct parallel *parallel)
{
    bool is_better = false;
    for (int i = 0; i < 2; i++) {
        struct parallel own = *parallel;
        struct candidate played;
        bool is_open = i == 0 || !own.branches;  // layers of branches stay with theirs
        if (!is_open || (i == 1 && !uneven_layers(&giving->split, &own))) continue;
        bool is_found = giving_is_asked(giving, &own) && uneven_play(&giving->split, &own, &played);
        if (!is_found || candidate_compare(giving->ranking.objective, &played, best) >= 0) continue;
        *best = played;
        best->parallel = parallel_copy(giving->arena, &played.parallel);
        is_better = true;
    }
    return is_better;
}

// Schedules of one chunk a stage; zb-auto with as many micro-batches in flight as stages, half as
// many more, and twice as many.
static bool other_schedules(struct giving *giving, struct candidate *best)
{
    static const enum schedule_kind PLAIN[] = {SCHEDULE_1F1B, SCHEDULE_ZB_H1};
    const struct pins *asked = giving->asked;
    int stages = best->parallel.degree[AXIS_PP];
    bool is_better = false;
    if (best->parallel.vpp > 1 || best->parallel.stage_ranks_count == 0) return false;
    for (int i = 0; i < 2; i++)
        is_better |= try_value(giving, best, CHOICE_SCHEDULE, PLAIN[i]);
    for (int i = 0; i < 3 && pins_allow(asked, CHOICE_SCHEDULE, SCHEDULE_ZB_AUTO); i++) {
        struct parallel parallel = best->parallel;
        parallel.schedule = SCHEDULE_ZB_AUTO;
        parallel.in_flight = stages + i * stages / 2;
        if (pins_allow(asked, CHOICE_IN_FLIGHT, parallel.in_flight))
            is_better |= try_plan(giving, best, &parallel);
    }
    return is_better;
}

// Other numbers of ranks or of tp for one or two stages, which take as many sequences as before.
static bool try_numbers(struct giving *giving, struct candidate *best, const int *ranks,
                        const int *tps)
{
    struct parallel parallel = best->parallel;
    int64_t sequences = (int64_t)parallel.degree[AXIS_DP] * parallel.micro_batch;
    parallel.stage_ranks = ranks;
    parallel.stage_tp = tps;
    parallel.stage_tp_count = parallel.stage_ranks_count;
    return meshes_put_degrees(&parallel, sequences) && try_plan(giving, best, &parallel);
}

// Ranks go from a stage to one beside it, in powers of two.
static bool move_ranks(struct giving *giving, struct candidate *best, const int *tps, int from,
                       int to)
{
    assert(from >= 0 && from < best->parallel.stage_ranks_count);
    const struct parallel start = best->parallel;
    int count = start.stage_ranks_count;
    bool is_better = false;
    if (to < 0 || to >= count) return false;
    for (int moved = 1; moved < start.stage_ranks[from]; moved *= 2) {
        int *ranks = ARENA_NEW(giving->arena, int, count);
        memcpy(ranks, start.stage_ranks, (size_t)count * sizeof *ranks);
        ranks[from] -= moved;
        ranks[to] += moved;
        is_better |= try_numbers(giving, best, ranks, tps);
    }
    return is_better;
}

// A stage has half or twice as many ranks of tp.
static bool move_tp(struct giving *giving, struct candidate *best, const int *tps, int stage)
{
    int count = best->parallel.stage_ranks_count;
    const int *ranks = best->parallel.stage_ranks;
    bool is_better = false;
    for (int up = 0; up < 2; up++) {
        int *own = ARENA_NEW(giving->arena, int, count);
        if (!up && tps[stage] % 2 != 0) continue;
        memcpy(own, tps, (size_t)count * sizeof *own);
        own[stage] = up ? 2 * own[stage] : own[stage] / 2;
        is_better |= try_numbers(giving, best, ranks, own);
    }
    return is_better;
}

// Where numbers of ranks are searched: the first of those beside what was found that is better.
static bool other_numbers(struct giving *giving, struct candidate *best)
{
    const struct pins *asked = giving->asked;
    int count = best->parallel.stage_ranks_count, *tps = ARENA_NEW(giving->arena, int, count + 1);
    bool moves = asked->search_stage_ranks, is_better = false;
    if (!meshes_search_numbers(asked) || count == 0) return false;
    for (int s = 0; s < count; s++)
        tps[s] = parallel_stage_tp(&best->parallel, s);
    for (int s = 0; s < count && !is_better; s++) {
        is_better = (moves && move_ranks(giving, best, tps, s, s - 1)) ||
                    (moves && move_ranks(giving, best, tps, s, s + 1)) ||
                    (asked->stage_tp_count == 0 && move_tp(giving, best, tps, s));
    }
    return is_better;
}

static bool better_once(struct giving *giving, struct candidate *best)
{
    enum { ZERO_LAST = 3 };
    const struct parallel *parallel = &best->parallel;
    int64_t each = giving->split.request->workload.global_batch / parallel->degree[AXIS_DP];
    int size = parallel->micro_batch;
    assert(size >= 1 && each % size == 0 && "the plan that was played is legal");
    bool is_better = size * 2 <= each && each % (size * 2) == 0 &&
                     try_value(giving, best, CHOICE_MICRO_BATCH, size * 2);
    if (size % 2 == 0) is_better |= try_value(giving, best, CHOICE_MICRO_BATCH, size / 2);
    for (int zero = 0; zero <= ZERO_LAST; zero++)
        is_better |= try_value(giving, best, CHOICE_ZERO, zero);
    is_better |= try_value(giving, best, CHOICE_SP, !best->parallel.sp);
    is_better |= recompute_less(giving, best);
    is_better |= other_schedules(giving, best);
    is_better |= other_numbers(giving, best);
    return is_better;
}

void giving_better(struct giving *giving, struct candidate *best)
{
    enum { ROUNDS_MOST = 16 };
    uneven_climb(&giving->split, best);
    for (int i = 0; i < ROUNDS_MOST && better_once(giving, best); i++) {
        if (search_should_stop(giving->split.request)) return;
        uneven_climb(&giving->split, best);
    }
}
