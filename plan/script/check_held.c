#include "core/divisor.h"
#include "plan/held.h"
#include "plan/script/checking.h"

// What each rank holds, box by box, where the axes of a layout one by one do not say it: of a dim
// that several axes split, whose digits have an order, and of query heads and their keys.

// All axes on the dims that a collective's axes split before or after it; 0 where each of these is
// split by one, of which there is nothing to order.
static unsigned axes_in_order(const struct mesh *mesh, const struct instr *instr,
                              const struct layout *from, const struct layout *to)
{
    unsigned axes = 0;
    bool is_ordered = false;
    for (int a = 0; a < mesh->axis_count; a++) {
        const int8_t parts[] = {from->of[a], to->of[a]};
        for (int i = 0; i < 2 && instr->axes >> a & 1; i++) {
            if (parts[i] <= 0) continue;
            enum dim dim = (enum dim)parts[i];
            unsigned on = layout_axes_on(from, dim) | layout_axes_on(to, dim);
            is_ordered |= (on & (on - 1)) != 0;
            axes |= on;
        }
    }
    return is_ordered ? axes : 0;
}

// A gather and an exchange hand a rank all that it holds then, each element once; a slice and a sum
// leave it part of what it held.
static bool is_handed_on(const struct program *program, const struct block_program *block,
                         const struct instr *instr, int rank)
{
    struct held after = held_of_buffer(program, block, instr->outputs[0], rank);
    bool gathers =
        instr->collective == COLLECTIVE_ALL_GATHER || instr->collective == COLLECTIVE_ALL_TO_ALL;
    int members = gathers ? mesh_size(&program->mesh, instr->axes) : 1;
    int64_t elements = 0;
    for (int m = 0; m < members; m++) {
        int member = gathers ? held_rank_over(&program->mesh, instr->axes, m, rank) : rank;
        struct held before = held_of_buffer(program, block, instr->inputs[0], member);
        elements += held_overlap(&before, &after).elements;
    }
    return elements == after.elements;
}

// How many in the relay of an instruction, in front of it or behind it, hand on (or add up) what
// its first input has, or make of such what its output is.
static int count_beside(const struct block_program *block, const struct instr *instr,
                        enum collective collective, int input, int output)
{
    int count = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *other = &block->instrs[i];
        if (other->relay != instr->relay || other->collective != collective) continue;
        count += output >= 0 && other < instr && other->outputs[0] == output;
        count += input >= 0 && other > instr && other->inputs[0] == input;
    }
    return count;
}

// What came is added once to the own part, which then goes on, but for that of the rank itself; or
// to the gradient of the state, whose operand says whether it has been begun.
static bool is_added(const struct block_program *block, const struct instr *instr)
{
    const struct buffer *to = &block->buffers[instr->outputs[0]];
    const struct buffer *came = &block->buffers[instr->inputs[0]];
    if (to->external || came->is_own) {
        // Of each piece the first is put where none is yet.
        bool is_first = !to->external && came->behind<came->pieces, is_begun = came->behind> 0;
        return instr->input_count == 1 + (!to->external && is_begun) &&
               instr->combine == (is_first ? 0 : LAYOUT_SUM) && !to->behind &&
               (came->is_own || !came->behind) &&
               (instr->input_count == 1 || instr->inputs[1] == instr->outputs[0]) &&
               count_beside(block, instr, COLLECTIVE_SEND_RECV, -1, instr->inputs[0]) == 1 &&
               count_beside(block, instr, COLLECTIVE_SEND_RECV, instr->outputs[0], -1) == 0;
    }
    bool is_in_place = instr->input_count == 2 && instr->inputs[1] == instr->outputs[0] &&
                       instr->combine == LAYOUT_SUM;
    return is_in_place && to->behind == came->behind &&
           count_beside(block, instr, COLLECTIVE_SEND_RECV, -1, instr->inputs[0]) == 1 &&
           count_beside(block, instr, COLLECTIVE_SEND_RECV, instr->outputs[0], -1) ==
               (to->behind > 0);
}

// A piece of a rank's own is handed on once.
static bool is_cut(const struct block_program *block, const struct instr *instr)
{
    const struct buffer *own = &block->buffers[instr->inputs[0]];
    return !own->relay_axes && instr->input_count == 1 && instr->combine == 0 &&
           count_beside(block, instr, COLLECTIVE_SEND_RECV, instr->outputs[0], -1) == 1;
}

static bool is_of_group(const struct buffer *buffer, const struct instr *instr)
{
    bool is_split = (layout_axes_on(&buffer->layout, instr->dim) & instr->axes) == instr->axes;
    return is_split && (!buffer->relay_axes || buffer->relay_axes == instr->axes);
}

static bool is_paired(const struct buffer *buffer)
{
    return buffer->skew_axes != 0 && !buffer->is_own;
}

// What each rank holds of two buffers is the same; `axes`: those that the answer differs over.
static bool holds_alike(const struct program *program, const struct block_program *block, int a,
                        int b, unsigned axes, enum dim dim)
{
    const struct tensor *of_a = &block->block->tensors[block->buffers[a].tensor];
    const struct tensor *of_b = &block->block->tensors[block->buffers[b].tensor];
    int at = tensor_find_dim(of_a, dim), bt = tensor_find_dim(of_b, dim);
    for (int i = 0; i < mesh_size(&program->mesh, axes); i++) {
        int rank = held_rank_over(&program->mesh, axes, i, program->mesh.first_rank);
        struct held x = held_of_buffer(program, block, a, rank);
        struct held y = held_of_buffer(program, block, b, rank);
        if (x.first[at] != y.first[bt] || x.count[at] != y.count[bt]) return false;
    }
    return true;
}

// Whether each turn's part of what a message is of is sent once, and what comes adds up: the first
// is the sum and the others are added to it, or all are put or added where they are of, in the
// gradient of the state or as pieces.
static bool is_summed_up(const struct block_program *block, const struct instr *instr, int turns)
{
    const struct buffer *from = &block->buffers[instr->inputs[0]];
    int sent = 0, sums = 0, added = 0, puts = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *other = &block->instrs[i];
        const struct buffer *to = &block->buffers[other->outputs[0]];
        if (other->relay != instr->relay || to->tensor != from->tensor) continue;
        if (other->collective == COLLECTIVE_SLICE) {
            sums++;
            puts += to->external;
            added += other->inputs[0] == instr->outputs[0];
        }
        if (other->collective != COLLECTIVE_SEND_RECV) continue;
        const struct buffer *source = &block->buffers[other->inputs[0]];
        if (!is_paired(source)) continue;
        if (other != instr && source->behind == from->behind) return false;
        sent++;
    }
    if (sent != turns) return false;
    if (puts) return puts == turns && sums == turns && added == 1;
    if (from->pieces) return sums == turns && added == 1;
    return sums == turns - 1 && added <= 1 && (from->behind == 0) == !added;
}

// A message of a pair brings, from whom the turn says, what a rank works on then; or to whom it is
// of what a rank made in a turn, each turn's once, of which the first is the sum and the others are
// added to it.
static bool is_turn(const struct program *program, const struct block_program *block,
                    const struct instr *instr)
{
    const struct mesh *mesh = &program->mesh;
    const struct buffer *from = &block->buffers[instr->inputs[0]];
    const struct buffer *to = &block->buffers[instr->outputs[0]];
    const struct buffer *part = is_paired(to) ? to : from, *own = is_paired(to) ? from : to;
    int turns = held_turns(mesh, part), members = mesh_size(mesh, part->skew_axes);
    if (is_paired(own) || own->pieces != part->pieces ||
        own->behind != (part->pieces ? part->behind : 0) || part->relay_axes != instr->axes ||
        part->skew_axes & instr->axes || part->behind >= turns ||
        common_multiple(mesh_size(mesh, instr->axes), members) != turns)
        return false;
    unsigned axes = instr->axes | part->skew_axes;
    for (int i = 0; i < mesh_size(mesh, axes); i++) {
        int rank = held_rank_over(mesh, axes, i, mesh->first_rank);
        int before = held_rank_with(mesh, instr->axes, from, to, rank);
        if (before < 0 || held_rank_with(mesh, instr->axes, to, from, before) != rank) return false;
        struct held sent = held_of_buffer(program, block, instr->inputs[0], before);
        struct held taken = held_of_buffer(program, block, instr->outputs[0], rank);
        if (!held_equal(&sent, &taken)) return false;
    }
    return part == to || is_summed_up(block, instr, turns);
}

bool check_relays(const struct program *program, const struct block_program *block,
                  const struct instr *instr)
{
    const struct mesh *mesh = &program->mesh;
    const struct buffer *from = &block->buffers[instr->inputs[0]];
    const struct buffer *to = &block->buffers[instr->outputs[0]];
    int members = mesh_size(mesh, instr->axes);
    if (!is_of_group(from, instr) || !is_of_group(to, instr) ||
        !layout_equal(&from->layout, &to->layout))
        return false;
    if (to->is_own && instr->collective == COLLECTIVE_SLICE) return is_cut(block, instr);
    if (instr->collective == COLLECTIVE_SLICE) return is_added(block, instr);
    if (is_paired(from) || is_paired(to)) return is_turn(program, block, instr);
    // A part that came back would be the rank's own: only a sum does, with what others have of it.
    int sums = count_beside(block, instr, COLLECTIVE_SLICE, instr->outputs[0], -1);
    if (to->behind != (from->behind + 1) % members || (!to->behind && sums != 1)) return false;
    if (sums &&
        count_beside(block, instr, COLLECTIVE_SLICE, -1, instr->inputs[0]) != (from->behind > 1))
        return false;
    for (int i = 0; i < members; i++) {
        int rank = held_rank_over(mesh, instr->axes, i, mesh->first_rank);
        int before = held_rank_over(mesh, instr->axes, (i + members - 1) % members, rank);
        struct held sent = held_of_buffer(program, block, instr->inputs[0], before);
        struct held taken = held_of_buffer(program, block, instr->outputs[0], rank);
        if (!held_equal(&sent, &taken)) return false;
    }
    return true;
}

// Whether both work on parts of one relay, for one operator.
static bool is_alike(const struct instr *a, const struct instr *b)
{
    return !a->collective && a->rows == b->rows && a->relay == b->relay && a->op == b->op;
}

// What an instruction has of an operand whose parts are worked on one by one, as far as others that
// are alike work on it: of each of its buffers all indices once.
static bool is_worked_on(const struct program *program, const struct block_program *block,
                         const struct instr *instr, int buffer)
{
    int rank = program->mesh.first_rank;
    struct held whole = held_of_buffer(program, block, buffer, rank);
    int64_t elements = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *other = &block->instrs[i];
        if (!is_alike(other, instr)) continue;
        struct held part = held_of_operand(program, block, other, buffer, rank);
        for (int k = i + 1; k < block->instr_count; k++) {
            const struct instr *next = &block->instrs[k];
            if (!is_alike(next, instr)) continue;
            struct held twin = held_of_operand(program, block, next, buffer, rank);
            if (held_overlap(&part, &twin).elements > 0) return false;
        }
        elements += part.elements;
    }
    return elements == whole.elements;
}

// Parts of a sum are one more than the times that one is added to another.
static bool is_summed(const struct block_program *block, const struct instr *instr)
{
    int parts = 0, sums = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *other = &block->instrs[i];
        parts += is_alike(other, instr);
        sums += other->collective == COLLECTIVE_SLICE && other->relay == instr->relay;
    }
    return parts == sums + 1;
}

// Of a pair the products of one operator are one a turn, and all that they read and make of the dim
// is of one part on each rank.
static bool is_in_turn(const struct program *program, const struct block_program *block,
                       const struct instr *instr)
{
    int passing = instr_part(instr), turns = 0;
    const struct buffer *part = &block->buffers[passing];
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *other = &block->instrs[i];
        if (!is_alike(other, instr)) continue;
        if (other != instr && block->buffers[instr_part(other)].behind == part->behind)
            return false;
        turns++;
    }
    int others = 0;
    for (int k = 0; k < instr->input_count + instr->output_count; k++) {
        int b = k < instr->input_count ? instr->inputs[k] : instr->outputs[k - instr->input_count];
        const struct tensor *tensor = &block->block->tensors[block->buffers[b].tensor];
        if (b == passing || tensor_find_dim(tensor, instr->dim) < 0) continue;
        others++;
        if (!holds_alike(program, block, b, passing, part->relay_axes | part->skew_axes,
                         instr->dim))
            return false;
    }
    return others == 1 && turns == held_turns(&program->mesh, part);
}

bool check_parts(const struct program *program, const struct block_program *block,
                 const struct instr *instr)
{
    int passing = instr_part(instr);
    if (is_paired(&block->buffers[passing])) return is_in_turn(program, block, instr);
    if (instr->rows > instr->input_count && !is_summed(block, instr)) return false;
    for (const struct instr *other = block->instrs; other < instr; other++)
        if (is_alike(other, instr)) return true;  // with the first of them
    for (int k = 0; k < instr->input_count + instr->output_count; k++) {
        int b = k < instr->input_count ? instr->inputs[k] : instr->outputs[k - instr->input_count];
        const struct tensor *tensor = &block->block->tensors[block->buffers[b].tensor];
        bool is_cut = b != passing && tensor_find_dim(tensor, instr->dim) >= 0;
        if (is_cut && !is_worked_on(program, block, instr, b)) return false;
    }
    return true;
}

bool check_hands_on(const struct program *program, const struct block_program *block,
                    const struct instr *instr)
{
    const struct mesh *mesh = &program->mesh;
    const struct layout *from = &block->buffers[instr->inputs[0]].layout;
    const struct layout *to = &block->buffers[instr->outputs[0]].layout;
    unsigned axes = axes_in_order(mesh, instr, from, to);
    for (int i = 0; axes && i < mesh_size(mesh, axes); i++) {
        if (!is_handed_on(program, block, instr, held_rank_over(mesh, axes, i, mesh->first_rank)))
            return false;
    }
    return true;
}

// The operand of an instruction that has this dim and not the other: its buffer, or -1.
static int operand_with(const struct block_program *block, const struct instr *instr, int operand,
                        enum dim dim, enum dim other)
{
    int buffer = operand < instr->input_count ? instr->inputs[operand]
                                              : instr->outputs[operand - instr->input_count];
    int tensor = buffer >= 0 ? block->buffers[buffer].tensor : -1;
    if (tensor < 0) return -1;
    const struct tensor *of = &block->block->tensors[tensor];
    return tensor_find_dim(of, dim) >= 0 && tensor_find_dim(of, other) < 0 ? buffer : -1;
}

static int64_t size_of(const struct block_program *block, int buffer, enum dim dim)
{
    const struct tensor *tensor = &block->block->tensors[block->buffers[buffer].tensor];
    return tensor->extents[tensor_find_dim(tensor, dim)].size;
}

// Query head h reads key head h * keys / queries.
static bool has_keys(const struct program *program, const struct block_program *block, int query,
                     int key)
{
    const struct mesh *mesh = &program->mesh;
    const struct layout *q = &block->buffers[query].layout, *k = &block->buffers[key].layout;
    int64_t queries = size_of(block, query, DIM_HEAD), keys = size_of(block, key, DIM_KV_HEAD);
    unsigned axes = layout_axes_on(q, DIM_HEAD) | layout_axes_on(k, DIM_KV_HEAD);
    for (int i = 0; axes && i < mesh_size(mesh, axes); i++) {
        int rank = held_rank_over(mesh, axes, i, mesh->first_rank);
        struct slice heads = layout_slice(q, mesh, DIM_HEAD, queries, rank);
        struct slice held = layout_slice(k, mesh, DIM_KV_HEAD, keys, rank);
        int64_t first = heads.first * keys / queries;
        int64_t last = (heads.first + heads.count - 1) * keys / queries;
        if (heads.count && (first < held.first || last >= held.first + held.count)) return false;
    }
    return true;
}

int check_keys(const struct program *program, const struct block_program *block,
               const struct instr *instr)
{
    int count = instr->input_count + instr->output_count;
    for (int a = 0; a < count; a++) {
        int query = operand_with(block, instr, a, DIM_HEAD, DIM_KV_HEAD);
        for (int b = 0; b < count && query >= 0; b++) {
            int key = operand_with(block, instr, b, DIM_KV_HEAD, DIM_HEAD);
            if (key >= 0 && !has_keys(program, block, query, key)) return key;
        }
    }
    return -1;
}
