#include "core/plain.h"
#include "exchange/shell.h"
#include "exchange/syntax.h"

#include <assert.h>
#include <string.h>

// Options of a command line as an array of bash, one a line with its reason above.

static const char *words_of(struct arena *arena, const char *value)
{
    const char *text = "";
    for (const char *at = value; *at;) {
        size_t length = strcspn(at, " ");
        const char *word = arena_print(arena, "%.*s", (int)length, at);
        text = arena_print(arena, "%s %s", text, plain_shell(arena, word));
        at += length + (at[length] == ' ');
    }
    return text;
}

// The counts stand above the options, so that launch.sh and people change them in one place.
static char *write_arguments(struct arena *arena, const struct settings *settings,
                             const struct syntax_head *head)
{
    assert(head->nodes > 0 && head->gpus_per_node > 0);
    char *text = "";
    for (int i = 0; i < head->line_count; i++)
        text = arena_print(arena, "%s# %s\n", text, head->lines[i]);
    text = arena_print(arena, "%sNNODES=%lld\nGPUS_PER_NODE=%lld\nARGUMENTS=(\n", text,
                       (long long)head->nodes, (long long)head->gpus_per_node);
    for (int i = 0; i < settings->count; i++) {
        const struct setting *setting = &settings->items[i];
        if (setting->why) text = arena_print(arena, "%s    # %s\n", text, setting->why);
        text =
            arena_print(arena, "%s    %s%s\n", text, setting->key, words_of(arena, setting->value));
    }
    return arena_print(arena, "%s)\n", text);
}

static bool read_arguments(const char *path, const char *text, struct settings *settings,
                           struct err *err)
{
    enum { NESTED_MAX = 64 };
    struct shell shell = {
        .arena = settings->arena, .path = path, .text = text, .settings = settings};
    // Any text is a script, but brackets in brackets are followed as deep as they go.
    int depth = 0;
    for (const char *at = text; *at; at++) {
        depth += *at == '(' || *at == '{';
        depth -= depth > 0 && (*at == ')' || *at == '}');
        if (depth > NESTED_MAX)
            return err_set(err, ERR_INPUT, "%s: brackets nested deeper than %d", path, NESTED_MAX);
    }
    shell_read(&shell);
    return true;
}

const struct exchange_syntax ARGUMENTS_SYNTAX = {"", write_arguments, read_arguments};
