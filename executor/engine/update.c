#include "executor/engine/host_state.h"
#include "plan/ties.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// What happens once a step: gradients are reduced, the norm is taken, weights are updated and made
// whole again.

static char *gradient_at(const struct engine *engine, int64_t reals)
{
    return engine->state.gradients + reals * engine->real_bytes;
}

// The part of a unit's gradient that this rank finishes, which is what it updates, and where it is.
struct part update_unit_part(struct engine *engine, int unit, int64_t *at)
{
    struct part kept = state_unit_part(engine, unit, STATE_GRADIENTS);
    struct part own = state_unit_part(engine, unit, STATE_MOMENTS);
    assert((own.count == 0 ||
            (own.first >= kept.first && own.first + own.count <= kept.first + kept.count)) &&
           "gradients that are updated by are kept");
    *at = engine->state.gradient_at[unit] + own.first - kept.first;
    return own;
}

// Where the gradients of a bucket are, and how many of them are here: one behind another.
static struct part bucket_gradients(struct engine *engine, int bucket)
{
    assert(engine->script->buckets[bucket].unit_count > 0);
    const struct script_bucket *of = &engine->script->buckets[bucket];
    struct part part = {engine->state.gradient_at[of->units[0]], 0};
    for (int i = 0; i < of->unit_count; i++)
        part.count += state_unit_part(engine, of->units[i], STATE_GRADIENTS).count;
    return part;
}

static bool all_reduce(struct engine *engine, int task, unsigned axes, const char *purpose,
                       struct part part)
{
    struct member_group *group = engine_group(engine, axes, purpose);
    if (!group) return false;
    measure_bytes(engine, task, part.count * engine->real_bytes);
    traffic_ring(engine, group, COLLECTIVE_ALL_REDUCE, part.count * engine->real_bytes);
    return engine_ok(engine, task,
                     engine->transport->all_reduce(group->group, engine->script->tasks[task].stream,
                                                   ELEMENT_FP32, gradient_at(engine, part.first),
                                                   part.count, COMBINE_SUM));
}

// To the shard of this rank, which comes to lie where it does among the whole.
static bool scatter(struct engine *engine, int task, unsigned axes, struct part *all)
{
    const struct script_task *of = &engine->script->tasks[task];
    struct member_group *group = engine_shard_group(engine, axes, "shard");
    if (!group) return false;
    struct part own = state_shard(engine, axes, all->count);
    char *sum = engine_staging(engine, of->stream, 0);
    const char *fault = engine->transport->reduce_scatter(group->group, of->stream, ELEMENT_FP32,
                                                          gradient_at(engine, all->first), sum,
                                                          state_counts(engine, all->count, group));
    if (!engine_ok(engine, task, fault)) return false;
    measure_bytes(engine, task, all->count * engine->real_bytes);
    traffic_ring(engine, group, COLLECTIVE_REDUCE_SCATTER, all->count * engine->real_bytes);
    *all = (struct part){all->first + own.first, own.count};
    fault =
        engine->backend->copy(engine->device, of->stream, COPY_DEVICE,
                              gradient_at(engine, all->first), sum, own.count * engine->real_bytes);
    return engine_ok(engine, task, fault);
}

// A bucket over the axes of data parallelism: to the sum, or first to the shard.
static bool reduce(struct engine *engine, int task)
{
    const struct script_bucket *bucket =
        &engine->script->buckets[engine->script->tasks[task].bucket];
    unsigned kept = bucket->storage.gradient_axes;
    unsigned shards = storage_scatter_axes(&bucket->storage, bucket->reduce_axes);
    unsigned rest = bucket->reduce_axes & ~kept & ~shards;
    struct part part = bucket_gradients(engine, engine->script->tasks[task].bucket);
    if (engine->err->kind || (shards && !scatter(engine, task, shards, &part))) return false;
    return !rest || all_reduce(engine, task, rest, "reduce", part);
}

static bool is_shared(const struct engine *engine, int parameter)
{
    return engine->script->parameters[parameter].same_as >= 0;
}

// What of a parameter's gradient this rank finishes: reals into the gradients.
struct state_part update_part_of(struct engine *engine, int parameter)
{
    const struct script_parameter *of = &engine->script->parameters[parameter];
    int64_t at;
    struct part own = update_unit_part(engine, of->unit, &at);
    int64_t end = of->first + of->elements, own_end = own.first + own.count;
    int64_t first = of->first > own.first ? of->first : own.first;
    int64_t last = end < own_end ? end : own_end;
    if (last <= first) return (struct state_part){at, 0, 0};
    return (struct state_part){at + first - own.first, first - of->first, last - first};
}

// As the gradients are kept, beside each other in the staging where there are several.
static bool small_reduce(struct engine *engine, int task)
{
    const struct script *script = engine->script;
    const struct script_task *of = &script->tasks[task];
    struct member_group *group = engine_group(engine, of->axes, "small");
    char *packed = engine_staging(engine, of->stream, 0);
    if (!group) return false;
    for (int back = 0; back < 2; back++) {
        char *at = packed;
        for (int p = -1; (p = script_next_small(script, of, p)) >= 0;) {
            struct state_part part = state_part_of(engine, p, STATE_GRADIENTS);
            char *kept = gradient_at(engine, part.at);
            int64_t bytes = part.count * engine->real_bytes;
            const char *fault = engine->backend->copy(engine->device, of->stream, COPY_DEVICE,
                                                      back ? kept : at, back ? at : kept, bytes);
            if (!engine_ok(engine, task, fault)) return false;
            at += bytes;
        }
        assert(at - packed <= update_staging(engine, task) && "small gradients fit the staging");
        if (back) return true;
        measure_bytes(engine, task, at - packed);
        traffic_ring(engine, group, COLLECTIVE_ALL_REDUCE, at - packed);
        const char *fault =
            engine->transport->all_reduce(group->group, of->stream, ELEMENT_FP32, packed,
                                          (at - packed) / engine->real_bytes, COMBINE_SUM);
        if (!engine_ok(engine, task, fault)) return false;
    }
    return true;
}

// This rank and those in its place on the other stages of a tie. Made once, also for other ties of
// these stages: a transport has room for so many groups, whatever the steps.
static const struct member_group *open_tied(struct engine *engine, int task, int tie)
{
    const struct tied *tied = &engine->program->ties[tie];
    if (!engine->tied)
        engine->tied = ARENA_NEW(engine->arena, struct member_group, engine->program->tie_count);
    struct member_group *group = &engine->tied[tie];
    for (int i = 0; i < engine->program->tie_count && !group->group; i++) {
        const struct member_group *other = &engine->tied[i];
        const struct tied *its = &engine->program->ties[i];
        bool is_same = other->group && its->stage_count == tied->stage_count &&
                       memcmp(its->stages, tied->stages,
                              (size_t)tied->stage_count * sizeof *tied->stages) == 0;
        if (is_same) *group = *other;
    }
    if (group->group) return group;
    group->ranks = ARENA_NEW(engine->arena, int, tied->stage_count);
    group->count = tied->stage_count;
    for (int i = 0; i < tied->stage_count; i++) {
        int rank = engine_rank_at_stage(engine, tied->stages[i]);
        if (rank == engine->rank) group->index = i;
        assert((i == 0 || rank > group->ranks[i - 1]) && "stages are laid out in their order");
        group->ranks[i] = rank;
    }
    const char *fault =
        engine_rank_group(engine, group->ranks, group->count, "tied", &group->group);
    return engine_ok(engine, task, fault) ? group : NULL;
}

static bool tied_reduce(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct member_group *group =
        open_tied(engine, task, engine->script->buckets[of->bucket].tied);
    if (!group) return false;
    struct part part = bucket_gradients(engine, of->bucket);
    measure_bytes(engine, task, part.count * engine->real_bytes);
    traffic_ring(engine, group, COLLECTIVE_ALL_REDUCE, part.count * engine->real_bytes);
    return engine_ok(engine, task,
                     engine->transport->all_reduce(group->group, of->stream, ELEMENT_FP32,
                                                   gradient_at(engine, part.first), part.count,
                                                   COMBINE_SUM));
}

// Whether of all ranks of the stage with this part of the parameter this one counts: the first
// along every axis that neither splits nor shards it.
static bool counts_in_stage(const struct engine *engine, int parameter)
{
    const struct parameter *known = state_parameter(engine, parameter);
    const struct script_unit *unit =
        &engine->script->units[engine->script->parameters[parameter].unit];
    const struct mesh *mesh = &engine->program->mesh;
    unsigned sharded = unit->storage.optimizer_axes | unit->storage.gradient_axes;
    for (int a = 0; a < mesh->axis_count; a++) {
        bool is_stage = mesh->axes[a].parent == AXIS_PP;
        bool differs = known->layout.of[a] > 0 || (sharded >> a & 1) || is_stage;
        if (!differs && mesh_coordinate(mesh, a, engine->rank) != 0) return false;
    }
    return true;
}

// The same of all ranks: the first stage of those that are tied.
static bool counts(const struct engine *engine, int parameter)
{
    const struct parameter *known = state_parameter(engine, parameter);
    int tie = ties_at(engine->program, engine->stage, known->tie);
    if (tie >= 0 && engine->program->ties[tie].stages[0] != engine->stage) return false;
    return counts_in_stage(engine, parameter);
}

static const char *sum_squares(struct engine *engine, enum stream stream,
                               const struct real_array *arrays, int count, double *sum)
{
    const struct backend *backend = engine->backend;
    if (backend->sum_squares_of)
        return backend->sum_squares_of(engine->device, stream, arrays, count, sum);
    const char *fault = NULL;
    for (int i = 0; i < count && !fault; i++)
        fault = backend->sum_squares(engine->device, stream, arrays[i].reals, arrays[i].count, sum);
    return fault;
}

static bool take_norm(struct engine *engine, int task)
{
    double sum = 0;
    int count = 0, parameters = engine->script->parameter_count;
    enum stream stream = engine->script->tasks[task].stream;
    struct real_array *arrays = ARENA_NEW(engine->scratch, struct real_array, parameters + 1);
    for (int p = 0; p < parameters; p++) {
        if (is_shared(engine, p) || !counts(engine, p)) continue;
        if (host_state_has(engine, p)) {
            // One by one in the order of the parameters, wherever they are: equal bits.
            if (!engine_ok(engine, task, sum_squares(engine, stream, arrays, count, &sum)))
                return false;
            count = 0;
            sum += host_state_squares(engine, p);
            continue;
        }
        struct state_part part = update_part_of(engine, p);
        arrays[count++] = (struct real_array){gradient_at(engine, part.at), part.count};
    }
    if (!engine_ok(engine, task, sum_squares(engine, stream, arrays, count, &sum))) return false;
    int ranks = engine->program->mesh.rank_count;
    if (ranks > 1) measure_bytes(engine, task, engine->real_bytes);
    traffic_to(engine, (engine->rank + 1) % ranks, 2 * engine->real_bytes * (ranks - 1) / ranks);
    if (!engine_ok(engine, task, engine->transport->host_sum(engine->world, &sum, 1))) return false;
    assert(!(sum < 0) && "a sum of squares; of what has diverged no number");
    scale_settle(engine, sqrt(sum));
    return true;
}

struct update_call update_call_of(struct engine *engine, int parameter)
{
    const struct run_options *options = engine->request->options;
    const struct state *state = &engine->state;
    struct state_part gradient = update_part_of(engine, parameter);
    struct state_part moment = state_part_of(engine, parameter, STATE_MOMENTS);
    assert(gradient.first == moment.first && gradient.count == moment.count);
    const struct script_parameter *of = &engine->script->parameters[parameter];
    struct part kept = state_unit_part(engine, of->unit, STATE_WEIGHTS);
    int64_t real = engine->real_bytes;
    int64_t weight_at = (of->first + gradient.first - kept.first) * engine->compute_bytes;
    // On NVMe there is no memory of theirs.
    bool is_below = engine->away && state_unit_leaves(engine, of->unit);
    char *weights = is_below ? NULL : state_unit_weights(engine, of->unit) + weight_at;
    char *masters = state->masters;
    bool decays = state_parameter(engine, parameter)->decayed;
    return (struct update_call){
        .optimizer = engine->program->workload.optimizer,
        .count = gradient.count,
        .weights = masters ? masters + moment.at * real : weights,
        .rounded = masters ? weights : NULL,
        .gradients = gradient_at(engine, gradient.at),
        .first_moments = state->first_moments ? state->first_moments + moment.at * real : NULL,
        .second_moments = state->second_moments ? state->second_moments + moment.at * real : NULL,
        // The gradient is not read again.
        .direction =
            step_takes_trust(&engine->program->workload) ? gradient_at(engine, gradient.at) : NULL,
        .gradient_scale = engine->gradient_scale,
        .learning_rate = engine->learning_rate,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .epsilon = options->epsilon,
        .weight_decay = decays ? options->weight_decay : 0,
        .momentum = options->momentum,
        .trust_ratio = 1,
        .step = engine->update_count,
    };
}

// Of LARS (You et al. 2017, section 4): how far a layer is trusted.
static const double LARS_TRUST = 0.001;

// Over whole parameters: LAMB divides by the norm of its step, LARS by those of its terms. What is
// zero takes plain steps.
static double trust_ratio(const struct update_call *call, double weight_squares,
                          double other_squares)
{
    double weights = sqrt(weight_squares), others = sqrt(other_squares);
    bool is_lars = call->optimizer == OPTIMIZER_LARS;
    if (is_lars) others = others * call->gradient_scale + call->weight_decay * weights;
    if (weights <= 0 || others <= 0) return 1;
    return (is_lars ? LARS_TRUST : 1) * weights / others;
}

// Of a parameter's norms: of what this rank updates the squares of the weights, and of what is
// taken from them.
static bool sum_parts(struct engine *engine, int task, int parameter, double squares[2])
{
    const struct backend *backend = engine->backend;
    struct update_call call = update_call_of(engine, parameter);
    if (engine->err->kind) return false;
    call.part = UPDATE_DIRECTION;
    bool counts = counts_in_stage(engine, parameter);
    // LARS asks for the norm of the gradient, LAMB for that of the direction, which takes its
    // place.
    bool is_lars = call.optimizer == OPTIMIZER_LARS;
    for (int turn = 0; turn < 2; turn++) {
        const char *fault = NULL;
        if (turn == is_lars) {
            fault = backend->update(engine->device, STREAM_COMPUTE, &call);
        } else if (counts) {
            fault = backend->sum_squares(engine->device, STREAM_COMPUTE, call.gradients, call.count,
                                         &squares[1]);
        }
        if (!engine_ok(engine, task, fault)) return false;
    }
    if (!counts) return true;
    return engine_ok(engine, task,
                     backend->sum_squares(engine->device, STREAM_COMPUTE, call.weights, call.count,
                                          &squares[0]));
}

// LAMB and LARS: norms of whole parameters, whoever holds their parts, all in one exchange.
static bool find_trust(struct engine *engine, int task)
{
    const struct mesh *mesh = &engine->program->mesh;
    int parameters = engine->script->parameter_count;
    double *squares = ARENA_NEW(engine->scratch, double, 2 * parameters);
    if (engine->scale.skips) return true;
    for (int p = 0; p < parameters; p++) {
        if (!is_shared(engine, p) && !sum_parts(engine, task, p, &squares[2 * p])) return false;
    }
    unsigned axes = ((1u << mesh->axis_count) - 1) & ~mesh_axes_of(mesh, AXIS_PP);
    struct member_group *group = engine_group(engine, axes, "trust");
    if (!group) return false;
    if (group->count > 1) {
        measure_bytes(engine, task, 2 * parameters * engine->real_bytes);
        const char *fault = engine->transport->host_sum(group->group, squares, 2 * parameters);
        if (!engine_ok(engine, task, fault)) return false;
    }
    for (int p = 0; p < parameters; p++) {
        if (is_shared(engine, p)) continue;
        struct update_call call = update_call_of(engine, p);
        engine->state.trust[p] = trust_ratio(&call, squares[2 * p], squares[2 * p + 1]);
    }
    return !engine->err->kind;
}

// Where nothing has to be known of a parameter before its weights move, all move in one go.
static const char *update_all(struct engine *engine, const struct update_call *calls, int count)
{
    const struct backend *backend = engine->backend;
    if (backend->update_all)
        return backend->update_all(engine->device, STREAM_COMPUTE, calls, count);
    const char *fault = NULL;
    for (int i = 0; i < count && !fault; i++)
        fault = backend->update(engine->device, STREAM_COMPUTE, &calls[i]);
    return fault;
}

// Weights and moments are read and written, gradients read.
void update_measure(struct engine *engine, int task, const struct update_call *call)
{
    enum { GRADIENT = 1, WEIGHT = 2, MOMENT = 2 };
    int moments = (call->first_moments != NULL) + (call->second_moments != NULL);
    measure_bytes(engine, task,
                  (GRADIENT + WEIGHT + MOMENT * moments) * call->count * engine->real_bytes);
}

static bool update(struct engine *engine, int task)
{
    const struct script *script = engine->script;
    const struct script_bucket *bucket = &script->buckets[script->tasks[task].bucket];
    int count = 0;
    struct update_call *calls =
        ARENA_NEW(engine->scratch, struct update_call, script->parameter_count);
    if (engine->scale.skips) return true;
    if (bucket->storage.away & AWAY_STATES) return host_state_update(engine, task);
    for (int i = 0; i < bucket->unit_count; i++) {
        const struct script_unit *unit = &script->units[bucket->units[i]];
        for (int p = unit->first_parameter; p < unit->first_parameter + unit->parameter_count;
             p++) {
            struct update_call call = update_call_of(engine, p);
            if (engine->err->kind) return false;
            update_measure(engine, task, &call);
            calls[count++] = call;
            if (!call.direction) continue;
            calls[0].part = UPDATE_APPLY;
            calls[0].trust_ratio = engine->state.trust[p];
            if (!engine_ok(engine, task, update_all(engine, calls, 1))) return false;
            count = 0;
        }
    }
    return engine_ok(engine, task, update_all(engine, calls, count));
}

// Every rank has updated its part of the weights that it stores, whole or in shards.
static bool gather(struct engine *engine, int task)
{
    const struct script_task *of = &engine->script->tasks[task];
    const struct script_bucket *bucket = &engine->script->buckets[of->bucket];
    bool is_flat = script_bucket_is_flat(bucket);
    unsigned axes = storage_gather_axes(&bucket->storage);
    struct member_group *group = engine_shard_group(engine, axes, "gather");
    if (!group) return false;
    char *all = engine->state.weights + engine->state.weight_at[of->unit] * engine->compute_bytes;
    int64_t elements =
        is_flat ? bucket->elements : state_unit_part(engine, of->unit, STATE_WEIGHTS).count;
    struct part own = state_shard(engine, axes, elements);
    assert(own.first + own.count <= elements);
    measure_bytes(engine, task, elements * engine->compute_bytes);
    traffic_ring(engine, group, COLLECTIVE_ALL_GATHER, elements * engine->compute_bytes);
    return engine_ok(engine, task,
                     engine->transport->all_gather(group->group, of->stream, ELEMENT_COMPUTE,
                                                   all + own.first * engine->compute_bytes, all,
                                                   state_counts(engine, elements, group)));
}

bool update_run(struct engine *engine, int task)
{
    switch (engine->script->tasks[task].kind) {
    case TASK_GRADIENT_REDUCE:
        return reduce(engine, task);
    case TASK_SMALL_REDUCE:
        return small_reduce(engine, task);
    case TASK_TIED_REDUCE:
        return tied_reduce(engine, task);
    case TASK_NORM:
        return take_norm(engine, task);
    case TASK_TRUST:
        return find_trust(engine, task);
    case TASK_GRADIENT_OUT:
        return host_state_take(engine, task);
    case TASK_GRADIENT_IN:
        return host_state_give(engine, task);
    case TASK_UPDATE:
        return update(engine, task);
    case TASK_PARAMETER_GATHER:
        return gather(engine, task);
    default:
        assert(false && "no step-level task");
        return false;
    }
}

int64_t update_staging(const struct engine *engine, int task)
{
    const struct script *script = engine->script;
    const struct script_task *of = &script->tasks[task];
    int64_t elements = 0;
    if (of->kind == TASK_SMALL_REDUCE) {
        for (int p = -1; (p = script_next_small(script, of, p)) >= 0;)
            elements += script->parameters[p].elements;
    }
    if (of->kind == TASK_GRADIENT_REDUCE) {
        const struct script_bucket *bucket = &script->buckets[of->bucket];
        if (storage_scatter_axes(&bucket->storage, bucket->reduce_axes))
            elements = bucket->elements;
    }
    return elements * engine->real_bytes;
}
