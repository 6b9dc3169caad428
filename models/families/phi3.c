#include "models/families/llama_like.h"

static const void *read_phi3(struct family_reader *reader)
{
    struct llama_like record = {
        LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 4096,
        .optional = "hidden_act rms_norm_eps partial_rotary_factor resid_pdrop embd_pdrop",
        .optional_or_null = "sliding_window"};
    record.rms_norm_eps = 1e-5;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "phi3", &record);
    decoder.window = record.sliding_window;
    decoder.hidden_dropout = record.resid_pdrop;
    decoder.embedding_dropout = record.embd_pdrop;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_PHI3 = {"phi3", read_phi3, decoder_graph, "Phi3Config"};
