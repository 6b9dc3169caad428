#pragma once
#include "plan/layout/halo.h"

// Images split by height and width (sp_h, sp_w). A window reads its input with the halo that its
// own slice of the result needs; the gradient of the weight reads the same, and is partial over the
// ranks. The gradient of the input is made in the way that moves less: from the gradient of the
// result with a halo (way A, which moves result channels), or by each rank from its own slice of
// that, and the strips go back and are added (way B, which moves input channels as forward did).

// Adds what the op's window needs to the layout of its input or output, whose splits are set.
void spatial_halos(const struct mesh *mesh, const struct block *block, const struct op *op,
                   bool output, int index, struct layout *layout);

bool spatial_has_images(const struct graph *graph, enum dim dim);  // that the dim is one of
// Whether every image of the graph can be cut into these parts, with no halo from further than the
// next rank; else one line that names the first that cannot.
MUST_CHECK bool spatial_check(const struct graph *graph, const struct parallel *parallel,
                              struct err *err);
