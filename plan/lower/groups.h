#pragma once
#include "plan/lower/lower.h"

// Kernel groups that our engine runs as one call, by the rules of plan/lower/joins.inc that a back
// end of ours answers. A group's instructions stand behind one another, in the order in which they
// would run by themselves, those of a GEMM first; where they did not, those between them are no
// part of it and neither read what it writes nor write what it reads. All are of one phase, and
// none works on the rows of experts.

enum { GROUP_MEMBERS_MAX = 8, SUM_NORM_TERMS = 4 };

// Moves instructions of a program that was lowered for this mesh, and marks them: `kernel`,
// `joined`, `join`, `passing` and `kept_bytes` of struct instr. Before lifetimes are known. The
// array of buffers has room for `buffer_capacity` of them.
void groups_form(struct arena *arena, struct block_program *program, int buffer_capacity,
                 const struct mesh *mesh, unsigned joins);
