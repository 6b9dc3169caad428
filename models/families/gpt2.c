#include "models/families/family.h"

struct gpt2 {
    int64_t vocab_size, n_positions, n_embd, n_layer, n_head;
    int64_t n_inner;  // 0 = 4 * n_embd
    const char *activation_function;
    double layer_norm_epsilon, attn_pdrop, resid_pdrop, embd_pdrop;
    bool tie_word_embeddings, scale_attn_weights;
};

// transformers maps its generic names onto the family's own.
#define ALIAS(key, member, high) key, JSON_TYPE_I64, offsetof(struct gpt2, member), 1, high, true

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct gpt2, vocab_size, 1, VOCAB_MAX)},
    {ALIAS("max_position_embeddings", n_positions, POSITIONS_MAX)},
    {JSON_OPT_I64(struct gpt2, n_positions, 1, POSITIONS_MAX)},
    {ALIAS("hidden_size", n_embd, WIDTH_MAX)},
    {JSON_OPT_I64(struct gpt2, n_embd, 1, WIDTH_MAX)},
    {ALIAS("num_hidden_layers", n_layer, LAYERS_MAX)},
    {JSON_OPT_I64(struct gpt2, n_layer, 1, LAYERS_MAX)},
    {ALIAS("num_attention_heads", n_head, HEADS_MAX)},
    {JSON_OPT_I64(struct gpt2, n_head, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct gpt2, n_inner, 1, WIDTH_MAX)},
    {JSON_OPT_TEXT(struct gpt2, activation_function)},
    {JSON_OPT_F64(struct gpt2, layer_norm_epsilon, 0, 1)},
    {JSON_OPT_F64(struct gpt2, attn_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct gpt2, resid_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct gpt2, embd_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct gpt2, tie_word_embeddings)},
    {JSON_OPT_BOOL(struct gpt2, scale_attn_weights)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size n_positions n_embd n_layer n_head",
    .optional = "activation_function layer_norm_epsilon attn_pdrop resid_pdrop embd_pdrop "
                "tie_word_embeddings scale_attn_weights"};

static const void *read_gpt2(struct family_reader *reader)
{
    struct gpt2 record = {.activation_function = "gelu_new",
                          .layer_norm_epsilon = 1e-5,
                          .attn_pdrop = 0.1,
                          .resid_pdrop = 0.1,
                          .embd_pdrop = 0.1,
                          .tie_word_embeddings = true,
                          .scale_attn_weights = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    if (record.n_inner == 0) {
        record.n_inner = 4 * record.n_embd;
        family_taken(reader, "n_inner", "%lld (4 * n_embd)", (long long)record.n_inner);
    }
    struct decoder decoder = {
        .model_type = "gpt2",
        .vocab = record.vocab_size,
        .hidden = record.n_embd,
        .layer_count = record.n_layer,
        .head_count = record.n_head,
        .ffn = record.n_inner,
        .seq_len_max = record.n_positions,
        .position_count = record.n_positions,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = record.layer_norm_epsilon,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .score_factor = record.scale_attn_weights ? 0 : 1,
        .tied = record.tie_word_embeddings,
        .attention_dropout = record.attn_pdrop,
        .hidden_dropout = record.resid_pdrop,
        .embedding_dropout = record.embd_pdrop,
    };
    const char *head_key = family_key(reader, "n_head", "num_attention_heads");
    family_check_heads(reader, &decoder, head_key, head_key);
    decoder.activation =
        family_activation(reader, "activation_function", record.activation_function);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GPT2 = {"gpt2", read_gpt2, decoder_graph, "GPT2Config"};
