#include "models/families/llama_like.h"

// One layer of four does not rotate.
static const void *read_smollm3(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS,
                                .max_position_embeddings = 32768,
                                .num_key_value_heads = 4,
                                .no_rope_layer_interval = 4,
                                .tie_word_embeddings = true,
                                .dimensions_or_null = "num_key_value_heads",
                                .optional = "hidden_act rms_norm_eps attention_bias mlp_bias "
                                            "use_sliding_window"};
    record.rope_theta = 2e6;
    if (!json_has(reader->object, "no_rope_layers")) {
        record.optional = arena_print(reader->arena, "%s no_rope_layer_interval", record.optional);
    }
    llama_like_read(reader, &record);
    record.head_dim = 0;  // not among its keys
    struct decoder decoder = llama_like_decoder(reader, "smollm3", &record);
    if (reader->err->kind) return NULL;
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.mlp_bias = record.mlp_bias;
    decoder.is_unrotated =
        llama_like_unrotated(reader, record.num_hidden_layers, record.no_rope_layer_interval);
    if (record.use_sliding_window) {
        decoder.window = record.sliding_window;
        decoder.has_window =
            llama_like_windows(reader, &record, decoder.is_unrotated, "those without rope slide");
    }
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_SMOLLM3 = {"smollm3", read_smollm3, decoder_graph,
                                            "SmolLM3Config"};
