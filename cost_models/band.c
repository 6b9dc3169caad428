#include "cost_models/band.h"
#include "core/file.h"

#include <assert.h>
#include <string.h>

static const struct json_field FILE_FIELDS[] = {{JSON_ANY("bands")}, {0}};

static const struct json_field BAND_FIELDS[] = {
    {JSON_TEXT(struct band, device)},
    {JSON_TEXT(struct band, stack)},
    {JSON_TEXT(struct band, models)},
    {JSON_F64(struct band, low_ratio, 0.01, 1)},
    {JSON_F64(struct band, high_ratio, 1, 100)},
    {JSON_INT(struct band, row_count, 0, 1e6)},
    {JSON_TEXT(struct band, source)},
    {0},
};

enum { MODELS_COUNT = 2 };
static const char *const MODELS[MODELS_COUNT] = {"dense", "mixture"};

const char *band_models(int64_t expert_count)
{
    return MODELS[expert_count > 0];
}

static bool is_known(const char *models)
{
    for (int i = 0; i < MODELS_COUNT; i++) {
        if (strcmp(MODELS[i], models) == 0) return true;
    }
    return false;
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
        json_read(&row, BAND_FIELDS, &bands->rows[i], err);
        if (!err->kind && !is_known(bands->rows[i].models)) {
            struct json models = json_get(&row, "models", err);
            json_fail(&models, err, "expected \"dense\" or \"mixture\", found \"%s\"",
                      bands->rows[i].models);
        }
    }
    for (int i = 0; i < MODELS_COUNT && !err->kind; i++) {
        if (bands_find(bands, "*", "*", MODELS[i])) continue;
        json_fail(&rows, err, "needs a row for device \"*\", stack \"*\" and models \"%s\"",
                  MODELS[i]);
    }
    return err->kind ? NULL : bands;
}

// 3: both are named, 2: the device, 1: the stack, 0: neither; -1: another pair, or other models.
static int match(const struct band *band, const char *device, const char *stack, const char *models)
{
    if (strcmp(band->models, models) != 0) return -1;
    bool any_device = strcmp(band->device, "*") == 0, any_stack = strcmp(band->stack, "*") == 0;
    if (!any_device && strcmp(band->device, device) != 0) return -1;
    if (!any_stack && strcmp(band->stack, stack) != 0) return -1;
    return (any_device ? 0 : 2) + (any_stack ? 0 : 1);
}

const struct band *bands_find(const struct bands *bands, const char *device, const char *stack,
                              const char *models)
{
    const struct band *best = NULL;
    int best_match = -1;
    for (int i = 0; i < bands->count; i++) {
        int found = match(&bands->rows[i], device, stack, models);
        if (found <= best_match) continue;
        best_match = found;
        best = &bands->rows[i];
    }
    return best;
}
