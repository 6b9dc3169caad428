#include "models/families/family.h"

#include <math.h>

// Mamba-2 (configuration_mamba2.py, modeling_mamba2.py of transformers 5.23): layers that are a
// norm, the mixer and a residual, and no mlp.

struct mamba2 {
    int64_t vocab_size, hidden_size, num_hidden_layers, num_heads, head_dim, state_size;
    int64_t n_groups, conv_kernel, chunk_size;
    double expand, layer_norm_epsilon;
    const char *hidden_act;
    bool use_bias, use_conv_bias, tie_word_embeddings;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct mamba2, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct mamba2, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct mamba2, num_hidden_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct mamba2, num_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct mamba2, head_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct mamba2, state_size, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct mamba2, n_groups, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct mamba2, conv_kernel, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct mamba2, chunk_size, 1, POSITIONS_MAX)},
    {JSON_OPT_F64(struct mamba2, expand, 1e-6, WIDTH_MAX)},
    {JSON_OPT_F64(struct mamba2, layer_norm_epsilon, 0, 1)},
    {JSON_OPT_TEXT(struct mamba2, hidden_act)},
    {JSON_OPT_BOOL(struct mamba2, use_bias)},
    {JSON_OPT_BOOL(struct mamba2, use_conv_bias)},
    {JSON_OPT_BOOL(struct mamba2, tie_word_embeddings)},
    {JSON_OPT_ANY("time_step_limit")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size num_hidden_layers num_heads head_dim state_size n_groups",
    .optional =
        "conv_kernel chunk_size expand layer_norm_epsilon hidden_act use_bias use_conv_bias "
        "tie_word_embeddings"};

static struct decoder describe(const struct mamba2 *record)
{
    return (struct decoder){
        .model_type = "mamba2",
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count = record->num_hidden_layers,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_RMS_NORM,
        .norm_epsilon = record->layer_norm_epsilon,
        .tied = record->tie_word_embeddings,
        .scan = {.head_count = record->num_heads,
                 .head_dim = record->head_dim,
                 .group_count = record->n_groups,
                 .state = record->state_size,
                 .taps = record->conv_kernel,
                 .chunk = record->chunk_size,
                 .bias = record->use_bias,
                 .conv_bias = record->use_conv_bias,
                 .norm_groups = record->n_groups},
    };
}

static const void *read_mamba2(struct family_reader *reader)
{
    struct mamba2 record = {.conv_kernel = 4,
                            .chunk_size = 256,
                            .expand = 2,
                            .layer_norm_epsilon = 1e-5,
                            .hidden_act = "silu",
                            .use_conv_bias = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe(&record);
    decoder.scan.activation = family_activation(reader, "hidden_act", record.hidden_act);
    decoder.parts = family_alike(reader, decoder.layer_count, LAYER_SCAN);
    family_check_scan(reader, &decoder, "num_heads", "n_groups");
    // The class itself asks for it (Mamba2Config.validate_architecture).
    int64_t inner = (int64_t)((double)record.hidden_size * record.expand);
    if (!reader->err->kind && inner != record.num_heads * record.head_dim) {
        family_fail(reader, "num_heads",
                    "%lld heads of %lld are not expand times hidden_size, %lld",
                    (long long)record.num_heads, (long long)record.head_dim, (long long)inner);
    }
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_MAMBA2 = {"mamba2", read_mamba2, decoder_graph, "Mamba2Config"};
