#pragma once
#include "models/families/family.h"

// Encoders and decoders of one width, whose numbers of layers, heads and ffn have keys each.

struct bart {
    int64_t vocab_size, d_model;
    int64_t max_position_embeddings;                                   // of both sides
    int64_t max_source_positions, max_target_positions, num_mel_bins;  // of whisper
    int64_t encoder_layers, encoder_attention_heads, encoder_ffn_dim;
    int64_t decoder_layers, decoder_attention_heads, decoder_ffn_dim;
    const char *activation_function;
    double dropout, attention_dropout, activation_dropout;
    double encoder_layerdrop, decoder_layerdrop;
    bool scale_embedding, tie_word_embeddings;
};

// The rows of all of them, and the keys that may be left out.
#define BART_FIELDS                                                         \
    {JSON_OPT_I64(struct bart, vocab_size, 1, VOCAB_MAX)},                  \
        {JSON_OPT_I64(struct bart, d_model, 1, WIDTH_MAX)},                 \
        {JSON_OPT_I64(struct bart, encoder_layers, 1, LAYERS_MAX)},         \
        {JSON_OPT_I64(struct bart, encoder_attention_heads, 1, HEADS_MAX)}, \
        {JSON_OPT_I64(struct bart, encoder_ffn_dim, 1, WIDTH_MAX)},         \
        {JSON_OPT_I64(struct bart, decoder_layers, 1, LAYERS_MAX)},         \
        {JSON_OPT_I64(struct bart, decoder_attention_heads, 1, HEADS_MAX)}, \
        {JSON_OPT_I64(struct bart, decoder_ffn_dim, 1, WIDTH_MAX)},         \
        {JSON_OPT_TEXT(struct bart, activation_function)},                  \
        {JSON_OPT_F64(struct bart, dropout, 0, DROPOUT_MAX)},               \
        {JSON_OPT_F64(struct bart, attention_dropout, 0, DROPOUT_MAX)},     \
        {JSON_OPT_F64(struct bart, activation_dropout, 0, DROPOUT_MAX)},    \
        {JSON_OPT_BOOL(struct bart, scale_embedding)},                      \
        {JSON_OPT_BOOL(struct bart, tie_word_embeddings)},                  \
    {                                                                       \
        JSON_OPT_ANY("model_type")                                          \
    }
#define BART_OPTIONAL                                                                   \
    "activation_function dropout attention_dropout activation_dropout scale_embedding " \
    "tie_word_embeddings"

// A side: biases everywhere, layer norms in front of each part, a scale of embeddings where the
// record says so.
struct decoder bart_side(const char *model_type, const struct bart *record, bool is_encoder);
// Checks the heads of both and joins them: false after an error.
bool bart_join(struct family_reader *reader, const struct bart *record, struct decoder *decoder,
               struct decoder *encoder);
