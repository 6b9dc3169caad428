#include "memory/stage_unroll.h"

#include <assert.h>

// A step is its cut one with `round_slots` slots in front of slot `at` repeated so many times.
struct stage_repeat {
    int at, round_slots, round_micro_batches;
};

static bool is_like(const struct stage_slot *a, const struct stage_slot *b, int micro_batches)
{
    return a->kind == b->kind && a->fused == b->fused && a->chunk == b->chunk &&
           a->micro_batch == b->micro_batch + micro_batches;
}

static int same_first(const struct stage_slots *whole, const struct stage_slots *cut)
{
    int count = 0;
    while (count < cut->count && is_like(&whole->slots[count], &cut->slots[count], 0))
        count++;
    return count;
}

static int same_last(const struct stage_slots *whole, const struct stage_slots *cut)
{
    int more = whole->micro_batches - cut->micro_batches, count = 0;
    while (count < cut->count && is_like(&whole->slots[whole->count - 1 - count],
                                         &cut->slots[cut->count - 1 - count], more))
        count++;
    return count;
}

// A slot has what comes for the one behind it, and what the one in front sends: the last of a round
// has the first of the next behind it, as it has in the cut step, and that has it in front. The
// first of a step has nobody in front, and receives by itself. No micro-batch works across the
// joint: what lives within its own work has one place.
static bool is_joined(const struct stage_slots *cut, const struct stage_repeat *repeat)
{
    int at = repeat->at, first = at - repeat->round_slots, apart = repeat->round_micro_batches;
    const struct stage_slot *slots = cut->slots;
    if (at == cut->count || slots[at - 1].micro_batch == slots[first].micro_batch + apart)
        return false;
    return is_like(&slots[at], &slots[first], apart) &&
           (first == 0 || is_like(&slots[at - 1], &slots[first - 1], apart));
}

// Without a pipeline there is nothing beside a micro-batch's work.
static bool repeats(const struct stage_slots *whole, const struct stage_slots *cut,
                    const struct stage_repeat *repeat, bool is_alone)
{
    int more = whole->count - cut->count, size = repeat->round_slots;
    if (more % size || (!is_alone && !is_joined(cut, repeat))) return false;
    for (int i = 0; i < more; i++) {
        const struct stage_slot *like = &cut->slots[repeat->at - size + i % size];
        int apart = repeat->round_micro_batches * (1 + i / size);
        if (!is_like(&whole->slots[repeat->at + i], like, apart)) return false;
    }
    return true;
}

static bool find_repeat(const struct stage_slots *whole, const struct stage_slots *cut,
                        bool is_alone, struct stage_repeat *found)
{
    int last = same_first(whole, cut), first = cut->count - same_last(whole, cut);
    int each = cut->count / cut->micro_batches;
    assert(each > 0 && each * cut->micro_batches == cut->count);
    for (int round = 1; round <= cut->micro_batches; round++) {
        int size = round * each;
        for (int at = first > size ? first : size; at <= last; at++) {
            *found = (struct stage_repeat){at, size, round};
            if (repeats(whole, cut, found, is_alone)) return true;
        }
    }
    return false;
}

bool stage_unroll(struct arena *arena, const struct program *program, int stage,
                  const struct stage_slots *cut, struct stage_unroll *unroll)
{
    const struct schedule_shape *shape = &program->shape;
    struct stage_slots whole = stage_slots_of(arena, program, stage, shape->micro_batch_count);
    int more = whole.count - cut->count;
    struct stage_repeat repeat = {.at = cut->count, .round_slots = 1};
    if (more > 0 && !find_repeat(&whole, cut, shape->stage_count == 1, &repeat)) return false;
    assert(repeat.round_slots > 0);
    int *like = ARENA_NEW(arena, int, whole.count);
    for (int s = 0; s < whole.count; s++) {
        bool is_again = s >= repeat.at && s < repeat.at + more;
        int first = repeat.at - repeat.round_slots;
        like[s] = is_again        ? first + (s - repeat.at) % repeat.round_slots
                  : s < repeat.at ? s
                                  : s - more;
    }
    *unroll = (struct stage_unroll){whole, like, repeat.at, repeat.round_micro_batches};
    return true;
}
