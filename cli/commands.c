#include "cli/commands.h"
#include "cli/options.h"
#include "core/units.h"

#include <stdio.h>
#include <string.h>

const struct cli_command COMMANDS[] = {
    {"plan", plan_command, "search every way to train MODEL on CLUSTER, write the best plan"},
    {"simulate", simulate_command, "play a plan event by event: time, memory, trace"},
    {"whatif", whatif_command,
     "many plans at once: sweeps, deadlines, budgets; the Pareto front of time and money"},
    {"measure-next", measure_next_command,
     "which few micro-benchmarks would most help to choose a plan, and their script"},
    {"memory", memory_command,
     "order operators and place tensors so that a step needs least memory"},
    {"strategy", strategy_command,
     "choose a strategy for every operator of a graph under a memory limit"},
    {"run", run_command, "execute a plan on this machine, predicted beside measured"},
    {"reshard", reshard_command, "cut a checkpoint of any plan for another"},
    {"tokenize", tokenize_command, "turn text into a file of tokens that `run --data` trains on"},
    {"report", report_command,
     "one page with plots: what a plan costs, why it won, what it hangs on"},
    {"compare", compare_command,
     "two plans, runs or traces, or a plan and a log: what changed, is it a regression"},
    {"bench", bench_command, "execute a plan several times: is it slower than the last time"},
    {"export", export_command, "write what another program needs to run a plan"},
    {"import", import_command, "read what another program is started with: model, workload, pins"},
    {"calibrate", calibrate_command,
     "measure this machine: kernels, memory, collectives; CLUSTER local"},
    {"topology", topology_command, "describe a cluster and where its numbers come from"},
    {"models", shipped_command, "list the shipped models: parameters, layers, type"},
    {"clusters", shipped_command, "list the shipped clusters: GPUs, device, links"},
    {"devices", shipped_command, "list the shipped devices: peak, memory"},
    {"stacks", shipped_command, "list the training software that plans are made for"},
    {"schema", schema_command, "list the formats of all files and of --json, or print one"},
    {"validate", validate_command, "score predictions against published runs"},
    {"fit", fit_command, "fit the constants of devices and stacks to published runs"},
    {"serve", serve_command, "answer an assistant's questions (Model Context Protocol)"},
    {"completion", completion_command, "print the completion of bash or zsh"},
    {"man", man_command, "print the manual page of a command, or of all"},
    {0},
};

const struct cli_command *command_find(const char *name)
{
    for (const struct cli_command *command = COMMANDS; command->name; command++) {
        if (strcmp(command->name, name) == 0) return command;
    }
    return NULL;
}

int command_fail_unknown(const char *name, struct err *err)
{
    struct units_guess guess = {.text = name};
    for (const struct cli_command *command = COMMANDS; command->name; command++) {
        units_guess_offer(&guess, command->name);
    }
    if (guess.best) {
        err_set(err, ERR_USAGE, "unknown command \"%s\", did you mean \"%s\"?", name, guess.best);
    } else {
        err_set(err, ERR_USAGE, "unknown command \"%s\", see meshwright --help", name);
    }
    return exit_status(err);
}

int command_run(const struct cli_command *command, int argc, char **argv, struct err *err)
{
    struct arena arena = {0};
    int status = command->run(&arena, argc, argv, err);
    arena_free(&arena);
    return status;
}

int command_print_help(const struct cli_command *command, const char *form, struct err *err)
{
    char name[32], flag[32];
    snprintf(name, sizeof name, "%s", command->name);
    snprintf(flag, sizeof flag, "%s", form);
    char *help[] = {name, flag, NULL};
    return command_run(command, 2, help, err);
}
