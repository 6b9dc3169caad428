#pragma once
#include "executor/cuda/cuda.h"

#include <cudnn.h>

// cuDNN of the emulation: graphs of operations as its backend interface describes them, run one
// operation after another in plain loops.

enum { EMULATED_OPERATIONS = 64, EMULATED_ARGUMENTS = 32 };

struct emulated_tensor {
    int64_t uid, size[4], stride[4], alignment_bytes;
    cudnnDataType_t type;
    bool is_virtual, is_value;
};

// y of x, b and c: what these are, and whether they are there, is by type and mode.
struct emulated_operation {
    cudnnBackendDescriptorType_t type;
    int mode;  // of enum cudnn_pointwise_mode or cudnn_reduction
    int64_t axis;
    struct emulated_tensor x, b, c, y;
    bool has_b, has_c, is_gradient;  // with a gradient c the result is that of x
};

struct emulated_graph {
    struct emulated_operation operations[EMULATED_OPERATIONS];
    int count;
};

// What an execution has for the tensors that are not virtual: memory, or a number.
struct emulated_argument {
    int64_t uid;
    void *data;
    double value;
};

// Whether numbers of each row that are taken off its scores are dense: before 9.26 cuDNN reads
// others wrong (SDPA_STRIDED).
bool emulate_reads_dense_rows(const struct emulated_graph *graph);
void emulate_run_graph(const struct emulated_graph *graph,
                       const struct emulated_argument *arguments, int count);
