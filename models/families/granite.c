#include "models/families/expert_keys.h"
#include "models/families/llama_like.h"

#include <assert.h>

// A factor of one is none.
static double other_than_one(double factor)
{
    return factor == 1 ? 0 : factor;
}

#define GRANITE_DEFAULTS                                                             \
    LLAMA_LIKE_DEFAULTS, .max_position_embeddings = 2048, .embedding_multiplier = 1, \
                         .attention_multiplier = 1, .residual_multiplier = 1, .logits_scaling = 1

// Llama with four factors: on embeddings, scores, what layers add, and (divided by) on logits.
// `record` holds the defaults; `own_heads`: they may have a width of their own, and scores no
// factor where none is given; `keys`: of experts, or NULL.
static struct decoder read_common(struct family_reader *reader, const char *model_type,
                                  const char *own, const char *dimensions, bool own_heads,
                                  struct llama_like *record, struct expert_keys *keys)
{
    record->dimensions_or_null = own_heads ? "num_key_value_heads head_dim" : "num_key_value_heads";
    if (own_heads) record->attention_multiplier = 0;
    record->dimensions = dimensions;
    record->optional = arena_print(reader->arena,
                                   "hidden_act rms_norm_eps attention_bias embedding_multiplier "
                                   "attention_multiplier residual_multiplier logits_scaling%s",
                                   own);
    llama_like_read(reader, record);
    if (keys) expert_keys_read(reader, keys, record->num_hidden_layers);
    if (!own_heads) record->head_dim = 0;  // not among its keys
    struct decoder decoder = llama_like_decoder(reader, model_type, record);
    decoder.qkv_bias = decoder.out_bias = record->attention_bias;
    decoder.embedding_scale = other_than_one(record->embedding_multiplier);
    decoder.score_factor = record->attention_multiplier;
    decoder.residual_scale = other_than_one(record->residual_multiplier);
    decoder.logit_scale = 1 / record->logits_scaling;
    return decoder;
}

static const void *read_plain(struct family_reader *reader, const char *model_type,
                              struct llama_like record)
{
    struct decoder decoder =
        read_common(reader, model_type, " mlp_bias", NULL, false, &record, NULL);
    decoder.mlp_bias = record.mlp_bias;
    return family_decoder(reader, &decoder);
}

static const void *read_granite(struct family_reader *reader)
{
    return read_plain(reader, "granite", (struct llama_like){GRANITE_DEFAULTS});
}

// The texts of models that read documents: what pictures add to some layers comes from outside.
static const void *read_granite4_vision(struct family_reader *reader)
{
    return read_plain(reader, "granite4_vision_text", (struct llama_like){GRANITE_DEFAULTS});
}

static const void *read_granite_docling(struct family_reader *reader)
{
    struct llama_like record = {
        LLAMA_LIKE_DEFAULTS,        .max_position_embeddings = 32768, .tie_word_embeddings = true,
        .embedding_multiplier = 12, .attention_multiplier = 0.015625, .residual_multiplier = 0.263,
        .logits_scaling = 4};
    record.rms_norm_eps = 1e-5;
    return read_plain(reader, "granite_docling_text", record);
}

struct hyperclovax {
    bool use_post_norm;
};
static const struct json_field HYPERCLOVAX_FIELDS[] = {
    {JSON_OPT_BOOL(struct hyperclovax, use_post_norm)},
    {0},
};

// Norms behind attention and mlps as well; logits are multiplied by their factor.
static const void *read_hyperclovax(struct family_reader *reader)
{
    struct hyperclovax own = {.use_post_norm = true};
    struct llama_like record = {GRANITE_DEFAULTS};
    family_read(reader, HYPERCLOVAX_FIELDS, &own);
    family_absent(reader, HYPERCLOVAX_FIELDS, &own,
                  &(struct family_keys){.optional = "use_post_norm"});
    struct decoder decoder =
        read_common(reader, "hyperclovax", " mlp_bias", NULL, true, &record, NULL);
    if (reader->err->kind) return NULL;
    decoder.mlp_bias = record.mlp_bias;
    decoder.logit_scale = record.logits_scaling;
    if (own.use_post_norm) decoder.norm_place = NORM_BOTH;
    return family_decoder(reader, &decoder);
}

static struct decoder read_experts(struct family_reader *reader, const char *model_type,
                                   const char *dimensions, struct llama_like *record)
{
    struct expert_keys keys = {.has_local_name = true,
                               .dimensions = "num_local_experts num_experts_per_tok"};
    struct decoder decoder = read_common(reader, model_type, "", dimensions, false, record, &keys);
    expert_keys_everywhere(reader, &keys, record->intermediate_size);
    expert_keys_apply(reader, &keys, &decoder);
    decoder.experts.route = FUNCTION_ROUTE_TOP_K_SOFTMAX;
    return decoder;
}

static const void *read_granitemoe(struct family_reader *reader)
{
    struct llama_like record = {GRANITE_DEFAULTS};
    struct decoder decoder = read_experts(reader, "granitemoe", NULL, &record);
    return family_decoder(reader, &decoder);
}

struct shared_keys {
    int64_t shared_intermediate_size;  // 0 = no shared expert
};

static const struct json_field SHARED_FIELDS[] = {
    {JSON_OPT_I64(struct shared_keys, shared_intermediate_size, 0, WIDTH_MAX)},
    {0},
};

static const void *read_granitemoeshared(struct family_reader *reader)
{
    struct shared_keys keys = {0};
    struct llama_like record = {GRANITE_DEFAULTS};
    struct decoder decoder = read_experts(reader, "granitemoeshared", NULL, &record);
    if (reader->err->kind) return NULL;
    family_read(reader, SHARED_FIELDS, &keys);
    family_absent(reader, SHARED_FIELDS, &keys,
                  &(struct family_keys){.dimensions = "shared_intermediate_size"});
    if (!family_complete(reader)) return NULL;
    decoder.experts.shared_ffn = keys.shared_intermediate_size;
    return family_decoder(reader, &decoder);
}

// layer_rope_theta has a base for each layer: one for all of them, or 0 where nothing rotates.
static const bool *read_layer_rope(struct family_reader *reader, struct decoder *decoder)
{
    static const char KEY[] = "layer_rope_theta";
    if (reader->err->kind || !json_has(reader->object, KEY)) return NULL;
    bool *is_unrotated = ARENA_NEW(reader->arena, bool, decoder->layer_count);
    struct json list = json_get(reader->object, KEY, reader->err);
    int count = json_count(&list, reader->err);
    double common = 0;
    if (!reader->err->kind && count != decoder->layer_count)
        json_fail(&list, reader->err, "%d entries for %lld layers", count,
                  (long long)decoder->layer_count);
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json item = json_item(&list, i);
        double theta = json_f64(&item, 0, 1e15, reader->err);
        is_unrotated[i] = theta == 0;
        if (theta == 0) continue;
        if (common > 0 && theta != common)
            json_fail(&item, reader->err, "bases that differ are not supported here");
        common = theta;
    }
    if (common > 0) decoder->rope_theta = common;
    return is_unrotated;
}

// A sink for each head, and windows where layer_types has them: all layers but the first of four.
static void set_windows(struct family_reader *reader, const struct llama_like *record,
                        struct decoder *decoder)
{
    enum { PATTERN = 4 };
    if (reader->err->kind) return;
    bool *is_local = ARENA_NEW(reader->arena, bool, decoder->layer_count);
    for (int64_t i = 0; i < decoder->layer_count; i++)
        is_local[i] = i % PATTERN != 0;
    assert(decoder->layer_count > 0);
    decoder->attention_sink = true;
    decoder->is_unrotated = read_layer_rope(reader, decoder);
    decoder->window = record->sliding_window;
    decoder->has_window = llama_like_windows(reader, record, is_local, "1 in 4 full");
}

static const void *read_granite_swa(struct family_reader *reader)
{
    struct llama_like record = {GRANITE_DEFAULTS};
    record.rms_norm_eps = 1e-5;
    struct decoder decoder =
        read_common(reader, "granite_swa", " mlp_bias", "sliding_window", false, &record, NULL);
    if (reader->err->kind) return NULL;
    decoder.mlp_bias = record.mlp_bias;
    set_windows(reader, &record, &decoder);
    return family_decoder(reader, &decoder);
}

static const void *read_granitemoe_swa(struct family_reader *reader)
{
    struct shared_keys keys = {0};
    struct llama_like record = {GRANITE_DEFAULTS};
    struct decoder decoder = read_experts(reader, "granitemoe_swa", "sliding_window", &record);
    if (reader->err->kind) return NULL;
    family_read(reader, SHARED_FIELDS, &keys);
    family_absent(reader, SHARED_FIELDS, &keys,
                  &(struct family_keys){.optional = "shared_intermediate_size"});
    decoder.experts.shared_ffn = keys.shared_intermediate_size;
    set_windows(reader, &record, &decoder);
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_HYPERCLOVAX = {"hyperclovax", read_hyperclovax, decoder_graph,
                                                "HyperCLOVAXConfig"};
const struct model_family FAMILY_GRANITE4_VISION_TEXT = {
    "granite4_vision_text", read_granite4_vision, decoder_graph, "Granite4VisionTextConfig"};
const struct model_family FAMILY_GRANITE_DOCLING_TEXT = {
    "granite_docling_text", read_granite_docling, decoder_graph, "GraniteDoclingTextConfig"};
const struct model_family FAMILY_GRANITE = {"granite", read_granite, decoder_graph,
                                            "GraniteConfig"};
const struct model_family FAMILY_GRANITEMOE = {"granitemoe", read_granitemoe, decoder_graph,
                                               "GraniteMoeConfig"};
const struct model_family FAMILY_GRANITEMOESHARED = {"granitemoeshared", read_granitemoeshared,
                                                     decoder_graph, "GraniteMoeSharedConfig"};
const struct model_family FAMILY_GRANITE_SWA = {"granite_swa", read_granite_swa, decoder_graph,
                                                "GraniteSWAConfig"};
const struct model_family FAMILY_GRANITEMOE_SWA = {"granitemoe_swa", read_granitemoe_swa,
                                                   decoder_graph, "GraniteMoeSWAConfig"};
