#include "tests/support/random_network.h"

void random_tiers(const struct draw *draw, struct network *network)
{
    static const double RATIOS[] = {0.5, 1, 2, 7};
    struct draw own = {draw->state ^ 0x7469657273u};
    if (draw_int(&own, 0, 2) > 0) return;
    network->tier_count = draw_int(&own, 1, 2);
    int nodes = draw_int(&own, 1, 2);
    for (int i = 0; i < network->tier_count; i++) {
        network->tiers[i] = (struct network_tier){
            .nodes = nodes,
            .oversubscription_ratio = DRAW_ONE(&own, RATIOS),
            .dragonfly = draw_int(&own, 0, 1) == 1,
            .uplinks = draw_int(&own, 0, 1) ? draw_int(&own, 1, 32) : 0,
        };
        nodes *= 2;
    }
    network->rail_optimized = draw_int(&own, 0, 1) == 1;
    network->flows_per_nic = draw_int(&own, 1, 4);
    if (draw_int(&own, 0, 1)) return;
    network->loss_ratio = 1e-7;
    network->loss_stall_s = 0.01;
}
