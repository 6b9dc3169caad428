#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

#include <assert.h>

// MiMo-V2-Flash: experts by sigmoid scores; values are narrower than keys, and scaled; layers with
// a window have twice as many heads of keys, a sink, and a rotation of their own.
struct mimo {
    int64_t n_routed_experts, num_experts_per_tok, moe_intermediate_size, n_group, topk_group;
    int64_t v_head_dim, sliding_window_size;
    double routed_scaling_factor, attention_value_scale;
    bool norm_topk_prob;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct mimo, n_routed_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct mimo, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct mimo, moe_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct mimo, n_group, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct mimo, topk_group, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct mimo, v_head_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct mimo, sliding_window_size, 0, POSITIONS_MAX)},
    {JSON_OPT_F64(struct mimo, routed_scaling_factor, 1e-6, 1e6)},
    {JSON_OPT_F64(struct mimo, attention_value_scale, 1e-6, 1e6)},
    {JSON_OPT_BOOL(struct mimo, norm_topk_prob)},
    {JSON_OPT_ANY("mlp_layer_types")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "n_routed_experts num_experts_per_tok moe_intermediate_size v_head_dim",
    .optional = "routed_scaling_factor norm_topk_prob n_group topk_group",
    .optional_or_null = "attention_value_scale"};

// By rule the first layer and every sixth have no window, and the first alone is dense.
static const bool *windows(struct family_reader *reader, const struct llama_like *record)
{
    enum { PATTERN = 6 };
    bool *is_local = ARENA_NEW(reader->arena, bool, record->num_hidden_layers);
    for (int64_t i = 1; i < record->num_hidden_layers; i++)
        is_local[i] = (i + 1) % PATTERN != 0;
    return llama_like_windows(reader, record, is_local, "the first and 1 in 6 full");
}

static const bool *dense_layers(struct family_reader *reader, int64_t layer_count)
{
    const bool *listed = expert_keys_dense(reader, layer_count);
    if (listed || reader->err->kind) return listed;
    assert(layer_count > 0);
    bool *is_dense = ARENA_NEW(reader->arena, bool, layer_count);
    is_dense[0] = true;
    family_taken(reader, "mlp_layer_types", "the first dense");
    return is_dense;
}

static void set_heads(struct family_reader *reader, const struct llama_like *record,
                      const struct mimo *own, struct decoder *decoder)
{
    assert(decoder->kv_head_count > 0);
    decoder->window =
        own->sliding_window_size > 0 ? own->sliding_window_size + 1 : record->sliding_window;
    decoder->has_window = windows(reader, record);
    decoder->global = (struct global_heads){.head_dim = decoder->head_dim,
                                            .kv_head_count = decoder->kv_head_count,
                                            .rotary_dims = decoder->rotary_dims};
    decoder->kv_head_count *= 2;
    decoder->value_dim = own->v_head_dim;
    decoder->value_factor = own->attention_value_scale;
    decoder->attention_sink = decoder->sink_is_local = true;
    decoder->rope_theta_local = record->rope_local_base_freq;
    if (!reader->err->kind && decoder->head_count % decoder->kv_head_count != 0)
        family_fail(reader, "num_key_value_heads",
                    "%lld heads do not share twice as many, as in layers with a window",
                    (long long)decoder->head_count);
}

// Where rotations are given, both kinds of layers have one.
static void check_ropes(struct family_reader *reader, const struct llama_like *record)
{
    static const char *const KINDS[] = {"full_attention", "sliding_attention"};
    const double thetas[] = {record->rope_theta, record->rope_local_base_freq};
    if (reader->err->kind || !json_has(reader->object, "rope_parameters")) return;
    struct json ropes = json_get(reader->object, "rope_parameters", reader->err);
    for (int i = 0; i < 2 && !reader->err->kind; i++) {
        struct json rope = json_get(&ropes, KINDS[i], reader->err);
        if (!reader->err->kind && !json_has(&rope, "rope_theta"))
            family_taken(reader, KINDS[i], "rope_theta %g", thetas[i]);
        if (reader->err->kind) return;
        if (!json_has(&rope, "partial_rotary_factor")) {
            family_taken(reader, KINDS[i], "partial_rotary_factor %g",
                         record->partial_rotary_factor);
            continue;
        }
        struct json part = json_get(&rope, "partial_rotary_factor", reader->err);
        if (json_f64(&part, 0, 1, reader->err) != record->partial_rotary_factor)
            json_fail(&part, reader->err, "layers that rotate other shares are not supported");
    }
}

static const void *read_mimo(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                .sliding_window = 129, .dimensions = "num_key_value_heads head_dim",
                                .optional = "hidden_act rms_norm_eps attention_bias "
                                            "partial_rotary_factor sliding_window"};
    struct mimo own = {.n_group = 1,
                       .topk_group = 1,
                       .routed_scaling_factor = 1,
                       .attention_value_scale = 0.707,
                       .norm_topk_prob = true};
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 5e6;
    record.rope_local_base_freq = 10000;
    record.partial_rotary_factor = 0.334;
    if (!json_has(reader->object, "rope_parameters"))
        record.optional = arena_print(reader->arena, "%s rope_local_base_freq", record.optional);
    llama_like_read(reader, &record);
    check_ropes(reader, &record);
    family_read(reader, FIELDS, &own);
    if (!reader->err->kind && family_is_null(reader, "attention_value_scale"))
        own.attention_value_scale = 1;
    family_absent(reader, FIELDS, &own, &KEYS);
    struct decoder decoder = llama_like_decoder(reader, "mimo_v2_flash", &record);
    if (reader->err->kind) return NULL;
    decoder.qkv_bias = record.attention_bias;
    set_heads(reader, &record, &own, &decoder);
    decoder.experts = (struct experts){.count = own.n_routed_experts,
                                       .top_k = own.num_experts_per_tok,
                                       .group_count = own.n_group > 1 ? own.n_group : 0,
                                       .open_groups = own.n_group > 1 ? own.topk_group : 0,
                                       .ffn = own.moe_intermediate_size,
                                       .route = own.norm_topk_prob ? FUNCTION_ROUTE_SIGMOID_TOP_K
                                                                   : FUNCTION_ROUTE_SIGMOID,
                                       .route_scale = own.routed_scaling_factor,
                                       .choice_bias = true,
                                       .is_dense = dense_layers(reader, decoder.layer_count)};
    family_check_experts(reader, &decoder, "n_routed_experts", "num_experts_per_tok");
    if (!reader->err->kind && own.n_routed_experts % own.n_group != 0)
        family_fail(reader, "n_group", "%lld groups do not divide %lld experts",
                    (long long)own.n_group, (long long)own.n_routed_experts);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_MIMO_V2_FLASH = {"mimo_v2_flash", read_mimo, decoder_graph,
                                                  "MiMoV2FlashConfig"};
