#pragma once
#include "tests/support/draw.h"
#include "tests/support/run_case.h"

// Random plans over all techniques at once on up to eight ranks, of tiny models of many families.

enum { DRAWN_MODEL_COUNT = 10, DRAWN_SEQ = 16, DRAWN_BATCH = 16 };

// The configuration of a model.
const char *run_draw_config(int model);
// One of them may be refused: its choices may not go together.
struct run_case run_draw(struct draw *draw, struct arena *arena, int *model);
