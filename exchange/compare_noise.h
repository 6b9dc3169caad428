#pragma once
#include "core/arena.h"

// Whether samples of a new state are slower than those of a base, or only noise: the test of the
// rank sum (Mann and Whitney, 1947), whose distribution is counted by exchanging the labels
// (Fisher's permutation test). It takes nothing about the shape of the noise, and an outlier is one
// rank. Where both sides have as many samples, step by step of the same work, their differences
// tell more: the test of the signed ranks (Wilcoxon, 1945), counted by changing the signs. A
// difference counts where either finds it. With few samples every exchange is tried; with many so
// many are drawn from a fixed seed.

struct samples {
    const double *values;
    int count;
};

enum { NOISE_SEED = 20261123, NOISE_DRAWS = 20000, NOISE_SAMPLES = 500 };

// A difference counts where chance alone would give it in so few of the exchanges, or, where there
// are too few exchanges to tell, where all of one side are above all of the other: of one sample a
// side any difference counts, and the threshold alone decides. Two tests at a level of 0.5 % are
// wrong in 1 of 100 cases at most.
static const double NOISE_LEVEL = 0.005;

double samples_median(struct arena *arena, struct samples samples);
// From the first to the third quartile (linear between samples); 0 of one sample.
double samples_spread(struct arena *arena, struct samples samples);

struct noise {
    double slower, faster;              // share of the exchanges that are as extreme to that side
    double level;                       // that it is compared with
    double pairs_slower, pairs_faster;  // the same of the signs; 1 where there are no pairs, or
                                        // too few for the level
};
// Both sides have a sample. `in_pairs`: sample i of one and of the other are of the same work.
struct noise noise_test(struct arena *arena, struct samples base, struct samples now,
                        bool in_pairs);
bool noise_is_slower(const struct noise *noise);
bool noise_is_faster(const struct noise *noise);
