#pragma once
#include "plan/lower/lower.h"

// Lowers a block and carries it out on all ranks of a small mesh with real numbers: compute by
// tests/support/interpreter.c on the local slices, collectives by their plain meaning. Every
// output, input gradient and parameter gradient must equal those of the block that nobody split, to
// 1e-9; the test fails otherwise, and when an instruction reads or writes a buffer outside its
// lifetime.

enum { MACHINE_SEQ = 8, MACHINE_RANK_MAX = 16 };

void machine_check(struct arena *arena, const struct block *forward, const struct mesh *mesh,
                   const struct parallel *parallel, enum recompute recompute);
