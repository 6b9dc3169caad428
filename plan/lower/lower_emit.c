#include "plan/lower/lowering.h"

#include <assert.h>

struct instr *lowering_instr(struct lowering *low)
{
    struct block_program *program = low->program;
    ARENA_GROW(low->arena, program->instrs, program->instr_count, low->instr_capacity);
    struct instr *instr = &program->instrs[program->instr_count++];
    instr->phase = low->phase;
    instr->recompute = low->recompute;
    instr->op = -1;
    return instr;
}

void lowering_set_home(struct lowering *low, int tensor, int buffer)
{
    assert(buffer >= 0 && buffer < low->program->buffer_count);
    low->places[tensor] = (struct place){.home = buffer, .copies = -1, .moved = -1};
}

void lowering_forget(struct lowering *low, int tensor)
{
    low->places[tensor] = (struct place){.home = -1, .copies = -1, .moved = -1};
}

struct layout lowering_home_layout(const struct lowering *low, int tensor)
{
    int home = low->places[tensor].home;
    assert(home >= 0 && "a tensor is read before it is made");
    return low->program->buffers[home].layout;
}

// The stream of a collective over several axes is that of the outermost: of their roles where the
// experts' rows are changed, else of the named axes.
static enum axis parent_of(const struct mesh *mesh, unsigned axes, bool is_rows)
{
    enum axis parent = AXIS_TP;
    for (int i = 0; i < mesh->axis_count; i++) {
        const struct mesh_axis *axis = &mesh->axes[i];
        bool has_role = is_rows && axis->expert != AXIS_DP;
        enum axis own = has_role ? axis->expert : axis->parent;
        if (axes >> i & 1 && axis_digit(own) > axis_digit(parent)) parent = own;
    }
    return parent;
}

// An all-to-all hands over as much as the fuller of its two buffers holds, neighbours what they
// have of each other's halo.
static int64_t payload(const struct lowering *low, const struct change *change, int input,
                       int output)
{
    int64_t from = low->backing[input].whole_bytes, to = low->backing[output].whole_bytes;
    if (change->collective == COLLECTIVE_ALL_TO_ALL) return from > to ? from : to;
    if (change->is_halo) return from > to ? from - to : to - from;
    return change->collective == COLLECTIVE_ALL_GATHER ? to : from;
}

static void emit_collective(struct lowering *low, const struct change *change, int input,
                            int output)
{
    assert(input >= 0 && output >= 0 && output < low->program->buffer_count);
    const struct buffer *from = &low->program->buffers[input];
    int steps =
        low->backing[change->collective == COLLECTIVE_ALL_GATHER ? output : input].stream_steps;
    bool is_rows =
        from->tensor >= 0 && tensor_find_dim(&low->block->tensors[from->tensor], DIM_EXPERT) >= 0;
    struct instr *instr = lowering_instr(low);
    instr->collective = change->collective;
    instr->axes = change->axes;
    instr->parent = parent_of(low->mesh, change->axes, is_rows);
    instr->combine = change->combine;
    instr->dim = change->dim;
    instr->to_dim = change->to_dim;
    instr->bytes = payload(low, change, input, output);
    instr->streamed = steps > 0;
    instr->stream_steps = steps;
    instr->ragged = is_rows && lowering_is_ragged(low, from->tensor);
    instr->inputs[instr->input_count++] = input;
    instr->outputs[instr->output_count++] = output;
    instr->parameter = from->external && from->tensor < 0;
}

// Whether this change is what the stream of the tensor being read stands for, or the reduction of
// what a stream was left to empty. What only part of the axes change has to be whole.
static bool is_streamed(const struct lowering *low, int input, const struct change *change)
{
    if (change->dim != DIM_SEQ) return false;
    if (change->collective == COLLECTIVE_REDUCE_SCATTER) {
        return low->backing[input].stream_steps > 0;
    }
    bool gathers = change->collective == COLLECTIVE_ALL_GATHER;
    return gathers && low->stream.steps > 0 && change->axes == low->stream.axes;
}

// All-reduces work in place; everything else writes a new buffer.
static int apply(struct lowering *low, int buffer, const struct change *change,
                 const struct layout *want)
{
    const struct layout from = low->program->buffers[buffer].layout;
    struct layout after = layout_after(low->mesh, &from, want, change);
    bool streams = is_streamed(low, buffer, change);
    if (!streams) lowering_unshrink(low, buffer);
    int output = buffer;
    if (change->collective == COLLECTIVE_ALL_REDUCE) {
        low->program->buffers[buffer].layout = after;
    } else {
        int tensor = low->program->buffers[buffer].tensor;
        output = tensor >= 0 ? lowering_buffer(low, tensor, &after)
                             : lowering_flat_buffer(low, low->backing[buffer].whole_bytes, &after);
    }
    bool fills = streams && change->collective == COLLECTIVE_ALL_GATHER;
    if (fills) lowering_shrink(low, output, &low->stream);
    emit_collective(low, change, buffer, output);
    return output;
}

// Where gradients come back in a part of the tokens that only some axes split, the others come in
// behind a gather of these.
static int detour(struct lowering *low, int buffer, const struct layout *want)
{
    struct layout via;
    const struct layout from = low->program->buffers[buffer].layout;
    return layout_detour(low->mesh, &from, want, &via) ? lowering_change(low, buffer, &via)
                                                       : buffer;
}

int lowering_change(struct lowering *low, int buffer, const struct layout *want)
{
    struct change changes[CHANGE_MAX];
    buffer = detour(low, buffer, want);
    const struct layout from = low->program->buffers[buffer].layout;
    int count = layout_change_in_order(low->mesh, &from, want, changes);
    for (int i = 0; i < count; i++)
        buffer = apply(low, buffer, &changes[i], want);
    assert(layout_equal(&low->program->buffers[buffer].layout, want));
    return buffer;
}

static int find_in(const struct lowering *low, int list, const struct layout *want)
{
    for (int b = list; b >= 0; b = low->backing[b].older) {
        if (layout_equal(&low->program->buffers[b].layout, want)) return b;
    }
    return -1;
}

static int find_copy(const struct lowering *low, const struct place *place,
                     const struct layout *want)
{
    int found = place->copies_group == low->group ? find_in(low, place->copies, want) : -1;
    return found >= 0 ? found : find_in(low, place->moved, want);
}

static void keep_copy(struct lowering *low, struct place *place, int buffer)
{
    bool has_older = place->copies_group == low->group;
    assert(!(has_older && place->copies == buffer) && "a list has no ring");
    low->backing[buffer].older = has_older ? place->copies : -1;
    place->copies = buffer;
    place->copies_group = low->group;
}

static void keep_moved(struct lowering *low, struct place *place, int buffer)
{
    assert(buffer != place->moved && "a list has no ring");
    low->backing[buffer].older = place->moved;
    place->moved = buffer;
}

static bool needs_moving(const struct lowering *low, int buffer, const struct layout *want)
{
    const struct layout *from = &low->program->buffers[buffer].layout;
    for (int i = 0; i < low->mesh->axis_count; i++) {
        if (from->of[i] > 0 && want->of[i] > 0 && from->of[i] != want->of[i]) return true;
    }
    return false;
}

// The buffer to start from: what was moved before, where the original would be moved again.
static int source_of(const struct lowering *low, const struct place *place,
                     const struct layout *want)
{
    if (place->moved < 0 || !needs_moving(low, place->home, want)) return place->home;
    for (int b = place->moved; b >= 0; b = low->backing[b].older) {
        if (!needs_moving(low, b, want)) return b;
    }
    return place->home;
}

int lowering_read(struct lowering *low, int tensor, const struct layout *want)
{
    struct place *place = &low->places[tensor];
    const struct layout home = lowering_home_layout(low, tensor);
    if (layout_equal(&home, want)) return place->home;
    int buffer = low->apart ? -1 : find_copy(low, place, want);
    if (buffer >= 0) return buffer;
    if (low->block->tensors[tensor].role == TENSOR_IDS) {
        // The data loader hands every rank the ids it needs, in any layout.
        buffer = lowering_buffer(low, tensor, want);
        keep_copy(low, place, buffer);
        return buffer;
    }
    struct change changes[CHANGE_MAX];
    buffer = detour(low, source_of(low, place, want), want);
    const struct layout from = low->program->buffers[buffer].layout;
    int count = layout_change_in_order(low->mesh, &from, want, changes);
    for (int i = 0; i < count; i++) {
        buffer = apply(low, buffer, &changes[i], want);
        // Nothing asks for the partial result again: what was reduced is the tensor from now on.
        if (changes[i].combine) lowering_set_home(low, tensor, buffer);
        if (changes[i].collective == COLLECTIVE_ALL_TO_ALL) keep_moved(low, place, buffer);
    }
    // Blocks that passed by are gone.
    bool is_kept = buffer == place->home || buffer == place->moved;
    if (!is_kept && low->backing[buffer].stream_steps == 0) keep_copy(low, place, buffer);
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

void lowering_fetch(struct lowering *low, int64_t bytes)
{
    const struct change change = {.collective = COLLECTIVE_FETCH};
    const struct layout whole = {.of = {0}};
    int input = lowering_flat_buffer(low, bytes, &whole);
    int output = lowering_flat_buffer(low, bytes, &whole);
    low->program->buffers[input].external = low->program->buffers[output].external = true;
    emit_collective(low, &change, input, output);
    struct instr *instr = &low->program->instrs[low->program->instr_count - 1];
    instr->parent = AXIS_DP;
    instr->deep = low->request->parallel->offload.parameters == TIER_NVME;
}

void lowering_exchange_counts(struct lowering *low, int op, unsigned axes, int64_t expert_count)
{
    assert(expert_count > 0 && axes != 0);
    struct change change = {.collective = COLLECTIVE_ALL_GATHER, .axes = axes, .dim = DIM_EXPERT};
    struct layout whole = {.of = {0}};
    int64_t bytes = expert_count * lowering_element_bytes(low, ELEMENT_INT64);
    int input = lowering_flat_buffer(low, bytes, &whole);
    int output = lowering_flat_buffer(low, bytes * mesh_size(low->mesh, axes), &whole);
    emit_collective(low, &change, input, output);
    struct instr *instr = &low->program->instrs[low->program->instr_count - 1];
    instr->parent = parent_of(low->mesh, axes, true);
    instr->op = op;
    instr->inner = 1;
}
