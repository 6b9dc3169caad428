#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

static struct llama_like defaults(void)
{
    return (struct llama_like){LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048,
                               .dimensions_or_null = "num_key_value_heads",
                               .optional = "hidden_act attention_bias"};
}

// Plain layer norms, without weight and bias.
static const void *read_olmo(struct family_reader *reader)
{
    struct llama_like record = defaults();
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "olmo", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.norm_is_plain = true;
    decoder.norm_epsilon = 1e-5;  // OlmoLayerNorm has no key for it
    return family_decoder(reader, &decoder);
}

// The second and third norm what attention and mlp return, and queries and keys of all heads as one
// row. `keys`: of experts, or NULL.
static struct decoder read_later(struct family_reader *reader, const char *model_type,
                                 double rms_norm_eps, struct llama_like *record,
                                 struct expert_keys *keys)
{
    record->rms_norm_eps = rms_norm_eps;
    llama_like_read(reader, record);
    if (keys) expert_keys_read(reader, keys, record->num_hidden_layers);
    struct decoder decoder = llama_like_decoder(reader, model_type, record);
    decoder.qkv_bias = decoder.out_bias = record->attention_bias;
    decoder.norm_place = NORM_RESULT;
    decoder.head_norms = decoder.head_norms_whole = true;
    return decoder;
}

static const void *read_olmo2(struct family_reader *reader)
{
    struct llama_like record = defaults();
    record.optional = "hidden_act rms_norm_eps attention_bias";
    struct decoder decoder = read_later(reader, "olmo2", 1e-5, &record, NULL);
    return family_decoder(reader, &decoder);
}

// Three layers of four have a window; how rope stretches in the others changes no shape.
static const void *read_olmo3(struct family_reader *reader)
{
    enum { PATTERN = 4 };
    struct llama_like record = defaults();
    record.rope_theta = 500000;
    record.dimensions_or_null = "num_key_value_heads sliding_window";
    record.optional = "hidden_act rms_norm_eps attention_bias";
    struct decoder decoder = read_later(reader, "olmo3", 1e-5, &record, NULL);
    if (reader->err->kind) return NULL;
    decoder.window = record.sliding_window;
    decoder.has_window = llama_like_pattern(reader, &record, PATTERN);
    decoder.rope_theta_local = record.rope_local_base_freq;
    return family_decoder(reader, &decoder);
}

static const void *read_olmoe(struct family_reader *reader)
{
    struct llama_like record = defaults();
    struct expert_keys keys = {.has_local_name = true,
                               .dimensions = "num_experts num_experts_per_tok",
                               .optional = "norm_topk_prob"};
    record.max_position_embeddings = 4096;
    record.optional = "hidden_act rms_norm_eps attention_bias";
    struct decoder decoder = read_later(reader, "olmoe", 1e-5, &record, &keys);
    decoder.norm_place = NORM_BEFORE;
    expert_keys_everywhere(reader, &keys, record.intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    return family_decoder(reader, &decoder);
}

// The second with experts in place of its mlps.
static const void *read_flex_olmo(struct family_reader *reader)
{
    struct llama_like record = defaults();
    struct expert_keys keys = {.has_local_name = true,
                               .dimensions = "num_experts num_experts_per_tok",
                               .optional = "norm_topk_prob"};
    record.max_position_embeddings = 4096;
    record.rope_theta = 500000;
    record.optional = "hidden_act rms_norm_eps attention_bias";
    struct decoder decoder = read_later(reader, "flex_olmo", 1e-6, &record, &keys);
    expert_keys_everywhere(reader, &keys, record.intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_FLEX_OLMO = {"flex_olmo", read_flex_olmo, decoder_graph,
                                              "FlexOlmoConfig"};
const struct model_family FAMILY_OLMO = {"olmo", read_olmo, decoder_graph, "OlmoConfig"};
const struct model_family FAMILY_OLMO2 = {"olmo2", read_olmo2, decoder_graph, "Olmo2Config"};
const struct model_family FAMILY_OLMO3 = {"olmo3", read_olmo3, decoder_graph, "Olmo3Config"};
const struct model_family FAMILY_OLMOE = {"olmoe", read_olmoe, decoder_graph, "OlmoeConfig"};
