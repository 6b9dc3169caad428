#pragma once
#include "executor/checkpoint/store.h"

// Checkpoints of a model of one small matrix, a row of it a rank, whose numbers tell of which step
// and rank they are: for worlds that are made of a seed.

MUST_CHECK bool fake_checkpoint_write(const struct checkpoint_store *store, int64_t step, int rank,
                                      int rank_count, struct err *err);
MUST_CHECK bool fake_checkpoint_commit(const struct checkpoint_store *store, int64_t step,
                                       int rank_count, struct err *err);
// Whether the checkpoint of a step holds what was written of it.
bool fake_checkpoint_is_whole(const struct checkpoint_store *store, struct arena *arena,
                              int64_t step, struct err *err);
