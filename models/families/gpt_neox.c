#include "models/families/family.h"

#include <assert.h>

struct gpt_neox {
    struct decoder decoder;
    int64_t intermediate_multiple_size;
    const char *hidden_act;
    double rotary_pct;
    bool use_parallel_residual;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("intermediate_size", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct gpt_neox, intermediate_multiple_size, 1, 1000)},
    {JSON_OPT_TEXT(struct gpt_neox, hidden_act)},
    {JSON_OPT_F64(struct gpt_neox, rotary_pct, 0, 1)},
    {DECODER_F64("rotary_emb_base", rope_theta, 1, 1e15)},
    {DECODER_F64("layer_norm_eps", norm_epsilon, 0, 1)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("hidden_dropout", hidden_dropout, 0, DROPOUT_MAX)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_BOOL(struct gpt_neox, use_parallel_residual)},
    {DECODER_BOOL("attention_bias", qkv_bias)},
    {DECODER_F64("rope_theta", rope_theta, 1, 1e15)},
    {"partial_rotary_factor", JSON_TYPE_F64, offsetof(struct gpt_neox, rotary_pct), 0, 1, true},
    {JSON_OPT_ANY("rope_parameters")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

// Where transformers 5 keeps them.
static const struct json_field ROPE_FIELDS[] = {
    {DECODER_F64("rope_theta", rope_theta, 1, 1e15)},
    {"partial_rotary_factor", JSON_TYPE_F64, offsetof(struct gpt_neox, rotary_pct), 0, 1, true},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size",
    .optional = "max_position_embeddings hidden_act rotary_pct rotary_emb_base layer_norm_eps "
                "attention_dropout hidden_dropout tie_word_embeddings use_parallel_residual "
                "attention_bias"};

static const struct family_keys JAPANESE_KEYS = {
    .dimensions = "vocab_size hidden_size num_hidden_layers num_attention_heads",
    .optional = "max_position_embeddings hidden_act rotary_pct rotary_emb_base layer_norm_eps "
                "attention_dropout hidden_dropout tie_word_embeddings intermediate_multiple_size"};

static struct decoder read_as(struct family_reader *reader, const char *model_type,
                              struct gpt_neox record, const struct family_keys *keys)
{
    family_read(reader, FIELDS, &record);
    family_read_rope(reader, ROPE_FIELDS, &record);
    family_absent(reader, FIELDS, &record, keys);
    if (!family_complete(reader)) return (struct decoder){0};
    if (keys == &JAPANESE_KEYS) {
        record.use_parallel_residual = record.decoder.qkv_bias = false;
        record.decoder.ffn = record.decoder.hidden * record.intermediate_multiple_size;
    }
    struct decoder decoder = record.decoder;
    decoder.model_type = model_type;
    decoder.norm_place = record.use_parallel_residual ? NORM_PARALLEL : NORM_BEFORE;
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.out_bias = decoder.qkv_bias;
    decoder.mlp_bias = true;
    decoder.embedding_dropout = decoder.hidden_dropout;
    family_check_heads(reader, &decoder, "num_attention_heads", "num_attention_heads");
    if (reader->err->kind) return decoder;
    decoder.rotary_dims = (int64_t)((double)decoder.head_dim * record.rotary_pct) / 2 * 2;
    assert(decoder.rotary_dims <= decoder.head_dim);
    decoder.activation = family_activation(reader, "hidden_act", record.hidden_act);
    return decoder;
}

static const void *read_gpt_neox(struct family_reader *reader)
{
    const struct gpt_neox record = {.decoder.seq_len_max = 2048,
                                    .hidden_act = "gelu",
                                    .rotary_pct = 0.25,
                                    .decoder.rope_theta = 10000,
                                    .decoder.norm_epsilon = 1e-5,
                                    .use_parallel_residual = true,
                                    .decoder.qkv_bias = true};
    struct decoder decoder = read_as(reader, "gpt_neox", record, &KEYS);
    return family_decoder(reader, &decoder);
}

// No bias but one of what attention makes in the last layer.
static const void *read_gpt_neox_japanese(struct family_reader *reader)
{
    const struct gpt_neox record = {.decoder.seq_len_max = 2048,
                                    .intermediate_multiple_size = 4,
                                    .hidden_act = "gelu",
                                    .rotary_pct = 1,
                                    .decoder.rope_theta = 10000,
                                    .decoder.norm_epsilon = 1e-5,
                                    .decoder.attention_dropout = 0.1,
                                    .decoder.tied = true};
    struct decoder decoder = read_as(reader, "gpt_neox_japanese", record, &JAPANESE_KEYS);
    decoder.mlp_bias = false;
    decoder.last_out_bias = true;
    decoder.embedding_dropout = 0;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GPT_NEOX = {"gpt_neox", read_gpt_neox, decoder_graph,
                                             "GPTNeoXConfig"};
const struct model_family FAMILY_GPT_NEOX_JAPANESE = {"gpt_neox_japanese", read_gpt_neox_japanese,
                                                      decoder_graph, "GPTNeoXJapaneseConfig"};
