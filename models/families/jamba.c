#include "models/families/family.h"

#include <assert.h>

// Jamba (configuration_jamba.py, modeling_jamba.py of transformers 5.24): one layer in a period has
// attention that does not rotate, the others the mixer of Mamba-1 with norms of steps, B and C; the
// mlp behind is a mixture of experts in one layer of another period.

struct jamba {
    struct decoder decoder;
    int64_t num_experts, num_experts_per_tok, expert_layer_period, expert_layer_offset;
    int64_t attn_layer_period, attn_layer_offset;
    int64_t mamba_expand;
    const char *hidden_act;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("intermediate_size", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("num_key_value_heads", kv_head_count, 1, HEADS_MAX)},
    {DECODER_I64("head_dim", head_dim, 1, HEADS_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct jamba, num_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct jamba, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct jamba, expert_layer_period, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct jamba, expert_layer_offset, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct jamba, attn_layer_period, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct jamba, attn_layer_offset, 0, LAYERS_MAX)},
    {DECODER_I64("mamba_d_state", scan.state, 1, HEADS_MAX)},
    {DECODER_I64("mamba_d_conv", scan.taps, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct jamba, mamba_expand, 1, HEADS_MAX)},
    {DECODER_F64("rms_norm_eps", norm_epsilon, 1e-30, 1)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_TEXT(struct jamba, hidden_act)},
    {DECODER_BOOL("mamba_conv_bias", scan.conv_bias)},
    {DECODER_BOOL("mamba_proj_bias", scan.bias)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("mamba_dt_rank")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads "
                  "num_experts num_experts_per_tok mamba_d_state",
    .dimensions_or_null = "num_key_value_heads",
    .optional = "max_position_embeddings expert_layer_period expert_layer_offset attn_layer_period "
                "attn_layer_offset mamba_d_conv mamba_expand rms_norm_eps attention_dropout "
                "hidden_act mamba_conv_bias mamba_proj_bias tie_word_embeddings"};

static bool is_in_turn(int64_t layer, int64_t period, int64_t offset)
{
    assert(offset >= 0 && offset < period);
    return layer % period == offset;
}

// Which layers attend, and which have experts: with one expert none has.
static void set_layers(struct family_reader *reader, const struct jamba *record,
                       struct decoder *decoder)
{
    assert(record->decoder.layer_count > 0);
    int64_t count = record->decoder.layer_count;
    uint8_t *parts = ARENA_NEW(reader->arena, uint8_t, count);
    bool *is_dense = ARENA_NEW(reader->arena, bool, count), all_dense = true;
    for (int64_t i = 0; i < count; i++) {
        bool attends = is_in_turn(i, record->attn_layer_period, record->attn_layer_offset);
        parts[i] = (attends ? LAYER_ATTENTION : LAYER_SCAN) | LAYER_MLP;
        is_dense[i] = record->num_experts == 1 ||
                      !is_in_turn(i, record->expert_layer_period, record->expert_layer_offset);
        all_dense = all_dense && is_dense[i];
    }
    decoder->parts = parts;
    if (all_dense) return;
    decoder->experts = (struct experts){.count = record->num_experts,
                                        .top_k = record->num_experts_per_tok,
                                        .ffn = record->decoder.ffn,
                                        .route = FUNCTION_ROUTE_SOFTMAX,
                                        .route_scale = 1,
                                        .is_dense = is_dense};
    family_check_experts(reader, decoder, "num_experts", "num_experts_per_tok");
}

static void check_offset(struct family_reader *reader, const char *key, int64_t offset,
                         int64_t period)
{
    if (offset < period || reader->err->kind) return;
    family_fail(reader, key, "%lld; expected less than the period, %lld", (long long)offset,
                (long long)period);
}

static const void *read_jamba(struct family_reader *reader)
{
    struct jamba record = {.decoder.model_type = "jamba",
                           .decoder.norm = FUNCTION_RMS_NORM,
                           .decoder.gated = true,
                           .decoder.scan.rule = SCAN_MAMBA1,
                           .decoder.seq_len_max = 262144,
                           .expert_layer_period = 2,
                           .expert_layer_offset = 1,
                           .attn_layer_period = 8,
                           .attn_layer_offset = 4,
                           .decoder.scan.taps = 4,
                           .mamba_expand = 2,
                           .decoder.norm_epsilon = 1e-6,
                           .hidden_act = "silu",
                           .decoder.scan.conv_bias = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    int64_t rank = family_step_rank(reader, "mamba_dt_rank", record.decoder.hidden);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = record.decoder;
    decoder.scan.head_count = record.mamba_expand * decoder.hidden;
    decoder.scan.low_epsilon = decoder.norm_epsilon;
    decoder.activation = family_activation(reader, "hidden_act", record.hidden_act);
    decoder.scan.activation = decoder.activation;
    decoder.scan.step_rank = rank;
    family_check_heads(reader, &decoder, "num_attention_heads", "num_key_value_heads");
    check_offset(reader, "expert_layer_offset", record.expert_layer_offset,
                 record.expert_layer_period);
    check_offset(reader, "attn_layer_offset", record.attn_layer_offset, record.attn_layer_period);
    if (reader->err->kind) return NULL;
    set_layers(reader, &record, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_JAMBA = {"jamba", read_jamba, decoder_graph, "JambaConfig"};
