#include "executor/nccl/transport.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// How often the watcher looks, and how long taking down may take before it is an abort: others may
// still be at work on a busy machine, and those that are gone are found out sooner.
enum { WATCH_NS = 2000000, CLOSE_S = 60, YIELD_COUNT = 50, LEAVE_LOOKS = 1000 };

static void sleep_ns(long ns)
{
    const struct timespec pause = {0, ns};
    nanosleep(&pause, NULL);
}

static double clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void nccl_pause(void)
{
    sleep_ns(STATE_PAUSE_NS);
}

static void abort_comm(ncclComm_t *comm)
{
    if (*comm) ncclCommAbort(*comm);
    *comm = NULL;
}

// The rank is let out of its call, if it comes out by itself: it may have been about to enter.
static void abort_group(struct group *group)
{
    for (int look = 0; look < LEAVE_LOOKS && atomic_load(&group->is_inside); look++)
        nccl_pause();
    abort_comm(&group->comm);
}

// Kernels that wait for other ranks end; what they were to bring is lost. `lock` is held.
static void abort_all(struct communicator *communicator)
{
    for (struct group *group = communicator->groups; group; group = group->next) {
        if (!atomic_load(&group->is_inside)) abort_comm(&group->comm);
        abort_comm(&group->numbers);
    }
    for (struct group *group = communicator->groups; group; group = group->next)
        abort_group(group);
    for (struct nccl_link *link = communicator->links; link; link = link->next)
        abort_comm(&link->comm);
}

// The first stays: those behind it follow from it.
static void keep_failure(struct communicator *communicator, const char *format, va_list args)
{
    if (atomic_load(&communicator->has_failed)) return;
    vsnprintf(communicator->text, sizeof communicator->text, format, args);
    atomic_store(&communicator->has_failed, 1);
    abort_all(communicator);
}

const char *nccl_fail(struct communicator *communicator, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&communicator->lock);
    keep_failure(communicator, format, args);
    pthread_mutex_unlock(&communicator->lock);
    va_end(args);
    assert(atomic_load(&communicator->has_failed));
    return communicator->text;
}

void nccl_fail_locked(struct communicator *communicator, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    keep_failure(communicator, format, args);
    va_end(args);
}

// NCCL's last words are of any communicator of the process, and empty where nothing was logged.
static const char *last_words(char *text, size_t bytes)
{
    const char *words = ncclGetLastError(NULL);
    snprintf(text, bytes, words && *words ? ": %.300s" : "%s", words ? words : "");
    for (char *at = text; *at; at++) {
        if (*at == '\n') *at = ' ';
    }
    return text;
}

const char *nccl_check(struct communicator *communicator, ncclResult_t result, const char *what,
                       const char *purpose)
{
    char words[320];
    // After the first failure communicators are aborted, and what calls on them answer is its echo.
    if (atomic_load(&communicator->has_failed)) return communicator->text;
    if (result == ncclSuccess || result == ncclInProgress) return NULL;
    return nccl_fail(communicator, "rank %d: NCCL, %s of group '%s': %s%s", communicator->rank,
                     what, purpose, ncclGetErrorString(result), last_words(words, sizeof words));
}

const char *nccl_settle(struct communicator *communicator, ncclComm_t const *comm, const char *what,
                        const char *purpose)
{
    for (int look = 0;; look++) {
        ncclResult_t state = ncclSuccess, result = ncclSuccess;
        pthread_mutex_lock(&communicator->lock);
        if (*comm) result = ncclCommGetAsyncError(*comm, &state);
        pthread_mutex_unlock(&communicator->lock);
        const char *failure = nccl_check(communicator, result, what, purpose);
        if (!failure) failure = nccl_check(communicator, state, what, purpose);
        if (failure || state != ncclInProgress) return failure;
        if (communicator->beside->progress)
            communicator->beside->progress(communicator->beside_communicator);
        // A call is mostly taken within less than a sleep.
        if (look < YIELD_COUNT)
            sched_yield();
        else
            nccl_pause();
    }
}

// Fewer blocks than NCCL would take, where ranks share a GPU or the caller says so.
static ncclConfig_t config_of(const struct communicator *communicator, int blocks,
                              const char *purpose)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocks;
    config.commName = purpose;
    if (communicator->block_count > 0) {
        config.minCTAs = 1;
        config.maxCTAs = communicator->block_count;
    }
    return config;
}

const char *nccl_comm_begin(struct communicator *communicator, const ncclUniqueId *id, int count,
                            int me, const char *purpose, ncclComm_t *comm)
{
    ncclConfig_t config = config_of(communicator, 0, purpose);
    ncclComm_t made = NULL;
    assert(count > 1 && me >= 0 && me < count);
    pthread_mutex_lock(&communicator->lock);
    ncclResult_t result = ncclCommInitRankConfig(&made, count, *id, me, &config);
    *comm = made;
    pthread_mutex_unlock(&communicator->lock);
    return nccl_check(communicator, result, "making the communicator", purpose);
}

const char *nccl_comm_make(struct communicator *communicator, const ncclUniqueId *id, int count,
                           int me, const char *purpose, ncclComm_t *comm)
{
    ncclConfig_t config = config_of(communicator, 1, purpose);
    ncclComm_t made = NULL;
    assert(count > 1 && me >= 0 && me < count);
    ncclResult_t result = ncclCommInitRankConfig(&made, count, *id, me, &config);
    pthread_mutex_lock(&communicator->lock);
    *comm = made;
    // What failed meanwhile has aborted all others.
    if (made && atomic_load(&communicator->has_failed)) abort_comm(comm);
    pthread_mutex_unlock(&communicator->lock);
    return nccl_check(communicator, result, "making the communicator", purpose);
}

// `lock` is held.
static void look_at(struct communicator *communicator, ncclComm_t comm, const char *purpose)
{
    ncclResult_t state = ncclSuccess;
    char words[320];
    if (!comm || atomic_load(&communicator->has_failed)) return;
    ncclResult_t result = ncclCommGetAsyncError(comm, &state);
    if (result == ncclSuccess) result = state;
    if (result == ncclSuccess || result == ncclInProgress) return;
    nccl_fail_locked(communicator, "rank %d: NCCL, group '%s': %s%s", communicator->rank, purpose,
                     ncclGetErrorString(result), last_words(words, sizeof words));
}

// The rank's device is a thread's own setting: it has to be set here again.
static void *watch(void *context)
{
    struct communicator *communicator = context;
    cudaSetDevice(communicator->device_ordinal);
    while (!atomic_load(&communicator->is_closing)) {
        pthread_mutex_lock(&communicator->lock);
        nccl_links_pump(communicator);
        for (const struct group *group = communicator->groups; group; group = group->next) {
            look_at(communicator, group->comm, group->purpose);
            look_at(communicator, group->numbers, group->purpose);
        }
        for (const struct nccl_link *link = communicator->links; link; link = link->next) {
            char name[64];
            snprintf(name, sizeof name, "rank %d, channel %d", link->peer, link->channel);
            look_at(communicator, link->comm, name);
        }
        if (communicator->close_until_s > 0 && clock_s() > communicator->close_until_s)
            nccl_fail_locked(communicator, "rank %d: NCCL does not end: other ranks stand still",
                             communicator->rank);
        pthread_mutex_unlock(&communicator->lock);
        sleep_ns(WATCH_NS);
    }
    return NULL;
}

const char *nccl_watch_start(struct communicator *communicator)
{
    int code = pthread_create(&communicator->watcher, NULL, watch, communicator);
    communicator->has_watcher = code == 0;
    return code ? nccl_fail(communicator, "no thread to watch NCCL: %s", strerror(code)) : NULL;
}

void nccl_watch_end(struct communicator *communicator)
{
    atomic_store(&communicator->is_closing, 1);
    if (communicator->has_watcher) pthread_join(communicator->watcher, NULL);
    communicator->has_watcher = false;
}

// What does not block, all at once: ranks may have made theirs in another order than they come to
// here.
static bool finish_comm(ncclComm_t comm, bool begins)
{
    ncclResult_t state = ncclSuccess;
    if (!comm) return true;
    if (begins) ncclCommFinalize(comm);
    return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclInProgress;
}

static bool finish_open(struct communicator *communicator, bool begins)
{
    bool is_done = true;
    pthread_mutex_lock(&communicator->lock);
    for (const struct group *group = communicator->groups; group; group = group->next)
        is_done &= finish_comm(group->numbers, begins);
    for (const struct nccl_link *link = communicator->links; link; link = link->next)
        is_done &= finish_comm(link->comm, begins);
    pthread_mutex_unlock(&communicator->lock);
    return is_done;
}

// Groups were made in one order by all ranks, and are left in it.
static void finish_groups(struct communicator *communicator)
{
    for (struct group *group = communicator->groups; group; group = group->next) {
        pthread_mutex_lock(&communicator->lock);
        ncclComm_t comm = group->comm;
        atomic_store(&group->is_inside, comm != NULL);
        pthread_mutex_unlock(&communicator->lock);
        if (comm) ncclCommFinalize(comm);
        atomic_store(&group->is_inside, 0);
    }
}

static void destroy_comm(ncclComm_t *comm)
{
    if (*comm) ncclCommDestroy(*comm);
    *comm = NULL;
}

// Messages that wait for a slot or a receiver leave before their communicators are taken down.
static bool wait_until_idle(struct communicator *communicator)
{
    while (!atomic_load(&communicator->has_failed)) {
        pthread_mutex_lock(&communicator->lock);
        nccl_links_pump(communicator);
        bool is_idle = nccl_links_are_idle(communicator);
        pthread_mutex_unlock(&communicator->lock);
        if (is_idle) return true;
        nccl_pause();
    }
    return false;
}

void nccl_comms_close(struct communicator *communicator)
{
    pthread_mutex_lock(&communicator->lock);
    communicator->close_until_s = clock_s() + CLOSE_S;
    pthread_mutex_unlock(&communicator->lock);
    if (wait_until_idle(communicator)) {
        bool has_ended = finish_open(communicator, true);
        finish_groups(communicator);
        for (; !has_ended && !atomic_load(&communicator->has_failed); nccl_pause())
            has_ended = finish_open(communicator, false);
    }
    // Nobody aborts from here on: what is destroyed below is touched by this thread alone.
    nccl_watch_end(communicator);
    assert(!communicator->has_watcher);
    bool is_done = !atomic_load(&communicator->has_failed);
    for (struct group *group = communicator->groups; group && is_done; group = group->next) {
        destroy_comm(&group->comm);
        destroy_comm(&group->numbers);
    }
    for (struct nccl_link *link = communicator->links; link && is_done; link = link->next)
        destroy_comm(&link->comm);
    if (!is_done) abort_all(communicator);
}
