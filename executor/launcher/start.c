#include "core/console.h"
#include "executor/launcher/parts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { ADDED_MAX = 10, SHARED_MAX = 6 };  // variables; of them alike for all ranks

// Path of mpirun on PATH; the caller frees it. NULL where there is none.
static char *launch_mpirun_path(void)
{
    const char *path = getenv("PATH");
    for (const char *at = path; at && *at;) {
        size_t length = strcspn(at, ":");
        char *file = memory_get(length + sizeof "/mpirun");
        memcpy(file, at, length);
        memcpy(file + length, "/mpirun", sizeof "/mpirun");
        if (access(file, X_OK) == 0) return file;
        free(file);
        at += length + (at[length] == ':');
    }
    return NULL;
}

bool launch_finds_mpirun(void)
{
    char *path = launch_mpirun_path();
    bool finds = path != NULL;
    free(path);
    return finds;
}

// The environment of the ranks: this one's, with variables of the same names replaced.
static char **environment_make(char *const *added, int added_count)
{
    int count = 0, kept = 0;
    while (environ[count])
        count++;
    char **environment = memory_get((size_t)(count + added_count + 1) * sizeof *environment);
    for (int i = 0; i < count; i++) {
        bool is_replaced = false;
        for (int a = 0; a < added_count; a++) {
            size_t name = strcspn(added[a], "=") + 1;
            is_replaced |= strncmp(added[a], environ[i], name) == 0;
        }
        if (!is_replaced) environment[kept++] = environ[i];
    }
    for (int a = 0; a < added_count; a++)
        environment[kept++] = added[a];
    environment[kept] = NULL;
    return environment;
}

struct command {
    const char *path;
    char **argv, **environment;
    const sigset_t *mask;
    pid_t group;       // 0: one of its own
    int death_signal;  // when the launcher dies
};

// In the child: becomes the command, or writes why not.
static void become(const struct command *command, pid_t launcher, int report)
{
    // In child and parent alike: whichever comes first, the group is there before it is needed.
    setpgid(0, command->group);
    prctl(PR_SET_PDEATHSIG, command->death_signal);
    // A process in a group of its own that reads the terminal would be stopped.
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    sigprocmask(SIG_SETMASK, command->mask, NULL);
    // A launcher that died before prctl would never be noticed.
    if (getppid() == launcher) execve(command->path, command->argv, command->environment);
    int reason = errno;
    ssize_t written = write(report, &reason, sizeof reason);
    _exit(written == (ssize_t)sizeof reason ? 127 : 126);
}

static pid_t start(const struct command *command, struct err *err)
{
    int report[2], reason = 0;
    if (pipe2(report, O_CLOEXEC) != 0) {
        err_set(err, ERR_SYSTEM, "%s cannot be started: %s", command->path, strerror(errno));
        return -1;
    }
    pid_t launcher = getpid(), child = fork();
    if (child == 0) become(command, launcher, report[1]);
    reason = child < 0 ? errno : 0;
    close(report[1]);
    if (child > 0) {
        setpgid(child, command->group);
        // Closed without a word when the command has begun.
        if (read(report[0], &reason, sizeof reason) != (ssize_t)sizeof reason) reason = 0;
    }
    close(report[0]);
    if (reason)
        err_set(err, ERR_SYSTEM, "%s cannot be started: %s", command->path, strerror(reason));
    return child;
}

static bool start_mpirun(const struct launch_request *request, struct command *command,
                         char *binary, struct launch_started *started, struct err *err)
{
    char *mpirun = launch_mpirun_path(), count[16];
    if (!mpirun)
        return err_set(err, ERR_SYSTEM,
                       "mpirun is not on the PATH: it comes with Open MPI (on Debian: apt-get "
                       "install openmpi-bin)");
    snprintf(count, sizeof count, "%d", request->rank_count);
    char *options[] = {mpirun, "--oversubscribe",    "--bind-to", "none", "-n",
                       count,  "--allow-run-as-root"};
    int option_count = (int)(sizeof options / sizeof *options) - (geteuid() != 0);
    char **argv = memory_get((size_t)(option_count + request->argc + 1) * sizeof *argv);
    memcpy(argv, options, (size_t)option_count * sizeof *argv);
    argv[option_count] = binary;
    for (int i = 1; i < request->argc; i++)
        argv[option_count + i] = request->argv[i];
    argv[option_count + request->argc] = NULL;
    command->path = mpirun;
    command->argv = argv;
    assert(request->argc > 0);
    command->death_signal = SIGTERM;  // it ends its ranks
    started->mpirun = started->group = start(command, err);
    free(argv);
    free(mpirun);
    return !err->kind;
}

// What differs from rank to rank in its environment.
struct rank_variables {
    char rank[64], local[64];
};

// Launchers that share a host come one after the other, and so do the devices of their ranks.
static int first_local_rank(const struct launch_request *request, const struct rendezvous *met)
{
    if (!met) return 0;
    return met->first_rank - rendezvous_first_rank(request->rank_count, met->node_count,
                                                   met->node - request->local_node);
}

static bool start_ranks(const struct launch_request *request, int first_local,
                        struct command *command, struct rank_variables *variables, char *binary,
                        struct launch_started *started, struct err *err)
{
    char **argv = memory_get((size_t)(request->argc + 1) * sizeof *argv);
    memcpy(argv, request->argv, (size_t)request->argc * sizeof *argv);
    assert(started->child_count > 0);
    argv[0] = binary;
    argv[request->argc] = NULL;
    command->path = binary;
    command->argv = argv;
    command->death_signal = SIGKILL;
    for (int i = 0; i < started->child_count && !err->kind; i++) {
        snprintf(variables->rank, sizeof variables->rank, "%s=%d", LAUNCH_RANK,
                 started->first_rank + i);
        snprintf(variables->local, sizeof variables->local, "%s=%d", LAUNCH_LOCAL_RANK,
                 first_local + i);
        command->group = started->group;
        started->children[i] = start(command, err);
        if (i == 0) started->group = started->children[i];
    }
    free(argv);
    return !err->kind;
}

// "MESHWRIGHT_LEFT_OUT=1,3"; the caller frees it.
static char *left_out_variable(const struct launch_request *request)
{
    enum { DIGITS_MOST = 12 };
    size_t room = sizeof LAUNCH_LEFT_OUT + 1 + (size_t)request->left_out_count * DIGITS_MOST;
    char *text = memory_get(room);
    size_t used = (size_t)snprintf(text, room, "%s=", LAUNCH_LEFT_OUT);
    for (int i = 0; i < request->left_out_count; i++)
        used += (size_t)snprintf(text + used, room - used, i ? ",%d" : "%d", request->left_out[i]);
    return text;
}

bool launch_start(const struct launch_request *request, const struct rendezvous *met,
                  const char *memory_name, const sigset_t *mask, struct launch_started *started,
                  struct err *err)
{
    char binary[PATH_MAX] = "", memory[128], rank_count[64], meeting[PATH_MAX + 64];
    struct rank_variables variables = {LAUNCH_RANK "=", LAUNCH_LOCAL_RANK "="};
    *started = (struct launch_started){.mpirun = -1,
                                       .first_rank = met ? met->first_rank : 0,
                                       .child_count = met ? met->own_count : request->rank_count};
    size_t bytes = ((size_t)started->child_count + 1) * sizeof *started->children;
    started->children = memory_get(bytes);
    memset(started->children, 0, bytes);
    if (readlink("/proc/self/exe", binary, sizeof binary - 1) < 0)
        return err_set(err, ERR_SYSTEM, "/proc/self/exe: %s", strerror(errno));
    snprintf(memory, sizeof memory, "%s=%s", LAUNCH_MEMORY, memory_name);
    snprintf(rank_count, sizeof rank_count, "%s=%d", LAUNCH_RANK_COUNT, request->rank_count);
    // Empty where there is one node, whatever the environment here says.
    snprintf(meeting, sizeof meeting, "%s=%s", LAUNCH_MEETING, met ? met->folder : "");
    char *left_out = left_out_variable(request);
    // mpirun lets ranks write to a terminal of its own, wherever the answer goes.
    char *colours = console_answer_is_coloured() ? "NO_COLOR=" : "NO_COLOR=1";
    // Ranks share the cores: threads of their own would spin against each other.
    char *added[ADDED_MAX] = {memory,
                              "OMP_NUM_THREADS=1",
                              "OPENBLAS_NUM_THREADS=1",
                              "OMP_WAIT_POLICY=passive",
                              left_out,
                              colours,
                              variables.rank,
                              variables.local,
                              meeting,
                              rank_count};
    // mpirun gives each rank a place of its own.
    bool spawns = request->spawns || met;
    char **environment = environment_make(added, spawns ? ADDED_MAX : SHARED_MAX);
    struct command command = {.environment = environment, .mask = mask};
    int first_local = first_local_rank(request, met);
    bool is_well =
        spawns ? start_ranks(request, first_local, &command, &variables, binary, started, err)
               : start_mpirun(request, &command, binary, started, err);
    free(environment);
    free(left_out);
    return is_well;
}
