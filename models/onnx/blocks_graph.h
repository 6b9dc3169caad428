#pragma once
#include "core/json_write.h"
#include "models/onnx/blocks.h"

// The forward operators of a graph, without its views, and which tensors they hand on.

enum blocks_kind { BLOCKS_PRODUCT, BLOCKS_OPERATOR, BLOCKS_ADD, BLOCKS_LOSS };

struct blocks_operator {
    const struct onnx_node *node;
    enum blocks_kind kind;
    int inputs[8], input_count;  // tensors: activations, data and trained weights
    int bias;                    // of a product; -1
    int64_t groups, rows, columns, depth;
    double flop, backward_flop;  // of one sample
    bool multiplies;             // these are flops of matrix products
    unsigned kept;               // bits of inputs, and from 8 on of outputs
    enum places places;
};

struct blocks_graph {
    struct arena *arena;
    const char *path;
    const struct onnx_graph *graph;
    struct err *err;
    int64_t batch;  // of the file
    int logits;     // what the loss reads
    int *root;      // of a tensor: whose memory it is another view of
    bool *is_trained;
    bool *is_turned;  // a view of a matrix whose rows are the columns of what it views
    int *maker, *last_reader, *reader_count;  // of a tensor, among the operators
    struct blocks_operator *operators;
    int operator_count;
};

MUST_CHECK bool blocks_read(struct blocks_graph *blocks);
bool blocks_fail(const struct blocks_graph *blocks, const struct onnx_node *node, const char *why);
// Whether the scores are of every place of an image, as segmentation has them.
bool blocks_has_places(const struct blocks_graph *blocks);
// What an operator does over the places of an image; models/onnx/blocks_places.c
enum places blocks_places(const struct blocks_graph *blocks, const struct blocks_operator *op);
// The name of its kernel (models/imported.inc); NULL: there is none. models/onnx/blocks_kernel.c
const char *blocks_kernel(const struct blocks_graph *blocks, const struct blocks_operator *op);
// Elements of one sample.
int64_t blocks_elements(const struct blocks_graph *blocks, int tensor);
