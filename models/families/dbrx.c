#include "models/families/family.h"

struct dbrx {
    int64_t d_model, n_heads, n_layers, max_seq_len, vocab_size;
    int64_t kv_n_heads, ffn_hidden_size, moe_num_experts, moe_top_k;
    double attn_pdrop, resid_pdrop, emb_pdrop, rope_theta, moe_normalize_expert_weights;
    const char *name;  // of the activation
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct dbrx, d_model, 1, WIDTH_MAX)},
    {"hidden_size", JSON_TYPE_I64, offsetof(struct dbrx, d_model), 1, WIDTH_MAX, true},
    {JSON_OPT_I64(struct dbrx, n_heads, 1, HEADS_MAX)},
    {"num_attention_heads", JSON_TYPE_I64, offsetof(struct dbrx, n_heads), 1, HEADS_MAX, true},
    {JSON_OPT_I64(struct dbrx, n_layers, 1, LAYERS_MAX)},
    {"num_hidden_layers", JSON_TYPE_I64, offsetof(struct dbrx, n_layers), 1, LAYERS_MAX, true},
    {JSON_OPT_I64(struct dbrx, max_seq_len, 1, POSITIONS_MAX)},
    {"max_position_embeddings", JSON_TYPE_I64, offsetof(struct dbrx, max_seq_len), 1, POSITIONS_MAX,
     true},
    {JSON_OPT_I64(struct dbrx, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_F64(struct dbrx, resid_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct dbrx, emb_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_ANY("attn_config")},
    {JSON_OPT_ANY("ffn_config")},
    {JSON_OPT_ANY("rope_parameters")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct json_field ATTENTION_FIELDS[] = {
    {JSON_OPT_I64(struct dbrx, kv_n_heads, 1, HEADS_MAX)},
    {JSON_OPT_F64(struct dbrx, attn_pdrop, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct dbrx, rope_theta, 1, 1e15)},
    {0},
};

static const struct json_field FFN_FIELDS[] = {
    {JSON_OPT_I64(struct dbrx, ffn_hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct dbrx, moe_num_experts, 1, EXPERTS_MAX)},
    {JSON_OPT_I64(struct dbrx, moe_top_k, 1, EXPERTS_MAX)},
    {JSON_OPT_F64(struct dbrx, moe_normalize_expert_weights, 0, 1e6)},
    {JSON_OPT_ANY("ffn_act_fn")},
    {0},
};

static const struct json_field ACTIVATION_FIELDS[] = {{JSON_OPT_TEXT(struct dbrx, name)}, {0}};
static const struct json_field ROPE_FIELDS[] = {
    {JSON_OPT_F64(struct dbrx, rope_theta, 1, 1e15)},
    {0},
};

static const struct family_keys KEYS = {.dimensions = "vocab_size d_model n_heads n_layers",
                                        .optional = "max_seq_len resid_pdrop emb_pdrop"};
static const struct family_keys ATTENTION_KEYS = {.dimensions = "kv_n_heads",
                                                  .optional = "attn_pdrop rope_theta"};
static const struct family_keys FFN_KEYS = {.dimensions =
                                                "ffn_hidden_size moe_num_experts moe_top_k",
                                            .optional_or_null = "moe_normalize_expert_weights"};
static const struct family_keys ACTIVATION_KEYS = {.optional = "name"};

// A reader of the object under `key`; where there is none, of an empty one in its place.
static struct family_reader read_part(const struct family_reader *reader, const char *key,
                                      const struct json_field *fields, struct dbrx *record)
{
    struct family_reader inner = *reader;
    struct json *part = ARENA_NEW(reader->arena, struct json, 1);
    const char *prefix = reader->prefix ? reader->prefix : "";
    *part = (struct json){.document = reader->object->document, .parent = reader->object};
    inner.object = part;
    inner.prefix = arena_print(reader->arena, "%s%s.", prefix, key);
    if (reader->err->kind || !json_has(reader->object, key)) return inner;
    *part = json_get(reader->object, key, reader->err);
    json_read_lenient(part, fields, record, reader->warn, reader->context, reader->err);
    return inner;
}

// The activation stands in an object of its own inside ffn_config; errors about it point there.
static enum function read_ffn(struct family_reader *reader, struct dbrx *record)
{
    struct family_reader ffn = read_part(reader, "ffn_config", FFN_FIELDS, record);
    if (reader->err->kind) return FUNCTION_SILU;
    if (family_is_null(&ffn, "moe_normalize_expert_weights")) {
        record->moe_normalize_expert_weights = 0;
    }
    family_absent(&ffn, FFN_FIELDS, record, &FFN_KEYS);
    struct family_reader activation = read_part(&ffn, "ffn_act_fn", ACTIVATION_FIELDS, record);
    family_absent(&activation, ACTIVATION_FIELDS, record, &ACTIVATION_KEYS);
    if (reader->err->kind) return FUNCTION_SILU;
    return family_activation(&activation, "name", record->name);
}

// Transformers 5 keeps theta in rope_parameters, before that it stood in attn_config.
static void read_attention(struct family_reader *reader, struct dbrx *record)
{
    struct family_keys keys = ATTENTION_KEYS;
    struct family_reader attention = read_part(reader, "attn_config", ATTENTION_FIELDS, record);
    struct family_reader rope = read_part(reader, "rope_parameters", ROPE_FIELDS, record);
    if (reader->err->kind) return;
    if (json_has(rope.object, "rope_theta")) keys.optional = "attn_pdrop";
    family_absent(&attention, ATTENTION_FIELDS, record, &keys);
}

static struct decoder describe(const struct dbrx *record, enum function activation)
{
    bool is_normalised = record->moe_normalize_expert_weights > 0;
    return (struct decoder){
        .model_type = "dbrx",
        .vocab = record->vocab_size,
        .hidden = record->d_model,
        .layer_count = record->n_layers,
        .head_count = record->n_heads,
        .kv_head_count = record->kv_n_heads,
        .ffn = record->ffn_hidden_size,
        .seq_len_max = record->max_seq_len,
        .norm_place = NORM_BEFORE,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = 1e-5,
        .norm_is_unbiased = true,
        .gated = true,
        .activation = activation,
        .rope_theta = record->rope_theta,
        .experts = {.count = record->moe_num_experts,
                    .top_k = record->moe_top_k,
                    .ffn = record->ffn_hidden_size,
                    .route = is_normalised ? FUNCTION_ROUTE_SOFTMAX_TOP_K : FUNCTION_ROUTE_SOFTMAX},
        .attention_dropout = record->attn_pdrop,
        .hidden_dropout = record->resid_pdrop,
        .embedding_dropout = record->emb_pdrop,
    };
}

static const void *read_dbrx(struct family_reader *reader)
{
    struct dbrx record = {.max_seq_len = 2048,
                          .rope_theta = 10000,
                          .moe_normalize_expert_weights = 1,
                          .name = "silu"};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    read_attention(reader, &record);
    enum function activation = read_ffn(reader, &record);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = describe(&record, activation);
    family_check_heads(reader, &decoder, family_key(reader, "n_heads", "num_attention_heads"),
                       "attn_config");
    family_check_experts(reader, &decoder, "ffn_config", "ffn_config");
    decoder.rotary_dims = decoder.head_dim / 2 * 2;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_DBRX = {"dbrx", read_dbrx, decoder_graph, "DbrxConfig"};
