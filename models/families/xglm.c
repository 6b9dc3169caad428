#include "models/families/family.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

// XGLMForCausalLM: norms in front, biases, positions that are not trained. BioGptForCausalLM: the
// same with a table of positions, which starts with two rows that are never looked up, and other
// names of keys; its class reads no epsilon of norms. CTRLLMHeadModel: xglm's with relu, other
// sines and a bias of the head.

struct xglm {
    struct decoder decoder;
    const char *activation_function;
    double embd_pdrop, layer_norm_epsilon;  // of ctrl
    bool scale_embedding;
};

static const struct json_field XGLM_FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("d_model", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("ffn_dim", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("num_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {JSON_OPT_TEXT(struct xglm, activation_function)},
    {DECODER_F64("dropout", hidden_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("activation_dropout", ffn_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct xglm, scale_embedding)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct json_field BIOGPT_FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("intermediate_size", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {"hidden_act", JSON_TYPE_TEXT, offsetof(struct xglm, activation_function), 0, 0, true},
    {DECODER_F64("hidden_dropout_prob", hidden_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("attention_probs_dropout_prob", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("activation_dropout", ffn_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct xglm, scale_embedding)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct json_field CTRL_FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("n_embd", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("dff", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("n_layer", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("n_head", head_count, 1, HEADS_MAX)},
    {DECODER_I64("n_positions", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_F64("resid_pdrop", hidden_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct xglm, embd_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct xglm, layer_norm_epsilon, 0, 1)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys CTRL_KEYS = {
    .dimensions = "vocab_size n_embd dff n_layer n_head n_positions",
    .optional = "resid_pdrop embd_pdrop layer_norm_epsilon tie_word_embeddings"};

static const struct family_keys XGLM_KEYS = {
    .dimensions = "vocab_size d_model ffn_dim num_layers attention_heads max_position_embeddings",
    .optional = "activation_function dropout attention_dropout activation_dropout scale_embedding "
                "tie_word_embeddings"};

static const struct family_keys BIOGPT_KEYS = {
    .dimensions = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads "
                  "max_position_embeddings",
    .optional = "hidden_act hidden_dropout_prob attention_probs_dropout_prob activation_dropout "
                "scale_embedding tie_word_embeddings"};

static struct decoder describe(const char *model_type, const struct xglm *record)
{
    struct decoder decoder = record->decoder;
    decoder.model_type = model_type;
    if (record->scale_embedding) decoder.embedding_scale = sqrt((double)decoder.hidden);
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.norm_epsilon = 1e-5;
    assert(decoder.hidden > 0 && decoder.seq_len_max > 0);
    decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = true;
    decoder.embedding_dropout = decoder.hidden_dropout;
    return decoder;
}

#define XGLM_DEFAULTS                                             \
    .activation_function = "gelu", .decoder.hidden_dropout = 0.1, \
    .decoder.attention_dropout = 0.1, .scale_embedding = true, .decoder.tied = true

static const void *read_xglm(struct family_reader *reader)
{
    struct xglm record = {XGLM_DEFAULTS};
    family_read(reader, XGLM_FIELDS, &record);
    family_absent(reader, XGLM_FIELDS, &record, &XGLM_KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe("xglm", &record);
    decoder.sinusoids = SINUSOIDS_SHIFTED;
    family_check_heads(reader, &decoder, "attention_heads", "attention_heads");
    decoder.activation =
        family_activation(reader, "activation_function", record.activation_function);
    return family_decoder(reader, &decoder);
}

static const void *read_biogpt(struct family_reader *reader)
{
    enum { POSITION_OFFSET = 2 };
    struct xglm record = {XGLM_DEFAULTS};
    family_read(reader, BIOGPT_FIELDS, &record);
    family_absent(reader, BIOGPT_FIELDS, &record, &BIOGPT_KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe("biogpt", &record);
    decoder.position_count = record.decoder.seq_len_max + POSITION_OFFSET;
    family_check_heads(reader, &decoder, "num_attention_heads", "num_attention_heads");
    decoder.activation = family_activation(reader, "hidden_act", record.activation_function);
    return family_decoder(reader, &decoder);
}

// Its layers have an epsilon that no key says, the norm behind them that of the file.
static const void *read_ctrl(struct family_reader *reader)
{
    static const double LAYER_EPSILON = 1e-6;
    struct xglm record = {XGLM_DEFAULTS, .embd_pdrop = 0.1, .layer_norm_epsilon = LAYER_EPSILON};
    record.decoder.attention_dropout = 0;
    family_read(reader, CTRL_FIELDS, &record);
    family_absent(reader, CTRL_FIELDS, &record, &CTRL_KEYS);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe("ctrl", &record);
    decoder.sinusoids = SINUSOIDS_OF_PLACE;
    decoder.activation = FUNCTION_RELU;
    decoder.head_bias = true;
    decoder.norm_epsilon = record.layer_norm_epsilon;
    decoder.embedding_dropout = record.embd_pdrop;
    family_check_heads(reader, &decoder, "n_head", "n_head");
    if (!reader->err->kind && record.layer_norm_epsilon != LAYER_EPSILON)
        family_fail(reader, "layer_norm_epsilon", "must be 1e-6, as layers have it");
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_CTRL = {"ctrl", read_ctrl, decoder_graph, "CTRLConfig"};
const struct model_family FAMILY_XGLM = {"xglm", read_xglm, decoder_graph, "XGLMConfig"};
const struct model_family FAMILY_BIOGPT = {"biogpt", read_biogpt, decoder_graph, "BioGptConfig"};
