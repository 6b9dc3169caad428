#pragma once
#include "models/onnx/model.h"
#include "models/onnx/names.h"

// Makes the operators and tensors of the result: forward nodes here, loss, backward and update in
// gradient.c, what is written in place in overwrite.c.

// Tensors and nodes while they grow. Overwriting is decided last, when all readers are known.
struct onnx_program {
    struct arena *arena;    // of the result
    struct arena *scratch;  // of the reading
    const struct onnx_model *model;
    struct onnx_tensor *tensors;
    struct onnx_node *nodes;
    int *overwritable;  // of a node: how many of its first inputs output 0 may overwrite
    int tensor_count, tensor_capacity, node_count, node_capacity;
    struct names tensor_names, node_names;
    int *tensor_of;    // a value's tensor, -1: none yet
    int *gradient_of;  // a value's gradient so far, -1: none
    bool *needs_gradient;
    bool *is_turned;   // of a value: its gradient so far is a view of a turned product
    bool *is_strided;  // of a call: a Transpose whose reader or maker takes any order of dimensions
    int (*saved)[5];   // of a call: tensors that stand where its outputs 0 to 4 would, or -1
};

int program_tensor(struct onnx_program *program, const char *name, enum onnx_role role, int rank,
                   const int64_t *dims, int element_bytes);
int program_tensor_of(struct onnx_program *program, int value);

// Inputs that are there twice are read once. Returns the node's index.
int program_node(struct onnx_program *program, enum onnx_pass pass, const char *name,
                 const char *type, const int *inputs, int input_count, const int *outputs,
                 int output_count, double flop);

// Loss, backward and updates; false with an error where nothing can be trained.
bool program_train(struct onnx_program *program);
// Which values a gradient has to reach.
void program_mark_gradients(struct onnx_program *program);
// Results written in place where nothing else reads what they overwrite.
void program_overwrite(struct onnx_program *program);

// NULL and an error where training is wanted of what cannot be trained. In `arena`.
MUST_CHECK struct onnx_graph *program_make(struct arena *arena, const struct onnx_model *model);
