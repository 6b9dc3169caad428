#pragma once
#include "core/err.h"

// Every command has this form: argv[0] is its name, the result is the exit status (0 yes, 1 the
// answer is no). With any other status `err` is set, and main prints its one line.

int calibrate_command(int argc, char **argv, struct err *err);
int fit_command(int argc, char **argv, struct err *err);
int memory_command(int argc, char **argv, struct err *err);
int plan_command(int argc, char **argv, struct err *err);
int report_command(int argc, char **argv, struct err *err);
int run_command(int argc, char **argv, struct err *err);
int shipped_command(int argc, char **argv, struct err *err);  // models, clusters, devices, stacks
int simulate_command(int argc, char **argv, struct err *err);
int topology_command(int argc, char **argv, struct err *err);
int validate_command(int argc, char **argv, struct err *err);
int whatif_command(int argc, char **argv, struct err *err);
