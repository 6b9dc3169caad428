#include "plan/script/checking.h"

#include <string.h>

// What happens once a step: every gradient complete before it is reduced, reduced over all that it
// is partial over, updated once and behind whoever reads the weights.

static unsigned small_axes(const struct script *script, int parameter)
{
    const struct script_parameter *of = &script->parameters[parameter];
    return check_described(script, parameter)->gradient_partial_axes &
           ~script->units[of->unit].reduce_axes;
}

static bool is_away(const struct check_stage *stage, int bucket)
{
    const struct script_bucket *of = &stage->script->buckets[bucket];
    return of->room >= 0 && of->storage.away & AWAY_GRADIENTS;
}

// Gradients of another bucket in the same room are done with; its own are not on the host.
static bool enter_room(const struct checking *checking, struct check_stage *stage, int bucket)
{
    int room = stage->script->buckets[bucket].room;
    if (room < 0) return true;
    int before = stage->room_buckets[room] - 1;
    if (stage->is_out[bucket])
        return check_fail(checking, stage, "adds to bucket %d, which is on the host", bucket);
    stage->room_buckets[room] = 1 + bucket;
    if (before < 0 || before == bucket || stage->is_updated[before] || stage->is_out[before])
        return true;
    return check_fail(checking, stage, "adds where bucket %d is, which is not updated%s", before,
                      is_away(stage, before) ? " and not on the host" : "");
}

bool check_added(const struct checking *checking, struct check_stage *stage, int unit)
{
    int at = check_stored(stage->script, unit);
    const struct script_unit *of = &stage->script->units[at];
    bool is_begun = stage->is_reduced[of->bucket] || stage->is_tied[of->bucket] ||
                    stage->is_updated[of->bucket];
    for (int i = of->first_parameter; i < of->first_parameter + of->parameter_count; i++)
        is_begun = is_begun || stage->is_small[i];
    if (is_begun)
        return check_fail(checking, stage, "adds to unit %d, which was reduced before", at);
    if (!enter_room(checking, stage, of->bucket)) return false;
    if (--stage->adds_left[at] >= 0) return true;
    return check_fail(checking, stage, "adds to unit %d once too often", at);
}

bool check_first(const struct checking *checking, struct check_stage *stage, int parameter,
                 const struct script_operand *operand)
{
    int same_as = stage->script->parameters[parameter].same_as;
    bool *is_begun = &stage->is_begun[same_as < 0 ? parameter : same_as];
    if (operand->adds != *is_begun)
        return check_fail(checking, stage,
                          *is_begun ? "writes over the gradient of parameter %d"
                                    : "adds to the gradient of parameter %d, which nobody has "
                                      "written",
                          parameter);
    return *is_begun = true;
}

// Behind the reductions of what it is of; every parameter once.
static const char *reduce_small(struct check_stage *stage, const struct script_task *task)
{
    const struct script *script = stage->script;
    int last = task->bucket + task->bucket_count, count = 0;
    if (task->bucket_count < 1 || last > script->bucket_count || !task->axes)
        return "is of no buckets";
    for (int p = -1; (p = script_next_small(script, task, p)) >= 0; count++) {
        const struct script_unit *unit = &script->units[script->parameters[p].unit];
        if (small_axes(script, p) != task->axes) return "is over other axes than its gradients";
        if (stage->is_small[p]) return "was reduced before";
        if (stage->adds_left[script->parameters[p].unit] != 0)
            return "comes before the last gradient of its unit";
        if (unit->reduce_axes && !stage->is_reduced[unit->bucket])
            return "comes before the reduction of a bucket";
        if (stage->is_tied[unit->bucket] || stage->is_updated[unit->bucket] ||
            stage->is_out[unit->bucket])
            return "comes behind what its bucket goes on with";
        stage->is_small[p] = true;
    }
    return count > 0 ? NULL : "is of no parameter";
}

static bool is_small_done(const struct check_stage *stage, int bucket)
{
    const struct script *script = stage->script;
    const struct script_bucket *of = &script->buckets[bucket];
    for (int i = 0; i < of->unit_count; i++) {
        const struct script_unit *unit = &script->units[of->units[i]];
        for (int p = unit->first_parameter; p < unit->first_parameter + unit->parameter_count; p++)
            if (small_axes(script, p) && !stage->is_small[p]) return false;
    }
    return true;
}

static bool has_end(const struct check_stage *stage, const char *tie,
                    const struct script_unit *unit)
{
    for (int u = 0; u < stage->script->unit_count; u++) {
        const struct script_unit *its = &stage->script->units[u];
        const char *its_tie = check_described(stage->script, its->first_parameter)->tie;
        bool is_end = its_tie && strcmp(its_tie, tie) == 0 && its->same_as < 0;
        if (is_end && its->elements == unit->elements &&
            its->storage.gradient_axes == unit->storage.gradient_axes)
            return true;
    }
    return false;
}

static const char *reduce_tied(const struct checking *checking, struct check_stage *stage,
                               const struct script_task *task)
{
    const struct script_bucket *bucket = &stage->script->buckets[task->bucket];
    const struct script_unit *unit = &stage->script->units[bucket->units[0]];
    if (bucket->unit_count != 1 || bucket->tied < 0) return "is not tied to other stages";
    if (stage->is_tied[task->bucket]) return "was reduced before";
    if (bucket->reduce_axes && !stage->is_reduced[task->bucket])
        return "comes before the reduction of its bucket";
    if (!is_small_done(stage, task->bucket)) return "comes before the reduction of a part of it";
    const struct tied *tied = &checking->program->ties[bucket->tied];
    for (int s = 0; s < tied->stage_count; s++)
        if (!has_end(&checking->stages[tied->stages[s]], tied->tie, unit))
            return "has no other end like it";
    stage->is_tied[task->bucket] = true;
    return NULL;
}

static const char *reduce_bucket(struct check_stage *stage, const struct script_task *task)
{
    if (!stage->script->buckets[task->bucket].reduce_axes) return "is whole already";
    if (stage->is_reduced[task->bucket]) return "was reduced before";
    stage->is_reduced[task->bucket] = true;
    return NULL;
}

// From its room to the host; in its last micro-batch behind its reductions (see `unfinished`).
static const char *leave(struct check_stage *stage, const struct script_task *task)
{
    int room = stage->script->buckets[task->bucket].room;
    if (!is_away(stage, task->bucket)) return "moves gradients that stay on the device";
    if (stage->is_out[task->bucket]) return "moves gradients that are on the host already";
    if (stage->room_buckets[room] != 1 + task->bucket) return "moves what is not in its room";
    stage->is_out[task->bucket] = true;
    return NULL;
}

// Back, where nobody else is.
static const char *come(struct check_stage *stage, const struct script_task *task)
{
    int room = stage->script->buckets[task->bucket].room;
    if (!is_away(stage, task->bucket)) return "moves gradients that stay on the device";
    if (!stage->is_out[task->bucket]) return "moves gradients that are not on the host";
    int before = stage->room_buckets[room] - 1;
    if (before >= 0 && !stage->is_out[before]) return "comes into a room that is not empty";
    stage->room_buckets[room] = 1 + task->bucket;
    stage->is_out[task->bucket] = false;
    return NULL;
}

static bool lacks_gradients(const struct check_stage *stage, int bucket)
{
    const struct script_bucket *of = &stage->script->buckets[bucket];
    for (int i = 0; i < of->unit_count; i++) {
        const struct script_unit *unit = &stage->script->units[of->units[i]];
        if (stage->adds_left[of->units[i]] != 0) return true;
        for (int p = 0; p < unit->parameter_count; p++)
            if (!stage->is_begun[unit->first_parameter + p]) return true;
    }
    return false;
}

static const char *unfinished(const struct check_stage *stage, int bucket)
{
    const struct script_bucket *of = &stage->script->buckets[bucket];
    if (of->unit_count == 0) return NULL;
    if (lacks_gradients(stage, bucket)) return "lacks gradients of micro-batches";
    if (!is_small_done(stage, bucket) || (of->reduce_axes && !stage->is_reduced[bucket]) ||
        (of->tied >= 0 && !stage->is_tied[bucket]))
        return "is not reduced";
    if (is_away(stage, bucket) && !stage->is_out[bucket]) return "is not on the host";
    return NULL;
}

static const char *take_all(const struct checking *checking, const struct check_stage *stage)
{
    for (int b = 0; b < stage->script->bucket_count; b++) {
        const char *why = unfinished(stage, b);
        if (why) return arena_print(checking->arena, "comes where bucket %d %s", b, why);
    }
    return NULL;
}

static const char *take_norm(const struct checking *checking, struct check_stage *stage)
{
    if (stage->has_norm) return "is there twice";
    stage->has_norm = true;
    return take_all(checking, stage);
}

static const char *take_trust(const struct checking *checking, struct check_stage *stage)
{
    if (stage->has_trust) return "is there twice";
    if (!step_takes_trust(&checking->program->workload)) return "is asked for by no optimizer";
    if (step_takes_norm(&checking->program->workload) && !stage->has_norm)
        return "comes before the gradient norm";
    stage->has_trust = true;
    return take_all(checking, stage);
}

static const char *update(const struct checking *checking, struct check_stage *stage,
                          const struct script_task *task)
{
    const struct workload *workload = &checking->program->workload;
    if (step_takes_norm(workload) && !stage->has_norm) return "comes before the gradient norm";
    if (step_takes_trust(workload) && !stage->has_trust) return "comes before the trust ratios";
    if (stage->is_updated[task->bucket]) return "was updated before";
    const char *why = unfinished(stage, task->bucket);
    if (why) return arena_print(checking->arena, "comes where its bucket %s", why);
    stage->is_updated[task->bucket] = true;
    return NULL;
}

static bool has_gather(const struct script_unit *unit)
{
    return storage_gather_axes(&unit->storage) && unit->same_as < 0;
}

static const char *gather(struct check_stage *stage, const struct script_task *task)
{
    const struct script_bucket *bucket = &stage->script->buckets[task->bucket];
    bool is_flat = script_bucket_is_flat(bucket);
    if (!stage->is_updated[task->bucket]) return "comes before the update";
    if (!is_flat && stage->script->units[task->unit].bucket != task->bucket)
        return "is of a unit of another bucket";
    for (int i = 0; i < (is_flat ? bucket->unit_count : 1); i++) {
        int unit = is_flat ? bucket->units[i] : task->unit;
        if (!has_gather(&stage->script->units[unit])) return "is whole already, or never";
        if (stage->is_gathered[unit]) return "was gathered before";
        stage->is_gathered[unit] = true;
    }
    return NULL;
}

static const char *take(const struct checking *checking, struct check_stage *stage)
{
    const struct script_task *task = check_task(stage);
    if (task->kind == TASK_NORM) return take_norm(checking, stage);
    if (task->kind == TASK_TRUST) return take_trust(checking, stage);
    bool is_there = task->bucket >= 0 && task->bucket < stage->script->bucket_count &&
                    stage->script->buckets[task->bucket].unit_count > 0 && task->unit >= 0 &&
                    task->unit < stage->script->unit_count;
    if (!is_there) return "is of no bucket";
    if (task->kind == TASK_SMALL_REDUCE) return reduce_small(stage, task);
    if (task->kind == TASK_GRADIENT_OUT) return leave(stage, task);
    if (task->kind == TASK_GRADIENT_IN) return come(stage, task);
    if (stage->is_out[task->bucket] && task->kind == TASK_GRADIENT_REDUCE)
        return "reduces gradients that are on the host";
    if (lacks_gradients(stage, task->bucket)) return "comes before the last gradient of its bucket";
    switch (task->kind) {
    case TASK_TIED_REDUCE:
        return reduce_tied(checking, stage, task);
    case TASK_GRADIENT_REDUCE:
        return reduce_bucket(stage, task);
    case TASK_UPDATE:
        return update(checking, stage, task);
    case TASK_PARAMETER_GATHER:
        return gather(stage, task);
    default:
        return "is of no kind that there is";
    }
}

bool check_old_weight(const struct checking *checking, struct check_stage *stage, int parameter)
{
    const struct script *script = stage->script;
    int unit = check_stored(script, script->parameters[parameter].unit);
    if (!stage->is_updated[script->units[unit].bucket]) return true;
    return check_fail(checking, stage, "reads weights of unit %d, which is updated", unit);
}

static bool use_bucket(const struct checking *checking, struct check_stage *stage,
                       struct check_use *uses, int bucket, bool writes)
{
    const struct script_bucket *of = &stage->script->buckets[bucket];
    for (int i = 0; i < of->unit_count; i++) {
        if (!check_use_unit(checking, stage, uses, of->units[i], writes)) return false;
    }
    return true;
}

static bool use_all(const struct checking *checking, struct check_stage *stage,
                    struct check_use *uses)
{
    for (int u = 0; u < stage->script->unit_count; u++) {
        if (!check_use_unit(checking, stage, uses, u, false)) return false;
    }
    return true;
}

// What it reads and writes of the state, behind whoever did before.
static bool use_state(const struct checking *checking, struct check_stage *stage)
{
    const struct script_task *task = check_task(stage);
    struct check_use *gradients = stage->gradient_uses, *weights = stage->weight_uses;
    switch (task->kind) {
    case TASK_SMALL_REDUCE:
        for (int p = -1; (p = script_next_small(stage->script, task, p)) >= 0;) {
            if (!check_use_parameter(checking, stage, gradients, p, true)) return false;
        }
        return true;
    case TASK_UPDATE:
        return use_bucket(checking, stage, gradients, task->bucket, false) &&
               use_bucket(checking, stage, weights, task->bucket, true);
    case TASK_PARAMETER_GATHER:
        if (!script_bucket_is_flat(&stage->script->buckets[task->bucket]))
            return check_use_unit(checking, stage, weights, task->unit, true);
        return use_bucket(checking, stage, weights, task->bucket, true);
    case TASK_NORM:
        return use_all(checking, stage, gradients);
    case TASK_TRUST:
        return use_all(checking, stage, gradients) && use_all(checking, stage, weights);
    default:
        return use_bucket(checking, stage, gradients, task->bucket, true);
    }
}

bool check_step_task(const struct checking *checking, struct check_stage *stage)
{
    const char *why = take(checking, stage);
    if (why) return check_fail(checking, stage, "%s", why);
    return use_state(checking, stage);
}

static int64_t instr_count(const struct checking *checking, const struct check_stage *stage)
{
    int64_t count = 0, left = 0;
    for (int c = 0; c < checking->program->shape.chunk_count; c++) {
        for (int p = 0; p < stage->block_count[c]; p++) {
            const struct block_program *block = checking->program->blocks[stage->block_at[c][p]];
            for (int i = 0; i < block->instr_count; i++)
                count += !check_is_term_sum(block, &block->instrs[i]);
            // Of what stays between micro-batches the first fetches, and no other.
            for (int i = 0; i < block->phase_first[PHASE_BACKWARD] && block->weights_rounds; i++) {
                bool is_fetch = block->instrs[i].collective == COLLECTIVE_FETCH;
                left += is_fetch ? block->weights_rounds - 1 : 0;
            }
        }
    }
    return count * checking->program->shape.micro_batch_count - left;
}

bool check_step_end(const struct checking *checking, struct check_stage *stage)
{
    const struct script *script = stage->script;
    const struct chunk_span *spans = checking->program->spans;
    bool has_head = false;
    for (int c = 0; c < checking->program->shape.chunk_count; c++) {
        const struct chunk_span *span =
            &spans[script->stage * checking->program->shape.chunk_count + c];
        has_head =
            has_head || span->first + span->count == checking->program->graph->sequence_count;
    }
    int64_t wanted = instr_count(checking, stage);
    if (stage->done_count != wanted)
        return check_fail(checking, stage, "%lld of %lld instructions are done",
                          (long long)stage->done_count, (long long)wanted);
    if (has_head && stage->loss_count != checking->program->shape.micro_batch_count)
        return check_fail(checking, stage, "%d losses are taken, not one a micro-batch",
                          stage->loss_count);
    if (stage->has_norm != step_takes_norm(&checking->program->workload))
        return check_fail(checking, stage, "%s",
                          stage->has_norm ? "nobody asks for its gradient norm"
                                          : "there is no gradient norm");
    if (stage->has_trust != step_takes_trust(&checking->program->workload))
        return check_fail(checking, stage, "there are no trust ratios");
    for (int u = 0; u < script->unit_count; u++) {
        const struct script_unit *unit = &script->units[u];
        if (unit->same_as < 0 && !stage->is_updated[unit->bucket])
            return check_fail_unit(checking, stage, u, "is never updated");
        if (has_gather(unit) && !stage->is_gathered[u])
            return check_fail_unit(checking, stage, u, "is not gathered after its update");
    }
    return true;
}
