#pragma once
#include "core/json_write.h"
#include "planner/rivals.h"
#include "simulator/breakdown.h"

// What `--explain` prints: every operator and collective of the busiest stage, the sum of them, the
// elasticity of the step to every constant, and which constants would put another plan first.

struct explain {
    struct breakdown breakdown;
    struct sensitivity sensitivity;
    struct rivals rivals;  // plan_count 0: not asked, a single plan has none
};

// Tables of at most 100 columns; the largest lines, then how many more there are.
char *explain_text(struct arena *arena, const struct explain *explain);

// "explain": {"stage", "operators", "collectives", "sum", "constants", "rivals"}, every line of
// them. Seconds, flop and bytes are those of a step on one GPU of the stage.
void explain_write(struct json_writer *writer, const struct explain *explain);
