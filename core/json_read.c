#include "core/json.h"
#include "core/json_place.h"
#include "core/units.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void warn_function(void *context, const char *line);

static const struct json_field *field_of(const struct json_field *fields, const char *key)
{
    for (const struct json_field *field = fields; field->key; field++) {
        if (strcmp(field->key, key) == 0) return field;
    }
    return NULL;
}

static struct units_guess guess_key(const struct json_field *fields, const char *key)
{
    struct units_guess guess = {.text = key};
    for (const struct json_field *field = fields; field->key; field++) {
        units_guess_offer(&guess, field->key);
    }
    return guess;
}

static void fail_unknown(const struct json *member, const struct json_field *fields,
                         struct err *err)
{
    struct units_guess guess = guess_key(fields, json_key(member));
    char why[256] = "unknown key";
    if (guess.best) snprintf(why, sizeof why, "unknown key, did you mean \"%s\"?", guess.best);
    json_fail_key(member, err, why);
}

// A foreign file may hold any key; only a slip of one letter beside an absent known key is told.
static void warn_unknown(const struct json *object, const struct json *member,
                         const struct json_field *fields, warn_function *warn, void *context)
{
    struct units_guess guess = guess_key(fields, json_key(member));
    if (!warn || !guess.best || guess.distance != 1) return;
    if (json_find(object, guess.best).value) return;
    char line[512];
    snprintf(line, sizeof line, "%s: \"%s\" is not known, did you mean \"%s\"?",
             object->document->path, json_key(member), guess.best);
    warn(context, line);
}

// Sorted by key, then by place: duplicates become neighbours in O(n log n), however large the file.
static int compare_members(const void *a, const void *b)
{
    const cJSON *const *left = a, *const *right = b;
    int order = strcmp((*left)->string, (*right)->string);
    return order ? order : (*left > *right) - (*left < *right);
}

static void check_duplicates(const struct json *object, struct err *err)
{
    int count = json_count(object, err);
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
    json_fail_key(&member, err, "duplicate key");
}

static void read_member(const struct json *value, const struct json_field *field, void *into,
                        struct err *err)
{
    void *member = (char *)into + field->offset;
    switch (field->type) {
    case JSON_TYPE_I64: {
        int64_t number = json_i64(value, field->low, field->high, err);
        if (!err->kind) *(int64_t *)member = number;
        break;
    }
    case JSON_TYPE_INT: {
        assert(field->low >= INT_MIN && field->high <= INT_MAX);
        int64_t number = json_i64(value, field->low, field->high, err);
        if (!err->kind) *(int *)member = (int)number;
        break;
    }
    case JSON_TYPE_F64: {
        double number = json_f64(value, field->low, field->high, err);
        if (!err->kind) *(double *)member = number;
        break;
    }
    case JSON_TYPE_BOOL: {
        bool flag = json_bool(value, err);
        if (!err->kind) *(bool *)member = flag;
        break;
    }
    case JSON_TYPE_TEXT: {
        const char *text = json_text(value, err);
        if (!err->kind) *(const char **)member = text;
        break;
    }
    case JSON_TYPE_ANY:
        break;
    }
}

static void read_fields(const struct json *object, const struct json_field *fields, void *into,
                        struct err *err)
{
    for (const struct json_field *field = fields; field->key && !err->kind; field++) {
        struct json value = json_find(object, field->key);
        if (!value.value) {
            if (!field->optional) json_fail(object, err, "missing \"%s\"", field->key);
        } else if (!field->optional || !cJSON_IsNull(value.value)) {
            read_member(&value, field, into, err);
        }
    }
}

void json_read(const struct json *object, const struct json_field *fields, void *into,
               struct err *err)
{
    if (!json_expect_object(object, err)) return;
    check_duplicates(object, err);
    int count = json_count(object, err);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json member = json_item(object, i);
        if (!field_of(fields, json_key(&member))) fail_unknown(&member, fields, err);
    }
    read_fields(object, fields, into, err);
}

void json_read_lenient(const struct json *object, const struct json_field *fields, void *into,
                       warn_function *warn, void *context, struct err *err)
{
    if (!json_expect_object(object, err)) return;
    check_duplicates(object, err);
    int count = json_count(object, err);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json member = json_item(object, i);
        if (!field_of(fields, json_key(&member))) {
            warn_unknown(object, &member, fields, warn, context);
        }
    }
    read_fields(object, fields, into, err);
}
