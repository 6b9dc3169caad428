#include "executor/launch.h"
#include "executor/launch_parts.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool read_number(const char *name, int *number)
{
    const char *text = getenv(name);
    if (!text || !*text) return false;
    char *end;
    errno = 0;
    long read = strtol(text, &end, 10);
    if (*end || errno || read < 0 || read > 1 << 24) return false;
    *number = (int)read;
    return true;
}

struct launch_place launch_place_find(void)
{
    // A batch script of Slurm has SLURM_PROCID too, but no step: only srun's tasks have both.
    static const struct {
        const char *rank, *count, *local;
    } NAMES[] = {
        {LAUNCH_RANK, LAUNCH_RANK_COUNT, LAUNCH_LOCAL_RANK},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
    };
    for (int i = 0; i < (int)(sizeof NAMES / sizeof *NAMES); i++) {
        struct launch_place place = {0};
        bool is_here = read_number(NAMES[i].rank, &place.rank) &&
                       read_number(NAMES[i].count, &place.rank_count);
        if (!is_here || place.rank >= place.rank_count || place.rank_count == 1) continue;
        place.is_launched = true;
        place.is_spawned = i == 0;
        place.memory_name = getenv(LAUNCH_MEMORY);
        if (!read_number(NAMES[i].local, &place.local_rank)) place.local_rank = place.rank;
        place.has_nodes = i == 0 && read_number(LAUNCH_LISTENER, &place.listener);
        return place;
    }
    return (struct launch_place){.rank_count = 1};
}

static void begin_rank(struct pulse_page *page, int rank)
{
    atomic_store(&pulse_of(page, rank)->pid, (int)getpid());
    atomic_fetch_add(&pulse_of(page, rank)->beat, 1);
}

// Waits until the rank has ended, and ends it when told to or when mpirun is gone. Where the rank
// did not end well it stays until the launcher ends the job: mpirun would kill the others and talk
// about it before the launcher can say what happened.
static int guard_rank(struct pulse_page *page, int rank, pid_t child, pid_t parent,
                      const sigset_t *signals)
{
    struct timespec pause = {0, 50000000};
    bool has_ended = false, is_told = false;
    for (;;) {
        int status, signal = sigtimedwait(signals, NULL, &pause);
        is_told |=
            pulse_page_is_ending(page) || getppid() != parent || (signal > 0 && signal != SIGCHLD);
        if (!has_ended && waitpid(child, &status, WNOHANG) == child) {
            has_ended = true;
            pulse_end(page, rank, status, is_told);
        }
        bool is_well = has_ended && !atomic_load(&pulse_of(page, rank)->end_event);
        if (has_ended && (is_told || is_well)) return 0;
        if (is_told) kill(child, SIGKILL);
    }
}

static bool split(const struct launch_place *place, struct pulse_page *page, int *exit_code,
                  struct err *err)
{
    sigset_t signals, before;
    launch_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t parent = getppid(), guard = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != guard) raise(SIGKILL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        begin_rank(page, place->rank);
        return true;
    }
    if (child < 0)
        return err_set(err, ERR_SYSTEM, "rank %d cannot start: %s", place->rank, strerror(errno));
    *exit_code = guard_rank(page, place->rank, child, parent, &signals);
    pulse_page_close(page);
    return false;
}

bool launch_enter(const struct launch_place *place, struct pulse_page **page, int *exit_code,
                  struct err *err)
{
    *page = NULL;
    *exit_code = ERR_SYSTEM;
    if (!place->is_launched || !place->memory_name) return true;
    *page = pulse_page_open(place->memory_name, place->rank_count, err);
    if (!*page) return false;
    if (!place->is_spawned) return split(place, *page, exit_code, err);
    begin_rank(*page, place->rank);
    return true;
}
