#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

#include <assert.h>

static const struct json_field FIELDS[] = {
    {"swiglu_alpha", JSON_TYPE_F64, offsetof(struct decoder, activation_scalar), 1e-6, 1e6, true},
    {0},
};

// Every other layer has a window, the first among them, where layer_types does not say otherwise.
static const bool *local_layers(struct family_reader *reader, const struct llama_like *record)
{
    if (reader->err->kind) return NULL;
    assert(record->num_hidden_layers > 0);
    bool *is_local = ARENA_NEW(reader->arena, bool, record->num_hidden_layers);
    for (int64_t i = 0; i < record->num_hidden_layers; i += 2) {
        is_local[i] = true;
    }
    return llama_like_windows(reader, record, is_local, "every other one slides");
}

static const void *read_gpt_oss(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                .attention_bias = true,
                                .dimensions_or_null = "num_key_value_heads head_dim sliding_window",
                                .optional = "rms_norm_eps attention_bias"};
    struct expert_keys keys = {.has_local_name = true,
                               .dimensions = "num_local_experts num_experts_per_tok"};
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
    family_absent(reader, FIELDS, &decoder, &(struct family_keys){.optional = "swiglu_alpha"});
    expert_keys_everywhere(reader, &keys, record.intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    decoder.experts.route = FUNCTION_ROUTE_TOP_K_SOFTMAX;
    decoder.experts.route_bias = decoder.experts.expert_bias = true;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GPT_OSS = {"gpt_oss", read_gpt_oss, decoder_graph, "GptOssConfig"};
