#include "cost_models/band.h"
#include "core/file.h"

#include <assert.h>
#include <string.h>

static const struct json_field FILE_FIELDS[] = {{JSON_ANY("bands")}, {0}};

static const struct json_field BAND_FIELDS[] = {
    {JSON_TEXT(struct band, device)},
    {JSON_TEXT(struct band, stack)},
    {JSON_F64(struct band, low_ratio, 0.01, 1)},
    {JSON_F64(struct band, high_ratio, 1, 100)},
    {JSON_INT(struct band, row_count, 0, 1e6)},
    {JSON_TEXT(struct band, source)},
    {0},
};

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
        json_read(&row, BAND_FIELDS, &bands->rows[i], err);
    }
    if (!err->kind && !bands_find(bands, "*", "*")) {
        json_fail(&rows, err, "needs a row for device \"*\" and stack \"*\"");
    }
    return err->kind ? NULL : bands;
}

// 3: both are named, 2: the device, 1: the stack, 0: neither; -1: another pair.
static int match(const struct band *band, const char *device, const char *stack)
{
    bool any_device = strcmp(band->device, "*") == 0, any_stack = strcmp(band->stack, "*") == 0;
    if (!any_device && strcmp(band->device, device) != 0) return -1;
    if (!any_stack && strcmp(band->stack, stack) != 0) return -1;
    return (any_device ? 0 : 2) + (any_stack ? 0 : 1);
}

const struct band *bands_find(const struct bands *bands, const char *device, const char *stack)
{
    const struct band *best = NULL;
    int best_match = -1;
    for (int i = 0; i < bands->count; i++) {
        int found = match(&bands->rows[i], device, stack);
        if (found <= best_match) continue;
        best_match = found;
        best = &bands->rows[i];
    }
    return best;
}
