#include "tests/gpu/emulate.h"

#include "tests/gpu/emulate_shadow.h"
#include "tests/gpu/emulate_streams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

// The threads of a block have stacks of their own and give way at barriers and shuffles. Blocks and
// threads go in an order that is drawn for every launch, and between barriers some warps run ahead
// of others, as far as they can: what depends on an order shows as a difference between two runs,
// and where a barrier lacks as a wrong result. MESHWRIGHT_EMULATED_SEED draws other orders.
//
// MESHWRIGHT_EMULATED_FAULT plants a fault in all kernels, for the test that such are found:
// "barrier=N", the threads of a block pass their N-th barrier (from 0) without waiting; "mask=N",
// shuffles of mask N take that of N / 2; "grid=0", a block passes the barrier of its grid without
// waiting. Others: tests/gpu/emulate_streams.c.

#define INDEX_OF_THREAD __attribute__((section("emulated_indices")))
struct emulated_index threadIdx INDEX_OF_THREAD, blockIdx INDEX_OF_THREAD;
struct emulated_index blockDim INDEX_OF_THREAD, gridDim INDEX_OF_THREAD;

enum { THREADS_MAX = 1024, WARP = 32, STACK_BYTES = 64 << 10 };
enum state { READY, AT_BARRIER, AT_SHUFFLE, DONE };

struct fiber {
    void *place[5];  // of __builtin_setjmp: no signals, no calls of the system
    bool is_begun;
    double value, result;  // of a shuffle
    int mask, barriers;    // passed
};

static struct fiber fibers[THREADS_MAX];
// Beside the fibers and not in them: all are looked through in every round.
static uint8_t states[THREADS_MAX];
static uint16_t order[THREADS_MAX];  // of the threads of this block
static struct {
    unsigned next, count;  // in the order
    uint64_t warps;        // those that run
} turn_round;
static char *stacks;
static void *scheduler[5];
static unsigned current;
static bool has_fibers;
static void (*running)(const void *);
static const void *running_args;
static struct {
    int barrier, mask;
} faults;  // planted, of this launch; -1: none
static uint64_t draws;

// splitmix64 (Steele et al. 2014).
static uint64_t draw(void)
{
    const char *seed = getenv("MESHWRIGHT_EMULATED_SEED");
    uint64_t x = (seed ? strtoull(seed, NULL, 10) : 0) + 0x9E3779B97F4A7C15u * ++draws;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

// The number of a planted fault of this name; -1: it is not planted.
static int planted(const char *name)
{
    const char *fault = getenv("MESHWRIGHT_EMULATED_FAULT");
    size_t length = strlen(name);
    bool is_it = fault && strncmp(fault, name, length) == 0 && fault[length] == '=';
    return is_it ? atoi(fault + length + 1) : -1;
}

// All numbers below `count`, each once: first, first + step and so on, round.
struct turns {
    unsigned count, first, step;
};

static struct turns draw_turns(unsigned count)
{
    uint64_t drawn = draw();
    struct turns turns = {count, (unsigned)(drawn >> 32) % count, count - 1};
    if (drawn % 4 == 0) turns = (struct turns){count, 0, 1};
    if (drawn % 4 < 2) return turns;
    for (turns.step = 1 + (unsigned)(drawn >> 8) % count;; turns.step++) {
        unsigned x = turns.step, y = count;
        for (unsigned rest; y; x = y, y = rest)
            rest = x % y;
        if (x == 1) return turns;
    }
}

static unsigned turn(const struct turns *turns, unsigned n)
{
    return (unsigned)((turns->first + (uint64_t)n * turns->step) % turns->count);
}

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

static void go_on(void);

NOINLINE static void give_way(enum state state)
{
    assert(has_fibers);  // a barrier in a kernel that says it has none
    states[current] = (uint8_t)state;
    if (__builtin_setjmp(fibers[current].place) == 0) go_on();
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

// Into the next that is ready, straight from the one before it; back when the round is over.
NOINLINE static void go_on(void)
{
    while (turn_round.next < turn_round.count) {
        unsigned thread = order[turn_round.next++];
        if (states[thread] != READY || !(turn_round.warps >> thread / WARP & 1)) continue;
        current = thread;
        threadIdx.x = thread;
        enter(&fibers[thread]);
    }
    jump(scheduler);
}

NOINLINE static void run_round(void)
{
    if (__builtin_setjmp(scheduler) == 0) go_on();
}

void emulate_barrier(void)
{
    assert(has_fibers);
    if (fibers[current].barriers++ != faults.barrier) give_way(AT_BARRIER);
}

double emulate_shuffle_double(double x, int mask)
{
    fibers[current].value = x;
    fibers[current].mask = mask == faults.mask ? mask / 2 : mask;
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
        if (states[i] != AT_SHUFFLE) return false;
        assert(fibers[i].mask == fibers[first].mask);
    }
    for (unsigned i = first; i < end; i++) {
        unsigned other = first + ((i - first) ^ (unsigned)fibers[first].mask);
        assert(other < end);
        fibers[i].result = fibers[other].value;
    }
    memset(states + first, READY, end - first);
    return true;
}

static bool release_block(unsigned threads)
{
    bool is_any = false;
    for (unsigned i = 0; i < threads; i++) {
        if (states[i] == AT_SHUFFLE) return false;
        is_any |= states[i] == AT_BARRIER;
    }
    for (unsigned i = 0; i < threads; i++) {
        if (states[i] == AT_BARRIER) states[i] = READY;
    }
    shadow_barrier();
    return is_any;
}

// Runs what is ready of the warps whose bits are set; whether there was any.
static bool run_warps(unsigned threads, uint64_t warps)
{
    bool is_any = false;
    for (unsigned i = 0; i < threads && !is_any; i++)
        is_any = states[i] == READY && (warps >> i / WARP & 1);
    turn_round.next = 0;
    turn_round.count = threads;
    turn_round.warps = warps;
    if (is_any) run_round();
    return is_any;
}

// Up to the next barrier of all: first some warps, as far as they get, then all.
static void run_phase(unsigned threads)
{
    uint64_t warps = draw();
    for (bool is_all = false;;) {
        bool goes_on = run_warps(threads, warps);
        for (unsigned first = 0; first < threads; first += WARP)
            goes_on |= release_warp(first, threads);
        if (!goes_on && is_all) return;
        is_all |= !goes_on;
        if (is_all) warps = UINT64_MAX;
    }
}

static void run_block(unsigned threads)
{
    struct turns turns = draw_turns(threads);
    for (unsigned n = 0; n < threads; n++)
        order[n] = (uint16_t)turn(&turns, n);
    memset(states, READY, threads);
    for (unsigned i = 0; i < threads; i++)
        fibers[i].barriers = 0;
    do {
        run_phase(threads);
    } while (release_block(threads));
    for (unsigned i = 0; i < threads; i++)
        assert(states[i] == DONE);
}

static void run_threads(unsigned threads)
{
    struct turns turns = draw_turns(threads);
    for (unsigned n = 0; n < threads; n++) {
        threadIdx.x = turn(&turns, n);
        running(running_args);
    }
}

struct launch {
    struct emulated_kernel kernel;
    unsigned blocks, threads;
    size_t args_bytes;
    _Alignas(16) unsigned char args[];
};

// All blocks do `run`, and of a grid that does not wait for itself each `then` right behind it.
static void run_blocks(const struct launch *launch, void (*run)(const void *),
                       void (*then)(const void *))
{
    struct turns turns = draw_turns(launch->blocks);
    running_args = launch->args;
    has_fibers = launch->kernel.has_barriers;
    struct shadow_launch shadow = {launch->kernel.name, stacks, launch->args,
                                   (size_t)THREADS_MAX * STACK_BYTES, launch->args_bytes};
    shadow_begin_launch(&shadow);
    gridDim.x = launch->blocks;
    blockDim.x = launch->threads;
    for (unsigned n = 0; n < launch->blocks; n++) {
        blockIdx.x = turn(&turns, n);
        shadow_begin_block();
        for (running = run; running; running = running == run ? then : NULL) {
            if (has_fibers) {
                run_block(launch->threads);
            } else {
                run_threads(launch->threads);
            }
        }
    }
    shadow_end_launch();
}

static void run_launch(const void *args)
{
    const struct launch *launch = args;
    const struct emulated_kernel *kernel = &launch->kernel;
    bool is_apart = planted("grid") < 0;
    if (!stacks) stacks = malloc((size_t)THREADS_MAX * STACK_BYTES);
    assert(stacks);
    faults.barrier = planted("barrier");
    faults.mask = planted("mask");
    emulate_launched(kernel->name);
    run_blocks(launch, kernel->run, is_apart ? NULL : kernel->second);
    if (is_apart && kernel->second) run_blocks(launch, kernel->second, NULL);
}

void emulate_launch(struct CUstream_st *stream, const struct emulated_kernel *kernel,
                    const void *args, size_t size, unsigned blocks, unsigned threads)
{
    assert(threads > 0 && threads <= THREADS_MAX && blocks > 0);
    assert(threads <= kernel->most);  // cudaErrorLaunchOutOfResources
    struct launch *launch = calloc(1, sizeof *launch + size);
    assert(launch);
    *launch = (struct launch){*kernel, blocks, threads, size};
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

// 2^exponent, where that is a normal number.
static float power_of_two(int exponent)
{
    assert(exponent > -127 && exponent < 128);
    uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

float emulate_from_fp16(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float x = (float)(exponent ? mantissa + 1024 : mantissa) *
              power_of_two((exponent ? exponent : 1) - 25);
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
        (unsigned)rintf(size * power_of_two(10 - exponent));  // 1024 .. 2048, less if subnormal
    unsigned bits = units < 1024 ? units : ((unsigned)(exponent + 14) << 10) + units;
    return (uint16_t)(sign | bits);
}

float emulate_from_byte(uint8_t bits, bool is_e5m2)
{
    int width = is_e5m2 ? 2 : 3, bias = is_e5m2 ? 15 : 7;
    int exponent = (bits & 127) >> width, mantissa = bits & ((1 << width) - 1);
    int units = exponent ? mantissa + (1 << width) : mantissa;
    float x = (float)units * power_of_two((exponent ? exponent : 1) - bias - width);
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
    unsigned units = (unsigned)rintf(size * power_of_two(width - exponent)), one = 1u << width;
    unsigned bits = units < one ? units : ((unsigned)(exponent + bias - 1) << width) + units;
    return (uint8_t)(sign | bits);
}
