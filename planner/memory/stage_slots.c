#include "planner/memory/stage_slots.h"

#include "cost_models/memory.h"

#include <assert.h>

// What a chunk's micro-batch weighs between F and B and between B and W.
struct chunk_weight {
    int64_t saved_bytes, held_bytes;
};

static int64_t heaviest(struct arena *arena, const struct program *program, int stage,
                        const struct chunk_weight *weights, int micro_batches)
{
    struct arena_mark mark = arena_mark(arena);
    struct program cut = *program;
    cut.shape.micro_batch_count = micro_batches;
    int chunk_count = cut.shape.chunk_count;
    struct schedule_hold *holds =
        ARENA_NEW(arena, struct schedule_hold, SCHEDULE_HOLD_MAX * chunk_count);
    int count = memory_moments(&cut, stage, holds);
    int64_t most_bytes = 0;
    for (int i = 0; i < count; i++) {
        int64_t bytes = 0;
        for (int chunk = 0; chunk < chunk_count; chunk++) {
            const struct schedule_hold *hold = &holds[i * chunk_count + chunk];
            bytes += hold->alive * weights[chunk].saved_bytes;
            bytes += hold->waiting * weights[chunk].held_bytes;
        }
        if (bytes > most_bytes) most_bytes = bytes;
    }
    arena_reset(arena, mark);
    return most_bytes;
}

static struct chunk_weight *weigh_chunks(struct arena *arena, const struct program *program,
                                         int stage)
{
    int chunk_count = program->shape.chunk_count;
    struct chunk_weight *weights = ARENA_NEW(arena, struct chunk_weight, chunk_count);
    for (int i = 0; i < chunk_count; i++) {
        const struct program_chunk *chunk =
            &program->chunks[program->class_of[stage * chunk_count + i]];
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_program *block = program->blocks[chunk->uses[u].block_program];
            weights[i].saved_bytes += block->saved_bytes * chunk->uses[u].count;
            weights[i].held_bytes += block->held_bytes * chunk->uses[u].count;
        }
    }
    return weights;
}

static bool is_legal(const struct program *program, int micro_batches)
{
    struct schedule_shape shape = program->shape;
    shape.micro_batch_count = micro_batches;
    const char *why = NULL;
    return schedule_row(program->parallel.schedule)->legal(&shape, &why);
}

static int cut(struct arena *arena, const struct program *program, int stage)
{
    int all = program->shape.micro_batch_count;
    if (program->shape.stage_count == 1) return 1;
    struct chunk_weight *weights = weigh_chunks(arena, program, stage);
    int64_t most_bytes = heaviest(arena, program, stage, weights, all);
    int count = 1;
    while (count < all && (!is_legal(program, count) ||
                           heaviest(arena, program, stage, weights, count) < most_bytes))
        count++;
    for (int next = count + 1; next <= all; next++) {
        if (is_legal(program, next)) return next;
    }
    return all;
}

// Without a pipeline each micro-batch ends before the next begins, whatever the schedule
// (memory_moments).
static void fill_order(const struct schedule_row *row, const struct schedule_shape *shape,
                       int stage, struct slot *order)
{
    if (shape->stage_count > 1) return row->order(shape, stage, order);
    struct schedule_shape one = *shape;
    one.micro_batch_count = 1;
    int each = TASK_KIND_COUNT * shape->chunk_count;
    for (int k = 0; k < shape->micro_batch_count; k++) {
        row->order(&one, stage, &order[k * each]);
        for (int i = 0; i < each; i++)
            order[k * each + i].micro_batch = k;
    }
}

struct stage_slots stage_slots_of(struct arena *arena, const struct program *program, int stage,
                                  int micro_batches)
{
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    struct schedule_shape shape = program->shape;
    shape.micro_batch_count = micro_batches;
    int count = TASK_KIND_COUNT * shape.chunk_count * micro_batches;
    struct slot *order = ARENA_NEW(arena, struct slot, count);
    fill_order(row, &shape, stage, order);
    struct stage_slots slots = {.slots = ARENA_NEW(arena, struct stage_slot, count),
                                .micro_batches = micro_batches};
    for (int i = 0; i < count; i++) {
        enum task_kind kind = (enum task_kind)order[i].kind;
        if (kind == TASK_WEIGHT && row->backward_fused) {
            const struct stage_slot *before = &slots.slots[slots.count - 1];
            assert(before->fused && before->micro_batch == order[i].micro_batch);
            continue;
        }
        bool fused = kind == TASK_BACKWARD && row->backward_fused;
        slots.slots[slots.count++] =
            (struct stage_slot){kind, fused, order[i].chunk, order[i].micro_batch};
    }
    return slots;
}

struct stage_slots stage_slots_make(struct arena *arena, const struct program *program, int stage)
{
    return stage_slots_of(arena, program, stage, cut(arena, program, stage));
}
