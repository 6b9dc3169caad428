#include "tests/support/index_sets_machine.h"

#include <string.h>

// Collectives by their plain meaning on sets: a gather is the union of what a group holds, a
// reduction the sum of its multisets, and what a rank keeps is the slice that the result claims.

static bool is_member(const struct index_machine *m, const struct instr *instr, int rank, int other)
{
    unsigned axes = instr->collective == COLLECTIVE_SLICE ? 0 : instr->axes;
    return sets_same_group(m->mesh, axes, rank, other);
}

// The experts' rows travel on the streams of their roles.
static enum axis stream_of(const struct index_machine *m, const struct instr *instr, int axis)
{
    int tensor = m->program->buffers[instr->inputs[0]].tensor;
    const struct mesh_axis *at = &m->mesh->axes[axis];
    bool is_rows = tensor >= 0 && tensor_find_dim(&m->block->tensors[tensor], DIM_EXPERT) >= 0;
    bool counts = tensor < 0 && instr->op >= 0 && m->block->ops[instr->op].kind == OP_DISPATCH;
    return (is_rows || counts) && at->expert != AXIS_DP ? at->expert : at->parent;
}

static void check_axes(struct index_machine *m, const struct instr *instr)
{
    unsigned all = (1u << m->mesh->axis_count) - 1;
    bool has_parent = false, is_outermost = true;
    for (int a = 0; a < m->mesh->axis_count; a++) {
        if (!(instr->axes >> a & 1)) continue;
        enum axis stream = stream_of(m, instr, a);
        has_parent = has_parent || stream == instr->parent;
        is_outermost = is_outermost && stream <= instr->parent;
    }
    bool right = instr->axes && (instr->axes & ~all) == 0 && has_parent && is_outermost;
    if (!right) sets_complain(m, instr->inputs[0], "a collective over the wrong axes");
}

// Everything is in whole elements, so that the sizes of what is sent follow from the buffers.
static void check_bytes(struct index_machine *m, const struct instr *instr)
{
    int input = instr->inputs[0], output = instr->outputs[0];
    int tensor = m->program->buffers[input].tensor;
    if (m->block->tensors[tensor].density > 0 || instr->ragged) return;
    int64_t before = sets_bytes(m, tensor, &m->held[input].claim);
    int64_t after = sets_bytes(m, tensor, &m->held[output].claim), bytes = before;
    if (instr->collective == COLLECTIVE_ALL_GATHER) bytes = after;
    if (instr->collective == COLLECTIVE_ALL_TO_ALL && after > before) bytes = after;
    if (instr->bytes != bytes) sets_complain(m, input, "a collective of the wrong size");
}

// What the layouts say before and after differs over the axes of the collective and no other.
static void check_changed(struct index_machine *m, const struct instr *instr,
                          const struct layout *before)
{
    const struct layout *after = &m->held[instr->outputs[0]].claim;
    for (int a = 0; a < m->mesh->axis_count; a++) {
        bool changes = before->of[a] != after->of[a];
        if (changes == (instr->axes >> a & 1)) continue;
        sets_complain(m, instr->outputs[0], "a collective over other axes than its layouts say");
    }
}

// On ranks of one group the slices differ along `dim` and no other.
static bool varies_only(const struct index_machine *m, const struct instr *instr,
                        const struct index_box *boxes[2], enum dim dim)
{
    const struct tensor *tensor = &m->block->tensors[m->program->buffers[instr->inputs[0]].tensor];
    int position = tensor_find_dim(tensor, dim);
    if (position < 0) return false;
    for (int e = 0; e < tensor->rank; e++) {
        bool same =
            boxes[0]->first[e] == boxes[1]->first[e] && boxes[0]->count[e] == boxes[1]->count[e];
        if (e != position && !same) return false;
    }
    return true;
}

// The dims that the instruction names are those along which the slices change.
static void check_dims(struct index_machine *m, const struct instr *instr)
{
    int input = instr->inputs[0], output = instr->outputs[0];
    const struct tensor *tensor = &m->block->tensors[m->program->buffers[input].tensor];
    if (instr->collective == COLLECTIVE_ALL_REDUCE) return;
    bool right = true, grows = false, shrinks = false;
    int gathered = tensor_find_dim(tensor, instr->dim);
    int scattered = tensor_find_dim(tensor, instr->to_dim);
    for (int rank = 0; rank < m->mesh->rank_count; rank++) {
        const struct index_box *boxes[] = {&m->held[input].boxes[rank],
                                           &m->held[output].boxes[rank]};
        if (boxes[0]->elements == 0 || boxes[1]->elements == 0) continue;
        if (instr->collective != COLLECTIVE_ALL_TO_ALL) {
            right = right && varies_only(m, instr, boxes, instr->dim);
            continue;
        }
        right = gathered >= 0 && scattered >= 0;
        if (!right) break;
        grows = grows || boxes[1]->count[gathered] > boxes[0]->count[gathered];
        shrinks = shrinks || boxes[1]->count[scattered] < boxes[0]->count[scattered];
    }
    if (instr->collective == COLLECTIVE_ALL_TO_ALL) right = right && grows && shrinks;
    if (!right) sets_complain(m, input, "a collective along the wrong dim");
}

static bool sums(const struct instr *instr)
{
    return instr->collective == COLLECTIVE_ALL_REDUCE ||
           instr->collective == COLLECTIVE_REDUCE_SCATTER;
}

// What one rank has of one element after the collective.
static uint64_t combined(struct index_machine *m, const struct instr *instr, int rank,
                         const int64_t index[VIEW_RANK_MAX])
{
    const struct index_held *from = &m->held[instr->inputs[0]];
    int holders = 0, members = 0;
    uint64_t value = 0;
    for (int other = 0; other < m->mesh->rank_count; other++) {
        if (!is_member(m, instr, rank, other)) continue;
        int64_t at = box_place(&from->boxes[other], index);
        members++;
        if (at < 0) continue;
        value = field_add(value, from->values[other][at]);
        holders++;
    }
    if (sums(instr) && holders != members) {
        sets_complain(m, instr->inputs[0], "a sum over ranks that hold different elements");
    } else if (holders == 0) {
        sets_complain(m, instr->outputs[0], "an element that no rank of the group holds");
    } else if (!sums(instr) && holders > 1) {
        sets_complain(m, instr->inputs[0], "an element comes from more than one rank");
    }
    return value;
}

// Nothing that the group held is dropped: gathers and all-to-alls keep every element, once a rank
// or once a group.
static void check_kept(struct index_machine *m, const struct instr *instr,
                       const struct index_box *before)
{
    for (int rank = 0; rank < m->mesh->rank_count; rank++) {
        int64_t held = 0, kept = 0;
        for (int other = 0; other < m->mesh->rank_count; other++) {
            if (!is_member(m, instr, rank, other)) continue;
            held += before[other].elements;
            kept += m->held[instr->outputs[0]].boxes[other].elements;
        }
        bool gathers = instr->collective == COLLECTIVE_ALL_GATHER;
        if (gathers) kept = m->held[instr->outputs[0]].boxes[rank].elements;
        bool is_checked = gathers || instr->collective == COLLECTIVE_ALL_TO_ALL ||
                          instr->collective == COLLECTIVE_REDUCE_SCATTER;
        if (instr->collective == COLLECTIVE_REDUCE_SCATTER) held = before[rank].elements;
        if (is_checked && held != kept) {
            sets_complain(m, instr->outputs[0], "what the group held is not what it keeps");
        }
    }
}

static bool is_cut_short(const struct index_machine *m, const struct instr *instr)
{
    int ranks = 1;
    for (int a = 0; a < m->mesh->axis_count; a++) {
        if (instr->axes >> a & 1) ranks *= m->mesh->axes[a].size;
    }
    return instr->collective == COLLECTIVE_ALL_GATHER && instr->streamed &&
           instr->stream_steps < ranks - 1;
}

// A stream of few steps brings a rank its own block and so many before it, as a window wants them.
static void cut_short(struct index_machine *m, const struct instr *instr)
{
    const struct index_held *from = &m->held[instr->inputs[0]], *to = &m->held[instr->outputs[0]];
    const struct tensor *tensor = &m->block->tensors[m->program->buffers[instr->inputs[0]].tensor];
    int e = tensor_find_dim(tensor, instr->dim);
    for (int rank = 0; rank < m->mesh->rank_count && e >= 0; rank++) {
        struct index_box *box = &to->boxes[rank];
        const struct index_box *own = &from->boxes[rank];
        if (box->elements == 0 || own->count[e] == 0) continue;
        int64_t first = own->first[e] - own->count[e] * instr->stream_steps;
        box->elements /= box->count[e];
        box->first[e] = first > 0 ? first : 0;
        box->count[e] = own->first[e] + own->count[e] - box->first[e];
        box->elements *= box->count[e];
    }
}

static void move(struct index_machine *m, const struct instr *instr)
{
    int input = instr->inputs[0], output = instr->outputs[0];
    struct index_held from = m->held[input];
    const struct index_box *before = from.boxes;
    // Where the result is the operand, what was there is still read.
    sets_make_room(m, output);
    if (is_cut_short(m, instr)) cut_short(m, instr);
    struct index_held to = m->held[output];
    if (input == output) {
        from.claim = to.claim;
        m->held[input] = from;
    }
    for (int rank = 0; rank < m->mesh->rank_count && !m->result->violation_count; rank++) {
        for (int64_t i = 0; i < to.boxes[rank].elements; i++) {
            int64_t index[VIEW_RANK_MAX];
            box_index(&to.boxes[rank], i, index);
            to.values[rank][i] = combined(m, instr, rank, index);
            if (m->result->violation_count) break;
        }
    }
    memcpy(to.terms, from.terms, sizeof to.terms);
    to.term_count = from.term_count;
    m->held[output] = to;
    if (!m->result->violation_count && !is_cut_short(m, instr)) check_kept(m, instr, before);
}

// Without room for all, a rank must know how many rows a dispatch sends before they come, from the
// ranks that have other experts or, gathered, from those that have other parts of the same ones;
// what is dispatched again is counted again.
static bool is_made_again(const struct index_machine *m, int op)
{
    for (int i = 0; i < m->program->instr_count; i++) {
        const struct instr *instr = &m->program->instrs[i];
        if (instr->op == op && instr->recompute && !instr->collective) return true;
    }
    return false;
}

static void check_counts(struct index_machine *m, const struct instr *instr)
{
    int tensor = m->program->buffers[instr->inputs[0]].tensor;
    int producer = m->block->tensors[tensor].producer;
    bool moves = instr->phase == PHASE_FORWARD || instr->recompute;
    bool is_sent = producer >= 0 && m->block->ops[producer].kind == OP_DISPATCH;
    bool brings =
        instr->collective == COLLECTIVE_ALL_TO_ALL || instr->collective == COLLECTIVE_ALL_GATHER;
    if (!moves || !is_sent || !instr->ragged || !brings) return;
    bool is_again = instr->recompute && is_made_again(m, producer);
    unsigned counted = m->counted_axes[producer][is_again];
    if (instr->axes & ~counted) sets_complain(m, instr->inputs[0], "rows come before their counts");
}

static void note_counts(struct index_machine *m, const struct instr *instr)
{
    bool right = instr->collective == COLLECTIVE_ALL_GATHER && instr->inner == 1;
    if (!right) sets_violate(m->result, "counts of rows are not gathered");
    m->counted_axes[instr->op][instr->recompute] |= instr->axes;
}

// A layer norm needs the mean before the variance; backward needs both again, and then means of the
// gradient and of its product with what was normalised. RMS norm has no means of values.
static int reductions_of(const struct op *op)
{
    if (op_is_loss(op->kind)) return 3;
    int moments = op->function == FUNCTION_LAYER_NORM ? 2 : 1;
    return op->kind == OP_NORM ? moments : 2 * moments;
}

// An operator reads and writes on until its last exchange is done.
static void check_alive(struct index_machine *m, const struct instr *around)
{
    for (int i = 0; i < around->input_count + around->output_count; i++) {
        bool reads = i < around->input_count;
        int b = reads ? around->inputs[i] : around->outputs[i - around->input_count];
        if (m->at >= m->program->buffers[b].death) sets_complain(m, b, "is gone in an exchange");
    }
}

// The vocabulary-parallel loss: its maximum, its sum of exponentials and its target logit are
// reduced, in this order, over the axes that split the logits. Only then are its outputs there.
static void reduce_inner(struct index_machine *m, const struct instr *instr)
{
    unsigned axes = 0;
    if (!m->waiting || m->waiting->op != instr->op) {
        sets_violate(m->result, "an inner reduction of nothing");
        return;
    }
    const struct op *op = &m->block->ops[m->waiting->op];
    bool is_loss = op_is_loss(op->kind);
    const struct index_held *split = &m->held[m->waiting->inputs[sets_columns_input(op)]];
    const struct tensor *tensor = &m->block->tensors[op->inputs[0]];
    enum dim dim = is_loss ? DIM_VOCAB : tensor->extents[tensor->rank - 1].dim;
    for (int a = 0; a < m->mesh->axis_count; a++) {
        if (split->claim.of[a] == (int8_t)dim) axes |= 1u << a;
    }
    int8_t combine = m->inner_done == 0 && is_loss ? LAYOUT_MAX : LAYOUT_SUM;
    bool right = instr->collective == COLLECTIVE_ALL_REDUCE && instr->axes == axes &&
                 instr->combine == combine && instr->inner == m->inner_done + 1;
    if (!right) sets_violate(m->result, "inner reduction %d is wrong", m->inner_done + 1);
    if (++m->inner_done < reductions_of(op)) return;
    const struct instr *loss = m->waiting;
    struct instr sum = {.collective = COLLECTIVE_ALL_REDUCE, .axes = axes};
    m->waiting = NULL;
    if (op->kind != OP_LOSS) check_alive(m, loss);
    if (!is_loss) {
        sets_carry_out(m, loss, axes);
        for (int i = 0; i < loss->output_count && !m->result->violation_count; i++)
            sets_check_claim(m, loss->outputs[i]);
        return;
    }
    for (int i = 0; i < loss->output_count && !m->result->violation_count; i++) {
        sum.inputs[0] = sum.outputs[0] = loss->outputs[i];
        move(m, &sum);
        sets_check_claim(m, loss->outputs[i]);
    }
}

static void note_flat(struct index_machine *m, const struct instr *instr)
{
    bool right = instr->parameter && m->flat_count < FLAT_MAX &&
                 (instr->combine == LAYOUT_SUM) == sums(instr);
    if (!right) {
        sets_violate(m->result, "a flat collective of no parameters");
        return;
    }
    m->flats[m->flat_count++] =
        (struct flat){instr->collective, instr->phase, instr->axes, instr->bytes};
}

void sets_communicate(struct index_machine *m, const struct instr *instr)
{
    if (instr->relay) return sets_hand_on(m, instr);
    if (instr->input_count != 1 || instr->output_count != 1) {
        sets_violate(m->result, "a collective of several buffers");
        return;
    }
    check_axes(m, instr);
    bool is_tensor = m->program->buffers[instr->inputs[0]].tensor >= 0;
    bool is_inner = !is_tensor && instr->op >= 0;
    if (is_inner && m->block->ops[instr->op].kind == OP_DISPATCH) return note_counts(m, instr);
    if (is_inner) return reduce_inner(m, instr);
    if (!is_tensor) return note_flat(m, instr);
    bool right = (instr->combine == LAYOUT_SUM) == sums(instr) &&
                 (sums(instr) || instr->combine == LAYOUT_WHOLE);
    if (!right) sets_complain(m, instr->inputs[0], "combines what is not to be summed");
    if (m->result->violation_count) return;
    check_counts(m, instr);
    struct layout before = m->held[instr->inputs[0]].claim;
    move(m, instr);
    if (m->result->violation_count) return;
    check_changed(m, instr, &before);
    check_bytes(m, instr);
    check_dims(m, instr);
    sets_check_claim(m, instr->outputs[0]);
}
