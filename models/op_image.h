#pragma once
#include "models/op.h"
#include "models/strided.h"

// What operators of imported graphs do over the height and width of images.

static inline bool dim_is_of_image(enum dim dim)
{
    return dim == DIM_HEIGHT || dim == DIM_WIDTH;
}
// The window of an op over this dim; NULL: it has none.
const struct window *op_window(const struct op *op, enum dim dim);
// Samples are independent; places of an image as far as op->work says so.
enum split op_image_split(const struct block *block, const struct op *op, enum dim dim);
// Of what an op does over all places of an image, the share that ranks with tiles of these local
// extents do.
double op_image_share(const struct block *block, const struct op *op,
                      const int64_t size[DIM_COUNT]);
// Whether an input or output of the op holds statistics over all places (PLACES_STATISTICS), which
// ranks that have parts of the image add up.
bool op_is_statistic(const struct block *block, const struct op *op, int tensor);
// The operator of a name in ONNX; NONE: it has no kernels.
enum imported_kind imported_find(const char *name);
// Whether CPUs alone have its kernel: of loops two turns of which read one number.
static inline bool imported_is_of_cpus(const struct op_work *work)
{
    int order[LOOPS_MOST];
    for (int i = 0; i < LOOPS_INPUTS && work->strided; i++)
        if (strided_order(work->strided, i, order) < 0) return true;
    return false;
}
