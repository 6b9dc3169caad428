#include "core/json.h"
#include "core/json_place.h"
#include "core/plain.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>

typedef void warn_function(void *context, const char *line);

// A foreign file may hold any key; only a slip of one letter beside an absent known key is told.
static void warn_unknown(const struct json *object, const struct json *member,
                         const struct json_field *fields, warn_function *warn, void *context)
{
    int distance = 0;
    if (!warn) return;
    const char *near = json_nearest_key(fields, json_key(member), &distance);
    if (!near || distance != 1) return;
    if (json_find(object, near).value) return;
    char line[512];
    snprintf(line, sizeof line, "%s: \"%s\" is not known, did you mean \"%s\"?",
             object->document->path, json_key(member), near);
    plain_make(line);
    warn(context, line);
}

// `member` NULL: the value is only looked at.
static void read_member(const struct json *value, const struct json_field *field, void *member,
                        struct err *err)
{
    switch (field->type) {
    case JSON_TYPE_I64: {
        int64_t number = json_i64(value, field->low, field->high, err);
        if (!err->kind && member) *(int64_t *)member = number;
        break;
    }
    case JSON_TYPE_INT: {
        assert(field->low >= INT_MIN && field->high <= INT_MAX);
        int64_t number = json_i64(value, field->low, field->high, err);
        if (!err->kind && member) *(int *)member = (int)number;
        break;
    }
    case JSON_TYPE_F64: {
        double number = json_f64(value, field->low, field->high, err);
        if (!err->kind && member) *(double *)member = number;
        break;
    }
    case JSON_TYPE_BOOL: {
        bool flag = json_bool(value, err);
        if (!err->kind && member) *(bool *)member = flag;
        break;
    }
    case JSON_TYPE_TEXT: {
        const char *text = json_text(value, err);
        if (!err->kind && member) *(const char **)member = text;
        break;
    }
    case JSON_TYPE_ANY:
        break;
    }
}

void json_read_fields(const struct json *object, const struct json_field *fields, void *into,
                      struct json_faults *faults)
{
    for (const struct json_field *field = fields; field->key; field++) {
        struct json value = json_find(object, field->key);
        if (!value.value || (field->optional && cJSON_IsNull(value.value))) continue;
        read_member(&value, field, into ? (char *)into + field->offset : NULL, &faults->one);
        json_faults_take(faults, &value);
    }
}

void json_read(const struct json *object, const struct json_field *fields, void *into,
               struct err *err)
{
    if (!json_expect_object(object, err)) return;
    const struct json_shape shape = {fields, NULL};
    struct json_faults faults = {0};
    json_find_faults(object, &shape, true, &faults);
    json_read_fields(object, fields, into, &faults);
    json_faults_report(&faults, err);
}

void json_read_lenient(const struct json *object, const struct json_field *fields, void *into,
                       warn_function *warn, void *context, struct err *err)
{
    if (!json_expect_object(object, err)) return;
    const struct json_shape shape = {fields, NULL};
    struct json_faults faults = {0};
    json_find_faults(object, &shape, false, &faults);
    int count = json_member_count(object, err);
    for (int i = 0; i < count && !faults.all.kind; i++) {
        struct json member = json_item(object, i);
        if (!json_field_of(fields, json_key(&member))) {
            warn_unknown(object, &member, fields, warn, context);
        }
    }
    json_read_fields(object, fields, into, &faults);
    json_faults_report(&faults, err);
}
