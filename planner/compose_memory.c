#include "planner/compose.h"

#include "cost_models/hosts.h"
#include "planner/composing.h"

#include <assert.h>

static struct memory_parts stage_memory(struct composer *composer, struct program *program,
                                        int stage)
{
    program->in_flight = moments_get(&composer->moments, program, stage);
    return memory_of_stage(program, composer->request->stack, stage);
}

// The worst stage so far, up to the first that is past a limit.
struct worst_memory {
    struct composer *composer;
    struct program *program;
    struct memory_parts parts;
    int stage;
    int64_t limit_bytes;
};

static void keep_worse(struct worst_memory *worst, int stage)
{
    if (worst->parts.reserved_bytes > worst->limit_bytes) return;
    struct memory_parts parts = stage_memory(worst->composer, worst->program, stage);
    if (parts.reserved_bytes < worst->parts.reserved_bytes) return;
    if (parts.reserved_bytes == worst->parts.reserved_bytes && stage > worst->stage) return;
    worst->parts = parts;
    worst->stage = stage;
}

// Of equal stages the first holds most; where W is a task of its own it may be the last of them, or
// the one before the last stage (tests/plan/test_schedule.c).
static struct memory_parts find_worst(struct composer *composer, const struct parallel *parallel,
                                      int64_t limit_bytes, int *stage)
{
    const struct division *division = composer_division(composer, parallel);
    struct block_program *blocks[DIVISION_WAYS * DIVISION_KIND_MAX];
    composing_blocks(composer, parallel, blocks);
    struct program program = composing_program(composer, parallel, division, blocks);
    struct worst_memory worst = {composer, &program, {.reserved_bytes = -1}, 0, limit_bytes};
    assert(division->head_count >= 1 && division->heads[0] == 0);
    const struct schedule_row *row = schedule_row(parallel->schedule);
    bool asks_all = !row->backward_fused && row->most_inside;
    for (int i = 0; i < division->head_count; i++)
        keep_worse(&worst, division->heads[i]);
    for (int i = 0; asks_all && i < division->stage_count; i++)
        keep_worse(&worst, i);
    for (int i = 0; !row->backward_fused && !asks_all && i < division->runs->run_count; i++) {
        struct stage_run run = division->runs->runs[i];
        if (run.count > 1) keep_worse(&worst, run.first + run.count - 1);
    }
    int before = division->stage_count - 2;
    if (!row->backward_fused && !asks_all && before > 0) keep_worse(&worst, before);
    *stage = worst.stage;
    return worst.parts;
}

struct memory_parts composer_memory(struct composer *composer, const struct parallel *parallel,
                                    int *stage)
{
    return find_worst(composer, parallel, INT64_MAX, stage);
}

bool composer_meets(struct composer *composer, const struct parallel *parallel, int64_t limit_bytes)
{
    int stage;
    struct memory_parts worst = find_worst(composer, parallel, limit_bytes, &stage);
    return worst.reserved_bytes <= limit_bytes;
}

struct memory_parts composer_stage_memory(struct composer *composer,
                                          const struct parallel *parallel, int stage)
{
    const struct division *division = composer_division(composer, parallel);
    struct block_program *blocks[DIVISION_WAYS * DIVISION_KIND_MAX];
    composing_blocks(composer, parallel, blocks);
    struct program program = composing_program(composer, parallel, division, blocks);
    return stage_memory(composer, &program, stage);
}

int64_t composing_stored_bytes(struct composer *composer, struct program *program, int stage)
{
    struct memory_parts parts = stage_memory(composer, program, stage);
    return parts.weights_bytes + parts.gradients_bytes + parts.optimizer_bytes +
           parts.buffers_bytes + composer->request->stack->reserve_bytes;
}

int64_t composer_floor_bytes(struct composer *composer, const struct parallel *parallel)
{
    // What is stored depends not on what is recomputed, and of the schedule on where it puts chunks
    // and whether it parts B and W: the blocks that the group's bound needs anyway answer for all.
    struct parallel stored = *parallel, whole = *parallel;
    const struct schedule_row *row = schedule_row(parallel->schedule);
    bool linear = row->stage_of == schedule_row(SCHEDULE_1F1B)->stage_of;
    enum schedule_kind like = row->backward_fused ? SCHEDULE_1F1B : SCHEDULE_ZB_H1;
    if (linear && parallel->vpp == 1) stored.schedule = like;
    stored.recompute = whole.recompute = RECOMPUTE_NONE;
    stored.recompute_classes = whole.recompute_classes = 0;
    stored.recompute_layers = -1;
    if (whole.zero > 1) whole.zero = 1;  // whose micro-batches do not communicate parameters
    const struct division *division = composer_division(composer, &stored);
    struct block_program *blocks[DIVISION_WAYS * DIVISION_KIND_MAX];
    for (int block = 0; block < DIVISION_WAYS * composer->graph->block_count; block++)
        blocks[block] =
            composing_kind(composer, &whole, 0, division_stays(block), division_kind(block))->light;
    struct program program = composing_program(composer, &stored, division, blocks);
    int64_t most_bytes = 0;
    for (int i = 0; i < division->head_count; i++) {
        int64_t bytes = composing_stored_bytes(composer, &program, division->heads[i]);
        if (bytes > most_bytes) most_bytes = bytes;
    }
    return most_bytes;
}

// What every stage holds: of equal stages each as much as the first, which where W runs right
// behind B is no less than it does.
static void fill_from_heads(struct composer *composer, struct program *program,
                            const struct division *division, struct memory_parts *stages)
{
    assert(division->heads[0] == 0 && "every stage has a head in front or is one");
    for (int i = 0; i < division->head_count; i++) {
        int head = division->heads[i];
        int end = i + 1 < division->head_count ? division->heads[i + 1] : division->stage_count;
        stages[head] = stage_memory(composer, program, head);
        for (int stage = head + 1; stage < end; stage++)
            stages[stage] = stages[head];
    }
}

// What hosts lack of what the stages hold: `stages` as fill_from_heads left them, or (`are_known`
// false) room for it.
static int64_t shortfall_of(struct composer *composer, struct program *program,
                            const struct division *division, bool are_known,
                            struct memory_parts *stages)
{
    int64_t short_bytes = 1;
    if (are_known) {
        struct host_need most = hosts_need(program, stages);
        short_bytes = hosts_shortfall(&most);
    }
    // Only where the most that they can hold is too much is each asked.
    for (int stage = 0; stage < division->stage_count && short_bytes > 0; stage++)
        stages[stage] = stage_memory(composer, program, stage);
    struct host_need need = hosts_need(program, stages);
    return hosts_shortfall(&need);
}

int64_t composer_host_shortfall(struct composer *composer, const struct parallel *parallel)
{
    if (offload_is_none(&parallel->offload)) return 0;
    const struct division *division = composer_division(composer, parallel);
    struct block_program *blocks[DIVISION_WAYS * DIVISION_KIND_MAX];
    composing_blocks(composer, parallel, blocks);
    struct program program = composing_program(composer, parallel, division, blocks);
    struct arena_mark mark = arena_mark(composer->scratch);
    struct memory_parts *stages =
        ARENA_NEW(composer->scratch, struct memory_parts, division->stage_count);
    bool is_fused = schedule_row(parallel->schedule)->backward_fused;
    if (is_fused) fill_from_heads(composer, &program, division, stages);
    int64_t short_bytes = shortfall_of(composer, &program, division, is_fused, stages);
    arena_reset(composer->scratch, mark);
    return short_bytes;
}

struct memory_parts composer_memory_and_hosts(struct composer *composer,
                                              const struct parallel *parallel, int64_t limit_bytes,
                                              int *stage, int64_t *short_bytes)
{
    bool is_fused = schedule_row(parallel->schedule)->backward_fused;
    *short_bytes = *stage = 0;
    if (!is_fused || offload_is_none(&parallel->offload)) {
        struct memory_parts parts = composer_memory(composer, parallel, stage);
        if (parts.reserved_bytes <= limit_bytes)
            *short_bytes = composer_host_shortfall(composer, parallel);
        return parts;
    }
    const struct division *division = composer_division(composer, parallel);
    struct block_program *blocks[DIVISION_WAYS * DIVISION_KIND_MAX];
    composing_blocks(composer, parallel, blocks);
    struct program program = composing_program(composer, parallel, division, blocks);
    struct arena_mark mark = arena_mark(composer->scratch);
    struct memory_parts *stages =
        ARENA_NEW(composer->scratch, struct memory_parts, division->stage_count);
    fill_from_heads(composer, &program, division, stages);
    struct memory_parts worst = {.reserved_bytes = -1};
    for (int i = 0; i < division->head_count; i++) {
        int head = division->heads[i];
        bool is_worse = stages[head].reserved_bytes > worst.reserved_bytes ||
                        (stages[head].reserved_bytes == worst.reserved_bytes && head < *stage);
        if (!is_worse) continue;
        worst = stages[head];
        *stage = head;
    }
    if (worst.reserved_bytes <= limit_bytes)
        *short_bytes = shortfall_of(composer, &program, division, true, stages);
    arena_reset(composer->scratch, mark);
    return worst;
}
