#include "models/families/family.h"

#include <assert.h>
#include <string.h>

// Kimi Linear (configuration_kimi_linear.py of transformers 5.23): some layers have latent
// attention without rope, the others the delta rule with a decay for each channel; experts as those
// of DeepSeek-V3, behind a first dense layer. The keys of its checkpoints have names of their own
// for what transformers calls as in other families.

struct kimi_linear {
    struct decoder decoder;
    int64_t num_key_value_heads;
    int64_t num_experts, num_experts_per_token, num_shared_experts;
    int64_t moe_intermediate_size, num_expert_group, topk_group, first_k_dense_replace;
    const char *hidden_act;
    double routed_scaling_factor;
    bool moe_renormalize;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("intermediate_size", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct kimi_linear, num_key_value_heads, 1, HEADS_MAX)},
    {DECODER_I64("q_lora_rank", latent.q_rank, 1, WIDTH_MAX)},
    {DECODER_I64("kv_lora_rank", latent.kv_rank, 1, WIDTH_MAX)},
    {DECODER_I64("qk_nope_head_dim", latent.nope_dim, 1, HEADS_MAX)},
    {DECODER_I64("qk_rope_head_dim", latent.rope_dim, 1, HEADS_MAX)},
    {DECODER_I64("v_head_dim", latent.value_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct kimi_linear, num_experts, 1, EXPERTS_MAX)},
    {"num_local_experts", JSON_TYPE_I64, offsetof(struct kimi_linear, num_experts), 1, EXPERTS_MAX,
     true},
    {JSON_OPT_I64(struct kimi_linear, num_experts_per_token, 1, EXPERTS_MAX)},
    {"num_experts_per_tok", JSON_TYPE_I64, offsetof(struct kimi_linear, num_experts_per_token), 1,
     EXPERTS_MAX, true},
    {JSON_OPT_I64(struct kimi_linear, num_shared_experts, 0, EXPERTS_MAX)},
    {"n_shared_experts", JSON_TYPE_I64, offsetof(struct kimi_linear, num_shared_experts), 0,
     EXPERTS_MAX, true},
    {JSON_OPT_I64(struct kimi_linear, moe_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct kimi_linear, num_expert_group, 1, EXPERTS_MAX)},
    {"n_group", JSON_TYPE_I64, offsetof(struct kimi_linear, num_expert_group), 1, EXPERTS_MAX,
     true},
    {JSON_OPT_I64(struct kimi_linear, topk_group, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct kimi_linear, first_k_dense_replace, 0, LAYERS_MAX)},
    {DECODER_I64("model_max_length", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_I64("linear_num_heads", scan.head_count, 1, HEADS_MAX)},
    {DECODER_I64("linear_head_dim", scan.head_dim, 1, HEADS_MAX)},
    {DECODER_I64("linear_conv_kernel_dim", scan.taps, 1, HEADS_MAX)},
    {JSON_OPT_TEXT(struct kimi_linear, hidden_act)},
    {JSON_OPT_F64(struct kimi_linear, routed_scaling_factor, 1e-6, 1e6)},
    {DECODER_F64("rms_norm_eps", norm_epsilon, 0, 1)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct kimi_linear, moe_renormalize)},
    {"norm_topk_prob", JSON_TYPE_BOOL, offsetof(struct kimi_linear, moe_renormalize), 0, 0, true},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {DECODER_BOOL("attention_bias", qkv_bias)},
    {JSON_OPT_ANY("layer_types")},
    {JSON_OPT_ANY("mlp_layer_types")},
    {JSON_OPT_ANY("linear_attn_config")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads "
                  "kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim num_experts "
                  "num_experts_per_token num_shared_experts moe_intermediate_size",
    .dimensions_or_null = "q_lora_rank num_key_value_heads",
    .optional = "model_max_length hidden_act rms_norm_eps attention_dropout attention_bias "
                "tie_word_embeddings num_expert_group topk_group routed_scaling_factor "
                "moe_renormalize"};

// The object of checkpoints beside which the keys above do not count.
static const struct json_field LINEAR_FIELDS[] = {
    {DECODER_I64("num_heads", scan.head_count, 1, HEADS_MAX)},
    {DECODER_I64("head_dim", scan.head_dim, 1, HEADS_MAX)},
    {DECODER_I64("short_conv_kernel_size", scan.taps, 1, HEADS_MAX)},
    {JSON_OPT_ANY("full_attn_layers")},
    {JSON_OPT_ANY("kda_layers")},
    {0},
};

static const struct family_layer_type TYPES[] = {
    {"full_attention", LAYER_ATTENTION | LAYER_MLP},
    {"linear_attention", LAYER_SCAN | LAYER_MLP},
    {0},
};

static const struct family_layer_type MLP_TYPES[] = {{"dense", 1}, {"sparse", 2}, {0}};

// The numbers of the layers that attend, from 1 on; the others do not.
static const uint8_t *read_numbers(struct family_reader *reader, const struct json *linear,
                                   int64_t layer_count)
{
    uint8_t *parts = ARENA_NEW(reader->arena, uint8_t, layer_count);
    assert(layer_count > 0);
    struct json list = json_get(linear, "full_attn_layers", reader->err);
    int count = json_count(&list, reader->err);
    for (int64_t i = 0; i < layer_count; i++)
        parts[i] = (uint8_t)TYPES[1].parts;
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json item = json_item(&list, i);
        int64_t layer = json_i64(&item, 1, (double)layer_count, reader->err);
        if (!reader->err->kind) parts[layer - 1] = (uint8_t)TYPES[0].parts;
    }
    return parts;
}

static const uint8_t *read_layers(struct family_reader *reader, int64_t layer_count)
{
    enum { INTERVAL = 4 };
    if (reader->err->kind) return NULL;
    if (json_has(reader->object, "layer_types"))
        return family_layer_parts(reader, "layer_types", layer_count, TYPES);
    if (json_has(reader->object, "linear_attn_config")) {
        struct json linear = json_get(reader->object, "linear_attn_config", reader->err);
        bool has_lists = json_has(&linear, "full_attn_layers") && json_has(&linear, "kda_layers");
        if (has_lists) return read_numbers(reader, &linear, layer_count);
    }
    uint8_t *parts = ARENA_NEW(reader->arena, uint8_t, layer_count);
    for (int64_t i = 0; i < layer_count; i++)
        parts[i] = (uint8_t)TYPES[i == 0 || i % INTERVAL != 0].parts;
    family_taken(reader, "layer_types", "by rule (1 in %d attends)", INTERVAL);
    return parts;
}

static const bool *read_dense(struct family_reader *reader, const struct kimi_linear *record)
{
    if (reader->err->kind) return NULL;
    bool *is_dense = ARENA_NEW(reader->arena, bool, record->decoder.layer_count);
    const uint8_t *given = NULL;
    if (json_has(reader->object, "mlp_layer_types"))
        given =
            family_layer_parts(reader, "mlp_layer_types", record->decoder.layer_count, MLP_TYPES);
    for (int64_t i = 0; i < record->decoder.layer_count; i++)
        is_dense[i] = given ? given[i] == MLP_TYPES[0].parts : i < record->first_k_dense_replace;
    return is_dense;
}

static void set_experts(struct family_reader *reader, const struct kimi_linear *record,
                        struct decoder *decoder)
{
    assert(record->num_expert_group > 0 && record->topk_group > 0);
    decoder->experts = (struct experts){
        .count = record->num_experts,
        .top_k = record->num_experts_per_token,
        .group_count = record->num_expert_group > 1 ? record->num_expert_group : 0,
        .open_groups = record->num_expert_group > 1 ? record->topk_group : 0,
        .ffn = record->moe_intermediate_size,
        .shared_ffn = record->moe_intermediate_size * record->num_shared_experts,
        .route = record->moe_renormalize ? FUNCTION_ROUTE_SIGMOID_TOP_K : FUNCTION_ROUTE_SIGMOID,
        .route_scale = record->routed_scaling_factor,
        .choice_bias = true,
        .is_dense = read_dense(reader, record),
    };
    if (!reader->err->kind && (record->num_experts % record->num_expert_group != 0 ||
                               record->topk_group > record->num_expert_group))
        family_fail(reader, "num_expert_group",
                    "%lld experts in %lld groups, of which %lld are open",
                    (long long)record->num_experts, (long long)record->num_expert_group,
                    (long long)record->topk_group);
    family_check_experts(reader, decoder, "num_experts", "num_experts_per_token");
}

// What checkpoints have in an object of its own.
static void read_linear(struct family_reader *reader, struct kimi_linear *record)
{
    struct json linear = json_get(reader->object, "linear_attn_config", reader->err);
    struct family_reader inside = *reader;
    inside.object = &linear;
    inside.prefix = "linear_attn_config.";
    family_read(&inside, LINEAR_FIELDS, record);
    bool has_types = json_has(reader->object, "layer_types");
    const char *dimensions =
        has_types ? "num_heads head_dim" : "num_heads head_dim full_attn_layers kda_layers";
    family_absent(
        &inside, LINEAR_FIELDS, record,
        &(struct family_keys){.dimensions = dimensions, .optional = "short_conv_kernel_size"});
}

static void read_record(struct family_reader *reader, struct kimi_linear *record)
{
    static const struct family_keys LINEAR = {.dimensions = "linear_num_heads linear_head_dim",
                                              .optional = "linear_conv_kernel_dim"};
    family_read(reader, FIELDS, record);
    if (reader->err->kind) return;
    if (family_is_null(reader, "q_lora_rank")) record->decoder.latent.q_rank = 0;
    family_absent(reader, FIELDS, record, &KEYS);
    if (!json_has(reader->object, "mlp_layer_types") &&
        !json_has(reader->object, "first_k_dense_replace"))
        family_taken(reader, "mlp_layer_types", "by rule (first_k_dense_replace 1)");
    if (json_has(reader->object, "linear_attn_config")) {
        read_linear(reader, record);
    } else if (json_has(reader->object, "linear_num_heads") ||
               json_has(reader->object, "linear_head_dim")) {
        family_absent(reader, FIELDS, record, &LINEAR);
    } else {
        family_missing(reader, FIELDS, "linear_attn_config");
    }
}

static const void *read_kimi_linear(struct family_reader *reader)
{
    enum { CHUNK = 64 };  // all kernels of the delta rule work on so many tokens at once
    struct kimi_linear record = {.decoder.model_type = "kimi_linear",
                                 .decoder.norm = FUNCTION_RMS_NORM,
                                 .decoder.gated = true,
                                 .decoder.scan.rule = SCAN_DELTA_CHANNELS,
                                 .decoder.scan.chunk = CHUNK,
                                 .num_expert_group = 1,
                                 .topk_group = 1,
                                 .first_k_dense_replace = 1,
                                 .decoder.seq_len_max = 1048576,
                                 .decoder.scan.taps = 4,
                                 .hidden_act = "silu",
                                 .routed_scaling_factor = 2.446,
                                 .decoder.norm_epsilon = 1e-5,
                                 .moe_renormalize = true};
    read_record(reader, &record);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = record.decoder;
    assert(decoder.latent.kv_rank > 0 && decoder.scan.head_count > 0);
    decoder.kv_head_count = decoder.head_count;
    decoder.head_dim = decoder.latent.nope_dim + decoder.latent.rope_dim;
    decoder.out_bias = decoder.qkv_bias;
    decoder.scan.group_count = decoder.scan.head_count;
    decoder.scan.state = decoder.scan.head_dim;
    decoder.activation = family_activation(reader, "hidden_act", record.hidden_act);
    decoder.scan.activation = decoder.activation;
    decoder.parts = read_layers(reader, decoder.layer_count);
    set_experts(reader, &record, &decoder);
    long long heads = record.decoder.head_count, kv_heads = record.num_key_value_heads;
    if (!reader->err->kind && kv_heads > 0 && kv_heads != heads)
        family_fail(reader, "num_key_value_heads",
                    "%lld key-value heads for %lld heads; latent attention has as many", kv_heads,
                    heads);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_KIMI_LINEAR = {"kimi_linear", read_kimi_linear, decoder_graph,
                                                "KimiLinearConfig"};
