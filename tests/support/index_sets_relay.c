#include "tests/support/index_sets_machine.h"

#include <string.h>

// Parts that ranks hand on. Whose part a buffer is follows from the order of the ranks of a group;
// work on one sees of its other operands what has the part's indices; a message is a copy, and what
// came is added to what was made.

int sets_behind(const struct index_machine *m, unsigned axes, int rank, int behind)
{
    int *ranks = ARENA_NEW(m->arena, int, m->mesh->rank_count), count = 0, own = 0;
    for (int other = 0; other < m->mesh->rank_count; other++) {
        if (!sets_same_group(m->mesh, axes, rank, other)) continue;
        if (other == rank) own = count;
        ranks[count++] = other;
    }
    return ranks[((own - behind) % count + count) % count];
}

// A rank's place in its group, and the ranks of that.
static int place_in(const struct index_machine *m, unsigned axes, int rank, int *count)
{
    int place = 0;
    *count = 0;
    for (int other = 0; other < m->mesh->rank_count; other++) {
        bool is_member = sets_same_group(m->mesh, axes, rank, other);
        *count += is_member;
        place += is_member && other < rank;
    }
    return place;
}

// Of a pair all parts are numbered: as many as the least number of which each group's ranks have
// equal shares. A rank's row and its column ask for the first of what it has there, together, and
// each turn for one less.
struct index_box sets_part_box(struct index_machine *m, int b, const struct layout *claim, int rank)
{
    const struct buffer *of = &m->program->buffers[b];
    int whose = sets_behind(m, of->relay_axes, rank, of->behind);
    if (!of->skew_axes) return sets_claimed_box(m, of->tensor, claim, whose);
    int rows, columns, row = place_in(m, of->skew_axes, rank, &rows), parts = 1;
    int column = place_in(m, of->relay_axes, rank, &columns), at = -1;
    while (parts % rows || parts % columns)
        parts++;
    int part = (row * parts / rows + column * parts / columns + parts - of->behind) % parts;
    int share = parts / columns, owner = of->is_own ? column : part / share;
    whose = sets_behind(m, of->relay_axes, rank, column - owner);
    struct index_box box = sets_claimed_box(m, of->tensor, claim, whose);
    for (int a = 0; a < m->mesh->axis_count; a++) {
        if (of->relay_axes >> a & 1)
            at = tensor_find_dim(&m->block->tensors[of->tensor], (enum dim)claim->of[a]);
    }
    if (share > 1 && (at < 0 || of->pieces != share || box.count[at] % share)) {
        sets_complain(m, b, "is not in equal pieces");
        return box;
    }
    if (share == 1) return box;
    box.count[at] /= share;
    box.elements /= share;
    box.first[at] += part % share * box.count[at];
    return box;
}

// The one of a group that sends what a rank takes; -1.
static int sender_of(const struct index_machine *m, const struct instr *instr, int rank)
{
    const struct index_box *taken = &m->held[instr->outputs[0]].boxes[rank];
    int sender = -1;
    for (int other = 0; other < m->mesh->rank_count; other++) {
        const struct index_box *sent = &m->held[instr->inputs[0]].boxes[other];
        if (!sets_same_group(m->mesh, instr->axes, rank, other) ||
            memcmp(sent, taken, sizeof *sent) != 0)
            continue;
        if (sender >= 0) return -1;
        sender = other;
    }
    return sender;
}

static bool is_alike(const struct instr *a, const struct instr *b)
{
    return !a->collective && a->rows && a->relay == b->relay && a->op == b->op;
}

static int part_of(const struct instr *instr)
{
    int at = instr->rows - 1;
    return at < instr->input_count ? instr->inputs[at] : instr->outputs[at - instr->input_count];
}

// What a rank has of a buffer at the indices that the part has of one dim.
static struct view cut(struct index_machine *m, const struct instr *instr, int buffer, int rank)
{
    const struct index_held *held = &m->held[buffer], *part = &m->held[part_of(instr)];
    int t = m->program->buffers[buffer].tensor, p = m->program->buffers[part_of(instr)].tensor;
    struct view view = {.tensor = &m->block->tensors[t],
                        .box = held->boxes[rank],
                        .whole = m->whole[t],
                        .truth = m->truth[t]};
    int at = tensor_find_dim(view.tensor, instr->dim);
    int from = tensor_find_dim(&m->block->tensors[p], instr->dim);
    if (at >= 0) {
        int64_t first = part->boxes[rank].first[from], count = part->boxes[rank].count[from];
        if (first < view.box.first[at] || first + count > view.box.first[at] + view.box.count[at])
            sets_complain(m, buffer, "lacks what its part has");
        view.box.elements = view.box.elements / view.box.count[at] * count;
        view.box.first[at] = first;
        view.box.count[at] = count;
    }
    view.values = ARENA_NEW(m->arena, uint64_t, view.box.elements);
    return view;
}

static void fill(const struct index_held *held, int rank, struct view *view)
{
    for (int64_t i = 0; i < view->box.elements; i++) {
        int64_t index[VIEW_RANK_MAX];
        box_index(&view->box, i, index);
        view->values[i] = held->values[rank][box_place(&held->boxes[rank], index)];
    }
}

static void add(const struct view *view, int rank, struct index_held *held)
{
    for (int64_t i = 0; i < view->box.elements; i++) {
        int64_t index[VIEW_RANK_MAX];
        box_index(&view->box, i, index);
        uint64_t *at = &held->values[rank][box_place(&held->boxes[rank], index)];
        *at = field_add(*at, view->values[i]);
    }
}

static int count_alike(const struct index_machine *m, const struct instr *instr, int from, int to)
{
    int count = 0;
    for (int i = from; i < to; i++)
        count += is_alike(&m->program->instrs[i], instr);
    return count;
}

void sets_work_on_part(struct index_machine *m, const struct instr *instr)
{
    const struct op *op = &m->block->ops[instr->op];
    int result = instr->outputs[0];
    bool makes_part = part_of(instr) == result || m->program->buffers[result].skew_axes;
    if (makes_part || count_alike(m, instr, 0, m->at) == 0) {
        sets_make_room(m, result);
        m->held[result].terms[0] = op->outputs[0];
        m->held[result].term_count = 1;
    }
    for (int rank = 0; rank < m->mesh->rank_count && !m->result->violation_count; rank++) {
        struct index_work work = {.op = op,
                                  .op_index = instr->op,
                                  .rank = rank,
                                  .input_count = instr->input_count,
                                  .output_count = 1,
                                  .result = m->result};
        for (int i = 0; i < instr->input_count; i++) {
            work.inputs[i] = cut(m, instr, instr->inputs[i], rank);
            if (m->result->violation_count) return;
            fill(&m->held[instr->inputs[i]], rank, &work.inputs[i]);
        }
        work.outputs[0] = cut(m, instr, result, rank);
        if (m->result->violation_count) return;
        sets_compute(&work);
        add(&work.outputs[0], rank, &m->held[result]);
    }
    bool is_last = count_alike(m, instr, m->at + 1, m->program->instr_count) == 0;
    if (is_last && !makes_part && !m->result->violation_count) sets_check_claim(m, result);
}

// Whether what a message brings, or what something is added to, is part of a sum that goes on.
static bool goes_on(const struct index_machine *m, const struct instr *instr)
{
    const struct buffer *to = &m->program->buffers[instr->outputs[0]];
    bool is_message = instr->collective == COLLECTIVE_SEND_RECV;
    if (is_message ? to->skew_axes && !to->is_own : to->is_own) return false;
    for (int i = is_message ? 0 : m->at + 1; i < m->program->instr_count; i++) {
        const struct instr *other = &m->program->instrs[i];
        if (other->relay != instr->relay || other->collective != COLLECTIVE_SLICE) continue;
        if (is_message || other->outputs[0] == instr->outputs[0]) return true;
    }
    return !is_message && to->behind > 0;
}

// Whether a gradient of the state is begun by what comes to it in a relay.
static bool begins(const struct index_machine *m, const struct instr *instr)
{
    if (instr->collective != COLLECTIVE_SLICE || instr->input_count > 1) return false;
    for (int i = 0; i < m->at; i++)
        if (m->program->instrs[i].outputs[0] == instr->outputs[0]) return false;
    return true;
}

// Ranks that take what is not their own.
static int messages_of(struct index_machine *m, const struct instr *instr)
{
    int to = instr->outputs[0], from = instr->inputs[0], count = 0;
    const struct buffer *takes = &m->program->buffers[to];
    bool brings = takes->skew_axes && !takes->is_own;
    for (int rank = 0; rank < m->mesh->rank_count; rank++) {
        int panel = brings ? to : from, own = brings ? from : to;
        struct index_box part = sets_part_box(m, panel, &m->program->buffers[panel].layout, rank);
        struct index_box kept = sets_part_box(m, own, &m->program->buffers[own].layout, rank);
        count += memcmp(&part, &kept, sizeof part) != 0;
    }
    return count;
}

void sets_hand_on(struct index_machine *m, const struct instr *instr)
{
    int from = instr->inputs[0], to = instr->outputs[0];
    bool is_message = instr->collective == COLLECTIVE_SEND_RECV;
    int64_t bytes = sets_bytes(m, m->program->buffers[to].tensor, &m->program->buffers[to].layout);
    const struct buffer *sends = &m->program->buffers[from], *takes = &m->program->buffers[to];
    if (sends->pieces || takes->pieces)
        bytes /= sends->pieces > takes->pieces ? sends->pieces : takes->pieces;
    if (is_message && (sends->skew_axes || takes->skew_axes)) {
        bytes = bytes * messages_of(m, instr) / m->mesh->rank_count;
    }
    if (instr->bytes != bytes) sets_complain(m, from, "a part of the wrong size");
    if ((sends->relay_axes && sends->relay_axes != instr->axes) ||
        (takes->relay_axes && takes->relay_axes != instr->axes))
        sets_complain(m, from, "a part of another group");
    for (int a = 0; a < m->mesh->axis_count; a++) {
        bool is_split = m->program->buffers[to].layout.of[a] == (int8_t)instr->dim;
        if (instr->axes >> a & 1 && !is_split)
            sets_complain(m, to, "is handed on along another dim");
    }
    bool is_first = is_message || takes->is_own || begins(m, instr);
    bool is_put = is_first || (sends->is_own && !instr->combine);
    if (is_first) sets_make_room(m, to);
    if (!m->held[from].boxes || !m->held[to].boxes)
        return sets_complain(m, to, "is handed on or added to before it is there");
    for (int rank = 0; rank < m->mesh->rank_count; rank++) {
        int sender = is_message ? sender_of(m, instr, rank) : rank;
        if (sender < 0) return sets_complain(m, to, "a part of another rank comes");
        const struct index_box *sent = &m->held[from].boxes[sender];
        const struct index_box *taken = &m->held[to].boxes[rank];
        const struct index_box *box = sent->elements < taken->elements ? sent : taken;
        for (int64_t i = 0; i < box->elements; i++) {
            int64_t index[VIEW_RANK_MAX];
            box_index(box, i, index);
            int64_t at = box_place(taken, index), source = box_place(sent, index);
            if (at < 0 || source < 0) return sets_complain(m, to, "takes what is not there");
            uint64_t value = m->held[from].values[sender][source];
            uint64_t *sum = &m->held[to].values[rank][at];
            *sum = is_put ? value : field_add(*sum, value);
        }
        bool is_piece = sends->is_own || takes->is_own;
        if (!is_piece && sent->elements != taken->elements)
            return sets_complain(m, to, "a part of another size comes");
    }
    if (is_first) {
        memcpy(m->held[to].terms, m->held[from].terms, sizeof m->held[to].terms);
        m->held[to].term_count = m->held[from].term_count;
    }
    // A sum is there when it has come round.
    if (!goes_on(m, instr)) sets_check_claim(m, to);
}
