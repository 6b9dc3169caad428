#pragma once
#include "plan/parallel.h"
#include "plan/task.h"

#include <stdint.h>

// A pipeline schedule: the order of tasks on every stage. One file a schedule under
// plan/schedules/, one line each in its schedules.inc. F, B (input gradient) and W
// (weight gradient) are separate tasks; a schedule that runs W right behind B says so, and the
// gradient is then sent after W, as autograd does.
//
// A model of `stage_count * chunk_count` chunks: virtual stage s = chunk * stage_count + stage
// unless the schedule places chunks otherwise (V shapes). Forward of chunk s needs s-1, backward
// s+1.

struct slot {
    uint8_t kind;   // the slots of enum task_kind
    uint8_t chunk;  // on this stage
    int32_t micro_batch;
};

// Stages that do not all hand on to the one behind them (plan/branches.h). Each hands all that it
// makes to one later stage; several may hand on to one, whose inputs are what they make, side by
// side. Of stages of one chunk.
struct stage_tree {
    const int *next;        // [stage]; -1 of the last
    const int *first_edge;  // [stage] which input of the next its first output is
    const int *behind;      // [stage] stages on the way from it to the last, that one included
    const bool *is_alone;   // [stage] does without what its blocks only hand on
};

struct schedule_shape {
    int stage_count, chunk_count, micro_batch_count;
    int in_flight;  // micro-batches a stage may hold, where the schedule takes a cap: zb-auto, 0 =
                    // stage_count; zb-h2 twice the stages, 0 = one less
    const struct stage_tree *tree;  // NULL: every virtual stage hands on to the next
};
// The virtual stage that another hands on to, and the n-th of those that hand on to it, by the
// places of what they hand on; -1: there is none.
int schedule_next(const struct schedule_shape *shape, int virtual_stage);
int schedule_before(const struct schedule_shape *shape, int virtual_stage, int n);

// Durations for the closed form. Stages of equal cost share a class, so that the formula's work
// does not grow with the number of stages.
struct chunk_times {
    double forward_s, backward_s, weight_s;  // of one micro-batch
};
// Stages in a row whose chunks are of the same classes. The formulas walk runs, not stages; a
// search makes the runs once for each way to cut the model (the first, the last and the middle
// stages: three or four runs however many stages there are).
struct stage_run {
    int first, count;
};
struct stage_runs {
    const struct stage_run *runs;  // from stage 0 up
    int run_count;
    const int *class_uses;  // [class]: chunks of that class, over all stages
};
const struct stage_runs *stage_runs_make(struct arena *arena, const struct schedule_shape *shape,
                                         const int *class_of, int class_count);

struct pipeline_times {
    struct schedule_shape shape;
    const struct chunk_times *classes;
    int class_count;
    const int *class_of;            // [stage * chunk_count + chunk]
    const struct stage_runs *runs;  // of class_of
    double hop_s;                   // activation or gradient to the next stage
    bool hop_overlapped;            // sent beside compute; else both ends wait for it
    const double *late_s;           // NULL, or of a tree: [stage] what its first forward takes more
    double *idle_s;  // NULL, or filled beside the ends: how long the stage has waited by then, if W
                     // is a task of its own
};

// Micro-batches of one chunk at one moment: between F and B (all that F saved is alive), and
// between B and W (what W reads is). A micro-batch whose B runs counts as before it, whose W runs
// as waiting.
struct schedule_in_flight {
    int alive, waiting;
};
enum { SCHEDULE_IN_FLIGHT_MAX = 128 };

struct schedule_row {
    const char *name;
    bool backward_fused;  // W runs right behind B
    bool runs_trees;      // whether the shape may have one
    bool most_inside;     // of equal stages in a row one between the ends may hold the most
    // No stage holds fewer micro-batches, in shares of its layers, than this times those of 1F1B,
    // unless `in_flight` caps them (tests/plan/test_schedule.c asks all shapes).
    double hold_ratio;
    // Whether it can run this shape; else why not, as the rest of a sentence ("needs micro-batches
    // in multiples of pp").
    bool (*legal)(const struct schedule_shape *shape, const char **why);
    // The slots of one stage in order: 3 * chunk_count * micro_batch_count of them.
    void (*order)(const struct schedule_shape *shape, int stage, struct slot *slots);
    int (*stage_of)(const struct schedule_shape *shape, int virtual_stage);
    int (*chunk_of)(const struct schedule_shape *shape, int virtual_stage);
    // The moments at which memory can be highest: whatever a micro-batch weighs between F and B and
    // between B and W of each chunk, no moment of the order weighs more than the heaviest of these.
    // Fills in_flight[n * chunk_count + chunk], at most SCHEDULE_IN_FLIGHT_MAX of n; returns how
    // many.
    int (*in_flight)(const struct schedule_shape *shape, int stage,
                     struct schedule_in_flight *in_flight);
    // Seconds from the first forward to the end of the chunk's last backward, W included:
    // end_s[run * chunk_count + chunk] on the first stage of each run, and behind them those of the
    // last stage. A formula; with it steps agree with the event engine to 1 % mean, 2 % worst over
    // random plans.
    void (*ends)(const struct pipeline_times *times, double *end_s);
};

const struct schedule_row *schedule_row(enum schedule_kind kind);
// Whether it runs stages of two model chunks.
bool schedule_takes_chunks(enum schedule_kind kind);

// Tasks are numbered alike in every trace of a plan, simulated or measured. `item` is the
// micro-batch of a slot; of a message twice that, and one more where it goes backward; the bucket
// of a reduction or gather, else 0. The rank says which stage's task it is.
struct task_id {
    int kind, chunk, item;
};
int task_number(const struct schedule_shape *shape, const struct task_id *id);
struct task_id task_id_of(const struct schedule_shape *shape, int number);
