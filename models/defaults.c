#include "models/defaults.h"

#include "core/file.h"
#include "core/json_write.h"
#include "core/units.h"

#include <assert.h>
#include <string.h>

// Whether a key says what a file is, or is the number of a token: nothing of the model.
static bool is_aside(const char *key)
{
    static const char TOKEN[] = "_token_id";
    static const char *const KEYS[] = {"_name_or_path", "model_type", "torch_dtype",
                                       "transformers_version", "architectures"};
    size_t length = strlen(key), tail = sizeof TOKEN - 1;
    if (length > tail && strcmp(key + length - tail, TOKEN) == 0) return true;
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        if (strcmp(key, KEYS[i]) == 0) return true;
    }
    return false;
}

// Whether the object has the key, be it with null.
static bool stands_in(const struct json *object, const char *key)
{
    struct err fault = {0};
    int count = json_member_count(object, &fault);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        if (strcmp(json_key(&member), key) == 0) return true;
    }
    return false;
}

static const char *text_at(const struct json *object, const char *key)
{
    struct err fault = {0};
    struct json value = json_get(object, key, &fault);
    const char *text = json_text(&value, &fault);
    return fault.kind ? NULL : text;
}

static bool has_numbers(const struct json *object)
{
    struct err fault = {0};
    int count = json_member_count(object, &fault);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        if (is_aside(json_key(&member))) continue;
        if (json_is_number(&member) || json_is_object(&member) || json_is_array(&member))
            return true;
    }
    return false;
}

static bool knows_keys(const struct json *defaults, const struct json *object)
{
    struct err fault = {0};
    int count = json_member_count(object, &fault);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        const char *key = json_key(&member);
        if (is_aside(key)) continue;
        if (!stands_in(defaults, key)) return false;
        if (json_is_text(&member) && json_has(defaults, key) && !text_at(defaults, key))
            return false;
    }
    return true;
}

// "vocab_size 32000, vision_config.hidden_size 1152": the numbers, but for those of tokens and of
// what stands for labels.
static const char *numbers_of(struct arena *arena, const struct json *object, const char *prefix,
                              const char *list)
{
    static const char LABELS[] = "label2id";
    struct err fault = {0};
    int count = json_member_count(object, &fault);
    for (int i = 0; i < count; i++) {
        struct json member = json_item(object, i);
        const char *key = json_key(&member);
        char text[UNITS_NUMBER_BYTES];
        if (is_aside(key) || strcmp(key, LABELS) == 0) continue;
        if (json_is_object(&member))
            list = numbers_of(arena, &member, arena_print(arena, "%s%s.", prefix, key), list);
        if (!json_is_number(&member)) continue;
        double value = json_f64(&member, -1e300, 1e300, &fault);
        list = arena_print(arena, "%s%s%s%s %s", list, *list ? ", " : "", prefix, key,
                           units_number(text, value));
    }
    return list;
}

static const struct json *merge(struct arena *arena, const struct json *object,
                                const struct json *defaults)
{
    struct json_writer writer = {.arena = arena};
    struct err fault = {0};
    const struct json *const sources[] = {object, defaults};
    json_open(&writer, NULL, '{');
    for (int s = 0; s < 2; s++) {
        int count = json_member_count(sources[s], &fault);
        for (int i = 0; i < count; i++) {
            struct json member = json_item(sources[s], i);
            if (s == 0 || !stands_in(object, json_key(&member)))
                json_put_copy(&writer, json_key(&member), &member);
        }
    }
    json_close(&writer, '}');
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    struct json *root = ARENA_NEW(arena, struct json, 1);
    if (!json_parse(arena, object->document->path, writer.text, writer.length, document, &fault))
        return NULL;
    *root = json_root(document);
    return root;
}

const struct json *defaults_under(struct arena *arena, const struct json *object, const char **note,
                                  struct err *err)
{
    assert(note && !err->kind);
    struct err fault = {0};
    struct json_document document = {0};
    const char *type = json_is_object(object) ? text_at(object, "model_type") : NULL;
    if (!type || strspn(type, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(type) ||
        has_numbers(object))
        return NULL;
    const char *path = file_find_data(arena, "models/defaults", type, "defaults", &fault);
    if (!path || !json_load(arena, path, &document, err)) return NULL;
    struct json defaults = json_root(&document);
    if (!knows_keys(&defaults, object)) return NULL;
    const struct json *merged = merge(arena, object, &defaults);
    if (!merged) return NULL;
    *note = arena_print(arena,
                        "%s: no number is given, taken as transformers %s has them for %s "
                        "(models/defaults/%s.json): %s",
                        object->document->path, text_at(&defaults, "transformers_version"), type,
                        type, numbers_of(arena, &defaults, "", ""));
    return merged;
}
