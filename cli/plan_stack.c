#include "cli/plan_options.h"
#include "core/console.h"
#include "planner/default_stack.h"

#include <stdio.h>

static bool find_default(struct arena *arena, const struct plan_stack_question *question,
                         bool has_experts, const struct stack **stack, struct err *err)
{
    struct default_stack found;
    struct default_stack_question asked = {
        .clusters = question->clusters,
        .cluster_count = question->cluster_count,
        .precision = question->precision,
        .has_experts = has_experts,
        .pins = question->pins,
        .bands = bands_load(arena, err),
    };
    if (!asked.bands || !default_stack_find(arena, &asked, &found, err)) return false;
    *stack = found.stack;
    console_printf(stderr, "note: --stack not given, taking %s (%s)\n", found.stack->name,
                   found.why);
    return true;
}

// A schedule that is pinned and that only a fork of the stack has: other software, which is taken
// only when it is named, since without the pin its plans are not among those searched.
static bool check_fork(struct arena *arena, const struct plan_stack_question *question,
                       const struct stack *stack, struct err *err)
{
    int schedule = question->pins->schedule;
    const struct stack *fork = stack_for_schedule(arena, stack, schedule, err);
    if (!fork || fork == stack) return fork != NULL;
    err_set(err, ERR_USAGE, "stack %s has no schedule %s, its fork has: --stack %s", stack->name,
            schedule_name((enum schedule_kind)schedule), fork->name);
    return false;
}

bool plan_stack(struct arena *arena, const char *name, const struct plan_stack_question *question,
                const struct stack **stack, struct err *err)
{
    struct import_options options = {.flash = true};
    bool has_experts = model_graph(arena, question->model, &options)->expert_count > 0;
    if (name) {
        *stack = stack_load(arena, name, err);
    } else if (!*stack && !find_default(arena, question, has_experts, stack, err)) {
        return false;
    }
    if (*stack && !check_fork(arena, question, *stack, err)) return false;
    if (*stack) *stack = stack_for_model(arena, *stack, has_experts);
    return *stack != NULL;
}
