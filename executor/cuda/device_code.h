#pragma once
#include "executor/cuda/kernels.h"

// What all kernels are written with. nvcc compiles them; tests compile the same source as C for the
// host, where an emulation (tests/gpu/emulate.h, included before everything) runs the threads of a
// block in turns. So: no templates, one struct as the argument, barriers that all threads reach,
// and BLOCK_KERNEL where there are barriers, shuffles or shared memory. A GRID_KERNEL is two such
// functions, name_first and name_second, of a pointer to the argument: all blocks have done the
// first before one begins the second.

#if defined(__CUDACC__)
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#define DEVICE static __device__ __forceinline__
#define HOST_AND_DEVICE __host__ __device__
#define KERNEL(name, type, a) \
    static __global__ void __launch_bounds__(THREADS, 3) name(const type a)
#define BLOCK_KERNEL KERNEL
// Small arrays stay in registers where every index is known: a loop over one that is not unrolled
// puts it into local memory, which is device memory (tests/cuda_resources.t).
#define UNROLL _Pragma("unroll")
// Loops that are not unrolled need no registers for what they would load ahead.
#define ROLLED _Pragma("unroll 1")
#define LAUNCH(name, a, blocks, threads, stream) name<<<(unsigned)(blocks), threads, 0, stream>>>(a)
// Of as many threads as a row has chunks, or as a row is worth.
#define ROW_KERNEL(name, type, a) \
    static __global__ void __launch_bounds__(ROW_THREADS) name(const type a)
#define GRID_KERNEL_OF(name, type, threads, blocks)                              \
    static __global__ void __launch_bounds__(threads, blocks) name(const type a) \
    {                                                                            \
        name##_first(&a);                                                        \
        cooperative_groups::this_grid().sync();                                  \
        name##_second(&a);                                                       \
    }
#define GRID_KERNEL(name, type) GRID_KERNEL_OF(name, type, THREADS, 3)
#define ROW_GRID_KERNEL(name, type, threads) GRID_KERNEL_OF(name, type, threads, 1)
#define LAUNCH_GRID(name, a, blocks, threads, stream) \
    launch_grid((const void *)(name), &(a), blocks, threads, stream)
#elif !defined(CUDA_EMULATED)
#error "compiled by nvcc, or with tests/gpu/emulate.h"
#endif

#if !defined(UNROLL)
#define UNROLL
#define ROLLED
#endif
#define RANDOM_FUNCTION DEVICE
#include "executor/random.h"

#include <float.h>
#include <math.h>

// Threads of a block; an emulation has fewer, to be fast.
#if defined(CUDA_EMULATED)
enum { THREADS = 64, ROW_THREADS = 128 };
#else
enum { THREADS = 256, ROW_THREADS = 1024 };
#endif
enum { BLOCKS_MAX = 1 << 16, CHUNK = 8 };

#if defined(__CUDACC__)
// All blocks of a grid that waits for itself have to be there at once. Those of NCCL keep 32
// multiprocessors at most (its default of maxCTAs), and may wait for what comes behind this grid on
// another device: it leaves them theirs. So many threads keep the memory of the others busy.
static inline void launch_grid(const void *kernel, const void *args, int64_t blocks, int threads,
                               struct CUstream_st *stream)
{
    enum { BESIDE = 32, BUSY = 1024 };
    int device = 0, units = 1, each = 1, wanted = threads < BUSY ? BUSY / threads : 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, device);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0);
    int64_t most =
        (int64_t)(units > 2 * BESIDE ? units - BESIDE : units) * (each < wanted ? each : wanted);
    void *pointers[] = {(void *)args};
    cudaLaunchCooperativeKernel(kernel, (unsigned)(blocks < most ? blocks : most),
                                (unsigned)threads, pointers, 0, stream);
}
#endif

#define INDEX ((int64_t)blockIdx.x * blockDim.x + threadIdx.x)
#define INDICES ((int64_t)gridDim.x * blockDim.x)

// Blocks for so many threads of work, or rows; kernels go round when there is more.
static inline int64_t blocks_for(int64_t count, int64_t each)
{
    int64_t blocks = (count + each - 1) / each;
    return blocks < 1 ? 1 : blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
}

// Of kernels that keep something for each block.
static inline int64_t grid_blocks(int64_t blocks)
{
    return blocks < GRID_BLOCKS ? blocks : GRID_BLOCKS;
}

DEVICE float bf16_float(uint16_t bits)
{
#if defined(__CUDACC__)
    return __uint_as_float((unsigned)bits << 16);
#else
    return emulate_from_bf16(bits);
#endif
}
DEVICE uint16_t float_bf16(float x)
{
#if defined(__CUDACC__)
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
#else
    return emulate_to_bf16(x);
#endif
}
DEVICE float fp16_float(uint16_t bits)
{
#if defined(__CUDACC__)
    return __half2float(__ushort_as_half(bits));
#else
    return emulate_from_fp16(bits);
#endif
}
DEVICE uint16_t float_fp16(float x)
{
#if defined(__CUDACC__)
    return __half_as_ushort(__float2half_rn(x));
#else
    return emulate_to_fp16(x);
#endif
}

// The largest finite number of a format of 8 bits, and the nearest to x, never an infinity.
DEVICE float byte_largest(int number)
{
    return number == NUMBER_E4M3 ? 448.0f : 57344.0f;
}
DEVICE uint8_t float_byte(int number, float x)
{
#if defined(__CUDACC__)
    return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, number == NUMBER_E4M3 ? __NV_E4M3 : __NV_E5M2);
#else
    return emulate_to_byte(x, number == NUMBER_E5M2);
#endif
}

DEVICE float narrow_float(int number, uint16_t bits)
{
    return number == NUMBER_BF16 ? bf16_float(bits) : fp16_float(bits);
}
DEVICE uint16_t float_narrow(int number, float x)
{
    return number == NUMBER_BF16 ? float_bf16(x) : float_fp16(x);
}

DEVICE float load(struct reals x, int64_t at)
{
    if (x.number == NUMBER_FP32) return ((const float *)x.data)[at];
    return narrow_float(x.number, ((const uint16_t *)x.data)[at]);
}
DEVICE void store(struct reals x, int64_t at, float value)
{
    if (x.number == NUMBER_FP32) {
        ((float *)x.data)[at] = value;
    } else {
        ((uint16_t *)x.data)[at] = float_narrow(x.number, value);
    }
}
DEVICE void store_sum(struct reals x, int64_t at, bool adds, float value)
{
    store(x, at, adds ? load(x, at) + value : value);
}

// Up to CHUNK neighbours; 16 bytes at a time where all are wanted and their address allows it.
DEVICE void load_chunk(struct reals x, int64_t at, int n, float *v)
{
    bool is_wide = x.number == NUMBER_FP32;
    const char *p = (const char *)x.data + at * (is_wide ? 4 : 2);
    if (n < CHUNK || ((uintptr_t)p & 15) != 0) {
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            v[j] = j < n ? load(x, at + j) : 0;
    } else if (is_wide) {
        float4 low = ((const float4 *)p)[0], high = ((const float4 *)p)[1];
        v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
        v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
    } else {
        uint4 words = *(const uint4 *)p;
        unsigned w[4] = {words.x, words.y, words.z, words.w};
        UNROLL
        for (int j = 0; j < 4; j++) {
            v[2 * j] = narrow_float(x.number, (uint16_t)(w[j] & 0xFFFF));
            v[2 * j + 1] = narrow_float(x.number, (uint16_t)(w[j] >> 16));
        }
    }
}
DEVICE void store_chunk(struct reals x, int64_t at, int n, const float *v)
{
    bool is_wide = x.number == NUMBER_FP32;
    char *p = (char *)x.data + at * (is_wide ? 4 : 2);
    if (n < CHUNK || ((uintptr_t)p & 15) != 0) {
        UNROLL
        for (int j = 0; j < CHUNK; j++) {
            if (j < n) store(x, at + j, v[j]);
        }
    } else if (is_wide) {
        float4 low = {v[0], v[1], v[2], v[3]}, high = {v[4], v[5], v[6], v[7]};
        ((float4 *)p)[0] = low;
        ((float4 *)p)[1] = high;
    } else {
        unsigned w[4];
        UNROLL
        for (int j = 0; j < 4; j++) {
            w[j] = float_narrow(x.number, v[2 * j]) | (unsigned)float_narrow(x.number, v[2 * j + 1])
                                                          << 16;
        }
        uint4 words = {w[0], w[1], w[2], w[3]};
        *(uint4 *)p = words;
    }
}
// at / by and at % by. Integers of 64 bits are divided by some seventy instructions, those of 32 by
// a quarter of them.
struct split {
    int64_t line, column;
};
DEVICE struct split split_of(int64_t at, int64_t by)
{
    struct split s = {0, 0};
    if (((uint64_t)at | (uint64_t)by) >> 32) {
        s.line = at / by, s.column = at % by;
    } else {
        uint32_t line = (uint32_t)at / (uint32_t)by;
        s.line = line, s.column = (uint32_t)at - line * (uint32_t)by;
    }
    return s;
}
// Where element `at` of dense rows stands when rows lie `stride` apart; 0: where it would.
DEVICE int64_t apart(int64_t at, int64_t row, int64_t stride)
{
    if (!stride) return at;
    struct split s = split_of(at, row);
    return s.line * stride + s.column;
}
// Neighbours in dense rows, which may end and begin again elsewhere.
DEVICE void load_apart(struct reals x, int64_t at, int n, int64_t row, int64_t stride, float *v)
{
    int64_t there = apart(at, row, stride);
    if (!stride || apart(at + n - 1, row, stride) == there + n - 1) {
        load_chunk(x, there, n, v);
        return;
    }
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        v[j] = j < n ? load(x, apart(at + j, row, stride)) : 0;
}
DEVICE void store_apart(struct reals x, int64_t at, int n, int64_t row, int64_t stride,
                        const float *v)
{
    int64_t there = apart(at, row, stride);
    if (!stride || apart(at + n - 1, row, stride) == there + n - 1) {
        store_chunk(x, there, n, v);
        return;
    }
    UNROLL
    for (int j = 0; j < CHUNK; j++) {
        if (j < n) store(x, apart(at + j, row, stride), v[j]);
    }
}
DEVICE int chunk_of(int64_t at, int64_t count)
{
    return count - at < CHUNK ? (int)(count - at) : CHUNK;
}

// CUDA's fast exponential and division are right to some 2^-21 of what sigmoids come to, and a
// third of the instructions, of which elements of 16 bits have no room for many.
DEVICE float sigmoid_of(float x)
{
#if defined(__CUDACC__)
    return __fdividef(1, 1 + __expf(-x));
#else
    return 1 / (1 + expf(-x));
#endif
}

// log(1 + e^x), right at both ends.
DEVICE float softplus_of(float x)
{
    return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
}

// Over all threads of a warp, or of a block, which all get the result; the order is fixed. Threads
// in whole warps.
DEVICE float warp_sum(float x)
{
    for (int mask = 16; mask > 0; mask /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, mask);
    return x;
}
DEVICE float block_sum(float x)
{
    __shared__ float part[32];
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x / 32; i++)
        sum += part[i];
    return sum;
}
// Of two numbers at once.
DEVICE void block_sums(float *x, float *y)
{
    __shared__ float part[64];
    for (int mask = 16; mask > 0; mask /= 2) {
        *x += __shfl_xor_sync(0xFFFFFFFFu, *x, mask);
        *y += __shfl_xor_sync(0xFFFFFFFFu, *y, mask);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = *x, part[32 + threadIdx.x / 32] = *y;
    __syncthreads();
    *x = *y = 0;
    for (unsigned i = 0; i < blockDim.x / 32; i++)
        *x += part[i], *y += part[32 + i];
}
DEVICE float warp_max(float x)
{
    for (int mask = 16; mask > 0; mask /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, mask));
    return x;
}
DEVICE float block_max(float x)
{
    __shared__ float part[32];
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    float most = part[0];
    for (unsigned i = 1; i < blockDim.x / 32; i++)
        most = fmaxf(most, part[i]);
    return most;
}

// Recorded launches find what changes from step to step in memory.
DEVICE uint64_t key_of(uint64_t key, const uint64_t *key_at)
{
    return key_at ? *key_at : key;
}

struct keys {
    int64_t first, end;
};
DEVICE struct keys keys_seen(struct sight sight, int64_t query, int64_t first_key, int64_t keys)
{
    struct keys seen = {0, keys};
    bool chunked = sight.chunked && sight.window > 0;
    if (!sight.causal && sight.window <= 0) return seen;
    int64_t past = query - first_key + 1;
    int64_t most = chunked ? query % sight.window + 1 : sight.window;
    int64_t of_prefix = query < sight.prefix ? sight.prefix - 1 - query : 0;
    int64_t end = past + (sight.causal ? of_prefix : sight.window - (chunked ? most : 1));
    seen.end = end < 0 ? 0 : end < keys ? end : keys;
    if (most > 0 && past > most) seen.first = past - most;
    if (seen.first > seen.end) seen.first = seen.end;
    return seen;
}
