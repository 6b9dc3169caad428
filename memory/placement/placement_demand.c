#include "memory/placement/placement_parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { ROUNDS_MOST = 12 };

// The device while a policy goes round the circle.
struct demand {
    const struct placed_search *placing;
    enum placed_rule rule;
    int *current;  // [chunk] the interval that it is in; -1: none
    int *present;  // the chunks that are here, `present_count` of them
    int present_count;
    int *place;  // [chunk] in `present`, and one more; 0: not here
    int *used;   // [chunk] when last, in moments since the start
    int64_t room_bytes;
    bool *keep;
};

static int64_t bytes_of(const struct demand *demand, int chunk)
{
    return demand->placing->problem->chunks[chunk].bytes;
}

// Of what may go the one that the rule lets go: the highest.
static double worth_of(const struct demand *demand, int chunk, int now)
{
    const struct placed_interval *at = &demand->placing->intervals.items[demand->current[chunk]];
    if (demand->rule == PLACED_RULE_OLDEST) return now - demand->used[chunk];
    int count = demand->placing->problem->moment_count;
    int end = at->end % count, here = now % count;
    double left = end > here ? end - here : end + count - here;
    if (demand->rule == PLACED_RULE_FARTHEST) return left;
    return left / (at->write < 0 ? 1 : 2);
}

static void come(struct demand *demand, int chunk)
{
    demand->present[demand->present_count++] = chunk;
    demand->place[chunk] = demand->present_count;
    demand->room_bytes -= bytes_of(demand, chunk);
}

static void go(struct demand *demand, int chunk)
{
    int last = demand->present[--demand->present_count];
    demand->present[demand->place[chunk] - 1] = last;
    demand->place[last] = demand->place[chunk];
    demand->place[chunk] = 0;
    demand->room_bytes += bytes_of(demand, chunk);
}

static bool is_accessed(const struct placed_moment *moment, int chunk)
{
    for (int i = 0; i < moment->access_count && !moment->on_host; i++) {
        if (moment->accesses[i].chunk == chunk) return true;
    }
    return false;
}

static void make_room(struct demand *demand, const struct placed_moment *moment, int now)
{
    while (demand->room_bytes < 0) {
        int victim = -1;
        double worst = -INFINITY;
        for (int i = 0; i < demand->present_count; i++) {
            int c = demand->present[i];
            if (is_accessed(moment, c)) continue;
            double worth = worth_of(demand, c, now);
            if (worth < worst || (worth == worst && c > victim)) continue;
            worst = worth;
            victim = c;
        }
        assert(victim >= 0 && "a moment fits alone");
        demand->keep[demand->current[victim]] = false;
        go(demand, victim);
    }
}

// The interval of a chunk that starts at a moment; -1 where what it leaves is dead.
static int starting_at(const struct placed_search *placing, const int *first, int chunk, int moment)
{
    for (int i = first[chunk]; i < placing->intervals.count; i++) {
        const struct placed_interval *at = &placing->intervals.items[i];
        if (at->chunk != chunk) return -1;
        if (at->start == moment) return i;
    }
    return -1;
}

static void leave(struct demand *demand, const struct placed_moment *moment, const int *first,
                  int now)
{
    const struct placed_search *placing = demand->placing;
    for (int i = 0; i < moment->access_count; i++) {
        int chunk = moment->accesses[i].chunk;
        int next = starting_at(placing, first, chunk, now % placing->problem->moment_count);
        bool stays = next >= 0 && placing->intervals.items[next].may_keep;
        demand->used[chunk] = now;
        if (stays) demand->current[chunk] = next;
        if (!stays && demand->place[chunk]) go(demand, chunk);
    }
}

static void go_round(struct demand *demand, const int *first, int round)
{
    const struct placement_problem *problem = demand->placing->problem;
    for (int t = 0; t < problem->moment_count; t++) {
        const struct placed_moment *moment = &problem->moments[t];
        int now = round * problem->moment_count + t;
        demand->room_bytes -= moment->work_bytes;
        for (int i = 0; i < moment->access_count && !moment->on_host; i++) {
            int chunk = moment->accesses[i].chunk;
            if (demand->place[chunk]) demand->keep[demand->current[chunk]] = true;
            if (!demand->place[chunk]) come(demand, chunk);
        }
        make_room(demand, moment, now);
        leave(demand, moment, first, now);
        demand->room_bytes += moment->work_bytes;
    }
}

// Where the circle has not repeated itself, and where room is wanted for fetching ahead: drops what
// does not fit, the longest first.
static void repair(struct arena *arena, const struct placed_search *placing, bool *keep)
{
    const struct placed_intervals *intervals = &placing->intervals;
    int moment_count = placing->problem->moment_count;
    int64_t *room = ARENA_NEW(arena, int64_t, moment_count);
    bool fits = placed_room(placing, room);
    for (int i = 0; i < intervals->count; i++) {
        if (keep[i]) placed_take(placing, &intervals->items[i], 1, room);
    }
    for (int t = 0; t < moment_count && fits; t++) {
        while (room[t] < 0) {
            int victim = -1, longest = 0;
            for (int i = 0; i < intervals->count; i++) {
                const struct placed_interval *at = &intervals->items[i];
                int last = placed_last(placing, at);
                int moment = t > at->start ? t : t + moment_count;
                bool spans = keep[i] && moment >= placed_first(placing, at) && moment < last;
                if (!spans || at->end - at->start <= longest) continue;
                longest = at->end - at->start;
                victim = i;
            }
            assert(victim >= 0);
            keep[victim] = false;
            placed_take(placing, &intervals->items[victim], -1, room);
        }
    }
}

void placed_on_demand(struct arena *arena, const struct placed_search *placing,
                      enum placed_rule rule, bool *keep)
{
    const struct placed_intervals *intervals = &placing->intervals;
    const struct placement_problem *problem = placing->problem;
    int *first = ARENA_NEW(arena, int, problem->chunk_count);
    for (int c = 0; c < problem->chunk_count; c++)
        first[c] = intervals->count;
    for (int i = intervals->count - 1; i >= 0; i--)
        first[intervals->items[i].chunk] = i;
    struct demand demand = {
        .placing = placing,
        .rule = rule,
        .current = ARENA_NEW(arena, int, problem->chunk_count),
        .present = ARENA_NEW(arena, int, problem->chunk_count),
        .place = ARENA_NEW(arena, int, problem->chunk_count),
        .used = ARENA_NEW(arena, int, problem->chunk_count),
        .room_bytes = problem->device_bytes,
        .keep = keep,
    };
    size_t bytes = (size_t)intervals->count * sizeof *keep;
    bool *before = ARENA_NEW(arena, bool, intervals->count + 1);
    memset(keep, 0, bytes);
    for (int round = 0; round < ROUNDS_MOST; round++) {
        memcpy(before, keep, bytes);
        go_round(&demand, first, round);
        if (round > 1 && memcmp(before, keep, bytes) == 0) break;
    }
    repair(arena, placing, keep);
}
