#include "tests/ranks.h"
#include "executor/rendezvous.h"
#include "executor/shared_memory.h"

#include <assert.h>
#include <dirent.h>
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

// Memory that the ranks of a node share, and where all ranks listen.
struct nodes {
    struct shared_memory memories[RANK_MAX];
    int listeners[RANK_MAX];
    int count;
};

static bool show_table(const struct rank_job *job, const struct nodes *nodes, int node)
{
    struct err err = {0};
    size_t bytes =
        sizeof(struct rendezvous_table) + (size_t)job->rank_count * sizeof(struct rendezvous_seat);
    struct rendezvous_table *table =
        shared_memory_map(nodes->memories[node].name, SHARED_TABLE, (int64_t)bytes, &err);
    RANK_CHECK(table, "%s", err.text);
    table->key = 77;
    table->node_count = nodes->count;
    table->rank_count = job->rank_count;
    for (int rank = 0; rank < job->rank_count; rank++) {
        struct rendezvous_seat *seat = &table->seats[rank];
        socket_address(nodes->listeners[rank], false, seat->address);
        seat->port = socket_port(nodes->listeners[rank]);
        seat->node = rank / job->ranks_a_node;
    }
    shared_memory_unmap(table, (int64_t)bytes);
    return true;
}

static bool nodes_open(const struct rank_job *job, struct nodes *nodes)
{
    struct err err = {0};
    int each = job->ranks_a_node ? job->ranks_a_node : job->rank_count;
    *nodes = (struct nodes){.count = (job->rank_count + each - 1) / each};
    for (int rank = 0; rank < job->rank_count && job->ranks_a_node; rank++) {
        nodes->listeners[rank] = socket_listen("127.0.0.1", 0, &err);
        RANK_CHECK(nodes->listeners[rank] >= 0, "%s", err.text);
    }
    for (int node = 0; node < nodes->count; node++) {
        RANK_CHECK(shared_memory_create(&nodes->memories[node], &err), "%s", err.text);
        if (job->ranks_a_node && !show_table(job, nodes, node)) return false;
    }
    return true;
}

static void nodes_close(const struct rank_job *job, struct nodes *nodes)
{
    for (int node = 0; node < nodes->count; node++)
        shared_memory_close(&nodes->memories[node]);
    for (int rank = 0; rank < job->rank_count && job->ranks_a_node; rank++)
        close(nodes->listeners[rank]);
}

// A rank that crashes ends: the test's own handlers would have it go on with the next test.
static void be_rank(const struct rank_job *job, const struct nodes *nodes, int rank)
{
    static const int CRASHES[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof CRASHES / sizeof *CRASHES; i++)
        signal(CRASHES[i], SIG_DFL);
    struct communicator_request request = job->request;
    int node = job->ranks_a_node ? rank / job->ranks_a_node : 0;
    request.host_name = nodes->memories[node].name;
    request.has_nodes = job->ranks_a_node > 0;
    request.listener = nodes->listeners[rank];
    request.rank = rank;
    request.rank_count = job->rank_count;
    bool is_well = run_rank(job, request);
    fflush(stderr);
    _exit(is_well ? 0 : 1);
}

bool rank_job_run(const struct rank_job *job)
{
    struct nodes nodes;
    pid_t pids[RANK_MAX];
    assert(job->rank_count <= RANK_MAX);
    if (!nodes_open(job, &nodes)) return false;
    fflush(stdout);
    for (int rank = 0; rank < job->rank_count; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0) be_rank(job, &nodes, rank);
    }
    bool all_well = true;
    for (int rank = 0; rank < job->rank_count; rank++) {
        int status = 0;
        waitpid(pids[rank], &status, 0);
        if (status != 0) fprintf(stderr, "# rank %d ended with status %#x\n", rank, status);
        all_well &= status == 0;
    }
    nodes_close(job, &nodes);
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
