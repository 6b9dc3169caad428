#pragma once
#include "memory/keep/keep.h"
#include "memory/schedule.h"

// The independent checker: whether an answer is one. It reads the question as it was asked (graph,
// packing problem, copies), shares no function with the solvers, and runs after every solve. False:
// a bug; `why` says what is wrong, in one line.

// Order respects every edge and runs each operator once; live bytes simulated again equal those
// stated; no two buffers alive at once overlap; offsets are aligned; nothing above arena_bytes,
// that not above the capacity where it says that it fits; bound <= live <= arena.
MUST_CHECK bool check_graph(struct arena *scratch, const struct memory_graph *graph,
                            const struct memory_problem *problem, int64_t alignment,
                            int64_t capacity, const struct memory_schedule *schedule,
                            const char **why);
MUST_CHECK bool check_packing(struct arena *scratch, const struct pack_problem *problem,
                              const struct memory_schedule *schedule, const char **why);
// Every activation is kept, recomputed or moved exactly once; memory at every boundary under the
// limit; bytes moved before any point in either direction no more than the link can carry by then,
// plus the seconds that were added for it; host and NVMe not over their capacity; what it adds and
// moves as stated; the bound no higher. Of an infeasible one: that it lacks what it says.
MUST_CHECK bool check_keep(const struct keep_problem *problem, const struct keep_result *result,
                           const char **why);
