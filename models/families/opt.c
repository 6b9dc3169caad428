#include "models/families/family.h"

struct opt {
    int64_t vocab_size, hidden_size, num_hidden_layers, ffn_dim, max_position_embeddings;
    int64_t num_attention_heads;
    int64_t word_embed_proj_dim;  // 0 = hidden_size
    const char *activation_function;
    double dropout, attention_dropout;
    bool do_layer_norm_before, _remove_final_layer_norm, enable_bias;
    bool layer_norm_elementwise_affine, tie_word_embeddings;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct opt, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct opt, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct opt, num_hidden_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct opt, ffn_dim, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct opt, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct opt, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct opt, word_embed_proj_dim, 1, WIDTH_MAX)},
    {JSON_OPT_TEXT(struct opt, activation_function)},
    {JSON_OPT_F64(struct opt, dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct opt, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct opt, do_layer_norm_before)},
    {JSON_OPT_BOOL(struct opt, _remove_final_layer_norm)},
    {JSON_OPT_BOOL(struct opt, enable_bias)},
    {JSON_OPT_BOOL(struct opt, layer_norm_elementwise_affine)},
    {JSON_OPT_BOOL(struct opt, tie_word_embeddings)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size num_hidden_layers ffn_dim max_position_embeddings "
                  "num_attention_heads",
    .optional = "activation_function dropout attention_dropout do_layer_norm_before "
                "_remove_final_layer_norm enable_bias layer_norm_elementwise_affine "
                "tie_word_embeddings"};

// The table of positions starts with two rows that are never looked up.
enum { POSITION_OFFSET = 2 };

static struct decoder describe(const struct opt *record)
{
    bool is_projected =
        record->word_embed_proj_dim && record->word_embed_proj_dim != record->hidden_size;
    return (struct decoder){
        .model_type = "opt",
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count = record->num_hidden_layers,
        .head_count = record->num_attention_heads,
        .ffn = record->ffn_dim,
        .seq_len_max = record->max_position_embeddings,
        .position_count = record->max_position_embeddings + POSITION_OFFSET,
        .embedding_size = is_projected ? record->word_embed_proj_dim : 0,
        .norm_place = record->do_layer_norm_before ? NORM_BEFORE : NORM_AFTER,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = 1e-5,
        .norm_is_plain = !record->layer_norm_elementwise_affine,
        .no_final_norm = !record->do_layer_norm_before || record->_remove_final_layer_norm,
        .qkv_bias = record->enable_bias,
        .out_bias = record->enable_bias,
        .mlp_bias = record->enable_bias,
        .tied = record->tie_word_embeddings,
        .attention_dropout = record->attention_dropout,
        .hidden_dropout = record->dropout,
    };
}

static const void *read_opt(struct family_reader *reader)
{
    struct opt record = {.activation_function = "relu",
                         .dropout = 0.1,
                         .do_layer_norm_before = true,
                         .enable_bias = true,
                         .layer_norm_elementwise_affine = true,
                         .tie_word_embeddings = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    if (record.word_embed_proj_dim == 0) {
        family_taken(reader, "word_embed_proj_dim", "%lld (hidden_size)",
                     (long long)record.hidden_size);
    }
    struct decoder decoder = describe(&record);
    family_check_heads(reader, &decoder, "num_attention_heads", "num_attention_heads");
    if (reader->err->kind) return NULL;
    decoder.activation =
        family_activation(reader, "activation_function", record.activation_function);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_OPT = {"opt", read_opt, decoder_graph, "OPTConfig"};
