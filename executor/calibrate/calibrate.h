#pragma once
#include "executor/communicators/communicator.h"
#include "plan/program.h"

// Measures what this machine does with the executor's own kernels and collectives: every operator
// of some layers, embeddings and heads, forward and backward, at several sizes and in every
// precision that the back end has; the update; what a call costs that has next to nothing to do;
// copies; each collective by size. The rows keep the lowered instruction they are of, so that a
// cost model can be asked for the same instruction.
//
// All ranks measure at once, each on its own core or device where there are as many: they share the
// memory as in a run. Kernels of the host are timed by the processor time of their thread, which
// other processes on the machine do not add to. Those of a device are timed by marks on its stream,
// between the operators of a block that all wait there before the first begins: what the host needs
// to call them is a number of its own. Collectives are timed by the wall. Everything runs once to
// warm up and then in rounds, as often as the time allows, and the median of a kernel's rounds
// counts, of a collective the best. Where the time or the memory does not suffice for one round of
// all, the larger models and messages are left out.

struct calibrate_clock {
    double (*busy_s)(void *context);  // processor time of the calling thread
    double (*wall_s)(void *context);
    void *context;
};
struct calibrate_clock calibrate_real_clock(void);

// The back end at one precision (backend->at), and the device opened with it.
enum { CALIBRATE_SIDES_MAX = PRECISION_COUNT };
struct calibrate_side {
    enum precision precision;
    const struct backend *backend;
    struct device *device;
    double share;  // of the time for kernels; those of all sides sum to 1
};

struct calibrate_request {
    const struct calibrate_side *sides;  // the first one measures what has no precision, too
    int side_count;
    int64_t memory_bytes;  // of a device, that a rank may use; 0: it is not asked for
    const struct transport *transport;
    struct communicator *communicator;
    int rank, rank_count;
    const struct program *plan;  // NULL, or a plan whose GEMMs and attention are measured as
                                 // well, in any case and first, by the side of its precision
    double seconds;              // of the wall; one round of the smallest is measured in any case
    bool is_short;               // the smallest layers and messages only (tests)
    struct calibrate_clock clock;
    void (*progress)(void *context, double done_ratio);  // NULL: nobody looks
    void *progress_context;
};

struct calibrate_kernel {
    const struct block_program *program;
    const struct instr *instr;  // of the program; compute only; the first of its group
    enum precision precision;
    bool of_plan;  // one of request.plan
    double s;      // median of the rounds, mean of the ranks
};

// Work of a row, of all that runs as one with its instruction; and bytes that come and go.
double calibrate_flop(const struct calibrate_kernel *row);
double calibrate_bytes(const struct calibrate_kernel *row);

struct calibrate_collective {
    enum collective collective;
    int rank_count;
    int64_t bytes;  // as in struct instr
    double s;
};

struct calibration {
    struct calibrate_kernel *kernels;  // side after side
    int kernel_count;
    struct calibrate_collective *collectives;
    int collective_count;
    // Of the first side, `precision`.
    enum precision precision;
    int64_t update_elements;        // of one call that is far larger than the caches
    double update_s;                // AdamW and the sum of squares for the norm
    double copy_bytes_per_s;        // read and written
    double to_host_bytes_per_s;     // from a device, as offloading copies; 0 on a host
    double from_host_bytes_per_s;   // the same to it
    double host_copy_bytes_per_s;   // read and written by the host beside a device; 0 on a host
    double call_s;                  // from one kernel with next to nothing to do to the next
    double host_call_s;             // of the host, to call one on a device; 0 on a host
    struct kernel_choice *choices;  // of this rank: the fastest algorithm of each shape that ran
    int choice_count;
    int rank_count, round_count;  // rounds of the first side
    double taken_s;
};

// Collective: every rank calls it. False and a set `err` when a kernel or the transport fails. The
// result is the same on all ranks but for `taken_s` and `choices`, and lives as long as `arena`.
MUST_CHECK bool calibrate(struct arena *arena, const struct calibrate_request *request,
                          struct calibration *calibration, struct err *err);

// executor/calibrate/disk.c: bytes a second at which this host stores checkpoints in the folder:
// one of 64 MiB, checksums, syncs and commit included, the middle of three. ERR_SYSTEM where it
// cannot; nothing is left there.
MUST_CHECK bool calibrate_disk(const char *folder, double *bytes_per_s, struct err *err);

// executor/calibrate/drive.c: bytes a second at which a rank moves what a plan keeps on NVMe
// between this host's memory and the folder's drive, through the file that a run makes
// (executor/nvme.h): as much is written as read, one behind the other; how many times as many where
// both are asked for at once; each the middle of five rounds. And how many bytes are free there.
// ERR_SYSTEM where it cannot; nothing is left there.
struct drive {
    double bytes_per_s, duplex_ratio;  // of 1 to 2
    int64_t bytes;
};
MUST_CHECK bool calibrate_drive(struct arena *arena, const char *folder, struct drive *drive,
                                struct err *err);

// executor/launcher/bind.c: binds this process to the rank's core where there are at least
// `rank_count` among those it may use, by hwloc. `core_count` is set in any case.
struct binding {
    int core_count;
    bool is_bound;
    void *before;  // for binding_undo
};
struct binding binding_make(int rank, int rank_count);
void binding_undo(struct binding *binding);
int binding_core_count(void);

// Inside: executor/calibrate/*.c.
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

// A block of a model that is measured, lowered for one rank. The side's blocks in their order.
struct calibrate_block {
    const struct block_program *program;
    const struct program *plan;  // that it is of; NULL: of the models that are always measured
    int index;                   // which of its blocks
    int64_t batch, seq, vocab, head_count;
    bool begins_subject;  // the first of its model, of which one measures all or nothing
    int row_count;        // its instructions that compute
    double flop;          // of them
};
enum { CALIBRATE_IDS = 1024 };  // ids are below this, and so within every table
struct calibrate_block *calibrate_blocks(struct arena *arena,
                                         const struct calibrate_request *request,
                                         const struct calibrate_side *side, int *count,
                                         struct err *err);

// executor/calibrate/plan.c. Of the plan, in `blocks`, which has room for all of its; returns how
// many have something to measure.
int calibrate_plan_blocks(const struct calibrate_request *request,
                          const struct calibrate_side *side, struct calibrate_block *blocks);
// Of a plan GEMMs and attention, else all that computes.
bool calibrate_is_measured(const struct calibrate_block *block, const struct instr *instr);
// Sets row_count and flop.
void calibrate_block_count(struct calibrate_block *block);
// Arrays are by tensor, of a plan by buffer: those that nothing measured touches are not needed.
int calibrate_array_count(const struct calibrate_block *block);
bool calibrate_is_needed(const struct calibrate_block *block, int array);
const struct tensor *calibrate_tensor(const struct calibrate_block *block, int array);
// What rank 0 of the plan holds of the whole.
void calibrate_hold(const struct calibrate_block *block, int buffer, struct kernel_array *array);
struct kernel_call calibrate_call(const struct calibrate_block *block,
                                  const struct kernel_array *arrays, const struct instr *instr);

// The arrays of a block, in the side's memory, filled with numbers that are neither zero
// nor alike. The pattern is what a device copies them from.
struct calibrate_pattern {
    void *reals, *rounded, *ids;  // on the device; NULL on a host
};
MUST_CHECK bool calibrate_pattern_make(const struct calibrate_side *side,
                                       struct calibrate_pattern *pattern, struct err *err);
void calibrate_pattern_free(const struct calibrate_side *side, struct calibrate_pattern *pattern);
// Memory of several arrays: those of a packed buffer, all weights, all of their gradients, as an
// engine keeps them; of others one.
struct calibrate_rooms {
    void **memory;
    int count;
};
// Of the arrays, and of what kernels need beside them.
int64_t calibrate_block_bytes(const struct calibrate_side *side,
                              const struct calibrate_block *block);
MUST_CHECK bool calibrate_arrays(const struct calibrate_side *side,
                                 const struct calibrate_pattern *pattern,
                                 const struct calibrate_block *block, struct kernel_array *arrays,
                                 struct calibrate_rooms *rooms, struct err *err);
// The arrays without memory, for can_run.
void calibrate_shapes(const struct calibrate_block *block, struct kernel_array *arrays);
void calibrate_fill_host(float *reals, int64_t count);

struct calibrate_kernels;
MUST_CHECK struct calibrate_kernels *calibrate_kernels_new(struct arena *arena,
                                                           const struct calibrate_request *request,
                                                           const struct calibrate_side *side,
                                                           struct err *err);
// Runs everything once and leaves out the larger models that there is no time or memory for.
MUST_CHECK bool calibrate_kernels_warm(struct calibrate_kernels *kernels, struct group *world,
                                       double until_s, struct err *err);
MUST_CHECK bool calibrate_kernels_round(struct calibrate_kernels *kernels, struct err *err);
// Adds the side's rows to the calibration, of the first side the other numbers too.
MUST_CHECK bool calibrate_kernels_finish(struct calibrate_kernels *kernels, struct group *world,
                                         struct calibration *calibration, struct err *err);
void calibrate_kernels_free(struct calibrate_kernels *kernels);

// executor/calibrate/step.c: what does not belong to a block. Each adds a sample.
struct calibrate_step {
    struct arena *arena;
    const struct calibrate_request *request;
    const struct calibrate_side *side;
    void *memory;  // of `elements`, five arrays of reals
    void *host;    // beside a device: of `host_elements` reals
    int64_t elements, host_elements;
    struct calibrate_samples update, copy, to_host, from_host, host_copy, call, host_call;
};
MUST_CHECK bool calibrate_step_open(struct calibrate_step *step, struct err *err);
MUST_CHECK bool calibrate_step_measure(struct calibrate_step *step, bool is_kept, struct err *err);
void calibrate_step_close(struct calibrate_step *step);

// Seconds on a stream: by the thread's time on a host, by marks on a device.
struct calibrate_timer {
    const struct calibrate_request *request;
    const struct calibrate_side *side;
    struct event *from, *to;
    double start_s, taken_s;
};
bool calibrate_has_marks(const struct calibrate_side *side);
MUST_CHECK bool calibrate_timer_open(struct calibrate_timer *timer, struct err *err);
void calibrate_timer_close(struct calibrate_timer *timer);
// Between these the work; the second waits for its end, and says what went wrong in it.
MUST_CHECK bool calibrate_timer_start(struct calibrate_timer *timer, struct err *err);
MUST_CHECK bool calibrate_timer_stop(struct calibrate_timer *timer, const char *what,
                                     const char *fault, struct err *err);
// Keeps the device busy while the host calls what is to be measured: nothing where it cannot.
const char *calibrate_lead(const struct calibrate_side *side, double seconds);

MUST_CHECK bool calibrate_collectives(struct arena *arena, const struct calibrate_request *request,
                                      struct group *world, double until_s,
                                      struct calibration *calibration, struct err *err);
