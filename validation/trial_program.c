#include "plan/program.h"
#include "simulator/closed_form.h"
#include "validation/trial.h"

#include <assert.h>
#include <string.h>

struct trial_program {
    struct arena *arena;
    const struct trial *trial;
    const struct program *program;
    struct cluster cluster;  // its groups are replaced with every device
};

struct trial_program *trial_program_new(struct arena *arena, const struct trial *trial)
{
    assert(trial->answered);
    struct trial_program *program = ARENA_NEW(arena, struct trial_program, 1);
    *program = (struct trial_program){.arena = arena, .trial = trial, .cluster = *trial->cluster};
    struct graph *graph = evaluation_graph(arena, trial->model, trial->stack, &trial->parallel);
    program->program = program_lower(arena, graph, trial->cluster, &trial->workload,
                                     &trial->parallel, stack_joins(trial->stack));
    int groups = trial->cluster->node_group_count;
    program->cluster.nodes = ARENA_COPY(arena, struct node_group, trial->cluster->nodes, groups);
    return program;
}

// Prices at other constants; they lie in the program's arena.
static const struct step_price *price_at(struct trial_program *program, const struct device *device,
                                         const struct stack *stack, const struct fabrics *fabrics)
{
    assert(program->cluster.node_group_count > 0);
    for (int i = 0; i < program->cluster.node_group_count; i++) {
        program->cluster.nodes[i].device = device;
    }
    struct price_context context = {
        .compute = {.device = device,
                    .stack = stack,
                    .precision = program->trial->workload.precision},
        .fabrics = fabrics,
        .cluster = &program->cluster,
    };
    return step_price(program->arena, &context, program->program);
}

double trial_program_step_s(struct trial_program *program, struct arena *scratch,
                            const struct device *device, const struct stack *stack,
                            const struct fabrics *fabrics)
{
    struct arena_mark mark = arena_mark(program->arena);
    const struct step_price *price = price_at(program, device, stack, fabrics);
    const struct engine_options options = {0};
    double step_s = simulate_step(program->arena, scratch, price, &options)->cost.step_s;
    arena_reset(program->arena, mark);
    return step_s;
}

double trial_program_closed_form_s(struct trial_program *program, const struct device *device,
                                   const struct stack *stack, const struct fabrics *fabrics)
{
    struct arena_mark mark = arena_mark(program->arena);
    double step_s = closed_form(price_at(program, device, stack, fabrics)).step_s;
    arena_reset(program->arena, mark);
    return step_s;
}
