#pragma once
#include "planner/uneven.h"

// Where nothing fits the memory of the devices, more may leave them, rung by rung, and the first
// rung on which a plan fits is the answer:
//
// 1. what `--offload auto` searches, where the memory was said (`--device-memory`) and not what is
//    to leave it: who says less memory than a device has asks for a plan in it;
// 2. the same with parameters on the host, in every plan that moves optimizer states;
// 3. with buckets of 4 MiB, where their size is open: what the host has updated comes back and
//    gradients leave in rooms of that size;
// 4. and with gradients on the host: whole only there;
// 5. and with parameters on NVMe, where the hosts have it: their memory may be what lacks.
//
// Where parameters on the host are the answer, gradients are asked in their place and beside them,
// and the fastest of the three is it. So they are where the answer is of one stage and recomputes
// or moves something: with parameters or gradients away less of that may do. There the mesh of the
// answer is asked alone, and what other meshes could gain is not bounded.
//
// Rungs that the stack does not have are left out. A search that finds a plan at once is the plain
// one, and as fast.

struct outgrown {
    const char *said;  // what was searched in place of what was asked; NULL: nothing else
};

// uneven_search on each rung until something fits. The pins of `request` become those of the rung
// that answers: where none fits the last one that has plans at all, with its remedies.
// `says_memory` as in 1. The result and `said` live in `arena`; errors are those of the first
// search.
MUST_CHECK bool outgrown_search(struct arena *arena, struct search_request *request,
                                bool says_memory, struct search_result *result,
                                struct uneven_answer *answer, struct outgrown *outgrown,
                                struct err *err);
