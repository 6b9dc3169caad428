#include "memory/milp.h"
#include "memory/spill/spill_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The integer program is asked up to these sizes, and for so many nodes.
enum { COLUMNS_MOST = 1500, ROWS_MOST = 800, NODES_MOST = 400 };
enum { HALVE_MOST = 12 };

struct choosing {
    struct arena *arena;
    const struct spill_space *space;
    int64_t capacity;
    int64_t *level;  // [step] bytes alive with what is taken
    bool *taken;
    const int64_t *bytes_of;  // [tensor], of storages
};

static const int64_t *storage_bytes(struct arena *arena, const struct spill_space *space)
{
    int64_t *bytes_of = ARENA_NEW(arena, int64_t, space->graph->tensor_count);
    for (int b = 0; b < space->problem->buffer_count; b++) {
        int tensor = space->problem->buffers[b].tensor;
        if (tensor >= 0) bytes_of[tensor] = space->problem->buffers[b].bytes;
    }
    return bytes_of;
}

static void apply(struct choosing *choosing, int candidate, bool takes)
{
    const struct spill_candidate *of = &choosing->space->candidates[candidate];
    int sign = takes ? -1 : 1;
    for (int i = 0; i < of->freed_count; i++) {
        for (int t = of->freed[i].first; t < of->freed[i].last; t++)
            choosing->level[t] += sign * choosing->bytes_of[of->freed[i].storage];
    }
    choosing->level[of->step] -= sign * of->extra_bytes;
    choosing->taken[candidate] = takes;
}

static bool needs(const struct spill_candidate *of, const struct spill_freed *freed)
{
    if (of->step < freed->first || of->step > freed->last) return false;
    for (int i = 0; i < of->need_count; i++) {
        if (of->needs[i] == freed->storage) return true;
    }
    return false;
}

// Both free the same bytes at a time, or one needs what the other gives up.
static bool exclude(const struct spill_candidate *a, const struct spill_candidate *b)
{
    for (int i = 0; i < a->freed_count; i++) {
        if (needs(b, &a->freed[i])) return true;
        for (int k = 0; k < b->freed_count; k++) {
            bool is_same = a->freed[i].storage == b->freed[k].storage &&
                           a->freed[i].first == b->freed[k].first;
            if (is_same) return true;
        }
    }
    for (int k = 0; k < b->freed_count; k++) {
        if (needs(a, &b->freed[k])) return true;
    }
    return false;
}

static bool may_take(const struct choosing *choosing, int candidate)
{
    const struct spill_candidate *of = &choosing->space->candidates[candidate];
    if (choosing->taken[candidate]) return false;
    int64_t then = choosing->level[of->step] + of->extra_bytes;
    if (of->extra_bytes > 0 && then > choosing->capacity) return false;
    for (int i = 0; i < choosing->space->count; i++) {
        if (choosing->taken[i] && exclude(of, &choosing->space->candidates[i])) return false;
    }
    return true;
}

static int64_t freed_at(const struct choosing *choosing, const struct spill_candidate *of, int step)
{
    int64_t bytes = 0;
    for (int i = 0; i < of->freed_count; i++) {
        if (of->freed[i].first <= step && step < of->freed[i].last)
            bytes += choosing->bytes_of[of->freed[i].storage];
    }
    return bytes;
}

static int highest(const struct choosing *choosing)
{
    int step = 0;
    for (int t = 1; t < choosing->space->step_count; t++) {
        if (choosing->level[t] > choosing->level[step]) step = t;
    }
    return step;
}

// Of what is free at a step the cheapest by byte, of which no more counts than is wanted.
static int cheapest_at(const struct choosing *choosing, int step)
{
    int64_t excess = choosing->level[step] - choosing->capacity;
    double best_ratio = INFINITY;
    int best = -1;
    for (int i = 0; i < choosing->space->count; i++) {
        const struct spill_candidate *of = &choosing->space->candidates[i];
        int64_t bytes = freed_at(choosing, of, step);
        if (bytes <= 0) continue;
        double ratio = of->cost_s / (double)(bytes < excess ? bytes : excess);
        if (ratio >= best_ratio || !may_take(choosing, i)) continue;
        best_ratio = ratio;
        best = i;
    }
    return best;
}

static bool is_spare(const struct choosing *choosing, int candidate)
{
    const struct spill_candidate *of = &choosing->space->candidates[candidate];
    for (int i = 0; i < of->freed_count; i++) {
        for (int t = of->freed[i].first; t < of->freed[i].last; t++) {
            int64_t back = freed_at(choosing, of, t) - (t == of->step ? of->extra_bytes : 0);
            if (choosing->level[t] + back > choosing->capacity) return false;
        }
    }
    return true;
}

// Gives back what the others make needless, the dearest first.
static void give_back(struct choosing *choosing)
{
    const struct spill_candidate *all = choosing->space->candidates;
    for (double last_s = INFINITY;;) {
        int dearest = -1;
        for (int i = 0; i < choosing->space->count; i++) {
            bool is_next = choosing->taken[i] && all[i].cost_s < last_s &&
                           (dearest < 0 || all[i].cost_s > all[dearest].cost_s);
            if (is_next) dearest = i;
        }
        if (dearest < 0) return;
        last_s = all[dearest].cost_s;
        for (int i = dearest; i < choosing->space->count; i++) {
            if (choosing->taken[i] && all[i].cost_s == last_s && is_spare(choosing, i))
                apply(choosing, i, false);
        }
    }
}

static bool take_greedily(struct choosing *choosing)
{
    for (;;) {
        int step = highest(choosing);
        if (choosing->level[step] <= choosing->capacity) break;
        int candidate = cheapest_at(choosing, step);
        if (candidate < 0) return false;
        apply(choosing, candidate, true);
    }
    give_back(choosing);
    return true;
}

// One row stands for all steps between two places where something begins or ends.
static int find_rows(const struct choosing *choosing, int *rows)
{
    const struct spill_space *space = choosing->space;
    bool *begins = ARENA_NEW(choosing->arena, bool, space->step_count + 1);
    int64_t *extra = ARENA_NEW(choosing->arena, int64_t, space->step_count + 1);
    for (int i = 0; i < space->count; i++) {
        const struct spill_candidate *of = &space->candidates[i];
        for (int k = 0; k < of->freed_count; k++)
            begins[of->freed[k].first] = begins[of->freed[k].last] = true;
        begins[of->step] = begins[of->step + 1] = true;
        extra[of->step] += of->extra_bytes;
    }
    int count = 0, best = -1;
    for (int t = 0; t <= space->step_count; t++) {
        if (t == space->step_count || begins[t]) {
            if (best >= 0 && space->load[best] + extra[best] > choosing->capacity) {
                if (count == ROWS_MOST) return -1;
                rows[count++] = best;
            }
            best = -1;
        }
        if (t < space->step_count && (best < 0 || space->load[t] > space->load[best])) best = t;
    }
    return count;
}

struct freed_entry {
    struct spill_freed freed;
    int candidate;
};

static int compare_entries(const void *a, const void *b)
{
    const struct freed_entry *left = a, *right = b;
    if (left->freed.storage != right->freed.storage)
        return left->freed.storage < right->freed.storage ? -1 : 1;
    if (left->freed.first != right->freed.first)
        return left->freed.first < right->freed.first ? -1 : 1;
    return (left->candidate > right->candidate) - (left->candidate < right->candidate);
}

static struct freed_entry *sort_entries(const struct choosing *choosing, int *count)
{
    const struct spill_space *space = choosing->space;
    *count = 0;
    for (int i = 0; i < space->count; i++)
        *count += space->candidates[i].freed_count;
    struct freed_entry *entries = ARENA_NEW(choosing->arena, struct freed_entry, *count);
    int at = 0;
    for (int i = 0; i < space->count; i++) {
        for (int k = 0; k < space->candidates[i].freed_count; k++)
            entries[at++] = (struct freed_entry){space->candidates[i].freed[k], i};
    }
    qsort(entries, (size_t)*count, sizeof *entries, compare_entries);
    return entries;
}

// Of what gives up the same bytes at most one is taken, and none where another needs them.
static void add_exclusions(const struct choosing *choosing, struct milp *milp)
{
    int count;
    const struct spill_space *space = choosing->space;
    const struct freed_entry *entries = sort_entries(choosing, &count);
    for (int begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count; end++) {
            if (entries[end].freed.storage != entries[begin].freed.storage ||
                entries[end].freed.first != entries[begin].freed.first)
                break;
        }
        if (end - begin > 1) {
            int row = milp_row(milp, -INFINITY, 1);
            for (int k = begin; k < end; k++)
                milp_put(milp, row, entries[k].candidate, 1);
        }
        for (int i = 0; i < space->count; i++) {
            int row = -1;
            for (int k = begin; k < end; k++) {
                if (entries[k].candidate == i || !needs(&space->candidates[i], &entries[k].freed))
                    continue;
                if (row < 0) {
                    row = milp_row(milp, -INFINITY, 1);
                    milp_put(milp, row, i, 1);
                }
                milp_put(milp, row, entries[k].candidate, 1);
            }
        }
    }
}

// Of each candidate a column, then the exclusions. `peak`: bytes of the highest step are least, a
// column of its own; else the cost is, below the capacity.
static struct milp *state_program(const struct choosing *choosing, const int *rows, int row_count,
                                  double cost_unit_s, bool peak)
{
    const struct spill_space *space = choosing->space;
    struct milp *milp = milp_new(choosing->arena, "spill");
    double unit_bytes = 1;
    for (int i = 0; i < space->count; i++) {
        const struct spill_candidate *of = &space->candidates[i];
        milp_column(milp, MILP_BINARY, 0, 1, peak ? 0 : of->cost_s / cost_unit_s);
        for (int k = 0; k < of->freed_count; k++)
            unit_bytes = fmax(unit_bytes, (double)choosing->bytes_of[of->freed[k].storage]);
    }
    int most = peak ? milp_column(milp, MILP_CONTINUOUS, 0, INFINITY, 1) : -1;
    for (int r = 0; r < row_count; r++) {
        int64_t below = peak ? 0 : choosing->capacity;
        int row = milp_row(milp, (double)(space->load[rows[r]] - below) / unit_bytes, INFINITY);
        if (peak) milp_put(milp, row, most, 1);
        for (int i = 0; i < space->count; i++) {
            const struct spill_candidate *of = &space->candidates[i];
            int64_t bytes = freed_at(choosing, of, rows[r]);
            if (of->step == rows[r]) bytes -= of->extra_bytes;
            if (bytes != 0) milp_put(milp, row, i, (double)bytes / unit_bytes);
        }
    }
    add_exclusions(choosing, milp);
    return milp;
}

static double cost_of(const struct choosing *choosing)
{
    double cost_s = 0;
    for (int i = 0; i < choosing->space->count; i++)
        cost_s += choosing->taken[i] ? choosing->space->candidates[i].cost_s : 0;
    return cost_s;
}

// The program's exclusions hold to the letter, its bytes but for the last of many digits.
static bool is_low(const struct choosing *choosing)
{
    return choosing->level[highest(choosing)] <= choosing->capacity;
}

static void take_all(struct choosing *choosing, const bool *wanted)
{
    for (int i = 0; i < choosing->space->count; i++) {
        if (choosing->taken[i] != wanted[i]) apply(choosing, i, wanted[i]);
    }
}

static void round_values(const struct choosing *choosing, const double *values, bool *wanted)
{
    for (int i = 0; i < choosing->space->count; i++)
        wanted[i] = values[i] > 0.5;
}

// Takes what the program says where that is right, and cheaper than what is taken.
static void take_values(struct choosing *choosing, const double *values, bool is_feasible)
{
    const struct spill_space *space = choosing->space;
    bool *before = ARENA_NEW(choosing->arena, bool, space->count);
    bool *wanted = ARENA_NEW(choosing->arena, bool, space->count);
    double before_s = is_feasible ? cost_of(choosing) : INFINITY;
    memcpy(before, choosing->taken, (size_t)space->count * sizeof *before);
    round_values(choosing, values, wanted);
    take_all(choosing, wanted);
    if (is_low(choosing)) give_back(choosing);
    if (!is_low(choosing) || cost_of(choosing) >= before_s) take_all(choosing, before);
}

static void improve(struct choosing *choosing, const struct memory_options *options,
                    bool is_feasible, double *bound_s)
{
    const struct spill_space *space = choosing->space;
    int rows[ROWS_MOST];
    int row_count = space->count <= COLUMNS_MOST ? find_rows(choosing, rows) : -1;
    double unit_s = 0;
    for (int i = 0; i < space->count; i++)
        unit_s = fmax(unit_s, space->candidates[i].cost_s);
    if (row_count < 0 || unit_s <= 0) return;
    struct milp *milp = state_program(choosing, rows, row_count, unit_s, false);
    double *start = ARENA_NEW(choosing->arena, double, space->count);
    for (int i = 0; i < space->count; i++)
        start[i] = choosing->taken[i];
    const struct milp_options asked = {.node_cap = NODES_MOST,
                                       .start = is_feasible ? start : NULL,
                                       .log = options->log,
                                       .log_context = options->log_context};
    struct milp_result result = milp_solve(milp, &asked);
    if (result.bound > 0) *bound_s = result.bound * unit_s * (1 - 1e-6);
    if (result.values) take_values(choosing, result.values, is_feasible);
}

static struct choosing start(struct arena *arena, const struct spill_space *space, int64_t capacity,
                             bool *taken)
{
    struct choosing choosing = {
        .arena = arena,
        .space = space,
        .capacity = capacity,
        .level = ARENA_NEW(arena, int64_t, space->step_count + 1),
        .taken = taken,
        .bytes_of = storage_bytes(arena, space),
    };
    memcpy(choosing.level, space->load, (size_t)space->step_count * sizeof *space->load);
    memset(taken, 0, (size_t)space->count * sizeof *taken);
    return choosing;
}

int64_t spill_choose(struct arena *arena, const struct spill_space *space, int64_t capacity,
                     const struct memory_options *options, bool *taken, double *bound_s)
{
    struct choosing choosing = start(arena, space, capacity, taken);
    *bound_s = 0;
    if (space->step_count == 0) return 0;
    bool is_feasible = take_greedily(&choosing);
    improve(&choosing, options, is_feasible, bound_s);
    return choosing.level[highest(&choosing)];
}

int64_t spill_lowest(struct arena *arena, const struct spill_space *space, int64_t low, bool *taken)
{
    struct choosing choosing = start(arena, space, low, taken);
    if (space->step_count == 0) return 0;
    int64_t high = choosing.level[highest(&choosing)];
    for (int i = 0; i < HALVE_MOST && high - low > 1; i++) {
        choosing = start(arena, space, low + (high - low) / 2, taken);
        take_greedily(&choosing);
        int64_t peak_bytes = choosing.level[highest(&choosing)];
        if (peak_bytes > choosing.capacity) low = choosing.capacity;
        if (peak_bytes < high) high = peak_bytes;
    }
    int rows[ROWS_MOST];
    choosing = start(arena, space, low, taken);
    int row_count = space->count <= COLUMNS_MOST ? find_rows(&choosing, rows) : -1;
    if (row_count < 0) return high;
    const struct milp_options asked = {.node_cap = NODES_MOST};
    struct milp_result result =
        milp_solve(state_program(&choosing, rows, row_count, 1, true), &asked);
    if (!result.values) return high;
    bool *wanted = ARENA_NEW(arena, bool, space->count);
    round_values(&choosing, result.values, wanted);
    take_all(&choosing, wanted);
    int64_t peak_bytes = choosing.level[highest(&choosing)];
    return peak_bytes < high ? peak_bytes : high;
}
