#pragma once
#include "plan/parallel.h"

// Tensor parallel ranks as a grid of axes (--tp-kind). tx splits tokens, and the parameters that
// ranks of it share are stored split over it and gathered where they are used; ty splits heads, ffn
// and vocabulary. The third axis, tz, splits tokens in 2.5D (the ranks along it hold the same
// parameters) and the hidden dimension in 3D. What each does where an operator has none of its
// dimensions is in plan/layout/strategy.c.
//
// 2D: Xu and You, arXiv 2104.05343; 2.5D: Wang et al., arXiv 2105.14500; both as published (SUMMA:
// ty splits the result of each product, whose operand is gathered) and with each pair of products
// joined by one reduction instead of two gathers. 3D: Bian et al., arXiv 2105.14450. Sizes
// need not be squares and cubes: the layouts hold for any three factors.

// The kinds, 1 << kind, in which ty splits the result of each product: of two that follow each
// other the gradient between them is a sum over ty.
enum { SUMMA_GRIDS = 1 << TP_2D_SUMMA | 1 << TP_2_5D_SUMMA };

enum grid_axis { GRID_LINE, GRID_X, GRID_Y, GRID_Z, GRID_COUNT };

struct tp_grid {
    int x, y, z;  // their product is the degree of tp; in a line y
};

// As near to a square or a cube as the degree allows, y no smaller than x. In 2.5D z * q * q with
// the largest z up to q (Wang et al., section 3), where there is none z * x * y with z up to x.
struct tp_grid grid_of(const struct parallel *parallel);

const char *grid_name(enum grid_axis grid);  // "tx"

// Into how many parts tp splits the sequences of a micro-batch: it has to be a multiple of them.
int64_t grid_batch_parts(const struct parallel *parallel);
// Into how many it splits the hidden dimension of activations and, beside that, of what is stored.
int64_t grid_hidden_parts(const struct parallel *parallel);
