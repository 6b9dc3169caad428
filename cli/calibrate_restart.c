#include "cli/calibrate_restart.h"

#include "core/file.h"
#include "core/json_write.h"
#include "core/progress.h"
#include "core/sort.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { ROUNDS = 3 };

static const char MODEL[] =
    "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_head\": 2, \"n_layer\": 2, "
    "\"n_positions\": 64, \"vocab_size\": 256}\n";

struct files {
    const char *folder, *model, *cluster, *stack, *plan, *metrics;
};

static struct files files_in(struct arena *arena, const char *folder)
{
    return (struct files){folder,
                          arena_print(arena, "%s/model.json", folder),
                          arena_print(arena, "%s/cluster.json", folder),
                          arena_print(arena, "%s/stack.json", folder),
                          arena_print(arena, "%s/plan.json", folder),
                          arena_print(arena, "%s/metrics.jsonl", folder)};
}

// This binary with these words, which says nothing; whether it ended well.
static bool command(const char *const *words, struct err *err)
{
    pid_t process = 0;
    int status = 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int fault =
        posix_spawn(&process, "/proc/self/exe", &actions, NULL, (char *const *)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (fault) return err_set(err, ERR_SYSTEM, "cannot start %s: %s", words[1], strerror(fault));
    while (waitpid(process, &status, 0) < 0) {
        if (errno != EINTR) return err_set(err, ERR_SYSTEM, "%s: %s", words[1], strerror(errno));
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    return err_set(err, ERR_SYSTEM, "what a restart takes: %s of a small model failed", words[1]);
}

static bool make_plan(struct arena *arena, const struct files *files, const struct local *local,
                      struct err *err)
{
    struct json_writer cluster = {.arena = arena}, stack = {.arena = arena};
    cluster_write(&cluster, NULL, local->cluster);
    stack_write(&stack, NULL, local->stack);
    const char *ranks = arena_print(arena, "%d", local->cluster->rank_count);
    const char *const words[] = {
        "meshwright",  "plan",           files->model, files->cluster, "--stack",
        files->stack,  "--gpus",         ranks,        "--dp",         ranks,
        "--precision", "fp32",           "--seq-len",  "64",           "--micro-batch",
        "1",           "--global-batch", ranks,        "-o",           files->plan,
        NULL};
    return file_write(files->model, MODEL, strlen(MODEL), err) &&
           file_write(files->cluster, cluster.text, strlen(cluster.text), err) &&
           file_write(files->stack, stack.text, strlen(stack.text), err) && command(words, err);
}

static bool run_once(struct arena *arena, const struct files *files, const char *backend,
                     double *took_s, struct err *err)
{
    const char *const words[] = {"meshwright", "run",          files->plan, "--spawn",
                                 "--backend",  backend,        "--steps",   "1",
                                 "--metrics",  files->metrics, NULL};
    double began_s = clock_s(), step_s = 0;
    if (!command(words, err)) return false;
    *took_s = clock_s() - began_s;
    size_t bytes = 0;
    const char *text = file_read(arena, files->metrics, 1 << 20, &bytes, err);
    const char *step = text ? strstr(text, "\"step_s\": ") : NULL;
    if (step) step_s = strtod(strchr(step, ' '), NULL);
    *took_s -= step_s < *took_s ? step_s : 0;
    return !err->kind;
}

static void remove_files(const struct files *files)
{
    const char *const paths[] = {files->model, files->cluster, files->stack, files->plan,
                                 files->metrics};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        (void)unlink(paths[i]);
    (void)rmdir(files->folder);
}

bool calibrate_restart(struct arena *arena, const char *folder, const struct local *local,
                       const struct local_key *key, double *restart_s, struct err *err)
{
    double took_s[ROUNDS];
    char *own = arena_print(arena, "%s/meshwright-disk-XXXXXX", folder);
    if (!mkdtemp(own))
        return err_set(err, ERR_SYSTEM, "cannot write in %.300s: %s", folder, strerror(errno));
    const struct files files = files_in(arena, own);
    bool done = make_plan(arena, &files, local, err);
    for (int i = 0; i < ROUNDS && done; i++)
        done = run_once(arena, &files, key->backend, &took_s[i], err);
    remove_files(&files);
    if (!done) return false;
    *restart_s = sort_median(took_s, ROUNDS);
    return true;
}
