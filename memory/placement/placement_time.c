#include "memory/placement/placement_parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Lanes: the device's compute, a copy engine each way, NVMe, the host's processors. Room is given
// out in the order of moments, to the copies as well, so that none waits for one behind it.

enum { ROUNDS_BEFORE = 2, ROUNDS_AFTER = 2, ROUNDS = ROUNDS_BEFORE + ROUNDS_AFTER };

struct freed {
    double s;
    int64_t bytes;
};

struct placed_lanes {
    const struct placement_problem *problem;
    const struct placed_intervals *intervals;
    const bool *keep;
    bool waits;
    double compute_s, up_s, down_s, nvme_s, host_s;  // free from then on
    double given_s;                                  // the last room was given out
    int64_t room_bytes;
    struct freed *freed;  // a heap by time
    int freed_count;
    double *home_s;  // [chunk] when its home has it
    bool *dirty;     // [chunk]
    int *first;      // [chunk] of its intervals
    int64_t nvme_bytes;
};

static void push(struct placed_lanes *lanes, double s, int64_t bytes)
{
    int at = lanes->freed_count++;
    for (; at > 0 && lanes->freed[(at - 1) / 2].s > s; at = (at - 1) / 2)
        lanes->freed[at] = lanes->freed[(at - 1) / 2];
    lanes->freed[at] = (struct freed){s, bytes};
}

static struct freed pop(struct placed_lanes *lanes)
{
    struct freed least = lanes->freed[0], last = lanes->freed[--lanes->freed_count];
    int at = 0, count = lanes->freed_count;
    for (int child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && lanes->freed[child + 1].s < lanes->freed[child].s) child++;
        if (lanes->freed[child].s >= last.s) break;
        lanes->freed[at] = lanes->freed[child];
        at = child;
    }
    lanes->freed[at] = last;
    return least;
}

// When there is room for this, and for all before it.
static double take_room(struct placed_lanes *lanes, int64_t bytes, double from_s)
{
    lanes->given_s = fmax(lanes->given_s, from_s);
    lanes->room_bytes -= bytes;
    while (lanes->room_bytes < 0) {
        assert(lanes->freed_count > 0 && "what a moment needs fits");
        struct freed freed = pop(lanes);
        lanes->room_bytes += freed.bytes;
        lanes->given_s = fmax(lanes->given_s, freed.s);
    }
    return lanes->given_s;
}

// A copy between the device and a chunk's home; returns its end. What it takes from the chunk's
// link it takes from NVMe's lane beside it.
static double copy(struct placed_lanes *lanes, int chunk, double ready_s, bool is_up)
{
    const struct placement_problem *problem = lanes->problem;
    const struct placed_chunk *of = &problem->chunks[chunk];
    double *lane = is_up ? &lanes->up_s : &lanes->down_s;
    double rate = is_up ? problem->up_bytes_per_s : problem->down_bytes_per_s;
    double bytes = (double)of->bytes;
    double took_s = bytes / rate;
    if (problem->piece_bytes > 0)
        took_s += problem->start_s * ceil(bytes / (double)problem->piece_bytes);
    double start_s = fmax(*lane, ready_s), nvme_s = 0;
    if (of->home == TIER_NVME) {
        start_s = fmax(start_s, lanes->nvme_s);
        nvme_s = bytes / problem->nvme_bytes_per_s;
        lanes->nvme_s = start_s + nvme_s;
        lanes->nvme_bytes += of->bytes;
    }
    *lane = start_s + took_s;
    return start_s + fmax(took_s, nvme_s);
}

static const struct placed_interval *interval_at(const struct placed_lanes *lanes, int chunk,
                                                 int moment, bool is_end, bool *keep)
{
    int count = lanes->problem->moment_count;
    for (int i = lanes->first[chunk]; i < lanes->intervals->count; i++) {
        const struct placed_interval *at = &lanes->intervals->items[i];
        if (at->chunk != chunk) break;
        if ((is_end ? at->end % count : at->start) != moment) continue;
        *keep = lanes->keep[i];
        return at;
    }
    return NULL;
}

// Reads what it needs from NVMe just before it works, and writes it behind.
static void work_on_host(struct placed_lanes *lanes, int t)
{
    const struct placed_moment *moment = &lanes->problem->moments[t];
    double ready_s = lanes->host_s, read_s = 0, write_s = 0;
    if (moment->after_all) ready_s = fmax(ready_s, lanes->compute_s);
    for (int i = 0; i < moment->access_count; i++) {
        const struct placed_access *access = &moment->accesses[i];
        const struct placed_chunk *chunk = &lanes->problem->chunks[access->chunk];
        if (access->reads) ready_s = fmax(ready_s, lanes->home_s[access->chunk]);
        if (chunk->home != TIER_NVME) continue;
        double took_s = (double)chunk->bytes / lanes->problem->nvme_bytes_per_s;
        lanes->nvme_bytes += chunk->bytes * (access->reads + access->writes);
        if (access->reads) read_s += took_s;
        if (access->writes) write_s += took_s;
    }
    if (read_s + write_s > 0) {
        double start_s = fmax(lanes->nvme_s, ready_s - read_s);
        ready_s = fmax(ready_s, start_s + read_s);
        lanes->nvme_s = start_s + read_s + write_s;
    }
    lanes->host_s = ready_s + moment->seconds;
    for (int i = 0; i < moment->access_count; i++) {
        const struct placed_access *access = &moment->accesses[i];
        bool on_nvme = lanes->problem->chunks[access->chunk].home == TIER_NVME;
        if (!access->writes) continue;
        lanes->home_s[access->chunk] = on_nvme ? lanes->host_s + write_s : lanes->host_s;
    }
}

// What a moment of the device leaves: kept, written back, or dropped.
static void leave(struct placed_lanes *lanes, int t, const struct placed_access *access)
{
    bool is_kept = false;
    int chunk = access->chunk;
    const struct placed_interval *next = interval_at(lanes, chunk, t, false, &is_kept);
    if (access->writes) lanes->dirty[chunk] = true;
    if (next && is_kept) return;
    double s = lanes->compute_s;
    if (next && lanes->dirty[chunk]) s = lanes->home_s[chunk] = copy(lanes, chunk, s, false);
    lanes->dirty[chunk] = false;
    push(lanes, s, lanes->problem->chunks[chunk].bytes);
}

static void work_on_device(struct placed_lanes *lanes, int t)
{
    const struct placed_moment *moment = &lanes->problem->moments[t];
    double from_s = lanes->waits ? lanes->compute_s : 0;
    double ready_s = take_room(lanes, moment->work_bytes, from_s);
    for (int i = 0; i < moment->access_count; i++) {
        const struct placed_access *access = &moment->accesses[i];
        bool is_kept = false;
        const struct placed_interval *last = interval_at(lanes, access->chunk, t, true, &is_kept);
        if (last && is_kept && access->reads) continue;
        double room_s = take_room(lanes, lanes->problem->chunks[access->chunk].bytes, from_s);
        if (access->reads) {
            room_s = copy(lanes, access->chunk, fmax(room_s, lanes->home_s[access->chunk]), true);
        }
        ready_s = fmax(ready_s, room_s);
    }
    lanes->compute_s = fmax(lanes->compute_s, ready_s) + moment->seconds;
    for (int i = 0; i < moment->access_count; i++)
        leave(lanes, t, &moment->accesses[i]);
    push(lanes, lanes->compute_s, moment->work_bytes);
}

// The device holds at the start what is kept across it, clean or not as the last round left it.
static void start(struct arena *arena, struct placed_lanes *lanes)
{
    const struct placement_problem *problem = lanes->problem;
    int chunk_count = problem->chunk_count, accesses = 0;
    for (int t = 0; t < problem->moment_count; t++)
        accesses += problem->moments[t].access_count + 1;
    lanes->freed = ARENA_NEW(arena, struct freed, ROUNDS * accesses + 1);
    lanes->home_s = ARENA_NEW(arena, double, chunk_count);
    lanes->dirty = ARENA_NEW(arena, bool, chunk_count);
    lanes->first = ARENA_NEW(arena, int, chunk_count);
    lanes->room_bytes = problem->device_bytes;
    for (int c = 0; c < chunk_count; c++)
        lanes->first[c] = lanes->intervals->count;
    for (int i = lanes->intervals->count - 1; i >= 0; i--) {
        const struct placed_interval *at = &lanes->intervals->items[i];
        lanes->first[at->chunk] = i;
        bool is_here = at->end >= problem->moment_count && lanes->keep[i];
        if (!is_here) continue;
        lanes->room_bytes -= problem->chunks[at->chunk].bytes;
        lanes->dirty[at->chunk] = at->write >= 0;
    }
}

static int64_t peak_bytes(struct arena *arena, const struct placement_problem *problem,
                          const struct placed_intervals *intervals, const bool *keep)
{
    struct placed_search placing = {.problem = problem, .intervals = *intervals};
    int64_t *room = ARENA_NEW(arena, int64_t, problem->moment_count), peak = 0;
    bool fits = placed_room(&placing, room);
    for (int i = 0; i < intervals->count; i++) {
        if (keep[i]) placed_take(&placing, &intervals->items[i], 1, room);
    }
    for (int t = 0; t < problem->moment_count; t++) {
        fits &= room[t] >= 0;
        if (problem->device_bytes - room[t] > peak) peak = problem->device_bytes - room[t];
    }
    assert(fits);
    (void)fits;
    return peak;
}

// What no order of the copies goes below: the busiest lane, and where updates wait for a norm, that
// all of them follow all that the device computes.
static double least_s(const struct placement_problem *problem, const struct placed_moved *moved,
                      int64_t nvme_bytes)
{
    double compute_s = 0, host_s = 0, tail_s = 0, tail_bytes = 0;
    for (int t = 0; t < problem->moment_count; t++) {
        const struct placed_moment *moment = &problem->moments[t];
        *(moment->on_host ? &host_s : &compute_s) += moment->seconds;
        if (!moment->after_all) continue;
        tail_s += moment->seconds;
        for (int i = 0; i < moment->access_count; i++) {
            const struct placed_access *access = &moment->accesses[i];
            const struct placed_chunk *chunk = &problem->chunks[access->chunk];
            if (chunk->home == TIER_NVME)
                tail_bytes += (double)chunk->bytes * (access->reads + access->writes);
        }
    }
    double up_s = (double)moved->up_bytes / problem->up_bytes_per_s;
    double down_s = (double)moved->down_bytes / problem->down_bytes_per_s, nvme_s = 0;
    if (problem->nvme_bytes_per_s > 0) {
        nvme_s = (double)nvme_bytes / problem->nvme_bytes_per_s;
        tail_s = fmax(tail_s, tail_bytes / problem->nvme_bytes_per_s);
    }
    return fmax(fmax(fmax(up_s, down_s), fmax(host_s, nvme_s)), compute_s + tail_s);
}

void placement_weigh(struct arena *arena, const struct placement_problem *problem,
                     const struct placed_intervals *intervals, bool waits,
                     struct placed_result *placement)
{
    struct placed_lanes lanes = {
        .problem = problem, .intervals = intervals, .keep = placement->keep, .waits = waits};
    struct placed_search placing = {.problem = problem, .intervals = *intervals};
    struct placed_moved moved = placed_moved(arena, &placing, placement->keep);
    double half_s = 0;
    start(arena, &lanes);
    for (int t = 0; t < problem->moment_count; t++) {
        if (!problem->moments[t].on_host) placement->compute_s += problem->moments[t].seconds;
    }
    for (int round = 0; round < ROUNDS; round++) {
        if (round == ROUNDS_BEFORE) half_s = fmax(lanes.compute_s, lanes.host_s);
        lanes.nvme_bytes = 0;
        for (int t = 0; t < problem->moment_count; t++) {
            if (problem->moments[t].on_host) work_on_host(&lanes, t);
            if (!problem->moments[t].on_host) work_on_device(&lanes, t);
        }
    }
    placement->up_bytes = moved.up_bytes;
    placement->down_bytes = moved.down_bytes;
    placement->nvme_bytes = lanes.nvme_bytes;
    placement->peak_bytes = peak_bytes(arena, problem, intervals, placement->keep);
    double rounds_s = fmax(lanes.compute_s, lanes.host_s) - half_s;
    placement->step_s = fmax(rounds_s / ROUNDS_AFTER, placement->compute_s);
    placement->link_s = least_s(problem, &moved, lanes.nvme_bytes);
}
