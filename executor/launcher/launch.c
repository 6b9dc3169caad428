#include "executor/launcher/launch.h"
#include "core/progress.h"
#include "executor/launcher/parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

// How long mpirun may take to end after its ranks have.
static const double MPIRUN_LINGERS_S = 5;

struct job {
    const struct launch_request *request;
    struct launch_started started;
    struct launch_watch watch;
    struct heartbeat_page *page;
    struct launch_nodes nodes;  // where there are several
    bool mpirun_has_ended;
    int mpirun_status;
    int64_t kills_before;  // launch_memory_kills
    int signal;            // that ended it; 0: none did
    bool is_asked;         // to end: the ranks save and do
    bool is_moved;         // and that by request->moves
    int slow_known;
    double began_s;  // the ranks
    struct launch_times times;
    double ended_s;  // when all ranks had ended; 0: they have not
};

void launch_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGCHLD);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGHUP);
}

static void note_ends(struct job *job)
{
    int status;
    struct rusage used;
    for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &used)) > 0;) {
        // Any child: as the reaper of its job (PR_SET_CHILD_SUBREAPER) this process gets what
        // mpirun leaves.
        if (pid == job->started.mpirun) {
            job->mpirun_has_ended = true;
            job->mpirun_status = status;
        }
        for (int i = 0; i < job->started.child_count; i++) {
            if (pid != job->started.children[i]) continue;
            int rank = job->started.first_rank + i;
            launch_memory_note_end(heartbeat_of(job->page, rank), rank, status, &used,
                                   job->kills_before);
            heartbeat_end(job->page, rank, status, false);
        }
        // The other nodes are to hear of it soon.
        job->nodes.looked_s = 0;
    }
}

static bool report_mpirun(int status, struct err *err)
{
    if (WIFSIGNALED(status))
        return err_set(err, ERR_SYSTEM, "mpirun was killed (signal %d)", WTERMSIG(status));
    return err_set(err, ERR_SYSTEM, "mpirun ended with status %d before its ranks had",
                   WEXITSTATUS(status));
}

static int exit_code_of_rank_0(const struct job *job)
{
    assert(atomic_load(&heartbeat_of(job->page, 0)->has_ended));
    return WEXITSTATUS(atomic_load(&heartbeat_of(job->page, 0)->end_status));
}

// Whether the ranks here were asked to save and end: all can, and none was asked before.
static bool ask_ranks(struct job *job)
{
    const struct launch_watch *watch = &job->watch;
    if (job->is_asked) return false;
    for (int i = 0; i < watch->rank_count; i++) {
        struct heartbeat *heartbeat = heartbeat_of(job->page, watch->first_rank + i);
        if (!atomic_load(&heartbeat->saves)) return false;
    }
    for (int i = 0; i < watch->rank_count; i++)
        kill(atomic_load(&heartbeat_of(job->page, watch->first_rank + i)->pid), SIGTERM);
    job->is_asked = true;
    return true;
}

static void look_for_first_step(struct job *job, double now_s)
{
    const struct launch_watch *watch = &job->watch;
    bool is_there = atomic_load(&heartbeat_of(job->page, watch->first_rank)->step) > 0;
    if (job->times.first_step_s == 0 && is_there) job->times.first_step_s = now_s;
}

// What the first rank says of a slow one is passed on, to whoever may want to leave for that.
static void look_for_slow(struct job *job)
{
    struct launch_slow slow;
    const struct launch_request *request = job->request;
    if (!request->moves || job->is_asked) return;
    if (!heartbeat_slow(job->page, &job->slow_known, &slow)) return;
    slow.start_s = job->times.first_step_s - job->began_s;
    if (!request->moves(request->context, &slow)) return;
    // First: who ends says why.
    heartbeat_page_move(job->page, true);
    job->is_moved = ask_ranks(job);
    if (!job->is_moved) heartbeat_page_move(job->page, false);
}

// One look; *is_over when all has ended well.
static bool look(struct job *job, int signal, bool *is_over, struct err *err)
{
    note_ends(job);
    // Who moves saves already: to end behind that is to be asked.
    bool is_asked = signal == SIGTERM && (job->is_moved || ask_ranks(job));
    if (is_asked && job->is_moved) heartbeat_page_move(job->page, job->is_moved = false);
    if (signal > 0 && signal != SIGCHLD && !is_asked) job->signal = signal;
    if (job->signal)
        return err_set(err, ERR_SYSTEM, "the job was ended by signal %d (%s)", signal,
                       strsignal(signal));
    // Ends are noted before the watch looks, so that a rank that died is not taken for one that is
    // stuck.
    double now_s = clock_s();
    look_for_first_step(job, now_s);
    look_for_slow(job);
    if (!launch_watch_look(&job->watch, now_s, err)) return false;
    bool all_ended = launch_watch_all_ended(&job->watch);
    if (job->request->rendezvous) {
        int exit_code = job->started.first_rank == 0 && all_ended ? exit_code_of_rank_0(job) : 0;
        if (!launch_nodes_look(&job->nodes, now_s, all_ended, exit_code, err)) return false;
        *is_over = job->nodes.is_over;
        return true;
    }
    if (job->mpirun_has_ended && !all_ended) return report_mpirun(job->mpirun_status, err);
    if (all_ended && job->ended_s == 0) job->ended_s = now_s;
    bool lingers = job->started.mpirun > 0 && !job->mpirun_has_ended;
    *is_over = all_ended && (!lingers || now_s - job->ended_s > MPIRUN_LINGERS_S);
    return true;
}

static bool watch_job(struct job *job, const sigset_t *signals, struct err *err)
{
    // Until the first step, which is timed, looks are closer together.
    const struct timespec often = {0, 5000000}, pause = {0, 50000000};
    bool is_over = false;
    job->began_s = clock_s();
    launch_watch_begin(&job->watch, job->request, &job->started, job->page, job->began_s);
    do {
        bool has_begun = job->times.first_step_s > 0;
        int signal = sigtimedwait(signals, NULL, has_begun ? &pause : &often);
        if (!look(job, signal, &is_over, err)) break;
    } while (!is_over);
    job->times.ended_s = clock_s();
    launch_watch_free(&job->watch);
    return !err->kind;
}

static bool run_job(struct job *job, const sigset_t *signals, const sigset_t *before,
                    int *exit_code, struct err *err)
{
    const struct launch_request *request = job->request;
    job->page = heartbeat_page_create(request->rank_count, err);
    if (!job->page) return false;
    const struct rendezvous *met = request->rendezvous ? &job->nodes.met : NULL;
    bool is_well =
        (!met || launch_nodes_open(&job->nodes, request, err)) &&
        launch_start(request, met, heartbeat_page_name(job->page), before, &job->started, err) &&
        watch_job(job, signals, err);
    // The others hear of it before this node's ranks end, or they would miss those.
    if (met && !is_well) launch_nodes_fail(&job->nodes, job->watch.may_follow, err);
    is_well = !err->kind;
    if (is_well) *exit_code = met ? job->nodes.exit_code : exit_code_of_rank_0(job);
    launch_end(&job->started, job->page);
    free(job->started.children);
    if (met) launch_nodes_close(&job->nodes);
    heartbeat_page_close(job->page);
    return is_well;
}

bool launch_job(const struct launch_request *request, int *exit_code, struct err *err)
{
    assert(request->rank_count > 0 && request->stuck_s > 0 && request->argc > 0);
    struct job job = {.request = request,
                      .started.mpirun = -1,
                      .watch.failed_rank = -1,
                      .kills_before = launch_memory_kills()};
    assert(!request->rendezvous || request->rendezvous->rank_count == request->rank_count);
    sigset_t signals, before;
    launch_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &before);
    // What mpirun leaves behind when it dies comes to us.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    *exit_code = ERR_SYSTEM;
    bool is_well = run_job(&job, &signals, &before, exit_code, err);
    if (request->times) *request->times = job.times;
    if (request->failed_rank) *request->failed_rank = is_well ? -1 : job.watch.failed_rank;
    if (job.signal && request->is_signalled) *request->is_signalled = true;
    if (request->is_moved) *request->is_moved = job.is_moved && !job.signal;
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return is_well;
}
