#include "models/families/family.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Layers with the mixer of Mamba-2, or attention, or both, in front of a gated mlp, under one set
// of keys (transformers 5.24): in falcon_h1 each layer has both beside one another, in bamba and
// granitemoehybrid (Granite 4.0) a list says which has which; the latter may have experts, each
// token some, beside a shared one.

struct hybrid {
    struct decoder decoder;
    int64_t mamba_d_ssm;
    int64_t num_local_experts, num_experts_per_tok, shared_intermediate_size;
    double mamba_expand, rope_theta;
    double embedding_multiplier, lm_head_multiplier, key_multiplier, attention_in_multiplier;
    double attention_multiplier, residual_multiplier, logits_scaling;
    const char *hidden_act, *position_embedding_type;
    bool mamba_rms_norm, mamba_norm_before_gate;
    bool projectors_bias, mlp_bias;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("intermediate_size", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("num_key_value_heads", kv_head_count, 1, HEADS_MAX)},
    {DECODER_I64("head_dim", head_dim, 1, HEADS_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct hybrid, mamba_d_ssm, 1, WIDTH_MAX)},
    {DECODER_I64("mamba_n_heads", scan.head_count, 1, HEADS_MAX)},
    {DECODER_I64("mamba_n_groups", scan.group_count, 1, HEADS_MAX)},
    {DECODER_I64("mamba_d_state", scan.state, 1, HEADS_MAX)},
    {DECODER_I64("mamba_d_conv", scan.taps, 1, HEADS_MAX)},
    {DECODER_I64("mamba_chunk_size", scan.chunk, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct hybrid, num_local_experts, 0, EXPERTS_MAX)},
    {JSON_OPT_I64(struct hybrid, num_experts_per_tok, 0, EXPERTS_MAX)},
    {JSON_OPT_I64(struct hybrid, shared_intermediate_size, 0, WIDTH_MAX)},
    {JSON_OPT_F64(struct hybrid, mamba_expand, 1e-6, WIDTH_MAX)},
    {DECODER_F64("rms_norm_eps", norm_epsilon, 0, 1)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct hybrid, rope_theta, 1e-6, 1e18)},
    {JSON_OPT_F64(struct hybrid, embedding_multiplier, 1e-9, 1e9)},
    {JSON_OPT_F64(struct hybrid, lm_head_multiplier, 1e-9, 1e9)},
    {JSON_OPT_F64(struct hybrid, key_multiplier, 1e-9, 1e9)},
    {JSON_OPT_F64(struct hybrid, attention_in_multiplier, 1e-9, 1e9)},
    {JSON_OPT_F64(struct hybrid, attention_multiplier, 1e-9, 1e9)},
    {JSON_OPT_F64(struct hybrid, residual_multiplier, 1e-9, 1e9)},
    {JSON_OPT_F64(struct hybrid, logits_scaling, 1e-9, 1e9)},
    {JSON_OPT_TEXT(struct hybrid, hidden_act)},
    {JSON_OPT_TEXT(struct hybrid, position_embedding_type)},
    {DECODER_BOOL("mamba_conv_bias", scan.conv_bias)},
    {DECODER_BOOL("mamba_proj_bias", scan.bias)},
    {JSON_OPT_BOOL(struct hybrid, mamba_rms_norm)},
    {JSON_OPT_BOOL(struct hybrid, mamba_norm_before_gate)},
    {JSON_OPT_BOOL(struct hybrid, projectors_bias)},
    {DECODER_BOOL("attention_bias", qkv_bias)},
    {JSON_OPT_BOOL(struct hybrid, mlp_bias)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("mamba_d_head")},
    {JSON_OPT_ANY("attn_layer_indices")},
    {JSON_OPT_ANY("layer_types")},
    {JSON_OPT_ANY("layers_block_type")},
    {JSON_OPT_ANY("rope_parameters")},
    {JSON_OPT_ANY("time_step_limit")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

#define DIMENSIONS                                                                               \
    "vocab_size hidden_size num_hidden_layers num_attention_heads mamba_n_heads mamba_n_groups " \
    "mamba_d_state"
#define OPTIONS                                                                                   \
    " max_position_embeddings mamba_d_conv mamba_chunk_size mamba_expand rms_norm_eps hidden_act" \
    " attention_dropout mamba_conv_bias mamba_proj_bias attention_bias tie_word_embeddings"

static struct hybrid defaults(void)
{
    return (struct hybrid){.decoder.norm = FUNCTION_RMS_NORM,
                           .decoder.gated = true,
                           .decoder.seq_len_max = 8192,
                           .decoder.scan.taps = 4,
                           .decoder.scan.chunk = 256,
                           .mamba_expand = 2,
                           .decoder.norm_epsilon = 1e-5,
                           .rope_theta = 10000,
                           .embedding_multiplier = 1,
                           .lm_head_multiplier = 1,
                           .key_multiplier = 1,
                           .attention_in_multiplier = 1,
                           .attention_multiplier = 1,
                           .residual_multiplier = 1,
                           .logits_scaling = 1,
                           .hidden_act = "silu",
                           .decoder.scan.conv_bias = true,
                           .mamba_norm_before_gate = true};
}

// A factor of one is none.
static double other_than_one(double factor)
{
    return factor == 1 ? 0 : factor;
}

static struct decoder describe(struct family_reader *reader, const char *model_type,
                               const struct hybrid *record)
{
    struct decoder decoder = record->decoder;
    decoder.model_type = model_type;
    decoder.out_bias = decoder.qkv_bias;
    decoder.embedding_scale = other_than_one(record->embedding_multiplier);
    decoder.activation = family_activation(reader, "hidden_act", record->hidden_act);
    decoder.scan.activation = decoder.activation;
    decoder.scan.norm_groups = decoder.scan.group_count;
    family_check_heads(reader, &decoder, "num_attention_heads", "num_key_value_heads");
    return decoder;
}

// Heads of the scan share its width: what mamba_d_ssm says, else mamba_expand times the model's.
static void set_scan(struct family_reader *reader, const struct hybrid *record,
                     struct decoder *decoder)
{
    int64_t inner = record->mamba_d_ssm > 0
                        ? record->mamba_d_ssm
                        : (int64_t)(record->mamba_expand * (double)record->decoder.hidden);
    if (reader->err->kind) return;
    assert(record->decoder.scan.head_count > 0 && record->decoder.hidden > 0);
    decoder->scan.head_dim = inner / record->decoder.scan.head_count;
    struct json stated = json_has(reader->object, "mamba_d_head")
                             ? json_get(reader->object, "mamba_d_head", reader->err)
                             : *reader->object;
    bool agrees = inner > 0 && inner % record->decoder.scan.head_count == 0;
    if (json_is_number(&stated))
        agrees = agrees && json_i64(&stated, 1, HEADS_MAX, reader->err) == decoder->scan.head_dim;
    if (!reader->err->kind && !agrees)
        family_fail(reader, "mamba_n_heads", "%lld heads do not make up a scan of %lld",
                    (long long)record->decoder.scan.head_count, (long long)inner);
    family_check_scan(reader, decoder, "mamba_n_heads", "mamba_n_groups");
}

static void set_rope(struct family_reader *reader, const struct hybrid *record, double share,
                     struct decoder *decoder)
{
    assert(share > 0 && share <= 1);
    if (reader->err->kind) return;
    decoder->rope_theta = record->rope_theta;
    decoder->rotary_dims = (int64_t)((double)decoder->head_dim * share);
    if (decoder->rotary_dims % 2 != 0)
        family_fail(reader, "num_attention_heads",
                    "%lld numbers of a head rotate, which are no pairs",
                    (long long)decoder->rotary_dims);
}

// The factors of muP that stand at the ends and in the scores change nothing of shapes and work;
// neither do those inside the layers, which are left out.
static const void *read_falcon_h1(struct family_reader *reader)
{
    struct hybrid record = defaults();
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record,
                  &(struct family_keys){.dimensions = DIMENSIONS " intermediate_size mamba_d_ssm",
                                        .dimensions_or_null = "num_key_value_heads",
                                        .optional =
                                            "rope_theta mlp_bias projectors_bias mamba_rms_norm "
                                            "embedding_multiplier lm_head_multiplier "
                                            "key_multiplier attention_in_multiplier" OPTIONS});
    if (record.decoder.head_dim == 0 && record.decoder.head_count > 0)
        family_taken(reader, "head_dim", "%lld (hidden_size / num_attention_heads)",
                     (long long)(record.decoder.hidden / record.decoder.head_count));
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe(reader, "falcon_h1", &record);
    decoder.parts =
        family_alike(reader, decoder.layer_count, LAYER_ATTENTION | LAYER_SCAN | LAYER_MLP);
    decoder.mlp_bias = record.mlp_bias;
    decoder.logit_scale = other_than_one(record.lm_head_multiplier);
    decoder.scan.norm_groups = record.mamba_rms_norm ? record.decoder.scan.group_count : 0;
    set_scan(reader, &record, &decoder);
    set_rope(reader, &record, 1, &decoder);
    double factor =
        record.key_multiplier * record.attention_in_multiplier * record.attention_in_multiplier;
    if (factor != 1 && !reader->err->kind)
        decoder.score_factor = factor / sqrt((double)decoder.head_dim);
    if (record.mamba_rms_norm && record.mamba_norm_before_gate)
        family_fail(reader, "mamba_norm_before_gate", "a norm before the gate is not supported");
    if (record.projectors_bias != record.decoder.scan.bias)
        family_fail(reader, "projectors_bias",
                    "biases of one projection of a scan alone are not "
                    "supported");
    reader->ledger->remark = "factors on mlps, values, outputs of mixers and inside scans "
                             "(mlp_multipliers, ssm_multipliers, ...) are left out";
    return family_decoder(reader, &decoder);
}

// Which layers attend: their numbers.
static const uint8_t *read_indices(struct family_reader *reader, int64_t layer_count)
{
    assert(layer_count > 0);
    static const char KEY[] = "attn_layer_indices";
    uint8_t *parts = ARENA_NEW(reader->arena, uint8_t, layer_count);
    for (int64_t i = 0; i < layer_count; i++)
        parts[i] = LAYER_SCAN | LAYER_MLP;
    if (!json_has(reader->object, KEY)) family_taken(reader, KEY, "none");
    if (!json_has(reader->object, KEY) || family_is_null(reader, KEY)) return parts;
    struct json list = json_get(reader->object, KEY, reader->err);
    int count = json_count(&list, reader->err);
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json item = json_item(&list, i);
        int64_t layer = json_i64(&item, 0, (double)(layer_count - 1), reader->err);
        if (!reader->err->kind) parts[layer] = LAYER_ATTENTION | LAYER_MLP;
    }
    return parts;
}

// The class rotates half of each head, whatever a config says.
static const void *read_bamba(struct family_reader *reader)
{
    struct hybrid record = defaults();
    record.decoder.seq_len_max = 262144;
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record,
                  &(struct family_keys){.dimensions = DIMENSIONS " intermediate_size",
                                        .dimensions_or_null = "num_key_value_heads",
                                        .optional = "rope_theta mlp_bias" OPTIONS});
    if (!family_complete(reader)) return NULL;
    record.mamba_d_ssm = record.decoder.head_dim = 0;  // not among its keys
    struct decoder decoder = describe(reader, "bamba", &record);
    decoder.parts = read_indices(reader, decoder.layer_count);
    decoder.mlp_bias = record.mlp_bias;
    set_scan(reader, &record, &decoder);
    set_rope(reader, &record, 0.5, &decoder);
    return family_decoder(reader, &decoder);
}

// What layers are, by the names of both ages.
static const struct family_layer_type TYPES[] = {
    {"mamba", LAYER_SCAN | LAYER_MLP},
    {"attention", LAYER_ATTENTION | LAYER_MLP},
    {"linear_attention", LAYER_SCAN | LAYER_MLP},
    {"full_attention", LAYER_ATTENTION | LAYER_MLP},
    {0},
};

static void set_granite_experts(struct family_reader *reader, const struct hybrid *record,
                                struct decoder *decoder)
{
    assert(record->num_local_experts >= 0);
    if (record->num_local_experts == 0) {
        decoder->ffn = record->shared_intermediate_size;
        return;
    }
    decoder->experts = (struct experts){.count = record->num_local_experts,
                                        .top_k = record->num_experts_per_tok,
                                        .ffn = record->decoder.ffn,
                                        .shared_ffn = record->shared_intermediate_size,
                                        .route = FUNCTION_ROUTE_TOP_K_SOFTMAX,
                                        .route_scale = 1};
    family_check_experts(reader, decoder, "num_local_experts", "num_experts_per_tok");
}

static const void *read_granite_hybrid(struct family_reader *reader)
{
    struct hybrid record = defaults();
    record.decoder.seq_len_max = 2048;
    record.decoder.norm_epsilon = 1e-6;
    record.num_local_experts = -1;  // must be given; 0 has a meaning
    family_read(reader, FIELDS, &record);
    bool is_older = !json_has(reader->object, "layer_types");
    const char *key = is_older ? "layers_block_type" : "layer_types";
    if (!json_has(reader->object, key)) family_missing(reader, FIELDS, "layer_types");
    family_absent(reader, FIELDS, &record,
                  &(struct family_keys){
                      .dimensions = DIMENSIONS " shared_intermediate_size num_local_experts",
                      .dimensions_or_null = "num_key_value_heads",
                      .optional = "embedding_multiplier attention_multiplier residual_multiplier "
                                  "logits_scaling" OPTIONS,
                      .optional_or_null = "position_embedding_type"});
    if (record.num_local_experts > 0)
        family_absent(reader, FIELDS, &record,
                      &(struct family_keys){.dimensions = "intermediate_size num_experts_per_tok"});
    if (!family_complete(reader)) return NULL;
    record.mamba_d_ssm = record.decoder.head_dim = 0;  // not among its keys
    struct decoder decoder = describe(reader, "granitemoehybrid", &record);
    decoder.parts = family_layer_parts(reader, key, decoder.layer_count, TYPES);
    decoder.score_factor = record.attention_multiplier;
    decoder.residual_scale = other_than_one(record.residual_multiplier);
    decoder.logit_scale = 1 / record.logits_scaling;
    set_scan(reader, &record, &decoder);
    const char *positions = record.position_embedding_type;
    if (positions && strcmp(positions, "rope") == 0) set_rope(reader, &record, 1, &decoder);
    set_granite_experts(reader, &record, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_FALCON_H1 = {"falcon_h1", read_falcon_h1, decoder_graph,
                                              "FalconH1Config"};
const struct model_family FAMILY_BAMBA = {"bamba", read_bamba, decoder_graph, "BambaConfig"};
const struct model_family FAMILY_GRANITEMOEHYBRID = {"granitemoehybrid", read_granite_hybrid,
                                                     decoder_graph, "GraniteMoeHybridConfig"};
