#include "memory/placement/placement_parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// What no order of a placement's copies goes below. Between the ends of two moments of the device
// pass the copies for the moments between them, but for what may be on the device early or late:
// that takes room, of which there is as much as what is kept and what works then leave. So a window
// of moments takes as long as its lanes want for the rest, and windows behind each other add up.

enum { BOUNDARIES_MOST = 400 };

struct bounding {
    const struct placement_problem *problem;
    const struct placed_intervals *intervals;
    const struct placed_traffic *traffic;
    int *moments;  // of the device, where windows may begin; and the end
    int count;
    int behind;  // all that the device does in a step
    // [boundary] of all moments before it, and what may be here early or late there.
    struct before {
        double compute_s, up_bytes, down_bytes, nvme_up_bytes, nvme_down_bytes;
        double early_bytes, late_bytes;
    } * before;
};

// Of a boundary behind a moment of the device; -1: an end of the step, where that is not asked.
static void add_boundary(struct bounding *bounding, int moment, struct before sum,
                         const int64_t *room, int last)
{
    const struct placement_problem *problem = bounding->problem;
    sum.early_bytes = last < 0 ? (double)problem->device_bytes : (double)room[last];
    sum.late_bytes = sum.early_bytes + (last < 0 ? 0 : (double)placed_moment_bytes(problem, last));
    bounding->moments[bounding->count] = moment;
    bounding->before[bounding->count++] = sum;
}

static void sum_up(struct arena *arena, struct bounding *bounding, const int64_t *room)
{
    const struct placement_problem *problem = bounding->problem;
    int stride = 1 + problem->moment_count / BOUNDARIES_MOST, last = -1, seen = 0;
    bounding->moments = ARENA_NEW(arena, int, problem->moment_count + 1);
    bounding->before = ARENA_NEW(arena, struct before, problem->moment_count + 1);
    struct before sum = {0};
    for (int t = 0; t <= problem->moment_count; t++) {
        bool is_end = t == problem->moment_count;
        if (!is_end && problem->moments[t].on_host) continue;
        if (is_end || seen++ % stride == 0)
            add_boundary(bounding, t, sum, room, is_end ? -1 : last);
        if (is_end) break;
        const struct placed_traffic *of = &bounding->traffic[t];
        sum.compute_s += problem->moments[t].seconds;
        sum.up_bytes += (double)of->up_bytes, sum.down_bytes += (double)of->down_bytes;
        sum.nvme_up_bytes += (double)of->nvme_read_bytes;
        sum.nvme_down_bytes += (double)of->nvme_written_bytes;
        last = t;
        bounding->behind = t + 1;
    }
}

static double lane_s(double bytes, double slack_bytes, double bytes_per_s)
{
    assert(bytes_per_s > 0 || bytes <= slack_bytes);
    return bytes > slack_bytes ? (bytes - slack_bytes) / bytes_per_s : 0;
}

static double window_s(const struct bounding *bounding, int from, int to)
{
    assert(from < to && to < bounding->count);
    const struct placement_problem *problem = bounding->problem;
    const struct before *a = &bounding->before[from], *b = &bounding->before[to];
    double up_bytes = b->up_bytes - a->up_bytes, down_bytes = b->down_bytes - a->down_bytes;
    double early_bytes = fmin(a->early_bytes, up_bytes),
           late_bytes = fmin(b->late_bytes, down_bytes);
    double s = b->compute_s - a->compute_s;
    s = fmax(s, lane_s(up_bytes, early_bytes, problem->up_bytes_per_s));
    s = fmax(s, lane_s(down_bytes, late_bytes, problem->down_bytes_per_s));
    if (problem->nvme_bytes_per_s <= 0) return s;
    double read_bytes = b->nvme_up_bytes - a->nvme_up_bytes;
    double written_bytes = b->nvme_down_bytes - a->nvme_down_bytes;
    double ahead_bytes = fmin(a->early_bytes, read_bytes);
    double behind_bytes = fmin(b->late_bytes, written_bytes);
    s = fmax(s, lane_s(read_bytes, ahead_bytes, problem->nvme_bytes_per_s));
    s = fmax(s, lane_s(written_bytes, behind_bytes, problem->nvme_bytes_per_s));
    return fmax(s, lane_s(read_bytes + written_bytes, ahead_bytes + behind_bytes,
                          problem->nvme_bytes_per_s * placed_duplex(problem)));
}

static bool writes(const struct placed_moment *moment, int chunk)
{
    for (int i = 0; i < moment->access_count; i++) {
        if (moment->accesses[i].chunk == chunk) return moment->accesses[i].writes;
    }
    return false;
}

// The last update behind all compute whose writing a moment of the next step reads; -1: none.
static int awaited(const struct bounding *bounding, int moment)
{
    const struct placement_problem *problem = bounding->problem;
    int last = -1;
    for (int i = 0; i < bounding->intervals->count; i++) {
        const struct placed_interval *at = &bounding->intervals->items[i];
        bool is_read = at->end == moment + problem->moment_count;
        if (!is_read || at->start < bounding->behind || at->start <= last) continue;
        if (writes(&problem->moments[at->start], at->chunk)) last = at->start;
    }
    return last;
}

// Updates behind all compute up to one of them. Of those that use NVMe what the first reads may be
// there before, and what the last two write may not be yet.
static double updates_s(const struct bounding *bounding, int last)
{
    const struct placement_problem *problem = bounding->problem;
    double host_s = 0, bytes = 0, late_bytes[2] = {0, 0};
    bool is_first = true;
    for (int u = bounding->behind; u <= last; u++) {
        const struct placed_traffic *of = &bounding->traffic[u];
        const struct placed_moment *update = &problem->moments[u];
        if (!update->after_all) continue;
        host_s += update->seconds;
        if (of->nvme_read_bytes == 0 && of->nvme_written_bytes == 0) continue;
        bytes += late_bytes[1] + (is_first ? 0 : (double)of->nvme_read_bytes);
        late_bytes[1] = late_bytes[0];
        late_bytes[0] = (double)of->nvme_written_bytes;
        is_first = false;
    }
    return fmax(host_s, lane_s(bytes, 0, problem->nvme_bytes_per_s * placed_duplex(problem)));
}

// Whole lanes, whatever they wait for.
static double busiest_s(const struct bounding *bounding)
{
    const struct placement_problem *problem = bounding->problem;
    double up_bytes = 0, down_bytes = 0, read_bytes = 0, written_bytes = 0, host_s = 0;
    for (int t = 0; t < problem->moment_count; t++) {
        const struct placed_traffic *of = &bounding->traffic[t];
        up_bytes += (double)of->up_bytes, down_bytes += (double)of->down_bytes;
        read_bytes += (double)of->nvme_read_bytes, written_bytes += (double)of->nvme_written_bytes;
        if (problem->moments[t].on_host) host_s += problem->moments[t].seconds;
    }
    double s = fmax(up_bytes / problem->up_bytes_per_s, down_bytes / problem->down_bytes_per_s);
    double drive_bytes = fmax(fmax(read_bytes, written_bytes),
                              (read_bytes + written_bytes) / placed_duplex(problem));
    if (drive_bytes > 0) s = fmax(s, drive_bytes / problem->nvme_bytes_per_s);
    return fmax(s, host_s);
}

// The longest chain of windows from each boundary to the end, from behind: quadratic in boundaries.
double placed_least_s(struct arena *arena, const struct placed_search *placing,
                      const struct placed_traffic *traffic, const int64_t *room)
{
    struct arena_mark mark = arena_mark(arena);
    struct bounding bounding = {
        .problem = placing->problem, .intervals = &placing->intervals, .traffic = traffic};
    sum_up(arena, &bounding, room);
    int end = bounding.count - 1;
    double *chain_s = ARENA_NEW(arena, double, bounding.count);
    double least_s = busiest_s(&bounding);
    for (int from = end - 1; from >= 0; from--) {
        for (int to = from + 1; to <= end; to++)
            chain_s[from] = fmax(chain_s[from], window_s(&bounding, from, to) + chain_s[to]);
        int update = awaited(&bounding, bounding.moments[from]);
        least_s = fmax(least_s, chain_s[from] + updates_s(&bounding, update));
    }
    assert(isfinite(least_s) && least_s >= 0);
    arena_reset(arena, mark);
    return least_s;
}
