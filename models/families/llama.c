#include "models/families/llama_like.h"

static const void *read_llama(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,
                                .vocab_size = 32000,
                                .hidden_size = 4096,
                                .intermediate_size = 11008,
                                .num_hidden_layers = 32,
                                .num_attention_heads = 32,
                                .max_position_embeddings = 2048};
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "llama", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.mlp_bias = record.mlp_bias;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_LLAMA = {"llama", read_llama, decoder_graph};
