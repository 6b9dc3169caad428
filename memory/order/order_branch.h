#pragma once
#include "memory/graph.h"

// A part of a side branch that may be run without interruption.
//
// Let D be operators that only what follows in the branch waits for, and that for all of D; that
// leave nothing alive; and of which all can run once the first can. For what D has executed, Q, let
// own(Q) be the bytes that D has made and that are alive, and frees(Q) the bytes that it reads from
// outside and no longer needs. Then an order that runs D at one stroke is as good as any where
//   own(Q) >= frees(Q) for every Q that is neither empty nor all of D, and
//   some order of D has a peak of own bytes and of what it still needs from outside together that
//   is no higher than the peak of own bytes alone in any order.
// Proof: take any order of all operators and the moment at which own bytes are at least that least
// peak; move all of D there. What ran between and before sees own(Q) less and at most frees(Q)
// more; what ran behind sees less; D itself peaks no higher than that moment did.
//
// An update of a weight whose gradient is larger than what it is made of is of this kind. For
// bounds the operators of a branch that are not are taken to make nothing (relaxed bytes 0).

enum { ORDER_BRANCH_MAX = 12 };

// Looks for such a part among `operators` (at most ORDER_BRANCH_MAX, in program order, closed
// towards what comes before them within the side branches). Returns how many operators it has and
// writes them to `sequence` in the order in which they should run; 0: none.
int order_branch_block(struct arena *scratch, const struct memory_problem *problem,
                       const int *operators, int count, int *sequence);
