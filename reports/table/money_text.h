#pragma once
#include "simulator/evaluate.h"

// Time, GPU-hours and money of a run, for people: lines of `plan` and `simulate`, each with its
// band. "" without tokens. The price only where the cluster has one.
const char *money_text(struct arena *arena, double tokens, const struct prediction *prediction);
