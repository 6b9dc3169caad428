#include "plan/stages.h"
#include "planner/space.h"

#include <assert.h>
#include <string.h>

// Pins have to say what the stack does anyway.
static bool meets_pins(const struct space *space, const int *layers, int stage_count,
                       struct err *err)
{
    const struct pins *pins = &space->request->pins;
    bool is_met = pins->stage_layers_count == 0 ||
                  (pins->stage_layers_count == stage_count &&
                   memcmp(pins->stage_layers, layers, (size_t)stage_count * sizeof *layers) == 0);
    if (is_met) return true;
    const char *text = "";
    for (int stage = 0; stage < stage_count; stage++)
        text = arena_print(space->arena, "%s%s%d", text, stage ? "," : "", layers[stage]);
    return err_set(err, ERR_USAGE,
                   "--stages: stack %s splits layers by their FLOP, over %d stages %s",
                   space->request->stack->name, stage_count, text);
}

bool space_find_stages(struct space *space, const struct graph *graph, int stage_count)
{
    assert(stage_count >= 1 && stage_count <= STAGE_MAX);
    if (!space->request->stack->stages_by_flop || stage_count == 1) return true;
    if (!space->flop_stages)
        space->flop_stages = ARENA_NEW(space->arena, const int *, STAGE_MAX + 1);
    if (space->flop_stages[stage_count]) return true;
    int *layers = ARENA_NEW(space->arena, int, stage_count);
    struct err refused = {0};
    bool is_legal = stages_by_flop(graph, stage_count, layers, &refused) &&
                    meets_pins(space, layers, stage_count, &refused);
    if (is_legal)
        space->flop_stages[stage_count] = layers;
    else
        space_drop(space, DROP_DIVIDE, &refused);
    return is_legal;
}

void space_take_stages(const struct space *space, struct parallel *parallel)
{
    const struct pins *pins = &space->request->pins;
    int stages = parallel->degree[AXIS_PP];
    parallel->stage_layers = pins->stage_layers;
    parallel->stage_layers_count = pins->stage_layers_count;
    if (!space->flop_stages || stages == 1) return;
    parallel->stage_layers = space->flop_stages[stages];
    parallel->stage_layers_count = parallel->stage_layers ? stages : 0;
}

bool space_takes_experts(struct space *space, const struct graph *graph, int tp, int etp)
{
    struct err err = {.kind = space->refused.kind};  // the first refusal is put into words
    bool is_taken = stack_check_experts(space->request->stack, graph->expert_count, tp, etp, &err);
    if (!is_taken) space_drop(space, DROP_DIVIDE, &err);
    return is_taken;
}
