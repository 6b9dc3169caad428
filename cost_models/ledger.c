#include "cost_models/ledger.h"
#include "cost_models/contraction.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct ledger ledger_new(struct arena *arena)
{
    return (struct ledger){.arena = arena, .block = -1, .chunk = -1};
}

void ledger_turn_to(struct ledger *ledger, int block, int chunk)
{
    if (!ledger) return;
    ledger->block = block;
    ledger->chunk = chunk;
    ledger->first = ledger->count;
}

void ledger_add(struct ledger *ledger, const struct ledger_line *line)
{
    if (!ledger || line->s <= 0) return;
    if (ledger->count == ledger->capacity) {
        int capacity = ledger->capacity ? 2 * ledger->capacity : 64;
        struct ledger_line *lines = ARENA_NEW(ledger->arena, struct ledger_line, capacity);
        if (ledger->count) memcpy(lines, ledger->lines, (size_t)ledger->count * sizeof *lines);
        ledger->lines = lines;
        ledger->capacity = capacity;
    }
    struct ledger_line *own = &ledger->lines[ledger->count++];
    *own = *line;
    own->block = ledger->block;
    own->chunk = ledger->chunk;
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

static void describe_contraction(const struct compute_context *context,
                                 const struct block_program *program, const struct instr *instr,
                                 struct ledger_line *line)
{
    const struct instr *joined[CONTRACTION_JOINED_MAX];
    line->joined = contraction_joined(context, program, instr, joined, &line->gemm);
    line->flop = 0;
    for (int i = 0; i < line->joined; i++)
        line->flop += joined[i]->flop;
    line->bytes = joined_bytes(program, joined, line->joined);
}

// Backward work goes by the name of the operator that it is the backward of; a sum of gradients
// belongs to none.
static const char *name_of(const struct block *block, const struct op *op)
{
    bool is_sum = op->kind == OP_ADD && op->phase != PHASE_FORWARD;
    return is_sum ? op->name : block->ops[op->forward_op].name;
}

void ledger_add_operator(struct ledger *ledger, const struct compute_context *context,
                         const struct block_program *program, const struct instr *instr,
                         const struct compute_cost *cost)
{
    if (!ledger || cost->s <= 0) return;
    struct ledger_line line = {
        .entry = ENTRY_OPERATOR,
        .what = name_of(program->block, &program->block->ops[instr->op]),
        .phase = instr->phase,
        .recompute = instr->recompute,
        .count = 1,
        .s = cost->s,
        .exposed_s = cost->s,
        .instr = instr,
        .joined = 1,
        .flop = instr->flop,
        .bytes = (double)(instr->read_bytes + instr->write_bytes - instr->kept_bytes),
        .bound = cost->bound,
        .part = instr->recompute ? PART_RECOMPUTE : PART_COMPUTE,
    };
    if (instr->kind == OP_CONTRACT) describe_contraction(context, program, instr, &line);
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

static bool hides(const struct hideable *hideable, const struct ledger_line *line)
{
    return line->entry == ENTRY_EXCHANGE && line->phase == hideable->phase &&
           line->exchange == hideable->kind && line->part == hideable->part &&
           hideable->collectives >> line->collective & 1;
}

double ledger_exposed_s(const struct ledger *ledger, const struct hideable *hideable)
{
    double exposed_s = 0;
    for (int i = ledger->first; i < ledger->count; i++) {
        if (hides(hideable, &ledger->lines[i])) exposed_s += ledger->lines[i].exposed_s;
    }
    return exposed_s;
}

void ledger_hide(struct ledger *ledger, const struct hideable *hideable, double hidden_s)
{
    double exposed_s = ledger_exposed_s(ledger, hideable);
    assert(fabs(hidden_s) <= exposed_s * (1 + 1e-9) && "every exchange is written down");
    if (exposed_s <= 0) return;
    for (int i = ledger->first; i < ledger->count; i++) {
        struct ledger_line *line = &ledger->lines[i];
        if (hides(hideable, line)) line->exposed_s *= fmax(0, 1 - hidden_s / exposed_s);
    }
}

double ledger_compute_s(const struct ledger *ledger, enum phase phase)
{
    double sum_s = 0;
    for (int i = ledger->first; i < ledger->count; i++) {
        const struct ledger_line *line = &ledger->lines[i];
        bool is_own = line->entry == ENTRY_OPERATOR && line->phase == phase && !line->recompute;
        if (is_own) sum_s += line->s;
    }
    return sum_s;
}
