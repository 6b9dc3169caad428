#include "cli/commands.h"
#include "cli/options.h"
#include "core/console.h"
#include "core/table.h"
#include "core/version.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int print_help(void)
{
    struct arena arena = {0};
    struct table table = table_new(&arena, "ll");
    table.head_count = 0;
    for (const struct cli_command *command = COMMANDS; command->name; command++) {
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

static int help_command(int argc, char **argv, struct err *err)
{
    if (argc < 2) return print_help();
    const struct cli_command *command = command_find(argv[1]);
    if (!command) return command_fail_unknown(argv[1], err);
    return command_print_help(command, "--help", err);
}

static int run(int argc, char **argv, const char **name, struct err *err)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0) return print_help();
    if (strcmp(argv[1], "--version") == 0) return puts("meshwright " MESHWRIGHT_VERSION), 0;
    if (strcmp(argv[1], "help") == 0) return help_command(argc - 1, argv + 1, err);
    const struct cli_command *command = command_find(argv[1]);
    if (!command) return command_fail_unknown(argv[1], err);
    *name = command->name;
    return command_run(command, argc - 1, argv + 1, err);
}

int main(int argc, char **argv)
{
    // Its own buffer would be allocated at the first answer, when a file may be written already.
    static char answer[BUFSIZ];
    setvbuf(stdout, answer, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof answer);
    // A write past RLIMIT_FSIZE fails and is told like any other.
    signal(SIGXFSZ, SIG_IGN);
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
