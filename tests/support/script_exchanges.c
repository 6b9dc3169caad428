#include "tests/support/script_exchanges.h"

// Of the fullest rank.
static int64_t part_of(const struct script *script, int unit, unsigned axes)
{
    int64_t parts = mesh_size(&script->program->mesh, axes);
    return (script->units[unit].elements + parts - 1) / parts;
}

// Of a bucket that is stored over these axes, as a whole or unit by unit.
static int64_t bucket_part(const struct script *script, const struct script_bucket *bucket,
                           unsigned axes)
{
    int64_t elements = 0, parts = mesh_size(&script->program->mesh, axes);
    if (script_bucket_is_flat(bucket)) return (bucket->elements + parts - 1) / parts;
    for (int i = 0; i < bucket->unit_count; i++)
        elements += part_of(script, bucket->units[i], axes);
    return elements;
}

static int reduce_exchanges(const struct script *script, const struct script_task *task,
                            struct script_exchange *exchanges)
{
    const struct script_bucket *bucket = &script->buckets[task->bucket];
    // What every micro-batch has scattered is left to the replicas of the shards.
    unsigned kept = bucket->storage.gradient_axes;
    unsigned shard = storage_scatter_axes(&bucket->storage, bucket->reduce_axes);
    int count = 0;
    if (shard) {
        exchanges[count++] =
            (struct script_exchange){.collective = COLLECTIVE_REDUCE_SCATTER,
                                     .axes = shard,
                                     .elements = bucket_part(script, bucket, kept)};
        kept |= shard;
    }
    if (bucket->reduce_axes & ~shard) {
        exchanges[count++] =
            (struct script_exchange){.collective = COLLECTIVE_ALL_REDUCE,
                                     .axes = bucket->reduce_axes & ~shard,
                                     .elements = bucket_part(script, bucket, kept)};
    }
    return count;
}

static struct script_exchange small_exchange(const struct script *script,
                                             const struct script_task *task)
{
    int64_t elements = 0;
    for (int p = -1; (p = script_next_small(script, task, p)) >= 0;) {
        const struct script_parameter *of = &script->parameters[p];
        int64_t part = part_of(script, of->unit, script->units[of->unit].storage.gradient_axes);
        elements += of->elements < part ? of->elements : part;
    }
    return (struct script_exchange){
        .collective = COLLECTIVE_ALL_REDUCE, .axes = task->axes, .elements = elements};
}

static struct script_exchange gather_exchange(const struct script *script,
                                              const struct script_task *task)
{
    const struct script_bucket *bucket = &script->buckets[task->bucket];
    bool is_flat = script_bucket_is_flat(bucket);
    return (struct script_exchange){
        COLLECTIVE_ALL_GATHER, storage_gather_axes(&bucket->storage), 0,
        is_flat ? bucket->elements : part_of(script, task->unit, bucket->storage.weight_axes)};
}

static int trust_exchanges(const struct script *script, struct script_exchange *exchanges)
{
    const struct mesh *mesh = &script->program->mesh;
    unsigned axes = ((1u << mesh->axis_count) - 1) & ~mesh_axes_of(mesh, AXIS_PP);
    enum { NORMS = 2 };  // of weights and of what is taken from them
    exchanges[0] = (struct script_exchange){COLLECTIVE_ALL_REDUCE, axes, 0,
                                            NORMS * (int64_t)script->parameter_count};
    return mesh_size(mesh, axes) > 1;
}

// Of what is streamed the parts that are handed on.
static int instr_exchanges(const struct script *script, const struct script_task *task,
                           struct script_exchange *exchanges)
{
    const struct instr *instr = &script->program->blocks[task->block]->instrs[task->instr];
    if (!instr->collective || instr->collective == COLLECTIVE_SLICE) return 0;
    int ranks = mesh_size(&script->program->mesh, instr->axes);
    exchanges[0] = (struct script_exchange){
        .collective = instr->streamed ? COLLECTIVE_SEND_RECV : instr->collective,
        .axes = instr->axes,
        .bytes = instr->streamed ? instr->bytes / ranks * instr->stream_steps : instr->bytes,
    };
    return 1;
}

static int64_t message_bytes(const struct script *script, const struct script_task *task)
{
    int64_t bytes = 0;
    for (int i = 0; i < task->input_count; i++) {
        struct boundary boundary = script_boundary(script, task, i);
        double ratio = boundary_is_plain(&boundary) ? 1 : boundary_sent_ratio(&boundary);
        bytes += (int64_t)(ratio * (double)task->inputs[i].bytes);
    }
    return bytes;
}

int script_exchanges(const struct script *script, int task,
                     struct script_exchange exchanges[SCRIPT_EXCHANGE_MAX])
{
    const struct script_task *of = &script->tasks[task];
    const struct mesh *mesh = &script->program->mesh;
    switch (of->kind) {
    case TASK_INSTR:
        return instr_exchanges(script, of, exchanges);
    case TASK_SEND:
        exchanges[0] =
            (struct script_exchange){COLLECTIVE_SEND_RECV, 0, message_bytes(script, of), 0};
        return 1;
    case TASK_SMALL_REDUCE:
        exchanges[0] = small_exchange(script, of);
        return 1;
    case TASK_TIED_REDUCE:
        exchanges[0] = (struct script_exchange){
            COLLECTIVE_SEND_RECV, 0, 0,
            bucket_part(script, &script->buckets[of->bucket],
                        script->buckets[of->bucket].storage.gradient_axes)};
        return 1;
    case TASK_GRADIENT_REDUCE:
        return reduce_exchanges(script, of, exchanges);
    case TASK_NORM:
        exchanges[0] =
            (struct script_exchange){COLLECTIVE_ALL_REDUCE, (1u << mesh->axis_count) - 1, 0, 1};
        return mesh->rank_count > 1;
    case TASK_TRUST:
        return trust_exchanges(script, exchanges);
    case TASK_PARAMETER_GATHER:
        exchanges[0] = gather_exchange(script, of);
        return 1;
    default:
        return 0;
    }
}
