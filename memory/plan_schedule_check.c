#include "memory/plan_schedule_check.h"

#include <assert.h>
#include <stdlib.h>

struct schedule_checking {
    struct arena *arena;
    struct json order, offsets;
    const struct memory_graph *graph;
    const struct memory_problem *problem;
    const struct stage_schedule *stage;
    struct err *err;
};

static bool check_order(const struct schedule_checking *checking)
{
    const struct memory_problem *problem = checking->problem;
    const int *order = checking->stage->order;
    int count = problem->operator_count;
    int *step = ARENA_NEW(checking->arena, int, count);
    for (int i = 0; i < count; i++) {
        struct json item = json_item(&checking->order, i);
        if (step[order[i]] > 0)
            return json_fail(&item, checking->err, "operator %d stands there twice", order[i]);
        step[order[i]] = i + 1;
    }
    for (int i = 0; i < count; i++) {
        int o = order[i];
        for (int k = problem->first_predecessor[o]; k < problem->first_predecessor[o + 1]; k++) {
            int before = problem->predecessors[k];
            if (step[before] <= i) continue;
            struct json item = json_item(&checking->order, i);
            return json_fail(&item, checking->err, "operator %d (%.99s) needs %d (%.99s) before it",
                             o, checking->graph->operators[o].name, before,
                             checking->graph->operators[before].name);
        }
    }
    return true;
}

static bool check_offset(const struct schedule_checking *checking, int64_t alignment, int tensor)
{
    assert(alignment > 0);
    assert(alignment > 0 && tensor >= 0 && tensor < checking->graph->tensor_count);
    const struct memory_tensor *of = &checking->graph->tensors[tensor];
    const struct memory_tensor *first = &checking->graph->tensors[of->storage];
    const struct stage_schedule *stage = checking->stage;
    int64_t offset = stage->offsets[tensor];
    struct json item = json_item(&checking->offsets, tensor);
    if (first->persistent || first->bytes == 0) {
        if (offset == -1) return true;
        return json_fail(&item, checking->err, "%.99s has no place in the arena, expected -1",
                         of->name);
    }
    if (offset < 0) return json_fail(&item, checking->err, "%.99s has no place", of->name);
    if (offset % alignment != 0)
        return json_fail(&item, checking->err, "%lld is no multiple of the alignment, %lld",
                         (long long)offset, (long long)alignment);
    if (offset != stage->offsets[of->storage])
        return json_fail(&item, checking->err, "%.99s uses the memory of %.99s, which is at %lld",
                         of->name, first->name, (long long)stage->offsets[of->storage]);
    if (first->bytes <= stage->arena_bytes - offset) return true;
    return json_fail(&item, checking->err, "%.99s of %lld bytes ends above the arena", of->name,
                     (long long)first->bytes);
}

struct event {
    int step, buffer;
    bool ends;
};

// Ends before beginnings: a lifetime is half-open, and the next may take its place.
static int compare_events(const void *a, const void *b)
{
    const struct event *left = a, *right = b;
    if (left->step != right->step) return left->step < right->step ? -1 : 1;
    if (left->ends != right->ends) return left->ends ? -1 : 1;
    return left->buffer < right->buffer ? -1 : left->buffer > right->buffer;
}

// Those alive, ascending by offset: a new one must end before the next begins, and the one before
// it end where it begins.
struct alive {
    const struct schedule_checking *checking;
    int *buffers;
    int count;
};

static int64_t offset_of(const struct alive *alive, int buffer)
{
    const struct schedule_checking *checking = alive->checking;
    return checking->stage->offsets[checking->problem->buffers[buffer].tensor];
}

static int find(const struct alive *alive, int64_t offset)
{
    int low = 0, high = alive->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (offset_of(alive, alive->buffers[middle]) < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_over(const struct alive *alive, int low, int high)
{
    const struct memory_buffer *buffers = alive->checking->problem->buffers;
    return offset_of(alive, low) + buffers[low].bytes > offset_of(alive, high);
}

static bool begin(struct alive *alive, int buffer, int *other)
{
    int at = find(alive, offset_of(alive, buffer));
    assert(at >= 0 && at <= alive->count);
    *other = at < alive->count ? alive->buffers[at] : -1;
    if (*other >= 0 && is_over(alive, buffer, *other)) return false;
    *other = at > 0 ? alive->buffers[at - 1] : -1;
    if (*other >= 0 && is_over(alive, *other, buffer)) return false;
    for (int i = alive->count++; i > at; i--)
        alive->buffers[i] = alive->buffers[i - 1];
    alive->buffers[at] = buffer;
    return true;
}

static void end(struct alive *alive, int buffer)
{
    assert(alive->count > 0);
    int at = find(alive, offset_of(alive, buffer));
    assert(at < alive->count && alive->buffers[at] == buffer);
    alive->count--;
    for (int i = at; i < alive->count; i++)
        alive->buffers[i] = alive->buffers[i + 1];
}

static bool check_overlap(const struct schedule_checking *checking, const int *birth,
                          const int *death)
{
    int count = checking->problem->buffer_count;
    struct event *events = ARENA_NEW(checking->arena, struct event, 2 * count);
    struct alive alive = {checking, ARENA_NEW(checking->arena, int, count), 0};
    for (int b = 0; b < count; b++) {
        events[2 * b] = (struct event){birth[b], b, false};
        events[2 * b + 1] = (struct event){death[b], b, true};
    }
    qsort(events, 2 * (size_t)count, sizeof *events, compare_events);
    for (int i = 0; i < 2 * count; i++) {
        int other, buffer = events[i].buffer;
        if (events[i].ends) {
            end(&alive, buffer);
        } else if (!begin(&alive, buffer, &other)) {
            int tensor = checking->problem->buffers[buffer].tensor;
            struct json item = json_item(&checking->offsets, tensor);
            const char *name =
                checking->graph->tensors[checking->problem->buffers[other].tensor].name;
            return json_fail(&item, checking->err, "%.99s overlaps %.99s, which lives with it",
                             checking->graph->tensors[tensor].name, name);
        }
    }
    return true;
}

// What the file says of itself has to be what its order comes to.
static bool check_sizes(const struct schedule_checking *checking, const struct json *object,
                        int64_t live_bytes)
{
    const struct stage_schedule *stage = checking->stage;
    struct json live = json_get(object, "live_bytes", checking->err);
    struct json bound = json_get(object, "bound_bytes", checking->err);
    if (stage->live_bytes != live_bytes)
        return json_fail(&live, checking->err, "the order has %lld bytes alive at once, found %lld",
                         (long long)live_bytes, (long long)stage->live_bytes);
    if (stage->bound_bytes <= stage->live_bytes) return true;
    return json_fail(&bound, checking->err, "the bound is above what the order needs, %lld",
                     (long long)live_bytes);
}

// A file may have been written by anyone: everything in it is found again.
bool stage_schedule_check(struct arena *arena, const struct json *object,
                          const struct plan_stage *group, int64_t alignment,
                          const struct stage_schedule *stage, struct err *err)
{
    struct schedule_checking checking = {arena,
                                         json_get(object, "order", err),
                                         json_get(object, "offsets", err),
                                         group->graph->graph,
                                         group->problem,
                                         stage,
                                         err};
    if (!check_order(&checking)) return false;
    for (int t = 0; t < stage->tensor_count; t++) {
        if (!check_offset(&checking, alignment, t)) return false;
    }
    assert(stage->tensor_count == checking.graph->tensor_count);
    int *birth = ARENA_NEW(arena, int, group->problem->buffer_count);
    int *death = ARENA_NEW(arena, int, group->problem->buffer_count);
    int64_t live_bytes = memory_lifetimes(arena, group->problem, stage->order, birth, death);
    return check_sizes(&checking, object, live_bytes) && check_overlap(&checking, birth, death);
}
