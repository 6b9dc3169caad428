#include "cost_models/memory.h"
#include "cost_models/parameters.h"

#include <assert.h>

// Weights that stay on the device between some of their uses (plan/offload.h), for the one chunk of
// the one stage that they stay on.

static double weight_bytes(const struct program *program, const struct block_program *block)
{
    return (double)block->parameter_elements * parameter_weight_bytes(program->workload.precision);
}

// The blocks of a chunk one by one, from the first.
struct block_walk {
    const struct program *program;
    const struct program_chunk *chunk;
    int use, done;  // of the use
};

static const struct block_program *next_block(struct block_walk *walk)
{
    while (walk->use < walk->chunk->use_count && walk->done == walk->chunk->uses[walk->use].count) {
        walk->use++;
        walk->done = 0;
    }
    if (walk->use == walk->chunk->use_count) return NULL;
    walk->done++;
    return walk->program->blocks[walk->chunk->uses[walk->use].block_program];
}

double memory_stays_bytes(const struct program *program, const struct stack *stack,
                          double working_bytes, double heaviest_bytes)
{
    assert(working_bytes >= 0 && heaviest_bytes >= 0);
    if (!offload_keeps_some(&program->parallel.offload)) return 0;
    const struct program_chunk *chunk = &program->chunks[program->class_of[0]];
    const struct block_program *block;
    struct block_walk walk = {program, chunk, 0, 0};
    double behind = 0, before = 0, saved = 0, most = 0;
    while ((block = next_block(&walk)))
        behind += block->weights_rounds > 0 ? weight_bytes(program, block) : 0;
    // While a block works those behind it wait for their forward, or have had their backward, and
    // those before it wait for their backward. It finds its own among the blocks under way.
    for (walk = (struct block_walk){program, chunk, 0, 0}; (block = next_block(&walk));) {
        double own = weight_bytes(program, block), left = heaviest_bytes;
        if (block->weights_rounds > 0) behind -= own;
        saved += memory_held_bytes(program, stack, block);
        if (behind > 0) left = saved + working_bytes;
        double more = before + behind + left - heaviest_bytes;
        if (more > most) most = more;
        if (block->weights_turn) before += own;
    }
    return most;
}
