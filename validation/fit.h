#pragma once
#include "validation/trial.h"

// Constants from measured runs. Few constants a device and a stack, each with a prior (its measured
// or published value, and how far that may be off); rows of all families weigh in; none a model or
// a row. Minimised: robust squared log errors of the steps plus squared distances from the priors
// in units of their spread (MAP estimate; Huber's loss, because published runs have outliers), by
// Gauss-Newton steps in the log of the constants.

struct fit_constant {
    enum constant_owner owner;
    const char *owner_name;
    const char *key;
    double prior, spread;  // of the log of the value
    double value;          // fitted
    int row_count;         // rows whose step depends on it
};

struct fit_left_out {
    const char *row_id;
    double step_s;  // predicted with constants fitted without the row's family
};

struct fit_result {
    struct fit_constant *constants;
    int constant_count;
    struct fit_left_out *left_out;  // one a fitted row
    int left_out_count;
};
