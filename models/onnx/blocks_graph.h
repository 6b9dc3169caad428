#pragma once
#include "core/json_write.h"
#include "models/onnx/blocks.h"
#include "models/strided.h"

// The forward operators of a graph, without its views, and which tensors they hand on.

enum { INPUTS_MOST = 8, DIFFERENTIATED_MOST = 6 };  // of an operator (models/graph.h)
enum { DIMS_MOST = 16 };                            // of a tensor (models/onnx/model.h)

enum blocks_kind { BLOCKS_PRODUCT, BLOCKS_OPERATOR, BLOCKS_ADD, BLOCKS_LOSS };

// A weight that something is made of.
struct blocks_source {
    const struct blocks_source *next;
    int weight;
};

struct blocks_operator {
    const struct onnx_node *node;
    enum blocks_kind kind;
    int inputs[INPUTS_MOST], input_count;  // tensors: activations, data and trained weights
    int bias;                              // of a product; -1
    int64_t groups, rows, columns, depth;
    double flop, backward_flop;  // of one sample
    bool multiplies;             // these are flops of matrix products
    bool is_derived;             // it reads what is made of a weight, not the weight
    unsigned kept;               // bits of inputs, and from 8 on of outputs
    enum places places;
    const char *kernel;             // its name (models/imported.inc); NULL: there is none
    const struct strided *strided;  // what that is given; NULL
};

struct blocks_graph {
    struct arena *arena;
    const char *path;
    const struct onnx_graph *graph;
    struct err *err;
    int64_t batch;                  // of the file
    int logits;                     // what the loss reads
    int scores;                     // the same as the loss sees it
    int *root;                      // of a tensor: whose memory it is another view of
    const struct onnx_node **view;  // of such a tensor, or one made of its weight: what makes it of
                                    // the one before; else NULL
    const int64_t *
        *laid;  // of what attention makes: the steps of its dimensions; NULL: as they are
    bool *is_trained;
    bool *is_data;     // the model is given it, or it is made of that alone, as masks are
    bool *is_fixed;    // made of constants alone
    bool *is_derived;  // made of the weight that is its root, by more than views
    const struct blocks_source **sources;  // of what is derived: these weights
    double *derived_flop;                  // that making it takes, once for all samples
    bool *is_tied;                         // a weight that the first and the last block read
    bool *is_turned;  // a view of a matrix whose rows are the columns of what it views
    int64_t *apart;   // of a tensor: how many numbers on the next sample has the same one, in the
                      // order of the file; 0: it has no samples, or it is not known where
    int64_t *parts;   // of samples, that what made the tensor read; 0
    int *maker, *last_reader, *reader_count;  // of a tensor, among the operators
    int *seen_count;                          // nodes of the file that read a tensor, views too
    struct blocks_operator *operators;
    int operator_count;
};

MUST_CHECK bool blocks_read(struct blocks_graph *blocks);
// The graph, or one whose joins of many tensors are several. blocks_widen.c
const struct onnx_graph *blocks_widen(struct arena *arena, const struct onnx_graph *graph);
// Behind which operators the graph is cut into blocks, and how often. blocks_cut.c
bool *blocks_cut(struct blocks_graph *blocks, int *count);
// Takes every other cut away: blocks become one with their neighbours.
void blocks_join(struct blocks_graph *blocks, bool *is_cut, int *count);
bool blocks_fail(const struct blocks_graph *blocks, const struct onnx_node *node, const char *why);
// Whether the scores are of every place of an image, as segmentation has them.
bool blocks_has_places(const struct blocks_graph *blocks);
// Which dimension has the samples: the first where they divide it, else one as large as that of
// what it is made of, or as the batch; -1: none.
int blocks_batch_dim(const struct blocks_graph *blocks, int tensor);
int64_t blocks_classes(const struct blocks_graph *blocks);
// What is made of weights and constants alone is the same for all samples, and is read as those
// weights: true where that is so of a node. blocks_derived.c
bool blocks_derive(struct blocks_graph *blocks, const struct onnx_node *node);
// Adds the weights that input i stands for, and what making it takes; false with an error.
bool blocks_take_derived(struct blocks_graph *blocks, struct blocks_operator *op, int i);
// Whether a tensor is a constant of the model: no data, and not trained.
bool blocks_is_constant(const struct blocks_graph *blocks, int tensor);
bool blocks_is_product(const struct onnx_node *node);
// What an operator does over the places of an image; models/onnx/blocks_places.c
enum places blocks_places(const struct blocks_graph *blocks, const struct blocks_operator *op);
// Finds where the samples of what a node makes lie. models/onnx/blocks_samples.c
void blocks_set_apart(struct blocks_graph *blocks, const struct onnx_node *node);
// Whether an operator made it, and where its samples lie is known.
bool blocks_is_apart(const struct blocks_graph *blocks, int tensor);
// Whether samples are the first dimension, or parts of them behind one another.
bool blocks_is_first(const struct blocks_graph *blocks, int tensor);
// The dimension that has the samples; -1: none, or it is not known. In one sample, `inner` steps
// along it come before those of the next one.
int blocks_sample_dim(const struct blocks_graph *blocks, int tensor, int64_t *inner);
// Where in its sample a number stands that is at this place of the file's order; -1: in another
// sample than the first.
int64_t blocks_sample_place(const struct blocks_graph *blocks, int tensor, int64_t place);
// The step in a sample that one in the file's order is; false: it leaves the sample within `size`.
bool blocks_sample_step(const struct blocks_graph *blocks, int tensor, int64_t size, int64_t *step);
// Loops over a sample of `tensor`, of operands with these steps along its dimensions; -1 in
// `tensors` are weights, and what is not there.
bool blocks_over_sample(const struct blocks_graph *blocks, int tensor,
                        const int tensors[LOOPS_INPUTS], int64_t steps[LOOPS_INPUTS][DIMS_MOST],
                        struct strided *strided);
// Finds its kernel. One that is given loops goes over all places, as they lie in the whole.
// models/onnx/blocks_kernel.c
void blocks_find_kernel(const struct blocks_graph *blocks, struct blocks_operator *op);
static inline const struct onnx_tensor *blocks_tensor(const struct blocks_graph *blocks, int tensor)
{
    return &blocks->graph->tensors[tensor];
}
// The steps of dimensions that lie one in the other, the last one's 1.
void blocks_plain_steps(const struct onnx_tensor *tensor, int64_t steps[DIMS_MOST]);
// The steps of a tensor's dimensions in the memory of its root, and where it begins there; false:
// it has none. models/onnx/blocks_steps.c
bool blocks_steps(const struct blocks_graph *blocks, int tensor, int64_t steps[], int64_t *first);
// Lays what attention makes so that this view of it is in order; where that has been done for
// another one, or readers want it otherwise, there is no kernel.
void blocks_lay(struct blocks_graph *blocks, const struct onnx_node *view);
// Takes the kernels away of what makes tensors that some reader sees in another order.
void blocks_check_laid(struct blocks_graph *blocks);
// Attention's loops: see models/imported.inc.
bool blocks_attend(const struct blocks_graph *blocks, const struct blocks_operator *op,
                   struct strided *strided);
// The loops over a sample (models/strided.h), and the name of their kernel; NULL: its samples are
// not apart, or it is no such operator. models/onnx/blocks_strided.c
const struct strided *blocks_strided(const struct blocks_graph *blocks,
                                     const struct blocks_operator *op, const char **kernel);
// One loop more, or the one before it longer where it goes on as that does; false: too many.
bool blocks_add_loop(struct strided *strided, int64_t size, const int64_t steps[LOOPS_INPUTS]);
// Elements of one sample.
int64_t blocks_elements(const struct blocks_graph *blocks, int tensor);
