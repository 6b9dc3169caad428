#pragma once
#include "core/arena.h"

// Searches of one model on several cores that meet at the same shares of their work and leave with
// the best choice that any of them has, so that equal seeds and limits give equal answers however
// fast each core is.

struct meeting;

struct meeting *meeting_new(struct arena *arena, int count, int node_count);
void meeting_end(struct meeting *meeting);
// One of them will not come, nor ever has.
void meeting_leave(struct meeting *meeting);
// Waits for all. `who` of them has `choice` at `cost` (INFINITY: none yet) and gets that of
// the one that has the cheapest, the first of equals; the answer is its cost.
double meeting_best(struct meeting *meeting, int who, double cost, int *choice);
