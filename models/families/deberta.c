#include "models/families/family.h"

#include <math.h>
#include <string.h>

// DebertaV2ForMaskedLM: bert with scores that take where tokens stand from a table of distances (He
// et al. 2021), and from nothing else where position_biased_input is false, as in all releases. Of
// v3 keys and queries of distances are made as those of tokens are. The first DeBERTa has no bias
// of keys, of tokens and distances, no ranges, and no norm of the table.

struct deberta {
    int64_t vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size;
    int64_t max_position_embeddings, type_vocab_size, attention_head_size, embedding_size;
    int64_t max_relative_positions, position_buckets;
    const char *hidden_act, *norm_rel_ebd;
    double layer_norm_eps, hidden_dropout_prob, attention_probs_dropout_prob;
    bool tie_word_embeddings, relative_attention, position_biased_input, share_att_key;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct deberta, vocab_size, 1, VOCAB_MAX)},
    {JSON_OPT_I64(struct deberta, hidden_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deberta, num_hidden_layers, 1, LAYERS_MAX)},
    {JSON_OPT_I64(struct deberta, num_attention_heads, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct deberta, intermediate_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deberta, max_position_embeddings, 1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct deberta, type_vocab_size, 0, VOCAB_MAX)},
    {JSON_OPT_I64(struct deberta, attention_head_size, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct deberta, embedding_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deberta, max_relative_positions, -1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct deberta, position_buckets, -1, POSITIONS_MAX)},
    {JSON_OPT_TEXT(struct deberta, hidden_act)},
    {JSON_OPT_TEXT(struct deberta, norm_rel_ebd)},
    {JSON_OPT_F64(struct deberta, layer_norm_eps, 0, 1)},
    {JSON_OPT_F64(struct deberta, hidden_dropout_prob, 0, DROPOUT_MAX)},
    {JSON_OPT_F64(struct deberta, attention_probs_dropout_prob, 0, DROPOUT_MAX)},
    {JSON_OPT_BOOL(struct deberta, tie_word_embeddings)},
    {JSON_OPT_BOOL(struct deberta, relative_attention)},
    {JSON_OPT_BOOL(struct deberta, position_biased_input)},
    {JSON_OPT_BOOL(struct deberta, share_att_key)},
    {JSON_OPT_ANY("pos_att_type")},
    {JSON_OPT_ANY("model_type")},
    {JSON_OPT_ANY("conv_kernel_size")},
    {0},
};

#define COMMON_DIMENSIONS                                                             \
    "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size " \
    "max_position_embeddings"
#define COMMON_OPTIONAL                                                                          \
    "hidden_act type_vocab_size layer_norm_eps hidden_dropout_prob "                             \
    "attention_probs_dropout_prob tie_word_embeddings relative_attention position_biased_input " \
    "max_relative_positions"

static const struct family_keys KEYS = {.dimensions = COMMON_DIMENSIONS,
                                        .optional = COMMON_OPTIONAL
                                        " share_att_key position_buckets norm_rel_ebd"};
static const struct family_keys FIRST_KEYS = {.dimensions = COMMON_DIMENSIONS,
                                              .optional = COMMON_OPTIONAL};

// One of the words of "p2c|c2p", or of a list of them.
static void read_kind(struct family_reader *reader, const char *word, size_t length,
                      struct disentangled *of)
{
    while (length > 0 && word[0] == ' ')
        word++, length--;
    while (length > 0 && word[length - 1] == ' ')
        length--;
    if (length == 3 && strncmp(word, "c2p", length) == 0) {
        of->by_query = true;
    } else if (length == 3 && strncmp(word, "p2c", length) == 0) {
        of->by_key = true;
    } else {
        family_fail(reader, "pos_att_type", "found \"%.*s\", wanted \"c2p\" or \"p2c\"",
                    (int)length, word);
    }
}

static void read_kinds(struct family_reader *reader, struct disentangled *of)
{
    static const char KEY[] = "pos_att_type";
    if (!json_has(reader->object, KEY) || family_is_null(reader, KEY)) {
        family_taken(reader, KEY, "none");
        return;
    }
    struct json value = json_get(reader->object, KEY, reader->err);
    int count = json_is_array(&value) ? json_count(&value, reader->err) : 0;
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json item = json_item(&value, i);
        const char *word = json_text(&item, reader->err);
        if (word) read_kind(reader, word, strlen(word), of);
    }
    if (json_is_array(&value)) return;
    const char *at = json_text(&value, reader->err);
    while (at && !reader->err->kind) {
        const char *end = strchr(at, '|');
        read_kind(reader, at, end ? (size_t)(end - at) : strlen(at), of);
        at = end ? end + 1 : NULL;
    }
}

// Distances: each its own row, up to `max_relative_positions` (or the positions), or in buckets of
// which those of half the rows are single distances.
static struct disentangled distances(struct family_reader *reader, const struct deberta *record)
{
    struct disentangled of = {.shares = record->share_att_key,
                              .is_normed = strstr(record->norm_rel_ebd, "layer_norm") != NULL};
    read_kinds(reader, &of);
    if (!record->relative_attention) return of;
    int64_t most = record->max_relative_positions > 0 ? record->max_relative_positions
                                                      : record->max_position_embeddings;
    of.span = record->position_buckets > 0 ? record->position_buckets : most;
    of.distance = record->position_buckets > 0 ? most : 0;
    bool is_even = of.span % 2 == 0 && (of.distance == 0 || of.distance - 1 > of.span / 2);
    if (of.distance > 0 && !is_even)
        family_fail(reader, "position_buckets",
                    "must be even, and half of it below the most "
                    "distant position, %lld",
                    (long long)most - 1);
    if (!of.by_query && !of.by_key)
        family_fail(reader, "pos_att_type", "relative attention asks for \"c2p\" or \"p2c\"");
    return of;
}

static struct decoder describe(const char *model_type, const struct deberta *record)
{
    return (struct decoder){
        .model_type = model_type,
        .vocab = record->vocab_size,
        .hidden = record->hidden_size,
        .layer_count = record->num_hidden_layers,
        .head_count = record->num_attention_heads,
        .ffn = record->intermediate_size,
        .seq_len_max = record->max_position_embeddings,
        .position_count = record->position_biased_input ? record->max_position_embeddings : 0,
        .type_count = record->type_vocab_size,
        .embedding_norm = true,
        .norm_place = NORM_AFTER,
        .norm = FUNCTION_LAYER_NORM,
        .norm_epsilon = record->layer_norm_eps,
        .no_final_norm = true,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .bidirectional = true,
        .tied = record->tie_word_embeddings,
        .masked_head = true,
        .attention_dropout = record->attention_probs_dropout_prob,
        .hidden_dropout = record->hidden_dropout_prob,
        .embedding_dropout = record->hidden_dropout_prob,
    };
}

static const void *read_as(struct family_reader *reader, const char *model_type, bool is_first)
{
    struct deberta record = {.hidden_act = "gelu",
                             .norm_rel_ebd = "none",
                             .layer_norm_eps = 1e-7,
                             .hidden_dropout_prob = 0.1,
                             .attention_probs_dropout_prob = 0.1,
                             .max_relative_positions = -1,
                             .position_buckets = -1,
                             .position_biased_input = true,
                             .tie_word_embeddings = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, is_first ? &FIRST_KEYS : &KEYS);
    if (!family_complete(reader)) return NULL;
    if (is_first) {
        record.position_buckets = -1;
        record.norm_rel_ebd = "none";
        record.share_att_key = false;
    }
    struct decoder decoder = describe(model_type, &record);
    decoder.key_is_unbiased = is_first;
    family_check_heads(reader, &decoder, "num_attention_heads", "num_attention_heads");
    decoder.activation = family_activation(reader, "hidden_act", record.hidden_act);
    decoder.disentangled = distances(reader, &record);
    const struct disentangled *of = &decoder.disentangled;
    // Of as many summands as pos_att_type tells of, also where there is no table of distances.
    int64_t kinds = 1 + of->by_query + of->by_key;
    decoder.score_factor = 1 / sqrt((double)(decoder.head_dim * kinds));
    if (record.attention_head_size > 0 && record.attention_head_size != decoder.head_dim)
        family_fail(reader, "attention_head_size", "must be that of the heads, %lld",
                    (long long)decoder.head_dim);
    if (record.embedding_size > 0 && record.embedding_size != record.hidden_size)
        family_fail(reader, "embedding_size", "must be hidden_size, %lld",
                    (long long)record.hidden_size);
    return family_decoder(reader, &decoder);
}

static const void *read_deberta(struct family_reader *reader)
{
    return read_as(reader, "deberta", true);
}

static const void *read_deberta_v2(struct family_reader *reader)
{
    return read_as(reader, "deberta-v2", false);
}

const struct model_family FAMILY_DEBERTA = {"deberta", read_deberta, decoder_graph,
                                            "DebertaConfig"};
const struct model_family FAMILY_DEBERTA_V2 = {"deberta-v2", read_deberta_v2, decoder_graph,
                                               "DebertaV2Config"};
