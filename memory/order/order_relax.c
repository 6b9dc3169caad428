#include "memory/order/order_relax.h"

#include <assert.h>
#include <string.h>

// Operators that are looked at to see whether one comes before another.
enum { LOOK_MAX = 2000 };

struct relaxing {
    struct arena *scratch;
    const struct memory_problem *problem;
    const struct order_division *division;
    int *slack;         // [operator]; -1: not of the core
    int *anchor;        // [operator] final one
    int64_t *bytes;     // [buffer]
    int64_t *carried;   // [operator] bytes that those moved here read
    int *seen, *queue;  // of a look; seen: the number of the look
    int look;
};

static bool is_core(const struct order_division *division, int op)
{
    int segment = division->segment[op];
    int place = division->unit[op] - division->first_unit[segment];
    return place < division->core_count[segment];
}

// Longest paths from the start, and how much longer those to the end could wait.
static void find_slack(struct relaxing *relaxing)
{
    const struct memory_problem *problem = relaxing->problem;
    int count = problem->operator_count, deepest = 0;
    int *depth = ARENA_NEW(relaxing->scratch, int, count);
    for (int op = 0; op < count; op++) {
        for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++) {
            int before = depth[problem->predecessors[p]] + 1;
            if (before > depth[op]) depth[op] = before;
        }
        if (is_core(relaxing->division, op) && depth[op] > deepest) deepest = depth[op];
    }
    int *latest = ARENA_NEW(relaxing->scratch, int, count);
    for (int op = count - 1; op >= 0; op--) {
        latest[op] = deepest;
        relaxing->slack[op] = -1;
        if (!is_core(relaxing->division, op)) continue;
        for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++) {
            int next = problem->successors[s];
            if (!is_core(relaxing->division, next)) continue;
            if (latest[next] - 1 < latest[op]) latest[op] = latest[next] - 1;
        }
        relaxing->slack[op] = latest[op] - depth[op];
    }
}

static bool comes_before(struct relaxing *relaxing, int first, int op)
{
    const struct memory_problem *problem = relaxing->problem;
    int count = 0;
    relaxing->look++;
    relaxing->queue[count++] = op;
    for (int i = 0; i < count && count < LOOK_MAX; i++) {
        int at = relaxing->queue[i];
        if (at == first) return true;
        for (int p = problem->first_predecessor[at]; p < problem->first_predecessor[at + 1]; p++) {
            int before = problem->predecessors[p];
            if (before < first || relaxing->seen[before] == relaxing->look) continue;
            relaxing->seen[before] = relaxing->look;
            if (count < LOOK_MAX) relaxing->queue[count++] = before;
        }
    }
    return false;
}

// What needs `op` first, whatever the order: where its readers have moved, counted from there.
// -1: that depends.
static int first_reader(struct relaxing *relaxing, int op)
{
    const struct memory_problem *problem = relaxing->problem;
    int begin = problem->first_successor[op], end = problem->first_successor[op + 1];
    int first = -1;
    for (int s = begin; s < end; s++) {
        int next = problem->successors[s];
        if (relaxing->anchor[next] >= 0) next = relaxing->anchor[next];
        if (relaxing->slack[next] < 0) return -1;
        if (first < 0 || next < first) first = next;
    }
    for (int s = begin; s < end; s++) {
        int next = problem->successors[s];
        if (relaxing->anchor[next] >= 0) next = relaxing->anchor[next];
        if (next != first && !comes_before(relaxing, first, next)) return -1;
    }
    return first;
}

static bool makes_any(const struct memory_problem *problem, int op)
{
    for (int t = problem->first_touched[op]; t < problem->first_touched[op + 1]; t++) {
        if (problem->buffers[problem->touched[t]].producer == op) return true;
    }
    return false;
}

// Later operators are asked first, so that chains move together.
static void choose_moved(struct relaxing *relaxing, int slack)
{
    for (int op = relaxing->problem->operator_count - 1; op >= 0; op--) {
        relaxing->anchor[op] = -1;
        if (relaxing->slack[op] < slack || !makes_any(relaxing->problem, op)) continue;
        relaxing->anchor[op] = first_reader(relaxing, op);
    }
}

// Takes what `op` may free off what it makes; false when it makes less.
static bool shrink_made(struct relaxing *relaxing, int op)
{
    const struct memory_problem *problem = relaxing->problem;
    int begin = problem->first_touched[op], end = problem->first_touched[op + 1];
    int64_t read_bytes = relaxing->carried[op], made_bytes = 0;
    for (int t = begin; t < end; t++) {
        int b = problem->touched[t];
        const struct memory_buffer *buffer = &problem->buffers[b];
        if (buffer->producer == op) {
            if (buffer->user_count > 0 || buffer->kept) made_bytes += relaxing->bytes[b];
        } else if (!buffer->kept) {
            read_bytes += relaxing->bytes[b];
        }
    }
    const int *first = &problem->first_successor[op];
    bool has_one_reader = first[1] - first[0] == 1;
    if (made_bytes < read_bytes || (read_bytes > 0 && !has_one_reader)) return false;
    assert(first[1] > first[0]);  // what is to move has a reader
    relaxing->carried[problem->successors[first[0]]] += read_bytes;
    for (int t = begin; t < end; t++) {
        int b = problem->touched[t];
        const struct memory_buffer *buffer = &problem->buffers[b];
        if (buffer->producer != op) continue;
        bool is_read = buffer->user_count > 0 || buffer->kept;
        int64_t less_bytes = is_read ? read_bytes : relaxing->bytes[b];
        if (less_bytes > relaxing->bytes[b]) less_bytes = relaxing->bytes[b];
        relaxing->bytes[b] -= less_bytes;
        if (is_read) read_bytes -= less_bytes;
    }
    assert(read_bytes == 0);  // all of it was taken off something
    return true;
}

// An operator stays where it is when it makes less than it reads, or when what it would have moved
// to does not move on; those that were to move with it go no farther than there.
static int confirm_moved(struct relaxing *relaxing)
{
    const struct memory_problem *problem = relaxing->problem;
    int count = problem->operator_count, moved = 0;
    bool *moves = ARENA_NEW(relaxing->scratch, bool, count);
    for (int op = 0; op < count; op++)
        moves[op] = relaxing->anchor[op] >= 0 && shrink_made(relaxing, op);
    for (int op = count - 1; op >= 0; op--) {
        relaxing->anchor[op] = moves[op] ? first_reader(relaxing, op) : -1;
        if (relaxing->anchor[op] >= 0) moved++;
    }
    return moved;
}

static int place_of(const struct relaxing *relaxing, int op)
{
    return relaxing->anchor[op] >= 0 ? relaxing->anchor[op] : op;
}

// Users ascend with few out of place: those that were moved.
static int add_user(int *users, int count, int op)
{
    int at = count;
    while (at > 0 && users[at - 1] > op)
        at--;
    if (at > 0 && users[at - 1] == op) return count;
    memmove(&users[at + 1], &users[at], (size_t)(count - at) * sizeof *users);
    users[at] = op;
    return count + 1;
}

static void move_users(struct arena *arena, const struct relaxing *relaxing,
                       struct memory_problem *moved)
{
    const struct memory_problem *problem = relaxing->problem;
    int count = problem->buffer_count, room = 0, used = 0;
    for (int b = 0; b < count; b++)
        room += problem->buffers[b].user_count;
    struct memory_buffer *buffers = ARENA_NEW(arena, struct memory_buffer, count);
    int *users = ARENA_NEW(arena, int, room + 1);
    for (int b = 0; b < count; b++) {
        const struct memory_buffer *from = &problem->buffers[b];
        buffers[b] = *from;
        buffers[b].bytes = relaxing->bytes[b];
        buffers[b].producer = from->producer < 0 ? -1 : place_of(relaxing, from->producer);
        buffers[b].first_user = used;
        int user_count = 0;
        for (int i = 0; i < from->user_count; i++) {
            int op = place_of(relaxing, problem->users[from->first_user + i]);
            if (op == buffers[b].producer) continue;
            user_count = add_user(&users[used], user_count, op);
        }
        buffers[b].user_count = user_count;
        used += user_count;
    }
    assert(used <= room);  // readers that moved to one place are one
    moved->buffers = buffers, moved->users = users;
}

static void move_touches(struct arena *arena, struct memory_problem *moved)
{
    int *first = ARENA_NEW(arena, int, moved->operator_count + 2), total = 0;
    for (int b = 0; b < moved->buffer_count; b++) {
        const struct memory_buffer *buffer = &moved->buffers[b];
        if (buffer->producer >= 0) first[buffer->producer + 2]++, total++;
        for (int i = 0; i < buffer->user_count; i++, total++)
            first[moved->users[buffer->first_user + i] + 2]++;
    }
    for (int op = 0; op < moved->operator_count; op++)
        first[op + 2] += first[op + 1];
    int *touched = ARENA_NEW(arena, int, total);
    for (int b = 0; b < moved->buffer_count; b++) {
        const struct memory_buffer *buffer = &moved->buffers[b];
        if (buffer->producer >= 0) touched[first[buffer->producer + 1]++] = b;
        for (int i = 0; i < buffer->user_count; i++)
            touched[first[moved->users[buffer->first_user + i] + 1]++] = b;
    }
    moved->first_touched = first, moved->touched = touched;
}

struct order_relaxed order_relax(struct arena *arena, struct arena *scratch,
                                 const struct order_division *division, int slack)
{
    const struct memory_problem *problem = division->problem;
    int count = problem->operator_count;
    int *anchor = ARENA_NEW(arena, int, count);
    struct arena_mark mark = arena_mark(scratch);
    struct relaxing relaxing = {.scratch = scratch,
                                .problem = problem,
                                .division = division,
                                .slack = ARENA_NEW(scratch, int, count),
                                .anchor = anchor,
                                .bytes = ARENA_NEW(scratch, int64_t, problem->buffer_count),
                                .carried = ARENA_NEW(scratch, int64_t, count),
                                .seen = ARENA_NEW(scratch, int, count),
                                .queue = ARENA_NEW(scratch, int, LOOK_MAX)};
    for (int b = 0; b < problem->buffer_count; b++)
        relaxing.bytes[b] = problem->buffers[b].bytes;
    find_slack(&relaxing);
    choose_moved(&relaxing, slack);
    int moved_count = confirm_moved(&relaxing);
    struct memory_problem *moved = ARENA_NEW(arena, struct memory_problem, 1);
    *moved = *problem;
    if (moved_count > 0) {
        move_users(arena, &relaxing, moved);
        move_touches(arena, moved);
    }
    arena_reset(scratch, mark);
    return (struct order_relaxed){moved, anchor, moved_count};
}
