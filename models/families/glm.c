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

// The text of GLM-4.1V, whose queries, keys and values always have biases. How positions of three
// axes rotate is the same work; of a head as much as the file says, or all.
static struct decoder read_text(struct family_reader *reader, const char *model_type,
                                bool own_heads, struct llama_like record)
{
    record.optional = "hidden_act rms_norm_eps partial_rotary_factor";
    record.rms_norm_eps = 1e-5;
    llama_like_read(reader, &record);
    if (!own_heads) record.head_dim = 0;  // not among its keys
    struct decoder decoder = llama_like_decoder(reader, model_type, &record);
    decoder.norm_place = NORM_BOTH;
    return decoder;
}

static const void *read_glm4v(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 32768,
                                .dimensions_or_null = "num_key_value_heads"};
    struct decoder decoder = read_text(reader, "glm4v_text", false, record);
    decoder.qkv_bias = true;
    return family_decoder(reader, &decoder);
}

// The text of GLM-OCR has none, and heads of a width of their own.
static const void *read_glm_ocr(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                .dimensions_or_null = "num_key_value_heads"};
    struct decoder decoder = read_text(reader, "glm_ocr_text", true, record);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GLM_OCR_TEXT = {"glm_ocr_text", read_glm_ocr, decoder_graph,
                                                 "GlmOcrTextConfig"};
const struct model_family FAMILY_GLM4V_TEXT = {"glm4v_text", read_glm4v, decoder_graph,
                                               "Glm4vTextConfig"};
const struct model_family FAMILY_GLM = {"glm", read_glm, decoder_graph, "GlmConfig"};
const struct model_family FAMILY_GLM4 = {"glm4", read_glm4, decoder_graph, "Glm4Config"};
