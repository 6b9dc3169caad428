#pragma once
#include "memory/plan_schedule.h"

// The most bytes that are alive while each block of a stage of one chunk works, in the order that
// was found for it, of the micro-batch in which they are least: [half * block_count + position],
// half 1 backward. Without what a block fetches from the host where `is_apart` says so by position.
// Lives in `arena`.
int64_t *stage_alive_beside(struct arena *arena, const struct program *program,
                            const struct plan_stage *stage, const bool *is_apart, int block_count);
