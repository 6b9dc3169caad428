#pragma once
#include "core/trace.h"
#include "cost_models/step.h"

// The event engine plays the priced program: every stage runs its schedule's slots in order on the
// compute stream; activations and gradients travel on the pp stream; gradient buckets and parameter
// gathers run on the dp stream beside compute. Times are whole nanoseconds; ties break on (time,
// rank, sequence), so equal inputs give equal traces. The rules are in simulator/walk.h (pipeline,
// hops, parameter gathering) and simulator/reduce.c (gradient buckets).
//
// One rank stands for each stage, or all ranks are played: the q-th ranks of all stages form
// pipeline q, and the ranks of one stage reduce their gradients together, when the slowest has them
// ready. Or lanes are played, each of which stands for any number of pipelines that are alike. The
// cost is the mean over ranks, of stages with unlike numbers of them over stages; the wait for
// others is bubble. Overhead comes last and has no span.

// What a rank of one stage waits for beside its tasks, mean over the stage's ranks. Its gradient
// and parameter communication as far as compute does not hide it, and blocking hops.
struct stage_waits {
    double blocked_s, gather_s, reduce_s, tied_s;
};

struct simulation {
    struct cost cost;
    struct trace trace;  // empty unless asked for
    int64_t event_count;
    double *stage_busy_s;  // compute of each stage
    double *lane_busy_s;   // [lane * stage_count + stage]; NULL without lanes
    struct stage_waits *stage_waits;
    struct stage_waits
        *lane_waits;  // [lane * stage_count + stage] blocked and gather; NULL: the same
};

// A stage of a lane: ranks that move together, because they communicate within micro-batches.
struct lane_stage {
    double slowdown;  // of their compute: that of the slowest, for whom the others wait
    int price;        // index into engine_options.prices: of their collectives and hops
    int shown_count;  // ranks that the trace shows, at least one
    const int *shown;
    const double *shown_slowdown;  // of their own compute, at most `slowdown`; NULL: `slowdown`
};

struct engine_lane {
    int pipeline_count;  // that move like this, of the same number of ranks each
    const struct lane_stage *stages;
    int micro_batch_count;  // that it takes; 0: as many as the price has
};

struct engine_options {
    bool want_trace;
    bool all_ranks;  // one timeline a rank instead of one a stage; `rank_count` of them
    int rank_count;
    int *stage_of_rank;        // all_ranks: pipeline stage of each rank
    double *slowdown_of_rank;  // all_ranks: compute of rank r takes this factor longer; NULL = 1
    const struct engine_lane *lanes;  // instead of all_ranks; NULL: there are none
    int lane_count;
    // Of the same program where some links are slower; NULL: one, the price of the step.
    const struct step_price *const *prices;
    const int *stage_price;  // [stage] of `prices`: what all ranks of a stage do together; NULL: 0
    // Each task's compute on each rank takes longer or shorter by a share of it that is normally
    // distributed with this deviation; of `jitter_ranks` that move together the slowest counts.
    double jitter_ratio;
    int jitter_ranks;
    uint64_t seed;
};

// The simulation lives in `arena`. `scratch` is reset before returning.
struct simulation *simulate_step(struct arena *arena, struct arena *scratch,
                                 const struct step_price *price,
                                 const struct engine_options *options);
