#include "plan/passes.h"
#include "plan/script/script.h"

#include <assert.h>
#include <stdlib.h>

// What a step does once (plan/step_end.h), written out.

// When a bucket is at work, by the tasks there were before.
struct bucket_times {
    int first_add, last_add;  // of its gradients; first_add: the count of all where there is none
    int last_use;             // of its weights, or of its gradients
    int updated;              // the task behind which it is updated
    // Of gradients that are kept on the host, the same in each micro-batch; else NULL.
    int *first_of, *last_of;
};

// Before a task or behind it, gradients of a bucket come from the host or go there.
struct room_moment {
    int task, bucket;
    bool comes;
};

struct stepping {
    struct script *script;
    struct script_task *tasks;  // with room for all
    int count;
    int task_count;              // that there were before
    struct bucket_times *times;  // [bucket]
    int *by_ready;               // buckets by last_add
    int ready_count;
    bool *is_reduced, *is_updated;  // [bucket]
    int *pending;                   // reduced and not yet updated, in this order
    int pending_count;
    bool overlaps, streams, goes_by_bucket;
    struct room_moment *moments;  // by task
    int moment_count, next_moment;
    int slot;  // that tasks stand in; -1: behind them
};

static int bucket_of_parameter(const struct script *script, int parameter)
{
    int same_as = script->parameters[parameter].same_as;
    return script->units[script->parameters[same_as < 0 ? parameter : same_as].unit].bucket;
}

static void note(const struct script *script, struct bucket_times *times, int task,
                 const struct script_operand *operand, bool is_output)
{
    bool is_gradient = operand->place == PLACE_GRADIENT;
    if (!is_gradient && operand->place != PLACE_WEIGHT) return;
    struct bucket_times *of = &times[bucket_of_parameter(script, operand->parameter)];
    of->last_use = task;
    if (!is_gradient || !is_output) return;
    if (task < of->first_add) of->first_add = task;
    of->last_add = task;
    if (!of->first_of) return;
    int micro_batch = script->tasks[task].micro_batch;
    if (of->first_of[micro_batch] < 0) of->first_of[micro_batch] = task;
    of->last_of[micro_batch] = task;
}

// The task of the operator that an exchange stands inside of; -1: it is none.
static int owner_of(const struct script *script, int task)
{
    const struct script_task *of = &script->tasks[task];
    if (of->kind != TASK_INSTR) return -1;
    const struct instr *instrs = script->program->blocks[of->block]->instrs;
    if (!instrs[of->instr].collective || instrs[of->instr].inner == 0) return -1;
    for (int t = task - 1; t >= 0; t--) {
        const struct script_task *other = &script->tasks[t];
        bool is_here = other->kind == TASK_INSTR && other->position == of->position &&
                       other->micro_batch == of->micro_batch && other->chunk == of->chunk;
        if (!is_here) continue;
        const struct instr *instr = &instrs[other->instr];
        if (instr->op == instrs[of->instr].op && !instr->collective) return t;
    }
    return -1;
}

static int *none_yet(struct arena *arena, int count)
{
    int *of = ARENA_NEW(arena, int, count);
    for (int i = 0; i < count; i++)
        of[i] = -1;
    return of;
}

static void find_times(struct arena *arena, const struct script *script, struct bucket_times *times)
{
    int rounds = script->program->shape.micro_batch_count;
    for (int b = 0; b < script->bucket_count; b++) {
        times[b] = (struct bucket_times){
            .first_add = script->task_count,
            .last_add = -1,
            .last_use = -1,
            .updated = script->task_count,
        };
        if (!script_bucket_is_away(&script->buckets[b])) continue;
        times[b].first_of = none_yet(arena, rounds);
        times[b].last_of = none_yet(arena, rounds);
    }
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        for (int i = 0; i < task->input_count; i++)
            note(script, times, t, &task->inputs[i], false);
        for (int i = 0; i < task->output_count; i++)
            note(script, times, t, &task->outputs[i], true);
        // What an operator makes is there when the exchanges inside it are done.
        int owner = owner_of(script, t);
        for (int i = 0; owner >= 0 && i < script->tasks[owner].output_count; i++)
            note(script, times, t, &script->tasks[owner].outputs[i], true);
    }
}

static int compare_moments(const void *left, const void *right)
{
    const struct room_moment *a = left, *b = right;
    if (a->task != b->task) return a->task - b->task;
    return a->comes != b->comes ? b->comes - a->comes : a->bucket - b->bucket;
}

// What comes before the first task of a micro-batch that adds to it, but in the first one, and goes
// behind the last.
static void find_moments(struct arena *arena, struct stepping *stepping)
{
    const struct script *script = stepping->script;
    int rounds = script->program->shape.micro_batch_count, count = 0;
    for (int b = 0; b < script->bucket_count; b++)
        if (stepping->times[b].first_of) count += 2 * rounds;
    stepping->moments = ARENA_NEW(arena, struct room_moment, count + 1);
    for (int b = 0; b < script->bucket_count; b++) {
        const struct bucket_times *of = &stepping->times[b];
        for (int m = 0; of->first_of && m < rounds; m++) {
            if (of->first_of[m] < 0) continue;
            if (m > 0)
                stepping->moments[stepping->moment_count++] =
                    (struct room_moment){of->first_of[m], b, true};
            stepping->moments[stepping->moment_count++] =
                (struct room_moment){of->last_of[m], b, false};
        }
    }
    qsort(stepping->moments, (size_t)stepping->moment_count, sizeof *stepping->moments,
          compare_moments);
}

static struct script_task *put(struct stepping *stepping, enum task_kind kind, int bucket)
{
    struct script_task *task = &stepping->tasks[stepping->count++];
    const struct script *script = stepping->script;
    int unit = bucket >= 0 ? script->buckets[bucket].units[0] : -1;
    *task = (struct script_task){
        .kind = kind,
        .chunk = unit >= 0 ? script->units[unit].chunk : -1,
        .position = unit >= 0 ? script->units[unit].position : -1,
        .micro_batch = -1,
        .slot = stepping->slot,
        .block = -1,
        .instr = -1,
        .stream = task_kind_stream(kind),
        .peer_stage = -1,
        .peer_chunk = -1,
        .unit = unit,
        .unit_count = unit >= 0,
        .bucket = bucket,
        .bucket_count = bucket >= 0,
    };
    return task;
}

static enum stream stream_of(const struct mesh *mesh, unsigned axes)
{
    enum axis parent = AXIS_TP;
    for (int i = 0; i < mesh->axis_count; i++) {
        enum axis own = mesh->axes[i].parent;
        if (axes >> i & 1 && axis_digit(own) > axis_digit(parent)) parent = own;
    }
    return axis_stream(parent);
}

static unsigned small_axes(const struct script *script, int parameter)
{
    const struct script_parameter *of = &script->parameters[parameter];
    const struct block_program *block = script->program->blocks[of->block];
    unsigned axes = block->parameters[of->index].gradient_partial_axes;
    return axes & ~script->units[of->unit].reduce_axes;
}

int script_next_small(const struct script *script, const struct script_task *task, int parameter)
{
    const struct script_bucket *first = &script->buckets[task->bucket];
    for (int p = parameter + 1; p < script->parameter_count; p++) {
        if (script->parameters[p].same_as >= 0) continue;
        int bucket = script->units[script->parameters[p].unit].bucket;
        bool is_in = bucket >= task->bucket && bucket < task->bucket + task->bucket_count &&
                     script->buckets[bucket].kind == first->kind &&
                     script->buckets[bucket].storage.gradient_axes == first->storage.gradient_axes;
        if (is_in && small_axes(script, p) == task->axes) return p;
    }
    return -1;
}

// One exchange over these axes for some buckets from this one on, if they have anything for it.
static void put_small(struct stepping *stepping, int bucket, int count, unsigned axes)
{
    struct script *script = stepping->script;
    struct script_task *task = put(stepping, TASK_SMALL_REDUCE, bucket);
    task->bucket_count = count;
    task->axes = axes;
    task->stream = stream_of(&script->program->mesh, axes);
    if (script_next_small(script, task, -1) < 0) stepping->count--;
}

static int first_of_kind(const struct script *script, int chunk, const struct step_small *small)
{
    for (int b = 0; b < script->bucket_count; b++) {
        const struct script_bucket *bucket = &script->buckets[b];
        if (bucket->chunk == chunk && bucket->kind == small->kind && bucket->unit_count > 0 &&
            bucket->storage.gradient_axes == small->gradient_axes)
            return b;
    }
    return -1;
}

static int end_of_chunk(const struct script *script, int chunk)
{
    int end = script->bucket_count;
    while (end > 0 && script->buckets[end - 1].chunk != chunk)
        end--;
    return end;
}

static const struct program_chunk *chunk_at(const struct script *script, int chunk)
{
    const struct program *program = script->program;
    int class = program->class_of[script->stage * program->shape.chunk_count + chunk];
    return &program->chunks[class];
}

// Of all buckets that have not yet been looked at: of a chunk at once, or bucket by bucket.
static void put_smalls(struct stepping *stepping)
{
    const struct script *script = stepping->script;
    bool at_once =
        pass_is_on(&script->program->parallel, PASS_COMBINE) && !stepping->goes_by_bucket;
    for (int c = 0; c < script->program->shape.chunk_count; c++) {
        struct step_end end = step_end_of(script->program, chunk_at(script, c), &script->rules);
        int last = end_of_chunk(script, c);
        for (int s = 0; s < end.small_kind_count; s++) {
            int first = first_of_kind(script, c, &end.smalls[s]);
            if (at_once && first >= 0) put_small(stepping, first, last - first, end.smalls[s].axes);
            for (int b = first; b >= 0 && b < last && !at_once; b++) {
                const struct script_bucket *bucket = &script->buckets[b];
                bool is_its = bucket->kind == end.smalls[s].kind && bucket->unit_count > 0 &&
                              bucket->storage.gradient_axes == end.smalls[s].gradient_axes;
                bool is_done = stepping->goes_by_bucket && bucket->tied < 0;
                if (is_its && !is_done) put_small(stepping, b, 1, end.smalls[s].axes);
            }
        }
    }
}

// What is small in one bucket, axes by axes.
static void put_smalls_of(struct stepping *stepping, int bucket)
{
    const struct script *script = stepping->script;
    unsigned done[STEP_GROUP_MAX];
    int count = 0;
    for (int p = 0; p < script->parameter_count; p++) {
        if (script->parameters[p].same_as >= 0 || bucket_of_parameter(script, p) != bucket)
            continue;
        unsigned axes = small_axes(script, p);
        int i = 0;
        while (i < count && done[i] != axes)
            i++;
        if (!axes || i < count) continue;
        assert(count < STEP_GROUP_MAX);
        done[count++] = axes;
        put_small(stepping, bucket, 1, axes);
    }
}

static void put_reduce(struct stepping *stepping, int bucket)
{
    if (stepping->script->buckets[bucket].reduce_axes) put(stepping, TASK_GRADIENT_REDUCE, bucket);
    stepping->is_reduced[bucket] = true;
}

static void put_update(struct stepping *stepping, int bucket)
{
    put(stepping, TASK_UPDATE, bucket);
    stepping->is_updated[bucket] = true;
}

// Updates of what nobody uses any more; the newest one waits until there is another where its
// reduction runs beside compute.
static void put_pending(struct stepping *stepping, int task)
{
    int kept = 0, count = stepping->pending_count;
    for (int i = 0; i < count; i++) {
        int bucket = stepping->pending[i];
        bool is_under_way =
            stepping->overlaps && i == count - 1 && stepping->script->buckets[bucket].reduce_axes;
        if (is_under_way || stepping->times[bucket].last_use > task) {
            stepping->pending[kept++] = bucket;
            continue;
        }
        stepping->times[bucket].updated = task;
        put_update(stepping, bucket);
    }
    stepping->pending_count = kept;
}

// What comes to the device before this task, or (`comes` false) leaves it behind it and is needed
// again: what is complete leaves behind its reductions.
static void put_moments(struct stepping *stepping, int task, bool comes)
{
    while (stepping->next_moment < stepping->moment_count) {
        const struct room_moment *moment = &stepping->moments[stepping->next_moment];
        if (moment->task != task || moment->comes != comes) break;
        bool is_complete = !comes && stepping->times[moment->bucket].last_add == task;
        if (!is_complete)
            put(stepping, comes ? TASK_GRADIENT_IN : TASK_GRADIENT_OUT, moment->bucket);
        stepping->next_moment++;
    }
}

// Buckets whose gradients are complete with this task. A tied one waits for the other end.
static void put_ready(struct stepping *stepping, int task)
{
    const struct script *script = stepping->script;
    for (; stepping->ready_count < script->bucket_count; stepping->ready_count++) {
        int bucket = stepping->by_ready[stepping->ready_count];
        if (stepping->times[bucket].last_add > task) break;
        if (stepping->times[bucket].last_add < task) continue;
        put_reduce(stepping, bucket);
        if (!stepping->goes_by_bucket || script->buckets[bucket].tied >= 0) continue;
        put_smalls_of(stepping, bucket);
        if (stepping->times[bucket].last_of) put(stepping, TASK_GRADIENT_OUT, bucket);
        if (stepping->streams) stepping->pending[stepping->pending_count++] = bucket;
    }
    if (stepping->pending_count > 0) put_pending(stepping, task);
}

static void put_gathers(struct stepping *stepping, int bucket)
{
    const struct script_bucket *of = &stepping->script->buckets[bucket];
    if (!storage_gather_axes(&of->storage) || of->unit_count == 0) return;
    if (script_bucket_is_flat(of)) {
        put(stepping, TASK_PARAMETER_GATHER, bucket);
        return;
    }
    for (int i = 0; i < of->unit_count; i++) {
        struct script_task *task = put(stepping, TASK_PARAMETER_GATHER, bucket);
        const struct script_unit *unit = &stepping->script->units[of->units[i]];
        task->unit = of->units[i];
        task->chunk = unit->chunk;
        task->position = unit->position;
    }
}

static void put_rest(struct stepping *stepping)
{
    const struct script *script = stepping->script;
    const struct workload *workload = &script->program->workload;
    stepping->slot = -1;
    for (int b = 0; b < script->bucket_count; b++) {
        if (script->buckets[b].unit_count > 0 && !stepping->is_reduced[b]) put_reduce(stepping, b);
    }
    put_smalls(stepping);
    for (int t = 0; t < script->program->tie_count; t++) {
        for (int b = 0; b < script->bucket_count; b++) {
            bool is_of = script->buckets[b].unit_count > 0 && script->buckets[b].tied == t;
            if (is_of) put(stepping, TASK_TIED_REDUCE, b);
        }
    }
    if (step_takes_norm(workload)) put(stepping, TASK_NORM, -1);
    if (step_takes_trust(workload)) put(stepping, TASK_TRUST, -1);
    for (int b = 0; b < script->bucket_count; b++) {
        if (script->buckets[b].unit_count > 0 && !stepping->is_updated[b]) put_update(stepping, b);
    }
    for (int b = 0; b < script->bucket_count; b++)
        put_gathers(stepping, b);
}

// Two buckets of one room stand behind each other in their group.
static bool rooms_hold(const struct stepping *stepping)
{
    const struct script *script = stepping->script;
    for (int b = 0; b + 2 < script->bucket_count; b++) {
        int room = script->buckets[b].room;
        bool is_shared = room >= 0 && script->buckets[b + 2].room == room;
        if (is_shared && !stepping->times[b].last_of &&
            stepping->times[b].updated >= stepping->times[b + 2].first_add)
            return false;
    }
    return true;
}

static int count_most(const struct stepping *stepping)
{
    const struct script *script = stepping->script;
    enum { A_BUCKET = 4 };  // tied, reduce, update; smalls are no more than parameters
    return script->task_count + stepping->moment_count + A_BUCKET * script->bucket_count +
           script->unit_count + script->parameter_count + 2;
}

static int *sort_by_ready(struct arena *arena, const struct script *script,
                          const struct bucket_times *times)
{
    int *order = ARENA_NEW(arena, int, script->bucket_count);
    for (int b = 0; b < script->bucket_count; b++) {
        int at = b;
        for (; at > 0 && times[order[at - 1]].last_add > times[b].last_add; at--)
            order[at] = order[at - 1];
        order[at] = b;
    }
    return order;
}

void script_add_step(struct arena *arena, struct script *script)
{
    struct stepping stepping = {
        .script = script,
        .task_count = script->task_count,
        .times = ARENA_NEW(arena, struct bucket_times, script->bucket_count),
        .is_reduced = ARENA_NEW(arena, bool, script->bucket_count),
        .is_updated = ARENA_NEW(arena, bool, script->bucket_count),
        .pending = ARENA_NEW(arena, int, script->bucket_count),
        .overlaps = passes_overlap(&script->program->parallel) & OVERLAP_GRAD_REDUCE,
        .streams = step_streams(&script->program->workload),
        .goes_by_bucket = step_goes_by_bucket(script->program),
    };
    find_times(arena, script, stepping.times);
    find_moments(arena, &stepping);
    stepping.tasks = ARENA_NEW(arena, struct script_task, count_most(&stepping));
    stepping.by_ready = sort_by_ready(arena, script, stepping.times);
    for (int i = 0; i < script->task_count; i++) {
        stepping.slot = script->tasks[i].slot;
        put_moments(&stepping, i, true);
        stepping.tasks[stepping.count++] = script->tasks[i];
        put_moments(&stepping, i, false);
        if (stepping.overlaps || stepping.goes_by_bucket) put_ready(&stepping, i);
    }
    put_rest(&stepping);
    assert(stepping.count <= count_most(&stepping));
    assert(rooms_hold(&stepping) && "what is predicted to pass through two rooms does");
    script->tasks = stepping.tasks;
    script->task_count = stepping.count;
}
