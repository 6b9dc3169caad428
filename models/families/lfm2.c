#include "models/families/family.h"

#include <assert.h>

// LFM2 (configuration_lfm2.py and configuration_lfm2_moe.py of transformers 5.24): layers of short
// convolutions, and some that attend, with norms of their heads. The width of the dense mlps is
// 2/3 of what the config says, times a factor and rounded up, unless the config turns that off;
// those of models with experts are as wide as it says.

struct lfm2 {
    struct decoder decoder;
    int64_t block_multiple_of;
    int64_t num_experts, num_experts_per_tok, moe_intermediate_size, num_dense_layers;
    double block_ffn_dim_multiplier, routed_scaling_factor;
    bool block_auto_adjust_ff_dim, norm_topk_prob;
    bool use_expert_bias;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("intermediate_size", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("block_ff_dim", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("num_key_value_heads", kv_head_count, 1, HEADS_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_I64("conv_L_cache", scan.taps, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct lfm2, block_multiple_of, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct lfm2, num_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct lfm2, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct lfm2, moe_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct lfm2, num_dense_layers, 0, LAYERS_MAX)},
    {DECODER_F64("norm_eps", norm_epsilon, 0, 1)},
    {DECODER_F64("rope_theta", rope_theta, 1, 1e15)},
    {JSON_OPT_F64(struct lfm2, block_ffn_dim_multiplier, 1e-6, 1e6)},
    {JSON_OPT_F64(struct lfm2, routed_scaling_factor, 1e-6, 1e6)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {DECODER_BOOL("tie_embedding", tied)},
    {DECODER_BOOL("conv_bias", scan.conv_bias)},
    {JSON_OPT_BOOL(struct lfm2, block_auto_adjust_ff_dim)},
    {JSON_OPT_BOOL(struct lfm2, norm_topk_prob)},
    {JSON_OPT_BOOL(struct lfm2, use_expert_bias)},
    {JSON_OPT_ANY("layer_types")},
    {JSON_OPT_ANY("full_attn_idxs")},
    {JSON_OPT_ANY("rope_parameters")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct json_field ROPE_FIELDS[] = {
    {DECODER_F64("rope_theta", rope_theta, 1, 1e15)},
    {0},
};

#define DIMENSIONS                                                                    \
    "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads " \
    "num_key_value_heads"
#define OPTIONS \
    "max_position_embeddings conv_L_cache norm_eps rope_theta tie_word_embeddings conv_bias"

static const struct family_layer_type TYPES[] = {
    {"conv", LAYER_SCAN | LAYER_MLP},
    {"full_attention", LAYER_ATTENTION | LAYER_MLP},
    {0},
};

// The older files name those that attend by their numbers.
static const uint8_t *read_layers(struct family_reader *reader, int64_t layer_count)
{
    static const char KEY[] = "full_attn_idxs";
    if (reader->err->kind) return NULL;
    if (json_has(reader->object, "layer_types") || !json_has(reader->object, KEY))
        return family_layer_parts(reader, "layer_types", layer_count, TYPES);
    uint8_t *parts = ARENA_NEW(reader->arena, uint8_t, layer_count);
    for (int64_t i = 0; i < layer_count; i++)
        parts[i] = (uint8_t)TYPES[0].parts;
    struct json list = json_get(reader->object, KEY, reader->err);
    int count = json_count(&list, reader->err);
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json item = json_item(&list, i);
        int64_t layer = json_i64(&item, 0, (double)layer_count - 1, reader->err);
        if (!reader->err->kind) parts[layer] = (uint8_t)TYPES[1].parts;
    }
    return parts;
}

static void read_record(struct family_reader *reader, struct lfm2 *record)
{
    family_read(reader, FIELDS, record);
    if (reader->err->kind) return;
    family_read_rope(reader, ROPE_FIELDS, record);
    family_absent(reader, FIELDS, record,
                  &(struct family_keys){.dimensions = DIMENSIONS, .optional = OPTIONS});
    bool has_layers = json_has(reader->object, "layer_types");
    if (has_layers || json_has(reader->object, "full_attn_idxs")) return;
    family_missing(reader, FIELDS, "layer_types");
    reader->ledger->missing =
        arena_print(reader->arena, "%s or \"full_attn_idxs\"", reader->ledger->missing);
}

// The width that is divided is that of all heads: convolutions have no heads of their own.
static struct decoder describe(struct family_reader *reader, const char *model_type,
                               const struct lfm2 *record)
{
    struct decoder decoder = record->decoder;
    decoder.model_type = model_type;
    decoder.scan.head_count = decoder.scan.group_count = decoder.head_count;
    decoder.scan.bias = decoder.scan.conv_bias;
    family_check_heads(reader, &decoder, "num_attention_heads", "num_key_value_heads");
    decoder.rotary_dims = decoder.head_dim / 2 * 2;
    decoder.scan.head_dim = decoder.head_dim;
    decoder.parts = read_layers(reader, decoder.layer_count);
    return decoder;
}

static struct lfm2 defaults(void)
{
    return (struct lfm2){.decoder.norm = FUNCTION_RMS_NORM,
                         .decoder.gated = true,
                         .decoder.activation = FUNCTION_SILU,
                         .decoder.head_norms = true,
                         .decoder.scan.rule = SCAN_CONV,
                         .decoder.scan.activation = FUNCTION_NONE,
                         .decoder.seq_len_max = 128000,
                         .decoder.scan.taps = 3,
                         .block_multiple_of = 256,
                         .decoder.norm_epsilon = 1e-5,
                         .decoder.rope_theta = 1e6,
                         .block_ffn_dim_multiplier = 1,
                         .routed_scaling_factor = 1,
                         .decoder.tied = true,
                         .block_auto_adjust_ff_dim = true,
                         .norm_topk_prob = true,
                         .use_expert_bias = true};
}

static int64_t adjusted(const struct lfm2 *record)
{
    assert(record->decoder.ffn > 0 && record->block_multiple_of > 0);
    if (!record->block_auto_adjust_ff_dim) return record->decoder.ffn;
    int64_t width = 2 * record->decoder.ffn / 3, multiple = record->block_multiple_of;
    width = (int64_t)(record->block_ffn_dim_multiplier * (double)width);
    return (width + multiple - 1) / multiple * multiple;
}

static const void *read_lfm2(struct family_reader *reader)
{
    struct lfm2 record = defaults();
    read_record(reader, &record);
    family_absent(reader, FIELDS, &record,
                  &(struct family_keys){.optional = "block_auto_adjust_ff_dim block_multiple_of "
                                                    "block_ffn_dim_multiplier"});
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe(reader, "lfm2", &record);
    decoder.ffn = adjusted(&record);
    if (!reader->err->kind && (decoder.ffn < 1 || decoder.ffn > WIDTH_MAX)) {
        family_fail(reader, "intermediate_size", "adjusted, mlps are %lld wide",
                    (long long)decoder.ffn);
    }
    return family_decoder(reader, &decoder);
}

static void set_experts(struct family_reader *reader, const struct lfm2 *record,
                        struct decoder *decoder)
{
    if (reader->err->kind) return;
    assert(record->num_dense_layers >= 0);
    bool *is_dense = ARENA_NEW(reader->arena, bool, decoder->layer_count);
    for (int64_t i = 0; i < decoder->layer_count; i++)
        is_dense[i] = i < record->num_dense_layers;
    bool all_dense = record->num_dense_layers >= decoder->layer_count;
    decoder->experts = (struct experts){
        .count = record->num_experts,
        .top_k = record->num_experts_per_tok,
        .ffn = record->moe_intermediate_size,
        .route = record->norm_topk_prob ? FUNCTION_ROUTE_SIGMOID_TOP_K : FUNCTION_ROUTE_SIGMOID,
        .route_scale = record->routed_scaling_factor,
        .route_epsilon = 1e-6,  // route_tokens_to_experts has no key for it
        .choice_bias = record->use_expert_bias,
        .is_dense = is_dense,
    };
    family_check_experts(reader, decoder, "num_experts", "num_experts_per_tok");
    if (all_dense) decoder->experts = (struct experts){0};
}

static const void *read_lfm2_moe(struct family_reader *reader)
{
    struct lfm2 record = defaults();
    record.num_dense_layers = -1;  // must be given; 0 has a meaning
    read_record(reader, &record);
    family_absent(reader, FIELDS, &record,
                  &(struct family_keys){.dimensions = "num_experts num_experts_per_tok "
                                                      "moe_intermediate_size num_dense_layers",
                                        .optional = "norm_topk_prob routed_scaling_factor "
                                                    "use_expert_bias"});
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe(reader, "lfm2_moe", &record);
    set_experts(reader, &record, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_LFM2 = {"lfm2", read_lfm2, decoder_graph, "Lfm2Config"};
const struct model_family FAMILY_LFM2_MOE = {"lfm2_moe", read_lfm2_moe, decoder_graph,
                                             "Lfm2MoeConfig"};
