#pragma once
#include "models/strided.h"

// How GPUs run attention of imported graphs (executor/cuda/loops.c), for who runs it and who prices
// it and counts its memory: GEMMs and a softmax of some heads at a time, with scores in memory.
// Samples and the two loops of heads are put together where each operand goes on evenly; the
// longest that repeats none is the batch of a GEMM, and the others are rounds.

enum { ATTEND_SCORES = 1 << 24 };  // at a time, unless one head has more

struct attend_loop {
    int64_t count, steps[LOOPS_INPUTS];  // of query, key, value and result
};
struct attend_rounds {
    struct attend_loop batch, others[3];
    int other_count;
    int64_t heads;   // of the batch at a time; the last may be fewer
    int64_t rounds;  // of all of it
};

static inline bool attend_repeats(const struct attend_loop *loop)
{
    for (int i = 0; i < LOOPS_INPUTS; i++)
        if (loop->steps[i] == 0) return true;
    return false;
}

static inline bool attend_goes_on(const struct attend_loop *outer, const struct attend_loop *inner)
{
    for (int i = 0; i < LOOPS_INPUTS; i++)
        if (outer->steps[i] != inner->count * inner->steps[i]) return false;
    return true;
}

// `sample`: numbers of each operand from one sample to the next.
static inline struct attend_rounds attend_rounds(const struct strided *s, int64_t samples,
                                                 const int64_t sample[LOOPS_INPUTS], int64_t most)
{
    struct attend_rounds r = {.batch = {.count = 1}, .rounds = 1};
    struct attend_loop loops[3] = {{.count = samples}};
    int count = 0, batch = -1;
    for (int l = 0; l < 3; l++) {
        if (l > 0) loops[l].count = s->sizes[l - 1];
        for (int i = 0; i < LOOPS_INPUTS; i++)
            loops[l].steps[i] = l == 0 ? sample[i] : s->steps[i][l - 1];
        if (loops[l].count == 1) continue;
        struct attend_loop *last = &loops[count - (count > 0)];
        if (count > 0 && attend_goes_on(last, &loops[l])) {
            int64_t both = last->count * loops[l].count;
            *last = loops[l];
            last->count = both;
        } else {
            loops[count++] = loops[l];
        }
    }
    for (int l = 0; l < count; l++)
        if (!attend_repeats(&loops[l]) && (batch < 0 || loops[l].count > loops[batch].count))
            batch = l;
    if (batch >= 0) r.batch = loops[batch];
    for (int l = 0; l < count; l++)
        if (l != batch) r.others[r.other_count++] = loops[l], r.rounds *= loops[l].count;
    int64_t each = s->sizes[2] * s->sizes[3], fit = each > 0 && each < most ? most / each : 1;
    r.heads = fit < r.batch.count ? fit : r.batch.count;
    if (r.heads > 0) r.rounds *= (r.batch.count + r.heads - 1) / r.heads;
    return r;
}
