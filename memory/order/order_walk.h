#pragma once
#include "memory/order/order_part.h"

// One pass over all segments under a limit: is there an order that stays below? Segments whose own
// order fits, with nothing left waiting from before, take that. The others are searched together
// with what waits; what does not fit by the end of a segment waits for the next.
//
// As a bound (`relaxed`) the pass is a relaxation: side branches that are not proven to run at one
// stroke make nothing; of several ways to leave a segment one is made that is at least as good as
// all of them; where a cap is hit the segment counts as passed with nothing waiting. A refusal is
// then a proof. As a search for an order it takes the best way out only, and its refusal says
// nothing.

struct order_walk_request {
    const struct order_division *division;
    const struct order_parts *parts;
    const struct order_limits *limits;
    int64_t limit_bytes;
    bool relaxed;
};

struct order_walk_result {
    bool passed;
    int64_t next_bytes;  // refused: no lower limit than this can pass; above limit_bytes
    int64_t state_count;
    int *order;  // operators; of a pass that is not relaxed. In `arena`
};

struct order_walk_result order_walk(struct arena *arena, struct arena *scratch,
                                    const struct order_walk_request *request);
