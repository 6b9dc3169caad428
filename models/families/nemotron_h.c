#include "models/families/family.h"

#include <assert.h>
#include <string.h>

// Nemotron-H (configuration_nemotron_h.py, modeling_nemotron_h.py of transformers 5.23): each layer
// is a norm, one mixer and a residual. The mixer is Mamba-2's, attention that does not rotate, an
// mlp or a mixture of experts, as a list or a text with a letter a layer says.

struct nemotron_h {
    struct decoder decoder;
    int64_t n_routed_experts, num_experts_per_tok, moe_intermediate_size;
    int64_t moe_shared_expert_intermediate_size, n_group, topk_group;
    double time_step_min, routed_scaling_factor;
    const char *mlp_hidden_act, *mamba_hidden_act;
    bool norm_topk_prob;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("num_key_value_heads", kv_head_count, 1, HEADS_MAX)},
    {DECODER_I64("head_dim", head_dim, 1, HEADS_MAX)},
    {DECODER_I64("intermediate_size", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_I64("mamba_num_heads", scan.head_count, 1, HEADS_MAX)},
    {DECODER_I64("mamba_head_dim", scan.head_dim, 1, HEADS_MAX)},
    {DECODER_I64("ssm_state_size", scan.state, 1, HEADS_MAX)},
    {DECODER_I64("n_groups", scan.group_count, 1, HEADS_MAX)},
    {DECODER_I64("conv_kernel", scan.taps, 1, HEADS_MAX)},
    {DECODER_I64("chunk_size", scan.chunk, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct nemotron_h, n_routed_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct nemotron_h, num_experts_per_tok, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct nemotron_h, moe_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct nemotron_h, moe_shared_expert_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct nemotron_h, n_group, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct nemotron_h, topk_group, 1, EXPERTS_MAX)},
    {DECODER_F64("layer_norm_epsilon", norm_epsilon, 0, 1)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct nemotron_h, time_step_min, 0, 1e6)},
    {JSON_OPT_F64(struct nemotron_h, routed_scaling_factor, 1e-6, 1e6)},
    {JSON_OPT_TEXT(struct nemotron_h, mlp_hidden_act)},
    {JSON_OPT_TEXT(struct nemotron_h, mamba_hidden_act)},
    {JSON_OPT_ANY("tie_word_embeddings")},
    {DECODER_BOOL("mlp_bias", mlp_bias)},
    {DECODER_BOOL("use_bias", scan.bias)},
    {DECODER_BOOL("use_conv_bias", scan.conv_bias)},
    {JSON_OPT_BOOL(struct nemotron_h, norm_topk_prob)},
    {JSON_OPT_ANY("layers_block_type")},
    {JSON_OPT_ANY("hybrid_override_pattern")},
    {JSON_OPT_ANY("num_hidden_layers")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size num_attention_heads head_dim mamba_num_heads "
                  "mamba_head_dim ssm_state_size n_groups",
    .dimensions_or_null = "num_key_value_heads",
    .optional = "max_position_embeddings conv_kernel chunk_size layer_norm_epsilon "
                "attention_dropout time_step_min mlp_hidden_act mamba_hidden_act "
                "mlp_bias use_bias use_conv_bias"};
static const struct family_keys MLP_KEYS = {.dimensions = "intermediate_size"};
static const struct family_keys EXPERT_KEYS = {
    .dimensions = "n_routed_experts num_experts_per_tok moe_intermediate_size "
                  "moe_shared_expert_intermediate_size",
    .optional = "n_group topk_group routed_scaling_factor norm_topk_prob"};

// What a layer is, by its letter in a pattern and its names in a list, the older behind.
static const struct {
    char letter;
    const char *name, *older;
    uint8_t parts;
    bool has_experts;
} KINDS[] = {
    {'M', "linear_attention", "mamba", LAYER_SCAN, false},
    {'*', "full_attention", "attention", LAYER_ATTENTION, false},
    {'-', "mlp", "mlp", LAYER_MLP, false},
    {'E', "moe", "moe", LAYER_MLP, true},
};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

struct layer_list {
    uint8_t *parts;
    bool *is_dense;
    int64_t count;
    bool has_mlp, has_experts;
};

static void set_layer(struct layer_list *list, int64_t layer, int kind)
{
    bool is_mlp = KINDS[kind].parts == LAYER_MLP;
    list->parts[layer] = KINDS[kind].parts;
    list->is_dense[layer] = !KINDS[kind].has_experts;
    list->has_experts = list->has_experts || KINDS[kind].has_experts;
    list->has_mlp = list->has_mlp || (is_mlp && !KINDS[kind].has_experts);
}

static void read_list(struct family_reader *reader, struct layer_list *list)
{
    struct json types = json_get(reader->object, "layers_block_type", reader->err);
    int count = json_count(&types, reader->err);
    list->parts = ARENA_NEW(reader->arena, uint8_t, count);
    list->is_dense = ARENA_NEW(reader->arena, bool, count);
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json item = json_item(&types, i);
        const char *text = json_text(&item, reader->err);
        int kind = 0;
        while (text && kind < KIND_COUNT && strcmp(text, KINDS[kind].name) != 0 &&
               strcmp(text, KINDS[kind].older) != 0)
            kind++;
        if (!text) return;
        if (kind < KIND_COUNT) set_layer(list, i, kind);
        if (kind == KIND_COUNT)
            json_fail(
                &item, reader->err,
                "unknown layer type \"%s\"; known: linear_attention, full_attention, mlp, moe",
                text);
    }
    list->count = count;
}

static void read_pattern(struct family_reader *reader, struct layer_list *list)
{
    struct json pattern = json_get(reader->object, "hybrid_override_pattern", reader->err);
    const char *text = json_text(&pattern, reader->err);
    if (!text) return;
    int64_t count = (int64_t)strlen(text);
    list->parts = ARENA_NEW(reader->arena, uint8_t, count);
    list->is_dense = ARENA_NEW(reader->arena, bool, count);
    for (int64_t i = 0; i < count && !reader->err->kind; i++) {
        int kind = 0;
        while (kind < KIND_COUNT && KINDS[kind].letter != text[i])
            kind++;
        if (kind < KIND_COUNT) set_layer(list, i, kind);
        if (kind == KIND_COUNT)
            json_fail(&pattern, reader->err, "unknown letter '%c'; known: M, *, - and E", text[i]);
    }
    list->count = count;
}

static struct layer_list read_layers(struct family_reader *reader)
{
    struct layer_list list = {0};
    if (reader->err->kind) return list;
    bool has_list = json_has(reader->object, "layers_block_type");
    if (!has_list && !json_has(reader->object, "hybrid_override_pattern")) {
        struct family_ledger *ledger = reader->ledger;
        family_missing(reader, FIELDS, "layers_block_type");
        ledger->missing =
            arena_print(reader->arena, "%s or \"hybrid_override_pattern\"", ledger->missing);
        return list;
    }
    if (has_list) read_list(reader, &list);
    if (!has_list) read_pattern(reader, &list);
    if (!reader->err->kind && (list.count < 1 || list.count > LAYERS_MAX))
        family_fail(reader, has_list ? "layers_block_type" : "hybrid_override_pattern",
                    "%lld layers; expected 1 to %d", (long long)list.count, LAYERS_MAX);
    return list;
}

static void set_experts(struct family_reader *reader, const struct nemotron_h *record,
                        const struct layer_list *layers, struct decoder *decoder)
{
    if (!layers->has_experts || reader->err->kind) return;
    decoder->experts = (struct experts){
        .count = record->n_routed_experts,
        .top_k = record->num_experts_per_tok,
        .group_count = record->n_group > 1 ? record->n_group : 0,
        .open_groups = record->n_group > 1 ? record->topk_group : 0,
        .ffn = record->moe_intermediate_size,
        .shared_ffn = record->moe_shared_expert_intermediate_size,
        .route = record->norm_topk_prob ? FUNCTION_ROUTE_SIGMOID_TOP_K : FUNCTION_ROUTE_SIGMOID,
        .route_scale = record->routed_scaling_factor,
        .choice_bias = true,
        .is_dense = layers->is_dense,
    };
    assert(record->n_group > 0 && record->n_routed_experts > 0);
    if (record->n_routed_experts % record->n_group != 0 || record->topk_group > record->n_group) {
        family_fail(reader, "n_group", "%lld experts in %lld groups, of which %lld are open",
                    (long long)record->n_routed_experts, (long long)record->n_group,
                    (long long)record->topk_group);
    }
    family_check_experts(reader, decoder, "n_routed_experts", "num_experts_per_tok");
}

static const void *read_nemotron_h(struct family_reader *reader)
{
    struct nemotron_h record = {.decoder.model_type = "nemotron_h",
                                .decoder.norm = FUNCTION_RMS_NORM,
                                .decoder.seq_len_max = 4096,
                                .decoder.scan.taps = 4,
                                .decoder.scan.chunk = 128,
                                .n_group = 1,
                                .topk_group = 1,
                                .decoder.norm_epsilon = 1e-5,
                                .time_step_min = 0.001,
                                .routed_scaling_factor = 1,
                                .mlp_hidden_act = "relu2",
                                .mamba_hidden_act = "silu",
                                .decoder.scan.conv_bias = true,
                                .norm_topk_prob = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    struct layer_list layers = read_layers(reader);
    if (layers.has_mlp) family_absent(reader, FIELDS, &record, &MLP_KEYS);
    if (layers.has_experts) family_absent(reader, FIELDS, &record, &EXPERT_KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = record.decoder;
    assert(layers.count > 0 && layers.count <= LAYERS_MAX);
    decoder.layer_count = layers.count;
    decoder.parts = layers.parts;
    decoder.scan.norm_groups = decoder.scan.group_count;
    decoder.activation = family_activation(reader, "mlp_hidden_act", record.mlp_hidden_act);
    decoder.scan.activation =
        family_activation(reader, "mamba_hidden_act", record.mamba_hidden_act);
    family_check_heads(reader, &decoder, "num_attention_heads", "num_key_value_heads");
    set_experts(reader, &record, &layers, &decoder);
    family_check_scan(reader, &decoder, "mamba_num_heads", "n_groups");
    // The class clamps at this, whatever time_step_limit says.
    decoder.scan.step_min = record.time_step_min;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_NEMOTRON_H = {"nemotron_h", read_nemotron_h, decoder_graph,
                                               "NemotronHConfig"};
