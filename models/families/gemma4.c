#include "models/families/gemma4.h"

#include "core/real.h"
#include "models/families/llama_like.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Gemma 4, the language model. Layers without a window have wider heads, fewer of keys, and in the
// larger models no values but what their keys are projected to; the smaller ones have per-layer
// embeddings, and keys and values that the layers behind share. What each layer makes is multiplied
// with a number that is no parameter, and one until it is loaded.
struct gemma4 {
    int64_t global_head_dim;
    int64_t num_global_key_value_heads;  // 0 = as many as others
    int64_t hidden_size_per_layer_input, vocab_size_per_layer_input, num_kv_shared_layers;
    bool attention_k_eq_v, use_double_wide_mlp, enable_moe_block;
    int64_t num_experts, top_k_experts, moe_intermediate_size;
    bool may_mix;  // the family has experts
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct gemma4, global_head_dim, 2, HEADS_MAX)},
    {JSON_OPT_I64(struct gemma4, num_global_key_value_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct gemma4, hidden_size_per_layer_input, 0, WIDTH_MAX)},
    {JSON_OPT_I64(struct gemma4, vocab_size_per_layer_input, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct gemma4, num_kv_shared_layers, 0, LAYERS_MAX)},
    {JSON_OPT_BOOL(struct gemma4, attention_k_eq_v)},
    {JSON_OPT_BOOL(struct gemma4, use_double_wide_mlp)},
    {JSON_OPT_BOOL(struct gemma4, enable_moe_block)},
    {JSON_OPT_I64(struct gemma4, num_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct gemma4, top_k_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct gemma4, moe_intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_ANY("per_layer_config")},
    {0},
};

struct global_rope {
    const char *rope_type;
};
static const struct json_field ROPE_FIELDS[] = {
    {JSON_OPT_TEXT(struct global_rope, rope_type)},
    {0},
};

// What transformers writes of the layers that are not as the others, by their number.
struct own_heads {
    int64_t head_dim, num_key_value_heads;
};
static const struct json_field OWN_FIELDS[] = {
    {JSON_OPT_I64(struct own_heads, head_dim, 2, HEADS_MAX)},
    {JSON_OPT_I64(struct own_heads, num_key_value_heads, 1, HEADS_MAX)},
    {0},
};

// One for each kind of layer.
static bool has_ropes(struct family_reader *reader)
{
    return json_has(reader->object, "rope_parameters") &&
           !family_is_null(reader, "rope_parameters");
}

// Of each head the first pairs turn, by angles that are those of the whole head: as many fewer
// turn by powers of as much smaller a theta. With another type all of them do.
static void read_global_rope(struct family_reader *reader, const struct llama_like *record,
                             struct decoder *decoder)
{
    struct global_rope rope = {"proportional"};
    if (reader->err->kind) return;
    if (has_ropes(reader)) {
        struct json parameters = json_get(reader->object, "rope_parameters", reader->err);
        struct json full = json_get(&parameters, "full_attention", reader->err);
        json_read_lenient(&full, ROPE_FIELDS, &rope, NULL, NULL, reader->err);
    }
    if (reader->err->kind) return;
    bool is_part = strcmp(rope.rope_type, "proportional") == 0;
    double part = is_part ? record->partial_rotary_factor : 1;
    int64_t width = decoder->global.head_dim;
    decoder->global.rotary_dims = 2 * (int64_t)(part * (double)width / 2);
    decoder->rope_theta =
        real_power(record->rope_theta, (double)decoder->global.rotary_dims / (double)width);
    decoder->rope_theta_local = record->rope_local_base_freq;
    decoder->rotary_dims = decoder->head_dim - decoder->head_dim % 2;
    if (decoder->global.rotary_dims == 0)
        family_fail(reader, "global_head_dim", "no pair of %lld dims turns", (long long)width);
}

// The last layer has no window whatever layer_types says, as transformers reads it.
static const bool *windows(struct family_reader *reader, const struct llama_like *record)
{
    int64_t count = record->num_hidden_layers;
    assert(count > 0);
    const bool *given = llama_like_pattern(reader, record, 6);
    bool *is_local = ARENA_NEW(reader->arena, bool, count);
    memcpy(is_local, given, (size_t)count * sizeof *given);
    is_local[count - 1] = false;
    return is_local;
}

static void read_own_heads(struct family_reader *reader, struct decoder *decoder)
{
    static const char KEY[] = "per_layer_config";
    struct global_heads *global = &decoder->global;
    if (reader->err->kind || !json_has(reader->object, KEY)) return;
    struct json layers = json_get(reader->object, KEY, reader->err);
    int count = json_member_count(&layers, reader->err);
    bool *is_given = ARENA_NEW(reader->arena, bool, decoder->layer_count);
    global->head_dim = decoder->head_dim;
    global->kv_head_count = decoder->kv_head_count;
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json layer = json_item(&layers, i);
        int64_t number = strtoll(json_key(&layer), NULL, 10);
        struct own_heads own = {decoder->head_dim, decoder->kv_head_count};
        json_read_lenient(&layer, OWN_FIELDS, &own, NULL, NULL, reader->err);
        bool is_other = i > 0 && (own.head_dim != global->head_dim ||
                                  own.num_key_value_heads != global->kv_head_count);
        bool is_global =
            number >= 0 && number < decoder->layer_count && !decoder->has_window[number];
        if (!reader->err->kind && (is_other || !is_global))
            json_fail(&layer, reader->err,
                      "layers without a window have heads of one size, others those of the model");
        global->head_dim = own.head_dim;
        global->kv_head_count = own.num_key_value_heads;
        if (is_global) is_given[number] = true;
    }
    for (int64_t i = 0; i < decoder->layer_count && count > 0 && !reader->err->kind; i++) {
        if (!decoder->has_window[i] && !is_given[i])
            json_fail(&layers, reader->err, "no entry \"%02lld\" for a layer without a window",
                      (long long)i);
    }
}

static bool has_kind_before(const struct decoder *decoder, int64_t first, bool is_local)
{
    assert(first <= decoder->layer_count);
    for (int64_t i = 0; i < first; i++)
        if (decoder->has_window[i] == is_local) return true;
    return false;
}

void gemma_check_shared(struct family_reader *reader, const struct decoder *decoder)
{
    static const char KEY[] = "num_kv_shared_layers";
    int64_t first = decoder->layer_count - decoder->kv_shared_count;
    for (int64_t i = first > 0 ? first : 0; i < decoder->layer_count && !reader->err->kind; i++) {
        if (first <= 0 || !has_kind_before(decoder, first, decoder->has_window[i]))
            family_fail(reader, KEY,
                        "by layer_types no layer in front makes keys for the last %lld",
                        (long long)decoder->kv_shared_count);
    }
}

static void set_layers(struct family_reader *reader, const struct llama_like *record,
                       const struct gemma4 *more, struct decoder *decoder)
{
    bool has_own_count = more->attention_k_eq_v && more->num_global_key_value_heads > 0;
    decoder->global = (struct global_heads){
        .head_dim = more->global_head_dim,
        .kv_head_count = has_own_count ? more->num_global_key_value_heads : decoder->kv_head_count,
        .key_is_value = more->attention_k_eq_v,
    };
    decoder->window = record->sliding_window;
    decoder->has_window = windows(reader, record);
    assert(decoder->global.kv_head_count > 0);
    read_own_heads(reader, decoder);
    read_global_rope(reader, record, decoder);
    decoder->kv_shared_count = more->num_kv_shared_layers;
    if (more->use_double_wide_mlp) decoder->kv_shared_ffn = 2 * decoder->ffn;
    decoder->per_layer_width = more->hidden_size_per_layer_input;
    if (decoder->head_count % decoder->global.kv_head_count != 0)
        family_fail(reader, "num_global_key_value_heads", "%lld heads do not share %lld",
                    (long long)decoder->head_count, (long long)decoder->global.kv_head_count);
    if (decoder->per_layer_width > 0 && more->vocab_size_per_layer_input != decoder->vocab)
        family_fail(reader, "vocab_size_per_layer_input",
                    "tables of layers with another vocabulary are not supported");
    if (!reader->err->kind) gemma_check_shared(reader, decoder);
}

// Beside each mlp, with norms and a router of their own.
// Files keep the keys of experts where the switch is off.
static void set_experts(struct family_reader *reader, const struct gemma4 *more,
                        struct decoder *decoder)
{
    if (reader->err->kind || !more->enable_moe_block) return;
    decoder->experts = (struct experts){.count = more->num_experts,
                                        .top_k = more->top_k_experts,
                                        .ffn = more->moe_intermediate_size,
                                        .route = FUNCTION_ROUTE_SOFTMAX_TOP_K,
                                        .is_beside_mlp = true};
    family_check_experts(reader, decoder, "num_experts", "top_k_experts");
}

static const void *read_as(struct family_reader *reader, const char *model_type,
                           struct llama_like record, struct gemma4 more, const char *keys)
{
    record.hidden_activation = "gelu_pytorch_tanh";
    record.rms_norm_eps = 1e-6;
    record.rope_theta = 1e6;
    record.rope_local_base_freq = 10000;
    record.partial_rotary_factor = has_ropes(reader) ? 1 : 0.25;
    record.tie_word_embeddings = true;
    record.dimensions_or_null = "num_key_value_heads head_dim sliding_window";
    record.optional = "rms_norm_eps attention_bias hidden_activation";
    record.optional_or_null = "final_logit_softcapping";
    llama_like_read(reader, &record);
    family_read(reader, FIELDS, &more);
    if (!more.may_mix) more.enable_moe_block = false;
    family_absent(
        reader, FIELDS, &more,
        &(struct family_keys){.dimensions = more.enable_moe_block
                                                ? "num_experts top_k_experts moe_intermediate_size"
                                                : "",
                              .optional = keys,
                              .optional_or_null = "num_global_key_value_heads"});
    struct decoder decoder = llama_like_decoder(reader, model_type, &record);
    if (reader->err->kind) return NULL;
    decoder.activation = family_activation(reader, "hidden_activation", record.hidden_activation);
    decoder.qkv_bias = decoder.out_bias = record.attention_bias;
    decoder.embedding_scale = sqrt((double)record.hidden_size);
    decoder.norm_place = NORM_BOTH;
    decoder.head_norms = decoder.value_norms = true;
    decoder.score_factor = 1;
    decoder.logit_softcap = record.final_logit_softcapping;
    set_layers(reader, &record, &more, &decoder);
    set_experts(reader, &more, &decoder);
    return family_decoder(reader, &decoder);
}

static const void *read_gemma4(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 131072};
    record.sliding_window = 512;
    struct gemma4 more = {.global_head_dim = 512,
                          .hidden_size_per_layer_input = 256,
                          .vocab_size_per_layer_input = 262144,
                          .may_mix = true};
    static const char KEYS[] =
        "global_head_dim hidden_size_per_layer_input vocab_size_per_layer_input "
        "num_kv_shared_layers attention_k_eq_v use_double_wide_mlp enable_moe_block";
    return read_as(reader, "gemma4_text", record, more, KEYS);
}

// The one that takes pictures and sound without towers: neither experts nor tables of layers.
static const void *read_unified(struct family_reader *reader)
{
    struct llama_like record = {LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 262144};
    record.sliding_window = 1024;
    struct gemma4 more = {.global_head_dim = 512};
    static const char KEYS[] =
        "global_head_dim num_kv_shared_layers attention_k_eq_v use_double_wide_mlp";
    return read_as(reader, "gemma4_unified_text", record, more, KEYS);
}

const struct model_family FAMILY_GEMMA4 = {"gemma4_text", read_gemma4, decoder_graph,
                                           "Gemma4TextConfig"};
const struct model_family FAMILY_GEMMA4_UNIFIED = {"gemma4_unified_text", read_unified,
                                                   decoder_graph, "Gemma4UnifiedTextConfig"};
