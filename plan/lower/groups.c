#include "plan/lower/groups.h"

#include "models/op.h"
#include "plan/lower/fusion.h"

#include <assert.h>
#include <string.h>

struct grouping {
    struct block_program *program;
    unsigned joins;
    int begin;  // of the phase
};

static struct instr *at(const struct grouping *grouping, int index)
{
    return &grouping->program->instrs[index];
}

static const struct op *op_of(const struct grouping *grouping, int index)
{
    return &grouping->program->block->ops[at(grouping, index)->op];
}

// While groups grow, members know by `joined` of the first alone that they are in one.
static int first_of(const struct grouping *grouping, int index)
{
    for (int i = index; i >= grouping->begin; i--) {
        if (at(grouping, i)->joined > index - i) return i;
    }
    return index;
}

static int end_of(const struct grouping *grouping, int first)
{
    int joined = at(grouping, first)->joined;
    return first + (joined > 0 ? joined : 1);
}

static bool has(const int *buffers, int count, int wanted)
{
    for (int i = 0; i < count; i++) {
        if (buffers[i] == wanted) return true;
    }
    return false;
}

static bool writes_any(const struct instr *instr, const int *buffers, int count)
{
    for (int i = 0; i < count; i++) {
        if (has(instr->outputs, instr->output_count, buffers[i])) return true;
    }
    return false;
}

// Whether two may change places. Exchanges inside an operator stay behind it, and the gathering and
// scattering of parameters where it is.
static bool commutes(const struct instr *a, const struct instr *b)
{
    if (a->inner || b->inner || a->parameter || b->parameter) return false;
    return !writes_any(a, b->inputs, b->input_count) &&
           !writes_any(a, b->outputs, b->output_count) && !writes_any(b, a->inputs, a->input_count);
}

static bool may_pass(const struct grouping *grouping, int index, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (!commutes(at(grouping, index), at(grouping, i))) return false;
    }
    return true;
}

// Instructions [first, end) behind those up to `to`.
static void move_down(struct grouping *grouping, int first, int end, int to)
{
    struct instr held[GROUP_MEMBERS_MAX];
    int count = end - first;
    assert(count <= GROUP_MEMBERS_MAX);
    memcpy(held, at(grouping, first), (size_t)count * sizeof *held);
    memmove(at(grouping, first), at(grouping, end), (size_t)(to - end) * sizeof *held);
    memcpy(at(grouping, to - count), held, (size_t)count * sizeof *held);
}

static void move_up(struct grouping *grouping, int index, int to)
{
    struct instr held = *at(grouping, index);
    memmove(at(grouping, to + 1), at(grouping, to), (size_t)(index - to) * sizeof held);
    *at(grouping, to) = held;
}

// Puts `index` behind the group that begins at `first`, or the group in front of it. Returns where
// the group begins then; -1: what stands between them is in the way.
static int meet(struct grouping *grouping, int first, int index)
{
    int end = end_of(grouping, first);
    if (may_pass(grouping, index, end, index)) {
        move_up(grouping, index, end);
        return first;
    }
    for (int i = first; i < end; i++) {
        if (!may_pass(grouping, i, end, index)) return -1;
    }
    move_down(grouping, first, end, index);
    return index - (end - first);
}

static bool add_to(struct grouping *grouping, int first, int index, enum join rule)
{
    int met = meet(grouping, first, index);
    if (met < 0) return false;
    int count = end_of(grouping, met) - met;
    at(grouping, met)->joined = count + 1;
    at(grouping, met + count)->join = rule;
    return true;
}

// What may be a member: compute on this rank's part of dense tensors.
static bool is_plain(const struct grouping *grouping, int index)
{
    const struct instr *instr = at(grouping, index);
    if (instr->collective != COLLECTIVE_NONE || instr->inner || instr->output_count == 0)
        return false;
    return !op_has_dim(grouping->program->block, op_of(grouping, index), DIM_EXPERT);
}

static bool is_alike(const struct grouping *grouping, int a, int b)
{
    const struct instr *x = at(grouping, a), *y = at(grouping, b);
    return x->phase == y->phase && x->recompute == y->recompute;
}

static bool is_alone(const struct grouping *grouping, int index)
{
    return at(grouping, first_of(grouping, index))->joined == 0;
}

// Who wrote a buffer last before `index` in its phase; -1.
static int maker_of(const struct grouping *grouping, int index, int buffer)
{
    for (int i = index - 1; i >= grouping->begin; i--) {
        if (has(at(grouping, i)->outputs, at(grouping, i)->output_count, buffer)) return i;
    }
    return -1;
}

static bool crosses(const struct block_program *program, int buffer)
{
    for (int i = 0; i < 2; i++) {
        if (program->outputs[i] == buffer || program->input_gradients[i] == buffer) return true;
    }
    return program->buffers[buffer].external;
}

// Whether one instruction reads this buffer, once, and one writes it.
static bool is_passed_on(const struct grouping *grouping, int buffer)
{
    const struct block_program *program = grouping->program;
    int readers = 0, writers = 0;
    if (crosses(program, buffer)) return false;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        for (int k = 0; k < instr->input_count; k++)
            readers += instr->inputs[k] == buffer;
        writers += has(instr->outputs, instr->output_count, buffer);
    }
    return readers == 1 && writers == 1;
}

static const struct tensor *tensor_of(const struct grouping *grouping, int buffer)
{
    int tensor = grouping->program->buffers[buffer].tensor;
    return tensor < 0 ? NULL : &grouping->program->block->tensors[tensor];
}

static bool has_same_dims(const struct tensor *a, const struct tensor *b)
{
    if (!a || !b || a->rank != b->rank || a->element != b->element) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->extents[i].dim != b->extents[i].dim) return false;
    }
    return true;
}

// A buffer that holds the same part of the same dims.
static bool is_same_shape(const struct grouping *grouping, int a, int b)
{
    const struct buffer *x = &grouping->program->buffers[a], *y = &grouping->program->buffers[b];
    return x->bytes == y->bytes && layout_equal(&x->layout, &y->layout) &&
           has_same_dims(tensor_of(grouping, a), tensor_of(grouping, b));
}

// The GEMM that made input `k` of `index` for it alone; -1.
static int gemm_before(const struct grouping *grouping, int index, int k)
{
    int buffer = at(grouping, index)->inputs[k], maker = maker_of(grouping, index, buffer);
    if (maker < 0 || !is_plain(grouping, maker) || !is_alike(grouping, maker, index)) return -1;
    const struct instr *instr = at(grouping, maker);
    bool fits = instr->kind == OP_CONTRACT && instr->output_count == 1 &&
                is_alone(grouping, maker) && is_passed_on(grouping, buffer) &&
                is_same_shape(grouping, buffer, at(grouping, index)->outputs[0]);
    return fits ? maker : -1;
}

// SUM: every GEMM that can stand right before the sum.
static bool join_sum(struct grouping *grouping, int index)
{
    const struct instr sum = *at(grouping, index);
    int first = index;
    if (sum.kind != OP_ADD || crosses(grouping->program, sum.outputs[0])) return false;
    for (int k = sum.input_count - 1; k >= 0; k--) {
        int gemm = gemm_before(grouping, index, k);
        if (gemm < 0 || index - first + 2 > GROUP_MEMBERS_MAX) continue;
        if (!may_pass(grouping, gemm, gemm + 1, first)) continue;
        move_down(grouping, gemm, gemm + 1, first);
        first--;
    }
    if (first == index) return false;
    at(grouping, first)->joined = index - first + 1;
    for (int i = first + 1; i <= index; i++)
        at(grouping, i)->join = JOIN_SUM;
    return true;
}

// Rows of (batch, seq), of the same tokens as `like`; `may_lack`: or without either dim.
static bool is_of_rows(const struct grouping *grouping, int buffer, const struct layout *like,
                       bool may_lack)
{
    const struct tensor *tensor = tensor_of(grouping, buffer);
    const struct layout *layout = &grouping->program->buffers[buffer].layout;
    if (!tensor) return false;
    bool has_any = tensor_find_dim(tensor, DIM_BATCH) >= 0 || tensor_find_dim(tensor, DIM_SEQ) >= 0;
    if (!has_any) return may_lack;
    return tensor->rank > 2 && tensor->extents[0].dim == DIM_BATCH &&
           tensor->extents[1].dim == DIM_SEQ &&
           layout_axes_on(layout, DIM_BATCH) == layout_axes_on(like, DIM_BATCH) &&
           layout_axes_on(layout, DIM_SEQ) == layout_axes_on(like, DIM_SEQ);
}

static bool works_on_rows(const struct grouping *grouping, int index, const struct layout *like)
{
    const struct instr *instr = at(grouping, index);
    const struct op *op = op_of(grouping, index);
    switch (instr->kind) {
    case OP_ADD:
    case OP_NORM:
    case OP_NORM_BACKWARD:
    case OP_DROPOUT:
        break;
    case OP_ELEMENTWISE:
        if (op->function == FUNCTION_ALIBI) return false;
        break;
    default:
        return false;
    }
    if (!is_plain(grouping, index) || !is_of_rows(grouping, instr->outputs[0], like, false))
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
    const struct instr reader = *at(grouping, index);
    const struct layout *like = &grouping->program->buffers[reader.outputs[0]].layout;
    if (!works_on_rows(grouping, index, like)) return false;
    int tried = index;
    for (;;) {
        int best = -1;
        for (int k = 0; k < reader.input_count; k++) {
            int maker = maker_of(grouping, index, reader.inputs[k]);
            bool is_link = maker >= 0 && maker < tried && maker > best &&
                           is_alike(grouping, maker, index) &&
                           at(grouping, maker)->outputs[0] == reader.inputs[k];
            if (is_link) best = maker;
        }
        if (best < 0) return false;
        tried = best;
        int first = first_of(grouping, best), end = end_of(grouping, first);
        bool fits = end - first < GROUP_MEMBERS_MAX;
        for (int i = first; i < end && fits; i++)
            fits = works_on_rows(grouping, i, like) &&
                   (i == first || at(grouping, i)->join == JOIN_ROWS);
        if (fits && add_to(grouping, first, index, JOIN_ROWS)) return true;
    }
}

static bool is_vector_of(const struct grouping *grouping, int buffer, int whole)
{
    const struct tensor *term = tensor_of(grouping, buffer), *sum = tensor_of(grouping, whole);
    return term && sum && term->role == TENSOR_PARAMETER && term->rank == 1 && sum->rank > 2 &&
           term->extents[0].dim == sum->extents[sum->rank - 1].dim;
}

// SUM_NORM: terms have the sum's dims, or its last one alone.
static bool join_sum_norm(struct grouping *grouping, int index)
{
    const struct instr *norm = at(grouping, index);
    int sum = norm->kind == OP_NORM ? maker_of(grouping, index, norm->inputs[0]) : -1;
    const struct layout *like = &grouping->program->buffers[norm->outputs[0]].layout;
    if (sum < 0 || at(grouping, sum)->kind != OP_ADD || !is_alone(grouping, sum)) return false;
    const struct instr *maker = at(grouping, sum);
    bool fits = is_alike(grouping, sum, index) && works_on_rows(grouping, sum, like) &&
                works_on_rows(grouping, index, like) && maker->input_count <= SUM_NORM_TERMS;
    for (int k = 0; k < maker->input_count && fits; k++)
        fits = is_same_shape(grouping, maker->inputs[k], maker->outputs[0]) ||
               is_vector_of(grouping, maker->inputs[k], maker->outputs[0]);
    return fits && add_to(grouping, sum, index, JOIN_SUM_NORM);
}

// NORM_SUM: what the norm's backward makes is read by the sum alone.
static bool join_norm_sum(struct grouping *grouping, int index)
{
    const struct instr *sum = at(grouping, index);
    const struct layout *like = &grouping->program->buffers[sum->outputs[0]].layout;
    if (sum->kind != OP_ADD || sum->input_count != 2 || !works_on_rows(grouping, index, like))
        return false;
    for (int k = 0; k < 2; k++) {
        int norm = maker_of(grouping, index, sum->inputs[k]);
        bool fits = norm >= 0 && at(grouping, norm)->kind == OP_NORM_BACKWARD &&
                    at(grouping, norm)->outputs[0] == sum->inputs[k] && is_alone(grouping, norm) &&
                    is_alike(grouping, norm, index) && works_on_rows(grouping, norm, like) &&
                    is_passed_on(grouping, sum->inputs[k]) &&
                    is_same_shape(grouping, sum->inputs[1 - k], sum->outputs[0]);
        if (fits && add_to(grouping, norm, index, JOIN_NORM_SUM)) return true;
    }
    return false;
}

// A single GEMM with rows and columns, whose result is a matrix.
static bool is_matrix(const struct grouping *grouping, int gemm)
{
    const struct gemm *shape = &at(grouping, gemm)->gemm;
    return shape->batch == 1 && shape->m > 1;
}

// BIAS: a GEMM and the sum of it and of a parameter with its columns.
static bool join_bias(struct grouping *grouping, int index)
{
    const struct instr *sum = at(grouping, index);
    if (sum->kind != OP_ADD || sum->input_count != 2) return false;
    for (int k = 0; k < 2; k++) {
        const struct tensor *other = tensor_of(grouping, sum->inputs[1 - k]);
        int gemm = gemm_before(grouping, index, k);
        bool fits =
            gemm >= 0 && is_matrix(grouping, gemm) && other && other->role == TENSOR_PARAMETER;
        if (fits) return add_to(grouping, gemm, index, JOIN_BIAS);
    }
    return false;
}

// cuBLASLt's AUX, the input of GELU, has rows of whole sixteen bytes.
enum { AUX_GRAIN = 8 };

static bool is_gelu(const struct grouping *grouping, int index, bool is_slope)
{
    const struct instr *instr = at(grouping, index);
    if (instr->kind != OP_ELEMENTWISE || instr->output_count != 1 || !is_plain(grouping, index))
        return false;
    const struct op *op = op_of(grouping, index);
    return op->function == FUNCTION_GELU_TANH && (op->phase != PHASE_FORWARD) == is_slope &&
           instr->input_count == (is_slope ? 2 : 1);
}

static bool join_gelu(struct grouping *grouping, int index)
{
    if (!is_gelu(grouping, index, false)) return false;
    int bias = maker_of(grouping, index, at(grouping, index)->inputs[0]);
    if (bias < 0 || at(grouping, bias)->join != JOIN_BIAS || !is_alike(grouping, bias, index))
        return false;
    int first = first_of(grouping, bias);
    bool fits = end_of(grouping, first) == bias + 1 && at(grouping, first)->gemm.n % AUX_GRAIN == 0;
    return fits && add_to(grouping, first, index, JOIN_GELU);
}

static bool join_slope(struct grouping *grouping, int index)
{
    if (!is_gelu(grouping, index, true)) return false;
    int gemm = gemm_before(grouping, index, 0);
    bool fits =
        gemm >= 0 && is_matrix(grouping, gemm) && at(grouping, gemm)->gemm.n % AUX_GRAIN == 0;
    return fits && add_to(grouping, gemm, index, JOIN_GELU_SLOPE);
}

// BIAS_GRADIENT: the gradients of a weight and of the bias behind it, in either order.
static bool is_pair(const struct grouping *grouping, int gemm, int sum)
{
    const struct instr *a = at(grouping, gemm), *b = at(grouping, sum);
    if (a->kind != OP_CONTRACT || b->kind != OP_REDUCE) return false;
    return is_alike(grouping, gemm, sum) && is_matrix(grouping, gemm) &&
           a->inputs[1] == b->inputs[0] && crosses(grouping->program, a->outputs[0]) &&
           crosses(grouping->program, b->outputs[0]) && op_of(grouping, gemm)->scalar == 1 &&
           grouping->program->buffers[b->outputs[0]].bytes * a->gemm.m ==
               grouping->program->buffers[a->outputs[0]].bytes;
}

static bool join_bias_gradient(struct grouping *grouping, int index)
{
    if (at(grouping, index)->phase != PHASE_WEIGHT || !is_plain(grouping, index)) return false;
    for (int i = grouping->begin; i < index; i++) {
        if (!is_plain(grouping, i) || !is_alone(grouping, i)) continue;
        bool is_behind = is_pair(grouping, i, index), is_before = is_pair(grouping, index, i);
        if (is_behind) return add_to(grouping, i, index, JOIN_BIAS_GRADIENT);
        // The GEMM goes in front of the sum that waits for it.
        if (!is_before || !may_pass(grouping, index, i, index)) continue;
        move_up(grouping, index, i);
        return add_to(grouping, i, i + 1, JOIN_BIAS_GRADIENT);
    }
    return false;
}

static bool (*const RULES[JOIN_COUNT])(struct grouping *grouping, int index) = {
    [JOIN_SUM] = join_sum,           [JOIN_ROWS] = join_rows,
    [JOIN_SUM_NORM] = join_sum_norm, [JOIN_NORM_SUM] = join_norm_sum,
    [JOIN_BIAS] = join_bias,         [JOIN_GELU] = join_gelu,
    [JOIN_GELU_SLOPE] = join_slope,  [JOIN_BIAS_GRADIENT] = join_bias_gradient,
};

static void try_rules(struct grouping *grouping, int index)
{
    if (!is_plain(grouping, index) || !is_alone(grouping, index)) return;
    for (int rule = 0; rule < JOIN_COUNT; rule++) {
        bool is_on = grouping->joins >> rule & 1 && RULES[rule];
        if (is_on && RULES[rule](grouping, index)) return;
    }
}

void groups_form(struct arena *arena, struct block_program *program, unsigned joins)
{
    struct grouping grouping = {.program = program, .joins = joins};
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
}
