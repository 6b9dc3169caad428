#include "memory/stage_alive.h"

#include "memory/stage_chunks.h"
#include "memory/stage_slots.h"

#include <assert.h>

static bool is_fetch(const struct stage_graph *graph, int op)
{
    if (op < 0 || graph->kind[op] != TASK_INSTR) return false;
    const struct stage_chunk *chunk = &graph->chunks[graph->chunk[op]];
    const struct block_program *block = chunk->blocks[graph->position[op]]->program;
    return block->instrs[graph->instr[op]].collective == COLLECTIVE_FETCH;
}

// By step of the order.
static int64_t *alive_at(struct arena *arena, const struct plan_stage *stage, const bool *is_apart)
{
    const struct stage_graph *graph = stage->graph;
    const struct memory_schedule *result = &stage->result;
    int count = graph->graph->operator_count;
    int64_t *alive = ARENA_NEW(arena, int64_t, count + 1);
    for (int b = 0; b < result->buffer_count; b++) {
        const struct memory_buffer *buffer = &stage->problem->buffers[b];
        bool is_weight = is_fetch(graph, buffer->producer);
        if (is_weight && is_apart[graph->position[buffer->producer]]) continue;
        alive[result->birth[b]] += buffer->bytes;
        alive[result->death[b]] -= buffer->bytes;
    }
    for (int t = 1; t < count; t++)
        alive[t] += alive[t - 1];
    return alive;
}

int64_t *stage_alive_beside(struct arena *arena, const struct program *program,
                            const struct plan_stage *stage, const bool *is_apart, int block_count)
{
    const struct stage_graph *graph = stage->graph;
    int rounds = graph->micro_batches, places = 2 * block_count;
    assert(program->shape.stage_count == 1 && program->shape.chunk_count == 1);
    const int64_t *alive = alive_at(arena, stage, is_apart);
    int64_t *most = ARENA_NEW(arena, int64_t, places * rounds);
    struct stage_slots slots = stage_slots_of(arena, program, stage->stage, rounds);
    for (int t = 0; t < graph->graph->operator_count; t++) {
        int op = stage->result.order[t], position = graph->position[op];
        // What is fetched ahead works for nobody yet.
        if (position < 0 || graph->slot[op] < 0 || is_fetch(graph, op)) continue;
        bool is_back = slots.slots[graph->slot[op]].kind != TASK_FORWARD;
        int at = graph->micro_batch[op] * places + is_back * block_count + position;
        if (alive[t] > most[at]) most[at] = alive[t];
    }
    for (int i = places; i < places * rounds; i++)
        if (most[i] < most[i % places]) most[i % places] = most[i];
    return most;
}
