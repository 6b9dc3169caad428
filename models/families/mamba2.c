#include "models/families/family.h"

#include <assert.h>
#include <math.h>

// Mamba-2 (configuration_mamba2.py, modeling_mamba2.py of transformers 5.23): layers that are a
// norm, the mixer and a residual, and no mlp.

struct mamba2 {
    struct decoder decoder;
    double expand;
    const char *hidden_act;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_heads", scan.head_count, 1, HEADS_MAX)},
    {DECODER_I64("head_dim", scan.head_dim, 1, HEADS_MAX)},
    {DECODER_I64("state_size", scan.state, 1, HEADS_MAX)},
    {DECODER_I64("n_groups", scan.group_count, 1, HEADS_MAX)},
    {DECODER_I64("conv_kernel", scan.taps, 1, HEADS_MAX)},
    {DECODER_I64("chunk_size", scan.chunk, 1, POSITIONS_MAX)},
    {JSON_OPT_F64(struct mamba2, expand, 1e-6, WIDTH_MAX)},
    {DECODER_F64("layer_norm_epsilon", norm_epsilon, 0, 1)},
    {JSON_OPT_TEXT(struct mamba2, hidden_act)},
    {DECODER_BOOL("use_bias", scan.bias)},
    {DECODER_BOOL("use_conv_bias", scan.conv_bias)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("time_step_limit")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size num_hidden_layers num_heads head_dim state_size n_groups",
    .optional =
        "conv_kernel chunk_size expand layer_norm_epsilon hidden_act use_bias use_conv_bias "
        "tie_word_embeddings"};

static const void *read_mamba2(struct family_reader *reader)
{
    struct mamba2 record = {.decoder.model_type = "mamba2",
                            .decoder.norm = FUNCTION_RMS_NORM,
                            .decoder.scan.taps = 4,
                            .decoder.scan.chunk = 256,
                            .expand = 2,
                            .decoder.norm_epsilon = 1e-5,
                            .hidden_act = "silu",
                            .decoder.scan.conv_bias = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = record.decoder;
    assert(decoder.scan.head_count > 0 && decoder.scan.group_count > 0);
    decoder.scan.norm_groups = decoder.scan.group_count;
    decoder.scan.activation = family_activation(reader, "hidden_act", record.hidden_act);
    decoder.parts = family_alike(reader, decoder.layer_count, LAYER_SCAN);
    family_check_scan(reader, &decoder, "num_heads", "n_groups");
    // The class itself asks for it (Mamba2Config.validate_architecture).
    int64_t inner = (int64_t)((double)record.decoder.hidden * record.expand);
    if (!reader->err->kind &&
        inner != record.decoder.scan.head_count * record.decoder.scan.head_dim) {
        family_fail(reader, "num_heads",
                    "%lld heads of %lld are not expand times hidden_size, %lld",
                    (long long)record.decoder.scan.head_count,
                    (long long)record.decoder.scan.head_dim, (long long)inner);
    }
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_MAMBA2 = {"mamba2", read_mamba2, decoder_graph, "Mamba2Config"};
