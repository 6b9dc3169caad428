#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

#include <assert.h>
#include <string.h>

// One norm for attention and mlp, whose results are added together, and scaled logits. Rope turns
// pairs of neighbours: another order of the weights' columns, and nothing else.
static struct decoder read_common(struct family_reader *reader, const char *model_type,
                                  struct llama_like *record, bool has_head_dim)
{
    record->tie_word_embeddings = true;
    record->logit_scale = 0.0625;
    record->optional = arena_print(reader->arena, "hidden_act layer_norm_eps logit_scale %s%s",
                                   "attention_bias", record->optional ? record->optional : "");
    llama_like_read(reader, record);
    if (!has_head_dim) record->head_dim = 0;  // not among its keys
    struct decoder decoder = llama_like_decoder(reader, model_type, record);
    decoder.qkv_bias = decoder.out_bias = record->attention_bias;
    decoder.norm_place = NORM_SHARED;
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.norm_is_unbiased = true;
    decoder.norm_epsilon = record->layer_norm_eps;
    decoder.logit_scale = record->logit_scale;
    return decoder;
}

static const void *read_cohere(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 8192,
                                .dimensions_or_null = "num_key_value_heads"};
    record.rope_theta = 500000;
    struct decoder decoder = read_common(reader, "cohere", &record, false);
    return family_decoder(reader, &decoder);
}

// Layers with a window rotate, those without do not.
static const void *read_cohere2(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 8192,
                                .sliding_window_pattern = 4,
                                .dimensions_or_null = "num_key_value_heads sliding_window"};
    if (!json_has(reader->object, "layer_types")) record.optional = " sliding_window_pattern";
    struct decoder decoder = read_common(reader, "cohere2", &record, false);
    if (reader->err->kind) return NULL;
    decoder.window = record.sliding_window;
    decoder.has_window = llama_like_pattern(reader, &record, record.sliding_window_pattern);
    decoder.is_unrotated = llama_like_others(reader, decoder.has_window, record.num_hidden_layers);
    if (record.sliding_window == 0) decoder.rope_theta = 0;
    return family_decoder(reader, &decoder);
}

// Experts beside attention; dense layers stand in front, and may rotate without a window.
struct cohere_moe {
    int64_t num_experts, num_experts_per_tok, num_shared_experts;
    int64_t prefix_dense_intermediate_size, prefix_dense_sliding_window_pattern;
    int64_t first_k_dense_replace;
    const char *shared_expert_combination_strategy, *expert_selection_fn;
    bool norm_topk_prob;
};

static const struct json_field MOE_FIELDS[] = {
    {JSON_OPT_I64(struct cohere_moe, num_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct cohere_moe, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct cohere_moe, num_shared_experts, 0, EXPERTS_MAX)},
    {JSON_OPT_I64(struct cohere_moe, prefix_dense_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct cohere_moe, prefix_dense_sliding_window_pattern, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct cohere_moe, first_k_dense_replace, 0, LAYERS_MAX)},
    {JSON_OPT_TEXT(struct cohere_moe, shared_expert_combination_strategy)},
    {JSON_OPT_TEXT(struct cohere_moe, expert_selection_fn)},
    {JSON_OPT_BOOL(struct cohere_moe, norm_topk_prob)},
    {JSON_OPT_ANY("mlp_layer_types")},
    {0},
};

static bool is_one_of(struct family_reader *reader, const char *key, const char *text,
                      const char *first, const char *second)
{
    bool is_first = strcmp(text, first) == 0;
    if (!reader->err->kind && !is_first && strcmp(text, second) != 0)
        family_fail(reader, key, "must be \"%s\" or \"%s\"", first, second);
    return is_first;
}

static void set_experts(struct family_reader *reader, const struct cohere_moe *own, int64_t ffn,
                        struct decoder *decoder)
{
    bool is_softmax =
        is_one_of(reader, "expert_selection_fn", own->expert_selection_fn, "softmax", "sigmoid");
    enum function route =
        own->norm_topk_prob ? FUNCTION_ROUTE_SIGMOID_TOP_K : FUNCTION_ROUTE_SIGMOID;
    decoder->experts = (struct experts){
        .count = own->num_experts,
        .top_k = own->num_experts_per_tok,
        .ffn = ffn,
        .shared_ffn = own->num_shared_experts * ffn,
        .shared_is_averaged = is_one_of(reader, "shared_expert_combination_strategy",
                                        own->shared_expert_combination_strategy, "average", "sum"),
        .route = is_softmax ? FUNCTION_ROUTE_TOP_K_SOFTMAX : route,
        .is_dense = expert_keys_dense(reader, decoder->layer_count)};
    bool *is_dense = ARENA_NEW(reader->arena, bool, decoder->layer_count);
    for (int64_t i = 0; i < decoder->layer_count && i < own->first_k_dense_replace; i++)
        is_dense[i] = true;
    if (!decoder->experts.is_dense && !reader->err->kind)
        family_taken(reader, "mlp_layer_types", "by rule (first_k_dense_replace %lld)",
                     (long long)own->first_k_dense_replace);
    if (!decoder->experts.is_dense) decoder->experts.is_dense = is_dense;
    family_check_experts(reader, decoder, "num_experts", "num_experts_per_tok");
    if (!reader->err->kind && decoder->experts.shared_ffn > WIDTH_MAX)
        family_fail(reader, "num_shared_experts", "together the shared experts are wider than %d",
                    WIDTH_MAX);
}

static void set_windows(struct family_reader *reader, const struct llama_like *record,
                        const struct cohere_moe *own, struct decoder *decoder)
{
    int64_t prefix = own->first_k_dense_replace, alone = own->prefix_dense_sliding_window_pattern;
    bool *is_local = ARENA_NEW(reader->arena, bool, decoder->layer_count);
    assert(alone > 0 && prefix >= 0 && record->sliding_window_pattern > 0);
    bool *is_unrotated = ARENA_NEW(reader->arena, bool, decoder->layer_count);
    for (int64_t i = 0; i < decoder->layer_count; i++)
        is_local[i] = i < prefix ? (i + 1) % alone != 0
                                 : (i - prefix + 1) % record->sliding_window_pattern != 0;
    decoder->window = record->sliding_window;
    decoder->has_window = llama_like_windows(reader, record, is_local,
                                             "the last of each sliding_window_pattern full");
    for (int64_t i = 0; i < decoder->layer_count; i++)
        is_unrotated[i] = !decoder->has_window[i] && !(decoder->experts.is_dense[i] && alone == 1);
    decoder->is_unrotated = is_unrotated;
}

static const void *read_cohere2_moe(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 8192,
                                .sliding_window_pattern = 4, .dimensions = "head_dim",
                                .dimensions_or_null = "num_key_value_heads sliding_window"};
    struct cohere_moe own = {.num_shared_experts = -1,
                             .prefix_dense_sliding_window_pattern = 1,
                             .shared_expert_combination_strategy = "average",
                             .expert_selection_fn = "softmax",
                             .norm_topk_prob = true};
    if (!json_has(reader->object, "layer_types")) record.optional = " sliding_window_pattern";
    struct decoder decoder = read_common(reader, "cohere2_moe", &record, true);
    family_read(reader, MOE_FIELDS, &own);
    family_absent(
        reader, MOE_FIELDS, &own,
        &(struct family_keys){.dimensions = "num_experts num_experts_per_tok num_shared_experts",
                              .optional = "shared_expert_combination_strategy expert_selection_fn "
                                          "norm_topk_prob prefix_dense_sliding_window_pattern"});
    if (!family_complete(reader)) return NULL;
    if (json_has(reader->object, "rms_norm_eps")) {
        decoder.norm = FUNCTION_RMS_NORM;
        decoder.norm_epsilon = record.rms_norm_eps;
    } else {
        family_taken(reader, "rms_norm_eps", "none (layer norms)");
    }
    set_experts(reader, &own, decoder.ffn, &decoder);
    if (reader->err->kind) return NULL;
    bool has_dense = false;
    for (int64_t i = 0; i < decoder.layer_count; i++)
        has_dense = has_dense || decoder.experts.is_dense[i];
    if (has_dense && own.prefix_dense_intermediate_size == 0)
        family_fail(reader, "prefix_dense_intermediate_size", "must be given for dense layers");
    if (has_dense) decoder.ffn = own.prefix_dense_intermediate_size;
    if (record.sliding_window == 0)
        family_fail(reader, "sliding_window", "must be above 0: layers rotate where they have one");
    set_windows(reader, &record, &own, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_COHERE2_MOE = {"cohere2_moe", read_cohere2_moe, decoder_graph,
                                                "Cohere2MoeConfig"};
const struct model_family FAMILY_COHERE = {"cohere", read_cohere, decoder_graph, "CohereConfig"};
const struct model_family FAMILY_COHERE2 = {"cohere2", read_cohere2, decoder_graph,
                                            "Cohere2Config"};
