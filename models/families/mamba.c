#include "models/families/family.h"

// Mamba-1 (configuration_mamba.py and _falcon_mamba.py, modeling_mamba.py and _falcon_mamba.py of
// transformers 5.24): layers that are a norm, the mixer and a residual. Falcon Mamba norms steps, B
// and C, without a weight.

struct mamba {
    int64_t vocab_size, hidden_size, num_hidden_layers, state_size, conv_kernel;
    int64_t intermediate_size;
    double expand, layer_norm_epsilon, mixer_rms_eps;
    const char *hidden_act;
    bool use_bias, use_conv_bias, tie_word_embeddings;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct mamba, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct mamba, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct mamba, num_hidden_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct mamba, state_size, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct mamba, conv_kernel, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct mamba, intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_F64(struct mamba, expand, 1e-6, WIDTH_MAX)},
    {JSON_OPT_F64(struct mamba, layer_norm_epsilon, 0, 1)},
    {JSON_OPT_F64(struct mamba, mixer_rms_eps, 1e-30, 1)},
    {JSON_OPT_TEXT(struct mamba, hidden_act)},
    {JSON_OPT_BOOL(struct mamba, use_bias)},
    {JSON_OPT_BOOL(struct mamba, use_conv_bias)},
    {JSON_OPT_BOOL(struct mamba, tie_word_embeddings)},
    {JSON_OPT_ANY("time_step_rank")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

#define OPTIONS \
    "conv_kernel layer_norm_epsilon hidden_act use_bias use_conv_bias tie_word_embeddings"
static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size num_hidden_layers state_size", .optional = OPTIONS};
static const struct family_keys FALCON_KEYS = {
    .dimensions = "vocab_size hidden_size num_hidden_layers state_size",
    .optional = OPTIONS " mixer_rms_eps"};

static struct decoder describe(const char *model_type, const struct mamba *record)
{
    return (struct decoder){
        .model_type = model_type,
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count = record->num_hidden_layers,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_RMS_NORM,
        .norm_epsilon = record->layer_norm_epsilon,
        .tied = record->tie_word_embeddings,
        .scan = {.rule = SCAN_MAMBA1,
                 .head_count = record->intermediate_size,
                 .state = record->state_size,
                 .taps = record->conv_kernel,
                 .bias = record->use_bias,
                 .conv_bias = record->use_conv_bias},
    };
}

static const void *read_as(struct family_reader *reader, const char *model_type, bool is_falcon)
{
    struct mamba record = {.conv_kernel = 4,
                           .expand = 2,
                           .layer_norm_epsilon = 1e-5,
                           .mixer_rms_eps = 1e-6,
                           .hidden_act = "silu",
                           .use_conv_bias = true,
                           .tie_word_embeddings = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, is_falcon ? &FALCON_KEYS : &KEYS);
    // What intermediate_size says the class takes in place of the product.
    if (record.intermediate_size == 0 && record.hidden_size > 0) {
        record.intermediate_size = (int64_t)(record.expand * (double)record.hidden_size);
        family_taken(reader, "intermediate_size", "%lld (expand * hidden_size)",
                     (long long)record.intermediate_size);
    }
    int64_t rank = family_step_rank(reader, "time_step_rank", record.hidden_size);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe(model_type, &record);
    decoder.scan.activation = family_activation(reader, "hidden_act", record.hidden_act);
    decoder.scan.step_rank = rank;
    if (is_falcon) {
        decoder.scan.low_epsilon = record.mixer_rms_eps;
        decoder.scan.low_is_plain = true;
    }
    decoder.parts = family_alike(reader, decoder.layer_count, LAYER_SCAN);
    return family_decoder(reader, &decoder);
}

static const void *read_mamba(struct family_reader *reader)
{
    return read_as(reader, "mamba", false);
}

static const void *read_falcon_mamba(struct family_reader *reader)
{
    return read_as(reader, "falcon_mamba", true);
}

const struct model_family FAMILY_MAMBA = {"mamba", read_mamba, decoder_graph, "MambaConfig"};
const struct model_family FAMILY_FALCON_MAMBA = {"falcon_mamba", read_falcon_mamba, decoder_graph,
                                                 "FalconMambaConfig"};
