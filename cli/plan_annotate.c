#include "cli/plan_annotate.h"
#include "core/file.h"

#include <string.h>

static const char OPTION[] = "--annotate";

struct taking {
    struct arena *arena;
    const struct option *options;
    const char *path;
    int line, given;  // arguments of the command line, and behind them those of the file
    char **argv;
    int *lines, argc, capacity, line_capacity;  // [argument]: of the file
    struct err *err;
};

// The value of an argument that names an option, in it or behind it; NULL: it is another one.
static const char *value_of(char **argv, int argc, int at, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(argv[at], name, length) != 0) return NULL;
    if (argv[at][length] == '=') return argv[at] + length + 1;
    if (argv[at][length]) return NULL;
    bool has_value = at + 1 < argc && strncmp(argv[at + 1], "--", 2) != 0;
    return has_value ? argv[at + 1] : "";
}

static bool is_pin(const struct option *options, const char *name)
{
    bool pins = false;
    for (const struct option *option = options; option->name; option++) {
        if (option->kind == OPTION_GROUP) pins = strcmp(option->name, "Pins") == 0;
        if (pins && strcmp(option->name, name) == 0) return true;
    }
    return false;
}

static void add(struct taking *taking, const char *text)
{
    ARENA_GROW(taking->arena, taking->argv, taking->argc, taking->capacity);
    ARENA_GROW(taking->arena, taking->lines, taking->argc, taking->line_capacity);
    taking->argv[taking->argc] = arena_print(taking->arena, "%s", text);
    taking->lines[taking->argc++] = taking->line;
}

// What says the same is left out.
static bool take(struct taking *taking, const char *name, const char *value)
{
    if (!is_pin(taking->options, name))
        return err_set(taking->err, ERR_USAGE,
                       "%s:%d:1: %s is no pin; beside layouts a file of annotations has pins, as "
                       "\"--tp 4\"",
                       taking->path, taking->line, name);
    for (int i = 1; i < taking->argc && strcmp(name, "--forbid") != 0; i++) {
        const char *said = value_of(taking->argv, taking->argc, i, name);
        if (!said) continue;
        if (strcmp(said, value) == 0) return true;
        const char *where = i < taking->given
                                ? "the command line"
                                : arena_print(taking->arena, "line %d", taking->lines[i]);
        return err_set(taking->err, ERR_USAGE, "%s:%d:1: \"%s %s\" contradicts %s, \"%s %s\"",
                       taking->path, taking->line, name, value, where, name, said);
    }
    add(taking, name);
    if (*value) add(taking, value);
    return true;
}

static const char *trimmed(struct arena *arena, const char *from, const char *end)
{
    while (from < end && strchr(" \t\r", *from))
        from++;
    while (end > from && strchr(" \t\r", end[-1]))
        end--;
    return arena_print(arena, "%.*s", (int)(end - from), from);
}

static bool take_line(struct taking *taking, const char *line, const char *end)
{
    const char *comment = memchr(line, '#', (size_t)(end - line));
    if (comment) end = comment;
    const char *text = trimmed(taking->arena, line, end);
    if (strncmp(text, "--", 2) != 0) return true;
    size_t length = strcspn(text, " \t=");
    const char *rest = text + length;
    const char *value = trimmed(taking->arena, rest + (*rest == '='), rest + strlen(rest));
    return take(taking, arena_print(taking->arena, "%.*s", (int)length, text), value);
}

bool plan_annotate_arguments(struct arena *arena, const struct option *options, int *argc,
                             char ***argv, struct err *err)
{
    enum { LIMIT_BYTES = 1 << 20 };
    struct taking taking = {.arena = arena, .options = options, .given = *argc, .err = err};
    for (int i = 1; i < *argc && !taking.path; i++)
        taking.path = value_of(*argv, *argc, i, OPTION);
    if (!taking.path || !*taking.path) return true;  // what parses them says what is wrong
    size_t bytes = 0;
    const char *text = file_read(arena, taking.path, LIMIT_BYTES, &bytes, err);
    if (!text) return false;
    for (int i = 0; i < *argc; i++)
        add(&taking, (*argv)[i]);
    for (const char *line = text; *line;) {
        const char *end = line + strcspn(line, "\n");
        taking.line++;
        if (!take_line(&taking, line, end)) return false;
        line = *end ? end + 1 : end;
    }
    *argc = taking.argc;
    *argv = taking.argv;
    return true;
}
