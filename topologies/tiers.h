#pragma once
#include "topologies/cluster.h"

// What the switches between nodes let through. Nodes are numbered block by block: node n is in
// block n / tier.nodes of a tier. A group of ranks with k nodes in a block of a tier whose links
// upward carry 1/R of what its NICs do (R the product of the ratios up to there), all concurrent
// groups communicating at once:
// - A ring goes through the nodes in their order and leaves a block once: it takes R / k of the
//   time that the NICs alone do, where that is more.
// - An all-to-all sends a share s of all that leaves a node out of its block: R s.
// - Of messages to the next rank one in k nodes' leaves it: R / (k ranks of a node).
//
// In a dragonfly (Kim, Dally, Scott and Abts 2008, "Technology-driven, highly-scalable dragonfly
// topology", section 4) a block's links upward are even shares for each of the B - 1 others. Who
// sends to one other block takes its share alone, or by way of a third block any link, but two of
// them: min(B - 1, 2) times as long. To b - 1 others: min((B - 1) / (b - 1), 2).
//
// Where a tier hashes flows over its uplinks (ECMP), a collective waits for the busiest of them:
// topologies/ecmp.h says how much busier it is than the mean.

struct network_load {
    // A rank's bytes over the network take so many times as long as over its share of the NICs;
    // below 1 (0 where there are no tiers): the NICs decide.
    double ring, all_to_all, send;
};

// Of the group with these axes (as struct route_axes, by ascending stride), on nodes of as many
// GPUs each.
struct network_load tiers_load(const struct cluster *cluster, const int *sizes, const int *strides,
                               int count);
