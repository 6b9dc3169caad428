#include "cost_models/stack.h"

#include <assert.h>
#include <string.h>

// Releases and builds of one software, as differences from the newest, which the file's other
// members are.

static const struct json_field RELEASE_FIELDS[] = {
    {JSON_TEXT(struct stack_release, name)},
    {JSON_TEXT(struct stack_release, date)},
    {JSON_TEXT(struct stack_release, source)},
    {JSON_OPT_ANY("before")},
    {0},
};

static const struct json_field BUILD_FIELDS[] = {
    {JSON_TEXT(struct stack_build, name)},
    {JSON_TEXT(struct stack_build, source)},
    {JSON_ANY("with")},
    {0},
};

// Only numbers and switches differ between releases.
static const struct json_field *field_of(const char *key)
{
    for (const struct json_field *field = stack_fields(); field->key; field++) {
        bool may_change = field->type == JSON_TYPE_BOOL || field->type == JSON_TYPE_F64;
        if (may_change && strcmp(field->key, key) == 0) return field;
    }
    return NULL;
}

static struct stack_change *read_changes(struct arena *arena, const struct json *object, int *count,
                                         struct err *err)
{
    int limit = json_member_count(object, err);
    struct stack_change *changes = ARENA_NEW(arena, struct stack_change, limit);
    for (int i = 0; i < limit && !err->kind; i++) {
        struct json value = json_item(object, i);
        const char *key = json_key(&value);
        const struct json_field *field = field_of(key);
        if (!field) {
            json_fail(&value, err, "expected a number or a switch of the stack, found \"%s\"", key);
            break;
        }
        bool is_switch = field->type == JSON_TYPE_BOOL;
        assert(*count < limit);
        changes[(*count)++] = (struct stack_change){
            .key = field->key,
            .value =
                is_switch ? json_bool(&value, err) : json_f64(&value, field->low, field->high, err),
        };
    }
    return changes;
}

static void read_releases(struct arena *arena, const struct json *object, struct stack *stack,
                          struct err *err)
{
    struct json list = json_get(object, "releases", err);
    int count = json_count(&list, err);
    stack->releases = ARENA_NEW(arena, struct stack_release, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json item = json_item(&list, i);
        struct stack_release *release = &stack->releases[stack->release_count++];
        json_read(&item, RELEASE_FIELDS, release, err);
        if (err->kind || !json_has(&item, "before")) continue;
        struct json before = json_get(&item, "before", err);
        if (!err->kind)
            release->changes = read_changes(arena, &before, &release->change_count, err);
    }
}

static void read_builds(struct arena *arena, const struct json *object, struct stack *stack,
                        struct err *err)
{
    struct json list = json_get(object, "builds", err);
    int count = json_count(&list, err);
    stack->builds = ARENA_NEW(arena, struct stack_build, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json item = json_item(&list, i);
        struct stack_build *build = &stack->builds[stack->build_count++];
        json_read(&item, BUILD_FIELDS, build, err);
        struct json with = json_get(&item, "with", err);
        if (!err->kind) build->changes = read_changes(arena, &with, &build->change_count, err);
    }
}

void stack_read_releases(struct arena *arena, const struct json *object, struct stack *stack,
                         struct err *err)
{
    if (!err->kind && json_has(object, "releases")) read_releases(arena, object, stack, err);
    if (!err->kind && json_has(object, "builds")) read_builds(arena, object, stack, err);
    if (err->kind || !json_has(object, "with_experts")) return;
    struct json with = json_get(object, "with_experts", err);
    stack->with_experts = read_changes(arena, &with, &stack->with_experts_count, err);
}

static bool is_left_out(const char *key)
{
    return strcmp(key, "releases") == 0 || strcmp(key, "builds") == 0 ||
           strcmp(key, "with_experts") == 0;
}

// Earlier releases and other builds are not written, nor where they come from.
void stack_write_provenance(struct json_writer *writer, const struct stack *stack)
{
    struct provenance *list = ARENA_NEW(writer->arena, struct provenance, stack->provenance_count);
    int count = 0;
    for (int i = 0; i < stack->provenance_count; i++) {
        if (!is_left_out(stack->provenance[i].key)) list[count++] = stack->provenance[i];
    }
    provenance_write(writer, list, count);
}

static void apply(struct stack *stack, const struct stack_change *change)
{
    const struct json_field *field = field_of(change->key);
    assert(field && "read_changes let it in");
    void *member = (char *)stack + field->offset;
    if (field->type == JSON_TYPE_BOOL)
        *(bool *)member = change->value != 0;
    else
        *(double *)member = change->value;
}

void stack_apply_experts(struct stack *stack)
{
    for (int i = 0; i < stack->with_experts_count; i++) {
        apply(stack, &stack->with_experts[i]);
    }
}

// Where a number that differs comes from: in place of what the newest says of its own, or beside
// it.
static void note_source(struct arena *arena, struct stack *copy, const struct stack_change *change,
                        const char *name, const char *source)
{
    if (field_of(change->key)->type == JSON_TYPE_BOOL) return;
    struct provenance *list = ARENA_NEW(arena, struct provenance, copy->provenance_count + 1);
    int count = 0;
    for (int i = 0; i < copy->provenance_count; i++) {
        bool is_same = strcmp(copy->provenance[i].key, change->key) == 0;
        if (!is_same) list[count++] = copy->provenance[i];
    }
    list[count++] = (struct provenance){.key = change->key,
                                        .kind = PROVENANCE_ESTIMATED,
                                        .source = arena_print(arena, "%s: %s", name, source)};
    assert(count <= copy->provenance_count + 1);
    copy->provenance = list;
    copy->provenance_count = count;
}

// Differences are each from the release behind it: all up to the one that is asked for add up.
static bool go_back(struct arena *arena, struct stack *copy, const struct stack *newest,
                    const char *name)
{
    if (newest->release && strcmp(newest->release, name) == 0) return true;
    int count = 0;
    while (count < newest->release_count && strcmp(newest->releases[count].name, name) != 0) {
        count++;
    }
    if (count == newest->release_count) return false;
    for (int i = 0; i <= count; i++) {
        const struct stack_release *at = &newest->releases[i];
        for (int k = 0; k < at->change_count; k++) {
            apply(copy, &at->changes[k]);
            note_source(arena, copy, &at->changes[k], at->name, at->source);
        }
    }
    return true;
}

static bool add_build(struct arena *arena, struct stack *copy, const struct stack *newest,
                      const char *name)
{
    for (int i = 0; i < newest->build_count; i++) {
        const struct stack_build *build = &newest->builds[i];
        if (strcmp(build->name, name) != 0) continue;
        for (int k = 0; k < build->change_count; k++) {
            apply(copy, &build->changes[k]);
            note_source(arena, copy, &build->changes[k], name, build->source);
        }
        return true;
    }
    return false;
}

// "RELEASE+BUILD+...": the first may be a release, all others are builds.
const struct stack *stack_at_release(struct arena *arena, const struct stack *stack,
                                     const char *release)
{
    if (stack->release && strcmp(stack->release, release) == 0) return stack;
    struct stack *copy = stack_copy(arena, stack);
    copy->newest = stack;
    copy->release = arena_copy(arena, release);
    for (const char *at = release;;) {
        size_t length = strcspn(at, "+");
        const char *name = arena_print(arena, "%.*s", (int)length, at);
        bool is_known = (at == release && go_back(arena, copy, stack, name)) ||
                        add_build(arena, copy, stack, name);
        if (!is_known) return NULL;
        if (!at[length]) return copy;
        at += length + 1;
    }
}

// Text between "+" that names no build is of the release.
const char *stack_builds_among(struct arena *arena, const struct stack *stack, const char *release)
{
    const char *builds = NULL;
    for (const char *at = release; at && *at; at += *at == '+') {
        size_t length = strcspn(at, "+");
        for (int i = 0; i < stack->build_count; i++) {
            const char *name = stack->builds[i].name;
            if (strlen(name) != length || strncmp(name, at, length) != 0) continue;
            builds = builds ? arena_print(arena, "%s+%s", builds, name) : name;
        }
        at += length;
    }
    return builds;
}
