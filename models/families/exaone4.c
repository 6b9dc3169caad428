#include "models/families/llama_like.h"

#include <string.h>

// The releases write the pattern of windows as letters: "LLLG" is L with and G without. All that it
// says beyond a number is refused.
static int64_t read_pattern(struct family_reader *reader)
{
    static const char KEY[] = "sliding_window_pattern";
    enum { OTHERWISE = 4 };
    if (reader->err->kind) return OTHERWISE;
    if (!json_has(reader->object, KEY)) {
        if (!json_has(reader->object, "layer_types")) family_taken(reader, KEY, "%d", OTHERWISE);
        return OTHERWISE;
    }
    struct json pattern = json_get(reader->object, KEY, reader->err);
    if (json_is_number(&pattern)) return json_i64(&pattern, 1, LAYERS_MAX, reader->err);
    const char *letters = json_text(&pattern, reader->err);
    size_t local = letters ? strspn(letters, "L") : 0;
    if (letters && strcmp(letters + local, "G") != 0) {
        json_fail(&pattern, reader->err,
                  "expected a number, or L and one G behind them (\"LLLG\")");
    }
    return (int64_t)local + 1;
}

// Norms of heads, and of what attention and mlp return. Where there are windows, only layers that
// have one rotate.
static const void *read_exaone4(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048,
                                .has_own_pattern = true,
                                .dimensions_or_null = "num_key_value_heads sliding_window",
                                .optional = "hidden_act rms_norm_eps"};
    record.rms_norm_eps = 1e-5;
    llama_like_read(reader, &record);
    struct decoder decoder = llama_like_decoder(reader, "exaone4", &record);
    if (reader->err->kind) return NULL;
    decoder.norm_place = NORM_RESULT;
    decoder.head_norms = true;
    decoder.window = record.sliding_window;
    if (record.sliding_window == 0) return family_decoder(reader, &decoder);
    int64_t pattern = read_pattern(reader);
    if (reader->err->kind) return NULL;
    decoder.has_window = llama_like_pattern(reader, &record, pattern);
    decoder.is_unrotated = llama_like_others(reader, decoder.has_window, record.num_hidden_layers);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_EXAONE4 = {"exaone4", read_exaone4, decoder_graph,
                                            "Exaone4Config"};
