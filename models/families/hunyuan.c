#include "models/families/llama_like.h"

#include <assert.h>
#include <stddef.h>

// Queries and keys are normed head by head behind rope. In the mixture every layer has experts
// beside one mlp of their width that all tokens pass through.

#define HUNYUAN_DEFAULTS                                  \
    LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048, \
                         .dimensions_or_null = "num_key_value_heads"

// `record` holds the defaults.
static struct decoder read_common(struct family_reader *reader, const char *model_type,
                                  struct llama_like *record)
{
    record->optional = "hidden_act rms_norm_eps attention_bias";
    record->rms_norm_eps = 1e-5;
    llama_like_read(reader, record);
    struct decoder decoder = llama_like_decoder(reader, model_type, record);
    decoder.qkv_bias = decoder.out_bias = record->attention_bias;
    decoder.head_norms = decoder.head_norms_rotated = true;
    return decoder;
}

static const void *read_dense(struct family_reader *reader)
{
    struct llama_like record = {HUNYUAN_DEFAULTS};
    struct decoder decoder = read_common(reader, "hunyuan_v1_dense", &record);
    return family_decoder(reader, &decoder);
}

static const struct json_field TEXT_FIELDS[] = {
    {"attention_head_dim", JSON_TYPE_I64, offsetof(struct llama_like, head_dim), 1, HEADS_MAX,
     true},
    {0},
};

// The text of HunyuanOCR, whose release has another name for a key, and all of them beside
// vision_config. Positions of several axes rotate other pairs by other angles: the same work.
static const void *read_text(struct family_reader *reader)
{
    struct llama_like record = {HUNYUAN_DEFAULTS, .tie_word_embeddings = true};
    family_read(reader, TEXT_FIELDS, &record);
    struct decoder decoder = read_common(reader, "hunyuan_vl_text", &record);
    return family_decoder(reader, &decoder);
}

// A number for all layers, or one for each: they must be equal. 0 after an error.
static int64_t read_count(struct family_reader *reader, const char *key)
{
    if (reader->err->kind || !json_has(reader->object, key)) return 0;
    struct json value = json_get(reader->object, key, reader->err);
    if (!json_is_array(&value)) return json_i64(&value, 1, EXPERTS_MAX, reader->err);
    int count = json_count(&value, reader->err);
    int64_t first = 0;
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json item = json_item(&value, i);
        int64_t number = json_i64(&item, 1, EXPERTS_MAX, reader->err);
        if (i == 0) first = number;
        if (number != first && !reader->err->kind)
            json_fail(&item, reader->err, "layers that differ in experts are not supported");
    }
    return first;
}

static const struct json_field FIELDS[] = {
    {JSON_OPT_ANY("num_experts")},
    {JSON_OPT_ANY("num_local_experts")},
    {JSON_OPT_ANY("moe_topk")},
    {JSON_OPT_ANY("num_experts_per_tok")},
    {0},
};

static const void *read_moe(struct family_reader *reader)
{
    struct llama_like record = {HUNYUAN_DEFAULTS};
    struct decoder decoder = read_common(reader, "hunyuan_v1_moe", &record);
    if (reader->err->kind) return NULL;
    const char *count = family_key(reader, "num_experts", "num_local_experts");
    const char *top_k = family_key(reader, "moe_topk", "num_experts_per_tok");
    decoder.experts = (struct experts){.count = read_count(reader, count),
                                       .top_k = read_count(reader, top_k),
                                       .ffn = record.intermediate_size,
                                       .shared_ffn = record.intermediate_size,
                                       .route = FUNCTION_ROUTE_SOFTMAX_TOP_K};
    if (!reader->err->kind && decoder.experts.count == 0) family_missing(reader, FIELDS, count);
    if (!reader->err->kind && decoder.experts.top_k == 0) family_missing(reader, FIELDS, top_k);
    if (!family_complete(reader)) return NULL;
    assert(decoder.experts.count > 0 && decoder.experts.top_k > 0);
    family_check_experts(reader, &decoder, count, top_k);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_HUNYUAN_V1_DENSE = {"hunyuan_v1_dense", read_dense, decoder_graph,
                                                     "HunYuanDenseV1Config"};
const struct model_family FAMILY_HUNYUAN_VL = {"hunyuan_vl", read_text, decoder_graph,
                                               "HunYuanVLTextConfig"};
const struct model_family FAMILY_HUNYUAN_VL_TEXT = {"hunyuan_vl_text", read_text, decoder_graph,
                                                    "HunYuanVLTextConfig"};
const struct model_family FAMILY_HUNYUAN_V1_MOE = {"hunyuan_v1_moe", read_moe, decoder_graph,
                                                   "HunYuanMoEV1Config"};
