#include "memory/order/order_part.h"

#include "core/progress.h"
#include "memory/order/order_cut.h"

#include <assert.h>
#include <string.h>

// Sets of all searches together are bounded by a multiple of what one may have, so that a graph of
// many hard segments ends as well; each gets a little. Of the arcs that all parts may look at, a
// part gets a share of what is left.
enum {
    CAPS_TOGETHER = 4,
    CAP_LEAST = 1000,
    BEAM_WIDTH_MAX = 64,
    BEAM_ROUNDS = 8,
    CUT_SHARE = 4,
    IMPROVE_SHARE = 8,
};
static const int64_t STATES_DEFAULT = 200000;
static const int64_t SEARCH_WORK = 20000000;  // sets times units: a set is loaded unit by unit
static const int64_t BEAM_WORK = 200000000;   // units squared times width
static const int64_t ROUNDS_WORK = 160000;    // operators of all beams under a limit
static const int64_t CUT_SCANS = 100000000;   // arcs of all parts: tenths of a second
static const int64_t SET_WORDS = 8000000;     // 64 MB of sets a search

struct solver {
    struct arena *arena, *scratch;
    const struct order_limits *limits;
    int64_t states_left, scans_left;
};

static void keep_better(struct solver *solver, struct order_part *part, const int *units)
{
    int64_t peak_bytes = order_local_peak(solver->scratch, part->local, units);
    if (peak_bytes >= part->peak_bytes) return;
    part->peak_bytes = peak_bytes;
    memcpy(part->units, units, (size_t)part->local->unit_count * sizeof *units);
}

static bool is_late(const struct order_limits *limits)
{
    return limits->deadline_s > 0 && clock_s() > limits->deadline_s;
}

int64_t order_state_cap(const struct order_limits *limits, int unit_count)
{
    int64_t cap = limits->state_cap;
    int64_t work = SEARCH_WORK / (unit_count + 1), room = SET_WORDS / (unit_count / 64 + 1);
    if (cap == 0) cap = work < STATES_DEFAULT ? work : STATES_DEFAULT;
    return cap < room ? cap : room;
}

static void search_exactly(struct solver *solver, struct order_part *part, int *units)
{
    int64_t cap = order_state_cap(solver->limits, part->local->unit_count);
    if (solver->states_left < cap)
        cap = solver->states_left < CAP_LEAST ? CAP_LEAST : solver->states_left;
    struct order_search_options options = {.start_bytes = part->bound_bytes,
                                           .limit_bytes = part->peak_bytes - 1,
                                           .state_cap = cap,
                                           .deadline_s = solver->limits->deadline_s,
                                           .no_forced_moves = solver->limits->no_forced_moves};
    struct arena_mark mark = arena_mark(solver->scratch);
    struct order_search_result result = order_search(solver->scratch, part->local, &options);
    solver->states_left -= result.state_count;
    part->state_count = result.state_count;
    part->capped = result.capped;
    if (result.exit_count) {
        order_path_read(&result.path, result.exits[0].place, units);
        keep_better(solver, part, units);
    }
    part->bound_bytes = result.threshold_bytes;
    if (part->bound_bytes > part->peak_bytes) part->bound_bytes = part->peak_bytes;
    arena_reset(solver->scratch, mark);
}

// Beams under limits that halve the way between the bound and the best.
static void improve(struct solver *solver, struct order_part *part, int *units)
{
    int64_t count = part->local->unit_count;
    int64_t width = BEAM_WORK / (count * count);
    width = width < 1 ? 1 : width > BEAM_WIDTH_MAX ? BEAM_WIDTH_MAX : width;
    int64_t low_bytes = part->bound_bytes;
    int rounds = count < ROUNDS_WORK / BEAM_ROUNDS ? BEAM_ROUNDS : (int)(ROUNDS_WORK / count) + 1;
    for (int round = 0; round < rounds && low_bytes < part->peak_bytes; round++) {
        if (is_late(solver->limits)) return;
        int64_t limit_bytes = low_bytes + (part->peak_bytes - 1 - low_bytes) / 2;
        if (order_beam(solver->scratch, part->local, limit_bytes, (int)width, units)) {
            keep_better(solver, part, units);
        } else {
            // A beam that fails has proven nothing: this bounds the beams, not the part.
            low_bytes = limit_bytes + 1;
        }
    }
}

// What needs no search, which starts where this ends.
static void bound_by_cuts(struct solver *solver, struct order_part *part)
{
    int64_t scans = solver->scans_left / CUT_SHARE, left = scans;
    part->bound_bytes =
        order_cut_bound(solver->scratch, part->local, part->units, part->bound_bytes, &left);
    solver->scans_left -= scans - left;
}

static void improve_by_cuts(struct solver *solver, struct order_part *part, int *units)
{
    int64_t scans = solver->scans_left / IMPROVE_SHARE, left = scans;
    memcpy(units, part->units, (size_t)part->local->unit_count * sizeof *units);
    order_cut_improve(solver->scratch, part->local, units, &left);
    keep_better(solver, part, units);
    solver->scans_left -= scans - left;
}

static void solve_part(struct solver *solver, struct order_part *part)
{
    int count = part->local->unit_count;
    part->units = ARENA_NEW(solver->arena, int, count);
    int *units = ARENA_NEW(solver->arena, int, count);
    for (int i = 0; i < count; i++)
        units[i] = i;
    part->peak_bytes = INT64_MAX;
    part->bound_bytes = part->local->least_bytes;
    keep_better(solver, part, units);
    if (part->peak_bytes == part->bound_bytes || is_late(solver->limits)) return;
    if (order_beam(solver->scratch, part->local, INT64_MAX, 1, units)) {
        keep_better(solver, part, units);
    }
    if (part->peak_bytes == part->bound_bytes) return;
    bound_by_cuts(solver, part);
    if (part->peak_bytes == part->bound_bytes) return;
    search_exactly(solver, part, units);
    assert(part->bound_bytes <= part->peak_bytes);
    if (!part->capped) return;
    improve(solver, part, units);
    if (part->peak_bytes > part->bound_bytes) improve_by_cuts(solver, part, units);
}

// Distinct parts in a table of places + 1 by hash.
struct part_table {
    int *slots, room;
};

static int *find_part(const struct part_table *table, const struct order_parts *parts,
                      const struct order_local *local)
{
    unsigned at = (unsigned)order_local_hash(local), mask = (unsigned)table->room - 1;
    for (at &= mask; table->slots[at]; at = (at + 1) & mask) {
        if (order_local_same(parts->parts[table->slots[at] - 1].local, local)) break;
    }
    return &table->slots[at];
}

struct order_parts order_parts_solve(struct arena *arena, struct arena *scratch,
                                     const struct order_division *division,
                                     const struct order_limits *limits)
{
    struct solver solver = {
        arena, scratch, limits,
        (limits->state_cap ? limits->state_cap : STATES_DEFAULT) * CAPS_TOGETHER, CUT_SCANS};
    struct order_parts parts = {ARENA_NEW(arena, struct order_part, division->segment_count), 0, 0,
                                NULL};
    int *of_segment = ARENA_NEW(arena, int, division->segment_count);
    int *units = ARENA_NEW(arena, int, division->unit_count);
    for (int u = 0; u < division->unit_count; u++)
        units[u] = u;
    struct order_builder builder =
        order_builder_make(arena, division, ARENA_NEW(arena, int64_t, 1));
    int64_t *bytes = ARENA_NEW(arena, int64_t, division->problem->buffer_count);
    for (int b = 0; b < division->problem->buffer_count; b++)
        bytes[b] = division->problem->buffers[b].bytes;
    builder.bytes = bytes;
    struct part_table table = {.room = 64};
    while (table.room < division->segment_count * 2)
        table.room *= 2;
    table.slots = ARENA_NEW(arena, int, table.room);
    for (int k = 0; k < division->segment_count; k++) {
        struct arena_mark mark = arena_mark(arena);
        int first = division->first_unit[k], count = division->first_unit[k + 1] - first;
        struct order_local *local =
            order_local_make(arena, &builder, k, &units[first], count, count, 0);
        // Made before it is looked up: what is equal is the problem that is solved, not the graph
        // it is cut from. One that is known is thrown away again.
        int *slot = find_part(&table, &parts, local);
        if (*slot) {
            arena_reset(arena, mark);
        } else {
            parts.parts[parts.count] = (struct order_part){.local = local};
            solve_part(&solver, &parts.parts[parts.count]);
            *slot = ++parts.count;
        }
        of_segment[k] = *slot - 1;
        int operators = division->first_operator[first + count] - division->first_operator[first];
        if (operators > parts.largest) parts.largest = operators;
    }
    parts.of_segment = of_segment;
    return parts;
}
