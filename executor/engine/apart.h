#pragma once
#include "models/graph.h"

// Which row of a table a query takes for a key that is so far ahead of it, or behind: what
// relative_buckets and distances, which `ids` is, hold of the pair.
int64_t apart_bucket(const struct block *block, const struct tensor *ids, int64_t ahead);
int64_t apart_distance(const struct block *block, const struct tensor *ids, int64_t ahead);

// What a column of a position that is not trained is (enum sinusoids).
double apart_wave(int64_t place, int64_t column, int64_t columns, bool is_shifted);
