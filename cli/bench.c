#include "cli/bench_history.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/threshold.h"
#include "core/console.h"
#include "core/file.h"
#include "exchange/compare.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// A plan is run several times, each time as a job of its own, so that the noise between jobs is
// seen; what each wrote is kept and judged beside the last that was kept.

struct arguments {
    const char *plan, *folder, *threshold, *backend;
    int runs, steps;
};

enum { SAID_BYTES = 4096, FILE_BYTES_MAX = 64 << 20 };

// The last line of what the job said, which is why it failed.
static const char *last_line(struct arena *arena, FILE *said)
{
    char line[SAID_BYTES];
    const char *last = "no reason given";
    rewind(said);
    while (fgets(line, sizeof line, said)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line) last = arena_copy(arena, line);
    }
    return last;
}

static bool start(char *const *argv, FILE *out, FILE *said, int *status, struct err *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(said), STDERR_FILENO);
    pid_t process = 0;
    int fault = posix_spawn(&process, "/proc/self/exe", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (fault) return err_set(err, ERR_SYSTEM, "cannot start a run: %s", strerror(fault));
    while (waitpid(process, status, 0) < 0) {
        if (errno != EINTR) return err_set(err, ERR_SYSTEM, "a run: %s", strerror(errno));
    }
    return true;
}

// `meshwright run` as a job of its own; its tables are not shown. Where it fails its exit status
// becomes ours, with its own last line.
static bool run_once(struct arena *arena, const struct arguments *arguments, const char *path,
                     struct err *err)
{
    char steps[16];
    snprintf(steps, sizeof steps, "%d", arguments->steps);
    const char *const words[] = {
        "meshwright", "run",       arguments->plan,    "--spawn", "--steps",
        steps,        "--backend", arguments->backend, "-o",      path,
        NULL};
    char *argv[sizeof words / sizeof *words] = {0};
    for (int i = 0; words[i]; i++)
        argv[i] = arena_copy(arena, words[i]);
    FILE *out = tmpfile(), *said = tmpfile();
    int status = 0;
    bool done = out && said;
    if (!done) done = err_set(err, ERR_SYSTEM, "cannot make a temporary file: %s", strerror(errno));
    if (done) done = start(argv, out, said, &status, err);
    if (done && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        enum err_kind kind = code == 2 ? ERR_USAGE : code == 3 ? ERR_INPUT : ERR_SYSTEM;
        done = err_set(err, kind, "a run failed: %s", last_line(arena, said));
    }
    if (out) fclose(out);
    if (said) fclose(said);
    return done;
}

static bool run_each(struct arena *arena, const struct arguments *arguments, const char *folder,
                     struct file_text *files, struct err *err)
{
    for (int i = 0; i < arguments->runs; i++) {
        const char *path = arena_print(arena, "%s/%d.json", folder, i);
        console_printf(stderr, "meshwright bench: run %d of %d\n", i + 1, arguments->runs);
        bool done = run_once(arena, arguments, path, err);
        size_t bytes;
        if (done) files[i].text = file_read(arena, path, FILE_BYTES_MAX, &bytes, err);
        unlink(path);
        if (!done || !files[i].text) return false;
    }
    return true;
}

// Runs the plan into `paths`; none of them is there before all runs ended well.
static bool run_all(struct arena *arena, const struct arguments *arguments, const char **paths,
                    struct err *err)
{
    const char *parent = getenv("TMPDIR");
    char *folder = arena_print(arena, "%s/meshwright.XXXXXX", parent && *parent ? parent : "/tmp");
    struct file_text files[COMPARE_FILES_MAX];
    if (!mkdtemp(folder)) {
        return err_set(err, ERR_SYSTEM, "cannot make a temporary folder %s: %s", folder,
                       strerror(errno));
    }
    bool done = run_each(arena, arguments, folder, files, err);
    rmdir(folder);
    if (!done) return false;
    const char *date = bench_date(arena, arguments->folder);
    for (int i = 0; i < arguments->runs; i++)
        files[i].path = paths[i] = bench_path(arena, arguments->folder, date, i + 1);
    return file_write_all(files, arguments->runs, err);
}

static int judge(struct arena *arena, const struct arguments *arguments, double threshold,
                 const char *const *paths, struct err *err)
{
    struct compare_side *sides = ARENA_NEW(arena, struct compare_side, 2);
    struct bench_set last;
    if (!compare_side_read(arena, paths, arguments->runs, 0, &sides[1], err))
        return exit_status(err);
    const char *text = bench_history(arena, arguments->folder, &sides[1].files[0], &last, err);
    if (!text) return exit_status(err);
    console_print(stdout, text);
    if (last.count == 0) {
        console_printf(stdout,
                       "No earlier runs of this plan on this machine in %s: nothing to "
                       "compare with.\n",
                       arguments->folder);
        return 0;
    }
    const struct compare_request request = {.threshold_ratio = threshold, .judges_step = true};
    struct compare compare;
    if (!compare_side_read(arena, last.paths, last.count, 0, &sides[0], err) ||
        !compare_make(arena, &request, &sides[0], &sides[1], &compare, err))
        return exit_status(err);
    console_print(stdout, "\n");
    console_print(stdout, compare_text(arena, &compare));
    return compare.verdict == VERDICT_REGRESSION;
}

int bench_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct arguments a = {.threshold = "5%", .runs = 3, .steps = 20, .backend = "auto"};
    const struct option options[] = {
        {"PLAN", OPTION_TEXT, &a.plan, "plan.json as `meshwright plan` writes it", NULL, 0, 0},
        {"--save", OPTION_TEXT, &a.folder,
         "folder of the history, made if absent: a run.json for each run, named by its date", "DIR",
         0, 0},
        {"--runs", OPTION_INT, &a.runs,
         "jobs, one behind the other (default 3); the median of each is a sample", "N", 1,
         COMPARE_FILES_MAX},
        {"--steps", OPTION_INT, &a.steps, "steps of each (default 20)", "N", 2, 100000},
        {"--threshold", OPTION_TEXT, &a.threshold,
         "changes up to this are none (default 5%); a regression beyond it and beyond the noise "
         "answers no (exit 1)",
         "SHARE", 0, 0},
        {"--backend", OPTION_CHOICE, &a.backend, "what runs the tasks (default auto)",
         "auto|cpu|cuda", 0, 0},
        {0},
    };
    double threshold;
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err) || !threshold_read(a.threshold, &threshold, err))
        return exit_status(err);
    if (!a.folder) {
        err_set(err, ERR_USAGE, "missing --save: the folder of the history");
        return exit_status(err);
    }
    const char *paths[COMPARE_FILES_MAX];
    return run_all(arena, &a, paths, err) ? judge(arena, &a, threshold, paths, err)
                                          : exit_status(err);
}
