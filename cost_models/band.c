#include "cost_models/band.h"
#include "core/file.h"

#include <assert.h>
#include <string.h>

static const struct json_field FILE_FIELDS[] = {{JSON_ANY("bands")}, {0}};

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

enum { KIND_COUNT = 3, CONFIDENCE_COUNT = 3 };
static const char *const KINDS[KIND_COUNT] = {"dense", "dense-narrow", "mixture"};
static const char *const CONFIDENCES[CONFIDENCE_COUNT] = {"validated", "extrapolated", "datasheet"};

const char *band_kind(int64_t expert_count, bool narrow)
{
    return expert_count > 0 ? KINDS[2] : KINDS[narrow];
}

const char *confidence_name(enum confidence confidence)
{
    assert((int)confidence < CONFIDENCE_COUNT);
    return CONFIDENCES[confidence];
}

// Where `text` stands among `names`, or -1.
static int find_name(const char *const *names, int count, const char *text)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], text) == 0) return i;
    }
    return -1;
}

static void read_band(const struct json *row, struct band *band, struct err *err)
{
    json_read(row, BAND_FIELDS, band, err);
    if (err->kind) return;
    if (find_name(KINDS, KIND_COUNT, band->kind) < 0) {
        struct json kind = json_get(row, "kind", err);
        json_fail(&kind, err, "expected dense, dense-narrow or mixture, found \"%s\"", band->kind);
    }
    struct json at = json_get(row, "confidence", err);
    const char *text = json_text(&at, err);
    int confidence = err->kind ? 0 : find_name(CONFIDENCES, CONFIDENCE_COUNT, text);
    if (!err->kind && confidence < 0) {
        json_fail(&at, err, "expected validated, extrapolated or datasheet, found \"%s\"", text);
    }
    if (!err->kind) band->confidence = (enum confidence)confidence;
}

const struct bands *bands_load(struct arena *arena, struct err *err)
{
    const char *path = file_find_data(arena, "cost_models", "bands", "band", err);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!path || !json_load(arena, path, document, err)) return NULL;
    struct json root = json_root(document);
    struct bands *bands = ARENA_NEW(arena, struct bands, 1);
    json_read(&root, FILE_FIELDS, bands, err);
    struct json rows = json_get(&root, "bands", err);
    bands->count = json_count(&rows, err);
    if (err->kind) return NULL;
    bands->rows = ARENA_NEW(arena, struct band, bands->count);
    for (int i = 0; i < bands->count; i++) {
        struct json row = json_item(&rows, i);
        read_band(&row, &bands->rows[i], err);
    }
    for (int i = 0; i < KIND_COUNT && !err->kind; i++) {
        if (bands_find(bands, "*", "*", KINDS[i])) continue;
        json_fail(&rows, err, "needs a row for device \"*\", stack \"*\" and kind \"%s\"",
                  KINDS[i]);
    }
    return err->kind ? NULL : bands;
}

// 3: both are named, 2: the device, 1: the stack, 0: neither; -1: another pair, or another kind.
static int match(const struct band *band, const char *device, const char *stack, const char *kind)
{
    if (strcmp(band->kind, kind) != 0) return -1;
    bool any_device = strcmp(band->device, "*") == 0, any_stack = strcmp(band->stack, "*") == 0;
    if (!any_device && strcmp(band->device, device) != 0) return -1;
    if (!any_stack && strcmp(band->stack, stack) != 0) return -1;
    return (any_device ? 0 : 2) + (any_stack ? 0 : 1);
}

const struct band *bands_find(const struct bands *bands, const char *device, const char *stack,
                              const char *kind)
{
    const struct band *best = NULL;
    int best_match = -1;
    for (int i = 0; i < bands->count; i++) {
        int found = match(&bands->rows[i], device, stack, kind);
        if (found <= best_match) continue;
        best_match = found;
        best = &bands->rows[i];
    }
    return best;
}
