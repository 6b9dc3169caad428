#include "plan/script/script.h"

#include <assert.h>

// The tasks of a script as those of the step graph.

struct numbering {
    const struct script *script;
    struct step_end end;  // of the chunk
    int chunk;            // that is known; -1
};

static const struct step_end *end_at(struct numbering *numbering, int chunk)
{
    const struct script *script = numbering->script;
    const struct program *program = script->program;
    if (numbering->chunk == chunk) return &numbering->end;
    int class = program->class_of[script->stage * program->shape.chunk_count + chunk];
    numbering->end = step_end_of(program, &program->chunks[class], &script->rules);
    numbering->chunk = chunk;
    return &numbering->end;
}

static int small_of(struct numbering *numbering, const struct script_task *task)
{
    const struct script_bucket *bucket = &numbering->script->buckets[task->bucket];
    const struct step_end *end = end_at(numbering, bucket->chunk);
    for (int s = 0; s < end->small_kind_count; s++) {
        const struct step_small *small = &end->smalls[s];
        if (small->axes == task->axes && small->kind == bucket->kind &&
            small->gradient_axes == bucket->storage.gradient_axes)
            return s;
    }
    return -1;
}

static int group_of(struct numbering *numbering, const struct script_task *task)
{
    const struct script *script = numbering->script;
    if (task->bucket < 0) return -1;
    if (task->kind == TASK_SMALL_REDUCE) return small_of(numbering, task);
    const struct script_bucket *bucket = &script->buckets[task->bucket];
    const struct script_parameter *first =
        &script->parameters[script->units[bucket->units[0]].first_parameter];
    const struct block_program *block = script->program->blocks[first->block];
    return step_group_of(script->program, end_at(numbering, bucket->chunk),
                         &block->parameters[first->index], bucket->storage.away);
}

static bool is_message(enum task_kind kind)
{
    return kind == TASK_SEND || kind == TASK_RECEIVE || kind == TASK_SEED || kind == TASK_LOSS;
}

void script_number(struct script *script)
{
    struct numbering numbering = {.script = script, .chunk = -1};
    const struct step_graph *graph = script->graph;
    for (int t = 0; t < script->task_count; t++) {
        struct script_task *task = &script->tasks[t];
        bool is_once = task_kind_is_once(task->kind);
        int chunk =
            is_once && task->bucket >= 0 ? script->buckets[task->bucket].chunk : task->chunk;
        const struct graph_key key = {
            .kind = task->kind,
            .position = is_once ? -1 : task->position,
            .instr = task->instr,
            .group = is_message(task->kind) ? task->slot_kind != TASK_FORWARD
                                            : group_of(&numbering, task),
        };
        int place = step_graph_place(graph, script->stage, chunk);
        int found = step_graph_find(graph, place, &key);
        assert(found >= 0 && "what runs is in the step graph");
        task->in_graph = step_graph_number(graph, place, found);
    }
}
