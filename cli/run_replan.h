#pragma once
#include "cli/run_job.h"
#include "executor/launcher/launch.h"
#include "planner/around.h"
#include "planner/fewer.h"

// New plans for a run that goes on: for the ranks that are left when some are gone, and around one
// that stays slow. The file lies in the folder of the checkpoints, so that whoever goes on by hand
// has it too.

// Plans for at most so many ranks what the file at `path` plans for more, and says it. The path of
// the new file, in `arena`; NULL and a set `err` where nothing fits.
char *run_plan_fewer(struct arena *arena, const char *path, const char *folder, int ranks,
                     struct err *err);

// What --replan asks of every rank that stays slow (struct launch_request's `moves`), and what came
// of it.
struct run_replan {
    struct arena *arena;
    const struct run_arguments *arguments;  // their plan is the one that runs
    char *plan;                             // to go over to; NULL: none
    int left_out;                           // the rank that it is without; -1: all work on
};
// Says what it finds in one line. Whether to go over: the steps left take less by the new plan by
// more than going over costs.
bool run_replan(void *replan, const struct launch_slow *slow);
