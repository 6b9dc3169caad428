#include "planner/scan_tail.h"

#include <assert.h>

int tail_twin(const struct scan *scan, const struct space_tail *ways, int move,
              enum tier activations, enum tier optimizer)
{
    assert(move >= 0 && move < ways->move_count);
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

double tail_pressed_s(struct scan *scan, const struct space_tail *tail,
                      const struct candidate *kept, bool lowers, double enough_s)
{
    assert(scan->saturated && "the facts of the group come first");
    int values[2 * SPACE_VALUE_MAX], kind = scan->probe_kind;
    const struct saturated *commonest = scan->saturated[kind];
    const struct composer_ways ways = {values, space_recompute_values(tail, values),
                                       tail->move_count > 1, scan->saturated, enough_s};
    if (lowers) scan->saturated[kind] = NULL;
    double least_s = composer_pressed(scan->composer, kept, &ways, scan->limit_bytes);
    scan->saturated[kind] = commonest;
    return least_s;
}

double tail_recompute_count(const struct space_tail *tail, int move)
{
    double count = 0;
    for (int i = 0; i < tail->recompute_count; i++) {
        if (tail->recomputes[i].moves >> move & 1)
            count += tail->recomputes[i].layers_high - tail->recomputes[i].layers_low + 1;
    }
    return count;
}

bool tail_allows(const struct scan *scan, const struct parallel *parallel)
{
    int64_t value = offload_value(&parallel->offload);
    return pins_allow(&scan->request->search->pins, CHOICE_OFFLOAD, value);
}
