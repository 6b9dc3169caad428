#pragma once
#include "memory/graph.h"

// A training step written down operator by operator: the forward pass by hand, gradients and Adam
// by themselves.

// What the gradient operators of an operator read beside the gradient of its output.
enum net_saves {
    SAVES_NOTHING,
    SAVES_OTHERS,  // the other inputs (a product); of a single input: that
    SAVES_INPUTS,
    SAVES_OUTPUT,
    SAVES_FLOW,  // the gradient of the output is that of activations as it is (sums)
};

enum { NET_INPUTS_MAX = 4 };

struct net_op {
    int inputs[NET_INPUTS_MAX];
    int input_count, output;
    enum net_saves saves;
};

struct net {
    struct arena *arena;
    struct memory_tensor *tensors;
    bool *is_parameter, *is_data;
    int *gradient;  // of a tensor, -1: none yet
    int tensor_count, tensor_capacity;
    struct memory_operator *operators;
    struct net_op *ops;  // the forward ones
    int operator_count, operator_capacity;
};

int net_data(struct net *net, const char *name, int64_t bytes);
int net_parameter(struct net *net, const char *name, int64_t elements);
// An operator with one output of that many elements of 4 bytes; returns the output.
int net_op(struct net *net, const char *name, enum net_saves saves, int64_t elements, int a, int b);
int net_op_4(struct net *net, const char *name, enum net_saves saves, int64_t elements,
             const int *inputs, int count);
// Gradients from `loss` back, Adam for every parameter; the finished graph.
struct memory_graph *net_train(struct net *net, const char *name, int loss);

// Growing lists of plain graphs: a tensor, and an operator with these lists (copied).
int net_tensor(struct net *net, const char *name, int64_t bytes);
int net_operator(struct net *net, const char *name, const int *inputs, int input_count,
                 const int *outputs, int output_count);
struct memory_graph *net_finish(struct net *net, const char *name);
