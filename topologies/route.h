#pragma once
#include "topologies/tiers.h"
#include "topologies/torus.h"

// Which links join the ranks of a communicator, for any mesh axis order: all that is seen of it are
// ranks and strides.

// A communicator as the product of mesh axes: axis i holds `sizes[i]` ranks `strides[i]` apart.
// Every combination of axes not in the group gives another, concurrent group of the same shape.
enum { ROUTE_AXIS_MAX = 12 };
struct route_axes {
    int count;
    int sizes[ROUTE_AXIS_MAX];
    int strides[ROUTE_AXIS_MAX];
};

// The shape of the slowest of the concurrent groups, which is what a synchronous step waits for.
// The slowest is the one with the lowest bandwidth: that of `intra` when two of its ranks share a
// node, and ranks_per_node_least * network_bytes_per_s_per_rank when it spans nodes, whichever is
// lower. Equals are ordered by more nodes, then fewer ranks in a node.
struct group_shape {
    int rank_count;
    int node_count;            // nodes the group touches
    int ranks_per_node;        // most ranks of the group in one node (rails it can drive)
    int ranks_per_node_least;  // fewest in one node it touches; differs when nodes do not divide
    const struct intra_fabric *intra;  // the slowest among the nodes where two of its ranks meet;
                                       // where none do among all that it touches
    const struct network *network;
    double network_bytes_per_s_per_rank;  // NIC share of one rank: nics * bandwidth / gpus of the
                                          // node, divided by oversubscription when the group spans
                                          // nodes; the NICs are shared by all the node's GPUs
                                          // because the concurrent groups communicate at once;
                                          // the least among the nodes it touches
    // Where it spans node groups that a link of its own joins: `network` is that link. Of it the
    // group has an even share with the concurrent groups that cross it too; a ring crosses it once
    // each way, which bounds the NIC share above. Of what each rank sends to each other
    // crossing_ratio ranks' worth passes it: ranks of a node group times those outside, the most,
    // by all. 0: none does.
    double crossing_bytes_per_s, crossing_ratio;
    struct network_load load;  // of the switches on the way, where the network has tiers
    struct torus_group torus;  // of the ranks that share a node, where `intra` is a torus
};

// `axes` of the group, in any order; `mesh` all axes of the mesh (group axes included), whose
// product is the number of ranks in use, at most rank_count, each rank 0 .. product - 1 reached
// once. A group axis may be a part of a mesh axis (16 ranks 8 apart of 64 ranks 8 apart). A group
// of one rank has node_count 1. A pure function of its arguments: equal axes may be remembered by
// the caller. The work is O(GPUs of a node) where all nodes are alike and sizes divide, O(ranks) at
// worst.
struct group_shape route_group(const struct cluster *cluster, const struct route_axes *axes,
                               const struct route_axes *mesh);
// The same of a mesh whose ranks begin with `first`, and only of groups in the place that this has
// on the axes `fixed`, none of which is of the group.
struct group_shape route_group_from(const struct cluster *cluster, const struct route_axes *axes,
                                    const struct route_axes *mesh, const struct route_axes *fixed,
                                    int first);

// By the order above.
bool group_shape_slower(const struct group_shape *a, const struct group_shape *b);

// Of two ranks, a < b, beside as many pairs in all that do alike.
struct group_shape route_pair(const struct cluster *cluster, int rank_a, int rank_b, int beside);
