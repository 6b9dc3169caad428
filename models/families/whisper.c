#include "models/families/bart.h"

#include <assert.h>

// WhisperForConditionalGeneration: an encoder of sound, whose places the model says, and a decoder
// of text. Norms before each part and one behind the last layer; keys alone have no bias.

static const struct json_field FIELDS[] = {
    BART_FIELDS,
    {JSON_OPT_I64(struct bart, num_mel_bins, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct bart, max_source_positions, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct bart, max_target_positions, 1, POSITIONS_MAX)},
    {JSON_OPT_ANY("encoder_layerdrop")},
    {JSON_OPT_ANY("decoder_layerdrop")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size num_mel_bins d_model max_source_positions max_target_positions "
                  "encoder_layers encoder_attention_heads encoder_ffn_dim decoder_layers "
                  "decoder_attention_heads decoder_ffn_dim",
    .optional = BART_OPTIONAL};

static struct decoder describe(const struct bart *record, bool is_encoder)
{
    assert(record->max_source_positions > 0 && record->num_mel_bins > 0);
    struct decoder side = bart_side("whisper", record, is_encoder);
    side.seq_len_max = record->max_target_positions;
    side.position_count = is_encoder ? record->max_source_positions : side.seq_len_max;
    if (is_encoder) side.sound = (struct sound){record->max_source_positions, record->num_mel_bins};
    if (is_encoder) side.embedding_scale = 0;
    side.key_is_unbiased = true;
    return side;
}

static const void *read_whisper(struct family_reader *reader)
{
    struct bart record = {.activation_function = "gelu", .tie_word_embeddings = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe(&record, false);
    struct decoder *encoder = ARENA_NEW(reader->arena, struct decoder, 1);
    *encoder = describe(&record, true);
    if (!bart_join(reader, &record, &decoder, encoder)) return NULL;
    reader->ledger->remark = "the encoder's table of positions is trained as well";
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_WHISPER = {"whisper", read_whisper, decoder_graph,
                                            "WhisperConfig"};
