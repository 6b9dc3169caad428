#pragma once
#include "core/err.h"

// Every command has this form: argv[0] is its name, the result is the exit status (0 yes, 1 the
// answer is no). With any other status `err` is set, and main prints its one line. The arena is the
// command's, and freed at its end.

int bench_command(struct arena *arena, int argc, char **argv, struct err *err);
int calibrate_command(struct arena *arena, int argc, char **argv, struct err *err);
int completion_command(struct arena *arena, int argc, char **argv, struct err *err);
int export_command(struct arena *arena, int argc, char **argv, struct err *err);
int fit_command(struct arena *arena, int argc, char **argv, struct err *err);
int import_command(struct arena *arena, int argc, char **argv, struct err *err);
int man_command(struct arena *arena, int argc, char **argv, struct err *err);
int measure_next_command(struct arena *arena, int argc, char **argv, struct err *err);
int memory_command(struct arena *arena, int argc, char **argv, struct err *err);
int plan_command(struct arena *arena, int argc, char **argv, struct err *err);
int report_command(struct arena *arena, int argc, char **argv, struct err *err);
int reshard_command(struct arena *arena, int argc, char **argv, struct err *err);
int run_command(struct arena *arena, int argc, char **argv, struct err *err);
int compare_command(struct arena *arena, int argc, char **argv, struct err *err);
int serve_command(struct arena *arena, int argc, char **argv, struct err *err);
int schema_command(struct arena *arena, int argc, char **argv, struct err *err);
// models, clusters, devices, stacks
int shipped_command(struct arena *arena, int argc, char **argv, struct err *err);
int simulate_command(struct arena *arena, int argc, char **argv, struct err *err);
int strategy_command(struct arena *arena, int argc, char **argv, struct err *err);
int tokenize_command(struct arena *arena, int argc, char **argv, struct err *err);
int topology_command(struct arena *arena, int argc, char **argv, struct err *err);
int validate_command(struct arena *arena, int argc, char **argv, struct err *err);
int whatif_command(struct arena *arena, int argc, char **argv, struct err *err);

struct cli_command {
    const char *name;
    int (*run)(struct arena *arena, int argc, char **argv, struct err *err);
    const char *summary;
};

// All of them, in the order of help; the last has no name.
extern const struct cli_command COMMANDS[];
// NULL: none is called so.
const struct cli_command *command_find(const char *name);
// What no command is called, with the nearest name that one is.
int command_fail_unknown(const char *name, struct err *err);
int command_run(const struct cli_command *command, int argc, char **argv, struct err *err);
// Has a command print its help in one of the forms of cli/options.h: "--help=man".
int command_print_help(const struct cli_command *command, const char *form, struct err *err);
