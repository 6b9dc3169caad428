#include "memory/placement/placement_parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Lanes: the device's compute, a copy engine each way, NVMe each way and as a whole, the host's
// processors. Room is given
// out in the order of moments, to the copies as well, so that none waits for one behind it; what
// one moment works in the next one works in. A chunk goes in parts: each is fetched into what room
// there is, and leaves its own when it is written back, which where drives read and write in turn
// is after what the next moment reads, as far as there is room for that.

// Steps behind each other until every lane goes on by as much as compute does.
enum { ROUNDS_LEAST = 4, ROUNDS_HALF = 12, ROUNDS_MOST = 2 * ROUNDS_HALF };
static const double STEADY_RATIO = 1e-9;

struct freed {
    double s;
    int64_t bytes;
};

enum { PARTS = 2 };  // of a chunk; with eight no step of those measured is 0.2 % shorter

// A part of a chunk that is to be written back, of which moment, from when on.
struct owed {
    int moment, chunk;
    int64_t bytes;
    double ready_s;
};

// A lane serves pieces: those of earlier moments go first, later ones fill what these leave idle.
enum { GAPS_MOST = 64 };
struct lane {
    double end_s;
    struct gap {
        double from_s, to_s;
    } gaps[GAPS_MOST];  // idle before it, in their order; of more the oldest are forgotten
    int gap_count;
};

struct placed_lanes {
    const struct placement_problem *problem;
    const struct placed_intervals *intervals;
    const bool *keep;
    bool waits;
    double compute_s, host_s;  // free from then on
    struct lane up, down;
    struct lane drive_up, drive_down, drive;  // of NVMe each way, and of both together
    double worked_s;      // when the host began to work last on what is at home on NVMe
    double written_s[2];  // when what it wrote last of that, and before it, is there
    double given_s;       // the last room was given out
    int64_t room_bytes;   // left
    int64_t work_bytes;   // held for what works
    struct freed *freed;  // a heap by time
    int freed_count;
    struct owed *owed;  // in the order of their moments
    int owed_first, owed_count;
    double *home_s;                  // [chunk] when its home has it
    bool *dirty;                     // [chunk]
    int *first;                      // [chunk] of its intervals
    struct placed_traffic *traffic;  // [moment] of this round
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

static void add_gap(struct lane *lane, double from_s, double to_s)
{
    if (to_s <= from_s) return;
    if (lane->gap_count == GAPS_MOST)
        memmove(lane->gaps, lane->gaps + 1, (size_t)--lane->gap_count * sizeof *lane->gaps);
    lane->gaps[lane->gap_count++] = (struct gap){from_s, to_s};
}

// Serves so many seconds from then on; returns the end.
static double serve(struct lane *lane, double ready_s, double s)
{
    struct gap old[GAPS_MOST];
    int count = lane->gap_count;
    double end_s = ready_s;
    memcpy(old, lane->gaps, (size_t)count * sizeof *old);
    lane->gap_count = 0;
    for (int i = 0; i < count; i++) {
        double from_s = fmax(old[i].from_s, ready_s);
        double taken_s = fmin(fmax(0, old[i].to_s - from_s), s);
        if (taken_s <= 0) {
            add_gap(lane, old[i].from_s, old[i].to_s);
            continue;
        }
        s -= taken_s;
        end_s = from_s + taken_s;
        add_gap(lane, old[i].from_s, from_s);
        add_gap(lane, end_s, old[i].to_s);
    }
    if (s <= 0) return end_s;
    add_gap(lane, lane->end_s, ready_s);
    return lane->end_s = fmax(lane->end_s, ready_s) + s;
}

// Reads or writes so much on NVMe from then on; returns the end.
static double serve_drive(struct placed_lanes *lanes, bool is_up, double ready_s, int64_t bytes)
{
    const struct placement_problem *problem = lanes->problem;
    double s = bytes > 0 ? (double)bytes / problem->nvme_bytes_per_s : 0;
    double end_s = serve(is_up ? &lanes->drive_up : &lanes->drive_down, ready_s, s);
    return fmax(end_s, serve(&lanes->drive, ready_s, s / placed_duplex(problem)));
}

// A copy of a part between the device and a chunk's home; returns its end. What it takes from the
// chunk's link it takes from NVMe's lane beside it.
static double copy(struct placed_lanes *lanes, const struct owed *part, bool is_up)
{
    const struct placement_problem *problem = lanes->problem;
    const struct placed_chunk *of = &problem->chunks[part->chunk];
    struct lane *lane = is_up ? &lanes->up : &lanes->down;
    double rate = is_up ? problem->up_bytes_per_s : problem->down_bytes_per_s;
    double pieces =
        problem->piece_bytes > 0 ? ceil((double)of->bytes / (double)problem->piece_bytes) : 1;
    double took_s = (double)part->bytes / rate +
                    problem->start_s * pieces * (double)part->bytes / (double)of->bytes;
    double end_s = serve(lane, part->ready_s, took_s);
    struct placed_traffic *traffic = &lanes->traffic[part->moment];
    *(is_up ? &traffic->up_bytes : &traffic->down_bytes) += part->bytes;
    if (of->home != TIER_NVME) return end_s;
    *(is_up ? &traffic->nvme_read_bytes : &traffic->nvme_written_bytes) += part->bytes;
    return fmax(end_s, serve_drive(lanes, is_up, part->ready_s, part->bytes));
}

static int64_t part_bytes(const struct placed_lanes *lanes, int chunk, int part)
{
    int64_t bytes = lanes->problem->chunks[chunk].bytes;
    return bytes * (part + 1) / PARTS - bytes * part / PARTS;
}

static void write_back(struct placed_lanes *lanes)
{
    const struct owed *part = &lanes->owed[lanes->owed_first++];
    double s = copy(lanes, part, false);
    lanes->home_s[part->chunk] = fmax(lanes->home_s[part->chunk], s);
    push(lanes, s, part->bytes);
}

static void write_all_back(struct placed_lanes *lanes)
{
    while (lanes->owed_first < lanes->owed_count)
        write_back(lanes);
    lanes->owed_first = lanes->owed_count = 0;
}

// When there is room for this, and for all before it. What is to be written back is so only where
// nothing else will be free.
static double take_room(struct placed_lanes *lanes, int64_t bytes, double from_s)
{
    lanes->given_s = fmax(lanes->given_s, from_s);
    lanes->room_bytes -= bytes;
    while (lanes->room_bytes < 0) {
        if (lanes->freed_count == 0) {
            assert(lanes->owed_first < lanes->owed_count && "what a moment needs fits");
            write_back(lanes);
        }
        struct freed freed = pop(lanes);
        lanes->room_bytes += freed.bytes;
        lanes->given_s = fmax(lanes->given_s, freed.s);
    }
    return lanes->given_s;
}

// The device has all of it from then on.
static double fetch(struct placed_lanes *lanes, int t, int chunk, double from_s)
{
    double end_s = 0;
    for (int i = lanes->owed_first; i < lanes->owed_count; i++) {
        if (lanes->owed[i].chunk == chunk) write_all_back(lanes);
    }
    for (int i = 0; i < PARTS; i++) {
        struct owed part = {.moment = t, .chunk = chunk, .bytes = part_bytes(lanes, chunk, i)};
        part.ready_s = fmax(take_room(lanes, part.bytes, from_s), lanes->home_s[chunk]);
        end_s = fmax(end_s, copy(lanes, &part, true));
    }
    return end_s;
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

// Reads what it needs from NVMe while the one before that has some there works, and writes it while
// the next of them do, for which there is room when the one before is written. Updates of what is
// at home in the host's memory take none of that room.
static void work_on_host(struct placed_lanes *lanes, int t)
{
    const struct placed_moment *moment = &lanes->problem->moments[t];
    struct placed_traffic *traffic = &lanes->traffic[t];
    write_all_back(lanes);
    double ready_s = lanes->host_s, there_s = 0;
    if (moment->after_all) ready_s = fmax(ready_s, lanes->compute_s);
    for (int i = 0; i < moment->access_count; i++) {
        const struct placed_access *access = &moment->accesses[i];
        const struct placed_chunk *chunk = &lanes->problem->chunks[access->chunk];
        if (access->reads) ready_s = fmax(ready_s, lanes->home_s[access->chunk]);
        if (chunk->home != TIER_NVME) continue;
        if (access->reads) there_s = fmax(there_s, lanes->home_s[access->chunk]);
        traffic->nvme_read_bytes += access->reads ? chunk->bytes : 0;
        traffic->nvme_written_bytes += access->writes ? chunk->bytes : 0;
    }
    bool uses_drive = traffic->nvme_read_bytes > 0 || traffic->nvme_written_bytes > 0;
    if (uses_drive) ready_s = fmax(ready_s, lanes->written_s[1]);
    if (traffic->nvme_read_bytes > 0)
        ready_s = fmax(ready_s, serve_drive(lanes, true, fmax(there_s, lanes->worked_s),
                                            traffic->nvme_read_bytes));
    lanes->host_s = ready_s + moment->seconds;
    double written_s = serve_drive(lanes, false, lanes->host_s, traffic->nvme_written_bytes);
    if (uses_drive) {
        lanes->worked_s = ready_s;
        lanes->written_s[1] = lanes->written_s[0];
        lanes->written_s[0] = written_s;
    }
    for (int i = 0; i < moment->access_count; i++) {
        const struct placed_access *access = &moment->accesses[i];
        bool on_nvme = lanes->problem->chunks[access->chunk].home == TIER_NVME;
        if (access->writes) lanes->home_s[access->chunk] = on_nvme ? written_s : lanes->host_s;
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
    bool is_written = next && lanes->dirty[chunk];
    lanes->dirty[chunk] = false;
    if (!is_written) push(lanes, lanes->compute_s, lanes->problem->chunks[chunk].bytes);
    for (int i = 0; i < PARTS && is_written; i++) {
        lanes->owed[lanes->owed_count++] =
            (struct owed){t, chunk, part_bytes(lanes, chunk, i), lanes->compute_s};
    }
}

static int64_t next_work_bytes(const struct placement_problem *problem, int t)
{
    do
        t = (t + 1) % problem->moment_count;
    while (problem->moments[t].on_host);
    return problem->moments[t].work_bytes;
}

// What it works in it leaves to the next moment.
static void work_on_device(struct placed_lanes *lanes, int t)
{
    const struct placed_moment *moment = &lanes->problem->moments[t];
    double from_s = lanes->waits ? lanes->compute_s : 0;
    double ready_s = from_s;
    if (moment->work_bytes > lanes->work_bytes) {
        ready_s = take_room(lanes, moment->work_bytes - lanes->work_bytes, from_s);
        lanes->work_bytes = moment->work_bytes;
    }
    for (int i = 0; i < moment->access_count; i++) {
        const struct placed_access *access = &moment->accesses[i];
        bool is_kept = false;
        const struct placed_interval *last = interval_at(lanes, access->chunk, t, true, &is_kept);
        if (last && is_kept && access->reads) continue;
        int64_t bytes = lanes->problem->chunks[access->chunk].bytes;
        double there_s = access->reads ? fetch(lanes, t, access->chunk, from_s)
                                       : take_room(lanes, bytes, from_s);
        ready_s = fmax(ready_s, there_s);
    }
    write_all_back(lanes);
    lanes->compute_s = fmax(lanes->compute_s, ready_s) + moment->seconds;
    for (int i = 0; i < moment->access_count; i++)
        leave(lanes, t, &moment->accesses[i]);
    int64_t next_bytes = next_work_bytes(lanes->problem, t);
    if (next_bytes >= lanes->work_bytes) return;
    push(lanes, lanes->compute_s, lanes->work_bytes - next_bytes);
    lanes->work_bytes = next_bytes;
}

// The device holds at the start what is kept across it, clean or not as the last round left it.
static void start(struct arena *arena, struct placed_lanes *lanes)
{
    const struct placement_problem *problem = lanes->problem;
    int chunk_count = problem->chunk_count, accesses = 0;
    for (int t = 0; t < problem->moment_count; t++)
        accesses += problem->moments[t].access_count + 1;
    lanes->freed = ARENA_NEW(arena, struct freed, ROUNDS_MOST * PARTS * accesses + 1);
    lanes->owed = ARENA_NEW(arena, struct owed, PARTS * accesses);
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

// Room by moment beside what works and is kept; returns the peak.
static int64_t leave_room(const struct placement_problem *problem,
                          const struct placed_intervals *intervals, const bool *keep, int64_t *room)
{
    struct placed_search placing = {.problem = problem, .intervals = *intervals};
    int64_t peak = 0;
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

static double ends_of(const struct placed_lanes *lanes, double ends_s[])
{
    ends_s[0] = lanes->compute_s, ends_s[1] = lanes->host_s, ends_s[2] = lanes->up.end_s;
    ends_s[3] = lanes->down.end_s, ends_s[4] = lanes->drive.end_s;
    ends_s[5] = lanes->drive_up.end_s, ends_s[6] = lanes->drive_down.end_s;
    return fmax(lanes->compute_s, lanes->host_s);
}

// What the last moment of the device owes is written, and counted, in the round behind it.
static void go_once(struct placed_lanes *lanes)
{
    const struct placement_problem *problem = lanes->problem;
    memset(lanes->traffic, 0, (size_t)problem->moment_count * sizeof *lanes->traffic);
    for (int t = 0; t < problem->moment_count; t++) {
        if (problem->moments[t].on_host) work_on_host(lanes, t);
        if (!problem->moments[t].on_host) work_on_device(lanes, t);
    }
}

// Seconds of a step in the long run; where that never comes, of the later half of all.
static double go_round(struct placed_lanes *lanes)
{
    enum { LANES = 7 };
    double before_s[LANES], after_s[LANES], half_s = 0, s = 0;
    for (int round = 0; round < ROUNDS_MOST; round++) {
        double last_s = ends_of(lanes, before_s);
        if (round == ROUNDS_HALF) half_s = last_s;
        go_once(lanes);
        s = ends_of(lanes, after_s);
        bool is_steady = round + 1 >= ROUNDS_LEAST;
        for (int i = 0; i < LANES; i++) {
            bool is_idle = after_s[i] <= 0;
            double more_s = after_s[i] - before_s[i] - (s - last_s);
            is_steady &= is_idle || fabs(more_s) <= STEADY_RATIO * s;
        }
        if (is_steady) return s - last_s;
    }
    return (s - half_s) / ROUNDS_HALF;
}

void placement_weigh(struct arena *arena, const struct placement_problem *problem,
                     const struct placed_intervals *intervals, bool waits,
                     struct placed_result *placement)
{
    size_t count = (size_t)problem->moment_count;
    struct placed_lanes lanes = {.problem = problem,
                                 .intervals = intervals,
                                 .keep = placement->keep,
                                 .waits = waits,
                                 .traffic = ARENA_NEW(arena, struct placed_traffic, count)};
    start(arena, &lanes);
    double step_s = go_round(&lanes);
    for (size_t t = 0; t < count; t++) {
        const struct placed_traffic *of = &lanes.traffic[t];
        if (!problem->moments[t].on_host) placement->compute_s += problem->moments[t].seconds;
        placement->up_bytes += of->up_bytes, placement->down_bytes += of->down_bytes;
        placement->nvme_bytes += of->nvme_read_bytes + of->nvme_written_bytes;
    }
    placement->step_s = fmax(step_s, placement->compute_s);  // but for what is rounded
    struct placed_search placing = {.problem = problem, .intervals = *intervals};
    struct placed_moved moved = placed_moved(arena, &placing, placement->keep);
    assert(placement->up_bytes == moved.up_bytes && placement->down_bytes == moved.down_bytes);
    (void)moved;
    int64_t *room = ARENA_NEW(arena, int64_t, count);
    placement->peak_bytes = leave_room(problem, intervals, placement->keep, room);
    placement->link_s = placed_least_s(arena, &placing, lanes.traffic, room);
}
