#include "plan/schedules/common.h"

#include <assert.h>

// 1F1B (PipeDream-flush, Narayanan et al. 2021): stage i runs ahead by p - i - 1 forwards, then one
// forward and one backward in turn. At most p - i micro-batches are alive.

static int warm_up_of(const struct schedule_shape *shape, int stage)
{
    assert(stage >= 0 && stage < shape->stage_count);
    int warm_up = shape->tree ? shape->tree->behind[stage] : shape->stage_count - stage - 1;
    return warm_up < shape->micro_batch_count ? warm_up : shape->micro_batch_count;
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

// The longest path goes up through forwards, dwells on one stage, and goes down through backwards.
// With w = p-1-i, f and b of stage i, h a hop, stage i
//   is through with its w warm-up forwards at  A_i = sum_{s<i} (f_s + h) + up_i, and needs
//   Z_i = sum_{s<i} (b_s + h) + down_i         from its last forward but w to the end of the step;
// between them it runs m - w forwards and as many backwards. up_i is the wait for the first
// gradient: micro-batch 0 goes on to a stage j >= i, there behind j's own warm-up forwards, and
// comes back,
//   up_i = max_j (sum_{i<s<=j} (f_s + b_s + 2h) + (p-1-j) max_{s<=j} f_s),
// and down_i the same in reverse, with b. So
//   T = max_i (A_i + (m - w) period_i + Z_i), w < m,
// where w = m - 1 leaves room for one turn above stage i, not for two.
// period_i is f + b of the stage; with hops beside compute, n stages in a row pass n micro-batches
// up and down in n (f + b) + 2 (n-1) h, which makes it f + b + 2h (n-1)/n over the best n stages
// above. A blocking hop lengthens every task it stands between instead: 2h a pair, h on the end
// stages.

struct run_times {
    struct pair_times pair;
    double forward_most_s, backward_most_s;  // up to this run, with what blocking adds
    double period_s;
};

static struct run_times run_times(const struct pipeline_times *times, int index)
{
    double gap_s = times->hop_overlapped ? 0 : schedule_hop(times);
    struct run_times own = {.pair = schedule_pair(times, times->runs->runs[index].first, 0)};
    own.period_s = own.pair.forward_s + own.pair.backward_s;
    own.forward_most_s = own.pair.forward_s + gap_s;
    own.backward_most_s = own.pair.backward_s + gap_s;
    return own;
}

// Blocking hops between the tasks of a stage while a path dwells there, turning above it before and
// after, or at the top not at all: the first stage has neighbours on one side only, like the last.
static int gaps_of(int stage, int last, int left)
{
    int gaps = stage == last ? left - 1 : stage == 0 ? left - 2 : 2 * left - 3;
    return gaps > 0 ? gaps : 0;
}

// The best mean of a window that starts at `first` of run `index`, of at most `most` stages.
static double window_period_s(const struct pipeline_times *times, int index, int count, int most)
{
    double hop_s = schedule_hop(times), sum_s = 0, period_s = 0;
    for (int stages = 0; stages < most && index < times->runs->run_count; index++) {
        struct pair_times pair = schedule_pair(times, times->runs->runs[index].first, 0);
        double own_s = pair.forward_s + pair.backward_s;
        if (own_s + 2 * hop_s <= period_s) break;
        int taken = count < most - stages ? count : most - stages;
        stages += taken;
        sum_s += taken * own_s;
        double mean_s = (sum_s + 2 * (stages - 1) * hop_s) / stages;
        if (mean_s > period_s) period_s = mean_s;
        if (index + 1 < times->runs->run_count) count = times->runs->runs[index + 1].count;
    }
    return period_s;
}

// up and down of the last and then of the lowest stage of a run, from those of the run above.
struct turn {
    double up_s, down_s;
};

static struct turn turn_at(const struct run_times *own, struct turn above, int steps, double hop_s,
                           int warm_up)
{
    double chain_s = steps * (own->pair.forward_s + own->pair.backward_s + 2 * hop_s);
    struct turn turn = {above.up_s + chain_s, above.down_s + chain_s};
    double forward_s = warm_up * own->forward_most_s, backward_s = warm_up * own->backward_most_s;
    if (forward_s > turn.up_s) turn.up_s = forward_s;
    if (backward_s > turn.down_s) turn.down_s = backward_s;
    return turn;
}

// With m - w = 1 there is room for one turn above stage i, and warm-up or cool-down for the other.
static struct turn single_turn(const struct run_times *own, struct turn turn, int warm_up)
{
    double forward_s = warm_up * own->forward_most_s, backward_s = warm_up * own->backward_most_s;
    bool up = turn.up_s - forward_s > turn.down_s - backward_s;
    return up ? (struct turn){turn.up_s, backward_s} : (struct turn){forward_s, turn.down_s};
}

enum { RUNS = STAGE_MAX };

struct path {
    const struct pipeline_times *times;
    struct run_times own[RUNS];
    double rise_s;                 // forwards and hops from stage 0 to the last
    double forward_s, backward_s;  // of the stages below a run, with their hops
    double step_s, last_s;         // longest so far: to the end, and to the end of the last stage
};

// The path that dwells on `stage` of a run.
static void try_stage(struct path *path, int run, int stage, struct turn turn)
{
    const struct pipeline_times *times = path->times;
    const struct run_times *own = &path->own[run];
    struct stage_run at = times->runs->runs[run];
    int last = times->shape.stage_count - 1, warm_up = last - stage;
    int left = times->shape.micro_batch_count - warm_up;
    double hop_s = schedule_hop(times), dwelt_s = left * own->period_s;
    // The first and the last pair of tasks belong to the turns above, at the top the last alone.
    int inner = left - (stage == last ? 1 : 2);
    if (times->hop_overlapped && inner > 0) {
        double period_s = window_period_s(times, run, at.first + at.count - stage, inner);
        dwelt_s += inner * (period_s - own->period_s);
    }
    if (!times->hop_overlapped) dwelt_s += gaps_of(stage, last, left) * hop_s;
    if (left == 1) turn = single_turn(own, turn, warm_up);
    int below = stage - at.first;
    double up_s = path->forward_s + below * (own->pair.forward_s + hop_s);
    double down_s = path->backward_s + below * (own->pair.backward_s + hop_s);
    dwelt_s += up_s + turn.up_s;
    if (dwelt_s + turn.down_s + down_s > path->step_s)
        path->step_s = dwelt_s + turn.down_s + down_s;
    // Up again from here to the last stage, by the last micro-batch, and its backward there.
    struct pair_times top = schedule_pair(times, last, 0);
    if (stage < last) dwelt_s += path->rise_s - up_s - own->pair.forward_s + top.backward_s;
    if (stage < last) dwelt_s -= own->pair.backward_s;
    if (dwelt_s > path->last_s) path->last_s = dwelt_s;
}

static void start(struct path *path, const struct pipeline_times *times, int run_count)
{
    path->times = times;
    path->step_s = path->last_s = path->forward_s = path->backward_s = 0;
    double hop_s = schedule_hop(times);
    for (int i = 0; i < run_count; i++) {
        path->own[i] = run_times(times, i);
        path->forward_s += times->runs->runs[i].count * (path->own[i].pair.forward_s + hop_s);
        path->backward_s += times->runs->runs[i].count * (path->own[i].pair.backward_s + hop_s);
        if (i == 0) continue;
        const struct run_times *below = &path->own[i - 1];
        struct run_times *own = &path->own[i];
        if (below->forward_most_s > own->forward_most_s)
            own->forward_most_s = below->forward_most_s;
        if (below->backward_most_s > own->backward_most_s)
            own->backward_most_s = below->backward_most_s;
    }
    path->rise_s = path->forward_s - hop_s;
}

// The last gradient reaches a stage before stage 0 by its way down; where the last stage ends
// earlier than that, stages between are taken to be early in proportion.
static void fill_ends(const struct pipeline_times *times, double step_s, double last_s,
                      double *end_s)
{
    const struct stage_runs *runs = times->runs;
    int last = times->shape.stage_count - 1;
    double hop_s = schedule_hop(times), way_s = 0;
    for (int i = 0; i < runs->run_count; i++) {
        end_s[i] = step_s - way_s;
        double own_s = schedule_pair(times, runs->runs[i].first, 0).backward_s + hop_s;
        way_s += runs->runs[i].count * own_s;
    }
    way_s -= schedule_pair(times, last, 0).backward_s + hop_s;
    double early_s = step_s - way_s - last_s;
    for (int i = 1; i < runs->run_count && early_s > 0; i++)
        end_s[i] -= early_s * runs->runs[i].first / last;
    end_s[runs->run_count] = last_s;
}

// Within a run the lowest stage that m allows makes the longest path.
static void ends(const struct pipeline_times *times, double *end_s)
{
    if (times->shape.tree) return tree_ends(times, &ONE_F_ONE_B_ROW, end_s);
    int stage_count = times->shape.stage_count;
    int least = stage_count - times->shape.micro_batch_count;  // m - w = 1
    double hop_s = schedule_hop(times);
    struct path path;  // large, used only as far as there are runs
    int run_count = times->runs->run_count;
    assert(run_count > 0 && run_count <= RUNS);
    start(&path, times, run_count);
    struct turn turn = {0, 0};
    for (int i = run_count - 1; i >= 0; i--) {
        struct stage_run run = times->runs->runs[i];
        const struct run_times *own = &path.own[i];
        int last = run.first + run.count - 1;
        if (last < least) break;
        path.forward_s -= run.count * (own->pair.forward_s + hop_s);
        path.backward_s -= run.count * (own->pair.backward_s + hop_s);
        if (i + 1 < run_count) turn = turn_at(own + 1, turn, 1, hop_s, 0);
        turn = turn_at(own, turn, 0, hop_s, stage_count - 1 - last);
        // Stage 1 before stage 0: it has neighbours on both sides. Then where m - w = 1.
        int lowest = run.first > least ? run.first : least + 1;
        int tries[] = {lowest > 0 ? lowest : 1, lowest, run.first > least ? lowest : least};
        for (int k = 0; k < 3; k++) {
            if (tries[k] > last || (k > 0 && tries[k] == tries[k - 1])) continue;
            turn = turn_at(own, turn, last - tries[k], hop_s, stage_count - 1 - tries[k]);
            try_stage(&path, i, tries[k], turn);
            last = tries[k];
        }
    }
    fill_ends(times, path.step_s, path.last_s, end_s);
}

const struct schedule_row ONE_F_ONE_B_ROW = {
    .name = "1f1b",
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
