#include "models/families/deepseek.h"

#include <string.h>

// DeepSeek-V3.2 and GLM-5: each query attends to keys that an indexer chooses. From GLM-5.2 on
// layers share what one in front of them chose (IndexCache, arXiv 2603.12201): they are listed, or
// written as letters, or all are but each `index_topk_freq`th, counted from a number of layers on.
struct indexed {
    int64_t index_n_heads, index_head_dim, index_topk;
    int64_t index_topk_freq, index_skip_topk_offset;
    bool may_share;
};

static const struct json_field INDEXED_FIELDS[] = {
    {JSON_OPT_I64(struct indexed, index_n_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct indexed, index_head_dim, 2, HEADS_MAX)},
    {JSON_OPT_I64(struct indexed, index_topk, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct indexed, index_topk_freq, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct indexed, index_skip_topk_offset, 0, LAYERS_MAX)},
    {JSON_OPT_ANY("indexer_types")},
    {JSON_OPT_ANY("index_topk_pattern")},
    {0},
};

static const char TYPES[] = "indexer_types", PATTERN[] = "index_topk_pattern";
static const char PERIOD[] = "index_topk_freq", OFFSET[] = "index_skip_topk_offset";
static const struct family_layer_type NAMES[] = {{"full", 1}, {"shared", 2}, {0}};

static bool is_given(struct family_reader *reader, const char *key)
{
    return json_has(reader->object, key) && !family_is_null(reader, key);
}

static void read_letters(const struct json *pattern, bool *is_shared, int64_t count,
                         struct err *err)
{
    const char *text = json_text(pattern, err);
    if (!text) return;
    if ((int64_t)strlen(text) != count)
        json_fail(pattern, err, "%zu letters for %lld layers", strlen(text), (long long)count);
    for (int64_t i = 0; i < count && !err->kind; i++) {
        is_shared[i] = text[i] == 'S';
        if (!is_shared[i] && text[i] != 'F')
            json_fail(pattern, err, "unknown letter '%c'; known: F and S", text[i]);
    }
}

// By layer, whether it attends to what one in front of it chose; returns the key that says so.
static const char *read_shared(struct family_reader *reader, const struct indexed *indexed,
                               bool *is_shared, int64_t count)
{
    const char *key = is_given(reader, TYPES) ? TYPES : PATTERN;
    if (is_given(reader, key)) {
        struct json value = json_get(reader->object, key, reader->err);
        if (key == PATTERN && json_is_text(&value)) {
            read_letters(&value, is_shared, count, reader->err);
            return key;
        }
        const uint8_t *types = family_layer_parts(reader, key, count, NAMES);
        for (int64_t i = 0; types && i < count; i++)
            is_shared[i] = types[i] == NAMES[1].parts;
        return key;
    }
    int64_t period = indexed->index_topk_freq, offset = indexed->index_skip_topk_offset;
    if (indexed->may_share && !json_has(reader->object, PERIOD))
        family_taken(reader, "indexer_types, index_topk_pattern or index_topk_freq", "1");
    if (period > 1 && !json_has(reader->object, OFFSET)) family_taken(reader, OFFSET, "2");
    for (int64_t i = offset; i < count && period > 1; i++)
        is_shared[i] = (i - offset + 1) % period != 0;
    return PERIOD;
}

static const bool *shared_layers(struct family_reader *reader, const struct indexed *indexed,
                                 int64_t count)
{
    if (reader->err->kind) return NULL;
    bool *is_shared = ARENA_NEW(reader->arena, bool, count), any = false;
    const char *key = read_shared(reader, indexed, is_shared, count);
    for (int64_t i = 0; i < count; i++)
        any = any || is_shared[i];
    if (!any) return NULL;
    if (!indexed->may_share)
        family_fail(reader, key, "layers that share a choice of keys are not supported here");
    if (is_shared[0])
        family_fail(reader, key, "the first layer has none in front of it to share a choice with");
    return is_shared;
}

static void check_indexer(struct family_reader *reader, const struct deepseek *record,
                          const struct indexed *indexed)
{
    if (reader->err->kind) return;
    if (record->q_lora_rank == 0)
        family_fail(reader, "q_lora_rank", "an indexer reads the low rank of queries");
    if (indexed->index_head_dim < record->qk_rope_head_dim)
        family_fail(reader, "index_head_dim", "%lld of the indexer's dims cannot be rotated",
                    (long long)record->qk_rope_head_dim);
    if (record->attention_dropout > 0)
        family_fail(reader, "attention_dropout", "chosen keys are not dropped from");
}

static const void *read_indexed(struct family_reader *reader, const char *model_type,
                                struct deepseek record, struct indexed indexed)
{
    family_read(reader, INDEXED_FIELDS, &indexed);
    family_absent(reader, INDEXED_FIELDS, &indexed,
                  &(struct family_keys){.optional = "index_n_heads index_head_dim index_topk"});
    record.moe_layer_freq = record.n_shared_experts = 1;
    record.hidden_act = "silu";
    record.norm_topk_prob = true;
    record.first_k_dense_replace = 3;
    record.routed_scaling_factor = 2.5;
    record.rope_theta = 10000;
    struct decoder decoder =
        deepseek_decoder(reader, model_type, &record, "num_nextn_predict_layers");
    check_indexer(reader, &record, &indexed);
    decoder.mlp_bias = false;
    decoder.experts.route =
        record.norm_topk_prob ? FUNCTION_ROUTE_SIGMOID_TOP_K : FUNCTION_ROUTE_SIGMOID;
    decoder.experts.choice_bias = decoder.experts.count > 0;
    decoder.indexer =
        (struct indexer){indexed.index_n_heads, indexed.index_head_dim, indexed.index_topk,
                         shared_layers(reader, &indexed, decoder.layer_count)};
    return family_decoder(reader, &decoder);
}

static const void *read_v32(struct family_reader *reader)
{
    const struct deepseek record = {
        .n_group = 8, .topk_group = 4, .rms_norm_eps = 1e-6, .max_position_embeddings = 163840};
    return read_indexed(reader, "deepseek_v32", record,
                        (struct indexed){64, 128, 2048, 1, 2, false});
}

static const void *read_glm_dsa(struct family_reader *reader)
{
    const struct deepseek record = {
        .n_group = 1, .topk_group = 1, .rms_norm_eps = 1e-5, .max_position_embeddings = 202752};
    return read_indexed(reader, "glm_moe_dsa", record, (struct indexed){32, 128, 2048, 1, 2, true});
}

const struct model_family FAMILY_DEEPSEEK_V32 = {"deepseek_v32", read_v32, decoder_graph,
                                                 "DeepseekV32Config"};
const struct model_family FAMILY_GLM_MOE_DSA = {"glm_moe_dsa", read_glm_dsa, decoder_graph,
                                                "GlmMoeDsaConfig"};
