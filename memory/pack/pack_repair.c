#include "core/divisor.h"
#include "core/progress.h"
#include "memory/pack/pack_order.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct placed {
    int64_t lower, upper;
    int first, end, buffer;
};

// Placed buffers twice, sorted by either end: a question walks over all of them in order, which for
// some ten thousand costs less than keeping a structure that forgets.
struct chains {
    const struct pack_problem *problem;
    const struct pack_sections *sections;
    int64_t target;
    struct placed *by_lower, *by_upper;
    int placed_count;
    int *pending;  // to be placed, the next last
    int pending_count;
    int64_t *weights;    // what it costs to displace a buffer once
    int64_t *penalties;  // 1 + how often it found no free place
    int64_t move_count;  // buffers placed or displaced
    // Of the buffer in hand: who lives at the same time, and sums of what displacing them costs.
    struct placed *lowers, *uppers;
    int64_t *lower_sums, *upper_sums;
    int near_count;
};

enum { WEIGHT_MOST = 10000 };
// Fixed buffers stay: above any sum of others. 4,000,000 of WEIGHT_MOST come to 4e10, and each of
// 200,000 moves adds another WEIGHT_MOST at most.
static const int64_t WEIGHT_FIXED = (int64_t)1 << 44;

static int place_of(const struct placed *placed, int count, bool by_upper, int64_t address)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int64_t key = by_upper ? placed[middle].upper : placed[middle].lower;
        if (key < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void list_insert(struct placed *list, int count, bool by_upper, const struct placed *placed)
{
    int64_t address = by_upper ? placed->upper : placed->lower;
    struct placed *here = list + place_of(list, count, by_upper, address);
    memmove(here + 1, here, (size_t)(list + count - here) * sizeof *here);
    *here = *placed;
}

static void list_remove(struct placed *list, int count, bool by_upper, const struct placed *placed)
{
    int64_t address = by_upper ? placed->upper : placed->lower;
    struct placed *here = list + place_of(list, count, by_upper, address);
    while (here->buffer != placed->buffer)
        here++;
    memmove(here, here + 1, (size_t)(list + count - here - 1) * sizeof *here);
}

static struct placed placed_at(const struct chains *chains, int b, int64_t offset)
{
    const struct pack_sections *sections = chains->sections;
    return (struct placed){.lower = offset,
                           .upper = offset + chains->problem->buffers[b].size,
                           .first = sections->first[b],
                           .end = sections->end[b],
                           .buffer = b};
}

static void insert(struct chains *chains, int b, int64_t offset)
{
    struct placed placed = placed_at(chains, b, offset);
    list_insert(chains->by_lower, chains->placed_count, false, &placed);
    list_insert(chains->by_upper, chains->placed_count, true, &placed);
    chains->placed_count++;
    chains->move_count++;
}

static int gather(const struct chains *chains, const struct placed *list, int b,
                  struct placed *near)
{
    int first = chains->sections->first[b], end = chains->sections->end[b], count = 0;
    for (int i = 0; i < chains->placed_count; i++) {
        if (list[i].first < end && first < list[i].end) near[count++] = list[i];
    }
    return count;
}

// Into the smallest gap under the target; -1: there is none.
static int64_t free_offset(const struct chains *chains, int b)
{
    const struct pack_buffer *buffer = &chains->problem->buffers[b];
    int64_t floor = 0, best = -1, best_gap = INT64_MAX;
    for (int i = 0; i <= chains->near_count; i++) {
        const struct placed *near = &chains->lowers[i];
        int64_t ceiling = i < chains->near_count ? near->lower : chains->target;
        int64_t offset = round_up(floor, buffer->alignment);
        if (offset + buffer->size <= ceiling && ceiling - floor < best_gap) {
            best = offset;
            best_gap = ceiling - floor;
        }
        if (i < chains->near_count && floor < near->upper) floor = near->upper;
    }
    return best;
}

struct seat {
    int64_t offset, cost;
};

static void take_cheaper(struct seat *best, int64_t offset, int64_t cost)
{
    if (cost < best->cost) *best = (struct seat){offset, cost};
}

// Right above one of those that live at the same time, or right below one: displaced is who starts
// below its upper end, less who ends at or below its lower one.
static struct seat cheapest_seat(struct chains *chains, int b)
{
    const struct pack_buffer *buffer = &chains->problem->buffers[b];
    int count = chains->near_count;
    for (int i = 0; i < count; i++) {
        int low = chains->lowers[i].buffer, high = chains->uppers[i].buffer;
        chains->lower_sums[i + 1] =
            chains->lower_sums[i] + chains->weights[low] * chains->penalties[low];
        chains->upper_sums[i + 1] =
            chains->upper_sums[i] + chains->weights[high] * chains->penalties[high];
    }
    struct seat best = {.cost = INT64_MAX};
    for (int i = -1, starting = 0, ended = 0; i < count; i++) {
        int64_t offset = i < 0 ? 0 : round_up(chains->uppers[i].upper, buffer->alignment);
        if (offset + buffer->size > chains->target) break;
        while (starting < count && chains->lowers[starting].lower < offset + buffer->size) {
            starting++;
        }
        while (ended < count && chains->uppers[ended].upper <= offset)
            ended++;
        take_cheaper(&best, offset, chains->lower_sums[starting] - chains->upper_sums[ended]);
    }
    for (int i = 0, starting = 0, ended = 0; i <= count; i++) {
        int64_t top = i < count ? chains->lowers[i].lower : chains->target;
        int64_t offset = top - buffer->size;
        if (offset < 0 || top > chains->target) continue;
        offset -= offset % buffer->alignment;
        while (starting < count && chains->lowers[starting].lower < offset + buffer->size) {
            starting++;
        }
        while (ended < count && chains->uppers[ended].upper <= offset)
            ended++;
        take_cheaper(&best, offset, chains->lower_sums[starting] - chains->upper_sums[ended]);
    }
    return best;
}

// The heaviest of those that wait from `from` on is placed next.
static void wait_in_line(struct chains *chains, int b, int from)
{
    int place = chains->pending_count++;
    while (place > from && chains->weights[chains->pending[place - 1]] > chains->weights[b]) {
        chains->pending[place] = chains->pending[place - 1];
        place--;
    }
    chains->pending[place] = b;
}

static void displace(struct chains *chains, int64_t lower, int64_t upper)
{
    int from = chains->pending_count;
    for (int i = 0; i < chains->near_count; i++) {
        const struct placed *near = &chains->lowers[i];
        if (near->lower >= upper || near->upper <= lower) continue;
        list_remove(chains->by_lower, chains->placed_count, false, near);
        list_remove(chains->by_upper, chains->placed_count, true, near);
        chains->placed_count--;
        chains->move_count++;
        wait_in_line(chains, near->buffer, from);
    }
}

// False: it cannot be under the target at all.
static bool step(struct chains *chains)
{
    int b = chains->pending[--chains->pending_count];
    chains->near_count = gather(chains, chains->by_lower, b, chains->lowers);
    int64_t offset = free_offset(chains, b);
    if (offset < 0) {
        gather(chains, chains->by_upper, b, chains->uppers);
        struct seat seat = cheapest_seat(chains, b);
        if (seat.cost >= WEIGHT_FIXED) return false;
        offset = seat.offset;
        // One that keeps being pushed out grows dear, so that chains do not go round in circles.
        chains->penalties[b]++;
        displace(chains, offset, offset + chains->problem->buffers[b].size);
    }
    insert(chains, b, offset);
    return true;
}

static int compare_lowers(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;
    return (a->lower > b->lower) - (a->lower < b->lower);
}

static int compare_uppers(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;
    return (a->upper > b->upper) - (a->upper < b->upper);
}

static void weigh(struct chains *chains)
{
    const struct pack_problem *problem = chains->problem;
    const struct pack_sections *sections = chains->sections;
    double most = 1;
    for (int pass = 0; pass < 2; pass++) {
        for (int b = 0; b < problem->count; b++) {
            const struct pack_buffer *buffer = &problem->buffers[b];
            double life = sections->end[b] - sections->first[b];
            double weight = sqrt(life * (double)buffer->size);
            if (weight > most && pass == 0) most = weight;
            chains->penalties[b] = 1;
            chains->weights[b] = buffer->fixed_offset >= 0
                                     ? WEIGHT_FIXED
                                     : 1 + (int64_t)(WEIGHT_MOST * weight / most);
        }
    }
}

static void start(struct chains *chains, struct arena *scratch, const int64_t *offsets)
{
    const struct pack_sections *sections = chains->sections;
    int count = chains->problem->count;
    chains->by_lower = ARENA_NEW(scratch, struct placed, count + 1);
    chains->by_upper = ARENA_NEW(scratch, struct placed, count + 1);
    chains->lowers = ARENA_NEW(scratch, struct placed, count + 1);
    chains->uppers = ARENA_NEW(scratch, struct placed, count + 1);
    chains->lower_sums = ARENA_NEW(scratch, int64_t, count + 1);
    chains->upper_sums = ARENA_NEW(scratch, int64_t, count + 1);
    chains->pending = ARENA_NEW(scratch, int, count + 1);
    chains->weights = ARENA_NEW(scratch, int64_t, count);
    chains->penalties = ARENA_NEW(scratch, int64_t, count);
    weigh(chains);
    for (int b = 0; b < count; b++) {
        if (sections->first[b] >= sections->end[b]) continue;
        struct placed placed = placed_at(chains, b, offsets[b]);
        // It would be moved like any other.
        assert(chains->problem->buffers[b].fixed_offset < 0 || placed.upper <= chains->target);
        if (placed.upper > chains->target) {
            wait_in_line(chains, b, 0);
        } else {
            chains->by_lower[chains->placed_count] = placed;
            chains->by_upper[chains->placed_count++] = placed;
        }
    }
    size_t placed_count = (size_t)chains->placed_count;
    qsort(chains->by_lower, placed_count, sizeof *chains->by_lower, compare_lowers);
    qsort(chains->by_upper, placed_count, sizeof *chains->by_upper, compare_uppers);
}

bool pack_repair(struct arena *scratch, const struct pack_problem *problem,
                 const struct pack_sections *sections, int64_t target, int64_t move_cap,
                 double deadline_s, int64_t *offsets, int64_t *move_count)
{
    struct arena_mark mark = arena_mark(scratch);
    assert(target >= 0 && move_cap > 0);
    struct chains chains = {.problem = problem, .sections = sections, .target = target};
    start(&chains, scratch, offsets);
    // A chain that has grown this long no longer closes.
    int pending_most = 4 * chains.pending_count + 200;
    bool goes_on = true;
    for (int64_t steps = 0; goes_on && chains.pending_count > 0; steps++) {
        bool late = deadline_s > 0 && steps % 16 == 0 && clock_s() > deadline_s;
        if (late || chains.move_count >= move_cap || chains.pending_count > pending_most) break;
        goes_on = step(&chains);
    }
    bool done = goes_on && chains.pending_count == 0;
    for (int i = 0; done && i < chains.placed_count; i++) {
        offsets[chains.by_lower[i].buffer] = chains.by_lower[i].lower;
    }
    *move_count += chains.move_count;
    arena_reset(scratch, mark);
    return done;
}
