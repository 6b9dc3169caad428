#include "models/families/llama_like.h"

static const void *read_starcoder2(struct family_reader *reader)
{
    struct llama_like record = {
        LLAMA_LIKE_DEFAULTS,
        .max_position_embeddings = 4096,
        .use_bias = true,
        .tie_word_embeddings = true,
        .dimensions_or_null = "num_key_value_heads",
        .optional = "hidden_act norm_epsilon use_bias residual_dropout embedding_dropout",
        .optional_or_null = "sliding_window"};
    record.hidden_act = "gelu_pytorch_tanh";
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "starcoder2", &record);
    decoder.norm = FUNCTION_LAYER_NORM;
    decoder.norm_epsilon = record.norm_epsilon;
    decoder.gated = false;
    decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = record.use_bias;
    decoder.window = record.sliding_window;
    decoder.hidden_dropout = record.residual_dropout;
    decoder.embedding_dropout = record.embedding_dropout;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_STARCODER2 = {"starcoder2", read_starcoder2, decoder_graph,
                                               "Starcoder2Config"};
