#include "plan/lower/grouping.h"

#include "models/op.h"

#include <assert.h>
#include <string.h>

struct instr *group_at(const struct grouping *grouping, int index)
{
    return &grouping->program->instrs[index];
}

const struct op *group_op(const struct grouping *grouping, int index)
{
    return &grouping->program->block->ops[group_at(grouping, index)->op];
}

// While groups grow, members know by `joined` of the first alone that they are in one.
int group_first(const struct grouping *grouping, int index)
{
    int begin = index - GROUP_MEMBERS_MAX + 1;
    if (begin < grouping->begin) begin = grouping->begin;
    for (int i = index; i >= begin; i--) {
        if (group_at(grouping, i)->joined > index - i) return i;
    }
    return index;
}

int group_end(const struct grouping *grouping, int first)
{
    int joined = group_at(grouping, first)->joined;
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

static int whole_of(const struct block_program *program, int view)
{
    return view > 0 ? program->views[view - 1].whole : -1;
}

// Whether `a` writes a view of what `b` has a view of.
static bool writes_whole(const struct block_program *program, const struct instr *a,
                         const struct instr *b)
{
    for (int i = 0; i < a->output_count; i++) {
        int whole = whole_of(program, a->output_views[i]);
        for (int k = 0; k < b->input_count && whole >= 0; k++) {
            if (whole_of(program, b->input_views[k]) == whole) return true;
        }
        for (int k = 0; k < b->output_count && whole >= 0; k++) {
            if (whole_of(program, b->output_views[k]) == whole) return true;
        }
    }
    return false;
}

// Whether two may change places. Exchanges inside an operator stay behind it, and the gathering and
// scattering of parameters where it is.
static bool commutes(const struct block_program *program, const struct instr *a,
                     const struct instr *b)
{
    if (writes_whole(program, a, b) || writes_whole(program, b, a)) return false;
    if (a->inner || b->inner || a->parameter || b->parameter) return false;
    return !writes_any(a, b->inputs, b->input_count) &&
           !writes_any(a, b->outputs, b->output_count) && !writes_any(b, a->inputs, a->input_count);
}

bool group_may_pass(const struct grouping *grouping, int index, int from, int to)
{
    assert(from >= 0 && to <= grouping->program->instr_count);
    for (int i = from; i < to; i++) {
        if (!commutes(grouping->program, group_at(grouping, index), group_at(grouping, i)))
            return false;
    }
    return true;
}

static void note_places(struct grouping *grouping, int first, int end)
{
    for (int i = first; i < end; i++)
        grouping->places[grouping->numbers[i]] = i;
}

// Instructions [first, end) behind those up to `to`.
void group_move_down(struct grouping *grouping, int first, int end, int to)
{
    struct instr held[GROUP_MEMBERS_MAX];
    int numbers[GROUP_MEMBERS_MAX], *at = grouping->numbers;
    int count = end - first;
    assert(count <= GROUP_MEMBERS_MAX);
    memcpy(held, group_at(grouping, first), (size_t)count * sizeof *held);
    memmove(group_at(grouping, first), group_at(grouping, end), (size_t)(to - end) * sizeof *held);
    memcpy(group_at(grouping, to - count), held, (size_t)count * sizeof *held);
    memcpy(numbers, at + first, (size_t)count * sizeof *numbers);
    memmove(at + first, at + end, (size_t)(to - end) * sizeof *numbers);
    memcpy(at + to - count, numbers, (size_t)count * sizeof *numbers);
    note_places(grouping, first, to);
}

void group_move_up(struct grouping *grouping, int index, int to)
{
    assert(to <= index && to >= grouping->begin);
    struct instr held = *group_at(grouping, index);
    int number = grouping->numbers[index], *at = grouping->numbers;
    memmove(group_at(grouping, to + 1), group_at(grouping, to), (size_t)(index - to) * sizeof held);
    *group_at(grouping, to) = held;
    memmove(at + to + 1, at + to, (size_t)(index - to) * sizeof number);
    at[to] = number;
    note_places(grouping, to, index + 1);
}

// Puts `index` behind the group that begins at `first`, or the group in front of it. Returns where
// the group begins then; -1: what stands between them is in the way.
static int meet(struct grouping *grouping, int first, int index)
{
    int end = group_end(grouping, first);
    if (group_may_pass(grouping, index, end, index)) {
        group_move_up(grouping, index, end);
        return first;
    }
    for (int i = first; i < end; i++) {
        if (!group_may_pass(grouping, i, end, index)) return -1;
    }
    group_move_down(grouping, first, end, index);
    return index - (end - first);
}

bool group_add(struct grouping *grouping, int first, int index, enum join rule)
{
    int met = meet(grouping, first, index);
    if (met < 0) return false;
    int count = group_end(grouping, met) - met;
    assert(count < GROUP_MEMBERS_MAX);
    group_at(grouping, met)->joined = count + 1;
    group_at(grouping, met + count)->join = rule;
    return true;
}

// What may be a member: compute on this rank's part of dense tensors.
bool group_is_plain(const struct grouping *grouping, int index)
{
    const struct instr *instr = group_at(grouping, index);
    bool works = instr->collective == COLLECTIVE_NONE && !instr->inner && instr->output_count > 0;
    if (!works || instr->rows) return false;
    return !grouping->has_experts ||
           !op_has_dim(grouping->program->block, group_op(grouping, index), DIM_EXPERT);
}

bool group_has_views(const struct grouping *grouping, int index)
{
    const struct instr *instr = group_at(grouping, index);
    unsigned views = 0;
    for (int i = 0; i < instr->input_count; i++)
        views |= (unsigned)instr->input_views[i];
    for (int i = 0; i < instr->output_count; i++)
        views |= (unsigned)instr->output_views[i];
    return views != 0;
}

bool group_is_alike(const struct grouping *grouping, int a, int b)
{
    const struct instr *x = group_at(grouping, a), *y = group_at(grouping, b);
    return x->phase == y->phase && x->recompute == y->recompute;
}

bool group_is_alone(const struct grouping *grouping, int index)
{
    return group_at(grouping, group_first(grouping, index))->joined == 0;
}

// Who wrote a buffer last before `index` in its phase; -1.
int group_maker(const struct grouping *grouping, int index, int buffer)
{
    const struct group_uses *uses = &grouping->uses[buffer];
    if (uses->writers == 0) return -1;
    if (uses->writers == 1) {
        int place = grouping->places[uses->writer];
        return place >= grouping->begin && place < index ? place : -1;
    }
    for (int i = index - 1; i >= grouping->begin; i--) {
        if (has(group_at(grouping, i)->outputs, group_at(grouping, i)->output_count, buffer))
            return i;
    }
    return -1;
}

static const struct group_uses *uses_of(struct arena *arena, const struct block_program *program)
{
    struct group_uses *uses = ARENA_NEW(arena, struct group_uses, program->buffer_count);
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        for (int k = 0; k < instr->input_count; k++) {
            struct group_uses *read = &uses[instr->inputs[k]];
            read->readers++;
            read->reader = i;
            read->last = instr->phase;
        }
        // Of results that are one buffer one instruction writes.
        for (int k = 0; k < instr->output_count; k++) {
            struct group_uses *written = &uses[instr->outputs[k]];
            written->writers += !has(instr->outputs, k, instr->outputs[k]);
            written->writer = i;
            written->last = instr->phase;
        }
    }
    return uses;
}

static bool has_experts(const struct block *block)
{
    for (int t = 0; t < block->tensor_count; t++) {
        if (tensor_find_dim(&block->tensors[t], DIM_EXPERT) >= 0) return true;
    }
    return false;
}

struct grouping grouping_of(struct arena *arena, struct block_program *program, unsigned joins)
{
    int count = program->instr_count;
    struct grouping grouping = {.program = program,
                                .joins = joins,
                                .uses = uses_of(arena, program),
                                .numbers = ARENA_NEW(arena, int, count),
                                .places = ARENA_NEW(arena, int, count),
                                .has_experts = has_experts(program->block)};
    for (int i = 0; i < count; i++)
        grouping.numbers[i] = grouping.places[i] = i;
    return grouping;
}

// Whether one instruction reads this buffer, once, and one writes it.
bool group_is_passed_on(const struct grouping *grouping, int buffer)
{
    const struct group_uses *uses = &grouping->uses[buffer];
    return uses->readers == 1 && uses->writers == 1 &&
           !block_program_crosses(grouping->program, buffer);
}

const struct tensor *group_tensor(const struct grouping *grouping, int buffer)
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
bool group_is_same_shape(const struct grouping *grouping, int a, int b)
{
    const struct buffer *x = &grouping->program->buffers[a], *y = &grouping->program->buffers[b];
    return x->bytes == y->bytes && layout_equal(&x->layout, &y->layout) &&
           has_same_dims(group_tensor(grouping, a), group_tensor(grouping, b));
}

bool group_is_same_part(const struct grouping *grouping, int a, int b)
{
    const struct buffer *x = &grouping->program->buffers[a], *y = &grouping->program->buffers[b];
    for (size_t i = 0; i < sizeof x->layout.of / sizeof *x->layout.of; i++) {
        bool is_split = x->layout.of[i] > 0 || y->layout.of[i] > 0;
        if (is_split && x->layout.of[i] != y->layout.of[i]) return false;
    }
    return x->bytes == y->bytes &&
           has_same_dims(group_tensor(grouping, a), group_tensor(grouping, b));
}

bool group_is_bias(const struct grouping *grouping, int buffer, int whole)
{
    const struct tensor *bias = group_tensor(grouping, buffer);
    const struct tensor *sum = group_tensor(grouping, whole);
    if (!bias || !sum || bias->role != TENSOR_PARAMETER || bias->rank >= sum->rank) return false;
    for (int i = 1; i <= bias->rank; i++) {
        if (bias->extents[bias->rank - i].dim != sum->extents[sum->rank - i].dim) return false;
    }
    return true;
}
