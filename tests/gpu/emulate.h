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
#define __shared__ static

struct emulated_index {
    unsigned x;
};
extern struct emulated_index threadIdx, blockIdx, blockDim, gridDim;

#define float4 struct emulated_float4
#define uint4 struct emulated_uint4
struct emulated_float4 {
    float x, y, z, w;
};
struct emulated_uint4 {
    uint32_t x, y, z, w;
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
void emulate_launch(struct CUstream_st *stream, void (*run)(const void *), const void *args,
                    size_t size, unsigned blocks, unsigned threads, bool has_barriers);

#define EMULATED(name, type, a)              \
    static void name##_thread(const type a); \
    static void name(const void *args)       \
    {                                        \
        name##_thread(*(const type *)args);  \
    }                                        \
    static void name##_thread(const type a)
#define KERNEL(name, type, a)             \
    enum { name##_has_barriers = false }; \
    EMULATED(name, type, a)
#define BLOCK_KERNEL(name, type, a)      \
    enum { name##_has_barriers = true }; \
    EMULATED(name, type, a)
#define LAUNCH(name, a, blocks, threads, stream) \
    emulate_launch(stream, name, &(a), sizeof(a), (unsigned)(blocks), threads, name##_has_barriers)
