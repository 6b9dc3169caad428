#pragma once
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Runs device code on the host: the threads of a block take turns between barriers, blocks one
// after another. Included before everything when a .cu is compiled as C; what it emulates is what
// the kernels use and no more.

#define CUDA_EMULATED 1
#define DEVICE __attribute__((unused)) static inline
#define HOST_AND_DEVICE
// In a section of its own, so that the shadow knows it (tests/gpu/emulate_shadow.h).
#define __shared__ static __attribute__((section("emulated_shared")))

struct emulated_index {
    unsigned x;
};
extern struct emulated_index threadIdx, blockIdx, blockDim, gridDim;

#define float4 struct emulated_float4
#define uint4 struct emulated_uint4
struct emulated_float4 {
    _Alignas(16) float x;
    float y, z, w;
};
struct emulated_uint4 {
    _Alignas(16) uint32_t x;
    uint32_t y, z, w;
};

int64_t emulate_ns(void);
void emulate_barrier(void);
#define __syncthreads emulate_barrier
float emulate_shuffle(float x, int mask);
double emulate_shuffle_double(double x, int mask);
#define __shfl_xor_sync(lanes, x, mask) \
    _Generic((x), double : emulate_shuffle_double, default : emulate_shuffle)(x, mask)

float emulate_from_bf16(uint16_t bits);
uint16_t emulate_to_bf16(float x);
float emulate_from_fp16(uint16_t bits);
uint16_t emulate_to_fp16(float x);

// 8 bits: E4M3, or E5M2.
float emulate_from_byte(uint8_t bits, bool is_e5m2);
uint8_t emulate_to_byte(float x, bool is_e5m2);

struct CUstream_st;
struct emulated_kernel {
    const char *name;
    void (*run)(const void *);
    bool has_barriers;
    void (*second)(const void *);  // NULL, or what all blocks do behind all of `run`
    unsigned most;                 // threads that it is compiled for
};
void emulate_launch(struct CUstream_st *stream, const struct emulated_kernel *kernel,
                    const void *args, size_t size, unsigned blocks, unsigned threads);

#define EMULATED(name, type, a, waits, most)                                           \
    static void name##_thread(const type a);                                           \
    static void name##_run(const void *args)                                           \
    {                                                                                  \
        name##_thread(*(const type *)args);                                            \
    }                                                                                  \
    static const struct emulated_kernel name = {#name, name##_run, waits, NULL, most}; \
    static void name##_thread(const type a)
#define KERNEL(name, type, a) EMULATED(name, type, a, false, THREADS)
#define BLOCK_KERNEL(name, type, a) EMULATED(name, type, a, true, THREADS)
#define ROW_KERNEL(name, type, a) EMULATED(name, type, a, true, ROW_THREADS)
#define LAUNCH(name, a, blocks, threads, stream) \
    emulate_launch(stream, &(name), &(a), sizeof(a), (unsigned)(blocks), threads)
#define GRID_KERNEL(name, type) ROW_GRID_KERNEL(name, type, THREADS)
#define ROW_GRID_KERNEL(name, type, most)           \
    static void name##_run(const void *args)        \
    {                                               \
        name##_first((const type *)args);           \
    }                                               \
    static void name##_run_second(const void *args) \
    {                                               \
        name##_second((const type *)args);          \
    }                                               \
    static const struct emulated_kernel name = {#name, name##_run, true, name##_run_second, most};
#define LAUNCH_GRID LAUNCH
