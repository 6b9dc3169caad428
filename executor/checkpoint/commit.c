#include "executor/checkpoint/commit.h"

#include <assert.h>

enum commit_next commit_next(const int64_t *phases, int stride, int rank_count, int rank,
                             int *failed)
{
    int written = 0;
    assert(rank_count > 0 && rank >= 0 && rank < rank_count);
    *failed = -1;
    for (int r = rank_count - 1; r >= 0; r--) {
        int64_t phase = phases[(int64_t)r * stride];
        if (phase == COMMIT_FAILED) *failed = r;
        written += phase >= COMMIT_WRITTEN;
    }
    // Others may still be writing, and nobody commits: their files are left over.
    if (*failed >= 0) return COMMIT_GIVE_UP;
    if (phases[0] == COMMIT_COMMITTED) return COMMIT_STORED;
    bool is_ready = written == rank_count && phases[0] == COMMIT_WRITTEN;
    return is_ready && rank == 0 ? COMMIT_START : COMMIT_WAIT;
}
