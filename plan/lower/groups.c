#include "plan/lower/groups.h"

#include "models/op.h"
#include "plan/lower/fusion.h"
#include "plan/lower/merged.h"
#include "plan/lower/packed.h"

#include <assert.h>

// The GEMM that made input `k` of `index` for it alone; -1.
static int gemm_before(const struct grouping *grouping, int index, int k)
{
    int buffer = group_at(grouping, index)->inputs[k], maker = group_maker(grouping, index, buffer);
    if (maker < 0 || !group_is_plain(grouping, maker) || !group_is_alike(grouping, maker, index))
        return -1;
    const struct instr *instr = group_at(grouping, maker);
    bool fits = instr->kind == OP_CONTRACT && instr->output_count == 1 &&
                group_is_alone(grouping, maker) && group_is_passed_on(grouping, buffer) &&
                group_is_same_shape(grouping, buffer, group_at(grouping, index)->outputs[0]);
    return fits ? maker : -1;
}

// SUM: every GEMM that can stand right before the sum.
static bool join_sum(struct grouping *grouping, int index)
{
    assert(index >= grouping->begin && group_at(grouping, index)->joined == 0);
    const struct instr sum = *group_at(grouping, index);
    int first = index;
    if (sum.kind != OP_ADD || block_program_crosses(grouping->program, sum.outputs[0]))
        return false;
    for (int k = sum.input_count - 1; k >= 0; k--) {
        int gemm = gemm_before(grouping, index, k);
        if (gemm < 0 || index - first + 2 > GROUP_MEMBERS_MAX) continue;
        if (!group_may_pass(grouping, gemm, gemm + 1, first)) continue;
        group_move_down(grouping, gemm, gemm + 1, first);
        first--;
    }
    if (first == index) return false;
    group_at(grouping, first)->joined = index - first + 1;
    for (int i = first + 1; i <= index; i++)
        group_at(grouping, i)->join = JOIN_SUM;
    return true;
}

// Rows of (batch, seq), of the same tokens as `like`; `may_lack`: or without either dim.
static bool is_of_rows(const struct grouping *grouping, int buffer, const struct layout *like,
                       bool may_lack)
{
    const struct tensor *tensor = group_tensor(grouping, buffer);
    const struct layout *layout = &grouping->program->buffers[buffer].layout;
    if (!tensor) return false;
    bool has_any = tensor_find_dim(tensor, DIM_BATCH) >= 0 || tensor_find_dim(tensor, DIM_SEQ) >= 0;
    if (!has_any) return may_lack;
    return tensor->rank > 2 && tensor->extents[0].dim == DIM_BATCH &&
           tensor->extents[1].dim == DIM_SEQ &&
           layout_axes_on(layout, DIM_BATCH) == layout_axes_on(like, DIM_BATCH) &&
           layout_axes_on(layout, DIM_SEQ) == layout_axes_on(like, DIM_SEQ);
}

// Whether others have the rest of what a norm is taken over, which exchanges stand for.
static bool splits_rows(const struct grouping *grouping, int index)
{
    const struct buffer *rows = &grouping->program->buffers[group_at(grouping, index)->outputs[0]];
    return (layout_axes_on(&rows->layout, DIM_HIDDEN) | layout_axes_on(&rows->layout, DIM_FFN)) !=
           0;
}

static bool works_on_rows(const struct grouping *grouping, int index, const struct layout *like)
{
    const struct instr *instr = group_at(grouping, index);
    const struct op *op = group_op(grouping, index);
    switch (instr->kind) {
    case OP_NORM:
    case OP_NORM_BACKWARD:
        // A kernel of a group meets every row once, and has but its last dim in one piece.
        if (op_norm_rank(grouping->program->block, op) > 1 || splits_rows(grouping, index))
            return false;
        break;
    case OP_ADD:
    case OP_DROPOUT:
        break;
    case OP_ELEMENTWISE:
        if (op->function == FUNCTION_ALIBI) return false;
        break;
    default:
        return false;
    }
    if (!group_is_plain(grouping, index) || !is_of_rows(grouping, instr->outputs[0], like, false))
        return false;
    for (int i = 0; i < instr->input_count; i++) {
        if (!is_of_rows(grouping, instr->inputs[i], like, true)) return false;
    }
    for (int i = 1; i < instr->output_count; i++) {
        if (!is_of_rows(grouping, instr->outputs[i], like, true)) return false;
    }
    return true;
}

// ROWS: behind the latest of those that made an input and can be met.
static bool join_rows(struct grouping *grouping, int index)
{
    const struct instr reader = *group_at(grouping, index);
    const struct layout *like = &grouping->program->buffers[reader.outputs[0]].layout;
    if (!works_on_rows(grouping, index, like)) return false;
    int tried = index;
    for (;;) {
        int best = -1;
        for (int k = 0; k < reader.input_count; k++) {
            int maker = group_maker(grouping, index, reader.inputs[k]);
            bool is_link = maker >= 0 && maker < tried && maker > best &&
                           group_is_alike(grouping, maker, index) &&
                           group_at(grouping, maker)->outputs[0] == reader.inputs[k];
            if (is_link) best = maker;
        }
        if (best < 0) return false;
        tried = best;
        int first = group_first(grouping, best), end = group_end(grouping, first);
        bool fits = end - first < GROUP_MEMBERS_MAX;
        for (int i = first; i < end && fits; i++)
            fits = works_on_rows(grouping, i, like) &&
                   (i == first || group_at(grouping, i)->join == JOIN_ROWS);
        if (fits && group_add(grouping, first, index, JOIN_ROWS)) return true;
    }
}

static bool is_vector_of(const struct grouping *grouping, int buffer, int whole)
{
    const struct tensor *term = group_tensor(grouping, buffer),
                        *sum = group_tensor(grouping, whole);
    return term && sum && term->role == TENSOR_PARAMETER && term->rank == 1 && sum->rank > 2 &&
           term->extents[0].dim == sum->extents[sum->rank - 1].dim;
}

// Exchanges inside an operator follow it, and each needs it as a call of its own.
static bool has_exchanges(const struct grouping *grouping, int index)
{
    return index + 1 < grouping->program->instr_count && group_at(grouping, index + 1)->inner > 0;
}

// SUM_NORM: terms have the sum's dims, or its last one alone.
static bool join_sum_norm(struct grouping *grouping, int index)
{
    const struct instr *norm = group_at(grouping, index);
    int sum = norm->kind == OP_NORM ? group_maker(grouping, index, norm->inputs[0]) : -1;
    const struct layout *like = &grouping->program->buffers[norm->outputs[0]].layout;
    if (sum < 0 || group_at(grouping, sum)->kind != OP_ADD || !group_is_alone(grouping, sum))
        return false;
    const struct instr *maker = group_at(grouping, sum);
    bool fits = group_is_alike(grouping, sum, index) && works_on_rows(grouping, sum, like) &&
                works_on_rows(grouping, index, like) && maker->input_count <= SUM_NORM_TERMS &&
                !has_exchanges(grouping, index);
    for (int k = 0; k < maker->input_count && fits; k++)
        fits = group_is_same_shape(grouping, maker->inputs[k], maker->outputs[0]) ||
               is_vector_of(grouping, maker->inputs[k], maker->outputs[0]);
    return fits && group_add(grouping, sum, index, JOIN_SUM_NORM);
}

// NORM_SUM: what the norm's backward makes is read by the sum alone.
static bool join_norm_sum(struct grouping *grouping, int index)
{
    const struct instr *sum = group_at(grouping, index);
    const struct layout *like = &grouping->program->buffers[sum->outputs[0]].layout;
    if (sum->kind != OP_ADD || sum->input_count != 2 || !works_on_rows(grouping, index, like))
        return false;
    for (int k = 0; k < 2; k++) {
        int norm = group_maker(grouping, index, sum->inputs[k]);
        bool fits = norm >= 0 && group_at(grouping, norm)->kind == OP_NORM_BACKWARD &&
                    group_at(grouping, norm)->outputs[0] == sum->inputs[k] &&
                    group_is_alone(grouping, norm) && group_is_alike(grouping, norm, index) &&
                    works_on_rows(grouping, norm, like) &&
                    group_is_passed_on(grouping, sum->inputs[k]) &&
                    group_is_same_shape(grouping, sum->inputs[1 - k], sum->outputs[0]);
        if (fits && group_add(grouping, norm, index, JOIN_NORM_SUM)) return true;
    }
    return false;
}

// A single GEMM with rows and columns, whose result is a matrix.
static bool is_matrix(const struct grouping *grouping, int gemm)
{
    const struct gemm *shape = &group_at(grouping, gemm)->gemm;
    return shape->batch == 1 && shape->m > 1;
}

// BIAS: a GEMM and the sum of it and of a parameter with its columns.
static bool join_bias(struct grouping *grouping, int index)
{
    const struct instr *sum = group_at(grouping, index);
    if (sum->kind != OP_ADD || sum->input_count != 2) return false;
    for (int k = 0; k < 2; k++) {
        const struct tensor *other = group_tensor(grouping, sum->inputs[1 - k]);
        int gemm = gemm_before(grouping, index, k);
        bool fits =
            gemm >= 0 && is_matrix(grouping, gemm) && other && other->role == TENSOR_PARAMETER;
        if (fits) return group_add(grouping, gemm, index, JOIN_BIAS);
    }
    return false;
}

static bool has_norm(const struct grouping *grouping, int sum)
{
    const struct block_program *program = grouping->program;
    if (!(grouping->joins >> JOIN_SUM_NORM & 1)) return false;
    for (int i = sum + 1; i < program->instr_count; i++) {
        const struct instr *instr = group_at(grouping, i);
        bool reads = instr->kind == OP_NORM && instr->collective == COLLECTIVE_NONE &&
                     instr->inputs[0] == group_at(grouping, sum)->outputs[0];
        if (reads) return true;
    }
    return false;
}

// RESIDUAL: a GEMM and the sum of it and of another array like it.
static bool join_residual(struct grouping *grouping, int index)
{
    const struct instr *sum = group_at(grouping, index);
    bool is_pair = sum->kind == OP_ADD && sum->input_count == 2 &&
                   !grouping->program->buffers[sum->outputs[0]].external &&
                   !has_norm(grouping, index);
    for (int k = 1; k >= 0 && is_pair; k--) {
        int gemm = gemm_before(grouping, index, k);
        bool fits = gemm >= 0 && is_matrix(grouping, gemm) &&
                    group_is_same_shape(grouping, sum->inputs[1 - k], sum->outputs[0]);
        if (fits && group_add(grouping, gemm, index, JOIN_RESIDUAL)) return true;
    }
    return false;
}

// cuBLASLt's AUX, the input of GELU, has rows of whole sixteen bytes.
enum { AUX_GRAIN = 8 };

static bool is_gelu(const struct grouping *grouping, int index, bool is_slope)
{
    const struct instr *instr = group_at(grouping, index);
    if (instr->kind != OP_ELEMENTWISE || instr->output_count != 1 ||
        !group_is_plain(grouping, index))
        return false;
    const struct op *op = group_op(grouping, index);
    return op->function == FUNCTION_GELU_TANH && (op->phase != PHASE_FORWARD) == is_slope &&
           instr->input_count == (is_slope ? 2 : 1);
}

static bool join_gelu(struct grouping *grouping, int index)
{
    if (!is_gelu(grouping, index, false)) return false;
    int bias = group_maker(grouping, index, group_at(grouping, index)->inputs[0]);
    if (bias < 0 || group_at(grouping, bias)->join != JOIN_BIAS ||
        !group_is_alike(grouping, bias, index))
        return false;
    int first = group_first(grouping, bias);
    bool fits = group_end(grouping, first) == bias + 1 &&
                group_at(grouping, first)->gemm.n % AUX_GRAIN == 0;
    return fits && group_add(grouping, first, index, JOIN_GELU);
}

static bool join_slope(struct grouping *grouping, int index)
{
    if (!is_gelu(grouping, index, true)) return false;
    int gemm = gemm_before(grouping, index, 0);
    bool fits =
        gemm >= 0 && is_matrix(grouping, gemm) && group_at(grouping, gemm)->gemm.n % AUX_GRAIN == 0;
    return fits && group_add(grouping, gemm, index, JOIN_GELU_SLOPE);
}

// BIAS_GRADIENT: the gradients of a weight and of the bias behind it, in either order.
static bool is_pair(const struct grouping *grouping, int gemm, int sum)
{
    const struct instr *a = group_at(grouping, gemm), *b = group_at(grouping, sum);
    if (a->kind != OP_CONTRACT || b->kind != OP_REDUCE) return false;
    return group_is_alike(grouping, gemm, sum) && is_matrix(grouping, gemm) &&
           a->inputs[1] == b->inputs[0] &&
           block_program_crosses(grouping->program, a->outputs[0]) &&
           block_program_crosses(grouping->program, b->outputs[0]) &&
           group_op(grouping, gemm)->scalar == 1 &&
           grouping->program->buffers[b->outputs[0]].bytes * a->gemm.m ==
               grouping->program->buffers[a->outputs[0]].bytes;
}

static bool join_bias_gradient(struct grouping *grouping, int index)
{
    if (group_at(grouping, index)->phase != PHASE_WEIGHT || !group_is_plain(grouping, index))
        return false;
    for (int i = grouping->begin; i < index; i++) {
        if (!group_is_plain(grouping, i) || !group_is_alone(grouping, i)) continue;
        bool is_behind = is_pair(grouping, i, index), is_before = is_pair(grouping, index, i);
        if (is_behind) return group_add(grouping, i, index, JOIN_BIAS_GRADIENT);
        // The GEMM goes in front of the sum that waits for it.
        if (!is_before || !group_may_pass(grouping, index, i, index)) continue;
        group_move_up(grouping, index, i);
        return group_add(grouping, i, i + 1, JOIN_BIAS_GRADIENT);
    }
    return false;
}

static bool is_rope(const struct grouping *grouping, int index)
{
    const struct instr *instr = group_at(grouping, index);
    return instr->kind == OP_ELEMENTWISE && instr->output_count == 1 &&
           group_is_plain(grouping, index) && group_op(grouping, index)->function == FUNCTION_ROPE;
}

// Whether both turn the same dims of a head by the same angles.
static bool is_same_rotation(const struct grouping *grouping, int a, int b)
{
    const struct op *x = group_op(grouping, a), *y = group_op(grouping, b);
    const struct buffer *buffers = grouping->program->buffers;
    const struct layout *of_x = &buffers[group_at(grouping, a)->outputs[0]].layout;
    const struct layout *of_y = &buffers[group_at(grouping, b)->outputs[0]].layout;
    return x->scalar == y->scalar && x->rotary_dims == y->rotary_dims &&
           x->rotary_first == y->rotary_first && x->phase == y->phase &&
           x->rotary_columns == y->rotary_columns && x->rotary_still == y->rotary_still &&
           x->rate == y->rate && layout_axes_on(of_x, DIM_SEQ) == layout_axes_on(of_y, DIM_SEQ);
}

// ROPES: with the latest that is alone.
static bool join_ropes(struct grouping *grouping, int index)
{
    if (!is_rope(grouping, index)) return false;
    for (int i = index - 1; i >= grouping->begin; i--) {
        bool fits = is_rope(grouping, i) && group_is_alone(grouping, i) &&
                    group_is_alike(grouping, i, index) && is_same_rotation(grouping, i, index);
        if (fits && group_add(grouping, i, index, JOIN_ROPES)) return true;
    }
    return false;
}

static bool (*const RULES[JOIN_COUNT])(struct grouping *grouping, int index) = {
    [JOIN_SUM] = join_sum,           [JOIN_ROWS] = join_rows,
    [JOIN_SUM_NORM] = join_sum_norm, [JOIN_NORM_SUM] = join_norm_sum,
    [JOIN_BIAS] = join_bias,         [JOIN_GELU] = join_gelu,
    [JOIN_GELU_SLOPE] = join_slope,  [JOIN_BIAS_GRADIENT] = join_bias_gradient,
    [JOIN_ROPES] = join_ropes,       [JOIN_RESIDUAL] = join_residual,
};

// Rows may lie apart for the rules of rows and of rotations alone.
static void try_rules(struct grouping *grouping, int index)
{
    assert(index >= grouping->begin && index < grouping->program->instr_count);
    if (!group_is_plain(grouping, index) || !group_is_alone(grouping, index)) return;
    unsigned joins = grouping->joins;
    if (group_has_views(grouping, index)) joins &= 1u << JOIN_ROWS | 1u << JOIN_ROPES;
    for (int rule = 0; rule < JOIN_COUNT; rule++) {
        if (joins >> rule & 1 && RULES[rule] && RULES[rule](grouping, index)) return;
    }
}

void groups_form(struct arena *arena, struct block_program *program, int buffer_capacity,
                 const struct mesh *mesh, unsigned joins)
{
    struct grouping grouping = grouping_of(arena, program, joins);
    grouping.buffer_capacity = buffer_capacity;
    merged_form(arena, &grouping, mesh);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        grouping.begin = program->phase_first[phase];
        for (int i = grouping.begin; i < program->phase_first[phase + 1]; i++)
            try_rules(&grouping, i);
    }
    for (int i = 0; i < program->instr_count; i++) {
        for (int k = 1; k < program->instrs[i].joined; k++)
            program->instrs[i + k].kernel = i + 1;
    }
    fusion_count_kept(arena, program);
    packed_finish(program);
}
