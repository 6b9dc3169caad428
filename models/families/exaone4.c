#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

#include <assert.h>
#include <string.h>

// The releases write the pattern of windows as letters: "LLLG" is L with and G without. All that it
// says beyond a number is refused.
static int64_t read_pattern(struct family_reader *reader)
{
    static const char KEY[] = "sliding_window_pattern";
    enum { OTHERWISE = 4 };
    if (reader->err->kind) return OTHERWISE;
    if (!json_has(reader->object, KEY)) {
        if (!json_has(reader->object, "layer_types")) family_taken(reader, KEY, "%d", OTHERWISE);
        return OTHERWISE;
    }
    struct json pattern = json_get(reader->object, KEY, reader->err);
    if (json_is_number(&pattern)) return json_i64(&pattern, 1, LAYERS_MAX, reader->err);
    const char *letters = json_text(&pattern, reader->err);
    size_t local = letters ? strspn(letters, "L") : 0;
    if (letters && strcmp(letters + local, "G") != 0) {
        json_fail(&pattern, reader->err,
                  "expected a number, or L and one G behind them (\"LLLG\")");
    }
    return (int64_t)local + 1;
}

// Norms of heads, and of what attention and mlp return. Where there are windows, only layers that
// have one rotate.
static struct decoder read_as(struct family_reader *reader, const char *model_type,
                              enum norm_place norm_place)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048,
                                .has_own_pattern = true,
                                .dimensions_or_null = "num_key_value_heads sliding_window",
                                .optional = "hidden_act rms_norm_eps"};
    record.rms_norm_eps = 1e-5;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, model_type, &record);
    if (reader->err->kind) return decoder;
    decoder.norm_place = norm_place;
    decoder.head_norms = true;
    decoder.window = record.sliding_window;
    if (record.sliding_window == 0) return decoder;
    int64_t pattern = read_pattern(reader);
    if (reader->err->kind) return decoder;
    decoder.has_window = llama_like_pattern(reader, &record, pattern);
    decoder.is_unrotated = llama_like_others(reader, decoder.has_window, record.num_hidden_layers);
    return decoder;
}

static const void *read_exaone4(struct family_reader *reader)
{
    struct decoder decoder = read_as(reader, "exaone4", NORM_RESULT);
    return family_decoder(reader, &decoder);
}

// K-EXAONE: norms in front, and experts beside a shared one in all layers but the first ones.
struct exaone_moe {
    int64_t num_experts, num_experts_per_tok, num_shared_experts, moe_intermediate_size;
    int64_t first_k_dense_replace;
    double routed_scaling_factor;
    bool norm_topk_prob;
};

static const struct json_field MOE_FIELDS[] = {
    {JSON_OPT_I64(struct exaone_moe, num_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct exaone_moe, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct exaone_moe, num_shared_experts, 0, EXPERTS_MAX)},
    {JSON_OPT_I64(struct exaone_moe, moe_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct exaone_moe, first_k_dense_replace, 0, LAYERS_MAX)},
    {JSON_OPT_F64(struct exaone_moe, routed_scaling_factor, 1e-6, 1e6)},
    {JSON_OPT_BOOL(struct exaone_moe, norm_topk_prob)},
    {JSON_OPT_ANY("mlp_layer_types")},
    // Which groups of experts are open changes neither shapes nor work.
    {JSON_OPT_ANY("n_group")},
    {JSON_OPT_ANY("topk_group")},
    {0},
};

static const struct family_keys MOE_KEYS = {
    .dimensions = "num_experts num_experts_per_tok num_shared_experts moe_intermediate_size",
    .optional = "routed_scaling_factor norm_topk_prob"};

static const bool *dense_layers(struct family_reader *reader, const struct exaone_moe *own,
                                int64_t layer_count)
{
    const bool *listed = expert_keys_dense(reader, layer_count);
    if (listed || reader->err->kind) return listed;
    assert(own->first_k_dense_replace >= 0);
    family_taken(reader, "mlp_layer_types", "by rule (first_k_dense_replace %lld)",
                 (long long)own->first_k_dense_replace);
    bool *is_dense = ARENA_NEW(reader->arena, bool, layer_count);
    for (int64_t i = 0; i < layer_count && i < own->first_k_dense_replace; i++)
        is_dense[i] = true;
    return is_dense;
}

static void set_experts(struct family_reader *reader, const struct exaone_moe *own,
                        struct decoder *decoder)
{
    assert(own->num_shared_experts >= 0 && decoder->layer_count > 0);
    decoder->experts = (struct experts){
        .count = own->num_experts,
        .top_k = own->num_experts_per_tok,
        .ffn = own->moe_intermediate_size,
        .shared_ffn = own->moe_intermediate_size * own->num_shared_experts,
        .route = own->norm_topk_prob ? FUNCTION_ROUTE_SIGMOID_TOP_K : FUNCTION_ROUTE_SIGMOID,
        .route_scale = own->routed_scaling_factor,
        .choice_bias = true,
        .is_dense = dense_layers(reader, own, decoder->layer_count)};
    family_check_experts(reader, decoder, "num_experts", "num_experts_per_tok");
    if (!reader->err->kind && decoder->experts.shared_ffn > WIDTH_MAX) {
        family_fail(reader, "num_shared_experts", "together the shared experts are wider than %d",
                    WIDTH_MAX);
    }
}

static const void *read_exaone_moe(struct family_reader *reader)
{
    // Every key of experts must be given; 0 has a meaning for two of them.
    struct exaone_moe own = {.num_shared_experts = -1,
                             .first_k_dense_replace = -1,
                             .routed_scaling_factor = 2.5,
                             .norm_topk_prob = true};
    family_read(reader, MOE_FIELDS, &own);
    family_absent(reader, MOE_FIELDS, &own, &MOE_KEYS);
    if (!json_has(reader->object, "mlp_layer_types")) {
        family_absent(reader, MOE_FIELDS, &own,
                      &(struct family_keys){.dimensions = "first_k_dense_replace"});
    }
    struct decoder decoder = read_as(reader, "exaone_moe", NORM_BEFORE);
    if (reader->err->kind) return NULL;
    set_experts(reader, &own, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_EXAONE_MOE = {"exaone_moe", read_exaone_moe, decoder_graph,
                                               "ExaoneMoeConfig"};
const struct model_family FAMILY_EXAONE4 = {"exaone4", read_exaone4, decoder_graph,
                                            "Exaone4Config"};
