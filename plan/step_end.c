#include "plan/step_end.h"

#include "plan/passes.h"
#include "plan/ties.h"

#include <assert.h>
#include <math.h>
#include <string.h>

bool step_takes_norm(const struct workload *workload)
{
    return !workload->unclipped || workload->precision == PRECISION_FP16;
}

bool step_takes_trust(const struct workload *workload)
{
    return workload->optimizer == OPTIMIZER_LAMB || workload->optimizer == OPTIMIZER_LARS;
}

bool step_streams(const struct workload *workload)
{
    return !step_takes_norm(workload) && !step_takes_trust(workload);
}

// Of any replica: what ranks do once a step they do alike.
static int64_t most_rounds(const struct program *program)
{
    return parallel_micro_batch_count(&program->parallel, program->workload.global_batch);
}

static bool keeps_away(const struct program *program)
{
    return offload_moves_gradients(&program->parallel.offload);
}

bool step_goes_by_bucket(const struct program *program)
{
    return step_streams(&program->workload) || keeps_away(program);
}

static bool chooses(const struct block *block)
{
    for (int o = 0; o < block->op_count; o++) {
        if (block->ops[o].kind == OP_CHOOSE) return true;
    }
    return false;
}

// What an encoder or a tower says is handed on by the blocks of others, and so is its gradient,
// which may be ready before those of the blocks between. The zeros of what chooses keys hang on
// nothing that comes back, and are ready when forward is.
static bool has_gradients_in_turn(const struct program *program)
{
    for (int b = 0; b < program->graph->block_count; b++) {
        const struct block *block = &program->graph->blocks[b];
        if (chooses(block)) return false;
        for (int i = 0; i < block->input_count * block->output_count; i++)
            if (block->inputs[i % block->input_count] == block->outputs[i / block->input_count])
                return false;
    }
    return true;
}

// Where buckets are updated as they come.
static bool streams_through_rooms(const struct program *program)
{
    const struct parallel *parallel = &program->parallel;
    // Where W is apart, norms have gradients of all blocks before any other has the rest of its.
    bool is_fused =
        parallel->degree[AXIS_PP] == 1 || schedule_row(parallel->schedule)->backward_fused;
    return step_streams(&program->workload) && most_rounds(program) == 1 &&
           pass_is_on(parallel, PASS_COMBINE) && is_fused && has_gradients_in_turn(program);
}

bool step_has_rooms(const struct program *program)
{
    if (keeps_away(program))
        return pass_is_on(&program->parallel, PASS_COMBINE) && has_gradients_in_turn(program);
    return streams_through_rooms(program);
}

static bool group_has_rooms(const struct program *program, const struct step_group *group)
{
    return group->storage.away & AWAY_GRADIENTS ? step_has_rooms(program)
                                                : streams_through_rooms(program);
}

bool step_cuts_blocks(const struct program *program, const struct storage *storage)
{
    bool is_combined = pass_is_on(&program->parallel, PASS_COMBINE);
    bool is_sharded = storage->gradient_axes || storage->weight_axes;
    return is_combined && (is_sharded || step_goes_by_bucket(program));
}

unsigned step_data_axes(const struct program *program, enum parameter_kind kind)
{
    const struct mesh *mesh = &program->mesh;
    return mesh_axes_of(mesh, AXIS_DP) | mesh_axes_of(mesh, AXIS_CP) |
           mesh_shard_axes(mesh, &program->parallel, kind, STORED_STATES);
}

static unsigned step_own_axes(const struct program *program, const struct parameter *parameter)
{
    unsigned own = 0;
    unsigned axes =
        mesh_shard_axes(&program->mesh, &program->parallel, parameter->kind, STORED_STATES);
    for (int i = 0; i < program->mesh.axis_count; i++) {
        if (axes >> i & 1 && parameter->layout.of[i] > 0) own |= 1u << i;
    }
    return own;
}

struct storage step_storage(const struct program *program, const struct parameter *parameter)
{
    struct storage storage = program->storage[parameter->kind];
    unsigned kept = ~step_own_axes(program, parameter);
    storage.weight_axes &= kept;
    storage.gradient_axes &= kept;
    storage.optimizer_axes &= kept;
    return storage;
}

unsigned step_away(const struct program *program, const struct block_use *use,
                   const struct parameter *parameter)
{
    const struct offload *offload = &program->parallel.offload;
    unsigned of_layers = parameter->tie ? 0 : use->away;
    bool states_leave = offload->optimizer_layers == 0 || of_layers & AWAY_STATES;
    if (offload->optimizer == TIER_DEVICE || !states_leave) return 0;
    bool gradients_leave = offload->gradient_layers == 0 || of_layers & AWAY_GRADIENTS;
    return AWAY_STATES | (offload->gradients && gradients_leave ? AWAY_GRADIENTS : 0);
}

bool step_is_elsewhere(const struct program *program, const struct program_chunk *chunk,
                       const struct parameter *parameter)
{
    if (!parameter->tie || chunk->first || !chunk->last) return false;
    const struct schedule_row *row = schedule_row(program->parallel.schedule);
    const struct schedule_shape *shape = &program->shape;
    int last = shape->stage_count * shape->chunk_count - 1;
    const struct graph *graph = program->graph;
    return row->stage_of(shape, 0) == row->stage_of(shape, last) &&
           ties_has(&graph->blocks[graph->sequence[0]], parameter->tie);
}

static bool is_tie(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static int find_group(const struct step_end *end, const struct parameter *parameter,
                      unsigned reduce_axes, unsigned own_axes, unsigned away)
{
    int i = 0;
    for (; i < end->group_count; i++) {
        const struct step_group *group = &end->groups[i];
        if (group->kind == parameter->kind && group->reduce_axes == reduce_axes &&
            group->own_axes == own_axes && group->storage.away == away &&
            is_tie(group->tie, parameter->tie))
            break;
    }
    return i;
}

int step_group_of(const struct program *program, const struct step_end *end,
                  const struct parameter *parameter, unsigned away)
{
    unsigned data = step_data_axes(program, parameter->kind);
    int found = find_group(end, parameter, parameter->gradient_partial_axes & data,
                           step_own_axes(program, parameter), away);
    assert(found < end->group_count);
    return found;
}

int step_cut_next(struct step_cut *cut, double elements)
{
    assert(cut->seen < cut->count && cut->bucket < cut->bucket_count && elements >= 0);
    int bucket = cut->bucket, left = cut->count - ++cut->seen;
    int behind = cut->bucket_count - bucket - 1;  // buckets that have nothing yet
    cut->done += elements;
    bool is_full = cut->done * cut->bucket_count >= cut->total * (bucket + 1);
    if (behind > 0 && (is_full || left == behind)) cut->bucket++;
    return bucket;
}

struct summing {
    const struct program *program;
    struct step_end *end;
    unsigned data[PARAMETER_KIND_COUNT];
    int block_seen[STEP_GROUP_MAX];  // 1 + the use of a block that the group was last met in
};

static int find_small(const struct step_end *end, const struct step_group *group, unsigned axes)
{
    int i = 0;
    for (; i < end->small_kind_count; i++) {
        const struct step_small *small = &end->smalls[i];
        if (small->axes == axes && small->kind == group->kind &&
            small->gradient_axes == group->storage.gradient_axes)
            break;
    }
    return i;
}

static void add_small(struct step_end *end, const struct step_group *group, unsigned axes,
                      double elements, int tensor_count)
{
    int i = find_small(end, group, axes);
    struct step_small *small = &end->smalls[i];
    if (i == end->small_kind_count) {
        assert(i < STEP_GROUP_MAX);
        end->small_kind_count++;
        *small = (struct step_small){
            .kind = group->kind, .axes = axes, .gradient_axes = group->storage.gradient_axes};
    }
    small->elements += elements;
    small->tensor_count += tensor_count;
}

static void add_parameter(struct summing *summing, const struct parameter *parameter,
                          const struct block_use *of, int use)
{
    int count = of->count;
    struct step_end *end = summing->end;
    unsigned axes = parameter->gradient_partial_axes, data = summing->data[parameter->kind];
    unsigned own = step_own_axes(summing->program, parameter);
    unsigned away = step_away(summing->program, of, parameter);
    int i = find_group(end, parameter, axes & data, own, away);
    struct step_group *group = &end->groups[i];
    bool is_known = i < end->group_count;
    // What repeats is tied to itself.
    if (is_known && parameter->tie) return;
    if (parameter->tie) count = 1;
    if (!is_known) {
        assert(i < STEP_GROUP_MAX);
        end->group_count++;
        *group = (struct step_group){.kind = parameter->kind,
                                     .reduce_axes = axes & data,
                                     .own_axes = own,
                                     .storage = step_storage(summing->program, parameter),
                                     .tie = parameter->tie};
        group->storage.away = away;
    }
    group->elements += (double)parameter->elements * count;
    group->tensor_count += parameter->tensor_count * count;
    if (summing->block_seen[i] != 1 + use) group->unit_count += count;
    summing->block_seen[i] = 1 + use;
    group->small_axes |= axes & ~data;
    if (axes & ~data)
        add_small(end, group, axes & ~data, (double)parameter->elements * count,
                  parameter->tensor_count * count);
}

// As many as the bytes fill, but no more than there are pieces to go into them.
static int bucket_count_of(const struct program *program, const struct step_group *group,
                           const struct step_rules *rules)
{
    if (!pass_is_on(&program->parallel, PASS_COMBINE)) return group->tensor_count;
    const struct storage *storage = &group->storage;
    bool is_late = storage->weight_axes && !storage->gradient_axes;
    bool is_twice = storage->gradient_axes && storage_scatter_axes(storage, group->reduce_axes);
    if (is_late || is_twice) return group->unit_count;
    if (!pass_is_on(&program->parallel, PASS_BUCKETS)) return 1;
    int pieces =
        step_cuts_blocks(program, &group->storage) ? group->unit_count : group->tensor_count;
    double each = rules->bucket_elements_per_rank * mesh_size(&program->mesh, group->reduce_axes);
    if (each < rules->bucket_elements) each = rules->bucket_elements;
    double kept = group->elements / mesh_size(&program->mesh, group->storage.gradient_axes);
    double count = ceil(kept / each);
    return count < 1 ? 1 : count < pieces ? (int)count : pieces;
}

// What a block has of a group; `smalls` has a bit for each kind of small gradients among it.
static double group_elements(const struct summing *summing, const struct block_use *use, int group,
                             unsigned *smalls)
{
    const struct step_end *end = summing->end;
    const struct block_program *block = summing->program->blocks[use->block_program];
    double elements = 0;
    *smalls = 0;
    for (int p = 0; p < block->parameter_count; p++) {
        const struct parameter *parameter = &block->parameters[p];
        if (!parameter_kind_is_trained(parameter->kind)) continue;
        unsigned data = summing->data[parameter->kind], axes = parameter->gradient_partial_axes;
        unsigned own = step_own_axes(summing->program, parameter);
        unsigned away = step_away(summing->program, use, parameter);
        if (find_group(end, parameter, axes & data, own, away) != group) continue;
        elements += (double)parameter->elements;
        if (axes & ~data) *smalls |= 1u << find_small(end, &end->groups[group], axes & ~data);
    }
    return elements;
}

static void count_smalls(struct step_end *end, unsigned smalls)
{
    for (int s = 0; s < end->small_kind_count; s++)
        end->smalls[s].count += (int)(smalls >> s & 1);
}

// Of buckets of whole blocks: the largest, and how many have small gradients of each kind.
static double walk_buckets(const struct summing *summing, const struct program_chunk *chunk, int at)
{
    const struct step_group *group = &summing->end->groups[at];
    struct step_cut cut = {
        .total = group->elements, .count = group->unit_count, .bucket_count = group->bucket_count};
    double largest = 0, bucket_elements = 0;
    unsigned bucket_smalls = 0;
    for (int u = chunk->use_count - 1, bucket = 0; u >= 0; u--) {
        unsigned smalls;
        const struct block_use *use = &chunk->uses[u];
        double elements = group_elements(summing, use, at, &smalls);
        for (int i = 0; i < use->count && elements > 0; i++) {
            int next = step_cut_next(&cut, elements);
            if (next != bucket) {
                count_smalls(summing->end, bucket_smalls);
                bucket_elements = bucket_smalls = 0;
            }
            bucket = next;
            bucket_elements += elements;
            bucket_smalls |= smalls;
            largest = fmax(largest, bucket_elements);
        }
    }
    count_smalls(summing->end, bucket_smalls);
    return largest;
}

static void count_tasks(const struct summing *summing, const struct program_chunk *chunk)
{
    struct step_end *end = summing->end;
    const struct program *program = summing->program;
    bool is_combined = pass_is_on(&program->parallel, PASS_COMBINE);
    bool streams = step_goes_by_bucket(program) && is_combined;
    for (int i = 0; i < end->group_count; i++) {
        struct step_group *group = &end->groups[i];
        const struct storage *storage = &group->storage;
        double parts = mesh_size(&program->mesh, storage->gradient_axes);
        bool leaves = storage->away & AWAY_GRADIENTS;
        double largest = streams && !group->tie ? walk_buckets(summing, chunk, i) : 0;
        if (streams && group->tie && group->small_axes)
            end->smalls[find_small(end, group, group->small_axes)].count++;
        group->has_rooms = largest > 0 && group_has_rooms(program, group) &&
                           (leaves || !storage->gradient_axes) && 2 * largest < group->elements;
        group->is_away = group->has_rooms && leaves;
        group->room_elements = (group->has_rooms ? 2 * largest : group->elements) / parts;
        if (group->reduce_axes) end->reduce_count += group->bucket_count;
        end->update_count += group->bucket_count;
        if (storage_gather_axes(storage))
            group->gather_count =
                storage->gradient_axes && is_combined ? group->unit_count : group->bucket_count;
        end->gather_count += group->gather_count;
    }
    for (int i = 0; i < end->small_kind_count; i++) {
        struct step_small *small = &end->smalls[i];
        if (small->count == 0) small->count = is_combined ? 1 : small->tensor_count;
        end->small_count += small->count;
    }
}

struct step_end step_end_of(const struct program *whole, const struct program_chunk *chunk,
                            const struct step_rules *rules)
{
    struct program room;
    const struct program *program = program_of_chunk(whole, chunk, &room);
    struct step_end end = {.group_count = 0};
    struct summing summing = {.program = program, .end = &end};
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        summing.data[kind] = step_data_axes(program, (enum parameter_kind)kind);
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_use *use = &chunk->uses[u];
        const struct block_program *block = program->blocks[use->block_program];
        for (int p = 0; p < block->parameter_count; p++) {
            if (!parameter_kind_is_trained(block->parameters[p].kind)) continue;
            if (!step_is_elsewhere(program, chunk, &block->parameters[p]))
                add_parameter(&summing, &block->parameters[p], use, u);
        }
    }
    for (int i = 0; i < end.group_count; i++)
        end.groups[i].bucket_count = bucket_count_of(program, &end.groups[i], rules);
    count_tasks(&summing, chunk);
    return end;
}
