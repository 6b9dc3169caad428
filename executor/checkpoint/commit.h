#pragma once
#include <stdbool.h>
#include <stdint.h>

// Who does what of a checkpoint under way. Every rank writes its file beside the steps and tells
// the others how far it is in the exchange that ends each step, so that all decide the same from
// the same numbers and nobody waits; the first rank commits when all have written.

// Of one rank, and in this order but for FAILED; COMMITTING and COMMITTED of the first alone.
enum commit_phase {
    COMMIT_NOTHING,
    COMMIT_WRITING,
    COMMIT_WRITTEN,
    COMMIT_COMMITTING,
    COMMIT_COMMITTED,
    COMMIT_FAILED
};

enum commit_next {
    COMMIT_WAIT,
    COMMIT_START,    // this rank commits: it is the first, and all have written
    COMMIT_STORED,   // it has the name of a checkpoint
    COMMIT_GIVE_UP,  // a rank could not: there will be none of this step
};

// What follows for `rank` from the phases of all while one is under way, `stride` numbers apart.
// *failed: of GIVE_UP the first rank that could not.
enum commit_next commit_next(const int64_t *phases, int stride, int rank_count, int rank,
                             int *failed);
