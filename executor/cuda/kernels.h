#pragma once
#include "plan/conv_parts.h"
#include "plan/scan_chunks.h"
#include "plan/strided_sums.h"

#include <stdbool.h>
#include <stdint.h>

// What the device code (*.cu) offers to the C of the plug-in: one function a kernel, or a few in a
// row, that puts them on a stream and returns at once. Plain structs, because the headers of graphs
// are C. Every sum has a fixed order: no result depends on which block came first.
//
// All arithmetic is in fp32 (routing and sums of squares in fp64), whatever the arrays hold.

#ifdef __cplusplus
extern "C" {
#endif

enum { WALK_DIMS = 6, TERM_MAX = 8 };

// The two of 8 bits (Micikevicius et al. 2022, "FP8 formats for deep learning") are for operands of
// GEMMs alone: kernels read and write the others.
enum number { NUMBER_FP32, NUMBER_BF16, NUMBER_FP16, NUMBER_E4M3, NUMBER_E5M2 };
struct reals {
    void *data;
    int number;
};

struct CUstream_st;  // cudaStream_t is a pointer to one

// out (dense over `sizes`, or of strides) = sum of the terms, each with a stride by dim, 0 where it
// lacks the dim; or += with `adds`.
struct terms_args {
    int rank, term_count;
    bool adds;
    int64_t sizes[WALK_DIMS];
    struct reals out, term[TERM_MAX];
    int64_t out_strides[WALK_DIMS], strides[TERM_MAX][WALK_DIMS];
};
void kernel_terms(struct CUstream_st *stream, const struct terms_args *args);

// Items of 1, 2, 4 or 8 bytes between strides; and the larger of two reals.
struct move_args {
    int rank, item_bytes;
    int64_t sizes[WALK_DIMS], to_strides[WALK_DIMS], from_strides[WALK_DIMS];
    void *to;
    const void *from;
};
void kernel_move(struct CUstream_st *stream, const struct move_args *args);
void kernel_maximum(struct CUstream_st *stream, const struct move_args *args, int number);

// Dim i of `wide` reads element (first + index) / repeats - narrow_first of `narrow`; a dim with
// repeats 0 is one that narrow lacks. Expanding writes wide, folding sums it into narrow.
struct repeat_args {
    int rank;
    bool adds;
    struct reals wide, narrow;
    int64_t sizes[WALK_DIMS], strides[WALK_DIMS], first[WALK_DIMS];
    int64_t repeats[WALK_DIMS], narrow_sizes[WALK_DIMS], narrow_strides[WALK_DIMS];
    int64_t narrow_first[WALK_DIMS];
};
void kernel_expand(struct CUstream_st *stream, const struct repeat_args *args);
void kernel_fold(struct CUstream_st *stream, const struct repeat_args *args);

// out[column] (+)= sum over rows; `partial`: column_chunks(rows) * columns floats.
struct columns_args {
    int64_t rows, columns, stride;  // between rows
    bool adds;
    struct reals in, out;
    float *partial;
};
void kernel_columns(struct CUstream_st *stream, const struct columns_args *args);
// The second half alone: folds `chunks` rows of partial sums.
void kernel_chunks(struct CUstream_st *stream, const float *partial, int64_t chunks,
                   int64_t columns, bool adds, struct reals out);

// Functions of one element, alone or as a gate; `function` counts as enum function.
struct map_args {
    int function;
    float scalar;
    int64_t count, repeats;               // elements; neighbours that share a gate, 1 for most
    struct reals x, up, d, y, d_x, d_up;  // up.data NULL: no gate
    // Elements of a row, and from one to the next where they lie apart; stride 0: dense. Then no
    // gate is shared.
    int64_t row, x_stride, up_stride, d_stride, y_stride, d_x_stride, d_up_stride;
};
void kernel_map(struct CUstream_st *stream, const struct map_args *args);
void kernel_map_backward(struct CUstream_st *stream, const struct map_args *args);

// y = (scalar + gate) * x over rows of the last dim; a stride of 0 is that of a dim that the gate
// lacks, over which it is repeated. Backward of the gate: sums of d * x over what it was repeated
// over, or of x where there is no d.
struct modulate_args {
    int rank;  // of the dims in front of the last
    int64_t width, rows;
    int64_t sizes[WALK_DIMS], row_strides[WALK_DIMS], gate_strides[WALK_DIMS];  // in elements
    float scalar;
    struct reals gate, x, y;
    int64_t gates, repeats;  // rows of the gate, and of x for each
    bool adds;
    struct reals d, d_gate;
    float *partial;  // column_chunks(repeats) * gates * width
    int64_t chunks;  // of repeats: the kernel's own
};
void kernel_modulate(struct CUstream_st *stream, const struct modulate_args *args);
void kernel_gate_sums(struct CUstream_st *stream, const struct modulate_args *args);

struct rope_args {
    int64_t elements, width, inner, positions;  // inner: elements of a position
    int64_t x_stride, y_stride;                 // between positions where they lie apart; 0: dense
    int64_t dims, first;                        // rotary
    float sign;
    const float *table;  // [position][cosines, sines]
    struct reals x, y;
};
// One, or two as one kernel.
struct ropes_args {
    struct rope_args first, second;  // second.elements 0: none
};
void kernel_ropes(struct CUstream_st *stream, const struct ropes_args *args);
struct table_args {
    double theta;
    int64_t dims, first, count;
    int64_t columns, still;  // of struct op
    float *table;
};
void kernel_rope_table(struct CUstream_st *stream, const struct table_args *args);

struct alibi_args {
    int64_t elements, keys, first_key;
    int64_t head_stride, heads, first_head, whole_heads;
    double scale;  // of slopes
    struct reals x, y;
};
void kernel_alibi(struct CUstream_st *stream, const struct alibi_args *args);

struct dropout_args {
    int rank;
    int64_t sizes[WALK_DIMS], first[WALK_DIMS], whole[WALK_DIMS];  // of the mask
    int64_t each;  // numbers that stay or go together
    bool draws;
    uint64_t key;
    const uint64_t *key_at;  // NULL, or where it is found instead, on the device
    double ratio;
    unsigned char *mask;
    struct reals x, y;
    bool adds;
};
void kernel_dropout(struct CUstream_st *stream, const struct dropout_args *args);

// Of channels, each with its own taps; `d_sum` and what is behind it: backward.
enum { CONV_TAPS_MAX = 8 };
struct conv_args {
    int64_t batch, seq, channels;
    int taps;
    bool has_silu, adds_weight, adds_bias;
    struct reals x, weight, bias, y;  // bias: data NULL: none
    struct reals d, d_x, d_weight, d_bias;
    float *d_sum;    // [batch][seq][channel]
    float *partial;  // [chunk][taps + 1][channel], chunks of all tokens
};
void kernel_conv(struct CUstream_st *stream, const struct conv_args *args);
void kernel_conv_backward(struct CUstream_st *stream, const struct conv_args *args);

// Numbers of a state that a lane holds of each channel.
enum { SCAN_LANES = 8, SCAN_STATE_MAX = SCAN_LANES * 32 };
// Of the delta rule, whose v, k, q and beta are x, b, c and d.
struct delta_args {
    int64_t batch, seq, heads, groups, width, state;
    int64_t heads_each, first_head, first_group;
    int64_t steps;  // decays of a token and head, 1 or `state`
    float epsilon;  // added to squares of lengths
    struct reals x, dt, b, c, a_log, d, y;
    struct reals d_y, d_x, d_dt, d_b, d_c, d_a_log, d_d;
    bool adds_b, adds_c, adds_a_log;
    // Backward: of some pairs of a sequence and a head at a time, the room of each.
    int64_t first_pair, pairs, stride, stretches, room;
    float *rooms;            // states, the gradient, lengths and sums
    float *part_b, *part_c;  // [pair][seq][state]
    float *sum_b, *sum_c;    // [batch][seq][group][state]
    float *of_heads;         // [batch][head], of a_log
};
void kernel_delta(struct CUstream_st *stream, const struct delta_args *args);
void kernel_delta_backward(struct CUstream_st *stream, const struct delta_args *args);
// When those of one launch are done, and when all are.
void kernel_delta_join(struct CUstream_st *stream, const struct delta_args *args);
void kernel_delta_sums(struct CUstream_st *stream, const struct delta_args *args);

// A scan in chunks (plan/scan_chunks.h): what is worked on of heads and groups at a time, and how
// many heads each of these groups has. Rooms are [group][chunk][head of it], chunks those of all
// sequences; B and C of all groups, the others of this part.
struct chunk_args {
    int64_t batch, seq, heads, groups, width, state;
    int64_t length, chunks, first_head, share, part_heads;
    struct reals x, dt, b, c, a_log, d, y;
    struct reals d_y, d_x, d_dt, d_b, d_c, d_a_log, d_d;
    bool adds_b, adds_c, adds_a_log, adds_d;
    struct reals room[CHUNK_ROOMS];
    float *exponents;            // [chunk][head][token]: summed from the chunk's first token on
    float *d_exponents, *d_dts;  // alike
    float *d_ends;               // [chunk][head]
    float *of_heads;             // [chunk][head][2]: of a_log and of d
};
void kernel_chunk_begin(struct CUstream_st *stream, const struct chunk_args *args);
void kernel_chunk_heads(struct CUstream_st *stream, const struct chunk_args *args);
void kernel_chunk_matrix(struct CUstream_st *stream, const struct chunk_args *args);
void kernel_chunk_pass(struct CUstream_st *stream, const struct chunk_args *args);
void kernel_chunk_out(struct CUstream_st *stream, const struct chunk_args *args);
void kernel_chunk_pass_back(struct CUstream_st *stream, const struct chunk_args *args);
void kernel_chunk_scores_back(struct CUstream_st *stream, const struct chunk_args *args);
void kernel_chunk_heads_back(struct CUstream_st *stream, const struct chunk_args *args);
void kernel_chunk_sums(struct CUstream_st *stream, const struct chunk_args *args);

// Blocks at most of a grid that waits for itself.
enum { GRID_BLOCKS = 256 };

struct norm_args {
    int64_t rows, width;
    // Elements of what lies apart where it does, as in map_args; 0: dense.
    int64_t row, x_stride, y_stride, d_stride, d_x_stride;
    float epsilon;
    bool has_mean;                    // layer norm
    struct reals x, weight, bias, y;  // data NULL: none
    struct reals d, d_x, d_weight, d_bias;
    bool adds_x, adds_weight, adds_bias;
    // Forward: what x is made of first, each a whole array or, 1 << term, one row for all.
    struct reals term[4];
    int term_count;
    unsigned vectors;
    struct reals beside;  // backward: added to d_x; data NULL: none
    float *partial;       // of backward, 2 * norm_partials(rows, width) * width
    // Of rows that ranks share, `whole` wide: what has been exchanged, [rows]; NULL: rows are here.
    float *inner;
    int64_t whole;
    int exchange;  // of enum norm_term
    bool fills;    // `inner`, else it is taken in
};
// Sums that are exchanged, in this order: those with the mean of a layer norm alone, and the last
// two in backward. But for the last, what is taken in is kept in the first bytes of the row that
// will be written, until kernel_norm or kernel_norm_backward takes the last in and writes it.
enum norm_term { NORM_VALUE, NORM_SQUARE, NORM_GRADIENT, NORM_PRODUCT, NORM_TERMS };
enum { NORM_KEPT_BYTES = (NORM_TERMS - 1) * 4 };
void kernel_norm_exchange(struct CUstream_st *stream, const struct norm_args *args);
void kernel_norm(struct CUstream_st *stream, const struct norm_args *args);
int64_t norm_partials(int64_t rows, int64_t width);
void kernel_norm_backward(struct CUstream_st *stream, const struct norm_args *args);

// Which keys a query sees, all by index in the whole (executor/cpu/visible.h).
struct sight {
    bool causal;
    int64_t window;
    bool chunked;
    int64_t prefix;
};

// Of some queries of a sequence the keys of highest score (models/op_choose.h), of products
// [query][head][key] whose sums by weight are scores [query][key].
struct choose_args {
    struct sight sight;
    int64_t queries, heads, keys, most;
    int64_t first_query, first_key;
    int64_t weight_stride;  // of queries
    float *products, *scores;
    struct reals weights, chosen;
};
void kernel_choose(struct CUstream_st *stream, const struct choose_args *args);

struct softmax_args {
    struct sight sight;
    int64_t rows, keys, first_key;
    int64_t query_stride, queries, first_query;  // in rows
    int64_t head_stride, heads;
    struct reals x, sink, y;  // backward: y the probabilities
    struct reals d, d_x, d_sink;
    bool adds_x, adds_sink;
    float *partial;  // [rows]; backward with a sink
};
void kernel_softmax(struct CUstream_st *stream, const struct softmax_args *args);
void kernel_softmax_backward(struct CUstream_st *stream, const struct softmax_args *args);

// Some heads of one sequence; scores [head][query][key] in fp32.
struct attend_args {
    struct sight sight;
    int64_t heads, queries, keys, value_width;
    int64_t first_query, first_key;
    float scale, softcap;
    double alibi;                     // factor on slopes; 0 = none
    int64_t first_head, whole_heads;  // of these heads in the whole
    int64_t sequence;                 // of the step, for dropout
    int64_t whole_queries, whole_keys, dropout_heads;
    double dropout_ratio;
    uint64_t key;
    const uint64_t *key_at;  // NULL, or where it is found instead, on the device
    float *scores, *d_scores;
    struct reals weights, d_weights;  // [head][query][key]: probabilities, gradients of scores
    struct reals chosen;  // [query][chosen_count]: keys in the whole, ascending; data NULL: all
    int64_t chosen_count;
    struct reals sink, lse, out, d;  // sink by head; lse by lse_stride, out and d by out_stride
    int64_t lse_stride, out_stride;  // of queries; heads follow each other
    float *factors;                  // [head][query]: what is left of an earlier block
    bool merges;
};
void kernel_attend(struct CUstream_st *stream, const struct attend_args *args);
void kernel_attend_backward(struct CUstream_st *stream, const struct attend_args *args);
// out = factor * out + fresh[head][query][width].
void kernel_attend_merge(struct CUstream_st *stream, const struct attend_args *args,
                         const float *fresh);

// Of each head and query what a sink, in the sum of exponentials, has as its gradient.
struct sink_args {
    int64_t rows, queries, heads, width;  // rows: of (sequence, query, head)
    struct reals sink, lse, out, d;       // sink by head, lse by row, out and d by row and width
    float *result;                        // [sequence][head][query]
};
void kernel_sinks_backward(struct CUstream_st *stream, const struct sink_args *args);

// Results of other keys, `fresh`, merge into those that are there, with their log-sum-exp.
struct join_args {
    int64_t rows, width;
    struct reals out, lse, fresh, fresh_lse;
};
void kernel_attend_join(struct CUstream_st *stream, const struct join_args *args);

// What each query adds to the scores of its keys: nothing to those that are chosen, of the others
// so much that nothing is left of them.
struct choice_args {
    int64_t rows, keys, stride, first_key;
    int64_t chosen_count;
    struct reals chosen, added;  // [row][chosen_count] of attend_args, [row][stride]
};
void kernel_choice(struct CUstream_st *stream, const struct choice_args *args);

// Factors on the places of keys, by head (alibi).
struct slope_args {
    int64_t heads, first_head, whole_heads;
    double alibi;
    float *slopes;
};
void kernel_slopes(struct CUstream_st *stream, const struct slope_args *args);

struct lookup_args {
    int64_t count, width, first, held, whole;
    bool adds;
    const int64_t *ids;
    struct reals rows, table;
    int *sorting;    // backward: kernel_lookup_ints of them
    float *partial;  // and kernel_lookup_floats
    int *fault;      // set when a table lacks an id
};
int64_t kernel_lookup_ints(const struct lookup_args *args);
int64_t kernel_lookup_floats(const struct lookup_args *args);
void kernel_gather(struct CUstream_st *stream, const struct lookup_args *args);
void kernel_gather_backward(struct CUstream_st *stream, const struct lookup_args *args);

// Of logits and labels; or of each row the mean of the squares of what it is off `target`; or of
// each column by itself whether it is the label's (executor/cpu/loss.c).
enum loss_kind { LOSS_SOFTMAX, LOSS_SQUARED_ERROR, LOSS_EACH };
struct loss_args {
    int kind, part;
    bool adds_value, adds_lse;
    int64_t rows, count, real, first;
    const int64_t *labels;
    struct reals logits, target, value, lse, inner;
    struct reals d, d_logits;
    bool adds;
};
void kernel_loss(struct CUstream_st *stream, const struct loss_args *args);
void kernel_loss_backward(struct CUstream_st *stream, const struct loss_args *args);
// Of a loss whose scores are made in parts: what one part adds to the log-sum-exp, which stands in
// `value` (of the first part, where adds_value is false, begins it), and the label's score, in
// `lse`, where the part has it.
void kernel_loss_chunk(struct CUstream_st *stream, const struct loss_args *args);
// What follows from the two: by `part`, as of executor/cpu/linear_loss.c.
void kernel_loss_join(struct CUstream_st *stream, const struct loss_args *args);
// A row's score for its label's column, 0 where that is not here.
struct label_score_args {
    int64_t rows, depth, x_stride, row_stride, column_stride, first, real;
    float factor;
    const int64_t *labels;
    struct reals x, weight, scores;
};
void kernel_label_score(struct CUstream_st *stream, const struct label_score_args *args);

enum route_score {
    ROUTE_SOFTMAX,
    ROUTE_CHOSEN_SOFTMAX,
    ROUTE_SIGMOID_SHARE,
    ROUTE_SIGMOID,
    ROUTE_NEAR_BEST,
};
enum { ROUTE_EXPERT_MAX = 1024, ROUTE_GROUP_MAX = 256 };
struct route_args {
    int64_t tokens;
    int count, top_k, group_count, open_groups;
    int score;  // enum route_score
    double scalar, sum_epsilon;
    struct reals logits, bias, weights;
    struct reals d, d_logits;
    bool adds;
};
void kernel_route(struct CUstream_st *stream, const struct route_args *args);
void kernel_route_backward(struct CUstream_st *stream, const struct route_args *args);
// ROUTE_NEAR_BEST, in both directions: backward where d is given.
void kernel_route_near(struct CUstream_st *stream, const struct route_args *args);

// Rows of experts: one after another by expert and then by token, or with rows_of NULL a row for
// every token and expert.
struct rows_args {
    int64_t tokens, experts, first_expert, gates, width, row_count;
    bool adds;
    struct reals weights;     // [token][gate]
    const int64_t *rows_of;   // device, [experts + 1]
    const int64_t *token_of;  // device, [rows]
    int64_t *row_of;          // scratch, [token][expert], -1 where there is none
    struct reals x, rows;     // by token; by row
    struct reals d, d_weights;
};
void kernel_index_rows(struct CUstream_st *stream, const struct rows_args *args);
void kernel_dispatch(struct CUstream_st *stream, const struct rows_args *args);
// x[token] (+)= sum of its rows, `weighted` by the weights.
void kernel_combine(struct CUstream_st *stream, const struct rows_args *args, bool weighted);
void kernel_combine_backward(struct CUstream_st *stream, const struct rows_args *args);

// table[k][first + i] = at[k][i] of tables of `whole`: addresses travel with the launch, so that
// nobody waits for a copy.
enum { ADDRESS_PARTS = 128 };
struct addresses_args {
    int count, first, whole;
    void **table;
    void *at[3][ADDRESS_PARTS];
};
void kernel_addresses(struct CUstream_st *stream, const struct addresses_args *args);

enum update_rule {
    UPDATE_ADAMW,
    UPDATE_ADAM,
    UPDATE_SGD,
    UPDATE_LAMB,
    UPDATE_DECAY,
    UPDATE_DESCEND,
    UPDATE_DESCEND_WITH
};
// Parameters that are updated in one launch; what they need is small enough for its arguments.
enum { UPDATE_PARTS = 32, UPDATE_CHUNK = 4096 };
struct update_array {
    int64_t count;
    int64_t first_chunk;  // of UPDATE_CHUNK elements, counted through all arrays
    float decay;
    float *weights, *first_moments, *second_moments, *direction;
    const float *gradients;
    struct reals rounded;  // data NULL: the weights have no copy in the run's precision
};
struct update_args {
    int rule, array_count;
    int64_t chunk_count;
    float rate, beta1, beta2, epsilon, scale, momentum;
    float correction1, correction2;
    struct update_array arrays[UPDATE_PARTS];
};
void kernel_update(struct CUstream_st *stream, const struct update_args *args);

// out[row][column] = x / factor in 8 bits, factor = its largest magnitude over that of the format;
// one launch. `partial`: LOW_PRECISION_BLOCKS.
enum { LOW_PRECISION_BLOCKS = GRID_BLOCKS };
struct low_precision_args {
    int64_t rows, columns, row_stride, column_stride;
    int number;  // NUMBER_E4M3 or NUMBER_E5M2
    struct reals x;
    uint8_t *out;
    uint8_t *turned;  // NULL, or the same with rows and columns turned; column_stride is 1 then
    float *partial, *factor;
};
void kernel_low_precision(struct CUstream_st *stream, const struct low_precision_args *args);

enum { SQUARE_BLOCKS = 1024 };
// *sum = the sum; `partial`: room for SQUARE_BLOCKS.
void kernel_sum_squares(struct CUstream_st *stream, const float *x, int64_t count, double *partial,
                        double *sum);
void kernel_scale(struct CUstream_st *stream, struct reals x, int64_t count, float factor);

// Blocks that wait, each on a multiprocessor of its own while there are as many: for `ns`, or with
// an origin until so long after it. With `marks` the origin is set to now instead.
struct delay_args {
    int64_t ns, *origin_ns;
    int blocks;
    bool marks;
};
void kernel_delay(struct CUstream_st *stream, const struct delay_args *args);

#ifdef __cplusplus
}
#endif
