#include "models/families/family.h"

#include <math.h>
#include <stddef.h>

// XGLMForCausalLM: norms in front, biases, positions that are not trained. BioGptForCausalLM: the
// same with a table of positions, which starts with two rows that are never looked up, and other
// names of keys; its class reads no epsilon of norms. CTRLLMHeadModel: xglm's with relu, other
// sines and a bias of the head.

struct xglm {
    int64_t vocab_size, d_model, ffn_dim, num_layers, attention_heads, max_position_embeddings;
    const char *activation_function;
    double dropout, attention_dropout, activation_dropout;
    double embd_pdrop, layer_norm_epsilon;  // of ctrl
    bool scale_embedding, tie_word_embeddings;
};

#define ALSO(key, member, low, high) \
    key, JSON_TYPE_I64, offsetof(struct xglm, member), low, high, true
#define ALSO_F64(key, member, low, high) \
    key, JSON_TYPE_F64, offsetof(struct xglm, member), low, high, true

static const struct json_field XGLM_FIELDS[] = {
    {JSON_OPT_I64(struct xglm, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct xglm, d_model, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct xglm, ffn_dim, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct xglm, num_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct xglm, attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct xglm, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_TEXT(struct xglm, activation_function)},
    {JSON_OPT_F64(struct xglm, dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct xglm, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct xglm, activation_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct xglm, scale_embedding)},
    {JSON_OPT_BOOL(struct xglm, tie_word_embeddings)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct json_field BIOGPT_FIELDS[] = {
    {JSON_OPT_I64(struct xglm, vocab_size, 1, VOCAB_MAX)},
    {ALSO("hidden_size", d_model, 1, WIDTH_MAX)},
    {ALSO("intermediate_size", ffn_dim, 1, WIDTH_MAX)},
    {ALSO("num_hidden_layers", num_layers, 1, LAYERS_MAX)},
    {ALSO("num_attention_heads", attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct xglm, max_position_embeddings, 1, POSITIONS_MAX)},
    {"hidden_act", JSON_TYPE_TEXT, offsetof(struct xglm, activation_function), 0, 0, true},
    {ALSO_F64("hidden_dropout_prob", dropout, 0, DROPOUT_MAX)},
    {ALSO_F64("attention_probs_dropout_prob", attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct xglm, activation_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct xglm, scale_embedding)},
    {JSON_OPT_BOOL(struct xglm, tie_word_embeddings)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct json_field CTRL_FIELDS[] = {
    {JSON_OPT_I64(struct xglm, vocab_size, 1, VOCAB_MAX)},
    {ALSO("n_embd", d_model, 1, WIDTH_MAX)},
    {ALSO("dff", ffn_dim, 1, WIDTH_MAX)},
    {ALSO("n_layer", num_layers, 1, LAYERS_MAX)},
    {ALSO("n_head", attention_heads, 1, HEADS_MAX)},
    {ALSO("n_positions", max_position_embeddings, 1, POSITIONS_MAX)},
    {ALSO_F64("resid_pdrop", dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct xglm, embd_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct xglm, layer_norm_epsilon, 0, 1)},
    {JSON_OPT_BOOL(struct xglm, tie_word_embeddings)},
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
    return (struct decoder){
        .model_type = model_type,
        .vocab = record->vocab_size,
        .hidden = record->d_model,
        .layer_count = record->num_layers,
        .head_count = record->attention_heads,
        .ffn = record->ffn_dim,
        .seq_len_max = record->max_position_embeddings,
        .embedding_scale = record->scale_embedding ? sqrt((double)record->d_model) : 0,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = 1e-5,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .tied = record->tie_word_embeddings,
        .attention_dropout = record->attention_dropout,
        .hidden_dropout = record->dropout,
        .embedding_dropout = record->dropout,
        .ffn_dropout = record->activation_dropout,
    };
}

#define XGLM_DEFAULTS                                                        \
    .activation_function = "gelu", .dropout = 0.1, .attention_dropout = 0.1, \
    .scale_embedding = true, .tie_word_embeddings = true

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
    decoder.position_count = record.max_position_embeddings + POSITION_OFFSET;
    family_check_heads(reader, &decoder, "num_attention_heads", "num_attention_heads");
    decoder.activation = family_activation(reader, "hidden_act", record.activation_function);
    return family_decoder(reader, &decoder);
}

// Its layers have an epsilon that no key says, the norm behind them that of the file.
static const void *read_ctrl(struct family_reader *reader)
{
    static const double LAYER_EPSILON = 1e-6;
    struct xglm record = {XGLM_DEFAULTS, .embd_pdrop = 0.1, .layer_norm_epsilon = LAYER_EPSILON};
    record.attention_dropout = 0;
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
