#include "cost_models/gradient_sums.h"
#include "cost_models/ledger.h"

#include <assert.h>

// Tied tables begin at zero once, in the block whose backward comes first.
static double zeros_s(const struct price_context *context, const struct begins *begins,
                      bool has_tied, double width)
{
    int64_t elements = begins->zeroed_elements + (has_tied ? begins->tied_elements : 0);
    return stream_s(&context->compute, width * (double)elements);
}

// `each_s`: of one of a table's elements, `summed_s`: of one bias,
// seconds in the mean micro-batch.
static void note(const struct price_context *context, const struct block_program *block,
                 bool has_tied, double each_s, double summed_s)
{
    double width = (double)lower_element_bytes(ELEMENT_COMPUTE, context->compute.precision);
    struct ledger_line line = {.entry = ENTRY_BEGIN, .phase = PHASE_WEIGHT, .count = 1};
    bool is_noted = context->ledger && stack_is_executed(context->compute.stack);
    for (int i = 0; i < block->instr_count && is_noted; i++) {
        const struct instr *instr = &block->instrs[i];
        bool is_tied = false, begins = instr_begins_rows(block, instr, &is_tied);
        if (is_tied && !has_tied) continue;
        line.of_instr = 1 + i;
        line.what = begins ? "zeros of a table" : GRADIENT_ADDED_SUM;
        line.bound = begins ? BOUND_MEMORY : BOUND_LAUNCH;
        line.s = begins ? each_s * (double)block->buffers[instr->outputs[0]].bytes / width
                        : summed_s * instr_sums_beside(block, instr);
        line.exposed_s = line.s;
        ledger_add(context->ledger, &line);
    }
}

double gradient_sums_s(const struct price_context *context, const struct block_program *program)
{
    double bytes = context->compute.stack->accumulate_bytes * (double)program->trained_elements;
    double s = stream_s(&context->compute, bytes);
    ledger_add_time(context->ledger, ENTRY_OPERATOR, PHASE_WEIGHT, "adding gradients", s, bytes);
    if (!program->begins.each_time) return s;
    double width = (double)lower_element_bytes(ELEMENT_COMPUTE, context->compute.precision);
    note(context, program, true, stream_s(&context->compute, width), 0);
    return s + zeros_s(context, &program->begins, true, width);
}

static bool is_tied(const struct block_program *block)
{
    for (int i = 0; i < block->parameter_count; i++)
        if (block->parameters[i].tie) return true;
    return false;
}

// Backward comes to the last of those that are tied first. One on the first stage has another
// behind it, which may be on the same.
static bool begins_tied(const struct program *program, const struct program_chunk *chunk, int use)
{
    if (chunk->first && program->tied.elements == 0) return false;
    for (int u = use + 1; u < chunk->use_count; u++)
        if (is_tied(program->blocks[chunk->uses[u].block_program])) return false;
    return true;
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
        bool has_tied = block->begins.tied_elements > 0 && begins_tied(program, chunk, u);
        price->zeroed_s += use->count * zeros_s(context, &block->begins, has_tied, width);
        price->added_s += use->count * block->begins.added_sums * launch_s;
        ledger_turn_to_part(context->ledger, u, -1);
        note(context, block, has_tied, use->count * stream_s(&context->compute, width) / rounds,
             use->count * launch_s * (rounds - 1) / rounds);
    }
    ledger_turn_to_part(context->ledger, -1, -1);
}

double gradient_added_sums(const struct price_context *context, const struct program *program,
                           const struct block_program *block)
{
    double rounds = step_rounds(context, program);
    return block->begins.each_time ? 0 : block->begins.added_sums * (rounds - 1) / rounds;
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
