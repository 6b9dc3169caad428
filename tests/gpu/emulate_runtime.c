#include "executor/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// CUDA's runtime, cuBLASLt's products and cuDNN's attention for the emulation: memory is the
// host's, products are plain loops, and attention has no engine, so that the other way is taken.

struct CUevent_st {
    struct timespec time;
};

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "out of memory";
}
cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    (void)device;
    *properties = (struct cudaDeviceProp){.name = "emulation on the host",
                                          .totalGlobalMem = (size_t)1 << 32,
                                          .major = 9,
                                          .multiProcessorCount = 1,
                                          .l2CacheSize = 1 << 20};
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    *value = attribute == cudaDevAttrClockRate ? 1000000 : 1;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    (void)device;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}
// Never zeros: kernels must write before they read.
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    if (!*memory) return cudaErrorMemoryAllocation;
    memset(*memory, 0xFF, bytes);
    return cudaSuccess;
}
cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(memory, bytes);
}
cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind, (void)stream;
    memmove(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    (void)kind, (void)stream;
    for (size_t i = 0; i < height; i++)
        memmove((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(memory, byte, bytes);
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = NULL;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event)
{
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
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &event->time);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    *milliseconds = (float)(1e3 * (double)(to->time.tv_sec - from->time.tv_sec) +
                            1e-6 * (double)(to->time.tv_nsec - from->time.tv_nsec));
    return cudaSuccess;
}

const char *gemm_open(struct cuda_device *device)
{
    (void)device;
    return NULL;
}
void gemm_close(struct cuda_device *device)
{
    (void)device;
}
int64_t gemm_library_version(void)
{
    return 0;
}

static double read_real(struct reals x, int64_t at)
{
    if (x.number == NUMBER_FP32) return (double)((float *)x.data)[at];
    uint16_t bits = ((uint16_t *)x.data)[at];
    return (double)(x.number == NUMBER_BF16 ? emulate_from_bf16(bits) : emulate_from_fp16(bits));
}
static void write_real(struct reals x, int64_t at, double value)
{
    if (x.number == NUMBER_FP32) {
        ((float *)x.data)[at] = (float)value;
    } else if (x.number == NUMBER_BF16) {
        ((uint16_t *)x.data)[at] = emulate_to_bf16((float)value);
    } else {
        ((uint16_t *)x.data)[at] = emulate_to_fp16((float)value);
    }
}

// What cuBLASLt refuses is refused here too.
static const char *check(const struct gemm *g)
{
    int64_t a_width = g->is_a_turned ? g->rows : g->inner;
    int64_t b_width = g->is_b_turned ? g->inner : g->columns;
    bool fits = g->a_stride >= a_width && g->b_stride >= b_width && g->c_stride >= g->columns;
    if (!fits) return "a leading dimension is too small";
    bool is_type =
        g->a.number == g->b.number && (g->c.number == g->a.number || g->c.number == NUMBER_FP32);
    return is_type ? NULL : "no product of these types";
}

const char *gemm_run(struct cuda_device *device, enum stream stream, const struct gemm *g)
{
    (void)device, (void)stream;
    const char *fault = check(g);
    for (int64_t i = 0; i < g->batch * g->rows * g->columns && !fault; i++) {
        int64_t batch = i / (g->rows * g->columns), row = i / g->columns % g->rows;
        int64_t column = i % g->columns, c = batch * g->c_batch + row * g->c_stride + column;
        double sum = 0;
        for (int64_t k = 0; k < g->inner; k++) {
            int64_t a = g->is_a_turned ? k * g->a_stride + row : row * g->a_stride + k;
            int64_t b = g->is_b_turned ? column * g->b_stride + k : k * g->b_stride + column;
            sum +=
                read_real(g->a, batch * g->a_batch + a) * read_real(g->b, batch * g->b_batch + b);
        }
        double before = g->beta != 0 ? (double)g->beta * read_real(g->c, c) : 0;
        write_real(g->c, c, (double)g->alpha * sum + before);
    }
    return fault;
}
