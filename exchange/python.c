#include "exchange/syntax.h"
#include "exchange/values.h"
#include "reports/page/markup.h"

#include <ctype.h>
#include <string.h>

// Python as far as it says options: the keyword arguments of calls. "Name(key=value)" is
// "Name.key", "name = dict(key=value)" is "name.key". Calls of names in small letters are passed
// by, what stands in them is read. Nothing is run: a value that is a name or a call stays as it is
// written.

// What a call is assigned to: the last word of its name, "plugin" of HybridParallelPlugin.
static const char *variable_of(struct arena *arena, const char *group)
{
    const char *word = group;
    for (const char *at = group; *at; at++)
        word = isupper((unsigned char)*at) ? at : word;
    char *text = arena_copy(arena, word);
    text[0] = (char)tolower((unsigned char)text[0]);
    return text;
}

static void put_value(struct markup *text, const char *value)
{
    bool is_true = strcmp(value, "true") == 0, is_false = strcmp(value, "false") == 0;
    const char *quote = value_is_bare(value) ? "" : "\"";
    const char *shown = is_true ? "True" : is_false ? "False" : value;
    markup_print(text, "%s%s%s", quote, shown, quote);
}

static void put_call(struct markup *text, const struct settings *settings, const char *group)
{
    bool is_class = isupper((unsigned char)*group);
    markup_print(text, "\n%s = %s(\n", variable_of(text->arena, group), is_class ? group : "dict");
    for (int i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->items[i];
        if (strcmp(key_group(text->arena, setting->key), group) != 0) continue;
        if (setting->why) markup_print(text, "    # %s\n", setting->why);
        markup_print(text, "    %s=", key_name(setting->key));
        put_value(text, setting->value);
        markup_print(text, ",\n");
    }
    markup_print(text, ")\n");
}

// Each group once, at its first setting.
static char *write_python(struct arena *arena, const struct settings *settings,
                          const struct syntax_head *head)
{
    struct markup text = {.arena = arena};
    for (int i = 0; i < head->line_count; i++)
        markup_print(&text, "# %s\n", head->lines[i]);
    if (head->opening) markup_print(&text, "%s", head->opening);
    for (int i = 0; i < settings->count; i++) {
        const char *group = key_group(arena, settings->items[i].key);
        bool is_first = true;
        for (int k = 0; k < i && is_first; k++)
            is_first = strcmp(key_group(arena, settings->items[k].key), group) != 0;
        if (is_first) put_call(&text, settings, group);
    }
    return text.text ? text.text : arena_copy(arena, "");
}

struct reader {
    struct arena *arena;
    const char *path;
    const char *at;
    int line;
    struct settings *settings;
};

static bool is_name(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

// Behind a text in quotes, one or three of them.
static void skip_text(struct reader *reader)
{
    char quote = *reader->at;
    int width = reader->at[1] == quote && reader->at[2] == quote ? 3 : 1;
    for (reader->at += width; *reader->at; reader->at++) {
        reader->line += *reader->at == '\n';
        if (*reader->at == '\\' && reader->at[1]) {
            reader->at++;
            continue;
        }
        bool is_end = *reader->at == quote;
        if (width == 3) is_end = is_end && reader->at[1] == quote && reader->at[2] == quote;
        if (!is_end && !(width == 1 && *reader->at == '\n')) continue;
        reader->at += width;
        return;
    }
}

static void skip_comment(struct reader *reader)
{
    reader->at += strcspn(reader->at, "\n");
}

// Over blanks, lines and comments.
static void skip_blanks(struct reader *reader)
{
    for (;; reader->at++) {
        if (*reader->at == '#') skip_comment(reader);
        if (!*reader->at || !strchr(" \t\r\n\\", *reader->at)) return;
        reader->line += *reader->at == '\n';
    }
}

// One argument, up to the ',' or ')' behind it.
static const char *read_argument(struct reader *reader)
{
    const char *start = reader->at, *end = NULL;
    for (int depth = 0; *reader->at;) {
        char letter = *reader->at;
        if (depth == 0 && (letter == ',' || letter == ')')) break;
        if (letter == '\'' || letter == '"') {
            skip_text(reader);
            continue;
        }
        if (letter == '#') {
            end = end || depth ? end : reader->at;
            skip_comment(reader);
            continue;
        }
        depth += strchr("([{", letter) != NULL;
        depth -= strchr(")]}", letter) != NULL;
        reader->line += letter == '\n';
        reader->at++;
    }
    return arena_print(reader->arena, "%.*s", (int)((end ? end : reader->at) - start), start);
}

static const char *value_of(struct arena *arena, const char *text)
{
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    while (length > 0 && isspace((unsigned char)*text)) {
        text++;
        length--;
    }
    const char *value = value_unquoted(arena, text, length);
    if (strcmp(value, "True") == 0) return "true";
    return strcmp(value, "False") == 0 ? "false" : value;
}

// The arguments behind '('.
static bool read_call(struct reader *reader, const char *group, struct err *err)
{
    int first = reader->line;
    for (;;) {
        skip_blanks(reader);
        if (*reader->at == ')') return true;
        int line = reader->line;
        const char *text = read_argument(reader);
        size_t name = 0;
        while (is_name(text[name]))
            name++;
        const char *equals = text + name + strspn(text + name, " \t");
        if (name > 0 && *equals == '=' && equals[1] != '=') {
            const char *key = arena_print(reader->arena, "%s.%.*s", group, (int)name, text);
            settings_read(reader->settings, key, value_of(reader->arena, equals + 1), line);
        }
        if (!*reader->at)
            return err_set(err, ERR_INPUT, "%s:%d: expected a ')' behind a call", reader->path,
                           first);
        reader->at += *reader->at == ',';
    }
}

static bool read_python(const char *path, const char *text, struct settings *settings,
                        struct err *err)
{
    struct reader reader = {settings->arena, path, text, 1, settings};
    const char *assigned = "";
    while (*reader.at) {
        if (*reader.at == '#') {
            skip_comment(&reader);
        } else if (*reader.at == '\'' || *reader.at == '"') {
            skip_text(&reader);
        } else if (is_name(*reader.at)) {
            const char *start = reader.at;
            while (is_name(*reader.at))
                reader.at++;
            const char *name = arena_print(reader.arena, "%.*s", (int)(reader.at - start), start);
            const char *next = reader.at + strspn(reader.at, " \t");
            bool is_dict = strcmp(name, "dict") == 0 && *assigned;
            bool is_call = *next == '(' && (is_dict || isupper((unsigned char)*name));
            if (*next == '=' && next[1] != '=') assigned = name;
            if (!is_call) continue;
            reader.at = next + 1;
            if (!read_call(&reader, is_dict ? assigned : name, err)) return false;
        } else {
            reader.line += *reader.at == '\n';
            reader.at++;
        }
    }
    return true;
}

const struct exchange_syntax PYTHON_SYNTAX = {".py", write_python, read_python};
