#include "plan/stages.h"

#include <assert.h>

// Of the dealing: the stage at hand, what was dealt, and what of it all stages up to this one may
// have.
struct deal {
    int stage, stage_count;
    int64_t dealt, all;
    int *stage_layers;
};

// A block goes to the stage at hand, which is the last of those that its cost fills.
static void take(struct deal *deal, int64_t cost, bool is_layer)
{
    assert(deal->stage < deal->stage_count);
    if (is_layer) deal->stage_layers[deal->stage]++;
    deal->dealt += cost;
    double share = (double)(deal->stage + 1) / deal->stage_count;
    bool is_full = (double)deal->dealt > (double)deal->all * share;
    if (is_full && deal->stage < deal->stage_count - 1) deal->stage++;
}

// Every stage but the last, which has the head, gets a layer: from the nearest before it that has
// two.
static void fill(struct deal *deal)
{
    for (int stage = deal->stage_count - 2; stage > 0; stage--) {
        int from = stage;
        if (deal->stage_layers[stage] > 0) continue;
        while (from > 0 && deal->stage_layers[from] < 2)
            from--;
        if (deal->stage_layers[from] < 2) return;
        deal->stage_layers[from]--;
        deal->stage_layers[stage]++;
    }
}

bool stages_by_flop(const struct graph *graph, int stage_count, int *stage_layers, struct err *err)
{
    enum { BEHIND_HEAD = 2 };  // cast and loss, blocks of their own that cost nothing
    struct deal deal = {.stage_count = stage_count, .stage_layers = stage_layers};
    for (int i = 0; i < graph->sequence_count; i++)
        deal.all += graph_block_matmul_count(graph, &graph->blocks[graph->sequence[i]]);
    for (int stage = 0; stage < stage_count; stage++)
        stage_layers[stage] = 0;
    for (int i = 0; i < graph->sequence_count; i++) {
        const struct block *block = &graph->blocks[graph->sequence[i]];
        if (block->role == BLOCK_HEAD) take(&deal, 0, false);  // the final norm
        take(&deal, graph_block_matmul_count(graph, block), block->role == BLOCK_LAYER);
    }
    for (int i = 0; i < BEHIND_HEAD - 1; i++)
        take(&deal, 0, false);
    int loss_stage = deal.stage;
    if (loss_stage < stage_count - 1) {
        return err_set(err, ERR_USAGE,
                       "--pp %d: split by FLOP, the %d layers and the head leave %d of the stages "
                       "without a block",
                       stage_count, graph->layer_count, stage_count - 1 - loss_stage);
    }
    fill(&deal);
    return true;
}
