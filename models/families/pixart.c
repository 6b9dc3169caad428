#include "models/families/stdit.h"

#include <assert.h>
#include <string.h>

// PixArt-alpha under the names of diffusers (PixArtTransformer2DModel, whose config says so under
// _class_name): of Open-Sora's transformers the blocks over places alone, for a picture. At 1024
// the class conditions on size and aspect as well, which is not supported.

struct pixart {
    int64_t num_attention_heads, attention_head_dim, num_layers, in_channels, out_channels;
    int64_t sample_size, patch_size, caption_channels, cross_attention_dim, model_max_length;
    double dropout;
    bool attention_bias, use_additional_conditions;
    const char *activation_fn, *norm_type;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct pixart, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct pixart, attention_head_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct pixart, num_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct pixart, in_channels, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct pixart, out_channels, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct pixart, sample_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct pixart, patch_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct pixart, caption_channels, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct pixart, cross_attention_dim, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct pixart, model_max_length, 1, POSITIONS_MAX)},
    {JSON_OPT_F64(struct pixart, dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct pixart, attention_bias)},
    {JSON_OPT_BOOL(struct pixart, use_additional_conditions)},
    {JSON_OPT_TEXT(struct pixart, activation_fn)},
    {JSON_OPT_TEXT(struct pixart, norm_type)},
    {JSON_OPT_ANY("_class_name")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "num_attention_heads attention_head_dim num_layers sample_size caption_channels",
    .optional = "in_channels patch_size model_max_length dropout attention_bias activation_fn "
                "norm_type"};

static bool check(struct family_reader *reader, const struct pixart *record, int64_t hidden)
{
    static const char CONDITIONS[] = "use_additional_conditions";
    enum { CONDITIONED_SIZE = 128 };  // of which the class conditions where the key says nothing
    bool says = json_has(reader->object, CONDITIONS) && !family_is_null(reader, CONDITIONS);
    if (says ? record->use_additional_conditions : record->sample_size == CONDITIONED_SIZE)
        return family_fail(reader, CONDITIONS, "conditions on size and aspect are not supported%s",
                           says ? "" : ", which a sample_size of 128 means");
    if (hidden > WIDTH_MAX)
        return family_fail(reader, "attention_head_dim", "heads are together wider than %d",
                           WIDTH_MAX);
    if (record->cross_attention_dim && record->cross_attention_dim != hidden)
        return family_fail(reader, "cross_attention_dim",
                           "%lld is not %lld, as wide as the heads together",
                           (long long)record->cross_attention_dim, (long long)hidden);
    if (record->sample_size % record->patch_size != 0)
        return family_fail(reader, "sample_size", "a patch of %lld does not divide %lld",
                           (long long)record->patch_size, (long long)record->sample_size);
    int64_t in = record->in_channels, out = record->out_channels;
    if (out && out != in && out != 2 * in)
        return family_fail(reader, "out_channels", "%lld are neither %lld nor twice that",
                           (long long)out, (long long)in);
    if (record->dropout > 0) return family_fail(reader, "dropout", "dropout is not supported here");
    if (!record->attention_bias)
        return family_fail(reader, "attention_bias", "biases of attention are not optional");
    if (strcmp(record->activation_fn, "gelu-approximate") != 0)
        return family_fail(reader, "activation_fn", "it must be \"gelu-approximate\"");
    if (strcmp(record->norm_type, "ada_norm_single") != 0)
        return family_fail(reader, "norm_type", "it must be \"ada_norm_single\"");
    return true;
}

static const void *read_pixart(struct family_reader *reader)
{
    struct pixart record = {.in_channels = 4,
                            .patch_size = 2,
                            .model_max_length = 120,
                            .attention_bias = true,
                            .activation_fn = "gelu-approximate",
                            .norm_type = "ada_norm_single"};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    int64_t hidden = record.num_attention_heads * record.attention_head_dim;
    if (!check(reader, &record, hidden)) return NULL;
    int64_t side = record.sample_size / record.patch_size;
    assert(side > 0);
    struct stdit *model = ARENA_NEW(reader->arena, struct stdit, 1);
    *model = (struct stdit){.kind = STDIT_PICTURE,
                            .depth = record.num_layers,
                            .hidden_size = hidden,
                            .num_heads = record.num_attention_heads,
                            .in_channels = record.in_channels,
                            .caption_channels = record.caption_channels,
                            .model_max_length = record.model_max_length,
                            .mlp_ratio = 4,
                            .pred_sigma = record.out_channels != record.in_channels,
                            .frames = 1,
                            .places = side * side,
                            .patch = record.patch_size * record.patch_size};
    return model;
}

const struct model_family FAMILY_PIXART = {"PixArtTransformer2DModel", read_pixart, stdit_graph,
                                           "diffusers' PixArtTransformer2DModel"};
