#pragma once
#include "plan/layout/mesh.h"

// The links that the communicators of a mesh have: of each axis, of the gradients, and of all that
// ZeRO shards. Orders of the axes whose placements are equal price every plan alike.
enum { PLACEMENT_SHAPES = AXIS_COUNT + 1 + 2 * STORED_COUNT };
struct placement {
    struct group_shape shapes[PLACEMENT_SHAPES];
};

struct placement placement_of(const struct mesh *mesh, const struct parallel *parallel,
                              const struct cluster *cluster);
bool placement_equal(const struct placement *a, const struct placement *b);
