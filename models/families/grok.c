#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

// Grok-1 as its release computes it (xai-org/grok-1) under the keys and defaults of the port to
// transformers (hpcai-tech/grok-1, configuration_grok1.py).

struct grok {
    double attn_output_multiplier, max_attn_value;
    double embedding_multiplier_scale, output_multiplier_scale;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_F64(struct grok, attn_output_multiplier, 1e-6, 1e6)},
    {JSON_OPT_F64(struct grok, max_attn_value, 1e-6, 1e6)},
    {JSON_OPT_F64(struct grok, embedding_multiplier_scale, 1e-6, 1e6)},
    {JSON_OPT_F64(struct grok, output_multiplier_scale, 1e-6, 1e6)},
    {0},
};

static const struct family_keys KEYS = {
    .optional = "attn_output_multiplier max_attn_value embedding_multiplier_scale "
                "output_multiplier_scale"};

static const void *read_grok(struct family_reader *reader)
{
    struct llama_like record = {
        LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 4096, .tie_word_embeddings = true,
        .dimensions_or_null = "num_key_value_heads", .optional = "hidden_act rms_norm_eps"};
    struct expert_keys keys = {.has_local_name = true,
                               .dimensions = "num_experts num_experts_per_tok"};
    struct grok factors = {1, 1, 1, 1};
    record.hidden_act = "gelu";
    record.rms_norm_eps = 1e-5;
    llama_like_read(reader, &record);
    expert_keys_read(reader, &keys, record.num_hidden_layers);
    if (!reader->err->kind) family_read(reader, FIELDS, &factors);
    family_absent(reader, FIELDS, &factors, &KEYS);
    struct decoder decoder = llama_like_decoder(reader, "grok-1", &record);
    decoder.norm_place = NORM_BOTH;
    decoder.score_factor = factors.attn_output_multiplier;
    decoder.score_softcap = factors.max_attn_value;
    decoder.embedding_scale = factors.embedding_multiplier_scale;
    decoder.logit_scale = factors.output_multiplier_scale;
    keys.norm_topk_prob = false;
    expert_keys_everywhere(reader, &keys, record.intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GROK = {"grok-1", read_grok, decoder_graph, "Grok1Config"};
const struct model_family FAMILY_GROK_BARE = {"grok1", read_grok, decoder_graph, "Grok1Config"};
