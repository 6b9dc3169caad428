#pragma once
#include "executor/checkpoint/source.h"

// A checkpoint cut anew for another plan. What goes where follows from the pieces of the source and
// those that each rank of the plan writes; one piece at a time is in memory.

struct reshard {
    struct checkpoint_source *source;
    const struct script *const *scripts;  // [rank] of the plan
    int rank_count;
    int kind_count;                  // 1: weights alone; else moments of the plan's optimizer, too
    enum checkpoint_number numbers;  // of the weights; CHECKPOINT_NUMBER_COUNT: as in the source
    const char *plan_hash;
};

// Elements [from, from + elements) of an entry of the source, the first of them, and where they go
// in the piece of a target rank.
struct reshard_move {
    const struct checkpoint_entry *entry;
    int rank;  // of the target
    const struct checkpoint_piece *piece;
    int64_t from, to;  // of the first run
    int64_t runs, elements, bytes;
};
// Calls for every entry and target piece that have elements in common, rank by rank. False and
// ERR_INPUT where the source has not all that the plan wants.
MUST_CHECK bool reshard_map(const struct reshard *reshard,
                            void (*visit)(void *context, const struct reshard_move *move),
                            void *context, struct err *err);
// Writes the checkpoint into a store that is open.
MUST_CHECK bool reshard_write(const struct reshard *reshard, const struct checkpoint_store *store,
                              struct err *err);
