#pragma once
#include "core/err.h"
#include "models/window.h"

#include <stdint.h>

// ONNX models (protobuf, read with protobuf-c; the messages that we read are in
// models/onnx/onnx.proto) as operators over tensors of known size, with the backward pass and the
// weight update that training adds. Shapes are inferred here; a dimension without value is the
// batch where it is the first one of an input, else an error that names it.
//
// What constants alone make is a constant, and what no output depends on does not run. With
// another batch, a Reshape whose constant shape was made for batch 1 follows: a first entry of 1
// becomes the batch, and one that falls short by just the batch is multiplied by it. Weights whose
// bytes stand in other files are fine: only shapes are needed. Files up to 2 GiB, protobuf's limit.
//
// Training. A loss that the file ends with, SoftmaxCrossEntropyLoss or NegativeLogLikelihoodLoss,
// is the loss; else it is softmax cross-entropy where the model has one output that depends on
// weights, of rank 2 or more; else the mean of all such outputs. Trained are the constants of
// floats and rank >= 1 that an operator is differentiable in (so not the statistics of
// BatchNormalization). A parameter used twice has one gradient. Later contributions to a gradient
// are added one by one, in place. Results overwrite an input only where nothing else reads it.
//
// A new operator is a row of the table in models/onnx/operators.c: how its output shape follows,
// what its backward reads, what it may write in place, how many flops it takes.

enum onnx_role {
    ONNX_INPUT,      // data: there from the start, freed after its last reader
    ONNX_PARAMETER,  // initializers, and what constants alone make (folded)
    ONNX_ACTIVATION,
    ONNX_GRADIENT,  // of an activation
    ONNX_PARAMETER_GRADIENT,
    ONNX_STATE,  // of the optimizer
};

struct onnx_tensor {
    const char *name;
    enum onnx_role role;
    int rank;
    const int64_t *dims;
    int element_bytes;
    int64_t bytes;
    bool is_whole;   // of whole numbers or truths, where it is no gradient
    bool is_output;  // of the model; in training the loss's gradient starts there
    int shares;      // tensor whose memory it is a view of (Reshape, Flatten, Dropout of
                     // inference, ...) or overwrites; -1: none
    bool overwrites;
};

enum onnx_pass { ONNX_FORWARD, ONNX_BACKWARD, ONNX_UPDATE };

// Of a call that makes nothing but reads elsewhere: for each dimension of its result the numbers of
// its input that a step skips, and where it begins. Of sums, means and Pad the other way: for each
// dimension of its input the numbers of its result.
struct onnx_reading {
    int64_t first;
    const int64_t *steps;
};

struct onnx_node {
    const char *name;  // made unique
    const char *type;  // "Conv", "Conv.input_gradient", "adamw", ...
    const char *mode;  // "tanh" of a Gelu, "causal" of an Attention; else NULL
    enum onnx_pass pass;
    const int *inputs, *outputs;
    int input_count, output_count;
    double flop;
    double scalar;  // of its kernel (models/imported.inc); NaN: attributes that kernels have not
    const struct window *windows;  // of height and width, where it is one that slides; else NULL
    const struct onnx_reading *reading;  // of Transpose, Slice, Expand and their like, and the
                                         // other way of sums over places and Pad; else NULL
};

struct onnx_graph {
    const char *name;
    struct onnx_tensor *tensors;
    int tensor_count;
    struct onnx_node *nodes;  // producers before readers; forward, backward in reverse, updates
    int node_count;
    int64_t parameter_elements;
};

struct onnx_options {
    int64_t batch;   // for the dimension of inputs that has no value; replaces a first dimension of
                     // 1 as well; 0 = as the model says, 1 where it says nothing
    int64_t length;  // for other dimensions of inputs that have no value; 0 = they are an error
    bool training;   // backward and update as well
    int moment_count;  // optimizer states of a parameter's size (adamw 2, sgd 0 or 1)
};

// NULL and ERR_INPUT, one line naming file, node and what was wanted: no ONNX file, truncated, an
// unknown operator, shapes that do not go together, a cycle, two producers. In `arena`.
MUST_CHECK struct onnx_graph *onnx_load(struct arena *arena, const char *path,
                                        const struct onnx_options *options, struct err *err);
MUST_CHECK struct onnx_graph *onnx_read(struct arena *arena, const char *path, const void *bytes,
                                        size_t byte_count, const struct onnx_options *options,
                                        struct err *err);
