#include "cost_models/stack.h"

#include <string.h>

// Releases of one software, as differences from the newest, which the file's other members are.

static const struct json_field RELEASE_FIELDS[] = {
    {JSON_TEXT(struct stack_release, name)},
    {JSON_TEXT(struct stack_release, date)},
    {JSON_TEXT(struct stack_release, source)},
    {JSON_OPT_ANY("before")},
    {0},
};

static const struct json_field *field_of(const char *key)
{
    for (const struct json_field *field = stack_fields(); field->key; field++) {
        bool may_change = field->type == JSON_TYPE_BOOL || field->type == JSON_TYPE_F64;
        if (may_change && strcmp(field->key, key) == 0) return field;
    }
    return NULL;
}

static void read_changes(struct arena *arena, const struct json *object,
                         struct stack_release *release, struct err *err)
{
    int count = json_count(object, err);
    release->changes = ARENA_NEW(arena, struct stack_change, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json value = json_item(object, i);
        const char *key = json_key(&value);
        const struct json_field *field = field_of(key);
        if (!field) {
            json_fail(&value, err, "expected a number or a switch of the stack, found \"%s\"", key);
            return;
        }
        bool is_switch = field->type == JSON_TYPE_BOOL;
        release->changes[release->change_count++] = (struct stack_change){
            .key = field->key,
            .value =
                is_switch ? json_bool(&value, err) : json_f64(&value, field->low, field->high, err),
        };
    }
}

void stack_read_releases(struct arena *arena, const struct json *object, struct stack *stack,
                         struct err *err)
{
    if (err->kind || !json_has(object, "releases")) return;
    struct json list = json_get(object, "releases", err);
    if (!json_is_array(&list)) json_fail(&list, err, "expected an array");
    int count = err->kind ? 0 : json_count(&list, err);
    stack->releases = ARENA_NEW(arena, struct stack_release, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json item = json_item(&list, i);
        struct stack_release *release = &stack->releases[stack->release_count++];
        json_read(&item, RELEASE_FIELDS, release, err);
        if (err->kind || !json_has(&item, "before")) continue;
        struct json before = json_get(&item, "before", err);
        if (!err->kind) read_changes(arena, &before, release, err);
    }
}

// Earlier releases are not written, nor where they come from.
void stack_write_provenance(struct json_writer *writer, const struct stack *stack)
{
    struct provenance *list = ARENA_NEW(writer->arena, struct provenance, stack->provenance_count);
    int count = 0;
    for (int i = 0; i < stack->provenance_count; i++) {
        if (strcmp(stack->provenance[i].key, "releases") != 0) list[count++] = stack->provenance[i];
    }
    provenance_write(writer, list, count);
}

static void apply(struct stack *stack, const struct stack_change *change)
{
    const struct json_field *field = field_of(change->key);
    void *member = (char *)stack + field->offset;
    if (field->type == JSON_TYPE_BOOL)
        *(bool *)member = change->value != 0;
    else
        *(double *)member = change->value;
}

const struct stack *stack_at_release(struct arena *arena, const struct stack *stack,
                                     const char *release)
{
    if (stack->release && strcmp(stack->release, release) == 0) return stack;
    struct stack *copy = stack_copy(arena, stack);
    copy->newest = stack;
    for (int i = 0; i < stack->release_count; i++) {
        const struct stack_release *at = &stack->releases[i];
        for (int k = 0; k < at->change_count; k++)
            apply(copy, &at->changes[k]);
        copy->release = at->name;
        if (strcmp(at->name, release) == 0) return copy;
    }
    return NULL;
}
