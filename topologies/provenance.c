#include "topologies/provenance.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const PROVENANCE_NAMES[PROVENANCE_KIND_COUNT] = {
    "measured", "published", "fitted", "datasheet", "estimated", "assumed"};

const char *provenance_kind_name(enum provenance_kind kind)
{
    assert((unsigned)kind < PROVENANCE_KIND_COUNT);
    assert((int)kind < PROVENANCE_KIND_COUNT);
    return PROVENANCE_NAMES[kind];
}

struct entry_text {
    const char *key, *kind, *source;
    double prior, spread;
};

static const struct json_field ENTRY_FIELDS[] = {
    {JSON_TEXT(struct entry_text, key)},
    {JSON_TEXT(struct entry_text, kind)},
    {JSON_TEXT(struct entry_text, source)},
    {JSON_OPT_F64(struct entry_text, prior, -1e18, 1e18)},
    {JSON_OPT_F64(struct entry_text, spread, 1e-6, 10)},
    {0},
};

static const struct json_shape ENTRY_SHAPE = {ENTRY_FIELDS, NULL};

const struct json_shape *provenance_shape(void)
{
    return &ENTRY_SHAPE;
}

// Does the entry `key` speak of `constant`: of itself or of an object around it?
static bool covers(const char *key, const char *constant)
{
    size_t length = strlen(key);
    return strncmp(key, constant, length) == 0 &&
           (constant[length] == '\0' || constant[length] == '.');
}

const struct provenance *provenance_find(const struct provenance_list *list, const char *key)
{
    assert(list && key);
    const struct provenance *nearest = NULL;
    for (int i = 0; i < list->count; i++) {
        const struct provenance *entry = &list->entries[i];
        if (!covers(entry->key, key)) continue;
        if (!nearest || strlen(entry->key) > strlen(nearest->key)) nearest = entry;
    }
    return nearest;
}

static bool kind_from_name(const char *name, enum provenance_kind *kind)
{
    for (int i = 0; i < PROVENANCE_KIND_COUNT; i++) {
        if (strcmp(provenance_kind_name((enum provenance_kind)i), name) != 0) continue;
        *kind = (enum provenance_kind)i;
        return true;
    }
    return false;
}

static bool is_constant(const struct json *value)
{
    if (json_is_number(value)) return true;
    struct err ignored = {0};
    if (!json_is_array(value) || json_count(value, &ignored) == 0) return false;
    struct json first = json_item(value, 0);
    return json_is_object(&first);  // a table of numbers
}

// Is there a constant, or an object of constants, at the dotted `key`?
static bool has_constant(const struct json *object, const char *key)
{
    struct err ignored = {0};
    int count = json_member_count(object, &ignored);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        const char *name = json_key(&member);
        size_t length = strlen(name);
        if (strncmp(name, key, length) != 0) continue;
        if (key[length] == '\0') return is_constant(&member) || json_is_object(&member);
        if (key[length] == '.' && json_is_object(&member)) {
            return has_constant(&member, key + length + 1);
        }
    }
    return false;
}

// Is there anything at the dotted `key`, which may count in arrays?
static bool has_member(const struct json *object, const char *key)
{
    size_t length = strcspn(key, ".[");
    struct err ignored = {0};
    int count = json_member_count(object, &ignored);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        const char *name = json_key(&member), *rest = key + length;
        if (strlen(name) != length || strncmp(name, key, length) != 0) continue;
        if (*rest != '[') return *rest == '\0' || has_member(&member, rest + 1);
        char *end = NULL;
        long index = strtol(rest + 1, &end, 10);
        if (end == rest + 1 || *end != ']' || !json_is_array(&member)) return false;
        if (index < 0 || index >= json_count(&member, &ignored)) return false;
        struct json item = json_item(&member, (int)index);
        return end[1] == '\0' || (end[1] == '.' && has_member(&item, end + 2));
    }
    return false;
}

// Every constant below `object`, whose dotted key is `prefix`, needs an entry.
static void check_covered(struct arena *arena, const struct provenance_list *list,
                          const struct json *object, const char *prefix, struct err *err)
{
    int count = json_member_count(object, err);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json member = json_item(object, i);
        const char *key = arena_print(arena, "%s%s", prefix, json_key(&member));
        if (strcmp(key, "provenance") == 0) continue;
        // An object with a provenance of its own answers for itself.
        if (json_is_object(&member) && json_has(&member, "provenance")) continue;
        if (json_is_object(&member)) {
            check_covered(arena, list, &member, arena_print(arena, "%s.", key), err);
        } else if (is_constant(&member) && !provenance_find(list, key)) {
            json_fail(&member, err, "expected an entry for \"%s\" in provenance, found none", key);
        }
    }
}

// Does the file have such a key, though this object may leave it out?
static bool may_have(const struct json_shape *shape, const char *key)
{
    size_t length = strcspn(key, ".");
    const struct json_part *part = shape ? shape->parts : NULL;
    for (; key[length] == '.' && part && part->key; part++) {
        bool is_it = strlen(part->key) == length && strncmp(part->key, key, length) == 0;
        if (is_it) return may_have(part->shape, key + length + 1);
    }
    for (const struct json_field *field = shape ? shape->fields : NULL; field && field->key;
         field++)
        if (strcmp(field->key, key) == 0) return true;
    return false;
}

// Of what a list speaks: of constants that are there (neither), of members whatever they hold
// (is_some), or also of what a file of this shape left out, which then is passed over.
struct speaking {
    const char *what;
    bool is_some;
    const struct json_shape *shape;
};

// `entry->key` stays NULL where the entry is to be passed over.
static void read_entry(const struct json *object, const struct json *at, struct speaking of,
                       struct provenance *entry, struct err *err)
{
    struct entry_text text = {0};
    json_read(at, ENTRY_FIELDS, &text, err);
    if (err->kind) return;
    enum provenance_kind kind = PROVENANCE_ESTIMATED;
    if (!kind_from_name(text.kind, &kind)) {
        struct json kind_at = json_get(at, "kind", err);
        json_fail(&kind_at, err,
                  "expected measured, published, fitted, datasheet, estimated or assumed, found "
                  "\"%s\"",
                  text.kind);
    }
    bool is_fitted = kind == PROVENANCE_FITTED;
    bool has_prior = json_has(at, "prior"), has_spread = json_has(at, "spread");
    if (!err->kind && (is_fitted != has_prior || is_fitted != has_spread)) {
        json_fail(at, err, "expected \"prior\" and \"spread\" where kind is fitted and only there");
    }
    if (!(of.is_some ? has_member : has_constant)(object, text.key)) {
        const char *last = strrchr(text.key, '.');
        if (may_have(of.shape, of.is_some && last ? last + 1 : text.key)) return;
        struct json key_at = json_get(at, "key", err);
        json_fail(&key_at, err, "this %s has no constant called \"%s\"", of.what, text.key);
    }
    *entry = (struct provenance){text.key, kind, text.source, text.prior, text.spread};
}

static struct provenance_list read_list(struct arena *arena, const struct json *object,
                                        struct speaking of, struct err *err)
{
    struct provenance_list list = {0};
    struct json array = json_get(object, "provenance", err);
    if (err->kind) return list;
    int count = json_count(&array, err);
    list.entries = ARENA_NEW(arena, struct provenance, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json at = json_item(&array, i);
        read_entry(object, &at, of, &list.entries[list.count], err);
        list.count += list.entries[list.count].key != NULL;
    }
    return list;
}

struct provenance_list provenance_read(struct arena *arena, const struct json *object,
                                       const char *what, struct err *err)
{
    return provenance_read_of(arena, object, what, NULL, err);
}

struct provenance_list provenance_read_of(struct arena *arena, const struct json *object,
                                          const char *what, const struct json_shape *shape,
                                          struct err *err)
{
    struct provenance_list list =
        read_list(arena, object, (struct speaking){what, false, shape}, err);
    if (!err->kind) check_covered(arena, &list, object, "", err);
    return list;
}

struct provenance_list provenance_read_some(struct arena *arena, const struct json *object,
                                            const char *what, const struct json_shape *shape,
                                            struct err *err)
{
    if (err->kind || !json_has(object, "provenance")) return (struct provenance_list){0};
    return read_list(arena, object, (struct speaking){what, true, shape}, err);
}

void provenance_put(struct json_writer *writer, const struct provenance *entry)
{
    assert(entry->key && entry->source);
    json_put_text(writer, "key", entry->key);
    json_put_text(writer, "kind", provenance_kind_name(entry->kind));
    json_put_text(writer, "source", entry->source);
    if (entry->kind != PROVENANCE_FITTED) return;
    json_put_f64(writer, "prior", entry->prior);
    json_put_f64(writer, "spread", entry->spread);
}

void provenance_write(struct json_writer *writer, const struct provenance *entries, int count)
{
    json_open(writer, "provenance", '[');
    for (int i = 0; i < count; i++) {
        json_open_flat(writer, NULL, '{');
        provenance_put(writer, &entries[i]);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}
