#pragma once
#include "validation/trial.h"

// Errors of predictions: predicted over measured, less 1.

struct score {
    int row_count, failure_count;
    double mape, median, bias, p90, worst;  // ratios: 0.083 is 8.3 %; median, p90 and worst of the
                                            // absolute error, bias its signed mean
    double covered_ratio;                   // rows whose measured step lies in the predicted band
};

struct score_row {
    const char *name;  // a family, or a kind
    struct score score;
};

// `wanted` picks rows; error of a trial by `error_of` (NaN = not scored), so that live predictions,
// left-out ones and memory are scored by the same lines.
struct score score_trials(const struct trials *trials,
                          bool (*wanted)(const struct trial *trial, const void *context),
                          double (*error_of)(const struct trial *trial, const void *context),
                          const void *context);

// Sweeps: rows of one family that train the same model on the same GPUs with the same batch,
// sequence and precision and differ in how. Pairs whose measured steps differ by more than 3 % and
// that are predicted in the same order; regret: measured step of the plan predicted best over that
// of the plan measured best, less 1.
struct ranking {
    int sweep_count, pair_count, right_count;
    double regret_mean, regret_worst;
};
struct ranking ranking_of(struct arena *arena, const struct trials *trials);
