#include "plan/schedules/common.h"

#include <assert.h>

// ZB-V (Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362): two chunks a
// stage, placed as a V, so that stage 0 holds virtual stage 0 and the last one. Each stage holds at
// most 2p chunks' micro-batches between F and W, half a stage each: the peak of 1F1B on stage 0.
//
// The order is what list scheduling gives where every task takes one unit of time and a hop none:
// at each unit a stage runs the first of these whose input is there: F of chunk 1, B of chunk 0, F
// of chunk 0, W of chunk 0, B of chunk 1, W of chunk 1, and an F only below the cap of 2p. (Of all
// priorities this is one of those that settle into the same six tasks a round.) Written out, so
// that a stage need not know the others; tests/simulator/test_zero_bubble.c plays the list
// scheduling. In those times the step is longer than its work by p - 1 half tasks, the start of the
// last stage. The gradient norm waits for all stages: post-validation is not assumed.

enum { CHUNKS = 2 };

static bool legal(const struct schedule_shape *shape, const char **why)
{
    *why = shape->stage_count < 2         ? "needs at least two stages (pp)"
           : shape->chunk_count != CHUNKS ? "runs exactly two chunks a stage (vpp 2)"
                                          : NULL;
    return !*why;
}

static int stage_of(const struct schedule_shape *shape, int virtual_stage)
{
    int p = shape->stage_count;
    return virtual_stage < p ? virtual_stage : 2 * p - 1 - virtual_stage;
}

static int chunk_of(const struct schedule_shape *shape, int virtual_stage)
{
    return virtual_stage >= shape->stage_count;
}

// What takes the tasks of a stage one by one.
struct stage_order {
    int micro_batch_count;
    int done[SLOT_KIND_COUNT][CHUNKS];
    int held;                // chunks' micro-batches between F and W
    struct slot *slots;      // the next one, or NULL
    struct hold_list *list;  // of the moments, or NULL
};

// The next micro-batch of this task; nothing when all are done.
static void put(struct stage_order *order, enum task_kind kind, int chunk)
{
    int *done = &order->done[kind][chunk];
    if (*done == order->micro_batch_count) return;
    if (order->slots) *order->slots++ = (struct slot){(uint8_t)kind, (uint8_t)chunk, *done};
    ++*done;
    if (kind == TASK_FORWARD) order->held++;
    if (kind == TASK_WEIGHT) order->held--;
    assert(order->held >= 0 && "a weight gradient follows its forward");
    if (!order->list || kind == TASK_WEIGHT) return;
    struct schedule_in_flight moment[CHUNKS];
    for (int i = 0; i < CHUNKS; i++) {
        int backward = order->done[TASK_BACKWARD][i];
        moment[i].alive = order->done[TASK_FORWARD][i] - backward;
        moment[i].waiting = backward - order->done[TASK_WEIGHT][i];
    }
    hold_list_add(order->list, moment);
}

// Until the first gradient of chunk 0 comes.
static void fill_start(const struct schedule_shape *shape, int stage, struct stage_order *order)
{
    assert(stage >= 0 && stage < shape->stage_count);
    int p = shape->stage_count, above = p - 1 - stage;
    for (int i = 0; i < 2 * above; i++)
        put(order, TASK_FORWARD, 0);
    for (int i = 0; i <= stage; i++) {
        put(order, TASK_FORWARD, 0);
        put(order, TASK_FORWARD, 1);
    }
    for (int i = 0; i < above; i++) {
        put(order, TASK_BACKWARD, 1);
        if (order->held >= CHUNKS * p) put(order, TASK_WEIGHT, 1);
        put(order, TASK_FORWARD, 1);
    }
}

static void fill(const struct schedule_shape *shape, int stage, struct stage_order *order)
{
    int m = order->micro_batch_count;
    bool turns = stage == shape->stage_count - 1;  // the gradient of chunk 1 is at hand
    fill_start(shape, stage, order);
    while (order->done[TASK_FORWARD][1] < m) {
        if (turns) put(order, TASK_BACKWARD, 1);
        put(order, TASK_BACKWARD, 0);
        put(order, TASK_WEIGHT, 0);
        put(order, TASK_FORWARD, 0);
        if (!turns) put(order, TASK_BACKWARD, 1);
        put(order, TASK_WEIGHT, 1);
        put(order, TASK_FORWARD, 1);
    }
    // Each turns an alive micro-batch of chunk 1 into a waiting one: the first or the last is
    // heaviest.
    struct hold_list *list = order->list;
    for (int left = m - order->done[TASK_BACKWARD][1]; left > 0; left--) {
        if (left == 1) order->list = list;
        put(order, TASK_BACKWARD, 1);
        put(order, TASK_BACKWARD, 0);
        put(order, TASK_WEIGHT, 0);
        order->list = NULL;
    }
    order->list = list;
    while (order->done[TASK_WEIGHT][0] < m || order->done[TASK_WEIGHT][1] < m) {
        put(order, TASK_WEIGHT, 1);
        put(order, TASK_BACKWARD, 0);
        put(order, TASK_WEIGHT, 0);
    }
    assert(order->held == 0);
}

static void order_of(const struct schedule_shape *shape, int stage, struct slot *slots)
{
    struct stage_order order = {.micro_batch_count = shape->micro_batch_count, .slots = slots};
    fill(shape, stage, &order);
    assert(order.slots - slots == (ptrdiff_t)SLOT_KIND_COUNT * CHUNKS * shape->micro_batch_count);
}

// From its first W of chunk 0 on a stage runs the same six tasks a round, until its forwards end:
// more micro-batches than this only add rounds.
static int repeating_count(const struct schedule_shape *shape)
{
    return 2 * shape->stage_count + 1;
}

static int in_flight_of(const struct schedule_shape *shape, int stage,
                        struct schedule_in_flight *in_flight)
{
    int most = repeating_count(shape), m = shape->micro_batch_count;
    struct hold_list list = {in_flight, CHUNKS, 0};
    struct stage_order order = {.micro_batch_count = m < most ? m : most, .list = &list};
    fill(shape, stage, &order);
    return list.count;
}

// 2p forwards, then a B, a W and an F of chunk 1 for each stage above.
static int first_slot(const struct schedule_shape *shape, int stage)
{
    return 2 * shape->stage_count + 3 * (shape->stage_count - 1 - stage);
}

static void ends(const struct pipeline_times *times, double *end_s)
{
    struct repeat repeat = {CHUNKS * SLOT_KIND_COUNT, repeating_count(&times->shape), first_slot};
    replay_ends(times, &ZB_V_ROW, &repeat, end_s);
}

const struct schedule_row ZB_V_ROW = {
    .name = "zb-v",
    .most_inside = true,
    .hold_ratio = 0.5,
    .legal = legal,
    .order = order_of,
    .stage_of = stage_of,
    .chunk_of = chunk_of,
    .in_flight = in_flight_of,
    .ends = ends,
};
