#include "models/families/flux.h"

#include <assert.h>

// The config of FLUX.1's transformer, as diffusers writes it.

enum { SIDE_MAX = 65536 };

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct flux, num_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct flux, num_single_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct flux, attention_head_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct flux, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct flux, in_channels, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct flux, out_channels, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct flux, joint_attention_dim, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct flux, pooled_projection_dim, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct flux, patch_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct flux, sample_size, 1, SIDE_MAX)},
    {JSON_OPT_I64(struct flux, max_sequence_length, 1, POSITIONS_MAX)},
    {JSON_OPT_BOOL(struct flux, guidance_embeds)},
    {JSON_OPT_ANY("axes_dims_rope")},
    {JSON_OPT_ANY("_class_name")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

// Sides of a picture and lengths of a text are those of FluxPipeline where the config, as that of
// a release, does not say them: 1024 x 1024 pixels are latents of 128 x 128.
static const struct family_keys KEYS = {
    .dimensions = "num_layers num_single_layers attention_head_dim num_attention_heads",
    .optional = "in_channels joint_attention_dim pooled_projection_dim patch_size guidance_embeds "
                "sample_size max_sequence_length"};

// Dims of a head that are rotated by nothing, by the row and by the column; the first have no
// position in a picture, so that they stay.
static bool read_axes(struct family_reader *reader, struct flux *record)
{
    static const char KEY[] = "axes_dims_rope";
    int64_t axes[3] = {16, 56, 56};
    if (json_has(reader->object, KEY)) {
        struct json list = json_get(reader->object, KEY, reader->err);
        if (json_count(&list, reader->err) != 3 && !reader->err->kind)
            return family_fail(reader, KEY, "three axes are wanted");
        for (int i = 0; i < 3 && !reader->err->kind; i++) {
            struct json item = json_item(&list, i);
            axes[i] = json_i64(&item, 0, HEADS_MAX, reader->err);
        }
        if (reader->err->kind) return false;
    } else {
        family_taken(reader, KEY, "[16, 56, 56]");
    }
    if (axes[0] + axes[1] + axes[2] != record->attention_head_dim)
        return family_fail(reader, KEY,
                           "%lld, %lld and %lld are not together %lld, as wide as a head",
                           (long long)axes[0], (long long)axes[1], (long long)axes[2],
                           (long long)record->attention_head_dim);
    if (axes[1] != axes[2] || axes[1] % 2 != 0 || axes[0] % 2 != 0 || axes[1] == 0)
        return family_fail(reader, KEY, "rows and columns that are not rotated alike, or no pairs");
    record->rotary_dims = axes[1] + axes[2];
    return true;
}

static bool check(struct family_reader *reader, const struct flux *record)
{
    enum { PACKED = 2 };
    if (record->num_attention_heads * record->attention_head_dim > WIDTH_MAX)
        return family_fail(reader, "attention_head_dim", "heads are together wider than %d",
                           WIDTH_MAX);
    if (record->patch_size != 1)
        return family_fail(reader, "patch_size",
                           "patches are cut outside the model; only 1 is read");
    if (record->sample_size % PACKED != 0)
        return family_fail(reader, "sample_size", "patches of 2 x 2 do not divide a side of %lld",
                           (long long)record->sample_size);
    return true;
}

static const void *read_flux(struct family_reader *reader)
{
    struct flux *record = ARENA_NEW(reader->arena, struct flux, 1);
    *record = (struct flux){.in_channels = 64,
                            .joint_attention_dim = 4096,
                            .pooled_projection_dim = 768,
                            .patch_size = 1,
                            .sample_size = 128,
                            .max_sequence_length = 512};
    family_read(reader, FIELDS, record);
    family_absent(reader, FIELDS, record, &KEYS);
    if (!family_complete(reader) || !check(reader, record) || !read_axes(reader, record))
        return NULL;
    if (record->out_channels == 0) record->out_channels = record->in_channels;
    assert(record->out_channels > 0 && record->rotary_dims > 0);
    return record;
}

const struct model_family FAMILY_FLUX = {"FluxTransformer2DModel", read_flux, flux_graph,
                                         "diffusers' FluxTransformer2DModel and FluxPipeline"};
