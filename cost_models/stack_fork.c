#include "cost_models/stack.h"

const struct stack *stack_for_schedule(struct arena *arena, const struct stack *stack, int schedule,
                                       struct err *err)
{
    bool has = schedule < 0 || stack->schedules >> schedule & 1;
    if (has || !stack->fork) return stack;
    const struct stack *fork = stack_load(arena, stack->fork, err);
    if (!fork) return NULL;
    return fork->schedules >> schedule & 1 ? fork : stack;
}
