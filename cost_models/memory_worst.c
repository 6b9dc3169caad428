#include "cost_models/memory.h"

#include <assert.h>

// Where memory is worst: of the moments of a stage, and of the stages of a plan.

int memory_moments(const struct program *program, int stage, struct schedule_in_flight *moments)
{
    assert(stage >= 0 && stage < program->shape.stage_count);
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    // Without a pipeline each micro-batch ends before the next begins, whatever the schedule.
    for (int chunk = 0; chunk < program->shape.chunk_count; chunk++)
        moments[chunk] = (struct schedule_in_flight){1, 0};
    if (program->shape.stage_count == 1 && row->backward_fused) return 1;
    return row->in_flight(&program->shape, stage, moments);
}

struct memory_parts memory_worst(const struct program *program, const struct stack *stack,
                                 int *stage)
{
    struct memory_parts worst = {.reserved_bytes = -1};
    for (int i = 0; i < program->shape.stage_count; i++) {
        struct memory_parts parts = memory_of_stage(program, stack, i);
        if (parts.reserved_bytes <= worst.reserved_bytes) continue;
        worst = parts;
        *stage = i;
    }
    assert(worst.reserved_bytes >= 0 && *stage < program->shape.stage_count);
    return worst;
}
