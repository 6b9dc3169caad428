#pragma once
#include "models/graph.h"

// Data of a step of an imported graph: each sample, or each part of an image where scores are of
// its places, has a class, whose pattern its numbers are, with as much noise of their own. A
// function of the seed, the sample and the place in the whole, so that every plan trains on the
// same.

// Whether the graph is one, all of whose data are drawn so.
bool images_are_read(const struct graph *graph);
// As reals_at: a number of what the graph reads, or a label.
double images_at(const struct graph *graph, uint64_t seed, uint64_t sample,
                 const struct tensor *tensor, const int64_t *index);
