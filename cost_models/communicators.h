#pragma once
#include "plan/program.h"

// What has to be there before a job's first step, and at every restart: the communicators that a
// rank joins, one after the other as software makes its process groups, of all ranks side by side.
//
// Each takes the cluster's failures.communicator_s, and communicator_rank_s for each rank of it, as
// all of them meet at one store. No figure holds everywhere, and none is taken where the file gives
// none: Jiang et al. 2024, "MegaScale" (NSDI), section 3.5, needed 1,047 s on 2,048 GPUs with
// torch.distributed's store, 361 s with another, and less than 5 s with fewer barriers.

struct communicators {
    int count;        // that a rank joins, that of all ranks included
    double rank_sum;  // ranks in them
};

// Of one rank alone there are none.
struct communicators communicators_of(const struct program *program);
double communicators_s(const struct communicators *communicators, const struct failures *failures);
