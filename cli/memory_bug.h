#pragma once
#include "memory/formats.h"

// A schedule that the independent checker refuses is a bug, and what it was made of is what a
// report of it needs: the question is written into the current folder, meshwright-memory-bug.json
// or .csv. `err` has what the checker says; where the file is written its name is added. Always
// false, so that callers return it.

bool memory_save_graph(struct arena *arena, const struct memory_graph *graph, struct err *err);
bool memory_save_packing(struct arena *arena, const struct pack_problem *problem, struct err *err);
