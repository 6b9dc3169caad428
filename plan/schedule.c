#include "plan/schedule.h"

#include "plan/schedules/common.h"

#include <assert.h>
#include <string.h>

static const struct schedule_row *const ROWS[SCHEDULE_KIND_COUNT] = {
#define SCHEDULE(id, row) [SCHEDULE_##id] = &(row),
#include "plan/schedules/schedules.inc"
};

const struct schedule_row *schedule_row(enum schedule_kind kind)
{
    assert((unsigned)kind < SCHEDULE_KIND_COUNT && ROWS[kind]);
    return ROWS[kind];
}

const char *schedule_name(enum schedule_kind kind)
{
    return schedule_row(kind)->name;
}

bool schedule_takes_chunks(enum schedule_kind kind)
{
    const struct schedule_shape shape = {
        .stage_count = 2, .chunk_count = 2, .micro_batch_count = 4};
    const char *why;
    return schedule_row(kind)->legal(&shape, &why);
}

int schedule_linear_stage(const struct schedule_shape *shape, int virtual_stage)
{
    return virtual_stage % shape->stage_count;
}

int schedule_linear_chunk(const struct schedule_shape *shape, int virtual_stage)
{
    return virtual_stage / shape->stage_count;
}

bool schedule_one_chunk(const struct schedule_shape *shape, const char **why)
{
    if (shape->chunk_count == 1) return true;
    *why = "runs one chunk a stage (vpp 1)";
    return false;
}

int schedule_next(const struct schedule_shape *shape, int virtual_stage)
{
    if (shape->tree) return shape->tree->next[virtual_stage];
    int count = shape->stage_count * shape->chunk_count;
    return virtual_stage + 1 < count ? virtual_stage + 1 : -1;
}

int schedule_before(const struct schedule_shape *shape, int virtual_stage, int n)
{
    const struct stage_tree *tree = shape->tree;
    if (!tree) return n == 0 ? virtual_stage - 1 : -1;
    int found = -1;
    for (int edge = -1; n >= 0; n--) {
        found = -1;
        for (int s = 0; s < virtual_stage; s++) {
            bool is_later = tree->next[s] == virtual_stage && tree->first_edge[s] > edge;
            if (is_later && (found < 0 || tree->first_edge[s] < tree->first_edge[found])) found = s;
        }
        if (found < 0) return -1;
        edge = tree->first_edge[found];
    }
    return found;
}

// The k-th forward of a stage: groups of p micro-batches go through chunk 0, then through chunk 1
// and so on (Megatron-LM, get_model_chunk_id). The same micro-batch is back, one chunk on, p
// forwards later on every stage, which is when the last stage has sent it.
static struct slot forward_at(const struct schedule_shape *shape, int k)
{
    int group_size = shape->stage_count * shape->chunk_count;
    int within = k % group_size;
    int micro_batch = k / group_size * shape->stage_count + within % shape->stage_count;
    // With one chunk a group is p micro-batches in order, and m need not be a multiple of p.
    return (struct slot){TASK_FORWARD, (uint8_t)(within / shape->stage_count), micro_batch};
}

static struct slot *put_backward(const struct schedule_shape *shape, int k, struct slot *at)
{
    struct slot slot = forward_at(shape, k);
    slot.chunk = (uint8_t)(shape->chunk_count - 1 - slot.chunk);
    slot.kind = TASK_BACKWARD;
    *at++ = slot;
    slot.kind = TASK_WEIGHT;
    *at++ = slot;
    return at;
}

void schedule_fill(const struct schedule_shape *shape, int warm_up, struct slot *slots)
{
    int total = shape->chunk_count * shape->micro_batch_count;
    assert(warm_up >= 0 && warm_up <= total);
    struct slot *at = slots;
    for (int k = 0; k < warm_up; k++)
        *at++ = forward_at(shape, k);
    for (int k = 0; k < total; k++) {
        if (warm_up + k < total) *at++ = forward_at(shape, warm_up + k);
        at = put_backward(shape, k, at);
    }
    assert(at - slots == (ptrdiff_t)SLOT_KIND_COUNT * total);
}

double schedule_hop(const struct pipeline_times *times)
{
    return times->shape.stage_count > 1 ? times->hop_s : 0;
}

static bool same_classes(const struct schedule_shape *shape, const int *class_of, int a, int b)
{
    for (int chunk = 0; chunk < shape->chunk_count; chunk++) {
        if (class_of[a * shape->chunk_count + chunk] != class_of[b * shape->chunk_count + chunk])
            return false;
    }
    return true;
}

const struct stage_runs *stage_runs_make(struct arena *arena, const struct schedule_shape *shape,
                                         const int *class_of, int class_count)
{
    struct stage_run *runs = ARENA_NEW(arena, struct stage_run, shape->stage_count);
    int *class_uses = ARENA_NEW(arena, int, class_count);
    int run_count = 0;
    for (int stage = 0; stage < shape->stage_count; stage++) {
        if (stage == 0 || !same_classes(shape, class_of, stage - 1, stage))
            runs[run_count++].first = stage;
        runs[run_count - 1].count++;
    }
    for (int i = 0; i < shape->stage_count * shape->chunk_count; i++) {
        assert(class_of[i] >= 0 && class_of[i] < class_count);
        class_uses[class_of[i]]++;
    }
    struct stage_runs *all = ARENA_NEW(arena, struct stage_runs, 1);
    *all = (struct stage_runs){runs, run_count, class_uses};
    return all;
}

int task_number(const struct schedule_shape *shape, const struct task_id *id)
{
    assert(id->kind >= 0 && id->kind < TASK_KIND_COUNT && id->chunk < shape->chunk_count);
    return (id->item * shape->chunk_count + id->chunk) * TASK_KIND_COUNT + id->kind;
}

struct task_id task_id_of(const struct schedule_shape *shape, int number)
{
    int rest = number / TASK_KIND_COUNT;
    return (struct task_id){number % TASK_KIND_COUNT, rest % shape->chunk_count,
                            rest / shape->chunk_count};
}
