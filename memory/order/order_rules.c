#include "memory/order/order.h"

#include <assert.h>

int *order_program(struct arena *arena, const struct memory_problem *problem)
{
    int *order = ARENA_NEW(arena, int, problem->operator_count);
    for (int i = 0; i < problem->operator_count; i++)
        order[i] = i;
    return order;
}

int64_t order_simple_bound(const struct memory_problem *problem)
{
    int64_t start_bytes = 0, end_bytes = 0, bound_bytes = 0;
    for (int b = 0; b < problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &problem->buffers[b];
        if (buffer->producer < 0) start_bytes += buffer->bytes;
        if (buffer->kept) end_bytes += buffer->bytes;
    }
    if (problem->operator_count == 0) return 0;
    bound_bytes = start_bytes > end_bytes ? start_bytes : end_bytes;
    for (int op = 0; op < problem->operator_count; op++) {
        int64_t bytes = 0;
        for (int t = problem->first_touched[op]; t < problem->first_touched[op + 1]; t++)
            bytes += problem->buffers[problem->touched[t]].bytes;
        if (bytes > bound_bytes) bound_bytes = bytes;
    }
    return bound_bytes;
}

// Ready operators in a heap by what they leave alive. A buffer's last user becomes a better choice
// when all others have run, and enters again; old entries are known by their value.
struct choice {
    int64_t net_bytes;
    int op;
};

struct lister {
    struct arena *scratch;
    const struct memory_problem *problem;
    struct choice *heap;
    int count, room;
    int *waits;         // [operator] predecessors still to run
    int *uses;          // [buffer] users still to run
    int64_t *user_sum;  // [buffer] of these: with one left, it
    bool *done;
};

static bool is_before(struct choice a, struct choice b)
{
    return a.net_bytes != b.net_bytes ? a.net_bytes < b.net_bytes : a.op < b.op;
}

static int64_t net_of(const struct lister *lister, int op)
{
    const struct memory_problem *problem = lister->problem;
    int64_t net_bytes = 0;
    for (int t = problem->first_touched[op]; t < problem->first_touched[op + 1]; t++) {
        int b = problem->touched[t];
        const struct memory_buffer *buffer = &problem->buffers[b];
        bool lives_on = buffer->kept || lister->uses[b] > (buffer->producer != op);
        if (buffer->producer == op && lives_on) net_bytes += buffer->bytes;
        if (buffer->producer != op && !lives_on) net_bytes -= buffer->bytes;
    }
    return net_bytes;
}

static void add(struct lister *lister, int op)
{
    if (lister->count == lister->room) {
        int room = lister->room * 2 + 64;
        struct choice *larger = ARENA_NEW(lister->scratch, struct choice, room);
        for (int i = 0; i < lister->count; i++)
            larger[i] = lister->heap[i];
        lister->heap = larger, lister->room = room;
    }
    struct choice item = {net_of(lister, op), op};
    int at = lister->count++;
    for (; at > 0 && is_before(item, lister->heap[(at - 1) / 2]); at = (at - 1) / 2)
        lister->heap[at] = lister->heap[(at - 1) / 2];
    lister->heap[at] = item;
}

static struct choice take(struct lister *lister)
{
    struct choice *heap = lister->heap;
    assert(heap && lister->count > 0);
    struct choice least = heap[0], item = heap[--lister->count];
    int at = 0;
    for (int child; (child = 2 * at + 1) < lister->count; at = child) {
        if (child + 1 < lister->count && is_before(heap[child + 1], heap[child])) child++;
        if (!is_before(heap[child], item)) break;
        heap[at] = heap[child];
    }
    heap[at] = item;
    return least;
}

static void run(struct lister *lister, int op)
{
    const struct memory_problem *problem = lister->problem;
    lister->done[op] = true;
    for (int t = problem->first_touched[op]; t < problem->first_touched[op + 1]; t++) {
        int b = problem->touched[t];
        if (problem->buffers[b].producer != op) {
            assert(lister->uses[b] > 0);
            lister->uses[b]--;
            lister->user_sum[b] -= op;
        }
        int last = (int)lister->user_sum[b];
        if (lister->uses[b] == 1 && lister->waits[last] == 0) add(lister, last);
    }
    for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++) {
        int next = problem->successors[s];
        if (--lister->waits[next] == 0) add(lister, next);
    }
}

int *order_greedy(struct arena *arena, struct arena *scratch, const struct memory_problem *problem)
{
    int count = problem->operator_count, at = 0;
    int *order = ARENA_NEW(arena, int, count);
    struct arena_mark mark = arena_mark(scratch);
    struct lister lister = {.scratch = scratch, .problem = problem};
    lister.waits = ARENA_NEW(scratch, int, count);
    lister.done = ARENA_NEW(scratch, bool, count);
    lister.uses = ARENA_NEW(scratch, int, problem->buffer_count);
    lister.user_sum = ARENA_NEW(scratch, int64_t, problem->buffer_count);
    for (int b = 0; b < problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &problem->buffers[b];
        lister.uses[b] = buffer->user_count;
        for (int i = 0; i < buffer->user_count; i++)
            lister.user_sum[b] += problem->users[buffer->first_user + i];
    }
    for (int op = 0; op < count; op++)
        lister.waits[op] = problem->first_predecessor[op + 1] - problem->first_predecessor[op];
    for (int op = 0; op < count; op++) {
        if (lister.waits[op] == 0) add(&lister, op);
    }
    while (at < count) {
        struct choice choice = take(&lister);
        bool is_old = lister.done[choice.op] || choice.net_bytes != net_of(&lister, choice.op);
        if (is_old) continue;
        order[at++] = choice.op;
        run(&lister, choice.op);
    }
    arena_reset(scratch, mark);
    return order;
}
