#include "models/families/llama_like.h"

// Windows only when use_sliding_window says so, and then from max_window_layers on.
static void set_windows(struct family_reader *reader, const struct llama_like *record,
                        struct decoder *decoder)
{
    if (reader->err->kind || !record->use_sliding_window) return;
    decoder->window = record->sliding_window;
    decoder->has_window = record->is_local;
    if (record->is_local) return;
    bool *is_local = ARENA_NEW(reader->arena, bool, record->num_hidden_layers);
    for (int64_t i = record->max_window_layers; i < record->num_hidden_layers; i++) {
        is_local[i] = true;
    }
    decoder->has_window = is_local;
}

static struct llama_like defaults(void)
{
    return (struct llama_like){LLAMA_LIKE_DEFAULTS,       .vocab_size = 151936,
                               .hidden_size = 4096,       .intermediate_size = 22016,
                               .num_hidden_layers = 32,   .num_attention_heads = 32,
                               .num_key_value_heads = 32, .max_position_embeddings = 32768,
                               .sliding_window = 4096,    .max_window_layers = 28};
}

static const void *read_qwen2(struct family_reader *reader)
{
    struct llama_like record = defaults();
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "qwen2", &record);
    decoder.qkv_bias = true;
    set_windows(reader, &record, &decoder);
    return family_decoder(reader, &decoder);
}

static const void *read_qwen3(struct family_reader *reader)
{
    struct llama_like record = defaults();
    record.head_dim = 128;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "qwen3", &record);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.head_norms = true;
    set_windows(reader, &record, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_QWEN2 = {"qwen2", read_qwen2, decoder_graph};
const struct model_family FAMILY_QWEN3 = {"qwen3", read_qwen3, decoder_graph};
