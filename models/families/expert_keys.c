#include "models/families/expert_keys.h"

#include <assert.h>

#define EXPERT_FIELDS                                                                      \
    {JSON_OPT_I64(struct expert_keys, num_experts, 0, EXPERTS_MAX)},                       \
        {JSON_OPT_I64(struct expert_keys, num_experts_per_tok, 1, EXPERTS_MAX)},           \
        {JSON_OPT_I64(struct expert_keys, moe_intermediate_size, 1, WIDTH_MAX)},           \
        {JSON_OPT_I64(struct expert_keys, shared_expert_intermediate_size, 1, WIDTH_MAX)}, \
        {JSON_OPT_I64(struct expert_keys, decoder_sparse_step, 1, LAYERS_MAX)},            \
        {JSON_OPT_BOOL(struct expert_keys, norm_topk_prob)},                               \
    {                                                                                      \
        JSON_OPT_ANY("mlp_only_layers")                                                    \
    }

static const struct json_field FIELDS[] = {EXPERT_FIELDS, {0}};

// Where both names stand, the local one wins.
static const struct json_field LOCAL_FIELDS[] = {
    EXPERT_FIELDS,
    {"num_local_experts", JSON_TYPE_I64, offsetof(struct expert_keys, num_experts), 0, EXPERTS_MAX,
     true},
    {0},
};

static const bool *read_mlp_only(struct family_reader *reader, int64_t layer_count)
{
    if (reader->err->kind || !json_has(reader->object, "mlp_only_layers")) return NULL;
    struct json layers = json_get(reader->object, "mlp_only_layers", reader->err);
    int count = json_count(&layers, reader->err);
    bool *is_mlp_only = ARENA_NEW(reader->arena, bool, layer_count);
    for (int i = 0; i < count; i++) {
        struct json item = json_item(&layers, i);
        int64_t layer = json_i64(&item, 0, LAYERS_MAX, reader->err);
        if (reader->err->kind) return NULL;
        if (layer < layer_count) is_mlp_only[layer] = true;
    }
    return is_mlp_only;
}

const bool *expert_keys_dense(struct family_reader *reader, int64_t layer_count)
{
    static const char KEY[] = "mlp_layer_types";
    static const struct family_layer_type TYPES[] = {{"dense", 1}, {"sparse", 2}, {0}};
    if (reader->err->kind || !json_has(reader->object, KEY)) return NULL;
    const uint8_t *types = family_layer_parts(reader, KEY, layer_count, TYPES);
    bool *is_dense = ARENA_NEW(reader->arena, bool, layer_count);
    for (int64_t i = 0; types && i < layer_count; i++)
        is_dense[i] = types[i] == TYPES[0].parts;
    return is_dense;
}

// Absent and 0 differ: a mixture must say how many experts it has, a dense model may say none.
void expert_keys_read(struct family_reader *reader, struct expert_keys *keys, int64_t layer_count)
{
    if (reader->err->kind) return;
    const struct json_field *fields = keys->has_local_name ? LOCAL_FIELDS : FIELDS;
    keys->num_experts = -1;
    family_read(reader, fields, keys);
    bool is_dense = keys->num_experts == 0;
    if (keys->num_experts < 0) keys->num_experts = 0;
    keys->is_mlp_only = read_mlp_only(reader, layer_count);
    const struct family_keys absent = {.dimensions = keys->dimensions, .optional = keys->optional};
    if (!is_dense) family_absent(reader, fields, keys, &absent);
}

static const char *count_key(const struct family_reader *reader)
{
    return family_key(reader, "num_experts", "num_local_experts");
}

void expert_keys_everywhere(struct family_reader *reader, struct expert_keys *keys, int64_t ffn)
{
    if (!reader->err->kind && keys->num_experts == 0) {
        family_fail(reader, count_key(reader), "must be between 1 and %d, found 0", EXPERTS_MAX);
    }
    keys->moe_intermediate_size = ffn;
    keys->decoder_sparse_step = 1;
    keys->is_mlp_only = NULL;
}

static const bool *dense_layers(struct family_reader *reader, const struct expert_keys *keys,
                                int64_t layer_count)
{
    int64_t step = keys->decoder_sparse_step > 1 ? keys->decoder_sparse_step : 1;
    if (step == 1 && !keys->is_mlp_only) return NULL;
    bool *is_dense = ARENA_NEW(reader->arena, bool, layer_count);
    for (int64_t i = 0; i < layer_count; i++) {
        bool is_mlp_only = keys->is_mlp_only && keys->is_mlp_only[i];
        is_dense[i] = is_mlp_only || (i + 1) % step != 0;
    }
    return is_dense;
}

void expert_keys_apply(struct family_reader *reader, const struct expert_keys *keys,
                       struct decoder *decoder)
{
    if (reader->err->kind || keys->num_experts == 0) return;
    assert(keys->num_experts > 0 && decoder->layer_count > 0);
    decoder->experts.count = keys->num_experts;
    decoder->experts.top_k = keys->num_experts_per_tok;
    decoder->experts.ffn = keys->moe_intermediate_size;
    decoder->experts.route =
        keys->norm_topk_prob ? FUNCTION_ROUTE_SOFTMAX_TOP_K : FUNCTION_ROUTE_SOFTMAX;
    decoder->experts.is_dense = dense_layers(reader, keys, decoder->layer_count);
    family_check_experts(reader, decoder, count_key(reader), "num_experts_per_tok");
}
