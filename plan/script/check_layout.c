#include "plan/script/checking.h"

#include <string.h>

// The block programs themselves: what a buffer holds follows from its tensor and layout, and what a
// collective does from the layouts on its two sides.

static bool fail(const struct checking *checking, const struct block_program *block, int buffer,
                 const char *what)
{
    return err_set(checking->err, ERR_INPUT, "block %s: %s %s", block->block->name,
                   check_buffer_name(block, buffer), what);
}

// The views of a packed buffer stand one behind another in its rows, and are all of it. Those of
// one place, written over each other, follow each other.
static bool check_packed(const struct checking *checking, const struct block_program *program,
                         int packed)
{
    const struct buffer *buffer = &program->buffers[packed];
    int64_t row = 0, bytes = 0, end = 0;
    for (int v = 0; v < program->view_count; v++) {
        const struct packed_view *view = &program->views[v];
        if (view->whole != packed) continue;
        bool is_again = v > 0 && program->views[v - 1].whole == packed &&
                        program->views[v - 1].first == view->first;
        if (is_again ? program->buffers[view->buffer].bytes !=
                           program->buffers[program->views[v - 1].buffer].bytes
                     : view->first != end)
            return fail(checking, program, view->buffer, "has another place in its packed rows");
        if (is_again) continue;
        row = view->row;
        bytes += program->buffers[view->buffer].bytes;
        end = row * bytes / (buffer->bytes > 0 ? buffer->bytes : 1);
    }
    if (bytes != buffer->bytes || end != row)
        return fail(checking, program, packed, "has another size than what is packed in it");
    return true;
}

// Places of neighbours that a rank has room for: of two ranks each has one neighbour.
static int64_t strips_of(const struct layout *layout, enum dim dim, int64_t parts)
{
    if (dim != DIM_HEIGHT && dim != DIM_WIDTH) return 0;
    const struct halo *halo = &layout->halos[dim == DIM_HEIGHT ? 0 : 1];
    if (parts > 2) return halo->lo + halo->hi;
    return halo->lo > halo->hi ? halo->lo : halo->hi;
}

// Rows of experts and blocks that pass by have room of their own.
static bool check_sizes(const struct checking *checking, int index)
{
    struct program room;
    const struct check_block *block = &checking->blocks[index];
    const struct program *program = program_of_block(checking->program, index, &room);
    const struct mesh *mesh = &program->mesh;
    int64_t batch =
        (int64_t)program->parallel.micro_batch * mesh_size(mesh, mesh_axes_of(mesh, AXIS_DP));
    for (int b = 0; b < block->program->buffer_count; b++) {
        const struct buffer *buffer = &block->program->buffers[b];
        if (buffer->packed && !check_packed(checking, block->program, b)) return false;
        if (buffer->tensor < 0 || buffer->packed || buffer->cast) continue;
        const struct tensor *tensor = &block->program->block->tensors[buffer->tensor];
        if (tensor->density > 0) continue;
        int64_t bytes = lower_element_bytes(tensor->element, program->workload.precision);
        for (int i = 0; i < tensor->rank; i++) {
            int64_t parts = 1,
                    size = extent_size(&tensor->extents[i], batch, program->workload.seq_len);
            for (int a = 0; a < mesh->axis_count; a++) {
                if (buffer->layout.of[a] == (int)tensor->extents[i].dim)
                    parts *= mesh->axes[a].size;
            }
            int64_t held = (size + parts - 1) / parts;
            if (parts > 1) held += strips_of(&buffer->layout, tensor->extents[i].dim, parts);
            bytes *= held < size ? held : size;
        }
        if (buffer->pieces > 0) bytes /= buffer->pieces;
        bool is_right = block->is_streamed[b] ? buffer->bytes <= bytes : buffer->bytes == bytes;
        if (!is_right) return fail(checking, block->program, b, "has another size than its layout");
    }
    return true;
}

// Whether one axis of a collective goes from one state to the other; input in the layout of its
// last writer, which an all-reduce in place may be.
static bool is_change(const struct instr *instr, int from, int to)
{
    switch (instr->collective) {
    case COLLECTIVE_ALL_GATHER:
        return from > 0 && to == LAYOUT_WHOLE;
    case COLLECTIVE_REDUCE_SCATTER:
        return from < 0 && to > 0;
    case COLLECTIVE_ALL_TO_ALL:
        return from > 0 && to > 0 && from != to;
    case COLLECTIVE_SLICE:
        return from == LAYOUT_WHOLE && to > 0;
    case COLLECTIVE_ALL_REDUCE:
        return from == LAYOUT_WHOLE && to == LAYOUT_WHOLE;
    default:
        return false;
    }
}

// Neighbours exchange strips of a dim that is split alike before and after: they are there after,
// or before and then added or left out. The other dim's are as they were.
static bool is_halo_change(const struct instr *instr, const struct layout *from,
                           const struct layout *to)
{
    int d = instr->dim == DIM_HEIGHT ? 0 : 1;
    const struct halo *old = &from->halos[d], *new = &to->halos[d];
    bool is_other_kept = memcmp(&from->halos[1 - d], &to->halos[1 - d], sizeof *old) == 0;
    bool is_same_split = memcmp(from->of, to->of, sizeof from->of) == 0;
    bool is_fetched = !old->lo && !old->hi && (new->lo || new->hi) && !new->sums;
    bool is_dropped = (old->lo || old->hi) && !new->lo && !new->hi && !new->sums;
    if (!is_other_kept || !is_same_split) return false;
    if (instr->collective == COLLECTIVE_SLICE) return is_dropped && !old->sums;
    return instr->combine ? is_dropped && old->sums : is_fetched;
}

static bool has_same_halos(const struct layout *a, const struct layout *b)
{
    return memcmp(a->halos, b->halos, sizeof a->halos) == 0;
}

// Layouts are those of the last writer: what a reduce-scatter leaves partial over other axes an
// all-reduce in place may follow.
static bool is_reduced_later(const struct block_program *program, int from, int axis, int buffer)
{
    for (int i = from + 1; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->collective == COLLECTIVE_ALL_REDUCE && instr->outputs[0] == buffer &&
            instr->axes >> axis & 1)
            return true;
    }
    return false;
}

// Whether a collective goes from the layout of its input to that of its output, in which `program`,
// the block's own, has what each rank holds.
static bool is_right_change(const struct program *program, const struct block_program *block,
                            int index)
{
    const struct instr *instr = &block->instrs[index];
    const struct layout *from = &block->buffers[instr->inputs[0]].layout;
    const struct layout *to = &block->buffers[instr->outputs[0]].layout;
    bool is_in_place = instr->inputs[0] == instr->outputs[0];
    if (is_in_place != (instr->collective == COLLECTIVE_ALL_REDUCE) ||
        block->buffers[instr->inputs[0]].tensor != block->buffers[instr->outputs[0]].tensor)
        return false;
    if (instr->relay) return check_relays(program, block, instr);
    if (!has_same_halos(from, to)) return is_halo_change(instr, from, to);
    for (int a = 0; a < program->mesh.axis_count; a++) {
        bool is_moved = instr->axes >> a & 1;
        bool is_kept =
            from->of[a] == to->of[a] || (from->of[a] < 0 && to->of[a] == LAYOUT_WHOLE &&
                                         is_reduced_later(block, index, a, instr->outputs[0]));
        if (is_moved ? !is_change(instr, from->of[a], to->of[a]) : !is_kept) return false;
    }
    return check_hands_on(program, block, instr);
}

static bool check_instr(const struct checking *checking, const struct program *program,
                        const struct block_program *block, int index)
{
    const struct instr *instr = &block->instrs[index];
    int key = instr->collective ? -1 : check_keys(program, block, instr);
    if (key >= 0)
        return fail(checking, block, key, "is not of the heads of the queries that read it");
    if (instr->rows && !check_parts(program, block, instr))
        return fail(checking, block, instr_part(instr),
                    "is handed on, and not all of its parts are worked on once");
    if (!instr->collective || block->buffers[instr->inputs[0]].tensor < 0) return true;
    return is_right_change(program, block, index) ||
           fail(checking, block, instr->inputs[0],
                arena_print(checking->arena,
                            "has a layout that its %s does not change to what is read",
                            collective_name(instr->collective)));
}

static bool check_instrs(const struct checking *checking, int index)
{
    struct program room;
    const struct program *program = program_of_block(checking->program, index, &room);
    const struct block_program *block = checking->blocks[index].program;
    for (int i = 0; i < block->instr_count; i++)
        if (!check_instr(checking, program, block, i)) return false;
    return true;
}

// The parts that a layout cuts a tensor of a block into.
static int64_t parts_of(const struct program *of, int block, const struct buffer *buffer)
{
    struct program room;
    const struct program *program = program_of_block(of, block, &room);
    int64_t parts = 1;
    for (int a = 0; a < program->mesh.axis_count; a++) {
        if (buffer->layout.of[a] < 0) return 0;
        if (buffer->layout.of[a] > 0) parts *= program->mesh.axes[a].size;
    }
    return parts;
}

bool check_is_resharded(const struct checking *checking, int block_a, const struct buffer *a,
                        int block_b, const struct buffer *b)
{
    const struct program *program = checking->program;
    if (program->origins[block_a].mesh == program->origins[block_b].mesh) return false;
    int64_t parts_a = parts_of(program, block_a, a), parts_b = parts_of(program, block_b, b);
    return parts_a > 0 && parts_b > 0 && a->bytes * parts_a == b->bytes * parts_b;
}

// What one block hands to the next is one tensor in one layout, both ways; where the meshes of two
// stages are unlike, one tensor.
static bool is_same(const struct checking *checking, int block_a, int buffer_a, int block_b,
                    int buffer_b)
{
    const struct block_program *a = checking->program->blocks[block_a];
    const struct block_program *b = checking->program->blocks[block_b];
    if (buffer_a < 0 || buffer_b < 0) return buffer_a == buffer_b;
    const struct buffer *left = &a->buffers[buffer_a], *right = &b->buffers[buffer_b];
    const struct tensor *x = &a->block->tensors[left->tensor];
    const struct tensor *y = &b->block->tensors[right->tensor];
    bool is_same = x->rank == y->rank && x->element == y->element;
    bool is_kept = left->bytes == right->bytes && layout_equal(&left->layout, &right->layout);
    if (!is_kept) is_same = is_same && check_is_resharded(checking, block_a, left, block_b, right);
    for (int i = 0; i < x->rank && is_same; i++)
        is_same =
            x->extents[i].dim == y->extents[i].dim && x->extents[i].size == y->extents[i].size;
    return is_same;
}

static int block_at(const struct checking *checking, int position)
{
    const struct program *program = checking->program;
    for (int s = 0; s < program->shape.stage_count; s++) {
        for (int c = 0; c < program->shape.chunk_count; c++) {
            const struct chunk_span *span = &program->spans[s * program->shape.chunk_count + c];
            if (position < span->first || position >= span->first + span->count) continue;
            return checking->stages[s].block_at[c][position - span->first];
        }
    }
    return -1;
}

// Who reads what a position makes: the next one, but behind the last of a stage of a tree the first
// of the stage that it hands on to, which may have inputs of others in front and behind.
struct reader {
    int position, first_input;
    bool has_others;
};

static struct reader reader_of(const struct program *program, int position)
{
    const struct stage_tree *tree = program->shape.tree;
    for (int s = 0; tree && s < program->shape.stage_count; s++) {
        if (position == program->spans[s].first + program->spans[s].count - 1)
            return (struct reader){program->spans[tree->next[s]].first, tree->first_edge[s], true};
    }
    return (struct reader){position + 1, 0, false};
}

static bool check_edges(const struct checking *checking, int at, int next, struct reader reader)
{
    const struct block_program *front = checking->program->blocks[at];
    const struct block_program *back = checking->program->blocks[next];
    int first = reader.first_input;
    for (int k = 0; k + first < BLOCK_EDGES; k++) {
        if (reader.has_others && front->outputs[k] < 0) continue;
        if (!is_same(checking, at, front->outputs[k], next, back->inputs[k + first]))
            return fail(checking, front, front->outputs[k] >= 0 ? front->outputs[k] : 0,
                        "is handed on in another layout than it is taken");
        int gradient = back->input_gradients[k + first];
        if (!is_same(checking, at, front->output_gradients[k], next, gradient))
            return fail(checking, back, gradient >= 0 ? gradient : 0,
                        "is handed back in another layout than it is taken");
    }
    return true;
}

static bool check_boundaries(const struct checking *checking)
{
    for (int p = 0; p + 1 < checking->program->graph->sequence_count; p++) {
        struct reader reader = reader_of(checking->program, p);
        int at = block_at(checking, p), next = block_at(checking, reader.position);
        if (at < 0 || next < 0)
            return err_set(checking->err, ERR_INPUT, "position %d of the model is on no stage",
                           at >= 0 ? reader.position : p);
        if (!check_edges(checking, at, next, reader)) return false;
    }
    return true;
}

bool check_layouts(const struct checking *checking)
{
    for (int b = 0; b < checking->program->block_count; b++) {
        if (!check_sizes(checking, b) || !check_instrs(checking, b)) return false;
    }
    return check_boundaries(checking);
}
