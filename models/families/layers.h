#pragma once
#include "models/builder.h"
#include "models/families/decoder.h"

// The pieces of which decoder.c puts blocks together. Each appends ops to the block and returns the
// tensor that they end in. Parameters get the name of the piece and ".weight" or ".bias".

struct layers {
    struct builder builder;
    const struct decoder *decoder;
    struct import_options options;
    int64_t vocab_padded;
    bool is_mixture;    // experts in place of the mlp
    bool is_unrotated;  // no rope
    bool is_unnormed;   // attention reads what the layer gets as it is
    const char *stack;  // "encoder" or "decoder" where the model has both; NULL where it has one
    unsigned parts;     // of the layer, sums of enum layer_part
    // What models/families/handed.h hands on: the model, of which `decoder` is a make; whether keys
    // and values, or what an indexer chose, are among that; and by whether their layer has a
    // window, those, -1: not yet.
    const struct decoder *whole;
    bool takes_keys, takes_chosen;
    int keys[2], values[2], embedded, chosen;
    int streams;     // states of tokens beside their own (decoder.altup)
    bool is_sparse;  // the mlp's gate
    bool is_hashed;  // the choice of experts (decoder.experts)
    double clamp;    // of gates and ups; 0 = none
    enum pooling pooling;
    bool out_bias;  // as decoder.out_bias, of this layer
};

// (batch, seq, size of `dim`).
struct shape layers_tokens(enum dim dim, int64_t size);

// A tensor of the data that comes with a sequence: whole numbers, or reals.
int layers_data(struct layers *layers, const char *name, enum element element, struct shape shape);

// A new activation; whatever has the dim `expert` exists for the chosen experts only.
int layers_activation(struct layers *layers, const char *name, struct shape shape);

// A new parameter called name.suffix.
int layers_parameter(struct layers *layers, const char *name, const char *suffix,
                     struct shape shape, const char *tie);

// A contraction of `input` with a new parameter of shape `weight` (tied under `tie` when not NULL),
// and the bias, which has the dims of `output` past batch and seq (where it has that).
struct projection {
    const char *name;
    struct shape weight, output;
    const char *tie;
    int merge;
    bool bias;
    int64_t groups;  // of inputs and outputs, each by itself; 0 = all of them together
    enum op_class class;
};
int layers_project(struct layers *layers, int input, struct projection projection);
// The same with a parameter that is there already; `weight` and `tie` of the projection are not
// looked at.
int layers_product(struct layers *layers, int input, int weight, struct projection projection);
// The bias of a projection on what it made, where it has one.
int layers_add_bias(struct layers *layers, int output, const struct projection *projection);
// models/families/grouped.c: a projection in groups.
int layers_project_groups(struct layers *layers, int input, struct projection projection);

int layers_norm(struct layers *layers, const char *name, int input, enum function function);
// The rms norm of the heads of q or k, each alone or all together; it may lack a weight where
// others have one.
int layers_head_norm(struct layers *layers, const char *name, int input);
// The rms norm of all that heads make of a token together, in parts where ranks share the heads.
int layers_context_norm(struct layers *layers, const char *name, int input);
int layers_gather(struct layers *layers, const char *name, int ids, struct extent rows,
                  struct extent width, const char *tie);
int layers_add(struct layers *layers, const char *name, int a, int b);
int layers_add_sinusoids(struct layers *layers, int x);
int layers_function(struct layers *layers, const char *name, int input, enum function function,
                    double scalar);
// f(gate) * up; a gate that lacks the last dims is repeated over them.
int layers_gate(struct layers *layers, const char *name, int gate, int up, enum function function,
                double scalar);
// The activation of an mlp: f(gate) * up, or f(up) when gate is negative.
int layers_activate(struct layers *layers, const char *name, int gate, int up);
// models/families/apertus.c: the same by xIELU.
int layers_xielu(struct layers *layers, const char *name, int x);
// The last dims of a and b joined under the name that `shape` gives them; see OP_CONCAT.
int layers_concat(struct layers *layers, const char *name, int a, int b, struct shape shape);
int layers_rename(struct layers *layers, const char *name, int input, struct shape shape);
int layers_flatten(struct layers *layers, const char *name, int input, struct shape shape);
// `input` itself when there is nothing to drop.
int layers_dropout(struct layers *layers, const char *name, int input, double ratio);

// What attention works on: (batch, seq, head, head_dim), keys and values by kv_head or by head.
struct heads {
    int query, key, value;
    const char *name;   // NULL = "attention", of a sequence to itself; else of one to another
    const int *chosen;  // the keys of each query; NULL = it attends to all that it sees
    const int *gate;    // what the result is multiplied with, through a sigmoid; NULL = nothing
};
// From there to the output projection, fused or as the chain. Ops are called "attention.out" and so
// on, or as `heads.name` says.
int layers_attend(struct layers *layers, struct heads heads, int64_t window);
// To what heads make, without gate and projection; and the number a head that joins the softmax,
// negative where there is none.
int layers_attend_core(struct layers *layers, struct heads heads, int64_t window);
int layers_sink(struct layers *layers, int64_t window);

// Attention from the normed input to the output projection, and the mlp likewise.
int layers_attention(struct layers *layers, int input, int64_t window);
// models/families/disentangled.c: a key and a query of every distance, (table, head, head_dim), -1
// for what there is not; and scores, (batch, head, seq, kv_seq), with what queries and keys, as
// scores were made of them, say of these.
struct distances {
    int key, query;
};
struct distances layers_distances(struct layers *layers);
int layers_add_distances(struct layers *layers, int scores, struct distances made, int query,
                         int key);
// The same of queries of one tensor to keys and values of another, each to all of them.
int layers_cross_attention(struct layers *layers, int input, int memory);
int layers_mlp(struct layers *layers, int input);
// An mlp of `ffn` whose ops are called `name`.up and so on; `merge` marks gate and up.
int layers_named_mlp(struct layers *layers, const char *name, int input, int64_t ffn, int merge);
// A norm with a weight over the last dims of the input, which `last` has; where it is empty, of
// the last alone and without a weight.
int layers_norm_over(struct layers *layers, const char *name, int input, struct shape last);
// Without a weight, over the last dim, by an epsilon of its own; and the model's norm by a weight
// that is there already.
int layers_norm_plain(struct layers *layers, const char *name, int input, enum function function,
                      double epsilon);
int layers_norm_by(struct layers *layers, const char *name, int input, int weight);
// The class of the op appended last.
void layers_set_class(struct layers *layers, enum op_class class);
// models/families/per_layer.c: what the layer's own table of tokens adds.
int layers_per_layer(struct layers *layers, int x);
int layers_per_layer_branch(struct layers *layers, int x);
// models/families/altup.c: a layer of alternating updates, from and to the state of tokens and
// `layers->streams`; what these begin with, from x; x and what they say in the end. And of the gate
// of an mlp what is most active.
int layers_alternating(struct layers *layers, int x, int64_t window);
int layers_streams(struct layers *layers, int x);
int layers_join_streams(struct layers *layers, int x, int streams);
int layers_most_active(struct layers *layers, int gate);
// models/families/streams.c: a layer between streams, (batch, seq, stream, hidden); what these are
// behind the embedding, and what the head reads of them.
struct shape layers_stream_shape(const struct layers *layers);
int layers_streamed(struct layers *layers, int x, int64_t window);
int layers_spread(struct layers *layers, int x);
int layers_gather_streams(struct layers *layers, int x);
// models/families/experts.c: router, dispatch, experts, combine, and the shared ones beside them.
int layers_experts(struct layers *layers, int input);
// The mlp of the normed input and experts of what was normed, added.
int layers_mlp_and_experts(struct layers *layers, int input, int x);
// models/families/picture.c: what the places of a picture begin with, without their positions, and
// what the head reads of them, (batch, hidden).
int layers_picture(struct layers *layers);
int layers_pool(struct layers *layers, int input);
// What its tokens are, (batch, seq, hidden of the text), from what a tower says of each patch;
// and the same at their places of the text, others being zero.
int layers_picture_tokens(struct layers *layers, int input, int64_t hidden);
int layers_picture_placed(struct layers *layers, int tokens);
// models/families/head.c: the transform of a masked language model, the loss of scores, and from
// the normed hidden state to the loss of the next token; `prefix` tells several of one head apart.
int layers_masked_transform(struct layers *layers, int x);
int layers_loss(struct layers *layers, const char *name, int scores, int labels,
                enum function function);
int layers_score(struct layers *layers, const char *prefix, int x, int weight);
// models/families/contrast.c: what a tower says of a picture, from what its last layer says of each
// place, (batch, rank); and from what the last layer of text says of each token, and the former,
// to the loss.
int layers_picture_said(struct layers *layers, int input);
int layers_contrast(struct layers *layers, int input, int picture);
// models/families/sound.c: the same of sound.
int layers_sound(struct layers *layers);
// The places of what is no text, which have a number of their own: all of the block that have none
// yet get it. Nothing is done for text.
void layers_fix_places(struct layers *layers);
int64_t decoder_place_count(const struct decoder *decoder);  // 0 = as many as tokens
int64_t decoder_front_count(const struct decoder *decoder);  // of a picture, before its patches
// Whether each layer attends to what the encoder says; not where that is a tower by itself, or
// stands in the text.
bool decoder_asks_encoder(const struct decoder *decoder);
// models/families/describe.c: a graph without blocks.
struct graph *decoder_describe(struct arena *arena, const struct decoder *decoder,
                               const struct import_options *options);
// models/families/pooled.c
int layers_pooled_attention(struct layers *layers, int input, int64_t window);
// models/families/latent.c
int layers_latent_attention(struct layers *layers, int input, int64_t window);
// Which keys, or entries of `rate` tokens (0: keys), each query of an indexer attends to, by its
// heads of queries, its keys and the heads' weights (models/op_choose.h). What it is made of begins
// at `first_op`: none of it is differentiated.
int layers_chosen(struct layers *layers, int first_op, int query, int key, int weights,
                  int64_t rate);
// models/families/scan.c: from the normed input to the projection out.
int layers_scan(struct layers *layers, int input);
// A projection of the input to what mixes tokens, and the causal convolution of what it makes.
int layers_scan_project(struct layers *layers, int input, const char *name, struct shape output);
int layers_scan_convolve(struct layers *layers, const char *name, int input);
// softplus(projection + bias), for each head or each of its channels: how far it steps at a token.
int layers_scan_steps(struct layers *layers, int projected);
// The recurrence of x by the steps, B and C, whose A has this shape; and the projection out.
int layers_scan_core(struct layers *layers, int x, int dt, int b, int c, struct shape rates);
int layers_scan_out(struct layers *layers, int y);
// models/families/selective.c: the same of Mamba-1.
int layers_selective(struct layers *layers, int input);
// models/families/delta.c: the same by the gated delta rule.
int layers_delta(struct layers *layers, int input);
// models/families/lightning.c: a scan of steady rates.
int layers_lightning(struct layers *layers, int input);
// models/families/short_conv.c: a gated convolution in its place.
int layers_short_conv(struct layers *layers, int input);
