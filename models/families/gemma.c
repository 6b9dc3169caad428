#include "models/families/llama_like.h"

#include <math.h>

// Both scale the embedding by sqrt(hidden). The norm weights are stored as w - 1, which changes
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

static const void *read_gemma(struct family_reader *reader)
{
    struct llama_like record = {
        LLAMA_LIKE_DEFAULTS,        .vocab_size = 256000,    .hidden_size = 3072,
        .intermediate_size = 24576, .num_hidden_layers = 28, .num_attention_heads = 16,
        .num_key_value_heads = 16,  .head_dim = 256,         .max_position_embeddings = 8192,
        .tie_word_embeddings = true};
    record.hidden_act = "gelu_pytorch_tanh";
    struct decoder decoder = read_common(reader, "gemma", &record);
    return family_decoder(reader, &decoder);
}

static const void *read_gemma2(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,
                                .vocab_size = 256000,
                                .hidden_size = 2304,
                                .intermediate_size = 9216,
                                .num_hidden_layers = 26,
                                .num_attention_heads = 8,
                                .num_key_value_heads = 4,
                                .head_dim = 256,
                                .max_position_embeddings = 8192,
                                .sliding_window = 4096,
                                .tie_word_embeddings = true,
                                .hidden_activation = "gelu_pytorch_tanh",
                                .query_pre_attn_scalar = 256,
                                .attn_logit_softcapping = 50,
                                .final_logit_softcapping = 30};
    struct decoder decoder = read_common(reader, "gemma2", &record);
    if (reader->err->kind) return NULL;
    decoder.activation = family_activation(reader, "hidden_activation", record.hidden_activation);
    decoder.norm_place = NORM_BOTH;
    decoder.score_factor = 1 / sqrt(record.query_pre_attn_scalar);
    decoder.score_softcap = record.attn_logit_softcapping;
    decoder.logit_softcap = record.final_logit_softcapping;
    decoder.window = record.sliding_window;
    bool *is_local = ARENA_NEW(reader->arena, bool, record.num_hidden_layers);
    for (int64_t i = 0; i < record.num_hidden_layers; i += 2) {
        is_local[i] = true;
    }
    decoder.has_window = record.is_local ? record.is_local : is_local;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GEMMA = {"gemma", read_gemma, decoder_graph};
const struct model_family FAMILY_GEMMA2 = {"gemma2", read_gemma2, decoder_graph};
