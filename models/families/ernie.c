#include "models/families/llama_like.h"

#include <assert.h>

// ERNIE 4.5. Rope turns pairs of neighbours: another order of the weights' columns.

static struct decoder read_common(struct family_reader *reader, const char *model_type,
                                  const char *may_be_null, struct llama_like *record)
{
    *record = (struct llama_like){LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072,
                                  .tie_word_embeddings = true, .dimensions_or_null = may_be_null,
                                  .optional = "hidden_act rms_norm_eps use_bias"};
    record->rms_norm_eps = 1e-5;
    record->rope_theta = 500000;
    llama_like_read(reader, record);
    struct decoder decoder = llama_like_decoder(reader, model_type, record);
    decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = record->use_bias;
    return decoder;
}

static const void *read_dense(struct family_reader *reader)
{
    struct llama_like record;
    struct decoder decoder =
        read_common(reader, "ernie4_5", "num_key_value_heads head_dim", &record);
    return family_decoder(reader, &decoder);
}

// The text of PaddleOCR-VL.
static const void *read_paddleocr(struct family_reader *reader)
{
    struct llama_like record;
    struct decoder decoder =
        read_common(reader, "paddleocr_vl_text", "num_key_value_heads head_dim", &record);
    return family_decoder(reader, &decoder);
}

struct ernie_moe {
    int64_t moe_num_experts, moe_k, moe_num_shared_experts, moe_intermediate_size;
    int64_t moe_layer_start_index, moe_layer_end_index;  // the last layer is -1 too
    int64_t moe_layer_interval;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct ernie_moe, moe_num_experts, 1, EXPERTS_MAX)},
    {"num_experts", JSON_TYPE_I64, offsetof(struct ernie_moe, moe_num_experts), 1, EXPERTS_MAX,
     true},
    {JSON_OPT_I64(struct ernie_moe, moe_k, 1, EXPERTS_MAX)},
    {"num_experts_per_tok", JSON_TYPE_I64, offsetof(struct ernie_moe, moe_k), 1, EXPERTS_MAX, true},
    {JSON_OPT_I64(struct ernie_moe, moe_num_shared_experts, 0, EXPERTS_MAX)},
    {JSON_OPT_I64(struct ernie_moe, moe_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct ernie_moe, moe_layer_start_index, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct ernie_moe, moe_layer_end_index, -1, LAYERS_MAX)},
    {JSON_OPT_I64(struct ernie_moe, moe_layer_interval, 1, LAYERS_MAX)},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "moe_num_experts moe_k moe_num_shared_experts moe_intermediate_size",
    .optional = "moe_layer_start_index moe_layer_end_index moe_layer_interval"};

static const bool *dense_layers(struct family_reader *reader, const struct ernie_moe *record,
                                int64_t layer_count)
{
    assert(record->moe_layer_interval > 0 && layer_count > 0);
    bool *is_dense = ARENA_NEW(reader->arena, bool, layer_count);
    int64_t end = record->moe_layer_end_index < 0 ? layer_count - 1 : record->moe_layer_end_index;
    for (int64_t i = 0; i < layer_count; i++) {
        is_dense[i] = (i + 1) % record->moe_layer_interval != 0 ||
                      i < record->moe_layer_start_index || i > end;
    }
    return is_dense;
}

// The bias that balances loads follows a rule and no gradient, and is among the parameters.
static const void *read_moe(struct family_reader *reader)
{
    struct llama_like record;
    struct ernie_moe own = {
        .moe_layer_start_index = 1, .moe_layer_end_index = -1, .moe_layer_interval = 1};
    struct decoder decoder = read_common(reader, "ernie4_5_moe", "num_key_value_heads", &record);
    if (!reader->err->kind) family_read(reader, FIELDS, &own);
    family_absent(reader, FIELDS, &own, &KEYS);
    if (!family_complete(reader)) return NULL;
    assert(own.moe_num_experts > 0 && own.moe_num_shared_experts >= 0);
    decoder.head_bias = record.use_bias;
    decoder.experts = (struct experts){
        .count = own.moe_num_experts,
        .top_k = own.moe_k,
        .ffn = own.moe_intermediate_size,
        .shared_ffn = own.moe_num_shared_experts * own.moe_intermediate_size,
        .route = FUNCTION_ROUTE_SOFTMAX_TOP_K,
        .choice_bias = true,
        .is_dense = dense_layers(reader, &own, decoder.layer_count),
    };
    if (decoder.experts.shared_ffn > WIDTH_MAX) {
        family_fail(reader, "moe_num_shared_experts",
                    "together the shared experts are wider than %d", WIDTH_MAX);
    }
    family_check_experts(reader, &decoder, family_key(reader, "moe_num_experts", "num_experts"),
                         family_key(reader, "moe_k", "num_experts_per_tok"));
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_ERNIE4_5 = {"ernie4_5", read_dense, decoder_graph,
                                             "Ernie4_5Config"};
const struct model_family FAMILY_PADDLEOCR_VL_TEXT = {"paddleocr_vl_text", read_paddleocr,
                                                      decoder_graph, "PaddleOCRTextConfig"};
const struct model_family FAMILY_ERNIE4_5_MOE = {"ernie4_5_moe", read_moe, decoder_graph,
                                                 "Ernie4_5_MoeConfig"};
