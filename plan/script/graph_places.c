#include "plan/script/graph.h"
#include "plan/ties.h"

#include <assert.h>

// Where the tasks of the step graph are, and how often.

int step_graph_place(const struct step_graph *graph, int stage, int chunk)
{
    const struct schedule_shape *shape = &graph->program->shape;
    assert(stage >= 0 && stage < shape->stage_count && chunk < shape->chunk_count);
    return chunk < 0 ? shape->stage_count * shape->chunk_count + stage
                     : stage * shape->chunk_count + chunk;
}

static bool is_chunk(const struct step_graph *graph, int place)
{
    return place < graph->program->shape.stage_count * graph->program->shape.chunk_count;
}

int step_graph_tasks(const struct step_graph *graph, int place, int *first)
{
    const struct program *program = graph->program;
    int chunk_places = program->shape.stage_count * program->shape.chunk_count;
    int at = is_chunk(graph, place) ? program->class_of[place]
                                    : program->chunk_class_count + place - chunk_places;
    *first = graph->first[at];
    return graph->first[at + 1] - *first;
}

// Whether the chunk in front of this one, or behind it, is on another stage; *exists: or on any.
static bool is_elsewhere(const struct step_graph *graph, int place, int direction, bool *exists)
{
    const struct program *program = graph->program;
    const struct schedule_shape *shape = &program->shape;
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    int own = 0;
    while (row->stage_of(shape, own) * shape->chunk_count + row->chunk_of(shape, own) != place)
        own++;
    int other = direction > 0 ? schedule_next(shape, own) : schedule_before(shape, own, 0);
    *exists = other >= 0;
    return *exists && row->stage_of(shape, other) != row->stage_of(shape, own);
}

double step_graph_count(const struct step_graph *graph, int place, int at)
{
    const struct graph_task *task = &graph->tasks[at];
    double rounds = task->is_repeated ? graph->program->shape.micro_batch_count : 1;
    bool exists, is_forward = task->group == 0;
    switch (task->kind) {
    case TASK_SEND:
        return is_elsewhere(graph, place, is_forward ? 1 : -1, &exists) ? rounds : 0;
    case TASK_RECEIVE:
        return is_elsewhere(graph, place, is_forward ? -1 : 1, &exists) ? rounds : 0;
    case TASK_SEED:
    case TASK_LOSS:
        (void)is_elsewhere(graph, place, 1, &exists);
        return exists ? 0 : rounds;
    case TASK_TIED_REDUCE:
        return ties_at(graph->program, place / graph->program->shape.chunk_count, task->tie) < 0
                   ? 0
                   : task->count;
    default:
        return rounds * task->count;
    }
}

int step_graph_number(const struct step_graph *graph, int place, int task)
{
    int first, count = step_graph_tasks(graph, place, &first);
    assert(task >= first && task < first + count);
    return graph->place_first[place] + task - first;
}

static int use_at(const struct step_graph *graph, int place, int position)
{
    const struct program *program = graph->program;
    if (position < 0) return -1;
    const struct program_chunk *chunk = &program->chunks[program->class_of[place]];
    int u = 0;
    for (; position >= chunk->uses[u].count; u++)
        position -= chunk->uses[u].count;
    return u;
}

int step_graph_find(const struct step_graph *graph, int place, const struct graph_key *key)
{
    int first, count = step_graph_tasks(graph, place, &first);
    int use = use_at(graph, place, key->position);
    if (key->kind == TASK_INSTR)
        return graph->use_first[graph->program->class_of[place]][use] + key->instr;
    for (int t = first; t < first + count; t++) {
        const struct graph_task *task = &graph->tasks[t];
        bool is_it = task->kind == key->kind && task->use == use && task->instr == key->instr &&
                     task->group == key->group;
        if (is_it) return t;
    }
    return -1;
}
