#include "cost_models/band.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const struct json_field MEMORY_FIELDS[] = {
    {JSON_TEXT(struct memory_band, stack)},
    {JSON_F64(struct memory_band, low_ratio, 0.01, 1)},
    {JSON_F64(struct memory_band, high_ratio, 1, 100)},
    {JSON_INT(struct memory_band, row_count, 1, 1e6)},
    {JSON_INT(struct memory_band, family_count, 1, 1e6)},
    {JSON_TEXT(struct memory_band, source)},
    {0},
};

static const struct json_field SELECTION_FIELDS[] = {
    {JSON_F64(struct selection_band, mean_ratio, 0.1, 10)},
    {JSON_F64(struct selection_band, error_ratio, 0, 1)},
    {JSON_INT(struct selection_band, sweep_count, 1, 1e6)},
    {JSON_INT(struct selection_band, family_count, 2, 1e6)},
    {JSON_TEXT(struct selection_band, source)},
    {0},
};

static const struct json_field ANCHORED_FIELDS[] = {
    {JSON_F64(struct anchored_band, low_ratio, 0.01, 1)},
    {JSON_F64(struct anchored_band, high_ratio, 1, 100)},
    {JSON_INT(struct anchored_band, row_count, 1, 1e6)},
    {JSON_INT(struct anchored_band, family_count, 1, 1e6)},
    {JSON_TEXT(struct anchored_band, source)},
    {0},
};

static void widen(struct arena *arena, struct bands *bands)
{
    assert(bands->selection.mean_ratio > 0 && bands->selection.error_ratio >= 0);
    const struct selection_band *selection = &bands->selection;
    double low = selection->mean_ratio / (1 + selection->error_ratio);
    double high = selection->mean_ratio * (1 + selection->error_ratio);
    bands->selected = ARENA_NEW(arena, struct band, bands->count);
    for (int i = 0; i < bands->count; i++) {
        bands->selected[i] = bands->rows[i];
        if (low < 1) bands->selected[i].low_ratio *= low;
        if (high > 1) bands->selected[i].high_ratio *= high;
    }
}

void bands_read_others(struct arena *arena, const struct json *root, struct bands *bands,
                       struct err *err)
{
    if (json_has(root, "memory")) {
        struct json rows = json_get(root, "memory", err);
        int count = json_count(&rows, err);
        bands->memory = ARENA_NEW(arena, struct memory_band, count);
        for (int i = 0; i < count && !err->kind; i++) {
            struct json row = json_item(&rows, i);
            json_read(&row, MEMORY_FIELDS, &bands->memory[i], err);
        }
        bands->memory_count = count;
    }
    if (!err->kind && json_has(root, "anchored")) {
        struct json anchored = json_get(root, "anchored", err);
        json_read(&anchored, ANCHORED_FIELDS, &bands->anchored, err);
    }
    if (!err->kind && json_has(root, "unfitted")) {
        struct json unfitted = json_get(root, "unfitted", err);
        json_read(&unfitted, ANCHORED_FIELDS, &bands->unfitted, err);
    }
    if (err->kind || !json_has(root, "selection")) return;
    struct json selection = json_get(root, "selection", err);
    json_read(&selection, SELECTION_FIELDS, &bands->selection, err);
    if (!err->kind) widen(arena, bands);
}

static void write_anchored(struct json_writer *writer, const char *key,
                           const struct anchored_band *band)
{
    if (band->row_count == 0) return;
    json_open_flat(writer, key, '{');
    json_put_fields(writer, ANCHORED_FIELDS, band);
    json_close(writer, '}');
}

void bands_write_others(struct json_writer *writer, const struct bands *bands)
{
    const struct selection_band *selection = &bands->selection;
    if (bands->memory_count > 0) json_open(writer, "memory", '[');
    for (int i = 0; i < bands->memory_count; i++) {
        json_open_flat(writer, NULL, '{');
        json_put_fields(writer, MEMORY_FIELDS, &bands->memory[i]);
        json_close(writer, '}');
    }
    if (bands->memory_count > 0) json_close(writer, ']');
    write_anchored(writer, "anchored", &bands->anchored);
    write_anchored(writer, "unfitted", &bands->unfitted);
    if (selection->sweep_count == 0) return;
    json_open_flat(writer, "selection", '{');
    json_put_fields(writer, SELECTION_FIELDS, selection);
    json_close(writer, '}');
}

static bool is_of_any(const struct memory_band *band)
{
    return strcmp(band->stack, MEMORY_OF_ANY) == 0;
}

const struct memory_band *bands_memory(const struct bands *bands, const char *stack, bool *is_own)
{
    const struct memory_band *widest = NULL, *of_any = NULL;
    for (int i = 0; i < bands->memory_count; i++) {
        const struct memory_band *band = &bands->memory[i];
        *is_own = strcmp(band->stack, stack) == 0;
        if (*is_own) return band;
        if (is_of_any(band)) of_any = band;
        if (!widest || band->high_ratio > widest->high_ratio) widest = band;
    }
    *is_own = false;
    return of_any ? of_any : widest;
}

void bands_put_memory_of_any(struct arena *arena, struct bands *bands,
                             const struct memory_band *band)
{
    struct memory_band *memory = ARENA_NEW(arena, struct memory_band, bands->memory_count + 1);
    int count = 0;
    if (band->row_count > 0) memory[count++] = *band;
    for (int i = 0; i < bands->memory_count; i++) {
        if (!is_of_any(&bands->memory[i])) memory[count++] = bands->memory[i];
    }
    bands->memory = memory;
    bands->memory_count = count;
}

const struct band *bands_selected(const struct bands *bands, const struct band *band)
{
    return bands->selected ? &bands->selected[band - bands->rows] : band;
}

// With rows of its own.
static struct bands *copy_of(struct arena *arena, const struct bands *bands)
{
    struct bands *out = ARENA_NEW(arena, struct bands, 1);
    *out = *bands;
    out->rows = ARENA_COPY(arena, struct band, bands->rows, bands->count);
    return out;
}

const struct bands *bands_anchored(struct arena *arena, const struct bands *bands)
{
    const struct anchored_band *anchored = &bands->anchored;
    if (anchored->row_count == 0) return bands;
    struct bands *out = copy_of(arena, bands);
    for (int i = 0; i < bands->count; i++) {
        struct band *row = &out->rows[i];
        row->low_ratio = fmax(row->low_ratio, anchored->low_ratio);
        row->high_ratio = fmin(row->high_ratio, anchored->high_ratio);
        row->was_datasheet = band_is_datasheet(row);
        row->confidence = CONFIDENCE_ANCHORED;
    }
    if (bands->selected) widen(arena, out);
    return out;
}

const struct bands *bands_unfitted(struct arena *arena, const struct bands *bands)
{
    const struct anchored_band *unfitted = &bands->unfitted;
    if (unfitted->row_count == 0) return bands;
    struct bands *out = copy_of(arena, bands);
    for (int i = 0; i < bands->count; i++) {
        struct band *row = &out->rows[i];
        bool is_wider =
            row->low_ratio <= unfitted->low_ratio && row->high_ratio >= unfitted->high_ratio;
        if (is_wider) continue;  // and says where that comes from
        row->low_ratio = fmin(row->low_ratio, unfitted->low_ratio);
        row->high_ratio = fmax(row->high_ratio, unfitted->high_ratio);
        row->source = unfitted->source;
    }
    if (bands->selected) widen(arena, out);
    return out;
}
