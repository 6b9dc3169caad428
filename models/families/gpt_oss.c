#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

static const struct json_field FIELDS[] = {
    {"swiglu_alpha", JSON_TYPE_F64, offsetof(struct decoder, activation_scalar), 1e-6, 1e6, true},
    {0},
};

// Every other layer has a window, the first among them, where layer_types does not say otherwise.
static const bool *local_layers(struct family_reader *reader, const struct llama_like *record)
{
    if (reader->err->kind || record->is_local) return record->is_local;
    bool *is_local = ARENA_NEW(reader->arena, bool, record->num_hidden_layers);
    for (int64_t i = 0; i < record->num_hidden_layers; i += 2) {
        is_local[i] = true;
    }
    return is_local;
}

static const void *read_gpt_oss(struct family_reader *reader)
{
    struct llama_like record = {
        LLAMA_LIKE_DEFAULTS,       .vocab_size = 201088,    .hidden_size = 2880,
        .intermediate_size = 2880, .num_hidden_layers = 36, .num_attention_heads = 64,
        .num_key_value_heads = 8,  .head_dim = 64,          .max_position_embeddings = 131072,
        .sliding_window = 128,     .attention_bias = true};
    struct expert_keys keys = {
        .num_experts = 128, .num_experts_per_tok = 4, .has_local_name = true};
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 150000;
    llama_like_read(reader, &record);
    expert_keys_read(reader, &keys, record.num_hidden_layers);
    struct decoder decoder = llama_like_decoder(reader, "gpt_oss", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.attention_sink = true;
    decoder.window = record.sliding_window;
    decoder.has_window = local_layers(reader, &record);
    decoder.activation = FUNCTION_CLAMPED_SWIGLU;
    decoder.activation_scalar = 1.702;
    if (!reader->err->kind) family_read(reader, FIELDS, &decoder);
    expert_keys_everywhere(reader, &keys, record.intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    decoder.experts.route = FUNCTION_ROUTE_TOP_K_SOFTMAX;
    decoder.experts.route_bias = decoder.experts.expert_bias = true;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GPT_OSS = {"gpt_oss", read_gpt_oss, decoder_graph};
