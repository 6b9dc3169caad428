#include "plan/schedules/common.h"

#include <assert.h>

// Stages that are a tree, task by task. What a stage hands on, and the gradient that comes back,
// are known by that stage: each has one that it hands on to.

struct member {
    struct slot *slots;
    int next;
    double now_s, sending_s;   // of its last task, and how long that blocks it to send
    double link_s[2];          // until when its links are taken
    double *there_s, *back_s;  // [micro-batch]; NEVER_S: not yet
    double end_s, busy_s;      // of its last W, and how long it has worked
};

struct grove {
    const struct pipeline_times *times;
    enum task_kind sends;  // the kind of slot that sends a gradient
    struct member *members;
    double hop_s;
};

static const double NEVER_S = -1;

// When all that a slot needs is there; NEVER_S: not yet. *blocks_s: how long it is to receive it.
static double ready_s(const struct grove *grove, int stage, const struct slot *slot,
                      double *blocks_s)
{
    const struct schedule_shape *shape = &grove->times->shape;
    double each_s = grove->times->hop_overlapped ? 0 : grove->hop_s, ready_s = 0;
    *blocks_s = 0;
    if (slot->kind == TASK_BACKWARD && shape->tree->next[stage] >= 0) {
        *blocks_s = each_s;
        return grove->members[stage].back_s[slot->micro_batch];
    }
    for (int s = 0; slot->kind == TASK_FORWARD && s < stage; s++) {
        if (shape->tree->next[s] != stage) continue;
        double there_s = grove->members[s].there_s[slot->micro_batch];
        if (there_s < 0) return NEVER_S;
        if (there_s > ready_s) ready_s = there_s;
        *blocks_s += each_s;
    }
    return ready_s;
}

static double sent_s(const struct grove *grove, struct member *member, int way)
{
    double start_s = member->now_s + member->sending_s;
    if (!grove->times->hop_overlapped) {
        member->sending_s += grove->hop_s;
        return start_s + grove->hop_s;
    }
    if (member->link_s[way] > start_s) start_s = member->link_s[way];
    return member->link_s[way] = start_s + grove->hop_s;
}

static void send(const struct grove *grove, int stage, const struct slot *slot)
{
    const int *next = grove->times->shape.tree->next;
    struct member *own = &grove->members[stage];
    if (slot->kind == TASK_FORWARD && next[stage] >= 0)
        own->there_s[slot->micro_batch] = sent_s(grove, own, 0);
    for (int n = 0, s; slot->kind == grove->sends; n++) {
        if ((s = schedule_before(&grove->times->shape, stage, n)) < 0) break;
        grove->members[s].back_s[slot->micro_batch] = sent_s(grove, own, 1);
    }
}

// The next task of a stage, if what it needs is there.
static bool run(const struct grove *grove, int stage)
{
    const struct pipeline_times *times = grove->times;
    struct member *own = &grove->members[stage];
    const struct slot *slot = &own->slots[own->next];
    const struct chunk_times *length = &times->classes[times->class_of[stage]];
    double blocks_s, needs_s = ready_s(grove, stage, slot, &blocks_s);
    if (needs_s < 0) return false;
    own->now_s += blocks_s > own->sending_s ? blocks_s : own->sending_s;
    if (needs_s > own->now_s) own->now_s = needs_s;
    double length_s = slot->kind == TASK_FORWARD    ? length->forward_s
                      : slot->kind == TASK_BACKWARD ? length->backward_s
                                                    : length->weight_s;
    own->now_s += length_s;
    own->busy_s += length_s;
    if (own->next == 0 && times->late_s) own->now_s += times->late_s[stage];
    own->sending_s = 0;
    own->next++;
    if (slot->kind == TASK_WEIGHT) own->end_s = own->now_s;
    send(grove, stage, slot);
    return true;
}

static void start(struct arena *arena, const struct grove *grove, const struct schedule_row *row)
{
    const struct schedule_shape *shape = &grove->times->shape;
    int rounds = shape->micro_batch_count;
    for (int stage = 0; stage < shape->stage_count; stage++) {
        struct member *own = &grove->members[stage];
        own->slots = ARENA_NEW(arena, struct slot, SLOT_KIND_COUNT * rounds);
        own->there_s = ARENA_NEW(arena, double, rounds);
        own->back_s = ARENA_NEW(arena, double, rounds);
        row->order(shape, stage, own->slots);
        for (int m = 0; m < rounds; m++)
            own->there_s[m] = own->back_s[m] = NEVER_S;
    }
}

void tree_ends(const struct pipeline_times *times, const struct schedule_row *row, double *end_s)
{
    assert(times->shape.tree && times->shape.stage_count >= 1);
    struct arena spare = {0};
    int stages = times->shape.stage_count, last = stages - 1;
    struct grove grove = {times, row->backward_fused ? TASK_WEIGHT : TASK_BACKWARD,
                          ARENA_NEW(&spare, struct member, stages), schedule_hop(times)};
    start(&spare, &grove, row);
    int slot_count = SLOT_KIND_COUNT * times->shape.micro_batch_count;
    for (bool has_moved = true; has_moved;) {
        has_moved = false;
        for (int i = 0; i < 2 * stages; i++) {
            int stage = i < stages ? i : 2 * stages - 1 - i;
            while (grove.members[stage].next < slot_count && run(&grove, stage))
                has_moved = true;
        }
    }
    for (int stage = 0; stage < stages; stage++)
        assert(grove.members[stage].next == slot_count && "the schedule deadlocks");
    for (int i = 0; i <= times->runs->run_count; i++) {
        int stage = i < times->runs->run_count ? times->runs->runs[i].first : last;
        const struct member *of = &grove.members[stage];
        end_s[i] = of->end_s;
        if (times->idle_s) times->idle_s[i] = of->end_s - of->busy_s;
    }
    arena_free(&spare);
}
