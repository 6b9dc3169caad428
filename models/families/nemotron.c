#include "models/families/llama_like.h"

static const void *read_nemotron(struct family_reader *reader)
{
    struct llama_like record = {
        LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 4096,
        .optional = "hidden_act norm_eps partial_rotary_factor attention_bias mlp_bias"};
    record.hidden_act = "relu2";
    record.partial_rotary_factor = 0.5;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "nemotron", &record);
    decoder.norm = FUNCTION_LAYER_NORM;  // stored as w - 1
    decoder.norm_epsilon = record.norm_eps;
    decoder.gated = false;
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.mlp_bias = record.mlp_bias;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_NEMOTRON = {"nemotron", read_nemotron, decoder_graph,
                                             "NemotronConfig"};
