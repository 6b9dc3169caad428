#include "plan/schedules/common.h"

#include <string.h>

static bool covers(const struct schedule_hold *a, const struct schedule_hold *b, int count)
{
    for (int i = 0; i < count; i++) {
        if (a[i].alive < b[i].alive || a[i].waiting < b[i].waiting) return false;
    }
    return true;
}

static void raise(struct schedule_hold *hold, const struct schedule_hold *moment, int count)
{
    for (int i = 0; i < count; i++) {
        if (hold[i].alive < moment[i].alive) hold[i].alive = moment[i].alive;
        if (hold[i].waiting < moment[i].waiting) hold[i].waiting = moment[i].waiting;
    }
}

void hold_list_add(struct hold_list *list, const struct schedule_hold *moment)
{
    int chunks = list->chunk_count, kept = 0;
    size_t bytes = (size_t)chunks * sizeof *moment;
    for (int i = 0; i < list->count; i++) {
        if (covers(&list->holds[i * chunks], moment, chunks)) return;
    }
    for (int i = 0; i < list->count; i++) {
        struct schedule_hold *hold = &list->holds[i * chunks];
        if (covers(moment, hold, chunks)) continue;
        if (kept < i) memcpy(&list->holds[kept * chunks], hold, bytes);
        kept++;
    }
    list->count = kept;
    if (kept == SCHEDULE_HOLD_MAX) {
        raise(&list->holds[(kept - 1) * chunks], moment, chunks);
        return;
    }
    memcpy(&list->holds[kept * chunks], moment, bytes);
    list->count++;
}

// How many of the first `count` forwards (or backwards, of the chunk as far from the last) are of
// `chunk`.
static int taken(const struct schedule_shape *shape, int count, int chunk)
{
    int p = shape->stage_count, group = p * shape->chunk_count;
    if (shape->chunk_count == 1) return count;
    int rest = count % group - chunk * p;
    return count / group * p + (rest < 0 ? 0 : rest > p ? p : rest);
}

// After the k-th forward behind the warm-up. Until the chunk of the forwards or that of the
// backwards changes, each step turns a micro-batch of one chunk into one of another, so that a
// moment of change is the heaviest. All of it repeats with the groups; later only less is alive.
int schedule_fill_holds(const struct schedule_shape *shape, int warm_up,
                        struct schedule_hold *holds)
{
    struct hold_list list = {holds, shape->chunk_count, 0};
    struct schedule_hold moment[UINT8_MAX + 1];
    int p = shape->stage_count, v = shape->chunk_count, total = v * shape->micro_batch_count;
    int steps = total - warm_up < p * v ? total - warm_up : p * v;
    if (v == 1 || steps < 1) steps = 1;
    for (int k = 0; k < steps; k++) {
        int forwards = warm_up + k + 1 < total ? warm_up + k + 1 : total;
        bool changes = k == 0 || k == steps - 1 || forwards % p == 0 || k % p == 0;
        if (!changes) continue;
        for (int chunk = 0; chunk < v; chunk++) {
            int alive = taken(shape, forwards, chunk) - taken(shape, k, v - 1 - chunk);
            moment[chunk] = (struct schedule_hold){alive, 0};
        }
        hold_list_add(&list, moment);
    }
    return list.count;
}
