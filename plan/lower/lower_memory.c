#include "plan/lower/lowering.h"

#include <assert.h>

// Lifetimes follow from the order of instructions. Two orders matter: the program's own (all of B,
// then all of W, as schedules that part them run it), which gives birth, death and what is held
// between the two; and the fused one (each weight gradient as soon as it can be made, as autograd
// runs it), which gives the transients.

struct order {
    int *instrs;       // a permutation
    int forward_end;   // times
    int backward_end;  // when the gradient of the input is handed on
};

struct lifetimes {
    int *birth, *death;  // by buffer, in times of an order
};

static void touch(const struct lifetimes *of, int buffer, int time)
{
    if (of->death[buffer] == 0) of->birth[buffer] = time;
    of->death[buffer] = time + 1;
}

static void touch_for(const struct lifetimes *of, int buffer, int first, int last)
{
    assert(first >= 0 && first <= last);
    touch(of, buffer, first);
    touch(of, buffer, last);
}

static int later(int a, int b)
{
    return a > b ? a : b;
}

// Buffers that cross the boundary of the block live to it.
static void cross_boundaries(const struct lowering *low, const struct order *order,
                             const struct lifetimes *of)
{
    for (int i = 0; i < low->block->input_count; i++) {
        int input = low->program->inputs[i], gradient = low->program->input_gradients[i];
        of->birth[input] = 0;
        of->death[input] = later(of->death[input], 1);
        if (gradient >= 0) of->death[gradient] = later(of->death[gradient], order->backward_end);
    }
    for (int i = 0; i < low->block->output_count; i++) {
        int output = low->program->outputs[i], gradient = low->program->output_gradients[i];
        of->death[output] = later(of->death[output], order->forward_end);
        if (gradient < 0) continue;
        of->birth[gradient] = order->forward_end;
        of->death[gradient] = later(of->death[gradient], order->forward_end);
    }
}

// Logits are kept for backward, and a loss has its other operands on either side.
static bool is_inside_norm(const struct block_program *program, const struct instr *instr)
{
    return instr->inner > 0 && instr->collective == COLLECTIVE_ALL_REDUCE &&
           program->block->ops[instr->op].kind != OP_LOSS;
}

// The operator that an exchange stands inside of.
static const struct instr *around(const struct block_program *program, int index)
{
    assert(program->instrs[index].inner > 0 && "an exchange inside an operator");
    int around = index;
    while (program->instrs[around].collective ||
           program->instrs[around].op != program->instrs[index].op)
        around--;
    return &program->instrs[around];
}

// What the operator around an exchange reads and writes, it still does when that is done.
static void touch_around(const struct block_program *program, const struct lifetimes *of, int index,
                         int time)
{
    const struct instr *instr = around(program, index);
    for (int i = 0; i < instr->input_count; i++)
        touch(of, instr->inputs[i], time);
    for (int i = 0; i < instr->output_count; i++)
        touch(of, instr->outputs[i], time);
}

static struct lifetimes lifetimes_of(struct lowering *low, const struct order *order)
{
    const struct block_program *program = low->program;
    struct lifetimes of = {ARENA_NEW(low->arena, int, program->buffer_count),
                           ARENA_NEW(low->arena, int, program->buffer_count)};
    for (int time = 0; time < program->instr_count; time++) {
        int index = order->instrs[time];
        const struct instr *instr = &program->instrs[index];
        // What runs as one call has all of its operands from its beginning to its end.
        int first = time - (index - instr_first(program->instrs, index));
        int last = time + (instr_last(program->instrs, index) - index);
        for (int i = 0; i < instr->input_count; i++)
            touch_for(&of, instr->inputs[i], first, last);
        for (int i = 0; i < instr->output_count; i++)
            touch_for(&of, instr->outputs[i], first, last);
        if (is_inside_norm(program, instr)) touch_around(program, &of, index, last);
    }
    cross_boundaries(low, order, &of);
    return of;
}

// By buffer: the scores over the vocabulary, gathered once more or not, and their gradient.
static bool *logits_of(struct lowering *low)
{
    const struct block_program *program = low->program;
    bool *is_logits = ARENA_NEW(low->arena, bool, program->buffer_count);
    int scores = -1;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->collective != COLLECTIVE_NONE) continue;
        if (instr->kind == OP_LOSS) {
            is_logits[instr->inputs[0]] = true;
            scores = program->buffers[instr->inputs[0]].tensor;
        }
        if (instr->kind != OP_LOSS_BACKWARD) continue;
        is_logits[instr->outputs[0]] = true;
        for (int k = 0; k < instr->input_count; k++)
            is_logits[instr->inputs[k]] |= program->buffers[instr->inputs[k]].tensor == scores;
    }
    return is_logits;
}

// Peaks of live bytes, but for those of `apart` (may be NULL), in the times [0, forward_end),
// [forward_end, backward_end) and from there on.
static void find_peaks(struct lowering *low, const struct order *order, const struct lifetimes *of,
                       const bool *apart, int64_t peak_bytes[PHASE_COUNT])
{
    const struct block_program *program = low->program;
    int64_t *change_bytes = ARENA_NEW(low->arena, int64_t, program->instr_count + 1);
    for (int b = 0; b < program->buffer_count; b++) {
        if (program->buffers[b].external || (apart && apart[b])) continue;
        assert(of->birth[b] <= of->death[b] && of->death[b] <= program->instr_count);
        change_bytes[of->birth[b]] += program->buffers[b].bytes;
        change_bytes[of->death[b]] -= program->buffers[b].bytes;
    }
    int64_t live_bytes = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        peak_bytes[phase] = 0;
    for (int time = 0; time < program->instr_count; time++) {
        live_bytes += change_bytes[time];
        enum phase phase = time < order->forward_end    ? PHASE_FORWARD
                           : time < order->backward_end ? PHASE_BACKWARD
                                                        : PHASE_WEIGHT;
        if (peak_bytes[phase] < live_bytes) peak_bytes[phase] = live_bytes;
    }
    assert(live_bytes + change_bytes[program->instr_count] == 0);
}

// Whether a collective puts a parameter's gradient where the state keeps it: it follows what made
// it, as other collectives of W precede what they are for.
static bool puts_gradient(const struct block_program *program, const struct instr *instr)
{
    if (instr->collective == COLLECTIVE_NONE) return false;
    const struct buffer *to = &program->buffers[instr->outputs[0]];
    return to->external && to->tensor >= 0;
}

// For each instruction of W, the instruction of B after which it can run (-1: none of them). A
// gathering runs right before the work that it is for.
static void find_keys(struct arena *arena, const struct block_program *program, int *key)
{
    assert(program->phase_first[PHASE_BACKWARD] <= program->phase_first[PHASE_WEIGHT]);
    int first = program->phase_first[PHASE_BACKWARD], weights = program->phase_first[PHASE_WEIGHT];
    int *made_at = ARENA_NEW(arena, int, program->buffer_count);
    for (int b = 0; b < program->buffer_count; b++)
        made_at[b] = -1;
    for (int i = first; i < weights; i++) {
        const struct instr *instr = &program->instrs[i];
        // What a norm makes is there when its last exchange is done.
        const struct instr *maker = is_inside_norm(program, instr) ? around(program, i) : instr;
        for (int o = 0; o < maker->output_count; o++)
            made_at[maker->outputs[o]] = i;
    }
    for (int i = weights, waiting = weights; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        bool is_put = puts_gradient(program, instr);
        if (instr->collective && !instr->parameter && !is_put) continue;
        if (instr_last(program->instrs, i) > i) continue;  // with the last of its group
        bool is_in_relay = instr->relay && i + 1 < program->instr_count;
        if (is_in_relay && program->instrs[i + 1].relay == instr->relay) continue;
        int ready = instr->collective && !is_put && weights > first ? weights - 1 : -1;
        for (int w = waiting; w <= i; w++) {
            for (int j = 0; j < program->instrs[w].input_count; j++) {
                ready = later(ready, made_at[program->instrs[w].inputs[j]]);
            }
        }
        if (ready >= 0) ready = instr_last(program->instrs, ready);
        for (; waiting <= i; waiting++) {
            const struct instr *done = &program->instrs[waiting];
            key[waiting] = ready;
            for (int j = 0; j < done->output_count; j++)
                made_at[done->outputs[j]] = ready;
        }
    }
}

int *lower_fused_order(struct arena *arena, const struct block_program *program)
{
    assert(program->phase_first[PHASE_WEIGHT] <= program->instr_count);
    int count = program->instr_count, weights = program->phase_first[PHASE_WEIGHT];
    int *key = ARENA_NEW(arena, int, count);
    find_keys(arena, program, key);
    // Lists of W by key, each in program order.
    int *head = ARENA_NEW(arena, int, weights + 1), *next = ARENA_NEW(arena, int, count);
    for (int k = 0; k <= weights; k++)
        head[k] = -1;
    for (int i = count - 1; i >= weights; i--) {
        next[i] = head[key[i] + 1];
        head[key[i] + 1] = i;
    }
    int *instrs = ARENA_NEW(arena, int, count), time = 0;
    for (int i = 0; i <= weights; i++) {
        if (i == program->phase_first[PHASE_BACKWARD]) {
            for (int w = head[0]; w >= 0; w = next[w])
                instrs[time++] = w;
        }
        if (i == weights) break;
        instrs[time++] = i;
        for (int w = head[i + 1]; w >= 0; w = next[w])
            instrs[time++] = w;
    }
    assert(time == count);
    return instrs;
}

static struct order fused_order(struct lowering *low)
{
    const struct block_program *program = low->program;
    return (struct order){lower_fused_order(low->arena, program),
                          program->phase_first[PHASE_BACKWARD], program->instr_count};
}

static struct order program_order(struct lowering *low)
{
    const struct block_program *program = low->program;
    struct order order = {ARENA_NEW(low->arena, int, program->instr_count),
                          program->phase_first[PHASE_BACKWARD], program->phase_first[PHASE_WEIGHT]};
    for (int i = 0; i < program->instr_count; i++)
        order.instrs[i] = i;
    return order;
}

// What W reads when it runs as a task of its own.
static int64_t held_bytes(const struct block_program *program)
{
    int boundary = program->phase_first[PHASE_WEIGHT];
    int64_t bytes = 0;
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        bool held = !buffer->external && buffer->birth < boundary && buffer->death > boundary;
        if (held) bytes += buffer->bytes;
    }
    return bytes;
}

// What forward made and backward reads is kept between the two, in the layouts that it reads. The
// next block counts the outputs of this one among its inputs.
static bool is_saved(const struct block_program *program, int buffer)
{
    const struct buffer *of = &program->buffers[buffer];
    int boundary = program->phase_first[PHASE_BACKWARD];
    bool is_output = false;
    for (int i = 0; i < program->block->output_count; i++)
        is_output = is_output || buffer == program->outputs[i];
    bool is_kept = !of->external && of->birth < boundary && of->death > boundary;
    assert(!is_kept || layout_partial_axes(&of->layout) == 0);
    return is_kept && !is_output;
}

// The gradient of a weight that plain GEMMs read, or a move of what it reads.
static bool is_weight_work(const struct lowering *low, const struct instr *instr)
{
    const struct block *block = low->block;
    if (instr->phase != PHASE_WEIGHT || instr->recompute) return false;
    if (instr->collective) return instr->inner == 0;
    if (instr->kind != OP_CONTRACT) return false;
    const struct tensor *result = &block->tensors[block->ops[instr->op].outputs[0]];
    bool is_router = tensor_find_dim(result, DIM_GATE) >= 0;
    return result->role == TENSOR_PARAMETER_GRADIENT && !is_router;
}

// Of our own engine the buffers say what it keeps in 8 bits (plan/lower/casts.h).
static void count_weight_reads(struct lowering *low)
{
    struct block_program *program = low->program;
    if (joins_are_executed(low->request->joins)) return;
    bool *alone = ARENA_NEW(low->arena, bool, program->buffer_count);
    bool *shared = ARENA_NEW(low->arena, bool, program->buffer_count);
    for (int i = program->phase_first[PHASE_BACKWARD]; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        bool *read = is_weight_work(low, instr) ? alone : shared;
        for (int k = 0; k < instr->input_count; k++)
            read[instr->inputs[k]] = true;
    }
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (!buffer->saved || !alone[b]) continue;
        *(shared[b] ? &program->shared_read_bytes : &program->weight_read_bytes) += buffer->bytes;
    }
}

// Some software keeps for backward what tp gathered in forward (struct stack, keeps_gathers).
static void count_gathers(struct lowering *low)
{
    struct block_program *program = low->program;
    int64_t bytes = 0;
    bool is_repeated = false;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        bool is_gather = instr->collective == COLLECTIVE_ALL_GATHER && instr->parent == AXIS_TP &&
                         !instr->parameter && instr->inner == 0;
        if (!is_gather) continue;
        is_repeated |= instr->recompute;
        if (instr->phase == PHASE_FORWARD) bytes += instr->bytes;
    }
    *(is_repeated ? &program->regathered_bytes : &program->gathered_bytes) = bytes;
}

// What a collective hands on belongs to whoever made what it was given.
enum op_class *lower_classes(struct arena *arena, const struct block_program *program)
{
    enum op_class *class_of = ARENA_NEW(arena, enum op_class, program->buffer_count);
    for (int i = 0; i < program->phase_first[PHASE_BACKWARD]; i++) {
        const struct instr *instr = &program->instrs[i];
        enum op_class class = instr->op >= 0 ? program->block->ops[instr->op].class : OP_CLASS_NONE;
        if (instr->op < 0 && instr->input_count > 0) class = class_of[instr->inputs[0]];
        for (int o = 0; o < instr->output_count; o++)
            class_of[instr->outputs[o]] = class;
    }
    return class_of;
}

static void count_classes(struct lowering *low)
{
    struct block_program *program = low->program;
    const enum op_class *class_of = lower_classes(low->arena, program);
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (!buffer->saved) continue;
        program->class_saved_bytes[class_of[b]] += buffer->bytes;
        program->class_saved_count[class_of[b]]++;
    }
}

static int64_t score_bytes(const struct block_program *program)
{
    int64_t bytes = 0;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->collective != COLLECTIVE_NONE || instr->kind != OP_SOFTMAX) continue;
        int64_t found = program->buffers[instr->inputs[0]].bytes;
        if (found > bytes) bytes = found;
    }
    return bytes;
}

static int64_t above(int64_t peak_bytes, int64_t base_bytes)
{
    return peak_bytes > base_bytes ? peak_bytes - base_bytes : 0;
}

static int64_t beside_logits_bytes(struct lowering *low, const struct order *order,
                                   const struct lifetimes *of)
{
    const struct block_program *program = low->program;
    if (program->block->role != BLOCK_HEAD) return 0;
    const bool *is_logits = logits_of(low);
    int64_t peak_bytes[PHASE_COUNT], saved_bytes = program->saved_bytes;
    for (int b = 0; b < program->buffer_count; b++) {
        if (program->buffers[b].saved && is_logits[b]) saved_bytes -= program->buffers[b].bytes;
    }
    assert(saved_bytes >= 0 && "logits are a part of what is saved");
    find_peaks(low, order, of, is_logits, peak_bytes);
    bool is_forward = peak_bytes[PHASE_FORWARD] > peak_bytes[PHASE_BACKWARD];
    return above(peak_bytes[is_forward ? PHASE_FORWARD : PHASE_BACKWARD], saved_bytes);
}

void lowering_memory(struct lowering *low)
{
    struct block_program *program = low->program;
    struct order order = program_order(low);
    struct lifetimes of = lifetimes_of(low, &order);
    for (int b = 0; b < program->buffer_count; b++) {
        struct buffer *buffer = &program->buffers[b];
        buffer->birth = buffer->external ? 0 : of.birth[b];
        buffer->death = buffer->external ? program->instr_count : of.death[b];
        buffer->saved = is_saved(program, b);
        if (buffer->saved) program->saved_bytes += buffer->bytes;
    }
    program->held_bytes = held_bytes(program);
    program->score_bytes = score_bytes(program);
    count_weight_reads(low);
    count_gathers(low);
    count_classes(low);

    int64_t peak_bytes[PHASE_COUNT], saved_bytes = program->saved_bytes;
    find_peaks(low, &order, &of, NULL, peak_bytes);
    int64_t backward_bytes = above(peak_bytes[PHASE_BACKWARD], saved_bytes);
    int64_t weight_bytes = above(peak_bytes[PHASE_WEIGHT], program->held_bytes);
    program->parted_transient_bytes = backward_bytes > weight_bytes ? backward_bytes : weight_bytes;

    order = fused_order(low);
    of = lifetimes_of(low, &order);
    find_peaks(low, &order, &of, NULL, peak_bytes);
    program->forward_transient_bytes = above(peak_bytes[PHASE_FORWARD], saved_bytes);
    program->backward_transient_bytes = above(peak_bytes[PHASE_BACKWARD], saved_bytes);
    program->beside_logits_bytes = beside_logits_bytes(low, &order, &of);
}
