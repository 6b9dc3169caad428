#pragma once
#include "simulator/evaluate.h"

// What interruptions leave of a plan, for people. Both are empty where nothing is known, or where
// neither the length of the run nor anything about failures was said: a step has no failures.

// `tokens` of the whole run, 0: not said. Two lines under the best plan of `plan`.
const char *reliability_sentence(struct arena *arena, const struct cluster *cluster, double tokens,
                                 const struct prediction *prediction);
// The block of `simulate`.
const char *reliability_text(struct arena *arena, const struct cluster *cluster, double tokens,
                             const struct prediction *prediction);
