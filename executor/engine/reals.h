#pragma once
#include "models/graph.h"

// Data of a step that are reals: what a batch of videos brings (models/families/stdit.h). Each is a
// function of the seed, the sample and its place in the whole, so that every plan trains on the
// same.

// Whether there is data of this name.
bool reals_are_known(const char *name);
// One of them. `index` is by dim of the tensor; `sample` is the number of the sequence in the run.
double reals_at(const struct graph *graph, uint64_t seed, uint64_t sample,
                const struct tensor *tensor, const int64_t *index);
