#include "executor/engine/host_state.h"
#include "executor/engine/away.h"
#include "executor/host_step.h"
#include "executor/nvme.h"

#include <assert.h>
#include <string.h>

// By unit: its part of the weights, then of the first and the second moments; units as the moments
// of a device stand (struct state).
// On NVMe one unit is written, one is updated and one is read.
enum { ARRAY_MAX = 3, TURNS = 3 };

struct host_state {
    int array_count;
    char *gradients;  // reals: of what this rank updates; where gradients are kept here, of all
    int64_t *gradient_at;  // [unit] reals into them
    double *squares;       // [parameter] of gradients that are kept here
    int *last_out;         // [bucket] the task with which they leave complete
    char *states;          // NULL: on NVMe
    char *rounded;        // as kernels read them, of the unit under way; NULL where those are reals
    int64_t state_bytes;  // of all units
    // On NVMe: rooms for a unit that are used in turn, and the units in the order of their updates.
    struct nvme *nvme;
    char *rooms[TURNS];
    int64_t reads[TURNS];  // requests that fill the rooms; -1: none does
    int *order;
    int order_count, turn;
};

bool host_state_leaves(const struct engine *engine, bool is_away)
{
    for (int u = 0; u < engine->script->unit_count; u++)
        if (script_unit_is_away(engine->script, u) == is_away) return true;
    return false;
}

bool host_state_is_of(const struct engine *engine, int parameter)
{
    return script_unit_is_away(engine->script, engine->script->parameters[parameter].unit);
}

static bool reserve(struct engine *engine, int64_t bytes, char **memory)
{
    *memory = host_memory(engine, bytes + 1);
    if (!*memory) return false;
    memset(*memory, 0, (size_t)bytes + 1);
    return true;
}

static int64_t largest_unit(struct engine *engine)
{
    int64_t largest = 0;
    for (int u = 0; u < engine->script->unit_count; u++) {
        if (!script_unit_is_away(engine->script, u)) continue;
        int64_t count = state_unit_part(engine, u, STATE_MOMENTS).count;
        if (count > largest) largest = count;
    }
    return largest;
}

static bool open_nvme(struct engine *engine, struct host_state *host, int64_t room_bytes)
{
    const struct script *script = engine->script;
    const char *folder = engine->request->options->nvme;
    host->order = ARENA_NEW(engine->arena, int, script->unit_count + 1);
    for (int t = 0; t < script->task_count; t++) {
        if (script->tasks[t].kind != TASK_UPDATE) continue;
        const struct script_bucket *bucket = &script->buckets[script->tasks[t].bucket];
        for (int i = 0; i < bucket->unit_count && bucket->storage.away & AWAY_STATES; i++)
            host->order[host->order_count++] = bucket->units[i];
    }
    for (int i = 0; i < TURNS; i++) {
        host->reads[i] = -1;
        if (!reserve(engine, room_bytes, &host->rooms[i])) return false;
    }
    host->nvme = nvme_open(engine->arena, folder, host->state_bytes, engine->err);
    if (!host->nvme) return false;
    engine->nvme_bytes += host->state_bytes;
    engine->drives[engine->drive_count++] = host->nvme;
    return true;
}

static bool keeps_gradients(const struct engine *engine)
{
    return offload_moves_gradients(&engine->program->parallel.offload);
}

// Returns how many reals there are.
static int64_t place_gradients(struct engine *engine, struct host_state *host)
{
    const struct script *script = engine->script;
    int64_t count = 0;
    host->gradient_at = ARENA_NEW(engine->arena, int64_t, script->unit_count + 1);
    for (int u = 0; u < script->unit_count; u++) {
        int owner = state_owner(engine, u);
        bool is_first = owner == u && script_unit_is_away(script, u);
        host->gradient_at[u] = is_first ? count : host->gradient_at[owner];
        if (!keeps_gradients(engine)) host->gradient_at[u] = engine->state.moment_at[u];
        if (is_first) count += script->units[u].elements;
    }
    host->squares = ARENA_NEW(engine->arena, double, script->parameter_count + 1);
    host->last_out = ARENA_NEW(engine->arena, int, script->bucket_count + 1);
    for (int t = 0; t < script->task_count; t++) {
        if (script->tasks[t].kind == TASK_GRADIENT_OUT) host->last_out[script->tasks[t].bucket] = t;
    }
    return keeps_gradients(engine) ? count : engine->state.away_count;
}

bool host_state_open(struct engine *engine)
{
    struct host_state *host = engine->host_state = ARENA_NEW(engine->arena, struct host_state, 1);
    int64_t bytes = engine->state.away_count * engine->real_bytes;
    int64_t largest = largest_unit(engine);
    host->array_count = 1 + optimizer_moment_count(engine->program->workload.optimizer);
    host->state_bytes = host->array_count * bytes;
    assert(host->array_count <= ARRAY_MAX);
    int64_t gradient_bytes = place_gradients(engine, host) * engine->real_bytes;
    if (!reserve(engine, gradient_bytes, &host->gradients)) return false;
    engine->host_bytes += gradient_bytes;
    if (engine->compute_bytes < engine->real_bytes &&
        !reserve(engine, largest * engine->compute_bytes, &host->rounded))
        return false;
    if (engine->program->parallel.offload.optimizer == TIER_NVME)
        return open_nvme(engine, host, host->array_count * largest * engine->real_bytes);
    engine->host_bytes += host->state_bytes;
    return reserve(engine, host->state_bytes, &host->states);
}

void host_state_close(struct engine *engine)
{
    if (engine->host_state && engine->host_state->nvme) nvme_close(engine->host_state->nvme);
}

// Where the states of a unit begin among all.
static int64_t unit_at(const struct engine *engine, int unit)
{
    return engine->state.moment_at[unit] * engine->host_state->array_count * engine->real_bytes;
}

static int64_t unit_bytes(struct engine *engine, int unit)
{
    int64_t count = state_unit_part(engine, unit, STATE_MOMENTS).count;
    return count * engine->host_state->array_count * engine->real_bytes;
}

// Where the weights of what this rank updates of a parameter begin among all states.
static int64_t weights_at(struct engine *engine, int parameter, const struct state_part *own)
{
    int unit = engine->script->parameters[parameter].unit;
    int64_t before = own->at - engine->state.moment_at[unit];
    return unit_at(engine, unit) + before * engine->real_bytes;
}

bool host_state_put(struct engine *engine, int parameter, int64_t first, int64_t count,
                    const double *values)
{
    struct host_state *host = engine->host_state;
    struct state_part own = state_part_of(engine, parameter, STATE_MOMENTS);
    enum number number = number_of(engine->backend, ELEMENT_FP32);
    int64_t at = weights_at(engine, parameter, &own);
    int64_t from = first > own.first ? first : own.first;
    int64_t end = first + count, own_end = own.first + own.count;
    if (own_end < end) end = own_end;
    if (from >= end) return true;
    at += (from - own.first) * engine->real_bytes;
    char *to = host->nvme ? host->rooms[0] : host->states + at;
    for (int64_t i = from; i < end; i++)
        number_put(number, to, i - from, values[i - first]);
    if (!host->nvme) return true;
    int64_t bytes = (end - from) * engine->real_bytes;
    int64_t written = nvme_start(host->nvme, NVME_WRITE, to, bytes, at);
    return engine_ok(engine, -1, nvme_wait(host->nvme, written));
}

bool host_state_get(struct engine *engine, int parameter, double *values)
{
    struct host_state *host = engine->host_state;
    struct state_part own = state_part_of(engine, parameter, STATE_MOMENTS);
    enum number number = number_of(engine->backend, ELEMENT_FP32);
    int64_t at = weights_at(engine, parameter, &own), bytes = own.count * engine->real_bytes;
    char *from = host->nvme ? host->rooms[0] : host->states + at;
    if (host->nvme) {
        host->reads[0] = -1;
        int64_t read = nvme_start(host->nvme, NVME_READ, from, bytes, at);
        if (!engine_ok(engine, -1, nvme_wait(host->nvme, read))) return false;
    }
    for (int64_t i = 0; i < own.count; i++)
        values[i] = number_get(number, from, i);
    return true;
}

bool host_state_copy(struct engine *engine, int parameter, int array, bool is_out, char *reals)
{
    struct host_state *host = engine->host_state;
    struct state_part own = state_part_of(engine, parameter, STATE_MOMENTS);
    int unit = engine->script->parameters[parameter].unit;
    int64_t bytes = own.count * engine->real_bytes;
    int64_t at = weights_at(engine, parameter, &own) +
                 array * (unit_bytes(engine, unit) / host->array_count);
    assert(array < host->array_count);
    if (!host->nvme) {
        memcpy(is_out ? reals : host->states + at, is_out ? host->states + at : reals,
               (size_t)bytes);
        return true;
    }
    host->reads[0] = -1;
    if (!is_out) memcpy(host->rooms[0], reals, (size_t)bytes);
    enum nvme_way way = is_out ? NVME_READ : NVME_WRITE;
    int64_t asked = nvme_start(host->nvme, way, host->rooms[0], bytes, at);
    if (!engine_ok(engine, -1, nvme_wait(host->nvme, asked))) return false;
    if (is_out) memcpy(reals, host->rooms[0], (size_t)bytes);
    return true;
}

static void start_read(struct engine *engine, int turn)
{
    struct host_state *host = engine->host_state;
    int room = turn % TURNS, unit = host->order[turn % host->order_count];
    if (host->reads[room] >= 0) return;
    host->reads[room] = nvme_start(host->nvme, NVME_READ, host->rooms[room],
                                   unit_bytes(engine, unit), unit_at(engine, unit));
}

// The states of a unit, which on NVMe have been read since the unit before was updated; those of
// the next one are on their way from now on, beside those of the unit before, which are written.
static bool fetch(struct engine *engine, int task, int unit, char **states)
{
    struct host_state *host = engine->host_state;
    int room = host->turn % TURNS;
    *states = host->states + unit_at(engine, unit);
    if (!host->nvme) return true;
    assert(host->order[host->turn % host->order_count] == unit);
    *states = host->rooms[room];
    start_read(engine, host->turn);
    if (host->order_count > 1) start_read(engine, host->turn + 1);
    return engine_ok(engine, task, nvme_wait(host->nvme, host->reads[room]));
}

static void put_back(struct engine *engine, int unit)
{
    struct host_state *host = engine->host_state;
    if (!host->nvme) return;
    int room = host->turn % TURNS;
    nvme_start(host->nvme, NVME_WRITE, host->rooms[room], unit_bytes(engine, unit),
               unit_at(engine, unit));
    host->reads[room] = -1;
    host->turn++;
    if (host->turn % host->order_count == 0) nvme_start(host->nvme, NVME_SYNC, NULL, 0, 0);
}

// Where the gradients of what this rank updates of a unit begin.
static int64_t own_gradient_at(struct engine *engine, int unit)
{
    int64_t first = state_unit_part(engine, unit, STATE_MOMENTS).first;
    return engine->host_state->gradient_at[unit] + (keeps_gradients(engine) ? first : 0);
}

// A parameter's part: arrays of the host in place of the device's.
static const char *update_parameter(struct engine *engine, int task, int parameter, char *states)
{
    const struct host_state *host = engine->host_state;
    struct update_call call = update_call_of(engine, parameter);
    int unit = engine->script->parameters[parameter].unit;
    int64_t at = state_part_of(engine, parameter, STATE_MOMENTS).at;
    int64_t within = at - engine->state.moment_at[unit];
    int64_t gradient_at = own_gradient_at(engine, unit) + within;
    int64_t array_bytes = unit_bytes(engine, unit) / host->array_count;
    call.gradients = host->gradients + gradient_at * engine->real_bytes;
    call.weights = states + within * engine->real_bytes;
    char *moments = states + array_bytes + within * engine->real_bytes;
    call.first_moments = host->array_count > 1 ? moments : NULL;
    call.second_moments = host->array_count > 2 ? moments + array_bytes : NULL;
    call.rounded = host->rounded ? host->rounded + within * engine->compute_bytes : NULL;
    update_measure(engine, task, &call);
    if (engine->backend->is_host)
        return engine->backend->update(engine->device, STREAM_COMPUTE, &call);
    return host_step(&call, number_of(engine->backend, ELEMENT_COMPUTE));
}

static const char *update_unit(struct engine *engine, int task, int unit, char *states)
{
    const struct script_unit *of = &engine->script->units[unit];
    const char *fault = NULL;
    for (int i = 0; i < of->parameter_count && !fault; i++) {
        int p = of->first_parameter + i;
        if (engine->script->parameters[p].same_as >= 0) continue;
        fault = update_parameter(engine, task, p, states);
    }
    return fault;
}

static bool bring_down(struct engine *engine, int task, int unit, int64_t gradient_at,
                       int64_t bytes)
{
    enum stream stream = engine->script->tasks[task].stream;
    char *to = engine->host_state->gradients + own_gradient_at(engine, unit) * engine->real_bytes;
    const char *from = engine->state.gradients + gradient_at * engine->real_bytes;
    const char *fault = host_copy(engine, stream, COPY_TO_HOST, to, from, bytes);
    if (!fault && engine->backend->is_asynchronous)
        fault = engine->backend->synchronize(engine->device, stream);
    return engine_ok(engine, task, fault);
}

// The rooms that weights come from are used again: on a stream they have to have passed. Where
// kernels fetch what they work on, weights stay on the host; nothing that was put before this reads
// the old ones any more, for gradients have come down behind it.
static bool bring_up(struct engine *engine, int task, const char *from, int unit, int64_t first,
                     int64_t bytes)
{
    enum stream stream = engine->script->tasks[task].stream;
    bool leaves = state_unit_leaves(engine, unit);
    int64_t at = (engine->state.weight_at[unit] + first) * engine->compute_bytes;
    if (engine->away && leaves) return away_put(engine, task, from, at, bytes);
    char *to = state_unit_weights(engine, unit) + first * engine->compute_bytes;
    if (leaves) {
        memcpy(to, from, (size_t)bytes);
        return true;
    }
    const char *fault = host_copy(engine, stream, COPY_FROM_HOST, to, from, bytes);
    if (!fault && engine->backend->is_asynchronous)
        fault = engine->backend->synchronize(engine->device, stream);
    return engine_ok(engine, task, fault);
}

// What was put on its way to the host before this has come.
static bool settle_gradients(struct engine *engine, int task)
{
    bool waits = keeps_gradients(engine) && engine->backend->is_asynchronous;
    return !waits ||
           engine_ok(engine, task, engine->backend->synchronize(engine->device, STREAM_D2H));
}

static bool update_of_unit(struct engine *engine, int task, int unit)
{
    const struct host_state *host = engine->host_state;
    int64_t gradient_at;
    char *states;
    struct part own = update_unit_part(engine, unit, &gradient_at);
    struct part kept = state_unit_part(engine, unit, STATE_WEIGHTS);
    int64_t down = own.count * engine->real_bytes, up = own.count * engine->compute_bytes;
    const struct script_bucket *bucket =
        &engine->script->buckets[engine->script->units[unit].bucket];
    bool is_here = script_bucket_is_away(bucket);
    moving_begin(engine);
    if (!is_here && !bring_down(engine, task, unit, gradient_at, down)) return false;
    if (!fetch(engine, task, unit, &states)) return false;
    moving_end(engine);
    if (!engine_ok(engine, task, update_unit(engine, task, unit, states))) return false;
    moving_begin(engine);
    const char *weights = host->rounded ? host->rounded : states;
    if (!bring_up(engine, task, weights, unit, own.first - kept.first, up)) return false;
    put_back(engine, unit);
    moving_end(engine);
    return true;
}

bool host_state_update(struct engine *engine, int task)
{
    const struct script *script = engine->script;
    const struct script_bucket *bucket = &script->buckets[script->tasks[task].bucket];
    if (!settle_gradients(engine, task)) return false;
    for (int i = 0; i < bucket->unit_count; i++) {
        if (!update_of_unit(engine, task, bucket->units[i])) return false;
    }
    return true;
}

// All of a bucket, whatever of it this rank updates: others add to the rest.
static bool move_gradients(struct engine *engine, int task, enum copy_kind kind)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct script_bucket *bucket = &engine->script->buckets[of->bucket];
    int64_t real = engine->real_bytes;
    moving_begin(engine);
    for (int i = 0; i < bucket->unit_count; i++) {
        int unit = bucket->units[i];
        char *here = engine->host_state->gradients + engine->host_state->gradient_at[unit] * real;
        char *room = engine->state.gradients + engine->state.gradient_at[unit] * real;
        int64_t bytes = engine->script->units[unit].elements * real;
        bool leaves = kind == COPY_TO_HOST;
        const char *fault =
            host_copy(engine, of->stream, kind, leaves ? here : room, leaves ? room : here, bytes);
        if (!engine_ok(engine, task, fault)) return false;
        measure_bytes(engine, task, bytes);
    }
    moving_end(engine);
    return true;
}

static bool sum_squares(struct engine *engine, int task, int unit)
{
    const struct script_unit *of = &engine->script->units[unit];
    enum stream stream = engine->script->tasks[task].stream;
    for (int p = of->first_parameter; p < of->first_parameter + of->parameter_count; p++) {
        struct state_part part = update_part_of(engine, p);
        const char *reals = engine->state.gradients + part.at * engine->real_bytes;
        double *squares = &engine->host_state->squares[p];
        *squares = 0;
        const char *fault =
            engine->backend->sum_squares(engine->device, stream, reals, part.count, squares);
        if (!engine_ok(engine, task, fault)) return false;
    }
    return true;
}

bool host_state_take(struct engine *engine, int task)
{
    int at = engine->script->tasks[task].bucket;
    const struct script_bucket *bucket = &engine->script->buckets[at];
    bool is_complete = engine->host_state->last_out[at] == task;
    bool is_asked = is_complete && step_takes_norm(&engine->program->workload);
    for (int i = 0; is_asked && i < bucket->unit_count; i++) {
        if (!sum_squares(engine, task, bucket->units[i])) return false;
    }
    return move_gradients(engine, task, COPY_TO_HOST);
}

bool host_state_give(struct engine *engine, int task)
{
    return move_gradients(engine, task, COPY_FROM_HOST);
}

bool host_state_has(const struct engine *engine, int parameter)
{
    const struct script *script = engine->script;
    int unit = state_owner(engine, script->parameters[parameter].unit);
    return engine->host_state &&
           script_bucket_is_away(&script->buckets[script->units[unit].bucket]);
}

void host_state_gradients(struct engine *engine, int parameter, double *values)
{
    const struct host_state *host = engine->host_state;
    struct state_part own = state_part_of(engine, parameter, STATE_MOMENTS);
    int unit = engine->script->parameters[parameter].unit;
    int64_t at = own_gradient_at(engine, unit) + own.at - engine->state.moment_at[unit];
    enum number number = number_of(engine->backend, ELEMENT_FP32);
    for (int64_t i = 0; i < own.count; i++)
        values[i] = number_get(number, host->gradients + at * engine->real_bytes, i);
}

double host_state_squares(const struct engine *engine, int parameter)
{
    return engine->host_state->squares[parameter];
}

bool host_state_finish(struct engine *engine)
{
    struct host_state *host = engine->host_state;
    if (!host || !host->nvme) return true;
    int64_t last = nvme_start(host->nvme, NVME_SYNC, NULL, 0, 0);
    return engine_ok(engine, -1, nvme_wait(host->nvme, last));
}
