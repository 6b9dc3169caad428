#pragma once
#include "plan/schedule.h"

// What the schedules share; nobody else includes this. A new schedule is one file that defines a
// row and one line in the table of plan/schedule.c.

extern const struct schedule_row GPIPE_ROW, ONE_F_ONE_B_ROW, INTERLEAVED_ROW;

// Virtual stage s = chunk * stage_count + stage.
int schedule_linear_stage(const struct schedule_shape *shape, int virtual_stage);
int schedule_linear_chunk(const struct schedule_shape *shape, int virtual_stage);

// One chunk a stage; else the rest of a sentence.
bool schedule_one_chunk(const struct schedule_shape *shape, const char **why);

// `warm_up` forwards, then one forward and one backward (B, W) in turn, then the backwards that are
// left. Chunks take turns in groups of stage_count micro-batches, backward from the last chunk.
void schedule_fill(const struct schedule_shape *shape, int warm_up, struct slot *slots);

// How many of the first `alive` forwards belong to each chunk.
void schedule_count(const struct schedule_shape *shape, int alive, int *per_chunk);

// Forward, and backward with its weight gradient, of the only or of any chunk on a stage.
struct pair_times {
    double forward_s, backward_s;
};
struct pair_times schedule_pair(const struct pipeline_times *times, int stage, int chunk);

// Time between two stages: none when there is only one.
double schedule_hop(const struct pipeline_times *times);

// Duration of the interleaved order (plan/schedules/ring.c).
enum { RING_CHUNKS = 32 };
double ring_duration(const struct pipeline_times *times, double *end_s);
