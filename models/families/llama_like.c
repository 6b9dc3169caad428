#include "models/families/llama_like.h"

#include <assert.h>
#include <string.h>

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct llama_like, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct llama_like, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct llama_like, intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct llama_like, num_hidden_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct llama_like, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct llama_like, num_key_value_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct llama_like, head_dim, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct llama_like, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct llama_like, sliding_window, 0, POSITIONS_MAX)},
    {JSON_OPT_I64(struct llama_like, max_window_layers, 0, LAYERS_MAX)},
    {JSON_OPT_I64(struct llama_like, sliding_window_pattern, 1, LAYERS_MAX)},
    {"_sliding_window_pattern", JSON_TYPE_I64, offsetof(struct llama_like, sliding_window_pattern),
     1, LAYERS_MAX, true},
    {JSON_OPT_I64(struct llama_like, no_rope_layer_interval, 1, LAYERS_MAX)},
    {JSON_OPT_TEXT(struct llama_like, hidden_act)},
    {JSON_OPT_TEXT(struct llama_like, hidden_activation)},
    {JSON_OPT_BOOL(struct llama_like, tie_word_embeddings)},
    {JSON_OPT_BOOL(struct llama_like, attention_bias)},
    {JSON_OPT_BOOL(struct llama_like, attention_out_bias)},
    {JSON_OPT_BOOL(struct llama_like, mlp_bias)},
    {JSON_OPT_BOOL(struct llama_like, use_bias)},
    {JSON_OPT_BOOL(struct llama_like, qkv_bias)},
    {JSON_OPT_BOOL(struct llama_like, use_sliding_window)},
    {JSON_OPT_F64(struct llama_like, rms_norm_eps, 0, 1)},
    {JSON_OPT_F64(struct llama_like, norm_eps, 0, 1)},
    {JSON_OPT_F64(struct llama_like, norm_epsilon, 0, 1)},
    {JSON_OPT_F64(struct llama_like, layer_norm_eps, 0, 1)},
    {JSON_OPT_F64(struct llama_like, rope_theta, 1, 1e15)},
    {JSON_OPT_F64(struct llama_like, partial_rotary_factor, 0, 1)},
    {JSON_OPT_F64(struct llama_like, logit_scale, 1e-6, 1e6)},
    {JSON_OPT_F64(struct llama_like, embedding_multiplier, 1e-6, 1e6)},
    {JSON_OPT_F64(struct llama_like, attention_multiplier, 1e-6, 1e6)},
    {JSON_OPT_F64(struct llama_like, residual_multiplier, 1e-6, 1e6)},
    {JSON_OPT_F64(struct llama_like, logits_scaling, 1e-6, 1e6)},
    {JSON_OPT_F64(struct llama_like, rope_local_base_freq, 1, 1e15)},
    {JSON_OPT_F64(struct llama_like, query_pre_attn_scalar, 1e-6, 1e6)},
    {JSON_OPT_F64(struct llama_like, attn_logit_softcapping, 0, 1e6)},
    {JSON_OPT_F64(struct llama_like, final_logit_softcapping, 0, 1e6)},
    {JSON_OPT_F64(struct llama_like, attention_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct llama_like, residual_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct llama_like, resid_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct llama_like, embedding_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct llama_like, embd_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_ANY("layer_types")},
    {JSON_OPT_ANY("rope_parameters")},
    {JSON_OPT_ANY("rope_scaling")},
    {JSON_OPT_ANY("no_rope_layers")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

// Transformers 5 keeps theta and the rotated part of a head in an object of their own, which for
// gemma3 holds one for each kind of layer.
static const struct json_field ROPE_FIELDS[] = {
    {JSON_OPT_F64(struct llama_like, rope_theta, 1, 1e15)},
    {JSON_OPT_F64(struct llama_like, partial_rotary_factor, 0, 1)},
    {0},
};

static const struct json_field LOCAL_ROPE_FIELDS[] = {
    {"rope_theta", JSON_TYPE_F64, offsetof(struct llama_like, rope_local_base_freq), 1, 1e15, true},
    {0},
};

static void read_rope_part(struct family_reader *reader, const struct json *rope, const char *key,
                           const struct json_field *fields, struct llama_like *record)
{
    if (reader->err->kind || !json_is_object(rope) || !json_has(rope, key)) return;
    struct json part = json_get(rope, key, reader->err);
    json_read_lenient(&part, fields, record, NULL, NULL, reader->err);
}

static void read_rope(struct family_reader *reader, struct llama_like *record)
{
    if (reader->err->kind || !json_has(reader->object, "rope_parameters")) return;
    struct json rope = json_get(reader->object, "rope_parameters", reader->err);
    json_read_lenient(&rope, ROPE_FIELDS, record, NULL, NULL, reader->err);
    read_rope_part(reader, &rope, "full_attention", ROPE_FIELDS, record);
    read_rope_part(reader, &rope, "sliding_attention", LOCAL_ROPE_FIELDS, record);
}

static const bool *read_layer_types(struct family_reader *reader, int64_t layer_count)
{
    if (reader->err->kind || !json_has(reader->object, "layer_types")) return NULL;
    struct json types = json_get(reader->object, "layer_types", reader->err);
    int count = json_count(&types, reader->err);
    // Without a number of layers there is nothing to compare with, and that is the error.
    if (!reader->err->kind && layer_count > 0 && count != layer_count) {
        json_fail(&types, reader->err, "%d entries for %lld layers", count, (long long)layer_count);
    }
    bool *is_local = ARENA_NEW(reader->arena, bool, count);
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json type = json_item(&types, i);
        const char *text = json_text(&type, reader->err);
        if (!text) return NULL;
        is_local[i] = strcmp(text, "sliding_attention") == 0;
        if (!is_local[i] && strcmp(text, "full_attention") != 0) {
            json_fail(&type, reader->err,
                      "unknown layer type \"%s\"; known: full_attention, sliding_attention", text);
        }
    }
    return is_local;
}

const bool *llama_like_windows(struct family_reader *reader, const struct llama_like *record,
                               const bool *otherwise, const char *rule)
{
    if (record->is_local) return record->is_local;
    if (record->sliding_window > 0) family_taken(reader, "layer_types", "by rule (%s)", rule);
    return otherwise;
}

const bool *llama_like_pattern(struct family_reader *reader, const struct llama_like *record,
                               int64_t pattern)
{
    assert(pattern > 0);
    bool *is_local = ARENA_NEW(reader->arena, bool, record->num_hidden_layers);
    for (int64_t i = 0; i < record->num_hidden_layers; i++) {
        is_local[i] = (i + 1) % pattern != 0;
    }
    const char *rule = arena_print(reader->arena, "1 in %lld full", (long long)pattern);
    return llama_like_windows(reader, record, is_local, rule);
}

const bool *llama_like_unrotated(struct family_reader *reader, int64_t layer_count,
                                 int64_t interval)
{
    assert(interval > 0);
    static const char KEY[] = "no_rope_layers";
    struct json layers = {0};
    int count = 0;
    bool *is_unrotated = ARENA_NEW(reader->arena, bool, layer_count);
    if (!reader->err->kind && json_has(reader->object, KEY)) {
        layers = json_get(reader->object, KEY, reader->err);
        if (!reader->err->kind) count = json_count(&layers, reader->err);
    }
    if (count > 0 && count < layer_count) {
        json_fail(&layers, reader->err, "%d entries for %lld layers", count,
                  (long long)layer_count);
    }
    for (int64_t i = 0; i < layer_count && !reader->err->kind; i++) {
        is_unrotated[i] = (i + 1) % interval == 0;
        if (count == 0) continue;
        struct json item = json_item(&layers, (int)i);
        is_unrotated[i] = json_i64(&item, 0, 1, reader->err) == 0;
    }
    if (count == 0 && !reader->err->kind)
        family_taken(reader, KEY, "by rule (1 in %lld)", (long long)interval);
    return is_unrotated;
}

const bool *llama_like_others(struct family_reader *reader, const bool *layers, int64_t layer_count)
{
    bool *others = ARENA_NEW(reader->arena, bool, layer_count);
    for (int64_t i = 0; i < layer_count && layers; i++)
        others[i] = !layers[i];
    return others;
}

static const char *join(struct arena *arena, const char *common, const char *own)
{
    return own ? arena_print(arena, "%s %s", common, own) : common;
}

// Keys of windows count where the switch that turns them on is there and on.
static void note_absent(struct family_reader *reader, const struct llama_like *record)
{
    struct arena *arena = reader->arena;
    const struct family_keys keys = {
        .dimensions = join(arena,
                           record->lacks_ffn ? "vocab_size hidden_size num_hidden_layers "
                                               "num_attention_heads"
                                             : "vocab_size hidden_size intermediate_size "
                                               "num_hidden_layers num_attention_heads",
                           record->dimensions),
        .dimensions_or_null = record->dimensions_or_null,
        .optional = join(arena,
                         record->lacks_rope ? "max_position_embeddings attention_dropout "
                                              "tie_word_embeddings"
                                            : "max_position_embeddings rope_theta "
                                              "attention_dropout tie_word_embeddings",
                         record->optional),
        .optional_or_null = record->optional_or_null,
    };
    family_absent(reader, FIELDS, record, &keys);
    if (!record->use_sliding_window) return;
    const struct family_keys windows = {
        .dimensions = record->is_local ? NULL : record->window_dimensions,
        .dimensions_or_null = "sliding_window",
    };
    family_absent(reader, FIELDS, record, &windows);
}

// The fields but for those that the family reads by itself, of which any value passes.
static const struct json_field *without_own(struct arena *arena, const struct llama_like *record)
{
    struct json_field *fields = ARENA_NEW(arena, struct json_field, sizeof FIELDS / sizeof *FIELDS);
    memcpy(fields, FIELDS, sizeof FIELDS);
    for (struct json_field *field = fields; field->key; field++) {
        bool is_own =
            (record->has_own_pattern && strcmp(field->key, "sliding_window_pattern") == 0) ||
            (record->has_own_ffn && strcmp(field->key, "intermediate_size") == 0);
        if (is_own) field->type = JSON_TYPE_ANY;
    }
    return fields;
}

void llama_like_read(struct family_reader *reader, struct llama_like *record)
{
    family_read(reader, without_own(reader->arena, record), record);
    if (reader->err->kind) return;
    // A null is kept apart from an absent key where the default is not "derive it" or "none".
    if (family_is_null(reader, "num_key_value_heads")) record->num_key_value_heads = 0;
    if (family_is_null(reader, "head_dim")) record->head_dim = 0;
    if (family_is_null(reader, "sliding_window")) record->sliding_window = 0;
    if (family_is_null(reader, "attn_logit_softcapping")) record->attn_logit_softcapping = 0;
    if (family_is_null(reader, "final_logit_softcapping")) record->final_logit_softcapping = 0;
    read_rope(reader, record);
    if (!record->has_own_types)
        record->is_local = read_layer_types(reader, record->num_hidden_layers);
    note_absent(reader, record);
}

struct decoder llama_like_decoder(struct family_reader *reader, const char *model_type,
                                  const struct llama_like *record)
{
    struct decoder decoder = {
        .model_type = model_type,
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count = record->num_hidden_layers,
        .head_count = record->num_attention_heads,
        .kv_head_count = record->num_key_value_heads,
        .head_dim = record->head_dim,
        .ffn = record->intermediate_size,
        .seq_len_max = record->max_position_embeddings,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_RMS_NORM,
        .norm_epsilon = record->rms_norm_eps,
        .gated = true,
        .rope_theta = record->rope_theta,
        .tied = record->tie_word_embeddings,
        .attention_dropout = record->attention_dropout,
    };
    if (!family_complete(reader)) return decoder;
    assert(record->num_hidden_layers > 0 && record->num_attention_heads > 0);
    decoder.activation = family_activation(reader, "hidden_act", record->hidden_act);
    family_check_heads(reader, &decoder, "num_attention_heads", "num_key_value_heads");
    if (record->num_key_value_heads == 0) {
        family_taken(reader, "num_key_value_heads", "%lld (num_attention_heads)",
                     (long long)decoder.kv_head_count);
    }
    if (record->head_dim == 0) {
        family_taken(reader, "head_dim", "%lld (hidden_size / num_attention_heads)",
                     (long long)decoder.head_dim);
    }
    // Pairs are rotated, so an odd count keeps its last dim still.
    decoder.rotary_dims = (int64_t)((double)decoder.head_dim * record->partial_rotary_factor);
    decoder.rotary_dims -= decoder.rotary_dims % 2;
    assert(decoder.rotary_dims >= 0 && decoder.rotary_dims <= decoder.head_dim);
    return decoder;
}
