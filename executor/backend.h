#pragma once
#include "core/trace.h"
#include "executor/kernel.h"
#include "plan/lower/joins.h"
#include "plan/parallel.h"
#include "topologies/kernels.h"

// A device back end: memory, copies, kernels, streams and events of one device. A plug-in
// (exec_cpu.so, exec_cpu64.so, exec_cuda.so; executor/plugin.h says in which folder) opened
// at run time; it exports `const struct backend *meshwright_backend(void)` and needs no symbol of
// the binary. exec_cpu.so has a second table, `meshwright_backend_half`, for plans in 16 bits.
// Functions that can fail return NULL, or a text that says why (static, or of the device and good
// until its next call).
//
// Streams are ordered by themselves; between them events. The CPU runs everything where it is asked
// to, in order.
//
// Two kinds of reals. ELEMENT_FP32 is real_bytes wide and ELEMENT_COMPUTE compute_bytes. The
// CPU's have one width for both, but for cpu-half. A back end with `at` computes in the precision
// of the plan: `backend->at(precision)` is the table to go on with, whose devices hold
// ELEMENT_COMPUTE as bf16, fp16 or fp32 and ELEMENT_FP32 always as fp32. Who runs a plan on it
// - asks for activations, their gradients and the weights that kernels read as the tensor says,
//   which is ELEMENT_COMPUTE but for losses, log-sum-exps and the weights of experts, and for
//   gradients of parameters, where they are kept, as ELEMENT_FP32 whatever the tensor says: kernels
//   take any mix of both. In rooms of the arena (ZeRO 2 and 3) gradients of parameters have the
//   plan's width, and are widened before they are reduced;
// - keeps weights twice: as reals for the optimizer, and rounded for the kernels. `round` makes the
//   second at the start, update_call's `rounded` has it written with every update; where weights
//   are gathered (ZeRO) only the rounded ones travel. Box copies do not convert;
// - counts messages and collectives of activations in compute_bytes, those of gradients in
//   real_bytes;
// - calls synchronize before it reads what a stream writes, or with is_asynchronous marks one
//   stream with an event and has another wait for it: nothing but COPY_TO_HOST, COPY_FROM_HOST,
//   sum_squares and OP_DISPATCH with a routing waits by itself. An event may be recorded again as
//   soon as who waits for it has called event_wait. What the device
//   finds wrong in the data (an id that its table lacks) is said by synchronize.

enum { BACKEND_VERSION = 17 };

struct device;  // a back end's own
struct event;
struct capture;

// TO_HOST and FROM_HOST are done when they return, whatever the host's memory is. TO_PINNED and
// FROM_PINNED, where there is allocate_host, take their turn on the stream: the host's end is of
// allocate_host and must be left alone until the stream has passed.
enum copy_kind { COPY_DEVICE, COPY_TO_HOST, COPY_FROM_HOST, COPY_TO_PINNED, COPY_FROM_PINNED };

// to[box] = from[box], or += and max= ; boxes of equal sizes, strides in elements.
enum box_combine { BOX_SET, BOX_ADD, BOX_MAX };
struct box_copy {
    enum element element;
    enum box_combine combine;
    int rank;
    int64_t sizes[TENSOR_RANK_MAX];
    void *to;
    const void *from;
    int64_t to_strides[TENSOR_RANK_MAX], from_strides[TENSOR_RANK_MAX];
};

// One optimizer step on a part of a unit. All arrays but `rounded` are of reals; moments NULL where
// the optimizer has none. LAMB and LARS scale each parameter by a ratio of norms: `direction`
// writes the update direction instead of applying it, then the caller sums norms over the ranks
// that share the parameter and calls again with `apply` and the ratio. The direction of LAMB is
// Adam's step plus decay, that of LARS the clipped gradient plus decay; the ratio of LARS goes into
// its momentum, and its trust coefficient is part of the ratio. `direction` may be `gradients`.
enum update_part { UPDATE_ALL, UPDATE_DIRECTION, UPDATE_APPLY };
struct update_call {
    enum optimizer optimizer;
    enum update_part part;
    int64_t count;
    void *weights, *gradients, *first_moments, *second_moments;
    void *rounded;    // NULL, or the weights again as ELEMENT_COMPUTE, written where weights are
    void *direction;  // of `count` reals: written by UPDATE_DIRECTION, read by UPDATE_APPLY
    double gradient_scale;  // clipping
    double learning_rate, beta1, beta2, epsilon, weight_decay, momentum;
    double trust_ratio;  // UPDATE_APPLY
    int64_t step;        // from 1
};

struct real_array {
    const void *reals;
    int64_t count;
};

// The way that attention of one shape went, where a back end has more than one. Of 64-bit numbers
// and whole eighths of text, so that ranks can tell each other.
struct attention_path {
    int64_t is_backward, causal, batch, heads, kv_heads, queries, keys, width, value_width;
    int64_t is_refused;  // the fused kernels are there, and did not take a shape that is theirs
    char path[16];       // "cudnn": fused; "unfused": scores in memory
    char reason[96];     // why it is not fused; "": it is
};
enum { ATTENTION_PATH_MAX = 128 };

struct backend_device_facts {
    char name[128];       // "Intel Xeon ... (1 core)", "NVIDIA H200"
    char libraries[256];  // "OpenBLAS 0.3.21 SkylakeX"
    int64_t memory_bytes;
    // Of devices, 0 and "" on a host.
    char driver[64];   // "580.95.05"
    int device_count;  // of this kind on this host; the facts are those of the first
    int multiprocessor_count;
    int capability;            // 90: CUDA's compute capability 9.0
    double clock_hz;           // at most
    int64_t cache_bytes;       // last level
    double exponential_per_s;  // of fp32, all multiprocessors; 0: not known
};

struct backend {
    int version;
    const char *name;        // "cpu", "cpu-fp64", "cpu-half", "cuda"
    int real_bytes;          // of ELEMENT_FP32
    int compute_bytes;       // of ELEMENT_COMPUTE
    enum precision compute;  // what ELEMENT_COMPUTE is where it has 2 bytes: bf16 or fp16
    bool is_host;  // the device's memory is the host's: others may read and write it directly
    // Calls return before their work is done, and streams run beside each other; else everything
    // has been done when its call returns.
    bool is_asynchronous;
    // Attention heeds `documents` of a call.
    bool masks_documents;
    // Scans and delta rules walk along the sequence token by token; else they go in chunks, or by
    // kernels that cost_models/walked.h knows.
    bool walks_scans;
    // GEMMs of layers with their parameters are in 8 bits (at(PRECISION_FP8)).
    bool is_low_precision;
    // The same back end computing in this precision, NULL: it does not. No such function: it has
    // one precision for every plan.
    const struct backend *(*at)(enum precision precision);
    const char *(*probe)(struct backend_device_facts *facts);  // NULL: there is a device
    const char *(*open)(int ordinal, struct device **device);
    void (*close)(struct device *device);
    const char *(*allocate)(struct device *device, int64_t bytes, void **memory);
    void (*release)(struct device *device, void *memory);
    // From now on the device has no more memory for arrays than this: an `allocate` that would take
    // more of it fails and says so. Returns what it says where more is
    // taken already. `is_trial`: it is given for now, while the host has it, and counted, so that
    // who asks knows how much would do. NULL: the device has what it has. `peak_bytes`, which goes
    // with it: the most that was taken at a time.
    const char *(*limit)(struct device *device, int64_t bytes, bool is_trial);
    int64_t (*peak_bytes)(struct device *device);
    // Memory of the host for COPY_TO_PINNED and COPY_FROM_PINNED. NULL: there are no such copies.
    const char *(*allocate_host)(struct device *device, int64_t bytes, void **memory);
    void (*release_host)(struct device *device, void *memory);
    const char *(*copy)(struct device *device, enum stream stream, enum copy_kind kind, void *to,
                        const void *from, int64_t bytes);
    // What the device keeps for itself beside what was allocated: workspaces. NULL: nothing that
    // counts.
    int64_t (*own_bytes)(struct device *device);
    const char *(*fill)(struct device *device, enum stream stream, void *memory, int byte,
                        int64_t bytes);
    const char *(*box)(struct device *device, enum stream stream, const struct box_copy *copy);
    // Whether the kernel exists for such shapes; NULL, or the rule that is broken. No data needed.
    const char *(*can_run)(const struct kernel_call *call);
    const char *(*run)(struct device *device, enum stream stream, const struct kernel_call *call);
    // The rules of plan/lower/joins.h by which it runs several calls as one, and such calls, in the
    // order of their group. What `passing` of a call names need not be written. NULL: it joins
    // none.
    unsigned joins;
    const char *(*run_joined)(struct device *device, enum stream stream,
                              const struct kernel_call *calls, int count);
    // Which algorithm of a library a shape runs by. From `tune` on the first call of a shape
    // measures what the library proposes, calls several times what it was called for, and keeps the
    // fastest; else it takes the first proposal, so that equal runs have equal bits. `choices`:
    // what was measured or taken so far, good until the next call; `choose`: uses those of an
    // earlier device with the same facts.libraries from now on. NULL: there is nothing to choose.
    void (*tune)(struct device *device);
    int (*choices)(struct device *device, const struct kernel_choice **choices);
    const char *(*choose)(struct device *device, const struct kernel_choice *choices, int count);
    // The rules of plan/unfused.h by which attention keeps its scores in memory; 0: none does, or
    // all.
    unsigned unfused_attention;
    // The ways that attention went since the device was opened, one a shape: how many, at most
    // ATTENTION_PATH_MAX, written to `paths`. NULL: there is one way.
    int (*attention_paths)(struct device *device, struct attention_path *paths);
    const char *(*update)(struct device *device, enum stream stream,
                          const struct update_call *call);
    // Updates that differ in their arrays and weight decay alone, in one go; NULL: one by one.
    const char *(*update_all)(struct device *device, enum stream stream,
                              const struct update_call *calls, int count);
    // rounded[i] = reals[i] as ELEMENT_COMPUTE, and back; NULL where both are one.
    const char *(*round)(struct device *device, enum stream stream, void *rounded,
                         const void *reals, int64_t count);
    const char *(*widen)(struct device *device, enum stream stream, void *reals,
                         const void *rounded, int64_t count);
    // *sum += of the squares of `count` reals, in a fixed order; waits.
    const char *(*sum_squares)(struct device *device, enum stream stream, const void *reals,
                               int64_t count, double *sum);
    // The same of many arrays, one after the other, waiting once; NULL: not at once.
    const char *(*sum_squares_of)(struct device *device, enum stream stream,
                                  const struct real_array *arrays, int count, double *sum);
    // reals *= factor.
    const char *(*scale)(struct device *device, enum stream stream, void *reals, int64_t count,
                         double factor);
    const char *(*synchronize)(struct device *device, enum stream stream);
    // Occupies so many multiprocessors (all of them, where there are fewer) for so long: what runs
    // elsewhere in the place of communication. With delay_until up to so long after the origin, a
    // moment that delay_origin marks once the stream is there, and waits for. NULL: a host, which
    // may sleep.
    const char *(*delay)(struct device *device, enum stream stream, double seconds,
                         int multiprocessors);
    const char *(*delay_origin)(struct device *device, enum stream stream);
    const char *(*delay_until)(struct device *device, enum stream stream, double seconds,
                               int multiprocessors);
    // Marks on streams; seconds between two that have passed.
    struct event *(*event_new)(struct device *device);
    void (*event_free)(struct device *device, struct event *event);
    const char *(*event_record)(struct device *device, enum stream stream, struct event *event);
    const char *(*event_wait)(struct device *device, enum stream stream, struct event *event);
    double (*event_seconds)(struct device *device, struct event *from, struct event *to);
    // What is put on the stream between begin and end is recorded instead of run, once, and put
    // there by each replay, with the arrays and numbers of the recorded calls; keys of random
    // numbers are read where `key_at` of a call says. In between neither events nor waits nor
    // copies from and to the host. A replay puts nothing and says `is_stale` when the device's own
    // memory has moved since: record again. end frees what it cannot record. NULL: no such thing.
    const char *(*capture_begin)(struct device *device, enum stream stream);
    const char *(*capture_end)(struct device *device, enum stream stream, struct capture **capture);
    const char *(*replay)(struct device *device, enum stream stream, struct capture *capture,
                          bool *is_stale);
    void (*capture_free)(struct device *device, struct capture *capture);
    // Of devices with memory of their own; NULL where that is the host's. How many there are here:
    // ranks beyond them share them in turn, by the ordinal given to `open`. What other libraries
    // know the stream by (cudaStream_t).
    int (*device_count)(void);
    void *(*native_stream)(struct device *device, enum stream stream);
};

// executor/backend.c: opens a back end by name ("cpu", "cpu-fp64", "cpu-half", "cuda"); ERR_SYSTEM,
// one line, when the plug-in is not there, does not open, is of another version, or has no device.
// Sets OPENBLAS_CORETYPE for what it loads, unless MESHWRIGHT_KEEP_CORETYPE is set, and
// OPENBLAS_NUM_THREADS to 1 unless it is set.
MUST_CHECK const struct backend *backend_open(const char *name, struct err *err);
// The table that runs plans of this precision: the back end itself where it has one width for all;
// else of its `at`, and that of bf16 where fp8 and fp4 are not formats of its GEMMs (run_check
// refuses such plans).
const struct backend *backend_at(const struct backend *backend, enum precision precision);
// "auto": cuda where there is a device, else cpu; *note says which and why, for the user.
MUST_CHECK const struct backend *backend_choose(struct arena *arena, const char *name,
                                                const char **note, struct err *err);
