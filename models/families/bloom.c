#include "models/families/family.h"

struct bloom {
    struct decoder decoder;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("n_embed", hidden, 1, WIDTH_MAX)},  // wins over hidden_size
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("n_layer", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("n_head", head_count, 1, HEADS_MAX)},
    {DECODER_I64("seq_length", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_F64("layer_norm_epsilon", norm_epsilon, 0, 1)},
    {DECODER_F64("hidden_dropout", hidden_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_BOOL("apply_residual_connection_post_layernorm", residual_after_norm)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size n_layer n_head",
    .optional = "layer_norm_epsilon hidden_dropout attention_dropout "
                "apply_residual_connection_post_layernorm tie_word_embeddings seq_length"};

static const void *read_bloom(struct family_reader *reader)
{
    struct bloom record = {.decoder.model_type = "bloom",
                           .decoder.embedding_norm = true,
                           .decoder.norm = FUNCTION_LAYER_NORM,
                           .decoder.qkv_bias = true,
                           .decoder.out_bias = true,
                           .decoder.mlp_bias = true,
                           .decoder.activation = FUNCTION_GELU_TANH,
                           .decoder.alibi = 1,
                           .decoder.norm_epsilon = 1e-5,
                           .decoder.tied = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = record.decoder;
    decoder.ffn = 4 * decoder.hidden;
    const char *head_key = family_key(reader, "n_head", "num_attention_heads");
    family_check_heads(reader, &decoder, head_key, head_key);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_BLOOM = {"bloom", read_bloom, decoder_graph, "BloomConfig"};
