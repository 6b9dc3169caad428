#pragma once
#include "models/onnx.h"
#include "topologies/device.h"

// Seconds of every node of an imported graph on a device, alone: its flops at the device's rate of
// long GEMMs in the precision of its elements (4 bytes fp32, 2 bytes bf16 or, without it, fp16), or
// its bytes at the rate of streaming kernels, whichever is longer, behind the gap between two
// kernels. Views take none. [node]. NULL and ERR_USAGE: the device has not the precision of a node.
MUST_CHECK const double *onnx_seconds(struct arena *arena, const struct onnx_graph *graph,
                                      const struct device *device, struct err *err);
