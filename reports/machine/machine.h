#pragma once
#include "cost_models/collective.h"
#include "cost_models/compute.h"
#include "executor/calibrate/calibrate.h"

// What was measured on this machine (executor/calibrate/calibrate.h) as the files that a prediction
// reads: a device of kind "cpu" or "gpu", which is one rank, a cluster of them, and the stack of
// the back end with what of it depends on the machine. The constants are those with which the cost
// model itself comes nearest to the measured seconds, so that nothing of it is written down a
// second time.

struct machine_facts {
    const char *processor, *libraries;
    const char *date;                           // of the measurement, 2026-11-21
    const char *version;                        // of this program
    const char *transport;                      // that collectives went over; NULL: not said
    int core_count;                             // that the ranks may use
    bool is_bound;                              // each rank to a core of its own
    int64_t memory_bytes, cache_bytes;          // of the host
    const struct backend_device_facts *device;  // NULL: the ranks are the host's
    const struct device *like;  // the shipped device that this is one of, for its peak; NULL: none
};

// How far the model with these constants is from the rows of one kind.
enum machine_kind {
    MACHINE_GEMM,
    MACHINE_ATTENTION,
    MACHINE_MEMORY,  // everything bound by memory, or taken to be
    MACHINE_EXCHANGE,
    MACHINE_KIND_COUNT
};
struct machine_error {
    int row_count;
    double measured_s, predicted_s;  // sums over the rows
    double mean_ratio;               // geometric mean of the larger over the smaller
};

struct machine {
    const struct device *device;  // a rank that has a core of its own, as the rows are
    struct cluster *cluster;      // its device has the share of a core that a rank gets
    const struct stack *stack;
    const struct kernel_table *kernels;  // of the cluster's device, which does not name it; or NULL
    struct machine_error errors[MACHINE_KIND_COUNT];
};

// The shipped device of the same hardware: its name is one of the words of the driver's, and it has
// as many multiprocessors and, to a tenth, as much memory. NULL: there is none.
const struct device *machine_like(struct arena *arena, const struct backend_device_facts *facts);
// `base`: the shipped stack of the back end. Where ranks are more than cores or devices, each has
// its share of one.
struct machine machine_make(struct arena *arena, const struct calibration *calibration,
                            const struct machine_facts *facts, const struct stack *base,
                            const struct fabrics *fabrics);
// What the model says of a measured row, with the device of a machine.
double machine_kernel_s(const struct machine *machine, const struct calibrate_kernel *row);
double machine_exchange_s(const struct machine *machine, const struct fabrics *fabrics,
                          const struct calibrate_collective *row);

// One line an operator and phase, or one a row; and the collectives by size.
char *machine_text(struct arena *arena, const struct machine *machine,
                   const struct calibration *calibration, const struct machine_facts *facts,
                   const struct fabrics *fabrics, bool is_long);
