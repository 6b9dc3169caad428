#include "simulator/walk.h"

#include <assert.h>
#include <math.h>

// Gradient reduction on the dp stream of one stage. A chunk's reduction is cut into bucket_count
// pieces; piece j is ready (j + 1) / n through the chunk's last backward (B and W) on the stage.
// The pieces run one after the other in the order of the chunks' last backwards, at full speed
// while the stage's compute stream waits and at overlap_ratio of it while it runs. The stage's
// data-parallel group moves together: its timeline is the latest over its ranks, slot by slot.

struct dp_stream {
    const int64_t *start_ns, *end_ns;  // when compute runs
    int count, at;
    double speed;
    int64_t now_ns;
};

// The end of `work_ns` that may start at `ready_ns`.
static int64_t finish(struct dp_stream *dp, int64_t ready_ns, int64_t work_ns)
{
    if (ready_ns > dp->now_ns) dp->now_ns = ready_ns;
    assert(work_ns >= 0 && dp->speed >= 0);
    double left_ns = (double)work_ns;
    while (left_ns > 0) {
        while (dp->at < dp->count && dp->end_ns[dp->at] <= dp->now_ns)
            dp->at++;
        bool over = dp->at == dp->count;
        bool busy = !over && dp->now_ns >= dp->start_ns[dp->at];
        double speed = busy ? dp->speed : 1;
        int64_t until_ns = over ? INT64_MAX : busy ? dp->end_ns[dp->at] : dp->start_ns[dp->at];
        double can_ns = speed * (double)(until_ns - dp->now_ns);
        if (over || left_ns <= can_ns) {
            dp->now_ns += llround(left_ns / speed);
            left_ns = 0;
        } else {
            left_ns -= can_ns;
            dp->now_ns = until_ns;
        }
    }
    return dp->now_ns;
}

static void add_spans(struct walk *walk, struct task_id id, const int *ranks, int rank_count,
                      int64_t start_ns, int64_t end_ns)
{
    for (int i = 0; walk->spans && i < rank_count; i++) {
        struct span span = {ranks[i], STREAM_DP, task_number(&walk->price->shape, &id), start_ns,
                            end_ns};
        spans_add(walk->spans, &span);
    }
}

int64_t reduce_end_ns(struct walk *walk, const struct step_price *price, int stage,
                      const int *ranks, int rank_count)
{
    const struct slot *slots = walk->slots + (ptrdiff_t)stage * walk->slot_room;
    int count = walk->tail_count[stage], first = walk->slot_count - count;
    assert(count > 0 && first >= 0);
    const int64_t *starts_ns = walk->tail_start_ns[stage], *ends_ns = walk->tail_end_ns[stage];
    struct dp_stream dp = {starts_ns, ends_ns, count, 0, price->overlap_ratio, 0};
    int fused = walk->row->backward_fused;
    for (int n = 0; n < count; n++) {
        const struct slot *slot = &slots[first + n];
        if (slot->kind != TASK_WEIGHT) continue;
        if (slot->micro_batch != walk->micro_batch_count - 1) continue;
        int class = price->class_of[stage * price->shape.chunk_count + slot->chunk];
        int64_t work_ns = walk_ns(price->classes[class].gradient_reduce_s);
        int buckets = price->classes[class].bucket_count;
        if (buckets < 1) buckets = 1;
        int64_t window_ns = ends_ns[n] - starts_ns[n - fused];
        for (int i = 0; work_ns > 0 && i < buckets; i++) {
            int64_t ready_ns = starts_ns[n - fused] + window_ns * (i + 1) / buckets;
            if (!price->reduce_overlapped) ready_ns = ends_ns[count - 1];
            int64_t start_ns = ready_ns > dp.now_ns ? ready_ns : dp.now_ns;
            int64_t part_ns = work_ns * (i + 1) / buckets - work_ns * i / buckets;
            int64_t end_ns = finish(&dp, ready_ns, part_ns);
            assert(start_ns <= end_ns && part_ns >= 0);
            struct task_id id = {TASK_GRADIENT_REDUCE, slot->chunk, i};
            add_spans(walk, id, ranks, rank_count, start_ns, end_ns);
            walk->event_count += rank_count;
        }
    }
    return dp.now_ns;
}
