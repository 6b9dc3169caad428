#pragma once
#include "models/import.h"

// A stack of transformer layers, in all the variants of the families: a family reads its config
// into this record, and decoder_graph builds from it. Encoders (bert) are decoders that attend both
// ways.

enum norm_place {
    NORM_BEFORE,    // x += f(norm(x))
    NORM_AFTER,     // x = norm(x + f(x))
    NORM_BOTH,      // x += norm(f(norm(x)))
    NORM_RESULT,    // x += norm(f(x)) (olmo2)
    NORM_PARALLEL,  // x += attention(norm(x)) + mlp(norm'(x))
    NORM_SHARED,    // the same, and both read one norm
};

// A mixture of experts in place of the mlp; count 0 = none.
struct experts {
    int64_t count, top_k;
    int64_t group_count,
        open_groups;          // a token's experts lie in so many of the groups; 0 = anywhere
    int64_t ffn;              // of one expert
    int64_t shared_ffn;       // of all shared experts together, which run as one mlp; 0 = none
    bool shared_is_averaged;  // with what the chosen make, in place of a sum (cohere2_moe)
    bool shared_gate;         // times sigmoid of a projection to one number (qwen2_moe)
    enum function route;
    double route_scale;
    double route_epsilon;    // on the sum of scores that those of the chosen are divided by
    bool route_bias;         // the router has a trained bias (gpt-oss)
    bool choice_bias;        // a bias that balances loads, for the choice alone (deepseek_v3)
    bool expert_bias;        // products inside experts have biases (gpt-oss)
    double clamp;            // of what the gates and ups of experts make; 0 = none (hy_v4)
    bool shared_is_clamped;  // as well (deepseek_v4)
    const bool *is_hashed;   // by layer: which experts a token goes to a table of tokens says;
                             // NULL = no layer's does
    bool result_norm;        // what experts and shared ones make together is normed (axk1)
    bool is_beside_mlp;      // they are added to the mlp, read the residual by norms of their own,
                             // and what one makes is multiplied with a number of its own (gemma4)
    const bool *is_dense;    // by layer: an ordinary mlp of `ffn`; NULL = none is
};

// Multi-head latent attention (DeepSeek-V2, section 2.1); kv_rank 0 = ordinary attention.
struct latent {
    int64_t q_rank;  // 0 = queries are projected directly
    int64_t kv_rank;
    int64_t nope_dim, rope_dim, value_dim;
};

// What chooses the keys of latent attention (DeepSeek-V3.2); top_k 0 = nothing does.
struct indexer {
    int64_t head_count, head_dim, top_k;
    const bool *is_shared;  // by layer: it attends to the keys that were chosen in front of it, and
                            // has none; NULL = none does
    bool is_rotated_behind;  // the last of its dims are rotated, not the first (hy_v4)
    double norm_epsilon;     // of its keys; 0 = 1e-6
};

// A picture in place of tokens: a place for each of its patches, and one in front of them for the
// class token, which the head reads. The workload of a model of pictures alone has sequences of
// one: a picture is a sample.
struct picture {
    int64_t patch_count;        // 0 = the model reads tokens
    int64_t pixel_count;        // numbers of a patch: its sides times its channels
    bool patch_is_biased;       // for vit the table of kinds of places has the bias
    bool has_plain_class;       // patches have no bias: the class token is all of that table (clip)
    bool is_pooled;             // no class token: what is said of a picture is pooled (siglip)
    bool reads_mean;            // the head reads the mean of the patches beside the class (dinov2)
    int64_t register_count;     // places between the class token and the patches
    bool registers_have_kinds;  // a row each of the table of kinds beside that of positions (deit)
    // Of one that stands in the text (gemma3): the places that it takes there, 0 = it does not,
    // each the mean of as many patches, whether that is normed, and whether its projection has a
    // bias.
    int64_t token_count;
    bool token_norm, token_bias;
};

// Texts are compared with the pictures that `encoder` reads; width 0 = no.
struct contrast {
    int64_t width;     // of what is compared
    bool is_pairwise;  // each text with each picture by itself (siglip)
};

// Sound in place of tokens: two frames of bands of frequency a place, whatever the workload.
struct sound {
    int64_t place_count;  // 0 = the model reads tokens
    int64_t band_count;
};

// Scores get a number by how far away a key is (Raffel et al. 2020, section 2.1): a row of a table
// with a column for each head, which all layers of a stack share, or which each layer has (umt5).
struct relative {
    int64_t bucket_count;  // 0 = none
    int64_t distance;      // keys as far away as this or more are in one bucket
    bool is_of_layer;
};

// Scores get what queries and keys say of how far they are apart (He et al. 2021): by a table that
// has a row for each distance up to `span`, either way.
struct disentangled {
    int64_t span;  // 0 = none
    // The most; beyond half of span distances share rows by ranges. 0: no ranges, and what is
    // further is as far as span.
    int64_t distance;
    bool by_query, by_key;
    bool shares;     // keys and queries of distances are made by the matrices of those of tokens
    bool is_normed;  // the table
};

// Positions that are not trained: sines in the first half of a row and cosines in the second, of a
// place, or of one that is two further, by other frequencies (m2m_100).
enum sinusoids { SINUSOIDS_NONE, SINUSOIDS_OF_PLACE, SINUSOIDS_SHIFTED };

// Layers that scan: head_count 0 = none does. By the gated delta rule the groups are heads of
// queries and keys, and `state` is their width. Heads of Mamba-1 are channels,
// with head_dim 0.
enum scan_rule {
    SCAN_MAMBA2,
    SCAN_MAMBA1,
    SCAN_DELTA,
    SCAN_DELTA_CHANNELS,  // a decay for each channel of keys, gates and steps by way of a low rank
    SCAN_STEADY,          // rates that are not trained (lightning attention)
    SCAN_CONV,            // no state: a short convolution between two gates (lfm2)
};
struct scan_sizes {
    enum scan_rule rule;
    int64_t head_count, head_dim, group_count, state;
    int64_t taps;          // of the convolution in front of it
    int64_t chunk;         // tokens that kernels work on as one matrix
    bool conv_bias, bias;  // of the convolution; of the projections in and out
    enum function activation;
    int64_t norm_groups;   // of the norm behind the gate; 0 = no norm
    double out_epsilon;    // of the norm of what heads make by the delta rule; 0 = the model's
    bool beta_is_doubled;  // the delta rule may turn what a key has about (olmo_hybrid)
    double step_min;       // steps are no less; 0 = nothing holds them
    // Of Mamba-1: by way of what steps are made; the epsilon of norms of that, B and C, 0 = none,
    // which may lack a weight.
    int64_t step_rank;
    double low_epsilon;
    bool low_is_plain;
};

// What a layer consists of, each part with a norm and a residual of its own. Parts that mix tokens
// and are in one layer read the same norm, and their results are added.
enum layer_part { LAYER_ATTENTION = 1, LAYER_SCAN = 2, LAYER_MLP = 4 };

// Blocks hand on two tensors at most, so one module can stand between the last layer and the head.
enum { MTP_MAX = 1 };

// Attention of layers without a window, where it is another than that of those with one (gemma4);
// head_dim 0 = it is the same.
struct global_heads {
    int64_t head_dim, kv_head_count, rotary_dims;
    bool key_is_value;  // values are keys as they are projected, before norm and rope
};

// Of the residual and of what a part adds to it (minimax); 0 = 1.
struct skip_factors {
    double residual, branch;
};

// Alternating updates, and what layers that have these have besides (gemma3n):
// models/families/altup.c; stream_count 0 = none.
struct alternating {
    int64_t stream_count;   // states of a token beside its own
    int64_t residual_rank;  // of the branch beside attention
    const bool *is_sparse;  // by layer: of the mlp's gate what is above so many deviations
    double sparse_deviations;
};

// A token has several states in place of one, its streams; parts read a mixture of them, and what
// they make is added to each by a factor: models/families/streams.c; count 0 = one state.
struct hyper {
    int64_t count;
    double magnitude;  // of the factors, which a sigmoid makes
    double epsilon;    // above what sigmoids make
    int rounds;  // states are mixed by matrices whose rows and columns are divided so often by
                 // their sums (deepseek_v4); 0 = each stays what it is
};

// Attention of queries to one head of near tokens, which are keys and values at once, and to
// entries that far ones are pooled to (deepseek_v4): models/families/pooled.c.
enum pooling {
    POOLING_NONE,    // near tokens alone
    POOLING_CHOSEN,  // entries that overlap, of which the indexer chooses
    POOLING_ALL,     // longer ones, all of them
};
struct pooled_attention {
    int64_t q_rank;  // 0 = none has such attention
    int64_t rope_dim;
    int64_t rates[POOLING_ALL + 1];  // tokens of an entry
    double rope_theta;               // of layers with entries
    int64_t out_groups, out_rank;    // what heads make is projected in groups of neighbours first
    const uint8_t *kinds;            // by layer, enum pooling
};

// Products in groups (squeezebert); 0 = in one.
struct product_groups {
    int64_t query, key, value, out, up, down;
};

struct decoder {
    const char *model_type;
    int64_t vocab, hidden, layer_count, head_count, kv_head_count, head_dim, ffn;
    int64_t seq_len_max;     // 0 = unknown
    int64_t position_count;  // rows of the learned position table, 0 = none
    int64_t type_count;      // rows of the token type table, 0 = none
    int64_t embedding_size;  // width of the token table when it is projected to hidden; 0 = hidden
    int64_t head_size;       // width of the head's table, where it is another (rembert); 0 = that
    double embedding_scale;  // factor after the lookup; 0 = none
    bool embedding_is_narrow;  // all tables have that width, and the norm; a projection with a bias
                               // is last, and the head begins with one back
    enum sinusoids sinusoids;
    bool embedding_norm;
    bool embedding_norm_first;  // in front of positions, not behind them (blenderbot-small)

    enum norm_place norm_place;
    enum function norm;
    double norm_epsilon;
    bool norm_is_plain;     // without weight and bias
    bool norm_is_unbiased;  // layer norms have a weight only (dbrx)
    bool no_final_norm;
    bool first_is_unnormed;    // attention of the first layer has no norm in front (modernbert)
    bool residual_after_norm;  // the residual is taken after the first norm (bloom's option)

    bool qkv_bias, out_bias, mlp_bias;
    bool last_out_bias;    // as out_bias, of the last layer alone (gpt_neox_japanese)
    bool down_bias;        // of the mlp's last product alone (gte)
    bool key_is_unbiased;  // whatever qkv_bias says of the others (whisper)
    bool gated;
    enum function activation;
    double activation_scalar;  // its constant; 0 = 1
    bool activation_is_xielu;  // in its place (apertus)
    bool head_norms;           // rms norm of each head of q and k, before rope
    bool head_norms_plain;     // without a weight
    bool head_norms_layer;     // layer norms (persimmon)
    bool inner_norms;         // of what the last product of attention and of the mlp reads (bitnet)
    bool head_norms_rotated;  // behind rope instead (hunyuan)
    bool value_norms;         // of values, without a weight
    bool head_norms_whole;    // of all heads of a token together, with a weight for each (olmo2)
    double rope_theta;        // 0 = no rope
    double rope_theta_local;  // of layers with a window, where it is another; 0 = the same
    int64_t rotary_dims;      // of head_dim
    double alibi;             // factor on slopes by distance; 0 = none
    bool bidirectional;
    int64_t window;                       // 0 = none
    const bool *has_window;               // by layer; NULL = every layer when window > 0
    bool chunked;                         // windows are chunks (struct op)
    int64_t prefix;                       // places of a picture, which stand in front (struct op)
    const bool *is_unrotated;             // by layer: no rope; NULL = every layer has it
    bool head_norms_with_rope;            // layers without it do not norm their heads (llama4)
    double score_factor;                  // before the softmax; 0 = 1 / sqrt(head_dim)
    double score_softcap, logit_softcap;  // 0 = none
    double logit_scale;                   // factor on the logits; 0 = 1
    double residual_scale;                // factor on what is added to the residual; 0 = 1
    struct skip_factors on_attention, on_scan, on_mlp;
    bool branch_factors;  // trained, by channel, on the same (dinov2)

    struct global_heads global;
    bool key_is_value;        // of a make of layers (models/families/handed.h)
    int64_t kv_shared_count;  // of the layers, those behind that attend to keys and values of the
                              // last of those in front that has a window, or none, as they have
    int64_t kv_shared_ffn;    // of their mlps; 0 = ffn
    int64_t per_layer_width;  // of a table of tokens that each layer has; 0 = none
    int64_t per_layer_vocab;  // its rows; 0 = vocab
    struct alternating altup;
    struct hyper hyper;
    struct pooled_attention pooled;
    struct product_groups groups;

    struct experts experts;
    struct latent latent;
    struct indexer indexer;
    struct scan_sizes scan;
    const uint8_t *parts;  // by layer, sums of enum layer_part; NULL = attention and mlp
    struct picture picture;
    struct sound sound;
    struct contrast contrast;
    struct relative relative;
    struct disentangled disentangled;
    const struct decoder *encoder;  // what its last layer says, every layer attends to as well, by
                                    // a second attention of queries; NULL = none
    int64_t apart_count;  // of the layers, those in front that do not attend to it (two_towers)
    bool layers_are_one;  // the parameters of a layer are those of all (albert)
    bool norm_in_last;    // the final norm is the end of the last layer
    int64_t mtp_count;    // multi-token prediction modules behind the last layer, at most MTP_MAX
    bool attention_gate;  // what attention makes, times sigmoid of a projection (qwen3_next)
    bool attention_sink;  // a trained number a head joins the softmax (gpt-oss)
    bool sink_is_local;   // of layers with a window alone (mimo_v2_flash)
    int64_t value_dim;    // width of values; 0 = head_dim
    double value_factor;  // on values; 0 = 1

    bool tied;
    bool masked_head;  // dense, activation and norm before the lm head, whose vocabulary has a bias
    bool masked_head_is_unbiased;  // its dense layer has none (modernbert)
    bool head_bias;                // the lm head alone has it (phi); no family scales such logits
    double attention_dropout, hidden_dropout, embedding_dropout;
    double ffn_dropout;       // behind the activation of mlps
    double final_dropout;     // behind the last norm
    bool attention_adds_all;  // hidden_dropout is behind the mlp alone (distilbert)
};

struct graph *decoder_graph(struct arena *arena, const void *decoder,
                            const struct import_options *options);
// The same of a family that reads text_config and vision_config, where others read the former
// alone.
struct graph *towers_graph(struct arena *arena, const void *decoder,
                           const struct import_options *options);
