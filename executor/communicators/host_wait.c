#include "executor/communicators/host.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Sleepers wake up this often to see whether the job has ended, and look every so often whether the
// other ranks live.
// Where something else must go on meanwhile, or messages wait for a slot, they sleep shorter.
static const double LOOK_EVERY_S = 0.5;
enum { SLEEP_NS = 20000000, IDLE_SLEEP_NS = 500000, YIELD_COUNT = 16 };

const char *host_operation_name(int operation)
{
    static const char *const NAMES[] = {"nothing",    "all-reduce", "all-gather", "reduce-scatter",
                                        "all-to-all", "gather",     "sum",        "send",
                                        "receive",    "barrier"};
    assert(operation >= 0 && operation < (int)(sizeof NAMES / sizeof *NAMES));
    return NAMES[operation];
}

const char *host_fail(struct communicator *communicator, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(communicator->text, sizeof communicator->text, format, args);
    va_end(args);
    return communicator->text;
}

// Another rank of the job that no longer exists, or -1.
static int find_dead(struct communicator *communicator)
{
    for (int rank = 0; rank < communicator->rank_count; rank++) {
        int pid = atomic_load(&host_rank(communicator, rank)->pid);
        if (pid && kill(pid, 0) != 0 && errno == ESRCH) return rank;
    }
    return -1;
}

static double read_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// The launcher finds out at once who has died, and is to be the first to say so.
static bool is_time_to_look(struct communicator *communicator, int wake_count)
{
    double now_s = read_clock();
    if (wake_count == 0) communicator->looked_s = now_s;
    if (now_s - communicator->looked_s < LOOK_EVERY_S) return false;
    communicator->looked_s = now_s;
    return true;
}

static const char *check_job(struct communicator *communicator, int wake_count)
{
    struct host_segment *segment = communicator->segment;
    if (atomic_load(&segment->abort_state) == HOST_ABORTED) {
        communicator->was_told = true;
        return host_fail(communicator, "%.*s", HOST_REASON_BYTES - 1, segment->reason);
    }
    if (!is_time_to_look(communicator, wake_count)) return NULL;
    int dead = find_dead(communicator);
    if (dead < 0) return NULL;
    int operation = atomic_load(&host_rank(communicator, dead)->operation);
    communicator->was_told = true;  // by nobody, but it is the other's failure
    return host_fail(communicator, "rank %d is gone; it was last at: %s",
                     host_job_rank(communicator, dead), host_operation_name(operation));
}

// Counters wrap: what is less than half the range ahead has passed.
static bool has_passed(struct host_counter *counter, uint32_t value)
{
    uint32_t ahead = atomic_load_explicit(&counter->value, memory_order_acquire) - value;
    return ahead < UINT32_C(0x80000000);
}

static void pause_shortly(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#endif
}

static void sleep_on(struct host_counter *counter, uint32_t value, long limit_ns)
{
    struct timespec limit = {0, limit_ns};
    // Said before the value is read: who counts up after that read sees a sleeper and wakes it.
    atomic_fetch_add(&counter->sleeper_count, 1);
    uint32_t seen = atomic_load(&counter->value);
    // The kernel compares again, so that a count between our look and our sleep is not missed.
    if (seen - value >= UINT32_C(0x80000000))
        syscall(SYS_futex, &counter->value, FUTEX_WAIT, seen, &limit, NULL, 0);
    atomic_fetch_sub(&counter->sleeper_count, 1);
}

const char *host_wait(struct communicator *communicator, struct host_counter *counter,
                      uint32_t value)
{
    // Awake first, as most waits are shorter than a system call; then the core is offered to ranks
    // that have none; only then is it worth sleeping, and looking whether the job still goes on.
    for (int i = 0; i < communicator->spin_count; i++) {
        if (has_passed(counter, value)) return NULL;
        pause_shortly();
    }
    for (int i = 0; i < YIELD_COUNT; i++) {
        if (has_passed(counter, value)) return NULL;
        host_post_kept(communicator);
        sched_yield();
    }
    for (int wakes = 0; !has_passed(counter, value); wakes++) {
        const char *failure = check_job(communicator, wakes);
        // A rank may count up and end at once: what it did counts more than that it is gone.
        if (failure) return has_passed(counter, value) ? NULL : failure;
        if (communicator->idle) communicator->idle(communicator->idle_context);
        host_post_kept(communicator);
        bool is_busy = communicator->idle || communicator->pieces;
        sleep_on(counter, value, is_busy ? IDLE_SLEEP_NS : SLEEP_NS);
    }
    return NULL;
}

void host_count_up(struct host_counter *counter, bool wakes)
{
    atomic_fetch_add(&counter->value, 1);
    if (wakes && atomic_load(&counter->sleeper_count))
        syscall(SYS_futex, &counter->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

const char *host_arrive(struct communicator *communicator, struct host_counter *counter,
                        uint32_t *barrier_count, int count)
{
    uint32_t all = ++*barrier_count * (uint32_t)count;
    assert(count > 0);
    // Nobody can arrive at the next barrier before this one is complete, so only the last wakes.
    bool is_last = atomic_fetch_add(&counter->value, 1) + 1 == all;
    if (!is_last) return host_wait(communicator, counter, all);
    if (atomic_load(&counter->sleeper_count))
        syscall(SYS_futex, &counter->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return NULL;
}

void host_abort(struct communicator *communicator, const char *reason)
{
    struct host_segment *segment = communicator->segment;
    int expected = HOST_GOES_ON;
    if (!atomic_compare_exchange_strong(&segment->abort_state, &expected, HOST_ABORT_WRITING))
        return;  // the first reason stays
    // Nobody reads it before it says ABORTED, so nobody reads half of it.
    snprintf(segment->reason, sizeof segment->reason, "%s", reason);
    atomic_store(&segment->abort_state, HOST_ABORTED);
}

bool host_was_told(const struct communicator *communicator)
{
    return communicator->was_told;
}
