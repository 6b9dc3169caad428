#include "tests/ranks.h"
#include "executor/shared_memory.h"

#include <assert.h>
#include <stdio.h>
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

bool rank_job_run(const struct rank_job *job)
{
    struct shared_memory memory;
    struct err err = {0};
    pid_t pids[RANK_MAX];
    assert(job->rank_count <= RANK_MAX);
    RANK_CHECK(shared_memory_create(&memory, &err), "%s", err.text);
    fflush(stdout);
    for (int rank = 0; rank < job->rank_count; rank++) {
        pids[rank] = fork();
        if (pids[rank] != 0) continue;
        struct communicator_request request = job->request;
        request.host_name = memory.name;
        request.rank = rank;
        request.rank_count = job->rank_count;
        bool is_well = run_rank(job, request);
        fflush(stderr);
        _exit(is_well ? 0 : 1);
    }
    bool all_well = true;
    for (int rank = 0; rank < job->rank_count; rank++) {
        int status = 0;
        waitpid(pids[rank], &status, 0);
        if (status != 0) fprintf(stderr, "# rank %d ended with status %#x\n", rank, status);
        all_well &= status == 0;
    }
    shared_memory_close(&memory);
    return all_well;
}
