#include "plan/script/script.h"

#include <assert.h>

const char *script_instr_name(struct arena *arena, const struct block_program *block, int index)
{
    const struct instr *instr = &block->instrs[index];
    if (!instr->collective) return block->block->ops[instr->op].name;
    int tensor = block->buffers[instr->inputs[0]].tensor;
    const char *of = instr->inner > 0 ? block->block->ops[instr->op].name
                     : tensor >= 0    ? block->block->tensors[tensor].name
                                      : "parameters";
    if (tensor < 0 && instr->inner == 0 && !instr_gathers(instr)) of = "gradients";
    return arena_print(arena, "%s %s", collective_name(instr->collective), of);
}

static const char *parameter_name(const struct script *script, int parameter)
{
    const struct script_parameter *of = &script->parameters[parameter];
    const struct block_program *block = script->program->blocks[of->block];
    return block->block->tensors[block->parameters[of->index].tensor].name;
}

// By the first unit of the bucket.
static const char *step_name(struct arena *arena, const struct script *script,
                             const struct script_task *task, const char *what)
{
    const struct script_unit *unit = &script->units[task->unit];
    bool is_alone = task->kind == TASK_PARAMETER_GATHER &&
                    !script_bucket_is_flat(&script->buckets[task->bucket]);
    int others = is_alone ? 0 : script->buckets[task->bucket].unit_count - 1;
    const char *name = unit->parameter_count == 1 ? parameter_name(script, unit->first_parameter)
                       : unit->kind == PARAMETER_EXPERT ? "experts"
                                                        : "block";
    const char *text =
        arena_print(arena, "%s of %d.%d %s", what, unit->chunk, unit->position, name);
    return others > 0 ? arena_print(arena, "%s and %d more", text, others) : text;
}

const char *script_task_name(struct arena *arena, const struct script *script, int task)
{
    static const char SLOTS[] = "FBW";
    const struct script_task *of = &script->tasks[task];
    const char *what = of->kind == TASK_INSTR
                           ? script_instr_name(arena, script->program->blocks[of->block], of->instr)
                           : task_kind_name(of->kind);
    if (task_kind_is_once(of->kind))
        return of->unit < 0 ? what : step_name(arena, script, of, what);
    return arena_print(arena, "%c%d.%d %d %s", SLOTS[of->slot_kind], of->micro_batch, of->chunk,
                       of->position, what);
}

// Buckets are counted by chunk.
static int number_in_chunk(const struct script *script, int bucket)
{
    int first = bucket;
    while (first > 0 && script->buckets[first - 1].chunk == script->buckets[bucket].chunk)
        first--;
    return bucket - first;
}

struct task_id script_task_id(const struct script *script, int task)
{
    const struct script_task *of = &script->tasks[task];
    bool is_message = of->kind == TASK_SEND || of->kind == TASK_RECEIVE;
    bool has_place = of->kind == TASK_GRADIENT_REDUCE || of->kind == TASK_PARAMETER_GATHER;
    if (has_place) {
        int item = of->kind == TASK_GRADIENT_REDUCE ? number_in_chunk(script, of->bucket) : 0;
        return (struct task_id){(int)of->kind, script->units[of->unit].chunk, item};
    }
    if (task_kind_is_once(of->kind)) return (struct task_id){(int)of->kind, 0, 0};
    if (is_message)
        return (struct task_id){(int)of->kind, of->chunk,
                                2 * of->micro_batch + (of->slot_kind != TASK_FORWARD)};
    return (struct task_id){(int)of->slot_kind, of->chunk, of->micro_batch};
}

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

bool script_message(const struct script *script, const struct script_task *task, int n,
                    struct boundary_message *message)
{
    return boundary_message(script->program, script->stage, task->chunk, task->kind == TASK_SEND,
                            task->slot_kind != TASK_FORWARD, n, message);
}

struct boundary script_boundary(const struct script *script, const struct script_task *task, int n)
{
    struct boundary boundary = {.program = script->program};
    struct boundary_message message;
    for (int m = 0; n >= 0 && script_message(script, task, m, &message); m++) {
        for (int edge = 0; edge < BLOCK_EDGES; edge++)
            if (boundary_of(script->program, &message, edge, &boundary) && n-- == 0) break;
    }
    assert(n < 0 && "an operand for each tensor");
    return boundary;
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

int64_t script_weight_cast_elements(const struct script *script)
{
    int64_t elements = 0;
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        bool is_first =
            task->kind == TASK_INSTR && task->slot_kind == TASK_FORWARD && task->micro_batch == 0;
        if (!is_first) continue;
        const struct instr *instr = &script->program->blocks[task->block]->instrs[task->instr];
        if (!instr->weight_cast) continue;
        elements += script->parameters[task->inputs[instr->weight_cast - 1].parameter].elements;
    }
    return elements;
}
