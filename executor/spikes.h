#pragma once
#include <stdbool.h>
#include <stdint.h>

// Steps whose gradients are far out of line: their norm against the mean and deviation of those
// before it, both exponential means (ZClip, Kumar et al. 2025, section 3, with its numbers: 0.97 of
// the old, 25 steps before it judges). What is out of line counts as if it were just in line, so
// that a norm that stays higher is soon the rule.

struct spikes {
    double mean, variance;
    int64_t count;  // of norms taken in
};

// Whether the update of this norm is to be left out: it is not finite, or lies more than
// `deviations` above the mean.
bool spikes_take(struct spikes *spikes, double deviations, double norm);
