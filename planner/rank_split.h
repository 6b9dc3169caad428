#pragma once
#include "core/arena.h"

#include <stdbool.h>

// The ranks of a cluster shared out between the stages of a pipeline, which follow each other, and
// the layers between them: of all ways to do so out of a list of what a stage may be one whose
// busiest stage is as little busy as can be. Each layer is like each other here, but where stages
// have pinned ones of other lengths, and each stage is as busy and as full as its option says;
// plans are priced as a whole behind it (planner/meshes_auto.c).

// What a stage from a place on may be. Seconds are of a micro-batch, bytes of the fullest rank.
struct rank_option {
    int ranks, tp;
    double base_s, layer_s;          // of a stage, and of each of its layers
    double first_s, last_s;          // more of the first and the last stage
    double end_s;                    // once a step, of a layer
    double room_bytes;               // that a stage has for all that follows
    double base_bytes, layer_bytes;  // of a stage, and of each of its layers
    double flight_bytes;             // and of a layer for each micro-batch in flight
    double first_bytes, last_bytes;  // more of the first and the last stage
};

struct rank_places {
    int rank_count;
    const int *first_option;  // [rank_count + 1]: those of a stage from this rank on begin here
    const struct rank_option *options;
};

struct rank_question {
    const struct rank_places *places;
    int stages, layers, micro_batches;
    const int *ranks, *tp, *stage_layers;  // of each stage, where they are pinned; NULL: any
    const double *stage_ratio;             // of a layer of each stage over the mean one; NULL: 1
    int ends_ranks, ends_tp;               // of the first and the last stage; 0: any
};

struct rank_split {
    int *ranks, *tp, *layers;  // of each stage
    double worst_s, sum_s;     // of the busiest stage, of all
    double end_s;              // once a step, of the stage that takes longest
};

// The layers that a stage of this option may have within these seconds; -1: it cannot be.
// `behind` is how many stages follow it.
int rank_option_layers(const struct rank_question *question, const struct rank_option *option,
                       int stage, double limit_s);
// Seconds of a stage of these layers.
double rank_option_s(const struct rank_question *question, const struct rank_option *option,
                     int stage, int layers);

// False: there is none in which no stage takes longer than this (INFINITY: none at all). Lives in
// `arena`.
bool rank_split_within(struct arena *arena, const struct rank_question *question, double limit_s,
                       struct rank_split *split);
// The one with the least of the busiest stage, to a thousandth, if it is below `limit_s`.
bool rank_split_best(struct arena *arena, const struct rank_question *question, double limit_s,
                     struct rank_split *split);
