#pragma once
#include "models/families/family.h"

// The families that keep llama's keys: one record of all their keys. A family gives its defaults
// and says which keys it heeds; transformers ignores the others, and so do we.

struct llama_like {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
    int64_t num_key_value_heads;  // 0 = as many as heads
    int64_t head_dim;             // 0 = hidden_size / heads
    int64_t max_position_embeddings, sliding_window, max_window_layers;
    int64_t sliding_window_pattern;  // of so many layers the last has no window
    bool has_own_pattern;            // the family reads that key by itself
    bool has_own_types;              // and layer_types
    bool has_own_ffn;                // intermediate_size, which may be a list
    bool lacks_ffn;                  // all layers have experts, of a width of their own
    bool lacks_rope;                 // what is rotated how is under keys of the family's own
    int64_t no_rope_layer_interval;  // of so many layers the last does not rotate
    const char *hidden_act, *hidden_activation;
    bool tie_word_embeddings, attention_bias, mlp_bias, use_bias, qkv_bias, use_sliding_window;
    bool attention_out_bias;
    double rms_norm_eps, norm_eps, norm_epsilon, layer_norm_eps, rope_theta, partial_rotary_factor;
    double rope_local_base_freq;
    double query_pre_attn_scalar, attn_logit_softcapping, final_logit_softcapping;  // 0 = none
    double logit_scale;
    double embedding_multiplier, attention_multiplier, residual_multiplier, logits_scaling;
    double attention_dropout, residual_dropout, resid_pdrop, embedding_dropout, embd_pdrop;
    const bool *is_local;  // by layer, from layer_types; NULL without
    // What the family heeds beside the common keys (struct family_keys).
    const char *dimensions, *dimensions_or_null, *optional, *optional_or_null;
    // Under use_sliding_window sliding_window must be given, and these where layer_types is not.
    const char *window_dimensions;
};

// What most of them share: rope over 10000, one epsilon, silu.
#define LLAMA_LIKE_DEFAULTS                                                             \
    .hidden_act = "silu", .rms_norm_eps = 1e-6, .norm_eps = 1e-5, .norm_epsilon = 1e-5, \
    .layer_norm_eps = 1e-5, .rope_theta = 10000, .partial_rotary_factor = 1

// Reads over `record`, which holds the defaults, and enters what is absent into the ledger. The
// common keys are width, layers, heads, ffn and vocabulary, which must be given, and
// max_position_embeddings, rope_theta, attention_dropout and tie_word_embeddings.
void llama_like_read(struct family_reader *reader, struct llama_like *record);
// The end of reading (family_complete). Llama itself: norm before, rms, gated, rope, no bias and no
// window. Families change the rest.
struct decoder llama_like_decoder(struct family_reader *reader, const char *model_type,
                                  const struct llama_like *record);
// Which layers have a window: what layer_types says, or `otherwise`, said as `rule`.
const bool *llama_like_windows(struct family_reader *reader, const struct llama_like *record,
                               const bool *otherwise, const char *rule);
// The common rule for them: of `pattern` layers the last has none.
const bool *llama_like_pattern(struct family_reader *reader, const struct llama_like *record,
                               int64_t pattern);
// Which layers do not rotate: where no_rope_layers has a 0, or of `interval` layers the last.
const bool *llama_like_unrotated(struct family_reader *reader, int64_t layer_count,
                                 int64_t interval);
// The opposite of such a list.
const bool *llama_like_others(struct family_reader *reader, const bool *layers,
                              int64_t layer_count);
