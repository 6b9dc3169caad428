#include "models/families/family.h"

#include <math.h>

struct falcon {
    int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads;
    int64_t num_kv_heads;             // 0 = as many as heads
    int64_t num_ln_in_parallel_attn;  // 0 = not given
    int64_t ffn_hidden_size;          // 0 = 4 * hidden_size
    int64_t max_position_embeddings;
    const char *activation;
    double layer_norm_epsilon, rope_theta, hidden_dropout, attention_dropout;
    bool new_decoder_architecture, multi_query, parallel_attn, bias, alibi, tie_word_embeddings;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct falcon, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct falcon, hidden_size, 1, WIDTH_MAX)},
    {"n_embed", JSON_TYPE_I64, offsetof(struct falcon, hidden_size), 1, WIDTH_MAX, true},
    {JSON_OPT_I64(struct falcon, num_hidden_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct falcon, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct falcon, num_kv_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct falcon, num_ln_in_parallel_attn, 1, 2)},
    {JSON_OPT_I64(struct falcon, ffn_hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct falcon, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_TEXT(struct falcon, activation)},
    {JSON_OPT_F64(struct falcon, layer_norm_epsilon, 0, 1)},
    {JSON_OPT_F64(struct falcon, rope_theta, 1, 1e15)},
    {JSON_OPT_F64(struct falcon, hidden_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct falcon, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct falcon, new_decoder_architecture)},
    {JSON_OPT_BOOL(struct falcon, multi_query)},
    {JSON_OPT_BOOL(struct falcon, parallel_attn)},
    {JSON_OPT_BOOL(struct falcon, bias)},
    {JSON_OPT_BOOL(struct falcon, alibi)},
    {JSON_OPT_BOOL(struct falcon, tie_word_embeddings)},
    {JSON_OPT_ANY("rope_parameters")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct json_field ROPE_FIELDS[] = {
    {JSON_OPT_F64(struct falcon, rope_theta, 1, 1e15)},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size num_hidden_layers num_attention_heads",
    .optional = "max_position_embeddings activation layer_norm_epsilon rope_theta hidden_dropout "
                "attention_dropout new_decoder_architecture multi_query parallel_attn bias alibi "
                "tie_word_embeddings"};

// Where transformers 5 keeps it.
static void read_rope(struct family_reader *reader, struct falcon *record)
{
    if (reader->err->kind || !json_has(reader->object, "rope_parameters")) return;
    struct json rope = json_get(reader->object, "rope_parameters", reader->err);
    json_read_lenient(&rope, ROPE_FIELDS, record, NULL, NULL, reader->err);
}

// What the class derives where the config is silent.
static void derive(struct family_reader *reader, struct falcon *record)
{
    if (record->ffn_hidden_size == 0) {
        record->ffn_hidden_size = 4 * record->hidden_size;
        family_taken(reader, "ffn_hidden_size", "%lld (4 * hidden_size)",
                     (long long)record->ffn_hidden_size);
    }
    if (record->parallel_attn && record->num_ln_in_parallel_attn == 0) {
        record->num_ln_in_parallel_attn = record->new_decoder_architecture ? 2 : 1;
        family_taken(reader, "num_ln_in_parallel_attn", "%lld (by new_decoder_architecture)",
                     (long long)record->num_ln_in_parallel_attn);
    }
    if (record->new_decoder_architecture && record->num_kv_heads == 0) {
        record->num_kv_heads = record->num_attention_heads;
        family_taken(reader, "num_kv_heads", "%lld (num_attention_heads)",
                     (long long)record->num_kv_heads);
    }
}

static enum norm_place norm_place(const struct falcon *record)
{
    if (!record->parallel_attn) return NORM_BEFORE;
    return record->num_ln_in_parallel_attn == 2 ? NORM_PARALLEL : NORM_SHARED;
}

static int64_t kv_heads(const struct falcon *record)
{
    if (record->new_decoder_architecture) return record->num_kv_heads;
    return record->multi_query ? 1 : record->num_attention_heads;
}

static struct decoder describe(const struct falcon *record)
{
    return (struct decoder){
        .model_type = "falcon",
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count = record->num_hidden_layers,
        .head_count = record->num_attention_heads,
        .kv_head_count = kv_heads(record),
        .ffn = record->ffn_hidden_size,
        .seq_len_max = record->max_position_embeddings,
        .norm_place = norm_place(record),
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = record->layer_norm_epsilon,
        .qkv_bias = record->bias,
        .out_bias = record->bias,
        .mlp_bias = record->bias,
        .rope_theta = record->alibi ? 0 : record->rope_theta,
        .tied = record->tie_word_embeddings,
        .attention_dropout = record->attention_dropout,
        .hidden_dropout = record->hidden_dropout,
    };
}

static const void *read_falcon(struct family_reader *reader)
{
    struct falcon record = {.activation = "gelu",
                            .layer_norm_epsilon = 1e-5,
                            .max_position_embeddings = 2048,
                            .rope_theta = 10000,
                            .multi_query = true,
                            .parallel_attn = true,
                            .tie_word_embeddings = true};
    family_read(reader, FIELDS, &record);
    read_rope(reader, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    derive(reader, &record);
    struct decoder decoder = describe(&record);
    family_check_heads(reader, &decoder, "num_attention_heads", "num_kv_heads");
    if (reader->err->kind) return NULL;
    decoder.rotary_dims = decoder.head_dim / 2 * 2;
    decoder.activation = family_activation(reader, "activation", record.activation);
    // Scores are divided behind them.
    if (record.alibi) decoder.alibi = 1 / sqrt((double)decoder.head_dim);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_FALCON = {"falcon", read_falcon, decoder_graph, "FalconConfig"};
