#include "executor/cuda/cuda.h"
#include "plan/unfused.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The table that the plug-in exports, and what needs no kernel.

const struct backend *meshwright_backend(void);

const char CUDA_NO_MEMORY[] = "no memory left on the device";

struct event {
    cudaEvent_t event;
};

static struct cuda_device *own_of(struct device *device)
{
    return (struct cuda_device *)(void *)device;
}

const char *cuda_fault(cudaError_t error)
{
    if (error == cudaSuccess) return NULL;
    (void)cudaGetLastError();
    return error == cudaErrorMemoryAllocation ? CUDA_NO_MEMORY : cudaGetErrorString(error);
}

// What grows is in use until its stream has passed, for which freeing need not wait.
void *cuda_scratch(struct cuda_device *device, enum stream stream, enum scratch scratch,
                   int64_t bytes)
{
    enum { GRAIN = 1 << 16 };
    void **memory = &device->scratch[stream][scratch];
    int64_t *held = &device->scratch_bytes[stream][scratch];
    assert(bytes >= 0 && scratch < SCRATCH_COUNT && stream < STREAM_COUNT);
    if (*memory && bytes <= *held) return *memory;
    if (device->is_capturing) return NULL;
    if (*memory && cuda_fault(cudaStreamSynchronize(device->streams[stream]))) return NULL;
    device->scratch_age++;
    int64_t rounded = (bytes / GRAIN + 1) * GRAIN;
    cudaFree(*memory);
    *held = 0;
    // That it lacks is said by the caller.
    if (cuda_fault(cudaMalloc(memory, (size_t)rounded))) *memory = NULL;
    if (*memory) *held = rounded;
    assert(!*memory || *held >= bytes);
    return *memory;
}

// The kernel says which driver is loaded; CUDA only tells which CUDA it is made for.
static void read_driver(char *text, size_t size)
{
    FILE *file = fopen("/sys/module/nvidia/version", "r");
    text[0] = '\0';
    if (!file) return;
    if (!fgets(text, (int)size, file)) text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

// Of one clock, all multiprocessors: 16 on every architecture from 8.0 on (CUDA C++ programming
// guide, throughput of native arithmetic instructions).
enum { EXPONENTIALS = 16 };

static void describe(struct backend_device_facts *facts, const struct cudaDeviceProp *properties,
                     int device_count)
{
    int runtime = 0, clock_khz = 0;
    cudaRuntimeGetVersion(&runtime);
    if (cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0) != cudaSuccess) clock_khz = 0;
    *facts = (struct backend_device_facts){
        .memory_bytes = (int64_t)properties->totalGlobalMem,
        .device_count = device_count,
        .multiprocessor_count = properties->multiProcessorCount,
        .capability = 10 * properties->major + properties->minor,
        .clock_hz = 1e3 * clock_khz,
        .cache_bytes = properties->l2CacheSize,
        .exponential_per_s = 1e3 * clock_khz * EXPONENTIALS * properties->multiProcessorCount,
    };
    read_driver(facts->driver, sizeof facts->driver);
    snprintf(facts->name, sizeof facts->name, "%.100s", properties->name);
    snprintf(facts->libraries, sizeof facts->libraries, "CUDA %d.%d, cuBLASLt %lld, cuDNN %lld",
             runtime / 1000, runtime % 1000 / 10, (long long)gemm_library_version(),
             (long long)sdpa_library_version());
}

// 8.0 is the first with arithmetic in bf16.
static const char *probe(struct backend_device_facts *facts)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver) return "no device, or no driver as new as this CUDA";
    if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) return "no device";
    if (error != cudaSuccess) return cudaGetErrorString(error);
    struct cudaDeviceProp properties;
    error = cudaGetDeviceProperties(&properties, 0);
    if (error != cudaSuccess) return cudaGetErrorString(error);
    if (properties.major < 8) return "the device is older than compute capability 8.0";
    describe(facts, &properties, count);
    return NULL;
}

static void close_device(struct device *device)
{
    struct cuda_device *own = own_of(device);
    cudaDeviceSynchronize();
    sdpa_close(own);
    gemm_close(own);
    for (int s = 0; s < STREAM_COUNT; s++) {
        for (int i = 0; i < SCRATCH_COUNT; i++)
            cudaFree(own->scratch[s][i]);
        if (own->streams[s]) cudaStreamDestroy(own->streams[s]);
    }
    for (int i = 0; i < own->rotation_count; i++)
        cudaFree(own->rotations[i].table);
    free(own->rotations);
    free(own->paths);
    cudaFreeHost(own->fault);
    cudaFree(own->origin_ns);
    free(own);
}

// Blocks of kernels that communicate, or bring what others wait for, begin before those that
// compute.
static const char *open_streams(struct cuda_device *own)
{
    int least = 0, greatest = 0;
    const char *fault = cuda_fault(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    for (int s = 0; s < STREAM_COUNT && !fault; s++) {
        int priority = s == STREAM_COMPUTE ? least : greatest;
        fault = cuda_fault(
            cudaStreamCreateWithPriority(&own->streams[s], cudaStreamNonBlocking, priority));
    }
    return fault;
}

// Ranks beyond the devices of a host share them in turn.
static const char *open_at(int ordinal, enum number compute, bool is_low_precision,
                           struct device **device)
{
    int count = 0;
    void *fault_flag = NULL;
    assert(ordinal >= 0);
    const char *fault = cuda_fault(cudaGetDeviceCount(&count));
    if (!fault && count == 0) fault = "no device";
    if (!fault) fault = cuda_fault(cudaSetDevice(ordinal % count));
    if (fault) return fault;
    struct cuda_device *own = calloc(1, sizeof *own);
    if (!own) return "no memory left on this host";
    own->ordinal = ordinal % count;
    own->compute = compute;
    own->is_low_precision = is_low_precision;
    fault = open_streams(own);
    if (!fault) fault = cuda_fault(cudaHostAlloc(&fault_flag, sizeof(int), cudaHostAllocMapped));
    own->fault = fault_flag;
    if (!fault) *own->fault = 0;
    own->paths = calloc(ATTENTION_PATH_MAX, sizeof *own->paths);
    if (!own->paths) fault = "no memory left on this host";
    if (!fault) fault = gemm_open(own);
    if (!fault) fault = sdpa_open(own);
    *device = (struct device *)(void *)own;
    if (!fault) return NULL;
    close_device(*device);
    *device = NULL;
    return fault;
}

static const char *open_fp32(int ordinal, struct device **device)
{
    return open_at(ordinal, NUMBER_FP32, false, device);
}
static const char *open_bf16(int ordinal, struct device **device)
{
    return open_at(ordinal, NUMBER_BF16, false, device);
}
static const char *open_fp16(int ordinal, struct device **device)
{
    return open_at(ordinal, NUMBER_FP16, false, device);
}

// Tensors between the GEMMs are of bf16.
static const char *open_fp8(int ordinal, struct device **device)
{
    return open_at(ordinal, NUMBER_BF16, true, device);
}

// A byte more, so that none is an address too.
static const char *allocate(struct device *device, int64_t bytes, void **memory)
{
    (void)device;
    return cuda_fault(cudaMalloc(memory, (size_t)bytes + 1));
}

// Whatever may still use it has to be done, which freeing need not wait for.
static void release(struct device *device, void *memory)
{
    (void)device;
    if (memory) cudaDeviceSynchronize();
    cudaFree(memory);
}

static const char *allocate_host(struct device *device, int64_t bytes, void **memory)
{
    (void)device;
    return cuda_fault(cudaHostAlloc(memory, (size_t)bytes + 1, cudaHostAllocDefault));
}

static void release_host(struct device *device, void *memory)
{
    (void)device;
    cudaFreeHost(memory);
}

// Memory of the host may be any: from and to it a copy has been done when this returns.
static const char *copy(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes)
{
    cudaStream_t on = own_of(device)->streams[stream];
    bool leaves = kind == COPY_TO_HOST || kind == COPY_TO_PINNED;
    enum cudaMemcpyKind direction = kind == COPY_DEVICE ? cudaMemcpyDeviceToDevice
                                    : leaves            ? cudaMemcpyDeviceToHost
                                                        : cudaMemcpyHostToDevice;
    if (bytes <= 0) return NULL;
    const char *fault = cuda_fault(cudaMemcpyAsync(to, from, (size_t)bytes, direction, on));
    // Pinned memory stays where it is: the stream says when it has passed.
    bool waits = kind == COPY_TO_HOST || kind == COPY_FROM_HOST;
    if (fault || !waits) return fault;
    return cuda_fault(cudaStreamSynchronize(on));
}

// Beside what the caller allocates: scratch, and tables of ropes.
static int64_t own_bytes(struct device *device)
{
    const struct cuda_device *own = own_of(device);
    int64_t bytes = 0;
    for (int s = 0; s < STREAM_COUNT; s++) {
        for (int i = 0; i < SCRATCH_COUNT; i++)
            bytes += own->scratch_bytes[s][i];
    }
    for (int i = 0; i < own->rotation_count; i++)
        bytes += own->rotations[i].count * own->rotations[i].dims * (int64_t)sizeof(float);
    return bytes;
}

static const char *fill(struct device *device, enum stream stream, void *memory, int byte,
                        int64_t bytes)
{
    if (bytes <= 0) return NULL;
    cudaStream_t on = own_of(device)->streams[stream];
    return cuda_fault(cudaMemsetAsync(memory, byte, (size_t)bytes, on));
}

// Kernels cannot fail by a text: they set a flag, which is read when they are over.
static const char *synchronize(struct device *device, enum stream stream)
{
    struct cuda_device *own = own_of(device);
    const char *fault = cuda_fault(cudaStreamSynchronize(own->streams[stream]));
    if (fault) return fault;
    return *own->fault ? "an id that its table does not have" : NULL;
}

static struct event *event_new(struct device *device)
{
    (void)device;
    struct event *event = calloc(1, sizeof *event);
    if (event && cudaEventCreate(&event->event) == cudaSuccess) return event;
    free(event);
    return NULL;
}

static void event_free(struct device *device, struct event *event)
{
    (void)device;
    cudaEventDestroy(event->event);
    free(event);
}

static const char *event_record(struct device *device, enum stream stream, struct event *event)
{
    return cuda_fault(cudaEventRecord(event->event, own_of(device)->streams[stream]));
}

static const char *event_wait(struct device *device, enum stream stream, struct event *event)
{
    return cuda_fault(cudaStreamWaitEvent(own_of(device)->streams[stream], event->event, 0));
}

// CUDA says milliseconds, to about half a microsecond.
static double event_seconds(struct device *device, struct event *from, struct event *to)
{
    float milliseconds = 0;
    (void)device;
    cudaEventElapsedTime(&milliseconds, from->event, to->event);
    return 1e-3 * (double)milliseconds;
}

static int device_count(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

static void *native_stream(struct device *device, enum stream stream)
{
    return own_of(device)->streams[stream];
}

static const struct backend *at_precision(enum precision precision);

#define BACKEND_AT(opens, bytes, precision, narrow)                                                \
    {                                                                                              \
        .version = BACKEND_VERSION, .name = "cuda", .real_bytes = 4, .compute_bytes = (bytes),     \
        .compute = (precision), .is_asynchronous = true, .is_low_precision = (narrow),             \
        .joins = CUDA_JOINS, .run_joined = cuda_run_joined, .at = at_precision, .probe = probe,    \
        .tune = gemm_tune, .choices = gemm_choices, .choose = gemm_take_choices,                   \
        .unfused_attention = (1u << UNFUSED_COUNT) - 1, .attention_paths = cuda_attention_paths,   \
        .open = (opens), .close = close_device, .allocate = allocate, .release = release,          \
        .allocate_host = allocate_host, .release_host = release_host, .copy = copy,                \
        .own_bytes = own_bytes, .fill = fill, .box = cuda_box, .can_run = cuda_can_run,            \
        .run = cuda_run, .update = cuda_update, .round = cuda_round, .widen = cuda_widen,          \
        .sum_squares = cuda_sum_squares, .update_all = cuda_update_all,                            \
        .sum_squares_of = cuda_sum_squares_of, .scale = cuda_scale, .synchronize = synchronize,    \
        .delay = cuda_delay, .delay_origin = cuda_delay_origin, .delay_until = cuda_delay_until,   \
        .device_count = device_count, .native_stream = native_stream, .event_new = event_new,      \
        .event_free = event_free, .event_record = event_record, .event_wait = event_wait,          \
        .event_seconds = event_seconds, .capture_begin = cuda_capture_begin,                       \
        .capture_end = cuda_capture_end, .replay = cuda_replay, .capture_free = cuda_capture_free, \
    }

static const struct backend AT_FP32 = BACKEND_AT(open_fp32, 4, PRECISION_FP32, false);
static const struct backend AT_BF16 = BACKEND_AT(open_bf16, 2, PRECISION_BF16, false);
static const struct backend AT_FP16 = BACKEND_AT(open_fp16, 2, PRECISION_FP16, false);
static const struct backend AT_FP8 = BACKEND_AT(open_fp8, 2, PRECISION_BF16, true);

static const struct backend *at_precision(enum precision precision)
{
    switch (precision) {
    case PRECISION_FP32:
        return &AT_FP32;
    case PRECISION_BF16:
        return &AT_BF16;
    case PRECISION_FP16:
        return &AT_FP16;
    case PRECISION_FP8:
        return &AT_FP8;
    default:
        return NULL;
    }
}

__attribute__((visibility("default"))) const struct backend *meshwright_backend(void)
{
    return &AT_FP32;
}
