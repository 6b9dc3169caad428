#pragma once
#include "models/onnx/model.h"

// How the shapes of outputs follow from those of inputs, by family. Each sets every output that its
// call has; false and an error where inputs do not go together. The rules are those of the
// public operator reference (onnx.ai/onnx/operators), all opsets at once: what one opset has as an
// attribute and another as an input is looked up in both places.

typedef bool shape_function(const struct onnx_model *model, struct onnx_call *call);

// Element by element: shape_math.c
shape_function shape_same, shape_broadcast, shape_compare, shape_where, shape_cast, shape_dropout,
    shape_variadic, shape_bool;
// Contractions, reductions, normalisations: shape_reduce.c
shape_function shape_matmul, shape_grouped_matmul, shape_gemm, shape_reduce, shape_arg,
    shape_einsum, shape_normalized, shape_batch_norm, shape_top_k, shape_loss;
// Fused attention: shape_attention.c
shape_function shape_attention;
// Recurrent networks, and how many products a step of one is: shape_recurrent.c
shape_function shape_recurrent;
int recurrent_gates(const char *type);
// Windows over images: shape_window.c
shape_function shape_conv, shape_conv_transpose, shape_pool, shape_global_pool, shape_resize;
// Moving data: shape_move.c and shape_cut.c
shape_function shape_reshape, shape_flatten, shape_squeeze, shape_unsqueeze, shape_transpose,
    shape_expand, shape_concat, shape_split, shape_slice, shape_gather, shape_gather_elements,
    shape_gather_nd, shape_bags, shape_pad, shape_tile, shape_depth_to_space, shape_space_to_depth,
    shape_shape, shape_size, shape_constant, shape_constant_of_shape, shape_range, shape_one_hot;

// Helpers that several families share.
// An axis in 0 .. rank - 1 from one in -rank .. rank - 1.
bool axis_of(const struct onnx_model *model, const struct onnx_call *call, int64_t axis, int rank,
             int *result);
// The dimensions that two shapes broadcast to; false and an error where they do not.
bool broadcast(const struct onnx_model *model, const struct onnx_call *call, int *rank,
               int64_t *dims, const struct onnx_value *other);

// One dimension of a Slice: `count` elements from `first`, `step` apart.
struct onnx_slice {
    int64_t first, count, step;
};
// From what ONNX gives; an index beyond the ends is brought to them. False for step 0.
bool read_slice(const struct onnx_model *model, const struct onnx_call *call,
                struct onnx_slice slices[RANK_MOST]);
