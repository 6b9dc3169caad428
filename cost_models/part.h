#pragma once
#include "plan/parallel.h"

// Of what a task's seconds consist. Communication parts, and copies of activations to the host and
// back, are the exposed ones.
enum part {
    PART_COMPUTE,
    PART_RECOMPUTE,
    PART_TP,
    PART_CP,
    PART_EP,
    PART_DP,
    PART_OFFLOAD,
    PART_COUNT
};

// Where the seconds of an axis's collectives are counted: a column of plan/axes.inc.
enum part part_of_axis(enum axis axis);
// The axis that a part of communication is named after; tp for any other part.
enum axis part_axis(enum part part);

static inline double parts_s(const double part_s[PART_COUNT])
{
    double sum_s = 0;
    for (int part = 0; part < PART_COUNT; part++)
        sum_s += part_s[part];
    return sum_s;
}
