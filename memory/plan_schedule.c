#include "memory/plan_schedule.h"

bool plan_schedule_make(struct arena *arena, struct arena *scratch, const struct program *program,
                        const struct stack *stack, const struct memory_options *options,
                        struct plan_stages *stages, struct err *err)
{
    if (!plan_stages_make(arena, program, stack, options->alignment, stages, err)) return false;
    for (int i = 0; i < stages->count; i++) {
        struct plan_stage *stage = &stages->stages[i];
        if (options->progress) options->progress(options->progress_context, i, stages->count);
        struct arena_mark mark = arena_mark(scratch);
        bool done = memory_schedule_graph(arena, scratch, stage->graph->graph, stage->problem,
                                          options, &stage->result, err);
        arena_reset(scratch, mark);
        if (done) continue;
        if (err->kind == ERR_SYSTEM) stages->refused = stage->graph->graph;
        return false;
    }
    return true;
}
