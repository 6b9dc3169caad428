#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

#include <assert.h>
#include <math.h>

// GLM-4.5: ordinary attention, the first layers dense, experts chosen by sigmoid scores beside
// shared ones, and a multi-token prediction module. dots.llm1, Solar Open, Sarvam and Hunyuan 3
// have such experts and no module.

struct glm_moe {
    int64_t n_routed_experts, num_experts_per_tok, n_shared_experts, moe_intermediate_size;
    int64_t first_k_dense_replace, num_nextn_predict_layers;
    int64_t global_attn_every_n_layers;
    double routed_scaling_factor;
    bool norm_topk_prob, use_qk_norm, mup_enabled;
    bool has_types;  // mlp_layer_types says which layers are dense
};

#define ALSO(key, member, high) key, JSON_TYPE_I64, offsetof(struct glm_moe, member), 0, high, true

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct glm_moe, n_routed_experts, 1, EXPERTS_MAX)},
    {"num_local_experts", JSON_TYPE_I64, offsetof(struct glm_moe, n_routed_experts), 1, EXPERTS_MAX,
     true},
    {JSON_OPT_I64(struct glm_moe, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct glm_moe, n_shared_experts, 0, EXPERTS_MAX)},
    {JSON_OPT_I64(struct glm_moe, moe_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct glm_moe, first_k_dense_replace, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct glm_moe, num_nextn_predict_layers, 0, MTP_MAX)},
    {"num_mtp_layers", JSON_TYPE_I64, offsetof(struct glm_moe, num_nextn_predict_layers), 0,
     MTP_MAX, true},
    {JSON_OPT_F64(struct glm_moe, routed_scaling_factor, 1e-6, 1e6)},
    {JSON_OPT_BOOL(struct glm_moe, norm_topk_prob)},
    {JSON_OPT_BOOL(struct glm_moe, use_qk_norm)},
    // Which groups of experts are open changes neither shapes nor work.
    {JSON_OPT_ANY("n_group")},
    {JSON_OPT_ANY("topk_group")},
    {0},
};

// Hunyuan 3 and Sarvam have other names for some of them.
static const struct json_field OTHER_FIELDS[] = {
    {ALSO("num_experts", n_routed_experts, EXPERTS_MAX)},
    {ALSO("n_routed_experts", n_routed_experts, EXPERTS_MAX)},
    {ALSO("num_local_experts", n_routed_experts, EXPERTS_MAX)},
    {ALSO("num_shared_experts", n_shared_experts, EXPERTS_MAX)},
    {ALSO("n_shared_experts", n_shared_experts, EXPERTS_MAX)},
    {JSON_OPT_I64(struct glm_moe, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct glm_moe, moe_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct glm_moe, first_k_dense_replace, 0, LAYERS_MAX)},
    {JSON_OPT_F64(struct glm_moe, routed_scaling_factor, 1e-6, 1e6)},
    {"router_scaling_factor", JSON_TYPE_F64, offsetof(struct glm_moe, routed_scaling_factor), 1e-6,
     1e6, true},
    {JSON_OPT_BOOL(struct glm_moe, norm_topk_prob)},
    {JSON_OPT_BOOL(struct glm_moe, use_qk_norm)},
    {JSON_OPT_ANY("n_group")},
    {JSON_OPT_ANY("topk_group")},
    {JSON_OPT_ANY("mlp_layer_types")},
    {0},
};

// And AFMoE for more.
static const struct json_field AFMOE_FIELDS[] = {
    {ALSO("num_experts", n_routed_experts, EXPERTS_MAX)},
    {ALSO("num_shared_experts", n_shared_experts, EXPERTS_MAX)},
    {ALSO("num_dense_layers", first_k_dense_replace, LAYERS_MAX)},
    {JSON_OPT_I64(struct glm_moe, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct glm_moe, moe_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct glm_moe, global_attn_every_n_layers, 1, LAYERS_MAX)},
    {"route_scale", JSON_TYPE_F64, offsetof(struct glm_moe, routed_scaling_factor), 1e-6, 1e6,
     true},
    {JSON_OPT_BOOL(struct glm_moe, mup_enabled)},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "n_routed_experts num_experts_per_tok n_shared_experts moe_intermediate_size "
                  "first_k_dense_replace",
    .optional = "num_nextn_predict_layers routed_scaling_factor norm_topk_prob use_qk_norm"};

static const struct family_keys DOTS1_KEYS = {
    .dimensions = "n_routed_experts num_experts_per_tok n_shared_experts moe_intermediate_size "
                  "first_k_dense_replace",
    .optional = "routed_scaling_factor norm_topk_prob"};

static const bool *dense_layers(struct family_reader *reader, const struct glm_moe *record,
                                int64_t layer_count)
{
    const bool *listed = record->has_types ? expert_keys_dense(reader, layer_count) : NULL;
    if (listed || record->first_k_dense_replace == 0) return listed;
    bool *is_dense = ARENA_NEW(reader->arena, bool, layer_count);
    for (int64_t i = 0; i < layer_count && i < record->first_k_dense_replace; i++)
        is_dense[i] = true;
    return is_dense;
}

static void set_experts(struct family_reader *reader, const struct glm_moe *record,
                        struct decoder *decoder)
{
    if (reader->err->kind) return;
    assert(decoder->layer_count > 0 && record->num_experts_per_tok > 0);
    int64_t shared_ffn = record->n_shared_experts * record->moe_intermediate_size;
    decoder->experts = (struct experts){
        .count = record->n_routed_experts,
        .top_k = record->num_experts_per_tok,
        .ffn = record->moe_intermediate_size,
        .shared_ffn = shared_ffn,
        .route = record->norm_topk_prob ? FUNCTION_ROUTE_SIGMOID_TOP_K : FUNCTION_ROUTE_SIGMOID,
        .route_scale = record->routed_scaling_factor,
        .is_dense = dense_layers(reader, record, decoder->layer_count),
    };
    if (shared_ffn > WIDTH_MAX) {
        family_fail(reader, "n_shared_experts", "together the shared experts are wider than %d",
                    WIDTH_MAX);
    }
    const char *count_key = family_key(reader, "n_routed_experts", "num_local_experts");
    if (json_has(reader->object, "num_experts")) count_key = "num_experts";
    family_check_experts(reader, decoder, count_key, "num_experts_per_tok");
}

// The text of GLM-4.5V has no module, biases if nothing is said, and no norms of heads.
static const void *read_as(struct family_reader *reader, bool is_text)
{
    struct llama_like record = {
        LLAMA_LIKE_DEFAULTS, .max_position_embeddings = is_text ? 65536 : 131072,
        .attention_bias = is_text, .dimensions_or_null = "num_key_value_heads",
        .optional = "hidden_act rms_norm_eps partial_rotary_factor attention_bias"};
    struct glm_moe experts = {.num_nextn_predict_layers = is_text ? 0 : 1,
                              .routed_scaling_factor = 1,
                              .norm_topk_prob = true};
    record.rms_norm_eps = 1e-5;
    record.partial_rotary_factor = 0.5;
    llama_like_read(reader, &record);
    if (!reader->err->kind) family_read(reader, FIELDS, &experts);
    family_absent(reader, FIELDS, &experts, is_text ? &DOTS1_KEYS : &KEYS);
    if (!family_complete(reader)) return NULL;
    // Heads need not divide hidden: the rest is cut off.
    if (record.head_dim == 0) {
        record.head_dim = record.hidden_size / record.num_attention_heads;
        family_taken(reader, "head_dim", "%lld (hidden_size / num_attention_heads)",
                     (long long)record.head_dim);
    }
    struct decoder decoder =
        llama_like_decoder(reader, is_text ? "glm4v_moe_text" : "glm4_moe", &record);
    decoder.qkv_bias = record.attention_bias;
    decoder.head_norms = experts.use_qk_norm && !is_text;
    decoder.mtp_count = is_text ? 0 : experts.num_nextn_predict_layers;
    set_experts(reader, &experts, &decoder);
    decoder.experts.choice_bias = true;
    return family_decoder(reader, &decoder);
}

static const void *read_glm4_moe(struct family_reader *reader)
{
    return read_as(reader, false);
}

static const void *read_glm4v_moe(struct family_reader *reader)
{
    return read_as(reader, true);
}

static const struct family_keys SOLAR_KEYS = {
    .dimensions = "n_routed_experts num_experts_per_tok n_shared_experts moe_intermediate_size",
    .optional = "routed_scaling_factor norm_topk_prob"};

// The rest of reading of both.
static struct decoder read_plain(struct family_reader *reader, const char *model_type,
                                 struct llama_like *record, struct glm_moe *experts,
                                 const struct json_field *fields, const struct family_keys *keys)
{
    llama_like_read(reader, record);
    if (!reader->err->kind) family_read(reader, fields, experts);
    family_absent(reader, fields, experts, keys);
    struct decoder decoder = llama_like_decoder(reader, model_type, record);
    decoder.qkv_bias = record->attention_bias;
    set_experts(reader, experts, &decoder);
    decoder.experts.choice_bias = true;
    return decoder;
}

// Norms of heads; windows from max_window_layers on, where there are any.
static const void *read_dots1(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048,
                                .max_window_layers = 62,
                                .dimensions_or_null = "num_key_value_heads sliding_window",
                                .optional = "hidden_act rms_norm_eps attention_bias"};
    struct glm_moe experts = {.routed_scaling_factor = 1};
    struct decoder decoder = read_plain(reader, "dots1", &record, &experts, FIELDS, &DOTS1_KEYS);
    if (reader->err->kind) return NULL;
    decoder.out_bias = record.attention_bias;
    decoder.head_norms = true;
    decoder.window = record.sliding_window;
    bool *is_local = ARENA_NEW(reader->arena, bool, decoder.layer_count);
    for (int64_t i = record.max_window_layers; i < decoder.layer_count; i++)
        is_local[i] = true;
    decoder.has_window =
        llama_like_windows(reader, &record, is_local, "sliding from max_window_layers on");
    return family_decoder(reader, &decoder);
}

// All layers have experts.
static const void *read_solar_open(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,
                                .max_position_embeddings = 131072,
                                .lacks_ffn = true,
                                .dimensions = "head_dim",
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias "
                                            "partial_rotary_factor"};
    struct glm_moe experts = {.routed_scaling_factor = 1, .norm_topk_prob = true};
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 1e6;
    struct decoder decoder =
        read_plain(reader, "solar_open", &record, &experts, FIELDS, &SOLAR_KEYS);
    if (reader->err->kind) return NULL;
    decoder.experts.is_dense = NULL;  // what first_k_dense_replace says is not heeded
    decoder.ffn = decoder.experts.ffn;
    return family_decoder(reader, &decoder);
}

// Norms of heads, and one dense layer in front where mlp_layer_types does not say.
static const void *read_hy_v3(struct family_reader *reader)
{
    static const struct family_keys keys = {
        .dimensions = "num_experts num_experts_per_tok num_shared_experts moe_intermediate_size",
        .optional = "router_scaling_factor"};
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                .dimensions = "num_key_value_heads head_dim",
                                .optional = "hidden_act rms_norm_eps attention_bias mlp_bias"};
    struct glm_moe experts = {.routed_scaling_factor = 2.826,
                              .norm_topk_prob = true,
                              .first_k_dense_replace = 1,
                              .has_types = true};
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 11158840;
    bool is_listed = json_has(reader->object, "mlp_layer_types");
    if (!is_listed) family_taken(reader, "mlp_layer_types", "the first dense");
    struct decoder decoder = read_plain(reader, "hy_v3", &record, &experts, OTHER_FIELDS, &keys);
    decoder.out_bias = record.attention_bias;
    decoder.mlp_bias = record.mlp_bias;
    decoder.head_norms = true;
    if (!reader->err->kind && decoder.mlp_bias)
        family_fail(reader, "mlp_bias", "biases beside experts are not supported");
    return family_decoder(reader, &decoder);
}

static const void *read_sarvam_moe(struct family_reader *reader)
{
    static const struct family_keys keys = {
        .dimensions = "num_experts num_experts_per_tok num_shared_experts moe_intermediate_size "
                      "first_k_dense_replace",
        .optional = "routed_scaling_factor norm_topk_prob use_qk_norm"};
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                .dimensions = "num_key_value_heads head_dim",
                                .optional =
                                    "hidden_act rms_norm_eps partial_rotary_factor attention_bias"};
    struct glm_moe experts = {
        .routed_scaling_factor = 2.5, .norm_topk_prob = true, .use_qk_norm = true};
    record.rope_theta = 8e6;
    struct decoder decoder =
        read_plain(reader, "sarvam_moe", &record, &experts, OTHER_FIELDS, &keys);
    decoder.head_norms = experts.use_qk_norm;
    return family_decoder(reader, &decoder);
}

// Attention has a gate and norms of heads, and rotates where it has a window; norms are in front of
// each part and behind it; what the table says is scaled where mup_enabled says so.
static const void *read_afmoe(struct family_reader *reader)
{
    const struct family_keys keys = {
        .dimensions = "num_experts num_experts_per_tok num_shared_experts moe_intermediate_size "
                      "num_dense_layers",
        .optional = json_has(reader->object, "layer_types")
                        ? "route_scale mup_enabled"
                        : "route_scale mup_enabled global_attn_every_n_layers"};
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 16384,
                                .dimensions = "head_dim",
                                .dimensions_or_null = "num_key_value_heads sliding_window",
                                .optional = "hidden_act rms_norm_eps attention_bias"};
    struct glm_moe experts = {
        .routed_scaling_factor = 1, .norm_topk_prob = true, .global_attn_every_n_layers = 4};
    record.rms_norm_eps = 1e-5;
    struct decoder decoder = read_plain(reader, "afmoe", &record, &experts, AFMOE_FIELDS, &keys);
    if (reader->err->kind) return NULL;
    decoder.norm_place = NORM_BOTH;
    decoder.head_norms = decoder.attention_gate = true;
    decoder.window = record.sliding_window;
    decoder.has_window = llama_like_pattern(reader, &record, experts.global_attn_every_n_layers);
    decoder.is_unrotated = llama_like_others(reader, decoder.has_window, decoder.layer_count);
    if (experts.mup_enabled) decoder.embedding_scale = sqrt((double)decoder.hidden);
    if (decoder.qkv_bias)
        family_fail(reader, "attention_bias", "biases beside a gate without one are not supported");
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_AFMOE = {"afmoe", read_afmoe, decoder_graph, "AfmoeConfig"};
const struct model_family FAMILY_HY_V3 = {"hy_v3", read_hy_v3, decoder_graph, "HYV3Config"};
const struct model_family FAMILY_SARVAM_MOE = {"sarvam_moe", read_sarvam_moe, decoder_graph,
                                               "SarvamMoEConfig"};
const struct model_family FAMILY_DOTS1 = {"dots1", read_dots1, decoder_graph, "Dots1Config"};
const struct model_family FAMILY_SOLAR_OPEN = {"solar_open", read_solar_open, decoder_graph,
                                               "SolarOpenConfig"};
const struct model_family FAMILY_GLM4V_MOE_TEXT = {"glm4v_moe_text", read_glm4v_moe, decoder_graph,
                                                   "Glm4vMoeTextConfig"};
const struct model_family FAMILY_GLM4_MOE = {"glm4_moe", read_glm4_moe, decoder_graph,
                                             "Glm4MoeConfig"};
