#include "core/json_write.h"
#include "exchange/syntax.h"
#include "exchange/values.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// JSON: nested objects. It has no comments: reasons stand in a file of their own or nowhere.

static void put_value(struct json_writer *writer, const char *name, const char *value)
{
    char *end = NULL;
    double number = strtod(value, &end);
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) {
        json_put_bool(writer, name, *value == 't');
    } else if (value_is_bare(value) && !*end) {
        json_put_f64(writer, name, number);
    } else {
        json_put_text(writer, name, value);
    }
}

// All settings below `group`, each group once, at its first setting.
static void put_group(struct json_writer *writer, const struct settings *settings,
                      const char *group, bool *is_written)
{
    assert(settings->count >= 0 && (settings->count == 0 || is_written));
    struct arena *arena = writer->arena;
    size_t length = strlen(group);
    for (int i = 0; i < settings->count; i++) {
        const char *key = settings->items[i].key;
        bool is_below = !length || (strncmp(key, group, length) == 0 && key[length] == '.');
        if (is_written[i] || !is_below) continue;
        const char *rest = key + (length ? length + 1 : 0), *dot = strchr(rest, '.');
        if (!dot) {
            put_value(writer, rest, settings->items[i].value);
            is_written[i] = true;
            continue;
        }
        const char *name = arena_print(arena, "%.*s", (int)(dot - rest), rest);
        json_open(writer, name, '{');
        put_group(writer, settings, arena_print(arena, "%.*s", (int)(dot - key), key), is_written);
        json_close(writer, '}');
    }
}

static char *write_json(struct arena *arena, const struct settings *settings,
                        const struct syntax_head *head)
{
    struct json_writer writer = {.arena = arena};
    (void)head;
    json_open(&writer, NULL, '{');
    put_group(&writer, settings, "", ARENA_NEW(arena, bool, settings->count));
    json_close(&writer, '}');
    return arena_print(arena, "%s\n", writer.text);
}

// Lines are counted from 1, as editors do.
static int line_of(const struct json *value)
{
    assert(value->document);
    int line = 1;
    size_t offset = json_span_of(value).offset;
    for (size_t i = 0; i < offset; i++)
        line += value->document->text[i] == '\n';
    return line;
}

static void read_object(const struct json *object, const char *group, struct settings *settings,
                        struct err *err)
{
    struct arena *arena = settings->arena;
    int count = json_member_count(object, err);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json member = json_item(object, i);
        const char *name = json_key(&member);
        const char *key =
            *group ? arena_print(arena, "%s.%s", group, name) : arena_copy(arena, name);
        if (json_is_object(&member)) {
            read_object(&member, key, settings, err);
            continue;
        }
        struct json_span span = json_span_of(&member);
        const char *text = json_is_text(&member) ? json_text(&member, err)
                                                 : arena_print(arena, "%.*s", (int)span.bytes,
                                                               member.document->text + span.offset);
        if (text) settings_read(settings, key, text, line_of(&member));
    }
}

static bool read_json(const char *path, const char *text, struct settings *settings,
                      struct err *err)
{
    struct json_document document;
    if (!json_parse(settings->arena, path, text, strlen(text), &document, err)) return false;
    struct json root = json_root(&document);
    if (!json_is_object(&root)) return json_fail(&root, err, "expected an object");
    read_object(&root, "", settings, err);
    return !err->kind;
}

const struct exchange_syntax JSON_SYNTAX = {".json", write_json, read_json};
