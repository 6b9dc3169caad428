#include "cost_models/gradient_sums.h"
#include "cost_models/gemm.h"
#include "cost_models/ledger.h"
#include "plan/ties.h"

#include <assert.h>

// Tied tables begin at zero once, in the block whose backward comes first.
static double zeros_s(const struct price_context *context, const struct begins *begins,
                      bool has_tied, double width)
{
    int64_t elements = begins->zeroed_elements + (has_tied ? begins->tied_elements : 0);
    return stream_s(&context->compute, width * (double)elements);
}

double gradient_adding_s(const struct price_context *context, const struct block_program *block,
                         const struct instr *instr)
{
    double s = 0;
    if (block->begins.each_time || (instr->kernel && !instr->joined)) return 0;
    const struct instr *last = instr + (instr->joined > 1 ? instr->joined - 1 : 0);
    for (const struct instr *member = instr; member <= last; member++)
        s += gemm_adding_s(&context->compute, block, member);
    return s;
}

double gradients_adding_s(const struct price_context *context, const struct block_program *block)
{
    double s = 0;
    int first = block->phase_first[PHASE_WEIGHT], end = block->phase_first[PHASE_WEIGHT + 1];
    for (int i = first; i < end && stack_is_executed(context->compute.stack); i++)
        s += gradient_adding_s(context, block, &block->instrs[i]);
    return s;
}

// `each_s`: of one of a table's elements, `summed_s`: of one bias, seconds in the mean micro-batch;
// `adding`: how often a GEMM adds in it.
struct begun_line {
    double each_s, summed_s, adding;
    bool has_tied;
};

static void note_line(struct ledger *ledger, enum bound bound, const char *what, double s, int i)
{
    const struct ledger_line line = {.entry = ENTRY_BEGIN,
                                     .phase = PHASE_WEIGHT,
                                     .count = 1,
                                     .of_instr = 1 + i,
                                     .what = what,
                                     .bound = bound,
                                     .s = s,
                                     .exposed_s = s};
    ledger_add(ledger, &line);
}

static void note(const struct price_context *context, const struct block_program *block,
                 const struct begun_line *of)
{
    double width = (double)lower_element_bytes(ELEMENT_COMPUTE, context->compute.precision);
    bool is_noted = context->ledger && stack_is_executed(context->compute.stack);
    for (int i = 0; i < block->instr_count && is_noted; i++) {
        const struct instr *instr = &block->instrs[i];
        bool is_tied = false, begins = instr_begins_rows(block, instr, &is_tied);
        if (is_tied && !of->has_tied) continue;
        if (begins)
            note_line(context->ledger, BOUND_MEMORY, "zeros of a table",
                      of->each_s * (double)block->buffers[instr->outputs[0]].bytes / width, i);
        if (instr_sums_beside(block, instr))
            note_line(context->ledger, BOUND_LAUNCH, GRADIENT_ADDED_SUM, of->summed_s, i);
        // GEMMs alone take any; a slice has no operator that it could be named after.
        double adding_s =
            instr->phase == PHASE_WEIGHT ? gradient_adding_s(context, block, instr) : 0;
        if (of->adding > 0 && adding_s > 0)
            note_line(context->ledger, BOUND_MEMORY, ledger_name(block->block, instr),
                      of->adding * adding_s, i);
    }
}

double gradient_sums_s(const struct price_context *context, const struct block_program *program)
{
    double bytes = context->compute.stack->accumulate_bytes * (double)program->trained_elements;
    double s = stream_s(&context->compute, bytes);
    ledger_add_time(context->ledger, ENTRY_OPERATOR, PHASE_WEIGHT, "adding gradients", s, bytes);
    if (!program->begins.each_time) return s;
    double width = (double)lower_element_bytes(ELEMENT_COMPUTE, context->compute.precision);
    note(context, program,
         &(struct begun_line){.each_s = stream_s(&context->compute, width), .has_tied = true});
    return s + zeros_s(context, &program->begins, true, width);
}

// Whether a tie of a block is one of the blocks behind it in the chunk, or of the head that the
// embedding's stage has as well.
static bool goes_on(const struct program *program, const struct program_chunk *chunk, int use)
{
    const struct block_program *block = program->blocks[chunk->uses[use].block_program];
    for (int p = 0; p < block->parameter_count; p++) {
        const char *tie = block->parameters[p].tie;
        for (int u = use + 1; tie && u < chunk->use_count; u++)
            if (ties_has(program->blocks[chunk->uses[u].block_program]->block, tie)) return true;
        const struct graph *graph = program->graph;
        const struct block *head = &graph->blocks[graph->sequence[graph->sequence_count - 1]];
        bool may_be = tie && chunk->first && !chunk->last && ties_has(head, tie);
        if (may_be && ties_at(program, 0, tie) < 0) return true;
    }
    return false;
}

void gradient_begins_add(const struct price_context *context, const struct program *program,
                         const struct program_chunk *chunk, struct chunk_price *price)
{
    assert(program->shape.micro_batch_count >= 1);
    double width = stack_gradient_bytes(context->compute.stack, context->compute.precision);
    double launch_s = context->compute.device->launch_latency_s;
    double rounds = step_rounds(context, program);
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_use *use = &chunk->uses[u];
        const struct block_program *block = program->blocks[use->block_program];
        if (block->begins.each_time) continue;
        // Backward comes to the last of those that are tied first, which repeats nothing.
        bool has_tied = block->begins.tied_elements > 0 && !goes_on(program, chunk, u);
        price->zeroed_s += (use->count - 1) * zeros_s(context, &block->begins, false, width) +
                           zeros_s(context, &block->begins, has_tied, width);
        price->added_s += use->count * block->begins.added_sums * launch_s;
        ledger_turn_to_part(context->ledger, u, -1);
        double adding = use->count * (rounds - 1) / rounds;
        note(context, block,
             &(struct begun_line){use->count * stream_s(&context->compute, width) / rounds,
                                  adding * launch_s, adding, has_tied});
    }
    ledger_turn_to_part(context->ledger, -1, -1);
}

int step_rounds(const struct price_context *context, const struct program *program)
{
    int most = program->shape.micro_batch_count, own = context->micro_batch_count;
    assert(own >= 0 && own <= most && "no replica has more than the shape says");
    return own > 0 ? own : most;
}

// The first micro-batch writes zeros, the others add: phases have the mean of all.
void step_add_begins(int micro_batch_count, struct chunk_price *chunk)
{
    assert(micro_batch_count >= 1 && chunk->zeroed_s >= 0 && chunk->added_s >= 0);
    double more_s = chunk->zeroed_s + (micro_batch_count - 1) * chunk->added_s;
    chunk->phase_s[PHASE_WEIGHT][PART_COMPUTE] += more_s / micro_batch_count;
}
