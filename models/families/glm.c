#include "models/families/llama_like.h"

// Half of each head rotates, in pairs of neighbours (another order of the weights' columns). GLM-4
// of 2024 is `glm`; that of 2025, `glm4`, norms what attention and mlp return besides.
static const void *read_glm_as(struct family_reader *reader, const char *model_type,
                               enum norm_place norm_place)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                .attention_bias = true,
                                .dimensions_or_null = "num_key_value_heads head_dim",
                                .optional = "hidden_act rms_norm_eps partial_rotary_factor "
                                            "attention_bias"};
    record.rms_norm_eps = 1.5625e-7;
    record.partial_rotary_factor = 0.5;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, model_type, &record);
    decoder.qkv_bias = record.attention_bias;
    decoder.norm_place = norm_place;
    return family_decoder(reader, &decoder);
}

static const void *read_glm(struct family_reader *reader)
{
    return read_glm_as(reader, "glm", NORM_BEFORE);
}

static const void *read_glm4(struct family_reader *reader)
{
    return read_glm_as(reader, "glm4", NORM_BOTH);
}

const struct model_family FAMILY_GLM = {"glm", read_glm, decoder_graph, "GlmConfig"};
const struct model_family FAMILY_GLM4 = {"glm4", read_glm4, decoder_graph, "Glm4Config"};
