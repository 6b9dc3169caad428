#pragma once
#include "executor/array.h"

// The sizes of a call of OP_LINEAR_LOSS or its backward, alike for all back ends.

struct linear_loss_call {
    int64_t rows, depth, x_stride;
    int64_t columns, real, first;  // here; of them those that exist; where they begin
    int64_t width;                 // of one part, but for the last
    bool is_turned, is_split;      // the matrix is (columns, depth); others hold more columns
};

// x is input `at`, the matrix and the labels stand behind it. NULL, or what is wrong.
static inline const char *linear_loss_read(const struct kernel_call *call, int at,
                                           struct linear_loss_call *of)
{
    const struct kernel_array *x = &call->inputs[at], *weight = x + 1, *labels = x + 2;
    bool is_turned = weight->dims[1] == x->dims[x->rank - 1];
    bool is_vocab = call->vocab > 0 && weight->dims[!is_turned] == DIM_VOCAB;
    int64_t whole = weight->whole[!is_turned], columns = weight->sizes[!is_turned];
    int64_t first = weight->first[!is_turned], real = (is_vocab ? call->vocab : whole) - first;
    int64_t parts = call->op->chunk > 0 ? call->op->chunk : 1;
    *of = (struct linear_loss_call){.rows = array_elements(labels),
                                    .depth = array_last(x),
                                    .x_stride = array_stride(x, x->rank - 2),
                                    .columns = columns,
                                    .real = real < 0         ? 0
                                            : real < columns ? real
                                                             : columns,
                                    .first = first,
                                    .width = (columns + parts - 1) / parts,
                                    .is_turned = is_turned,
                                    .is_split = columns < whole};
    if (labels->element != ELEMENT_INT64) return "labels are 64-bit integers";
    if (weight->sizes[is_turned] != of->depth) return "a matrix that does not fit its rows";
    if (array_elements(x) != of->rows * of->depth) return "rows without a label";
    if (call->op->kind != OP_LINEAR_LOSS || call->part == 0) return NULL;
    if (call->part < 0 || call->part > 6) return "the loss has three exchanges";
    return array_elements(&call->inner) == of->rows ? NULL : "no room to exchange";
}

// Of the part from a column on how many there are, and how many of them exist.
static inline int64_t linear_loss_columns(const struct linear_loss_call *of, int64_t at)
{
    return of->width < of->columns - at ? of->width : of->columns - at;
}
static inline int64_t linear_loss_real(const struct linear_loss_call *of, int64_t at)
{
    int64_t real = of->real - at, count = linear_loss_columns(of, at);
    return real < 0 ? 0 : real < count ? real : count;
}
