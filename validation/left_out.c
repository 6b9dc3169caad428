#include "validation/left_out.h"

#include "core/json_write.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct json_field FILE_FIELDS[] = {
    {JSON_TEXT(struct left_out, source)},
    {JSON_ANY("rows")},
    {0},
};

static const struct json_field ROW_FIELDS[] = {
    {JSON_TEXT(struct left_out_row, id)},
    {JSON_TEXT(struct left_out_row, family)},
    {JSON_F64(struct left_out_row, step_s, 1e-9, 1e12)},
    {JSON_OPT_F64(struct left_out_row, device_out_s, 1e-9, 1e12)},
    {JSON_F64(struct left_out_row, step_s_low, 0, 1e12)},
    {JSON_F64(struct left_out_row, step_s_high, 0, 1e12)},
    {0},
};

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct left_out_row *)a)->id, ((const struct left_out_row *)b)->id);
}

static void check_row(const struct json *at, const struct left_out_row *row, struct err *err)
{
    if (err->kind || row->step_s_low <= row->step_s_high) return;
    json_fail(at, err, "the band ends before it begins");
}

// Sorted by id, for bsearch; an id that stands twice would be found by chance.
bool left_out_read(struct arena *arena, const char *path, struct left_out *left_out,
                   struct err *err)
{
    *left_out = (struct left_out){0};
    struct json_document document;
    if (!json_load(arena, path, &document, err)) return false;
    struct json root = json_root(&document);
    json_read(&root, FILE_FIELDS, left_out, err);
    struct json rows = json_get(&root, "rows", err);
    int count = json_count(&rows, err);
    left_out->rows = ARENA_NEW(arena, struct left_out_row, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json at = json_item(&rows, i);
        json_read(&at, ROW_FIELDS, &left_out->rows[i], err);
        check_row(&at, &left_out->rows[i], err);
    }
    if (err->kind) return false;
    left_out->count = count;
    qsort(left_out->rows, (size_t)count, sizeof *left_out->rows, compare_ids);
    for (int i = 1; i < count; i++) {
        if (strcmp(left_out->rows[i - 1].id, left_out->rows[i].id) != 0) continue;
        return json_fail(&rows, err, "holds \"%s\" twice", left_out->rows[i].id);
    }
    return true;
}

char *left_out_text(struct arena *arena, const struct left_out *left_out)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "source", left_out->source);
    json_open(&writer, "rows", '[');
    for (int i = 0; i < left_out->count; i++) {
        const struct left_out_row *row = &left_out->rows[i];
        json_open_flat(&writer, NULL, '{');
        json_put_text(&writer, "id", row->id);
        json_put_text(&writer, "family", row->family);
        json_put_f64(&writer, "step_s", row->step_s);
        assert(row->step_s > 0 && row->step_s_low <= row->step_s_high);
        if (row->device_out_s > 0) json_put_f64(&writer, "device_out_s", row->device_out_s);
        json_put_f64(&writer, "step_s_low", row->step_s_low);
        json_put_f64(&writer, "step_s_high", row->step_s_high);
        json_close(&writer, '}');
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return writer.text;
}

const struct left_out_row *left_out_find(const struct left_out *left_out, const char *id)
{
    assert(left_out->count >= 0);
    struct left_out_row key = {.id = id};
    return bsearch(&key, left_out->rows, (size_t)left_out->count, sizeof key, compare_ids);
}
