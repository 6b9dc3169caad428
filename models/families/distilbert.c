#include "models/families/family.h"

// DistilBertForMaskedLM: bert without token types, under keys of its own.

struct distilbert {
    int64_t vocab_size, dim, n_layers, n_heads, hidden_dim, max_position_embeddings;
    const char *activation;
    double dropout, attention_dropout;
    bool tie_word_embeddings;
};

// transformers maps its generic names onto the family's own.
#define ALIAS(key, member, high) \
    key, JSON_TYPE_I64, offsetof(struct distilbert, member), 1, high, true

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct distilbert, vocab_size, 1, VOCAB_MAX)},
    {ALIAS("hidden_size", dim, WIDTH_MAX)},
    {JSON_OPT_I64(struct distilbert, dim, 1, WIDTH_MAX)},
    {ALIAS("num_hidden_layers", n_layers, LAYERS_MAX)},
    {JSON_OPT_I64(struct distilbert, n_layers, 1, LAYERS_MAX)},
    {ALIAS("num_attention_heads", n_heads, HEADS_MAX)},
    {JSON_OPT_I64(struct distilbert, n_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct distilbert, hidden_dim, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct distilbert, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_TEXT(struct distilbert, activation)},
    {JSON_OPT_F64(struct distilbert, dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct distilbert, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct distilbert, tie_word_embeddings)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size dim n_layers n_heads hidden_dim max_position_embeddings",
    .optional = "activation dropout attention_dropout tie_word_embeddings"};

static const void *read_distilbert(struct family_reader *reader)
{
    struct distilbert record = {.activation = "gelu",
                                .dropout = 0.1,
                                .attention_dropout = 0.1,
                                .tie_word_embeddings = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = {
        .model_type = "distilbert",
        .vocab = record.vocab_size,
        .hidden = record.dim,
        .layer_count = record.n_layers,
        .head_count = record.n_heads,
        .ffn = record.hidden_dim,
        .seq_len_max = record.max_position_embeddings,
        .position_count = record.max_position_embeddings,
        .embedding_norm = true,
        .norm_place = NORM_AFTER,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = 1e-12,
        .no_final_norm = true,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .bidirectional = true,
        .tied = record.tie_word_embeddings,
        .masked_head = true,
        .attention_dropout = record.attention_dropout,
        .embedding_dropout = record.dropout,
        .hidden_dropout = record.dropout,
        .attention_adds_all = true,
    };
    const char *head_key = family_key(reader, "n_heads", "num_attention_heads");
    family_check_heads(reader, &decoder, head_key, head_key);
    decoder.activation = family_activation(reader, "activation", record.activation);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_DISTILBERT = {"distilbert", read_distilbert, decoder_graph,
                                               "DistilBertConfig"};
