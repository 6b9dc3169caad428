#include "plan/schedules/common.h"

#include <assert.h>
#include <string.h>

static bool covers(const struct schedule_in_flight *a, const struct schedule_in_flight *b,
                   int count)
{
    for (int i = 0; i < count; i++) {
        if (a[i].alive < b[i].alive || a[i].waiting < b[i].waiting) return false;
    }
    return true;
}

static void raise(struct schedule_in_flight *hold, const struct schedule_in_flight *moment,
                  int count)
{
    for (int i = 0; i < count; i++) {
        if (hold[i].alive < moment[i].alive) hold[i].alive = moment[i].alive;
        if (hold[i].waiting < moment[i].waiting) hold[i].waiting = moment[i].waiting;
    }
}

void hold_list_add(struct hold_list *list, const struct schedule_in_flight *moment)
{
    assert(list->count <= SCHEDULE_IN_FLIGHT_MAX && list->chunk_count >= 1);
    int chunks = list->chunk_count, kept = 0;
    size_t bytes = (size_t)chunks * sizeof *moment;
    for (int i = 0; i < list->count; i++) {
        if (covers(&list->in_flight[i * chunks], moment, chunks)) return;
    }
    for (int i = 0; i < list->count; i++) {
        struct schedule_in_flight *hold = &list->in_flight[i * chunks];
        if (covers(moment, hold, chunks)) continue;
        if (kept < i) memcpy(&list->in_flight[kept * chunks], hold, bytes);
        kept++;
    }
    list->count = kept;
    if (kept == SCHEDULE_IN_FLIGHT_MAX) {
        raise(&list->in_flight[(kept - 1) * chunks], moment, chunks);
        return;
    }
    memcpy(&list->in_flight[kept * chunks], moment, bytes);
    list->count++;
}

// What the first `count` forwards hold of each chunk.
static void add_taken(const struct schedule_shape *shape, int count,
                      struct schedule_in_flight *moment)
{
    int p = shape->stage_count, v = shape->chunk_count;
    int each = count / (p * v) * p, rest = count % (p * v);
    for (int chunk = 0; chunk < v; chunk++, rest -= p)
        moment[chunk].alive += each + (rest < 0 ? 0 : rest > p ? p : rest);
}

// Behind the k-th forward after the warm-up, k of the 2v moments of a group at which the chunk of
// the forwards or that of the backwards changes: between them each step turns a micro-batch of one
// chunk into one of another, so that one of the ends is the heaviest. As many are alive at each
// moment: none is below another. All of it repeats with the groups; later only less is alive.
int schedule_fill_in_flight(const struct schedule_shape *shape, int warm_up,
                            struct schedule_in_flight *in_flight)
{
    int p = shape->stage_count, v = shape->chunk_count, total = v * shape->micro_batch_count;
    int steps = total - warm_up < p * v ? total - warm_up : p * v, count = 1;
    for (int chunk = 0; chunk < v; chunk++)
        in_flight[chunk] = (struct schedule_in_flight){0, 0};
    add_taken(shape, warm_up < total ? warm_up + 1 : total, in_flight);
    if (v == 1) steps = 1;
    int turn = p - 1 - warm_up % p;  // the last forward of its chunk
    for (int k = 0, next; k + 1 < steps; k = next, count++) {
        next = k % p < turn ? k - k % p + turn : k - k % p + p;
        if (next >= steps) break;
        struct schedule_in_flight *moment = &in_flight[count * v];
        memcpy(moment, moment - v, (size_t)v * sizeof *moment);
        moment[(warm_up + next) / p % v].alive += next - k;
        moment[v - 1 - k / p % v].alive -= next - k;
    }
    assert(count <= SCHEDULE_IN_FLIGHT_MAX);
    return count;
}
