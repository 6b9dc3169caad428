#include "models/families/family.h"

#include <assert.h>

// Mamba-1 (configuration_mamba.py and _falcon_mamba.py, modeling_mamba.py and _falcon_mamba.py of
// transformers 5.24): layers that are a norm, the mixer and a residual. Falcon Mamba norms steps, B
// and C, without a weight.

struct mamba {
    struct decoder decoder;
    double expand, mixer_rms_eps;
    const char *hidden_act;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("state_size", scan.state, 1, HEADS_MAX)},
    {DECODER_I64("conv_kernel", scan.taps, 1, HEADS_MAX)},
    {DECODER_I64("intermediate_size", scan.head_count, 1, WIDTH_MAX)},
    {JSON_OPT_F64(struct mamba, expand, 1e-6, WIDTH_MAX)},
    {DECODER_F64("layer_norm_epsilon", norm_epsilon, 0, 1)},
    {JSON_OPT_F64(struct mamba, mixer_rms_eps, 1e-30, 1)},
    {JSON_OPT_TEXT(struct mamba, hidden_act)},
    {DECODER_BOOL("use_bias", scan.bias)},
    {DECODER_BOOL("use_conv_bias", scan.conv_bias)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
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

static const void *read_as(struct family_reader *reader, const char *model_type, bool is_falcon)
{
    struct mamba record = {.decoder.model_type = model_type,
                           .decoder.norm = FUNCTION_RMS_NORM,
                           .decoder.scan.rule = SCAN_MAMBA1,
                           .decoder.scan.taps = 4,
                           .expand = 2,
                           .decoder.norm_epsilon = 1e-5,
                           .mixer_rms_eps = 1e-6,
                           .hidden_act = "silu",
                           .decoder.scan.conv_bias = true,
                           .decoder.tied = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, is_falcon ? &FALCON_KEYS : &KEYS);
    // What intermediate_size says the class takes in place of the product.
    if (record.decoder.scan.head_count == 0 && record.decoder.hidden > 0) {
        record.decoder.scan.head_count = (int64_t)(record.expand * (double)record.decoder.hidden);
        family_taken(reader, "intermediate_size", "%lld (expand * hidden_size)",
                     (long long)record.decoder.scan.head_count);
    }
    int64_t rank = family_step_rank(reader, "time_step_rank", record.decoder.hidden);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = record.decoder;
    decoder.scan.activation = family_activation(reader, "hidden_act", record.hidden_act);
    assert(decoder.layer_count > 0 && decoder.scan.state > 0);
    decoder.scan.step_rank = rank;
    if (is_falcon) {
        decoder.scan.low_epsilon = record.mixer_rms_eps;
        decoder.scan.low_is_plain = true;
    }
    if (decoder.scan.head_count < 1)
        family_fail(reader, "expand", "%g times hidden_size is no channel", record.expand);
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
