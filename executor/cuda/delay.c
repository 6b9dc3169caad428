#include "executor/cuda/cuda.h"

#include <assert.h>

// Time that passes on a stream in the place of what is elsewhere.

static struct cuda_device *own_of(struct device *device)
{
    return (struct cuda_device *)(void *)device;
}

static const char *launch(struct cuda_device *own, enum stream stream, int multiprocessors,
                          struct delay_args args)
{
    int count = 0;
    const char *fault =
        cuda_fault(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, own->ordinal));
    if (fault) return fault;
    args.blocks = multiprocessors < count ? multiprocessors : count;
    assert(args.blocks > 0);
    kernel_delay(own->streams[stream], &args);
    return cuda_fault(cudaGetLastError());
}

const char *cuda_delay(struct device *device, enum stream stream, double seconds,
                       int multiprocessors)
{
    if (seconds <= 0 || multiprocessors < 1) return NULL;
    const struct delay_args args = {.ns = (int64_t)(seconds * 1e9)};
    return launch(own_of(device), stream, multiprocessors, args);
}

const char *cuda_delay_origin(struct device *device, enum stream stream)
{
    struct cuda_device *own = own_of(device);
    void *memory = own->origin_ns;
    const char *fault = memory ? NULL : cuda_fault(cudaMalloc(&memory, sizeof *own->origin_ns));
    if (fault) return fault;
    own->origin_ns = memory;
    fault = launch(own, stream, 1, (struct delay_args){.origin_ns = memory, .marks = true});
    return fault ? fault : cuda_fault(cudaStreamSynchronize(own->streams[stream]));
}

const char *cuda_delay_until(struct device *device, enum stream stream, double seconds,
                             int multiprocessors)
{
    struct cuda_device *own = own_of(device);
    if (!own->origin_ns) return "no origin to wait from";
    const struct delay_args args = {.ns = (int64_t)(seconds * 1e9), .origin_ns = own->origin_ns};
    return launch(own, stream, multiprocessors < 1 ? 1 : multiprocessors, args);
}
