#pragma once
#include "topologies/cluster.h"

// GPUs joined to their neighbours alone: a torus of up to three dimensions, rank r of the node at
// the coordinates of r in mixed radix, the first dimension fastest. A GPU has two links a
// dimension, each an even share of its intra bandwidth. What a group reaches of them, when all
// concurrent groups of the mesh communicate at once.
//
// A collective of a group that spans k dimensions runs a ring along each at once, on a part of the
// data each, every part in another order of dimensions (How To Scale Your Model, Austin et al.
// 2025, part 3: V / (k W); multi-ported lower bound of Chan et al. 2007, section 4). A dimension
// brings both links where the ring closes, one where it is a line; where other groups lie between
// neighbours they share the links with them. Of an all-to-all each dimension carries what has to
// cross it, and the busiest decides (for a closed ring of d: V d / 8 a link).

struct torus_group {
    double links;  // that a ring over the group keeps busy, of one rank; 0: no torus
    double share;  // of the link to the neighbour in the group
    double load;   // on the busiest link by an all-to-all, over what a rank sends to its node's
                   // ranks, itself included
    int steps;     // of the rings one after another
};

// Of the ranks of one node in the group with these axes (as struct route_axes, any order). Axes
// that follow no dimension count as one link shared by all of a row.
struct torus_group torus_group_of(const struct intra_fabric *intra, const int *sizes,
                                  const int *strides, int count);
// One direction.
double torus_link_bytes_per_s(const struct intra_fabric *intra);
