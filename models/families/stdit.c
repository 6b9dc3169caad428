#include "models/families/stdit.h"

#include <assert.h>

// The configs of Open-Sora's diffusion transformers.

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct stdit, depth, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct stdit, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct stdit, num_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct stdit, in_channels, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct stdit, caption_channels, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct stdit, model_max_length, 1, POSITIONS_MAX)},
    {JSON_OPT_F64(struct stdit, mlp_ratio, 1e-3, 1e3)},
    {JSON_OPT_F64(struct stdit, drop_path, 0, 1)},
    {JSON_OPT_BOOL(struct stdit, qk_norm)},
    {JSON_OPT_BOOL(struct stdit, pred_sigma)},
    {JSON_OPT_BOOL(struct stdit, skip_y_embedder)},
    {JSON_OPT_BOOL(struct stdit, only_train_temporal)},
    {JSON_OPT_ANY("input_size")},
    {JSON_OPT_ANY("patch_size")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "depth hidden_size num_heads input_size",
    .optional = "in_channels caption_channels model_max_length mlp_ratio drop_path qk_norm "
                "pred_sigma patch_size skip_y_embedder only_train_temporal"};

// Frames, height and width. The released config leaves the video open (nulls): a plan is made for
// one.
static bool read_three(struct family_reader *reader, const char *key, int64_t sizes[3])
{
    if (!json_has(reader->object, key)) return true;
    struct json list = json_get(reader->object, key, reader->err);
    bool is_open = json_count(&list, reader->err) != 3;
    for (int i = 0; i < 3 && !is_open && !reader->err->kind; i++) {
        struct json item = json_item(&list, i);
        is_open = !json_is_number(&item);
        if (!is_open) sizes[i] = json_i64(&item, 1, POSITIONS_MAX, reader->err);
    }
    if (reader->err->kind || !is_open) return !reader->err->kind;
    return family_fail(reader, key,
                       "expected frames, height and width, as of latents: [120, 90, 160] for 16 s "
                       "of 720p");
}

static bool check(struct family_reader *reader, struct stdit *record, const int64_t sizes[3],
                  const int64_t patch[3])
{
    assert(patch[0] > 0 && patch[1] > 0 && patch[2] > 0);
    static const char *const NAMES[] = {"frames", "height", "width"};
    for (int i = 0; i < 3; i++) {
        if (sizes[i] % patch[i] == 0) continue;
        return family_fail(reader, "input_size", "a patch of %lld does not divide %s of %lld",
                           (long long)patch[i], NAMES[i], (long long)sizes[i]);
    }
    record->frames = sizes[0] / patch[0];
    record->places = sizes[1] / patch[1] * (sizes[2] / patch[2]);
    record->patch = patch[0] * patch[1] * patch[2];
    if (record->hidden_size % record->num_heads != 0)
        return family_fail(reader, "num_heads", "%lld heads do not divide a hidden size of %lld",
                           (long long)record->num_heads, (long long)record->hidden_size);
    if (record->kind == STDIT_3 && record->hidden_size / record->num_heads % 2 != 0)
        return family_fail(reader, "num_heads",
                           "frames are rotated, which an odd head width is not");
    if (record->mlp_ratio * (double)record->hidden_size < 1)
        return family_fail(reader, "mlp_ratio", "%g times hidden_size is no width of an mlp",
                           record->mlp_ratio);
    if (record->drop_path > 0)
        return family_fail(reader, "drop_path", "dropping whole branches is not supported");
    if (record->skip_y_embedder)
        return family_fail(reader, "skip_y_embedder",
                           "text that was embedded elsewhere is not "
                           "supported");
    if (record->only_train_temporal)
        return family_fail(reader, "only_train_temporal",
                           "training of some layers is not "
                           "supported");
    return true;
}

static const void *read_as(struct family_reader *reader, enum stdit_kind kind)
{
    struct stdit *record = ARENA_NEW(reader->arena, struct stdit, 1);
    int64_t sizes[3] = {0, 0, 0}, patch[3] = {1, 2, 2};
    *record = (struct stdit){.kind = kind,
                             .in_channels = 4,
                             .caption_channels = 4096,
                             .model_max_length = kind == STDIT_3 ? 300 : 120,
                             .mlp_ratio = 4,
                             .qk_norm = kind == STDIT_3,
                             .pred_sigma = true};
    family_read(reader, FIELDS, record);
    family_absent(reader, FIELDS, record, &KEYS);
    if (!family_complete(reader) || !read_three(reader, "input_size", sizes) ||
        !read_three(reader, "patch_size", patch) || !check(reader, record, sizes, patch))
        return NULL;
    assert(record->frames > 0 && record->places > 0);
    return record;
}

static const void *read_stdit(struct family_reader *reader)
{
    return read_as(reader, STDIT);
}

static const void *read_stdit_3(struct family_reader *reader)
{
    return read_as(reader, STDIT_3);
}

const struct model_family FAMILY_STDIT = {"STDiT", read_stdit, stdit_graph, "opensora STDiT"};
const struct model_family FAMILY_STDIT3 = {"STDiT3", read_stdit_3, stdit_graph, "opensora STDiT3"};
