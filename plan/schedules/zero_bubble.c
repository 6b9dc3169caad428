#include "plan/schedules/common.h"

#include <assert.h>

// Zero bubble with one chunk a stage (Qi et al., arXiv 2401.10241, section 2). W is a task of its
// own: the gradient goes on after B, and W fills what 1F1B leaves idle. All orders here are one
// family: stage i runs w_i forwards, then in round j forward j + w_i, backward j and the weight
// gradient of j - d_i, with w_i + 1 + d_i = cap micro-batches between F and W on every stage.
// - cap = p is ZB-H1: w_i as in 1F1B; where F, B and W take equally long, the bubble is
//   (p-1) (F + B - W).
// - cap = 2p - 1 is ZB-H2: twice the warm-up, (p-1) (F + B - 2W) from the first to the last task of
//   each stage. The step is longer by the time that the last stage starts later: the gradient norm
//   waits for all stages, the paper's post-validation (section 4) is not assumed.
// - cap = 2p stands for what software finds that searches under a limit of 2p micro-batches
//   (`in_flight` of zb-h2): sending takes time, so the first stages hold one more.
// - any other cap is zb-auto, after the paper's heuristic (section 3.1): as much warm-up as the cap
//   bears, then B and F in turn, and a W when the cap asks for it.

// More warm-up at one stage than at the next hides what lies between its forward and its first
// gradient; stages of equal warm-up wait for each other's round. So above p the stages near the end
// take the steps of two first, for all stages below them gain by it; below p, where some have to be
// equal, as few as can be, from stage 0 on. (Of all non-increasing warm-ups by steps of 0 and 1
// none is faster in equal times: tests/simulator/test_zero_bubble.c tries them.)
static int warm_up_of(int p, int stage, int cap)
{
    assert(stage >= 0 && stage < p && cap >= 1 && (p > 1 || cap == 1));
    int above = p - 1 - stage;
    if (cap > p) {
        int step = (cap - 1) / (p - 1), left = (cap - 1) % (p - 1);
        return above * step + (above < left ? above : left);
    }
    int equal = (p + cap - 1) / cap;
    int most = cap - 1 - stage / equal;
    return above < most ? above : most;
}

// p: the stages of the longest way, where they are a tree, in which a stage counts by those behind.
static int depth_of(const struct schedule_shape *shape)
{
    int most = 0;
    if (!shape->tree) return shape->stage_count;
    for (int stage = 0; stage < shape->stage_count; stage++)
        if (shape->tree->behind[stage] > most) most = shape->tree->behind[stage];
    return most + 1;
}

static void rounds_of(const struct schedule_shape *shape, int stage, int cap, int *warm_up,
                      int *delay)
{
    int p = depth_of(shape), place = shape->tree ? p - 1 - shape->tree->behind[stage] : stage;
    if (shape->stage_count == 1) cap = 1;
    *warm_up = warm_up_of(p, place, cap);
    assert(*warm_up >= 0 && *warm_up < cap);
    *delay = cap - 1 - *warm_up;
}

static struct slot *put(struct slot *at, enum task_kind kind, int micro_batch)
{
    *at = (struct slot){(uint8_t)kind, 0, micro_batch};
    return at + 1;
}

static void fill(const struct schedule_shape *shape, int stage, int cap, struct slot *slots)
{
    int m = shape->micro_batch_count, warm_up, delay;
    rounds_of(shape, stage, cap, &warm_up, &delay);
    struct slot *at = slots;
    for (int j = 0; j < warm_up && j < m; j++)
        at = put(at, TASK_FORWARD, j);
    for (int j = 0; j < m; j++) {
        if (j + warm_up < m) at = put(at, TASK_FORWARD, j + warm_up);
        at = put(at, TASK_BACKWARD, j);
        if (j >= delay) at = put(at, TASK_WEIGHT, j - delay);
    }
    for (int j = m > delay ? m - delay : 0; j < m; j++)
        at = put(at, TASK_WEIGHT, j);
    assert(at - slots == (ptrdiff_t)SLOT_KIND_COUNT * m);
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

// In round j. With few micro-batches the forwards end before the weight gradients begin, and
// between the two each round turns an alive micro-batch into a waiting one: both ends are tried.
static int in_flight_of(const struct schedule_shape *shape, int stage, int cap,
                        struct schedule_in_flight *in_flight)
{
    int m = shape->micro_batch_count, warm_up, delay;
    rounds_of(shape, stage, cap, &warm_up, &delay);
    struct hold_list list = {in_flight, 1, 0};
    int turns = m - warm_up - 1;  // the last forward's round
    const int tried[] = {0, smaller(turns > 0 ? turns : 0, delay), smaller(delay, m - 1)};
    for (int i = 0; i < 3; i++) {
        int j = tried[i];
        int forwards = smaller(warm_up + j + 1, m), weights = j > delay ? 1 : 0;
        hold_list_add(&list, &(struct schedule_in_flight){forwards - j, j - weights});
        hold_list_add(&list, &(struct schedule_in_flight){forwards - j - 1, j + 1 - weights});
    }
    return list.count;
}

static int h1_cap(const struct schedule_shape *shape)
{
    return depth_of(shape);
}

static int most_useful_cap(const struct schedule_shape *shape)
{
    return 2 * depth_of(shape) - 1;
}

static int h2_cap(const struct schedule_shape *shape)
{
    return shape->in_flight ? shape->in_flight : most_useful_cap(shape);
}

// Without a pipeline there is nothing to wait for that W could fill.
static bool legal(const struct schedule_shape *shape, const char **why)
{
    if (!schedule_one_chunk(shape, why)) return false;
    *why = shape->stage_count < 2 ? "needs at least two stages (pp)" : NULL;
    return !*why;
}

static bool h2_legal(const struct schedule_shape *shape, const char **why)
{
    if (!legal(shape, why)) return false;
    if (shape->in_flight == 0 || shape->in_flight == 2 * shape->stage_count) return true;
    *why = "holds 2 pp - 1 micro-batches a stage (in-flight 0), or 2 pp where it is searched";
    return false;
}

// More than ZB-H2 holds gains nothing in equal times; nor does more than p where there are no more
// micro-batches than that, as the first gradient would only come later.
static int auto_cap(const struct schedule_shape *shape)
{
    int p = depth_of(shape), cap = shape->in_flight ? shape->in_flight : p;
    int most = smaller(shape->micro_batch_count, most_useful_cap(shape));
    if (most < p) most = p;
    return cap < most ? cap : most;
}

static bool auto_legal(const struct schedule_shape *shape, const char **why)
{
    if (!legal(shape, why)) return false;
    if (shape->in_flight >= 0) return true;
    *why = "holds at least one micro-batch a stage (in-flight)";
    return false;
}

static void h1_order(const struct schedule_shape *shape, int stage, struct slot *slots)
{
    fill(shape, stage, h1_cap(shape), slots);
}

static void h2_order(const struct schedule_shape *shape, int stage, struct slot *slots)
{
    fill(shape, stage, h2_cap(shape), slots);
}

static void auto_order(const struct schedule_shape *shape, int stage, struct slot *slots)
{
    fill(shape, stage, auto_cap(shape), slots);
}

static int h1_in_flight(const struct schedule_shape *shape, int stage,
                        struct schedule_in_flight *in_flight)
{
    return in_flight_of(shape, stage, h1_cap(shape), in_flight);
}

static int h2_in_flight(const struct schedule_shape *shape, int stage,
                        struct schedule_in_flight *in_flight)
{
    return in_flight_of(shape, stage, h2_cap(shape), in_flight);
}

static int auto_in_flight(const struct schedule_shape *shape, int stage,
                          struct schedule_in_flight *in_flight)
{
    return in_flight_of(shape, stage, auto_cap(shape), in_flight);
}

static void h1_ends(const struct pipeline_times *times, double *end_s)
{
    if (times->shape.tree) return tree_ends(times, &ZB_H1_ROW, end_s);
    rounds_ends(times, rounds_of, h1_cap(&times->shape), end_s);
}

static void h2_ends(const struct pipeline_times *times, double *end_s)
{
    if (times->shape.tree) return tree_ends(times, &ZB_H2_ROW, end_s);
    rounds_ends(times, rounds_of, h2_cap(&times->shape), end_s);
}

static void auto_ends(const struct pipeline_times *times, double *end_s)
{
    if (times->shape.tree) return tree_ends(times, &ZB_AUTO_ROW, end_s);
    rounds_ends(times, rounds_of, auto_cap(&times->shape), end_s);
}

const struct schedule_row ZB_H1_ROW = {
    .name = "zb-h1",
    .runs_trees = true,
    .hold_ratio = 1,
    .legal = legal,
    .order = h1_order,
    .stage_of = schedule_linear_stage,
    .chunk_of = schedule_linear_chunk,
    .in_flight = h1_in_flight,
    .ends = h1_ends,
};

const struct schedule_row ZB_H2_ROW = {
    .name = "zb-h2",
    .runs_trees = true,
    .hold_ratio = 1,
    .legal = h2_legal,
    .order = h2_order,
    .stage_of = schedule_linear_stage,
    .chunk_of = schedule_linear_chunk,
    .in_flight = h2_in_flight,
    .ends = h2_ends,
};

const struct schedule_row ZB_AUTO_ROW = {
    .name = "zb-auto",
    .runs_trees = true,
    .hold_ratio = 1,
    .legal = auto_legal,
    .order = auto_order,
    .stage_of = schedule_linear_stage,
    .chunk_of = schedule_linear_chunk,
    .in_flight = auto_in_flight,
    .ends = auto_ends,
};
