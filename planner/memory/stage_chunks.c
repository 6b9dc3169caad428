#include "planner/memory/stage_chunks.h"

#include <assert.h>

static int virtual_stage_of(const struct program *program, int stage, int chunk)
{
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    const struct schedule_shape *shape = &program->shape;
    for (int s = 0; s < shape->stage_count * shape->chunk_count; s++) {
        if (row->stage_of(shape, s) == stage && row->chunk_of(shape, s) == chunk) return s;
    }
    assert(false && "a chunk is on no stage");
    return 0;
}

struct stage_neighbour stage_neighbour_of(const struct program *program, int stage, int chunk,
                                          int direction)
{
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    const struct schedule_shape *shape = &program->shape;
    int other = virtual_stage_of(program, stage, chunk) + direction;
    if (other < 0 || other >= shape->stage_count * shape->chunk_count)
        return (struct stage_neighbour){-1, false};
    bool is_here = row->stage_of(shape, other) == stage;
    return (struct stage_neighbour){is_here ? row->chunk_of(shape, other) : -1, true};
}

struct stage_chunk *stage_chunks_make(struct arena *arena, const struct program *program, int stage)
{
    int chunk_count = program->shape.chunk_count;
    struct block_steps **steps = ARENA_NEW(arena, struct block_steps *, program->block_count);
    struct stage_chunk *chunks = ARENA_NEW(arena, struct stage_chunk, chunk_count);
    for (int c = 0; c < chunk_count; c++) {
        struct stage_chunk *made = &chunks[c];
        int at = stage * chunk_count + c, count = program->spans[at].count;
        const struct program_chunk *chunk = &program->chunks[program->class_of[at]];
        made->blocks = ARENA_NEW(arena, struct block_steps *, count);
        for (int u = 0; u < chunk->use_count; u++) {
            int block = chunk->uses[u].block_program;
            if (!steps[block])
                steps[block] = block_steps_make(arena, program, program->blocks[block]);
            for (int i = 0; i < chunk->uses[u].count; i++)
                made->blocks[made->count++] = steps[block];
        }
        assert(made->count == count);
        made->front = stage_neighbour_of(program, stage, c, -1);
        made->behind = stage_neighbour_of(program, stage, c, 1);
    }
    return chunks;
}
