#include "models/families/family.h"

struct bloom {
    int64_t vocab_size, hidden_size, n_layer, n_head, seq_length;
    double layer_norm_epsilon, hidden_dropout, attention_dropout;
    bool apply_residual_connection_post_layernorm, tie_word_embeddings;
};

#define ALIAS(key, member, high) key, JSON_TYPE_I64, offsetof(struct bloom, member), 1, high, true

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct bloom, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct bloom, hidden_size, 1, WIDTH_MAX)},
    {ALIAS("n_embed", hidden_size, WIDTH_MAX)},  // wins over hidden_size
    {ALIAS("num_hidden_layers", n_layer, LAYERS_MAX)},
    {JSON_OPT_I64(struct bloom, n_layer, 1, LAYERS_MAX)},
    {ALIAS("num_attention_heads", n_head, HEADS_MAX)},
    {JSON_OPT_I64(struct bloom, n_head, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct bloom, seq_length, 1, POSITIONS_MAX)},
    {JSON_OPT_F64(struct bloom, layer_norm_epsilon, 0, 1)},
    {JSON_OPT_F64(struct bloom, hidden_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct bloom, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct bloom, apply_residual_connection_post_layernorm)},
    {JSON_OPT_BOOL(struct bloom, tie_word_embeddings)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size n_layer n_head",
    .optional = "layer_norm_epsilon hidden_dropout attention_dropout "
                "apply_residual_connection_post_layernorm tie_word_embeddings seq_length"};

static const void *read_bloom(struct family_reader *reader)
{
    struct bloom record = {.layer_norm_epsilon = 1e-5, .tie_word_embeddings = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = {
        .model_type = "bloom",
        .vocab = record.vocab_size,
        .hidden = record.hidden_size,
        .layer_count = record.n_layer,
        .head_count = record.n_head,
        .ffn = 4 * record.hidden_size,
        .seq_len_max = record.seq_length,
        .embedding_norm = true,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = record.layer_norm_epsilon,
        .residual_after_norm = record.apply_residual_connection_post_layernorm,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .activation = FUNCTION_GELU_TANH,
        .alibi = 1,
        .tied = record.tie_word_embeddings,
        .attention_dropout = record.attention_dropout,
        .hidden_dropout = record.hidden_dropout,
    };
    const char *head_key = family_key(reader, "n_head", "num_attention_heads");
    family_check_heads(reader, &decoder, head_key, head_key);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_BLOOM = {"bloom", read_bloom, decoder_graph, "BloomConfig"};
