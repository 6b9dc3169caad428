#pragma once
#include "models/graph.h"

// Which keys a query attends to: all, or those up to itself, or the last `window` of these, or
// those of its chunk, and of these those of its document; those of a prefix look ahead within it.
// Where queries look ahead a window is as
// wide behind the query as in front of it, and documents are not told apart. Query, first key and
// `document`, where the query's begins (0: it is all one), are indices in the whole; the answer is
// a range of the keys held here.

struct range {
    int64_t first, end;
};

static inline struct range visible(const struct op *op, int64_t query, int64_t first_key,
                                   int64_t keys, int64_t document)
{
    struct range range = {0, keys};
    bool chunked = op->chunked && op->window > 0;
    if (!op->causal && op->window <= 0) return range;
    int64_t past = query - first_key + 1;
    int64_t seen = chunked ? query % op->window + 1 : op->window;
    int64_t of_prefix = query < op->prefix ? op->prefix - 1 - query : 0;
    int64_t ahead = op->causal ? of_prefix : op->window - (chunked ? seen : 1);
    int64_t end = past + ahead;
    range.end = end < 0 ? 0 : end < keys ? end : keys;
    if (seen > 0 && past > seen) range.first = past - seen;
    if (op->causal && document - first_key > range.first) range.first = document - first_key;
    if (range.first > range.end) range.first = range.end;
    return range;
}
