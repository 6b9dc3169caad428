#include "plan/script/script.h"

#include <assert.h>
#include <stdlib.h>

// Who waits for whom. The arena is cut at every boundary of an operand into cells that no operand
// has a part of; a cell knows its last writer and who has read it since. Each task has a clock: of
// every stream the last task that is known to have ended when this one has.

struct cell {
    int writer, readers[STREAM_COUNT];  // 1 + task; 0: none
};

struct waiting {
    struct arena *arena;
    struct script *script;
    int64_t *boundaries;
    int boundary_count;
    struct cell *bytes, *weights, *gradients, *rooms;  // [boundary], [parameter], [room]
    int (*clocks)[STREAM_COUNT];                       // 1 + task
    int last[STREAM_COUNT];                            // 1 + task
    int task;
    int wanted[STREAM_COUNT];  // 1 + the latest that this task has to follow
};

static void follow(struct waiting *waiting, int other)
{
    assert(other >= 0 && other <= waiting->task && "only what stands before is waited for");
    if (other == 0) return;
    int stream = (int)waiting->script->tasks[other - 1].stream;
    if (waiting->wanted[stream] < other) waiting->wanted[stream] = other;
}

static void touch(struct waiting *waiting, struct cell *cell, bool writes)
{
    int self = 1 + waiting->task;
    follow(waiting, cell->writer == self ? 0 : cell->writer);
    for (int s = 0; s < STREAM_COUNT && writes; s++)
        follow(waiting, cell->readers[s] == self ? 0 : cell->readers[s]);
    if (writes) {
        *cell = (struct cell){.writer = self};
    } else {
        cell->readers[waiting->script->tasks[waiting->task].stream] = self;
    }
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void find_boundaries(struct waiting *waiting)
{
    // Micro-batches use the same places in turn: what was seen of late is not taken again. Places
    // are multiples of large powers of two: all digits decide where one is looked for (Fibonacci
    // hashing: Knuth, TAOCP 3, 6.4).
    enum { RECENT_BITS = 14, RECENT = 1 << RECENT_BITS };
    static const uint64_t SPREAD = 0x9e3779b97f4a7c15u;
    const struct script *script = waiting->script;
    int count = 0, kept = 0, capacity = 0;
    int64_t *boundaries = NULL;
    int64_t *recent = ARENA_NEW(waiting->arena, int64_t, RECENT);  // 1 + boundary
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        for (int i = 0; i < task->input_count + task->output_count; i++) {
            const struct script_operand *operand =
                i < task->input_count ? &task->inputs[i] : &task->outputs[i - task->input_count];
            if (operand->place != PLACE_ARENA) continue;
            const int64_t ends[] = {operand->offset, operand->offset + operand->bytes};
            for (int k = 0; k < 2; k++) {
                int64_t *same = &recent[(uint64_t)ends[k] * SPREAD >> (64 - RECENT_BITS)];
                if (*same == ends[k] + 1) continue;
                *same = ends[k] + 1;
                boundaries = ARENA_GROW(waiting->arena, waiting->boundaries, count, capacity);
                boundaries[count++] = ends[k];
            }
        }
    }
    if (count > 0) qsort(boundaries, (size_t)count, sizeof *boundaries, by_value);
    for (int i = 0; i < count; i++) {
        if (kept == 0 || boundaries[kept - 1] != boundaries[i]) boundaries[kept++] = boundaries[i];
    }
    waiting->boundary_count = kept;
}

static int boundary_at(const struct waiting *waiting, int64_t offset)
{
    int low = 0, high = waiting->boundary_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (waiting->boundaries[middle] < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void touch_parameter(struct waiting *waiting, struct cell *cells, int parameter, bool writes)
{
    const struct script *script = waiting->script;
    int same_as = script->parameters[parameter].same_as;
    int stored = same_as < 0 ? parameter : same_as;
    int bucket = script->units[script->parameters[stored].unit].bucket;
    int room = cells == waiting->gradients ? script->buckets[bucket].room : -1;
    touch(waiting, &cells[stored], writes);
    if (room >= 0) touch(waiting, &waiting->rooms[room], writes);
}

static void touch_unit(struct waiting *waiting, struct cell *cells, int unit, bool writes)
{
    const struct script_unit *of = &waiting->script->units[unit];
    for (int i = 0; i < of->parameter_count; i++)
        touch_parameter(waiting, cells, of->first_parameter + i, writes);
}

static void touch_operand(struct waiting *waiting, const struct script_task *task,
                          const struct script_operand *operand, bool writes)
{
    if (operand->place == PLACE_IDS) return;  // read only, there before the step
    if (operand->place == PLACE_ARENA) {
        int64_t end = operand->offset + operand->bytes;
        for (int i = boundary_at(waiting, operand->offset); waiting->boundaries[i] < end; i++)
            touch(waiting, &waiting->bytes[i], writes);
        return;
    }
    struct cell *cells = operand->place == PLACE_WEIGHT ? waiting->weights : waiting->gradients;
    if (task->unit >= 0) {
        touch_unit(waiting, cells, waiting->script->parameters[operand->parameter].unit, writes);
    } else {
        touch_parameter(waiting, cells, operand->parameter, writes);
    }
}

// Keys that pass by: their reader exchanges them in the place where they stand.
static bool passes_by(const struct block_program *block, const struct instr *instr, int buffer)
{
    if (instr->kind != OP_ATTENTION && instr->kind != OP_ATTENTION_BACKWARD) return false;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *other = &block->instrs[i];
        if (other->collective && other->streamed && other->outputs[0] == buffer) return true;
    }
    return false;
}

// The operator that an exchange is part of works on what it has again.
static void touch_owner(struct waiting *waiting, const struct script_task *task)
{
    const struct block_program *block = waiting->script->program->blocks[task->block];
    int op = block->instrs[task->instr].op, t = waiting->task - 1;
    for (; t >= 0; t--) {
        const struct script_task *other = &waiting->script->tasks[t];
        if (other->kind != TASK_INSTR || other->position != task->position ||
            other->micro_batch != task->micro_batch || other->chunk != task->chunk)
            continue;
        const struct instr *instr = &block->instrs[other->instr];
        if (instr->op == op && !instr->collective) break;
    }
    assert(t >= 0 && "an exchange stands behind its operator");
    const struct script_task *owner = &waiting->script->tasks[t];
    for (int i = 0; i < owner->input_count; i++)
        touch_operand(waiting, owner, &owner->inputs[i], false);
    for (int i = 0; i < owner->output_count; i++)
        touch_operand(waiting, owner, &owner->outputs[i], true);
}

static void touch_instr(struct waiting *waiting, const struct script_task *task)
{
    const struct block_program *block = waiting->script->program->blocks[task->block];
    const struct instr *instr = &block->instrs[task->instr];
    bool scatters = task->unit >= 0 && !instr_gathers(instr);
    for (int i = 0; i < task->input_count; i++) {
        const struct script_operand *operand = &task->inputs[i];
        // What waited for a room is added to what the room has; exchanges fill their own buffer.
        bool writes = (scatters && i == 0) || (instr->collective && instr->inner > 0) ||
                      (!instr->collective && passes_by(block, instr, operand->buffer));
        touch_operand(waiting, task, operand, writes);
    }
    for (int i = 0; i < task->output_count; i++)
        touch_operand(waiting, task, &task->outputs[i], true);
    if (instr->collective && instr->inner > 0) touch_owner(waiting, task);
}

// What comes back from the host follows what left.
static void follow_leaving(struct waiting *waiting, const struct script_task *task)
{
    for (int t = waiting->task - 1; t >= 0; t--) {
        const struct script_task *other = &waiting->script->tasks[t];
        if (other->kind != TASK_COPY_OUT || other->chunk != task->chunk ||
            other->position != task->position || other->micro_batch != task->micro_batch)
            continue;
        follow(waiting, 1 + t);
        return;
    }
}

static void touch_bucket(struct waiting *waiting, struct cell *cells, int bucket, bool writes)
{
    assert(bucket >= 0 && bucket < waiting->script->bucket_count);
    const struct script_bucket *of = &waiting->script->buckets[bucket];
    for (int i = 0; i < of->unit_count; i++)
        touch_unit(waiting, cells, of->units[i], writes);
}

static void touch_all(struct waiting *waiting, struct cell *cells, bool writes)
{
    for (int p = 0; p < waiting->script->parameter_count; p++)
        touch_parameter(waiting, cells, p, writes);
}

static void touch_step(struct waiting *waiting, const struct script_task *task)
{
    switch (task->kind) {
    case TASK_SMALL_REDUCE:
        for (int p = -1; (p = script_next_small(waiting->script, task, p)) >= 0;)
            touch_parameter(waiting, waiting->gradients, p, true);
        break;
    case TASK_TIED_REDUCE:
    case TASK_GRADIENT_REDUCE:
    case TASK_GRADIENT_OUT:  // who reads them next reads them on the host
    case TASK_GRADIENT_IN:
        touch_bucket(waiting, waiting->gradients, task->bucket, true);
        break;
    case TASK_NORM:
        touch_all(waiting, waiting->gradients, false);
        break;
    case TASK_TRUST:
        touch_all(waiting, waiting->gradients, false);
        touch_all(waiting, waiting->weights, false);
        break;
    case TASK_UPDATE:
        touch_bucket(waiting, waiting->gradients, task->bucket, false);
        touch_bucket(waiting, waiting->weights, task->bucket, true);
        break;
    case TASK_PARAMETER_GATHER:
        if (script_bucket_is_flat(&waiting->script->buckets[task->bucket])) {
            touch_bucket(waiting, waiting->weights, task->bucket, true);
        } else {
            touch_unit(waiting, waiting->weights, task->unit, true);
        }
        break;
    default:
        assert(false && "no step-level task");
    }
}

static void touch_task(struct waiting *waiting, const struct script_task *task)
{
    if (task_kind_is_once(task->kind)) {
        touch_step(waiting, task);
        return;
    }
    if (task->kind == TASK_INSTR) {
        touch_instr(waiting, task);
        return;
    }
    if (task->kind == TASK_COPY_IN) follow_leaving(waiting, task);
    for (int i = 0; i < task->input_count; i++)
        touch_operand(waiting, task, &task->inputs[i], false);
    for (int i = 0; i < task->output_count; i++)
        touch_operand(waiting, task, &task->outputs[i], true);
}

// Whether what stands before on the own stream, or another wait, says that `other` has ended.
static bool is_implied(const struct waiting *waiting, int stream, int own)
{
    int other = waiting->wanted[stream], before = waiting->last[own];
    if (stream == own || (before && waiting->clocks[before - 1][stream] >= other)) return true;
    for (int s = 0; s < STREAM_COUNT; s++) {
        int by = waiting->wanted[s];
        if (by == 0 || s == stream || s == own) continue;
        if (waiting->clocks[by - 1][stream] >= other) return true;
    }
    return false;
}

static int by_task(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

// What has ended with another task has ended with this one.
static void learn(struct waiting *waiting, int other)
{
    assert(other >= 0 && other < waiting->task);
    int *clock = waiting->clocks[waiting->task];
    for (int s = 0; s < STREAM_COUNT; s++) {
        if (clock[s] < waiting->clocks[other][s]) clock[s] = waiting->clocks[other][s];
    }
}

static void settle(struct waiting *waiting, struct script_task *task)
{
    assert(task->wait_count == 0 && "waits are added once");
    int own = (int)task->stream;
    int waits[STREAM_COUNT];
    for (int s = 0; s < STREAM_COUNT; s++) {
        if (waiting->wanted[s] > 0 && !is_implied(waiting, s, own))
            waits[task->wait_count++] = waiting->wanted[s] - 1;
    }
    task->waits = task->wait_count ? ARENA_NEW(waiting->arena, int, task->wait_count) : NULL;
    for (int i = 0; i < task->wait_count; i++)
        task->waits[i] = waits[i];
    if (task->wait_count) qsort(task->waits, (size_t)task->wait_count, sizeof(int), by_task);
    for (int i = 0; i < task->wait_count; i++)
        learn(waiting, task->waits[i]);
    if (waiting->last[own]) learn(waiting, waiting->last[own] - 1);
    waiting->clocks[waiting->task][own] = waiting->last[own] = 1 + waiting->task;
}

void script_add_waits(struct arena *arena, struct script *script)
{
    struct arena scratch = {0};
    struct waiting waiting = {.arena = &scratch, .script = script};
    find_boundaries(&waiting);
    waiting.bytes = ARENA_NEW(&scratch, struct cell, waiting.boundary_count + 1);
    waiting.weights = ARENA_NEW(&scratch, struct cell, script->parameter_count + 1);
    waiting.gradients = ARENA_NEW(&scratch, struct cell, script->parameter_count + 1);
    waiting.rooms = ARENA_NEW(&scratch, struct cell, script->room_count + 1);
    waiting.clocks = arena_alloc(&scratch, (size_t)script->task_count + 1, sizeof *waiting.clocks);
    waiting.arena = arena;
    for (; waiting.task < script->task_count; waiting.task++) {
        struct script_task *task = &script->tasks[waiting.task];
        for (int s = 0; s < STREAM_COUNT; s++)
            waiting.wanted[s] = 0;
        touch_task(&waiting, task);
        settle(&waiting, task);
    }
    arena_free(&scratch);
}
