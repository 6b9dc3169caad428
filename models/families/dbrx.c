#include "models/families/family.h"

#include <assert.h>

struct dbrx {
    struct decoder decoder;
    double moe_normalize_expert_weights;
    const char *name;  // of the activation
};

static const struct json_field FIELDS[] = {
    {DECODER_I64("d_model", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("hidden_size", hidden, 1, WIDTH_MAX)},
    {DECODER_I64("n_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("num_attention_heads", head_count, 1, HEADS_MAX)},
    {DECODER_I64("n_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("num_hidden_layers", layer_count, 1, LAYERS_MAX)},
    {DECODER_I64("max_seq_len", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_I64("max_position_embeddings", seq_len_max, 1, POSITIONS_MAX)},
    {DECODER_I64("vocab_size", vocab, 1, VOCAB_MAX)},
    {DECODER_F64("resid_pdrop", hidden_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("emb_pdrop", embedding_dropout, 0, DROPOUT_MAX)},
    {JSON_OPT_ANY("attn_config")},
    {JSON_OPT_ANY("ffn_config")},
    {JSON_OPT_ANY("rope_parameters")},
    {JSON_OPT_ANY("model_type")},
    {0},
};

static const struct json_field ATTENTION_FIELDS[] = {
    {DECODER_I64("kv_n_heads", kv_head_count, 1, HEADS_MAX)},
    {DECODER_F64("attn_pdrop", attention_dropout, 0, DROPOUT_MAX)},
    {DECODER_F64("rope_theta", rope_theta, 1, 1e15)},
    {0},
};

static const struct json_field FFN_FIELDS[] = {
    {DECODER_I64("ffn_hidden_size", ffn, 1, WIDTH_MAX)},
    {DECODER_I64("moe_num_experts", experts.count, 1, EXPERTS_MAX)},
    {DECODER_I64("moe_top_k", experts.top_k, 1, EXPERTS_MAX)},
    {JSON_OPT_F64(struct dbrx, moe_normalize_expert_weights, 0, 1e6)},
    {JSON_OPT_ANY("ffn_act_fn")},
    {0},
};

static const struct json_field ACTIVATION_FIELDS[] = {{JSON_OPT_TEXT(struct dbrx, name)}, {0}};
static const struct json_field ROPE_FIELDS[] = {
    {DECODER_F64("rope_theta", rope_theta, 1, 1e15)},
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

static const void *read_dbrx(struct family_reader *reader)
{
    struct dbrx record = {.decoder.model_type = "dbrx",
                          .decoder.norm = FUNCTION_LAYER_NORM,
                          .decoder.norm_epsilon = 1e-5,
                          .decoder.norm_is_unbiased = true,
                          .decoder.gated = true,
                          .decoder.seq_len_max = 2048,
                          .decoder.rope_theta = 10000,
                          .moe_normalize_expert_weights = 1,
                          .name = "silu"};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, &KEYS);
    read_attention(reader, &record);
    enum function activation = read_ffn(reader, &record);
    if (!family_complete(reader)) return NULL;
    struct decoder decoder = record.decoder;
    assert(decoder.experts.count > 0 && decoder.ffn > 0 && "mixtures alone are read");
    bool is_normalised = record.moe_normalize_expert_weights > 0;
    decoder.activation = activation;
    decoder.experts.ffn = decoder.ffn;
    decoder.experts.route = is_normalised ? FUNCTION_ROUTE_SOFTMAX_TOP_K : FUNCTION_ROUTE_SOFTMAX;
    family_check_heads(reader, &decoder, family_key(reader, "n_heads", "num_attention_heads"),
                       "attn_config");
    family_check_experts(reader, &decoder, "ffn_config", "ffn_config");
    decoder.rotary_dims = decoder.head_dim / 2 * 2;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_DBRX = {"dbrx", read_dbrx, decoder_graph, "DbrxConfig"};
