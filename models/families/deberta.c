#include "models/families/bert.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// DebertaV2ForMaskedLM: bert with scores that take where tokens stand from a table of distances (He
// et al. 2021), and from nothing else where position_biased_input is false, as in all releases. Of
// v3 keys and queries of distances are made as those of tokens are. The first DeBERTa has no bias
// of keys, of tokens and distances, no ranges, and no norm of the table.

struct deberta {
    int64_t attention_head_size, embedding_size, max_relative_positions, position_buckets;
    const char *norm_rel_ebd;
    bool relative_attention, position_biased_input, share_att_key;
};

static const struct json_field FIELDS[] = {
    {JSON_OPT_I64(struct deberta, attention_head_size, 1, HEADS_MAX)},
    {JSON_OPT_I64(struct deberta, embedding_size, 1, WIDTH_MAX)},
    {JSON_OPT_I64(struct deberta, max_relative_positions, -1, POSITIONS_MAX)},
    {JSON_OPT_I64(struct deberta, position_buckets, -1, POSITIONS_MAX)},
    {JSON_OPT_TEXT(struct deberta, norm_rel_ebd)},
    {JSON_OPT_BOOL(struct deberta, relative_attention)},
    {JSON_OPT_BOOL(struct deberta, position_biased_input)},
    {JSON_OPT_BOOL(struct deberta, share_att_key)},
    {JSON_OPT_ANY("pos_att_type")},
    {JSON_OPT_ANY("conv_kernel_size")},
    {0},
};

#define COMMON "relative_attention position_biased_input max_relative_positions"
static const struct family_keys KEYS = {.optional =
                                            COMMON " share_att_key position_buckets norm_rel_ebd"};
static const struct family_keys FIRST_KEYS = {.optional = COMMON};

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
static struct disentangled distances(struct family_reader *reader, const struct deberta *record,
                                     int64_t position_count)
{
    struct disentangled of = {.shares = record->share_att_key,
                              .is_normed = strstr(record->norm_rel_ebd, "layer_norm") != NULL};
    read_kinds(reader, &of);
    if (!record->relative_attention) return of;
    int64_t most =
        record->max_relative_positions > 0 ? record->max_relative_positions : position_count;
    of.span = record->position_buckets > 0 ? record->position_buckets : most;
    of.distance = record->position_buckets > 0 ? most : 0;
    assert(most > 0 && of.span > 0);
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

// Sizes that its class derives: another would be another model, not a variant of this one.
static void check_widths(struct family_reader *reader, const struct deberta *record,
                         const struct decoder *decoder)
{
    if (record->attention_head_size > 0 && record->attention_head_size != decoder->head_dim)
        family_fail(reader, "attention_head_size", "must be that of the heads, %lld",
                    (long long)decoder->head_dim);
    if (record->embedding_size > 0 && record->embedding_size != decoder->hidden)
        family_fail(reader, "embedding_size", "must be hidden_size, %lld",
                    (long long)decoder->hidden);
}

static const void *read_as(struct family_reader *reader, const char *model_type, bool is_first)
{
    struct bert common = {BERT_DEFAULTS};
    common.layer_norm_eps = 1e-7;
    common.type_vocab_size = 0;
    struct deberta record = {.norm_rel_ebd = "none",
                             .max_relative_positions = -1,
                             .position_buckets = -1,
                             .position_biased_input = true};
    family_read(reader, FIELDS, &record);
    family_absent(reader, FIELDS, &record, is_first ? &FIRST_KEYS : &KEYS);
    struct decoder decoder = bert_read(reader, model_type, &common);
    if (reader->err->kind) return NULL;
    if (is_first) {
        record.position_buckets = -1;
        record.norm_rel_ebd = "none";
        record.share_att_key = false;
    }
    if (!record.position_biased_input) decoder.position_count = 0;
    decoder.key_is_unbiased = is_first;
    decoder.disentangled = distances(reader, &record, common.max_position_embeddings);
    const struct disentangled *of = &decoder.disentangled;
    // Of as many summands as pos_att_type tells of, also where there is no table of distances.
    int64_t kinds = 1 + of->by_query + of->by_key;
    decoder.score_factor = 1 / sqrt((double)(decoder.head_dim * kinds));
    check_widths(reader, &record, &decoder);
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
