#include "core/json_write.h"
#include "core/plain.h"
#include "core/units.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// The writer grows its text inside the arena; the abandoned halves sum to less than the text.
static void put_bytes(struct json_writer *writer, const char *bytes, size_t count)
{
    writer->text =
        arena_text_room(writer->arena, writer->text, writer->length, count, &writer->capacity);
    memcpy(writer->text + writer->length, bytes, count);
    writer->length += count;
    writer->text[writer->length] = '\0';
}

static void put(struct json_writer *writer, const char *text)
{
    put_bytes(writer, text, strlen(text));
}

// One character and how it is written in a string. What is valid but shown by no terminal as itself
// is written by number, and so is what stands for bytes that are no character.
static size_t escape_of(const char *text, char escape[8])
{
    size_t length = plain_utf8_length(text);
    unsigned code = length > 0 ? plain_code(text, length) : 0xfffd;
    if (code == '"' || code == '\\') {
        snprintf(escape, 8, "\\%c", (char)code);
    } else if (code == '\n' || code == '\t') {
        strcpy(escape, code == '\n' ? "\\n" : "\\t");
    } else if (length == 0 || !plain_is_shown(code)) {
        snprintf(escape, 8, "\\u%04x", code & 0xffff);
    } else {
        memcpy(escape, text, length);
        escape[length] = '\0';
    }
    return length > 0 ? length : 1;
}

static void put_quoted(struct json_writer *writer, const char *text)
{
    put(writer, "\"");
    while (*text) {
        char escape[8];
        text += escape_of(text, escape);
        put(writer, escape);
    }
    put(writer, "\"");
}

static void put_line_break(struct json_writer *writer)
{
    put(writer, "\n");
    for (int i = 0; i < writer->depth; i++) {
        put(writer, "  ");
    }
}

// What stands before each value: comma, line break, key.
static void start_value(struct json_writer *writer, const char *key)
{
    if (writer->has_member) put(writer, writer->flat_depth ? ", " : ",");
    if (writer->depth && !writer->flat_depth) put_line_break(writer);
    if (key) {
        put_quoted(writer, key);
        put(writer, ": ");
    }
    writer->has_member = true;
}

void json_open(struct json_writer *writer, const char *key, char bracket)
{
    assert(bracket == '{' || bracket == '[');
    start_value(writer, key);
    put_bytes(writer, &bracket, 1);
    writer->depth++;
    if (writer->flat_depth) writer->flat_depth++;
    writer->has_member = false;
}

void json_open_flat(struct json_writer *writer, const char *key, char bracket)
{
    json_open(writer, key, bracket);
    if (!writer->flat_depth) writer->flat_depth = 1;
}

void json_close(struct json_writer *writer, char bracket)
{
    assert(bracket == '}' || bracket == ']');
    assert(writer->depth > 0);
    writer->depth--;
    if (writer->flat_depth) {
        writer->flat_depth--;
    } else if (writer->has_member) {
        put_line_break(writer);
    }
    put_bytes(writer, &bracket, 1);
    if (writer->depth == 0) put(writer, "\n");
    writer->has_member = true;
}

void json_put_text(struct json_writer *writer, const char *key, const char *text)
{
    if (!text) return json_put_null(writer, key);
    start_value(writer, key);
    put_quoted(writer, text);
}

void json_put_known(struct json_writer *writer, const char *key, double value)
{
    if (!isfinite(value)) return json_put_null(writer, key);
    json_put_f64(writer, key, value);
}

void json_put_f64(struct json_writer *writer, const char *key, double value)
{
    char digits[UNITS_NUMBER_BYTES];
    start_value(writer, key);
    put(writer, units_number(digits, value));
}

void json_put_i64(struct json_writer *writer, const char *key, int64_t value)
{
    assert(value >= -(INT64_C(1) << 53) && value <= INT64_C(1) << 53);
    char digits[UNITS_NUMBER_BYTES];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    start_value(writer, key);
    put(writer, digits);
}

void json_put_bool(struct json_writer *writer, const char *key, bool value)
{
    start_value(writer, key);
    put(writer, value ? "true" : "false");
}

void json_put_null(struct json_writer *writer, const char *key)
{
    start_value(writer, key);
    put(writer, "null");
}

static void put_tree(struct json_writer *writer, const char *key, const cJSON *tree)
{
    if (cJSON_IsObject(tree) || cJSON_IsArray(tree)) {
        bool is_object = cJSON_IsObject(tree);
        json_open(writer, key, is_object ? '{' : '[');
        // A document's members stand side by side, and `valueint` counts them (core/json.c).
        for (int i = 0; i < tree->valueint; i++) {
            put_tree(writer, is_object ? tree->child[i].string : NULL, &tree->child[i]);
        }
        json_close(writer, is_object ? '}' : ']');
    } else if (cJSON_IsString(tree)) {
        json_put_text(writer, key, tree->valuestring);
    } else if (cJSON_IsNumber(tree) && isfinite(tree->valuedouble)) {
        json_put_f64(writer, key, tree->valuedouble);
    } else if (cJSON_IsBool(tree)) {
        json_put_bool(writer, key, cJSON_IsTrue(tree));
    } else {
        json_put_null(writer, key);
    }
}

void json_put_f64s(struct json_writer *writer, const char *key, const double *values, int count)
{
    assert(count >= 0 && (values || count == 0));
    json_open_flat(writer, key, '[');
    for (int i = 0; i < count; i++)
        json_put_f64(writer, NULL, values[i]);
    json_close(writer, ']');
}

void json_put_i64s(struct json_writer *writer, const char *key, const int64_t *values, int count)
{
    assert(count >= 0 && (values || count == 0));
    json_open_flat(writer, key, '[');
    for (int i = 0; i < count; i++)
        json_put_i64(writer, NULL, values[i]);
    json_close(writer, ']');
}

void json_put_ints(struct json_writer *writer, const char *key, const int *values, int count)
{
    assert(count >= 0 && (values || count == 0));
    json_open_flat(writer, key, '[');
    for (int i = 0; i < count; i++)
        json_put_i64(writer, NULL, values[i]);
    json_close(writer, ']');
}

void json_put_texts(struct json_writer *writer, const char *key, const char *const *texts,
                    int count)
{
    assert(count >= 0 && (texts || count == 0));
    json_open_flat(writer, key, '[');
    for (int i = 0; i < count; i++)
        json_put_text(writer, NULL, texts[i]);
    json_close(writer, ']');
}

static void put_field(struct json_writer *writer, const struct json_field *field,
                      const void *member)
{
    bool is_asked = !field->optional;
    switch (field->type) {
    case JSON_TYPE_I64:
        if (is_asked || *(const int64_t *)member != 0)
            json_put_i64(writer, field->key, *(const int64_t *)member);
        break;
    case JSON_TYPE_INT:
        if (is_asked || *(const int *)member != 0)
            json_put_i64(writer, field->key, *(const int *)member);
        break;
    case JSON_TYPE_F64:
        if (is_asked || *(const double *)member != 0)
            json_put_f64(writer, field->key, *(const double *)member);
        break;
    case JSON_TYPE_BOOL:
        if (is_asked || *(const bool *)member)
            json_put_bool(writer, field->key, *(const bool *)member);
        break;
    case JSON_TYPE_TEXT:
        if (is_asked || *(const char *const *)member)
            json_put_text(writer, field->key, *(const char *const *)member);
        break;
    case JSON_TYPE_ANY:
        break;
    }
}

const struct json_field *json_put_fields(struct json_writer *writer,
                                         const struct json_field *fields, const void *record)
{
    assert(fields && record);
    const struct json_field *field = fields;
    for (; field->key && field->type != JSON_TYPE_ANY; field++)
        put_field(writer, field, (const char *)record + field->offset);
    return field;
}

void json_put_copy(struct json_writer *writer, const char *key, const struct json *value)
{
    put_tree(writer, key, value->value);
}
