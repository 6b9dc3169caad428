#include "models/families/family.h"

#include <math.h>

// WhisperForConditionalGeneration: an encoder of sound, whose places the model says, and a decoder
// of text. Norms before each part and one behind the last layer; keys alone have no bias.

struct whisper {
    int64_t vocab_size, num_mel_bins, d_model, max_source_positions, max_target_positions;
    int64_t encoder_layers, encoder_attention_heads, encoder_ffn_dim;
    int64_t decoder_layers, decoder_attention_heads, decoder_ffn_dim;
    const char *activation_function;
    double dropout, attention_dropout, activation_dropout;
    bool scale_embedding, tie_word_embeddings;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct whisper, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct whisper, num_mel_bins, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct whisper, d_model, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct whisper, max_source_positions, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct whisper, max_target_positions, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct whisper, encoder_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct whisper, encoder_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct whisper, encoder_ffn_dim, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct whisper, decoder_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct whisper, decoder_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct whisper, decoder_ffn_dim, 1, WIDTH_MAX)},
    {JSON_OPT_TEXT(struct whisper, activation_function)},
    {JSON_OPT_F64(struct whisper, dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct whisper, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct whisper, activation_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct whisper, scale_embedding)},
    {JSON_OPT_BOOL(struct whisper, tie_word_embeddings)},
    {JSON_OPT_ANY("encoder_layerdrop")},
    {JSON_OPT_ANY("decoder_layerdrop")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size num_mel_bins d_model max_source_positions max_target_positions "
                  "encoder_layers encoder_attention_heads encoder_ffn_dim decoder_layers "
                  "decoder_attention_heads decoder_ffn_dim",
    .optional = "activation_function dropout attention_dropout activation_dropout scale_embedding "
                "tie_word_embeddings"};

static struct decoder describe(const struct whisper *record, bool is_encoder)
{
    const struct sound sound = {record->max_source_positions, record->num_mel_bins};
    bool is_scaled = record->scale_embedding && !is_encoder;
    return (struct decoder){
        .model_type = "whisper",
        .vocab = record->vocab_size,
        .hidden = record->d_model,
        .layer_count = is_encoder ? record->encoder_layers : record->decoder_layers,
        .head_count =
            is_encoder ? record->encoder_attention_heads : record->decoder_attention_heads,
        .ffn = is_encoder ? record->encoder_ffn_dim : record->decoder_ffn_dim,
        .seq_len_max = record->max_target_positions,
        .position_count = is_encoder ? record->max_source_positions : record->max_target_positions,
        .embedding_scale = is_scaled ? sqrt((double)record->d_model) : 0,
        .sound = is_encoder ? sound : (struct sound){0},
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = 1e-5,
        .qkv_bias = true,
        .key_is_unbiased = true,
        .out_bias = true,
        .mlp_bias = true,
        .bidirectional = is_encoder,
        .tied = true,
        .attention_dropout = record->attention_dropout,
        .hidden_dropout = record->dropout,
        .embedding_dropout = record->dropout,
        .ffn_dropout = record->activation_dropout,
    };
}

static const void *read_whisper(struct family_reader *reader)
{
    struct whisper record = {.activation_function = "gelu", .tie_word_embeddings = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe(&record, false);
    struct decoder *encoder = ARENA_NEW(reader->arena, struct decoder, 1);
    *encoder = describe(&record, true);
    decoder.encoder = encoder;
    family_check_heads(reader, &decoder, "decoder_attention_heads", "decoder_attention_heads");
    family_check_heads(reader, encoder, "encoder_attention_heads", "encoder_attention_heads");
    if (!reader->err->kind && encoder->head_count != decoder.head_count)
        family_fail(reader, "encoder_attention_heads",
                    "must be as many as decoder_attention_heads: other heads are not supported");
    if (!reader->err->kind && !record.tie_word_embeddings)
        family_fail(reader, "tie_word_embeddings", "must be true for whisper");
    if (reader->err->kind) return NULL;
    decoder.activation = encoder->activation =
        family_activation(reader, "activation_function", record.activation_function);
    reader->ledger->remark = "the encoder's table of positions is trained as well";
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_WHISPER = {"whisper", read_whisper, decoder_graph,
                                            "WhisperConfig"};
