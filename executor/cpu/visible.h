#pragma once
#include "models/graph.h"

// Which keys a query attends to: all, or those up to itself, or the last `window` of these, or
// those of its chunk, and of these those of its document. Query, first key and `document`, where
// the query's begins (0: it is all one), are indices in the whole; the answer is a range of the
// keys held here.

struct range {
    int64_t first, end;
};

static inline struct range visible(const struct op *op, int64_t query, int64_t first_key,
                                   int64_t keys, int64_t document)
{
    struct range range = {0, keys};
    if (!op->causal) return range;
    int64_t end = query - first_key + 1;
    range.end = end < 0 ? 0 : end < keys ? end : keys;
    int64_t seen = op->chunked && op->window > 0 ? query % op->window + 1 : op->window;
    if (seen > 0 && end > seen) range.first = end - seen;
    if (document - first_key > range.first) range.first = document - first_key;
    if (range.first > range.end) range.first = range.end;
    return range;
}
