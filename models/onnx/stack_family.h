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
    double epsilon;   // of all norms; 0: not known
    int scale_count;  // products of tokens with a vector of weights: those of rms norms
    // Of pictures: the side of one and of a patch, its channels, and how many copies there are
    // of the token of a class in front of the patches; 0: there is none.
    int64_t picture_side, patch_side, channel_count, class_copies;
    bool norm_has_bias, has_mask;
    bool lacks_bias;         // of the patches or the head of an encoder of pictures
    bool has_rows;           // positions were folded into a constant
    const char *activation;  // type of the operator
};

// What one layer consists of, by its products.
struct stack_layer {
    int64_t kv_head_count, ffn;
    bool is_gated, qkv_bias, out_bias, mlp_bias;
};

// Writes the epsilon of the norms, rounded as it was to fp32, unless it is not known.
// stack_family.c
void stack_put_epsilon(const struct stack_finder *finder, const char *key,
                       struct json_writer *writer);
// That biases were put back, which exporters leave out where they are zeros, as those of a model
// that was never trained are. stack_family.c
const char *stack_note_biases(struct arena *arena, const struct stack_finder *finder);
// The initializer that a tensor is, or is another view of; -1 if it is none. stack.c
int stack_source(const struct stack_finder *finder, int tensor);
// What all layers of that many products each are; false and an error where they are not alike, or
// no attention and mlp. stack.c
bool stack_read_layers(struct stack_finder *finder, int each, struct stack_layer *layer);
// The convolution that cuts pictures into patches; false: it is another one. stack_picture.c
bool stack_see_patches(struct stack_finder *finder, const struct onnx_node *node);
// A join of the token of a class and something else.
void stack_see_class(struct stack_finder *finder, const struct onnx_node *node);
// The stack of an encoder of pictures; NULL and an error.
struct onnx_stack *stack_finish_picture(struct arena *arena, struct stack_finder *finder);

// Writes the config of the family whose parts these are; `is_masked`: the head is that of a masked
// language model. False and an error where they are those of none.
bool stack_put_family(struct stack_finder *finder, const struct stack_layer *layer, bool is_tied,
                      bool is_masked, struct json_writer *writer);
