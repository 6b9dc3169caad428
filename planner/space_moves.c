#include "planner/space.h"

#include "models/graph.h"
#include "plan/unexecuted.h"

#include <assert.h>

// Where optimizer states may be, times where activations may be. Of activations whole layers are
// moved, the first of each stage: classes of operators are for pins. Parameters are in one place in
// all plans of a search (planner/outgrown.h), and off the device only beside their states.

static bool has_tier(const struct cluster *cluster, enum tier tier)
{
    for (int i = 0; i < cluster->node_group_count && tier == TIER_NVME; i++) {
        const struct host *host = &cluster->nodes[i].host;
        if (host->nvme_bytes <= 0 || host->nvme_bytes_per_s <= 0) return false;
    }
    return true;
}

struct offload space_moved(const struct space_move *move, int layers)
{
    assert(layers >= 0);
    struct offload offload = move->offload;
    for (int class = 0; class < OP_CLASS_COUNT && layers > 0; class ++)
        offload.layers[class] = (int16_t)(layers == move->layers_high ? -1 : layers);
    return offload;
}

static bool any_allowed(const struct pins *pins, const struct space_move *move)
{
    for (int layers = move->layers_low; layers <= move->layers_high; layers++) {
        struct offload offload = space_moved(move, layers);
        if (pins_allow(pins, CHOICE_OFFLOAD, offload_value(&offload))) return true;
    }
    return false;
}

int space_moves(const struct search_request *request, int zero, int layers_most,
                struct space_move moves[SPACE_MOVE_MAX])
{
    const struct pins *pins = &request->pins;
    struct int_range pinned = pins_get(pins, CHOICE_OFFLOAD);
    int count = 0;
    if (pinned.set || !pins->search_offload) {
        moves[0] = (struct space_move){.offload = offload_of_value(pinned.set ? pinned.low : 0)};
        if (!any_allowed(pins, &moves[0])) return 0;
        stack_moves_along(request->stack, zero, &moves[0].offload);
        return 1;
    }
    int most = layers_most <= OFFLOAD_LAYERS_MAX ? layers_most : OFFLOAD_LAYERS_MAX + 1;
    for (enum tier activations = TIER_DEVICE; activations < TIER_COUNT; activations++) {
        for (enum tier optimizer = TIER_DEVICE; optimizer < TIER_COUNT; optimizer++) {
            const enum tier parameters = pins->search_parameters;
            bool moves_more = parameters != TIER_DEVICE || pins->search_gradients;
            if (moves_more && optimizer == TIER_DEVICE) continue;
            struct space_move move = {.offload = {.optimizer = optimizer,
                                                  .activations = activations,
                                                  .parameters = parameters,
                                                  .gradients = pins->search_gradients}};
            if (activations != TIER_DEVICE) {
                move.layers_low = 1;
                move.layers_high = most;
            }
            bool is_moved = activations != TIER_DEVICE || optimizer != TIER_DEVICE;
            bool is_there = has_tier(request->cluster, activations) &&
                            has_tier(request->cluster, optimizer) &&
                            has_tier(request->cluster, parameters) &&
                            (!is_moved || request->stack->copy_ratio > 0);
            const struct parallel moved = {.offload = move.offload};
            bool is_run =
                !stack_is_executed(request->stack) || !unexecuted_of(&request->workload, &moved);
            bool is_empty = activations != TIER_DEVICE && most < 1;
            if (!is_there || !is_run || is_empty || !any_allowed(pins, &move)) continue;
            stack_moves_along(request->stack, zero, &move.offload);
            moves[count++] = move;
        }
    }
    return count;
}
