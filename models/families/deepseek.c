#include "models/families/deepseek.h"

#include "core/real.h"
#include "models/families/expert_keys.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// DeepSeek-V2, V3 and Kimi K2: latent attention, experts of which some serve every token, and, from
// V3 on, multi-token prediction modules. Null has a meaning of its own for some keys: no low rank,
// no experts.

// How far the positions were stretched after training on short ones, from rope_scaling or
// rope_parameters.
struct stretch {
    const char *type, *rope_type;
    double factor, mscale_all_dim, rope_theta;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct deepseek, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct deepseek, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deepseek, intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deepseek, num_hidden_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct deepseek, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek, num_key_value_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek, q_lora_rank, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deepseek, kv_lora_rank, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deepseek, qk_nope_head_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek, qk_rope_head_dim, 2, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek, v_head_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek, n_routed_experts, 1, EXPERTS_MAX)},
    {"num_local_experts", JSON_TYPE_I64, offsetof(struct deepseek, n_routed_experts), 1,
     EXPERTS_MAX, true},
    {"num_experts", JSON_TYPE_I64, offsetof(struct deepseek, n_routed_experts), 1, EXPERTS_MAX,
     true},
    {JSON_OPT_I64(struct deepseek, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct deepseek, n_shared_experts, 0, EXPERTS_MAX)},
    {"num_shared_experts", JSON_TYPE_I64, offsetof(struct deepseek, n_shared_experts), 0,
     EXPERTS_MAX, true},
    {JSON_OPT_I64(struct deepseek, moe_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deepseek, n_group, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct deepseek, topk_group, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct deepseek, first_k_dense_replace, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct deepseek, moe_layer_freq, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct deepseek, num_nextn_predict_layers, 0, LAYERS_MAX)},
    {"num_mtp_layers", JSON_TYPE_I64, offsetof(struct deepseek, num_nextn_predict_layers), 0,
     LAYERS_MAX, true},
    {JSON_OPT_I64(struct deepseek, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_TEXT(struct deepseek, hidden_act)},
    {JSON_OPT_BOOL(struct deepseek, norm_topk_prob)},
    {JSON_OPT_BOOL(struct deepseek, tie_word_embeddings)},
    {JSON_OPT_BOOL(struct deepseek, attention_bias)},
    {JSON_OPT_BOOL(struct deepseek, mlp_bias)},
    {JSON_OPT_F64(struct deepseek, routed_scaling_factor, 1e-6, 1e6)},
    {JSON_OPT_F64(struct deepseek, rms_norm_eps, 0, 1)},
    {JSON_OPT_F64(struct deepseek, rope_theta, 1, 1e15)},
    {JSON_OPT_F64(struct deepseek, attention_dropout, 0, DROPOUT_MAX)},
    // How experts are chosen, but for their number, and how many positions rope stretches to change
    // neither shapes nor work.
    {JSON_OPT_ANY("topk_method")},
    {JSON_OPT_ANY("scoring_func")},
    {JSON_OPT_ANY("aux_loss_alpha")},
    {JSON_OPT_ANY("seq_aux")},
    {JSON_OPT_ANY("rope_interleave")},
    {JSON_OPT_ANY("rope_scaling")},
    {JSON_OPT_ANY("rope_parameters")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

// q_lora_rank, experts and groups are null where there are none.
static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads "
                  "kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim",
    .dimensions_or_null = "q_lora_rank",
    .optional = "max_position_embeddings hidden_act tie_word_embeddings attention_bias "
                "rms_norm_eps rope_theta attention_dropout"};
static const struct family_keys EXPERT_KEYS = {
    .dimensions = "num_experts_per_tok moe_intermediate_size",
    .dimensions_or_null = "n_shared_experts",
    .optional = "norm_topk_prob routed_scaling_factor moe_layer_freq",
    .optional_or_null = "n_group topk_group"};
static const struct family_keys DENSE_KEYS = {.dimensions = "first_k_dense_replace"};

static const struct json_field STRETCH_FIELDS[] = {
    {JSON_OPT_TEXT(struct stretch, type)},
    {JSON_OPT_TEXT(struct stretch, rope_type)},
    {JSON_OPT_F64(struct stretch, factor, 1e-6, 1e6)},
    {JSON_OPT_F64(struct stretch, mscale_all_dim, 0, 1e6)},
    {JSON_OPT_F64(struct stretch, rope_theta, 1, 1e15)},
    {0},
};

static void read_dense_layers(struct family_reader *reader, struct deepseek *record)
{
    static const char KEY[] = "mlp_layer_types";
    bool has_list = json_has(reader->object, KEY);
    if (record->has_types) record->first_k_dense_replace = 1;
    if (record->has_types && !has_list)
        family_taken(reader, KEY, "by rule (the first dense, the others sparse)");
    if (!record->has_types && !has_list) family_absent(reader, FIELDS, record, &DENSE_KEYS);
}

// `own` is what one generation heeds and the other does not.
static void read_record(struct family_reader *reader, struct deepseek *record, const char *own)
{
    record->n_routed_experts = -1;
    family_read(reader, FIELDS, record);
    if (reader->err->kind) return;
    family_absent(reader, FIELDS, record, &KEYS);
    family_absent(reader, FIELDS, record, &(struct family_keys){.optional = own});
    const struct family_keys counts = {.dimensions_or_null = "n_routed_experts"};
    if (record->is_dense) record->n_routed_experts = 0;
    if (!record->is_dense) family_absent(reader, FIELDS, record, &counts);
    if (!json_has(reader->object, "rope_parameters")) {
        const struct family_keys rope = {.optional_or_null = "rope_scaling rope_parameters"};
        family_absent(reader, FIELDS, record, &rope);
    }
    if (family_is_null(reader, "num_key_value_heads")) record->num_key_value_heads = 0;
    if (family_is_null(reader, "q_lora_rank")) record->q_lora_rank = 0;
    if (family_is_null(reader, "n_routed_experts")) record->n_routed_experts = 0;
    if (family_is_null(reader, "n_shared_experts")) record->n_shared_experts = 0;
    if (family_is_null(reader, "n_group")) record->n_group = 0;
    if (record->n_routed_experts != 0) {
        family_absent(reader, FIELDS, record, &EXPERT_KEYS);
        read_dense_layers(reader, record);
    }
    if (record->n_routed_experts == 0) {
        record->num_experts_per_tok = record->n_shared_experts = record->moe_intermediate_size = 0;
    }
}

static bool is_stretched(const struct stretch *stretch)
{
    const char *type = stretch->rope_type ? stretch->rope_type : stretch->type;
    return type && strcmp(type, "default") != 0 && stretch->mscale_all_dim > 0 &&
           stretch->factor > 1;
}

// What an object of rope leaves out: its kind, or how far a kind that stretches does.
static void check_stretch(struct family_reader *reader, const struct json *object,
                          const struct stretch *stretch)
{
    const char *type = stretch->rope_type ? stretch->rope_type : stretch->type;
    if (reader->err->kind) return;
    if (!type) {
        family_taken(reader, "rope_type", "default");
    } else if (strcmp(type, "default") != 0 && stretch->factor <= 0) {
        json_fail(object, reader->err, "missing \"factor\" of rope_type \"%s\"", type);
    } else if (strcmp(type, "default") != 0 && !json_has(object, "mscale_all_dim")) {
        family_taken(reader, "mscale_all_dim", "0");
    }
}

// Scores are divided by the root of the key's width; YaRN sharpens them as positions are stretched
// (Peng et al. 2023, section 3.4; transformers' yarn_apply_mscale).
static void set_rope(struct family_reader *reader, const struct deepseek *record,
                     struct decoder *decoder)
{
    const char *key = family_key(reader, "rope_parameters", "rope_scaling");
    struct stretch stretch = {.rope_theta = record->rope_theta};
    if (reader->err->kind) return;
    if (json_has(reader->object, key)) {
        struct json object = json_get(reader->object, key, reader->err);
        json_read_lenient(&object, STRETCH_FIELDS, &stretch, NULL, NULL, reader->err);
        check_stretch(reader, &object, &stretch);
    }
    decoder->rope_theta = stretch.rope_theta;
    decoder->score_factor = 1 / sqrt((double)decoder->head_dim);
    if (!is_stretched(&stretch)) return;
    double mscale = 0.1 * stretch.mscale_all_dim * real_log(stretch.factor) + 1;
    assert(mscale > 1);
    decoder->score_factor *= mscale * mscale;
}

static void check_heads(struct family_reader *reader, const struct deepseek *record)
{
    long long heads = record->num_attention_heads, kv_heads = record->num_key_value_heads;
    if (reader->err->kind) return;
    if (kv_heads && kv_heads != heads) {
        family_fail(reader, "num_key_value_heads",
                    "%lld key-value heads for %lld heads; latent attention has as many", kv_heads,
                    heads);
    } else if (record->qk_rope_head_dim % 2) {
        family_fail(reader, "qk_rope_head_dim", "%lld dims cannot be rotated in pairs",
                    (long long)record->qk_rope_head_dim);
    } else if (record->num_nextn_predict_layers > MTP_MAX) {
        family_fail(reader, "num_nextn_predict_layers",
                    "%lld multi-token prediction modules; the most is %d",
                    (long long)record->num_nextn_predict_layers, MTP_MAX);
    }
}

static void check_experts(struct family_reader *reader, const struct deepseek *record)
{
    long long experts = record->n_routed_experts, chosen = record->num_experts_per_tok;
    long long groups = record->n_group ? record->n_group : 1;
    long long open = record->n_group && record->topk_group ? record->topk_group : groups;
    if (reader->err->kind || experts == 0) return;
    assert(groups > 0 && open > 0);
    if (record->n_shared_experts * record->moe_intermediate_size > WIDTH_MAX) {
        family_fail(reader, "n_shared_experts", "together the shared experts are wider than %d",
                    WIDTH_MAX);
    } else if (experts % groups != 0) {
        family_fail(reader, "n_group", "%lld groups do not divide %lld experts", groups, experts);
    } else if (open > groups) {
        family_fail(reader, "topk_group", "%lld of %lld groups", open, groups);
    } else if (chosen > experts / groups * open) {
        family_fail(reader, "topk_group",
                    "%lld of %lld groups (n_group) have %lld experts, %lld are to be chosen", open,
                    groups, experts / groups * open, chosen);
    }
}

// Which layers have an mlp of the ordinary kind; no experts at all when every layer has.
static void place_experts(struct family_reader *reader, const struct deepseek *record,
                          struct experts *experts)
{
    if (reader->err->kind) return;
    assert(record->moe_layer_freq > 0);
    bool *is_dense = ARENA_NEW(reader->arena, bool, record->num_hidden_layers), all_dense = true;
    const bool *listed = expert_keys_dense(reader, record->num_hidden_layers);
    for (int64_t i = 0; i < record->num_hidden_layers; i++) {
        is_dense[i] = i < record->first_k_dense_replace || i % record->moe_layer_freq != 0;
        if (listed) is_dense[i] = listed[i];
        all_dense = all_dense && is_dense[i];
    }
    experts->is_dense = is_dense;
    if (all_dense) *experts = (struct experts){0};
}

static struct decoder describe(const char *model_type, const struct deepseek *record)
{
    return (struct decoder){
        .model_type = model_type,
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count = record->num_hidden_layers,
        .head_count = record->num_attention_heads,
        .kv_head_count = record->num_attention_heads,
        .head_dim = record->qk_nope_head_dim + record->qk_rope_head_dim,
        .ffn = record->intermediate_size,
        .seq_len_max = record->max_position_embeddings,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_RMS_NORM,
        .norm_epsilon = record->rms_norm_eps,
        .qkv_bias = record->attention_bias,
        .out_bias = record->attention_bias,
        .mlp_bias = record->mlp_bias,
        .gated = true,
        .tied = record->tie_word_embeddings,
        .attention_dropout = record->attention_dropout,
        .latent = {.q_rank = record->q_lora_rank,
                   .kv_rank = record->kv_lora_rank,
                   .nope_dim = record->qk_nope_head_dim,
                   .rope_dim = record->qk_rope_head_dim,
                   .value_dim = record->v_head_dim},
        .experts = {.count = record->n_routed_experts,
                    .top_k = record->num_experts_per_tok,
                    .group_count = record->n_group,
                    .open_groups = record->topk_group,
                    .ffn = record->moe_intermediate_size,
                    .shared_ffn = record->moe_intermediate_size * record->n_shared_experts,
                    .route_scale = record->routed_scaling_factor},
        .mtp_count = record->num_nextn_predict_layers,
    };
}

struct decoder deepseek_decoder(struct family_reader *reader, const char *model_type,
                                struct deepseek *record, const char *own)
{
    read_record(reader, record, own);
    if (!family_complete(reader)) return (struct decoder){0};
    assert(record->kv_lora_rank > 0 && record->qk_rope_head_dim > 0 && record->v_head_dim > 0);
    check_heads(reader, record);
    struct decoder decoder = describe(model_type, record);
    family_check_experts(reader, &decoder, "n_routed_experts", "num_experts_per_tok");
    check_experts(reader, record);
    decoder.activation = family_activation(reader, "hidden_act", record->hidden_act);
    place_experts(reader, record, &decoder.experts);
    set_rope(reader, record, &decoder);
    return decoder;
}

static const void *read_v2(struct family_reader *reader)
{
    struct deepseek record = {
        .moe_layer_freq = 1,
        .max_position_embeddings = 2048,
        .hidden_act = "silu",
        .routed_scaling_factor = 1,
        .rms_norm_eps = 1e-6,
        .rope_theta = 10000,
    };
    struct decoder decoder = deepseek_decoder(reader, "deepseek_v2", &record, "mlp_bias");
    decoder.mtp_count = 0;  // V2 has no such modules, whatever its file says
    decoder.experts.route =
        record.norm_topk_prob ? FUNCTION_ROUTE_SOFTMAX_TOP_K : FUNCTION_ROUTE_SOFTMAX;
    return family_decoder(reader, &decoder);
}

// Every published V3 has the ranks and widths of its class (DeepseekV3Config), and files that
// describe one leave them out.
#define V3_DEFAULTS                                                                          \
    .kv_lora_rank = 512, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64, .v_head_dim = 128, \
    .moe_layer_freq = 1, .hidden_act = "silu", .norm_topk_prob = true, .rms_norm_eps = 1e-6, \
    .rope_theta = 10000, .routed_scaling_factor = 2.5

// Experts by sigmoid scores. The bias that balances their loads (DeepSeek-V3, section 2.1.2)
// follows a rule and no gradient, but the published count has it among the parameters.
static struct decoder read_sigmoid(struct family_reader *reader, const char *model_type,
                                   struct deepseek *record, const char *own)
{
    struct decoder decoder = deepseek_decoder(reader, model_type, record, own);
    decoder.mlp_bias = false;  // not among V3's keys
    decoder.experts.route =
        record->norm_topk_prob ? FUNCTION_ROUTE_SIGMOID_TOP_K : FUNCTION_ROUTE_SIGMOID;
    decoder.experts.choice_bias = decoder.experts.count > 0;
    return decoder;
}

static const void *read_v3_as(struct family_reader *reader, const char *model_type)
{
    struct deepseek record = {
        V3_DEFAULTS,     .q_lora_rank = 1536,           .n_group = 8,
        .topk_group = 4, .num_nextn_predict_layers = 1, .max_position_embeddings = 4096};
    struct decoder decoder = read_sigmoid(reader, model_type, &record, "num_nextn_predict_layers");
    return family_decoder(reader, &decoder);
}

static const void *read_v3(struct family_reader *reader)
{
    return read_v3_as(reader, "deepseek_v3");
}

static const void *read_kimi(struct family_reader *reader)
{
    return read_v3_as(reader, "kimi_k2");
}

// Whose published sizes are another's than those of its class.
static const void *read_sarvam_mla(struct family_reader *reader)
{
    struct deepseek record = {V3_DEFAULTS, .n_group = 1, .topk_group = 1,
                              .max_position_embeddings = 4096};
    struct decoder decoder =
        read_sigmoid(reader, "sarvam_mla", &record, "num_nextn_predict_layers");
    return family_decoder(reader, &decoder);
}

// A.X K1: what experts and the shared ones make together is normed.
static const void *read_axk1(struct family_reader *reader)
{
    struct deepseek record = {V3_DEFAULTS, .n_group = 8, .topk_group = 4,
                              .max_position_embeddings = 32768};
    // Those of the first releases say how many layers are dense, others which.
    record.has_types = !json_has(reader->object, "first_k_dense_replace");
    struct decoder decoder = read_sigmoid(reader, "axk1", &record, "");
    if (!reader->err->kind && record.has_types && !json_has(reader->object, "mlp_layer_types"))
        family_taken(reader, "first_k_dense_replace", "1");
    decoder.mtp_count = 0;
    decoder.experts.result_norm = decoder.experts.count > 0;
    if (!reader->err->kind && decoder.latent.q_rank == 0)
        family_fail(reader, "q_lora_rank", "must be given: axk1 has no queries without a low rank");
    return family_decoder(reader, &decoder);
}

// GLM-4.7-Flash: the same parts in a small model.
static const void *read_glm4_moe_lite(struct family_reader *reader)
{
    struct deepseek record = {
        .moe_layer_freq = 1,
        .has_types = true,
        .max_position_embeddings = 202752,
        .hidden_act = "silu",
        .norm_topk_prob = true,
        .routed_scaling_factor = 1.8,
        .rms_norm_eps = 1e-5,
        .rope_theta = 10000,
    };
    struct decoder decoder =
        read_sigmoid(reader, "glm4_moe_lite", &record, "num_nextn_predict_layers");
    return family_decoder(reader, &decoder);
}

// Mistral Small 4: experts by softmax, of all that there are.
static const void *read_mistral4(struct family_reader *reader)
{
    struct deepseek record = {
        .n_group = 1,
        .topk_group = 1,
        .moe_layer_freq = 1,
        .max_position_embeddings = 1048576,
        .hidden_act = "silu",
        .norm_topk_prob = true,
        .routed_scaling_factor = 1,
        .rms_norm_eps = 1e-6,
        .rope_theta = 10000,
    };
    struct decoder decoder = deepseek_decoder(reader, "mistral4", &record, "");
    decoder.mlp_bias = false;
    decoder.mtp_count = 0;
    decoder.experts.route =
        record.norm_topk_prob ? FUNCTION_ROUTE_SOFTMAX_TOP_K : FUNCTION_ROUTE_SOFTMAX;
    if (!reader->err->kind && decoder.experts.group_count > 1)
        family_fail(reader, "n_group", "groups of experts are not supported in mistral4");
    reader->ledger->remark = family_no_temperature;
    return family_decoder(reader, &decoder);
}

// Latent attention with ordinary mlps.
static struct decoder read_dense(struct family_reader *reader, const char *model_type,
                                 struct deepseek *record)
{
    static const char KEY[] = "n_routed_experts";
    record->is_dense = record->tie_word_embeddings = true;
    record->moe_layer_freq = 1;
    record->hidden_act = "silu";
    record->rope_theta = 10000;
    if (!reader->err->kind && json_has(reader->object, KEY))
        family_fail(reader, KEY, "%s has no experts", model_type);
    struct decoder decoder = deepseek_decoder(reader, model_type, record, "");
    decoder.mtp_count = 0;
    return decoder;
}

static const void *read_youtu(struct family_reader *reader)
{
    struct deepseek record = {.max_position_embeddings = 131072, .rms_norm_eps = 1e-6};
    struct decoder decoder = read_dense(reader, "youtu", &record);
    decoder.mlp_bias = false;
    return family_decoder(reader, &decoder);
}

// MiniCPM 3 scales what it embeds, what layers add and what the head reads.
struct minicpm3 {
    double scale_emb, scale_depth, dim_model_base;
};

static const struct json_field MINICPM3_FIELDS[] = {
    {JSON_OPT_F64(struct minicpm3, scale_emb, 1e-6, 1e6)},
    {JSON_OPT_F64(struct minicpm3, scale_depth, 1e-6, 1e6)},
    {JSON_OPT_F64(struct minicpm3, dim_model_base, 1e-6, 1e6)},
    {0},
};

static const void *read_minicpm3(struct family_reader *reader)
{
    struct minicpm3 scales = {.scale_emb = 12, .scale_depth = 1.4, .dim_model_base = 256};
    struct deepseek record = {.max_position_embeddings = 32768, .rms_norm_eps = 1e-5};
    family_read(reader, MINICPM3_FIELDS, &scales);
    family_absent(reader, MINICPM3_FIELDS, &scales,
                  &(struct family_keys){.optional = "scale_emb scale_depth dim_model_base"});
    struct decoder decoder = read_dense(reader, "minicpm3", &record);
    if (reader->err->kind) return NULL;
    assert(decoder.layer_count > 0 && decoder.hidden > 0);
    decoder.embedding_scale = scales.scale_emb;
    decoder.residual_scale = scales.scale_depth / sqrt((double)decoder.layer_count);
    decoder.logit_scale = scales.dim_model_base / (double)decoder.hidden;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_AXK1 = {"axk1", read_axk1, decoder_graph, "AXK1Config"};
const struct model_family FAMILY_MISTRAL4 = {"mistral4", read_mistral4, decoder_graph,
                                             "Mistral4Config"};
const struct model_family FAMILY_SARVAM_MLA = {"sarvam_mla", read_sarvam_mla, decoder_graph,
                                               "SarvamMLAConfig"};
const struct model_family FAMILY_GLM4_MOE_LITE = {"glm4_moe_lite", read_glm4_moe_lite,
                                                  decoder_graph, "Glm4MoeLiteConfig"};
const struct model_family FAMILY_YOUTU = {"youtu", read_youtu, decoder_graph, "YoutuConfig"};
const struct model_family FAMILY_MINICPM3 = {"minicpm3", read_minicpm3, decoder_graph,
                                             "MiniCPM3Config"};
const struct model_family FAMILY_DEEPSEEK_V2 = {"deepseek_v2", read_v2, decoder_graph,
                                                "DeepseekV2Config"};
const struct model_family FAMILY_DEEPSEEK_V3 = {"deepseek_v3", read_v3, decoder_graph,
                                                "DeepseekV3Config"};
const struct model_family FAMILY_KIMI_K2 = {"kimi_k2", read_kimi, decoder_graph,
                                            "DeepseekV3Config"};
