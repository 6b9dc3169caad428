#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

// All layers have experts, and no mlp beside them: intermediate_size is that of one expert.
static const void *read_mixtral(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps",
                                .optional_or_null = "sliding_window"};
    struct expert_keys keys = {.has_local_name = true,
                               .dimensions = "num_local_experts num_experts_per_tok"};
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 1e6;
    llama_like_read(reader, &record);
    expert_keys_read(reader, &keys, record.num_hidden_layers);
    struct decoder decoder = llama_like_decoder(reader, "mixtral", &record);
    decoder.window = record.sliding_window;
    keys.norm_topk_prob = true;
    expert_keys_everywhere(reader, &keys, record.intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_MIXTRAL = {"mixtral", read_mixtral, decoder_graph,
                                            "MixtralConfig"};
