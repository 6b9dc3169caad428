#include "executor/engine/engine.h"

#include "core/progress.h"
#include "executor/engine/away.h"
#include "executor/engine/checkpoint.h"
#include "executor/engine/host_state.h"
#include "executor/engine/moved.h"
#include "plan/layout/shard.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

// One rank's way through its script: memory first, then step by step, task by task.

const struct block_program *engine_block(const struct engine *engine,
                                         const struct script_task *task)
{
    return engine->program->blocks[task->block];
}

bool engine_ok(struct engine *engine, int task, const char *fault)
{
    if (!fault) return true;
    struct arena scratch = {0};
    const char *at = task < 0 ? "starting" : script_task_name(&scratch, engine->script, task);
    err_set(engine->err, ERR_SYSTEM, "rank %d, step %d, at %s: %s", engine->rank, engine->step + 1,
            at, fault);
    arena_free(&scratch);
    return false;
}

int64_t engine_element_bytes(const struct engine *engine, enum element element)
{
    switch (element) {
    case ELEMENT_INT64:
        return 8;
    case ELEMENT_BYTE:
        return 1;
    case ELEMENT_COMPUTE:
        return engine->compute_bytes;
    case ELEMENT_FP32:
        break;
    }
    return engine->real_bytes;
}

enum element engine_element(const struct engine *engine, const struct script_task *task,
                            const struct script_operand *operand)
{
    if (operand->place == PLACE_GRADIENT) return ELEMENT_FP32;
    const struct block_program *block = engine_block(engine, task);
    if (block->buffers[operand->buffer].cast) return ELEMENT_BYTE;
    int tensor = block->buffers[operand->buffer].tensor;
    return tensor < 0 ? ELEMENT_COMPUTE : block->block->tensors[tensor].element;
}

char *engine_address(struct engine *engine, const struct script_task *task,
                     const struct script_operand *operand)
{
    switch (operand->place) {
    case PLACE_ARENA:
        assert(operand->offset >= 0 && operand->bytes >= 0);
        return engine->memory + operand->offset * engine->widen;
    case PLACE_WEIGHT:
        return engine->state.weights +
               state_part_of(engine, operand->parameter, STATE_WEIGHTS).at * engine->compute_bytes;
    case PLACE_GRADIENT:
        return engine->state.gradients +
               state_part_of(engine, operand->parameter, STATE_GRADIENTS).at * engine->real_bytes;
    case PLACE_IDS:
        break;
    }
    return data_ids(engine, task, operand->buffer);
}

int engine_rank_at_stage(const struct engine *engine, int stage)
{
    return mesh_at_stage(&engine->program->mesh, engine->rank, stage);
}

int engine_sequence(const struct engine *engine, const struct script_task *task)
{
    const struct program *program = engine->program;
    int chunk = engine->stage * program->shape.chunk_count + task->chunk;
    return program->spans[chunk].first + task->position;
}

static bool is_same_elsewhere(const struct mesh *mesh, unsigned axes, int a, int b)
{
    for (int i = 0; i < mesh->axis_count; i++) {
        bool may_differ = axes >> i & 1;
        if (!may_differ && mesh_coordinate(mesh, i, a) != mesh_coordinate(mesh, i, b)) return false;
    }
    return true;
}

const char *engine_rank_group(struct engine *engine, const int *ranks, int count,
                              const char *purpose, struct group **group)
{
    return engine->transport->group(engine->request->communicator, ranks, count, purpose, group);
}

static bool is_ascending(const int *ranks, int count)
{
    for (int i = 1; i < count; i++)
        if (ranks[i] < ranks[i - 1]) return false;
    return true;
}

static struct member_group *group_of(struct engine *engine, unsigned axes, const char *purpose,
                                     bool is_shard)
{
    enum { GROUPS_MAX = 1 << 8 };
    for (int g = 0; g < engine->group_count; g++) {
        const struct member_group *made = engine->groups[g];
        if (made->axes == axes && (made->is_ascending || made->is_shard == is_shard))
            return engine->groups[g];
    }
    if (!engine->groups)
        engine->groups = ARENA_NEW(engine->arena, struct member_group *, GROUPS_MAX);
    assert(engine->group_count < GROUPS_MAX);
    const struct mesh *mesh = &engine->program->mesh;
    struct member_group *made = ARENA_NEW(engine->arena, struct member_group, 1);
    made->axes = axes;
    made->ranks = ARENA_NEW(engine->arena, int, mesh->rank_count);
    for (int r = 0; r < mesh->rank_count; r++) {
        bool is_member = mesh_has(mesh, r) && is_same_elsewhere(mesh, axes, engine->rank, r);
        if (is_member) made->ranks[made->count++] = r;
    }
    if (is_shard) made->count = shard_members(mesh, axes, engine->rank, made->ranks);
    while (made->ranks[made->index] != engine->rank) {
        assert(made->index + 1 < made->count && "a rank is a member of its group");
        made->index++;
    }
    made->is_shard = is_shard;
    made->is_ascending = is_ascending(made->ranks, made->count);
    const char *fault = engine_rank_group(engine, made->ranks, made->count, purpose, &made->group);
    if (!engine_ok(engine, -1, fault)) return NULL;
    engine->groups[engine->group_count++] = made;
    return made;
}

struct member_group *engine_group(struct engine *engine, unsigned axes, const char *purpose)
{
    return group_of(engine, axes, purpose, false);
}

struct member_group *engine_shard_group(struct engine *engine, unsigned axes, const char *purpose)
{
    return group_of(engine, axes, purpose, true);
}

static const struct instr *instr_of(const struct engine *engine, const struct script_task *task)
{
    return &engine_block(engine, task)->instrs[task->instr];
}

// The operator that an exchange stands inside of: the last one before it in its block.
static void find_owners(struct engine *engine)
{
    const struct script *script = engine->script;
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        engine->prepared[t].owner = -1;
        if (task->kind != TASK_INSTR || instr_of(engine, task)->inner == 0) continue;
        for (int o = t - 1; o >= 0; o--) {
            const struct script_task *other = &script->tasks[o];
            bool is_owner = other->kind == TASK_INSTR && other->position == task->position &&
                            other->micro_batch == task->micro_batch &&
                            other->chunk == task->chunk &&
                            instr_of(engine, other)->collective == COLLECTIVE_NONE &&
                            instr_of(engine, other)->op == instr_of(engine, task)->op;
            if (!is_owner) continue;
            engine->prepared[t].owner = o;
            break;
        }
        assert(engine->prepared[t].owner >= 0);
    }
}

static int64_t staging_wanted(const struct engine *engine, enum stream stream)
{
    int64_t most = 0;
    for (int t = 0; t < engine->script->task_count; t++) {
        const struct script_task *task = &engine->script->tasks[t];
        if (engine->backend->is_asynchronous && task->stream != stream) continue;
        int64_t wanted = task->kind == TASK_INSTR        ? exchange_staging(engine, t)
                         : task_kind_is_once(task->kind) ? update_staging(engine, t)
                                                         : message_staging(engine, t);
        if (wanted > most) most = wanted;
    }
    return most;
}

// `bytes` that the plan places, and more that it does not.
static bool reserve(struct engine *engine, int64_t bytes, int64_t beside_bytes, char **memory)
{
    void *got = NULL;
    beside_bytes += 64;
    engine->beside_bytes += beside_bytes;
    if (!engine_ok(engine, -1,
                   engine->backend->allocate(engine->device, bytes + beside_bytes, &got)))
        return false;
    *memory = got;
    return true;
}

// The arena is where nearly all is that ranks exchange.
static void adopt_memory(struct engine *engine, void *memory)
{
    const struct transport *transport = engine->transport;
    int64_t bytes = memory ? engine->script->arena_bytes * engine->widen : 0;
    if (transport->adopt) transport->adopt(engine->request->communicator, memory, bytes);
}

static bool open_memory(struct engine *engine)
{
    const struct script *script = engine->script;
    int64_t guard = poison_guard_bytes(engine);
    if (!reserve(engine, script->arena_bytes * engine->widen, 2 * guard, &engine->memory))
        return false;
    engine->memory += guard;
    adopt_memory(engine, engine->memory);
    for (int s = 0; s < STREAM_COUNT; s++) {
        if (s > 0 && !engine->backend->is_asynchronous) continue;
        int64_t bytes = staging_wanted(engine, (enum stream)s);
        engine->staging_bytes += 2 * bytes;
        for (int i = 0; i < 2 && (s == 0 || bytes > 0); i++) {
            if (!reserve(engine, 0, bytes, &engine->staging[s][i])) return false;
        }
    }
    return true;
}

// Streams that run beside each other have their own.
char *engine_staging(const struct engine *engine, enum stream stream, int which)
{
    assert(stream < STREAM_COUNT && (which == 0 || which == 1));
    return engine->staging[engine->backend->is_asynchronous ? stream : STREAM_COMPUTE][which];
}

static bool open_world(struct engine *engine)
{
    int count = engine->program->mesh.rank_count;
    int *ranks = ARENA_NEW(engine->arena, int, count);
    for (int r = 0; r < count; r++)
        ranks[r] = r;
    return engine_ok(engine, -1,
                     engine_rank_group(engine, ranks, count, GROUP_OF_NUMBERS, &engine->world));
}

static bool open_engine(struct engine *engine)
{
    engine->prepared = ARENA_NEW(engine->arena, struct prepared, engine->script->task_count + 1);
    find_owners(engine);
    ring_prepare(engine);
    experts_prepare(engine);
    bool resumed = false;
    if (!open_world(engine) || !state_open(engine) || !resume_open(engine, &resumed)) return false;
    if (!resumed && !initial_weights(engine)) return false;
    gradients_prepare(engine);
    if (engine->err->kind || !open_memory(engine) || !data_open(engine)) return false;
    if (!weight_casts_open(engine)) return false;
    if (engine->request->options->poison) poison_prepare(engine);
    if (!streams_open(engine) || !moved_open(engine)) return false;
    joins_prepare(engine);
    slow_open(engine);
    return segments_open(engine) && measure_open(engine) && save_open(engine);
}

static void close_engine(struct engine *engine)
{
    const struct backend *backend = engine->backend;
    adopt_memory(engine, NULL);
    save_close(engine);
    measure_close(engine);
    segments_close(engine);
    streams_close(engine);
    host_state_close(engine);
    moved_close(engine);
    away_close(engine);
    host_memory_close(engine);
    weight_casts_close(engine);
    state_close(engine);
    data_close(engine);
    if (engine->memory)
        backend->release(engine->device, engine->memory - poison_guard_bytes(engine));
    for (int i = 0; i < 2 * STREAM_COUNT; i++) {
        char *staging = engine->staging[i / 2][i % 2];
        if (staging) backend->release(engine->device, staging);
    }
}

bool engine_waits(const struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    if (of->kind == TASK_INSTR) {
        const struct instr *instr = &engine_block(engine, of)->instrs[of->instr];
        return instr->collective != COLLECTIVE_NONE || ring_is(engine, task) ||
               experts_wait(engine, task);
    }
    return task_kind_talks(of->kind);
}

static void beat(const struct engine *engine, int task, enum heartbeat_state state)
{
    struct heartbeat *heartbeat = engine->request->heartbeat;
    if (!heartbeat) return;
    if (task >= 0) {
        struct arena scratch = {0};
        const char *name = script_task_name(&scratch, engine->script, task);
        snprintf(heartbeat->task_name, sizeof heartbeat->task_name, "%s", name);
        arena_free(&scratch);
    }
    atomic_store(&heartbeat->step, engine->step + 1);
    atomic_store(&heartbeat->task, task);
    atomic_store(&heartbeat->state, (int)state);
    atomic_fetch_add(&heartbeat->beat, 1);
}

void engine_beat(const struct engine *engine, int task)
{
    beat(engine, task, engine_waits(engine, task) ? HEARTBEAT_WAITING : HEARTBEAT_WORKING);
}

static bool run_tasks(struct engine *engine)
{
    for (int t = 0, count; t < engine->script->task_count; t += count) {
        struct arena_mark mark = arena_mark(engine->scratch);
        engine_beat(engine, t);
        count = segments_run(engine, t);
        if (count < 0) return false;
        tasks_ran(engine, t, count);
        assert(t + count <= engine->script->task_count);
        if (count > 0) continue;
        count = 1;
        bool done = streams_begin(engine, t) && measure_begin(engine, t) && task_run(engine, t) &&
                    measure_end(engine, t) && streams_end(engine, t);
        arena_reset(engine->scratch, mark);
        if (!done) return false;
        tasks_ran(engine, t, 1);
        if (engine->request->options->poison && !poison_after(engine, t)) return false;
    }
    return streams_settle(engine);
}

// Behind the tasks of a step: what ranks tell each other of it.
static bool end_step(struct engine *engine, int64_t took_ns, struct run_result *result,
                     double *step_s, bool *stops)
{
    enum { TOOK, WORKED, SAVES, NUMBERS = SAVES + SAVE_COUNT };
    struct arena_mark mark = arena_mark(engine->scratch);
    int ranks = engine->program->mesh.rank_count;
    int64_t mine[NUMBERS] = {took_ns, engine->work_ns}, slowest_ns = 0;
    int64_t *all = ARENA_NEW(engine->scratch, int64_t, NUMBERS * ranks);
    int64_t *saves = ARENA_NEW(engine->scratch, int64_t, SAVE_COUNT * ranks);
    int64_t *worked_ns = ARENA_NEW(engine->scratch, int64_t, ranks);
    save_tell(engine, mine + SAVES);
    const char *fault = engine->transport->host_gather(engine->world, mine, all, NUMBERS);
    if (!engine_ok(engine, -1, fault)) return false;
    for (int r = 0; r < ranks; r++) {
        const int64_t *of = all + (int64_t)r * NUMBERS;
        if (of[TOOK] > slowest_ns) slowest_ns = of[TOOK];
        worked_ns[r] = of[WORKED];
        memcpy(saves + (int64_t)r * SAVE_COUNT, of + SAVES, SAVE_COUNT * sizeof *saves);
    }
    *step_s = (double)slowest_ns * 1e-9;
    result->straggler = slow_take(engine, worked_ns, *step_s);
    bool done = save_step(engine, saves, *step_s, stops);
    arena_reset(engine->scratch, mark);
    return done;
}

static bool validates(struct engine *engine, int step, double *loss)
{
    const struct run_options *options = engine->request->options;
    *loss = NAN;
    if (options->validate_every == 0) return true;
    bool is_due = (step + 1) % options->validate_every == 0 || step + 1 == options->steps;
    double began_s = clock_s();
    bool done = !is_due || validate(engine, loss);
    engine->step_over_s += clock_s() - began_s;
    return done;
}

// What is no number has a sign that hangs on the machine, and is printed with it: "-nan".
static double no_sign(double value)
{
    return isnan(value) ? NAN : value;
}

static bool run_step(struct engine *engine, struct run_result *result, bool *stops)
{
    int step = engine->step, at = step - engine->first_step;
    engine->loss_sum = 0;
    engine->learning_rate = rate_at(&engine->request->options->rate, step);
    moved_start(engine);
    away_start(engine);
    scale_start(engine);
    if (!data_step(engine, &result->data_wait_s[at]) || !poison_start(engine) ||
        !gradients_start(engine) || !segments_start(engine) || !streams_settle(engine))
        return false;
    const char *fault = engine->transport->barrier(engine->request->communicator);
    if (!engine_ok(engine, -1, fault)) return false;
    if (!measure_start_step(engine)) return false;
    double began_s = clock_s();
    double between_s = began_s - engine->step_over_s - result->data_wait_s[at];
    result->between_s[at] = at > 0 ? fmax(between_s, 0) : NAN;
    if (!run_tasks(engine)) return false;
    int64_t took_ns = (int64_t)((clock_s() - began_s) * 1e9);
    double step_s;
    if (!memory_hold(engine)) return false;
    if (!end_step(engine, took_ns, result, &step_s, stops)) return false;
    // All ranks began the step together, and the slowest ends it.
    engine->step_over_s = began_s + step_s + save_paused_s(engine);
    task_add_losses(engine);
    double loss = engine->loss_sum / engine_step_tokens(engine);
    if (!engine_ok(engine, -1, engine->transport->host_sum(engine->world, &loss, 1))) return false;
    result->step_s[at] = step_s;
    result->loss[at] = no_sign(loss);
    result->gradient_norm[at] = no_sign(engine->norm);
    result->loss_scale[at] = engine->scale.of_step;
    result->learning_rate[at] = engine->learning_rate;
    result->skip[at] = engine->scale.skip;
    result->step_count++;
    result->saved = save_account(engine);
    if (!measure_step(engine, step_s) || !resume_after_spikes(engine)) return false;
    const struct run_options *options = engine->request->options;
    bool is_last = step + 1 == options->steps;
    if (options->logits_path && is_last && !logits_write(engine)) return false;
    if (!validates(engine, step, &result->validation_loss[at])) return false;
    if (engine->request->report) engine->request->report(engine->request->report_context, result);
    return poison_check(engine, loss);
}

bool run_steps(struct arena *arena, const struct run_request *request, struct run_result *result,
               struct err *err)
{
    struct arena scratch = {0};
    struct engine engine = {
        .request = request,
        .backend = request->backend,
        .device = request->device,
        .transport = request->transport,
        .script = request->script,
        .program = request->script->program,
        .arena = arena,
        .scratch = &scratch,
        .real_bytes = request->backend->real_bytes,
        .compute_bytes = request->backend->compute_bytes,
        .rank = request->rank,
        .stage = request->script->stage,
        .err = err,
    };
    int steps = request->options->steps;
    scale_open(&engine);
    engine.plan_bytes = lower_element_bytes(ELEMENT_COMPUTE, engine.program->workload.precision);
    engine.widen = engine.compute_bytes / engine.plan_bytes;
    assert(engine.widen > 0 && "the back end computes narrower than the plan");
    *result = (struct run_result){.step_s = ARENA_NEW(arena, double, steps),
                                  .loss = ARENA_NEW(arena, double, steps),
                                  .gradient_norm = ARENA_NEW(arena, double, steps),
                                  .loss_scale = ARENA_NEW(arena, double, steps),
                                  .learning_rate = ARENA_NEW(arena, double, steps),
                                  .validation_loss = ARENA_NEW(arena, double, steps),
                                  .data_wait_s = ARENA_NEW(arena, double, steps),
                                  .between_s = ARENA_NEW(arena, double, steps),
                                  .skip = ARENA_NEW(arena, enum run_skip, steps)};
    bool done = memory_limit(&engine, result) && open_engine(&engine);
    if (done) {
        // What is planned is known now, for who reports on steps; host memory is not all there yet.
        memory_fill(&engine, result);
        done = memory_gather(&engine, result);
    }
    bool stops = false;
    for (; done && engine.step < steps && !stops; engine.step++)
        done = run_step(&engine, result, &stops);
    done = done && save_finish(&engine, result);
    done = done && host_state_finish(&engine) && away_finish(&engine);
    // One that was asked to end is not measured to the end, and goes on elsewhere.
    if (done && !result->saved.is_stopped) {
        memory_fill(&engine, result);
        done = memory_gather(&engine, result) && attentions_gather(&engine, result) &&
               data_finish(&engine, result) && measure_finish(&engine, result);
    }
    if (done && request->options->dump_path) done = dump_write(&engine);
    if (request->heartbeat)
        atomic_store(&request->heartbeat->state, done ? HEARTBEAT_DONE : HEARTBEAT_FAILED);
    close_engine(&engine);
    arena_free(&scratch);
    return done;
}
