#include "models/families/family.h"

#include <assert.h>
#include <string.h>

// What the families with layers that scan ask of their keys.

const uint8_t *family_alike(struct family_reader *reader, int64_t layer_count, unsigned parts)
{
    assert(layer_count > 0 && parts > 0);
    uint8_t *alike = ARENA_NEW(reader->arena, uint8_t, layer_count);
    for (int64_t i = 0; i < layer_count; i++)
        alike[i] = (uint8_t)parts;
    return alike;
}

static unsigned parts_called(const struct family_layer_type *types, const char *name)
{
    int at = 0;
    while (types[at].name && strcmp(types[at].name, name) != 0)
        at++;
    return types[at].parts;
}

static const char *names_of(struct arena *arena, const struct family_layer_type *types)
{
    const char *list = "";
    for (int i = 0; types[i].name; i++)
        list = arena_print(arena, "%s%s%s", list, i ? ", " : "", types[i].name);
    return list;
}

const uint8_t *family_layer_parts(struct family_reader *reader, const char *key,
                                  int64_t layer_count, const struct family_layer_type *types)
{
    if (reader->err->kind) return NULL;
    uint8_t *parts = ARENA_NEW(reader->arena, uint8_t, layer_count);
    struct json list = json_get(reader->object, key, reader->err);
    int count = json_count(&list, reader->err);
    if (!reader->err->kind && count != layer_count)
        json_fail(&list, reader->err, "%d layers; num_hidden_layers has %lld", count,
                  (long long)layer_count);
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json item = json_item(&list, i);
        const char *text = json_text(&item, reader->err);
        if (!text) return NULL;
        parts[i] = (uint8_t)parts_called(types, text);
        if (parts[i]) continue;
        json_fail(&item, reader->err, "unknown layer type \"%s\"; known: %s", text,
                  names_of(reader->arena, types));
    }
    return parts;
}

// All published models have steps without an upper limit, which json writes in several ways.
static void read_limit(struct family_reader *reader, double *least)
{
    static const char KEY[] = "time_step_limit";
    if (reader->err->kind || !json_has(reader->object, KEY)) return;
    struct json limit = json_get(reader->object, KEY, reader->err);
    if (!json_is_array(&limit) || json_count(&limit, reader->err) != 2) {
        json_fail(&limit, reader->err, "expected two numbers");
        return;
    }
    struct json low = json_item(&limit, 0), high = json_item(&limit, 1);
    bool is_open = !json_is_number(&high) || json_f64(&high, -1e300, 1e300, reader->err) > 1e30;
    *least = json_f64(&low, 0, 1e6, reader->err);
    if (!reader->err->kind && !is_open)
        json_fail(&limit, reader->err, "an upper limit of steps is not supported");
}

void family_check_scan(struct family_reader *reader, struct decoder *decoder, const char *head_key,
                       const char *group_key)
{
    struct scan_sizes *scan = &decoder->scan;
    read_limit(reader, &scan->step_min);
    if (reader->err->kind) return;
    assert(scan->group_count > 0);
    if (scan->head_count % scan->group_count != 0) {
        family_fail(reader, group_key, "%lld groups do not divide %lld heads (%s)",
                    (long long)scan->group_count, (long long)scan->head_count, head_key);
    }
}

int64_t family_step_rank(struct family_reader *reader, const char *key, int64_t hidden)
{
    enum { SHARE = 16 };
    int64_t derived = (hidden + SHARE - 1) / SHARE;
    if (reader->err->kind) return derived;
    if (!json_has(reader->object, key)) {
        family_taken(reader, key, "%lld (hidden_size / %d)", (long long)derived, SHARE);
        return derived;
    }
    struct json rank = json_get(reader->object, key, reader->err);
    if (json_is_number(&rank)) return json_i64(&rank, 1, WIDTH_MAX, reader->err);
    const char *text = json_text(&rank, reader->err);
    if (text && strcmp(text, "auto") != 0)
        json_fail(&rank, reader->err, "\"%s\"; expected a number, or \"auto\"", text);
    return derived;
}
