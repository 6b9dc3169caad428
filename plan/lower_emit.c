#include "plan/lowering.h"

#include <assert.h>
#include <string.h>

static void *grown(struct arena *arena, const void *items, int count, int capacity, size_t size)
{
    void *copy = arena_alloc(arena, (size_t)capacity, size);
    memcpy(copy, items, (size_t)count * size);
    return copy;
}

int64_t lowering_element_bytes(const struct lowering *low, enum element element)
{
    switch (element) {
    case ELEMENT_FP32:
        return 4;
    case ELEMENT_INT64:
        return 8;
    case ELEMENT_BYTE:
        return 1;
    case ELEMENT_COMPUTE:
        break;
    }
    // fp8 and fp4 are formats of matrix products; tensors between them stay in 16 bits.
    return low->request->precision == PRECISION_FP32 ? 4 : 2;
}

int lowering_flat_buffer(struct lowering *low, int64_t bytes, const struct layout *layout)
{
    struct block_program *program = low->program;
    assert(bytes >= 0);
    if (program->buffer_count == low->buffer_capacity) {
        int capacity = low->buffer_capacity * 2, count = program->buffer_count;
        program->buffers =
            grown(low->arena, program->buffers, count, capacity, sizeof *program->buffers);
        low->older_copy =
            grown(low->arena, low->older_copy, count, capacity, sizeof *low->older_copy);
        low->buffer_capacity = capacity;
    }
    struct buffer *buffer = &program->buffers[program->buffer_count];
    *buffer = (struct buffer){.tensor = -1, .bytes = bytes, .layout = *layout};
    low->older_copy[program->buffer_count] = -1;
    return program->buffer_count++;
}

int lowering_buffer(struct lowering *low, int tensor, const struct layout *layout)
{
    const struct tensor *of = &low->block->tensors[tensor];
    int64_t elements =
        layout_local_elements(layout, low->mesh, of, low->batch, low->request->seq_len);
    int64_t bytes = elements * lowering_element_bytes(low, of->element);
    int index = lowering_flat_buffer(low, bytes, layout);
    struct buffer *buffer = &low->program->buffers[index];
    buffer->tensor = tensor;
    buffer->external = of->role != TENSOR_ACTIVATION && of->role != TENSOR_GRADIENT;
    return index;
}

struct instr *lowering_instr(struct lowering *low)
{
    struct block_program *program = low->program;
    if (program->instr_count == low->instr_capacity) {
        low->instr_capacity *= 2;
        program->instrs = grown(low->arena, program->instrs, program->instr_count,
                                low->instr_capacity, sizeof *program->instrs);
    }
    struct instr *instr = &program->instrs[program->instr_count++];
    instr->phase = low->phase;
    instr->recompute = low->recompute;
    instr->op = -1;
    return instr;
}

void lowering_set_home(struct lowering *low, int tensor, int buffer)
{
    low->places[tensor] = (struct place){.home = buffer, .copies = -1};
}

struct layout lowering_home_layout(const struct lowering *low, int tensor)
{
    int home = low->places[tensor].home;
    assert(home >= 0 && "a tensor is read before it is made");
    return low->program->buffers[home].layout;
}

// The stream of a collective over several named axes is that of the outermost.
static enum axis parent_of(const struct mesh *mesh, unsigned axes)
{
    enum axis parent = AXIS_TP;
    for (int i = 0; i < mesh->axis_count; i++) {
        bool is_outer = axes >> i & 1 && mesh->axes[i].parent > parent;
        if (is_outer) parent = mesh->axes[i].parent;
    }
    return parent;
}

static void emit_collective(struct lowering *low, const struct change *change, int input,
                            int output)
{
    const struct buffer *from = &low->program->buffers[input];
    const struct buffer *to = &low->program->buffers[output];
    struct instr *instr = lowering_instr(low);
    instr->collective = change->collective;
    instr->axes = change->axes;
    instr->parent = parent_of(low->mesh, change->axes);
    instr->combine = change->combine;
    instr->dim = change->dim;
    instr->to_dim = change->to_dim;
    instr->bytes = change->collective == COLLECTIVE_ALL_GATHER ? to->bytes : from->bytes;
    instr->inputs[instr->input_count++] = input;
    instr->outputs[instr->output_count++] = output;
    instr->parameter = from->external;
}

// All-reduces work in place; everything else writes a new buffer.
static int apply(struct lowering *low, int buffer, const struct change *change,
                 const struct layout *want)
{
    struct buffer *from = &low->program->buffers[buffer];
    struct layout after = layout_after(low->mesh, &from->layout, want, change);
    int output = buffer;
    if (change->collective == COLLECTIVE_ALL_REDUCE) {
        from->layout = after;
    } else {
        output = from->tensor >= 0 ? lowering_buffer(low, from->tensor, &after)
                                   : lowering_flat_buffer(low, from->bytes, &after);
    }
    emit_collective(low, change, buffer, output);
    return output;
}

int lowering_change(struct lowering *low, int buffer, const struct layout *want)
{
    struct change changes[CHANGE_MAX];
    const struct layout from = low->program->buffers[buffer].layout;
    int count = layout_change(low->mesh, &from, want, changes);
    for (int i = 0; i < count; i++)
        buffer = apply(low, buffer, &changes[i], want);
    assert(layout_equal(&low->program->buffers[buffer].layout, want));
    return buffer;
}

static int find_copy(const struct lowering *low, const struct place *place,
                     const struct layout *want)
{
    if (place->copies_group != low->group) return -1;
    for (int b = place->copies; b >= 0; b = low->older_copy[b]) {
        if (layout_equal(&low->program->buffers[b].layout, want)) return b;
    }
    return -1;
}

static void keep_copy(struct lowering *low, struct place *place, int buffer)
{
    bool has_older = place->copies_group == low->group;
    low->older_copy[buffer] = has_older ? place->copies : -1;
    place->copies = buffer;
    place->copies_group = low->group;
}

int lowering_read(struct lowering *low, int tensor, const struct layout *want)
{
    struct place *place = &low->places[tensor];
    const struct layout home = lowering_home_layout(low, tensor);
    if (layout_equal(&home, want)) return place->home;
    int buffer = find_copy(low, place, want);
    if (buffer >= 0) return buffer;
    if (low->block->tensors[tensor].role == TENSOR_IDS) {
        // The data loader hands every rank the ids it needs, in any layout.
        buffer = lowering_buffer(low, tensor, want);
        keep_copy(low, place, buffer);
        return buffer;
    }
    struct change changes[CHANGE_MAX];
    int count = layout_change(low->mesh, &home, want, changes);
    buffer = place->home;
    for (int i = 0; i < count; i++) {
        buffer = apply(low, buffer, &changes[i], want);
        // Nothing asks for the partial result again: what was reduced is the tensor from now on.
        if (changes[i].combine) lowering_set_home(low, tensor, buffer);
    }
    if (buffer != place->home) keep_copy(low, place, buffer);
    return buffer;
}

void lowering_flat_change(struct lowering *low, int64_t bytes, const struct layout *from,
                          const struct layout *to)
{
    struct change changes[CHANGE_MAX];
    int count = layout_change(low->mesh, from, to, changes);
    assert(count == 1);
    int shard = mesh_size(low->mesh, changes[0].axes);
    int64_t shard_bytes = (bytes + shard - 1) / shard;
    bool gathers = changes[0].collective == COLLECTIVE_ALL_GATHER;
    int input = lowering_flat_buffer(low, gathers ? shard_bytes : bytes, from);
    int output = lowering_flat_buffer(low, gathers ? bytes : shard_bytes, to);
    low->program->buffers[input].external = low->program->buffers[output].external = true;
    emit_collective(low, &changes[0], input, output);
}
