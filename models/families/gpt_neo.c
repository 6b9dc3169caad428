#include "models/families/family.h"

#include <string.h>

// GPT-Neo: as GPT-2, but queries, keys and values have no bias, scores no factor, and the layers
// that attention_types calls "local" a window.

struct gpt_neo {
    int64_t vocab_size, hidden_size, num_layers, num_heads, max_position_embeddings, window_size;
    int64_t intermediate_size;  // 0 = 4 * hidden_size
    const char *activation_function;
    double layer_norm_epsilon, resid_dropout, embed_dropout, attention_dropout;
    bool tie_word_embeddings;
};

// transformers maps its generic names onto the family's own.
#define ALIAS(key, member, high) key, JSON_TYPE_I64, offsetof(struct gpt_neo, member), 1, high, true

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct gpt_neo, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct gpt_neo, hidden_size, 1, WIDTH_MAX)},
    {ALIAS("num_hidden_layers", num_layers, LAYERS_MAX)},
    {JSON_OPT_I64(struct gpt_neo, num_layers, 1, LAYERS_MAX)},
    {ALIAS("num_attention_heads", num_heads, HEADS_MAX)},
    {JSON_OPT_I64(struct gpt_neo, num_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct gpt_neo, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct gpt_neo, window_size, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct gpt_neo, intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_TEXT(struct gpt_neo, activation_function)},
    {JSON_OPT_F64(struct gpt_neo, layer_norm_epsilon, 0, 1)},
    {JSON_OPT_F64(struct gpt_neo, resid_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct gpt_neo, embed_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct gpt_neo, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct gpt_neo, tie_word_embeddings)},
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

static struct decoder describe(const struct gpt_neo *record)
{
    return (struct decoder){
        .model_type = "gpt_neo",
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count = record->num_layers,
        .head_count = record->num_heads,
        .ffn = record->intermediate_size,
        .seq_len_max = record->max_position_embeddings,
        .position_count = record->max_position_embeddings,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = record->layer_norm_epsilon,
        .out_bias = true,
        .mlp_bias = true,
        .score_factor = 1,
        .window = record->window_size,
        .tied = record->tie_word_embeddings,
        .attention_dropout = record->attention_dropout,
        .hidden_dropout = record->resid_dropout,
        .embedding_dropout = record->embed_dropout,
    };
}

static const void *read_gpt_neo(struct family_reader *reader)
{
    struct gpt_neo record = {
        .activation_function = "gelu_new", .layer_norm_epsilon = 1e-5, .tie_word_embeddings = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    if (!family_complete(reader)) return NULL;
    if (record.intermediate_size == 0) {
        record.intermediate_size = 4 * record.hidden_size;
        family_taken(reader, "intermediate_size", "%lld (4 * hidden_size)",
                     (long long)record.intermediate_size);
    }
    struct decoder decoder = describe(&record);
    const char *head_key = family_key(reader, "num_heads", "num_attention_heads");
    family_check_heads(reader, &decoder, head_key, head_key);
    decoder.has_window = local_layers(reader, decoder.layer_count);
    decoder.activation =
        family_activation(reader, "activation_function", record.activation_function);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_GPT_NEO = {"gpt_neo", read_gpt_neo, decoder_graph, "GPTNeoConfig"};
