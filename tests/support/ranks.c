#include "tests/support/ranks.h"
#include "executor/launcher/shared_memory.h"
#include "executor/rendezvous_folder.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANK_MAX = 64, RANK_SECONDS = 120 };

static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    (void)device, (void)stream, (void)kind;
    memmove(to, from, (size_t)bytes);
    return NULL;
}

static const char *fill(struct device *device, enum stream stream, void *memory, int byte,
                        int64_t bytes)
{
    (void)device, (void)stream;
    memset(memory, byte, (size_t)bytes);
    return NULL;
}

static const char *allocate(struct device *device, int64_t bytes, void **memory)
{
    (void)device;
    *memory = malloc((size_t)bytes + 1);
    return *memory ? NULL : "no memory";
}

static void release(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

static void *native_stream(struct device *device, enum stream stream)
{
    (void)device, (void)stream;
    return NULL;
}

static const char *synchronize(struct device *device, enum stream stream)
{
    (void)device, (void)stream;
    return NULL;
}

struct backend rank_backend(int real_bytes, bool is_host)
{
    return (struct backend){
        .version = BACKEND_VERSION,
        .name = "test",
        .real_bytes = real_bytes,
        .compute_bytes = real_bytes,
        .is_host = is_host,
        .allocate = allocate,
        .release = release,
        .native_stream = is_host ? NULL : native_stream,
        .copy = copy,
        .fill = fill,
        .synchronize = synchronize,
    };
}

struct backend rank_backend_at(int real_bytes, enum precision compute, bool is_host)
{
    struct backend backend = rank_backend(real_bytes, is_host);
    backend.compute = compute;
    if (compute != PRECISION_FP32) backend.compute_bytes = 2;
    return backend;
}

static bool run_rank(const struct rank_job *job, struct communicator_request request)
{
    struct communicator *communicator = NULL;
    struct err err = {0};
    alarm(RANK_SECONDS);
    const struct transport *transport = job->open(&request, &communicator, &err);
    RANK_CHECK(transport, "rank %d: %s", request.rank, err.text);
    bool is_well = job->body(transport, communicator, request.rank, job->context);
    transport->close(communicator);
    return is_well;
}

// Where ranks find each other.
struct ranks_place {
    struct shared_memory memory;
    char folder[64];
};

static bool place_open(const struct rank_job *job, struct ranks_place *place)
{
    struct err err = {0};
    *place = (struct ranks_place){.memory.file = -1, .folder = "/tmp/meshwright-ranks-XXXXXX"};
    if (job->meets_by_files) {
        RANK_CHECK(mkdtemp(place->folder), "%s", strerror(errno));
    } else {
        RANK_CHECK(shared_memory_create(&place->memory, &err), "%s", err.text);
    }
    return true;
}

static void place_close(const struct rank_job *job, struct ranks_place *place)
{
    if (job->meets_by_files)
        folder_remove_all(place->folder);
    else
        shared_memory_close(&place->memory);
}

// A rank that crashes ends: the test's own handlers would have it go on with the next test.
static void be_rank(const struct rank_job *job, const struct ranks_place *place, int rank)
{
    static const int CRASHES[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof CRASHES / sizeof *CRASHES; i++)
        signal(CRASHES[i], SIG_DFL);
    struct communicator_request request = job->request;
    if (job->meets_by_files)
        request.meeting = place->folder;
    else
        request.host_name = place->memory.name;
    request.rank = rank;
    request.rank_count = job->rank_count;
    bool is_well = run_rank(job, request);
    fflush(stderr);
    _exit(is_well ? 0 : 1);
}

bool rank_job_run(const struct rank_job *job)
{
    struct ranks_place place;
    pid_t pids[RANK_MAX];
    assert(job->rank_count <= RANK_MAX);
    if (!place_open(job, &place)) return false;
    fflush(stdout);
    for (int rank = 0; rank < job->rank_count; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0) be_rank(job, &place, rank);
    }
    bool all_well = true;
    for (int rank = 0; rank < job->rank_count; rank++) {
        int status = 0;
        waitpid(pids[rank], &status, 0);
        if (status != 0) fprintf(stderr, "# rank %d ended with status %#x\n", rank, status);
        all_well &= status == 0;
    }
    place_close(job, &place);
    return all_well;
}

int count_processes(const char *token)
{
    int count = 0;
    DIR *folder = opendir("/proc");
    if (!folder) return -1;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[300], text[4096];
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        FILE *file = atoi(entry->d_name) > 1 ? fopen(path, "r") : NULL;
        size_t length = file ? fread(text, 1, sizeof text, file) : 0;
        if (file) fclose(file);
        count += length > 0 && memmem(text, length, token, strlen(token)) != NULL;
    }
    closedir(folder);
    return count;
}
