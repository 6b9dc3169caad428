#pragma once
#include "models/graph.h"

// One row a kind of operator: what may be split, what splitting costs, how much work it is, what
// its backward needs. Lowering, autodiff and the cost models read this table and nothing else.

enum split {
    SPLIT_NO,       // every rank needs this dimension whole
    SPLIT_FREE,     // ranks work on slices independently; the outputs that have the dim are split
                    // (where heads share k and v: kv_head over the axes it divides by, whole over
                    // the rest, over which d_k and d_v are then partial)
    SPLIT_PARTIAL,  // outputs that have the dim are split, those without it become partial sums
    SPLIT_REDUCED,  // possible, and the operator reduces inner tensors over the axis itself
                    // (softmax-loss over vocab: max, sum of exponentials, target logit; norms over
                    // hidden: mean, variance)
};

struct op_rule {
    const char *name;
    enum split (*split)(const struct block *block, const struct op *op, enum dim dim);
    // Work of the op on local extents: `size[dim]` is the local extent of every dim.
    double (*flop)(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT]);
    // Which forward tensors the backward of this op reads: bit i = input i, bit SAVES_OUTPUT+i =
    // output i. Parameters and ids are among them; only activations cost memory to keep.
    unsigned (*saves)(const struct block *block, const struct op *op);
    bool element_wise;  // a stack that fuses can merge it with its neighbours
};

enum { SAVES_OUTPUT = 8 };

const struct op_rule *op_rule(enum op_kind kind);

// Whether backward gives a gradient to input i of the op: not to ids and masks, and not to the
// choice that a dispatch follows.
bool op_has_gradient(const struct block *block, const struct op *op, int input);

// For OP_CONTRACT: the GEMM it is, from local extents. Dims in both inputs and the output are
// batch; m: output dims from input 0, n: output dims from input 1, k: summed dims. Inside experts
// the part that holds the tokens counts the rows an expert gets: their share by density.
struct gemm {
    int64_t batch, m, n, k;
};
struct gemm op_gemm(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT]);
double gemm_flop(const struct gemm *gemm);
// Whether op_gemm has an answer: contractions, and products of imported graphs.
bool op_is_gemm(enum op_kind kind);
// Whether it multiplies rows of tokens by what may be a matrix of the model, with the loss of its
// scores or without.
static inline bool op_has_product(enum op_kind kind)
{
    return kind == OP_CONTRACT || kind == OP_LINEAR_LOSS;
}
// Whether it makes the losses of a head, from scores or from what they are products of.
static inline bool op_is_loss(enum op_kind kind)
{
    return kind == OP_LOSS || kind == OP_LINEAR_LOSS;
}

// SPLIT_REDUCED: how many [batch, seq] fp32 tensors an op reduces one after the other. The first of
// a loss is a maximum; all others are sums. RMS norm: of squares, in backward also of g * n
// (executor/cpu/norm.c); layer norm: the mean, then the variance around it, in backward again, and
// then of g and of g * n. An imported operator with statistics over an image reduces all of them at
// once, as many as its further outputs have.
int op_inner_reductions(const struct op *op);

// Attention and its backward on local extents: products of `queries` rows with `keys` rows for each
// of `outer` places (sequences; of a video frames or places of it) and each head.
struct attention_shape {
    int64_t outer, queries, keys;
};
struct attention_shape op_attention_shape(const struct block *block, const struct op *op,
                                          const int64_t size[DIM_COUNT]);
// The dim of its keys and values that every query attends to all of.
enum dim op_keys_dim(const struct block *block, const struct op *op);

// Over how many of the last dims a norm, or its backward, is taken.
int op_norm_rank(const struct block *block, const struct op *op);
// Whether any input or output of the op has this dim.
bool op_has_dim(const struct block *block, const struct op *op, enum dim dim);

// How many keys a query sees at most, by a window or by choice; 0: all of them.
int64_t op_seen_most(const struct op *op);
// Query-key pairs of one sequence and head that count as work: causal halved, sliding window w as
// w * queries less its own triangle; twice that where queries look ahead as far as back.
// Of w chosen keys there are as many.
double op_attended_pairs(const struct op *op, int64_t queries, int64_t keys);
