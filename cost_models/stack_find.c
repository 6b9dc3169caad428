#include "core/file.h"
#include "core/units.h"
#include "cost_models/stack.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

// Which file a name means: the shipped names first, then the aliases inside the files, so that a
// new alias is a word in a data file.

static const char FOLDER[] = "cost_models/stacks";

static const struct stack *load_file(struct arena *arena, const char *name, struct err *err)
{
    const char *path = file_find_data(arena, FOLDER, name, "stack", err);
    struct json_document document;
    if (!path || !json_load(arena, path, &document, err)) return NULL;
    struct json root = json_root(&document);
    return stack_read(arena, &root, err);
}

static bool is_path(const char *name)
{
    size_t length = strlen(name);
    return strchr(name, '/') || (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

static bool has_alias(const struct stack *stack, const char *name)
{
    for (int i = 0; i < stack->alias_count; i++) {
        if (strcasecmp(stack->aliases[i], name) == 0) return true;
    }
    return false;
}

// All names are listed, as a guess may be wrong.
static void fail_unknown(struct arena *arena, const char *name, const struct units_guess *guess,
                         const char **names, int count, struct err *err)
{
    assert(count > 0 && names[0]);
    const char *list = "";
    for (int i = 0; i < count; i++) {
        list = arena_print(arena, "%s%s%s", list, i ? ", " : "", names[i]);
    }
    const char *hint = ".";
    if (guess->best) hint = arena_print(arena, ", did you mean \"%s\"?", guess->best);
    err_set(err, ERR_INPUT, "no stack is called \"%s\"%s There are: %s", name, hint, list);
}

// Files by name before aliases: only the second need all files be read.
static const struct stack *load_newest(struct arena *arena, const char *name, struct err *err)
{
    int count = 0;
    const char **names = is_path(name) ? NULL : file_list_data(arena, FOLDER, &count);
    if (count == 0) return load_file(arena, name, err);
    struct units_guess guess = {.text = name};
    for (int i = 0; i < count; i++) {
        if (strcasecmp(names[i], name) == 0) return load_file(arena, names[i], err);
        units_guess_offer(&guess, names[i]);
    }
    for (int i = 0; i < count; i++) {
        const struct stack *stack = load_file(arena, names[i], err);
        if (!stack || has_alias(stack, name)) return stack;
        for (int j = 0; j < stack->alias_count; j++) {
            units_guess_offer(&guess, stack->aliases[j]);
        }
    }
    fail_unknown(arena, name, &guess, names, count, err);
    return NULL;
}

static void fail_release(struct arena *arena, const struct stack *stack, const char *release,
                         struct err *err)
{
    const char *list = stack->release ? stack->release : "";
    for (int i = 0; i < stack->release_count; i++) {
        list = arena_print(arena, "%s, %s", list, stack->releases[i].name);
    }
    for (int i = 0; i < stack->build_count; i++) {
        list = arena_print(arena, "%s%s%s", list, *list ? ", " : "", stack->builds[i].name);
    }
    if (!*list) {
        err_set(err, ERR_INPUT, "stack %s: its releases are not told apart, \"%s\" is none",
                stack->name, release);
        return;
    }
    err_set(err, ERR_INPUT, "stack %s has no release \"%s\". There are: %s", stack->name, release,
            list);
}

const struct stack *stack_load(struct arena *arena, const char *name, struct err *err)
{
    const char *at = strrchr(name, '@');
    if (!at || strchr(at, '/')) return load_newest(arena, name, err);
    const char *plain = arena_print(arena, "%.*s", (int)(at - name), name);
    const struct stack *newest = load_newest(arena, plain, err);
    if (!newest) return NULL;
    const struct stack *stack = stack_at_release(arena, newest, at + 1);
    if (!stack) fail_release(arena, newest, at + 1, err);
    return stack;
}

bool stack_is_for(const struct stack *stack, const char *device_kind)
{
    static const char *const NAMES[DEVICE_KIND_COUNT] = {"gpu", "npu", "cpu", "tpu", "hpu"};
    if (!stack->device_kinds) return true;
    for (int kind = 0; kind < DEVICE_KIND_COUNT; kind++) {
        if (strcmp(NAMES[kind], device_kind) == 0) return stack->device_kinds >> kind & 1;
    }
    return false;
}

void stack_read_aliases(struct arena *arena, const struct json *object, struct stack *stack,
                        struct err *err)
{
    if (err->kind || !json_has(object, "aliases")) return;
    struct json list = json_get(object, "aliases", err);
    int count = json_count(&list, err);
    stack->aliases = ARENA_NEW(arena, const char *, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json item = json_item(&list, i);
        stack->aliases[stack->alias_count++] = json_text(&item, err);
    }
}

void stack_write_aliases(struct json_writer *writer, const struct stack *stack)
{
    json_put_texts(writer, "aliases", stack->aliases, stack->alias_count);
}
