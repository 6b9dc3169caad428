#include "cost_models/ledger.h"
#include "cost_models/gemm.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct ledger ledger_new(struct arena *arena)
{
    return (struct ledger){.arena = arena, .block = -1, .chunk = -1};
}

void ledger_turn_to(struct ledger *ledger, int block, int chunk)
{
    assert(block >= -1 && chunk >= -1);
    if (!ledger) return;
    ledger->block = block;
    ledger->chunk = chunk;
    ledger->first = ledger->count;
    ledger->use = ledger->group = 0;
}

void ledger_turn_to_part(struct ledger *ledger, int use, int group)
{
    assert(use >= -1 && group >= -1);
    if (!ledger) return;
    ledger->use = 1 + use;
    ledger->group = 1 + group;
}

void ledger_add(struct ledger *ledger, const struct ledger_line *line)
{
    if (!ledger || line->s <= 0) return;
    assert(isfinite(line->s) && isfinite(line->exposed_s) && line->count > 0);
    ARENA_GROW(ledger->arena, ledger->lines, ledger->count, ledger->capacity);
    struct ledger_line *own = &ledger->lines[ledger->count++];
    *own = *line;
    own->block = ledger->block;
    own->chunk = ledger->chunk;
    own->of_use = ledger->use;
    own->of_group = ledger->group;
}

// Bytes of the buffers that contractions which run as one read and write, each counted once.
static double joined_bytes(const struct block_program *program, const struct instr *const *joined,
                           int count)
{
    enum { BUFFERS = 64 };
    int seen[BUFFERS], seen_count = 0;
    double bytes = 0;
    for (int i = 0; i < count; i++) {
        const struct instr *instr = joined[i];
        for (int k = 0; k < instr->input_count + instr->output_count; k++) {
            int buffer =
                k < instr->input_count ? instr->inputs[k] : instr->outputs[k - instr->input_count];
            bool is_known = false;
            for (int j = 0; j < seen_count; j++)
                is_known = is_known || seen[j] == buffer;
            if (is_known) continue;
            assert(seen_count < BUFFERS);
            seen[seen_count++] = buffer;
            bytes += (double)program->buffers[buffer].bytes;
        }
    }
    return bytes;
}

// The line of the first has the work of all that it joins.
static void describe_contraction(const struct block_program *program, const struct instr *instr,
                                 struct ledger_line *line)
{
    const struct instr *joined[CONTRACTION_JOINED_MAX];
    line->joined = contraction_joined(program, instr, joined, &line->gemm);
    line->flop = 0;
    for (int i = 0; i < line->joined; i++)
        line->flop += joined[i]->flop;
    line->bytes = joined_bytes(program, joined, line->joined);
}

// What runs as one call: what comes into it and leaves it.
static void describe_group(const struct block_program *program, const struct instr *first,
                           struct ledger_line *line)
{
    int begin = (int)(first - program->instrs);
    line->flop = line->bytes = 0;
    for (int i = begin; i <= instr_last(program->instrs, begin); i++) {
        const struct instr *member = &program->instrs[i];
        line->flop += member->flop;
        line->bytes += (double)(member->read_bytes + member->write_bytes - member->kept_bytes);
    }
}

// Backward work goes by the name of the operator that it is the backward of; a sum of gradients
// belongs to none.
const char *ledger_name(const struct block *block, const struct instr *instr)
{
    const struct op *op = &block->ops[instr->op];
    bool is_sum = op->kind == OP_ADD && op->phase != PHASE_FORWARD;
    return is_sum ? op->name : block->ops[op->forward_op].name;
}

// A slice has no operator in the graph: it is named after itself.
static void add_slice(struct ledger *ledger, const struct block_program *program,
                      const struct instr *instr, const struct compute_cost *cost)
{
    const struct ledger_line line = {
        .entry = ENTRY_OPERATOR,
        .what = "slice",
        .phase = instr->phase,
        .recompute = instr->recompute,
        .count = 1,
        .launch_count = cost->kernel_count,
        .s = cost->s,
        .exposed_s = cost->s,
        .of_instr = 1 + (int)(instr - program->instrs),
        .bytes = 2 * (double)lower_slice_bytes(program, instr),
        .bound = cost->bound,
        .part = instr->recompute ? PART_RECOMPUTE : PART_COMPUTE,
    };
    ledger_add(ledger, &line);
}

void ledger_add_operator(struct ledger *ledger, const struct block_program *program,
                         const struct instr *instr, const struct compute_cost *cost)
{
    if (!ledger || cost->s <= 0) return;
    if (instr->collective == COLLECTIVE_SLICE) return add_slice(ledger, program, instr, cost);
    struct ledger_line line = {
        .entry = ENTRY_OPERATOR,
        .what = ledger_name(program->block, instr),
        .phase = instr->phase,
        .recompute = instr->recompute,
        .count = 1,
        .launch_count = cost->kernel_count,
        .s = cost->s,
        .exposed_s = cost->s,
        .instr = instr,
        .of_instr = 1 + (int)(instr - program->instrs),
        .joined = 1,
        .flop = instr->flop,
        .bytes = (double)(instr->read_bytes + instr->write_bytes - instr->kept_bytes),
        .bound = cost->bound,
        .measured = cost->measured != NULL,
        .part = instr->recompute ? PART_RECOMPUTE : PART_COMPUTE,
    };
    if (instr->kind == OP_CONTRACT) describe_contraction(program, instr, &line);
    if (instr->joined) describe_group(program, instr, &line);
    ledger_add(ledger, &line);
}

void ledger_add_time(struct ledger *ledger, enum entry entry, enum phase phase, const char *what,
                     double s, double bytes)
{
    struct ledger_line line = {.entry = entry,
                               .what = what,
                               .phase = phase,
                               .count = 1,
                               .s = s,
                               .exposed_s = s,
                               .bytes = bytes,
                               .bound = bytes > 0 ? BOUND_MEMORY : BOUND_LAUNCH};
    ledger_add(ledger, &line);
}

void ledger_add_exchange(struct ledger *ledger, const struct exchange *exchange,
                         const struct group_shape *group, double count,
                         const struct collective_cost *cost, double exposed_s)
{
    static const char *const PAYLOADS[] = {"activations", "parameters", "gradients", "parameters"};
    struct ledger_line line = {
        .entry = ENTRY_EXCHANGE,
        .what = PAYLOADS[exchange->kind],
        .phase = exchange->phase,
        .count = count,
        .s = count * cost->s,
        .exposed_s = exposed_s,
        .bytes = exchange->bytes,
        .collective = exchange->collective,
        .exchange = exchange->kind,
        .of_instr = exchange->instr,
        .part = exchange->part,
        .axes = exchange->axes,
        .rank_count = group->rank_count,
        .node_count = group->node_count,
        .cost = *cost,
    };
    ledger_add(ledger, &line);
}

// Exchanges of the block that is being priced which are hidden together.
struct hideable {
    enum phase phase;
    enum exchange_kind kind;
    enum part part;
    unsigned collectives;  // bit per enum collective
};

static bool hides(const struct hideable *hideable, const struct ledger_line *line)
{
    return line->entry == ENTRY_EXCHANGE && line->phase == hideable->phase &&
           line->exchange == hideable->kind && line->part == hideable->part &&
           hideable->collectives >> line->collective & 1;
}

static double exposed_of(const struct ledger *ledger, const struct hideable *hideable)
{
    double exposed_s = 0;
    for (int i = ledger->first; i < ledger->count; i++) {
        if (hides(hideable, &ledger->lines[i])) exposed_s += ledger->lines[i].exposed_s;
    }
    return exposed_s;
}

// So that `left_s` of them stay exposed, hides what is over from those of some `collectives`.
static void hide(struct ledger *ledger, struct hideable hideable, unsigned collectives,
                 double left_s)
{
    double hidden_s = exposed_of(ledger, &hideable) - left_s;
    hideable.collectives = collectives;
    double exposed_s = exposed_of(ledger, &hideable);
    assert(fabs(hidden_s) <= exposed_s * (1 + 1e-9) && "every exchange is written down");
    for (int i = ledger->first; i < ledger->count; i++) {
        struct ledger_line *line = &ledger->lines[i];
        if (hides(&hideable, line) && exposed_s > 0)
            line->exposed_s *= fmax(0, 1 - hidden_s / exposed_s);
    }
}

// Seconds of operators of this phase of the block, first work without recomputed.
static double compute_of(const struct ledger *ledger, enum phase phase)
{
    double sum_s = 0;
    for (int i = ledger->first; i < ledger->count; i++) {
        const struct ledger_line *line = &ledger->lines[i];
        bool is_work = line->entry == ENTRY_OPERATOR || line->entry == ENTRY_LOSS ||
                       line->entry == ENTRY_SEED || line->entry == ENTRY_BEGIN;
        bool is_own = is_work && line->phase == phase && !line->recompute;
        if (is_own) sum_s += line->s;
    }
    return sum_s;
}

void ledger_end_phase(struct ledger *ledger, enum phase phase, const struct phase_end *end)
{
    if (!ledger) return;
    const unsigned all = ~0u;
    hide(ledger, (struct hideable){phase, EXCHANGE_GATHER, PART_DP, all}, all, end->gather_s);
    hide(ledger, (struct hideable){phase, EXCHANGE_SCATTER, PART_DP, all}, all, end->scatter_s);
    hide(ledger, (struct hideable){phase, EXCHANGE_FETCH, PART_OFFLOAD, all}, all, end->fetch_s);
    for (enum part part = PART_TP; part < PART_COUNT; part++) {
        unsigned hidden = end->hidden[part] ? end->hidden[part] : all;
        hide(ledger, (struct hideable){phase, EXCHANGE_ACTIVATION, part, all}, hidden,
             end->comm_s[part]);
    }
    double slowed_s = end->compute_s - compute_of(ledger, phase);
    double host_s = end->with_host_s - end->compute_s;
    // Sums in another order differ in their last bits.
    if (slowed_s < 1e-12 * end->compute_s) slowed_s = 0;
    if (host_s < 1e-12 * end->compute_s) host_s = 0;
    ledger_add_time(ledger, ENTRY_CONTENTION, phase, "contention", slowed_s, 0);
    ledger_add_time(ledger, ENTRY_HOST, phase, "host launches", host_s, 0);
}
