#include "models/families/llama_like.h"

// One norm for attention and mlp, whose results are added together, and scaled logits. Rope turns
// pairs of neighbours: another order of the weights' columns, and nothing else.
static struct decoder read_common(struct family_reader *reader, const char *model_type,
                                  struct llama_like *record)
{
    record->tie_word_embeddings = true;
    record->logit_scale = 0.0625;
    record->optional = arena_print(reader->arena, "hidden_act layer_norm_eps logit_scale %s%s",
                                   "attention_bias", record->optional ? record->optional : "");
    llama_like_read(reader, record);
    record->head_dim = 0;  // not among its keys
    struct decoder decoder = llama_like_decoder(reader, model_type, record);
    decoder.qkv_bias = decoder.out_bias = record->attention_bias;
    decoder.norm_place = NORM_SHARED;
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.norm_is_unbiased = true;
    decoder.norm_epsilon = record->layer_norm_eps;
    decoder.logit_scale = record->logit_scale;
    return decoder;
}

static const void *read_cohere(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 8192,
                                .dimensions_or_null = "num_key_value_heads"};
    record.rope_theta = 500000;
    struct decoder decoder = read_common(reader, "cohere", &record);
    return family_decoder(reader, &decoder);
}

// Layers with a window rotate, those without do not.
static const void *read_cohere2(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 8192,
                                .sliding_window_pattern = 4,
                                .dimensions_or_null = "num_key_value_heads sliding_window"};
    if (!json_has(reader->object, "layer_types")) record.optional = " sliding_window_pattern";
    struct decoder decoder = read_common(reader, "cohere2", &record);
    if (reader->err->kind) return NULL;
    decoder.window = record.sliding_window;
    decoder.has_window = llama_like_pattern(reader, &record, record.sliding_window_pattern);
    decoder.is_unrotated = llama_like_others(reader, decoder.has_window, record.num_hidden_layers);
    if (record.sliding_window == 0) decoder.rope_theta = 0;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_COHERE = {"cohere", read_cohere, decoder_graph, "CohereConfig"};
const struct model_family FAMILY_COHERE2 = {"cohere2", read_cohere2, decoder_graph,
                                            "Cohere2Config"};
