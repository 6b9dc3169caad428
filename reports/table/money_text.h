#pragma once
#include "simulator/evaluate.h"

// Time, GPU-hours and money of a run, for people: lines of `plan` and `simulate`, each with its
// band. "" without tokens. The price only where the cluster has one. `device`: what a device is
// called (cluster_device_noun).
const char *money_text(struct arena *arena, double tokens, const struct prediction *prediction,
                       const char *device);
