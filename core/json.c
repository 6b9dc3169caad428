#include "core/json.h"
#include "core/file.h"
#include "core/json_place.h"
#include "core/json_scan.h"
#include "core/plain.h"
#include "core/units.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t JSON_BYTES_MAX = (size_t)64 << 20;

// cJSON's tree moves into the arena, with the children of a value side by side: an item is found
// by its index at once. `valueint` of an object or array, unused by cJSON, is their number.
static void copy_tree(struct arena *arena, const cJSON *from, cJSON *into)
{
    *into = *from;
    into->next = into->prev = into->child = NULL;
    if (from->valuestring) into->valuestring = arena_copy(arena, from->valuestring);
    if (from->string) into->string = arena_copy(arena, from->string);
    if (!cJSON_IsArray(from) && !cJSON_IsObject(from)) return;

    int count = 0;
    for (const cJSON *child = from->child; child; child = child->next) {
        count++;
    }
    into->valueint = count;
    into->child = ARENA_NEW(arena, cJSON, count);
    cJSON *at = into->child;
    for (const cJSON *child = from->child; child; child = child->next) {
        copy_tree(arena, child, at++);
    }
}

struct text_place {
    int line, column;  // from 1; columns count characters
};

static struct text_place place_of(const struct json_document *document, size_t offset)
{
    const char *text = document->text;
    struct text_place place = {document->line, 1};
    for (size_t i = json_skip_mark(text); i < offset; i++) {
        place.column += ((unsigned char)text[i] & 0xc0) != 0x80;
        if (text[i] != '\n') continue;
        place.line++;
        place.column = 1;
    }
    return place;
}

static bool fail_at(const struct json_document *document, size_t offset, const char *why,
                    struct err *err)
{
    struct text_place place = place_of(document, offset);
    return err_set(err, ERR_INPUT, "%s:%d:%d: %s", document->path, place.line, place.column, why);
}

bool json_parse(struct arena *arena, const char *path, const char *text, size_t text_bytes,
                struct json_document *document, struct err *err)
{
    return json_parse_from(arena, path, 1, text, text_bytes, document, err);
}

bool json_parse_from(struct arena *arena, const char *path, int line, const char *text,
                     size_t text_bytes, struct json_document *document, struct err *err)
{
    assert(path && line >= 1);
    *document = (struct json_document){
        .path = arena_copy(arena, path), .text_bytes = text_bytes, .line = line};
    if (text_bytes > JSON_BYTES_MAX) {
        return err_set(err, ERR_INPUT, "%s: larger than %zu bytes", path, JSON_BYTES_MAX);
    }
    char *copy = ARENA_NEW(arena, char, text_bytes + 1);
    if (text_bytes) memcpy(copy, text, text_bytes);
    document->text = copy;
    size_t offset = 0;
    const char *why = json_scan(copy, text_bytes, JSON_DEPTH_MAX, &offset);
    if (why) return fail_at(document, offset, why, err);

    cJSON_Hooks hooks = {.malloc_fn = memory_get, .free_fn = free};
    cJSON_InitHooks(&hooks);
    const char *end = copy;
    // The length counts the closing NUL, so that cJSON can ask for it after the document.
    cJSON *root = cJSON_ParseWithLengthOpts(copy, text_bytes + 1, &end, true);
    if (!root) return fail_at(document, (size_t)(end - copy), "not valid JSON from here on", err);
    document->root = ARENA_NEW(arena, cJSON, 1);
    copy_tree(arena, root, document->root);
    cJSON_Delete(root);
    return true;
}

bool json_load(struct arena *arena, const char *path, struct json_document *document,
               struct err *err)
{
    size_t bytes = 0;
    char *text = file_read(arena, path, JSON_BYTES_MAX, &bytes, err);
    return text && json_parse(arena, path, text, bytes, document, err);
}

struct json json_root(const struct json_document *document)
{
    return (struct json){.document = document, .value = document->root};
}

static size_t value_offset_of(const struct json *value);

// Where a value is found again by walking the text from the root; a member starts at its key.
static size_t offset_of(const struct json *value)
{
    const char *text = value->document->text;
    if (!value->parent) return json_skip_blanks(text, json_skip_mark(text));
    bool has_keys = json_is_object(value->parent);
    size_t offset = json_skip_blanks(text, value_offset_of(value->parent) + 1);
    for (int i = 0; i < value->ordinal; i++) {
        if (has_keys) offset = json_skip_blanks(text, json_skip_value(text, offset)) + 1;
        offset = json_skip_blanks(text, json_skip_value(text, offset));
        offset = json_skip_blanks(text, offset + 1);  // past the comma
    }
    return offset;
}

static size_t value_offset_of(const struct json *value)
{
    const char *text = value->document->text;
    size_t offset = offset_of(value);
    if (!json_key(value)) return offset;
    offset = json_skip_blanks(text, json_skip_value(text, offset));
    return json_skip_blanks(text, offset + 1);  // past the colon
}

struct json_span json_span_of(const struct json *value)
{
    size_t offset = value_offset_of(value);
    return (struct json_span){offset, json_skip_value(value->document->text, offset) - offset};
}

// The path of a value, "$.nodes[1].gpus", appended to what `text` holds.
static void print_path(const struct json *value, char *text, size_t size)
{
    if (!value->parent) {
        snprintf(text, size, "$");
        return;
    }
    print_path(value->parent, text, size);
    size_t length = strlen(text);
    const char *key = json_key(value);
    if (key) {
        snprintf(text + length, size - length, ".%.80s", key);
    } else {
        snprintf(text + length, size - length, "[%d]", value->ordinal);
    }
}

static bool fail_from(const struct json *value, size_t offset, const char *why, struct err *err)
{
    char path[512];
    print_path(value, path, sizeof path);
    struct text_place place = place_of(value->document, offset);
    return err_set(err, ERR_INPUT, "%s:%d:%d: %s: %s", value->document->path, place.line,
                   place.column, path, why);
}

bool json_fail(const struct json *value, struct err *err, const char *format, ...)
{
    assert(value->document && "an error has a place");
    if (err->kind) return false;
    assert(value->value && "an error about a value that was never found");
    char why[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return fail_from(value, value_offset_of(value), why, err);
}

bool json_fail_key(const struct json *value, struct err *err, const char *why)
{
    return err->kind ? false : fail_from(value, offset_of(value), why, err);
}

bool json_is_text(const struct json *value)
{
    return cJSON_IsString(value->value);
}

bool json_is_number(const struct json *value)
{
    return cJSON_IsNumber(value->value);
}

bool json_is_object(const struct json *value)
{
    return cJSON_IsObject(value->value);
}

bool json_is_array(const struct json *value)
{
    return cJSON_IsArray(value->value);
}

static const char *found_name(const struct json *value)
{
    if (json_is_text(value)) return "a string";
    if (json_is_number(value)) return "a number";
    if (json_is_object(value)) return "an object";
    if (json_is_array(value)) return "an array";
    return cJSON_IsTrue(value->value) ? "true" : cJSON_IsFalse(value->value) ? "false" : "null";
}

// The guard of every reader: false after an error, when there is no value, or on a wrong type.
static bool expect(const struct json *value, bool is_right, const char *wanted, struct err *err)
{
    if (err->kind || !value->value) return false;
    if (is_right) return true;
    return json_fail(value, err, "expected %s, found %s", wanted, found_name(value));
}

const char *json_key(const struct json *member)
{
    bool is_member = member->value && member->parent && json_is_object(member->parent);
    return is_member ? member->value->string : NULL;
}

bool json_expect_object(const struct json *value, struct err *err)
{
    return expect(value, json_is_object(value), "an object", err);
}

int json_count(const struct json *array, struct err *err)
{
    return expect(array, json_is_array(array), "an array", err) ? array->value->valueint : 0;
}

int json_member_count(const struct json *object, struct err *err)
{
    return json_expect_object(object, err) ? object->value->valueint : 0;
}

struct json json_item(const struct json *value, int index)
{
    assert(index >= 0);
    struct json item = {.document = value->document, .parent = value, .ordinal = index};
    if (!value->value) return item;
    assert(json_is_array(value) || json_is_object(value));
    assert(index >= 0 && index < value->value->valueint);
    item.value = &value->value->child[index];
    return item;
}

struct json json_find(const struct json *object, const char *key)
{
    struct json missing = {.document = object->document, .parent = object};
    if (!json_is_object(object)) return missing;
    for (int i = 0; i < object->value->valueint; i++) {
        const char *name = object->value->child[i].string;
        if (*name == *key && strcmp(name, key) == 0) return json_item(object, i);
    }
    return missing;
}

struct json json_get(const struct json *object, const char *key, struct err *err)
{
    assert(object && key);
    struct json missing = {.document = object->document, .parent = object};
    if (!json_expect_object(object, err)) return missing;
    struct json found = json_find(object, key);
    if (!found.value) json_fail(object, err, "missing \"%s\"", key);
    return found;
}

bool json_has(const struct json *object, const char *key)
{
    assert(object && key);
    struct json found = json_find(object, key);
    return found.value && !cJSON_IsNull(found.value);
}

const char *json_text(const struct json *value, struct err *err)
{
    if (!expect(value, json_is_text(value), "a string", err)) return NULL;
    const char *text = value->value->valuestring, *fault = plain_fault(text);
    if (fault) {
        unsigned code = plain_code(fault, plain_utf8_length(fault));
        json_fail(value, err, "holds U+%04X, which is no character that can be shown", code);
        return NULL;
    }
    if (strlen(text) <= TEXT_BYTES_MAX) return text;
    json_fail(value, err, "a text of %zu bytes, at most %d are taken", strlen(text),
              TEXT_BYTES_MAX);
    return NULL;
}

const char *json_data_text(const struct json *value, struct err *err)
{
    return expect(value, json_is_text(value), "a string", err) ? value->value->valuestring : NULL;
}

bool json_bool(const struct json *value, struct err *err)
{
    if (!expect(value, cJSON_IsBool(value->value), "true or false", err)) return false;
    return cJSON_IsTrue(value->value);
}

double json_f64(const struct json *value, double low, double high, struct err *err)
{
    if (!expect(value, json_is_number(value), "a number", err)) return 0;
    double number = value->value->valuedouble;
    if (number >= low && number <= high && isfinite(number)) return number;
    if (!isfinite(number)) {
        json_fail(value, err, "too large for a number");
        return 0;
    }
    char low_text[UNITS_NUMBER_BYTES], high_text[UNITS_NUMBER_BYTES], text[UNITS_NUMBER_BYTES];
    json_fail(value, err, "must be between %s and %s, found %s",
              isfinite(low) ? units_number(low_text, low) : "-inf",
              isfinite(high) ? units_number(high_text, high) : "inf", units_number(text, number));
    return 0;
}

int64_t json_i64(const struct json *value, double low, double high, struct err *err)
{
    if (!expect(value, json_is_number(value), "a number", err)) return 0;
    double number = value->value->valuedouble;
    char text[UNITS_NUMBER_BYTES];
    if (isfinite(number) && number != floor(number)) {
        json_fail(value, err, "expected a whole number, found %s", units_number(text, number));
        return 0;
    }
    number = json_f64(value, low, high, err);
    if (fabs(number) < 0x1p53) return (int64_t)number;
    json_fail(value, err, "whole numbers are exact only below 2^53");
    return 0;
}
