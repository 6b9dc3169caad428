#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

// All layers have experts, and no mlp beside them: intermediate_size is that of one expert.
static const void *read_mixtral(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,      .vocab_size = 32000,
                                .hidden_size = 4096,      .intermediate_size = 14336,
                                .num_hidden_layers = 32,  .num_attention_heads = 32,
                                .num_key_value_heads = 8, .max_position_embeddings = 131072};
    struct expert_keys keys = {.num_experts = 8, .num_experts_per_tok = 2, .has_local_name = true};
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

const struct model_family FAMILY_MIXTRAL = {"mixtral", read_mixtral, decoder_graph};
