#include "models/families/llama_like.h"

static const void *read_mistral(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,      .vocab_size = 32000,
                                .hidden_size = 4096,      .intermediate_size = 14336,
                                .num_hidden_layers = 32,  .num_attention_heads = 32,
                                .num_key_value_heads = 8, .max_position_embeddings = 131072,
                                .sliding_window = 4096};
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "mistral", &record);
    decoder.window = record.sliding_window;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_MISTRAL = {"mistral", read_mistral, decoder_graph};
