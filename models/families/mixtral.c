#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

#include <math.h>

// What configs of both have: of the optional keys those that are named.
static struct llama_like read_record(struct family_reader *reader, const char *optional,
                                     struct expert_keys *keys)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                .dimensions_or_null = "num_key_value_heads", .optional = optional,
                                .optional_or_null = "sliding_window"};
    *keys = (struct expert_keys){.has_local_name = true,
                                 .dimensions = "num_local_experts num_experts_per_tok"};
    record.rms_norm_eps = 1e-5;
    record.rope_theta = 1e6;
    llama_like_read(reader, &record);
    expert_keys_read(reader, keys, record.num_hidden_layers);
    return record;
}

// All layers have experts, and no mlp beside them: intermediate_size is that of one expert.
static const void *read_mixtral(struct family_reader *reader)
{
    struct expert_keys keys;
    struct llama_like record = read_record(reader, "hidden_act rms_norm_eps", &keys);
    struct decoder decoder = llama_like_decoder(reader, "mixtral", &record);
    decoder.window = record.sliding_window;
    keys.norm_topk_prob = true;
    expert_keys_everywhere(reader, &keys, record.intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    return family_decoder(reader, &decoder);
}

// A router without noise counts equal scores alone.
static const double LEAST_MARGIN = 1e-300;

struct phimoe {
    double router_jitter_noise;
    bool lm_head_bias;
};

static const struct json_field PHIMOE_FIELDS[] = {
    {JSON_OPT_F64(struct phimoe, router_jitter_noise, 0, 1)},
    {JSON_OPT_BOOL(struct phimoe, lm_head_bias)},
    {0},
};

// Two experts, each chosen among those whose scores are near the best (Liu et al. 2024, GRIN), by
// noise in training: what is best is chosen here. Layer norms, and biases where the file has them.
static const void *read_phimoe(struct family_reader *reader)
{
    struct phimoe own = {.router_jitter_noise = 0.01};
    struct expert_keys keys;
    struct llama_like record = read_record(reader, "hidden_act rms_norm_eps attention_bias", &keys);
    family_read(reader, PHIMOE_FIELDS, &own);
    family_absent(reader, PHIMOE_FIELDS, &own,
                  &(struct family_keys){.optional = "router_jitter_noise lm_head_bias"});
    struct decoder decoder = llama_like_decoder(reader, "phimoe", &record);
    decoder.window = record.sliding_window;
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.head_bias = own.lm_head_bias;
    expert_keys_everywhere(reader, &keys, record.intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    if (!reader->err->kind && decoder.experts.top_k != 2)
        family_fail(reader, "num_experts_per_tok",
                    "must be 2 for phimoe: its class chooses so many");
    decoder.experts.route = FUNCTION_ROUTE_NEAR_BEST;
    decoder.experts.route_scale = fmax(2 * own.router_jitter_noise, LEAST_MARGIN);
    reader->ledger->remark = "routers choose what is best, without noise: the same shapes and work";
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_PHIMOE = {"phimoe", read_phimoe, decoder_graph, "PhimoeConfig"};
const struct model_family FAMILY_MIXTRAL = {"mixtral", read_mixtral, decoder_graph,
                                            "MixtralConfig"};
