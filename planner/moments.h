#pragma once
#include "plan/program.h"
#include "planner/index.h"

// When a stage can hold most is known by schedule and shape alone: asked of the schedule once for
// all plans that share them.

// Starts as {.arena = arena}.
struct moments {
    struct arena *arena;
    struct index index;
};

// By stage, for struct program's `holds`; those of `stage` are filled. Of the program only shape
// and schedule are read. Lives as long as the arena.
const struct stage_in_flight *moments_get(struct moments *moments, const struct program *program,
                                          int stage);
