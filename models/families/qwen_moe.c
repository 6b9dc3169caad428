#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

static struct llama_like defaults(void)
{
    return (struct llama_like){LLAMA_LIKE_DEFAULTS,
                               .vocab_size = 151936,
                               .hidden_size = 2048,
                               .num_hidden_layers = 24,
                               .max_position_embeddings = 32768,
                               .sliding_window = 4096,
                               .max_window_layers = 28};
}

// Every other layer up to max_window_layers, where layer_types does not say otherwise.
static void set_windows(struct family_reader *reader, const struct llama_like *record,
                        struct decoder *decoder)
{
    if (reader->err->kind || !record->use_sliding_window) return;
    decoder->window = record->sliding_window;
    decoder->has_window = record->is_local;
    if (record->is_local) return;
    bool *is_local = ARENA_NEW(reader->arena, bool, record->num_hidden_layers);
    for (int64_t i = 0; i < record->num_hidden_layers; i += 2) {
        is_local[i] = i < record->max_window_layers;
    }
    decoder->has_window = is_local;
}

// The shared expert is weighted by a gate of its own.
static const void *read_qwen2_moe(struct family_reader *reader)
{
    struct llama_like record = defaults();
    struct expert_keys keys = {.num_experts = 60,
                               .num_experts_per_tok = 4,
                               .moe_intermediate_size = 1408,
                               .shared_expert_intermediate_size = 5632,
                               .decoder_sparse_step = 1};
    record.intermediate_size = 5632;
    record.num_attention_heads = record.num_key_value_heads = 16;
    record.qkv_bias = true;
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
    struct llama_like record = defaults();
    struct expert_keys keys = {.num_experts = 128,
                               .has_local_name = true,
                               .num_experts_per_tok = 8,
                               .moe_intermediate_size = 768,
                               .decoder_sparse_step = 1};
    record.intermediate_size = 6144;
    record.num_attention_heads = 32;
    record.num_key_value_heads = 4;
    llama_like_read(reader, &record);
    expert_keys_read(reader, &keys, record.num_hidden_layers);
    struct decoder decoder = llama_like_decoder(reader, "qwen3_moe", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.head_norms = true;
    if (record.use_sliding_window) decoder.window = record.sliding_window;
    expert_keys_apply(reader, &keys, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_QWEN2_MOE = {"qwen2_moe", read_qwen2_moe, decoder_graph};
const struct model_family FAMILY_QWEN3_MOE = {"qwen3_moe", read_qwen3_moe, decoder_graph};
