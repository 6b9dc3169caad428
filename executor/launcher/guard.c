#include "core/progress.h"
#include "executor/launcher/parts.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Under a launcher that is not ours: what all ranks find wrong rank 0 says, which ends the others;
// those that find it alone say it after so long. A rank that is ended from outside goes within a
// moment of its guard. One that was stopped (by no debugger) ends the job after so long.
static const double LATER_S = 3, MOMENT_S = 0.1, STOPPED_S = 10;

struct guard {
    struct heartbeat_page *page;
    int rank;
    pid_t child, parent;
    bool is_foreign;  // nobody of ours watches the job
    bool has_ended;
    bool is_asked;  // handed SIGTERM on: the rank saves and ends
    bool is_told;   // to end the rank: the job ends, and somebody else knows why
    int status;
    double stopped_s;  // when the rank was first seen to be stopped; 0: it is not
};

static void begin_rank(struct heartbeat_page *page, int rank)
{
    atomic_store(&heartbeat_of(page, rank)->pid, (int)getpid());
    atomic_fetch_add(&heartbeat_of(page, rank)->beat, 1);
}

void launch_tell(struct heartbeat_page *page, int rank, enum launch_standing standing,
                 struct err *err)
{
    struct heartbeat *heartbeat = heartbeat_of(page, rank);
    assert(err->kind && standing <= LAUNCH_TOLD);
    atomic_store(&heartbeat->fail_standing, (int)standing);
    atomic_store(&heartbeat->fail_kind, (int)err->kind);
    heartbeat_fail(page, rank, err->text);
    *err = (struct err){0};
}

static void look_for_signals(struct guard *guard, double wait_s, const sigset_t *signals)
{
    struct timespec pause = {(time_t)wait_s, (long)((wait_s - (double)(time_t)wait_s) * 1e9)};
    int signal = sigtimedwait(signals, NULL, &pause);
    bool saves = signal == SIGTERM && !guard->is_asked && !guard->has_ended &&
                 atomic_load(&heartbeat_of(guard->page, guard->rank)->saves);
    if (saves) {
        guard->is_asked = true;
        kill(guard->child, SIGTERM);
        signal = 0;
    }
    guard->is_told |= heartbeat_page_is_ending(guard->page) || getppid() != guard->parent ||
                      (signal > 0 && signal != SIGCHLD);
}

// Waits until the rank has ended or stands still for ever, and ends it when told to or when its
// launcher is gone.
static void watch_rank(struct guard *guard, const sigset_t *signals)
{
    struct rusage used;
    struct heartbeat *heartbeat = heartbeat_of(guard->page, guard->rank);
    int64_t kills_before = launch_memory_kills();
    while (!guard->has_ended) {
        look_for_signals(guard, 0.05, signals);
        if (wait4(guard->child, &guard->status, WNOHANG, &used) == guard->child) {
            guard->has_ended = true;
            if (!guard->is_told)
                launch_memory_note_end(heartbeat, guard->rank, guard->status, &used, kills_before);
            heartbeat_end(guard->page, guard->rank, guard->status, guard->is_told);
            return;
        }
        if (guard->is_told) kill(guard->child, SIGKILL);
        bool is_stopped = guard->is_foreign && launch_process_state(guard->child) == 'T';
        if (!is_stopped || guard->stopped_s == 0) guard->stopped_s = is_stopped ? clock_s() : 0;
        if (is_stopped && clock_s() - guard->stopped_s >= STOPPED_S) return;
    }
}

// Under our launcher, which talks: where the rank did not end well the guard stays until that ends
// the job. mpirun would kill the others and talk about it before the launcher can say what
// happened.
static int stay(struct guard *guard, const sigset_t *signals)
{
    bool is_well = !atomic_load(&heartbeat_of(guard->page, guard->rank)->end_event);
    while (!guard->is_told && !is_well)
        look_for_signals(guard, 0.05, signals);
    return 0;
}

// Of a rank that has said itself what was wrong.
static int speak_of_failure(struct guard *guard, const sigset_t *signals, struct err *err)
{
    struct heartbeat *heartbeat = heartbeat_of(guard->page, guard->rank);
    int standing = atomic_load(&heartbeat->fail_standing),
        kind = atomic_load(&heartbeat->fail_kind);
    // Whoever started the ranks hears of one end, not of all at once: mpirun of Open MPI 4.1.4 may
    // crash of that.
    bool waits = standing == LAUNCH_TOLD || (standing == LAUNCH_ALONE && guard->rank > 0);
    if (waits && !guard->is_told) look_for_signals(guard, LATER_S, signals);
    if (standing == LAUNCH_TOLD) return ERR_SYSTEM;
    if (standing == LAUNCH_ALONE && guard->is_told) return ERR_SYSTEM;
    if (kind == ERR_USAGE || kind == ERR_INPUT)
        err_set(err, (enum err_kind)kind, "%s", heartbeat->reason);
    else
        launch_watch_report(heartbeat, guard->rank, false, err);
    return (int)err->kind;
}

// A line of the rank, unless somebody else has the better one.
static int speak(struct guard *guard, const sigset_t *signals, struct err *err)
{
    struct heartbeat *heartbeat = heartbeat_of(guard->page, guard->rank);
    if (!guard->has_ended) {
        kill(guard->child, SIGKILL);
        launch_watch_report_stopped(heartbeat, guard->rank, STOPPED_S, err);
        return ERR_SYSTEM;
    }
    if (atomic_load(&heartbeat->fail_event)) return speak_of_failure(guard, signals, err);
    if (!guard->is_told && !atomic_load(&heartbeat->end_event)) return WEXITSTATUS(guard->status);
    if (!guard->is_told) look_for_signals(guard, MOMENT_S, signals);
    if (!guard->is_told) launch_watch_report(heartbeat, guard->rank, true, err);
    return ERR_SYSTEM;
}

static bool split(const struct launch_place *place, struct heartbeat_page *page, int *exit_code,
                  struct err *err)
{
    sigset_t signals, before;
    launch_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &before);
    // Blocked before the fork: a rank that ends at once is not missed, nor a signal to end the job.
    pid_t us = getpid();
    struct guard guard = {.page = page,
                          .rank = place->rank,
                          .parent = getppid(),
                          .is_foreign = place->memory_name == NULL,
                          .child = fork()};
    if (guard.child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        // The guard may have gone before the child asked to be told of that.
        if (getppid() != us) raise(SIGKILL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        begin_rank(page, place->rank);
        return true;
    }
    if (guard.child < 0)
        return err_set(err, ERR_SYSTEM, "rank %d cannot start: %s", place->rank, strerror(errno));
    watch_rank(&guard, &signals);
    *exit_code = guard.is_foreign ? speak(&guard, &signals, err) : stay(&guard, &signals);
    heartbeat_page_close(page);
    return false;
}

bool launch_enter(const struct launch_place *place, struct heartbeat_page **page, int *exit_code,
                  struct err *err)
{
    *page = NULL;
    *exit_code = ERR_SYSTEM;
    if (!place->is_launched) return true;
    assert(place->rank >= 0 && place->rank < place->rank_count);
    *page = place->memory_name ? heartbeat_page_open(place->memory_name, place->rank_count, err)
                               : heartbeat_page_create(place->rank_count, err);
    if (!*page) return false;
    if (!place->is_spawned) return split(place, *page, exit_code, err);
    begin_rank(*page, place->rank);
    return true;
}
