#include "planner/scan_tail.h"

int tail_twin(const struct scan *scan, const struct space_tail *ways, int move,
              enum tier activations, enum tier optimizer)
{
    if (scan->request->search->pins.forbidden_count > 0) return -1;
    for (int m = 0; m < move; m++) {
        const struct offload *offload = &ways->moves[m].offload;
        if (offload->activations != activations || offload->optimizer != optimizer) continue;
        for (int r = 0; r < ways->recompute_count; r++) {
            unsigned moves = ways->recomputes[r].moves;
            if (moves >> move & 1 && !(moves >> m & 1)) return -1;
        }
        return m;
    }
    return -1;
}

int tail_host_twin(struct scan *scan, const struct space_tail *ways,
                   const struct parallel *parallel, int move)
{
    struct offload wanted = ways->moves[move].offload;
    if (wanted.activations == TIER_NVME) wanted.activations = TIER_HOST;
    if (wanted.optimizer == TIER_NVME) wanted.optimizer = TIER_HOST;
    int twin = tail_twin(scan, ways, move, wanted.activations, wanted.optimizer);
    if (twin < 0) return -1;
    struct parallel most = *parallel;
    most.offload = space_moved(&ways->moves[twin], ways->moves[twin].layers_high);
    most.recompute = RECOMPUTE_NONE;
    most.recompute_classes = 0;
    most.recompute_layers = -1;
    return composer_host_shortfall(scan->composer, &most) == 0 ? twin : -1;
}

int tail_past_host(struct scan *scan, const struct parallel *parallel,
                   const struct space_move *move)
{
    struct space_move twin = *move;
    int first = move->layers_low, end = move->layers_high + 1;
    struct parallel most = *parallel;
    most.recompute = RECOMPUTE_NONE;
    most.recompute_classes = 0;
    most.recompute_layers = -1;
    twin.offload.activations = TIER_HOST;
    // Most hosts have room for all.
    most.offload = space_moved(&twin, move->layers_high);
    if (composer_host_shortfall(scan->composer, &most) == 0) return end;
    while (first < end) {
        int middle = first + (end - first) / 2;
        most.offload = space_moved(&twin, middle);
        if (composer_host_shortfall(scan->composer, &most) > 0) {
            end = middle;
        } else {
            first = middle + 1;
        }
    }
    return first;
}
