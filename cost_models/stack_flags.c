#include "core/names.h"
#include "cost_models/stack.h"

#include <string.h>

// What a stack's abilities are called where it is launched.

static const struct json_field FLAG_FIELDS[] = {
    {JSON_TEXT(struct stack_flag, ability)},
    {JSON_TEXT(struct stack_flag, flag)},
    {0},
};

// What is set beside abilities: a file may say how, and need not.
static const char *const SETTINGS[] = {
    "micro-batch", "pipeline-micro-batch", "global-batch",    "seq-len",       "vpp",
    "zero-group",  "zero-gradients",       "zero-parameters", "in-flight",     "recompute-layers",
    "stages",      "precision=fp32",       "precision=fp16",  "precision=bf16"};

const char *stack_flag_of(const struct stack *stack, const char *ability)
{
    for (int i = 0; i < stack->flag_count; i++) {
        if (strcmp(stack->flags[i].ability, ability) == 0) return stack->flags[i].flag;
    }
    return NULL;
}

// Both ways: an ability without its flag cannot be launched, a flag without an ability is never
// printed.
static void check_flags(struct arena *arena, const struct json *list, const struct stack *stack,
                        struct err *err)
{
    int count = 0;
    const char *const *abilities = (const char *const *)stack_abilities(arena, stack, &count);
    for (int i = 0; i < count && !err->kind; i++) {
        if (stack_flag_of(stack, abilities[i])) continue;
        json_fail(list, err, "expected the flag of \"%s\", which the stack offers", abilities[i]);
    }
    for (int i = 0; i < stack->flag_count && !err->kind; i++) {
        const char *ability = stack->flags[i].ability;
        struct json row = json_item(list, i), at = json_get(&row, "ability", err);
        if (stack_flag_of(stack, ability) != stack->flags[i].flag) {
            json_fail(&at, err, "\"%s\" has a flag already", ability);
        } else if (name_index(abilities, (size_t)count, ability) < 0 &&
                   NAME_INDEX(SETTINGS, ability) < 0) {
            json_fail(&at, err, "the stack does not offer \"%s\"", ability);
        }
    }
}

void stack_read_flags(struct arena *arena, const struct json *object, struct stack *stack,
                      struct err *err)
{
    bool has_flags = json_has(object, "flags");
    if (has_flags != (stack->flags_of != NULL)) {
        json_fail(object, err, "expected flags and flags_of together");
    }
    if (err->kind || !has_flags) return;
    struct json list = json_get(object, "flags", err);
    int count = json_count(&list, err);
    stack->flags = ARENA_NEW(arena, struct stack_flag, count);
    for (int i = 0; i < count && !err->kind; i++) {
        struct json row = json_item(&list, i);
        json_read(&row, FLAG_FIELDS, &stack->flags[i], err);
        stack->flag_count = i + 1;
    }
    if (!err->kind) check_flags(arena, &list, stack, err);
}

void stack_write_flags(struct json_writer *writer, const struct stack *stack)
{
    json_open(writer, "flags", '[');
    for (int i = 0; i < stack->flag_count; i++) {
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "ability", stack->flags[i].ability);
        json_put_text(writer, "flag", stack->flags[i].flag);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

// Recompute classes of experts are abilities only where a model has them.
const struct stack *stack_for_model(struct arena *arena, const struct stack *stack,
                                    bool has_experts)
{
    unsigned classes = stack->recompute_classes & ~stack->expert_recompute_classes;
    if (has_experts) classes |= stack->expert_recompute_classes;
    bool differs = has_experts && stack->with_experts_count > 0;
    if (classes == stack->recompute_classes && !differs) return stack;
    struct stack *copy = stack_copy(arena, stack);
    copy->recompute_classes = classes;
    if (differs) stack_apply_experts(copy);
    return copy;
}
