#include "models/families/llama_like.h"

#include <assert.h>
#include <string.h>

// Llama 4 (configuration_llama4.py, modeling_llama4.py): some layers have experts of which a token
// gets few, beside a shared one; some attend to all tokens and neither rotate nor norm their heads,
// the others attend within chunks and do both.

struct llama4 {
    struct decoder decoder;
    int64_t interleave_moe_layer_step;  // the last of so many layers has experts
    int64_t no_rope_layer_interval;     // the last of so many layers attends to all
    const char *hidden_act;
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("num_key_value_heads", kv_head_count, 1, HEADS_MAX)},
    {DECODER_I64("head_dim", head_dim, 1, HEADS_MAX)},
    {DECODER_I64("intermediate_size", experts.ffn, 1, WIDTH_MAX)},
    {DECODER_I64("intermediate_size_mlp", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("num_local_experts", experts.count, 1, EXPERTS_MAX)},
    {DECODER_I64("num_experts_per_tok", experts.top_k, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct llama4, interleave_moe_layer_step, 1, LAYERS_MAX)},
    {DECODER_I64("attention_chunk_size", window, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct llama4, no_rope_layer_interval, 1, LAYERS_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {JSON_OPT_TEXT(struct llama4, hidden_act)},
    {DECODER_F64("rms_norm_eps", norm_epsilon, 0, 1)},
    {DECODER_F64("rope_theta", rope_theta, 1, 1e15)},
    {DECODER_F64("attention_dropout", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_BOOL("tie_word_embeddings", tied)},
    {DECODER_BOOL("attention_bias", qkv_bias)},
    {DECODER_BOOL("use_qk_norm", head_norms)},
    {JSON_OPT_ANY("moe_layers")},
    {JSON_OPT_ANY("no_rope_layers")},
    {JSON_OPT_ANY("layer_types")},
    {JSON_OPT_ANY("rope_parameters")},
    {JSON_OPT_ANY("rope_scaling")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct json_field ROPE_FIELDS[] = {
    {DECODER_F64("rope_theta", rope_theta, 1, 1e15)},
    {0},
};

static const struct family_keys KEYS = {
    .dimensions = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads "
                  "num_local_experts num_experts_per_tok",
    .dimensions_or_null = "num_key_value_heads head_dim attention_chunk_size",
    .optional = "max_position_embeddings hidden_act rms_norm_eps rope_theta attention_dropout "
                "tie_word_embeddings attention_bias use_qk_norm"};

// The members of an array of numbers, one for each layer or a number of a layer; -1 without one.
static int read_numbers(struct family_reader *reader, const char *key, struct json *array)
{
    if (reader->err->kind || !json_has(reader->object, key)) return -1;
    *array = json_get(reader->object, key, reader->err);
    return json_count(array, reader->err);
}

static const bool *dense_layers(struct family_reader *reader, const struct llama4 *record)
{
    struct json layers;
    int count = read_numbers(reader, "moe_layers", &layers);
    bool *is_dense = ARENA_NEW(reader->arena, bool, record->decoder.layer_count);
    int64_t step = record->interleave_moe_layer_step;
    assert(record->decoder.layer_count > 0 && (count >= 0 || step > 0));
    for (int64_t i = 0; i < record->decoder.layer_count; i++)
        is_dense[i] = count >= 0 || (i + 1) % step != 0;
    for (int i = 0; i < count; i++) {
        struct json item = json_item(&layers, i);
        int64_t layer = json_i64(&item, 0, (double)record->decoder.layer_count - 1, reader->err);
        if (reader->err->kind) return NULL;
        is_dense[layer] = false;
    }
    return is_dense;
}

// Transformers 5 writes beside no_rope_layers what each layer attends to; the two must agree.
static void check_layer_types(struct family_reader *reader, const struct llama4 *record,
                              const bool *is_chunked)
{
    if (reader->err->kind || !json_has(reader->object, "layer_types")) return;
    struct json types = json_get(reader->object, "layer_types", reader->err);
    int count = json_count(&types, reader->err);
    if (!reader->err->kind && count != record->decoder.layer_count) {
        json_fail(&types, reader->err, "%d entries for %lld layers", count,
                  (long long)record->decoder.layer_count);
    }
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json type = json_item(&types, i);
        const char *wanted = is_chunked[i] ? "chunked_attention" : "full_attention";
        const char *text = json_text(&type, reader->err);
        if (text && strcmp(text, wanted) != 0) {
            json_fail(&type, reader->err, "expected \"%s\" by no_rope_layers, found \"%s\"", wanted,
                      text);
        }
    }
}

static void read_record(struct family_reader *reader, struct llama4 *record)
{
    family_read(reader, FIELDS, record);
    if (reader->err->kind) return;
    family_read_rope(reader, ROPE_FIELDS, record);
    if (!json_has(reader->object, "no_rope_layers")) {
        const struct family_keys interval = {.optional = "no_rope_layer_interval"};
        family_absent(reader, FIELDS, record, &interval);
    }
    if (!json_has(reader->object, "moe_layers")) {
        const struct family_keys step = {.dimensions = "interleave_moe_layer_step"};
        family_absent(reader, FIELDS, record, &step);
    }
    family_absent(reader, FIELDS, record, &KEYS);
}

// Layers without experts have an mlp of another width, which must be given where there are any.
static void set_layers(struct family_reader *reader, const struct llama4 *record,
                       struct decoder *decoder)
{
    if (reader->err->kind) return;
    decoder->experts.is_dense = dense_layers(reader, record);
    // Layers that rotate attend within chunks; a 1 in no_rope_layers says that a layer does.
    decoder->is_unrotated =
        llama_like_unrotated(reader, record->decoder.layer_count, record->no_rope_layer_interval);
    decoder->has_window =
        llama_like_others(reader, decoder->is_unrotated, record->decoder.layer_count);
    check_layer_types(reader, record, decoder->has_window);
    bool any_dense = false;
    for (int64_t i = 0; i < record->decoder.layer_count && !reader->err->kind; i++)
        any_dense = any_dense || decoder->experts.is_dense[i];
    const struct family_keys dense = {.dimensions = "intermediate_size_mlp"};
    if (any_dense) family_absent(reader, FIELDS, record, &dense);
    if (!any_dense) decoder->ffn = record->decoder.experts.ffn;
}

static const void *read_llama4(struct family_reader *reader)
{
    struct llama4 record = {.decoder.model_type = "llama4_text",
                            .decoder.norm = FUNCTION_RMS_NORM,
                            .decoder.gated = true,
                            .decoder.head_norms_plain = true,
                            .decoder.head_norms_with_rope = true,
                            .decoder.chunked = true,
                            .decoder.experts.route = FUNCTION_ROUTE_SIGMOID,
                            .no_rope_layer_interval = 4,
                            .decoder.seq_len_max = 131072,
                            .hidden_act = "silu",
                            .decoder.norm_epsilon = 1e-5,
                            .decoder.rope_theta = 500000,
                            .decoder.head_norms = true};
    read_record(reader, &record);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = record.decoder;
    decoder.out_bias = decoder.qkv_bias;
    decoder.experts.shared_ffn = decoder.experts.ffn;
    set_layers(reader, &record, &decoder);
    if (!family_complete(reader)) return NULL;
    decoder.activation = family_activation(reader, "hidden_act", record.hidden_act);
    family_check_heads(reader, &decoder, "num_attention_heads", "num_key_value_heads");
    family_check_experts(reader, &decoder, "num_local_experts", "num_experts_per_tok");
    decoder.rotary_dims = decoder.head_dim / 2 * 2;
    reader->ledger->remark =
        "weights of experts stand behind them instead of before, and attention has no temperature "
        "that grows with the position: the same shapes and work, another loss";
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_LLAMA4 = {"llama4_text", read_llama4, decoder_graph,
                                           "Llama4TextConfig"};
