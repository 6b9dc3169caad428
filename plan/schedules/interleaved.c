#include "plan/schedules/common.h"

#include <assert.h>

// Interleaved 1F1B (Narayanan et al. 2021, section 2.2): several chunks a stage, so that a
// micro-batch goes round the ring of stages once a chunk and the bubble shrinks by the number of
// chunks.

static bool legal(const struct schedule_shape *shape, const char **why)
{
    *why = shape->stage_count < 2             ? "needs at least two stages (pp)"
           : shape->chunk_count < 2           ? "needs at least two chunks a stage (vpp)"
           : shape->chunk_count > RING_CHUNKS ? "runs at most 32 chunks a stage (vpp)"
           : shape->micro_batch_count % shape->stage_count
               ? "needs micro-batches in multiples of pp"
               : NULL;
    return !*why;
}

static int warm_up_of(const struct schedule_shape *shape, int stage)
{
    assert(stage >= 0 && stage < shape->stage_count);
    int warm_up =
        (shape->stage_count - stage - 1) * 2 + (shape->chunk_count - 1) * shape->stage_count;
    int total = shape->chunk_count * shape->micro_batch_count;
    return warm_up < total ? warm_up : total;
}

static void order(const struct schedule_shape *shape, int stage, struct slot *slots)
{
    schedule_fill(shape, warm_up_of(shape, stage), slots);
}

static int in_flight_of(const struct schedule_shape *shape, int stage,
                        struct schedule_in_flight *in_flight)
{
    return schedule_fill_in_flight(shape, warm_up_of(shape, stage), in_flight);
}

const struct schedule_row INTERLEAVED_ROW = {
    .name = "interleaved",
    .backward_fused = true,
    .hold_ratio = 1,
    .legal = legal,
    .order = order,
    .stage_of = schedule_linear_stage,
    .chunk_of = schedule_linear_chunk,
    .in_flight = in_flight_of,
    .ends = ring_ends,
};
