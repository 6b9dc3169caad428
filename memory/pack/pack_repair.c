#include "core/divisor.h"
#include "core/progress.h"
#include "memory/pack/pack_order.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct placed {
    int64_t lower, upper;
    int buffer;
};

// A question goes over so many of a list at a time.
enum { BLOCK = 64 };

// Buffers in the order of their lower or their upper ends, and when each lives: as coarse as
// a byte, which says of most that they do not meet, and of many at once.
struct list {
    const int64_t *ends;  // by buffer: what they are sorted by
    int *buffers;
    uint8_t *firsts, *lasts;  // 256 * section / sections
    int count;
};

// Placed buffers twice, sorted by either end: a question walks over all of them in order, which for
// some ten thousand costs less than keeping a structure that forgets.
struct chains {
    const struct pack_problem *problem;
    const struct pack_sections *sections;
    int64_t target;
    int64_t *lower_ends, *upper_ends;  // by buffer, of those that are placed
    struct list by_lower, by_upper;
    int *pending;  // to be placed, the next last
    int pending_count;
    int64_t *weights;    // what it costs to displace a buffer once
    int64_t *costs;      // that, times 1 + how often it found no free place
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

static int place_of(const struct list *list, int64_t address)
{
    int low = 0, high = list->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (list->ends[list->buffers[middle]] < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Moves all from `from` on to `to`.
static void list_shift(struct list *list, int from, int to)
{
    size_t count = (size_t)(list->count - from);
    memmove(list->buffers + to, list->buffers + from, count * sizeof *list->buffers);
    memmove(list->firsts + to, list->firsts + from, count);
    memmove(list->lasts + to, list->lasts + from, count);
}

struct life {
    uint8_t first, last;
};

static uint8_t coarse(const struct chains *chains, int section)
{
    return (uint8_t)((int64_t)section * (UINT8_MAX + 1) / chains->sections->count);
}

static struct life life_of(const struct chains *chains, int b)
{
    return (struct life){coarse(chains, chains->sections->first[b]),
                         coarse(chains, chains->sections->end[b] - 1)};
}

static void list_put(struct list *list, int place, int b, struct life life)
{
    list->buffers[place] = b;
    list->firsts[place] = life.first;
    list->lasts[place] = life.last;
}

static void list_insert(struct list *list, int b, struct life life)
{
    int here = place_of(list, list->ends[b]);
    list_shift(list, here, here + 1);
    list_put(list, here, b, life);
    list->count++;
}

static void list_remove(struct list *list, int b)
{
    int here = place_of(list, list->ends[b]);
    while (list->buffers[here] != b)
        here++;
    list_shift(list, here + 1, here);
    list->count--;
}

static void put(struct chains *chains, int b, int64_t offset)
{
    chains->lower_ends[b] = offset;
    chains->upper_ends[b] = offset + chains->problem->buffers[b].size;
}

static void insert(struct chains *chains, int b, int64_t offset)
{
    struct life life = life_of(chains, b);
    put(chains, b, offset);
    list_insert(&chains->by_lower, b, life);
    list_insert(&chains->by_upper, b, life);
    chains->move_count++;
}

// Of those of a block from `from` on that may live while this one does, 1 each in as many bytes.
static void may_meet(const struct list *list, int from, struct life life,
                     uint8_t found[restrict BLOCK])
{
    const uint8_t *restrict firsts = list->firsts + from, *restrict lasts = list->lasts + from;
    for (int i = 0; i < BLOCK; i++)
        found[i] = (uint8_t)((firsts[i] <= life.last) & (life.first <= lasts[i]));
}

// The bytes of a word are read from its lowest on, as they lie in memory.
static int gather(const struct chains *chains, const struct list *list, int b, struct placed *near)
{
    enum { WORD = sizeof(uint64_t) };
    const struct pack_sections *sections = chains->sections;
    int first = sections->first[b], end = sections->end[b], count = 0;
    struct life life = life_of(chains, b);
    for (int from = 0; from < list->count; from += BLOCK) {
        uint8_t found[BLOCK];
        may_meet(list, from, life, found);
        for (int word = 0; word < BLOCK; word += WORD) {
            uint64_t any;
            memcpy(&any, found + word, sizeof any);
            for (; any; any &= any - 1) {
                int i = from + word + __builtin_ctzll(any) / CHAR_BIT;
                if (i >= list->count) break;
                int other = list->buffers[i];
                near[count] =
                    (struct placed){chains->lower_ends[other], chains->upper_ends[other], other};
                count += (sections->first[other] < end) & (first < sections->end[other]);
            }
        }
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
        chains->lower_sums[i + 1] = chains->lower_sums[i] + chains->costs[low];
        chains->upper_sums[i + 1] = chains->upper_sums[i] + chains->costs[high];
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
        offset = round_down(offset, buffer->alignment);
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
        list_remove(&chains->by_lower, near->buffer);
        list_remove(&chains->by_upper, near->buffer);
        chains->move_count++;
        wait_in_line(chains, near->buffer, from);
    }
}

// False: it cannot be under the target at all.
static bool step(struct chains *chains)
{
    int b = chains->pending[--chains->pending_count];
    chains->near_count = gather(chains, &chains->by_lower, b, chains->lowers);
    int64_t offset = free_offset(chains, b);
    if (offset < 0) {
        gather(chains, &chains->by_upper, b, chains->uppers);
        struct seat seat = cheapest_seat(chains, b);
        if (seat.cost >= WEIGHT_FIXED) return false;
        offset = seat.offset;
        // One that keeps being pushed out grows dear, so that chains do not go round in circles.
        chains->costs[b] += chains->weights[b];
        displace(chains, offset, offset + chains->problem->buffers[b].size);
    }
    insert(chains, b, offset);
    return true;
}

static int compare_keyed(const void *left, const void *right, void *ends)
{
    const int64_t *keys = ends;
    int64_t a = keys[*(const int *)left], b = keys[*(const int *)right];
    return (a > b) - (a < b);
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
            chains->weights[b] = buffer->fixed_offset >= 0
                                     ? WEIGHT_FIXED
                                     : 1 + (int64_t)(WEIGHT_MOST * weight / most);
            chains->costs[b] = chains->weights[b];
        }
    }
}

static struct list list_new(struct arena *scratch, const int64_t *ends, int count)
{
    return (struct list){.ends = ends,
                         .buffers = ARENA_NEW(scratch, int, count + 1),
                         .firsts = ARENA_NEW(scratch, uint8_t, count + BLOCK),
                         .lasts = ARENA_NEW(scratch, uint8_t, count + BLOCK)};
}

static void list_sort(const struct chains *chains, struct list *list, int64_t *ends)
{
    qsort_r(list->buffers, (size_t)list->count, sizeof *list->buffers, compare_keyed, ends);
    for (int i = 0; i < list->count; i++)
        list_put(list, i, list->buffers[i], life_of(chains, list->buffers[i]));
}

static void start(struct chains *chains, struct arena *scratch, const int64_t *offsets)
{
    const struct pack_sections *sections = chains->sections;
    int count = chains->problem->count;
    chains->lower_ends = ARENA_NEW(scratch, int64_t, count);
    chains->upper_ends = ARENA_NEW(scratch, int64_t, count);
    chains->by_lower = list_new(scratch, chains->lower_ends, count);
    chains->by_upper = list_new(scratch, chains->upper_ends, count);
    chains->lowers = ARENA_NEW(scratch, struct placed, count + 1);
    chains->uppers = ARENA_NEW(scratch, struct placed, count + 1);
    chains->lower_sums = ARENA_NEW(scratch, int64_t, count + 1);
    chains->upper_sums = ARENA_NEW(scratch, int64_t, count + 1);
    chains->pending = ARENA_NEW(scratch, int, count + 1);
    chains->weights = ARENA_NEW(scratch, int64_t, count);
    chains->costs = ARENA_NEW(scratch, int64_t, count);
    weigh(chains);
    for (int b = 0; b < count; b++) {
        if (sections->first[b] >= sections->end[b]) continue;
        put(chains, b, offsets[b]);
        bool is_under = chains->upper_ends[b] <= chains->target;
        // It would be moved like any other.
        assert(chains->problem->buffers[b].fixed_offset < 0 || is_under);
        if (is_under) {
            chains->by_lower.buffers[chains->by_lower.count++] = b;
            chains->by_upper.buffers[chains->by_upper.count++] = b;
        } else {
            wait_in_line(chains, b, 0);
        }
    }
    list_sort(chains, &chains->by_lower, chains->lower_ends);
    list_sort(chains, &chains->by_upper, chains->upper_ends);
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
    for (int i = 0; done && i < chains.by_lower.count; i++) {
        int b = chains.by_lower.buffers[i];
        offsets[b] = chains.lower_ends[b];
    }
    *move_count += chains.move_count;
    arena_reset(scratch, mark);
    return done;
}
