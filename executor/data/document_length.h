#pragma once
#include "core/arena.h"
#include "executor/data/corpus.h"

// Of the first sequences that are trained on: the tokens that the document of a token has within
// its sequence, in the mean over tokens, as models/attended.h prices attention by. What a query
// sees is counted to itself: joined documents have the length of the sequence. Sequences that
// cannot be read are left to the step that trains on them; 0 where none can.
double document_length(struct arena *scratch, const struct corpus *corpus, int64_t sequence_count);
