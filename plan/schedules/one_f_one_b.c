#include "plan/schedules/common.h"

// 1F1B (PipeDream-flush, Narayanan et al. 2021): stage i runs ahead by p - i - 1 forwards, then one
// forward and one backward in turn. At most p - i micro-batches are alive.

static int warm_up_of(const struct schedule_shape *shape, int stage)
{
    int warm_up = shape->stage_count - stage - 1;
    return warm_up < shape->micro_batch_count ? warm_up : shape->micro_batch_count;
}

static void order(const struct schedule_shape *shape, int stage, struct slot *slots)
{
    schedule_fill(shape, warm_up_of(shape, stage), slots);
}

static void in_flight(const struct schedule_shape *shape, int stage, int *per_chunk)
{
    int alive = warm_up_of(shape, stage) + 1;
    int most = shape->micro_batch_count;
    schedule_count(shape, alive < most ? alive : most, per_chunk);
}

// One more micro-batch through a run of `count` equal stages. Going up and down n stages in a row
// takes n (f + b) + 2 (n-1) h and is back n micro-batches later, so a run's period is
//   f + b + 2 h (n-1) / n,
// n bounded by the micro-batches there are. With blocking hops every task pays its own: 2 h a pair,
// h on the end stages, which have one neighbour.
static double run_period_s(const struct pipeline_times *times, const struct stage_run *run)
{
    struct pair_times pair = schedule_pair(times, run->first, 0);
    double hop_s = schedule_hop(times);
    int last = times->shape.stage_count - 1;
    double hops = 0;
    if (times->hop_overlapped) {
        int rounds = times->shape.micro_batch_count - 1;
        int window = run->count < rounds ? run->count : rounds;
        if (window > 0) hops = 2 - 2.0 / window;
    } else {
        bool middle = run->count > 2 || (run->first > 0 && run->first + run->count <= last);
        hops = middle ? 2 : 1;
    }
    return pair.forward_s + pair.backward_s + hops * hop_s;
}

// Two neighbouring runs whose periods differ by less than a hop make one slower cycle together; the
// best window over whole runs, by its mean (Dinkelbach: the best sum of excesses over the mean found
// so far, until none is left). Only hops beside compute: blocking ones add up stage by stage.
static double window_period_s(const struct pipeline_times *times, double period_s)
{
    double hop_s = schedule_hop(times);
    for (bool better = true; better;) {
        better = false;
        double sum_s = 0, count = 0;
        for (int i = 0; i < times->runs->run_count; i++) {
            const struct stage_run *run = &times->runs->runs[i];
            struct pair_times pair = schedule_pair(times, run->first, 0);
            if (sum_s <= count * (period_s - 2 * hop_s)) sum_s = count = 0;
            sum_s += run->count * (pair.forward_s + pair.backward_s);
            count += run->count;
            if (count >= times->shape.micro_batch_count) continue;
            double mean_s = (sum_s + 2 * (count - 1) * hop_s) / count;
            if (mean_s > period_s * (1 + 1e-9)) {
                period_s = mean_s;
                better = true;
            }
        }
    }
    return period_s;
}

// A path that takes the first micro-batch up and down, sum_i (f_i + b_i) + 2 (p-1) h, must then gain
// m - 1 micro-batches. Stage i, or a window with stage i on top, can repeat only once it has p - i - 1
// micro-batches ahead; until then the path gains them higher up, or by warm-up forwards alone (and
// cool-down backwards alone). Hence the k-th costs the longest period among the last k + 1 stages.
static double gain_s(const struct pipeline_times *times)
{
    const struct stage_runs *runs = times->runs;
    int left = times->shape.micro_batch_count - 1;
    double sum_s = 0, period_s = 0;
    for (int i = runs->run_count - 1; i >= 0 && left > 0; i--) {
        double own_s = run_period_s(times, &runs->runs[i]);
        if (own_s > period_s) period_s = own_s;
        int take = runs->runs[i].count < left ? runs->runs[i].count : left;
        if (i == 0) take = left;
        if (i == 0 && times->hop_overlapped) period_s = window_period_s(times, period_s);
        double single_s = period_s;
        for (int below = 0; below < i; below++) {
            struct pair_times pair = schedule_pair(times, runs->runs[below].first, 0);
            if (pair.forward_s > single_s) single_s = pair.forward_s;
            if (pair.backward_s > single_s) single_s = pair.backward_s;
        }
        sum_s += take * single_s;
        left -= take;
    }
    return sum_s;
}

static double duration(const struct pipeline_times *times, double end_s[2])
{
    double hop_s = schedule_hop(times);
    int last = times->shape.stage_count - 1;
    double sum_s = 0, down_s = -schedule_pair(times, last, 0).backward_s;
    for (int i = 0; i < times->runs->run_count; i++) {
        struct pair_times pair = schedule_pair(times, times->runs->runs[i].first, 0);
        sum_s += times->runs->runs[i].count * (pair.forward_s + pair.backward_s);
        down_s += times->runs->runs[i].count * pair.backward_s;
    }
    double step_s = sum_s + 2 * last * hop_s + gain_s(times);
    if (end_s) {
        end_s[0] = step_s;
        end_s[1] = step_s - down_s - last * hop_s;
    }
    return step_s;
}

const struct schedule_row ONE_F_ONE_B_ROW = {
    .name = "1f1b",
    .backward_fused = true,
    .legal = schedule_one_chunk,
    .order = order,
    .stage_of = schedule_linear_stage,
    .chunk_of = schedule_linear_chunk,
    .in_flight = in_flight,
    .duration = duration,
};
