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

// Late positions have a temperature of attention (llama_4_scaling_beta), which is left out and
// said.
const char family_no_temperature[] =
    "attention has no temperature that grows with the position: the same shapes and work, another "
    "loss past the original positions";

static const void *read_ministral3(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 262144,
                                .dimensions_or_null = "num_key_value_heads head_dim",
                                .optional = "hidden_act rms_norm_eps",
                                .optional_or_null = "sliding_window"};
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 1e6;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "ministral3", &record);
    decoder.window = record.sliding_window;
    reader->ledger->remark = family_no_temperature;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_MINISTRAL3 = {"ministral3", read_ministral3, decoder_graph,
                                               "Ministral3Config"};

// Mistral whose layers say by themselves which of them have the window.
static const void *read_ministral(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                .dimensions_or_null = "num_key_value_heads head_dim sliding_window",
                                .optional = "hidden_act rms_norm_eps"};
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "ministral", &record);
    decoder.window = record.sliding_window;
    decoder.has_window = llama_like_windows(reader, &record, NULL, "all sliding");
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_MINISTRAL = {"ministral", read_ministral, decoder_graph,
                                              "MinistralConfig"};
