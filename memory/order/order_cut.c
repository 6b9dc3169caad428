#include "memory/order/order_cut.h"

#include "memory/keep/max_flow.h"
#include "memory/order/order_cursor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Orders one after another that are no better than the best.
enum { IDLE_MAX = 50 };

enum side { BESIDE, BEFORE, BEHIND };

struct cutter {
    const struct order_local *local;
    int *first_predecessor, *predecessors;
    int *first_user, *users;  // of buffers, the producer not among them
    enum side *side;          // [unit] of the unit at hand
    int *node, *queue;        // [unit]
    struct max_flow flow;
};

struct moment {
    int64_t level_bytes;  // while the unit runs, in the order given
    int unit;
};

static int compare_moments(const void *left, const void *right)
{
    const struct moment *a = left, *b = right;
    if (a->level_bytes != b->level_bytes) return a->level_bytes > b->level_bytes ? -1 : 1;
    return a->unit - b->unit;
}

static void link_back(struct arena *scratch, struct cutter *cutter)
{
    const struct order_local *local = cutter->local;
    int count = local->unit_count, touch_count = local->first_touch[count];
    int *first_predecessor = ARENA_NEW(scratch, int, count + 2);
    int *first_user = ARENA_NEW(scratch, int, local->buffer_count + 2);
    cutter->predecessors = ARENA_NEW(scratch, int, local->first_successor[count]);
    cutter->users = ARENA_NEW(scratch, int, touch_count);
    for (int s = 0; s < local->first_successor[count]; s++)
        first_predecessor[local->successors[s] + 2]++;
    for (int t = 0; t < touch_count; t++)
        first_user[local->touches[t].buffer + 2]++;
    for (int u = 0; u < count; u++)
        first_predecessor[u + 2] += first_predecessor[u + 1];
    for (int b = 0; b < local->buffer_count; b++)
        first_user[b + 2] += first_user[b + 1];
    for (int u = 0; u < count; u++) {
        for (int s = local->first_successor[u]; s < local->first_successor[u + 1]; s++)
            cutter->predecessors[first_predecessor[local->successors[s] + 1]++] = u;
        for (int t = local->first_touch[u]; t < local->first_touch[u + 1]; t++)
            cutter->users[first_user[local->touches[t].buffer + 1]++] = u;
    }
    cutter->first_predecessor = first_predecessor, cutter->first_user = first_user;
}

static void mark(struct cutter *cutter, int unit, const int *first, const int *neighbours,
                 enum side side)
{
    int count = 0;
    cutter->queue[count++] = unit;
    for (int i = 0; i < count; i++) {
        for (int n = first[cutter->queue[i]]; n < first[cutter->queue[i] + 1]; n++) {
            int next = neighbours[n];
            if (cutter->side[next] != BESIDE) continue;
            cutter->side[next] = side;
            cutter->queue[count++] = next;
        }
    }
}

// What `unit` adds to the level before it at its highest step, at least: all that its earlier steps
// may free is taken to be freed.
static int64_t added_bytes(const struct order_local *local, int unit)
{
    int64_t level_bytes = 0, most_bytes = 0;
    for (int step = local->first_step[unit]; step < local->first_step[unit + 1]; step++) {
        level_bytes += local->made_bytes[step];
        int64_t bytes = level_bytes + local->inside_bytes[step];
        if (bytes > most_bytes) most_bytes = bytes;
        for (int t = local->first_touch[unit]; t < local->first_touch[unit + 1]; t++) {
            const struct order_touch *touch = &local->touches[t];
            bool is_here = touch->step == step - local->first_step[unit];
            if (is_here && !local->stays[touch->buffer])
                level_bytes -= local->buffer_bytes[touch->buffer];
        }
    }
    return most_bytes;
}

// Numbers the units beside the one at hand and links them; returns how many nodes there are.
static int link_units(struct cutter *cutter)
{
    const struct order_local *local = cutter->local;
    int count = MAX_FLOW_FIRST;
    for (int u = 0; u < local->unit_count; u++) {
        if (cutter->side[u] == BESIDE) cutter->node[u] = count++;
    }
    max_flow_clear(&cutter->flow, count + local->buffer_count);
    for (int u = 0; u < local->unit_count; u++) {
        if (cutter->side[u] != BESIDE) continue;
        for (int s = local->first_successor[u]; s < local->first_successor[u + 1]; s++) {
            int next = local->successors[s];
            if (cutter->side[next] != BESIDE) continue;
            max_flow_add(&cutter->flow, cutter->node[next], cutter->node[u], MAX_FLOW_ENDLESS);
        }
    }
    return count;
}

// Adds what `buffer` costs to the network, at `node` where it needs one of its own. Returns what it
// costs on either side of the cut.
static int64_t add_buffer(struct cutter *cutter, int buffer, int *node)
{
    const struct order_local *local = cutter->local;
    int producer = local->producer[buffer];
    int64_t bytes = local->buffer_bytes[buffer];
    enum side made = producer < 0 ? BEFORE : cutter->side[producer];
    if (made == BEHIND) return 0;
    int begin = cutter->first_user[buffer], end = cutter->first_user[buffer + 1];
    bool is_sure = local->stays[buffer];
    int beside_count = 0;
    for (int i = begin; i < end; i++) {
        is_sure = is_sure || cutter->side[cutter->users[i]] == BEHIND;
        beside_count += cutter->side[cutter->users[i]] == BESIDE;
    }
    if (made == BEFORE && is_sure) return bytes;
    int from = made == BEFORE ? MAX_FLOW_SOURCE : cutter->node[producer];
    if (is_sure) {
        max_flow_add(&cutter->flow, from, MAX_FLOW_SINK, bytes);
    } else if (beside_count > 0) {
        max_flow_add(&cutter->flow, from, *node, bytes);
        for (int i = begin; i < end; i++) {
            if (cutter->side[cutter->users[i]] != BESIDE) continue;
            max_flow_add(&cutter->flow, *node, cutter->node[cutter->users[i]], MAX_FLOW_ENDLESS);
        }
        ++*node;
    }
    return 0;
}

static int64_t least_level(struct cutter *cutter, int unit, int64_t scan_limit)
{
    const struct order_local *local = cutter->local;
    memset(cutter->side, 0, (size_t)local->unit_count * sizeof *cutter->side);
    cutter->side[unit] = BEHIND;
    mark(cutter, unit, local->first_successor, local->successors, BEHIND);
    mark(cutter, unit, cutter->first_predecessor, cutter->predecessors, BEFORE);
    int node = link_units(cutter);
    int64_t level_bytes = local->entry_bytes + added_bytes(local, unit);
    for (int b = 0; b < local->buffer_count; b++) {
        if (local->producer[b] < 0) level_bytes -= local->buffer_bytes[b];
        level_bytes += add_buffer(cutter, b, &node);
    }
    return level_bytes + max_flow_run(&cutter->flow, scan_limit);
}

static struct moment *find_moments(struct arena *scratch, const struct order_local *local,
                                   const int *units)
{
    struct moment *moments = ARENA_NEW(scratch, struct moment, local->unit_count);
    struct order_cursor cursor = order_cursor_make(scratch, local);
    for (int i = 0; i < local->unit_count; i++) {
        moments[i] = (struct moment){order_cursor_peak(&cursor, units[i]), units[i]};
        order_cursor_run(&cursor, units[i]);
    }
    qsort(moments, (size_t)local->unit_count, sizeof *moments, compare_moments);
    return moments;
}

static struct cutter cutter_make(struct arena *scratch, const struct order_local *local)
{
    assert(local->mandatory_count == local->unit_count);
    int count = local->unit_count, touches = local->first_touch[count];
    struct cutter cutter = {.local = local,
                            .side = ARENA_NEW(scratch, enum side, count),
                            .node = ARENA_NEW(scratch, int, count),
                            .queue = ARENA_NEW(scratch, int, count)};
    link_back(scratch, &cutter);
    cutter.flow = max_flow_make(scratch, MAX_FLOW_FIRST + count + local->buffer_count,
                                local->first_successor[count] + touches + local->buffer_count);
    return cutter;
}

int64_t order_cut_bound(struct arena *scratch, const struct order_local *local, const int *units,
                        int64_t bound_bytes, int64_t *scans_left)
{
    struct arena_mark mark_before = arena_mark(scratch);
    struct cutter cutter = cutter_make(scratch, local);
    int count = local->unit_count;
    const struct moment *moments = find_moments(scratch, local, units);
    for (int i = 0; i < count && moments[i].level_bytes > bound_bytes; i++) {
        int64_t level_bytes = least_level(&cutter, moments[i].unit, *scans_left);
        assert(level_bytes <= moments[i].level_bytes);
        if (level_bytes > bound_bytes) bound_bytes = level_bytes;
        cutter.flow.scan_count += count + local->buffer_count;
        if (cutter.flow.scan_count >= *scans_left) break;
    }
    *scans_left -= cutter.flow.scan_count;
    arena_reset(scratch, mark_before);
    return bound_bytes;
}

// What has run at the cut first, then `unit`, then the rest, each in the order in which they were.
static void regroup(const struct cutter *cutter, int unit, const int *units, int *regrouped)
{
    int count = cutter->local->unit_count, at = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < count; i++) {
            int u = units[i];
            bool has_run = cutter->side[u] == BEFORE;
            if (cutter->side[u] == BESIDE) has_run = cutter->flow.layer[cutter->node[u]] > 0;
            if (u != unit && has_run == (pass == 0)) regrouped[at++] = u;
        }
        if (pass == 0) regrouped[at++] = unit;
    }
}

static struct moment highest_moment(struct order_cursor *cursor, const int *units)
{
    struct moment highest = {-1, 0};
    order_cursor_load(cursor, NULL);
    for (int i = 0; i < cursor->local->unit_count; i++) {
        int64_t level_bytes = order_cursor_peak(cursor, units[i]);
        if (level_bytes > highest.level_bytes) highest = (struct moment){level_bytes, units[i]};
        order_cursor_run(cursor, units[i]);
    }
    return highest;
}

void order_cut_improve(struct arena *scratch, const struct order_local *local, int *units,
                       int64_t *scans_left)
{
    struct arena_mark mark_before = arena_mark(scratch);
    int count = local->unit_count, step_scans = local->first_touch[count] * 4;
    struct cutter cutter = cutter_make(scratch, local);
    struct order_cursor cursor = order_cursor_make(scratch, local);
    int *now = ARENA_NEW(scratch, int, count), *next = ARENA_NEW(scratch, int, count);
    memcpy(now, units, (size_t)count * sizeof *units);
    int64_t least_bytes = INT64_MAX;
    for (int idle = 0; idle < IDLE_MAX; idle++) {
        struct moment moment = highest_moment(&cursor, now);
        if (moment.level_bytes < least_bytes) {
            least_bytes = moment.level_bytes, idle = 0;
            memcpy(units, now, (size_t)count * sizeof *units);
        }
        int64_t level_bytes = least_level(&cutter, moment.unit, *scans_left);
        assert(level_bytes <= moment.level_bytes);  // the order itself is one of the cuts
        cutter.flow.scan_count += step_scans;
        if (level_bytes == moment.level_bytes || cutter.flow.scan_count >= *scans_left) break;
        regroup(&cutter, moment.unit, now, next);
        int *swapped = now;
        now = next, next = swapped;
    }
    *scans_left -= cutter.flow.scan_count;
    arena_reset(scratch, mark_before);
}
