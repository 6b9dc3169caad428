#include "plan/lower/relay.h"

#include "plan/lower/relay_pair.h"
#include "plan/lower/relay_parts.h"
#include "plan/lower/relay_put.h"

#include <assert.h>
#include <string.h>

struct relay {
    int change;         // instruction: the gather or the scatter
    int *works, count;  // instructions: products that read what is gathered, or make what is
                        // scattered
    int *rows;          // of each: which operand that is, as struct instr counts them
    int sum;            // of a scatter: instruction that adds up what the products make; -1: none
    int place;          // where it is put: the first product behind a gather, or the scatter
    unsigned axes;      // that it goes round; the others of the change are inside of a part
    int members;        // ranks that it goes round: parts
};

static void add(struct relay *relay, int work, int rows)
{
    relay->rows[relay->count] = rows;
    relay->works[relay->count++] = work;
}

// Fills in who reads what an instruction gathers; false: it is no relay.
static bool find_readers(const struct lowering *low, int index, const int *relay_of,
                         struct relay *relay)
{
    const struct block_program *program = low->program;
    const struct instr *gather = &program->instrs[index];
    int whole = gather->outputs[0];
    if (!relay_may_be(low, gather, COLLECTIVE_ALL_GATHER, gather->inputs[0])) return false;
    if (block_program_crosses(program, whole)) return false;
    for (int i = index + 1; i < program->instr_count; i++) {
        const struct instr *reader = &program->instrs[i];
        if (relay_writes(reader, whole) || relay_writes(reader, gather->inputs[0])) return false;
        if (!relay_reads(reader, whole)) continue;
        if (relay_of[i] || !relay_may_read(low, gather, reader)) return false;
        if (relay->count == 0) relay->place = i;
        if (!relay_may_move(low, i, relay->place, -1)) return false;
        add(relay, i, 1 + (reader->inputs[0] != whole));
    }
    return relay->count > 0;
}

static bool add_maker(const struct lowering *low, int index, const int *relay_of, int buffer,
                      int reader, struct relay *relay)
{
    const struct instr *scatter = &low->program->instrs[index];
    int maker = relay_only_maker(low->program, buffer, reader);
    if (maker < 0 || relay_of[maker] || !relay_may_move(low, maker, index, reader)) return false;
    const struct instr *instr = &low->program->instrs[maker];
    if (!relay_may_make(low, scatter, instr, scatter->inputs[0])) return false;
    add(relay, maker, 1 + instr->input_count);
    return true;
}

// Fills in who makes what an instruction sums and scatters; false: it is no relay.
static bool find_makers(const struct lowering *low, int index, const int *relay_of,
                        struct relay *relay)
{
    const struct block_program *program = low->program;
    const struct instr *scatter = &program->instrs[index];
    if (!relay_may_be(low, scatter, COLLECTIVE_REDUCE_SCATTER, scatter->outputs[0]) ||
        scatter->combine != LAYOUT_SUM)
        return false;
    relay->place = index;
    if (add_maker(low, index, relay_of, scatter->inputs[0], index, relay)) return true;
    int sum = relay_only_maker(program, scatter->inputs[0], index);
    if (sum < 0 || program->instrs[sum].collective || program->instrs[sum].kind != OP_ADD ||
        program->instrs[sum].phase != scatter->phase ||
        program->instrs[sum].recompute != scatter->recompute)
        return false;
    relay->sum = sum;
    for (int k = 0; k < program->instrs[sum].input_count; k++) {
        int term = program->instrs[sum].inputs[k];
        if (!add_maker(low, index, relay_of, term, sum, relay)) return false;
    }
    return relay->count > 1;
}

static bool find(struct lowering *low, int index, const int *relay_of, struct relay *relay)
{
    const struct instr *change = &low->program->instrs[index];
    bool gathers = change->collective == COLLECTIVE_ALL_GATHER;
    if (!gathers && change->collective != COLLECTIVE_REDUCE_SCATTER) return false;
    *relay = (struct relay){.change = index, .sum = -1};
    relay->works = ARENA_NEW(low->arena, int, low->program->instr_count);
    relay->rows = ARENA_NEW(low->arena, int, low->program->instr_count);
    relay->axes = relay_axes_of(low, change);
    relay->members = mesh_size(low->mesh, relay->axes);
    return gathers ? find_readers(low, index, relay_of, relay)
                   : find_makers(low, index, relay_of, relay);
}

// What ranks gather of one part in front of a relay, or scatter of it behind one: `inner` of the
// axes of a change. Returns what there is then.
static int change_part(struct lowering *low, const struct instr *change, unsigned inner, int from,
                       int to)
{
    assert(inner && (inner & ~change->axes) == 0);
    bool gathers = change->collective == COLLECTIVE_ALL_GATHER;
    struct instr *instr = relay_put(low, change);
    instr->axes = inner;
    instr->inputs[0] = from;
    instr->outputs[0] = to;
    instr->bytes = low->backing[gathers ? to : from].whole_bytes;
    return to;
}

// The layout of a part that ranks have of what is split over all axes of a change.
static struct layout part_layout(const struct lowering *low, int split, unsigned inner, int8_t as)
{
    struct layout layout = low->program->buffers[split].layout;
    for (int a = 0; a < low->mesh->axis_count; a++)
        if (inner >> a & 1) layout.of[a] = as;
    return layout;
}

static void emit_gather(struct lowering *low, const struct instr *before, const struct relay *relay,
                        int number)
{
    assert(relay->members > 1 && relay->count > 0);
    const struct instr *gather = &before[relay->change];
    unsigned inner = gather->axes & ~relay->axes;
    int part = gather->inputs[0], next = -1, tensor = low->program->buffers[part].tensor;
    const struct layout layout = part_layout(low, part, inner, LAYOUT_WHOLE);
    if (inner) part = change_part(low, gather, inner, part, lowering_buffer(low, tensor, &layout));
    for (int behind = 0; behind < relay->members; behind++) {
        if (behind + 1 < relay->members) {
            next = relay_part(low, tensor, &layout, relay->axes, behind + 1);
            relay_hand_on(low, gather, relay->axes, part, next, number);
        }
        for (int r = 0; r < relay->count; r++)
            relay_work(low, gather, &before[relay->works[r]], relay->rows[r], part, number);
        part = next;
    }
}

// Products of one part: each in that, or where their sum `sum` reads them.
static void make_part(struct lowering *low, const struct instr *before, const struct relay *relay,
                      int part, struct instr *sum, int number)
{
    const struct buffer to = low->program->buffers[part];
    for (int w = 0; w < relay->count; w++) {
        const struct instr *maker = &before[relay->works[w]];
        int tensor = low->program->buffers[maker->outputs[0]].tensor, made = part;
        if (sum) made = relay_part(low, tensor, &to.layout, relay->axes, to.behind);
        relay_work(low, &before[relay->change], maker, relay->rows[w], made, number);
        for (int k = 0; sum && k < sum->input_count; k++)
            if (sum->inputs[k] == maker->outputs[0]) sum->inputs[k] = made;
    }
}

// A sum begins at the rank behind the one that it is of, and comes round to it last. While it is
// handed on its next part is made: that stands in front, so that it is not put where the part was
// that is sent, which would have to be gone; nor is what comes put where terms of the part are.
static void emit_scatter(struct lowering *low, const struct instr *before,
                         const struct relay *relay, int number)
{
    const struct instr *scatter = &before[relay->change];
    unsigned inner = scatter->axes & ~relay->axes;
    int own = scatter->outputs[0], tensor = low->program->buffers[own].tensor, previous = -1;
    const struct layout layout = part_layout(low, own, inner, LAYOUT_SUM);
    if (inner) own = lowering_buffer(low, tensor, &layout);
    for (int step = 1; step <= relay->members; step++) {
        int part = own, behind = step % relay->members, came = -1;
        struct instr sum = before[relay->sum < 0 ? relay->change : relay->sum];
        if (behind) part = relay_part(low, tensor, &layout, relay->axes, behind);
        make_part(low, before, relay, part, relay->sum < 0 ? NULL : &sum, number);
        if (step > 1) {
            came = relay_part(low, tensor, &layout, relay->axes, behind);
            relay_hand_on(low, scatter, relay->axes, previous, came, number);
        }
        if (relay->sum >= 0) relay_put_sum(low, &sum, part, relay->members, number);
        if (step > 1) relay_add_up(low, scatter, relay->axes, came, part, number);
        previous = part;
    }
    if (inner) change_part(low, scatter, inner, own, scatter->outputs[0]);
}

// Of the operand that goes with what is gathered what a gather of its own brings; 0: none does.
static int64_t beside_bytes(const struct lowering *low, const struct relay *relay)
{
    const struct block_program *program = low->program;
    int64_t most = 0;
    for (int w = 0; w < relay->count; w++) {
        const struct instr *work = &program->instrs[relay->works[w]];
        int other = work->inputs[relay->rows[w] == 1];
        for (int i = 0; i < relay->works[w]; i++) {
            const struct instr *gather = &program->instrs[i];
            bool is_it = gather->collective == COLLECTIVE_ALL_GATHER && relay_writes(gather, other);
            if (is_it && low->backing[other].whole_bytes > most)
                most = low->backing[other].whole_bytes;
        }
    }
    return most;
}

static void claim(const struct relay *relay, int *relay_of)
{
    assert(relay->count > 0 && relay_of[relay->change] == 0);
    relay_of[relay->change] = 1 + relay->change;
    if (relay->sum >= 0) relay_of[relay->sum] = 1 + relay->change;
    for (int w = 0; w < relay->count; w++)
        relay_of[relay->works[w]] = 1 + relay->change;
}

// Of the two operands of a product that are gathered one can be handed on: the larger. So columns
// come first where they are that, and last where they are not.
static void find_all(struct lowering *low, struct relay *relays, int *relay_of)
{
    enum { LARGER_COLUMNS, OTHERS, COLUMNS, TURNS };
    const struct block_program *program = low->program;
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < program->instr_count; i++) {
            const struct instr *change = &program->instrs[i];
            bool is_columns = change->collective == COLLECTIVE_ALL_GATHER &&
                              relay_is_of_columns(relay_tensor(low, change->inputs[0]), change);
            if (is_columns != (turn != OTHERS) || relay_of[i]) continue;
            if (!find(low, i, relay_of, &relays[i])) continue;
            int64_t bytes = low->backing[change->outputs[0]].whole_bytes;
            if (turn == LARGER_COLUMNS && bytes < beside_bytes(low, &relays[i])) continue;
            claim(&relays[i], relay_of);
        }
    }
}

static void claim_pair(const struct relay_pair *pair, int mark, int *relay_of)
{
    relay_of[pair->place] = mark;
    for (int s = 0; s < pair->sum_count; s++) {
        relay_of[pair->sums[s].scatter] = mark;
        if (pair->sums[s].sum >= 0) relay_of[pair->sums[s].sum] = mark;
    }
    for (int g = 0; g < pair->gather_count; g++)
        relay_of[pair->gathers[g]] = mark;
    for (int w = 0; w < pair->work_count; w++)
        relay_of[pair->works[w]] = mark;
}

// Those that SUMMA streams; of other grids one operand is handed on, which takes less time and more
// memory.
static void find_pairs(const struct lowering *low, struct relay_pair *pairs, int *relay_of)
{
    if (!(SUMMA_GRIDS >> low->request->parallel->tp_kind & 1)) return;
    for (int i = 0; i < low->program->instr_count; i++) {
        if (relay_of[i] || !relay_pair_find(low, i, relay_of, &pairs[i])) continue;
        claim_pair(&pairs[i], -1 - i, relay_of);
    }
}

void lowering_relay(struct lowering *low)
{
    struct block_program *program = low->program;
    if (low->request->parallel->tp_relay < 2) return;
    int count = program->instr_count, phase = 0, number = 0;
    struct instr *before = ARENA_COPY(low->arena, struct instr, program->instrs, count);
    struct relay *relays = ARENA_NEW(low->arena, struct relay, count);
    struct relay_pair *pairs = ARENA_NEW(low->arena, struct relay_pair, count);
    int *relay_of = ARENA_NEW(low->arena, int, count);  // 1 + its gather or scatter; of a pair
    find_pairs(low, pairs, relay_of);                   // -1 - its first product
    find_all(low, relays, relay_of);
    program->instr_count = 0;
    for (int i = 0; i < count; i++) {
        while (phase < PHASE_COUNT && program->phase_first[phase] == i)
            program->phase_first[phase++] = program->instr_count;
        const struct relay *relay = relay_of[i] > 0 ? &relays[relay_of[i] - 1] : NULL;
        const struct relay_pair *pair = relay_of[i] < 0 ? &pairs[-1 - relay_of[i]] : NULL;
        if (!relay && !pair) relay_put(low, &before[i]);
        if (pair && i == pair->place) relay_pair_emit(low, before, pair, ++number);
        if (!relay || i != relay->place) continue;
        bool gathers = before[relay->change].collective == COLLECTIVE_ALL_GATHER;
        (gathers ? emit_gather : emit_scatter)(low, before, relay, ++number);
    }
    while (phase <= PHASE_COUNT)
        program->phase_first[phase++] = program->instr_count;
}
