#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

// A factor of one is none.
static double other_than_one(double factor)
{
    return factor == 1 ? 0 : factor;
}

// Llama with four factors: on embeddings, scores, what layers add, and (divided by) on logits.
// `keys`: of experts, or NULL.
static struct decoder read_common(struct family_reader *reader, const char *model_type,
                                  const char *own, struct llama_like *record,
                                  struct expert_keys *keys)
{
    *record = (struct llama_like){LLAMA_LIKE_DEFAULTS,       .max_position_embeddings = 2048,
                                  .embedding_multiplier = 1, .attention_multiplier = 1,
                                  .residual_multiplier = 1,  .logits_scaling = 1};
    record->dimensions_or_null = "num_key_value_heads";
    record->optional = arena_print(reader->arena,
                                   "hidden_act rms_norm_eps attention_bias embedding_multiplier "
                                   "attention_multiplier residual_multiplier logits_scaling%s",
                                   own);
    llama_like_read(reader, record);
    if (keys) expert_keys_read(reader, keys, record->num_hidden_layers);
    record->head_dim = 0;  // not among its keys
    struct decoder decoder = llama_like_decoder(reader, model_type, record);
    decoder.qkv_bias = decoder.out_bias = record->attention_bias;
    decoder.embedding_scale = other_than_one(record->embedding_multiplier);
    decoder.score_factor = record->attention_multiplier;
    decoder.residual_scale = other_than_one(record->residual_multiplier);
    decoder.logit_scale = 1 / record->logits_scaling;
    return decoder;
}

static const void *read_granite(struct family_reader *reader)
{
    struct llama_like record;
    struct decoder decoder = read_common(reader, "granite", " mlp_bias", &record, NULL);
    decoder.mlp_bias = record.mlp_bias;
    return family_decoder(reader, &decoder);
}

static struct decoder read_experts(struct family_reader *reader, const char *model_type)
{
    struct llama_like record;
    struct expert_keys keys = {.has_local_name = true,
                               .dimensions = "num_local_experts num_experts_per_tok"};
    struct decoder decoder = read_common(reader, model_type, "", &record, &keys);
    expert_keys_everywhere(reader, &keys, record.intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    decoder.experts.route = FUNCTION_ROUTE_TOP_K_SOFTMAX;
    return decoder;
}

static const void *read_granitemoe(struct family_reader *reader)
{
    struct decoder decoder = read_experts(reader, "granitemoe");
    return family_decoder(reader, &decoder);
}

struct shared_keys {
    int64_t shared_intermediate_size;  // 0 = no shared expert
};

static const struct json_field SHARED_FIELDS[] = {
    {JSON_OPT_I64(struct shared_keys, shared_intermediate_size, 0, WIDTH_MAX)},
    {0},
};

static const void *read_granitemoeshared(struct family_reader *reader)
{
    struct shared_keys keys = {0};
    struct decoder decoder = read_experts(reader, "granitemoeshared");
    if (reader->err->kind) return NULL;
    family_read(reader, SHARED_FIELDS, &keys);
    family_absent(reader, SHARED_FIELDS, &keys,
                  &(struct family_keys){.dimensions = "shared_intermediate_size"});
    if (!family_complete(reader)) return NULL;
    decoder.experts.shared_ffn = keys.shared_intermediate_size;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GRANITE = {"granite", read_granite, decoder_graph,
                                            "GraniteConfig"};
const struct model_family FAMILY_GRANITEMOE = {"granitemoe", read_granitemoe, decoder_graph,
                                               "GraniteMoeConfig"};
const struct model_family FAMILY_GRANITEMOESHARED = {"granitemoeshared", read_granitemoeshared,
                                                     decoder_graph, "GraniteMoeSharedConfig"};
