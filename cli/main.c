#include "cli/commands.h"
#include "cli/options.h"
#include "core/console.h"
#include "core/table.h"
#include "core/units.h"
#include "core/version.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv, struct err *err);
    const char *summary;
};

static const struct command COMMANDS[] = {
    {"plan", plan_command, "search every way to train MODEL on CLUSTER, write the best plan"},
    {"simulate", simulate_command, "play a plan event by event: time, memory, trace"},
    {"whatif", whatif_command,
     "many plans at once: sweeps, deadlines, budgets; the Pareto front of time and money"},
    {"memory", memory_command,
     "order operators and place tensors so that a step needs least memory"},
    {"run", run_command, "execute a plan on this machine, predicted beside measured"},
    {"report", report_command,
     "one page with plots: what a plan costs, why it won, what it hangs on"},
    {"calibrate", calibrate_command,
     "measure this machine: kernels, memory, collectives; CLUSTER local"},
    {"topology", topology_command, "describe a cluster and where its numbers come from"},
    {"models", shipped_command, "list the shipped models: parameters, layers, type"},
    {"clusters", shipped_command, "list the shipped clusters: GPUs, device, links"},
    {"devices", shipped_command, "list the shipped devices: peak, memory"},
    {"stacks", shipped_command, "list the training software that plans are made for"},
    {"validate", validate_command, "score predictions against published runs"},
    {"fit", fit_command, "fit the constants of devices and stacks to published runs"},
    {0},
};

static const struct command *find_command(const char *name)
{
    for (const struct command *command = COMMANDS; command->name; command++) {
        if (strcmp(command->name, name) == 0) return command;
    }
    return NULL;
}

static int print_help(void)
{
    struct arena arena = {0};
    struct table table = table_new(&arena, "ll");
    table.head_count = 0;
    for (const struct command *command = COMMANDS; command->name; command++) {
        const char *cells[] = {arena_print(&arena, "  %s", command->name), command->summary};
        table_row(&table, cells);
    }
    console_printf(
        stdout,
        "Usage: meshwright COMMAND ...\n\nHow should this model be trained on that "
        "cluster, how long will it take, what will it cost, and is that true?\n\n%s\n"
        "`meshwright help COMMAND` explains one. Exit status: 0 yes, 1 the answer is no, "
        "2 wrong usage, 3 a wrong input file, 4 the machine failed, 130 stopped by "
        "SIGINT with the best plan found until then.\n",
        table_text(&table));
    arena_free(&arena);
    return 0;
}

static int fail_unknown(const char *name, struct err *err)
{
    struct units_guess guess = {.text = name};
    for (const struct command *command = COMMANDS; command->name; command++) {
        units_guess_offer(&guess, command->name);
    }
    if (guess.best) {
        err_set(err, ERR_USAGE, "unknown command \"%s\", did you mean \"%s\"?", name, guess.best);
    } else {
        err_set(err, ERR_USAGE, "unknown command \"%s\", see meshwright --help", name);
    }
    return exit_status(err);
}

static int help_command(int argc, char **argv, struct err *err)
{
    if (argc < 2) return print_help();
    const struct command *command = find_command(argv[1]);
    if (!command) return fail_unknown(argv[1], err);
    char name[32], flag[] = "--help";
    snprintf(name, sizeof name, "%s", command->name);
    char *help[] = {name, flag, NULL};
    return command->run(2, help, err);
}

static int run(int argc, char **argv, const char **name, struct err *err)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0) return print_help();
    if (strcmp(argv[1], "--version") == 0) return puts("meshwright " MESHWRIGHT_VERSION), 0;
    if (strcmp(argv[1], "help") == 0) return help_command(argc - 1, argv + 1, err);
    const struct command *command = find_command(argv[1]);
    if (!command) return fail_unknown(argv[1], err);
    *name = command->name;
    return command->run(argc - 1, argv + 1, err);
}

int main(int argc, char **argv)
{
    // Its own buffer would be allocated at the first answer, when a file may be written already.
    static char answer[BUFSIZ];
    setvbuf(stdout, answer, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof answer);
    struct err err = {0};
    const char *name = NULL;
    int status = run(argc, argv, &name, &err);
    // An answer that could not be written was not given. Why an earlier part of it could not be is
    // not known any more.
    int error = fflush(stdout) != 0 ? errno : 0;
    if (error || ferror(stdout)) {
        err_set(&err, ERR_SYSTEM, "cannot write the answer%s%s", error ? ": " : "",
                error ? strerror(error) : "");
        status = exit_status(&err);
    }
    if (err.kind) {
        // Room for the name of a command before the text; nothing is allocated any more.
        char line[sizeof err.text + 64];
        snprintf(line, sizeof line, "meshwright%s%s: %s\n", name ? " " : "", name ? name : "",
                 err.text);
        console_print(stderr, line);
    }
    return status;
}
