#pragma once
#include "planner/scan.h"

// What the space leaves out is tried around the best plans of the scan: splits of the layers that
// differ by one of them, other sets of classes to recompute, other ZeRO groups and caps; and of
// what it holds other axis orders and what is moved off the device, whose best may be others beside
// them. Each plan is improved until none of its neighbours is better, or so many were priced. Pins
// that describe a run are left alone: what they do not say is as its software has it.

enum { POLISH_MOST = 3000, POLISH_MOST_OTHERS = 300 };  // tries of the first, of each other

void polish(struct arena *arena, struct arena *scratch, const struct scan_request *request,
            struct ranking *ranking);
