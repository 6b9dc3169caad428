#include "models/families/family.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

// T5ForConditionalGeneration: rms norms before each part, no biases, no positions but the numbers
// that scores get by distance, and no factor on scores. The first releases tie the head to the
// table of tokens and scale what it reads; t5 1.1 does not, and has a gate in its mlps, as has mt5.
// Switch transformers (Fedus et al. 2022) are the first t5 with experts in some of the layers, of
// which a token gets one.

struct t5 {
    struct decoder decoder;
    int64_t num_layers;
    int64_t num_experts, num_sparse_encoder_layers, num_sparse_decoder_layers;
    const char *feed_forward_proj;
    bool router_bias;
};

#define T5_FIELDS                                                                                \
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},                                            \
        {DECODER_I64("d_model", hidden, 1, WIDTH_MAX)},                                          \
        {DECODER_I64("d_kv", head_dim, 1, HEADS_MAX)}, {DECODER_I64("d_ff", ffn, 1, WIDTH_MAX)}, \
        {JSON_OPT_I64(struct t5, num_layers, 1, LAYERS_MAX)},                                    \
        {DECODER_I64("num_decoder_layers", layer_count, 1, LAYERS_MAX)},                         \
        {DECODER_I64("num_heads", head_count, 1, HEADS_MAX)},                                    \
        {DECODER_I64("relative_attention_num_buckets", relative.bucket_count, 4, 4096)},         \
        {DECODER_I64("relative_attention_max_distance", relative.distance, 2, POSITIONS_MAX)},   \
        {DECODER_I64("n_positions", seq_len_max, 1, POSITIONS_MAX)},                             \
        {DECODER_F64("dropout_rate", attention_dropout, 0, DROPOUT_MAX)},                        \
        {DECODER_F64("layer_norm_epsilon", norm_epsilon, 0, 1)},                                 \
        {DECODER_BOOL("tie_word_embeddings", tied)},                                             \
    {                                                                                            \
        JSON_OPT_ANY("model_type")                                                               \
    }

static const struct json_field FIELDS[] = {
    T5_FIELDS,
    {JSON_OPT_TEXT(struct t5, feed_forward_proj)},
    {0},
};

static const struct json_field SWITCH_FIELDS[] = {
    T5_FIELDS,
    {"dense_act_fn", JSON_TYPE_TEXT, offsetof(struct t5, feed_forward_proj), 0, 0, true},
    {JSON_OPT_I64(struct t5, num_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct t5, num_sparse_encoder_layers, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct t5, num_sparse_decoder_layers, 0, LAYERS_MAX)},
    {JSON_OPT_BOOL(struct t5, router_bias)},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size d_model d_kv d_ff num_layers num_heads",
    .optional = "relative_attention_num_buckets relative_attention_max_distance feed_forward_proj "
                "dropout_rate layer_norm_epsilon tie_word_embeddings n_positions"};

static const struct family_keys SWITCH_KEYS = {
    .dimensions = "vocab_size d_model d_kv d_ff num_layers num_heads num_experts "
                  "num_sparse_encoder_layers num_sparse_decoder_layers",
    .optional = "relative_attention_num_buckets relative_attention_max_distance dense_act_fn "
                "dropout_rate layer_norm_epsilon tie_word_embeddings n_positions router_bias"};

// "relu", "gated-gelu": the function, and whether a gate is in front of it. The class means the
// approximation by tanh where it says gated-gelu.
static void read_mlp(struct family_reader *reader, const struct t5 *record, struct decoder *decoder)
{
    static const char GATED[] = "gated-";
    const char *name = record->feed_forward_proj;
    decoder->gated = strncmp(name, GATED, strlen(GATED)) == 0;
    if (decoder->gated) name += strlen(GATED);
    if (decoder->gated && strcmp(name, "gelu") == 0) name = "gelu_new";
    decoder->activation = family_activation(reader, "feed_forward_proj", name);
}

// Buckets of the encoder are for both directions: half of them each, half of those for single
// distances, the rest for ranges up to the last.
static bool check_buckets(struct family_reader *reader, const struct t5 *record)
{
    int64_t buckets = record->decoder.relative.bucket_count;
    if (buckets % 4 != 0)
        return family_fail(reader, "relative_attention_num_buckets", "must be a multiple of 4");
    if (record->decoder.relative.distance > buckets / 2) return true;
    return family_fail(reader, "relative_attention_max_distance",
                       "must be above half of relative_attention_num_buckets, %lld",
                       (long long)(buckets / 2));
}

static struct decoder describe(const char *model_type, const struct t5 *record)
{
    assert(record->decoder.layer_count > 0 && record->num_layers > 0);
    struct decoder decoder = record->decoder;
    decoder.model_type = model_type;
    decoder.norm = FUNCTION_RMS_NORM;
    decoder.score_factor = 1;
    decoder.logit_scale = decoder.tied ? 1 / sqrt((double)decoder.hidden) : 0;
    decoder.hidden_dropout = decoder.embedding_dropout = decoder.attention_dropout;
    decoder.ffn_dropout = decoder.final_dropout = decoder.attention_dropout;
    return decoder;
}

static const void *finish(struct family_reader *reader, struct decoder *decoder,
                          struct decoder *encoder)
{
    assert(encoder->head_count == decoder->head_count);
    encoder->bidirectional = true;
    decoder->encoder = encoder;
    return family_decoder(reader, decoder);
}

static struct decoder read_as(struct family_reader *reader, const char *model_type,
                              const struct json_field *fields, const struct family_keys *keys,
                              struct t5 *record)
{
    family_read(reader, fields, record);
    family_absent(reader, fields, record, keys);
    if (!family_complete(reader) || !check_buckets(reader, record)) return (struct decoder){0};
    if (record->decoder.layer_count == 0) {
        record->decoder.layer_count = record->num_layers;
        family_taken(reader, "num_decoder_layers", "%lld (num_layers)",
                     (long long)record->num_layers);
    }
    struct decoder decoder = describe(model_type, record);
    family_check_heads(reader, &decoder, "num_heads", "num_heads");
    return decoder;
}

#define T5_DEFAULTS                                                        \
    .decoder.relative.bucket_count = 32, .decoder.relative.distance = 128, \
    .decoder.attention_dropout = 0.1, .decoder.norm_epsilon = 1e-6, .decoder.seq_len_max = 512

static const void *read_gated(struct family_reader *reader, const char *model_type,
                              struct t5 *record)
{
    struct decoder decoder = read_as(reader, model_type, FIELDS, &KEYS, record);
    if (reader->err->kind) return NULL;
    read_mlp(reader, record, &decoder);
    struct decoder *encoder = ARENA_NEW(reader->arena, struct decoder, 1);
    *encoder = decoder;
    encoder->layer_count = record->num_layers;
    return finish(reader, &decoder, encoder);
}

static const void *read_t5(struct family_reader *reader)
{
    struct t5 record = {T5_DEFAULTS, .feed_forward_proj = "relu", .decoder.tied = true};
    return read_gated(reader, "t5", &record);
}

// Mt5 whose layers have tables of distances each.
static const void *read_umt5(struct family_reader *reader)
{
    struct t5 record = {T5_DEFAULTS, .feed_forward_proj = "gated-gelu",
                        .decoder.relative.is_of_layer = true};
    return read_gated(reader, "umt5", &record);
}

static const void *read_mt5(struct family_reader *reader)
{
    struct t5 record = {T5_DEFAULTS, .feed_forward_proj = "gated-gelu"};
    return read_gated(reader, "mt5", &record);
}

// Every so many layers one has experts, beginning with the second. Where none is asked for the
// class comes to one, the second: this is what it builds.
static const bool *dense_layers(struct family_reader *reader, int64_t layer_count,
                                int64_t sparse_count)
{
    assert(layer_count > 0 && sparse_count >= 0);
    bool *is_dense = ARENA_NEW(reader->arena, bool, layer_count);
    int64_t step = sparse_count > 0 ? layer_count / sparse_count : layer_count;
    for (int64_t i = 0; i < layer_count; i++)
        is_dense[i] = step == 0 || (step > 1 && i % step != 1);
    return is_dense;
}

// Experts are no other mlps than that of the layers without.
static const void *read_switch(struct family_reader *reader)
{
    struct t5 record = {T5_DEFAULTS, .feed_forward_proj = "relu", .decoder.tied = true};
    struct decoder decoder =
        read_as(reader, "switch_transformers", SWITCH_FIELDS, &SWITCH_KEYS, &record);
    if (reader->err->kind) return NULL;
    decoder.activation = family_activation(reader, "dense_act_fn", record.feed_forward_proj);
    decoder.experts = (struct experts){.count = record.num_experts,
                                       .top_k = 1,
                                       .ffn = record.decoder.ffn,
                                       .route = FUNCTION_ROUTE_SOFTMAX,
                                       .route_bias = record.router_bias};
    family_check_experts(reader, &decoder, "num_experts", "num_experts");
    if (reader->err->kind) return NULL;
    struct decoder *encoder = ARENA_NEW(reader->arena, struct decoder, 1);
    *encoder = decoder;
    encoder->layer_count = record.num_layers;
    encoder->experts.is_dense =
        dense_layers(reader, record.num_layers, record.num_sparse_encoder_layers);
    decoder.experts.is_dense =
        dense_layers(reader, record.decoder.layer_count, record.num_sparse_decoder_layers);
    reader->ledger->remark = "noise on what routers see and their losses are left out; "
                             "--capacity-factor says what experts have room for";
    return finish(reader, &decoder, encoder);
}

const struct model_family FAMILY_UMT5 = {"umt5", read_umt5, decoder_graph, "UMT5Config"};
const struct model_family FAMILY_MT5 = {"mt5", read_mt5, decoder_graph, "MT5Config"};
const struct model_family FAMILY_SWITCH = {"switch_transformers", read_switch, decoder_graph,
                                           "SwitchTransformersConfig"};
const struct model_family FAMILY_T5 = {"t5", read_t5, decoder_graph, "T5Config"};
