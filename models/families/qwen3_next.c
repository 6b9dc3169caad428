#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

#include <assert.h>

// Qwen3-Next and Qwen3.5 (configuration_qwen3_next.py, modular_qwen3_5.py of transformers 5.23):
// of so many layers one attends, with a gate on what it makes and norms of its heads; the others
// have the gated delta rule in its place.

struct linear {
    int64_t linear_num_key_heads, linear_num_value_heads;
    int64_t linear_key_head_dim, linear_value_head_dim, linear_conv_kernel_dim;
    int64_t full_attention_interval;
    bool linear_allow_neg_eigval;  // of olmo_hybrid
};
#define LINEAR_DEFAULTS .linear_conv_kernel_dim = 4, .full_attention_interval = 4

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct linear, linear_num_key_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct linear, linear_num_value_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct linear, linear_key_head_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct linear, linear_value_head_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct linear, linear_conv_kernel_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct linear, full_attention_interval, 1, LAYERS_MAX)},
    {JSON_OPT_BOOL(struct linear, linear_allow_neg_eigval)},
    {0},
};

static const struct family_layer_type TYPES[] = {
    {"full_attention", LAYER_ATTENTION | LAYER_MLP},
    {"linear_attention", LAYER_SCAN | LAYER_MLP},
    {0},
};

static const uint8_t *read_layers(struct family_reader *reader, const struct linear *linear,
                                  int64_t layer_count)
{
    int64_t interval = linear->full_attention_interval;
    if (reader->err->kind || json_has(reader->object, "layer_types"))
        return family_layer_parts(reader, "layer_types", layer_count, TYPES);
    assert(interval > 0 && layer_count > 0);
    uint8_t *parts = ARENA_NEW(reader->arena, uint8_t, layer_count);
    for (int64_t i = 0; i < layer_count; i++)
        parts[i] = (uint8_t)TYPES[(i + 1) % interval != 0].parts;
    family_taken(reader, "layer_types", "by rule (full_attention_interval %lld)",
                 (long long)interval);
    return parts;
}

// All kernels of the delta rule work on so many tokens at once.
enum { CHUNK = 64 };

static void set_scan(struct family_reader *reader, const struct linear *linear,
                     struct decoder *decoder)
{
    assert(linear->linear_num_key_heads > 0 && linear->linear_num_value_heads > 0);
    decoder->parts = read_layers(reader, linear, decoder->layer_count);
    decoder->scan = (struct scan_sizes){.rule = SCAN_DELTA,
                                        .head_count = linear->linear_num_value_heads,
                                        .head_dim = linear->linear_value_head_dim,
                                        .group_count = linear->linear_num_key_heads,
                                        .state = linear->linear_key_head_dim,
                                        .taps = linear->linear_conv_kernel_dim,
                                        .chunk = CHUNK,
                                        .activation = decoder->activation};
    family_check_scan(reader, decoder, "linear_num_value_heads", "linear_num_key_heads");
}

static const struct family_keys KEYS = {
    .dimensions = "linear_num_key_heads linear_num_value_heads linear_key_head_dim "
                  "linear_value_head_dim",
    .optional = "linear_conv_kernel_dim"};

// `keys`: of experts, or NULL.
static struct decoder read_common(struct family_reader *reader, const char *model_type,
                                  struct llama_like *record, struct expert_keys *keys)
{
    struct linear linear = {LINEAR_DEFAULTS};
    record->has_own_types = true;
    record->dimensions = "head_dim";
    record->dimensions_or_null = "num_key_value_heads";
    record->optional = "hidden_act rms_norm_eps attention_bias partial_rotary_factor";
    llama_like_read(reader, record);
    if (keys) expert_keys_read(reader, keys, record->num_hidden_layers);
    family_read(reader, FIELDS, &linear);
    family_absent(reader, FIELDS, &linear, &KEYS);
    struct decoder decoder = llama_like_decoder(reader, model_type, record);
    if (reader->err->kind) return decoder;
    decoder.qkv_bias = decoder.out_bias = record->attention_bias;
    decoder.head_norms = true;
    decoder.attention_gate = true;
    set_scan(reader, &linear, &decoder);
    return decoder;
}

static struct llama_like defaults(void)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 32768};
    record.partial_rotary_factor = 0.25;
    return record;
}

static void set_shared_expert(struct decoder *decoder, const struct expert_keys *keys)
{
    decoder->experts.shared_ffn = keys->shared_expert_intermediate_size;
    decoder->experts.shared_gate = true;
}

#define EXPERT_DIMENSIONS                                    \
    "num_experts num_experts_per_tok moe_intermediate_size " \
    "shared_expert_intermediate_size"

static const void *read_qwen3_next(struct family_reader *reader)
{
    struct llama_like record = defaults();
    struct expert_keys keys = {.decoder_sparse_step = 1,
                               .norm_topk_prob = true,
                               .dimensions = EXPERT_DIMENSIONS,
                               .optional = "decoder_sparse_step norm_topk_prob mlp_only_layers"};
    struct decoder decoder = read_common(reader, "qwen3_next", &record, &keys);
    expert_keys_apply(reader, &keys, &decoder);
    set_shared_expert(&decoder, &keys);
    return family_decoder(reader, &decoder);
}

static const void *read_qwen3_5(struct family_reader *reader)
{
    struct llama_like record = defaults();
    struct decoder decoder = read_common(reader, "qwen3_5_text", &record, NULL);
    return family_decoder(reader, &decoder);
}

// All layers have experts, and no other mlp.
static const void *read_qwen3_5_moe(struct family_reader *reader)
{
    struct llama_like record = defaults();
    struct expert_keys keys = {.norm_topk_prob = true, .dimensions = EXPERT_DIMENSIONS};
    record.lacks_ffn = true;
    struct decoder decoder = read_common(reader, "qwen3_5_moe_text", &record, &keys);
    expert_keys_everywhere(reader, &keys, keys.moe_intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    set_shared_expert(&decoder, &keys);
    decoder.ffn = keys.moe_intermediate_size;
    return family_decoder(reader, &decoder);
}

// Whether a base is given, as null: nothing rotates.
static bool lacks_rope(const struct family_reader *reader)
{
    struct family_reader part = *reader;
    struct json rope = {0};
    if (json_has(reader->object, "rope_parameters")) {
        rope = json_get(reader->object, "rope_parameters", reader->err);
        part.object = &rope;
    }
    return json_is_object(part.object) && family_is_null(&part, "rope_theta");
}

// OLMo Hybrid: layers that attend are olmo's, which norm what their parts return, and others have
// norms in front.
static const void *read_olmo_hybrid(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 65536,
                                .has_own_types = true, .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias"};
    struct linear linear = {LINEAR_DEFAULTS, .linear_allow_neg_eigval = true};
    struct family_keys keys = KEYS;
    keys.optional = "linear_conv_kernel_dim linear_allow_neg_eigval";
    bool is_unrotated = lacks_rope(reader);
    if (is_unrotated) record.rope_theta = 0;
    llama_like_read(reader, &record);
    family_read(reader, FIELDS, &linear);
    family_absent(reader, FIELDS, &linear, &keys);
    record.head_dim = 0;  // not among its keys
    struct decoder decoder = llama_like_decoder(reader, "olmo_hybrid", &record);
    if (reader->err->kind) return NULL;
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.norm_place = NORM_RESULT;
    decoder.head_norms = decoder.head_norms_whole = true;
    set_scan(reader, &linear, &decoder);
    decoder.scan.out_epsilon = 1e-5;  // OlmoHybridGatedDeltaNet has no key for it
    decoder.scan.beta_is_doubled = linear.linear_allow_neg_eigval;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_OLMO_HYBRID = {"olmo_hybrid", read_olmo_hybrid, decoder_graph,
                                                "OlmoHybridConfig"};
const struct model_family FAMILY_QWEN3_NEXT = {"qwen3_next", read_qwen3_next, decoder_graph,
                                               "Qwen3NextConfig"};
const struct model_family FAMILY_QWEN3_5_TEXT = {"qwen3_5_text", read_qwen3_5, decoder_graph,
                                                 "Qwen3_5TextConfig"};
const struct model_family FAMILY_QWEN3_5_MOE_TEXT = {"qwen3_5_moe_text", read_qwen3_5_moe,
                                                     decoder_graph, "Qwen3_5MoeTextConfig"};
