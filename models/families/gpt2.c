#include "models/families/family.h"

#include <assert.h>

struct gpt2 {
    struct decoder decoder;
    const char *activation_function;
    bool scale_attn_weights;
    bool multi_query;    // gpt_bigcode
    int64_t rotary_dim;  // gptj; 0 = the whole head
};

// transformers maps its generic names onto the family's own.
static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_I64("n_positions", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("n_embd", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("n_layer", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("n_head", head_count, 1, HEADS_MAX)},
    {DECODER_I64("n_inner", ffn, 1, WIDTH_MAX)},
    {JSON_OPT_TEXT(struct gpt2, activation_function)},
    {"afn", JSON_TYPE_TEXT, offsetof(struct gpt2, activation_function), 0, 0, true},
    {DECODER_F64("layer_norm_epsilon", norm_epsilon, 0, 1)},
    {DECODER_F64("attn_pdrop", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("resid_pdrop", hidden_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("embd_pdrop", embedding_dropout, 0, DROPOUT_MAX)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
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

// `own` are the keys that one of them heeds and the others do not. `record` holds the defaults.
static struct decoder read_as(struct family_reader *reader, const char *model_type, const char *own,
                              struct gpt2 *record)
{
    record->decoder.norm_epsilon = 1e-5;
    record->scale_attn_weights = true;
    family_read(reader, FIELDS, record);
    family_absent(reader, FIELDS, record, &KEYS);
    family_absent(reader, FIELDS, record, &(struct family_keys){.optional = own});
    if (!family_complete(reader)) return (struct decoder){0};
    if (record->decoder.ffn == 0) {
        record->decoder.ffn = 4 * record->decoder.hidden;
        family_taken(reader, "n_inner", "%lld (4 * n_embd)", (long long)record->decoder.ffn);
    }
    struct decoder decoder = record->decoder;
    assert(decoder.layer_count > 0 && decoder.ffn > 0);
    decoder.model_type = model_type;
    decoder.position_count = decoder.seq_len_max;
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = true;
    decoder.score_factor = record->scale_attn_weights ? 0 : 1;
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
                          .decoder.attention_dropout = 0.1,
                          .decoder.hidden_dropout = 0.1,
                          .decoder.embedding_dropout = 0.1,
                          .decoder.tied = true};
    struct decoder decoder = read_as(reader, "gpt2", "scale_attn_weights", &record);
    if (reader->err->kind) return NULL;
    if (record.multi_query) family_fail(reader, "multi_query", "gpt2 has keys for every head");
    return family_decoder(reader, &decoder);
}

// SantaCoder and StarCoder: all heads share one key and value.
static const void *read_gpt_bigcode(struct family_reader *reader)
{
    struct gpt2 record = {.activation_function = "gelu_pytorch_tanh",
                          .decoder.attention_dropout = 0.1,
                          .decoder.hidden_dropout = 0.1,
                          .decoder.embedding_dropout = 0.1,
                          .multi_query = true,
                          .decoder.tied = true};
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
                          .decoder.attention_dropout = 0.1,
                          .decoder.hidden_dropout = 0.1,
                          .decoder.embedding_dropout = 0.1,
                          .decoder.tied = true};
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
