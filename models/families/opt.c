#include "models/families/family.h"

#include <assert.h>

struct opt {
    struct decoder decoder;
    int64_t word_embed_proj_dim;  // 0 = hidden_size
    const char *activation_function;
    bool do_layer_norm_before, _remove_final_layer_norm;
    bool layer_norm_elementwise_affine;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("ffn_dim", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct opt, word_embed_proj_dim, 1, WIDTH_MAX)},
    {JSON_OPT_TEXT(struct opt, activation_function)},
    {DECODER_F64("dropout", hidden_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct opt, do_layer_norm_before)},
    {JSON_OPT_BOOL(struct opt, _remove_final_layer_norm)},
    {DECODER_BOOL("enable_bias", qkv_bias)},
    {JSON_OPT_BOOL(struct opt, layer_norm_elementwise_affine)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size num_hidden_layers ffn_dim max_position_embeddings "
                  "num_attention_heads",
    .optional = "activation_function dropout attention_dropout do_layer_norm_before "
                "_remove_final_layer_norm enable_bias layer_norm_elementwise_affine "
                "tie_word_embeddings"};

// The table of positions starts with two rows that are never looked up.
enum { POSITION_OFFSET = 2 };

static struct decoder describe(const struct opt *record)
{
    assert(record->decoder.seq_len_max > 0);
    int64_t width = record->word_embed_proj_dim;
    struct decoder decoder = record->decoder;
    decoder.position_count = decoder.seq_len_max + POSITION_OFFSET;
    decoder.embedding_size = width != decoder.hidden ? width : 0;
    decoder.norm_place = record->do_layer_norm_before ? NORM_BEFORE : NORM_AFTER;
    decoder.norm_is_plain = !record->layer_norm_elementwise_affine;
    decoder.no_final_norm = !record->do_layer_norm_before || record->_remove_final_layer_norm;
    decoder.out_bias = decoder.mlp_bias = decoder.qkv_bias;
    return decoder;
}

static const void *read_opt(struct family_reader *reader)
{
    struct opt record = {.decoder.model_type = "opt",
                         .decoder.norm = FUNCTION_LAYER_NORM,
                         .decoder.norm_epsilon = 1e-5,
                         .activation_function = "relu",
                         .decoder.hidden_dropout = 0.1,
                         .do_layer_norm_before = true,
                         .decoder.qkv_bias = true,
                         .layer_norm_elementwise_affine = true,
                         .decoder.tied = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    if (record.word_embed_proj_dim == 0) {
        family_taken(reader, "word_embed_proj_dim", "%lld (hidden_size)",
                     (long long)record.decoder.hidden);
    }
    struct decoder decoder = describe(&record);
    family_check_heads(reader, &decoder, "num_attention_heads", "num_attention_heads");
    if (reader->err->kind) return NULL;
    decoder.activation =
        family_activation(reader, "activation_function", record.activation_function);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_OPT = {"opt", read_opt, decoder_graph, "OPTConfig"};
