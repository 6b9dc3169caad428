#include "models/families/llama_like.h"

static const void *read_llama(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048,
                                .optional = "hidden_act rms_norm_eps attention_bias mlp_bias"};
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "llama", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.mlp_bias = record.mlp_bias;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_LLAMA = {"llama", read_llama, decoder_graph, "LlamaConfig"};
