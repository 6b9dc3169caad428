#include "models/families/family.h"
#include "models/families/llama_like.h"

#include <assert.h>

// AriaTextForCausalLM: llama whose every layer has experts, weighed by a softmax over those that
// are chosen, beside shared ones of as much width each.

struct aria {
    int64_t moe_num_experts, moe_topk, moe_num_shared_experts;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct aria, moe_num_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct aria, moe_topk, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct aria, moe_num_shared_experts, 0, EXPERTS_MAX)},
    {0},
};

static const void *read_aria(struct family_reader *reader)
{
    const struct family_keys keys = {.dimensions =
                                         "moe_num_experts moe_topk moe_num_shared_experts"};
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias mlp_bias"};
    struct aria own = {.moe_num_shared_experts = -1};
    llama_like_read(reader, &record);
    if (!reader->err->kind) family_read(reader, FIELDS, &own);
    family_absent(reader, FIELDS, &own, &keys);
    struct decoder decoder = llama_like_decoder(reader, "aria_text", &record);
    if (reader->err->kind) return NULL;
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.mlp_bias = record.mlp_bias;
    assert(own.moe_num_experts > 0 && own.moe_num_shared_experts >= 0);
    decoder.experts =
        (struct experts){.count = own.moe_num_experts,
                         .top_k = own.moe_topk,
                         .ffn = record.intermediate_size,
                         .shared_ffn = own.moe_num_shared_experts * record.intermediate_size,
                         .route = FUNCTION_ROUTE_TOP_K_SOFTMAX};
    if (decoder.experts.shared_ffn > WIDTH_MAX)
        family_fail(reader, "moe_num_shared_experts",
                    "together the shared experts are wider than %d", WIDTH_MAX);
    if (decoder.activation != FUNCTION_SILU)
        family_fail(reader, "hidden_act", "must be \"silu\", which chosen experts always have");
    family_check_experts(reader, &decoder, "moe_num_experts", "moe_topk");
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_ARIA_TEXT = {"aria_text", read_aria, decoder_graph,
                                              "AriaTextConfig"};
