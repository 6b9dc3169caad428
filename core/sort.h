#pragma once
#include "core/arena.h"

#include <stdint.h>

// Sorts `count` items of `size` bytes so that none stands in front of one that goes `before` it;
// those of which neither does stay as they were. A merge sort, with room for as many in `scratch`.
void sort_stable(struct arena *scratch, void *items, int64_t count, size_t size,
                 bool (*before)(const void *a, const void *b));

// Upwards, in place.
void sort_f64s(double *values, size_t count);
void sort_i64s(int64_t *values, size_t count);
void sort_ints(int *values, size_t count);
void sort_texts(const char **texts, size_t count);
// Sorts the values, of which there is one at least, and returns the one in the middle, or the mean
// of the two that are.
double sort_median(double *values, size_t count);
