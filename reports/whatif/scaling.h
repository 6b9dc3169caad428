#pragma once
#include "reports/whatif/whatif.h"

// How speed grows with the GPUs: one sweep over counts, beside what was measured of it. One
// measured point calibrates all: where predictions are off at one size for a reason that all sizes
// share (kernels, software), the ratio there is that of all.

struct scaling_point {
    int64_t gpus;
    double tokens_per_s_per_gpu;
};

struct scaling_points {
    struct scaling_point *items;
    int count;
};

// A CSV file of the columns gpus,tokens_per_s_per_gpu, that line first; each count once. ERR_INPUT
// with file and line.
MUST_CHECK bool scaling_load(struct arena *arena, const char *path, struct scaling_points *points,
                             struct err *err);

// "8=4078", or "8" where `measured` has that count. ERR_USAGE.
MUST_CHECK bool scaling_parse(struct arena *arena, const char *text,
                              const struct scaling_points *measured, struct scaling_point *point,
                              struct err *err);

// Scales the speed of all outcomes by what was measured over what is predicted at that count, and
// returns the ratio; 0 and ERR_USAGE where no plan of that count was asked for or none fits.
double scaling_calibrate(const struct sweep_points *points, const struct scaling_point *measured,
                         struct scenario_outcome *outcomes, struct err *err);

struct scaling {
    const struct whatif *whatif;  // of one cluster, rising counts
    struct scaling_points measured;
    struct scaling_point calibrated;  // gpus 0: it is not
    double ratio;                     // that it scaled by
};

struct scaling_error {
    int count;                       // of measured points beside the calibrated one
    double worst_ratio, mean_ratio;  // of |predicted / measured - 1|
    int64_t worst_gpus;
};
struct scaling_error scaling_error(const struct scaling *scaling);

// Of the smallest count that fits; 0 where none does.
double scaling_first(const struct whatif *whatif);
// What was measured at this count; 0: nothing.
double scaling_measured_at(const struct scaling_points *points, int64_t gpus);

// Where the question has a limit, with its answer and the command that plans it.
char *scaling_table_text(struct arena *arena, const struct scaling *scaling,
                         const struct whatif_words *words);
