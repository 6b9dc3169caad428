#pragma once
#include "cost_models/stack.h"
#include "plan/lower/lower.h"
#include "topologies/kernels.h"

// Seconds of one operator on one device under one stack. Formulas (costmodel study, section 3.1):
//   GEMM: over tiles 256x128 .. 64x64 and split-K 1, 2, 4 the fastest of
//     wave * (SMs * 2 a b K') / (P * ge * te) * (1 + k0 / K'),
//     wave = (1-s) ceil(T/SMs) + s max(T/SMs, 1), te = min(1, ((ab/(a+b)) / 85.3)^tile_exponent),
//   beside its traffic, which overlaps imperfectly: (compute^1.5 + traffic^1.5)^(1/1.5), then the
//   gap between kernels. fp32-accumulated weight gradients read and write 4 M N bytes more.
//   The ratio P * ge is that of long work in training, at the clock that the power limit leaves; no
//   term raises it for short kernels: where a table shows them faster (B200 below 0.5 ms), they
//   were timed alone, before the limit acted, and published steps do not show it.
//
//   Experts are a grouped GEMM: `batch` groups of m rows, whose tiles fill the device together, at
//   the stack's grouped_gemm_ratio; the traffic holds the weights of every group.
//
//   Attention: flop at the device's attention ratio beside one exponential a query and key, overlap
//   as above, * s / (s + half_seq), and the tail of its last blocks (cost_models/attention.c);
//   unfused: batched GEMMs (head_dim not a multiple of 8: slower) and softmax at memory speed.
//   Where k and v arrive block after block (ring), s is the keys of a block, half of them with
//   zig-zag, and every block but the first adds its result to the sum of the others. Queries split
//   over ranks without zig-zag: the last rank's keys count, 2 - 1/ranks of the mean when causal.
//
//   Dispatch and combine move the rows of experts at memory speed, permute_passes times.
//
//   Everything else: bytes that fusion leaves (plan/lower/fusion.h) * element_wise_scale / (memory
//   bandwidth * memory_ratio).
// In fp8 and fp4 runs, GEMMs of a layer with its parameters are narrow in the phases that the
// stack names; head, router, embedding and GEMMs of activations stay in bf16. Operands are
// quantised where they first occur: x in forward, its gradient in backward, the weight once a step
// or in every forward; each as one more walk over memory of cast_bytes an element.
// A GEMM or an attention that the device's table of measured kernels has (topologies/kernels.h)
// takes the seconds of its row over the stack's scale, which is between a kernel alone and one in
// training, and the gap.

enum bound { BOUND_COMPUTE, BOUND_MEMORY, BOUND_LAUNCH, BOUND_COUNT };

struct compute_cost {
    double s;
    enum bound bound;
    double kernel_count;            // that the host launches; 0 for views and inside a fused kernel
    double host_s;                  // of the host beside launching
    const struct kernel *measured;  // the row of the device's table that says so; NULL: the formula
};

// GEMMs that were priced lately, on one device and stack: a search meets the same ones again and
// again. Lives in the arena.
struct gemm_memo;
struct gemm_memo *gemm_memo_new(struct arena *arena);

struct compute_context {
    const struct device *device;
    const struct stack *stack;
    enum precision precision;
    struct gemm_memo *gemms;  // NULL: each is priced anew
};

enum gemm_trait {
    GEMM_ACCUMULATES = 1,  // reads and writes an fp32 result
    GEMM_GROUPED = 2,      // `batch` weights; without it `batch` is one of GEMMs of activations
    GEMM_BEGINS = 4,       // writes an fp32 result that others add to
};

// One GEMM in the context's precision, the gap before it included. `traits` is a mask of
// gemm_trait.
double gemm_s(const struct compute_context *context, const struct gemm *gemm, unsigned traits,
              enum bound *bound);
// A compute instruction. Where the stack merges contractions that share an input, the first of them
// in the program costs all of it, as one GEMM, and the others nothing; so does the sum of their
// input gradients.
struct compute_cost compute_price(const struct compute_context *context,
                                  const struct block_program *program, const struct instr *instr);
// Of attention, and of all GEMMs that are not narrow, in a run of this precision: its own, and
// of fp8 and fp4 runs 16 bits, where the device has them.
enum precision wide_precision(const struct device *device, enum precision run);
// Whether products run in fp8 on matrix units that take block scales.
bool compute_is_block_scaled_fp8(const struct compute_context *context);
// Whether attention of this block runs in fp8: see stack.expert_attention.
bool compute_has_narrow_attention(const struct compute_context *context, const struct block *block);
// Whether an op has its place in a grouped kernel: see stack.expert_fusion.
bool compute_is_in_group(const struct compute_context *context, const struct block *block,
                         const struct op *op);
// Share of launches and other work of the host that graphs leave: see stack.expert_graph.
double compute_host_ratio(const struct compute_context *context,
                          const struct block_program *program);
// Copying the rows that experts keep for backward, once: out of the static buffers of a graph or
// back into them. What GEMMs read is kept as narrow as they read it. The weights of the chosen
// are applied in front of the last GEMM, so that its result is not kept.
double compute_stash_s(const struct compute_context *context, const struct block_program *program);
// The exchange that brings an input of this attention in pieces; NULL when all of it is there.
const struct instr *streamed_input(const struct block_program *program, const struct instr *instr);
// Of two kinds of work of one kernel that overlap, but not wholly.
double overlapped_s(double a_s, double b_s);
// Bytes read and written at the rate of element-wise kernels.
double stream_s(const struct compute_context *context, double bytes);
// Adds bytes that so many kernels read and write beside those of a GEMM or an attention.
void stream_beside(const struct compute_context *context, double bytes, double kernels,
                   struct compute_cost *cost);
// Reading and writing parameters, gradients and state of `elements` parameters in one update; the
// gradient a second time, for its norm.
double update_bytes(const struct compute_context *context, enum optimizer optimizer,
                    double elements);
double update_s(const struct compute_context *context, enum optimizer optimizer, double elements);
// Of them, what is read for the norm.
double norm_bytes(const struct compute_context *context, double elements);
// And of LAMB and LARS for the norms of parameters and steps, before any weight moves: the step is
// written, it and the weights are read.
double trust_norm_bytes(enum optimizer optimizer, double elements);
