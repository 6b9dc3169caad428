#include "plan/lower/relay_parts.h"

#include <assert.h>

const struct tensor *relay_tensor(const struct lowering *low, int buffer)
{
    int tensor = low->program->buffers[buffer].tensor;
    return tensor < 0 ? NULL : &low->block->tensors[tensor];
}

// Tokens first, so that the rows of one sequence stand behind one another; dense.
static bool has_rows(const struct tensor *tensor)
{
    return tensor && tensor->rank > 2 && tensor->extents[0].dim == DIM_BATCH &&
           tensor->extents[1].dim == DIM_SEQ && tensor->density <= 0 &&
           tensor->element == ELEMENT_COMPUTE && tensor_find_dim(tensor, DIM_EXPERT) < 0;
}

// A weight that a grid of tp keeps split, but of experts.
static bool is_matrix(const struct tensor *tensor)
{
    return tensor && tensor->role == TENSOR_PARAMETER && tensor->rank > 1 &&
           tensor_find_dim(tensor, DIM_EXPERT) < 0;
}

// Whether all ranks have as much of a dim.
bool relay_is_even(const struct lowering *low, const struct tensor *tensor, enum dim dim,
                   const struct layout *layout, int pieces)
{
    assert(pieces >= 1 && tensor_find_dim(tensor, dim) >= 0);
    const struct extent *extent = &tensor->extents[tensor_find_dim(tensor, dim)];
    int64_t size = extent_size(extent, low->batch, low->request->seq_len);
    return size % ((int64_t)mesh_size(low->mesh, layout_axes_on(layout, dim)) * pieces) == 0;
}

unsigned relay_axes_of(const struct lowering *low, const struct instr *change)
{
    unsigned axes = 0;
    for (int a = low->mesh->axis_count - 1; a >= 0; a--) {
        if (!(change->axes >> a & 1)) continue;
        int size = mesh_size(low->mesh, axes | 1u << a);
        if (size > low->request->parallel->tp_relay) break;
        axes |= 1u << a;
    }
    return axes;
}

bool relay_is_of_columns(const struct tensor *tensor, const struct instr *change)
{
    return has_rows(tensor) && tensor->extents[2].dim == change->dim;
}

bool relay_has_columns(const struct tensor *tensor, const struct instr *change)
{
    return tensor && (has_rows(tensor) ? relay_is_of_columns(tensor, change) : is_matrix(tensor));
}

bool relay_may_be(const struct lowering *low, const struct instr *change,
                  enum collective collective, int parts)
{
    if (change->collective != collective || change->parameter || change->inner ||
        change->streamed || change->parent != AXIS_TP)
        return false;
    const struct tensor *tensor = relay_tensor(low, parts);
    bool is_of_tokens = change->dim == DIM_BATCH || change->dim == DIM_SEQ;
    bool has_parts = has_rows(tensor) ? is_of_tokens || (collective == COLLECTIVE_ALL_GATHER &&
                                                         relay_is_of_columns(tensor, change))
                                      : is_matrix(tensor);
    return has_parts && relay_axes_of(low, change) &&
           relay_is_even(low, tensor, change->dim, &low->program->buffers[parts].layout, 1);
}

// Whether a buffer has rows that are whole over the axes of a change.
static bool has_whole_rows(const struct lowering *low, int buffer, const struct instr *change)
{
    const struct layout *layout = &low->program->buffers[buffer].layout;
    return has_rows(relay_tensor(low, buffer)) &&
           (layout_axes_on(layout, change->dim) & change->axes) == 0;
}

// Whether a buffer has rows that begin with the dim of a change, all of it: a part of each is some
// of its columns.
static bool has_whole_columns(const struct lowering *low, int buffer, const struct instr *change)
{
    return has_whole_rows(low, buffer, change) &&
           relay_tensor(low, buffer)->extents[2].dim == change->dim;
}

// A product of two, which reads its operator's inputs as they are.
bool relay_is_product(const struct lowering *low, const struct instr *change,
                      const struct instr *instr)
{
    bool is_one = !instr->collective && instr->kind == OP_CONTRACT && !instr->ragged &&
                  instr->input_count == 2 && instr->inputs[0] != instr->inputs[1] &&
                  instr->phase == change->phase && instr->recompute == change->recompute;
    if (!is_one || !relay_tensor(low, instr->outputs[0])) return false;
    for (int i = 0; i < 2; i++) {
        int tensor = low->program->buffers[instr->inputs[i]].tensor;
        if (tensor < 0 || tensor != low->block->ops[instr->op].inputs[i]) return false;
    }
    return true;
}

// Which input has the dim; -1: both, or none.
int relay_input_with(const struct lowering *low, const struct instr *instr, enum dim dim)
{
    bool first = tensor_find_dim(relay_tensor(low, instr->inputs[0]), dim) >= 0;
    bool second = tensor_find_dim(relay_tensor(low, instr->inputs[1]), dim) >= 0;
    return first == second ? -1 : second;
}

// Whether a matrix, or the gradient of one, begins with the dim of a change, all of it: what goes
// with some columns of the other operand stands in one piece.
static bool has_whole_lead(const struct lowering *low, int buffer, const struct instr *change)
{
    const struct buffer *of = &low->program->buffers[buffer];
    const struct tensor *tensor = relay_tensor(low, buffer);
    return tensor && !has_rows(tensor) && tensor->rank > 1 && !of->external &&
           tensor->extents[0].dim == change->dim && layout_axes_on(&of->layout, change->dim) == 0;
}

// Its result has the rows of what was gathered, or it is a weight's gradient, summed over them. Of
// a weight it has its columns, or is summed over those of what it multiplies. Of columns it is
// summed over them, or makes a weight's gradient of those.
bool relay_may_read(const struct lowering *low, const struct instr *gather,
                    const struct instr *reader)
{
    if (!relay_is_product(low, gather, reader)) return false;
    int result = reader->outputs[0];
    int other = reader->inputs[reader->inputs[0] == gather->outputs[0]];
    if (relay_is_of_columns(relay_tensor(low, gather->inputs[0]), gather))
        return relay_input_with(low, reader, gather->dim) < 0
                   ? has_whole_lead(low, other, gather) && !low->program->buffers[result].external
                   : has_whole_lead(low, result, gather);
    if (!has_rows(relay_tensor(low, gather->inputs[0])))
        return relay_input_with(low, reader, gather->dim) < 0
                   ? has_whole_columns(low, other, gather) &&
                         !low->program->buffers[result].external
                   : has_whole_columns(low, result, gather);
    if (tensor_find_dim(relay_tensor(low, result), gather->dim) >= 0)
        return relay_input_with(low, reader, gather->dim) >= 0 &&
               has_whole_rows(low, result, gather);
    return low->program->buffers[result].external && has_whole_rows(low, other, gather);
}

// Its result has the rows of one input, and is partial as the sum is.
bool relay_may_make(const struct lowering *low, const struct instr *scatter,
                    const struct instr *maker, int sum)
{
    if (!relay_is_product(low, scatter, maker)) return false;
    int rows = relay_input_with(low, maker, scatter->dim);
    const struct buffer *made = &low->program->buffers[maker->outputs[0]];
    return rows >= 0 && has_whole_rows(low, maker->inputs[rows], scatter) &&
           has_whole_rows(low, maker->outputs[0], scatter) &&
           layout_equal(&made->layout, &low->program->buffers[sum].layout);
}
