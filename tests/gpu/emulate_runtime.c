#include "executor/cuda/cuda.h"

#include "tests/gpu/emulate_shadow.h"
#include "tests/gpu/emulate_streams.h"

#include <assert.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

// Memory is never zeros: kernels must write before they read. What is large maps one file of such
// bytes over and over, so that a page costs something only when it is touched: of workspaces next
// to nothing is. Under a sanitizer all is malloc's, which has red zones around it.
enum { FILLED_BYTES = 1 << 20, MAPPED_LEAST = 2 << 20, MAPPED_MAX = 256 };
static struct {
    char *memory;
    size_t bytes;
} mapped[MAPPED_MAX];

static int filled_file(void)
{
    static int file = -1;
    if (file >= 0) return file;
    char *bytes = malloc(FILLED_BYTES);
    file = memfd_create("filled", MFD_CLOEXEC);
    assert(bytes && file >= 0);
    memset(bytes, 0xFF, FILLED_BYTES);
    ssize_t written = write(file, bytes, FILLED_BYTES);
    assert(written == FILLED_BYTES);
    free(bytes);
    return file;
}

// NULL: small, or there are too many.
static void *map_filled(size_t bytes)
{
    int at = 0, file;
#ifdef __SANITIZE_ADDRESS__
    return NULL;
#endif
    while (at < MAPPED_MAX && mapped[at].memory)
        at++;
    if (bytes < MAPPED_LEAST || at == MAPPED_MAX) return NULL;
    size_t whole = (bytes + FILLED_BYTES - 1) / FILLED_BYTES * FILLED_BYTES;
    char *memory = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    file = filled_file();
    for (size_t i = 0; i < whole; i += FILLED_BYTES) {
        void *piece = mmap(memory + i, FILLED_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_FIXED, file, 0);
        assert(piece == memory + i);
    }
    mapped[at].memory = memory;
    mapped[at].bytes = whole;
    return memory;
}

static bool unmap_filled(const void *memory)
{
    for (int i = 0; i < MAPPED_MAX; i++) {
        if (!memory || mapped[i].memory != memory) continue;
        munmap(mapped[i].memory, mapped[i].bytes);
        mapped[i].memory = NULL;
        return true;
    }
    return false;
}

static void *allocate_filled(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory) memset(memory, 0xFF, bytes);
    return memory;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    if (emulate_is_capturing()) return fail(cudaErrorStreamCaptureUnsupported);
    *memory = bytes > DEVICE_BYTES ? NULL : map_filled(bytes);
    if (!*memory && bytes <= DEVICE_BYTES) *memory = allocate_filled(bytes);
    if (!*memory) return fail(cudaErrorMemoryAllocation);
    shadow_add_memory(*memory, bytes);
    return cudaSuccess;
}
// Waits for nobody, as CUDA need not: who still uses it finds what another left there.
cudaError_t cudaFree(void *memory)
{
    if (emulate_is_capturing()) return fail(cudaErrorStreamCaptureUnsupported);
    shadow_remove_memory(memory);
    if (unmap_filled(memory)) return cudaSuccess;
    if (memory) memset(memory, 0xFF, malloc_usable_size(memory));
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
    for (size_t i = 0; i < copy->height; i++) {
        shadow_access(from + i * copy->from_pitch, copy->width, false);
        shadow_access(copy->to + i * copy->to_pitch, copy->width, true);
        memmove(copy->to + i * copy->to_pitch, from + i * copy->from_pitch, copy->width);
    }
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
    shadow_access(filling->memory, filling->bytes, true);
    memset(filling->memory, filling->byte, filling->bytes);
}
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    struct filling filling = {memory, byte, bytes};
    emulate_put(stream, run_filling, &filling, sizeof filling);
    return cudaSuccess;
}

static void tell(struct reals x, int64_t at, bool writes)
{
    int64_t bytes = number_bytes(x.number);
    shadow_access((const char *)x.data + at * bytes, (size_t)bytes, writes);
}
double emulate_read(struct reals x, int64_t at)
{
    tell(x, at, false);
    if (x.number == NUMBER_FP32) return (double)((float *)x.data)[at];
    if (number_is_byte(x.number))
        return (double)emulate_from_byte(((uint8_t *)x.data)[at], x.number == NUMBER_E5M2);
    uint16_t bits = ((uint16_t *)x.data)[at];
    return (double)(x.number == NUMBER_BF16 ? emulate_from_bf16(bits) : emulate_from_fp16(bits));
}
void emulate_write(struct reals x, int64_t at, double value)
{
    tell(x, at, true);
    if (x.number == NUMBER_FP32) {
        ((float *)x.data)[at] = (float)value;
    } else if (x.number == NUMBER_BF16) {
        ((uint16_t *)x.data)[at] = emulate_to_bf16((float)value);
    } else {
        ((uint16_t *)x.data)[at] = emulate_to_fp16((float)value);
    }
}
