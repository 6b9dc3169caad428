#pragma once
#include "cli/local.h"
#include "executor/launcher/launch.h"

// One of the processes that measure together: `into` is the file that rank 0 writes. Returns the
// exit status.
int calibrate_rank(struct arena *arena, const struct calibrate_arguments *arguments,
                   const struct launch_place *place, struct err *err);
