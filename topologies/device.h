#pragma once
#include "core/json_write.h"
#include "topologies/taken.h"

#include <stdint.h>

// A device is one accelerator described by data only: peak rates, memory, and how much of each is
// reached in practice. No code anywhere knows the name of a shipped device.
// topologies/devices/NAME.json; schema beside it.

enum precision {
    PRECISION_FP32,
    PRECISION_FP16,
    PRECISION_BF16,
    PRECISION_FP8,
    PRECISION_FP4,
    PRECISION_COUNT
};

// Shares of the peak that long kernels sustain, and the shape of the loss on short ones; the
// formulas that use them are in cost_models/compute.h.
struct device_efficiency {
    double gemm_ratio[PRECISION_COUNT];  // of peak_flop_per_s, large square GEMM inside training
    double gemm_tile_exponent;           // loss of arithmetic intensity of tiles below 256x128
    double gemm_k_ramp;                  // K at which the main loop reaches half of its rate
    double gemm_wave_smooth_ratio;       // 0 = full wave quantisation, 1 = none
    double gemm_memory_ratio;            // share of memory bandwidth inside a memory-bound GEMM
    double memory_ratio;                 // share of memory bandwidth, element-wise kernels
    double attention_forward_ratio;      // of the peak of the precision it runs in, fused attention
                                         // of long sequences, without its exponentials
    double attention_backward_ratio;
    double attention_half_seq;     // causal sequence length at which half of the above is reached
    double attention_tail_ratio;   // of half of the longest block of rows that the multiprocessors
                                   // wait for at the end of an attention; 0: they never do
    double attention_clock_ratio;  // of the clock of the device that attention's rates are of,
                                   // whatever limits its kernels; 0: the same
};

struct kernel_table;  // topologies/kernels.h

struct device {
    const char *name;
    const char *kind;                         // "gpu", "npu", "cpu", "tpu", "hpu"
    double peak_flop_per_s[PRECISION_COUNT];  // dense, tensor cores; 0 = not supported
    int64_t memory_bytes;                     // what a process can see, before any reserve
    double memory_bandwidth_bytes_per_s;
    int multiprocessor_count;
    int64_t cache_bytes;                // last level
    double exponential_per_s;           // of fp32, all multiprocessors; 0 = never waited for
    double launch_latency_s;            // gap between two dependent kernels in one stream
    double idle_power_w, busy_power_w;  // 0 = unknown
    struct device_efficiency efficiency;
    // Of one kernel alone, as a benchmark times it: what members are given (0: not) stand in place
    // of those above, which are of kernels in training. No step is priced by them: a step runs at
    // the clock that the power limit leaves, beside other work. simulator/kernels_account.h
    struct device_efficiency alone;
    const struct kernel_table *kernels;  // measured ones that override the formulas; NULL: none
    struct provenance *provenance;
    int provenance_count;
    struct taken_list taken;  // what the file does not say, by the keys above
};

// The members of the file and of its "efficiency" and "efficiency_alone", as its reader takes them;
// numbers a precision ("peak_flop_per_s", "gemm_ratio") are JSON_ANY there. Ratios lie in
// DEVICE_RATIO_LOW .. 1.
const struct json_field *device_fields(void);
const struct json_field *device_efficiency_fields(void);
bool device_may_lack(const char *efficiency);  // this member, and nobody has it then
#define DEVICE_RATIO_LOW 1e-4                  // at 0 a kernel would never end
#define DEVICE_PEAK_HIGH 1e18
// Slower ones there are none of, and a step would last for years: times are counted in nanoseconds.
#define DEVICE_RATE_LOW 1e7
// A copy whose numbers may be changed without changing the original's.
struct device *device_copy(struct arena *arena, const struct device *device);
// A copy at the rates of kernels alone, one behind the other without a gap. NULL where the device
// has none for GEMMs of this precision.
struct device *device_alone(struct arena *arena, const struct device *device,
                            enum precision precision);

const char *precision_name(enum precision precision);
bool precision_from_name(const char *name, enum precision *precision);
double precision_bytes(enum precision precision);  // fp4: 0.5
// Where the constant of this dotted key comes from: the entry of the key itself or of the nearest
// object around it. NULL for a key that no device has.
const struct provenance *device_provenance(const struct device *device, const char *key);
// The same hardware: equal names and equal constants; where these come from does not matter.
bool device_equals(const struct device *a, const struct device *b);

// Reads a device from an object in place or, if `value` is a text, from the shipped or given file
// of that name. Beside its types it checks that every supported precision has a GEMM ratio and that
// every constant has a provenance. What a vendor's sheet does not say (all but name, peaks, memory
// and its bandwidth) may be absent: it is taken from the shipped device that is most like it
// (device_assume). NULL and a set `err` if it is wrong. Lives as long as `arena`.
MUST_CHECK struct device *device_read(struct arena *arena, const struct json *value,
                                      struct err *err);
// The shipped or given file of this name.
MUST_CHECK struct device *device_load(struct arena *arena, const char *name, struct err *err);
// What a device file holds, for json_check.
const struct json_shape *device_shape(void);
// The peak that training counts on: of bf16, else fp16, else the first that there is.
double device_training_peak(const struct device *device);
// How many times the larger of two positive numbers the smaller is contained in it; from 1.
double device_distance(double a, double b);
// The same of the peaks that training counts on; 0: one and the same device.
double device_distance_of(const struct device *device, const struct device *other);
// Fills what `object` leaves out, with provenance `assumed`. topologies/device_assume.c
void device_assume(struct arena *arena, const struct json *object, struct device *device,
                   struct err *err);
// Writes the device as the object that `device_read` reads.
void device_write(struct json_writer *writer, const char *key, const struct device *device);
