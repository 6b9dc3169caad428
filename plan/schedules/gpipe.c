#include "plan/schedules/common.h"

#include <assert.h>

// GPipe (Huang et al. 2019): all forwards, then all backwards. Needs the memory of every
// micro-batch.

static void order(const struct schedule_shape *shape, int stage, struct slot *slots)
{
    (void)stage;
    schedule_fill(shape, shape->micro_batch_count, slots);
}

static int in_flight_of(const struct schedule_shape *shape, int stage,
                        struct schedule_in_flight *in_flight)
{
    (void)stage;
    return schedule_fill_in_flight(shape, shape->micro_batch_count, in_flight);
}

// A stage ends its backwards by the same path from the turn on, over the stages above it.
static void fill_ends(const struct pipeline_times *times, double turn_s, double *end_s)
{
    assert(times->runs->run_count >= 1 && times->shape.micro_batch_count >= 1 && turn_s >= 0);
    const struct stage_runs *runs = times->runs;
    double hop_s = schedule_hop(times), gap_s = times->hop_overlapped ? 0 : hop_s;
    int last = times->shape.stage_count - 1, rounds = times->shape.micro_batch_count - 1;
    double sum_s = -hop_s, most_s = times->hop_overlapped ? hop_s : 0;
    for (int i = runs->run_count - 1; i >= 0; i--) {
        double own_s = schedule_pair(times, runs->runs[i].first, 0).backward_s;
        sum_s += runs->runs[i].count * (own_s + hop_s);
        if (own_s + gap_s > most_s) most_s = own_s + gap_s;
        end_s[i] = turn_s + sum_s + rounds * most_s;
    }
    double last_s = schedule_pair(times, last, 0).backward_s;
    end_s[runs->run_count] = turn_s + last_s + rounds * (last_s + gap_s);
}

// The longest path goes up with the first micro-batch, stays m - 1 forwards on the stage where a
// forward takes longest, turns on the last stage, and likewise down:
//   sum_i (f_i + b_i) + 2 (p-1) h + (m-1) (max f + max b).
// A hop that blocks adds h to each task it stands between; one beside compute takes turns on its
// link, so that tasks cannot follow each other faster than h.
static void ends(const struct pipeline_times *times, double *end_s)
{
    if (times->shape.tree) return tree_ends(times, &GPIPE_ROW, end_s);
    double hop_s = schedule_hop(times);
    double gap_s = times->hop_overlapped ? 0 : hop_s;
    double forward_s = 0, forward_max_s = 0;
    for (int i = 0; i < times->runs->run_count; i++) {
        struct stage_run run = times->runs->runs[i];
        struct pair_times pair = schedule_pair(times, run.first, 0);
        forward_s += run.count * pair.forward_s;
        if (pair.forward_s > forward_max_s) forward_max_s = pair.forward_s;
    }
    forward_max_s = forward_max_s + gap_s > hop_s ? forward_max_s + gap_s : hop_s;

    int rounds = times->shape.micro_batch_count - 1;
    int last = times->shape.stage_count - 1;
    double turn_s = forward_s + last * hop_s + rounds * forward_max_s;
    fill_ends(times, turn_s, end_s);
}

const struct schedule_row GPIPE_ROW = {
    .name = "gpipe",
    .backward_fused = true,
    .runs_trees = true,
    .hold_ratio = 1,
    .legal = schedule_one_chunk,
    .order = order,
    .stage_of = schedule_linear_stage,
    .chunk_of = schedule_linear_chunk,
    .in_flight = in_flight_of,
    .ends = ends,
};
