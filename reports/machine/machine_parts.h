#pragma once
#include "reports/machine/machine.h"

// What reports/machine*.c share.

// Kernels are of the first three kinds.
enum machine_kind machine_class(const struct calibrate_kernel *row);
double machine_price_s(const struct device *device, const struct stack *stack,
                       const struct calibrate_kernel *row);
// Of a core or a device that a rank gets: 1 where there are enough.
double machine_share(const struct calibration *calibration, const struct machine_facts *facts);
// The products and attention by shape, in the seconds with which the cost model says of each what
// was measured, on the cluster's device. NULL: none was.
struct kernel_table *machine_kernels(struct arena *arena, const struct machine *machine,
                                     const struct calibration *calibration,
                                     const struct machine_facts *facts, const char *measured);
// The device with which the cost model is nearest to the rows; `stack` is given the scale of its
// element-wise operators. `measured` says when and where, for the provenance.
struct device *machine_device(struct arena *arena, const struct calibration *calibration,
                              const struct machine_facts *facts, struct stack *stack,
                              const char *measured);
