#pragma once
#include "core/arena.h"

// Errors of predictions against measurements: predicted over measured, less 1.

struct estimate {
    double measured;   // 0: nothing was published, which counts nowhere
    double predicted;  // 0: a failure, counted as such
    double low, high;  // the band of the prediction; 0: it has none
};

struct score {
    int row_count;                          // measured and predicted
    int failure_count;                      // measured, but nothing was predicted
    double mape, median, bias, p90, worst;  // ratios: 0.083 is 8.3 %; median, p90 and worst of the
                                            // absolute error, bias its signed mean; p90 is the
                                            // smallest error that 90 % of the rows do not exceed
    double least, most;                     // signed: the worst under- and over-prediction
    int banded_count;
    double covered_ratio;  // of the rows with a band: the measured value lies in it
};

// All zero where no row is scored. The order of the estimates does not matter, but for rounding.
struct score score_of(const struct estimate *estimates, int count);
