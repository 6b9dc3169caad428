#pragma once
#include "core/arena.h"

#include <stdint.h>

// Sorts `count` items of `size` bytes so that none stands in front of one that goes `before` it;
// those of which neither does stay as they were. A merge sort, with room for as many in `scratch`.
void sort_stable(struct arena *scratch, void *items, int64_t count, size_t size,
                 bool (*before)(const void *a, const void *b));
