#include "tests/gpu/emulate.h"

#include "tests/gpu/emulate_streams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

// The threads of a block have stacks of their own and give way at barriers and shuffles. Blocks,
// and threads between barriers, go in rising or falling order by turns of launches, so that what
// depends on an order shows as a difference between two runs.

struct emulated_index threadIdx, blockIdx, blockDim, gridDim;

enum { THREADS_MAX = 1024, WARP = 32, STACK_BYTES = 64 << 10 };
enum state { READY, AT_BARRIER, AT_SHUFFLE, DONE };

struct fiber {
    void *place[5];  // of __builtin_setjmp: no signals, no calls of the system
    bool is_begun;
    enum state state;
    double value, result;  // of a shuffle
    int mask;
};

static struct fiber fibers[THREADS_MAX];
static char *stacks;
static void *scheduler[5];
static unsigned current;
static bool has_fibers;
static void (*running)(const void *);
static const void *running_args;

// Jumps between stacks are none of the sanitizer's business.
#define NOINLINE __attribute__((noinline, no_sanitize("address")))

NOINLINE static void jump(void **place)
{
    __builtin_longjmp(place, 1);
}

int64_t emulate_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

NOINLINE static void give_way(enum state state)
{
    assert(has_fibers);  // a barrier in a kernel that says it has none
    fibers[current].state = state;
    if (__builtin_setjmp(fibers[current].place) == 0) jump(scheduler);
}

// A fiber begins once and runs one thread after another.
NOINLINE static void begin(void)
{
    for (;;) {
        running(running_args);
        give_way(DONE);
    }
}

NOINLINE static void enter(struct fiber *fiber)
{
    ucontext_t context;
    if (fiber->is_begun) jump(fiber->place);
    fiber->is_begun = true;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks + (size_t)(fiber - fibers) * STACK_BYTES;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, begin, 0);
    setcontext(&context);
}

NOINLINE static void run_fiber(struct fiber *fiber)
{
    if (__builtin_setjmp(scheduler) == 0) enter(fiber);
}

void emulate_barrier(void)
{
    give_way(AT_BARRIER);
}

double emulate_shuffle_double(double x, int mask)
{
    fibers[current].value = x;
    fibers[current].mask = mask;
    give_way(AT_SHUFFLE);
    return fibers[current].result;
}

float emulate_shuffle(float x, int mask)
{
    return (float)emulate_shuffle_double((double)x, mask);
}

// A warp shuffles when all its lanes have come; lanes that have ended would be an error on a GPU.
static bool release_warp(unsigned first, unsigned threads)
{
    unsigned end = first + WARP < threads ? first + WARP : threads;
    for (unsigned i = first; i < end; i++) {
        if (fibers[i].state != AT_SHUFFLE) return false;
        assert(fibers[i].mask == fibers[first].mask);
    }
    for (unsigned i = first; i < end; i++) {
        unsigned other = first + ((i - first) ^ (unsigned)fibers[first].mask);
        assert(other < end);
        fibers[i].result = fibers[other].value;
    }
    for (unsigned i = first; i < end; i++)
        fibers[i].state = READY;
    return true;
}

static bool release_block(unsigned threads)
{
    bool is_any = false;
    for (unsigned i = 0; i < threads; i++) {
        if (fibers[i].state == AT_SHUFFLE) return false;
        is_any |= fibers[i].state == AT_BARRIER;
    }
    for (unsigned i = 0; i < threads; i++) {
        if (fibers[i].state == AT_BARRIER) fibers[i].state = READY;
    }
    return is_any;
}

static void run_block(unsigned threads, bool is_falling)
{
    for (unsigned i = 0; i < threads; i++)
        fibers[i].state = READY;
    for (bool goes_on = true; goes_on;) {
        for (unsigned n = 0; n < threads; n++) {
            current = is_falling ? threads - 1 - n : n;
            threadIdx.x = current;
            if (fibers[current].state == READY) run_fiber(&fibers[current]);
        }
        goes_on = false;
        for (unsigned first = 0; first < threads; first += WARP)
            goes_on |= release_warp(first, threads);
        if (!goes_on) goes_on = release_block(threads);
    }
    for (unsigned i = 0; i < threads; i++)
        assert(fibers[i].state == DONE);
}

static void run_threads(unsigned threads, bool is_falling)
{
    for (unsigned n = 0; n < threads; n++) {
        threadIdx.x = is_falling ? threads - 1 - n : n;
        running(running_args);
    }
}

struct launch {
    void (*run)(const void *);
    unsigned blocks, threads;
    bool has_barriers;
    _Alignas(16) unsigned char args[];
};

static void run_launch(const void *args)
{
    const struct launch *launch = args;
    static unsigned launches;
    if (!stacks) stacks = malloc((size_t)THREADS_MAX * STACK_BYTES);
    assert(stacks);
    launches = launches * 1664525u + 1013904223u;  // Numerical Recipes' generator
    bool is_falling = launches >> 31;
    running = launch->run;
    running_args = launch->args;
    has_fibers = launch->has_barriers;
    gridDim.x = launch->blocks;
    blockDim.x = launch->threads;
    for (unsigned n = 0; n < launch->blocks; n++) {
        blockIdx.x = is_falling ? launch->blocks - 1 - n : n;
        if (has_fibers) {
            run_block(launch->threads, is_falling);
        } else {
            run_threads(launch->threads, is_falling);
        }
    }
}

void emulate_launch(struct CUstream_st *stream, void (*run)(const void *), const void *args,
                    size_t size, unsigned blocks, unsigned threads, bool has_barriers)
{
    assert(threads > 0 && threads <= THREADS_MAX && blocks > 0);
    struct launch *launch = calloc(1, sizeof *launch + size);
    assert(launch);
    *launch = (struct launch){run, blocks, threads, has_barriers};
    memcpy(launch->args, args, size);
    emulate_put(stream, run_launch, launch, sizeof *launch + size);
    free(launch);
}

float emulate_from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

uint16_t emulate_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) return 0x7FFF;
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float emulate_from_fp16(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float x =
        ldexpf((float)(exponent ? mantissa + 1024 : mantissa), (exponent ? exponent : 1) - 25);
    if (exponent == 31) x = mantissa ? NAN : INFINITY;
    return bits >> 15 ? -x : x;
}

// To the nearest, of two the even one; rintf rounds so.
uint16_t emulate_to_fp16(float x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    float size = fabsf(x);
    if (x != x) return 0x7FFF;
    if (size >= 65520) return sign | 0x7C00;
    int exponent = size > 0 ? ilogbf(size) : -24;
    if (exponent < -14) exponent = -14;
    unsigned units =
        (unsigned)rintf(ldexpf(size, 10 - exponent));  // 1024 .. 2048, less if subnormal
    unsigned bits = units < 1024 ? units : ((unsigned)(exponent + 14) << 10) + units;
    return (uint16_t)(sign | bits);
}

float emulate_from_byte(uint8_t bits, bool is_e5m2)
{
    int width = is_e5m2 ? 2 : 3, bias = is_e5m2 ? 15 : 7;
    int exponent = (bits & 127) >> width, mantissa = bits & ((1 << width) - 1);
    int units = exponent ? mantissa + (1 << width) : mantissa;
    float x = ldexpf((float)units, (exponent ? exponent : 1) - bias - width);
    if (is_e5m2 && exponent == 31) x = mantissa ? NAN : INFINITY;
    if (!is_e5m2 && (bits & 127) == 127) x = NAN;
    return bits >> 7 ? -x : x;
}

// To the nearest, of two the even one; what is too large becomes the largest.
uint8_t emulate_to_byte(float x, bool is_e5m2)
{
    int width = is_e5m2 ? 2 : 3, bias = is_e5m2 ? 15 : 7;
    float largest = is_e5m2 ? 57344 : 448, size = fabsf(x);
    unsigned sign = signbit(x) ? 128 : 0;
    if (x != x) return (uint8_t)(sign | 127);
    if (size > largest) size = largest;
    int exponent = size > 0 ? ilogbf(size) : 1 - bias;
    if (exponent < 1 - bias) exponent = 1 - bias;
    unsigned units = (unsigned)rintf(ldexpf(size, width - exponent)), one = 1u << width;
    unsigned bits = units < one ? units : ((unsigned)(exponent + bias - 1) << width) + units;
    return (uint8_t)(sign | bits);
}
