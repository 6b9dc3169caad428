#pragma once
#include "memory/keep/keep.h"
#include "tests/support/draw.h"

// Small problems of what is kept, recomputed or moved, and what a choice of one comes to, asked of
// it layer by layer.

enum { KEEP_CLASSES = 3, KEEP_RECOMPUTES = 3, KEEP_STAGES = 2, KEEP_LAYERS = 3 };

struct keep_drawn {
    struct keep_problem problem;
    struct keep_class classes[KEEP_CLASSES];
    struct keep_recompute recomputes[KEEP_RECOMPUTES];
    struct keep_stage stages[KEEP_STAGES];
};

static const int64_t KEEP_MEGABYTE = 1000000;

void keep_draw(struct draw *draw, struct keep_drawn *drawn);
struct keep_problem keep_one_class(struct keep_class *class, struct keep_recompute *recomputes,
                                   struct keep_stage *stage);

// The same question asked of one choice, layer by layer: whether it fits, and what it adds.
struct keep_asked {
    double added_s, lack_bytes, moved_bytes;
    bool fits_tiers;
};

double keep_rate(const struct keep_problem *problem, enum tier tier);
struct keep_asked keep_ask(const struct keep_problem *problem, const struct keep_result *choice,
                           enum tier tier);
