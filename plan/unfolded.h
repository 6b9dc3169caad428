#pragma once
#include "models/window.h"

#include <stdbool.h>

// How our CUDA back end computes a convolution (executor/cuda/product.c), for who runs it and for
// who prices it and counts its memory (cost_models/convolution.h). Of more than one narrow channel
// a group it is GEMMs of the weight and a matrix with a row for each channel and tap of the wide
// side and a column for each place of the narrow one: of some samples at a time, or some rows of
// one. Where the wide side is such a matrix itself, nothing is unfolded.

enum { UNFOLDED_BYTES = 1 << 26 };  // of the matrix at a time, unless one row of places needs more

struct unfolding {
    int64_t groups;
    int64_t channels;                // narrow ones of a group
    int64_t depth;                   // wide channels of a group times taps
    int64_t samples, rows, columns;  // of the narrow side
    int64_t element_bytes;           // of the matrix; 0: there is none
};

// At a time.
struct unfolded_part {
    int64_t samples, rows;
};

static inline bool window_is_plain(const struct window *window)
{
    return window->taps == 0 || (window->taps == 1 && window->stride == 1 && window->pad == 0);
}

static inline int64_t unfolded_row_bytes(const struct unfolding *of)
{
    return of->groups * of->depth * of->columns * of->element_bytes;
}

static inline struct unfolded_part unfolded_part(const struct unfolding *of, int64_t most_bytes)
{
    int64_t row_bytes = unfolded_row_bytes(of);
    if (row_bytes == 0) return (struct unfolded_part){of->samples, of->rows};
    int64_t most = most_bytes / row_bytes > 1 ? most_bytes / row_bytes : 1;
    if (most < of->rows) return (struct unfolded_part){1, most};
    int64_t samples = most / of->rows;
    return (struct unfolded_part){samples < of->samples ? samples : of->samples, of->rows};
}

static inline int64_t unfolded_bytes(const struct unfolding *of, int64_t most_bytes)
{
    struct unfolded_part part = unfolded_part(of, most_bytes);
    return part.samples * part.rows * unfolded_row_bytes(of);
}

// Whether the samples of a part are one batch of GEMMs: of one group, but for the gradient of the
// weight, which is a sum over them.
static inline bool unfolded_is_once(const struct unfolding *of, bool makes_weight)
{
    return of->groups == 1 && !makes_weight;
}
