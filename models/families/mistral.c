#include "models/families/llama_like.h"

static const void *read_mistral(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                .dimensions_or_null = "num_key_value_heads sliding_window",
                                .optional = "hidden_act rms_norm_eps"};
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "mistral", &record);
    decoder.window = record.sliding_window;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_MISTRAL = {"mistral", read_mistral, decoder_graph,
                                            "MistralConfig"};
