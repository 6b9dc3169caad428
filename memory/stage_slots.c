#include "memory/stage_slots.h"

#include <assert.h>
#include <string.h>

// What a chunk's micro-batch weighs between F and B and between B and W.
struct chunk_weight {
    int64_t saved_bytes, held_bytes;
};

// What the slots of a stage reach: bytes at once, and of each chunk micro-batches between the
// beginning of one kind of task and the end of another.
enum { SPAN_FORWARD_BACKWARD, SPAN_FORWARD_WEIGHT, SPAN_BACKWARD_WEIGHT, SPAN_COUNT };
struct reach {
    int64_t most_bytes;
    int *spans;  // [chunk * SPAN_COUNT]
};

static void raise(int *most, int value)
{
    if (*most < value) *most = value;
}

// A micro-batch whose B runs counts as before it, whose W runs as waiting; as memory_moments does.
static struct reach reach_of(struct arena *arena, const struct program *program,
                             const struct chunk_weight *weights, const struct stage_slots *slots)
{
    int chunk_count = program->shape.chunk_count;
    struct reach reach = {0, ARENA_NEW(arena, int, SPAN_COUNT *chunk_count)};
    int *done[SLOT_KIND_COUNT];
    for (int kind = 0; kind < SLOT_KIND_COUNT; kind++)
        done[kind] = ARENA_NEW(arena, int, chunk_count);
    int64_t bytes = 0;
    for (int i = 0; i < slots->count; i++) {
        const struct stage_slot *slot = &slots->slots[i];
        int chunk = slot->chunk, *spans = &reach.spans[chunk * SPAN_COUNT];
        const struct chunk_weight *weight = &weights[chunk];
        bool is_forward = slot->kind == TASK_FORWARD;
        if (is_forward) bytes += weight->saved_bytes;
        if (reach.most_bytes < bytes) reach.most_bytes = bytes;
        int forward = done[TASK_FORWARD][chunk] + is_forward;
        int backward = done[TASK_BACKWARD][chunk] + (slot->kind == TASK_BACKWARD);
        raise(&spans[SPAN_FORWARD_BACKWARD], forward - done[TASK_BACKWARD][chunk]);
        raise(&spans[SPAN_FORWARD_WEIGHT], forward - done[TASK_WEIGHT][chunk]);
        raise(&spans[SPAN_BACKWARD_WEIGHT], backward - done[TASK_WEIGHT][chunk]);
        if (slot->kind == TASK_BACKWARD) bytes -= weight->saved_bytes;
        if (slot->kind == TASK_BACKWARD && !slot->fused) bytes += weight->held_bytes;
        if (slot->kind == TASK_WEIGHT) bytes -= weight->held_bytes;
        if (reach.most_bytes < bytes) reach.most_bytes = bytes;
        done[slot->kind][chunk]++;
        done[TASK_WEIGHT][chunk] += slot->fused;
    }
    return reach;
}

static bool is_same(const struct reach *a, const struct reach *b, int chunk_count)
{
    size_t bytes = SPAN_COUNT * (size_t)chunk_count * sizeof *a->spans;
    return a->most_bytes == b->most_bytes && memcmp(a->spans, b->spans, bytes) == 0;
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
            int64_t saved_bytes = block->saved_bytes;
            for (int class = 0; class < OP_CLASS_COUNT; class ++) {
                if (chunk->uses[u].moved >> class & 1)
                    saved_bytes -= block->class_saved_bytes[class];
            }
            weights[i].saved_bytes += saved_bytes * chunk->uses[u].count;
            weights[i].held_bytes += block->held_bytes * chunk->uses[u].count;
        }
    }
    return weights;
}

bool stage_slots_is_legal(const struct program *program, int micro_batches)
{
    struct schedule_shape shape = program->shape;
    shape.micro_batch_count = micro_batches;
    const char *why = NULL;
    return schedule_row(program->parallel.schedule)->legal(&shape, &why);
}

// Without a pipeline each micro-batch ends before the next begins, whatever the schedule
// (memory_moments).
static void fill_order(const struct schedule_row *row, const struct schedule_shape *shape,
                       int stage, struct slot *order)
{
    if (shape->stage_count > 1) return row->order(shape, stage, order);
    struct schedule_shape one = *shape;
    one.micro_batch_count = 1;
    int each = SLOT_KIND_COUNT * shape->chunk_count;
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
    int count = SLOT_KIND_COUNT * shape.chunk_count * micro_batches;
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

int stage_slots_cut(struct arena *arena, const struct program *program, int stage)
{
    int all = program->shape.micro_batch_count, chunk_count = program->shape.chunk_count;
    if (program->shape.stage_count == 1)
        return program->parallel.offload.between_layers != 0 ? all : 1;
    struct chunk_weight *weights = weigh_chunks(arena, program, stage);
    struct stage_slots whole = stage_slots_of(arena, program, stage, all);
    struct reach wanted = reach_of(arena, program, weights, &whole);
    int count = 0;
    for (bool reaches = false; !reaches && count < all;) {
        if (!stage_slots_is_legal(program, ++count)) continue;
        struct arena_mark mark = arena_mark(arena);
        struct stage_slots slots = stage_slots_of(arena, program, stage, count);
        struct reach found = reach_of(arena, program, weights, &slots);
        reaches = is_same(&found, &wanted, chunk_count);
        arena_reset(arena, mark);
    }
    for (int next = count + 1; next <= all; next++) {
        if (stage_slots_is_legal(program, next)) return next;
    }
    return all;
}

// Instructions of a whole step, about as many as its graph has operators.
static int64_t instr_count(const struct program *program, int stage)
{
    int64_t count = 0;
    for (int i = 0; i < program->shape.chunk_count; i++) {
        int class = program->class_of[stage * program->shape.chunk_count + i];
        const struct program_chunk *chunk = &program->chunks[class];
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_program *block = program->blocks[chunk->uses[u].block_program];
            count += (int64_t)block->instr_count * chunk->uses[u].count;
        }
    }
    return count * program->shape.micro_batch_count;
}

// Held places cost memory: 6 to 12 % of the arena under zb-h1 (Llama 2 7B and 13B, Mixtral 8x7B)
// and 25 to 30 % with 4 or 8 chunks a stage (Mixtral) were measured. A whole step of 50,000
// instructions took 20 to 30 s in all under a limit of 10 s a stage, where a cut one took 0.4
// to 1.7 s.
static const int64_t WHOLE_INSTRS_MAX = 60000;

struct stage_slots stage_slots_make(struct arena *arena, const struct program *program, int stage)
{
    int count = program->shape.micro_batch_count;
    bool is_small = instr_count(program, stage) <= WHOLE_INSTRS_MAX;
    // Without a pipeline one micro-batch is like all others, and nothing is held.
    if (!is_small || program->shape.stage_count == 1)
        count = stage_slots_cut(arena, program, stage);
    return stage_slots_of(arena, program, stage, count);
}
