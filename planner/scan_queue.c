#include "planner/scan_queue.h"

#include <assert.h>
#include <stdbool.h>

static bool before(const struct scan_entry *a, const struct scan_entry *b)
{
    if (a->bound_s != b->bound_s) return a->bound_s < b->bound_s;
    return a->group < b->group;
}

void scan_queue_push(struct scan_queue *queue, struct scan_entry entry)
{
    assert(entry.bound_s >= 0 && "what is no number has no order");
    int at = queue->count++;
    while (at > 0 && before(&entry, &queue->entries[(at - 1) / 2])) {
        queue->entries[at] = queue->entries[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->entries[at] = entry;
}

struct scan_entry scan_queue_pop(struct scan_queue *queue)
{
    assert(queue->count > 0);
    struct scan_entry top = queue->entries[0], last = queue->entries[--queue->count];
    int at = 0;
    for (int child = 1; child < queue->count; child = 2 * at + 1) {
        if (child + 1 < queue->count &&
            before(&queue->entries[child + 1], &queue->entries[child])) {
            child++;
        }
        if (!before(&queue->entries[child], &last)) break;
        queue->entries[at] = queue->entries[child];
        at = child;
    }
    queue->entries[at] = last;
    return top;
}
