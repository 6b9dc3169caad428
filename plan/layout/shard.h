#pragma once
#include "plan/layout/layout.h"

// The parts of a flat buffer that ZeRO shards. Shard groups nest (enum stored): a buffer is cut
// over the axes of the group of weights, each part over what the group of gradients has beside
// them, and each of those over what is left, so that who stores little stores part of what it
// stores more of. Each cut is one of ceil(elements / ranks).

// Which of the parts this rank has.
struct slice shard_slice(const struct mesh *mesh, unsigned axes, int64_t elements, int rank);

// The ranks that have the parts that this rank has not, and this one, in the order of the parts.
// Returns how many there are; `ranks` has room for mesh_size(mesh, axes).
int shard_members(const struct mesh *mesh, unsigned axes, int rank, int *ranks);
