#include "executor/nccl/transport.h"

#include <assert.h>
#include <string.h>

// Calls block until they are on the stream, without the lock: the watcher has to be able to abort
// them. Where parts differ in size NCCL has no collective of its own: one broadcast or reduction a
// member, all in one launch.

ncclDataType_t nccl_type(const struct backend *backend, enum element element)
{
    switch (number_of(backend, element)) {
    case NUMBER_FLOAT:
        return ncclFloat32;
    case NUMBER_DOUBLE:
        return ncclFloat64;
    case NUMBER_BF16:
        return ncclBfloat16;
    default:
        break;
    }
    return ncclFloat16;
}

cudaError_t nccl_stream_new(cudaStream_t *stream)
{
    int least = 0, greatest = 0;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (error != cudaSuccess) return error;
    return cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, greatest);
}

cudaStream_t nccl_stream(const struct communicator *communicator, enum stream stream)
{
    return communicator->backend->native_stream(communicator->device, stream);
}

struct call {
    struct group *group;
    ncclComm_t comm;  // of the group; NULL: it is of one rank
    ncclDataType_t type;
    int64_t size;  // of a number
    enum stream stream;
    cudaStream_t on;
    const char *what;
    ncclResult_t result;
};

static struct call call_make(struct group *group, enum stream stream, enum element element,
                             const char *what)
{
    const struct communicator *communicator = group->communicator;
    assert(stream < STREAM_COUNT);
    return (struct call){
        .group = group,
        .type = nccl_type(communicator->backend, element),
        .size = number_bytes(number_of(communicator->backend, element)),
        .stream = stream,
        .on = nccl_stream(communicator, stream),
        .what = what,
    };
}

// False after a failure. Until call_end the watcher knows that the rank may be in a call.
static bool call_begin(struct call *call)
{
    struct communicator *communicator = call->group->communicator;
    pthread_mutex_lock(&communicator->lock);
    bool has_comm = call->group->comm || call->group->count == 1;
    bool begins = has_comm && !atomic_load(&communicator->has_failed);
    call->comm = call->group->comm;
    // Under the lock: the watcher either sees this, or has aborted before.
    if (begins) atomic_store(&call->group->is_inside, 1);
    pthread_mutex_unlock(&communicator->lock);
    if (begins) return true;
    if (!has_comm)
        nccl_fail(communicator, "group '%s' is for numbers of the host", call->group->purpose);
    return false;
}

// The first failure of a call's parts, which the others follow from.
static void note(struct call *call, ncclResult_t result)
{
    bool is_first = call->result == ncclSuccess || call->result == ncclInProgress;
    if (is_first && result != ncclSuccess) call->result = result;
}

static const char *call_end(struct call *call)
{
    struct group *group = call->group;
    atomic_store(&group->is_inside, 0);
    return nccl_check(group->communicator, call->result, call->what, group->purpose);
}

static const char *copy(const struct call *call, void *to, const void *from, int64_t count)
{
    const struct communicator *communicator = call->group->communicator;
    if (to == from || count == 0) return NULL;
    return communicator->backend->copy(communicator->device, call->stream, COPY_DEVICE, to, from,
                                       count * call->size);
}

static bool are_equal(const int64_t *counts, int count)
{
    for (int member = 1; member < count; member++) {
        if (counts[member] != counts[0]) return false;
    }
    return true;
}

// Nothing for anybody: NCCL need not be called, and all ranks know it.
static bool are_none(const int64_t *counts, int count)
{
    return counts[0] == 0 && are_equal(counts, count);
}

const char *nccl_all_reduce(struct group *group, enum stream stream, enum element element,
                            void *data, int64_t count, enum combine combine)
{
    struct call call = call_make(group, stream, element, "all-reduce");
    assert(count >= 0 && "none is a count too");
    if (count == 0 || group->count == 1) return NULL;
    if (!call_begin(&call)) return group->communicator->text;
    ncclRedOp_t operation = combine == COMBINE_SUM ? ncclSum : ncclMax;
    note(&call, ncclAllReduce(data, data, (size_t)count, call.type, operation, call.comm, call.on));
    return call_end(&call);
}

const char *nccl_all_gather(struct group *group, enum stream stream, enum element element,
                            const void *mine, void *all, const int64_t *counts)
{
    struct call call = call_make(group, stream, element, "all-gather");
    if (group->count == 1) return copy(&call, all, mine, counts[0]);
    if (are_none(counts, group->count)) return NULL;
    if (!call_begin(&call)) return group->communicator->text;
    if (are_equal(counts, group->count)) {
        note(&call, ncclAllGather(mine, all, (size_t)counts[0], call.type, call.comm, call.on));
        return call_end(&call);
    }
    int64_t part = 0;
    note(&call, ncclGroupStart());
    for (int member = 0; member < group->count; member++) {
        void *to = bytes_at(all, part * call.size);
        if (counts[member] > 0)
            note(&call, ncclBroadcast(member == group->me ? mine : to, to, (size_t)counts[member],
                                      call.type, member, call.comm, call.on));
        part += counts[member];
    }
    note(&call, ncclGroupEnd());
    return call_end(&call);
}

const char *nccl_reduce_scatter(struct group *group, enum stream stream, enum element element,
                                const void *all, void *mine, const int64_t *counts)
{
    struct call call = call_make(group, stream, element, "reduce-scatter");
    if (group->count == 1) return copy(&call, mine, all, counts[0]);
    if (are_none(counts, group->count)) return NULL;
    if (!call_begin(&call)) return group->communicator->text;
    if (are_equal(counts, group->count)) {
        note(&call, ncclReduceScatter(all, mine, (size_t)counts[0], call.type, ncclSum, group->comm,
                                      call.on));
        return call_end(&call);
    }
    int64_t part = 0;
    note(&call, ncclGroupStart());
    for (int member = 0; member < group->count; member++) {
        const void *from = bytes_at(all, part * call.size);
        if (counts[member] > 0)
            note(&call, ncclReduce(from, member == group->me ? mine : NULL, (size_t)counts[member],
                                   call.type, ncclSum, member, call.comm, call.on));
        part += counts[member];
    }
    note(&call, ncclGroupEnd());
    return call_end(&call);
}

const char *nccl_all_to_all(struct group *group, enum stream stream, enum element element,
                            const void *from, const int64_t *sent, void *to,
                            const int64_t *received)
{
    struct call call = call_make(group, stream, element, "all-to-all");
    int64_t out = 0, in = 0;
    int me = group->me;
    assert(me >= 0 && me < group->count);
    if (sent[me] != received[me])
        return nccl_fail(group->communicator,
                         "group %s: rank %d sends itself another size than it expects",
                         group->purpose, group->communicator->rank);
    if (!call_begin(&call)) return group->communicator->text;
    const void *own_from = NULL;
    void *own_to = NULL;
    if (call.comm) note(&call, ncclGroupStart());
    for (int member = 0; member < group->count; member++) {
        const void *give = bytes_at(from, out * call.size);
        void *take = bytes_at(to, in * call.size);
        out += sent[member];
        in += received[member];
        if (member == me) {
            own_from = give;
            own_to = take;
            continue;
        }
        if (sent[member] > 0)
            note(&call,
                 ncclSend(give, (size_t)sent[member], call.type, member, call.comm, call.on));
        if (received[member] > 0)
            note(&call,
                 ncclRecv(take, (size_t)received[member], call.type, member, call.comm, call.on));
    }
    if (call.comm) note(&call, ncclGroupEnd());
    const char *failure = call_end(&call);
    return failure ? failure : copy(&call, own_to, own_from, sent[me]);
}
