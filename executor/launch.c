#include "executor/launch.h"
#include "executor/launch_parts.h"

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
    struct pulse_page *page;
    struct launch_nodes nodes;  // where there are several
    bool mpirun_has_ended;
    int mpirun_status;
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
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid == job->started.mpirun) {
            job->mpirun_has_ended = true;
            job->mpirun_status = status;
        }
        for (int i = 0; i < job->started.child_count; i++) {
            if (pid == job->started.children[i])
                pulse_end(job->page, job->started.first_rank + i, status, false);
        }
    }
}

static bool report_mpirun(int status, struct err *err)
{
    if (WIFSIGNALED(status))
        return err_set(err, ERR_SYSTEM, "mpirun was killed (signal %d)", WTERMSIG(status));
    return err_set(err, ERR_SYSTEM, "mpirun ended with status %d before its ranks had",
                   WEXITSTATUS(status));
}

// A node that is not the first leaves it to that to judge, which knows of all ranks.
static bool look_at_nodes(struct job *job, double now_s, bool *is_over, struct err *err)
{
    if (!launch_nodes_exchange(&job->nodes, now_s, err)) return false;
    *is_over = job->nodes.is_over;
    return true;
}

// One look; *is_over when all has ended well.
static bool look(struct job *job, int signal, bool *is_over, struct err *err)
{
    note_ends(job);
    if (signal > 0 && signal != SIGCHLD)
        return err_set(err, ERR_SYSTEM, "the job was ended by signal %d (%s)", signal,
                       strsignal(signal));
    double now_s = socket_now_s();
    if (job->nodes.met.node > 0) return look_at_nodes(job, now_s, is_over, err);
    if (job->nodes.met.links && !look_at_nodes(job, now_s, is_over, err)) return false;
    if (!launch_watch_look(&job->watch, now_s, err)) return false;
    bool all_ended = launch_watch_all_ended(&job->watch);
    if (job->mpirun_has_ended && !all_ended) return report_mpirun(job->mpirun_status, err);
    if (all_ended && job->ended_s == 0) job->ended_s = now_s;
    bool lingers = job->started.mpirun > 0 && !job->mpirun_has_ended;
    *is_over = all_ended && (!lingers || now_s - job->ended_s > MPIRUN_LINGERS_S);
    return true;
}

static bool watch_job(struct job *job, const sigset_t *signals, struct err *err)
{
    struct timespec pause = {0, 50000000};
    bool is_over = false;
    launch_watch_begin(&job->watch, job->request, job->page, socket_now_s());
    while (!is_over && look(job, sigtimedwait(signals, NULL, &pause), &is_over, err)) {
    }
    launch_watch_free(&job->watch);
    return !err->kind;
}

static bool run_job(struct job *job, const sigset_t *signals, const sigset_t *before,
                    int *exit_code, struct err *err)
{
    const struct launch_request *request = job->request;
    job->page = pulse_page_create(request->rank_count, err);
    if (!job->page) return false;
    job->nodes.page = job->page;
    bool has_met = !request->rendezvous || launch_nodes_open(&job->nodes, request, err);
    const struct rendezvous *met = request->rendezvous ? &job->nodes.met : NULL;
    bool is_well = has_met && launch_start(request, met, pulse_page_name(job->page), before,
                                           &job->started, err);
    if (met) rendezvous_close_listeners(&job->nodes.met);
    is_well = is_well && watch_job(job, signals, err);
    if (is_well)
        *exit_code = job->nodes.met.node > 0
                         ? job->nodes.exit_code
                         : WEXITSTATUS(atomic_load(&pulse_of(job->page, 0)->end_status));
    // The others are told before this node's ranks end, or those would be missed.
    if (has_met && met) launch_nodes_end(&job->nodes, *exit_code, is_well ? NULL : err);
    launch_end(&job->started, job->page, request->rank_count);
    free(job->started.children);
    if (met) launch_nodes_close(&job->nodes);
    pulse_page_close(job->page);
    return is_well;
}

bool launch_job(const struct launch_request *request, int *exit_code, struct err *err)
{
    assert(request->rank_count > 0 && request->stuck_s > 0 && request->argc > 0);
    struct job job = {.request = request, .started.mpirun = -1};
    sigset_t signals, before;
    launch_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &before);
    // What mpirun leaves behind when it dies comes to us.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    *exit_code = ERR_SYSTEM;
    bool is_well = run_job(&job, &signals, &before, exit_code, err);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return is_well;
}
