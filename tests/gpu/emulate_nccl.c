#include "tests/gpu/emulate_nccl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

// The calls of NCCL: communicators are made, and what is asked of them is noted for their threads.

// Calls between ncclGroupStart and ncclGroupEnd of a thread.
struct pending {
    int depth;
    struct nccl_call *first, *last;
};

static struct pending *pending_of(void)
{
    static _Thread_local struct pending pending;
    return &pending;
}

static int64_t shared_bytes(int count)
{
    return (int64_t)sizeof(struct nccl_shared) +
           (int64_t)count * count * (int64_t)sizeof(struct box);
}

// The id names memory that this process holds for as long as it lives.
ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    int file = memfd_create("nccl", MFD_CLOEXEC);
    if (file < 0) return ncclSystemError;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/proc/%d/fd/%d", (int)getpid(), file);
    return ncclSuccess;
}

static struct nccl_shared *map_shared(const ncclUniqueId *id, int64_t bytes)
{
    void *mapped = MAP_FAILED;
    int file = open(id->internal, O_RDWR | O_CLOEXEC);
    if (file >= 0 && posix_fallocate(file, 0, bytes) == 0)
        mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    return mapped == MAP_FAILED ? NULL : mapped;
}

// What a communicator that does not block costs: a thread for every call, and whoever asks for its
// state.
static _Atomic int64_t *threads_of(void)
{
    static _Atomic int64_t threads;
    return &threads;
}
__attribute__((visibility("default"))) int64_t emulated_nccl_threads(void);
int64_t emulated_nccl_threads(void)
{
    return atomic_load(threads_of());
}

// Until all that was asked of it is taken, or it has failed or is aborted.
static ncclResult_t wait_blocking(ncclComm_t comm, bool to_its_end)
{
    int turns = 0;
    ncclResult_t state = ncclInProgress;
    atomic_fetch_add(&comm->inside, 1);
    while (state == ncclInProgress && !atomic_load(&comm->is_aborted)) {
        ncclCommGetAsyncError(comm, &state);
        if (to_its_end && state == ncclInProgress && box_has_failed(comm)) state = ncclRemoteError;
        if (state == ncclInProgress) box_rest(&turns);
    }
    if (atomic_load(&comm->is_aborted)) state = ncclInternalError;
    atomic_fetch_sub(&comm->inside, 1);
    return state;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int count, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    *comm = NULL;
    if (rank < 0 || rank >= count || count > 64) return ncclInvalidArgument;
    ncclComm_t made = calloc(1, sizeof *made);
    struct nccl_shared *shared = made ? map_shared(&id, shared_bytes(count)) : NULL;
    if (!shared) {
        free(made);
        return ncclSystemError;
    }
    made->shared = shared;
    made->shared_bytes = shared_bytes(count);
    made->count = count;
    made->rank = rank;
    atomic_store(&made->state, ncclInProgress);
    atomic_store(&shared->pids[rank], (int)getpid());
    pthread_mutex_init(&made->lock, NULL);
    pthread_create(&made->worker, NULL, nccl_work, made);
    *comm = made;
    made->blocks = config->blocking != 0;
    return made->blocks ? wait_blocking(made, false) : ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    *state = (ncclResult_t)atomic_load(&comm->state);
    bool is_busy = atomic_load(&comm->has_work) > 0;
    if (comm->is_finalized) is_busy |= atomic_load(&comm->shared->finished) < comm->count;
    if (*state == ncclSuccess && is_busy) *state = ncclInProgress;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    comm->is_finalized = true;
    atomic_fetch_add(&comm->shared->finished, 1);
    return comm->blocks ? wait_blocking(comm, true) : ncclInProgress;
}

static void comm_free(ncclComm_t comm)
{
    const struct timespec pause = {0, 20000};
    while (atomic_load(&comm->inside))
        nanosleep(&pause, NULL);
    pthread_join(comm->worker, NULL);
    for (struct nccl_call *next; comm->first; comm->first = next) {
        next = comm->first->next;
        free(comm->first);
    }
    atomic_store(&comm->shared->pids[comm->rank], 0);
    munmap(comm->shared, (size_t)comm->shared_bytes);
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    atomic_store(&comm->is_ending, 1);
    comm_free(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    atomic_store(&comm->is_aborted, 1);
    atomic_store(&comm->shared->is_aborted, 1);
    comm_free(comm);
    return ncclSuccess;
}

// As with memory of cudaMalloc on many machines.
ncclResult_t ncclCommRegister(ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    *handle = NULL;
    if (!memory || bytes == 0) return ncclInvalidArgument;
    // Every other rank has none, so that both ways are taken.
    if (comm->rank % 2) return ncclInvalidUsage;
    *handle = memory;
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle)
{
    (void)comm;
    return handle ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    if (*memory) memset(*memory, 0xFF, bytes);
    return *memory ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *memory)
{
    free(memory);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const NAMES[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return NAMES[result];
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

static void append(struct nccl_call **first, struct nccl_call **last, struct nccl_call *call)
{
    if (*last)
        (*last)->next = call;
    else
        *first = call;
    *last = call;
}

// Hands the calls of one communicator to its thread.
static ncclResult_t hand_over(ncclComm_t comm, struct pending *pending)
{
    struct nccl_call *first = NULL, *last = NULL, **at = &pending->first;
    while (*at) {
        struct nccl_call *call = *at;
        if (call->comm != comm) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        call->next = NULL;
        atomic_fetch_add(&comm->has_work, 1);
        append(&first, &last, call);
    }
    last->ends_group = true;
    pthread_mutex_lock(&comm->lock);
    while (first) {
        struct nccl_call *next = first->next;
        first->next = NULL;
        append(&comm->first, &comm->last, first);
        first = next;
    }
    pthread_mutex_unlock(&comm->lock);
    if (!comm->blocks) atomic_fetch_add(threads_of(), 1);
    return comm->blocks ? wait_blocking(comm, false) : ncclInProgress;
}

static ncclResult_t end_group(struct pending *pending)
{
    ncclResult_t result = ncclSuccess;
    while (pending->first)
        result = hand_over(pending->first->comm, pending);
    pending->last = NULL;
    return result;
}

ncclResult_t ncclGroupStart(void)
{
    pending_of()->depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    struct pending *pending = pending_of();
    if (pending->depth == 0) return ncclInvalidUsage;
    return --pending->depth == 0 ? end_group(pending) : ncclSuccess;
}

// NCCL refuses a communicator that is still being made, or is busy with an earlier call.
static ncclResult_t ask(struct nccl_call asked)
{
    struct pending *pending = pending_of();
    ncclResult_t state = (ncclResult_t)atomic_load(&asked.comm->state);
    bool is_peer = asked.peer >= 0 && asked.peer < asked.comm->count;
    if (state != ncclSuccess || !is_peer) return ncclInvalidArgument;
    struct nccl_call *call = malloc(sizeof *call);
    if (!call) return ncclSystemError;
    *call = asked;
    append(&pending->first, &pending->last, call);
    return pending->depth ? ncclSuccess : end_group(pending);
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return ask((struct nccl_call){.kind = CALL_SEND,
                                  .from = from,
                                  .count = (int64_t)count,
                                  .type = type,
                                  .peer = peer,
                                  .comm = comm,
                                  .stream = stream});
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return ask((struct nccl_call){.kind = CALL_RECEIVE,
                                  .to = to,
                                  .count = (int64_t)count,
                                  .type = type,
                                  .peer = peer,
                                  .comm = comm,
                                  .stream = stream});
}

static ncclResult_t collective(enum call_kind kind, const void *from, void *to, size_t count,
                               ncclDataType_t type, ncclRedOp_t operation, int root,
                               ncclComm_t comm, cudaStream_t stream)
{
    return ask((struct nccl_call){.kind = kind,
                                  .from = from,
                                  .to = to,
                                  .count = (int64_t)count,
                                  .type = type,
                                  .operation = operation,
                                  .peer = root,
                                  .comm = comm,
                                  .stream = stream});
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
    return collective(CALL_ALL_REDUCE, from, to, count, type, operation, 0, comm, stream);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return collective(CALL_ALL_GATHER, from, to, count, type, ncclSum, 0, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
    return collective(CALL_REDUCE_SCATTER, from, to, count, type, operation, 0, comm, stream);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return collective(CALL_BROADCAST, from, to, count, type, ncclSum, root, comm, stream);
}

ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t comm, cudaStream_t stream)
{
    return collective(CALL_REDUCE, from, to, count, type, operation, root, comm, stream);
}
