#include "simulator/walk.h"

#include <assert.h>
#include <string.h>

// How spans are called and ordered.

const char *spans_task_name(const void *context, const struct span *span, struct arena *scratch)
{
    const struct schedule_shape *shape = context;
    struct task_id id = task_id_of(shape, span->task);
    enum task_kind kind = (enum task_kind)id.kind;
    bool is_message = kind == TASK_SEND || kind == TASK_RECEIVE;
    const char *name = task_kind_name(kind);
    if (is_message) {
        name = arena_print(scratch, "%s %s", name, task_kind_name((enum task_kind)(id.item % 2)));
        id.item /= 2;
    }
    if (task_kind_is_once(kind) && kind != TASK_GRADIENT_REDUCE) return name;
    const char *item = id.kind == TASK_GRADIENT_REDUCE ? "bucket " : "";
    if (shape->chunk_count == 1) return arena_print(scratch, "%s %s%d", name, item, id.item);
    return arena_print(scratch, "%s %s%d chunk %d", name, item, id.item, id.chunk);
}

static bool before(const struct span *a, const struct span *b)
{
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns;
    if (a->rank != b->rank) return a->rank < b->rank;
    return a->stream < b->stream;
}

// A stable merge sort: spans were added stream by stream in their order, so that ties end on it.
void spans_sort(struct arena *scratch, struct spans *spans)
{
    int64_t count = spans->count;
    struct span *from = spans->list, *to = ARENA_NEW(scratch, struct span, count);
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t low = 0; low < count; low += 2 * width) {
            int64_t middle = low + width < count ? low + width : count;
            int64_t high = middle + width < count ? middle + width : count;
            int64_t left = low, right = middle;
            for (int64_t at = low; at < high; at++) {
                bool take_right =
                    left == middle || (right < high && before(&from[right], &from[left]));
                to[at] = take_right ? from[right++] : from[left++];
            }
        }
        struct span *swap = from;
        from = to;
        to = swap;
    }
    if (from != spans->list) memcpy(spans->list, from, (size_t)count * sizeof *from);
}
