#include "plan/schedules/common.h"

#include <assert.h>

// ZB-V (Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362): two chunks a
// stage, placed as a V, so that stage 0 holds virtual stage 0 and the last one. Each stage holds at
// most 2p chunks' micro-batches between F and W, half a stage each: the peak of 1F1B on stage 0.
//
// The order is that of a list scheduling in which every task takes one unit of time and a hop none:
// at each unit a stage runs the first of these whose input is there: B of chunk 0, B of chunk 1, F
// of chunk 1, F of chunk 0, W of chunk 1, W of chunk 0, an F only below the cap. It cannot
// deadlock, because it has run. The gradient norm waits for all stages: post-validation is not
// assumed.

enum { CHUNKS = 2, KINDS = CHUNKS * TASK_KIND_COUNT };

// Tasks done, by kind and chunk.
struct stage_counts {
    int done[TASK_KIND_COUNT][CHUNKS];
};

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

static const struct slot PRIORITY[KINDS] = {
    {TASK_BACKWARD, 0, 0}, {TASK_BACKWARD, 1, 0}, {TASK_FORWARD, 1, 0},
    {TASK_FORWARD, 0, 0},  {TASK_WEIGHT, 1, 0},   {TASK_WEIGHT, 0, 0},
};

// How many micro-batches have what this task reads: the chunk before or after is on the stage below
// for forwards of chunk 0 and backwards of chunk 1, else above, or at the turns on the same stage.
static int inputs_of(const struct schedule_shape *shape, const struct stage_counts *stages,
                     const struct stage_counts *below, int stage, const struct slot *task)
{
    const struct stage_counts *own = &stages[stage];
    int m = shape->micro_batch_count, last = shape->stage_count - 1;
    if (task->kind == TASK_WEIGHT) return own->done[TASK_BACKWARD][task->chunk];
    if (task->kind == TASK_FORWARD) {
        if (task->chunk == 0) return stage == 0 ? m : below->done[TASK_FORWARD][0];
        return stage == last ? own->done[TASK_FORWARD][0] : stages[stage + 1].done[TASK_FORWARD][1];
    }
    if (task->chunk == 1)
        return stage == 0 ? own->done[TASK_FORWARD][1] : below->done[TASK_BACKWARD][1];
    return stage == last ? own->done[TASK_BACKWARD][1] : stages[stage + 1].done[TASK_BACKWARD][0];
}

static int held_of(const struct stage_counts *own)
{
    return own->done[TASK_FORWARD][0] + own->done[TASK_FORWARD][1] - own->done[TASK_WEIGHT][0] -
           own->done[TASK_WEIGHT][1];
}

// The task that a stage runs now; false: it waits. `below` is the stage below as it was at the
// beginning of this unit.
static bool pick(const struct schedule_shape *shape, const struct stage_counts *stages,
                 const struct stage_counts *below, int stage, struct slot *task)
{
    const struct stage_counts *own = &stages[stage];
    bool is_full = held_of(own) >= CHUNKS * shape->stage_count;
    for (int i = 0; i < KINDS; i++) {
        *task = PRIORITY[i];
        if (task->kind == TASK_FORWARD && is_full) continue;
        task->micro_batch = own->done[task->kind][task->chunk];
        if (task->micro_batch < inputs_of(shape, stages, below, stage, task)) return true;
    }
    return false;
}

// What a stage runs, one task after the other.
typedef void visit(void *context, int stage, const struct slot *task);

static void schedule_list(const struct schedule_shape *shape, visit *visit_task, void *context)
{
    struct arena spare = {0};
    int p = shape->stage_count, left = KINDS * p * shape->micro_batch_count;
    struct stage_counts *stages = ARENA_NEW(&spare, struct stage_counts, p);
    while (left > 0) {
        int before = left;
        struct stage_counts below = {0};
        for (int stage = 0; stage < p; stage++) {
            struct stage_counts was = stages[stage];
            struct slot task;
            if (pick(shape, stages, &below, stage, &task)) {
                stages[stage].done[task.kind][task.chunk]++;
                visit_task(context, stage, &task);
                left--;
            }
            below = was;
        }
        assert(left < before && "every unit runs a task");
    }
    arena_free(&spare);
}

struct orders {
    struct slot *slots;
    int *next;   // [stage]
    int wanted;  // stage, -1 for all
};

static void put(void *context, int stage, const struct slot *task)
{
    struct orders *orders = context;
    if (orders->wanted < 0) orders->slots[orders->next[stage]++] = *task;
    if (orders->wanted == stage) *orders->slots++ = *task;
}

static void order(const struct schedule_shape *shape, int stage, struct slot *slots)
{
    schedule_list(shape, put, &(struct orders){slots, NULL, stage});
}

static void order_all(const struct schedule_shape *shape, struct slot *slots)
{
    struct arena spare = {0};
    int *next = ARENA_NEW(&spare, int, shape->stage_count);
    for (int stage = 0; stage < shape->stage_count; stage++)
        next[stage] = stage * KINDS * shape->micro_batch_count;
    schedule_list(shape, put, &(struct orders){slots, next, -1});
    arena_free(&spare);
}

// The order repeats itself once the pipeline is full, long before this many micro-batches.
static int repeating_count(const struct schedule_shape *shape)
{
    return 5 * shape->stage_count + 8;
}

struct moments {
    int stage;
    struct schedule_hold now[CHUNKS];
    struct hold_list list;
};

static void count_moment(void *context, int stage, const struct slot *task)
{
    struct moments *moments = context;
    if (stage != moments->stage) return;
    struct schedule_hold *hold = &moments->now[task->chunk];
    if (task->kind == TASK_WEIGHT) {
        hold->waiting--;
        return;
    }
    hold->alive += task->kind == TASK_FORWARD ? 1 : -1;
    hold->waiting += task->kind == TASK_BACKWARD;
    hold_list_add(&moments->list, moments->now);
}

static int holds_of(const struct schedule_shape *shape, int stage, struct schedule_hold *holds)
{
    struct schedule_shape few = *shape;
    int most = repeating_count(shape);
    if (few.micro_batch_count > most) few.micro_batch_count = most;
    struct moments moments = {.stage = stage, .list = {holds, CHUNKS, 0}};
    schedule_list(&few, count_moment, &moments);
    return moments.list.count;
}

static double duration(const struct pipeline_times *times, double *end_s)
{
    int window = times->shape.stage_count + 4;
    struct replay replay = {&ZB_V_ROW, order_all, repeating_count(&times->shape), window};
    return replay_duration(times, &replay, end_s);
}

const struct schedule_row ZB_V_ROW = {
    .name = "zb-v",
    .legal = legal,
    .order = order,
    .stage_of = stage_of,
    .chunk_of = chunk_of,
    .holds = holds_of,
    .duration = duration,
};
