#pragma once
#include "cli/local.h"

// What a restart of ranks takes here without the checkpoint: this binary plans a small model for
// `local` and runs it for a step, several times, from the start of the command to its end, less
// the step; the median. Processes, the plan, devices, memory and the meeting of the ranks are in
// it, and the little that a command does behind its last step. Files are in a folder of its own
// within `folder`, which is removed.
MUST_CHECK bool calibrate_restart(struct arena *arena, const char *folder,
                                  const struct local *local, const struct local_key *key,
                                  double *restart_s, struct err *err);
