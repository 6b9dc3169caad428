#pragma once
#include "core/trace.h"
#include "cost_models/step.h"
#include "simulator/engine.h"

// One pipeline (a rank of every stage) from its first forward to its last backward. Every stream
// runs in order, so no event queue is needed: each stage runs its slots until one waits for a
// neighbour, and goes on when the neighbour has sent. The work grows with the number of tasks only.
//
// Rules, shared with the closed form:
// - A hop beside compute takes hop_s from the end of the task that sends; messages of one direction
//   follow each other on their link.
// - Where branches join (struct stage_tree) the messages to several stages follow each other.
// - A hop that blocks stops both compute streams for hop_s: the sender's after its task, the
//   receiver's before its own; what a stage sends and receives between two tasks goes at once (full
//   duplex, as Megatron's batched send and receive).
// - Where W follows B at once (backward_fused), the gradient is sent after W.
// - A rank that is slow lengthens its compute and its update, not what it communicates.
// - Parameters arrive in buckets on the dp stream from the start of the step, chunk after chunk, at
//   full speed while compute waits and at overlap_ratio while it runs. The first forward of a chunk
//   may pass j / n of itself once bucket j is there.

// A task, the collectives inside it that nothing hides, one span a kind, and its copies.
enum { SPANS_PER_SLOT = 6 };

struct spans {
    struct span *list;
    int64_t count, capacity;
};

struct stage_walk {
    int next;            // slot
    int64_t send_ns;     // of the last slot's message, where that blocks; 0: it sent none
    int64_t end_ns;      // of its last task, and of the blocking send behind it
    int64_t link_ns[2];  // until when its forward and backward links are taken
    int64_t busy_ns, blocked_ns, gather_wait_ns;
    int64_t gather_seen_ns;  // until when gather_done_ns is counted
    double gather_done_ns;   // work of the dp stream
};

struct walk {
    const struct step_price *price;
    const struct schedule_row *row;
    struct slot *slots;  // [stage * slot_room + n]
    int slot_count;      // of one stage, in a lane of `micro_batch_count`
    int slot_room;       // the most: of the price's
    int micro_batch_count;
    int virtual_count;
    int *virtual_of;                         // [stage * chunk_count + chunk]
    int *stage_of, *chunk_of;                // [virtual stage]
    const struct step_price *const *prices;  // that stages of a lane choose from
    const struct engine_lane *lane;          // that is walked; NULL: nothing is slower
    int64_t *hop_ns;       // [stage]; a message takes as long as the slower of its two ends
    int64_t *duration_ns;  // [(stage * chunk_count + chunk) * SLOT_KIND_COUNT + kind]
    int64_t *compute_ns;   // of it what jitter stretches
    double jitter_ratio;   // see engine_options
    int jitter_ranks;
    uint64_t random;         // state
    int64_t *gather_ns;      // [stage * chunk_count + chunk]
    int64_t *gather_sum_ns;  // [stage], 0 when parameters are gathered after the update
    // [virtual stage * m + micro-batch]: when what the stage hands on is there, and its gradient
    // back; -1 not yet
    int64_t *arrive_ns[2];
    int *queue;  // stages that may go on, a ring of stage_count
    bool *queued;
    struct stage_walk *stages;
    // From the first slot that ends a chunk's gradients to the last slot, the latest over all
    // pipelines walked so far: the slowest rank of each stage's data-parallel group.
    int *tail_count;                         // [stage] slots
    int64_t **tail_start_ns, **tail_end_ns;  // [stage][slot - (slot_count - tail_count)]
    struct spans *spans;                     // NULL: no trace
    int64_t event_count;
};

int64_t walk_ns(double seconds);
int lane_rounds(const struct engine_lane *lane, const struct schedule_shape *shape);

// Parts of one phase of a chunk.
double phase_compute_s(const double part_s[PART_COUNT]);  // scaled by a slow rank
double phase_exposed_s(const double part_s[PART_COUNT]);  // not scaled

// `scratch` holds everything. The walk can be run any number of times.
struct walk *walk_new(struct arena *scratch, const struct step_price *price);
// What all ranks of a stage do together, by another price than that of the step.
void walk_set_stage_price(struct walk *walk, int stage, const struct step_price *price);
// NULL: no stage is slower than its price.
void walk_run(struct walk *walk, const struct engine_lane *lane);

void spans_add(struct spans *spans, const struct span *span);
// In the order of a trace; ties stay as they were added. simulator/spans.c
void spans_sort(struct arena *scratch, struct spans *spans);
// `context`: the struct schedule_shape that tasks are numbered by.
const char *spans_task_name(const void *context, const struct span *span, struct arena *scratch);
// Messages have a track for each end and each way, because a rank sends and receives at once.
const char *spans_track_name(const void *context, const struct span *span);

// The gradient reductions of one stage on its dp stream, against the tail of the walk; returns when
// the last is done. Adds spans for every rank of the stage when `spans` is not NULL.
int64_t reduce_end_ns(struct walk *walk, const struct step_price *price, int stage,
                      const int *ranks, int rank_count);
