#include "executor/nvme.h"

#include "core/progress.h"

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
};

struct nvme {
    const char *folder;
    int file;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct request queue[QUEUE];
    int64_t asked, done;     // requests so far
    int64_t unsynced_bytes;  // the thread's own: written, and perhaps not on the drive yet
    bool ends;
    struct nvme_moved moved;
    char fault[FAULT_BYTES];  // of the first that failed; those behind it are not done
};

static const char *const DOING[] = {
    [NVME_READ] = "reading", [NVME_WRITE] = "writing", [NVME_SYNC] = "syncing"};

static void tell(struct nvme *nvme, enum nvme_way way, int number)
{
    snprintf(nvme->fault, sizeof nvme->fault, "%s a file in %.300s: %s", DOING[way], nvme->folder,
             number ? strerror(number) : "it ends too early");
}

// What the system keeps of the file in memory is not what a plan counts as memory, and a write that
// a drive refuses behind our back is forgotten by it: pages are read as they were before. So all
// that was written goes to the drive now, and no copy of it stays.
static bool flush(struct nvme *nvme)
{
    enum { ALL = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER };
    if (nvme->unsynced_bytes == 0) return true;
    int fault = sync_file_range(nvme->file, 0, 0, ALL) == 0 ? 0 : errno;
    if (fault == ENOSYS || fault == ESPIPE) fault = fdatasync(nvme->file) == 0 ? 0 : errno;
    if (fault) tell(nvme, NVME_WRITE, fault);
    nvme->unsynced_bytes = 0;
    (void)posix_fadvise(nvme->file, 0, 0, POSIX_FADV_DONTNEED);
    return !fault;
}

// The system may move less than it is asked for.
static void serve(struct nvme *nvme, const struct request *request)
{
    if (request->way == NVME_SYNC) {
        if (flush(nvme) && fdatasync(nvme->file) != 0) tell(nvme, request->way, errno);
        return;
    }
    if (request->way == NVME_READ && !flush(nvme)) return;
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
    if (nvme->unsynced_bytes >= UNSYNCED_BYTES) (void)flush(nvme);
}

static void *work(void *of)
{
    struct nvme *nvme = of;
    pthread_mutex_lock(&nvme->lock);
    for (;;) {
        while (nvme->asked == nvme->done && !nvme->ends)
            pthread_cond_wait(&nvme->changed, &nvme->lock);
        if (nvme->asked == nvme->done) break;
        struct request request = nvme->queue[nvme->done % QUEUE];
        bool is_fine = !nvme->fault[0];
        pthread_mutex_unlock(&nvme->lock);
        double began_s = clock_s();
        if (is_fine) serve(nvme, &request);
        double took_s = clock_s() - began_s;
        pthread_mutex_lock(&nvme->lock);
        nvme->moved.s += took_s;
        nvme->moved.bytes += (double)request.bytes;
        nvme->done++;
        pthread_cond_broadcast(&nvme->changed);
    }
    pthread_mutex_unlock(&nvme->lock);
    return NULL;
}

static int make_file(const char *folder, int64_t bytes, struct err *err)
{
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

struct nvme *nvme_open(struct arena *arena, const char *folder, int64_t bytes, struct err *err)
{
    struct nvme *nvme = ARENA_NEW(arena, struct nvme, 1);
    nvme->folder = folder;
    nvme->file = make_file(folder, bytes, err);
    if (nvme->file < 0) return NULL;
    pthread_mutex_init(&nvme->lock, NULL);
    pthread_cond_init(&nvme->changed, NULL);
    int fault = pthread_create(&nvme->thread, NULL, work, nvme);
    if (!fault) return nvme;
    err_set(err, ERR_SYSTEM, "starting a thread: %s", strerror(fault));
    close(nvme->file);
    return NULL;
}

void nvme_close(struct nvme *nvme)
{
    pthread_mutex_lock(&nvme->lock);
    nvme->ends = true;
    pthread_cond_broadcast(&nvme->changed);
    pthread_mutex_unlock(&nvme->lock);
    pthread_join(nvme->thread, NULL);
    pthread_cond_destroy(&nvme->changed);
    pthread_mutex_destroy(&nvme->lock);
    close(nvme->file);
}

int64_t nvme_start(struct nvme *nvme, enum nvme_way way, void *memory, int64_t bytes, int64_t at)
{
    pthread_mutex_lock(&nvme->lock);
    while (nvme->asked - nvme->done == QUEUE)
        pthread_cond_wait(&nvme->changed, &nvme->lock);
    nvme->queue[nvme->asked % QUEUE] = (struct request){way, memory, bytes, at};
    int64_t number = nvme->asked++;
    pthread_cond_broadcast(&nvme->changed);
    pthread_mutex_unlock(&nvme->lock);
    return number;
}

const char *nvme_wait(struct nvme *nvme, int64_t number)
{
    pthread_mutex_lock(&nvme->lock);
    while (nvme->done <= number)
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
