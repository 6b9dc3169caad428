#include "plan/held.h"

#include <assert.h>

struct held held_of(const struct program *program, const struct tensor *tensor,
                    const struct layout *layout, int rank)
{
    const struct parallel *parallel = &program->parallel;
    int64_t batch = (int64_t)parallel->micro_batch * parallel->degree[AXIS_DP];
    struct held held = {.rank = tensor->rank, .elements = 1};
    for (int i = 0; i < tensor->rank; i++) {
        int64_t size = extent_size(&tensor->extents[i], batch, program->workload.seq_len);
        struct slice slice =
            layout_held(layout, &program->mesh, tensor->extents[i].dim, size, rank);
        held.first[i] = slice.first;
        held.count[i] = slice.count;
        held.elements *= slice.count;
    }
    return held;
}

int held_rank_over(const struct mesh *mesh, unsigned axes, int index, int rank)
{
    assert(index >= 0);
    for (int a = 0; a < mesh->axis_count; a++) {
        const struct mesh_axis *axis = &mesh->axes[a];
        if (!(axes >> a & 1)) continue;
        rank += (index % axis->size - mesh_coordinate(mesh, a, rank)) * axis->stride;
        index /= axis->size;
    }
    return rank;
}

static int place_over(const struct mesh *mesh, unsigned axes, int rank)
{
    int index = 0, size = 1;
    for (int a = 0; a < mesh->axis_count; a++) {
        if (!(axes >> a & 1)) continue;
        index += size * mesh_coordinate(mesh, a, rank);
        size *= mesh->axes[a].size;
    }
    return index;
}

int held_rank_before(const struct mesh *mesh, unsigned axes, int count, int rank)
{
    int size = mesh_size(mesh, axes), index = place_over(mesh, axes, rank) - count;
    return held_rank_over(mesh, axes, (index % size + size) % size, rank);
}

static int pieces_of(const struct buffer *buffer)
{
    return buffer->pieces > 0 ? buffer->pieces : 1;
}

int held_turns(const struct mesh *mesh, const struct buffer *buffer)
{
    return mesh_size(mesh, buffer->relay_axes) * pieces_of(buffer);
}

// The part that a rank holds, of all that turns are of, in the order of the dim.
static int number_of(const struct mesh *mesh, const struct buffer *buffer, int rank)
{
    int turns = held_turns(mesh, buffer), step = turns / mesh_size(mesh, buffer->skew_axes);
    int ahead = place_over(mesh, buffer->relay_axes, rank) * pieces_of(buffer) +
                place_over(mesh, buffer->skew_axes, rank) * step - buffer->behind;
    return (ahead % turns + turns) % turns;
}

// The place in the group of the member whose own a rank holds, or a piece of it.
static int owner_of(const struct mesh *mesh, unsigned axes, const struct buffer *buffer, int rank)
{
    if (!buffer->relay_axes || buffer->is_own) return place_over(mesh, axes, rank);
    return number_of(mesh, buffer, rank) / pieces_of(buffer);
}

int held_rank_with(const struct mesh *mesh, unsigned axes, const struct buffer *of,
                   const struct buffer *like, int rank)
{
    int owner = owner_of(mesh, axes, like, rank);
    for (int i = 0; i < mesh_size(mesh, axes); i++) {
        int member = held_rank_over(mesh, axes, i, rank);
        if (owner_of(mesh, axes, of, member) == owner) return member;
    }
    return -1;
}

int held_moving(const struct mesh *mesh, const struct buffer *part)
{
    int moving = 0;
    for (int i = 0; i < mesh_size(mesh, part->skew_axes); i++) {
        int rank = held_rank_over(mesh, part->skew_axes, i, mesh->first_rank);
        moving += owner_of(mesh, part->relay_axes, part, rank) !=
                  place_over(mesh, part->relay_axes, rank);
    }
    return moving;
}

// Of what a member holds the piece that is a part of a turn.
static void cut_piece(const struct buffer *of, const struct tensor *tensor, int piece,
                      struct held *held)
{
    for (int i = 0; i < tensor->rank; i++) {
        if (!(layout_axes_on(&of->layout, tensor->extents[i].dim) & of->relay_axes)) continue;
        assert(held->count[i] % of->pieces == 0);
        held->count[i] /= of->pieces;
        held->first[i] += piece * held->count[i];
        held->elements /= of->pieces;
    }
}

struct held held_of_buffer(const struct program *program, const struct block_program *block,
                           int buffer, int rank)
{
    const struct buffer *of = &block->buffers[buffer];
    const struct mesh *mesh = &program->mesh;
    const struct tensor *tensor = &block->block->tensors[of->tensor];
    if (!of->relay_axes) return held_of(program, tensor, &of->layout, rank);
    int member =
        held_rank_over(mesh, of->relay_axes, owner_of(mesh, of->relay_axes, of, rank), rank);
    struct held held = held_of(program, tensor, &of->layout, member);
    if (of->pieces > 1) cut_piece(of, tensor, number_of(mesh, of, rank) % of->pieces, &held);
    return held;
}

struct held held_of_operand(const struct program *program, const struct block_program *block,
                            const struct instr *instr, int buffer, int rank)
{
    struct held held = held_of_buffer(program, block, buffer, rank);
    int part = instr->rows ? instr_part(instr) : buffer;
    if (buffer == part) return held;
    const struct tensor *whole = &block->block->tensors[block->buffers[buffer].tensor];
    const struct tensor *passing = &block->block->tensors[block->buffers[part].tensor];
    int at = tensor_find_dim(whole, instr->dim), from = tensor_find_dim(passing, instr->dim);
    if (at < 0) return held;
    struct held rows = held_of_buffer(program, block, part, rank), cut = held;
    cut.first[at] = rows.first[from];
    cut.count[at] = rows.count[from];
    return held_overlap(&held, &cut);
}

struct held held_overlap(const struct held *a, const struct held *b)
{
    assert(a->rank == b->rank && "parts of one tensor");
    struct held part = {.rank = a->rank, .elements = 1};
    for (int i = 0; i < a->rank; i++) {
        int64_t first = a->first[i] > b->first[i] ? a->first[i] : b->first[i];
        int64_t a_end = a->first[i] + a->count[i], b_end = b->first[i] + b->count[i];
        int64_t end = a_end < b_end ? a_end : b_end;
        part.first[i] = first;
        part.count[i] = end > first ? end - first : 0;
        part.elements *= part.count[i];
    }
    return part;
}

bool held_equal(const struct held *a, const struct held *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->first[i] != b->first[i] || a->count[i] != b->count[i]) return false;
    }
    return true;
}
