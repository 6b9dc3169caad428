#include "models/families/family.h"

struct gpt2 {
    int64_t vocab_size, n_positions, n_embd, n_layer, n_head;
    int64_t n_inner;  // 0 = 4 * n_embd
    const char *activation_function;
    double layer_norm_epsilon, attn_pdrop, resid_pdrop, embd_pdrop;
    bool tie_word_embeddings, scale_attn_weights;
    bool multi_query;    // gpt_bigcode
    int64_t rotary_dim;  // gptj; 0 = the whole head
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
    {"afn", JSON_TYPE_TEXT, offsetof(struct gpt2, activation_function), 0, 0, true},
    {JSON_OPT_F64(struct gpt2, layer_norm_epsilon, 0, 1)},
    {JSON_OPT_F64(struct gpt2, attn_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct gpt2, resid_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct gpt2, embd_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct gpt2, tie_word_embeddings)},
    {JSON_OPT_BOOL(struct gpt2, scale_attn_weights)},
    {JSON_OPT_BOOL(struct gpt2, multi_query)},
    {JSON_OPT_I64(struct gpt2, rotary_dim, 2, HEADS_MAX)},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size n_positions n_embd n_layer n_head",
    .optional = "activation_function layer_norm_epsilon attn_pdrop resid_pdrop embd_pdrop "
                "tie_word_embeddings"};

static struct decoder describe(const char *model_type, const struct gpt2 *record)
{
    return (struct decoder){
        .model_type = model_type,
        .vocab = record->vocab_size,
        .hidden = record->n_embd,
        .layer_count = record->n_layer,
        .head_count = record->n_head,
        .ffn = record->n_inner,
        .seq_len_max = record->n_positions,
        .position_count = record->n_positions,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = record->layer_norm_epsilon,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .score_factor = record->scale_attn_weights ? 0 : 1,
        .tied = record->tie_word_embeddings,
        .attention_dropout = record->attn_pdrop,
        .hidden_dropout = record->resid_pdrop,
        .embedding_dropout = record->embd_pdrop,
    };
}

// `own` are the keys that one of them heeds and the others do not. `record` holds the defaults.
static struct decoder read_as(struct family_reader *reader, const char *model_type, const char *own,
                              struct gpt2 *record)
{
    record->layer_norm_epsilon = 1e-5;
    record->scale_attn_weights = true;
    family_read(reader, FIELDS, record);
    family_absent(reader, FIELDS, record, &KEYS);
    family_absent(reader, FIELDS, record, &(struct family_keys){.optional = own});
    if (!family_complete(reader)) return (struct decoder){0};
    if (record->n_inner == 0) {
        record->n_inner = 4 * record->n_embd;
        family_taken(reader, "n_inner", "%lld (4 * n_embd)", (long long)record->n_inner);
    }
    struct decoder decoder = describe(model_type, record);
    const char *head_key = family_key(reader, "n_head", "num_attention_heads");
    if (record->multi_query) decoder.kv_head_count = 1;
    family_check_heads(reader, &decoder, head_key, head_key);
    decoder.activation =
        family_activation(reader, "activation_function", record->activation_function);
    return decoder;
}

static const void *read_gpt2(struct family_reader *reader)
{
    struct gpt2 record = {.activation_function = "gelu_new",
                          .attn_pdrop = 0.1,
                          .resid_pdrop = 0.1,
                          .embd_pdrop = 0.1,
                          .tie_word_embeddings = true};
    struct decoder decoder = read_as(reader, "gpt2", "scale_attn_weights", &record);
    if (reader->err->kind) return NULL;
    if (record.multi_query) family_fail(reader, "multi_query", "gpt2 has keys for every head");
    return family_decoder(reader, &decoder);
}

// SantaCoder and StarCoder: all heads share one key and value.
static const void *read_gpt_bigcode(struct family_reader *reader)
{
    struct gpt2 record = {.activation_function = "gelu_pytorch_tanh",
                          .attn_pdrop = 0.1,
                          .resid_pdrop = 0.1,
                          .embd_pdrop = 0.1,
                          .multi_query = true,
                          .tie_word_embeddings = true};
    struct decoder decoder =
        read_as(reader, "gpt_bigcode", "scale_attn_weights multi_query", &record);
    return family_decoder(reader, &decoder);
}

// One norm for attention and mlp, whose results are added together; rope, whose pairs are
// neighbours (another order of the weights' columns), and no bias in attention.
static const void *read_gptj_as(struct family_reader *reader, const char *model_type)
{
    struct gpt2 record = {.activation_function = "gelu_new", .rotary_dim = 64};
    struct decoder decoder = read_as(reader, model_type, "rotary_dim", &record);
    if (reader->err->kind) return NULL;
    if (family_is_null(reader, "rotary_dim")) record.rotary_dim = decoder.head_dim / 2 * 2;
    decoder.position_count = 0;
    decoder.norm_place = NORM_SHARED;
    decoder.qkv_bias = decoder.out_bias = false;
    decoder.head_bias = true;
    decoder.rope_theta = 10000;
    decoder.rotary_dims = record.rotary_dim;
    if (record.multi_query)
        family_fail(reader, "multi_query", "%s has keys for every head", model_type);
    if (record.rotary_dim > decoder.head_dim || record.rotary_dim % 2) {
        family_fail(reader, "rotary_dim", "%lld dims of %lld cannot be rotated in pairs",
                    (long long)record.rotary_dim, (long long)decoder.head_dim);
    }
    return family_decoder(reader, &decoder);
}

static const void *read_gptj(struct family_reader *reader)
{
    return read_gptj_as(reader, "gptj");
}

// The same; its one matrix for queries, keys and values holds them in another order.
static const void *read_codegen(struct family_reader *reader)
{
    return read_gptj_as(reader, "codegen");
}

// The first GPT: norms behind, none at the end.
static const void *read_openai_gpt(struct family_reader *reader)
{
    struct gpt2 record = {.activation_function = "gelu",
                          .attn_pdrop = 0.1,
                          .resid_pdrop = 0.1,
                          .embd_pdrop = 0.1,
                          .tie_word_embeddings = true};
    struct decoder decoder = read_as(reader, "openai-gpt", "", &record);
    if (reader->err->kind) return NULL;
    // Its ACT_FNS has the approximation under the plain name.
    if (decoder.activation == FUNCTION_GELU) decoder.activation = FUNCTION_GELU_TANH;
    decoder.norm_place = NORM_AFTER;
    decoder.no_final_norm = true;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_CODEGEN = {"codegen", read_codegen, decoder_graph,
                                            "CodeGenConfig"};
const struct model_family FAMILY_OPENAI_GPT = {"openai-gpt", read_openai_gpt, decoder_graph,
                                               "OpenAIGPTConfig"};
const struct model_family FAMILY_GPT2 = {"gpt2", read_gpt2, decoder_graph, "GPT2Config"};
const struct model_family FAMILY_GPTJ = {"gptj", read_gptj, decoder_graph, "GPTJConfig"};
const struct model_family FAMILY_GPT_BIGCODE = {"gpt_bigcode", read_gpt_bigcode, decoder_graph,
                                                "GPTBigCodeConfig"};
