#include "plan/script.h"

#include <assert.h>

const char *script_kind_name(enum script_kind kind)
{
    static const char *const NAMES[SCRIPT_KIND_COUNT] = {
        [SCRIPT_INSTR] = "operator",
        [SCRIPT_SEED] = "seed",
        [SCRIPT_ROOM] = "room for gradients",
        [SCRIPT_COPY_OUT] = "copy out",
        [SCRIPT_COPY_IN] = "copy in",
        [SCRIPT_SEND] = "send",
        [SCRIPT_RECEIVE] = "receive",
        [SCRIPT_LOSS] = "loss",
        [SCRIPT_SMALL_REDUCE] = "small gradients",
        [SCRIPT_TIED_REDUCE] = "tied gradients",
        [SCRIPT_GRADIENT_REDUCE] = "gradients",
        [SCRIPT_NORM] = "gradient norm",
        [SCRIPT_UPDATE] = "update",
        [SCRIPT_PARAMETER_GATHER] = "parameters",
    };
    assert((unsigned)kind < SCRIPT_KIND_COUNT && NAMES[kind]);
    return NAMES[kind];
}

static const char *instr_name(struct arena *arena, const struct script *script,
                              const struct script_task *task)
{
    const struct block_program *block = script->program->blocks[task->block];
    const struct instr *instr = &block->instrs[task->instr];
    if (!instr->collective) return block->block->ops[instr->op].name;
    int tensor = block->buffers[instr->inputs[0]].tensor;
    const char *of = instr->inner > 0 ? block->block->ops[instr->op].name
                     : tensor >= 0    ? block->block->tensors[tensor].name
                                      : "parameters";
    if (tensor < 0 && instr->inner == 0 && instr->collective != COLLECTIVE_ALL_GATHER)
        of = "gradients";
    return arena_print(arena, "%s %s", collective_name(instr->collective), of);
}

static const char *parameter_name(const struct script *script, int parameter)
{
    const struct script_parameter *of = &script->parameters[parameter];
    const struct block_program *block = script->program->blocks[of->block];
    return block->block->tensors[block->parameters[of->index].tensor].name;
}

const char *script_task_name(struct arena *arena, const struct script *script, int task)
{
    static const char SLOTS[] = "FBW";
    const struct script_task *of = &script->tasks[task];
    const char *what =
        of->kind == SCRIPT_INSTR ? instr_name(arena, script, of) : script_kind_name(of->kind);
    if (of->kind >= SCRIPT_SMALL_REDUCE) {
        if (of->parameter >= 0) {
            const struct script_parameter *parameter = &script->parameters[of->parameter];
            return arena_print(arena, "%s of %d.%d %s", what, parameter->chunk, parameter->position,
                               parameter_name(script, of->parameter));
        }
        if (of->unit < 0) return what;
        const struct script_unit *unit = &script->units[of->unit];
        bool is_one = unit->parameter_count == 1;
        const char *name = is_one ? parameter_name(script, unit->first_parameter)
                           : unit->kind == PARAMETER_EXPERT ? "experts"
                                                            : "block";
        return arena_print(arena, "%s of %d.%d %s", what, unit->chunk, unit->position, name);
    }
    return arena_print(arena, "%c%d.%d %d %s", SLOTS[of->slot_kind], of->micro_batch, of->chunk,
                       of->position, what);
}

// Beyond the slots the numbers are those of the simulator's traces (enum engine_task), which a test
// holds to these.
enum {
    NUMBER_SEND_FORWARD = TASK_KIND_COUNT,
    NUMBER_SEND_BACKWARD,
    NUMBER_RECEIVE_FORWARD,
    NUMBER_RECEIVE_BACKWARD,
    NUMBER_GRADIENT_REDUCE,
    NUMBER_PARAMETER_GATHER,
    NUMBER_SMALL_REDUCE,
    NUMBER_TIED_REDUCE,
    NUMBER_NORM,
    NUMBER_UPDATE
};

// Units of the chunk before this one: buckets are counted by chunk.
static int bucket_of(const struct script *script, int unit)
{
    int before = 0;
    for (int i = 0; i < unit; i++)
        before += script->units[i].chunk == script->units[unit].chunk;
    return before;
}

static struct task_id step_id(const struct script *script, const struct script_task *task)
{
    int unit = task->parameter >= 0 ? script->parameters[task->parameter].unit : task->unit;
    int chunk = unit >= 0 ? script->units[unit].chunk : 0;
    switch (task->kind) {
    case SCRIPT_GRADIENT_REDUCE:
        return (struct task_id){NUMBER_GRADIENT_REDUCE, chunk, bucket_of(script, unit)};
    case SCRIPT_PARAMETER_GATHER:
        return (struct task_id){NUMBER_PARAMETER_GATHER, chunk, 0};
    case SCRIPT_SMALL_REDUCE:
        return (struct task_id){NUMBER_SMALL_REDUCE, 0, 0};
    case SCRIPT_TIED_REDUCE:
        return (struct task_id){NUMBER_TIED_REDUCE, 0, 0};
    case SCRIPT_NORM:
        return (struct task_id){NUMBER_NORM, 0, 0};
    default:
        assert(task->kind == SCRIPT_UPDATE);
        return (struct task_id){NUMBER_UPDATE, 0, 0};
    }
}

struct task_id script_task_id(const struct script *script, int task)
{
    const struct script_task *of = &script->tasks[task];
    bool is_forward = of->slot_kind == TASK_FORWARD;
    if (of->kind >= SCRIPT_SMALL_REDUCE) return step_id(script, of);
    int kind = (int)of->slot_kind;
    if (of->kind == SCRIPT_SEND) kind = is_forward ? NUMBER_SEND_FORWARD : NUMBER_SEND_BACKWARD;
    if (of->kind == SCRIPT_RECEIVE)
        kind = is_forward ? NUMBER_RECEIVE_FORWARD : NUMBER_RECEIVE_BACKWARD;
    return (struct task_id){kind, of->chunk, of->micro_batch};
}

// Of the fullest rank.
static int64_t part_of(const struct script *script, int unit, unsigned axes)
{
    int64_t parts = mesh_size(&script->program->mesh, axes);
    return (script->units[unit].elements + parts - 1) / parts;
}

static int reduce_exchanges(const struct script *script, const struct script_task *task,
                            struct script_exchange *exchanges)
{
    const struct script_unit *unit = &script->units[task->unit];
    // What every micro-batch has scattered is left to the replicas of the shards.
    unsigned shard = unit->storage.gradient_axes ? 0 : unit->storage.optimizer_axes;
    unsigned kept = unit->storage.gradient_axes;
    int count = 0;
    shard &= unit->reduce_axes;
    if (shard) {
        exchanges[count++] = (struct script_exchange){
            .collective = COLLECTIVE_REDUCE_SCATTER, .axes = shard, .elements = unit->elements};
        kept = shard;
    }
    if (unit->reduce_axes & ~shard) {
        exchanges[count++] =
            (struct script_exchange){.collective = COLLECTIVE_ALL_REDUCE,
                                     .axes = unit->reduce_axes & ~shard,
                                     .elements = part_of(script, task->unit, kept)};
    }
    return count;
}

static struct script_exchange small_exchange(const struct script *script,
                                             const struct script_task *task)
{
    const struct script_parameter *of = &script->parameters[task->parameter];
    const struct script_unit *unit = &script->units[of->unit];
    const struct parameter *parameter = &script->program->blocks[of->block]->parameters[of->index];
    int64_t part = part_of(script, of->unit, unit->storage.gradient_axes);
    return (struct script_exchange){
        .collective = COLLECTIVE_ALL_REDUCE,
        .axes = parameter->gradient_partial_axes & ~unit->reduce_axes,
        .elements = of->elements < part ? of->elements : part,
    };
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

static int64_t message_bytes(const struct script_task *task)
{
    int64_t bytes = 0;
    for (int i = 0; i < task->input_count; i++)
        bytes += task->inputs[i].bytes;
    return bytes;
}

int script_exchanges(const struct script *script, int task,
                     struct script_exchange exchanges[SCRIPT_EXCHANGE_MAX])
{
    const struct script_task *of = &script->tasks[task];
    const struct mesh *mesh = &script->program->mesh;
    switch (of->kind) {
    case SCRIPT_INSTR:
        return instr_exchanges(script, of, exchanges);
    case SCRIPT_SEND:
        exchanges[0] = (struct script_exchange){COLLECTIVE_SEND_RECV, 0, message_bytes(of), 0};
        return 1;
    case SCRIPT_SMALL_REDUCE:
        exchanges[0] = small_exchange(script, of);
        return 1;
    case SCRIPT_TIED_REDUCE:
        exchanges[0] = (struct script_exchange){
            COLLECTIVE_SEND_RECV, 0, 0,
            part_of(script, of->unit, script->units[of->unit].storage.gradient_axes)};
        return 1;
    case SCRIPT_GRADIENT_REDUCE:
        return reduce_exchanges(script, of, exchanges);
    case SCRIPT_NORM:
        exchanges[0] =
            (struct script_exchange){COLLECTIVE_ALL_REDUCE, (1u << mesh->axis_count) - 1, 0, 1};
        return mesh->rank_count > 1;
    case SCRIPT_PARAMETER_GATHER:
        exchanges[0] = (struct script_exchange){COLLECTIVE_ALL_GATHER,
                                                script->units[of->unit].storage.optimizer_axes, 0,
                                                script->units[of->unit].elements};
        return 1;
    default:
        return 0;
    }
}
