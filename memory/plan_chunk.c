#include "memory/plan_chunk.h"

#include "memory/keep/keep.h"

#include <assert.h>
#include <math.h>

static const double LEAST_ELEMENTS = 32 << 20, RANGE_ELEMENTS = 32 << 20;

// The parameters of a stage in the order in which forward uses them; counts them where `bytes` is
// NULL.
static int list_tensors(const struct program *program, int stage, double element_bytes,
                        int64_t *bytes)
{
    int count = 0, chunks = program->shape.chunk_count;
    for (int i = 0; i < chunks; i++) {
        const struct program_chunk *chunk = &program->chunks[program->class_of[stage * chunks + i]];
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_use *use = &chunk->uses[u];
            const struct block_program *block = program->blocks[use->block_program];
            for (int k = 0; k < use->count * block->parameter_count; k++) {
                const struct parameter *parameter = &block->parameters[k % block->parameter_count];
                if (bytes) bytes[count] = llround((double)parameter->elements * element_bytes);
                count++;
            }
        }
    }
    return count;
}

struct plan_chunk plan_chunk_of(struct arena *scratch, const struct program *program,
                                const struct stack *stack, int stage)
{
    double element_bytes = stack_gradient_bytes(stack, program->workload.precision);
    struct plan_chunk chunk = {.tensor_count = list_tensors(program, stage, element_bytes, NULL)};
    if (chunk.tensor_count == 0) return chunk;
    struct arena_mark mark = arena_mark(scratch);
    int64_t *bytes = ARENA_NEW(scratch, int64_t, chunk.tensor_count);
    list_tensors(program, stage, element_bytes, bytes);
    assert(element_bytes > 0);
    for (int i = 0; i < chunk.tensor_count; i++)
        chunk.tensor_bytes += bytes[i];
    int64_t step = llround((double)program->graph->hidden * element_bytes);
    chunk.chunk_bytes = keep_chunk_bytes(
        bytes, chunk.tensor_count, llround(LEAST_ELEMENTS * element_bytes),
        llround(RANGE_ELEMENTS * element_bytes), step > 0 ? step : 1, &chunk.wasted_bytes);
    assert(chunk.chunk_bytes >= 0 && chunk.wasted_bytes >= 0);
    arena_reset(scratch, mark);
    return chunk;
}
