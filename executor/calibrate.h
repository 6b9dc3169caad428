#pragma once
#include "executor/communicator.h"
#include "plan/lower.h"

// Measures what this machine does with the executor's own kernels and collectives: every operator
// of some layers, embeddings and heads, forward and backward, at several sizes; the update; what a
// call costs that has next to nothing to do; each collective by size. The rows keep the lowered
// instruction they are of, so that a cost model can be asked for the same instruction.
//
// All ranks measure at once, each on its own core where there are as many: they share the memory as
// in a run. Kernels are timed by the processor time of their thread, which other processes on the
// machine do not add to, collectives by the wall. Everything runs once to warm up and then in
// rounds, as often as the time allows, and the median of a kernel's rounds counts, of a collective
// the best. Where the time does
// not suffice for one round of all, the larger models and messages are left out.

struct calibrate_clock {
    double (*busy_s)(void *context);  // processor time of the calling thread
    double (*wall_s)(void *context);
    void *context;
};
struct calibrate_clock calibrate_real_clock(void);

struct calibrate_request {
    const struct backend *backend;
    struct device *device;
    const struct transport *transport;
    struct communicator *communicator;
    int rank, rank_count;
    double seconds;  // of the wall; one round of the smallest is measured in any case
    bool is_short;   // the smallest layers and messages only (tests)
    struct calibrate_clock clock;
    void (*progress)(void *context, double done_ratio);  // NULL: nobody looks
    void *progress_context;
};

struct calibrate_kernel {
    const struct block_program *program;
    const struct instr *instr;  // of the program; compute only
    double s;                   // median of the rounds, mean of the ranks
};

struct calibrate_collective {
    enum collective collective;
    int rank_count;
    int64_t bytes;  // as in struct instr
    double s;
};

struct calibration {
    struct calibrate_kernel *kernels;
    int kernel_count;
    struct calibrate_collective *collectives;
    int collective_count;
    int64_t update_elements;  // of one call that is far larger than the caches
    double update_s;          // AdamW and the sum of squares for the norm
    double copy_bytes_per_s;  // read and written
    double call_s;            // of a kernel with next to nothing to do
    int rank_count, round_count;
    double taken_s;
};

// Collective: every rank calls it. False and a set `err` when a kernel or the transport fails. The
// result is the same on all ranks but for `taken_s`, and lives as long as `arena`.
MUST_CHECK bool calibrate(struct arena *arena, const struct calibrate_request *request,
                          struct calibration *calibration, struct err *err);

// executor/bind.c: binds this process to the rank's core where there are at least `rank_count`
// among those it may use, by hwloc. `core_count` is set in any case.
struct binding {
    int core_count;
    bool is_bound;
    void *before;  // for binding_undo
};
struct binding binding_make(int rank, int rank_count);
void binding_undo(struct binding *binding);
int binding_core_count(void);

// Inside: executor/calibrate_kernels.c, executor/calibrate_collectives.c.
struct calibrate_samples {  // of one row
    double *s;
    int count, capacity;
};
void calibrate_sample(struct arena *arena, struct calibrate_samples *samples, double s);
double calibrate_median(const struct calibrate_samples *samples);
// Mean over the ranks of `count` numbers, in place.
MUST_CHECK bool calibrate_mean(const struct calibrate_request *request, struct group *world,
                               double *values, int count, struct err *err);
bool calibrate_ok(struct err *err, const char *what, const char *fault);

struct calibrate_kernels;
MUST_CHECK struct calibrate_kernels *calibrate_kernels_new(struct arena *arena,
                                                           const struct calibrate_request *request,
                                                           struct err *err);
// Runs everything once and leaves out the larger models that there is no time for.
MUST_CHECK bool calibrate_kernels_warm(struct calibrate_kernels *kernels, struct group *world,
                                       double until_s, struct err *err);
MUST_CHECK bool calibrate_kernels_round(struct calibrate_kernels *kernels, struct err *err);
MUST_CHECK bool calibrate_kernels_finish(struct calibrate_kernels *kernels, struct group *world,
                                         struct calibration *calibration, struct err *err);
void calibrate_kernels_free(struct calibrate_kernels *kernels);
MUST_CHECK bool calibrate_collectives(struct arena *arena, const struct calibrate_request *request,
                                      struct group *world, double until_s,
                                      struct calibration *calibration, struct err *err);
