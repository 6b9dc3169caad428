#pragma once
#include "validation/rows.h"

// How well predictions order plans. A sweep is the rows of one family that train the same model
// with the same batch, sequence and precision on the same GPUs with the same release of the same
// software, and differ in how: what a planner chooses among. A network that is not stated is the
// same for all rows of a sweep, so that such rows rank too.

// Rows of equal texts belong to the same sweep.
const char *row_sweep(struct arena *arena, const struct row *row);

// Rows of equal texts belong to the same series: a sweep's conditions but for how many GPUs and
// sequences.
const char *row_series(struct arena *arena, const struct row *row);

struct ranked {
    const char *sweep;
    double measured_s, predicted_s;  // 0: the plan does not rank
};

struct ranking_score {
    int sweep_count;              // of two plans or more
    int pair_count, right_count;  // pairs of plans whose measured steps are more than 3 % apart;
                                  // right: predicted in that order (equal is wrong)
    double regret_mean, regret_worst;  // over sweeps: the measured step of the plan predicted best
                                       // over that of the plan measured best, less 1; of plans
                                       // predicted equal, the slowest
    const char *worst_sweep;           // where regret is worst; NULL: nowhere
};
struct ranking_score ranking_of(const struct ranked *plans, int count);
