#include "models/families/family.h"

// Jamba (configuration_jamba.py, modeling_jamba.py of transformers 5.24): one layer in a period has
// attention that does not rotate, the others the mixer of Mamba-1 with norms of steps, B and C; the
// mlp behind is a mixture of experts in one layer of another period.

struct jamba {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
    int64_t num_attention_heads, num_key_value_heads, head_dim, max_position_embeddings;
    int64_t num_experts, num_experts_per_tok, expert_layer_period, expert_layer_offset;
    int64_t attn_layer_period, attn_layer_offset;
    int64_t mamba_d_state, mamba_d_conv, mamba_expand;
    double rms_norm_eps, attention_dropout;
    const char *hidden_act;
    bool mamba_conv_bias, mamba_proj_bias, tie_word_embeddings;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct jamba, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct jamba, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct jamba, intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct jamba, num_hidden_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct jamba, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct jamba, num_key_value_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct jamba, head_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct jamba, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct jamba, num_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct jamba, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct jamba, expert_layer_period, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct jamba, expert_layer_offset, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct jamba, attn_layer_period, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct jamba, attn_layer_offset, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct jamba, mamba_d_state, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct jamba, mamba_d_conv, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct jamba, mamba_expand, 1, HEADS_MAX)},
    {JSON_OPT_F64(struct jamba, rms_norm_eps, 1e-30, 1)},
    {JSON_OPT_F64(struct jamba, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_TEXT(struct jamba, hidden_act)},
    {JSON_OPT_BOOL(struct jamba, mamba_conv_bias)},
    {JSON_OPT_BOOL(struct jamba, mamba_proj_bias)},
    {JSON_OPT_BOOL(struct jamba, tie_word_embeddings)},
    {JSON_OPT_ANY("mamba_dt_rank")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads "
                  "num_experts num_experts_per_tok mamba_d_state",
    .dimensions_or_null = "num_key_value_heads",
    .optional = "max_position_embeddings expert_layer_period expert_layer_offset attn_layer_period "
                "attn_layer_offset mamba_d_conv mamba_expand rms_norm_eps attention_dropout "
                "hidden_act mamba_conv_bias mamba_proj_bias tie_word_embeddings"};

static struct decoder describe(const struct jamba *record)
{
    return (struct decoder){
        .model_type = "jamba",
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count = record->num_hidden_layers,
        .head_count = record->num_attention_heads,
        .kv_head_count = record->num_key_value_heads,
        .head_dim = record->head_dim,
        .ffn = record->intermediate_size,
        .seq_len_max = record->max_position_embeddings,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_RMS_NORM,
        .norm_epsilon = record->rms_norm_eps,
        .gated = true,
        .attention_dropout = record->attention_dropout,
        .tied = record->tie_word_embeddings,
        .scan = {.rule = SCAN_MAMBA1,
                 .head_count = record->mamba_expand * record->hidden_size,
                 .state = record->mamba_d_state,
                 .taps = record->mamba_d_conv,
                 .bias = record->mamba_proj_bias,
                 .conv_bias = record->mamba_conv_bias,
                 .low_epsilon = record->rms_norm_eps},
    };
}

static bool is_in_turn(int64_t layer, int64_t period, int64_t offset)
{
    return layer % period == offset;
}

// Which layers attend, and which have experts: with one expert none has.
static void set_layers(struct family_reader *reader, const struct jamba *record,
                       struct decoder *decoder)
{
    int64_t count = record->num_hidden_layers;
    uint8_t *parts = ARENA_NEW(reader->arena, uint8_t, count);
    bool *is_dense = ARENA_NEW(reader->arena, bool, count), all_dense = true;
    for (int64_t i = 0; i < count; i++) {
        bool attends = is_in_turn(i, record->attn_layer_period, record->attn_layer_offset);
        parts[i] = (attends ? LAYER_ATTENTION : LAYER_SCAN) | LAYER_MLP;
        is_dense[i] = record->num_experts == 1 ||
                      !is_in_turn(i, record->expert_layer_period, record->expert_layer_offset);
        all_dense = all_dense && is_dense[i];
    }
    decoder->parts = parts;
    if (all_dense) return;
    decoder->experts = (struct experts){.count = record->num_experts,
                                        .top_k = record->num_experts_per_tok,
                                        .ffn = record->intermediate_size,
                                        .route = FUNCTION_ROUTE_SOFTMAX,
                                        .route_scale = 1,
                                        .is_dense = is_dense};
    family_check_experts(reader, decoder, "num_experts", "num_experts_per_tok");
}

static void check_offset(struct family_reader *reader, const char *key, int64_t offset,
                         int64_t period)
{
    if (offset < period || reader->err->kind) return;
    family_fail(reader, key, "%lld; expected less than the period, %lld", (long long)offset,
                (long long)period);
}

static const void *read_jamba(struct family_reader *reader)
{
    struct jamba record = {.max_position_embeddings = 262144,
                           .expert_layer_period = 2,
                           .expert_layer_offset = 1,
                           .attn_layer_period = 8,
                           .attn_layer_offset = 4,
                           .mamba_d_conv = 4,
                           .mamba_expand = 2,
                           .rms_norm_eps = 1e-6,
                           .hidden_act = "silu",
                           .mamba_conv_bias = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    int64_t rank = family_step_rank(reader, "mamba_dt_rank", record.hidden_size);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe(&record);
    decoder.activation = family_activation(reader, "hidden_act", record.hidden_act);
    decoder.scan.activation = decoder.activation;
    decoder.scan.step_rank = rank;
    family_check_heads(reader, &decoder, "num_attention_heads", "num_key_value_heads");
    check_offset(reader, "expert_layer_offset", record.expert_layer_offset,
                 record.expert_layer_period);
    check_offset(reader, "attn_layer_offset", record.attn_layer_offset, record.attn_layer_period);
    if (reader->err->kind) return NULL;
    set_layers(reader, &record, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_JAMBA = {"jamba", read_jamba, decoder_graph, "JambaConfig"};
