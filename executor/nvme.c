#include "executor/nvme.h"

#include "core/progress.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUE = 64, FAULT_BYTES = 512 };
// So much is written before it is waited for until the drive has it.
enum { UNSYNCED_BYTES = 4 << 20 };

struct request {
    enum nvme_way way;
    char *memory;
    int64_t bytes, at;
    bool is_done;
};

struct nvme {
    const char *folder;
    int file;
    pthread_t threads[2];  // one reads, one writes and syncs
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct request queue[QUEUE];
    int64_t asked, done;     // requests so far; all before `done` are
    int64_t unsynced_bytes;  // of the thread that writes: perhaps not on the drive yet
    bool ends;
    int busy;  // threads at work
    double began_s;
    struct nvme_moved moved;
    char fault[FAULT_BYTES];  // of the first that failed; those behind it are not done
};

static const char *const DOING[] = {
    [NVME_READ] = "reading", [NVME_WRITE] = "writing", [NVME_SYNC] = "syncing"};

// Only what went wrong first is told.
static bool tell(struct nvme *nvme, enum nvme_way way, int number)
{
    pthread_mutex_lock(&nvme->lock);
    if (!nvme->fault[0])
        snprintf(nvme->fault, sizeof nvme->fault, "%s a file in %.300s: %s", DOING[way],
                 nvme->folder, number ? strerror(number) : "it ends too early");
    pthread_mutex_unlock(&nvme->lock);
    return false;
}

// What the system keeps of the file in memory is not what a plan counts as memory, and a write that
// a drive refuses behind our back is forgotten by it: pages are read as they were before. So all
// that was written there goes to the drive now (0 bytes: to the end), and no copy of it stays.
static bool flush(struct nvme *nvme, int64_t at, int64_t bytes)
{
    enum { ALL = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER };
    int fault = sync_file_range(nvme->file, at, bytes, ALL) == 0 ? 0 : errno;
    if (fault == ENOSYS || fault == ESPIPE) fault = fdatasync(nvme->file) == 0 ? 0 : errno;
    if (fault) return tell(nvme, NVME_WRITE, fault);
    (void)posix_fadvise(nvme->file, at, bytes, POSIX_FADV_DONTNEED);
    return true;
}

// Of the thread that writes.
static bool flush_all(struct nvme *nvme)
{
    if (nvme->unsynced_bytes == 0) return true;
    nvme->unsynced_bytes = 0;
    return flush(nvme, 0, 0);
}

// The system may move less than it is asked for.
static void serve(struct nvme *nvme, const struct request *request)
{
    assert(request->way == NVME_SYNC || (request->memory && request->at >= 0));
    if (request->way == NVME_SYNC) {
        if (flush_all(nvme) && fdatasync(nvme->file) != 0) tell(nvme, request->way, errno);
        return;
    }
    if (request->way == NVME_READ && !flush(nvme, request->at, request->bytes)) return;
    for (int64_t moved = 0; moved < request->bytes;) {
        char *memory = request->memory + moved;
        size_t rest = (size_t)(request->bytes - moved);
        ssize_t got = request->way == NVME_READ
                          ? pread(nvme->file, memory, rest, request->at + moved)
                          : pwrite(nvme->file, memory, rest, request->at + moved);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            tell(nvme, request->way, got < 0 ? errno : 0);
            return;
        }
        moved += got;
    }
    if (request->way == NVME_READ) {
        (void)posix_fadvise(nvme->file, request->at, request->bytes, POSIX_FADV_DONTNEED);
        return;
    }
    nvme->unsynced_bytes += request->bytes;
    if (nvme->unsynced_bytes >= UNSYNCED_BYTES) (void)flush_all(nvme);
}

static bool is_read(const struct request *request)
{
    return request->way == NVME_READ;
}

// Whether they touch the same bytes of the file, or the same memory.
static bool meet(const struct request *a, const struct request *b)
{
    assert(a != b && a->bytes >= 0 && b->bytes >= 0);
    bool in_file = a->at < b->at + b->bytes && b->at < a->at + a->bytes;
    return in_file || (a->memory < b->memory + b->bytes && b->memory < a->memory + a->bytes);
}

// The next request of a thread, once what was asked of the other one before and touches the same is
// done; NULL: there is none now.
static struct request *next(struct nvme *nvme, bool reads)
{
    int64_t n = nvme->done;
    while (n < nvme->asked &&
           (nvme->queue[n % QUEUE].is_done || is_read(&nvme->queue[n % QUEUE]) != reads))
        n++;
    struct request *found = &nvme->queue[n % QUEUE];
    if (n == nvme->asked) return NULL;
    for (int64_t m = nvme->done; m < n; m++) {
        const struct request *other = &nvme->queue[m % QUEUE];
        if (!other->is_done && meet(found, other)) return NULL;
    }
    return found;
}

// Seconds count in which either thread is at it.
static void turn(struct nvme *nvme, int by)
{
    double now_s = clock_s();
    if (nvme->busy > 0) nvme->moved.s += now_s - nvme->began_s;
    nvme->began_s = now_s;
    nvme->busy += by;
    assert(nvme->busy >= 0 && nvme->busy <= 2);
}

static void work(struct nvme *nvme, bool reads)
{
    pthread_mutex_lock(&nvme->lock);
    for (;;) {
        struct request *request = next(nvme, reads);
        if (!request && nvme->ends && nvme->asked == nvme->done) break;
        if (!request) {
            pthread_cond_wait(&nvme->changed, &nvme->lock);
            continue;
        }
        bool is_fine = !nvme->fault[0];
        turn(nvme, 1);
        pthread_mutex_unlock(&nvme->lock);
        if (is_fine) serve(nvme, request);
        pthread_mutex_lock(&nvme->lock);
        turn(nvme, -1);
        nvme->moved.bytes += (double)request->bytes;
        request->is_done = true;
        while (nvme->done < nvme->asked && nvme->queue[nvme->done % QUEUE].is_done)
            nvme->done++;
        pthread_cond_broadcast(&nvme->changed);
    }
    pthread_mutex_unlock(&nvme->lock);
}

static void *work_reading(void *of)
{
    work(of, true);
    return NULL;
}

static void *work_writing(void *of)
{
    work(of, false);
    return NULL;
}

static int make_file(const char *folder, int64_t bytes, struct err *err)
{
    assert(bytes >= 0);
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/meshwright-XXXXXX", folder);
    if (length < 0 || length >= (int)sizeof path) {
        err_set(err, ERR_SYSTEM, "--nvme: the name of a folder of %d characters", length);
        return -1;
    }
    int file = mkstemp(path);
    if (file < 0) {
        err_set(err, ERR_SYSTEM, "making a file in %.300s: %s", folder, strerror(errno));
        return -1;
    }
    int fault = unlink(path) == 0 ? 0 : errno;
    if (!fault && bytes > 0) fault = posix_fallocate(file, 0, bytes);
    if (!fault) return file;
    err_set(err, ERR_SYSTEM, "room for %lld bytes in %.300s: %s", (long long)bytes, folder,
            strerror(fault));
    close(file);
    return -1;
}

static void stop(struct nvme *nvme, int thread_count)
{
    pthread_mutex_lock(&nvme->lock);
    nvme->ends = true;
    pthread_cond_broadcast(&nvme->changed);
    pthread_mutex_unlock(&nvme->lock);
    for (int i = 0; i < thread_count; i++)
        pthread_join(nvme->threads[i], NULL);
    pthread_cond_destroy(&nvme->changed);
    pthread_mutex_destroy(&nvme->lock);
    close(nvme->file);
}

struct nvme *nvme_open(struct arena *arena, const char *folder, int64_t bytes, struct err *err)
{
    struct nvme *nvme = ARENA_NEW(arena, struct nvme, 1);
    nvme->folder = folder;
    nvme->file = make_file(folder, bytes, err);
    if (nvme->file < 0) return NULL;
    pthread_mutex_init(&nvme->lock, NULL);
    pthread_cond_init(&nvme->changed, NULL);
    static void *(*const WORK[])(void *) = {work_reading, work_writing};
    for (int i = 0; i < 2; i++) {
        int fault = pthread_create(&nvme->threads[i], NULL, WORK[i], nvme);
        if (!fault) continue;
        err_set(err, ERR_SYSTEM, "starting a thread: %s", strerror(fault));
        stop(nvme, i);
        return NULL;
    }
    return nvme;
}

void nvme_close(struct nvme *nvme)
{
    stop(nvme, 2);
}

int64_t nvme_start(struct nvme *nvme, enum nvme_way way, void *memory, int64_t bytes, int64_t at)
{
    assert(bytes >= 0 && at >= 0);
    pthread_mutex_lock(&nvme->lock);
    while (nvme->asked - nvme->done == QUEUE)
        pthread_cond_wait(&nvme->changed, &nvme->lock);
    nvme->queue[nvme->asked % QUEUE] = (struct request){way, memory, bytes, at, false};
    int64_t number = nvme->asked++;
    pthread_cond_broadcast(&nvme->changed);
    pthread_mutex_unlock(&nvme->lock);
    return number;
}

const char *nvme_wait(struct nvme *nvme, int64_t number)
{
    assert(number >= 0);
    pthread_mutex_lock(&nvme->lock);
    while (nvme->done <= number && !nvme->queue[number % QUEUE].is_done)
        pthread_cond_wait(&nvme->changed, &nvme->lock);
    const char *fault = nvme->fault[0] ? nvme->fault : NULL;
    pthread_mutex_unlock(&nvme->lock);
    return fault;
}

struct nvme_moved nvme_moved(struct nvme *nvme)
{
    pthread_mutex_lock(&nvme->lock);
    struct nvme_moved moved = nvme->moved;
    pthread_mutex_unlock(&nvme->lock);
    return moved;
}
