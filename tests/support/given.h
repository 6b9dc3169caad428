#pragma once
#include "tests/support/interpreter.h"

// Data that follows from the model alone, for the oracles: not by the code that is judged.

// The rows that scores look up by distance.
void given_buckets(struct interpreter *in, int tensor);
void given_distances(struct interpreter *in, int tensor);
// The experts that the table says of each token: those of token t begin with t times as many as it
// has of them. Sequences of tokens are `length` apart.
void given_experts(struct interpreter *in, int tensor, const double *tokens, int64_t length,
                   int64_t experts);
// Of pictures that are compared with texts: the last place of a text, and what each pair is and
// has. Whether the tensor is one of these.
bool given_pairs(struct interpreter *in, int tensor);
// Positions that are sines and cosines. Whether the tensor is that.
bool given_waves(struct interpreter *in, int tensor);
// Of pictures that stand in the text: what each token has of each patch, and where it stands.
bool given_in_text(struct interpreter *in, int tensor);
// What the head reads of the class and, as a mean, of the patches, or which a place is; `front`
// places are in front of the patches. Whether the tensor is that.
bool given_means(struct interpreter *in, int tensor, int64_t front);
// One for the first place of a picture and zeros, or the number of each place in front, and `front`
// for patches.
void given_places(struct interpreter *in, int tensor, bool is_first, int64_t front);
