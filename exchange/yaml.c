#include "exchange/syntax.h"
#include "exchange/values.h"
#include "reports/page/markup.h"

#include <assert.h>
#include <string.h>

// YAML as configurations have it: maps nested by indentation, one value a line; lists are read as
// one text.

enum { DEPTH_MAX = 16 };

// A map is written once, where its first key stands, with all below it.
static void put_group(struct markup *text, const struct settings *settings, const char *group,
                      int depth, bool *is_written)
{
    assert(depth >= 0);
    struct arena *arena = text->arena;
    size_t length = strlen(group);
    for (int i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->items[i];
        const char *key = setting->key;
        bool is_below = !length || (strncmp(key, group, length) == 0 && key[length] == '.');
        if (is_written[i] || !is_below) continue;
        const char *rest = key + (length ? length + 1 : 0), *dot = strchr(rest, '.');
        if (dot) {
            markup_print(text, "%*s%.*s:\n", 2 * depth, "", (int)(dot - rest), rest);
            put_group(text, settings, arena_print(arena, "%.*s", (int)(dot - key), key), depth + 1,
                      is_written);
            continue;
        }
        if (setting->why) markup_print(text, "%*s# %s\n", 2 * depth, "", setting->why);
        const char *quote = value_is_bare(setting->value) ? "" : "\"";
        markup_print(text, "%*s%s: %s%s%s\n", 2 * depth, "", rest, quote, setting->value, quote);
        is_written[i] = true;
    }
}

static char *write_yaml(struct arena *arena, const struct settings *settings,
                        const struct syntax_head *head)
{
    struct markup text = {.arena = arena};
    for (int i = 0; i < head->line_count; i++)
        markup_print(&text, "# %s\n", head->lines[i]);
    put_group(&text, settings, "", 0, ARENA_NEW(arena, bool, settings->count));
    return text.text;
}

// The open maps, outermost first.
struct levels {
    size_t indents[DEPTH_MAX];
    const char *names[DEPTH_MAX];
    int depth;
};

static const char *key_of(struct arena *arena, const struct levels *levels, const char *name)
{
    assert(levels->depth >= 0 && levels->depth <= DEPTH_MAX);
    const char *key = name;
    for (int i = levels->depth; i-- > 0;)
        key = arena_print(arena, "%s.%s", levels->names[i], key);
    return key;
}

static const char *on_one_line(struct arena *arena, const char *value)
{
    char *text = arena_copy(arena, value), *to = text;
    for (const char *at = text; *at; at++) {
        bool is_blank = strchr(" \t\r\v", *at) != NULL;
        if (!is_blank) *to++ = *at;
        if (is_blank && to > text && to[-1] != ' ') *to++ = ' ';
    }
    *to = '\0';
    return text;
}

// A value without its anchor, "&dp 2", and true or false in small letters.
static const char *plain_value(struct arena *arena, const char *text, size_t length)
{
    const char *value = value_unquoted(arena, text, length);
    if (*value == '&') {
        value += strcspn(value, " ");
        value = value_unquoted(arena, value, strlen(value));
    }
    if (strchr(value, '\v')) value = on_one_line(arena, value);
    if (strcmp(value, "True") == 0) return "true";
    return strcmp(value, "False") == 0 ? "false" : value;
}

static bool read_line(const char *path, const char *at, int line, struct levels *levels,
                      struct settings *settings, struct err *err)
{
    struct arena *arena = settings->arena;
    size_t indent = strspn(at, " "), length = value_length(at);
    const char *start = at + indent;
    if (indent + strspn(start, "\t\r") >= length || strncmp(start, "---", 3) == 0 ||
        strncmp(start, "- ", 2) == 0)
        return true;
    const char *colon = memchr(start, ':', length - indent);
    if (!colon) return err_set(err, ERR_INPUT, "%s:%d: expected KEY: VALUE", path, line);
    while (levels->depth > 0 && levels->indents[levels->depth - 1] >= indent)
        levels->depth--;
    const char *name = value_unquoted(arena, start, (size_t)(colon - start));
    const char *value = plain_value(arena, colon + 1, length - (size_t)(colon + 1 - at));
    if (*value) {
        settings_read(settings, key_of(arena, levels, name), value, line);
        return true;
    }
    if (levels->depth == DEPTH_MAX)
        return err_set(err, ERR_INPUT, "%s:%d: nested deeper than %d", path, line, DEPTH_MAX);
    assert(levels->depth == 0 || levels->indents[levels->depth - 1] < indent);
    levels->indents[levels->depth] = indent;
    levels->names[levels->depth++] = name;
    return true;
}

// Lists and maps in brackets that go on over lines are on one, with '\v' where these ended. Where
// brackets never close, the text stays as it is: they were none.
static const char *joined(struct arena *arena, const char *text)
{
    char *copy = arena_copy(arena, text), before = '\n';
    int depth = 0;
    for (char *at = copy; *at; at++) {
        bool is_value = depth > 0 || before == ':';
        if (*at == '#' && (at == copy || strchr(" \t\n\v", at[-1]))) {
            for (; at[1] && at[1] != '\n'; at++)
                *at = depth > 0 ? ' ' : *at;
            if (depth > 0) *at = ' ';
        } else if ((*at == '"' || *at == '\'') && is_value) {
            const char *end = strchr(at + 1, *at);
            if (end) at = copy + (end - copy);
            before = *at;
        } else if (strchr("[{", *at) && is_value) {
            depth++;
        } else if (strchr("]}", *at) && depth > 0) {
            before = depth-- > 1 ? before : *at;
        } else if (*at == '\n') {
            if (depth > 0) *at = '\v';
            before = depth > 0 ? before : '\n';
        } else if (depth == 0 && !strchr(" \t", *at)) {
            before = *at;
        }
    }
    return depth == 0 ? copy : text;
}

static bool read_yaml(const char *path, const char *text, struct settings *settings,
                      struct err *err)
{
    struct levels levels = {.depth = 0};
    int line = 1;
    for (const char *at = joined(settings->arena, text); *at; line++) {
        if (!read_line(path, at, line, &levels, settings, err)) return false;
        for (; *at && *at != '\n'; at++)
            line += *at == '\v';
        at += *at == '\n';
    }
    return true;
}

const struct exchange_syntax YAML_SYNTAX = {".yaml .yml", write_yaml, read_yaml};
