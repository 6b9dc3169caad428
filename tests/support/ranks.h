#pragma once
#include "executor/communicators/communicator.h"

// Ranks of a job as forked processes of a test program.

// A back end that has memory and copies only, of 4 or 8 bytes a real and as many an
// ELEMENT_COMPUTE; in the host's memory or, so that transports must copy, as if it were not.
struct backend rank_backend(int real_bytes, bool is_host);
// The same with an ELEMENT_COMPUTE of 16 bits: PRECISION_BF16 or PRECISION_FP16; else as wide as
// reals.
struct backend rank_backend_at(int real_bytes, enum precision compute, bool is_host);

struct rank_job {
    int rank_count;
    bool meets_by_files;  // as ranks of several hosts do without MPI; else in shared memory
    struct communicator_request request;  // host_name or meeting, rank and rank_count are filled in
    const struct transport *(*open)(const struct communicator_request *request,
                                    struct communicator **communicator, struct err *err);
    // Runs in a process of each rank; false: the rank has said on stderr what is wrong.
    bool (*body)(const struct transport *transport, struct communicator *communicator, int rank,
                 void *context);
    void *context;
};
// Whether all ranks ended well.
bool rank_job_run(const struct rank_job *job);

// Processes of this machine that have the token among their arguments; -1: it does not say.
int count_processes(const char *token);

#define RANK_CHECK(condition, ...)                            \
    do {                                                      \
        if (!(condition)) {                                   \
            fprintf(stderr, "# %s:%d: ", __func__, __LINE__); \
            fprintf(stderr, __VA_ARGS__);                     \
            fprintf(stderr, "\n");                            \
            return false;                                     \
        }                                                     \
    } while (0)
#define RANK_OK(call)                                  \
    do {                                               \
        const char *rank_failure = (call);             \
        RANK_CHECK(!rank_failure, "%s", rank_failure); \
    } while (0)
