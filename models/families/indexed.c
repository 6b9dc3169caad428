#include "models/families/deepseek.h"

#include <assert.h>
#include <string.h>

// DeepSeek-V3.2, GLM-5 and Hy4: each query attends to keys that an indexer chooses. From GLM-5.2 on
// layers share what one in front of them chose (IndexCache, arXiv 2603.12201): they are listed, or
// written as letters, or all are but each `index_topk_freq`th, counted from a number of layers on.
struct indexed {
    int64_t index_n_heads, index_head_dim, index_topk;
    int64_t index_topk_freq, index_skip_topk_offset;
    bool may_share;
    bool
        has_types;  // indexer_types alone says which share; each fourth does not where it is absent
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

// What hy_v4 (Hy4) heeds beside them: streams, and limits of what gates of experts see.
struct streamed {
    int64_t hc_mult;
    double hc_magnitude, hc_eps, swiglu_limit;
};

static const struct json_field STREAMED_FIELDS[] = {
    {JSON_OPT_I64(struct streamed, hc_mult, 1, HEADS_MAX)},
    {JSON_OPT_F64(struct streamed, hc_magnitude, 1e-6, 1e6)},
    {JSON_OPT_F64(struct streamed, hc_eps, 0, 1)},
    {JSON_OPT_F64(struct streamed, swiglu_limit, 1e-6, 1e6)},
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
    bool is_listed = is_given(reader, TYPES) || indexed->has_types;
    const char *key = is_listed ? TYPES : PATTERN;
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
    // From `offset` on the last of each period chooses anew; a period of one shares nothing.
    int64_t period = indexed->index_topk_freq, offset = indexed->index_skip_topk_offset;
    if (indexed->has_types) {
        family_taken(reader, TYPES, "by rule (the first full, and each fourth from the second on)");
    } else if (indexed->may_share && !json_has(reader->object, PERIOD)) {
        family_taken(reader, "indexer_types, index_topk_pattern or index_topk_freq", "1");
    }
    if (period > 1 && !indexed->has_types && !json_has(reader->object, OFFSET))
        family_taken(reader, OFFSET, "2");
    for (int64_t i = offset; i < count && period > 1; i++)
        is_shared[i] = (i - offset + 1) % period != 0;
    return indexed->has_types ? TYPES : PERIOD;
}

static const bool *shared_layers(struct family_reader *reader, const struct indexed *indexed,
                                 int64_t count)
{
    if (reader->err->kind) return NULL;
    bool *is_shared = ARENA_NEW(reader->arena, bool, count), any = false;
    assert(count > 0);
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
    assert(record->qk_rope_head_dim > 0 && indexed->index_topk > 0);
    if (record->q_lora_rank == 0)
        family_fail(reader, "q_lora_rank", "an indexer reads the low rank of queries");
    if (indexed->index_head_dim < record->qk_rope_head_dim)
        family_fail(reader, "index_head_dim", "%lld of the indexer's dims cannot be rotated",
                    (long long)record->qk_rope_head_dim);
    if (record->attention_dropout > 0)
        family_fail(reader, "attention_dropout", "chosen keys are not dropped from");
}

#define DEFAULTS                                                                              \
    .moe_layer_freq = 1, .n_shared_experts = 1, .hidden_act = "silu", .norm_topk_prob = true, \
    .rope_theta = 10000

// `own` is what one generation heeds of the common keys and the others do not.
static struct decoder read_indexed(struct family_reader *reader, const char *model_type,
                                   struct deepseek record, struct indexed indexed, const char *own)
{
    struct indexed found = indexed;
    family_read(reader, INDEXED_FIELDS, &found);
    indexed.index_n_heads = found.index_n_heads;
    indexed.index_head_dim = found.index_head_dim;
    indexed.index_topk = found.index_topk;
    if (!indexed.has_types) indexed = found;
    family_absent(reader, INDEXED_FIELDS, &indexed,
                  &(struct family_keys){.optional = "index_n_heads index_head_dim index_topk"});
    struct decoder decoder = deepseek_decoder(reader, model_type, &record, own);
    check_indexer(reader, &record, &indexed);
    decoder.mlp_bias = false;
    decoder.experts.route =
        record.norm_topk_prob ? FUNCTION_ROUTE_SIGMOID_TOP_K : FUNCTION_ROUTE_SIGMOID;
    decoder.experts.choice_bias = decoder.experts.count > 0;
    decoder.indexer = (struct indexer){indexed.index_n_heads,
                                       indexed.index_head_dim,
                                       indexed.index_topk,
                                       shared_layers(reader, &indexed, decoder.layer_count),
                                       false,
                                       0};
    return decoder;
}

static const char PREDICTED[] = "num_nextn_predict_layers";

static const void *read_v32(struct family_reader *reader)
{
    const struct deepseek record = {
        DEFAULTS,        .first_k_dense_replace = 3, .routed_scaling_factor = 2.5,     .n_group = 8,
        .topk_group = 4, .rms_norm_eps = 1e-6,       .max_position_embeddings = 163840};
    const struct indexed indexed = {64, 128, 2048, 1, 2, false, false};
    struct decoder decoder = read_indexed(reader, "deepseek_v32", record, indexed, PREDICTED);
    return family_decoder(reader, &decoder);
}

static const void *read_glm_dsa(struct family_reader *reader)
{
    const struct deepseek record = {
        DEFAULTS,        .first_k_dense_replace = 3, .routed_scaling_factor = 2.5,     .n_group = 1,
        .topk_group = 1, .rms_norm_eps = 1e-5,       .max_position_embeddings = 202752};
    const struct indexed indexed = {32, 128, 2048, 1, 2, true, false};
    struct decoder decoder = read_indexed(reader, "glm_moe_dsa", record, indexed, PREDICTED);
    return family_decoder(reader, &decoder);
}

// Its prediction modules are not read, whatever its file says; it warns.
static const void *read_hy_v4(struct family_reader *reader)
{
    const struct deepseek record = {
        DEFAULTS,        .has_types = true,    .routed_scaling_factor = 2.827,   .n_group = 1,
        .topk_group = 1, .rms_norm_eps = 1e-5, .max_position_embeddings = 262144};
    const struct indexed indexed = {16, 128, 2048, 4, 2, true, true};
    struct streamed streamed = {4, 2, 1e-6, 10};
    struct decoder decoder = read_indexed(reader, "hy_v4", record, indexed, NULL);
    family_read(reader, STREAMED_FIELDS, &streamed);
    family_absent(reader, STREAMED_FIELDS, &streamed,
                  &(struct family_keys){.optional = "hc_mult hc_magnitude hc_eps swiglu_limit"});
    decoder.mtp_count = 0;
    decoder.indexer.is_rotated_behind = true;
    decoder.indexer.norm_epsilon = decoder.norm_epsilon;
    decoder.attention_gate = decoder.attention_sink = true;
    decoder.experts.clamp = decoder.experts.count > 0 ? streamed.swiglu_limit : 0;
    decoder.hyper = (struct hyper){streamed.hc_mult, streamed.hc_magnitude, streamed.hc_eps, 0};
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_DEEPSEEK_V32 = {"deepseek_v32", read_v32, decoder_graph,
                                                 "DeepseekV32Config"};
const struct model_family FAMILY_GLM_MOE_DSA = {"glm_moe_dsa", read_glm_dsa, decoder_graph,
                                                "GlmMoeDsaConfig"};
const struct model_family FAMILY_HY_V4 = {"hy_v4", read_hy_v4, decoder_graph, "HYV4Config"};
