#include "models/families/family.h"

#include <assert.h>
#include <string.h>

// GPT-Neo: as GPT-2, but queries, keys and values have no bias, scores no factor, and the layers
// that attention_types calls "local" a window.

struct gpt_neo {
    struct decoder decoder;
    const char *activation_function;
};

// transformers maps its generic names onto the family's own.
static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("num_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_I64("window_size", window, 1, POSITIONS_MAX)},
    {DECODER_I64("intermediate_size", ffn, 1, WIDTH_MAX)},
    {JSON_OPT_TEXT(struct gpt_neo, activation_function)},
    {DECODER_F64("layer_norm_epsilon", norm_epsilon, 0, 1)},
    {DECODER_F64("resid_dropout", hidden_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("embed_dropout", embedding_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {JSON_OPT_ANY("attention_types")},
    {JSON_OPT_ANY("attention_layers")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size num_layers num_heads max_position_embeddings "
                  "window_size",
    .optional = "activation_function layer_norm_epsilon resid_dropout embed_dropout "
                "attention_dropout tie_word_embeddings"};

// One kind after the other, from `first` on; the number of those set.
static int64_t set_kinds(struct family_reader *reader, const struct json *kinds, int64_t first,
                         int64_t layer_count, bool *is_local)
{
    assert(first >= 0);
    int count = json_is_array(kinds) ? json_count(kinds, reader->err) : 0;
    int64_t set = 0;
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json kind = json_item(kinds, i);
        const char *text = json_text(&kind, reader->err);
        if (!text) return set;
        bool is_window = strcmp(text, "local") == 0;
        if (!is_window && strcmp(text, "global") != 0) {
            json_fail(&kind, reader->err, "unknown layer \"%s\"; known: global, local", text);
        }
        if (first + set < layer_count) is_local[first + set] = is_window;
        set++;
    }
    return set;
}

// attention_types are pairs of a list of kinds and how often it is repeated.
static int64_t set_repeated(struct family_reader *reader, int64_t layer_count, bool *is_local)
{
    struct json types = json_get(reader->object, "attention_types", reader->err);
    int count = json_is_array(&types) ? json_count(&types, reader->err) : 0;
    int64_t set = 0;
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json pair = json_item(&types, i);
        if (!json_is_array(&pair) || json_count(&pair, reader->err) != 2) {
            json_fail(&pair, reader->err, "expected a list of layers and a number");
            return set;
        }
        struct json kinds = json_item(&pair, 0), times = json_item(&pair, 1);
        int64_t repeats = json_i64(&times, 1, LAYERS_MAX, reader->err);
        for (int64_t r = 0; r < repeats && !reader->err->kind && set <= layer_count; r++) {
            int64_t added = set_kinds(reader, &kinds, set, layer_count, is_local);
            if (added == 0) break;
            set += added;
        }
    }
    return set;
}

static const bool *local_layers(struct family_reader *reader, int64_t layer_count)
{
    bool *is_local = ARENA_NEW(reader->arena, bool, layer_count);
    bool has_layers = json_has(reader->object, "attention_layers");
    const char *key = has_layers ? "attention_layers" : "attention_types";
    int64_t set = layer_count;
    if (reader->err->kind) return NULL;
    assert(layer_count > 0);
    if (has_layers) {
        struct json layers = json_get(reader->object, key, reader->err);
        set = set_kinds(reader, &layers, 0, layer_count, is_local);
    } else if (json_has(reader->object, key)) {
        set = set_repeated(reader, layer_count, is_local);
    } else {
        for (int64_t i = 0; i < layer_count; i++)
            is_local[i] = i % 2 == 1;
        family_taken(reader, key, "by rule (global and local in turn)");
    }
    if (set != layer_count) {
        family_fail(reader, key, "%lld layers; num_layers has %lld", (long long)set,
                    (long long)layer_count);
    }
    return is_local;
}

static const void *read_gpt_neo(struct family_reader *reader)
{
    struct gpt_neo record = {.decoder.model_type = "gpt_neo",
                             .decoder.norm = FUNCTION_LAYER_NORM,
                             .decoder.out_bias = true,
                             .decoder.mlp_bias = true,
                             .decoder.score_factor = 1,

                             .activation_function = "gelu_new",
                             .decoder.norm_epsilon = 1e-5,
                             .decoder.tied = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    if (record.decoder.ffn == 0) {
        record.decoder.ffn = 4 * record.decoder.hidden;
        family_taken(reader, "intermediate_size", "%lld (4 * hidden_size)",
                     (long long)record.decoder.ffn);
    }
    struct decoder decoder = record.decoder;
    decoder.position_count = decoder.seq_len_max;
    const char *head_key = family_key(reader, "num_heads", "num_attention_heads");
    family_check_heads(reader, &decoder, head_key, head_key);
    decoder.has_window = local_layers(reader, decoder.layer_count);
    decoder.activation =
        family_activation(reader, "activation_function", record.activation_function);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GPT_NEO = {"gpt_neo", read_gpt_neo, decoder_graph, "GPTNeoConfig"};
