#include "memory/spill/spill.h"
#include "memory/spill/spill_parts.h"

#include <assert.h>
#include <string.h>

// How often the goal is lowered until the arena fits, and raised again as long as it does.
enum { LOWER_MOST = 8, RAISE_MOST = 4 };

struct rounds {
    struct arena *arena, *scratch;
    const struct spill_request *request;
    const struct spill_space *space;
    bool *taken;
    struct spill_result *best;
};

// First that it fits, then what it costs; of those that do not fit the lowest.
static bool is_better(const struct spill_result *a, const struct spill_result *b)
{
    if (a->schedule.fits != b->schedule.fits) return a->schedule.fits;
    if (!a->schedule.fits) return a->schedule.arena_bytes < b->schedule.arena_bytes;
    return a->cost_s < b->cost_s;
}

// Chooses for a goal, schedules, and keeps what is best so far.
static bool try_goal(struct rounds *rounds, int64_t goal, struct spill_result *found,
                     int64_t *peak_bytes, struct err *err)
{
    const struct spill_request *request = rounds->request;
    *found = *rounds->best;
    found->round_count = ++rounds->best->round_count;
    *peak_bytes = spill_choose(rounds->scratch, rounds->space, goal, request->options,
                               rounds->taken, &found->bound_s);
    if (!spill_make(rounds->arena, request, rounds->space, rounds->taken, found, err)) return false;
    const char *why = NULL;
    if (!check_spill(rounds->scratch, request, found, &why))
        return err_set(err, ERR_SYSTEM, "%s: what is recomputed and moved is not right: %s",
                       request->graph->name, why);
    found->problem = memory_problem_make(rounds->arena, found->graph, request->options->alignment);
    if (!memory_schedule_graph(rounds->arena, rounds->scratch, found->graph, found->problem,
                               request->options, &found->schedule, err))
        return false;
    if (rounds->best->round_count > 1) found->bound_s = rounds->best->bound_s;
    rounds->best->bound_s = found->bound_s;
    if (rounds->best->round_count == 1 || is_better(found, rounds->best)) *rounds->best = *found;
    assert(rounds->best->cost_s >= 0 && found->round_count == rounds->best->round_count);
    return true;
}

// Lowers the goal until the arena fits; where no choice reaches it, the last goal is the lowest
// that is reached.
static bool lower_goal(struct rounds *rounds, int64_t *goal, int64_t *too_high, struct err *err)
{
    int64_t capacity = rounds->request->options->capacity;
    for (int i = 0; i<LOWER_MOST && * goal> 0; i++) {
        struct spill_result found;
        int64_t peak_bytes;
        if (!try_goal(rounds, *goal, &found, &peak_bytes, err)) return false;
        if (found.schedule.fits) return true;
        if (peak_bytes > *goal)
            return try_goal(rounds,
                            spill_lowest(rounds->scratch, rounds->space, *goal, rounds->taken),
                            &found, &peak_bytes, err);
        *too_high = *goal;
        *goal -= found.schedule.arena_bytes - capacity;
    }
    return true;
}

// Between a goal that was low enough and one that was not.
static bool raise_goal(struct rounds *rounds, int64_t goal, int64_t too_high, struct err *err)
{
    for (int i = 0; i < RAISE_MOST && rounds->best->cost_s > 0; i++) {
        struct spill_result found;
        int64_t peak_bytes;
        assert(rounds->best->round_count > 0);
        int64_t middle = goal + (too_high - goal) / 2;
        if (middle == goal || middle == too_high) return true;
        if (!try_goal(rounds, middle, &found, &peak_bytes, err)) return false;
        if (found.schedule.fits)
            goal = middle;
        else
            too_high = middle;
    }
    return true;
}

// Nothing is repeated or moved: each is its own origin.
static void keep_all(struct arena *arena, const struct spill_request *request,
                     struct spill_result *result)
{
    const struct memory_graph *graph = request->graph;
    int *operators = ARENA_NEW(arena, int, graph->operator_count);
    int *tensors = ARENA_NEW(arena, int, graph->tensor_count);
    struct memory_graph *same = ARENA_NEW(arena, struct memory_graph, 1);
    for (int i = 0; i < graph->operator_count; i++)
        operators[i] = i;
    for (int i = 0; i < graph->tensor_count; i++)
        tensors[i] = i;
    *same = *graph;
    *result = (struct spill_result){
        .graph = same, .operator_origin = operators, .tensor_origin = tensors};
}

bool spill_graph(struct arena *arena, struct arena *scratch, const struct spill_request *request,
                 struct spill_result *result, struct err *err)
{
    keep_all(arena, request, result);
    result->problem = memory_problem_make(arena, request->graph, request->options->alignment);
    if (!memory_schedule_graph(arena, scratch, request->graph, result->problem, request->options,
                               &result->schedule, err))
        return false;
    result->kept_bytes = result->schedule.arena_bytes;
    if (result->schedule.fits) return true;
    const struct spill_space space =
        spill_space_make(scratch, request, result->problem, result->schedule.order);
    struct rounds rounds = {.arena = arena,
                            .scratch = scratch,
                            .request = request,
                            .space = &space,
                            .taken = ARENA_NEW(scratch, bool, space.count + 1),
                            .best = result};
    int64_t goal = request->options->capacity, too_high = result->schedule.live_bytes;
    assert(goal > 0 && "without a capacity everything fits");
    if (!lower_goal(&rounds, &goal, &too_high, err)) return false;
    return !result->schedule.fits || raise_goal(&rounds, goal, too_high, err);
}
