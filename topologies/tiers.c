#include "topologies/tiers.h"
#include "topologies/ecmp.h"

#include <assert.h>
#include <math.h>

// A group's ranks in a block, a node, or all.
struct spread {
    double all, block, node;
};

// A tier as a group meets it.
struct crossing {
    double ratio;       // R
    double way_factor;  // longer ways of a dragonfly
    const struct network_tier *tier;
    double nics;      // of a node
    double switches;  // of the tier in the cluster that hash for themselves
    bool by_rail;     // each of them has one NIC of each node
    int flows_per_nic;
};

// Those of the first `span` ranks that are in the group: axes are in mixed radix.
static double ranks_within(const int *sizes, const int *strides, int count, double span)
{
    assert(span >= 1 && count >= 0);
    double ranks = 1;
    for (int i = 0; i < count; i++)
        ranks *= fmin(sizes[i], fmax(1, floor(span / strides[i])));
    return ranks;
}

// `share` of what the block's NICs send, in `flows_ratio` flows for each flow of a connection.
static double load_of(const struct crossing *at, double share, double flows_ratio)
{
    assert(share >= 0 && share <= 1 + 1e-9 && at->ratio > 0);
    double load = at->ratio * share * at->way_factor;
    if (at->tier->uplinks == 0) return load;
    double rails = at->by_rail ? at->nics : 1;
    double links = fmax(1, floor(at->tier->uplinks / rails));
    double nics = at->tier->nodes * at->nics / rails;
    double flows = fmax(1, floor(nics * at->flows_per_nic * flows_ratio + 0.5));
    return load * ecmp_busiest(flows, links, at->switches) * links /
           (nics * at->flows_per_nic * flows_ratio);
}

static void add_tier(struct network_load *load, struct crossing *at, const struct spread *ranks,
                     double blocks, double blocks_of_group)
{
    assert(ranks->node >= 1 && ranks->block >= ranks->node && ranks->all > ranks->block);
    double nodes = ranks->block / ranks->node;
    double outside = ranks->all - ranks->block, peers = outside / ranks->node;
    bool joins_all = !at->tier->dragonfly;
    at->way_factor = joins_all ? 1 : fmin(blocks - 1, 2);
    load->ring = fmax(load->ring, load_of(at, 1 / nodes, 1 / nodes));
    load->send = fmax(load->send, load_of(at, 1 / ranks->block, 1 / ranks->block));
    at->way_factor = joins_all ? 1 : fmin((blocks - 1) / (blocks_of_group - 1), 2);
    double share = outside / (ranks->all - ranks->node);
    load->all_to_all = fmax(load->all_to_all, load_of(at, share, peers));
}

struct network_load tiers_load(const struct cluster *cluster, const int *sizes, const int *strides,
                               int count)
{
    const struct network *network = &cluster->network;
    struct network_load load = {0};
    const struct node_group *group = &cluster->nodes[0];
    struct spread ranks = {.all = ranks_within(sizes, strides, count, INFINITY),
                           .node = ranks_within(sizes, strides, count, group->gpus)};
    struct crossing at = {
        .ratio = 1, .nics = group->nics.count, .flows_per_nic = network->flows_per_nic};
    for (int i = 0; i < network->tier_count; i++) {
        const struct network_tier *tier = &network->tiers[i];
        bool is_last = i + 1 == network->tier_count;
        double above = is_last ? cluster->node_count : tier[1].nodes;
        double nodes_above = fmin(above, cluster->node_count);
        ranks.block = ranks_within(sizes, strides, count, (double)tier->nodes * group->gpus);
        double in_above = ranks_within(sizes, strides, count, nodes_above * group->gpus);
        at.tier = tier;
        at.ratio *= tier->oversubscription_ratio;
        at.by_rail = i == 0 && network->rail_optimized;
        at.switches = ceil((double)cluster->node_count / tier->nodes) * (at.by_rail ? at.nics : 1);
        if (ranks.all <= ranks.block) break;
        // A dragonfly's blocks are those of one block of the tier above; beyond it goes what has
        // to leave that one, too.
        double blocks = fmax(2, ceil(nodes_above / tier->nodes));
        double blocks_of_group = fmax(2, fmin(blocks, ceil(in_above / ranks.block)));
        add_tier(&load, &at, &ranks, blocks, blocks_of_group);
    }
    return load;
}
