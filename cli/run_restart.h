#pragma once
#include "cli/run_job.h"
#include "executor/launcher/launch.h"

// What --restarts, --ranks-left and --replan do: start the ranks again from the last good
// checkpoint, and where some of them are gone for good, or one stays slow, by another plan.

// With --ranks-left: the plan of `arguments`, and its word in `argv`, become those of a plan for
// the ranks that are left, which is written into the folder of the checkpoints. Otherwise nothing.
MUST_CHECK bool run_restart_fit(struct arena *arena, struct run_arguments *arguments,
                                const struct launch_place *place, int argc, char **argv,
                                struct err *err);
// Runs the job and returns its exit status. Where ranks die it is started again, as often as
// --restarts says; not when a signal to this process ended it. A rank that dies twice with no new
// checkpoint between is taken to be gone, and what it ran on is passed by. `whole` is
// request->argv, with room for one more word.
int run_restart(struct arena *arena, const struct run_arguments *given,
                struct launch_request *request, char **whole, struct err *err);
// How long a rank of the job may stand still.
double run_restart_stuck_s(const struct run_job *job);
