#include "core/units.h"
#include "models/families/family.h"

#include <assert.h>
#include <string.h>

// What a config leaves out. A dimension that is not there would make another model of it without a
// word, so it is an error; of the rest the class that reads the config in transformers has a
// default, which is taken and said.

static const char *append(struct arena *arena, const char *list, const char *item)
{
    return list ? arena_print(arena, "%s, %s", list, item) : item;
}

// Whether an object, or one that it holds (the kinds of layers in gemma3's rope_parameters), has a
// value under the key.
static bool holds(const struct json *object, const char *key, struct err *err)
{
    if (!json_is_object(object)) return false;
    if (json_has(object, key)) return true;
    int count = json_member_count(object, err);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        if (json_is_object(&member) && json_has(&member, key)) return true;
    }
    return false;
}

static bool rope_holds(const struct family_reader *reader, const char *key)
{
    if (!json_has(reader->object, "rope_parameters")) return false;
    struct json rope = json_get(reader->object, "rope_parameters", reader->err);
    return holds(&rope, key, reader->err);
}

static const struct json_field *find_field(const struct json_field *fields, const char *key)
{
    for (const struct json_field *field = fields; field->key; field++) {
        if (strcmp(field->key, key) == 0) return field;
    }
    return NULL;
}

static bool is_same(const struct json_field *field, const struct json_field *wanted)
{
    if (field == wanted) return true;
    return wanted->type != JSON_TYPE_ANY && field->type == wanted->type &&
           field->offset == wanted->offset;
}

// Whether the field has a value, under any of its names.
static bool is_given(const struct family_reader *reader, const struct json_field *fields,
                     const struct json_field *wanted, bool or_null)
{
    if (reader->is_tie_given && strcmp(wanted->key, "tie_word_embeddings") == 0) return true;
    for (const struct json_field *field = fields; field->key; field++) {
        if (!is_same(field, wanted)) continue;
        if (json_has(reader->object, field->key) || rope_holds(reader, field->key)) return true;
        if (or_null && family_is_null(reader, field->key)) return true;
    }
    return false;
}

// A key of the file that looks like the missing one, and that is not read.
static const char *misspelt(const struct family_reader *reader, const struct json_field *fields,
                            const char *key)
{
    static const int SLIPS_MAX = 2;
    struct units_guess guess = {.text = key};
    int count = json_member_count(reader->object, reader->err);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(reader->object, i);
        const char *found = json_key(&member);
        if (!find_field(fields, found)) units_guess_offer(&guess, found);
    }
    return guess.distance <= SLIPS_MAX ? guess.best : NULL;
}

void family_missing(struct family_reader *reader, const struct json_field *fields, const char *key)
{
    struct family_ledger *ledger = reader->ledger;
    const char *prefix = reader->prefix ? reader->prefix : "";
    const char *near = misspelt(reader, fields, key);
    const char *item = arena_print(reader->arena, "\"%s%s\"", prefix, key);
    const struct json_field *wanted = find_field(fields, key);
    for (const struct json_field *field = fields; field->key; field++) {
        if (field == wanted || !is_same(field, wanted)) continue;
        item = arena_print(reader->arena, "%s or \"%s%s\"", item, prefix, field->key);
    }
    if (near) {
        item = arena_print(reader->arena, "%s (found \"%.40s\", did you mean it?)", item, near);
    }
    ledger->missing = append(reader->arena, ledger->missing, item);
}

void family_taken(struct family_reader *reader, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *value = arena_vprint(reader->arena, format, args);
    va_end(args);
    const char *item =
        arena_print(reader->arena, "%s%s %s", reader->prefix ? reader->prefix : "", key, value);
    reader->ledger->taken = append(reader->arena, reader->ledger->taken, item);
}

static void take_nothing(struct family_reader *reader, const char *key)
{
    const char *item =
        arena_print(reader->arena, "%s%s", reader->prefix ? reader->prefix : "", key);
    reader->ledger->off = append(reader->arena, reader->ledger->off, item);
}

static void take_number(struct family_reader *reader, const char *key, double value)
{
    char text[UNITS_NUMBER_BYTES];
    if (value == 0) {
        take_nothing(reader, key);
    } else {
        family_taken(reader, key, "%s", units_number(text, value));
    }
}

static void take_default(struct family_reader *reader, const struct json_field *field,
                         const void *record)
{
    const char *member = (const char *)record + field->offset;
    switch (field->type) {
    case JSON_TYPE_I64:
        take_number(reader, field->key, (double)*(const int64_t *)(const void *)member);
        break;
    case JSON_TYPE_INT:
        take_number(reader, field->key, *(const int *)(const void *)member);
        break;
    case JSON_TYPE_F64:
        take_number(reader, field->key, *(const double *)(const void *)member);
        break;
    case JSON_TYPE_BOOL:
        if (*(const bool *)member) {
            family_taken(reader, field->key, "true");
        } else {
            take_nothing(reader, field->key);
        }
        break;
    case JSON_TYPE_TEXT:
        family_taken(reader, field->key, "%s", *(const char *const *)(const void *)member);
        break;
    case JSON_TYPE_ANY:
        take_nothing(reader, field->key);
        break;
    }
}

// Published configs of a family whose record has a default for a dimension leave it out.
static bool has_default(const struct json_field *field, const void *record)
{
    const char *member = (const char *)record + field->offset;
    return field->type == JSON_TYPE_I64 && *(const int64_t *)(const void *)member > 0;
}

static void assume(struct family_reader *reader, const struct json_field *field, const void *record)
{
    const char *member = (const char *)record + field->offset;
    const char *item = arena_print(reader->arena, "%s %lld", field->key,
                                   (long long)*(const int64_t *)(const void *)member);
    reader->ledger->assumed = append(reader->arena, reader->ledger->assumed, item);
}

enum rule { RULE_DIMENSION, RULE_OPTIONAL };

static void check_words(struct family_reader *reader, const struct json_field *fields,
                        const void *record, const char *words, enum rule rule, bool or_null)
{
    for (const char *at = words; at && *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        const char *key = arena_print(reader->arena, "%.*s", (int)length, at);
        const struct json_field *field = find_field(fields, key);
        assert(field && "a family heeds what it reads");
        at += length;
        if (is_given(reader, fields, field, or_null)) continue;
        if (rule == RULE_DIMENSION && !has_default(field, record)) {
            family_missing(reader, fields, key);
        } else {
            take_default(reader, field, record);
            if (rule == RULE_DIMENSION) assume(reader, field, record);
        }
    }
}

void family_absent(struct family_reader *reader, const struct json_field *fields,
                   const void *record, const struct family_keys *keys)
{
    if (reader->err->kind) return;
    check_words(reader, fields, record, keys->dimensions, RULE_DIMENSION, false);
    check_words(reader, fields, record, keys->dimensions_or_null, RULE_DIMENSION, true);
    check_words(reader, fields, record, keys->optional, RULE_OPTIONAL, false);
    check_words(reader, fields, record, keys->optional_or_null, RULE_OPTIONAL, true);
}

bool family_complete(struct family_reader *reader)
{
    if (reader->err->kind) return false;
    if (!reader->ledger->missing) return true;
    bool is_flat = json_has(reader->object, "vision_config");
    return json_fail(reader->object, reader->err,
                     "missing %s; the dimensions of a model must be given, as whole numbers%s",
                     reader->ledger->missing, is_flat ? ", here or in \"text_config\"" : "");
}
