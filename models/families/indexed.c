#include "models/families/deepseek.h"

// DeepSeek-V3.2 and GLM-5: each query attends to keys that an indexer chooses.
struct indexed {
    int64_t index_n_heads, index_head_dim, index_topk;
};

static const struct json_field INDEXED_FIELDS[] = {
    {JSON_OPT_I64(struct indexed, index_n_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct indexed, index_head_dim, 2, HEADS_MAX)},
    {JSON_OPT_I64(struct indexed, index_topk, 1, POSITIONS_MAX)},
    {0},
};

static void check_indexer(struct family_reader *reader, const struct deepseek *record,
                          const struct indexed *indexed)
{
    static const char TYPES[] = "indexer_types", PATTERN[] = "index_topk_pattern";
    static const struct family_layer_type NAMES[] = {{"full", 1}, {"shared", 2}, {0}};
    if (reader->err->kind) return;
    const uint8_t *types = NULL;
    if (json_has(reader->object, TYPES) && !family_is_null(reader, TYPES))
        types = family_layer_parts(reader, TYPES, record->num_hidden_layers, NAMES);
    for (int64_t i = 0; types && i < record->num_hidden_layers; i++) {
        if (types[i] != NAMES[0].parts)
            family_fail(reader, TYPES, "layers that share a choice of keys are not supported");
    }
    if (json_has(reader->object, PATTERN) && !family_is_null(reader, PATTERN))
        family_fail(reader, PATTERN, "layers that share a choice of keys are not supported");
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
        (struct indexer){indexed.index_n_heads, indexed.index_head_dim, indexed.index_topk};
    return family_decoder(reader, &decoder);
}

static const void *read_v32(struct family_reader *reader)
{
    const struct deepseek record = {
        .n_group = 8, .topk_group = 4, .rms_norm_eps = 1e-6, .max_position_embeddings = 163840};
    return read_indexed(reader, "deepseek_v32", record, (struct indexed){64, 128, 2048});
}

static const void *read_glm_dsa(struct family_reader *reader)
{
    const struct deepseek record = {
        .n_group = 1, .topk_group = 1, .rms_norm_eps = 1e-5, .max_position_embeddings = 202752};
    return read_indexed(reader, "glm_moe_dsa", record, (struct indexed){32, 128, 2048});
}

const struct model_family FAMILY_DEEPSEEK_V32 = {"deepseek_v32", read_v32, decoder_graph,
                                                 "DeepseekV32Config"};
const struct model_family FAMILY_GLM_MOE_DSA = {"glm_moe_dsa", read_glm_dsa, decoder_graph,
                                                "GlmMoeDsaConfig"};
