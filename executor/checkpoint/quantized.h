#pragma once
#include "executor/checkpoint/number.h"

// Matrices in whole numbers of 8 or 4 bits with a scale for each group of a row's columns: what
// inference keeps of weights. The layout is "pack-quantized" of compressed-tensors: words of 32
// bits, four or eight columns a word, the first lowest, 128 or 8 added to each; a row begins with a
// word. Codes are the nearest to value over scale, the scale
// is the group's largest magnitude over 127 or 7, so that no value is further from its code's than
// half a scale.

struct quantized {
    int bits;  // 8 or 4; 0: it is not
    int64_t columns, group;
    int64_t scale_at_bytes;  // from the beginning of the arrays of its file
    enum checkpoint_number scale_number;
};

int64_t quantized_row_bytes(int bits, int64_t columns);

// What was lost of how much, as sums of squares, and the largest error.
struct quantized_error {
    double lost, whole, most;
    int64_t elements;
};
// Codes and fp32 scales of `rows` rows; adds to `error`.
void quantized_put(const struct quantized *of, int64_t rows, const double *values, void *codes,
                   float *scales, struct quantized_error *error);
// The number that the code of an element stands for. `arrays`: of the file, `codes` among them.
double quantized_get(const struct quantized *of, const void *arrays, const void *codes,
                     int64_t element);
