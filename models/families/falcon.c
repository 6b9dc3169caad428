#include "models/families/family.h"

#include <assert.h>
#include <math.h>

struct falcon {
    struct decoder decoder;
    int64_t num_kv_heads;             // 0 = as many as heads
    int64_t num_ln_in_parallel_attn;  // 0 = not given
    const char *activation;
    double rope_theta;
    bool new_decoder_architecture, multi_query, parallel_attn, alibi;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("n_embed", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct falcon, num_kv_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct falcon, num_ln_in_parallel_attn, 1, 2)},
    {DECODER_I64("ffn_hidden_size", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {JSON_OPT_TEXT(struct falcon, activation)},
    {DECODER_F64("layer_norm_epsilon", norm_epsilon, 0, 1)},
    {JSON_OPT_F64(struct falcon, rope_theta, 1, 1e15)},
    {DECODER_F64("hidden_dropout", hidden_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct falcon, new_decoder_architecture)},
    {JSON_OPT_BOOL(struct falcon, multi_query)},
    {JSON_OPT_BOOL(struct falcon, parallel_attn)},
    {DECODER_BOOL("bias", qkv_bias)},
    {JSON_OPT_BOOL(struct falcon, alibi)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
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

// What the class derives where the config is silent.
static void derive(struct family_reader *reader, struct falcon *record)
{
    if (record->decoder.ffn == 0) {
        record->decoder.ffn = 4 * record->decoder.hidden;
        family_taken(reader, "ffn_hidden_size", "%lld (4 * hidden_size)",
                     (long long)record->decoder.ffn);
    }
    if (record->parallel_attn && record->num_ln_in_parallel_attn == 0) {
        record->num_ln_in_parallel_attn = record->new_decoder_architecture ? 2 : 1;
        family_taken(reader, "num_ln_in_parallel_attn", "%lld (by new_decoder_architecture)",
                     (long long)record->num_ln_in_parallel_attn);
    }
    if (record->new_decoder_architecture && record->num_kv_heads == 0) {
        record->num_kv_heads = record->decoder.head_count;
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
    return record->multi_query ? 1 : record->decoder.head_count;
}

static const void *read_falcon(struct family_reader *reader)
{
    struct falcon record = {.decoder.model_type = "falcon",
                            .decoder.norm = FUNCTION_LAYER_NORM,
                            .activation = "gelu",
                            .decoder.norm_epsilon = 1e-5,
                            .decoder.seq_len_max = 2048,
                            .rope_theta = 10000,
                            .multi_query = true,
                            .parallel_attn = true,
                            .decoder.tied = true};
    family_read(reader, FIELDS, &record);
    family_read_rope(reader, ROPE_FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    derive(reader, &record);
    assert(record.decoder.ffn > 0 && kv_heads(&record) > 0);
    struct decoder decoder = record.decoder;
    decoder.kv_head_count = kv_heads(&record);
    decoder.norm_place = norm_place(&record);
    decoder.out_bias = decoder.mlp_bias = decoder.qkv_bias;
    decoder.rope_theta = record.alibi ? 0 : record.rope_theta;
    family_check_heads(reader, &decoder, "num_attention_heads", "num_kv_heads");
    if (reader->err->kind) return NULL;
    decoder.rotary_dims = decoder.head_dim / 2 * 2;
    decoder.activation = family_activation(reader, "activation", record.activation);
    // Scores are divided behind them.
    if (record.alibi) decoder.alibi = 1 / sqrt((double)decoder.head_dim);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_FALCON = {"falcon", read_falcon, decoder_graph, "FalconConfig"};
