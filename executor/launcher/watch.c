#include "executor/launcher/parts.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// A look that comes late counts no longer than this: the launcher itself may have been stopped.
static const double LOOK_LONGEST_S = 0.5;

// Of a rank that failed one looks on so long, at most until it has ended: the end of another, which
// it may have missed, comes by way of a process that has to get its turn.
static const double FOLLOWS_S = 1;

// Ranks that all wait here for those of other nodes wait so much longer: the node of the one that
// stands still says so first.
static const double NODES_PATIENCE = 3;

static char real_state(void *context, pid_t pid)
{
    (void)context;
    return launch_process_state(pid);
}

static int64_t real_ticks(void *context, pid_t pid)
{
    (void)context;
    return launch_process_ticks(pid);
}

void launch_watch_begin(struct launch_watch *watch, const struct launch_request *request,
                        const struct launch_started *started, struct heartbeat_page *page,
                        double now_s)
{
    size_t count = (size_t)started->child_count;
    assert(started->child_count > 0 && request->stuck_s > 0);
    *watch = (struct launch_watch){
        .page = page,
        .processes = {real_state, real_ticks, NULL},
        .first_rank = started->first_rank,
        .rank_count = started->child_count,
        .stuck_s = request->stuck_s,
        .failed_rank = -1,
        .wait_s = request->rendezvous ? NODES_PATIENCE * request->stuck_s : request->stuck_s,
        .looked_s = now_s,
        .beats = memory_get(count * sizeof(int64_t)),
        .still_s = memory_get(count * sizeof(double)),
        .stopped_s = memory_get(count * sizeof(double)),
        .ticks = memory_get(count * sizeof(int64_t)),
    };
    memset(watch->beats, 0, count * sizeof(int64_t));
    memset(watch->ticks, 0, count * sizeof(int64_t));
    for (size_t i = 0; i < count; i++)
        watch->still_s[i] = watch->stopped_s[i] = 0;
}

void launch_watch_free(struct launch_watch *watch)
{
    free(watch->beats);
    free(watch->still_s);
    free(watch->stopped_s);
    free(watch->ticks);
}

// Of a rank by its place here.
static struct heartbeat *heartbeat_here(struct launch_watch *watch, int place)
{
    assert(place >= 0 && place < watch->rank_count);
    return heartbeat_of(watch->page, watch->first_rank + place);
}

static bool is_waiting(const struct heartbeat *heartbeat)
{
    return atomic_load(&heartbeat->state) == HEARTBEAT_WAITING;
}

// " in step 7, at B2.0 1 attn.out". The name may be half written when the rank still runs.
static const char *describe_place(struct heartbeat *heartbeat, char *text, size_t bytes)
{
    int state = atomic_load(&heartbeat->state), step = atomic_load(&heartbeat->step);
    int length = (int)strnlen(heartbeat->task_name, sizeof heartbeat->task_name);
    const char *waits = state == HEARTBEAT_WAITING ? "waiting " : "";
    if (state == HEARTBEAT_STARTING && length == 0)
        snprintf(text, bytes, " while starting");
    else if (state == HEARTBEAT_DONE)
        snprintf(text, bytes, " after its last step");
    else if (length == 0)
        snprintf(text, bytes, " in step %d", step);
    else
        snprintf(text, bytes, " in step %d, %sat %.*s", step, waits, length, heartbeat->task_name);
    return text;
}

// What was wrong with the command or a file before the first step is so of every rank.
static bool report_input(struct heartbeat *heartbeat, struct err *err)
{
    int kind = atomic_load(&heartbeat->fail_kind);
    if (atomic_load(&heartbeat->step) > 0 || (kind != ERR_USAGE && kind != ERR_INPUT)) return true;
    return err_set(err, (enum err_kind)kind, "%.*s",
                   (int)strnlen(heartbeat->reason, sizeof heartbeat->reason), heartbeat->reason);
}

bool launch_watch_report(struct heartbeat *heartbeat, int rank, bool is_end, struct err *err)
{
    char place[160];
    int status = atomic_load(&heartbeat->end_status);
    if (!is_end && !report_input(heartbeat, err)) return false;
    describe_place(heartbeat, place, sizeof place);
    if (launch_memory_is_told(heartbeat->reason))
        return err_set(err, ERR_SYSTEM, "%.*s%s",
                       (int)strnlen(heartbeat->reason, sizeof heartbeat->reason), heartbeat->reason,
                       is_end ? place : "");
    if (!is_end)
        return err_set(err, ERR_SYSTEM, "rank %d failed%s: %.*s", rank, place,
                       (int)strnlen(heartbeat->reason, sizeof heartbeat->reason),
                       heartbeat->reason);
    if (WIFSIGNALED(status))
        return err_set(err, ERR_SYSTEM, "rank %d was killed (signal %d)%s", rank, WTERMSIG(status),
                       place);
    return err_set(err, ERR_SYSTEM, "rank %d ended with status %d%s", rank, WEXITSTATUS(status),
                   place);
}

// The first of all that failed or ended otherwise than well; -1.
static int first_event(struct launch_watch *watch, bool *is_end)
{
    int first = 0, first_rank = -1;
    for (int rank = 0; rank < watch->rank_count; rank++) {
        struct heartbeat *heartbeat = heartbeat_here(watch, rank);
        int events[2] = {atomic_load(&heartbeat->fail_event), atomic_load(&heartbeat->end_event)};
        for (int i = 0; i < 2; i++) {
            // Of a rank that says it failed and then ends both are there: what it said came first.
            if (!events[i] || (first && events[i] > first)) continue;
            first = events[i];
            first_rank = rank;
            *is_end = i == 1;
        }
    }
    return first_rank;
}

// A rank that was killed and had said nothing: what others say then follows from it, whoever was
// noticed first. SIGTERM is what launchers end the other ranks with. -1: none.
static int killed_rank(struct launch_watch *watch)
{
    for (int rank = 0; rank < watch->rank_count; rank++) {
        struct heartbeat *heartbeat = heartbeat_here(watch, rank);
        int status = atomic_load(&heartbeat->end_status);
        bool is_told = atomic_load(&heartbeat->fail_event) || !atomic_load(&heartbeat->end_event);
        if (!is_told && WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM) return rank;
    }
    return -1;
}

static bool check_events(struct launch_watch *watch, double now_s, struct err *err)
{
    bool is_end = false;
    int rank = first_event(watch, &is_end);
    if (rank < 0) return true;
    int killed = is_end ? -1 : killed_rank(watch);
    if (killed >= 0) {
        rank = killed;
        is_end = true;
    }
    if (!is_end) {
        if (watch->failed_s == 0) watch->failed_s = now_s;
        bool has_ended = atomic_load(&heartbeat_here(watch, rank)->has_ended);
        if (!has_ended && now_s - watch->failed_s < FOLLOWS_S) return true;
    }
    watch->may_follow = !is_end;
    watch->failed_rank = watch->first_rank + rank;
    return launch_watch_report(heartbeat_here(watch, rank), watch->first_rank + rank, is_end, err);
}

// While a rank starts it reads and plans, which takes as long as others leave it the cores: what it
// computes counts as moving.
static int64_t find_movement(const struct launch_watch *watch, const struct heartbeat *heartbeat)
{
    const struct launch_processes *processes = &watch->processes;
    int64_t beat = atomic_load(&heartbeat->beat);
    int pid = atomic_load(&heartbeat->pid);
    bool is_starting = atomic_load(&heartbeat->state) == HEARTBEAT_STARTING;
    return is_starting && pid ? beat + processes->ticks(processes->context, pid) : beat;
}

// State letter of a rank's process; '\0' where none is known.
static char find_state(const struct launch_watch *watch, const struct heartbeat *heartbeat)
{
    int pid = atomic_load(&heartbeat->pid);
    return pid ? watch->processes.state(watch->processes.context, pid) : '\0';
}

// How much of the seconds that passed a rank stood still: one that computes, those in which others
// left it a processor, so that a loop is found and a long product on a busy host is none.
static double find_stillness(struct launch_watch *watch, int rank, double passed_s)
{
    const struct launch_processes *processes = &watch->processes;
    const struct heartbeat *heartbeat = heartbeat_here(watch, rank);
    if (is_waiting(heartbeat) || find_state(watch, heartbeat) != 'R') return passed_s;
    int64_t ticks = processes->ticks(processes->context, atomic_load(&heartbeat->pid));
    double used_s = (double)(ticks - watch->ticks[rank]) / (double)sysconf(_SC_CLK_TCK);
    watch->ticks[rank] = ticks;
    return used_s < passed_s ? used_s : passed_s;
}

static void count_stillness(struct launch_watch *watch, double now_s)
{
    double passed_s = now_s - watch->looked_s;
    assert(passed_s >= 0);  // a clock that goes on
    if (passed_s > LOOK_LONGEST_S) passed_s = LOOK_LONGEST_S;
    watch->looked_s = now_s;
    for (int rank = 0; rank < watch->rank_count; rank++) {
        const struct heartbeat *heartbeat = heartbeat_here(watch, rank);
        int64_t beat = find_movement(watch, heartbeat);
        bool is_still = beat == watch->beats[rank];
        double still_s = is_still ? find_stillness(watch, rank, passed_s) : 0;
        watch->still_s[rank] = is_still ? watch->still_s[rank] + still_s : 0;
        char state = is_still ? find_state(watch, heartbeat) : '\0';
        bool stands = state == 'T' || state == 't';
        watch->stopped_s[rank] = stands ? watch->stopped_s[rank] + passed_s : 0;
        watch->beats[rank] = beat;
    }
}

// How much speaks for this rank being the one that the others wait for: one that was stopped, then
// one that does not wait, then the one that has come least far.
static bool is_likelier(struct launch_watch *watch, int rank, int than)
{
    if (than < 0) return true;
    struct heartbeat *a = heartbeat_here(watch, rank), *b = heartbeat_here(watch, than);
    bool a_is_stopped = watch->stopped_s[rank] > 0;
    if (a_is_stopped != (watch->stopped_s[than] > 0)) return a_is_stopped;
    if (is_waiting(a) != is_waiting(b)) return !is_waiting(a);
    if (!is_waiting(a)) return watch->still_s[rank] > watch->still_s[than];
    int a_step = atomic_load(&a->step), b_step = atomic_load(&b->step);
    return a_step != b_step ? a_step < b_step : atomic_load(&a->task) < atomic_load(&b->task);
}

bool launch_watch_report_stopped(struct heartbeat *heartbeat, int rank, double still_s,
                                 struct err *err)
{
    char place[160];
    describe_place(heartbeat, place, sizeof place);
    return err_set(err, ERR_SYSTEM, "rank %d was stopped for %.0f s%s", rank, still_s, place);
}

static bool report_stuck(struct launch_watch *watch, int at, struct err *err)
{
    struct heartbeat *heartbeat = heartbeat_here(watch, at);
    int rank = watch->first_rank + at;
    double still_s = watch->still_s[at];
    char place[160], full[256];
    if (watch->stopped_s[at] > 0)
        return launch_watch_report_stopped(heartbeat, rank, watch->stopped_s[at], err);
    describe_place(heartbeat, place, sizeof place);
    if (!is_waiting(heartbeat) &&
        launch_memory_is_full(atomic_load(&heartbeat->pid), rank, full, sizeof full))
        return err_set(err, ERR_SYSTEM, "%s%s", full, place);
    if (is_waiting(heartbeat))
        return err_set(err, ERR_SYSTEM,
                       "all ranks have waited for each other for %.0f s; rank %d has come least "
                       "far:%s",
                       still_s, rank, place);
    return err_set(err, ERR_SYSTEM, "rank %d stood still for %.0f s%s", rank, still_s, place);
}

// A rank is stuck that was stopped for so long, that has stood still so long while another has
// waited so long, or that stands still as all do.
static bool check_stuck(struct launch_watch *watch, struct err *err)
{
    bool somebody_moves = false, somebody_waits = false;
    int likeliest = -1;
    for (int rank = 0; rank < watch->rank_count; rank++) {
        const struct heartbeat *heartbeat = heartbeat_here(watch, rank);
        if (atomic_load(&heartbeat->has_ended)) continue;
        bool is_still = watch->still_s[rank] >= watch->stuck_s;
        somebody_moves |= !is_still;
        somebody_waits |= is_still && is_waiting(heartbeat);
        if (is_still && is_likelier(watch, rank, likeliest)) likeliest = rank;
    }
    if (likeliest < 0) return true;
    const struct heartbeat *heartbeat = heartbeat_here(watch, likeliest);
    // One that waited long and was stopped a moment ago may go on, and who waits for it waits for
    // that.
    bool was_stopped = watch->stopped_s[likeliest] > 0;
    if (was_stopped && watch->stopped_s[likeliest] < watch->stuck_s) return true;
    if (!was_stopped) {
        // A long task is no fault while nobody waits for it, nor is waiting while another computes.
        if (somebody_moves && !(somebody_waits && !is_waiting(heartbeat))) return true;
        if (is_waiting(heartbeat) && watch->still_s[likeliest] < watch->wait_s) return true;
    }
    watch->failed_rank = watch->first_rank + likeliest;
    return report_stuck(watch, likeliest, err);
}

bool launch_watch_look(struct launch_watch *watch, double now_s, struct err *err)
{
    count_stillness(watch, now_s);
    return check_events(watch, now_s, err) && check_stuck(watch, err);
}

bool launch_watch_all_ended(struct launch_watch *watch)
{
    for (int rank = 0; rank < watch->rank_count; rank++) {
        if (!atomic_load(&heartbeat_here(watch, rank)->has_ended)) return false;
    }
    return true;
}
