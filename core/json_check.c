#include "core/json.h"
#include "core/json_place.h"
#include "core/units.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Room that is kept for "; and 2147483647 more", and for what the caller knows to add.
enum { MORE_BYTES = 32, ADD_BYTES = 128, LIST_BYTES = 640 };

void json_faults_take(struct json_faults *faults, const struct json *at)
{
    if (!faults->one.kind) return;
    size_t length = strlen(faults->all.text), path = strlen(at->document->path) + 1;
    // The file is named once, before the first of them.
    const char *text = faults->one.text;
    if (length > 0 && strlen(text) > path) text += path;
    bool fits = length + 2 + strlen(text) + MORE_BYTES + ADD_BYTES < sizeof faults->all.text;
    if (length == 0) {
        faults->all = faults->one;
    } else if (fits) {
        char *end = faults->all.text + length;
        snprintf(end, sizeof faults->all.text - length, "; %s", text);
    } else {
        faults->untold_count++;
    }
    faults->one.kind = ERR_NONE;
    faults->one.text[0] = '\0';
}

void json_faults_report(const struct json_faults *faults, struct err *err)
{
    if (!faults->all.kind) return;
    char more[MORE_BYTES] = "";
    if (faults->untold_count > 0)
        snprintf(more, sizeof more, "; and %d more", faults->untold_count);
    err_set(err, faults->all.kind, "%s%s", faults->all.text, more);
}

const struct json_field *json_field_of(const struct json_field *fields, const char *key)
{
    for (const struct json_field *field = fields; field->key; field++) {
        if (*field->key == *key && strcmp(field->key, key) == 0) return field;
    }
    return NULL;
}

// "bandwidth" for "bandwidth_bytes_per_s", where one key alone begins so.
static const char *unit_left_out(const struct json_field *fields, const char *key)
{
    const char *found = NULL;
    size_t length = strlen(key);
    for (const struct json_field *field = fields; field->key && length > 0; field++) {
        if (strncmp(field->key, key, length) != 0 || field->key[length] != '_') continue;
        if (found) return NULL;
        found = field->key;
    }
    return found;
}

const char *json_nearest_key(const struct json_field *fields, const char *key, int *distance)
{
    struct units_guess guess = {.text = key};
    for (const struct json_field *field = fields; field->key; field++) {
        units_guess_offer(&guess, field->key);
    }
    if (!guess.best) guess.best = unit_left_out(fields, key);
    if (distance) *distance = guess.distance;
    return guess.best;
}

// Sorted by key, then by place: duplicates become neighbours in O(n log n), however large the file.
static int compare_members(const void *a, const void *b)
{
    const cJSON *const *left = a, *const *right = b;
    int order = strcmp((*left)->string, (*right)->string);
    return order ? order : (*left > *right) - (*left < *right);
}

static void find_duplicate(const struct json *object, struct json_faults *faults)
{
    int count = object->value->valueint;
    struct arena scratch = {0};
    const cJSON **members = ARENA_NEW(&scratch, const cJSON *, count);
    for (int i = 0; i < count; i++) {
        members[i] = &object->value->child[i];
    }
    qsort(members, (size_t)count, sizeof *members, compare_members);
    int first = count;
    for (int i = 1; i < count; i++) {
        int ordinal = (int)(members[i] - object->value->child);
        bool is_twin = strcmp(members[i - 1]->string, members[i]->string) == 0;
        if (is_twin && ordinal < first) first = ordinal;
    }
    arena_free(&scratch);
    if (first == count) return;
    struct json member = json_item(object, first);
    json_fail_key(&member, &faults->one, "duplicate key");
    json_faults_take(faults, &member);
}

// A file of another kind has nothing but unknown keys: a few say so.
static void find_unknown(const struct json *object, const struct json_field *fields,
                         struct json_faults *faults)
{
    enum { TOLD_MOST = 4 };
    int count = 0;
    for (int i = 0; i < object->value->valueint; i++) {
        struct json member = json_item(object, i);
        if (json_field_of(fields, json_key(&member))) continue;
        if (++count > TOLD_MOST) {
            faults->untold_count++;
            continue;
        }
        const char *near = json_nearest_key(fields, json_key(&member), NULL);
        char why[256] = "unknown key";
        if (near) snprintf(why, sizeof why, "unknown key, did you mean \"%s\"?", near);
        json_fail_key(&member, &faults->one, why);
        json_faults_take(faults, &member);
    }
}

// An unknown key that is told to be this one misspelt.
static bool is_misspelt(const struct json *object, const struct json_field *fields, const char *key)
{
    for (int i = 0; i < object->value->valueint; i++) {
        const char *written = object->value->child[i].string;
        if (json_field_of(fields, written)) continue;
        // The nearest of all is near by itself, which is asked of one key in place of all.
        struct units_guess guess = {.text = written};
        units_guess_offer(&guess, key);
        if (!guess.best && !unit_left_out(fields, written)) continue;
        const char *near = json_nearest_key(fields, written, NULL);
        if (near && strcmp(near, key) == 0) return true;
    }
    return false;
}

// An optional member may be written as null; so may a part, which then is not there.
static bool is_null(const struct json *value)
{
    return cJSON_IsNull(value->value);
}

struct missing_list {
    char text[LIST_BYTES];
    int untold_count;
};

static void put_missing(struct missing_list *list, const char *prefix, const char *key)
{
    size_t length = strlen(list->text);
    size_t needed = strlen(prefix) + strlen(key) + sizeof ", \"\"";
    if (length + needed > sizeof list->text || list->untold_count > 0) {
        list->untold_count++;
        return;
    }
    snprintf(list->text + length, sizeof list->text - length, "%s\"%s%s\"", length ? ", " : "",
             prefix, key);
}

static const struct json_part *part_of(const struct json_shape *shape, const char *key)
{
    for (const struct json_part *part = shape->parts; part && part->key; part++) {
        if (strcmp(part->key, key) == 0) return part;
    }
    return NULL;
}

static bool is_needed(const struct json_field *field, const struct json_part *part,
                      const struct json *object)
{
    return part && part->is_needed ? part->is_needed(object) : !field->optional;
}

// The keys that a part needs which is not there, or its own where it needs none.
static void put_part(struct missing_list *list, const char *prefix, const struct json_field *field,
                     const struct json_part *part, const struct json *object)
{
    char below[256];
    if (!part || part->kind == JSON_PART_NAMED) {
        put_missing(list, prefix, field->key);
        return;
    }
    bool has_any = false;
    struct json nothing = {.document = object->document, .parent = object};
    snprintf(below, sizeof below, "%s%s%s", prefix, field->key,
             part->kind == JSON_PART_LIST ? "[0]." : ".");
    for (const struct json_field *row = part->shape->fields; row->key; row++) {
        const struct json_part *inner = part_of(part->shape, row->key);
        if (!is_needed(row, inner, &nothing)) continue;
        put_part(list, below, row, inner, &nothing);
        has_any = true;
    }
    if (!has_any) put_missing(list, prefix, field->key);
}

static void find_missing(const struct json *object, const struct json_shape *shape, bool strict,
                         struct json_faults *faults)
{
    struct missing_list list = {0};
    for (const struct json_field *field = shape->fields; field->key; field++) {
        const struct json_part *part = part_of(shape, field->key);
        struct json value = json_find(object, field->key);
        if (value.value && !(part && is_null(&value))) continue;
        if (!is_needed(field, part, object)) continue;
        if (strict && is_misspelt(object, shape->fields, field->key)) continue;
        put_part(&list, "", field, part, object);
    }
    if (!list.text[0]) return;
    char more[MORE_BYTES] = "";
    if (list.untold_count > 0) snprintf(more, sizeof more, " and %d more", list.untold_count);
    json_fail(object, &faults->one, "missing %s%s", list.text, more);
    json_faults_take(faults, object);
}

void json_find_faults(const struct json *object, const struct json_shape *shape, bool strict,
                      struct json_faults *faults)
{
    find_duplicate(object, faults);
    if (strict) find_unknown(object, shape->fields, faults);
    find_missing(object, shape, strict, faults);
}

static void check_object(const struct json *object, const struct json_shape *shape,
                         struct json_faults *faults);

static void check_list(const struct json *list, const struct json_shape *shape,
                       struct json_faults *faults)
{
    for (int i = 0; i < list->value->valueint; i++) {
        struct json item = json_item(list, i);
        check_object(&item, shape, faults);
    }
}

static void check_part(const struct json *object, const struct json_part *part,
                       struct json_faults *faults)
{
    struct json value = json_find(object, part->key);
    if (!value.value || is_null(&value)) return;
    if (part->kind == JSON_PART_NAMED && (json_is_text(&value) || !part->shape)) return;
    if (part->kind == JSON_PART_NAMED && !json_is_object(&value)) return;  // its reader says it
    if (part->kind != JSON_PART_LIST) {
        check_object(&value, part->shape, faults);
    } else if (json_is_array(&value)) {
        check_list(&value, part->shape, faults);
    } else {
        json_fail(&value, &faults->one, "expected an array");
        json_faults_take(faults, &value);
    }
}

static void check_object(const struct json *object, const struct json_shape *shape,
                         struct json_faults *faults)
{
    if (!json_expect_object(object, &faults->one)) {
        json_faults_take(faults, object);
        return;
    }
    json_find_faults(object, shape, true, faults);
    json_read_fields(object, shape->fields, NULL, faults);
    for (const struct json_part *part = shape->parts; part && part->key; part++) {
        check_part(object, part, faults);
    }
}

void json_check(const struct json *object, const struct json_shape *shape, struct err *err)
{
    assert(shape && shape->fields);
    if (err->kind || !object->value) return;
    struct json_faults faults = {0};
    check_object(object, shape, &faults);
    json_faults_report(&faults, err);
}
