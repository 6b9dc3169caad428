#include "plan/script/script.h"

#include <assert.h>

const char *script_instr_name(struct arena *arena, const struct block_program *block, int index)
{
    const struct instr *instr = &block->instrs[index];
    if (!instr->collective) return block->block->ops[instr->op].name;
    int tensor = block->buffers[instr->inputs[0]].tensor;
    const char *of = instr->inner > 0 ? block->block->ops[instr->op].name
                     : tensor >= 0    ? block->block->tensors[tensor].name
                                      : "parameters";
    if (tensor < 0 && instr->inner == 0 && !instr_gathers(instr)) of = "gradients";
    return arena_print(arena, "%s %s", collective_name(instr->collective), of);
}

static const char *parameter_name(const struct script *script, int parameter)
{
    const struct script_parameter *of = &script->parameters[parameter];
    const struct block_program *block = script->program->blocks[of->block];
    return block->block->tensors[block->parameters[of->index].tensor].name;
}

// By the first unit of the bucket.
static const char *step_name(struct arena *arena, const struct script *script,
                             const struct script_task *task, const char *what)
{
    const struct script_unit *unit = &script->units[task->unit];
    bool is_alone = task->kind == TASK_PARAMETER_GATHER &&
                    !script_bucket_is_flat(&script->buckets[task->bucket]);
    int others = is_alone ? 0 : script->buckets[task->bucket].unit_count - 1;
    const char *name = unit->parameter_count == 1 ? parameter_name(script, unit->first_parameter)
                       : unit->kind == PARAMETER_EXPERT ? "experts"
                                                        : "block";
    const char *text =
        arena_print(arena, "%s of %d.%d %s", what, unit->chunk, unit->position, name);
    return others > 0 ? arena_print(arena, "%s and %d more", text, others) : text;
}

const char *script_task_name(struct arena *arena, const struct script *script, int task)
{
    static const char SLOTS[] = "FBW";
    const struct script_task *of = &script->tasks[task];
    const char *what = of->kind == TASK_INSTR
                           ? script_instr_name(arena, script->program->blocks[of->block], of->instr)
                           : task_kind_name(of->kind);
    if (task_kind_is_once(of->kind))
        return of->unit < 0 ? what : step_name(arena, script, of, what);
    return arena_print(arena, "%c%d.%d %d %s", SLOTS[of->slot_kind], of->micro_batch, of->chunk,
                       of->position, what);
}

// Buckets are counted by chunk.
static int number_in_chunk(const struct script *script, int bucket)
{
    int first = bucket;
    while (first > 0 && script->buckets[first - 1].chunk == script->buckets[bucket].chunk)
        first--;
    return bucket - first;
}

struct task_id script_task_id(const struct script *script, int task)
{
    const struct script_task *of = &script->tasks[task];
    bool is_message = of->kind == TASK_SEND || of->kind == TASK_RECEIVE;
    bool has_place = of->kind == TASK_GRADIENT_REDUCE || of->kind == TASK_PARAMETER_GATHER;
    if (has_place) {
        int item = of->kind == TASK_GRADIENT_REDUCE ? number_in_chunk(script, of->bucket) : 0;
        return (struct task_id){(int)of->kind, script->units[of->unit].chunk, item};
    }
    if (task_kind_is_once(of->kind)) return (struct task_id){(int)of->kind, 0, 0};
    if (is_message)
        return (struct task_id){(int)of->kind, of->chunk,
                                2 * of->micro_batch + (of->slot_kind != TASK_FORWARD)};
    return (struct task_id){(int)of->slot_kind, of->chunk, of->micro_batch};
}

bool script_message(const struct script *script, const struct script_task *task, int n,
                    struct boundary_message *message)
{
    return boundary_message(script->program, script->stage, task->chunk, task->kind == TASK_SEND,
                            task->slot_kind != TASK_FORWARD, n, message);
}

struct boundary script_boundary(const struct script *script, const struct script_task *task, int n)
{
    struct boundary boundary = {.program = script->program};
    struct boundary_message message;
    for (int m = 0; n >= 0 && script_message(script, task, m, &message); m++) {
        for (int edge = 0; edge < BLOCK_EDGES; edge++)
            if (boundary_of(script->program, &message, edge, &boundary) && n-- == 0) break;
    }
    assert(n < 0 && "an operand for each tensor");
    return boundary;
}

int64_t script_weight_cast_elements(const struct script *script)
{
    int64_t elements = 0;
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        bool is_first =
            task->kind == TASK_INSTR && task->slot_kind == TASK_FORWARD && task->micro_batch == 0;
        if (!is_first) continue;
        const struct instr *instr = &script->program->blocks[task->block]->instrs[task->instr];
        if (!instr->weight_cast) continue;
        elements += script->parameters[task->inputs[instr->weight_cast - 1].parameter].elements;
    }
    return elements;
}
