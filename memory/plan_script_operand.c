#include "memory/plan_script_write.h"

#include "plan/passes.h"

#include <assert.h>

// Where the operands of tasks are.

// A place that micro-batches take turns in is that of one of the graph with the same turn.
static int tensor_of(const struct script_writing *writing, const struct script_spot *spot,
                     int value)
{
    const struct stage_graph *graph = writing->graph;
    int tensor = spot->work->tensors[value];
    assert(tensor >= 0 && "a value that the graph has not");
    int turns = graph->turns[tensor], chunks = writing->program->shape.chunk_count;
    if (turns == 0) return tensor;
    int turn = (spot->micro_batch + writing->later_micro_batches) % turns;
    return graph->works[turn * chunks + spot->chunk][spot->position].tensors[value];
}

struct script_operand script_in_arena(const struct script_writing *writing,
                                      const struct script_spot *spot, int value)
{
    const struct block_value *of = &spot->steps->values[value];
    int tensor = tensor_of(writing, spot, value);
    int64_t bytes = spot->steps->program->buffers[of->buffer].bytes;
    int64_t offset = bytes > 0 ? writing->offsets[tensor] : 0;
    assert(offset >= 0);
    return (struct script_operand){
        .place = PLACE_ARENA,
        .buffer = of->buffer,
        .parameter = -1,
        .offset = offset,
        .bytes = bytes,
    };
}

// A gradient's terms (a parameter that two operators read) are added up where the gradient is.
static bool is_gradient(const struct block *block, int gradient, int tensor)
{
    int producer = block->tensors[gradient].producer;
    if (gradient == tensor) return true;
    if (producer < 0 || block->ops[producer].kind != OP_ADD) return false;
    for (int i = 0; i < block->ops[producer].input_count; i++) {
        if (block->ops[producer].inputs[i] == tensor) return true;
    }
    return false;
}

// The parameter, of the script, whose weight or gradient a buffer is; -1.
int script_parameter_of(const struct script_writing *writing, const struct script_spot *spot,
                        int buffer, bool gradient)
{
    const struct block_program *block = spot->steps->program;
    const struct program *program = writing->program;
    int tensor = block->buffers[buffer].tensor, b = 0;
    if (tensor < 0) return -1;
    while (program->gradients->blocks[b].block != block->block)
        b++;
    const int *of_parameter = program->gradients->blocks[b].gradients.of_parameter;
    int first = writing->first_parameter[spot->chunk][spot->position];
    for (int i = first; i < first + block->parameter_count; i++) {
        int own = block->parameters[writing->script->parameters[i].index].tensor;
        bool is_it = gradient ? of_parameter[own] >= 0 &&
                                    is_gradient(block->block, of_parameter[own], tensor)
                              : own == tensor;
        if (is_it) return i;
    }
    return -1;
}

static int64_t elements_before(const struct script *script, int first_unit, int unit)
{
    int64_t elements = 0;
    for (int u = first_unit; u < unit; u++)
        elements += script->units[u].elements;
    return elements;
}

int script_covered_units(const struct script_writing *writing, const struct script_spot *spot,
                         int n, bool gathers, int *first)
{
    const struct script *script = writing->script;
    bool is_combined = pass_is_on(&writing->program->parallel, PASS_COMBINE);
    int u = script->parameters[writing->first_parameter[spot->chunk][spot->position]].unit;
    for (int at = 0; u < script->unit_count; at++) {
        const struct script_unit *unit = &script->units[u];
        assert(unit->chunk == spot->chunk && unit->position == spot->position);
        const struct storage *storage = &unit->storage;
        int count = 1;
        while (is_combined && u + count < script->unit_count) {
            const struct script_unit *next = &script->units[u + count];
            if (next->chunk != unit->chunk || next->position != unit->position ||
                next->kind != unit->kind)
                break;
            count++;
        }
        bool is_made = gathers ? storage_gathers(storage) : storage_scatters(storage);
        if (!is_made) at--;
        *first = u;
        if (is_made && at == n) return count;
        u += count;
    }
    assert(false && "a flat collective of no unit");
    return 0;
}

// The first of the units that are gathered or scattered together with this one.
static int first_together(const struct script_writing *writing, int unit)
{
    const struct script_unit *units = writing->script->units;
    bool is_combined = pass_is_on(&writing->program->parallel, PASS_COMBINE);
    while (is_combined && unit > 0 && units[unit - 1].chunk == units[unit].chunk &&
           units[unit - 1].position == units[unit].position &&
           units[unit - 1].kind == units[unit].kind)
        unit--;
    return unit;
}

// One parameter's part of a flat buffer with whole units.
static struct script_operand in_flat(const struct script_writing *writing,
                                     const struct script_spot *spot, int value, int buffer,
                                     int parameter)
{
    const struct script *script = writing->script;
    const struct script_parameter *of = &script->parameters[parameter];
    int first = first_together(writing, of->unit);
    struct script_operand operand = script_in_arena(writing, spot, value);
    int64_t before = elements_before(script, first, of->unit) + of->first;
    int64_t element_bytes =
        lower_element_bytes(ELEMENT_COMPUTE, writing->program->workload.precision);
    operand.offset += before * element_bytes;
    operand.bytes = of->elements * element_bytes;
    operand.buffer = buffer;
    operand.parameter = parameter;
    return operand;
}

struct script_operand script_operand_of(const struct script_writing *writing,
                                        const struct script_spot *spot, int value, int buffer,
                                        bool is_output)
{
    const struct block_program *block = spot->steps->program;
    const struct buffer *of = &block->buffers[buffer];
    if (!of->external) return script_in_arena(writing, spot, value);
    struct script_operand operand = {.place = PLACE_IDS, .buffer = buffer, .parameter = -1};
    int parameter = script_parameter_of(writing, spot, buffer, is_output);
    if (parameter < 0) {
        assert(block->block->tensors[of->tensor].role == TENSOR_IDS);
        return operand;
    }
    bool is_flat = value >= 0 && block->buffers[spot->steps->values[value].buffer].tensor < 0;
    if (is_flat) {
        operand = in_flat(writing, spot, value, buffer, parameter);
        operand.adds = is_output;
        return operand;
    }
    if (value >= 0) {
        operand = script_in_arena(writing, spot, value);
    } else {
        operand.place = is_output ? PLACE_GRADIENT : PLACE_WEIGHT;
    }
    operand.parameter = parameter;
    return operand;
}
