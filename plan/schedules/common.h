#pragma once
#include "plan/schedule.h"

// What the schedules share; nobody else includes this. A new schedule is one file that defines a
// row and one line in schedules.inc.

#define SCHEDULE(id, row) extern const struct schedule_row row;
#include "plan/schedules/schedules.inc"

// Virtual stage s = chunk * stage_count + stage.
int schedule_linear_stage(const struct schedule_shape *shape, int virtual_stage);
int schedule_linear_chunk(const struct schedule_shape *shape, int virtual_stage);

// One chunk a stage; else the rest of a sentence.
bool schedule_one_chunk(const struct schedule_shape *shape, const char **why);

// `warm_up` forwards, then one forward and one backward (B, W) in turn, then the backwards that are
// left. Chunks take turns in groups of stage_count micro-batches, backward from the last chunk.
void schedule_fill(const struct schedule_shape *shape, int warm_up, struct slot *slots);
// The holds of that order.
int schedule_fill_in_flight(const struct schedule_shape *shape, int warm_up,
                            struct schedule_in_flight *in_flight);

// Holds found so far, none of them below another in all its counts. Past SCHEDULE_IN_FLIGHT_MAX the
// last takes the larger of each count, which is never too little.
struct hold_list {
    struct schedule_in_flight *in_flight;
    int chunk_count, count;
};
void hold_list_add(struct hold_list *list, const struct schedule_in_flight *moment);

// Forward, and backward with its weight gradient, of the only or of any chunk on a stage.
struct pair_times {
    double forward_s, backward_s;
};
static inline struct pair_times schedule_pair(const struct pipeline_times *times, int stage,
                                              int chunk)
{
    int class = times->class_of[stage * times->shape.chunk_count + chunk];
    const struct chunk_times *at = &times->classes[class];
    return (struct pair_times){at->forward_s, at->backward_s + at->weight_s};
}

// Time between two stages: none when there is only one.
double schedule_hop(const struct pipeline_times *times);

// Ends of the interleaved order (plan/schedules/ring.c); by the walk of every moment
// (plan/schedules/ring_walk.c) where the chunks of a stage differ and there are no more than
// RING_CELLS in all, with one more a stage.
enum { RING_CHUNKS = 32, RING_CELLS = 512 };
void ring_ends(const struct pipeline_times *times, double *end_s);
void ring_walk(const struct pipeline_times *times, double *end_s);

// Ends of an order of which every stage repeats a round, of one micro-batch in all its tasks
// (plan/schedules/replay.c): played task by task by the rules of simulator/walk.h, but for the
// rounds beyond two windows, which take as long as those of the second. Exact for few
// micro-batches.
struct repeat {
    int slot_count;    // of a round
    int filled_count;  // micro-batches by which the pipeline is filled and emptied
    // Where a stage's first round begins. A round waits for none behind it.
    int (*first_slot)(const struct schedule_shape *shape, int stage);
};
void replay_ends(const struct pipeline_times *times, const struct schedule_row *row,
                 const struct repeat *repeat, double *end_s);

// Of stages that are a tree: every task by the rules of simulator/walk.h (plan/schedules/tree.c).
void tree_ends(const struct pipeline_times *times, const struct schedule_row *row, double *end_s);

// The same for the order of plan/schedules/zero_bubble.c (plan/schedules/rounds.c): `rounds_of`
// gives a stage's w_i and d_i.
typedef void rounds_of_stage(const struct schedule_shape *shape, int stage, int cap, int *warm_up,
                             int *delay);
void rounds_ends(const struct pipeline_times *times, rounds_of_stage *rounds_of, int cap,
                 double *end_s);
