#pragma once
#include "executor/backend.h"
#include "executor/random.h"

#include <cblas.h>
#include <stdbool.h>
#include <stdint.h>

// The CPU back end: kernels over what one rank holds, one thread, in order. Its sources are
// compiled twice, with REAL = float (exec_cpu.so) and REAL = double (exec_cpu64.so), where a
// rounding difference vanishes and a mistake stays.
//
// Results depend on values and sizes alone, never on addresses: equal slices have equal bits
// wherever a plan puts them.

#ifndef REAL
#error "REAL is float or double, see the Makefile"
#endif

// What a loop is compiled for beside the baseline: AVX2 with FMA, and AVX-512. Chosen when the
// plug-in is loaded. Clang 14 has no such choice of levels in a plug-in.
#if defined(__x86_64__) && !defined(__clang__)
#define FAST __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define FAST
#endif
// No iteration reads what another writes; exact overlap (in place) is allowed.
#define VECTOR _Pragma("omp simd")

// Memory that kernels need while they run; grown on demand and kept.
enum scratch {
    SCRATCH_A,  // operands and result of a GEMM that are no plain matrices
    SCRATCH_B,
    SCRATCH_C,
    SCRATCH_ROWS,  // of the kernel itself
    SCRATCH_SCORES,
    SCRATCH_TILE,  // of operators that run as one: what passes between them
    SCRATCH_SUM,   // results that are added to what is there; outputs up to OP_OUTPUT_MAX
    SCRATCH_WIDE = SCRATCH_SUM + OP_OUTPUT_MAX,  // of operands in 16 bits: see half.c
    SCRATCH_COUNT = SCRATCH_WIDE + OP_INPUT_MAX + OP_OUTPUT_MAX
};

struct cpu_rotation {  // cosines and sines of one rope, kept for the next call
    double theta;
    int64_t dims, count;     // rotary dims; positions 0 .. count - 1
    int64_t columns, still;  // of struct op
    REAL *table;             // [position][cosines of dims / 2, sines of dims / 2]
    int64_t capacity_bytes;
};
enum { ROTATION_MAX = 4 };

// Behind the `struct device` of the table: that name is another's elsewhere (topologies/device.h).
struct cpu_device {
    enum precision compute;  // of ELEMENT_COMPUTE where that has 16 bits
    void *scratch[SCRATCH_COUNT];
    int64_t scratch_bytes[SCRATCH_COUNT];
    struct cpu_rotation rotations[ROTATION_MAX];
    int next_rotation;
    struct cpu_block *blocks;                      // that were allocated
    int64_t taken_bytes, peak_bytes, limit_bytes;  // limit_bytes 0: as much as the host has
    bool is_trial;                                 // of the limit (struct backend)
    char fault[200];                               // of what was asked for beyond it
};

extern const char CPU_NO_MEMORY[];
// executor/cpu/memory.c: what the device has is memory of the host, its arrays counted.
const char *cpu_allocate(struct device *device, int64_t bytes, void **memory);
void cpu_release(struct device *device, void *memory);
const char *cpu_limit(struct device *device, int64_t bytes, bool is_trial);
int64_t cpu_peak_bytes(struct device *device);
void cpu_memory_close(struct cpu_device *device);
// What a kernel says that got no memory: of the limit where that is why, else of the host.
__attribute__((returns_nonnull)) const char *cpu_no_memory(const struct cpu_device *device);
// At least `bytes`, aligned to a cache line; NULL when there is none.
void *cpu_scratch(struct cpu_device *device, enum scratch scratch, int64_t bytes);

// OpenBLAS takes its buffer with the first GEMM, and tries for ever where there is no room left
// for it. This takes it before the arrays are there; false where there is none.
bool cpu_reserve_products(void);

// A run of kernel code: NULL, or a text that says what is wrong.
const char *cpu_contract(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_add(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_expand(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_reduce(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_flatten(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_concat(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_concat_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_elementwise(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_modulate(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_rope(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_alibi(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_dropout(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_norm(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_norm_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_softmax(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_softmax_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_attention(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_attention_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_gather(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_gather_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_loss(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_loss_backward(struct cpu_device *device, const struct kernel_call *call);
// Of logits: the largest, and the sum of the exponentials of what they are above one, in double, so
// that 100,000 terms keep their digits: one number in 4096 is converted.
REAL cpu_largest(int64_t count, const REAL *x);
double cpu_sum_exp(int64_t count, REAL largest, const REAL *x);
const char *cpu_linear_loss(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_linear_loss_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_route(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_route_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_choose(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_choose_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_sinkhorn(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_sinkhorn_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_pool_entries(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_pool_entries_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_pooled(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_pooled_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_dispatch(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_dispatch_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_combine(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_combine_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_conv(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_conv_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_scan(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_scan_backward(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_delta(struct cpu_device *device, const struct kernel_call *call);
const char *cpu_delta_backward(struct cpu_device *device, const struct kernel_call *call);

// executor/cpu/run.c: the call as a whole, checks and `adds` included.
const char *cpu_run(struct device *device, enum stream stream, const struct kernel_call *call);
const char *cpu_can_run(const struct kernel_call *call);
// executor/cpu/update.c
const char *cpu_update(struct device *device, enum stream stream, const struct update_call *call);
const char *cpu_sum_squares(struct device *device, enum stream stream, const void *reals,
                            int64_t count, double *sum);
const char *cpu_scale(struct device *device, enum stream stream, void *reals, int64_t count,
                      double factor);
// executor/cpu/box.c
const char *cpu_box(struct device *device, enum stream stream, const struct box_copy *copy);
// The same of elements of any width, one of which `combine` combines.
typedef void box_combine_one(enum box_combine combine, void *to, const void *from);
const char *cpu_box_of(const struct box_copy *copy, int64_t element_bytes,
                       box_combine_one *combine);
// executor/cpu/joined.c
const char *cpu_run_joined(struct device *device, enum stream stream,
                           const struct kernel_call *calls, int count);
// executor/cpu/norm.c: of a norm whose rows ranks share; 0 of any other operator.
int cpu_norm_exchanges(const struct op *op);

// executor/cpu/half.c: the same with an ELEMENT_COMPUTE of 16 bits.
const char *cpu_half_run(struct device *device, enum stream stream, const struct kernel_call *call);
const char *cpu_half_run_joined(struct device *device, enum stream stream,
                                const struct kernel_call *calls, int count);
const char *cpu_half_update(struct device *device, enum stream stream,
                            const struct update_call *call);
const char *cpu_half_round(struct device *device, enum stream stream, void *rounded,
                           const void *reals, int64_t count);
const char *cpu_half_widen(struct device *device, enum stream stream, void *reals,
                           const void *rounded, int64_t count);
const char *cpu_half_box(struct device *device, enum stream stream, const struct box_copy *copy);

// C (rows x columns) = alpha * A . B + beta * C, all row-major; `is_a_turned`: A is stored as
// inner x rows, likewise B as columns x inner.
struct cpu_matmul {
    bool is_a_turned, is_b_turned;
    int64_t rows, columns, inner;
    double alpha, beta;
    const REAL *a, *b;
    REAL *c;
    int64_t a_stride, b_stride, c_stride;  // between rows as stored
};
void cpu_multiply(const struct cpu_matmul *product);
