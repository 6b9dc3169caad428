#include "models/families/llama_like.h"

#include <assert.h>
#include <math.h>

// Configs around a text leave the width of its heads out (paligemma).
static const int64_t HEAD_DIM_INSIDE = 256;

// All scale the embedding by sqrt(hidden). The norm weights are stored as w - 1, which changes
// their first value only.
static struct decoder read_common(struct family_reader *reader, const char *model_type,
                                  struct llama_like *record)
{
    llama_like_read(reader, record);
    struct decoder decoder = llama_like_decoder(reader, model_type, record);
    decoder.qkv_bias = decoder.out_bias = record->attention_bias;
    decoder.embedding_scale = sqrt((double)record->hidden_size);
    return decoder;
}

// What the second and the third have in common. Of `pattern` layers the last has no window.
static void set_common(struct family_reader *reader, const struct llama_like *record,
                       int64_t pattern, struct decoder *decoder)
{
    assert(pattern > 0 && record->query_pre_attn_scalar > 0);
    decoder->activation = family_activation(reader, "hidden_activation", record->hidden_activation);
    decoder->norm_place = NORM_BOTH;
    decoder->score_factor = 1 / sqrt(record->query_pre_attn_scalar);
    decoder->score_softcap = record->attn_logit_softcapping;
    decoder->logit_softcap = record->final_logit_softcapping;
    decoder->window = record->sliding_window;
    decoder->has_window = llama_like_pattern(reader, record, pattern);
}

static const void *read_gemma(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 8192,
                                .tie_word_embeddings = true,
                                .dimensions_or_null = "num_key_value_heads head_dim",
                                .optional = "hidden_act rms_norm_eps attention_bias"};
    record.hidden_act = "gelu_pytorch_tanh";
    if (reader->prefix) record.head_dim = HEAD_DIM_INSIDE;
    struct decoder decoder = read_common(reader, "gemma", &record);
    // The releases say "gelu" and mean the approximation (configuration_gemma.py of 5.0).
    if (decoder.activation == FUNCTION_GELU) decoder.activation = FUNCTION_GELU_TANH;
    return family_decoder(reader, &decoder);
}

// What the second and the third share; a config that lacks hidden_act says hidden_activation.
static struct llama_like later_defaults(void)
{
    return (struct llama_like){
        LLAMA_LIKE_DEFAULTS,
        .max_position_embeddings = 8192,
        .tie_word_embeddings = true,
        .hidden_activation = "gelu_pytorch_tanh",
        .query_pre_attn_scalar = 256,
        .dimensions_or_null = "num_key_value_heads head_dim sliding_window",
        .optional = "rms_norm_eps attention_bias hidden_activation query_pre_attn_scalar",
        .optional_or_null = "attn_logit_softcapping final_logit_softcapping"};
}

static const void *read_gemma2(struct family_reader *reader)
{
    struct llama_like record = later_defaults();
    record.attn_logit_softcapping = 50;
    record.final_logit_softcapping = 30;
    if (reader->prefix) record.head_dim = HEAD_DIM_INSIDE;
    struct decoder decoder = read_common(reader, "gemma2", &record);
    if (reader->err->kind) return NULL;
    set_common(reader, &record, 2, &decoder);
    return family_decoder(reader, &decoder);
}

// Gemma 2 without norms behind attention and mlp.
static const void *read_vaultgemma(struct family_reader *reader)
{
    struct llama_like record = later_defaults();
    record.attn_logit_softcapping = 50;
    record.final_logit_softcapping = 30;
    struct decoder decoder = read_common(reader, "vaultgemma", &record);
    if (reader->err->kind) return NULL;
    set_common(reader, &record, 2, &decoder);
    decoder.norm_place = NORM_BEFORE;
    return family_decoder(reader, &decoder);
}

// Five layers of six have a window, and a rotation of their own. The published configs of the
// larger ones leave out what is as in the 4 B one (vocabulary, heads): those defaults are taken.
static const void *read_gemma3(struct family_reader *reader)
{
    struct llama_like record = later_defaults();
    record.vocab_size = 262208;
    record.num_attention_heads = 8;
    record.num_key_value_heads = 4;
    record.head_dim = 256;
    record.max_position_embeddings = 131072;
    record.sliding_window_pattern = 6;
    // What transformers 5 writes in their place says the same.
    const char *local = json_has(reader->object, "rope_parameters") ? "" : " rope_local_base_freq";
    const char *pattern = json_has(reader->object, "layer_types") ? "" : " sliding_window_pattern";
    record.optional = arena_print(reader->arena, "%s%s%s", record.optional, local, pattern);
    record.optional_or_null = "final_logit_softcapping";
    record.rope_local_base_freq = 10000;
    record.rope_theta = 1e6;
    struct decoder decoder = read_common(reader, "gemma3_text", &record);
    if (reader->err->kind) return NULL;
    set_common(reader, &record, record.sliding_window_pattern, &decoder);
    decoder.head_norms = true;
    decoder.score_softcap = 0;  // transformers reads the key and leaves it at that
    decoder.rope_theta_local = record.rope_local_base_freq;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GEMMA = {"gemma", read_gemma, decoder_graph, "GemmaConfig"};
const struct model_family FAMILY_GEMMA2 = {"gemma2", read_gemma2, decoder_graph, "Gemma2Config"};
const struct model_family FAMILY_GEMMA3 = {"gemma3_text", read_gemma3, decoder_graph,
                                           "Gemma3TextConfig"};
const struct model_family FAMILY_VAULTGEMMA = {"vaultgemma", read_vaultgemma, decoder_graph,
                                               "VaultGemmaConfig"};
