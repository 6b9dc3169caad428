#pragma once
#include "cost_models/ledger.h"
#include "simulator/evaluate.h"

// The account of a layer before any device has run it: every kernel of one micro-batch in the order
// of the program, what the device's sheet lets it take at the least, what it takes alone, and what
// it is priced at. What runs as one kernel is one line.
//
// Alone is what a benchmark of this kernel would time (tests/gpu/run.sh, calibrate): the formulas
// of the prices at the device's `efficiency_alone`, without the gap in front and without what the
// stack's scales say of its kernels in training. Priced is what a step is made of: rates fitted to
// whole steps, in which the clock falls to the power limit and other work runs beside.

struct kernel_account {
    struct ledger_line price;  // of the first operator in it, its seconds those of all
    double flop, bytes;        // of all its launches
    double launch_count;  // its own and those of the casts in front of it, in the mean micro-batch
    double roof_s;   // the longer of the flop at the peak of the precision that they run in and
                     // of the bytes at the memory's rate, both as on the sheet
    double alone_s;  // of all its launches
};

struct layer_account {
    const char *name;
    bool recomputed;  // as the plan recomputes
    int layer_count;  // that run so, of one micro-batch, on all stages together
    struct kernel_account *kernels;
    int kernel_count;
    double launch_count;           // by the host: none of views, or of what a kernel has inside
    double flop, roof_s, alone_s;  // sums over the kernels
    double s;                      // the same, and copies of what experts keep
    double communication_s;        // of the layer, that nothing hides; and what compute loses to it
    double host_s;                 // that the device waits for the host's launches
};

struct kernels_account {
    const struct device *device;
    double peak_flop_per_s;  // of the run's precision
    bool has_alone;  // whether the device has rates of kernels alone in its precisions; else every
                     // alone_s is 0
    struct layer_account *layers;
    int layer_count;  // kinds of layers, as they are kept and as they are recomputed
};

// Of an evaluated plan; lives in `arena`.
struct kernels_account kernels_account_make(struct arena *arena,
                                            const struct evaluation_request *request,
                                            const struct evaluation *evaluation);
