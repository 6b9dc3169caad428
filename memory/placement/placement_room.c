#include "memory/placement/placement_parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int placed_first(const struct placed_search *placing, const struct placed_interval *interval)
{
    int first = interval->start + 1 + (interval->is_written ? placing->ahead : 0);
    return first < interval->end ? first : interval->end;
}

int placed_last(const struct placed_search *placing, const struct placed_interval *interval)
{
    int first = placed_first(placing, interval);
    int last = interval->end - (interval->is_fetched ? placing->ahead : 0);
    return last > first ? last : first;
}

static int at_moment(const struct placed_search *placing, int moment)
{
    return moment % placing->problem->moment_count;
}

bool placed_room(const struct placed_search *placing, int64_t *room)
{
    const struct placement_problem *problem = placing->problem;
    bool fits = true;
    for (int t = 0; t < problem->moment_count; t++)
        room[t] = problem->device_bytes - placed_moment_bytes(problem, t);
    for (int i = 0; i < placing->intervals.count; i++) {
        const struct placed_interval *interval = &placing->intervals.items[i];
        int first = placed_first(placing, interval), last = placed_last(placing, interval);
        int64_t bytes = problem->chunks[interval->chunk].bytes;
        for (int t = interval->start + 1; t < first; t++)
            room[at_moment(placing, t)] -= bytes;
        for (int t = last; t < interval->end; t++)
            room[at_moment(placing, t)] -= bytes;
    }
    for (int t = 0; t < problem->moment_count; t++)
        fits &= room[t] >= 0;
    return fits;
}

static bool placed_fits(const struct placed_search *placing, const struct placed_interval *interval,
                        const int64_t *room)
{
    int64_t bytes = placing->problem->chunks[interval->chunk].bytes;
    int last = placed_last(placing, interval);
    for (int t = placed_first(placing, interval); t < last; t++) {
        if (room[at_moment(placing, t)] < bytes) return false;
    }
    return true;
}

void placed_take(const struct placed_search *placing, const struct placed_interval *interval,
                 int sign, int64_t *room)
{
    int64_t bytes = placing->problem->chunks[interval->chunk].bytes;
    int last = placed_last(placing, interval);
    for (int t = placed_first(placing, interval); t < last; t++)
        room[at_moment(placing, t)] -= sign * bytes;
}

void placed_fill(struct arena *arena, const struct placed_search *placing, const int *order,
                 int count, bool *keep)
{
    const struct placed_interval *items = placing->intervals.items;
    int64_t *room = ARENA_NEW(arena, int64_t, placing->problem->moment_count);
    bool fits = placed_room(placing, room);
    for (int i = 0; i < placing->intervals.count; i++) {
        if (keep[i]) placed_take(placing, &items[i], 1, room);
    }
    for (int k = 0; k < count && fits; k++) {
        int i = order[k];
        if (keep[i] || !items[i].may_keep || !placed_fits(placing, &items[i], room)) continue;
        keep[i] = true;
        placed_take(placing, &items[i], 1, room);
    }
}

struct placed_moved placed_moved(struct arena *arena, const struct placed_search *placing,
                                 const bool *keep)
{
    const struct placed_intervals *intervals = &placing->intervals;
    struct arena_mark mark = arena_mark(arena);
    bool *written = ARENA_NEW(arena, bool, intervals->write_count + 1);
    struct placed_moved moved = {0};
    for (int i = 0; i < intervals->count; i++) {
        const struct placed_interval *interval = &intervals->items[i];
        int64_t bytes = placing->problem->chunks[interval->chunk].bytes;
        assert(!keep[i] || interval->may_keep);
        if (keep[i]) continue;
        if (interval->is_fetched) moved.up_bytes += bytes;
        if (interval->write < 0 || written[interval->write]) continue;
        written[interval->write] = true;
        moved.down_bytes += bytes;
    }
    arena_reset(arena, mark);
    return moved;
}

struct placed_rank {
    double share, worth;
    int index;
};

static int compare_ranked(const void *left, const void *right)
{
    const struct placed_rank *a = left, *b = right;
    if (a->share != b->share) return a->share > b->share ? -1 : 1;
    if (a->worth != b->worth) return a->worth > b->worth ? -1 : 1;
    return a->index - b->index;
}

void placed_by_saving(struct arena *arena, const struct placed_search *placing,
                      const double *shares, bool *keep)
{
    int count = placing->intervals.count;
    struct placed_rank *ranked = ARENA_NEW(arena, struct placed_rank, count);
    int *order = ARENA_NEW(arena, int, count);
    for (int i = 0; i < count; i++) {
        const struct placed_interval *at = &placing->intervals.items[i];
        double saved = at->write < 0 ? 1 : 2;  // copies
        ranked[i] = (struct placed_rank){shares ? shares[i] : 0, saved / (at->end - at->start), i};
    }
    if (count > 0) qsort(ranked, (size_t)count, sizeof *ranked, compare_ranked);
    for (int i = 0; i < count; i++)
        order[i] = ranked[i].index;
    memset(keep, 0, (size_t)count * sizeof *keep);
    placed_fill(arena, placing, order, count, keep);
}

static int compare_worth(const void *left, const void *right)
{
    const struct placed_rank *a = left, *b = right;
    if (a->worth != b->worth) return a->worth > b->worth ? -1 : 1;
    return a->index - b->index;
}

// Keeps every interval of a chunk, or none.
static void keep_chunk(const struct placed_search *placing, int chunk, int first, int count,
                       int64_t *room, bool *keep)
{
    bool fits = true;
    for (int i = first; i < first + count; i++) {
        const struct placed_interval *at = &placing->intervals.items[i];
        assert(at->chunk == chunk);
        fits &= placed_fits(placing, at, room);
    }
    // Intervals of a chunk follow each other: no two of them take room at the same moment.
    for (int i = first; i < first + count && fits; i++) {
        const struct placed_interval *at = &placing->intervals.items[i];
        if (!at->may_keep) continue;
        keep[i] = true;
        placed_take(placing, at, 1, room);
    }
}

void placed_static(struct arena *arena, const struct placed_search *placing, bool *keep)
{
    const struct placement_problem *problem = placing->problem;
    int chunk_count = problem->chunk_count;
    int *first = ARENA_NEW(arena, int, chunk_count), *uses = ARENA_NEW(arena, int, chunk_count);
    struct placed_rank *ranked = ARENA_NEW(arena, struct placed_rank, chunk_count);
    for (int c = 0; c < chunk_count; c++)
        ranked[c] = (struct placed_rank){0, 0, c};
    for (int i = 0; i < placing->intervals.count; i++) {
        const struct placed_interval *at = &placing->intervals.items[i];
        if (uses[at->chunk]++ == 0) first[at->chunk] = i;
        if (!at->may_keep) continue;
        ranked[at->chunk].worth += at->write < 0 ? 1 : 2;
        ranked[at->chunk].share += at->end - at->start;
    }
    // Copies saved by a byte and moment of its stay.
    for (int c = 0; c < chunk_count; c++)
        ranked[c].worth /= fmax(1, ranked[c].share);
    if (chunk_count > 0) qsort(ranked, (size_t)chunk_count, sizeof *ranked, compare_worth);
    int64_t *room = ARENA_NEW(arena, int64_t, problem->moment_count);
    bool fits = placed_room(placing, room);
    memset(keep, 0, (size_t)placing->intervals.count * sizeof *keep);
    for (int k = 0; k < chunk_count && fits; k++) {
        int c = ranked[k].index;
        keep_chunk(placing, c, first[c], uses[c], room, keep);
    }
}
