#pragma once
#include "executor/engine/engine.h"

// Rows of a corpus that some ranks read for others (plan/readers.h). All ranks know what each
// looks at; a broadcast carries what somebody below it does, packed: down the tree of hosts all
// that any rank wants, on a host what its ranks want.

struct rows_readers;

// `is_wanted` [batch]: what this rank looks at; afterwards what it has to read, if it reads. NULL
// with the engine's err set on a fault. Lives in the engine's arena. On all ranks.
MUST_CHECK struct rows_readers *readers_open(struct engine *engine, bool *is_wanted);
// The rows, as struct feed has them, from those that were read here; NULL: none were. Good until
// the next call. NULL with the engine's err set on a fault. On all ranks.
MUST_CHECK const int64_t *readers_share(struct engine *engine, struct rows_readers *readers,
                                        const int64_t *rows);
// Of the step whose rows were shared last: what was read for it here.
void readers_count(const struct engine *engine, struct rows_readers *readers, int64_t read_bytes,
                   double read_s);
// At the end, on all ranks.
MUST_CHECK bool readers_finish(struct engine *engine, const struct rows_readers *readers,
                               struct run_input *input);
