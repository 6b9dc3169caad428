#include "exchange/syntax.h"
#include "exchange/values.h"
#include "reports/page/markup.h"

#include <assert.h>
#include <string.h>

// TOML: sections and one value a line; lists may go on over lines.

static void put_value(struct markup *text, const struct setting *setting)
{
    assert(*key_name(setting->key));
    if (setting->why) markup_print(text, "# %s\n", setting->why);
    const char *value = setting->value;
    if (value_is_bare(value)) {
        markup_print(text, "%s = %s\n", key_name(setting->key), value);
    } else {
        markup_print(text, "%s = \"%s\"\n", key_name(setting->key), value);
    }
}

// A section is written once, where its first key stands, with all its keys.
static char *write_toml(struct arena *arena, const struct settings *settings,
                        const struct syntax_head *head)
{
    struct markup text = {.arena = arena};
    bool *is_written = ARENA_NEW(arena, bool, settings->count);
    for (int i = 0; i < head->line_count; i++)
        markup_print(&text, "# %s\n", head->lines[i]);
    for (int i = 0; i < settings->count; i++) {
        if (is_written[i]) continue;
        const char *group = key_group(arena, settings->items[i].key);
        markup_print(&text, "\n[%s]\n", group);
        for (int j = i; j < settings->count; j++) {
            if (strcmp(group, key_group(arena, settings->items[j].key)) != 0) continue;
            put_value(&text, &settings->items[j]);
            is_written[j] = true;
        }
    }
    return text.text;
}

// The length of a value that starts here, with the lines that its brackets hold.
static size_t whole_length(const char *at, int *line)
{
    int depth = 0;
    size_t length = 0;
    for (;;) {
        size_t part = value_length(at + length);
        for (size_t i = 0; i < part; i++) {
            depth += at[length + i] == '[';
            depth -= at[length + i] == ']';
        }
        length += part;
        if (depth <= 0 || !at[length]) return length;
        length += strcspn(at + length, "\n");
        length += at[length] == '\n';
        ++*line;
    }
}

static bool read_line(const char *path, const char *at, const char **section, int *line,
                      struct settings *settings, size_t *length, struct err *err)
{
    struct arena *arena = settings->arena;
    size_t used = value_length(at);
    const char *equals = memchr(at, '=', used);
    *length = used;
    if (*at == '[') {
        const char *close = memchr(at, ']', used);
        if (!close)
            return err_set(err, ERR_INPUT, "%s:%d: expected a ']' behind a section", path, *line);
        *section = value_unquoted(arena, at + 1, (size_t)(close - at) - 1);
        return true;
    }
    if (!equals) {
        bool is_blank = strspn(at, " \t\r") >= used;
        return is_blank || err_set(err, ERR_INPUT, "%s:%d: expected KEY = VALUE", path, *line);
    }
    const char *name = value_unquoted(arena, at, (size_t)(equals - at));
    const char *key = **section ? arena_print(arena, "%s.%s", *section, name) : name;
    int first = *line;
    size_t value = whole_length(equals + 1, line);
    assert(*line >= first);
    settings_read(settings, key, value_unquoted(arena, equals + 1, value), first);
    *length = (size_t)(equals - at) + 1 + value;
    return true;
}

static bool read_toml(const char *path, const char *text, struct settings *settings,
                      struct err *err)
{
    const char *section = "";
    int line = 1;
    for (const char *at = text; *at; line++) {
        size_t length;
        at += strspn(at, " \t");
        if (!read_line(path, at, &section, &line, settings, &length, err)) return false;
        at += length;
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    return true;
}

const struct exchange_syntax TOML_SYNTAX = {".toml", write_toml, read_toml};
