#pragma once
#include "executor/cuda/cuda.h"
#include "executor/cuda/cudnn_library.h"

// Attention as a graph of cuDNN operations, forward or backward, in the one order that its fused
// kernels know. Making it and asking whether an engine takes it need no device, but cudnn_open.

enum sdpa_tensor {
    SDPA_Q = 1,
    SDPA_K,
    SDPA_V,
    SDPA_OUT,
    SDPA_LSE,
    SDPA_SLOPES,  // by head, as are sinks
    SDPA_SINKS,
    SDPA_CHOSEN,  // added to scores: 0 for a key that is chosen, else what leaves nothing of it
    SDPA_SCALE,   // by value, like those up to SDPA_BACK
    SDPA_LOWEST,  // minus infinity
    SDPA_ONE,
    SDPA_SOFTCAP,
    SDPA_BACK,
    SDPA_AHEAD,  // integers from here on
    SDPA_FIRST_KEY,
    SDPA_D,
    SDPA_D_Q,
    SDPA_D_K,
    SDPA_D_V,
    SDPA_MEANS,     // of out and its gradient, by query; fp32
    SDPA_D_Q_SUM,   // fp32
    SDPA_D_K_WIDE,  // by query head, where heads share keys
    SDPA_D_V_WIDE,
    SDPA_TENSORS
};

// CUDNN_ATTR_OPERATIONGRAPH_HANDLE and CUDNN_ATTR_EXECUTION_PLAN_HANDLE, which the header marks as
// deprecated in favour of properties of a device.
#define SDPA_GRAPH_HANDLE ((cudnnBackendAttributeName_t)800)
#define SDPA_PLAN_HANDLE ((cudnnBackendAttributeName_t)400)

// The first version of cuDNN whose backward reads a log-sum-exp that is not dense by head and then
// by query: before, NVIDIA's cudnn-frontend (1.32) refuses it as read wrong.
enum { SDPA_STRIDED = 92600 };

enum { SDPA_DESCRIPTORS = 192, SDPA_OPERATIONS = 64 };
struct sdpa_graph {
    const struct sdpa_shape *shape;
    cudnnBackendDescriptor_t held[SDPA_DESCRIPTORS], operations[SDPA_OPERATIONS], graph;
    int held_count, operation_count;
    int64_t next_virtual;
    cudnnStatus_t status;
};

// NULL, or what cuDNN says; either way sdpa_graph_free ends it.
const char *sdpa_graph_make(struct sdpa_graph *graph, const struct sdpa_shape *shape,
                            cudnnHandle_t handle);
void sdpa_graph_free(struct sdpa_graph *graph);
// A descriptor that the graph holds, its attributes, and its end; after a fault they do nothing.
cudnnBackendDescriptor_t sdpa_begin(struct sdpa_graph *graph, cudnnBackendDescriptorType_t type);
void sdpa_set(struct sdpa_graph *graph, cudnnBackendDescriptor_t descriptor,
              cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
              const void *values);
void sdpa_end(struct sdpa_graph *graph, cudnnBackendDescriptor_t descriptor);

// An execution plan, and the configuration of an engine that it is of.
struct sdpa_made {
    cudnnBackendDescriptor_t config, plan;
    int64_t workspace_bytes;
};
// Compiles the first plan that cuDNN can make, of the configurations that its heuristics name, best
// first: for the handle's device, or, with `handle` NULL, for `device_properties` (a descriptor).
// NULL, or what cuDNN says of the last one tried; sdpa_plan_free ends what was made.
const char *sdpa_plan_make(const struct sdpa_shape *shape, cudnnHandle_t handle,
                           cudnnBackendDescriptor_t device_properties, struct sdpa_made *made);
void sdpa_plan_free(struct sdpa_made *made);

// Bytes behind the tensors that are neither arguments nor virtual.
int64_t sdpa_temporary_bytes(const struct sdpa_shape *shape, enum sdpa_tensor tensor);
