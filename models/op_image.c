#include "models/op_image.h"

#include <assert.h>
#include <string.h>

static const char *const IMPORTED_NAMES[IMPORTED_COUNT] = {
#define IMPORTED(id, name) [IMPORTED_##id] = (name),
#include "models/imported.inc"
};

enum imported_kind imported_find(const char *name)
{
    for (int i = IMPORTED_NONE + 1; i < IMPORTED_COUNT; i++) {
        if (strcmp(name, IMPORTED_NAMES[i]) == 0) return (enum imported_kind)i;
    }
    return IMPORTED_NONE;
}

const char *places_name(enum places places)
{
    static const char *const NAMES[PLACES_COUNT] = {"whole", "each", "window", "turned",
                                                    "statistics"};
    assert(places >= 0 && places < PLACES_COUNT);
    return NAMES[places];
}

const struct window *op_window(const struct op *op, enum dim dim)
{
    bool slides = op->work.places == PLACES_WINDOW || op->work.places == PLACES_TURNED;
    if (!slides || !dim_is_of_image(dim)) return NULL;
    const struct window *window = &op->work.windows[dim == DIM_HEIGHT ? 0 : 1];
    return window->taps > 0 ? window : NULL;
}

// What an output lacks is summed over, as in an einsum.
static enum split split_sum(const struct block *block, const struct op *op, enum dim dim)
{
    for (int i = 0; i < op->output_count; i++) {
        // Which samples are dropped every rank draws for itself, the same ones.
        bool is_mask = i > 0 && block->tensors[op->outputs[i]].element == ELEMENT_BYTE;
        if (!is_mask && tensor_find_dim(&block->tensors[op->outputs[i]], dim) < 0)
            return op_has_dim(block, op, dim) ? SPLIT_PARTIAL : SPLIT_NO;
    }
    return SPLIT_FREE;
}

// A window needs places on both of its sides: what leaves one row of an image has none to share.
static bool slides_over(const struct block *block, const struct op *op, enum dim dim)
{
    const struct op *forward = &block->ops[op->forward_op];
    return op_window(op, dim) && tensor_find_dim(&block->tensors[forward->inputs[0]], dim) >= 0 &&
           tensor_find_dim(&block->tensors[forward->outputs[0]], dim) >= 0;
}

enum split op_image_split(const struct block *block, const struct op *op, enum dim dim)
{
    if (dim == DIM_BATCH) return split_sum(block, op, dim);
    if (!dim_is_of_image(dim)) return SPLIT_NO;
    switch (op->work.places) {
    case PLACES_EACH:
        return split_sum(block, op, dim);
    case PLACES_WINDOW:
    case PLACES_TURNED:
        return slides_over(block, op, dim) ? split_sum(block, op, dim) : SPLIT_NO;
    case PLACES_STATISTICS:
        return op_has_dim(block, op, dim) ? SPLIT_REDUCED : SPLIT_NO;
    default:
        return SPLIT_NO;
    }
}

double op_image_share(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT])
{
    static const enum dim DIMS[] = {DIM_HEIGHT, DIM_WIDTH};
    double share = 1;
    for (int d = 0; d < 2; d++) {
        // As local extents are found: those of the first tensor that has the dim.
        for (int i = 0; i < op->input_count + op->output_count; i++) {
            int t = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
            int position = tensor_find_dim(&block->tensors[t], DIMS[d]);
            if (position < 0) continue;
            // Of sizes that are not given the whole is meant.
            if (size[DIMS[d]] == 0) break;
            assert(block->tensors[t].extents[position].size > 0);
            share *= (double)size[DIMS[d]] / (double)block->tensors[t].extents[position].size;
            break;
        }
    }
    assert(share > 0);
    return share;
}

bool op_is_statistic(const struct block *block, const struct op *op, int tensor)
{
    assert(op->forward_op >= 0 && op->forward_op < block->op_count);
    const struct op *forward = &block->ops[op->forward_op];
    if (forward->work.places != PLACES_STATISTICS) return false;
    for (int i = 1; i < forward->output_count; i++) {
        if (forward->outputs[i] == tensor) return true;
    }
    return false;
}
