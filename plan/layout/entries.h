#pragma once
#include "plan/layout/strategy.h"

// Axes of cp over which all ranks make the same entries, of whole sequences (models/op_pool.h). Of
// a gradient each has what its own queries say: it stays so back to what was gathered, for all of
// that is linear in it, and is summed as that is scattered; gradients of parameters are partial as
// those of other operators are.
unsigned entries_axes(const struct mesh *mesh, const struct strategy *strategy,
                      const struct block *block, const struct op *op);
// The layout of the gradient of a parameter that is read in this one, as such work leaves it.
struct layout entries_gradient(const struct mesh *mesh, const struct strategy *strategy,
                               const struct block *block, const struct op *op, struct layout read);
