#include "executor/cuda/cuda.h"

#include "tests/gpu/emulate_shadow.h"
#include "tests/gpu/emulate_streams.h"

#include <assert.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

// CUDA's runtime for the emulation: memory is the host's.

static const size_t DEVICE_BYTES = (size_t)1 << 32;

// What cudaHostAlloc gave out: copies from and to it happen when their stream gets there.
enum { PINNED_MAX = 4096 };
static struct {
    char *memory;
    size_t bytes;
} pinned[PINNED_MAX];

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "out of memory";
}
// What failed stays until somebody asks.
static cudaError_t last_error;
static cudaError_t fail(cudaError_t error)
{
    return last_error = error;
}
cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
// One, or what MESHWRIGHT_EMULATED_GPUS says: they all are the host.
cudaError_t cudaGetDeviceCount(int *count)
{
    const char *wanted = getenv("MESHWRIGHT_EMULATED_GPUS");
    *count = wanted ? atoi(wanted) : 1;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    (void)device;
    *properties = (struct cudaDeviceProp){.name = "emulation on the host",
                                          .totalGlobalMem = DEVICE_BYTES,
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
// Never zeros: kernels must write before they read.
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    if (emulate_is_capturing()) return fail(cudaErrorStreamCaptureUnsupported);
    *memory = bytes > DEVICE_BYTES ? NULL : malloc(bytes);
    if (!*memory) return fail(cudaErrorMemoryAllocation);
    memset(*memory, 0xFF, bytes);
    shadow_add_memory(*memory, bytes);
    return cudaSuccess;
}
// Waits for nobody, as CUDA need not: who still uses it finds what another left there.
cudaError_t cudaFree(void *memory)
{
    if (emulate_is_capturing()) return fail(cudaErrorStreamCaptureUnsupported);
    if (memory) memset(memory, 0xFF, malloc_usable_size(memory));
    shadow_remove_memory(memory);
    free(memory);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    int at = 0;
    (void)flags;
    cudaError_t error = cudaMalloc(memory, bytes);
    if (error != cudaSuccess) return error;
    while (at < PINNED_MAX && pinned[at].memory)
        at++;
    assert(at < PINNED_MAX);
    pinned[at].memory = *memory;
    pinned[at].bytes = bytes;
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *memory)
{
    for (int i = 0; i < PINNED_MAX; i++) {
        if (pinned[i].memory == memory) pinned[i].memory = NULL;
    }
    return cudaFree(memory);
}

static bool is_pinned(const void *memory)
{
    uintptr_t at = (uintptr_t)memory;
    for (int i = 0; i < PINNED_MAX; i++) {
        uintptr_t first = (uintptr_t)pinned[i].memory;
        if (first && at >= first && at < first + pinned[i].bytes) return true;
    }
    return false;
}

struct copy {
    char *to;
    const char *from;  // NULL: the bytes follow
    size_t to_pitch, from_pitch, width, height;
};
static void run_copy(const void *args)
{
    const struct copy *copy = args;
    const char *from = copy->from ? copy->from : (const char *)(copy + 1);
    for (size_t i = 0; i < copy->height; i++)
        memmove(copy->to + i * copy->to_pitch, from + i * copy->from_pitch, copy->width);
}

// Of memory that is not pinned CUDA takes the bytes before it returns, and waits for those it
// brings.
static cudaError_t put_copy(const struct copy *copy, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    bool brings = kind == cudaMemcpyDeviceToHost && !is_pinned(copy->to);
    if (kind == cudaMemcpyHostToDevice && !is_pinned(copy->from)) {
        assert(copy->height == 1);
        struct copy *own = malloc(sizeof *own + copy->width);
        assert(own);
        *own = *copy;
        own->from = NULL;
        memcpy(own + 1, copy->from, copy->width);
        emulate_put(stream, run_copy, own, sizeof *own + copy->width);
        free(own);
        return cudaSuccess;
    }
    emulate_put(stream, run_copy, copy, sizeof *copy);
    return brings ? cudaStreamSynchronize(stream) : cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    struct copy copy = {to, from, 0, 0, bytes, 1};
    return put_copy(&copy, kind, stream);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    struct copy copy = {to, from, to_pitch, from_pitch, width, height};
    return put_copy(&copy, kind, stream);
}

struct filling {
    void *memory;
    int byte;
    size_t bytes;
};
static void run_filling(const void *args)
{
    const struct filling *filling = args;
    memset(filling->memory, filling->byte, filling->bytes);
}
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    struct filling filling = {memory, byte, bytes};
    emulate_put(stream, run_filling, &filling, sizeof filling);
    return cudaSuccess;
}

double emulate_read(struct reals x, int64_t at)
{
    if (x.number == NUMBER_FP32) return (double)((float *)x.data)[at];
    if (number_is_byte(x.number))
        return (double)emulate_from_byte(((uint8_t *)x.data)[at], x.number == NUMBER_E5M2);
    uint16_t bits = ((uint16_t *)x.data)[at];
    return (double)(x.number == NUMBER_BF16 ? emulate_from_bf16(bits) : emulate_from_fp16(bits));
}
void emulate_write(struct reals x, int64_t at, double value)
{
    if (x.number == NUMBER_FP32) {
        ((float *)x.data)[at] = (float)value;
    } else if (x.number == NUMBER_BF16) {
        ((uint16_t *)x.data)[at] = emulate_to_bf16((float)value);
    } else {
        ((uint16_t *)x.data)[at] = emulate_to_fp16((float)value);
    }
}
