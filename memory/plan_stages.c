#include "memory/plan_schedule.h"

#include "memory/stage_chunks.h"
#include "memory/stage_unroll.h"

#include <assert.h>

// Whether two stages receive and send the same.
static bool is_joined_alike(const struct program *program, int a, int b, int chunk)
{
    for (int direction = -1; direction <= 1; direction += 2) {
        struct stage_neighbour left = stage_neighbour_of(program, a, chunk, direction);
        struct stage_neighbour right = stage_neighbour_of(program, b, chunk, direction);
        if (left.chunk != right.chunk || left.exists != right.exists) return false;
    }
    return true;
}

static bool is_alike(const struct program *program, int a, const struct stage_slots *slots_a, int b,
                     const struct stage_slots *slots_b)
{
    int chunks = program->shape.chunk_count;
    if (slots_a->count != slots_b->count) return false;
    for (int c = 0; c < chunks; c++) {
        if (program->class_of[a * chunks + c] != program->class_of[b * chunks + c]) return false;
        if (!is_joined_alike(program, a, b, c)) return false;
    }
    for (int s = 0; s < slots_a->count; s++) {
        const struct stage_slot *left = &slots_a->slots[s], *right = &slots_b->slots[s];
        if (left->kind != right->kind || left->chunk != right->chunk ||
            left->micro_batch != right->micro_batch)
            return false;
    }
    return true;
}

// Of a step whose slots are not a few repeated, all.
static struct stage_slots slots_of(struct arena *arena, const struct program *program, int stage)
{
    struct stage_slots cut = stage_slots_make(arena, program, stage);
    struct stage_unroll unroll;
    return stage_unroll(arena, program, stage, &cut, &unroll)
               ? cut
               : stage_slots_of(arena, program, stage, program->shape.micro_batch_count);
}

void plan_stages_group(struct arena *arena, const struct program *program,
                       struct plan_stages *stages)
{
    int count = program->shape.stage_count;
    struct arena scratch = {0};
    struct stage_slots *slots = ARENA_NEW(&scratch, struct stage_slots, count);
    *stages = (struct plan_stages){.stages = ARENA_NEW(arena, struct plan_stage, count)};
    for (int stage = 0; stage < count; stage++) {
        slots[stage] = slots_of(&scratch, program, stage);
        int group = 0;
        while (group < stages->count &&
               !is_alike(program, stages->stages[group].stage, &slots[stages->stages[group].stage],
                         stage, &slots[stage]))
            group++;
        struct plan_stage *of = &stages->stages[group];
        if (group == stages->count) {
            stages->count++;
            *of = (struct plan_stage){
                .stage = stage,
                .stages = ARENA_NEW(arena, int, count),
                .micro_batches = slots[stage].micro_batches,
            };
        }
        of->stages[of->stage_count++] = stage;
    }
    arena_free(&scratch);
    assert(stages->count > 0 && stages->count <= count);
}

bool plan_stage_build(struct arena *arena, const struct program *program, const struct stack *stack,
                      int64_t alignment, struct plan_stage *stage, struct err *err)
{
    stage->graph = stage_graph_of(arena, program, stack, stage->stage, stage->micro_batches, err);
    if (!stage->graph) return false;
    stage->problem = memory_problem_make(arena, stage->graph->graph, alignment);
    return true;
}

bool plan_stages_make(struct arena *arena, const struct program *program, const struct stack *stack,
                      int64_t alignment, struct plan_stages *stages, struct err *err)
{
    plan_stages_group(arena, program, stages);
    for (int i = 0; i < stages->count; i++) {
        if (!plan_stage_build(arena, program, stack, alignment, &stages->stages[i], err))
            return false;
    }
    return true;
}

// Offsets of the problem's buffers by tensor; all that share memory have that of the first.
static int64_t *offsets_of(struct arena *arena, const struct plan_stage *stage)
{
    const struct memory_graph *graph = stage->graph->graph;
    int64_t *offsets = ARENA_NEW(arena, int64_t, graph->tensor_count);
    for (int t = 0; t < graph->tensor_count; t++)
        offsets[t] = -1;
    for (int b = 0; b < stage->problem->buffer_count; b++) {
        int tensor = stage->problem->buffers[b].tensor;
        assert(stage->result.offsets[b] >= 0);
        if (tensor >= 0) offsets[tensor] = stage->result.offsets[b];
    }
    for (int t = 0; t < graph->tensor_count; t++)
        offsets[t] = offsets[graph->tensors[t].storage];
    return offsets;
}

struct plan_schedule *plan_schedule_of(struct arena *arena, const struct plan_stages *stages,
                                       int64_t alignment)
{
    struct plan_schedule *schedule = ARENA_NEW(arena, struct plan_schedule, 1);
    schedule->alignment = alignment;
    schedule->count = stages->count;
    schedule->stages = ARENA_NEW(arena, struct stage_schedule, stages->count);
    for (int i = 0; i < stages->count; i++) {
        const struct plan_stage *from = &stages->stages[i];
        schedule->stages[i] = (struct stage_schedule){
            .stage = from->stage,
            .stage_count = from->stage_count,
            .stages = from->stages,
            .micro_batches = from->graph->micro_batches,
            .live_bytes = from->result.live_bytes,
            .arena_bytes = from->result.arena_bytes,
            .bound_bytes = from->result.bound_bytes,
            .operator_count = from->graph->graph->operator_count,
            .tensor_count = from->graph->graph->tensor_count,
            .order = from->result.order,
            .offsets = offsets_of(arena, from),
        };
    }
    return schedule;
}

static void plan_stage_parts(struct memory_parts *parts, int64_t arena_bytes)
{
    assert(arena_bytes >= 0);
    parts->planned_bytes = arena_bytes;
    parts->activations_bytes = parts->transient_bytes = parts->logits_bytes = 0;
    parts->buffers_bytes = parts->standing_bytes;
    parts->peak_bytes = parts->weights_bytes + parts->gradients_bytes + parts->optimizer_bytes +
                        parts->planned_bytes + parts->buffers_bytes;
    parts->reserved_bytes = parts->peak_bytes + parts->reserve_bytes;
}

void plan_schedule_apply(const struct plan_schedule *schedule, struct evaluation *evaluation)
{
    for (int i = 0; i < schedule->count; i++) {
        const struct stage_schedule *of = &schedule->stages[i];
        for (int k = 0; k < of->stage_count; k++)
            plan_stage_parts(&evaluation->stage_memory[of->stages[k]], of->arena_bytes);
    }
    int worst = 0;
    for (int stage = 1; stage < evaluation->program->shape.stage_count; stage++) {
        const struct memory_parts *parts = evaluation->stage_memory;
        if (parts[stage].reserved_bytes > parts[worst].reserved_bytes) worst = stage;
    }
    const struct memory_parts *parts = &evaluation->stage_memory[worst];
    evaluation->worst_stage = worst;
    evaluation->prediction.peak_bytes = parts->peak_bytes;
    evaluation->prediction.reserved_bytes = parts->reserved_bytes;
    evaluation->prediction.planned_bytes = parts->planned_bytes;
}
