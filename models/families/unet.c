#include "models/families/unet.h"

#include <assert.h>
#include <string.h>

// The config of Stable Diffusion's unet, as diffusers writes it.

enum { SIDE_MAX = 16384, CHANNELS_MAX = 100000 };

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct unet, sample_size, 1, SIDE_MAX)},
    {JSON_OPT_I64(struct unet, in_channels, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct unet, out_channels, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct unet, layers_per_block, 1, 16)},
    {JSON_OPT_I64(struct unet, cross_attention_dim, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct unet, norm_num_groups, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct unet, projection_class_embeddings_input_dim, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct unet, max_sequence_length, 1, POSITIONS_MAX)},
    {JSON_OPT_F64(struct unet, norm_eps, 0, 1)},
    {JSON_OPT_ANY("block_out_channels")},
    {JSON_OPT_ANY("down_block_types")},
    {JSON_OPT_ANY("up_block_types")},
    {JSON_OPT_ANY("attention_head_dim")},
    {JSON_OPT_ANY("transformer_layers_per_block")},
    {JSON_OPT_ANY("addition_embed_type")},
    {JSON_OPT_ANY("_class_name")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {.dimensions = "sample_size cross_attention_dim",
                                        .optional = "in_channels out_channels layers_per_block "
                                                    "norm_num_groups norm_eps "
                                                    "max_sequence_length"};

// What this family is not built with: keys that may be absent, null or what is said here; "" is
// nothing else, false and true are themselves.
static const struct {
    const char *key, *allowed;
} PLAIN[] = {
    {"act_fn", "silu"},
    {"attention_type", "default"},
    {"center_input_sample", "false"},
    {"class_embed_type", ""},
    {"conv_in_kernel", "3"},
    {"conv_out_kernel", "3"},
    {"cross_attention_norm", ""},
    {"downsample_padding", "1"},
    {"dropout", "0"},
    {"dual_cross_attention", "false"},
    {"encoder_hid_dim", ""},
    {"encoder_hid_dim_type", ""},
    {"mid_block_only_cross_attention", ""},
    {"mid_block_scale_factor", "1"},
    {"mid_block_type", "UNetMidBlock2DCrossAttn"},
    {"num_attention_heads", ""},
    {"num_class_embeds", ""},
    {"only_cross_attention", "false"},
    {"resnet_out_scale_factor", "1"},
    {"resnet_skip_time_act", "false"},
    {"resnet_time_scale_shift", "default"},
    {"reverse_transformer_layers_per_block", ""},
    {"time_cond_proj_dim", ""},
    {"time_embedding_act_fn", ""},
    {"time_embedding_dim", ""},
    {"time_embedding_type", "positional"},
    {"timestep_post_act", ""},
};

static bool is_plain(struct family_reader *reader, const char *key, const char *allowed)
{
    if (!json_has(reader->object, key)) return true;
    struct json value = json_get(reader->object, key, reader->err);
    if (json_is_text(&value)) {
        const char *text = json_text(&value, reader->err);
        return text && strcmp(text, allowed) == 0;
    }
    if (json_is_number(&value)) {
        struct err fault = {0};
        int64_t number = json_i64(&value, 0, 9, &fault);
        return !fault.kind && allowed[0] == '0' + number && !allowed[1];
    }
    if (json_is_array(&value) || json_is_object(&value)) return false;
    return strcmp(json_bool(&value, reader->err) ? "true" : "false", allowed) == 0;
}

static bool check_plain(struct family_reader *reader)
{
    for (size_t i = 0; i < sizeof PLAIN / sizeof *PLAIN; i++) {
        if (is_plain(reader, PLAIN[i].key, PLAIN[i].allowed)) continue;
        bool is_nothing = !*PLAIN[i].allowed;
        return family_fail(reader, PLAIN[i].key, "not supported; it must be %s",
                           is_nothing ? "absent" : PLAIN[i].allowed);
    }
    return true;
}

// Numbers of the levels, or one for all of them.
static bool read_numbers(struct family_reader *reader, const char *key, int64_t fallback,
                         int level_count, int64_t *numbers)
{
    assert(level_count <= UNET_LEVELS_MAX);
    for (int i = 0; i < level_count; i++)
        numbers[i] = fallback;
    if (!json_has(reader->object, key)) {
        family_taken(reader, key, "%lld", (long long)fallback);
        return true;
    }
    struct json value = json_get(reader->object, key, reader->err);
    bool is_list = json_is_array(&value);
    if (is_list && json_count(&value, reader->err) != level_count && !reader->err->kind)
        return family_fail(reader, key, "one for each of %d levels is wanted", level_count);
    for (int i = 0; i < level_count && !reader->err->kind; i++) {
        struct json item = is_list ? json_item(&value, i) : value;
        numbers[i] = json_i64(&item, 1, CHANNELS_MAX, reader->err);
    }
    return !reader->err->kind;
}

// Of one way, its blocks in their order: which of them attend.
static bool read_types(struct family_reader *reader, const char *key, const char *plain,
                       const char *attending, int level_count, bool *attends)
{
    struct json list = json_get(reader->object, key, reader->err);
    if (json_count(&list, reader->err) != level_count && !reader->err->kind)
        return family_fail(reader, key, "one for each of %d levels is wanted", level_count);
    for (int i = 0; i < level_count && !reader->err->kind; i++) {
        struct json item = json_item(&list, i);
        const char *type = json_text(&item, reader->err);
        if (reader->err->kind) return false;
        attends[i] = strcmp(type, attending) == 0;
        if (!attends[i] && strcmp(type, plain) != 0)
            return json_fail(&item, reader->err, "it must be %s or %s", attending, plain);
    }
    return !reader->err->kind;
}

static bool read_levels(struct family_reader *reader, struct unet *record)
{
    static const char CHANNELS[] = "block_out_channels";
    struct json list = json_get(reader->object, CHANNELS, reader->err);
    record->level_count = json_count(&list, reader->err);
    int levels = record->level_count;
    if (reader->err->kind) return false;
    if (!json_is_array(&list) || levels < 1 || levels > UNET_LEVELS_MAX)
        return family_fail(reader, CHANNELS, "1 to %d levels are wanted", UNET_LEVELS_MAX);
    bool up[UNET_LEVELS_MAX] = {0};
    if (!read_numbers(reader, CHANNELS, 0, levels, record->channels) ||
        !read_numbers(reader, "attention_head_dim", 8, levels, record->heads) ||
        !read_numbers(reader, "transformer_layers_per_block", 1, levels, record->depth) ||
        !read_types(reader, "down_block_types", "DownBlock2D", "CrossAttnDownBlock2D", levels,
                    record->attends_down) ||
        !read_types(reader, "up_block_types", "UpBlock2D", "CrossAttnUpBlock2D", levels, up))
        return false;
    for (int i = 0; i < levels; i++)
        record->attends_up[levels - 1 - i] = up[i];
    return true;
}

// Edges of a block are the state, the vector of the step and what is kept on the way down.
enum { KEPT_MAX = BLOCK_EDGES - 2 };

static bool check_levels(struct family_reader *reader, const struct unet *record)
{
    assert(record->level_count >= 1 && record->level_count <= UNET_LEVELS_MAX);
    int levels = record->level_count;
    int64_t kept = record->layers_per_block * levels + levels;
    if (kept > KEPT_MAX)
        return family_fail(reader, "layers_per_block",
                           "%lld states are kept for the way up; %d can be", (long long)kept,
                           KEPT_MAX);
    if (record->sample_size % ((int64_t)1 << (levels - 1)) != 0)
        return family_fail(reader, "sample_size", "a side of %lld is not halved %d times",
                           (long long)record->sample_size, levels - 1);
    for (int i = 0; i < levels; i++) {
        long long channels = record->channels[i], heads = record->heads[i];
        if (channels % record->norm_num_groups != 0)
            return family_fail(reader, "norm_num_groups", "%lld groups do not divide %lld channels",
                               (long long)record->norm_num_groups, channels);
        if (channels % heads != 0)
            return family_fail(reader, "attention_head_dim",
                               "%lld heads (which this key counts) do not divide %lld channels",
                               heads, channels);
    }
    return true;
}

static bool read_added(struct family_reader *reader, struct unet *record)
{
    static const char KEY[] = "addition_embed_type";
    if (!json_has(reader->object, KEY)) {
        if (!family_is_null(reader, KEY)) family_taken(reader, KEY, "null");
        return true;
    }
    record->adds_text = is_plain(reader, KEY, "text_time");
    if (!record->adds_text) return family_fail(reader, KEY, "it must be absent or \"text_time\"");
    if (record->projection_class_embeddings_input_dim > 0) return true;
    return family_fail(reader, "projection_class_embeddings_input_dim",
                       "the width of what is added must be given");
}

static const void *read_unet(struct family_reader *reader)
{
    struct unet *record = ARENA_NEW(reader->arena, struct unet, 1);
    *record = (struct unet){.in_channels = 4,
                            .out_channels = 4,
                            .layers_per_block = 2,
                            .norm_num_groups = 32,
                            .norm_eps = 1e-5,
                            .max_sequence_length = 77};
    family_read(reader, FIELDS, record);
    family_absent(reader, FIELDS, record, &KEYS);
    if (!family_complete(reader) || !check_plain(reader) || !read_levels(reader, record) ||
        !check_levels(reader, record) || !read_added(reader, record))
        return NULL;
    assert(record->in_channels > 0 && record->cross_attention_dim > 0);
    return record;
}

const struct model_family FAMILY_UNET = {"UNet2DConditionModel", read_unet, unet_graph,
                                         "diffusers' UNet2DConditionModel and its pipeline"};
