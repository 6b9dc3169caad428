#include "cost_models/ledger.h"
#include "cost_models/contraction.h"

#include <assert.h>
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

static bool is_exchange(const struct ledger_line *line, enum phase phase, enum exchange_kind kind,
                        enum part part)
{
    return line->entry == ENTRY_EXCHANGE && line->phase == phase && line->exchange == kind &&
           line->part == part;
}

void ledger_expose(struct ledger *ledger, enum phase phase, enum exchange_kind kind, enum part part,
                   double exposed_s)
{
    if (!ledger) return;
    double all_s = 0;
    for (int i = ledger->first; i < ledger->count; i++) {
        if (is_exchange(&ledger->lines[i], phase, kind, part)) all_s += ledger->lines[i].exposed_s;
    }
    assert(exposed_s <= all_s * (1 + 1e-9) && "every exchange is written down");
    if (all_s <= 0) return;
    for (int i = ledger->first; i < ledger->count; i++) {
        struct ledger_line *line = &ledger->lines[i];
        if (is_exchange(line, phase, kind, part)) line->exposed_s *= exposed_s / all_s;
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
