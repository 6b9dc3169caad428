#pragma once
#include "core/json.h"
#include "models/strided.h"
#include "models/window.h"

#include <stdint.h>

// A model as a graph of operators over tensors whose dimensions have names. A large model repeats
// few distinct layers, so the graph is a sequence of *blocks* (embedding, layers, head) and each
// distinct block is stored once: lowering and pricing one block serves all of its repetitions.
//
// Inside a block, operators stand in an order that respects the edges. Block k reads the outputs of
// block k-1 of the sequence, matched by position. Sizes that the workload gives (batch, seq) are 0
// here and filled in when a block is lowered. All links are indices; the graph lives in one arena.
//
// Ids come with the data, not from the block before: they are tensors of role TENSOR_IDS without
// producer, and no block inputs. Embedding: token_ids (batch, seq), position_ids (seq) and
// token_type_ids (batch, seq) where the model has them; head: labels (batch, seq); layers whose
// table has other rows: layer_token_ids (batch, seq), 0 for what it does not have; whose experts
// are those of a table of tokens: token_experts (batch, seq, chosen). Multi-token
// prediction looks one token further: next_token_ids and, in the head, mtp.labels (batch, seq).
// Pictures come as reals: pixels (batch, seq, channel), where seq is as long as a picture has
// places, place_kinds (seq), what the head's sum takes of each place, first_place (seq) or, of the
// class and of the patches' mean, place_means (seq, table), and labels (batch).
// Decoders beside an encoder read decoder_token_ids (batch, seq), which are of the same sequence;
// relative_buckets (seq, kv_seq) are the rows of a table that scores take something from, distances
// (seq, kv_seq) those that queries and keys say something of.
// Towers that are compared read patches in place of pixels where no class token is among them,
// last_place (seq), pair_ids (batch), which is the sample's index in the micro-batch, and
// each_sample (batch) and each_other (other), which are ones, as each_stream is. Of
// pictures that stand in the text
// patch_shares (seq of patches, kv_seq of their tokens) is what each token has of a patch, and
// picture_places (seq, kv_seq) one where a token stands; token_ids and labels of such places are
// -1: no row of a table, no loss. Names are unique within a block.

enum dim {
    DIM_NONE,
    DIM_BATCH,
    DIM_SEQ,
    DIM_KV_SEQ,  // the keys a query attends to; as many as seq unless split
    DIM_HIDDEN,
    DIM_HEAD,
    DIM_KV_HEAD,
    DIM_HEAD_DIM,
    DIM_FFN,
    DIM_VOCAB,
    DIM_POSITION,
    DIM_EXPERT,     // inside experts: the axis that expert parallelism splits
    DIM_GATE,       // the same experts as the router scores them: whole for every token
    DIM_VALUE_DIM,  // width of v and of the attention output where it is not head_dim (MLA)
    DIM_HEIGHT,
    DIM_WIDTH,
    DIM_CHANNEL,
    DIM_OUT_CHANNEL,
    DIM_TABLE,
    DIM_RANK,     // low-rank bottlenecks (latent attention, embedding projections)
    DIM_DEPTH,    // of an imported graph: the third dimension of a volume
    DIM_TAP,      // the places of a window, of a weight
    DIM_ADAPTER,  // the low rank of an adapter (models/adapters.h)
    DIM_FLAT,     // a parameter seen as one flat buffer: what ZeRO shards
    DIM_TIME,     // frames of a video, each of which has `seq` places
    DIM_TEXT,     // tokens of the text that a video or an image is made for
    DIM_MSA,      // of proteins: aligned sequences
    DIM_RES_I,    // and residues, under a name for each place that they have in a product
    DIM_RES_J,
    DIM_RES_K,
    DIM_STATE,       // what a scan remembers of each channel
    DIM_OTHER,       // the samples of the batch again, as others are compared with them
    DIM_INDEX_HEAD,  // of the indexer that chooses keys: whole for every token
    DIM_CHOSEN,      // the keys that a query attends to, where they are chosen
    DIM_JOINT,       // tokens of a text and, behind them, places of what is made for it
    DIM_STREAM,      // states that a token has beside its own (models/families/altup.c) or in its
                     // place (streams.c there): whole
    DIM_TO_STREAM,   // the same under the name that they have as a product's result
    DIM_ENTRY,       // what so many tokens are pooled to: models/op_pool.h
    DIM_COUNT
};

const char *dim_name(enum dim dim);

enum { TENSOR_RANK_MAX = 6, OP_INPUT_MAX = 8, OP_OUTPUT_MAX = 6 };
// Activations that a block hands to the next: hidden states, what conditions all blocks alike
// (models/families/stdit.c: text, step of the diffusion, and six numbers by hidden), and what later
// blocks are joined with (models/families/unet.c).
enum { BLOCK_EDGES = 16 };
// Parameters of a model that several blocks share: those of a layer, where layers are one, and
// more.
enum { TIE_MAX = 24 };

struct extent {
    enum dim dim;
    // Whole size; 0 for batch, other, seq and kv_seq, which the workload gives, and of entries the
    // tokens that each of them is of, negative.
    int64_t size;
};

enum tensor_role {
    TENSOR_ACTIVATION,
    TENSOR_PARAMETER,
    TENSOR_IDS,       // integers: token ids, labels, positions
    TENSOR_GRADIENT,  // of an activation
    TENSOR_PARAMETER_GRADIENT,
};

// How wide one element is: in the precision of the run, or fixed.
enum element { ELEMENT_COMPUTE, ELEMENT_FP32, ELEMENT_INT64, ELEMENT_BYTE };

// What the experts work on is kept as (batch, seq, expert, ...): every token has a row for every
// expert, of which only top_k / expert_count exist. `density` is that share. It keeps the token
// dims in the shape, so that dispatching is the change of layout "batch split -> expert split".
// Such a tensor is ragged: how many rows an expert gets is known at run time only.
struct tensor {
    const char *name;
    enum tensor_role role;
    enum element element;
    int rank;
    struct extent extents[TENSOR_RANK_MAX];
    double density;   // share of the elements that exist, on average; 0 means all of them (1)
    int producer;     // op in this block; -1 for parameters and block inputs
    int gradient_of;  // for gradients, the forward tensor; else -1
    const char *tie;  // parameters with equal ties in different blocks are one; NULL otherwise
    bool is_fixed;  // a parameter whose numbers the model says: not counted, and its gradient is 0
    bool frozen;    // has no gradient: a parameter that is not trained, or what is made from such
                    // alone
};

enum op_kind {
    OP_CONTRACT,     // einsum of two inputs; dims absent from the output are summed over
    OP_ADD,          // sum of its inputs (residual, bias, gradient accumulation)
    OP_ELEMENTWISE,  // activation, gate, rope, cast, scale: any number of inputs of one shape, but
                     // the gate of f(gate) * up may lack the last dims, over which it is repeated
                     // (that of FUNCTION_MODULATE others, but not the last);
                     // backward: d_out(, the inputs, unless the function is linear) -> d_inputs
    OP_EXPAND,       // same rank: dim i of the output reads dim i of the input, under another name
                     // (seq -> kv_seq) or repeated (kv_head -> head: head / group); a free view
                     // where nothing is repeated
    OP_DROPOUT,      // writes a byte mask as its second output; backward: d_out, mask -> d_x
    OP_NORM,       // layer norm or rms norm over the dims of its weight, which are the last ones of
                   // x, or over the last; inputs x(, weight(, bias))
    OP_SOFTMAX,    // over kv_seq, causal mask included; scores(, sink) -> probabilities, where a
                   // sink (head) is one more score in each row, whose probability is dropped
    OP_ATTENTION,  // fused: q, k, v(, sink)(, chosen) -> out, log-sum-exp. The third last dim of k
                   // and v is that of the keys, those before it are alike in q; what q has between
                   // these and its heads are queries, each of which attends to all of the keys, or
                   // to its own `top_k` of them: chosen (batch, seq, chosen)
    OP_GATHER,     // embedding lookup: ids, table -> rows; of relative_buckets `scalar` is the
                   // distance from which on all keys have one row, `causal` that none is ahead. A
                   // dim that ids and table share is one of the result: of each of its places a
                   // row is looked up (distances, of which `scalar` is the most, 0 = no ranges)
    OP_CONCAT,     // a, b: joins their last dims, under a name that the output gives; a dim that
                   // b lacks (the shared rope part of MLA's keys has no head) is repeated. Where
                   // the output has `joint`, text and seq become that; a text that is left out,
                   // in the backward of OP_PART, is zeros
    OP_PART,       // x -> (what of its joint is text,) what is seq
    OP_FLATTEN,   // the same numbers in the same order: height and width as seq, or several dims as
                  // one, and back
    OP_ROUTE,     // logits (batch, seq, gate)(, bias (gate)) -> weights of the logits' shape, fp32,
                  // zero but for the top_k chosen; `function` says how scores become weights. The
                  // bias is added to the scores to choose by, and to nothing else. In its place
                  // the data may say which are chosen: token_experts (batch, seq, chosen)
    OP_DISPATCH,  // x (batch, seq, hidden), weights -> rows (batch, seq, expert, hidden), ragged
    OP_COMBINE,   // rows (batch, seq, expert, hidden), weights -> sum over the chosen experts
    OP_LOSS,      // softmax cross entropy: logits, labels -> loss, log-sum-exp, both
                  // (batch, seq): the mean over tokens is in the seed of the loss gradient. With
                  // FUNCTION_SQUARED_ERROR: x, target -> mean over the last dim of (x - target)^2,
                  // with FUNCTION_SIGMOID each column is asked by itself whether it is the label's
    OP_NORM_BACKWARD,       // d_out, x(, weight) -> d_x(, d_weight(, d_bias))
    OP_SOFTMAX_BACKWARD,    // d_probabilities, probabilities -> d_scores(, d_sink)
    OP_ATTENTION_BACKWARD,  // d_out, q, k, v(, sink)(, chosen), out, log-sum-exp
                            // -> d_q, d_k, d_v(, d_sink)
    OP_GATHER_BACKWARD,     // d_rows, ids -> d_table
    OP_LOSS_BACKWARD,       // d_loss, logits, labels, log-sum-exp -> d_logits
    OP_CONCAT_BACKWARD,     // d_out -> d_a, d_b (summed over what was repeated)
    OP_ROUTE_BACKWARD,  // d_weights, logits, weights -> d_logits(, d_bias: its derivative is zero;
                        // in its place a trainer sums the experts' loads)
    OP_DISPATCH_BACKWARD,  // d_rows, weights -> d_x
    OP_COMBINE_BACKWARD,   // d_out, rows, weights -> d_rows, d_weights
    OP_REDUCE,    // sum over the dims absent from the output; of equal rank: undoes an OP_EXPAND
    OP_PRODUCT,   // of an imported graph: a convolution or a matrix product, x, weight or other ->
                  // y, whose size `work` gives, since windows have no einsum; backward likewise
    OP_OPERATOR,  // of an imported graph: any other operator, of which `work` says what it does
    OP_OPERATOR_BACKWARD,  // d_out, what `work` keeps -> gradients of its inputs
    OP_CONV,  // x (batch, seq, ...), weight (..., tap)(, bias (...)) -> function of the causal
              // convolution of each channel with its own taps, the last of which is of the token
              // itself; FUNCTION_NONE: the convolution alone
    OP_CONV_BACKWARD,  // d_out, x, weight(, bias) -> d_x, d_weight(, d_bias)
    OP_SCAN,           // a recurrence along seq whose decay depends on the token: models/op_scan.h
    OP_SCAN_BACKWARD,  // d_out, inputs -> a gradient for each of them
    OP_DELTA,          // a scan that corrects what its state says of a key: models/op_delta.h
    OP_DELTA_BACKWARD,
    OP_CHOOSE,           // the keys that a query attends to: models/op_choose.h
    OP_CHOOSE_BACKWARD,  // chosen -> gradients, all zero, of the parameters in front of the choice
    OP_LINEAR_LOSS,      // a product with a matrix and the loss of its scores, which are never
                         // whole: models/op_linear_loss.h
    OP_LINEAR_LOSS_BACKWARD,
    OP_SINKHORN,  // numbers (..., stream, to_stream) -> matrices whose rows and columns sum up to
                  // one: of the softmax of each row, `scalar` added, columns and rows are divided
                  // in turn by their sums and `scalar`, `rounds` times, columns first and last
                  // (Sinkhorn and Knopp 1967)
    OP_SINKHORN_BACKWARD,  // d_out, numbers -> d_numbers
    OP_POOL,               // models/op_pool.h
    OP_POOL_BACKWARD,
    OP_POOLED,  // attention to near tokens and to entries: models/op_pool.h
    OP_POOLED_BACKWARD,
    OP_KIND_COUNT
};

// What an OP_ELEMENTWISE computes (one input x, or two: f(gate) * up), and which norm an OP_NORM
// is: the lines of models/functions.inc. `scalar` of the op is its constant. Backward ops carry the
// function of their forward op.
enum function {
    FUNCTION_NONE,
#define FUNCTION(id, names) FUNCTION_##id,
#include "models/functions.inc"
};

// Whether it turns pairs of numbers by their position.
static inline bool function_is_rope(enum function function)
{
    return function == FUNCTION_ROPE || function == FUNCTION_ROPE_BACK;
}

// Classes of operators that selective recompute can drop and recompute; the names are those of
// Megatron-Core's --recompute-modules as far as it has them.
enum op_class {
    OP_CLASS_NONE,        // kept whatever is chosen
    OP_CLASS_ATTENTION,   // core_attn: scores, softmax, context
    OP_CLASS_NORM,        // layernorm
    OP_CLASS_ACTIVATION,  // the function (and gate) of mlp and experts: moe_act
    OP_CLASS_MLP,         // the products in front of that function, dense and shared
    OP_CLASS_EXPERTS,     // the same inside experts
    OP_CLASS_UP,          // mla_up_proj: from the low rank to the heads
    OP_CLASS_COUNT
};
const char *op_class_name(enum op_class class);

// Which operator of ONNX an imported one is, of those that have kernels: the lines of
// models/imported.inc.
enum imported_kind {
    IMPORTED_NONE,
#define IMPORTED(id, name) IMPORTED_##id,
#include "models/imported.inc"
    IMPORTED_COUNT
};

enum phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT, PHASE_COUNT };

// What an operator of an imported graph does for one sample, where dims do not say it.
struct op_work {
    int64_t groups, rows, columns, depth;  // OP_PRODUCT: groups of rows x depth by depth x columns,
                                           // as a GEMM computes it (rows: places of the window)
    double flop, backward_flop;            // OP_OPERATOR
    bool multiplies;                       // OP_OPERATOR: these are flops of matrix products
    unsigned kept;  // OP_OPERATOR: what backward reads, as saves of its rule (models/op.h)
    enum places places;
    struct window windows[WINDOW_DIMS];  // of what slides: height, width
    enum imported_kind type;             // NONE: no back end has a kernel
    double scalar;                       // of its kernel, see models/imported.inc
    const struct strided *strided;       // of its kernel; NULL: as the images lie
};

struct op {
    const char *name;
    enum op_kind kind;
    enum phase phase;  // in a forward block always PHASE_FORWARD; autodiff adds the others
    int forward_op;    // for backward ops, the op it derives from (same strategy); else itself
    int input_count, output_count;
    int inputs[OP_INPUT_MAX];
    int outputs[OP_OUTPUT_MAX];
    double flop_per_element;  // element-wise kinds per output element; norm, softmax, loss and
                              // their backward per element of input 0
    enum function function;
    double scalar;  // constant of the function; OP_CONTRACT and OP_ATTENTION: factor on the product
                    // (scores), 1 for most, never 0
    double softcap;                     // OP_ATTENTION: soft cap of the scores, 0 = none
    double dropout_ratio;               // OP_DROPOUT, OP_ATTENTION
    int64_t rotary_dims, rotary_first;  // FUNCTION_ROPE
    // Of places of a picture, in rows of so many, half of the pairs are rotated by the row and half
    // by the column; tokens of a text, so many in front of them, stay. 0: one position each.
    int64_t rotary_columns, rotary_still;
    double alibi;    // OP_ATTENTION: factor on slopes, 0 = none
    bool causal;     // the whole attention core: attention, or the ops of the chain
    int64_t window;  // sliding window in tokens, 0 = none; on either side where not causal
    int64_t prefix;  // causal: so many tokens at the front see what is among them ahead as well
    bool chunked;    // the window begins anew every so many tokens, it does not slide (llama4)
    int64_t groups;  // OP_NORM: in so many groups of heads, each by itself; 0: all is one, which
                     // stays whole
    int64_t chunk;   // OP_SCAN, OP_DELTA: tokens that a kernel works on as one matrix;
                     // OP_LINEAR_LOSS: parts of its columns, of which it makes one at a time
    int merge;       // contractions of one block and phase with the same merge > 0 share an input
                     // (forward) and may run as one GEMM (q, k, v; gate, up); 0 = alone
    int top_k;       // OP_ROUTE; of keys: OP_CHOOSE, and OP_ATTENTION or OP_POOLED to what that
                     // chose
    int64_t rate;    // tokens of an entry: OP_POOL, OP_POOLED, and FUNCTION_ROPE and OP_CHOOSE of
                     // entries; 0 = there are none
    int rounds;      // OP_SINKHORN
    double sum_epsilon;            // OP_ROUTE: added to the sum that scores are divided by
    int group_count, open_groups;  // of routes: the chosen lie in so many groups of neighbouring
                                   // experts; 0 = anywhere
    bool chooses;                  // a choice of keys, or what is made for it alone: no gradient
    enum op_class class;           // for selective recompute
    enum dim axial;                // what axial parallelism splits in it, where the model says so
    bool remade;                   // per-op recompute makes it again (plan/lower/differentiate.c)
    struct op_work work;           // OP_PRODUCT, OP_OPERATOR
};

enum block_role { BLOCK_EMBEDDING, BLOCK_LAYER, BLOCK_HEAD };

// A multi-token prediction module counts as a layer and stands in front of the head, on the same
// stage. It hands on its input and its own result; the head has a loss for each. Both losses are
// outputs; the weight of the second, as the mean over tokens, is in the seed of its gradient.
struct block {
    const char *name;
    enum block_role role;
    bool mtp;
    int64_t vocab;  // rows of its table without padding, where not the graph's; 0 = those
    struct tensor *tensors;
    int tensor_count;
    struct op *ops;
    int op_count;
    int inputs[BLOCK_EDGES], input_count;    // activations from the block before
    int outputs[BLOCK_EDGES], output_count;  // activations for the block after
};

struct graph {
    const char *name;
    const char *model_type;
    struct block *blocks;  // distinct kinds
    int block_count;
    int *sequence;  // sequence[i] is the block kind at position i; embedding first, head last
    int sequence_count;
    int layer_count;  // blocks of role BLOCK_LAYER in the sequence, prediction modules among them
    int64_t hidden, head_count, kv_head_count, head_dim, ffn, vocab;  // of the common layer, for
                                                                      // messages and legal degrees
    // Of layers that scan, 0 where none does; their groups share as kv heads do. Heads and kv heads
    // above are those of attention, or the same where nothing attends.
    int64_t scan_head_count, scan_group_count;
    bool has_indexer;  // that chooses keys
    // Of heads, each with a product of its own (models/families/pooled.c); 0 = none.
    int64_t out_group_count;
    // [kind] the same block without the inputs that it only hands on, which are the last of both
    // its inputs and its outputs; -1: it has none. A branch of the graph is made of such blocks:
    // from one on that reads nothing else to the first that reads what was handed on. NULL: no
    // branches.
    const int *alone;
    bool has_group_norm;      // what a scan makes is normed by groups, or by all where there is one
    int64_t seq_len_max;      // positions the model was made for; 0 = unknown
    bool ties_are_wide;       // parameters are tied otherwise than of the first block and the last
    int stage_count_max;      // pipeline stages that can share its tied parameters; 0 = any number
    int64_t vocab_padded;     // what the graph uses: a multiple of 128 * tp when tp was given
    int64_t parameter_count;  // unpadded, tied parameters once, without multi-token prediction
    int64_t mtp_parameter_count;     // of the multi-token prediction modules
    int64_t frozen_parameter_count;  // of both, those that are not trained (models/adapters.h)
    // Two sequence dims, frames and places of a video or aligned sequences and residues: seq_len is
    // their product; 0 = one dim.
    int64_t frames, places;
    bool has_conditions;  // parameters that work on neither
    bool is_protein;      // nothing but turns (axial) splits them
    bool joins_text;      // text and places become one sequence (joint), which stays whole
    bool contrasts;       // the loss compares all samples of a step, which are one
                          // micro-batch, and is of a sample, not of a token
    int64_t prefix;       // places at the front of each sequence that a picture takes,
                          // where no token is; 0 = none
    int64_t front_count;  // places of a picture in front of its patches: class token, registers
    int64_t channels;     // numbers of a place that noise is added to
    int64_t active_parameter_count;  // of parameter_count, those that one token passes through
    int64_t expert_count, top_k;     // routed, of a mixture layer; 0 = dense
    int64_t expert_ffn;
    double dropout_ratio;  // 0 = none
};

// Adds kinds of blocks for `alone`.
void graph_add_alone(struct arena *arena, struct graph *graph);

// What exists of `count` rows or elements of a tensor of this density: rounded up, and one at
// least. A density of 0 is all of them.
int64_t density_share(double density, int64_t count);
// Rows that an expert has room for in a sequence of `seq` tokens: capacity factor times the mean,
// rounded up, and no more than there are tokens. Of the tokens that choose the expert the first in
// the sequence get them, whatever the plan; the later ones are dropped: the expert adds nothing to
// them, and they tell neither it nor its weight anything. The group of tokens (GShard, section 2.2)
// is a sequence because every plan has those.
int64_t density_capacity(double density, double factor, int64_t seq);
// Elements of a tensor under a workload, those that exist; `batch` and `seq` fill the sizes that
// are 0. A local slice of a ragged tensor counts the same way: density_share of the product of its
// local extents.
int64_t tensor_elements(const struct tensor *tensor, int64_t batch, int64_t seq);
int64_t extent_size(const struct extent *extent, int64_t batch, int64_t seq);
int tensor_find_dim(const struct tensor *tensor, enum dim dim);  // position or -1

// Counts parameters by walking the sequence, ties once. Neither vocabulary padding nor multi-token
// prediction modules are counted.
int64_t graph_parameter_count(const struct graph *graph);
// Those of the modules alone; what they share with embedding and head is not among them.
int64_t graph_mtp_parameter_count(const struct graph *graph);
// The part of them that one token passes through: of the experts only the chosen.
int64_t graph_active_parameter_count(const struct graph *graph);
// The parameters of a block of the sequence that take part in matrix products for each token: head
// included, embedding lookup and positions not. What multi-token prediction computes is included,
// and with it a second use of the head: this is what "model flops" count. Of a picture, which is a
// sequence of one, a weight counts once for each of its places.
int64_t graph_block_matmul_count(const struct graph *graph, const struct block *block);
// Model flops of one sequence, forward and backward, recompute never counted: 6 * matmul
// parameters * seq + attention, causal halved (Narayanan et al. 2021, eq. 3 without its recompute).
// Of frozen parameters it is 4, for they have no gradient of their own, and 2 where what they are
// multiplied with has none either.
double graph_model_flop(const struct graph *graph, int64_t seq);
