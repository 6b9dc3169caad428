#include "memory/milp.h"
#include "memory/placement/placement_parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Rows of the relaxation: moments beyond so many are left out evenly, which only widens it.
enum { ROWS_MOST = 400, WRITE_ROWS_MOST = 3000 };

// Keep[i] in 0 .. 1 of each interval that may be kept, lost[w] >= 1 - keep[i] of each writing whose
// intervals i may all be kept. Least are the bytes fetched, and of each writing that is lost those
// written back; at each moment what is kept across it fits.
struct program_of {
    const struct placed_search *placing;
    struct milp *milp;
    int *column;    // [interval]; -1: none
    int *lost;      // [writing] its column; -1: none, or it is always lost
    int *own;       // [writing] how many intervals it has
    bool *is_lost;  // [writing] in any case
    double fixed;   // of what cannot be kept
    double unit_bytes;
};

static double size_of(const struct program_of *of, const struct placed_interval *interval)
{
    return (double)of->placing->problem->chunks[interval->chunk].bytes / of->unit_bytes;
}

static void start_program(struct arena *arena, const struct placed_search *placing,
                          struct program_of *of)
{
    const struct placed_intervals *intervals = &placing->intervals;
    *of = (struct program_of){
        .placing = placing,
        .milp = milp_new(arena, "placement"),
        .column = ARENA_NEW(arena, int, intervals->count + 1),
        .lost = ARENA_NEW(arena, int, intervals->write_count + 1),
        .own = ARENA_NEW(arena, int, intervals->write_count + 1),
        .is_lost = ARENA_NEW(arena, bool, intervals->write_count + 1),
    };
    for (int i = 0; i < placing->problem->chunk_count; i++)
        of->unit_bytes = fmax(of->unit_bytes, (double)placing->problem->chunks[i].bytes);
    for (int i = 0; i < intervals->count; i++) {
        const struct placed_interval *at = &intervals->items[i];
        if (at->write < 0) continue;
        of->own[at->write]++;
        if (!at->may_keep && !of->is_lost[at->write]) {
            of->is_lost[at->write] = true;
            of->fixed += size_of(of, at);
        }
    }
}

static void add_columns(struct program_of *of, enum milp_kind kind, int *write_rows)
{
    const struct placed_intervals *intervals = &of->placing->intervals;
    for (int w = 0; w < intervals->write_count; w++)
        of->lost[w] = -1;
    for (int i = 0; i < intervals->count; i++) {
        const struct placed_interval *at = &intervals->items[i];
        double size = size_of(of, at);
        of->column[i] = -1;
        if (at->is_fetched) of->fixed += size;
        if (!at->may_keep) continue;
        bool is_written = at->write >= 0 && !of->is_lost[at->write];
        bool is_alone = is_written && of->own[at->write] == 1;
        if (is_alone) of->fixed += size;
        of->column[i] = milp_column(of->milp, kind, 0, 1, is_alone ? -2 * size : -size);
        if (!is_written || is_alone || *write_rows >= WRITE_ROWS_MOST) continue;
        if (of->lost[at->write] < 0)
            of->lost[at->write] = milp_column(of->milp, MILP_CONTINUOUS, 0, 1, size);
        int row = milp_row(of->milp, 1, INFINITY);
        milp_put(of->milp, row, of->lost[at->write], 1);
        milp_put(of->milp, row, of->column[i], 1);
        (*write_rows)++;
    }
}

static void add_moments(struct arena *arena, struct program_of *of)
{
    const struct placed_search *placing = of->placing;
    int count = placing->problem->moment_count, stride = (count + ROWS_MOST - 1) / ROWS_MOST;
    int64_t *room = ARENA_NEW(arena, int64_t, count);
    int *rows = ARENA_NEW(arena, int, count);
    bool fits = placed_room(placing, room);
    assert(fits);
    (void)fits;
    for (int t = 0; t < count; t++)
        rows[t] =
            t % stride == 0 ? milp_row(of->milp, -INFINITY, (double)room[t] / of->unit_bytes) : -1;
    for (int i = 0; i < placing->intervals.count; i++) {
        const struct placed_interval *at = &placing->intervals.items[i];
        int last = placed_last(placing, at);
        if (of->column[i] < 0) continue;
        for (int t = placed_first(placing, at); t < last; t++) {
            int row = rows[t % count];
            if (row >= 0) milp_put(of->milp, row, of->column[i], size_of(of, at));
        }
    }
}

struct placed_relaxed placed_relax(struct arena *arena, const struct placed_search *placing)
{
    struct program_of of;
    struct placed_relaxed relaxed = {0};
    int write_rows = 0;
    start_program(arena, placing, &of);
    add_columns(&of, MILP_CONTINUOUS, &write_rows);
    relaxed.bound_bytes = 0;
    if (milp_column_count(of.milp) == 0) {
        relaxed.bound_bytes = of.fixed * of.unit_bytes;
        return relaxed;
    }
    if (milp_column_count(of.milp) > placing->column_most) return relaxed;
    add_moments(arena, &of);
    const struct milp_options options = {0};
    struct milp_result result = milp_solve(of.milp, &options);
    if (result.status != MILP_OPTIMAL) return relaxed;
    double *shares = ARENA_NEW(arena, double, placing->intervals.count);
    for (int i = 0; i < placing->intervals.count; i++) {
        // To what the tolerance leaves, so that equal shares stay equal.
        if (of.column[i] >= 0) shares[i] = round(1e6 * result.values[of.column[i]]) / 1e6;
    }
    relaxed.shares = shares;
    // What stays where it is cancels but for what the simplex method tolerates: of small chunks
    // beside large ones 6e-9 of the sum were seen.
    double moved = (result.objective + of.fixed) * (1 - 1e-9) - 2e-8 * of.fixed;
    relaxed.bound_bytes = fmax(0, moved * of.unit_bytes);
    return relaxed;
}

bool placed_exact(struct arena *arena, const struct placed_search *placing, bool *keep)
{
    struct program_of of;
    int write_rows = 0;
    start_program(arena, placing, &of);
    add_columns(&of, MILP_BINARY, &write_rows);
    bool is_small = placing->problem->moment_count <= ROWS_MOST && write_rows < WRITE_ROWS_MOST &&
                    milp_column_count(of.milp) <= placing->exact_most;
    if (!is_small) return false;
    add_moments(arena, &of);
    double *start = ARENA_NEW(arena, double, milp_column_count(of.milp));
    for (int i = 0; i < placing->intervals.count; i++) {
        int write = placing->intervals.items[i].write;
        if (of.column[i] >= 0) start[of.column[i]] = keep[i];
        if (!keep[i] && write >= 0 && of.lost[write] >= 0) start[of.lost[write]] = 1;
    }
    const struct milp_options options = {.node_cap = placing->node_cap, .start = start};
    struct milp_result result = milp_solve(of.milp, &options);
    if (!result.values) return false;
    int *order = ARENA_NEW(arena, int, placing->intervals.count);
    int count = 0;
    for (int i = 0; i < placing->intervals.count; i++) {
        if (of.column[i] >= 0 && result.values[of.column[i]] > 0.5) order[count++] = i;
    }
    // Filled in, so that what GLPK's tolerance let through does not pass, and what is left is used.
    memset(keep, 0, (size_t)placing->intervals.count * sizeof *keep);
    placed_fill(arena, placing, order, count, keep);
    struct placed_moved moved = placed_moved(arena, placing, keep);
    double found = (double)(moved.up_bytes + moved.down_bytes);
    double best = (result.objective + of.fixed) * of.unit_bytes;
    return result.status == MILP_OPTIMAL && found <= best * (1 + 1e-6) + 1e-3;
}
