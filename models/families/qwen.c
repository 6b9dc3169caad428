#include "models/families/llama_like.h"

#include <assert.h>

// Windows only when use_sliding_window says so, and then from max_window_layers on.
static void set_windows(struct family_reader *reader, const struct llama_like *record,
                        struct decoder *decoder)
{
    if (reader->err->kind || !record->use_sliding_window) return;
    decoder->window = record->sliding_window;
    assert(record->num_hidden_layers > 0);
    bool *is_local = ARENA_NEW(reader->arena, bool, record->num_hidden_layers);
    for (int64_t i = record->max_window_layers; i < record->num_hidden_layers; i++) {
        is_local[i] = true;
    }
    decoder->has_window =
        llama_like_windows(reader, record, is_local, "sliding from max_window_layers on");
}

static const void *read_qwen2_as(struct family_reader *reader, const char *model_type,
                                 double rms_norm_eps, double rope_theta)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 32768,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps use_sliding_window",
                                .window_dimensions = "max_window_layers"};
    record.rms_norm_eps = rms_norm_eps;
    record.rope_theta = rope_theta;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, model_type, &record);
    decoder.qkv_bias = true;
    set_windows(reader, &record, &decoder);
    return family_decoder(reader, &decoder);
}

static const void *read_qwen3(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 32768,
                                .dimensions_or_null = "num_key_value_heads head_dim",
                                .optional =
                                    "hidden_act rms_norm_eps use_sliding_window attention_bias",
                                .window_dimensions = "max_window_layers"};
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "qwen3", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.head_norms = true;
    set_windows(reader, &record, &decoder);
    return family_decoder(reader, &decoder);
}

static const void *read_qwen2(struct family_reader *reader)
{
    return read_qwen2_as(reader, "qwen2", 1e-6, 10000);
}

// The language models of the multimodal ones: positions of three axes rotate other pairs by other
// angles, which is the same work, and what images add to early layers comes from outside. Until
// transformers 4.52 their keys stood beside vision_config, under the type of the whole.
static const void *read_qwen2_vl(struct family_reader *reader)
{
    return read_qwen2_as(reader, "qwen2_vl_text", 1e-5, 1e6);
}

static const void *read_qwen2_5_vl(struct family_reader *reader)
{
    return read_qwen2_as(reader, "qwen2_5_vl_text", 1e-5, 1e6);
}

// The text of the thinker of Qwen2.5-Omni.
static const void *read_qwen2_5_omni(struct family_reader *reader)
{
    return read_qwen2_as(reader, "qwen2_5_omni_text", 1e-6, 1e6);
}

static const void *read_qwen3_vl(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 128000,
                                .dimensions_or_null = "num_key_value_heads head_dim",
                                .optional = "hidden_act rms_norm_eps attention_bias"};
    record.rope_theta = 500000;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "qwen3_vl_text", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.head_norms = true;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_QWEN2 = {"qwen2", read_qwen2, decoder_graph, "Qwen2Config"};
const struct model_family FAMILY_QWEN2_VL = {"qwen2_vl", read_qwen2_vl, decoder_graph,
                                             "Qwen2VLTextConfig"};
const struct model_family FAMILY_QWEN2_VL_TEXT = {"qwen2_vl_text", read_qwen2_vl, decoder_graph,
                                                  "Qwen2VLTextConfig"};
const struct model_family FAMILY_QWEN2_5_VL = {"qwen2_5_vl", read_qwen2_5_vl, decoder_graph,
                                               "Qwen2_5_VLTextConfig"};
const struct model_family FAMILY_QWEN2_5_VL_TEXT = {"qwen2_5_vl_text", read_qwen2_5_vl,
                                                    decoder_graph, "Qwen2_5_VLTextConfig"};
const struct model_family FAMILY_QWEN2_5_OMNI_TEXT = {"qwen2_5_omni_text", read_qwen2_5_omni,
                                                      decoder_graph, "Qwen2_5OmniThinkerConfig"};
const struct model_family FAMILY_QWEN3 = {"qwen3", read_qwen3, decoder_graph, "Qwen3Config"};
const struct model_family FAMILY_QWEN3_VL_TEXT = {"qwen3_vl_text", read_qwen3_vl, decoder_graph,
                                                  "Qwen3VLTextConfig"};
