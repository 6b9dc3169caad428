#include "plan/passes.h"
#include "plan/script.h"

#include <assert.h>
#include <string.h>

// What a step does once. Gradients of a unit are complete with the last task that adds to them.

struct stepping {
    struct script *script;
    struct script_task *tasks;  // with room for all
    int count;
    int *last_slot;    // [unit]: of the last task that adds to its gradients; -1: none does
    bool *is_reduced;  // [unit]
};

static int storing_unit(const struct script *script, int unit)
{
    int same_as = script->units[unit].same_as;
    return same_as >= 0 ? same_as : unit;
}

static int *find_last_slots(struct arena *arena, const struct script *script)
{
    int *last = ARENA_NEW(arena, int, script->unit_count);
    for (int u = 0; u < script->unit_count; u++)
        last[u] = -1;
    for (int i = 0; i < script->task_count; i++) {
        const struct script_task *task = &script->tasks[i];
        for (int k = 0; k < task->output_count; k++) {
            const struct script_operand *operand = &task->outputs[k];
            if (operand->place != PLACE_GRADIENT) continue;
            int unit = storing_unit(script, script->parameters[operand->parameter].unit);
            if (last[unit] < task->slot) last[unit] = task->slot;
        }
    }
    return last;
}

static struct script_task *put(struct stepping *stepping, enum script_kind kind, int unit)
{
    struct script_task *task = &stepping->tasks[stepping->count++];
    *task = (struct script_task){
        .kind = kind,
        .chunk = unit >= 0 ? stepping->script->units[unit].chunk : -1,
        .position = unit >= 0 ? stepping->script->units[unit].position : -1,
        .micro_batch = -1,
        .slot = -1,
        .block = -1,
        .instr = -1,
        .stream = STREAM_DP,
        .peer_stage = -1,
        .peer_chunk = -1,
        .unit = unit,
        .unit_count = unit >= 0,
        .parameter = -1,
    };
    return task;
}

static enum stream stream_of(const struct mesh *mesh, unsigned axes)
{
    static const enum stream STREAMS[AXIS_COUNT] = {
        [AXIS_TP] = STREAM_TP,  [AXIS_CP] = STREAM_CP, [AXIS_EP] = STREAM_EP,
        [AXIS_ETP] = STREAM_EP, [AXIS_DP] = STREAM_DP, [AXIS_PP] = STREAM_PP,
    };
    enum axis parent = AXIS_TP;
    for (int i = 0; i < mesh->axis_count; i++) {
        if (axes >> i & 1 && mesh->axes[i].parent > parent) parent = mesh->axes[i].parent;
    }
    return STREAMS[parent];
}

static unsigned small_axes(const struct script *script, int parameter)
{
    const struct script_parameter *of = &script->parameters[parameter];
    const struct block_program *block = script->program->blocks[of->block];
    unsigned axes = block->parameters[of->index].gradient_partial_axes;
    return axes & ~script->units[of->unit].reduce_axes;
}

static void put_small(struct stepping *stepping, int unit)
{
    const struct script *script = stepping->script;
    const struct script_unit *of = &script->units[unit];
    for (int i = of->first_parameter; i < of->first_parameter + of->parameter_count; i++) {
        unsigned axes = small_axes(script, i);
        if (!axes) continue;
        struct script_task *task = put(stepping, SCRIPT_SMALL_REDUCE, unit);
        task->parameter = i;
        task->stream = stream_of(&script->program->mesh, axes);
    }
}

static void put_tied(struct stepping *stepping, int unit)
{
    int stage = stepping->script->units[unit].tied_stage;
    if (stage < 0) return;
    struct script_task *task = put(stepping, SCRIPT_TIED_REDUCE, unit);
    task->parameter = stepping->script->units[unit].first_parameter;
    task->peer_stage = stage;
}

static void put_reduce(struct stepping *stepping, int unit)
{
    if (stepping->script->units[unit].reduce_axes) put(stepping, SCRIPT_GRADIENT_REDUCE, unit);
}

static bool is_stored(const struct script *script, int unit)
{
    return script->units[unit].same_as < 0;
}

// Reductions of the units whose gradients are complete with this slot. A tied one waits for the
// other end.
static void put_ready(struct stepping *stepping, int slot)
{
    const struct script *script = stepping->script;
    for (int u = 0; u < script->unit_count; u++) {
        bool is_ready = stepping->last_slot[u] == slot && script->units[u].tied_stage < 0;
        if (!is_ready || !is_stored(script, u)) continue;
        stepping->is_reduced[u] = true;
        put_small(stepping, u);
        put_reduce(stepping, u);
    }
}

static void put_rest(struct stepping *stepping)
{
    const struct script *script = stepping->script;
    static void (*const PUT[])(struct stepping * stepping, int unit) = {put_small, put_tied,
                                                                        put_reduce};
    for (int k = 0; k < 3; k++) {
        for (int u = 0; u < script->unit_count; u++) {
            if (is_stored(script, u) && !stepping->is_reduced[u]) PUT[k](stepping, u);
        }
    }
    put(stepping, SCRIPT_NORM, -1);
    for (int u = 0; u < script->unit_count; u++) {
        if (is_stored(script, u)) put(stepping, SCRIPT_UPDATE, u)->stream = STREAM_COMPUTE;
    }
    for (int u = 0; u < script->unit_count; u++) {
        const struct storage *storage = &script->units[u].storage;
        bool gathers = storage->optimizer_axes && !storage->weight_axes;
        if (gathers && is_stored(script, u)) put(stepping, SCRIPT_PARAMETER_GATHER, u);
    }
}

static int count_most(const struct script *script)
{
    enum { A_UNIT = 4 };  // tied, reduce, update, gather
    return script->task_count + A_UNIT * script->unit_count + script->parameter_count + 1;
}

void script_add_step(struct arena *arena, struct script *script)
{
    struct stepping stepping = {
        .script = script,
        .tasks = ARENA_NEW(arena, struct script_task, count_most(script)),
        .last_slot = find_last_slots(arena, script),
        .is_reduced = ARENA_NEW(arena, bool, script->unit_count),
    };
    bool overlaps = passes_overlap(&script->program->parallel) & OVERLAP_GRAD_REDUCE;
    for (int i = 0; i < script->task_count; i++) {
        stepping.tasks[stepping.count++] = script->tasks[i];
        bool ends =
            i + 1 == script->task_count || script->tasks[i + 1].slot != script->tasks[i].slot;
        if (ends && overlaps) put_ready(&stepping, script->tasks[i].slot);
    }
    put_rest(&stepping);
    assert(stepping.count <= count_most(script));
    script->tasks = stepping.tasks;
    script->task_count = stepping.count;
}
