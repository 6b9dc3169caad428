#include "models/families/family.h"

#include <assert.h>
#include <stddef.h>

// XLMWithLMHeadModel: an encoder as bert is, whose head has a bias and no transform before it; each
// language may have a row that is added to its tokens. FlaubertWithLMHeadModel: the same, which may
// norm in front of its parts.

struct xlm {
    struct decoder decoder;
    int64_t n_langs;
    bool gelu_activation, causal, use_lang_emb, pre_norm;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("n_words", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("emb_dim", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("n_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("n_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct xlm, n_langs, 1, VOCAB_MAX)},
    {DECODER_F64("dropout", hidden_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("layer_norm_eps", norm_epsilon, 0, 1)},
    {JSON_OPT_BOOL(struct xlm, gelu_activation)},
    {JSON_OPT_BOOL(struct xlm, causal)},
    {JSON_OPT_BOOL(struct xlm, use_lang_emb)},
    {JSON_OPT_BOOL(struct xlm, pre_norm)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static struct decoder describe(const char *model_type, const struct xlm *record)
{
    assert(record->decoder.hidden > 0 && record->n_langs > 0);
    enum { FFN_WIDTHS = 4 };
    struct decoder decoder = record->decoder;
    decoder.model_type = model_type;
    decoder.ffn = FFN_WIDTHS * decoder.hidden;
    decoder.position_count = decoder.seq_len_max;
    decoder.type_count = record->use_lang_emb && record->n_langs > 1 ? record->n_langs : 0;
    decoder.embedding_norm = decoder.no_final_norm = decoder.head_bias = true;
    decoder.norm_place = record->pre_norm ? NORM_BEFORE : NORM_AFTER;
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = true;
    decoder.activation = record->gelu_activation ? FUNCTION_GELU : FUNCTION_RELU;
    decoder.bidirectional = !record->causal;
    decoder.embedding_dropout = decoder.hidden_dropout;
    return decoder;
}

static const void *read_as(struct family_reader *reader, const char *model_type, const char *own)
{
    struct xlm record = {.n_langs = 1,
                         .decoder.hidden_dropout = 0.1,
                         .decoder.attention_dropout = 0.1,
                         .decoder.norm_epsilon = 1e-12,
                         .gelu_activation = true,
                         .use_lang_emb = true,
                         .decoder.tied = true};
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
