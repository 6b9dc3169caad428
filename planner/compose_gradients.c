#include "cost_models/offload.h"
#include "planner/composing.h"

// Gradients that are kept on the host, whose copies run beside what the blocks of a chunk compute.

static void add_window(struct composer *composer, const struct parallel *parallel,
                       const struct block_use *use, const struct memo_block *block,
                       double *window_s, struct chunk_price *price)
{
    const struct price_context *context = memo_context(composer->memo);
    *window_s += use->count * copy_window(context, TIER_HOST, &block->price).backward_s;
    if (!use->moved) return;
    price->copy_s += use->count * copy_price(context, parallel->offload.activations, block->light,
                                             &block->price, use->moved)
                                      .copy_s;
}

void composing_add_gradients(struct composer *composer, const struct parallel *parallel)
{
    if (!offload_moves_gradients(&parallel->offload)) return;
    const struct division *division = composer->division;
    struct block_program *blocks[DIVISION_WAYS * DIVISION_KIND_MAX];
    composing_blocks(composer, parallel, blocks);
    const struct program program = composing_program(composer, parallel, division, blocks);
    for (int i = 0; i < division->class_count; i++) {
        const struct program_chunk *chunk = &division->chunks[i];
        double window_s = 0;
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_use *use = &chunk->uses[u];
            add_window(composer, parallel, use,
                       composing_block(composer, parallel, use->block_program), &window_s,
                       &composer->classes[i]);
        }
        gradient_copies_add(memo_context(composer->memo), &program, chunk, window_s,
                            &composer->classes[i]);
    }
}
