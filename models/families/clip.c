#include "models/families/family.h"

#include <assert.h>

// CLIPModel and SiglipModel: a tower of pictures and one of text, which are compared.

struct clip {
    int64_t hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
    int64_t image_size, patch_size, num_channels;                  // of pictures
    int64_t vocab_size, max_position_embeddings, projection_size;  // of text
    const char *hidden_act;
    double layer_norm_eps, attention_dropout;
    bool vision_use_head;
};

#define COMMON_FIELDS                                                   \
    {JSON_OPT_I64(struct clip, hidden_size, 1, WIDTH_MAX)},             \
        {JSON_OPT_I64(struct clip, intermediate_size, 1, WIDTH_MAX)},   \
        {JSON_OPT_I64(struct clip, num_hidden_layers, 1, LAYERS_MAX)},  \
        {JSON_OPT_I64(struct clip, num_attention_heads, 1, HEADS_MAX)}, \
        {JSON_OPT_TEXT(struct clip, hidden_act)},                       \
        {JSON_OPT_F64(struct clip, layer_norm_eps, 0, 1)},              \
        {JSON_OPT_F64(struct clip, attention_dropout, 0, DROPOUT_MAX)}, \
        {JSON_OPT_ANY("model_type")}, {JSON_OPT_ANY("projection_dim")}, \
    {                                                                   \
        JSON_OPT_ANY("dropout")                                         \
    }

static const struct json_field VISION_FIELDS[] = {
    COMMON_FIELDS,
    {JSON_OPT_I64(struct clip, image_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct clip, patch_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct clip, num_channels, 1, WIDTH_MAX)},
    {JSON_OPT_BOOL(struct clip, vision_use_head)},
    {0},
};
static const struct json_field TEXT_FIELDS[] = {
    COMMON_FIELDS,
    {JSON_OPT_I64(struct clip, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct clip, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct clip, projection_size, 1, WIDTH_MAX)},
    {0},
};
#define COMMON_KEYS "hidden_size intermediate_size num_hidden_layers num_attention_heads "
static const struct family_keys VISION_KEYS = {
    .dimensions = COMMON_KEYS "image_size patch_size num_channels",
    .optional = "hidden_act layer_norm_eps attention_dropout"};
static const struct family_keys TEXT_KEYS = {
    .dimensions = COMMON_KEYS "vocab_size max_position_embeddings",
    .optional = "hidden_act layer_norm_eps attention_dropout"};

struct both {
    int64_t projection_dim;
};
static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct both, projection_dim, 1, WIDTH_MAX)},
    {JSON_OPT_ANY("text_config")},
    {JSON_OPT_ANY("vision_config")},
    {JSON_OPT_ANY("text_config_dict")},
    {JSON_OPT_ANY("vision_config_dict")},
    {JSON_OPT_ANY("logit_scale_init_value")},
    {JSON_OPT_ANY("model_type")},
    {0},
};
static const struct family_keys KEYS = {.dimensions = "projection_dim"};

struct family_reader family_part(const struct family_reader *reader, const char *key)
{
    struct family_reader inner = *reader;
    struct json *part = ARENA_NEW(reader->arena, struct json, 1);
    *part = (struct json){.document = reader->object->document, .parent = reader->object};
    inner.object = part;
    inner.prefix = arena_print(reader->arena, "%s.", key);
    if (!reader->err->kind && json_has(reader->object, key))
        *part = json_get(reader->object, key, reader->err);
    return inner;
}

static void check_tower(struct family_reader *reader, struct clip *record, struct decoder *tower)
{
    if (reader->err->kind) return;
    *tower = (struct decoder){
        .hidden = record->hidden_size,
        .layer_count = record->num_hidden_layers,
        .head_count = record->num_attention_heads,
        .ffn = record->intermediate_size,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = record->layer_norm_eps,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .attention_dropout = record->attention_dropout,
    };
    family_check_heads(reader, tower, "num_attention_heads", "num_attention_heads");
    tower->activation = family_activation(reader, "hidden_act", record->hidden_act);
}

static void read_vision(const struct family_reader *reader, struct clip record,
                        struct decoder *tower, bool is_siglip, bool is_in_text)
{
    struct family_reader own = family_part(reader, "vision_config");
    if (own.err->kind) return;
    family_read(&own, VISION_FIELDS, &record);
    family_absent(&own, VISION_FIELDS, &record, &VISION_KEYS);
    check_tower(&own, &record, tower);
    if (own.err->kind) return;
    int64_t side = record.image_size / record.patch_size;
    if (side < 1 || side * side >= POSITIONS_MAX) {
        family_fail(&own, "patch_size", "a picture of %lld has no whole patch of %lld, or too many",
                    (long long)record.image_size, (long long)record.patch_size);
        return;
    }
    if (!record.vision_use_head && !is_in_text)
        family_fail(&own, "vision_use_head", "pictures that are not pooled are not supported");
    if (record.vision_use_head && is_in_text)
        own.ledger->remark = "what pools pictures (vision_use_head) is left out: nothing reads it";
    assert(tower->hidden > 0 && tower->layer_count > 0);
    tower->position_count = side * side + !is_siglip;
    tower->picture = (struct picture){
        .patch_count = side * side,
        .pixel_count = record.patch_size * record.patch_size * record.num_channels,
        .patch_is_biased = is_siglip,
        .has_plain_class = !is_siglip,
        .is_pooled = is_siglip,
    };
    tower->embedding_norm = !is_siglip;
    tower->bidirectional = true;
}

static void read_text(const struct family_reader *reader, struct clip record, struct decoder *tower,
                      bool is_siglip)
{
    struct family_reader own = family_part(reader, "text_config");
    if (own.err->kind) return;
    family_read(&own, TEXT_FIELDS, &record);
    family_absent(&own, TEXT_FIELDS, &record, &TEXT_KEYS);
    check_tower(&own, &record, tower);
    if (own.err->kind) return;
    tower->vocab = record.vocab_size;
    tower->position_count = tower->seq_len_max = record.max_position_embeddings;
    tower->bidirectional = tower->head_bias = is_siglip;
    tower->contrast.is_pairwise = is_siglip;
    if (is_siglip)
        tower->contrast.width =
            record.projection_size > 0 ? record.projection_size : record.hidden_size;
}

static const void *read_as(struct family_reader *reader, struct both record, struct clip vision,
                           struct clip text)
{
    bool is_siglip = record.projection_dim == 0;
    struct decoder decoder = {0}, *tower = ARENA_NEW(reader->arena, struct decoder, 1);
    family_read(reader, FIELDS, &record);
    if (!is_siglip) family_absent(reader, FIELDS, &record, &KEYS);
    read_vision(reader, vision, tower, is_siglip, false);
    read_text(reader, text, &decoder, is_siglip);
    if (!family_complete(reader)) return NULL;
    assert(decoder.vocab > 0 && tower->picture.patch_count > 0);
    if (!is_siglip) decoder.contrast.width = record.projection_dim;
    decoder.model_type = tower->model_type = is_siglip ? "siglip" : "clip";
    decoder.encoder = tower;
    if (is_siglip && tower->hidden != decoder.contrast.width)
        family_fail(reader, "text_config",
                    "texts of %lld numbers (projection_size, else hidden_size) are compared with "
                    "pictures of %lld (hidden_size of vision_config)",
                    (long long)decoder.contrast.width, (long long)tower->hidden);
    reader->ledger->remark =
        "each text is as long as the sequence: what its last place says counts";
    return family_decoder(reader, &decoder);
}

static const void *read_clip(struct family_reader *reader)
{
    struct clip vision = {.hidden_size = 768,
                          .intermediate_size = 3072,
                          .num_hidden_layers = 12,
                          .num_attention_heads = 12,
                          .image_size = 224,
                          .patch_size = 32,
                          .num_channels = 3,
                          .hidden_act = "quick_gelu",
                          .layer_norm_eps = 1e-5,
                          .vision_use_head = true};
    struct clip text = {.hidden_size = 512,
                        .intermediate_size = 2048,
                        .num_hidden_layers = 12,
                        .num_attention_heads = 8,
                        .vocab_size = 49408,
                        .max_position_embeddings = 77,
                        .hidden_act = "quick_gelu",
                        .layer_norm_eps = 1e-5};
    return read_as(reader, (struct both){.projection_dim = 512}, vision, text);
}

static const struct clip SIGLIP_VISION = {.hidden_size = 768,
                                          .intermediate_size = 3072,
                                          .num_hidden_layers = 12,
                                          .num_attention_heads = 12,
                                          .image_size = 224,
                                          .patch_size = 16,
                                          .num_channels = 3,
                                          .hidden_act = "gelu_pytorch_tanh",
                                          .layer_norm_eps = 1e-6,
                                          .vision_use_head = true};

void family_siglip_tower(const struct family_reader *reader, struct decoder *tower)
{
    read_vision(reader, SIGLIP_VISION, tower, true, true);
}

static const void *read_siglip(struct family_reader *reader)
{
    struct clip text = SIGLIP_VISION;
    text.vocab_size = 32000;
    text.max_position_embeddings = 64;
    return read_as(reader, (struct both){0}, SIGLIP_VISION, text);
}

const struct model_family FAMILY_CLIP = {"clip", read_clip, towers_graph, "CLIPConfig"};
const struct model_family FAMILY_SIGLIP = {"siglip", read_siglip, towers_graph, "SiglipConfig"};
