#pragma once
#include "core/arena.h"

#include <stdbool.h>
#include <stdint.h>

// Ranks that stay slower than those with the same work. What a rank works in a step, without what
// it waits for others, is held against the median of the other ranks of its stage. It is slow where
// that is STRAGGLER_RATIO of theirs (from 1.1 on jobs are held to have stragglers: Lin et al. 2025,
// "Understanding Stragglers in Large Model Training Using What-if Analysis"; the double of that
// excess keeps what comes and goes with the load of a host out), and it lasts where it is so for
// STRAGGLER_STEPS in a row and for STRAGGLER_S: one that a rank's neighbour on the host causes for
// a moment is not worth a word.
//
// A rank whose stage has no other is held against what is predicted for its stage, as the median of
// the other stages keeps to that: predictions of unlike stages are off by unlike factors, so it is
// slow from STRAGGLER_STAGE_RATIO on. Where nothing is predicted it is not judged.

enum { STRAGGLER_STEPS = 20 };
static const double STRAGGLER_RATIO = 1.2, STRAGGLER_STAGE_RATIO = 2, STRAGGLER_S = 5;

struct straggler {
    int rank;            // -1: there is nothing new
    double ratio;        // its work by that of the others, mean of its slow steps
    int64_t since_step;  // the first slow one, from 1
    bool is_over;        // it was named and is as fast as the others again
    bool is_alone;       // in its stage: the ratio is to what is predicted, as others keep to it
    double step_s;       // mean of its slow steps, those before it was named
};

struct stragglers;

// `stages`: [rank]; `stage_work_s`: [stage], what a rank of it is predicted to work in a step;
// NULL: it is not known. Both must outlive it. Lives in the arena.
struct stragglers *stragglers_new(struct arena *arena, const int *stages,
                                  const double *stage_work_s, int rank_count);
// Takes in what the ranks worked in a step, in ns, and how long the step took; where one of them is
// not known (0) nothing is judged. What is new of one rank: of several the others come with the
// next steps.
struct straggler stragglers_take(struct stragglers *stragglers, int64_t step,
                                 const int64_t *work_ns, double step_s);
