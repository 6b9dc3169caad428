#include "executor/nccl/transport.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Numbers of the host over NCCL, where the other transport is not for that: they go to the device,
// are gathered, and come back. On a stream and a communicator of their own, which is made when a
// group is first asked for numbers: what waits on the rank's streams does not hold them up.

static const char *check(struct communicator *communicator, cudaError_t error)
{
    if (error == cudaSuccess) return NULL;
    return nccl_fail(communicator, "rank %d: numbers of the host: %s", communicator->rank,
                     cudaGetErrorString(error));
}

// Opened once, also where that failed: the failure stays with the communicator.
static const char *open_stream(struct communicator *communicator)
{
    struct nccl_numbers *numbers = &communicator->numbers;
    if (numbers->is_open) return NULL;
    numbers->is_open = true;
    const char *failure = check(communicator, nccl_stream_new(&numbers->stream));
    return failure ? failure
                   : check(communicator,
                           cudaEventCreateWithFlags(&numbers->there, cudaEventDisableTiming));
}

// Grown and kept: numbers of the host are few.
static const char *reserve(struct communicator *communicator, int64_t bytes)
{
    struct nccl_numbers *numbers = &communicator->numbers;
    if (bytes <= numbers->room_bytes) return NULL;
    if (numbers->room) communicator->backend->release(communicator->device, numbers->room);
    // Forgotten before another is asked for: a failure must not leave memory that was given back.
    numbers->room_bytes = 0;
    numbers->room = NULL;
    const char *failure =
        communicator->backend->allocate(communicator->device, bytes, &numbers->room);
    if (failure) return nccl_fail(communicator, "%s", failure);
    numbers->room_bytes = bytes;
    return NULL;
}

// Not by synchronizing: a rank that is gone would be waited for for ever.
static const char *wait_stream(struct communicator *communicator)
{
    struct nccl_numbers *numbers = &communicator->numbers;
    const char *failure = check(communicator, cudaEventRecord(numbers->there, numbers->stream));
    while (!failure && cudaEventQuery(numbers->there) != cudaSuccess) {
        if (communicator->beside->progress)
            communicator->beside->progress(communicator->beside_communicator);
        nccl_pause();
        if (atomic_load(&communicator->has_failed)) failure = communicator->text;
    }
    return failure;
}

static const char *gather_on_device(struct group *group, const void *mine, void *all, int64_t bytes)
{
    struct communicator *communicator = group->communicator;
    struct nccl_numbers *numbers = &communicator->numbers;
    char *place = (char *)numbers->room + group->me * bytes;
    assert(group->count * bytes <= numbers->room_bytes && bytes % 8 == 0);
    ncclResult_t result = ncclSuccess;
    const char *failure =
        check(communicator,
              cudaMemcpyAsync(place, mine, (size_t)bytes, cudaMemcpyHostToDevice, numbers->stream));
    if (failure) return failure;
    pthread_mutex_lock(&communicator->lock);
    // Words of 8 bytes, whatever they hold: nothing is computed.
    if (group->numbers)
        result = ncclAllGather(place, numbers->room, (size_t)bytes / 8, ncclFloat64, group->numbers,
                               numbers->stream);
    pthread_mutex_unlock(&communicator->lock);
    failure = nccl_check(communicator, result, "numbers", group->purpose);
    if (!failure) failure = nccl_settle(communicator, &group->numbers, "numbers", group->purpose);
    if (!failure) failure = wait_stream(communicator);
    if (!failure)
        failure =
            check(communicator, cudaMemcpyAsync(all, numbers->room, (size_t)(group->count * bytes),
                                                cudaMemcpyDeviceToHost, numbers->stream));
    return failure ? failure : wait_stream(communicator);
}

const char *nccl_gather_numbers(struct group *group, const void *mine, void *all, int count)
{
    struct communicator *communicator = group->communicator;
    int64_t bytes = (int64_t)count * 8;
    assert(communicator);
    if (atomic_load(&communicator->has_failed)) return communicator->text;
    if (group->count == 1) {
        memmove(all, mine, (size_t)bytes);
        return NULL;
    }
    const char *failure = group->numbers ? NULL : nccl_open_comm(group, false, &group->numbers);
    if (!failure) failure = open_stream(communicator);
    if (!failure) failure = reserve(communicator, group->count * bytes);
    return failure ? failure : gather_on_device(group, mine, all, bytes);
}

const char *nccl_sum_numbers(struct group *group, double *values, int count)
{
    size_t whole = (size_t)group->count * (size_t)count;
    double *all = calloc(whole + 1, sizeof *all);
    if (!all) return nccl_fail(group->communicator, "out of memory for a sum");
    const char *failure = nccl_gather_numbers(group, values, all, count);
    // In the order of the ranks, as everywhere.
    for (int i = 0; i < count && !failure; i++) {
        values[i] = 0;
        for (int member = 0; member < group->count; member++)
            values[i] += all[(int64_t)member * count + i];
    }
    free(all);
    return failure;
}

// A piece at a time is gathered, and that of `from` kept: what the others bring costs a link's
// other direction.
const char *nccl_broadcast_numbers(struct group *group, void *numbers, int64_t count, int from)
{
    enum { PIECE = 1 << 16 };
    const char *failure = NULL;
    assert(from >= 0 && from < group->count && count >= 0);
    int64_t *all = malloc((size_t)group->count * PIECE * sizeof *all);
    if (!all) return nccl_fail(group->communicator, "out of memory for a broadcast");
    for (int64_t first = 0; first < count && !failure; first += PIECE) {
        int64_t length = count - first < PIECE ? count - first : PIECE;
        int64_t *piece = (int64_t *)numbers + first;
        failure = nccl_gather_numbers(group, piece, all, (int)length);
        if (!failure) memcpy(piece, all + from * length, (size_t)length * sizeof *all);
    }
    free(all);
    return failure;
}

void nccl_numbers_free(struct communicator *communicator)
{
    struct nccl_numbers *numbers = &communicator->numbers;
    if (numbers->room) communicator->backend->release(communicator->device, numbers->room);
    if (numbers->there) cudaEventDestroy(numbers->there);
    if (numbers->stream) cudaStreamDestroy(numbers->stream);
    *numbers = (struct nccl_numbers){0};
}
