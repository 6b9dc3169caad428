#include "models/families/bert.h"

#include <assert.h>
#include <string.h>

// Relatives of bert, all as masked language models: mpnet adds t5's numbers by distance to scores;
// electra (its generator) and albert have tables of their own width, and albert's layers are one;
// nomic_bert, jina_embeddings_v3, gte and roformer rotate in place of a table of positions.

static const void *read_mpnet(struct family_reader *reader)
{
    // Its class looks up so many, whatever the table has.
    enum { BUCKETS = 32, DISTANCE = 128 };
    struct bert record = {BERT_DEFAULTS, .lacks_types = true};
    struct {
        int64_t relative_attention_num_buckets;
    } own = {.relative_attention_num_buckets = BUCKETS};
    const struct json_field fields[] = {
        {"relative_attention_num_buckets", JSON_TYPE_I64, 0, 1, VOCAB_MAX, true}, {0}};
    const struct family_keys keys = {.optional = "relative_attention_num_buckets"};
    struct decoder decoder = bert_read(reader, "mpnet", &record);
    family_read(reader, fields, &own);
    family_absent(reader, fields, &own, &keys);
    bert_start_behind_padding(reader, &decoder);
    bert_want_gelu(reader, &decoder);
    if (!reader->err->kind && own.relative_attention_num_buckets != BUCKETS)
        family_fail(reader, "relative_attention_num_buckets",
                    "must be %d: the class looks up that many", BUCKETS);
    decoder.relative = (struct relative){.bucket_count = BUCKETS, .distance = DISTANCE};
    return family_decoder(reader, &decoder);
}

struct narrow {
    int64_t embedding_size, num_hidden_groups, inner_group_num;
};
static const struct json_field NARROW_FIELDS[] = {
    {JSON_OPT_I64(struct narrow, embedding_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct narrow, num_hidden_groups, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct narrow, inner_group_num, 1, LAYERS_MAX)},
    {0},
};

static struct narrow read_narrow(struct family_reader *reader, const char *optional)
{
    const struct family_keys keys = {.dimensions = "embedding_size", .optional = optional};
    struct narrow own = {.num_hidden_groups = 1, .inner_group_num = 1};
    family_read(reader, NARROW_FIELDS, &own);
    family_absent(reader, NARROW_FIELDS, &own, &keys);
    return own;
}

static const struct json_field GROUPS_FIELDS[] = {
    {"q_groups", JSON_TYPE_I64, offsetof(struct product_groups, query), 1, HEADS_MAX, true},
    {"k_groups", JSON_TYPE_I64, offsetof(struct product_groups, key), 1, HEADS_MAX, true},
    {"v_groups", JSON_TYPE_I64, offsetof(struct product_groups, value), 1, HEADS_MAX, true},
    {"post_attention_groups", JSON_TYPE_I64, offsetof(struct product_groups, out), 1, HEADS_MAX,
     true},
    {"intermediate_groups", JSON_TYPE_I64, offsetof(struct product_groups, up), 1, HEADS_MAX, true},
    {"output_groups", JSON_TYPE_I64, offsetof(struct product_groups, down), 1, HEADS_MAX, true},
    {0},
};

static void check_groups(struct family_reader *reader, const struct decoder *decoder,
                         const struct product_groups *groups)
{
    for (const struct json_field *field = GROUPS_FIELDS; field->key; field++) {
        int64_t count = *(const int64_t *)(const void *)((const char *)groups + field->offset);
        assert(count > 0);
        bool is_inner = field->offset >= offsetof(struct product_groups, up);
        bool divides = decoder->hidden % count == 0 && (!is_inner || decoder->ffn % count == 0);
        if (divides || reader->err->kind) continue;
        family_fail(reader, field->key, "%lld groups do not divide %s", (long long)count,
                    is_inner ? "hidden_size and intermediate_size" : "hidden_size");
    }
}

// Most of its products are in groups. Norms of its layers have the epsilon of their class.
static const void *read_squeezebert(struct family_reader *reader)
{
    static const double EPSILON = 1e-12;
    const struct family_keys keys = {.optional = "q_groups k_groups v_groups post_attention_groups "
                                                 "intermediate_groups output_groups"};
    struct product_groups groups = {4, 4, 4, 1, 4, 4};
    struct bert record = {BERT_DEFAULTS};
    struct decoder decoder = bert_read(reader, "squeezebert", &record);
    struct narrow own = {.embedding_size = decoder.hidden};
    family_read(reader, NARROW_FIELDS, &own);
    family_read(reader, GROUPS_FIELDS, &groups);
    family_absent(reader, GROUPS_FIELDS, &groups, &keys);
    check_groups(reader, &decoder, &groups);
    if (!reader->err->kind && own.embedding_size != decoder.hidden)
        family_fail(reader, "embedding_size", "must be hidden_size for squeezebert");
    if (!reader->err->kind && (decoder.norm_epsilon > EPSILON || decoder.norm_epsilon < EPSILON))
        family_fail(reader, "layer_norm_eps",
                    "must be 1e-12 for squeezebert, whose layers have it");
    decoder.groups = groups;
    return family_decoder(reader, &decoder);
}

static const void *read_electra(struct family_reader *reader)
{
    struct bert record = {BERT_DEFAULTS};
    struct narrow own = read_narrow(reader, "");
    struct decoder decoder = bert_read(reader, "electra", &record);
    bert_want_gelu(reader, &decoder);
    decoder.embedding_is_narrow = own.embedding_size != decoder.hidden;
    decoder.embedding_size = decoder.embedding_is_narrow ? own.embedding_size : 0;
    return family_decoder(reader, &decoder);
}

static const void *read_albert(struct family_reader *reader)
{
    struct bert record = {BERT_DEFAULTS};
    record.hidden_act = "gelu_new";
    record.hidden_dropout_prob = record.attention_probs_dropout_prob = 0;
    struct narrow own = read_narrow(reader, "num_hidden_groups inner_group_num");
    struct decoder decoder = bert_read(reader, "albert", &record);
    decoder.layers_are_one = decoder.embedding_is_narrow = true;
    decoder.embedding_size = own.embedding_size;
    // What drops out of attention and behind it; nothing does behind the mlp.
    if (!reader->err->kind && decoder.hidden_dropout > 0)
        family_fail(reader, "hidden_dropout_prob", "must be 0 for albert, as in its releases");
    if (!reader->err->kind && own.num_hidden_groups * own.inner_group_num != 1)
        family_fail(reader, own.num_hidden_groups > 1 ? "num_hidden_groups" : "inner_group_num",
                    "must be 1: layers of several groups are not supported");
    return family_decoder(reader, &decoder);
}

struct rotated {
    double rope_theta;
    int64_t head_dim;
};
static const struct json_field ROTATED_FIELDS[] = {
    {JSON_OPT_F64(struct rotated, rope_theta, 1, 1e15)},
    {JSON_OPT_I64(struct rotated, head_dim, 1, HEADS_MAX)},
    {JSON_OPT_ANY("rope_parameters")},
    {0},
};

static struct decoder read_rotated(struct family_reader *reader, const char *model_type,
                                   struct bert *record, double theta)
{
    const struct family_keys keys = {.optional = "rope_theta"};
    struct rotated own = {.rope_theta = theta};
    record->lacks_positions = true;
    struct decoder decoder = bert_read(reader, model_type, record);
    family_read(reader, ROTATED_FIELDS, &own);
    family_read_rope(reader, ROTATED_FIELDS, &own);
    family_absent(reader, ROTATED_FIELDS, &own, &keys);
    if (!reader->err->kind && own.head_dim > 0 && own.head_dim != decoder.head_dim)
        family_fail(reader, "head_dim", "must be that of the heads, %lld",
                    (long long)decoder.head_dim);
    decoder.rope_theta = own.rope_theta;
    decoder.rotary_dims = decoder.head_dim;
    return decoder;
}

// Without biases, and with a gate.
static const void *read_nomic_bert(struct family_reader *reader)
{
    struct bert record = {BERT_DEFAULTS};
    record.hidden_act = "silu";
    record.max_position_embeddings = 2048;
    record.hidden_dropout_prob = record.attention_probs_dropout_prob = 0;
    struct decoder decoder = read_rotated(reader, "nomic_bert", &record, 1000);
    decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = false;
    decoder.gated = true;
    return family_decoder(reader, &decoder);
}

static const void *read_jina_embeddings_v3(struct family_reader *reader)
{
    struct bert record = {BERT_DEFAULTS};
    record.type_vocab_size = 1;
    record.max_position_embeddings = 8194;
    record.layer_norm_eps = 1e-5;
    struct decoder decoder = read_rotated(reader, "jina_embeddings_v3", &record, 20000);
    bert_want_gelu(reader, &decoder);
    return family_decoder(reader, &decoder);
}

// A gate, and of the mlp a bias at its end.
static const void *read_gte(struct family_reader *reader)
{
    struct bert record = {BERT_DEFAULTS};
    record.type_vocab_size = 1;
    record.max_position_embeddings = 8192;
    record.attention_probs_dropout_prob = 0;
    struct decoder decoder = read_rotated(reader, "gte", &record, 160000);
    bert_want_gelu(reader, &decoder);
    decoder.mlp_bias = false;
    decoder.down_bias = decoder.gated = true;
    decoder.ffn_dropout = decoder.hidden_dropout;
    return family_decoder(reader, &decoder);
}

// Rotates by a base of its own, in pairs of neighbours (another order of the weights' columns).
static const void *read_roformer(struct family_reader *reader)
{
    struct {
        int64_t embedding_size;
        bool rotary_value;
    } own = {0};
    const struct json_field fields[] = {
        {"embedding_size", JSON_TYPE_I64, 0, 1, WIDTH_MAX, true},
        {"rotary_value", JSON_TYPE_BOOL, sizeof own.embedding_size, 0, 0, true},
        {0}};
    const struct family_keys keys = {.optional = "rotary_value"};
    struct bert record = {BERT_DEFAULTS, .lacks_positions = true};
    record.max_position_embeddings = 1536;
    family_read(reader, fields, &own);
    family_absent(reader, fields, &own, &keys);
    struct decoder decoder = bert_read(reader, "roformer", &record);
    if (!reader->err->kind && own.rotary_value)
        family_fail(reader, "rotary_value", "values that rotate are not supported");
    if (!reader->err->kind && own.embedding_size == 0)
        family_taken(reader, "embedding_size", "%lld (hidden_size)", (long long)decoder.hidden);
    decoder.rope_theta = 10000;
    decoder.rotary_dims = decoder.head_dim;
    decoder.embedding_is_narrow = own.embedding_size > 0 && own.embedding_size != decoder.hidden;
    decoder.embedding_size = decoder.embedding_is_narrow ? own.embedding_size : 0;
    return family_decoder(reader, &decoder);
}

struct rembert {
    int64_t input_embedding_size, output_embedding_size;
};
static const struct json_field REMBERT_FIELDS[] = {
    {JSON_OPT_I64(struct rembert, input_embedding_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct rembert, output_embedding_size, 1, WIDTH_MAX)},
    {0},
};

// Two tables of tokens: a narrow one to embed by, a wide one to score by.
static const void *read_rembert(struct family_reader *reader)
{
    const struct family_keys keys = {.dimensions = "input_embedding_size output_embedding_size"};
    struct rembert own = {0};
    struct bert record = {BERT_DEFAULTS};
    record.hidden_dropout_prob = record.attention_probs_dropout_prob = 0;
    record.tie_word_embeddings = false;
    family_read(reader, REMBERT_FIELDS, &own);
    family_absent(reader, REMBERT_FIELDS, &own, &keys);
    struct decoder decoder = bert_read(reader, "rembert", &record);
    decoder.embedding_is_narrow = true;
    decoder.embedding_size = own.input_embedding_size;
    decoder.head_size = own.output_embedding_size;
    if (!reader->err->kind && decoder.tied)
        family_fail(reader, "tie_word_embeddings", "must be false: the tables differ in width");
    return family_decoder(reader, &decoder);
}

struct esm {
    const char *position_embedding_type;
    bool emb_layer_norm_before, token_dropout;
    double rope_theta;
};
static const struct json_field ESM_FIELDS[] = {
    {JSON_OPT_TEXT(struct esm, position_embedding_type)},
    {JSON_OPT_BOOL(struct esm, emb_layer_norm_before)},
    {JSON_OPT_BOOL(struct esm, token_dropout)},
    {JSON_OPT_F64(struct esm, rope_theta, 1, 1e15)},
    {0},
};

// Proteins as texts (ESM-2, Lin et al. 2023): norms in front, rotated or with a table. Where masked
// tokens are zeros, others are scaled by the share of them that training has; what is predicted of
// contacts is no part of the loss, and its parameters are not counted.
static const void *read_esm(struct family_reader *reader)
{
    static const double UNMASKED = 1 - 0.15 * 0.8;
    const struct family_keys keys = {
        .optional = "position_embedding_type emb_layer_norm_before token_dropout rope_theta"};
    struct esm own = {.position_embedding_type = "absolute", .rope_theta = 10000};
    struct bert record = {BERT_DEFAULTS, .lacks_types = true};
    record.max_position_embeddings = 1026;
    family_read(reader, ESM_FIELDS, &own);
    family_absent(reader, ESM_FIELDS, &own, &keys);
    bool is_rotated = strcmp(own.position_embedding_type, "rotary") == 0;
    record.lacks_positions = is_rotated;
    struct decoder decoder = bert_read(reader, "esm", &record);
    if (reader->err->kind) return NULL;
    if (!is_rotated && strcmp(own.position_embedding_type, "absolute") != 0)
        family_fail(reader, "position_embedding_type", "must be \"rotary\" or \"absolute\"");
    if (!is_rotated) bert_start_behind_padding(reader, &decoder);
    assert(decoder.layer_count > 0);
    bert_want_gelu(reader, &decoder);
    bert_norm_before(&decoder);
    decoder.embedding_norm = own.emb_layer_norm_before;
    decoder.embedding_dropout = 0;
    if (own.token_dropout) decoder.embedding_scale = UNMASKED;
    if (is_rotated) decoder.rope_theta = own.rope_theta;
    if (is_rotated) decoder.rotary_dims = decoder.head_dim;
    return family_decoder(reader, &decoder);
}

const struct model_family FAMILY_REMBERT = {"rembert", read_rembert, decoder_graph,
                                            "RemBertConfig"};
const struct model_family FAMILY_ROFORMER = {"roformer", read_roformer, decoder_graph,
                                             "RoFormerConfig"};
const struct model_family FAMILY_ESM = {"esm", read_esm, decoder_graph, "EsmConfig"};
const struct model_family FAMILY_GTE = {"gte", read_gte, decoder_graph, "GteConfig"};
const struct model_family FAMILY_MPNET = {"mpnet", read_mpnet, decoder_graph, "MPNetConfig"};
const struct model_family FAMILY_ELECTRA = {"electra", read_electra, decoder_graph,
                                            "ElectraConfig"};
const struct model_family FAMILY_ALBERT = {"albert", read_albert, decoder_graph, "AlbertConfig"};
const struct model_family FAMILY_NOMIC_BERT = {"nomic_bert", read_nomic_bert, decoder_graph,
                                               "NomicBertConfig"};
const struct model_family FAMILY_JINA_EMBEDDINGS_V3 = {
    "jina_embeddings_v3", read_jina_embeddings_v3, decoder_graph, "JinaEmbeddingsV3Config"};
const struct model_family FAMILY_SQUEEZEBERT = {"squeezebert", read_squeezebert, decoder_graph,
                                                "SqueezeBertConfig"};
