#include "plan/lower/relay_pair.h"

#include "core/divisor.h"
#include "plan/held.h"
#include "plan/lower/relay_parts.h"
#include "plan/lower/relay_put.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool has(const int *list, int count, int index)
{
    for (int i = 0; i < count; i++)
        if (list[i] == index) return true;
    return false;
}

// Of a matrix's gradient, which begins with what its product is summed over.
static bool is_gradient(const struct tensor *tensor)
{
    return tensor && tensor->role == TENSOR_PARAMETER_GRADIENT && tensor->rank > 1 &&
           tensor_find_dim(tensor, DIM_EXPERT) < 0;
}

// A gather or a scatter of columns of the tokens, or of a matrix, all of which goes round.
static bool may_be(const struct lowering *low, const struct instr *change, int split,
                   const struct relay_pair *pair)
{
    const struct tensor *tensor = relay_tensor(low, split);
    bool is_put = change->collective == COLLECTIVE_REDUCE_SCATTER && is_gradient(tensor);
    if (change->parameter || change->inner || change->streamed || change->parent != AXIS_TP ||
        !(is_put || relay_has_columns(tensor, change)) ||
        relay_axes_of(low, change) != change->axes)
        return false;
    return (pair->dim == DIM_NONE || change->dim == pair->dim) &&
           relay_is_even(low, tensor, change->dim, &low->program->buffers[split].layout, 1);
}

// The gather that makes an operand; -1.
static int gather_of(const struct lowering *low, int work, int buffer)
{
    const struct block_program *program = low->program;
    for (int i = 0; i < work; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->collective == COLLECTIVE_ALL_GATHER && relay_writes(instr, buffer)) return i;
    }
    return -1;
}

// Takes a gather and all that read it, which have to be products.
static bool take_gather(const struct lowering *low, int index, const int *is_taken,
                        struct relay_pair *pair)
{
    const struct block_program *program = low->program;
    const struct instr *gather = &program->instrs[index];
    int whole = gather->outputs[0];
    if (has(pair->gathers, pair->gather_count, index)) return true;
    if (is_taken[index] || !may_be(low, gather, gather->inputs[0], pair) ||
        block_program_crosses(program, whole))
        return false;
    pair->dim = gather->dim;
    pair->gathers[pair->gather_count++] = index;
    for (int i = index + 1; i < program->instr_count; i++) {
        const struct instr *reader = &program->instrs[i];
        if (relay_writes(reader, whole) || relay_writes(reader, gather->inputs[0])) return false;
        if (!relay_reads(reader, whole)) continue;
        if (is_taken[i] || !relay_is_product(low, gather, reader)) return false;
        if (!has(pair->works, pair->work_count, i)) pair->works[pair->work_count++] = i;
    }
    return true;
}

// Where the state keeps a gradient all that comes is added; what else is external stays whole.
static bool may_be_put(const struct lowering *low, const struct instr *scatter)
{
    const struct buffer *to = &low->program->buffers[scatter->outputs[0]];
    return !to->external || is_gradient(relay_tensor(low, scatter->outputs[0]));
}

// Takes what scatters the result of a product, or the sum that it is a term of, with all terms.
static bool take_scatter(const struct lowering *low, int index, struct relay_pair *pair)
{
    const struct block_program *program = low->program;
    const struct instr *scatter = &program->instrs[index];
    for (int s = 0; s < pair->sum_count; s++)
        if (pair->sums[s].scatter == index) return true;
    if (scatter->combine != LAYOUT_SUM || !may_be(low, scatter, scatter->outputs[0], pair) ||
        !may_be_put(low, scatter))
        return false;
    int maker = relay_only_maker(program, scatter->inputs[0], index);
    if (maker < 0) return false;
    struct relay_sum *of = &pair->sums[pair->sum_count++];
    *of = (struct relay_sum){index, -1};
    const struct instr *sum = &program->instrs[maker];
    if (sum->kind != OP_ADD || sum->collective) return true;
    of->sum = maker;
    for (int k = 0; k < sum->input_count; k++) {
        int term = relay_only_maker(program, sum->inputs[k], maker);
        if (term < 0 || !relay_is_product(low, scatter, &program->instrs[term])) return false;
        if (!has(pair->works, pair->work_count, term)) pair->works[pair->work_count++] = term;
    }
    return true;
}

// What reads the result of a product first, through a sum: the index of a scatter, or -1.
static int scatter_of(const struct block_program *program, int work)
{
    int buffer = program->instrs[work].outputs[0];
    for (int i = work + 1; i < program->instr_count; i++) {
        const struct instr *reader = &program->instrs[i];
        if (!relay_reads(reader, buffer)) continue;
        if (reader->collective == COLLECTIVE_REDUCE_SCATTER) return i;
        bool is_sum = reader->kind == OP_ADD && !reader->collective && reader->output_count == 1;
        if (!is_sum || buffer != program->instrs[work].outputs[0]) return -1;
        buffer = reader->outputs[0];
    }
    return -1;
}

static bool take_work(const struct lowering *low, int work, const int *is_taken,
                      struct relay_pair *pair)
{
    const struct instr *instr = &low->program->instrs[work];
    int gathered = 0;
    for (int k = 0; k < 2; k++) {
        int gather = gather_of(low, work, instr->inputs[k]);
        if (gather < 0) continue;
        if (!take_gather(low, gather, is_taken, pair)) return false;
        gathered++;
    }
    if (gathered == 0) return false;
    if (gathered == 2) return !block_program_crosses(low->program, instr->outputs[0]);
    int scatter = scatter_of(low->program, work);
    return scatter >= 0 && !is_taken[scatter] && take_scatter(low, scatter, pair);
}

// The axes of the other exchange of whom one goes over these.
static unsigned other_axes(const struct relay_pair *pair, unsigned axes)
{
    assert(axes == pair->axes[0] || axes == pair->axes[1]);
    return pair->axes[axes == pair->axes[0]];
}

static int gather_at(const struct instr *instrs, const struct relay_pair *pair, int buffer)
{
    for (int g = 0; g < pair->gather_count; g++)
        if (instrs[pair->gathers[g]].outputs[0] == buffer) return g;
    return -1;
}

// The sum that a product makes, or is a term of; -1: it is gathered on both sides.
static int sum_at(const struct instr *instrs, const struct relay_pair *pair, int work)
{
    int made = instrs[work].outputs[0];
    for (int s = 0; s < pair->sum_count; s++) {
        const struct relay_sum *of = &pair->sums[s];
        const struct instr *reader = &instrs[of->sum >= 0 ? of->sum : of->scatter];
        if (relay_reads(reader, made)) return s;
    }
    return -1;
}

static int pieces_of(const struct lowering *low, const struct relay_pair *pair, unsigned axes)
{
    assert(pair->turns % mesh_size(low->mesh, axes) == 0);
    return pair->turns / mesh_size(low->mesh, axes);
}

static bool is_even(const struct lowering *low, const struct relay_pair *pair, int split,
                    unsigned axes)
{
    return relay_is_even(low, relay_tensor(low, split), pair->dim,
                         &low->program->buffers[split].layout, pieces_of(low, pair, axes));
}

static bool has_even_pieces(const struct lowering *low, const struct relay_pair *pair)
{
    const struct instr *instrs = low->program->instrs;
    bool are_even = true;
    for (int g = 0; g < pair->gather_count; g++) {
        const struct instr *gather = &instrs[pair->gathers[g]];
        are_even = are_even && is_even(low, pair, gather->inputs[0], gather->axes);
    }
    for (int s = 0; s < pair->sum_count; s++) {
        const struct instr *scatter = &instrs[pair->sums[s].scatter];
        are_even = are_even && is_even(low, pair, scatter->outputs[0], scatter->axes);
    }
    return are_even;
}

// Each product has two exchanges of two axes that have nothing in common, of its two operands or of
// one and its result; all have the same.
static bool is_right(const struct lowering *low, struct relay_pair *pair)
{
    const struct instr *instrs = low->program->instrs;
    for (int w = 0; w < pair->work_count; w++) {
        const struct instr *work = &instrs[pair->works[w]];
        unsigned axes[2];
        int count = 0, sum = sum_at(instrs, pair, pair->works[w]);
        for (int k = 0; k < 2; k++) {
            int gather = gather_at(instrs, pair, work->inputs[k]);
            if (gather >= 0) axes[count++] = instrs[pair->gathers[gather]].axes;
        }
        bool is_summed = relay_input_with(low, work, pair->dim) < 0;
        if (count == 0 || (count == 2) != (sum < 0) || (count == 2) != is_summed ||
            (sum < 0) != (pair->sum_count == 0))
            return false;
        if (count == 1) axes[1] = instrs[pair->sums[sum].scatter].axes;
        if (w == 0) memcpy(pair->axes, axes, sizeof axes);
        bool is_same = (axes[0] == pair->axes[0] && axes[1] == pair->axes[1]) ||
                       (axes[0] == pair->axes[1] && axes[1] == pair->axes[0]);
        if (!is_same || axes[0] & axes[1]) return false;
    }
    int sizes[] = {mesh_size(low->mesh, pair->axes[0]), mesh_size(low->mesh, pair->axes[1])};
    pair->turns = (int)common_multiple(sizes[0], sizes[1]);
    return pair->turns > 2 && has_even_pieces(low, pair);
}

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

// Whether nothing writes what an instruction reads, or has to do with what it makes, from `to` on.
static bool may_come_early(const struct lowering *low, const struct relay_pair *pair, int work,
                           int to)
{
    const struct instr *instrs = low->program->instrs, *instr = &instrs[work];
    for (int i = to; i < work; i++) {
        if (relay_reads(&instrs[i], instr->outputs[0]) ||
            relay_writes(&instrs[i], instr->outputs[0]))
            return false;
        for (int k = 0; k < instr->input_count; k++) {
            int g = gather_at(instrs, pair, instr->inputs[k]);
            int read = g < 0 ? instr->inputs[k] : instrs[pair->gathers[g]].inputs[0];
            if (relay_writes(&instrs[i], read)) return false;
        }
    }
    return true;
}

// Where all can stand together: with the last scatter, or, of products whose results others read
// in between (a bias of q in front of the product of k), with the first of them.
static bool find_place(const struct lowering *low, struct relay_pair *pair)
{
    const struct instr *instrs = low->program->instrs;
    bool may_wait = true, may_hurry = pair->sum_count == 0;
    pair->place = pair->works[pair->work_count - 1];
    for (int s = 0; s < pair->sum_count; s++)
        if (pair->sums[s].scatter > pair->place) pair->place = pair->sums[s].scatter;
    for (int s = 0; s < pair->sum_count; s++)
        may_wait &= relay_may_move(low, pair->sums[s].scatter, pair->place, -1);
    for (int w = 0; w < pair->work_count; w++) {
        int of = sum_at(instrs, pair, pair->works[w]), reader = -1;
        if (of >= 0) reader = pair->sums[of].sum >= 0 ? pair->sums[of].sum : pair->sums[of].scatter;
        may_wait &= relay_may_move(low, pair->works[w], pair->place, reader);
        may_hurry = may_hurry && may_come_early(low, pair, pair->works[w], pair->works[0]);
    }
    if (!may_wait) pair->place = pair->works[0];
    return may_wait || may_hurry;
}

bool relay_pair_find(const struct lowering *low, int work, const int *is_taken,
                     struct relay_pair *pair)
{
    const struct block_program *program = low->program;
    *pair = (struct relay_pair){.dim = DIM_NONE};
    pair->gathers = ARENA_NEW(low->arena, int, program->instr_count);
    pair->works = ARENA_NEW(low->arena, int, program->instr_count);
    pair->sums = ARENA_NEW(low->arena, struct relay_sum, program->instr_count);
    pair->works[pair->work_count++] = work;
    for (int w = 0; w < pair->work_count; w++) {
        const struct instr *instr = &program->instrs[pair->works[w]];
        if (is_taken[pair->works[w]] || !relay_is_product(low, instr, instr) ||
            !take_work(low, pair->works[w], is_taken, pair))
            return false;
    }
    if (!is_right(low, pair)) return false;
    qsort(pair->works, (size_t)pair->work_count, sizeof *pair->works, compare);
    return find_place(low, pair);
}

// A part that a rank holds in a turn; `axes` are those that it is split over.
static int turn_part(struct lowering *low, const struct relay_pair *pair, int tensor,
                     const struct layout *like, unsigned axes, int turn)
{
    int part = relay_part(low, tensor, like, axes, turn);
    low->program->buffers[part].skew_axes = other_axes(pair, axes);
    if (pieces_of(low, pair, axes) > 1) relay_cut(low, part, pieces_of(low, pair, axes));
    return part;
}

// Of its own what a rank hands over in a turn, or what comes to it.
static int own_part(struct lowering *low, const struct relay_pair *pair, int own, unsigned axes,
                    int turn)
{
    const struct layout layout = low->program->buffers[own].layout;
    int tensor = low->program->buffers[own].tensor;
    if (pieces_of(low, pair, axes) == 1) return relay_part(low, tensor, &layout, axes, 0);
    int part = turn_part(low, pair, tensor, &layout, axes, turn);
    low->program->buffers[part].is_own = true;
    return part;
}

// `part`: what of both the turn says. What is a rank's own stays where it is.
static void hand_over(struct lowering *low, const struct instr *change, int from, int to, int part,
                      int number)
{
    struct instr *instr = relay_hand_on(low, change, change->axes, from, to, number);
    const struct buffer *of = &low->program->buffers[part];
    instr->bytes = instr->bytes * held_moving(low->mesh, of) / mesh_size(low->mesh, of->skew_axes);
}

static void fetch(struct lowering *low, const struct instr *before, const struct relay_pair *pair,
                  int turn, int *parts, int number)
{
    for (int g = 0; g < pair->gather_count && turn < pair->turns; g++) {
        const struct instr *gather = &before[pair->gathers[g]];
        int own = gather->inputs[0], tensor = low->program->buffers[own].tensor, piece = own;
        const struct layout layout = low->program->buffers[own].layout;
        if (pieces_of(low, pair, gather->axes) > 1) {
            piece = own_part(low, pair, own, gather->axes, turn);
            relay_slice(low, gather, own, piece, number);
        }
        parts[g] = turn_part(low, pair, tensor, &layout, gather->axes, turn);
        hand_over(low, gather, piece, parts[g], parts[g], number);
    }
}

// The products of a turn; `made`: what each makes, of a pair that scatters.
static void multiply(struct lowering *low, const struct instr *before,
                     const struct relay_pair *pair, const int *parts, const int *made, int number)
{
    for (int w = 0; w < pair->work_count; w++) {
        struct instr work = before[pair->works[w]];
        const struct instr *gather = NULL;
        int rows = 0;
        for (int k = 1; k >= 0; k--) {
            int g = gather_at(before, pair, before[pair->works[w]].inputs[k]);
            if (g < 0) continue;
            work.inputs[k] = parts[g];
            gather = &before[pair->gathers[g]];
            rows = 1 + k;
        }
        if (made) work.outputs[0] = made[w];
        relay_work(low, gather, &work, rows, work.inputs[rows - 1], number);
    }
}

// Products of a turn, and of each sum one part, to be handed over.
static void make(struct lowering *low, const struct instr *before, const struct relay_pair *pair,
                 int turn, const int *parts, int *sums, int number)
{
    int *made = ARENA_NEW(low->arena, int, pair->work_count);
    for (int w = 0; w < pair->work_count; w++) {
        int s = sum_at(before, pair, pair->works[w]);
        const struct instr *scatter = &before[pair->sums[s].scatter];
        const struct layout layout = low->program->buffers[scatter->outputs[0]].layout;
        int tensor = low->program->buffers[before[pair->works[w]].outputs[0]].tensor;
        sums[s] = made[w] = turn_part(low, pair, tensor, &layout, scatter->axes, turn);
    }
    multiply(low, before, pair, parts, made, number);
    for (int s = 0; s < pair->sum_count; s++) {
        if (pair->sums[s].sum < 0) continue;
        struct instr sum = before[pair->sums[s].sum];
        const struct instr *scatter = &before[pair->sums[s].scatter];
        for (int w = 0; w < pair->work_count; w++)
            for (int k = 0; k < sum.input_count; k++)
                if (sum.inputs[k] == before[pair->works[w]].outputs[0]) sum.inputs[k] = made[w];
        int tensor = low->program->buffers[sum.outputs[0]].tensor;
        const struct layout layout = low->program->buffers[scatter->outputs[0]].layout;
        sums[s] = turn_part(low, pair, tensor, &layout, scatter->axes, turn);
        relay_put_sum(low, &sum, sums[s], pair->turns, number);
    }
}

// What a turn made goes to the rank that it is of. The first that comes of a part is the sum, to
// which the others are added; a gradient of the state, which may have been begun by another
// micro-batch, has all that comes added.
static void deliver(struct lowering *low, const struct instr *before, const struct relay_pair *pair,
                    int turn, const int *made, int number)
{
    for (int s = 0; s < pair->sum_count; s++) {
        const struct instr *scatter = &before[pair->sums[s].scatter];
        int own = scatter->outputs[0], came = own, pieces = pieces_of(low, pair, scatter->axes);
        bool is_put = low->program->buffers[own].external;
        if (turn > 0 || is_put || pieces > 1) came = own_part(low, pair, own, scatter->axes, turn);
        hand_over(low, scatter, made[s], came, made[s], number);
        if (came == own) continue;
        struct instr *add = relay_add_up(low, scatter, scatter->axes, came, own, number);
        if (turn < pieces && !is_put) add->combine = 0;
        if (turn == 0) add->input_count = 1;
    }
}

void relay_pair_emit(struct lowering *low, const struct instr *before,
                     const struct relay_pair *pair, int number)
{
    assert(pair->turns > 2 && pair->gather_count > 0 && pair->work_count > 0);
    int *parts = ARENA_NEW(low->arena, int, pair->gather_count);
    int *next = ARENA_NEW(low->arena, int, pair->gather_count);
    int *made = ARENA_NEW(low->arena, int, pair->sum_count);
    int *now = ARENA_NEW(low->arena, int, pair->sum_count);
    fetch(low, before, pair, 0, next, number);
    for (int turn = 0; turn < pair->turns; turn++) {
        memcpy(parts, next, (size_t)pair->gather_count * sizeof *parts);
        fetch(low, before, pair, turn + 1, next, number);
        if (pair->sum_count == 0) {
            multiply(low, before, pair, parts, NULL, number);
            continue;
        }
        make(low, before, pair, turn, parts, now, number);
        if (turn > 0) deliver(low, before, pair, turn - 1, made, number);
        memcpy(made, now, (size_t)pair->sum_count * sizeof *made);
    }
    deliver(low, before, pair, pair->turns - 1, made, number);
}
