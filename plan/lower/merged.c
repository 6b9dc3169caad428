#include "plan/lower/merged.h"

#include "models/op.h"
#include "plan/lower/packed.h"

#include <assert.h>

enum { MEMBERS_MAX = 4 };
enum { NONE = -1, SEVERAL = -2 };

// GEMMs of one mark, in the order of their weights.
struct sharing {
    struct grouping of;
    const struct mesh *mesh;
    struct arena *arena;
    struct packed_room room;
    const bool *is_dense;  // [buffer]: somebody takes no array whose rows lie apart
    const int *runs;       // [2 op + recomputed]: the number of who runs it, or NONE, or SEVERAL
    enum phase phase;      // that they run in
    struct instr like;     // one of them
    int ops[MEMBERS_MAX], parameters[MEMBERS_MAX];
    int count;
    struct packed_part seen[MEMBERS_MAX];
};

static const struct block *block_of(const struct sharing *sharing)
{
    return sharing->of.program->block;
}

static bool is_member(const struct block_program *program, const struct instr *a,
                      const struct instr *b)
{
    return a->collective == COLLECTIVE_NONE && a->kind == OP_CONTRACT && a->merge == b->merge &&
           a->phase == b->phase && a->recompute == b->recompute &&
           program->block->ops[a->op].phase == program->block->ops[b->op].phase;
}

// Where an operator of the group's kind stands now; -1.
static int place_of(const struct sharing *sharing, int op)
{
    const struct block_program *program = sharing->of.program;
    int end = program->phase_first[sharing->phase + 1];
    int number = sharing->runs[2 * op + sharing->like.recompute];
    if (number == NONE) return -1;
    if (number != SEVERAL) {
        int place = sharing->of.places[number];
        return place >= sharing->of.begin && place < end ? place : -1;
    }
    for (int i = sharing->of.begin; i < end; i++) {
        const struct instr *instr = &program->instrs[i];
        bool is_it = instr->collective == COLLECTIVE_NONE && instr->op == op &&
                     instr->recompute == sharing->like.recompute;
        if (is_it) return i;
    }
    return -1;
}

static const struct instr *member(const struct sharing *sharing, int m)
{
    assert(m >= 0 && m < sharing->count);
    return group_at(&sharing->of, place_of(sharing, sharing->ops[m]));
}

// The index among the program's parameters of what a forward operator reads as its second input.
static int parameter_of(const struct sharing *sharing, int op)
{
    const struct block_program *program = sharing->of.program;
    const struct op *forward = &program->block->ops[program->block->ops[op].forward_op];
    for (int p = 0; p < program->parameter_count; p++) {
        if (forward->input_count == 2 && program->parameters[p].tensor == forward->inputs[1])
            return p;
    }
    return -1;
}

// Whether all ranks hold as much of a parameter.
static bool is_even(const struct sharing *sharing, int parameter)
{
    const struct block_program *program = sharing->of.program;
    const struct parameter *of = &program->parameters[parameter];
    const struct tensor *tensor = &program->block->tensors[of->tensor];
    for (int i = 0; i < tensor->rank; i++) {
        unsigned axes = layout_axes_on(&of->layout, tensor->extents[i].dim);
        if (tensor->extents[i].size % mesh_size(sharing->mesh, axes) != 0) return false;
    }
    return true;
}

// Whether the parameters of these operators stand one behind another. Sorts the operators.
static bool sort_by_parameter(const struct sharing *sharing, int *ops, int *parameters, int count)
{
    assert(count >= 1 && count <= MEMBERS_MAX);
    for (int i = 0; i < count; i++) {
        int op = ops[i], parameter = parameter_of(sharing, op), at = i;
        if (parameter < 0 || !is_even(sharing, parameter)) return false;
        for (; at > 0 && parameters[at - 1] > parameter; at--) {
            ops[at] = ops[at - 1];
            parameters[at] = parameters[at - 1];
        }
        ops[at] = op;
        parameters[at] = parameter;
    }
    for (int i = 1; i < count; i++) {
        if (parameters[i] != parameters[0] + i) return false;
    }
    return true;
}

static bool is_one_gemm(const struct sharing *sharing, int index)
{
    const struct instr *instr = group_at(&sharing->of, index);
    return group_is_plain(&sharing->of, index) && group_is_alone(&sharing->of, index) &&
           instr->input_count == 2 && instr->output_count == 1 && instr->gemm.batch == 1 &&
           block_of(sharing)->ops[instr->op].scalar == 1;
}

// All GEMMs of the mark of one, which is the first of them; false: they are no group.
static bool collect(struct sharing *sharing, int index)
{
    const struct block_program *program = sharing->of.program;
    sharing->like = program->instrs[index];
    sharing->count = 0;
    for (int i = sharing->of.begin; i < program->phase_first[sharing->phase + 1]; i++) {
        if (!is_member(program, &program->instrs[i], &sharing->like)) continue;
        if (sharing->count == MEMBERS_MAX || !is_one_gemm(sharing, i)) return false;
        sharing->seen[sharing->count] = (struct packed_part){.count = 0};
        sharing->ops[sharing->count++] = program->instrs[i].op;
    }
    return sharing->count > 1 &&
           sort_by_parameter(sharing, sharing->ops, sharing->parameters, sharing->count);
}

// Back ends run these on arrays whose rows lie apart, but for a gate that has no rows of its own.
static bool may_see(const struct grouping *grouping, int index)
{
    if (!group_is_plain(grouping, index)) return false;
    const struct instr *instr = group_at(grouping, index);
    const struct op *op = &grouping->program->block->ops[instr->op];
    if (op->function == FUNCTION_MODULATE) return false;
    switch (instr->kind) {
    case OP_CONTRACT:
    case OP_ADD:
    case OP_ELEMENTWISE:
    case OP_EXPAND:
    case OP_NORM:
    case OP_NORM_BACKWARD:
    case OP_ATTENTION:
    case OP_ATTENTION_BACKWARD:
    case OP_REDUCE:
        return true;
    default:
        return false;
    }
}

// Whether a buffer may be part of a packed one: rows of (batch, seq), whole here.
static bool may_pack(const struct sharing *sharing, int buffer)
{
    const struct block_program *program = sharing->of.program;
    const struct tensor *tensor = group_tensor(&sharing->of, buffer);
    bool has_rows = tensor && tensor->rank > 2 && tensor->extents[0].dim == DIM_BATCH &&
                    tensor->extents[1].dim == DIM_SEQ && tensor->element == ELEMENT_COMPUTE;
    return has_rows && !block_program_crosses(program, buffer) && !sharing->is_dense[buffer];
}

// The one instruction that reads a buffer, which one writes; -1.
static int only_reader(const struct sharing *sharing, int buffer)
{
    if (!group_is_passed_on(&sharing->of, buffer)) return -1;
    return sharing->of.places[sharing->of.uses[buffer].reader];
}

static bool is_biasing(const struct sharing *sharing, int index)
{
    const struct instr *instr = group_at(&sharing->of, index);
    return instr->kind == OP_ADD && instr->input_count == 2 &&
           group_is_bias(&sharing->of, instr->inputs[1], instr->outputs[0]);
}

static bool is_rotation(const struct sharing *sharing, int index)
{
    const struct instr *instr = group_at(&sharing->of, index);
    return instr->kind == OP_ELEMENTWISE &&
           block_of(sharing)->ops[instr->op].function == FUNCTION_ROPE;
}

static void see(struct packed_part *seen, int buffer)
{
    assert(seen->count < PACKED_SEEN_MAX);
    seen->buffers[seen->count++] = buffer;
}

// What is made of a member's result in its place, as far as that goes.
static void follow_result(struct sharing *sharing, struct packed_part *seen)
{
    while (seen->count < PACKED_SEEN_MAX) {
        int buffer = seen->buffers[seen->count - 1], reader = only_reader(sharing, buffer);
        if (reader < 0 || !group_is_plain(&sharing->of, reader)) return;
        const struct instr *instr = group_at(&sharing->of, reader);
        bool fits = (is_biasing(sharing, reader) || is_rotation(sharing, reader)) &&
                    instr->inputs[0] == buffer && instr->phase == sharing->phase &&
                    instr->recompute == sharing->like.recompute &&
                    group_is_same_shape(&sharing->of, buffer, instr->outputs[0]) &&
                    may_pack(sharing, instr->outputs[0]);
        if (!fits) return;
        see(seen, instr->outputs[0]);
    }
}

// The one instruction that writes a buffer, once; -1.
static int writer_of(const struct sharing *sharing, int buffer)
{
    const struct group_uses *uses = &sharing->of.uses[buffer];
    if (uses->writers != 1) return -1;
    int place = sharing->of.places[uses->writer], times = 0;
    const struct instr *instr = group_at(&sharing->of, place);
    for (int k = 0; k < instr->output_count; k++)
        times += instr->outputs[k] == buffer;
    return times == 1 ? place : -1;
}

// What a gradient is rotated from, in its place.
static bool follow_gradient(struct sharing *sharing, struct packed_part *seen)
{
    int buffer = seen->buffers[0], writer = writer_of(sharing, buffer);
    if (writer < 0 || group_at(&sharing->of, writer)->phase != sharing->phase) return false;
    if (!is_rotation(sharing, writer)) return true;
    int from = group_at(&sharing->of, writer)->inputs[0];
    bool fits = only_reader(sharing, from) == writer && may_pack(sharing, from) &&
                group_is_same_shape(&sharing->of, from, buffer);
    if (fits) see(seen, from);
    return true;
}

static bool is_kept(const struct sharing *sharing, const struct packed_part *seen)
{
    for (int k = 0; k < seen->count; k++) {
        if (sharing->of.uses[seen->buffers[k]].last > sharing->phase) return true;
    }
    return false;
}

static bool are_kept_alike(const struct sharing *sharing)
{
    for (int m = 1; m < sharing->count; m++) {
        if (is_kept(sharing, &sharing->seen[m]) != is_kept(sharing, &sharing->seen[0]))
            return false;
    }
    return true;
}

static bool is_wanted(const struct sharing *sharing, const struct instr *instr, const int *ops,
                      int count)
{
    bool is_like = instr->collective == COLLECTIVE_NONE &&
                   instr->recompute == sharing->like.recompute && instr->join != JOIN_MERGED;
    for (int i = 0; i < count && is_like; i++) {
        if (instr->op == ops[i]) return true;
    }
    return false;
}

// All are one group, or no member of any. In the order in which they stand, so that each finds its
// place behind those before it.
static bool gather(struct sharing *sharing, const int *ops, int count)
{
    int first = -1, end = sharing->of.program->phase_first[sharing->phase + 1];
    bool is_done = count <= GROUP_MEMBERS_MAX;
    for (int at = sharing->of.begin; is_done && at < end; at++) {
        int op = group_at(&sharing->of, at)->op;
        if (!is_wanted(sharing, group_at(&sharing->of, at), ops, count)) continue;
        is_done = first < 0 || group_add(&sharing->of, first, at, JOIN_MERGED);
        if (is_done) first = group_first(&sharing->of, first < 0 ? at : place_of(sharing, op));
    }
    for (int i = 0; i < count && !is_done; i++) {
        struct instr *instr = group_at(&sharing->of, place_of(sharing, ops[i]));
        instr->joined = 0;
        instr->join = (enum join)0;
    }
    return is_done;
}

static void pack(struct sharing *sharing)
{
    packed_add(sharing->arena, sharing->of.program, sharing->seen, sharing->count, &sharing->room);
}

// The operators that alone read what the GEMMs make, all of them adding a bias; false: not so.
static bool find_biases(const struct sharing *sharing, int *ops)
{
    int parameters[MEMBERS_MAX] = {0};
    if (!(sharing->of.joins & (1u << JOIN_SUM | 1u << JOIN_BIAS))) return false;
    for (int m = 0; m < sharing->count; m++) {
        int reader = only_reader(sharing, member(sharing, m)->outputs[0]);
        if (reader < 0 || sharing->seen[m].count < 2 || !is_biasing(sharing, reader)) return false;
        ops[m] = group_at(&sharing->of, reader)->op;
    }
    return sort_by_parameter(sharing, ops, parameters, sharing->count);
}

static void form_forward(struct sharing *sharing)
{
    int ops[2 * MEMBERS_MAX] = {0};
    for (int m = 0; m < sharing->count; m++) {
        const struct instr *instr = member(sharing, m);
        bool fits = instr->inputs[0] == sharing->like.inputs[0] &&
                    instr->gemm.m == sharing->like.gemm.m && may_pack(sharing, instr->outputs[0]);
        if (!fits) return;
        see(&sharing->seen[m], instr->outputs[0]);
        follow_result(sharing, &sharing->seen[m]);
        ops[m] = sharing->ops[m];
        sharing->seen[m].columns = instr->gemm.n;
    }
    if (!are_kept_alike(sharing)) return;
    bool has_biases = find_biases(sharing, ops + sharing->count);
    bool is_done = has_biases && gather(sharing, ops, 2 * sharing->count);
    if (is_done || gather(sharing, ops, sharing->count)) pack(sharing);
}

// The one sum of all that the GEMMs make; -1.
static int sum_of(const struct sharing *sharing)
{
    int sum = -1;
    for (int m = 0; m < sharing->count; m++) {
        const struct instr *instr = member(sharing, m);
        int reader = only_reader(sharing, instr->outputs[0]);
        if (reader < 0 || (m > 0 && reader != sum)) return -1;
        sum = reader;
        const struct instr *add = group_at(&sharing->of, sum);
        bool fits = add->kind == OP_ADD && group_is_plain(&sharing->of, sum) &&
                    add->phase == sharing->phase && !add->recompute &&
                    group_is_alone(&sharing->of, sum) &&
                    !block_program_crosses(sharing->of.program, add->outputs[0]) &&
                    group_is_same_part(&sharing->of, instr->outputs[0], add->outputs[0]);
        if (!fits) return -1;
    }
    return sum;
}

static bool form_backward(struct sharing *sharing)
{
    int ops[MEMBERS_MAX + 1] = {0}, sum = sum_of(sharing);
    if (sum < 0 || sharing->like.recompute) return false;
    for (int m = 0; m < sharing->count; m++) {
        const struct instr *instr = member(sharing, m);
        bool fits = instr->gemm.m == sharing->like.gemm.m && may_pack(sharing, instr->inputs[0]);
        if (!fits) return false;
        see(&sharing->seen[m], instr->inputs[0]);
        if (!follow_gradient(sharing, &sharing->seen[m])) return false;
        ops[m] = sharing->ops[m];
        sharing->seen[m].columns = instr->gemm.k;
    }
    ops[sharing->count] = group_at(&sharing->of, sum)->op;
    if (!are_kept_alike(sharing) || !gather(sharing, ops, sharing->count + 1)) return false;
    pack(sharing);
    return true;
}

// The gradients of the biases behind the weights: sums of what the weight gradients read; false:
// not of all.
static bool find_bias_gradients(const struct sharing *sharing, int gradient, int *ops)
{
    const struct block_program *program = sharing->of.program;
    if (!(sharing->of.joins >> JOIN_BIAS_GRADIENT & 1)) return false;
    for (int m = 0; m < sharing->count; m++) {
        int found = -1;
        for (int i = sharing->of.begin; i < program->instr_count; i++) {
            const struct instr *instr = &program->instrs[i];
            bool is_it = instr->kind == OP_REDUCE && group_is_plain(&sharing->of, i) &&
                         group_is_alone(&sharing->of, i) &&
                         instr->inputs[0] == member(sharing, m)->inputs[gradient] &&
                         program->buffers[instr->outputs[0]].external;
            if (is_it) found = instr->op;
        }
        if (found < 0) return false;
        ops[m] = found;
    }
    int parameters[MEMBERS_MAX] = {0};
    return sort_by_parameter(sharing, ops, parameters, sharing->count);
}

// Their gradients are packed; `whole` of all is one.
static void form_weights(struct sharing *sharing)
{
    const struct block_program *program = sharing->of.program;
    int ops[2 * MEMBERS_MAX] = {0}, whole = -1;
    int gradient = sharing->like.input_views[0] ? 0 : 1;
    for (int m = 0; m < sharing->count; m++) {
        const struct instr *instr = member(sharing, m);
        int view = instr->input_views[gradient] - 1;
        const struct buffer *made = &program->buffers[instr->outputs[0]];
        bool fits = view >= 0 &&
                    instr->inputs[1 - gradient] == sharing->like.inputs[1 - gradient] &&
                    made->external && writer_of(sharing, instr->outputs[0]) >= 0 &&
                    (m == 0 || program->views[view].whole == whole);
        if (!fits) return;
        whole = program->views[view].whole;
        ops[m] = sharing->ops[m];
    }
    bool has_biases = find_bias_gradients(sharing, gradient, ops + sharing->count);
    if (has_biases && gather(sharing, ops, 2 * sharing->count)) return;
    gather(sharing, ops, sharing->count);
}

static bool is_merged(const struct grouping *of, int index)
{
    int first = group_first(of, index);
    return group_at(of, first)->joined > 0 && group_at(of, first + 1)->join == JOIN_MERGED;
}

// What runs alone has no mark.
static void unmark(const struct grouping *of, int end)
{
    for (int i = of->begin; i < end; i++) {
        if (group_at(of, i)->merge && !is_merged(of, i)) group_at(of, i)->merge = 0;
    }
}

static const bool *find_dense(struct arena *arena, const struct grouping *grouping)
{
    const struct block_program *program = grouping->program;
    bool *is_dense = ARENA_NEW(arena, bool, program->buffer_count);
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (may_see(grouping, i)) continue;
        for (int k = 0; k < instr->input_count; k++)
            is_dense[instr->inputs[k]] = true;
        for (int k = 0; k < instr->output_count; k++)
            is_dense[instr->outputs[k]] = true;
    }
    return is_dense;
}

static const int *find_runs(struct arena *arena, const struct block_program *program)
{
    int count = 2 * program->block->op_count;
    int *runs = ARENA_NEW(arena, int, count);
    for (int i = 0; i < count; i++)
        runs[i] = NONE;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->collective != COLLECTIVE_NONE) continue;
        int *run = &runs[2 * instr->op + instr->recompute];
        *run = *run == NONE ? i : SEVERAL;
    }
    return runs;
}

static void form(struct sharing *sharing, int index)
{
    const struct block_program *program = sharing->of.program;
    const struct instr *instr = &program->instrs[index];
    bool is_new = instr->merge && instr->kind == OP_CONTRACT && !is_merged(&sharing->of, index);
    if (!is_new || instr->collective || !collect(sharing, index)) return;
    switch (program->block->ops[instr->op].phase) {
    case PHASE_FORWARD:
        form_forward(sharing);
        break;
    case PHASE_BACKWARD:
        form_backward(sharing);
        break;
    default:
        form_weights(sharing);
        break;
    }
}

void merged_form(struct arena *arena, const struct grouping *grouping, const struct mesh *mesh)
{
    struct block_program *program = grouping->program;
    struct sharing sharing = {.of = *grouping,
                              .mesh = mesh,
                              .arena = arena,
                              .room = {grouping->buffer_capacity, program->view_count}};
    bool merges = grouping->joins >> JOIN_MERGED & 1;
    if (merges) {
        sharing.is_dense = find_dense(arena, grouping);
        sharing.runs = find_runs(arena, program);
    }
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        int end = program->phase_first[phase + 1];
        sharing.phase = (enum phase)phase;
        sharing.of.begin = program->phase_first[phase];
        for (int i = sharing.of.begin; i < end && merges; i++)
            form(&sharing, i);
        unmark(&sharing.of, end);
    }
}
