#include "memory/plan_schedule.h"

#include "cost_models/memory.h"

#include <assert.h>
#include <stdlib.h>

// One to three seconds without a better packing of a stage that may be the worst, and a fraction of
// one of the others.
static const double PATIENCE = 3e8, PATIENCE_OF_OTHERS = 3e7;

// A stage by the most that its program order has alive, and what lies beside that.
struct weighed {
    int group;
    int64_t beside_bytes, live_bytes;
};

// The heaviest first: it says how much is enough for the others.
static int by_bytes(const void *left, const void *right)
{
    const struct weighed *a = left, *b = right;
    int64_t a_bytes = a->beside_bytes + a->live_bytes, b_bytes = b->beside_bytes + b->live_bytes;
    return a_bytes != b_bytes ? (a_bytes > b_bytes ? -1 : 1) : a->group - b->group;
}

// What lies beside the arena is a stage's, too: the heaviest arena need not be the worst stage.
static struct weighed *weigh(struct arena *arena, const struct program *program,
                             const struct stack *stack, const struct plan_stages *stages)
{
    struct weighed *weighed = ARENA_NEW(arena, struct weighed, stages->count);
    for (int i = 0; i < stages->count; i++) {
        const struct memory_problem *problem = stages->stages[i].problem;
        struct memory_parts parts = memory_of_stage(program, stack, stages->stages[i].stage);
        int *birth = ARENA_NEW(arena, int, problem->buffer_count);
        int *death = ARENA_NEW(arena, int, problem->buffer_count);
        const int *order = order_program(arena, problem);
        weighed[i] = (struct weighed){
            .group = i,
            .beside_bytes = parts.weights_bytes + parts.gradients_bytes + parts.optimizer_bytes +
                            parts.standing_bytes + parts.reserve_bytes,
            .live_bytes = memory_lifetimes(arena, problem, order, birth, death),
        };
    }
    qsort(weighed, (size_t)stages->count, sizeof *weighed, by_bytes);
    return weighed;
}

bool plan_schedule_make(struct arena *arena, struct arena *scratch, const struct program *program,
                        const struct stack *stack, const struct memory_options *options,
                        struct plan_stages *stages, struct err *err)
{
    if (!plan_stages_make(arena, program, stack, options->alignment, stages, err)) return false;
    const struct weighed *weighed = weigh(arena, program, stack, stages);
    int64_t peak_bytes = 0;
    for (int i = 0; i < stages->count; i++) {
        struct plan_stage *stage = &stages->stages[weighed[i].group];
        struct memory_options own = *options;
        own.enough_bytes = peak_bytes - weighed[i].beside_bytes;
        own.patience = weighed[i].live_bytes > own.enough_bytes ? PATIENCE : PATIENCE_OF_OTHERS;
        if (options->progress) options->progress(options->progress_context, i, stages->count);
        struct arena_mark mark = arena_mark(scratch);
        bool done = memory_schedule_graph(arena, scratch, stage->graph->graph, stage->problem, &own,
                                          &stage->result, err);
        arena_reset(scratch, mark);
        if (!done) {
            if (err->kind == ERR_SYSTEM) stages->refused = stage->graph->graph;
            return false;
        }
        int64_t bytes = weighed[i].beside_bytes + stage->result.arena_bytes;
        assert(bytes >= 0 && stage->result.arena_bytes >= stage->result.live_bytes);
        if (peak_bytes < bytes) peak_bytes = bytes;
    }
    return true;
}
