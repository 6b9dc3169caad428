#include "tests/gpu/emulate_nccl.h"

#include <stdlib.h>
#include <string.h>

// Streams and events as far as the transport `nccl` makes its own.

struct CUevent_st {
    cudaStream_t stream;
    uint64_t after;
};

struct streams {
    pthread_mutex_t lock;
    cudaStream_t first;
};

static struct streams *streams_of(void)
{
    static struct streams streams = {.lock = PTHREAD_MUTEX_INITIALIZER};
    return &streams;
}

bool stream_is_own(cudaStream_t stream)
{
    struct streams *streams = streams_of();
    pthread_mutex_lock(&streams->lock);
    cudaStream_t at = streams->first;
    while (at && at != stream)
        at = at->next;
    pthread_mutex_unlock(&streams->lock);
    return at != NULL;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    struct streams *streams = streams_of();
    (void)flags;
    if (priority != -5) return cudaErrorMemoryAllocation;  // communication comes first
    *stream = calloc(1, sizeof **stream);
    if (!*stream) return cudaErrorMemoryAllocation;
    pthread_mutex_lock(&streams->lock);
    (*stream)->next = streams->first;
    streams->first = *stream;
    pthread_mutex_unlock(&streams->lock);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    struct streams *streams = streams_of();
    pthread_mutex_lock(&streams->lock);
    cudaStream_t *at = &streams->first;
    while (*at && *at != stream)
        at = &(*at)->next;
    if (*at) *at = stream->next;
    pthread_mutex_unlock(&streams->lock);
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->stream = stream_is_own(stream) ? stream : NULL;
    event->after = event->stream ? atomic_load(&stream->issued) : 0;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    bool has_passed = !event->stream || atomic_load(&event->stream->done) >= event->after;
    return has_passed ? cudaSuccess : (cudaError_t)600;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return cudaSuccess;
}

// At once: who copies has waited for what it reads.
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind, (void)stream;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    (void)device;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "out of memory";
}
