#include "cost_models/parameters.h"
#include "core/names.h"

#include <assert.h>

struct ties {
    const char *names[TIE_MAX];
    int count;
};

// True the first time, and for what is not tied.
static bool is_new(struct ties *ties, const char *tie)
{
    if (!tie) return true;
    if (name_index(ties->names, (size_t)ties->count, tie) >= 0) return false;
    assert(ties->count < TIE_MAX);
    ties->names[ties->count++] = tie;
    return true;
}

static unsigned axes_of(const struct storage *storage, int member)
{
    const unsigned axes[STORED_COUNT] = {[STORED_WEIGHTS] = storage->weight_axes,
                                         [STORED_GRADIENTS] = storage->gradient_axes,
                                         [STORED_STATES] = storage->optimizer_axes};
    return axes[member];
}

static void add(const struct program *program, const struct parameter *parameter, int count,
                struct parameter_sums *sums)
{
    const struct storage *all = &program->storage[parameter->kind];
    unsigned axes = all->weight_axes | all->gradient_axes | all->optimizer_axes;
    double elements = (double)parameter->elements * count;
    sums->elements[parameter->kind] += elements;
    while (axes && parameter->layout.of[__builtin_ctz(axes)] <= 0)
        axes &= axes - 1;
    if (!axes) return;
    const struct storage own = step_storage(program, parameter);
    sums->has_more = true;
    for (int member = 0; member < STORED_COUNT; member++)
        sums->more[parameter->kind][member] +=
            elements / mesh_size(&program->mesh, axes_of(&own, member)) -
            elements / mesh_size(&program->mesh, axes_of(all, member));
}

void parameter_sums_add(struct parameter_sums *sums, const struct parameter_sums *other)
{
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        sums->elements[kind] += other->elements[kind];
        sums->away_elements[kind] += other->away_elements[kind];
    }
    if (!other->has_more) return;
    sums->has_more = true;
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        for (int member = 0; member < STORED_COUNT; member++)
            sums->more[kind][member] += other->more[kind][member];
}

// A tied parameter is kept once by a stage, however many blocks use it.
struct parameter_sums parameter_sums(const struct program *program,
                                     const struct program_chunk *chunk)
{
    struct parameter_sums sums = {0};
    struct ties ties = {0};
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_use *use = &chunk->uses[u];
        const struct block_program *block = program->blocks[use->block_program];
        for (int i = 0; i < block->parameter_count; i++) {
            const struct parameter *parameter = &block->parameters[i];
            if (!is_new(&ties, parameter->tie)) continue;
            if (step_is_elsewhere(program, chunk, parameter)) continue;
            // What repeats is tied to itself.
            int count = parameter->tie ? 1 : use->count;
            add(program, parameter, count, &sums);
            sums.tensor_count[parameter->kind] += parameter->tensor_count * count;
            if (block->weights_away)
                sums.away_elements[parameter->kind] += (double)parameter->elements * count;
        }
    }
    return sums;
}

double parameter_stored(const struct program *program, const struct parameter_sums *sums,
                        enum stored member)
{
    double elements = 0;
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        bool is_kept =
            parameter_kind_is_trained((enum parameter_kind)kind) || member == STORED_WEIGHTS;
        if (!is_kept) continue;
        unsigned axes = axes_of(&program->storage[kind], (int)member);
        elements += sums->elements[kind] / mesh_size(&program->mesh, axes);
        elements += sums->more[kind][member];
    }
    return elements;
}

double parameter_weights(const struct program *program, const struct parameter_sums *sums,
                         enum parameter_kind kind, bool away)
{
    assert(sums->away_elements[kind] <= sums->elements[kind] && "away is a part of all");
    double elements = sums->away_elements[kind];
    if (!away) elements = sums->elements[kind] - elements;
    return elements / mesh_size(&program->mesh, program->storage[kind].weight_axes) +
           (away ? 0 : sums->more[kind][STORED_WEIGHTS]);
}

double parameter_fetched(const struct program *program, const struct parameter_sums *sums)
{
    double elements = 0;
    for (int kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        enum parameter_kind of = (enum parameter_kind)kind;
        if (parameter_kind_is_trained(of)) elements += parameter_weights(program, sums, of, true);
    }
    return elements;
}

// Where all layers' states leave, so do those of every block; else block by block.
double parameter_away(const struct program *program, const struct program_chunk *chunk,
                      const struct parameter_sums *sums, enum stored member)
{
    const struct offload *offload = &program->parallel.offload;
    if (offload->optimizer == TIER_DEVICE) return 0;
    if (offload->optimizer_layers == 0) return parameter_stored(program, sums, member);
    struct parameter_sums away = {0};
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_use *use = &chunk->uses[u];
        const struct block_program *block = program->blocks[use->block_program];
        for (int i = 0; i < block->parameter_count; i++) {
            const struct parameter *parameter = &block->parameters[i];
            if (step_away(program, use, parameter) & AWAY_STATES)
                add(program, parameter, use->count, &away);
        }
    }
    return parameter_stored(program, &away, member);
}

double parameter_away_of_stage(const struct program *program, int stage,
                               const struct parameter_sums *sums, enum stored member)
{
    int chunks = program->shape.chunk_count;
    double elements = 0;
    if (program->parallel.offload.optimizer_layers == 0)
        return parameter_away(program, NULL, sums, member);
    for (int c = 0; c < chunks; c++) {
        int class = program->class_of[stage * chunks + c];
        elements += parameter_away(program, &program->chunks[class], NULL, member);
    }
    return elements;
}

double parameter_weight_bytes(enum precision precision)
{
    double bytes = precision_bytes(precision);
    return bytes < 2 ? 2 : bytes;
}

struct step_rules step_rules_of(const struct stack *stack, const struct program *program)
{
    const struct parallel *parallel = &program->parallel;
    double width = stack_reduce_bytes(stack, program->workload.precision);
    return (struct step_rules){
        .bucket_elements = stack_bucket_bytes(stack, parallel, 0) / width,
        .bucket_elements_per_rank =
            parallel->bucket_bytes > 0 ? 0 : stack->bucket_bytes_per_rank / width,
    };
}

// Gradients that pass through rooms do not all stay.
double parameter_gradients(const struct program *program, const struct stack *stack,
                           const struct program_chunk *chunk, const struct parameter_sums *sums)
{
    double elements = 0;
    if (!step_has_rooms(program)) return parameter_stored(program, sums, STORED_GRADIENTS);
    const struct step_rules rules = step_rules_of(stack, program);
    const struct step_end end = step_end_of(program, chunk, &rules);
    for (int i = 0; i < end.group_count; i++)
        elements += end.groups[i].room_elements;
    return elements;
}
