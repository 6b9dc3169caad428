#pragma once
#include "cli/run_job.h"

// What the first rank says and writes of every step: the line that people read, --metrics,
// --tensorboard, and the losses for --plot.

struct run_log;

// Opens the files that are asked for. NULL and `err` set where one cannot be written. Failures
// later on are kept until run_log_end.
MUST_CHECK struct run_log *run_log_open(struct arena *arena, const struct run_arguments *arguments,
                                        const struct run_job *job, bool is_planned_device,
                                        struct err *err);
void run_log_step(struct run_log *log, const struct run_result *result);
// Closes the files and draws the plot; `done` false: closes them alone.
MUST_CHECK bool run_log_end(struct run_log *log, bool done, struct err *err);
