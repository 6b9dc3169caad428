#pragma once
#include "core/err.h"

#include <stdbool.h>

// Commands on recommendation models: the same names with the options that these have. Asked by a
// MODEL of that kind, or a PLAN of one.

// A set `err` where the machine fails to read the file: the command ends.
bool tables_are_asked(int argc, char **argv, struct err *err);      // by MODEL
bool tables_plan_is_asked(int argc, char **argv, struct err *err);  // by PLAN

int tables_plan_command(struct arena *arena, int argc, char **argv, struct err *err);
int tables_simulate_command(struct arena *arena, int argc, char **argv, struct err *err);
int tables_memory_command(struct arena *arena, int argc, char **argv, struct err *err);
int tables_report_command(struct arena *arena, int argc, char **argv, struct err *err);
int tables_whatif_command(struct arena *arena, int argc, char **argv, struct err *err);
int tables_run_command(struct arena *arena, int argc, char **argv, struct err *err);
