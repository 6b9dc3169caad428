#pragma once
#include "core/json_write.h"
#include "models/onnx/stack.h"

// What the search for a stack has found so far, and which family it is.

// A product with a weight.
struct stack_product {
    int node, weight;  // the weight is the initializer, before any Transpose
    int64_t in, out;
    bool has_bias;
};

struct stack_finder {
    const char *path;
    const struct onnx_graph *graph;
    struct err *err;
    int *maker;  // by tensor: the forward node that makes it, or -1
    struct stack_product *products;
    int product_count;
    int table;  // of tokens; -1 until it is found
    int64_t vocab, hidden, batch, seq_len, position_count;
    int64_t second_count;  // rows of a second table beside that of tokens; 0: there is none
    int64_t head_count, head_dim;
    int softmax_count, layer_norm_count, rms_norm_count, rotation_count;
    int scale_count;  // products of tokens with a vector of weights: those of rms norms
    bool norm_has_bias, has_mask;
    bool has_rows;           // positions were folded into a constant
    const char *activation;  // type of the operator
};

// What one layer consists of, by its products.
struct stack_layer {
    int64_t kv_head_count, ffn;
    bool is_gated, qkv_bias, out_bias, mlp_bias;
};

// Writes the config of the family whose parts these are; `is_masked`: the head is that of a masked
// language model. False and an error where they are those of none.
bool stack_put_family(struct stack_finder *finder, const struct stack_layer *layer, bool is_tied,
                      bool is_masked, struct json_writer *writer);
