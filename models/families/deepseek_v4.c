#include "models/families/family.h"

#include <assert.h>
#include <string.h>

// DeepSeek-V4 (DeepseekV4Config): models/families/pooled.c, streams.c and experts.c. Files of its
// release give the tokens of an entry by layer and say how many layers route by a table; those of
// transformers list both kinds by name. Its prediction modules are not read, as there.

// Their square times layers and widths is counted.
enum { STREAMS_MAX = 256 };

struct deepseek_v4 {
    int64_t vocab_size, hidden_size, moe_intermediate_size, num_hidden_layers, num_attention_heads;
    int64_t num_key_value_heads, head_dim, q_lora_rank, o_groups, o_lora_rank;
    int64_t num_experts_per_tok, n_routed_experts, n_shared_experts;
    int64_t index_n_heads, index_head_dim, index_topk, sliding_window;
    int64_t hc_mult, hc_sinkhorn_iters, num_hash_layers;
    int64_t qk_rope_head_dim, max_position_embeddings;
    int64_t compress_rate_csa, compress_rate_hca;
    double rms_norm_eps, hc_eps, swiglu_limit, routed_scaling_factor, attention_dropout;
    double rope_theta, compress_rope_theta, partial_rotary_factor;
    const char *hidden_act, *scoring_func;
    bool tie_word_embeddings, mlp_bias, attention_bias;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct deepseek_v4, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, moe_intermediate_size, 1, WIDTH_MAX)},
    {"intermediate_size", JSON_TYPE_I64, offsetof(struct deepseek_v4, moe_intermediate_size), 1,
     WIDTH_MAX, true},
    {JSON_OPT_I64(struct deepseek_v4, num_hidden_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, num_key_value_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, head_dim, 2, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, q_lora_rank, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, o_groups, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, o_lora_rank, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, n_routed_experts, 1, EXPERTS_MAX)},
    {"num_local_experts", JSON_TYPE_I64, offsetof(struct deepseek_v4, n_routed_experts), 1,
     EXPERTS_MAX, true},
    {JSON_OPT_I64(struct deepseek_v4, n_shared_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, index_n_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, index_head_dim, 2, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, index_topk, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, sliding_window, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, hc_mult, 1, STREAMS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, hc_sinkhorn_iters, 1, 1000)},
    {JSON_OPT_I64(struct deepseek_v4, num_hash_layers, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, qk_rope_head_dim, 2, HEADS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, compress_rate_csa, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct deepseek_v4, compress_rate_hca, 1, POSITIONS_MAX)},
    {JSON_OPT_F64(struct deepseek_v4, rms_norm_eps, 0, 1)},
    {JSON_OPT_F64(struct deepseek_v4, hc_eps, 0, 1)},
    {JSON_OPT_F64(struct deepseek_v4, swiglu_limit, 1e-6, 1e6)},
    {JSON_OPT_F64(struct deepseek_v4, routed_scaling_factor, 1e-6, 1e6)},
    {JSON_OPT_F64(struct deepseek_v4, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct deepseek_v4, rope_theta, 1, 1e15)},
    {JSON_OPT_F64(struct deepseek_v4, compress_rope_theta, 1, 1e15)},
    {JSON_OPT_F64(struct deepseek_v4, partial_rotary_factor, 1e-6, 1)},
    {JSON_OPT_TEXT(struct deepseek_v4, hidden_act)},
    {JSON_OPT_TEXT(struct deepseek_v4, scoring_func)},
    {JSON_OPT_BOOL(struct deepseek_v4, tie_word_embeddings)},
    {JSON_OPT_BOOL(struct deepseek_v4, mlp_bias)},
    {JSON_OPT_BOOL(struct deepseek_v4, attention_bias)},
    {JSON_OPT_ANY("layer_types")},
    {JSON_OPT_ANY("compress_ratios")},
    {JSON_OPT_ANY("compress_rates")},
    {JSON_OPT_ANY("mlp_layer_types")},
    // How experts are balanced, that weights of the chosen add up to one, and how many positions
    // rope stretches to: the same shapes and work.
    {JSON_OPT_ANY("norm_topk_prob")},
    {JSON_OPT_ANY("topk_method")},
    {JSON_OPT_ANY("rope_scaling")},
    {JSON_OPT_ANY("rope_parameters")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size moe_intermediate_size num_hidden_layers "
                  "num_attention_heads head_dim q_lora_rank num_experts_per_tok n_routed_experts",
    .optional = "o_groups o_lora_rank index_n_heads index_head_dim index_topk sliding_window "
                "hc_mult hc_sinkhorn_iters hc_eps swiglu_limit routed_scaling_factor hidden_act "
                "scoring_func rms_norm_eps max_position_embeddings tie_word_embeddings mlp_bias "
                "attention_dropout"};

static const char LAYERS[] = "layer_types", RATIOS[] = "compress_ratios",
                  RATES[] = "compress_rates";
static const char MLPS[] = "mlp_layer_types", ROPES[] = "rope_parameters";
// One more than what they are: 0 ends a table.
static const struct family_layer_type LAYER_NAMES[] = {
    {"sliding_attention", POOLING_NONE + 1},
    {"compressed_sparse_attention", POOLING_CHOSEN + 1},
    {"heavily_compressed_attention", POOLING_ALL + 1},
    {0}};
enum { ROUTED = 1, HASHED };
static const struct family_layer_type MLP_NAMES[] = {{"moe", ROUTED}, {"hash_moe", HASHED}, {0}};

// Tokens of an entry by layer, and behind them those of prediction modules.
static void read_ratios(struct family_reader *reader, int64_t count, uint8_t *kinds)
{
    static const int64_t OF[] = {[POOLING_NONE] = 0, [POOLING_CHOSEN] = 4, [POOLING_ALL] = 128};
    struct json list = json_get(reader->object, RATIOS, reader->err);
    int given = json_count(&list, reader->err);
    if (!reader->err->kind && given < count)
        json_fail(&list, reader->err, "%d numbers for %lld layers", given, (long long)count);
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json item = json_item(&list, i);
        int64_t ratio = json_i64(&item, 0, POSITIONS_MAX, reader->err);
        int kind = POOLING_ALL;
        while (kind > POOLING_NONE && OF[kind] != ratio)
            kind--;
        if (!reader->err->kind && OF[kind] != ratio)
            json_fail(&item, reader->err, "%lld tokens; 0, 4 or 128 are known", (long long)ratio);
        assert(kind >= POOLING_NONE && kind <= POOLING_ALL);
        kinds[i] = (uint8_t)kind;
    }
}

// By default two layers of long entries, and from there long and short ones in turn.
static const uint8_t *read_kinds(struct family_reader *reader, int64_t count)
{
    uint8_t *kinds = ARENA_NEW(reader->arena, uint8_t, count);
    bool is_named = json_has(reader->object, LAYERS), is_listed = json_has(reader->object, RATIOS);
    const uint8_t *named = is_named ? family_layer_parts(reader, LAYERS, count, LAYER_NAMES) : NULL;
    if (!is_named && is_listed) read_ratios(reader, count, kinds);
    if (!is_named && !is_listed) family_taken(reader, "layer_types or compress_ratios", "by rule");
    for (int64_t i = 0; i < count && !reader->err->kind; i++) {
        if (named) kinds[i] = (uint8_t)(named[i] - 1);
        if (!named && !is_listed) kinds[i] = i > 2 && i % 2 ? POOLING_CHOSEN : POOLING_ALL;
    }
    return kinds;
}

static const bool *read_hashed(struct family_reader *reader, const struct deepseek_v4 *record)
{
    assert(record->num_hidden_layers > 0);
    int64_t count = record->num_hidden_layers;
    bool *is_hashed = ARENA_NEW(reader->arena, bool, count),
         is_listed = json_has(reader->object, MLPS);
    const uint8_t *kinds = is_listed ? family_layer_parts(reader, MLPS, count, MLP_NAMES) : NULL;
    if (!is_listed && !json_has(reader->object, "num_hash_layers"))
        family_taken(reader, "mlp_layer_types or num_hash_layers", "%lld",
                     (long long)record->num_hash_layers);
    for (int64_t i = 0; i < count && !reader->err->kind; i++)
        is_hashed[i] = kinds ? kinds[i] == HASHED : i < record->num_hash_layers;
    return is_hashed;
}

struct rates {
    int64_t chosen, all;
};
static const struct json_field RATE_FIELDS[] = {
    {"compressed_sparse_attention", JSON_TYPE_I64, offsetof(struct rates, chosen), 1, POSITIONS_MAX,
     true},
    {"heavily_compressed_attention", JSON_TYPE_I64, offsetof(struct rates, all), 1, POSITIONS_MAX,
     true},
    {0},
};

// Lists of what the release counts by layer say them as well.
static struct rates read_rates(struct family_reader *reader, const struct deepseek_v4 *record)
{
    struct rates rates = {0, 0};
    bool is_counted = json_has(reader->object, RATIOS) && !json_has(reader->object, LAYERS);
    if (json_has(reader->object, RATES)) {
        struct json object = json_get(reader->object, RATES, reader->err);
        json_read_lenient(&object, RATE_FIELDS, &rates, NULL, NULL, reader->err);
    }
    if (record->compress_rate_csa > 0) rates.chosen = record->compress_rate_csa;
    if (record->compress_rate_hca > 0) rates.all = record->compress_rate_hca;
    if (rates.chosen == 0 && !is_counted)
        family_taken(reader, "compress_rates or compress_rate_csa", "4");
    if (rates.all == 0 && !is_counted)
        family_taken(reader, "compress_rates or compress_rate_hca", "128");
    return (struct rates){rates.chosen > 0 ? rates.chosen : 4, rates.all > 0 ? rates.all : 128};
}

struct rope {
    double rope_theta, partial_rotary_factor;
};
static const struct json_field ROPE_FIELDS[] = {
    {JSON_OPT_F64(struct rope, rope_theta, 1, 1e15)},
    {JSON_OPT_F64(struct rope, partial_rotary_factor, 1e-6, 1)},
    {0},
};

// transformers writes them by kind of layer.
static void read_ropes(struct family_reader *reader, struct deepseek_v4 *record)
{
    static const char *const NAMES[] = {"main", "compress"};
    double *const thetas[] = {&record->rope_theta, &record->compress_rope_theta};
    bool is_told =
        record->qk_rope_head_dim > 0 || json_has(reader->object, "partial_rotary_factor");
    if (reader->err->kind) return;
    if (!json_has(reader->object, ROPES)) {
        if (!is_told)
            family_taken(reader, "qk_rope_head_dim or partial_rotary_factor", "%g",
                         record->partial_rotary_factor);
        return;
    }
    struct json ropes = json_get(reader->object, ROPES, reader->err);
    for (int i = 0; i < 2 && json_is_object(&ropes); i++) {
        if (!json_has(&ropes, NAMES[i])) continue;
        struct json object = json_get(&ropes, NAMES[i], reader->err);
        struct rope rope = {*thetas[i], record->partial_rotary_factor};
        json_read_lenient(&object, ROPE_FIELDS, &rope, NULL, NULL, reader->err);
        *thetas[i] = rope.rope_theta;
        record->partial_rotary_factor = rope.partial_rotary_factor;
    }
}

static void check(struct family_reader *reader, const struct deepseek_v4 *record,
                  const struct decoder *decoder)
{
    long long heads = record->num_attention_heads, rotary = decoder->pooled.rope_dim;
    if (reader->err->kind) return;
    assert(record->o_groups > 0 && record->head_dim > 0);
    if (record->num_key_value_heads != 1) {
        family_fail(reader, "num_key_value_heads", "%lld key-value heads; deepseek_v4 has one",
                    (long long)record->num_key_value_heads);
    } else if (record->n_shared_experts != 1) {
        family_fail(reader, "n_shared_experts", "%lld shared experts; deepseek_v4 has one",
                    (long long)record->n_shared_experts);
    } else if (heads % record->o_groups) {
        family_fail(reader, "o_groups", "%lld groups do not divide %lld heads",
                    (long long)record->o_groups, heads);
    } else if (rotary < 2 || rotary % 2 || rotary > record->head_dim ||
               rotary > record->index_head_dim) {
        family_fail(reader, "head_dim",
                    "%lld dims (qk_rope_head_dim or partial_rotary_factor), of heads of %lld "
                    "and %lld, cannot be rotated in pairs",
                    rotary, (long long)record->head_dim, (long long)record->index_head_dim);
    } else if (strcmp(record->scoring_func, "sqrtsoftplus") != 0) {
        family_fail(reader, "scoring_func", "must be \"sqrtsoftplus\" for deepseek_v4");
    } else if (decoder->activation != FUNCTION_SILU) {
        family_fail(reader, "hidden_act",
                    "must be \"silu\" for deepseek_v4: its gates are clamped");
    } else if (record->attention_dropout > 0) {
        family_fail(reader, "attention_dropout", "entries are not dropped from");
    }
}

// Published counts have one shared expert, of the width of the routed ones.
static struct experts describe_experts(const struct deepseek_v4 *record)
{
    return (struct experts){.count = record->n_routed_experts,
                            .top_k = record->num_experts_per_tok,
                            .ffn = record->moe_intermediate_size,
                            .shared_ffn = record->moe_intermediate_size,
                            .route = FUNCTION_ROUTE_ROOT,
                            .route_scale = record->routed_scaling_factor,
                            .route_epsilon = 1e-20,
                            .choice_bias = true,
                            .clamp = record->swiglu_limit,
                            .shared_is_clamped = true};
}

static struct decoder describe(const struct deepseek_v4 *record)
{
    return (struct decoder){
        .model_type = "deepseek_v4",
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count = record->num_hidden_layers,
        .head_count = record->num_attention_heads,
        .kv_head_count = 1,
        .head_dim = record->head_dim,
        .ffn = record->moe_intermediate_size,
        .seq_len_max = record->max_position_embeddings,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_RMS_NORM,
        .norm_epsilon = record->rms_norm_eps,
        .mlp_bias = record->mlp_bias,
        .gated = true,
        .tied = record->tie_word_embeddings,
        .rope_theta = record->rope_theta,
        .window = record->sliding_window,
        .attention_sink = true,
        .experts = describe_experts(record),
        .indexer = {.head_count = record->index_n_heads,
                    .head_dim = record->index_head_dim,
                    .top_k = record->index_topk},
        .hyper = {.count = record->hc_mult,
                  .magnitude = 2,
                  .epsilon = record->hc_eps,
                  .rounds = (int)record->hc_sinkhorn_iters},
        .pooled = {.q_rank = record->q_lora_rank,
                   .rope_dim =
                       record->qk_rope_head_dim > 0
                           ? record->qk_rope_head_dim
                           : (int64_t)((double)record->head_dim * record->partial_rotary_factor),
                   .rope_theta = record->compress_rope_theta,
                   .out_groups = record->o_groups,
                   .out_rank = record->o_lora_rank},
    };
}

static const struct deepseek_v4 DEFAULTS = {
    .num_key_value_heads = 1,
    .o_groups = 8,
    .o_lora_rank = 1024,
    .n_shared_experts = 1,
    .index_n_heads = 64,
    .index_head_dim = 128,
    .index_topk = 512,
    .sliding_window = 128,
    .hc_mult = 4,
    .hc_sinkhorn_iters = 20,
    .num_hash_layers = 3,
    .max_position_embeddings = 1048576,
    .rms_norm_eps = 1e-6,
    .hc_eps = 1e-6,
    .swiglu_limit = 10,
    .routed_scaling_factor = 1.5,
    .rope_theta = 10000,
    .compress_rope_theta = 160000,
    .partial_rotary_factor = 0.125,
    .hidden_act = "silu",
    .scoring_func = "sqrtsoftplus",
};

static const void *read_v4(struct family_reader *reader)
{
    struct deepseek_v4 record = DEFAULTS;
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!json_has(reader->object, ROPES))
        family_absent(reader, FIELDS, &record,
                      &(struct family_keys){.optional = "rope_theta compress_rope_theta"});
    if (!family_complete(reader)) return NULL;
    read_ropes(reader, &record);
    struct decoder decoder = describe(&record);
    struct rates rates = read_rates(reader, &record);
    decoder.activation = family_activation(reader, "hidden_act", record.hidden_act);
    assert(rates.chosen > 0 && rates.all > 0);
    decoder.pooled.rates[POOLING_CHOSEN] = rates.chosen;
    decoder.pooled.rates[POOLING_ALL] = rates.all;
    decoder.pooled.kinds = read_kinds(reader, record.num_hidden_layers);
    decoder.experts.is_hashed = read_hashed(reader, &record);
    family_check_experts(reader, &decoder, "n_routed_experts", "num_experts_per_tok");
    check(reader, &record, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_DEEPSEEK_V4 = {"deepseek_v4", read_v4, decoder_graph,
                                                "DeepseekV4Config"};
