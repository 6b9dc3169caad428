#include "models/families/family.h"

struct gpt_neox {
    int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
    int64_t max_position_embeddings, intermediate_multiple_size;
    const char *hidden_act;
    double rotary_pct, rotary_emb_base, layer_norm_eps, attention_dropout, hidden_dropout;
    bool tie_word_embeddings, use_parallel_residual, attention_bias;
};

#define ROPE(key, member, low, high) \
    key, JSON_TYPE_F64, offsetof(struct gpt_neox, member), low, high, true

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct gpt_neox, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct gpt_neox, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct gpt_neox, num_hidden_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct gpt_neox, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct gpt_neox, intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct gpt_neox, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct gpt_neox, intermediate_multiple_size, 1, 1000)},
    {JSON_OPT_TEXT(struct gpt_neox, hidden_act)},
    {JSON_OPT_F64(struct gpt_neox, rotary_pct, 0, 1)},
    {JSON_OPT_F64(struct gpt_neox, rotary_emb_base, 1, 1e15)},
    {JSON_OPT_F64(struct gpt_neox, layer_norm_eps, 0, 1)},
    {JSON_OPT_F64(struct gpt_neox, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct gpt_neox, hidden_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct gpt_neox, tie_word_embeddings)},
    {JSON_OPT_BOOL(struct gpt_neox, use_parallel_residual)},
    {JSON_OPT_BOOL(struct gpt_neox, attention_bias)},
    {ROPE("rope_theta", rotary_emb_base, 1, 1e15)},
    {ROPE("partial_rotary_factor", rotary_pct, 0, 1)},
    {JSON_OPT_ANY("rope_parameters")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

// Where transformers 5 keeps them.
static const struct json_field ROPE_FIELDS[] = {
    {ROPE("rope_theta", rotary_emb_base, 1, 1e15)},
    {ROPE("partial_rotary_factor", rotary_pct, 0, 1)},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size",
    .optional = "max_position_embeddings hidden_act rotary_pct rotary_emb_base layer_norm_eps "
                "attention_dropout hidden_dropout tie_word_embeddings use_parallel_residual "
                "attention_bias"};

static void read_rope(struct family_reader *reader, struct gpt_neox *record)
{
    if (reader->err->kind || !json_has(reader->object, "rope_parameters")) return;
    struct json rope = json_get(reader->object, "rope_parameters", reader->err);
    json_read_lenient(&rope, ROPE_FIELDS, record, NULL, NULL, reader->err);
}

static const struct family_keys JAPANESE_KEYS = {
    .dimensions = "vocab_size hidden_size num_hidden_layers num_attention_heads",
    .optional = "max_position_embeddings hidden_act rotary_pct rotary_emb_base layer_norm_eps "
                "attention_dropout hidden_dropout tie_word_embeddings intermediate_multiple_size"};

static struct decoder read_as(struct family_reader *reader, const char *model_type,
                              struct gpt_neox record, const struct family_keys *keys)
{
    family_read(reader, FIELDS, &record);
    read_rope(reader, &record);
    family_absent(reader, FIELDS, &record, keys);
    if (!family_complete(reader)) return (struct decoder){0};
    if (keys == &JAPANESE_KEYS) {
        record.use_parallel_residual = record.attention_bias = false;
        record.intermediate_size = record.hidden_size * record.intermediate_multiple_size;
    }
    struct decoder decoder = {
        .model_type = model_type,
        .vocab = record.vocab_size,
        .hidden = record.hidden_size,
        .layer_count = record.num_hidden_layers,
        .head_count = record.num_attention_heads,
        .ffn = record.intermediate_size,
        .seq_len_max = record.max_position_embeddings,
        .norm_place = record.use_parallel_residual ? NORM_PARALLEL : NORM_BEFORE,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = record.layer_norm_eps,
        .qkv_bias = record.attention_bias,
        .out_bias = record.attention_bias,
        .mlp_bias = true,
        .rope_theta = record.rotary_emb_base,
        .tied = record.tie_word_embeddings,
        .attention_dropout = record.attention_dropout,
        .hidden_dropout = record.hidden_dropout,
        .embedding_dropout = record.hidden_dropout,
    };
    family_check_heads(reader, &decoder, "num_attention_heads", "num_attention_heads");
    if (reader->err->kind) return decoder;
    decoder.rotary_dims = (int64_t)((double)decoder.head_dim * record.rotary_pct) / 2 * 2;
    decoder.activation = family_activation(reader, "hidden_act", record.hidden_act);
    return decoder;
}

static const void *read_gpt_neox(struct family_reader *reader)
{
    const struct gpt_neox record = {.max_position_embeddings = 2048,
                                    .hidden_act = "gelu",
                                    .rotary_pct = 0.25,
                                    .rotary_emb_base = 10000,
                                    .layer_norm_eps = 1e-5,
                                    .use_parallel_residual = true,
                                    .attention_bias = true};
    struct decoder decoder = read_as(reader, "gpt_neox", record, &KEYS);
    return family_decoder(reader, &decoder);
}

// No bias but one of what attention makes in the last layer.
static const void *read_gpt_neox_japanese(struct family_reader *reader)
{
    const struct gpt_neox record = {.max_position_embeddings = 2048,
                                    .intermediate_multiple_size = 4,
                                    .hidden_act = "gelu",
                                    .rotary_pct = 1,
                                    .rotary_emb_base = 10000,
                                    .layer_norm_eps = 1e-5,
                                    .attention_dropout = 0.1,
                                    .tie_word_embeddings = true};
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
