#include "memory/check.h"

#include <assert.h>
#include <stdlib.h>

// Nothing here is called by a solver, and no solver is called from here. Lifetimes are found again
// from the tensors themselves, overlaps by a sweep in order of address instead of time.

enum { NOTHING = -1 };

// A rectangle of the answer, as the question says it is.
struct check_box {
    int64_t first, last;  // steps, both inclusive, after numbering
    int64_t offset, bytes;
    int buffer;
};

// The highest end of any box so far, step by step, for ranges: a binary tree whose inner nodes hold
// the highest of what was put on all of their steps and of their children.
struct skyline {
    int64_t *all;   // put on every step below this node
    int64_t *most;  // highest anywhere below it
    int64_t leaf_count;
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static struct skyline skyline_new(struct arena *scratch, int64_t step_count)
{
    assert(step_count >= 0);
    struct skyline sky = {.leaf_count = 1};
    while (sky.leaf_count < step_count)
        sky.leaf_count *= 2;
    sky.all = ARENA_NEW(scratch, int64_t, 2 * sky.leaf_count);
    sky.most = ARENA_NEW(scratch, int64_t, 2 * sky.leaf_count);
    return sky;
}

// The highest end over steps first .. last; node covers low .. high.
static int64_t skyline_over(const struct skyline *sky, int64_t node, int64_t low, int64_t high,
                            int64_t first, int64_t last)
{
    if (last < low || high < first) return 0;
    if (first <= low && high <= last) return sky->most[node];
    int64_t middle = low + (high - low) / 2;
    int64_t left = skyline_over(sky, 2 * node, low, middle, first, last);
    int64_t right = skyline_over(sky, 2 * node + 1, middle + 1, high, first, last);
    return larger(sky->all[node], larger(left, right));
}

static void skyline_put(struct skyline *sky, int64_t node, int64_t low, int64_t high,
                        const struct check_box *box)
{
    if (box->last < low || high < box->first) return;
    int64_t end = box->offset + box->bytes;
    sky->most[node] = larger(sky->most[node], end);
    if (box->first <= low && high <= box->last) {
        sky->all[node] = larger(sky->all[node], end);
        return;
    }
    int64_t middle = low + (high - low) / 2;
    skyline_put(sky, 2 * node, low, middle, box);
    skyline_put(sky, 2 * node + 1, middle + 1, high, box);
}

// From the bottom up: a box can only meet those that are put already.
static int by_offset(const void *a, const void *b)
{
    const struct check_box *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

// Two boxes that share a step and an address; `boxes` are sorted.
static bool find_overlap(struct arena *scratch, struct check_box *boxes, int count,
                         int64_t step_count, const char **why)
{
    qsort(boxes, (size_t)count, sizeof *boxes, by_offset);
    struct skyline sky = skyline_new(scratch, step_count);
    for (int i = 0; i < count; i++) {
        const struct check_box *box = &boxes[i];
        int64_t top = skyline_over(&sky, 1, 0, sky.leaf_count - 1, box->first, box->last);
        assert(box->bytes >= 0 && box->last < sky.leaf_count);
        if (top > box->offset) {
            for (int k = 0; k < i; k++) {
                const struct check_box *other = &boxes[k];
                bool meets = other->first <= box->last && box->first <= other->last;
                if (!meets || other->offset + other->bytes <= box->offset) continue;
                *why = arena_print(scratch, "buffers %d and %d overlap at address %lld",
                                   other->buffer, box->buffer, (long long)box->offset);
                return true;
            }
        }
        assert(box->first >= 0 && box->last < sky.leaf_count);
        skyline_put(&sky, 1, 0, sky.leaf_count - 1, box);
    }
    return false;
}

static bool fail(struct arena *scratch, const char **why, const char *what, int64_t found,
                 int64_t wanted)
{
    *why =
        arena_print(scratch, "%s: %lld, expected %lld", what, (long long)found, (long long)wanted);
    return false;
}

// Most bytes alive at once.
static int64_t sweep(struct arena *scratch, const struct check_box *boxes, int count,
                     int64_t step_count)
{
    int64_t *change = ARENA_NEW(scratch, int64_t, step_count + 1);
    for (int i = 0; i < count; i++) {
        assert(boxes[i].first >= 0 && boxes[i].first <= boxes[i].last &&
               boxes[i].last < step_count);
        change[boxes[i].first] += boxes[i].bytes;
        change[boxes[i].last + 1] -= boxes[i].bytes;
    }
    int64_t live_bytes = 0, most_bytes = 0;
    for (int64_t step = 0; step < step_count; step++) {
        live_bytes += change[step];
        most_bytes = larger(most_bytes, live_bytes);
    }
    assert(live_bytes >= 0 && most_bytes >= live_bytes);
    return most_bytes;
}

// What holds of every answer, once its boxes are known.
static bool check_boxes(struct arena *scratch, struct check_box *boxes, int count,
                        int64_t step_count, int64_t capacity,
                        const struct memory_schedule *schedule, const char **why)
{
    int64_t height = 0;
    for (int i = 0; i < count; i++) {
        if (boxes[i].offset < 0) return fail(scratch, why, "negative offset", boxes[i].offset, 0);
        height = larger(height, boxes[i].offset + boxes[i].bytes);
    }
    int64_t live_bytes = sweep(scratch, boxes, count, step_count);
    if (live_bytes != schedule->live_bytes)
        return fail(scratch, why, "bytes alive at once", schedule->live_bytes, live_bytes);
    if (height > schedule->arena_bytes)
        return fail(scratch, why, "arena below its highest buffer", schedule->arena_bytes, height);
    if (schedule->bound_bytes > schedule->arena_bytes)
        return fail(scratch, why, "bound above what was found", schedule->bound_bytes,
                    schedule->arena_bytes);
    if (live_bytes > schedule->arena_bytes)
        return fail(scratch, why, "arena below what is alive", schedule->arena_bytes, live_bytes);
    bool fits = capacity == 0 || schedule->arena_bytes <= capacity;
    if (fits != schedule->fits) return fail(scratch, why, "fits", schedule->fits, fits);
    if (schedule->infeasible && fits)
        return fail(scratch, why, "infeasible, though it fits", schedule->arena_bytes, capacity);
    return !find_overlap(scratch, boxes, count, step_count, why);
}

// The step of each operator, if every one of them runs once and after what it needs.
static bool check_order(struct arena *scratch, const struct memory_graph *graph, const int *order,
                        int *step_of, const char **why)
{
    for (int o = 0; o < graph->operator_count; o++)
        step_of[o] = NOTHING;
    for (int step = 0; step < graph->operator_count; step++) {
        int o = order[step];
        if (o < 0 || o >= graph->operator_count || step_of[o] != NOTHING)
            return fail(scratch, why, "operator run twice or not at all", o, step);
        step_of[o] = step;
    }
    for (int o = 0; o < graph->operator_count; o++) {
        const struct memory_operator *op = &graph->operators[o];
        for (int i = 0; i < op->input_count; i++) {
            int producer = graph->tensors[op->inputs[i]].producer;
            if (producer >= 0 && step_of[producer] >= step_of[o])
                return fail(scratch, why, "operator runs before its input is made", o, producer);
        }
        for (int i = 0; i < op->after_count; i++) {
            if (step_of[op->after[i]] >= step_of[o])
                return fail(scratch, why, "operator runs before what it comes after", o,
                            op->after[i]);
        }
    }
    return true;
}

// The tensor whose value this one shows: views show that of what they view.
static int value_of(const struct memory_graph *graph, int tensor)
{
    while (graph->tensors[tensor].shares >= 0 && !graph->tensors[tensor].overwrites)
        tensor = graph->tensors[tensor].shares;
    return tensor;
}

// What is written in place is read by nobody afterwards.
static bool check_overwrites(struct arena *scratch, const struct memory_graph *graph,
                             const int *step_of, const char **why)
{
    int *last_read = ARENA_NEW(scratch, int, graph->tensor_count);
    for (int o = 0; o < graph->operator_count; o++) {
        for (int i = 0; i < graph->operators[o].input_count; i++) {
            int value = value_of(graph, graph->operators[o].inputs[i]);
            if (step_of[o] > last_read[value]) last_read[value] = step_of[o];
        }
    }
    for (int t = 0; t < graph->tensor_count; t++) {
        const struct memory_tensor *tensor = &graph->tensors[t];
        if (!tensor->overwrites || tensor->producer < 0) continue;
        int value = value_of(graph, tensor->shares), step = step_of[tensor->producer];
        if (last_read[value] > step)
            return fail(scratch, why, "tensor read after it was overwritten", value, step);
    }
    return true;
}

static int root_of(const struct memory_graph *graph, int tensor)
{
    while (graph->tensors[tensor].shares >= 0)
        tensor = graph->tensors[tensor].shares;
    return tensor;
}

// When the storage of each root tensor is alive, and how large it is.
struct storages {
    int64_t *first, *last, *bytes;
    bool *persistent;
};

static struct storages storages_of(struct arena *scratch, const struct memory_graph *graph,
                                   const int *step_of)
{
    struct storages of = {
        ARENA_NEW(scratch, int64_t, graph->tensor_count),
        ARENA_NEW(scratch, int64_t, graph->tensor_count),
        ARENA_NEW(scratch, int64_t, graph->tensor_count),
        ARENA_NEW(scratch, bool, graph->tensor_count),
    };
    int64_t end = graph->operator_count - 1;
    for (int t = 0; t < graph->tensor_count; t++) {
        of.first[t] = INT64_MAX;
        of.last[t] = NOTHING;
    }
    for (int t = 0; t < graph->tensor_count; t++) {
        const struct memory_tensor *tensor = &graph->tensors[t];
        int root = root_of(graph, t);
        int64_t made = tensor->producer < 0 ? 0 : step_of[tensor->producer];
        // A view that nobody makes is there when what it shares is.
        bool is_there = tensor->producer < 0 && tensor->shares >= 0;
        if (!is_there && made < of.first[root]) of.first[root] = made;
        of.last[root] = larger(of.last[root], tensor->kept ? end : made);
        of.bytes[root] = larger(of.bytes[root], tensor->bytes);
        of.persistent[root] |= tensor->persistent;
    }
    for (int o = 0; o < graph->operator_count; o++) {
        for (int i = 0; i < graph->operators[o].input_count; i++) {
            int root = root_of(graph, graph->operators[o].inputs[i]);
            of.last[root] = larger(of.last[root], step_of[o]);
        }
    }
    return of;
}

static int64_t align(int64_t bytes, int64_t alignment)
{
    assert(bytes >= 0 && alignment > 0);
    return (bytes + alignment - 1) / alignment * alignment;
}

// A caching allocator aligns as it does and knows of no place that was asked for.
static bool is_allocated(const struct memory_schedule *schedule)
{
    return schedule->method == MEMORY_PROGRAM;
}

// The box of each storage and workspace, each stated by exactly one buffer.
static bool make_boxes(struct arena *scratch, const struct memory_graph *graph,
                       const struct memory_problem *problem, int64_t alignment,
                       const struct storages *of, const int *step_of,
                       const struct memory_schedule *schedule, struct check_box *boxes,
                       const char **why)
{
    bool *is_tensor = ARENA_NEW(scratch, bool, graph->tensor_count);
    bool *is_workspace = ARENA_NEW(scratch, bool, graph->operator_count);
    for (int b = 0; b < problem->buffer_count; b++) {
        int tensor = problem->buffers[b].tensor, producer = problem->buffers[b].producer;
        bool *is_known = tensor >= 0 ? &is_tensor[root_of(graph, tensor)] : &is_workspace[producer];
        if (*is_known) return fail(scratch, why, "buffer stated twice", b, 1);
        *is_known = true;
        struct check_box box = {.offset = schedule->offsets[b], .buffer = b};
        if (tensor >= 0) {
            int root = root_of(graph, tensor);
            box.first = of->first[root];
            box.last = of->last[root];
            box.bytes = align(of->bytes[root], alignment);
        } else {
            box.first = box.last = step_of[producer];
            box.bytes = align(graph->operators[producer].workspace_bytes, alignment);
        }
        if (box.first != schedule->birth[b] || box.last + 1 != schedule->death[b])
            return fail(scratch, why, "lifetime of a buffer", schedule->birth[b], box.first);
        if (!is_allocated(schedule) && box.offset % alignment != 0)
            return fail(scratch, why, "offset not aligned", box.offset, alignment);
        boxes[b] = box;
    }
    for (int t = 0; t < graph->tensor_count; t++) {
        bool needs = root_of(graph, t) == t && !of->persistent[t] && of->bytes[t] > 0;
        if (needs != is_tensor[t]) return fail(scratch, why, "tensor without its place", t, needs);
    }
    for (int o = 0; o < graph->operator_count; o++) {
        bool needs = graph->operators[o].workspace_bytes > 0;
        if (needs != is_workspace[o])
            return fail(scratch, why, "workspace without its place", o, needs);
    }
    return true;
}

bool check_graph(struct arena *scratch, const struct memory_graph *graph,
                 const struct memory_problem *problem, int64_t alignment, int64_t capacity,
                 const struct memory_schedule *schedule, const char **why)
{
    assert(alignment > 0 && capacity >= 0);
    int *step_of = ARENA_NEW(scratch, int, graph->operator_count);
    if (schedule->buffer_count != problem->buffer_count)
        return fail(scratch, why, "buffers", schedule->buffer_count, problem->buffer_count);
    if (!check_order(scratch, graph, schedule->order, step_of, why) ||
        !check_overwrites(scratch, graph, step_of, why))
        return false;
    if (schedule->bound_bytes > schedule->live_bytes)
        return fail(scratch, why, "bound above what is alive", schedule->bound_bytes,
                    schedule->live_bytes);
    struct storages of = storages_of(scratch, graph, step_of);
    struct check_box *boxes = ARENA_NEW(scratch, struct check_box, problem->buffer_count);
    return make_boxes(scratch, graph, problem, alignment, &of, step_of, schedule, boxes, why) &&
           check_boxes(scratch, boxes, problem->buffer_count, graph->operator_count, capacity,
                       schedule, why);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

// The number of times before this one, by halves.
static int64_t rank_of(const int64_t *times, int64_t count, int64_t time)
{
    int64_t low = 0;
    while (low < count) {
        int64_t middle = low + (count - low) / 2;
        if (times[middle] < time) {
            low = middle + 1;
        } else {
            count = middle;
        }
    }
    return low;
}

bool check_packing(struct arena *scratch, const struct pack_problem *problem,
                   const struct memory_schedule *schedule, const char **why)
{
    // Times are numbered: what is alive changes at the ends of lifetimes only.
    int64_t *times = ARENA_NEW(scratch, int64_t, 2 * (int64_t)problem->count);
    for (int i = 0; i < problem->count; i++) {
        assert(problem->buffers[i].lower <= problem->buffers[i].upper);
        times[2 * i] = problem->buffers[i].lower;
        times[2 * i + 1] = problem->buffers[i].upper;
    }
    int64_t time_count = 0;
    qsort(times, 2 * (size_t)problem->count, sizeof *times, by_value);
    for (int64_t i = 0; i < 2 * (int64_t)problem->count; i++) {
        if (i == 0 || times[i] != times[time_count - 1]) times[time_count++] = times[i];
    }
    struct check_box *boxes = ARENA_NEW(scratch, struct check_box, problem->count);
    int count = 0;
    for (int i = 0; i < problem->count; i++) {
        const struct pack_buffer *buffer = &problem->buffers[i];
        int64_t offset = schedule->offsets[i];
        if (!is_allocated(schedule) && offset % buffer->alignment != 0)
            return fail(scratch, why, "offset not aligned", offset, buffer->alignment);
        if (!is_allocated(schedule) && buffer->fixed_offset >= 0 && offset != buffer->fixed_offset)
            return fail(scratch, why, "pre-placed buffer moved", offset, buffer->fixed_offset);
        if (buffer->lower == buffer->upper) continue;
        boxes[count++] = (struct check_box){
            .first = rank_of(times, time_count, buffer->lower),
            .last = rank_of(times, time_count, buffer->upper) - 1,
            .offset = offset,
            .bytes = buffer->size,
            .buffer = i,
        };
    }
    return check_boxes(scratch, boxes, count, time_count, problem->capacity, schedule, why);
}
