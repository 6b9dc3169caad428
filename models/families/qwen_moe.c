#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

#include <assert.h>

// Every other layer up to max_window_layers, where layer_types does not say otherwise.
static void set_windows(struct family_reader *reader, const struct llama_like *record,
                        struct decoder *decoder)
{
    if (reader->err->kind || !record->use_sliding_window) return;
    decoder->window = record->sliding_window;
    assert(record->num_hidden_layers > 0);
    bool *is_local = ARENA_NEW(reader->arena, bool, record->num_hidden_layers);
    for (int64_t i = 0; i < record->num_hidden_layers; i += 2) {
        is_local[i] = i < record->max_window_layers;
    }
    decoder->has_window =
        llama_like_windows(reader, record, is_local, "every other up to max_window_layers slides");
}

// The shared expert is weighted by a gate of its own.
static const void *read_qwen2_moe(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,
                                .max_position_embeddings = 32768,
                                .qkv_bias = true,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps use_sliding_window qkv_bias",
                                .window_dimensions = "max_window_layers"};
    struct expert_keys keys = {.decoder_sparse_step = 1,
                               .dimensions =
                                   "num_experts num_experts_per_tok moe_intermediate_size "
                                   "shared_expert_intermediate_size",
                               .optional = "decoder_sparse_step norm_topk_prob mlp_only_layers"};
    llama_like_read(reader, &record);
    expert_keys_read(reader, &keys, record.num_hidden_layers);
    struct decoder decoder = llama_like_decoder(reader, "qwen2_moe", &record);
    decoder.qkv_bias = record.qkv_bias;
    set_windows(reader, &record, &decoder);
    expert_keys_apply(reader, &keys, &decoder);
    decoder.experts.shared_ffn = keys.shared_expert_intermediate_size;
    decoder.experts.shared_gate = true;
    return family_decoder(reader, &decoder);
}

// Norms of heads, and experts in each layer or every so many.
static struct decoder read_moe_as(struct family_reader *reader, const char *model_type,
                                  struct llama_like *record, struct expert_keys *keys)
{
    keys->has_local_name = true;
    keys->decoder_sparse_step = 1;
    keys->dimensions = "num_experts num_experts_per_tok moe_intermediate_size";
    if (!keys->optional) keys->optional = "decoder_sparse_step norm_topk_prob mlp_only_layers";
    llama_like_read(reader, record);
    expert_keys_read(reader, keys, record->num_hidden_layers);
    struct decoder decoder = llama_like_decoder(reader, model_type, record);
    decoder.qkv_bias = decoder.out_bias = record->attention_bias;
    decoder.head_norms = true;
    expert_keys_apply(reader, keys, &decoder);
    return decoder;
}

static const void *read_qwen3_moe(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 32768,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional =
                                    "hidden_act rms_norm_eps use_sliding_window attention_bias"};
    struct decoder decoder = read_moe_as(reader, "qwen3_moe", &record, &(struct expert_keys){0});
    if (record.use_sliding_window) decoder.window = record.sliding_window;
    return family_decoder(reader, &decoder);
}

// Of kinds of layers that have bases of their own each needs one.
static bool check_bases(struct family_reader *reader)
{
    static const char *const KINDS[] = {"full_attention", "sliding_attention"};
    if (reader->err->kind || !json_has(reader->object, "rope_parameters")) return false;
    struct json rope = json_get(reader->object, "rope_parameters", reader->err);
    for (int i = 0; i < 2 && json_is_object(&rope); i++) {
        if (!json_has(&rope, KINDS[i]))
            return family_fail(reader, "rope_parameters", "missing \"%s\"", KINDS[i]);
    }
    return !reader->err->kind;
}

// Qwen3's, with windows in the layers that layer_types says, which rotate by a base of their own.
static const void *read_mellum(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,
                                .max_position_embeddings = 131072,
                                .rope_local_base_freq = 10000,
                                .dimensions = "num_key_value_heads head_dim",
                                .dimensions_or_null = "sliding_window",
                                .optional = "hidden_act rms_norm_eps attention_bias"};
    struct expert_keys keys = {.has_local_name = true,
                               .decoder_sparse_step = 1,
                               .norm_topk_prob = true,
                               .dimensions =
                                   "num_experts num_experts_per_tok moe_intermediate_size",
                               .optional = "norm_topk_prob"};
    if (!check_bases(reader))
        record.optional = "hidden_act rms_norm_eps attention_bias rope_local_base_freq";
    record.rope_theta = 500000;
    llama_like_read(reader, &record);
    expert_keys_read(reader, &keys, record.num_hidden_layers);
    keys.decoder_sparse_step = 1;
    keys.is_mlp_only = expert_keys_dense(reader, record.num_hidden_layers);
    struct decoder decoder = llama_like_decoder(reader, "mellum", &record);
    if (reader->err->kind) return NULL;
    if (!keys.is_mlp_only) family_taken(reader, "mlp_layer_types", "all sparse");
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.head_norms = true;
    decoder.window = record.sliding_window;
    decoder.rope_theta_local = record.rope_local_base_freq;
    decoder.has_window = llama_like_windows(
        reader, &record, ARENA_NEW(reader->arena, bool, decoder.layer_count), "none slides");
    expert_keys_apply(reader, &keys, &decoder);
    return family_decoder(reader, &decoder);
}

static const void *read_qwen3_vl_moe(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 128000,
                                .tie_word_embeddings = true,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias"};
    struct expert_keys keys = {.optional = "decoder_sparse_step mlp_only_layers"};
    record.rope_theta = 500000;
    struct decoder decoder = read_moe_as(reader, "qwen3_vl_moe_text", &record, &keys);
    decoder.experts.route = FUNCTION_ROUTE_SOFTMAX_TOP_K;
    return family_decoder(reader, &decoder);
}

// The text of the thinker of Qwen3-Omni.
static const void *read_qwen3_omni_moe(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 32768,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias"};
    struct expert_keys keys = {.norm_topk_prob = true};
    record.rope_theta = 1e6;
    struct decoder decoder = read_moe_as(reader, "qwen3_omni_moe_text", &record, &keys);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_QWEN2_MOE = {"qwen2_moe", read_qwen2_moe, decoder_graph,
                                              "Qwen2MoeConfig"};
const struct model_family FAMILY_QWEN3_MOE = {"qwen3_moe", read_qwen3_moe, decoder_graph,
                                              "Qwen3MoeConfig"};
const struct model_family FAMILY_QWEN3_VL_MOE_TEXT = {"qwen3_vl_moe_text", read_qwen3_vl_moe,
                                                      decoder_graph, "Qwen3VLMoeTextConfig"};
const struct model_family FAMILY_QWEN3_OMNI_MOE_TEXT = {"qwen3_omni_moe_text", read_qwen3_omni_moe,
                                                        decoder_graph, "Qwen3OmniMoeTextConfig"};
const struct model_family FAMILY_MELLUM = {"mellum", read_mellum, decoder_graph, "MellumConfig"};
