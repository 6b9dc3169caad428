#include "models/families/family.h"

#include <math.h>

// BartForConditionalGeneration: encoder and decoder of the same width, norms behind each part, one
// table of tokens for both and the head. What is added to the logits is not trained: a buffer.
// MBartForConditionalGeneration has its norms in front of each part, and one behind the last layer.

struct bart {
    int64_t vocab_size, d_model, max_position_embeddings;
    int64_t encoder_layers, encoder_attention_heads, encoder_ffn_dim;
    int64_t decoder_layers, decoder_attention_heads, decoder_ffn_dim;
    const char *activation_function;
    double dropout, attention_dropout, activation_dropout;
    double encoder_layerdrop, decoder_layerdrop;
    bool scale_embedding, tie_word_embeddings;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct bart, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct bart, d_model, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct bart, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct bart, encoder_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct bart, encoder_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct bart, encoder_ffn_dim, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct bart, decoder_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct bart, decoder_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct bart, decoder_ffn_dim, 1, WIDTH_MAX)},
    {JSON_OPT_TEXT(struct bart, activation_function)},
    {JSON_OPT_F64(struct bart, dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct bart, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct bart, activation_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct bart, encoder_layerdrop, 0, 1)},
    {JSON_OPT_F64(struct bart, decoder_layerdrop, 0, 1)},
    {JSON_OPT_BOOL(struct bart, scale_embedding)},
    {JSON_OPT_BOOL(struct bart, tie_word_embeddings)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size d_model max_position_embeddings encoder_layers "
                  "encoder_attention_heads encoder_ffn_dim decoder_layers decoder_attention_heads "
                  "decoder_ffn_dim",
    .optional = "activation_function dropout attention_dropout activation_dropout scale_embedding "
                "tie_word_embeddings"};

// The tables of positions start with two rows that are never looked up.
enum { POSITION_OFFSET = 2 };

static struct decoder describe(const char *model_type, const struct bart *record, bool is_encoder,
                               bool norms_before)
{
    return (struct decoder){
        .model_type = model_type,
        .vocab = record->vocab_size,
        .hidden = record->d_model,
        .layer_count = is_encoder ? record->encoder_layers : record->decoder_layers,
        .head_count =
            is_encoder ? record->encoder_attention_heads : record->decoder_attention_heads,
        .ffn = is_encoder ? record->encoder_ffn_dim : record->decoder_ffn_dim,
        .seq_len_max = record->max_position_embeddings,
        .position_count = record->max_position_embeddings + POSITION_OFFSET,
        .embedding_scale = record->scale_embedding ? sqrt((double)record->d_model) : 0,
        .embedding_norm = true,
        .norm_place = norms_before ? NORM_BEFORE : NORM_AFTER,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = 1e-5,
        .no_final_norm = !norms_before,
        .qkv_bias = true,
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

static const void *read_as(struct family_reader *reader, const char *model_type, bool norms_before)
{
    struct bart record = {
        .activation_function = "gelu", .dropout = 0.1, .tie_word_embeddings = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe(model_type, &record, false, norms_before);
    struct decoder *encoder = ARENA_NEW(reader->arena, struct decoder, 1);
    *encoder = describe(model_type, &record, true, norms_before);
    decoder.encoder = encoder;
    family_check_heads(reader, &decoder, "decoder_attention_heads", "decoder_attention_heads");
    family_check_heads(reader, encoder, "encoder_attention_heads", "encoder_attention_heads");
    if (!reader->err->kind && encoder->head_count != decoder.head_count)
        family_fail(reader, "encoder_attention_heads",
                    "must be as many as decoder_attention_heads: other heads are not supported");
    if (!reader->err->kind && !record.tie_word_embeddings)
        family_fail(reader, "tie_word_embeddings",
                    "must be true for %s: else its class has a table that nothing reads",
                    decoder.model_type);
    if (reader->err->kind) return NULL;
    decoder.activation = encoder->activation =
        family_activation(reader, "activation_function", record.activation_function);
    return family_decoder(reader, &decoder);
}

static const void *read_bart(struct family_reader *reader)
{
    return read_as(reader, "bart", false);
}

static const void *read_mbart(struct family_reader *reader)
{
    return read_as(reader, "mbart", true);
}

// Bart's shapes, pretrained on other tasks.
static const void *read_mvp(struct family_reader *reader)
{
    return read_as(reader, "mvp", false);
}

const struct model_family FAMILY_MVP = {"mvp", read_mvp, decoder_graph, "MvpConfig"};
const struct model_family FAMILY_MBART = {"mbart", read_mbart, decoder_graph, "MBartConfig"};
const struct model_family FAMILY_BART = {"bart", read_bart, decoder_graph, "BartConfig"};
