#include "tests/support/index_sets_machine.h"

#include <string.h>

int64_t sets_divide_up(int64_t size, int64_t by)
{
    return (size + by - 1) / by;
}

static int coordinate(const struct mesh *mesh, int axis, int rank)
{
    return rank / mesh->axes[axis].stride % mesh->axes[axis].size;
}

// When an axis leaves the tokens on the way into the experts: first where it is expert parallel
// there, last where it stays on them.
static int stays(const struct mesh_axis *axis)
{
    return axis->expert == AXIS_EP ? 0 : axis->expert == AXIS_ETP ? 1 : 2;
}

// Axes that split one dim are digits of the slice's number, as plan/layout/layout.h says: pp, dp,
// cp, tp from the outside; heads and experts by tp first; of the parts of one axis those outside
// that lie further apart in the ranks, but those inside that leave first; heads by the near part of
// cp.
static bool is_more_significant(const struct mesh *mesh, enum dim dim, int a, int b)
{
    static const int PLACES[AXIS_COUNT] = {
        [AXIS_TP] = 1, [AXIS_CP] = 2, [AXIS_DP] = 3, [AXIS_PP] = 4};
    const struct mesh_axis *x = &mesh->axes[a], *y = &mesh->axes[b];
    int by_place = PLACES[x->parent] - PLACES[y->parent];
    bool is_head = dim == DIM_HEAD || dim == DIM_KV_HEAD, is_far = x->stride > y->stride;
    if (by_place != 0) return is_head || dim == DIM_EXPERT ? by_place < 0 : by_place > 0;
    // Of a grid of tp, whose tx lies furthest apart, tokens leave ty and tz first, features tx.
    bool is_token = dim == DIM_BATCH || dim == DIM_SEQ || dim == DIM_KV_SEQ;
    if (x->grid != y->grid) return is_token == is_far;
    if (is_head) return x->parent == AXIS_CP ? !is_far : is_far;
    return stays(x) != stays(y) ? stays(x) > stays(y) : is_far;
}

static void slice(const struct index_machine *m, const struct layout *layout, enum dim dim,
                  int rank, int64_t size, int64_t *first, int64_t *count)
{
    int64_t part = 0, parts = 1;
    unsigned left = 0;
    for (int a = 0; a < m->mesh->axis_count; a++) {
        if (layout->of[a] == (int8_t)dim) left |= 1u << a;
    }
    while (left) {
        int outer = -1;
        for (int a = 0; a < m->mesh->axis_count; a++) {
            if (!(left >> a & 1)) continue;
            if (outer < 0 || is_more_significant(m->mesh, dim, a, outer)) outer = a;
        }
        part = part * m->mesh->axes[outer].size + coordinate(m->mesh, outer, rank);
        parts *= m->mesh->axes[outer].size;
        left &= ~(1u << outer);
    }
    int64_t each = sets_divide_up(size, parts);
    *first = part * each < size ? part * each : size;
    *count = each < size - *first ? each : size - *first;
}

struct index_box sets_claimed_box(const struct index_machine *m, int tensor,
                                  const struct layout *layout, int rank)
{
    const struct tensor *t = &m->block->tensors[tensor];
    struct index_box box = {.rank = t->rank, .elements = 1};
    for (int e = 0; e < t->rank; e++) {
        int64_t size = extent_size(&t->extents[e], m->batch, m->task->seq_len);
        slice(m, layout, t->extents[e].dim, rank, size, &box.first[e], &box.count[e]);
        box.elements *= box.count[e];
    }
    return box;
}

int64_t sets_bytes(const struct index_machine *m, int tensor, const struct layout *layout)
{
    const struct tensor *t = &m->block->tensors[tensor];
    int64_t bytes = m->task->element_bytes;
    if (t->element == ELEMENT_FP32) bytes = 4;
    if (t->element == ELEMENT_INT64) bytes = 8;
    if (t->element == ELEMENT_BYTE) bytes = 1;
    for (int e = 0; e < t->rank; e++) {
        int64_t parts = 1;
        for (int a = 0; a < m->mesh->axis_count; a++) {
            if (layout->of[a] == (int8_t)t->extents[e].dim) parts *= m->mesh->axes[a].size;
        }
        int64_t size = extent_size(&t->extents[e], m->batch, m->task->seq_len);
        bytes *= sets_divide_up(size, parts);
    }
    return bytes;
}

static const char *buffer_name(const struct index_machine *m, int buffer)
{
    int tensor = m->program->buffers[buffer].tensor;
    return tensor < 0 ? "a flat buffer" : m->block->tensors[tensor].name;
}

void sets_complain(struct index_machine *m, int buffer, const char *what)
{
    sets_violate(m->result, "instruction %d, %s: %s", m->at, buffer_name(m, buffer), what);
}

bool sets_same_group(const struct mesh *mesh, unsigned axes, int a, int b)
{
    for (int i = 0; i < mesh->axis_count; i++) {
        bool may_differ = axes >> i & 1;
        if (!may_differ && coordinate(mesh, i, a) != coordinate(mesh, i, b)) return false;
    }
    return true;
}

// All-reduces work in place, so what a buffer claims now is its last layout with the sums that are
// still to come, up to the next time it is written.
static struct layout claim_now(const struct index_machine *m, int buffer)
{
    struct layout claim = m->program->buffers[buffer].layout;
    for (int i = m->at + 1; i < m->program->instr_count; i++) {
        const struct instr *instr = &m->program->instrs[i];
        bool writes = false;
        for (int o = 0; o < instr->output_count; o++)
            writes = writes || instr->outputs[o] == buffer;
        if (!writes || instr->relay) continue;  // parts of it are written one by one
        if (instr->collective != COLLECTIVE_ALL_REDUCE) break;
        for (int a = 0; a < m->mesh->axis_count; a++) {
            if (instr->axes >> a & 1) claim.of[a] = LAYOUT_SUM;
        }
    }
    return claim;
}

// Gives every rank room for the slice that the buffer claims.
void sets_make_room(struct index_machine *m, int buffer)
{
    struct index_held *held = &m->held[buffer];
    held->claim = claim_now(m, buffer);
    held->boxes = ARENA_NEW(m->arena, struct index_box, m->mesh->rank_count);
    held->values = ARENA_NEW(m->arena, uint64_t *, m->mesh->rank_count);
    for (int rank = 0; rank < m->mesh->rank_count; rank++) {
        held->boxes[rank] = sets_part_box(m, buffer, &held->claim, rank);
        held->values[rank] = ARENA_NEW(m->arena, uint64_t, held->boxes[rank].elements);
    }
}

uint64_t sets_truth(const struct index_machine *m, const struct index_held *held, int tensor,
                    const int64_t index[VIEW_RANK_MAX])
{
    const struct tensor *label = &m->block->tensors[tensor];
    uint64_t sum = 0;
    for (int i = 0; i < held->term_count; i++) {
        const struct tensor *t = &m->block->tensors[held->terms[i]];
        int64_t own[VIEW_RANK_MAX];
        for (int e = 0; e < t->rank; e++)
            own[e] = index[tensor_find_dim(label, t->extents[e].dim)];
        int64_t at = box_place(&m->whole[held->terms[i]], own);
        sum = field_add(sum, m->truth[held->terms[i]][at]);
    }
    return sum;
}

// The parts that a group holds of each element add up to the complete set.
void sets_check_sums(struct index_machine *m, int buffer, unsigned axes)
{
    const struct index_held *held = &m->held[buffer];
    int tensor = m->program->buffers[buffer].tensor;
    for (int rank = 0; rank < m->mesh->rank_count; rank++) {
        const struct index_box *box = &held->boxes[rank];
        for (int64_t i = 0; i < box->elements; i++) {
            int64_t index[VIEW_RANK_MAX];
            uint64_t sum = 0;
            box_index(box, i, index);
            for (int other = 0; other < m->mesh->rank_count; other++) {
                if (!sets_same_group(m->mesh, axes, rank, other)) continue;
                int64_t at = box_place(&held->boxes[other], index);
                if (at < 0) return sets_complain(m, buffer, "parts of a sum are of other elements");
                sum = field_add(sum, held->values[other][at]);
            }
            if (sum == sets_truth(m, held, tensor, index)) continue;
            return sets_complain(
                m, buffer, axes ? "the parts do not add up to what it claims" : "is not complete");
        }
    }
}

void sets_check_claim(struct index_machine *m, int buffer)
{
    const struct index_held *held = &m->held[buffer];
    const struct tensor *tensor = &m->block->tensors[m->program->buffers[buffer].tensor];
    unsigned partial = 0;
    for (int a = 0; a < m->mesh->axis_count; a++) {
        int8_t of = held->claim.of[a];
        if (of < 0) partial |= 1u << a;
        bool lacks = of > 0 && tensor_find_dim(tensor, (enum dim)of) < 0;
        if (lacks) sets_complain(m, buffer, "claims to be split along a dim that it has not");
    }
    sets_check_sums(m, buffer, partial);
}
