#include "models/families/family.h"

#include <assert.h>

// ViTForImageClassification: an encoder of pictures whose head scores classes by the class token.

struct vit {
    struct decoder decoder;
    int64_t image_size, patch_size, num_channels;
    const char *hidden_act;
    // Of dinov2:
    int64_t mlp_ratio, num_register_tokens;
    double drop_path_rate;
    bool use_swiglu_ffn;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct vit, image_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct vit, patch_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct vit, num_channels, 1, WIDTH_MAX)},
    {DECODER_I64("num_labels", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("intermediate_size", ffn, 1, WIDTH_MAX)},
    {JSON_OPT_TEXT(struct vit, hidden_act)},
    {DECODER_F64("layer_norm_eps", norm_epsilon, 0, 1)},
    {DECODER_F64("hidden_dropout_prob", hidden_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("attention_probs_dropout_prob", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_BOOL("qkv_bias", qkv_bias)},
    {JSON_OPT_I64(struct vit, mlp_ratio, 1, 1000)},
    {JSON_OPT_I64(struct vit, num_register_tokens, 0, WIDTH_MAX)},
    {JSON_OPT_F64(struct vit, drop_path_rate, 0, 1)},
    {JSON_OPT_BOOL(struct vit, use_swiglu_ffn)},
    {JSON_OPT_ANY("id2label")},
    {JSON_OPT_ANY("label2id")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "image_size patch_size hidden_size num_hidden_layers num_attention_heads "
                  "intermediate_size",
    .optional = "num_channels hidden_act layer_norm_eps hidden_dropout_prob "
                "attention_probs_dropout_prob qkv_bias"};

// As many classes as have a label; transformers has two where nothing is said of them.
static void read_labels(struct family_reader *reader, struct vit *record)
{
    enum { DEFAULT = 2 };
    if (reader->err->kind || record->decoder.vocab > 0) return;
    if (json_has(reader->object, "id2label")) {
        struct json labels = json_get(reader->object, "id2label", reader->err);
        record->decoder.vocab = json_member_count(&labels, reader->err);
        if (!reader->err->kind && record->decoder.vocab < 1)
            family_fail(reader, "id2label", "a head needs a class");
        return;
    }
    record->decoder.vocab = DEFAULT;
    family_taken(reader, "num_labels", "%d (no id2label)", DEFAULT);
}

static bool check_patches(struct family_reader *reader, const struct vit *record)
{
    if (reader->err->kind) return false;
    int64_t side = record->image_size / record->patch_size;
    if (side < 1)
        return family_fail(reader, "patch_size", "a patch of %lld is larger than a picture of %lld",
                           (long long)record->patch_size, (long long)record->image_size);
    if (side * side >= POSITIONS_MAX)
        return family_fail(reader, "image_size", "a picture has at most %d patches", POSITIONS_MAX);
    return true;
}

// Pixels past the last whole patch are not read.
static struct decoder describe(const char *model_type, const struct vit *record)
{
    struct decoder decoder = record->decoder;
    int64_t side = record->image_size / record->patch_size;
    decoder.model_type = model_type;
    assert(side > 0);
    decoder.seq_len_max = 1;
    decoder.position_count = side * side + 1;
    decoder.picture.patch_count = side * side;
    decoder.picture.pixel_count = record->patch_size * record->patch_size * record->num_channels;
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.out_bias = decoder.mlp_bias = decoder.bidirectional = decoder.head_bias = true;
    decoder.embedding_dropout = decoder.hidden_dropout;
    return decoder;
}

static struct vit read_record(struct family_reader *reader, double epsilon,
                              const struct family_keys *keys)
{
    struct vit record = {.num_channels = 3,
                         .hidden_act = "gelu",
                         .decoder.norm_epsilon = epsilon,
                         .decoder.qkv_bias = true,
                         .mlp_ratio = 4};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, keys);
    read_labels(reader, &record);
    return record;
}

static struct decoder read_decoder(struct family_reader *reader, const char *model_type,
                                   const struct vit *record)
{
    if (!family_complete(reader) || !check_patches(reader, record)) return (struct decoder){0};
    struct decoder decoder = describe(model_type, record);
    family_check_heads(reader, &decoder, "num_attention_heads", "num_attention_heads");
    decoder.activation = family_activation(reader, "hidden_act", record->hidden_act);
    return decoder;
}

static const void *read_as(struct family_reader *reader, const char *model_type, double epsilon)
{
    struct vit record = read_record(reader, epsilon, &KEYS);
    struct decoder decoder = read_decoder(reader, model_type, &record);
    return family_decoder(reader, &decoder);
}

static const void *read_vit(struct family_reader *reader)
{
    return read_as(reader, "vit", 1e-12);
}

// Vit, pretrained with masked siblings.
static const void *read_vit_msn(struct family_reader *reader)
{
    return read_as(reader, "vit_msn", 1e-6);
}

// Places in front of the patches beside the class token; `position_count` has those of vit.
static void add_registers(struct decoder *decoder, int64_t count, bool have_kinds)
{
    assert(count >= 0);
    decoder->picture.register_count = count;
    decoder->picture.registers_have_kinds = have_kinds;
    decoder->position_count += count;
}

// Vit with a token that learns from a teacher, which the class token's head does not read.
static const void *read_deit(struct family_reader *reader)
{
    struct vit record = read_record(reader, 1e-12, &KEYS);
    struct decoder decoder = read_decoder(reader, "deit", &record);
    add_registers(&decoder, 1, true);
    return family_decoder(reader, &decoder);
}

// What layers add is scaled by channel; the head reads class and mean. Its largest has a gate, in
// which case the width of mlps is two thirds of what it says, a multiple of 8.
static const void *read_dinov2_as(struct family_reader *reader, const char *model_type,
                                  bool has_registers)
{
    const struct family_keys keys = {
        .dimensions =
            arena_print(reader->arena,
                        "image_size patch_size hidden_size num_hidden_layers num_attention_heads%s",
                        has_registers ? " num_register_tokens" : ""),
        .optional = "num_channels hidden_act layer_norm_eps hidden_dropout_prob "
                    "attention_probs_dropout_prob qkv_bias mlp_ratio use_swiglu_ffn"};
    struct vit record = read_record(reader, 1e-6, &keys);
    record.decoder.ffn = record.decoder.hidden * record.mlp_ratio;
    if (record.use_swiglu_ffn) {
        record.decoder.ffn = (record.decoder.ffn * 2 / 3 + 7) / 8 * 8;
        record.hidden_act = "silu";
    }
    struct decoder decoder = read_decoder(reader, model_type, &record);
    if (has_registers) add_registers(&decoder, record.num_register_tokens, false);
    decoder.gated = record.use_swiglu_ffn;
    decoder.branch_factors = decoder.picture.reads_mean = true;
    if (!reader->err->kind && record.drop_path_rate > 0)
        family_fail(reader, "drop_path_rate", "dropping whole branches is not supported");
    return family_decoder(reader, &decoder);
}

static const void *read_dinov2(struct family_reader *reader)
{
    return read_dinov2_as(reader, "dinov2", false);
}

static const void *read_dinov2_with_registers(struct family_reader *reader)
{
    return read_dinov2_as(reader, "dinov2_with_registers", true);
}

const struct model_family FAMILY_DEIT = {"deit", read_deit, decoder_graph, "DeiTConfig"};
const struct model_family FAMILY_DINOV2_WITH_REGISTERS = {"dinov2_with_registers",
                                                          read_dinov2_with_registers, decoder_graph,
                                                          "Dinov2WithRegistersConfig"};
const struct model_family FAMILY_DINOV2 = {"dinov2", read_dinov2, decoder_graph, "Dinov2Config"};
const struct model_family FAMILY_VIT = {"vit", read_vit, decoder_graph, "ViTConfig"};
const struct model_family FAMILY_VIT_MSN = {"vit_msn", read_vit_msn, decoder_graph, "ViTMSNConfig"};
