#pragma once
#include "plan/choice.h"
#include "simulator/evaluate.h"

// The neighbours of a plan: all that it chose is kept but one choice, which takes the next smaller
// or larger value or another word; data parallelism follows from the GPUs. What each would cost is
// why the plan is as it is.

enum neighbour_status { NEIGHBOUR_FITS, NEIGHBOUR_LACKS_MEMORY, NEIGHBOUR_IMPOSSIBLE };

struct neighbour {
    enum choice choice;
    const char *was, *value;  // as people write them
    enum neighbour_status status;
    const char *reason;            // impossible: why, one line
    int64_t lack_bytes;            // of a GPU's memory, where it lacks that
    struct prediction prediction;  // but where it is impossible
};

struct neighbours {
    struct neighbour *list;
    int count;
};

// In the order of plan/choices.inc. Lives in `arena`; `scratch` is reset.
struct neighbours neighbours_find(struct arena *arena, struct arena *scratch,
                                  const struct evaluation_request *request,
                                  const struct graph *graph);
