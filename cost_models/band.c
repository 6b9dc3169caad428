#include "cost_models/band.h"
#include "core/file.h"
#include "core/names.h"

#include <assert.h>
#include <string.h>

static const struct json_field FILE_FIELDS[] = {
    {JSON_ANY("bands")},
    {JSON_ANY("pairs")},
    {JSON_OPT_ANY("memory")},
    {JSON_OPT_ANY("anchored")},
    {JSON_OPT_ANY("unfitted")},
    {JSON_OPT_ANY("selection")},
    {0},
};

static const struct json_field BAND_FIELDS[] = {
    {JSON_TEXT(struct band, device)},
    {JSON_TEXT(struct band, stack)},
    {JSON_TEXT(struct band, kind)},
    {JSON_ANY("confidence")},
    {JSON_F64(struct band, low_ratio, 0.01, 1)},
    {JSON_F64(struct band, high_ratio, 1, 100)},
    {JSON_INT(struct band, row_count, 0, 1e6)},
    {JSON_INT(struct band, family_count, 0, 1e6)},
    {JSON_TEXT(struct band, source)},
    {0},
};

static const struct json_field PAIRS_FIELDS[] = {
    {JSON_F64(struct band_pairs, difference_ratio, 0, 100)},
    {JSON_INT(struct band_pairs, pair_count, 1, 1e9)},
    {JSON_F64(struct band_pairs, right_ratio, 0, 1)},
    {JSON_TEXT(struct band_pairs, source)},
    {0},
};

static const struct json_shape BAND_SHAPE = {BAND_FIELDS, NULL};
static const struct json_shape PAIRS_SHAPE = {PAIRS_FIELDS, NULL};
static const struct json_part FILE_PARTS[] = {
    {"bands", JSON_PART_LIST, &BAND_SHAPE, NULL},
    {"pairs", JSON_PART_LIST, &PAIRS_SHAPE, NULL},
    {0},
};
static const struct json_shape FILE_SHAPE = {FILE_FIELDS, FILE_PARTS};

enum { KIND_COUNT = 3 };
static const char *const KINDS[KIND_COUNT] = {"dense", "dense-low-precision", "mixture"};
static const char *const CONFIDENCES[CONFIDENCE_COUNT] = {"validated", "extrapolated", "datasheet",
                                                          "anchored"};

const char *band_kind(int64_t expert_count, bool narrow)
{
    assert(expert_count >= 0);
    return expert_count > 0 ? KINDS[2] : KINDS[narrow];
}

const char *confidence_name(enum confidence confidence)
{
    assert((int)confidence < CONFIDENCE_COUNT);
    return CONFIDENCES[confidence];
}

// Where `text` stands among `names`, or -1.
static void read_band(const struct json *row, struct band *band, struct err *err)
{
    json_read(row, BAND_FIELDS, band, err);
    if (err->kind) return;
    if (NAME_INDEX(KINDS, band->kind) < 0) {
        struct json kind = json_get(row, "kind", err);
        json_fail(&kind, err, "expected dense, dense-low-precision or mixture, found \"%s\"",
                  band->kind);
    }
    struct json at = json_get(row, "confidence", err);
    const char *text = json_text(&at, err);
    int confidence = err->kind ? 0 : name_index(CONFIDENCES, CONFIDENCE_ANCHORED, text);
    if (!err->kind && confidence < 0) {
        json_fail(&at, err, "expected validated, extrapolated or datasheet, found \"%s\"", text);
    }
    if (!err->kind) band->confidence = (enum confidence)confidence;
}

// What bands_find falls back to has to be there, so that it finds a row of any known kind.
static void check_kinds(const struct json *rows, const struct bands *bands, struct err *err)
{
    for (int i = 0; i < KIND_COUNT && !err->kind; i++) {
        if (bands_find(bands, "*", "*", KINDS[i], false)) continue;
        json_fail(rows, err, "needs a row for device \"*\", stack \"*\", kind \"%s\", datasheet",
                  KINDS[i]);
    }
}

static void read_bands(struct arena *arena, const struct json *rows, struct bands *bands,
                       struct err *err)
{
    bands->count = json_count(rows, err);
    if (err->kind) return;
    bands->rows = ARENA_NEW(arena, struct band, bands->count);
    for (int i = 0; i < bands->count && !err->kind; i++) {
        struct json row = json_item(rows, i);
        read_band(&row, &bands->rows[i], err);
    }
    check_kinds(rows, bands, err);
}

// Differences grow, and the last row, which has none, takes the rest.
static void read_pairs(struct arena *arena, const struct json *rows, struct bands *bands,
                       struct err *err)
{
    bands->pairs_count = json_count(rows, err);
    if (err->kind) return;
    bands->pairs = ARENA_NEW(arena, struct band_pairs, bands->pairs_count);
    double before = 0;
    for (int i = 0; i < bands->pairs_count && !err->kind; i++) {
        struct json row = json_item(rows, i);
        struct band_pairs *pairs = &bands->pairs[i];
        json_read(&row, PAIRS_FIELDS, pairs, err);
        bool last = i == bands->pairs_count - 1;
        bool fine = last ? pairs->difference_ratio == 0 : pairs->difference_ratio > before;
        before = pairs->difference_ratio;
        if (err->kind || fine) continue;
        struct json at = json_get(&row, "difference_ratio", err);
        json_fail(&at, err,
                  last ? "expected 0 (any) in the last row, found %g"
                       : "expected more than in the row before, found %g",
                  before);
    }
}

const struct bands *bands_read(struct arena *arena, const struct json *root, struct err *err)
{
    struct bands *bands = ARENA_NEW(arena, struct bands, 1);
    json_check(root, &FILE_SHAPE, err);
    json_read(root, FILE_FIELDS, bands, err);
    struct json rows = json_get(root, "bands", err), pairs = json_get(root, "pairs", err);
    if (!err->kind) read_bands(arena, &rows, bands, err);
    if (!err->kind) read_pairs(arena, &pairs, bands, err);
    if (!err->kind) bands_read_others(arena, root, bands, err);
    return err->kind ? NULL : bands;
}

const struct bands *bands_load(struct arena *arena, struct err *err)
{
    const char *path = file_find_data(arena, "cost_models", "bands", "band", err);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!path || !json_load(arena, path, document, err)) return NULL;
    struct json root = json_root(document);
    return bands_read(arena, &root, err);
}

static void write_band(struct json_writer *writer, const struct band *band)
{
    assert(band->low_ratio <= 1 && band->high_ratio >= 1 && "as the reader wants it");
    json_open_flat(writer, NULL, '{');
    const struct json_field *by_hand = json_put_fields(writer, BAND_FIELDS, band);
    json_put_text(writer, by_hand->key, confidence_name(band->confidence));
    json_put_fields(writer, by_hand + 1, band);
    json_close(writer, '}');
}

void bands_write(struct json_writer *writer, const struct bands *bands)
{
    json_open(writer, NULL, '{');
    json_open(writer, "bands", '[');
    for (int i = 0; i < bands->count; i++) {
        write_band(writer, &bands->rows[i]);
    }
    json_close(writer, ']');
    json_open(writer, "pairs", '[');
    for (int i = 0; i < bands->pairs_count; i++) {
        json_open_flat(writer, NULL, '{');
        json_put_fields(writer, PAIRS_FIELDS, &bands->pairs[i]);
        json_close(writer, '}');
    }
    json_close(writer, ']');
    bands_write_others(writer, bands);
    json_close(writer, '}');
}

bool band_is_datasheet(const struct band *band)
{
    return band->confidence == CONFIDENCE_DATASHEET || band->was_datasheet;
}

// The row of just these names; of device "*" there are datasheet rows and others.
static const struct band *named(const struct bands *bands, const char *device, const char *stack,
                                const char *kind, bool datasheet)
{
    for (int i = 0; i < bands->count; i++) {
        const struct band *band = &bands->rows[i];
        if (band_is_datasheet(band) == datasheet && strcmp(band->kind, kind) == 0 &&
            strcmp(band->device, device) == 0 && strcmp(band->stack, stack) == 0) {
            return band;
        }
    }
    return NULL;
}

// A prediction that rests on both is no surer than the less sure of them.
static const struct band *wider(const struct band *a, const struct band *b)
{
    if (!a || !b) return a ? a : b;
    return a->high_ratio / a->low_ratio >= b->high_ratio / b->low_ratio ? a : b;
}

// From the most particular to the least: the pair, the device and the stack each alone, neither.
const struct band *bands_find(const struct bands *bands, const char *device, const char *stack,
                              const char *kind, bool calibrated)
{
    bool is_any = strcmp(device, "*") == 0;
    const struct band *pair = is_any ? NULL : named(bands, device, stack, kind, false);
    if (pair) return pair;
    const struct band *by_device = is_any ? NULL : named(bands, device, "*", kind, false);
    const struct band *found = NULL;
    if (by_device || calibrated) found = wider(by_device, named(bands, "*", stack, kind, false));
    if (!found && calibrated) found = named(bands, "*", "*", kind, false);
    if (!found) found = named(bands, "*", stack, kind, true);
    return found ? found : named(bands, "*", "*", kind, true);
}

const struct band_pairs *bands_pairs(const struct bands *bands, double difference_ratio)
{
    assert(difference_ratio >= 0 && "of the slower over the faster");
    for (int i = 0; i < bands->pairs_count; i++) {
        const struct band_pairs *pairs = &bands->pairs[i];
        bool last = pairs->difference_ratio == 0;
        if (last || difference_ratio <= pairs->difference_ratio) return pairs;
    }
    return NULL;
}
