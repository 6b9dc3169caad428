#include "models/families/family.h"

#include <stddef.h>

// XLMWithLMHeadModel: an encoder as bert is, whose head has a bias and no transform before it; each
// language may have a row that is added to its tokens. FlaubertWithLMHeadModel: the same, which may
// norm in front of its parts.

struct xlm {
    int64_t vocab_size, emb_dim, n_layers, n_heads, max_position_embeddings, n_langs;
    double dropout, attention_dropout, layer_norm_eps;
    bool gelu_activation, causal, use_lang_emb, pre_norm, tie_word_embeddings;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct xlm, vocab_size, 1, VOCAB_MAX)},
    {"n_words", JSON_TYPE_I64, offsetof(struct xlm, vocab_size), 1, VOCAB_MAX, true},
    {JSON_OPT_I64(struct xlm, emb_dim, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct xlm, n_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct xlm, n_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct xlm, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct xlm, n_langs, 1, VOCAB_MAX)},
    {JSON_OPT_F64(struct xlm, dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct xlm, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct xlm, layer_norm_eps, 0, 1)},
    {JSON_OPT_BOOL(struct xlm, gelu_activation)},
    {JSON_OPT_BOOL(struct xlm, causal)},
    {JSON_OPT_BOOL(struct xlm, use_lang_emb)},
    {JSON_OPT_BOOL(struct xlm, pre_norm)},
    {JSON_OPT_BOOL(struct xlm, tie_word_embeddings)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static struct decoder describe(const char *model_type, const struct xlm *record)
{
    enum { FFN_WIDTHS = 4 };
    return (struct decoder){
        .model_type = model_type,
        .vocab = record->vocab_size,
        .hidden = record->emb_dim,
        .layer_count = record->n_layers,
        .head_count = record->n_heads,
        .ffn = FFN_WIDTHS * record->emb_dim,
        .seq_len_max = record->max_position_embeddings,
        .position_count = record->max_position_embeddings,
        .type_count = record->use_lang_emb && record->n_langs > 1 ? record->n_langs : 0,
        .embedding_norm = true,
        .norm_place = record->pre_norm ? NORM_BEFORE : NORM_AFTER,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = record->layer_norm_eps,
        .no_final_norm = true,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .activation = record->gelu_activation ? FUNCTION_GELU : FUNCTION_RELU,
        .bidirectional = !record->causal,
        .tied = record->tie_word_embeddings,
        .head_bias = true,
        .attention_dropout = record->attention_dropout,
        .hidden_dropout = record->dropout,
        .embedding_dropout = record->dropout,
    };
}

static const void *read_as(struct family_reader *reader, const char *model_type, const char *own)
{
    struct xlm record = {.n_langs = 1,
                         .dropout = 0.1,
                         .attention_dropout = 0.1,
                         .layer_norm_eps = 1e-12,
                         .gelu_activation = true,
                         .use_lang_emb = true,
                         .tie_word_embeddings = true};
    const struct family_keys keys = {
        .dimensions = "vocab_size emb_dim n_layers n_heads max_position_embeddings",
        .optional =
            arena_print(reader->arena,
                        "n_langs use_lang_emb gelu_activation causal dropout attention_dropout "
                        "layer_norm_eps tie_word_embeddings%s",
                        own)};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &keys);
    if (!family_complete(reader)) return NULL;
    if (!*own) record.pre_norm = false;
    struct decoder decoder = describe(model_type, &record);
    family_check_heads(reader, &decoder, "n_heads", "n_heads");
    return family_decoder(reader, &decoder);
}

static const void *read_xlm(struct family_reader *reader)
{
    return read_as(reader, "xlm", "");
}

static const void *read_flaubert(struct family_reader *reader)
{
    return read_as(reader, "flaubert", " pre_norm");
}

const struct model_family FAMILY_XLM = {"xlm", read_xlm, decoder_graph, "XLMConfig"};
const struct model_family FAMILY_FLAUBERT = {"flaubert", read_flaubert, decoder_graph,
                                             "FlaubertConfig"};
