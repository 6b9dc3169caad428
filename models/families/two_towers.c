#include "models/families/family.h"

#include <assert.h>

// An encoder of pictures beside a decoder of text whose first layers do not look at what the
// encoder says and whose others do. The model is made up, after the captioner of CoCa (Yu et al.
// 2022, section 3.2) without its pooling of places and its contrastive loss: norms before each
// part, and one behind the last layer of either tower.

struct two_towers {
    int64_t vocab_size, hidden_size, num_attention_heads, intermediate_size;
    int64_t max_position_embeddings, text_layers, joint_layers;
    int64_t image_size, patch_size, num_channels, vision_layers, vision_intermediate_size;
    const char *hidden_act;
    double layer_norm_eps, dropout;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct two_towers, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct two_towers, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct two_towers, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct two_towers, intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct two_towers, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct two_towers, text_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct two_towers, joint_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct two_towers, image_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct two_towers, patch_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct two_towers, num_channels, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct two_towers, vision_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct two_towers, vision_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_TEXT(struct two_towers, hidden_act)},
    {JSON_OPT_F64(struct two_towers, layer_norm_eps, 0, 1)},
    {JSON_OPT_F64(struct two_towers, dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size num_attention_heads intermediate_size "
                  "max_position_embeddings text_layers joint_layers image_size patch_size "
                  "vision_layers vision_intermediate_size",
    .optional = "num_channels hidden_act layer_norm_eps dropout"};

static struct decoder describe(const struct two_towers *record, bool is_vision)
{
    int64_t side = record->image_size / record->patch_size;
    assert(side > 0);
    const struct picture picture = {.patch_count = side * side,
                                    .pixel_count = record->patch_size * record->patch_size *
                                                   record->num_channels};
    return (struct decoder){
        .model_type = "two_towers",
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count =
            is_vision ? record->vision_layers : record->text_layers + record->joint_layers,
        .head_count = record->num_attention_heads,
        .ffn = is_vision ? record->vision_intermediate_size : record->intermediate_size,
        .seq_len_max = record->max_position_embeddings,
        .position_count = is_vision ? side * side + 1 : record->max_position_embeddings,
        .picture = is_vision ? picture : (struct picture){0},
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = record->layer_norm_eps,
        .no_final_norm = is_vision,
        .norm_in_last = is_vision,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .bidirectional = is_vision,
        .apart_count = is_vision ? 0 : record->text_layers,
        .attention_dropout = record->dropout,
        .hidden_dropout = record->dropout,
        .embedding_dropout = record->dropout,
    };
}

static bool check_patches(struct family_reader *reader, const struct two_towers *record)
{
    if (record->image_size < record->patch_size)
        return family_fail(reader, "patch_size", "a patch of %lld is larger than a picture of %lld",
                           (long long)record->patch_size, (long long)record->image_size);
    int64_t side = record->image_size / record->patch_size;
    return side < POSITIONS_MAX / side ||
           family_fail(reader, "image_size", "a picture has at most %d patches", POSITIONS_MAX);
}

static const void *read_two_towers(struct family_reader *reader)
{
    struct two_towers record = {.num_channels = 3, .hidden_act = "gelu", .layer_norm_eps = 1e-5};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader) || !check_patches(reader, &record)) return NULL;
    struct decoder decoder = describe(&record, false);
    struct decoder *vision = ARENA_NEW(reader->arena, struct decoder, 1);
    *vision = describe(&record, true);
    decoder.encoder = vision;
    family_check_heads(reader, &decoder, "num_attention_heads", "num_attention_heads");
    family_check_heads(reader, vision, "num_attention_heads", "num_attention_heads");
    decoder.activation = vision->activation =
        family_activation(reader, "hidden_act", record.hidden_act);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_TWO_TOWERS = {"two_towers", read_two_towers, decoder_graph,
                                               "two_towers' own"};
