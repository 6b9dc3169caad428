#pragma once
#include "topologies/cluster.h"

// A cluster as a drawing (SVG, one file that needs nothing): nodes with their GPUs, what joins
// those, NICs and the network. Of many nodes the first of each kind are drawn and the others
// counted. Equal clusters give equal bytes. In the arena.
char *cluster_drawing(struct arena *arena, const struct cluster *cluster);
