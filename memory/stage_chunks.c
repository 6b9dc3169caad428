#include "memory/stage_chunks.h"

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
    int own = virtual_stage_of(program, stage, chunk);
    int other = direction > 0 ? schedule_next(shape, own) : schedule_before(shape, own, 0);
    if (other < 0) return (struct stage_neighbour){-1, false};
    bool is_here = row->stage_of(shape, other) == stage;
    return (struct stage_neighbour){is_here ? row->chunk_of(shape, other) : -1, true};
}

// Made once for all layers that are alike and of which the same is moved.
struct known_steps {
    unsigned moved;
    struct block_steps *steps;
    struct known_steps *next;
};

static struct block_steps *steps_of(struct arena *arena, const struct program *program,
                                    const struct block_use *use, struct known_steps **known)
{
    const struct block_program *block = program->blocks[use->block_program];
    for (const struct known_steps *at = *known; at; at = at->next) {
        if (at->steps->program == block && at->moved == use->moved) return at->steps;
    }
    struct known_steps *made = ARENA_NEW(arena, struct known_steps, 1);
    *made = (struct known_steps){use->moved, block_steps_make(arena, program, block, use->moved),
                                 *known};
    *known = made;
    return made->steps;
}

struct stage_chunk *stage_chunks_make(struct arena *arena, const struct program *program, int stage)
{
    int chunk_count = program->shape.chunk_count;
    struct known_steps *known = NULL;
    struct stage_chunk *chunks = ARENA_NEW(arena, struct stage_chunk, chunk_count);
    for (int c = 0; c < chunk_count; c++) {
        struct stage_chunk *made = &chunks[c];
        int at = stage * chunk_count + c, count = program->spans[at].count;
        const struct program_chunk *chunk = &program->chunks[program->class_of[at]];
        made->blocks = ARENA_NEW(arena, struct block_steps *, count);
        for (int u = 0; u < chunk->use_count; u++) {
            struct block_steps *steps = steps_of(arena, program, &chunk->uses[u], &known);
            for (int i = 0; i < chunk->uses[u].count; i++)
                made->blocks[made->count++] = steps;
        }
        assert(made->count == count);
        made->front = stage_neighbour_of(program, stage, c, -1);
        made->behind = stage_neighbour_of(program, stage, c, 1);
    }
    return chunks;
}
