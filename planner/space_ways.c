#include "planner/space.h"

#include <assert.h>
#include <string.h>

// The ways to recompute and to move of a tail, on the stack that is asked about.

// -1 means all layers; a number of them is worth a plan of its own where whole layers are
// recomputed. A pinned number is kept as it is.
static int recompute_ranges(const struct search_request *request, struct space_recompute recompute,
                            int layers_most, struct space_recompute *ranges)
{
    struct int_range pinned = pins_get(&request->pins, CHOICE_RECOMPUTE_LAYERS);
    bool is_whole = request->stack->recompute_whole >> recompute.recompute & 1;
    if (pinned.set && pinned.low >= 0 && is_whole) return 0;
    if (pinned.set) {
        if (recompute.recompute == RECOMPUTE_NONE && pinned.low > 0) return 0;
        recompute.layers_low = (int)pinned.low;
        recompute.layers_high = (int)(pinned.high < layers_most ? pinned.high : layers_most);
        if (recompute.recompute == RECOMPUTE_NONE) recompute.layers_high = recompute.layers_low;
        ranges[0] = recompute;
        return recompute.layers_low <= recompute.layers_high;
    }
    int count = 0;
    if (recompute.recompute != RECOMPUTE_NONE && layers_most > 1 && !is_whole) {
        recompute.layers_low = 1;
        recompute.layers_high = layers_most - 1;
        ranges[count++] = recompute;
    }
    recompute.layers_low = recompute.layers_high = -1;
    ranges[count++] = recompute;
    return count;
}

static bool stack_allows(struct space *space, const struct parallel *parallel)
{
    const struct stack *stack = space->request->stack;
    if (stack_can_run(stack, parallel, NULL, NULL)) return true;
    struct err err = {.kind = space->refused.kind};
    if (err.kind == ERR_NONE) {
        struct arena_mark mark = arena_mark(space->arena);
        const char *why = NULL;
        stack_can_run(stack, parallel, space->arena, &why);
        err_set(&err, ERR_USAGE, "%s", why);
        arena_reset(space->arena, mark);
    }
    space_drop(space, DROP_STACK, &err);
    return false;
}

// Those of the moves that the stack has beside this way to recompute.
static unsigned moves_beside(struct space *space, const struct space_group *group,
                             const struct space_tail *tail, const struct space_recompute *recompute)
{
    unsigned mask = 0;
    if (tail->move_count == 1 && offload_is_none(&tail->moves[0].offload)) return 1;
    struct parallel parallel = space_parallel(space, group, tail, recompute, recompute->layers_low);
    for (int i = 0; i < tail->move_count; i++) {
        parallel.offload = space_moved(&tail->moves[i], tail->moves[i].layers_high);
        // Beside nothing moved the stack was asked already.
        if (offload_is_none(&parallel.offload) || stack_allows(space, &parallel)) mask |= 1u << i;
    }
    return mask;
}

static void add_moves(struct space *space, struct space_tail *tail, int layers_most)
{
    struct space_move moves[SPACE_MOVE_MAX];
    tail->move_count = space_moves(space->request, tail->zero, layers_most, moves);
    struct space_move *kept = ARENA_NEW(space->arena, struct space_move, tail->move_count);
    if (tail->move_count) memcpy(kept, moves, (size_t)tail->move_count * sizeof *kept);
    tail->moves = kept;
}

// Ways to recompute beside which nothing may be moved as wanted go.
static int keep_moving(struct space *space, const struct space_group *group,
                       const struct space_tail *tail, struct space_recompute *recomputes, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        recomputes[i].moves = moves_beside(space, group, tail, &recomputes[i]);
        if (recomputes[i].moves) recomputes[kept++] = recomputes[i];
    }
    return kept;
}

// The ways to recompute that the stack has beside the rest of the tail, counted.
static int ways_to_recompute(struct space *space, const struct space_group *group,
                             const struct space_tail *tail, int layers_most,
                             struct space_recompute recomputes[2 * SPACE_VALUE_MAX])
{
    int count = 0;
    struct parallel parallel = space_first(space, group, tail);
    for (int i = 0; i < space->recomputes.count; i++) {
        struct space_recompute recompute = {.layers_low = -1, .layers_high = -1};
        recompute.recompute = recompute_of_value(space->recomputes.values[i], &recompute.classes);
        parallel.recompute = recompute.recompute;
        parallel.recompute_classes = recompute.classes;
        if (!stack_allows(space, &parallel)) {
            // A stack that keeps activations elsewhere refuses something else of the tail.
            bool keeps_all = recompute.recompute == RECOMPUTE_NONE;
            if (keeps_all && space->request->stack->recompute >> RECOMPUTE_NONE & 1) return 0;
            continue;
        }
        count += recompute_ranges(space->request, recompute, layers_most, &recomputes[count]);
    }
    assert(count <= 2 * SPACE_VALUE_MAX);
    return keep_moving(space, group, tail, recomputes, count);
}

struct space_tail space_ways(struct space *space, const struct space_group *group,
                             struct space_tail tail, int layers_most)
{
    struct space_recompute recomputes[2 * SPACE_VALUE_MAX];
    add_moves(space, &tail, layers_most);
    int count = ways_to_recompute(space, group, &tail, layers_most, recomputes);
    struct space_recompute *kept = ARENA_NEW(space->arena, struct space_recompute, count);
    if (count) memcpy(kept, recomputes, (size_t)count * sizeof *kept);
    tail.recomputes = kept;
    tail.recompute_count = count;
    return tail;
}

int space_recompute_values(const struct space_tail *tail, int *values)
{
    assert(tail->recompute_count <= 2 * SPACE_VALUE_MAX);
    int count = 0;
    for (int r = 0; r < tail->recompute_count; r++) {
        int value = recompute_value(tail->recomputes[r].recompute, tail->recomputes[r].classes),
            at = 0;
        while (at < count && values[at] != value)
            at++;
        if (at == count) values[count++] = value;
    }
    return count;
}
