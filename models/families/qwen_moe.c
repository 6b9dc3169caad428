#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

// Every other layer up to max_window_layers, where layer_types does not say otherwise.
static void set_windows(struct family_reader *reader, const struct llama_like *record,
                        struct decoder *decoder)
{
    if (reader->err->kind || !record->use_sliding_window) return;
    decoder->window = record->sliding_window;
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

static const void *read_qwen3_moe(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 32768,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional =
                                    "hidden_act rms_norm_eps use_sliding_window attention_bias"};
    struct expert_keys keys = {.has_local_name = true,
                               .decoder_sparse_step = 1,
                               .dimensions =
                                   "num_experts num_experts_per_tok moe_intermediate_size",
                               .optional = "decoder_sparse_step norm_topk_prob mlp_only_layers"};
    llama_like_read(reader, &record);
    expert_keys_read(reader, &keys, record.num_hidden_layers);
    struct decoder decoder = llama_like_decoder(reader, "qwen3_moe", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.head_norms = true;
    if (record.use_sliding_window) decoder.window = record.sliding_window;
    expert_keys_apply(reader, &keys, &decoder);
    return family_decoder(reader, &decoder);
}

static const void *read_qwen3_vl_moe(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 128000,
                                .tie_word_embeddings = true,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias"};
    struct expert_keys keys = {.decoder_sparse_step = 1,
                               .dimensions =
                                   "num_experts num_experts_per_tok moe_intermediate_size",
                               .optional = "decoder_sparse_step mlp_only_layers"};
    record.rope_theta = 500000;
    llama_like_read(reader, &record);
    expert_keys_read(reader, &keys, record.num_hidden_layers);
    struct decoder decoder = llama_like_decoder(reader, "qwen3_vl_moe_text", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.head_norms = true;
    keys.norm_topk_prob = true;
    expert_keys_apply(reader, &keys, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_QWEN2_MOE = {"qwen2_moe", read_qwen2_moe, decoder_graph,
                                              "Qwen2MoeConfig"};
const struct model_family FAMILY_QWEN3_MOE = {"qwen3_moe", read_qwen3_moe, decoder_graph,
                                              "Qwen3MoeConfig"};
const struct model_family FAMILY_QWEN3_VL_MOE_TEXT = {"qwen3_vl_moe_text", read_qwen3_vl_moe,
                                                      decoder_graph, "Qwen3VLMoeTextConfig"};
