#include "plan/layout/entries.h"

unsigned entries_axes(const struct mesh *mesh, const struct strategy *strategy,
                      const struct block *block, const struct op *op)
{
    unsigned axes = 0;
    if (!op_has_dim(block, op, DIM_ENTRY)) return 0;
    for (int a = 0; a < mesh->axis_count; a++) {
        bool is_alike = mesh->axes[a].parent == AXIS_CP && strategy->of[a] == DIM_NONE;
        if (is_alike) axes |= 1u << a;
    }
    return axes;
}

struct layout entries_gradient(const struct mesh *mesh, const struct strategy *strategy,
                               const struct block *block, const struct op *op, struct layout read)
{
    unsigned axes = entries_axes(mesh, strategy, block, op);
    for (int a = 0; axes >> a; a++)
        if (axes >> a & 1) read.of[a] = LAYOUT_SUM;
    return read;
}
