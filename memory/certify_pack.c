#include "core/divisor.h"
#include "memory/certify.h"
#include "memory/certify_bytes.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// An offset a buffer, and for each pair that lives at once a binary that says which of the two lies
// below; the other's row is switched off by a large number, the height of a packing made first.

// Heights run to this, so that a binary of 1e-5 that counts as 0 hides little; offsets are then
// laid again exactly, as the binaries say.
static const double SCALE = 100;

struct pack_layout {
    const struct pack_problem *problem;
    struct milp *milp;
    double unit;
    int64_t large;    // height that is enough
    int64_t granule;  // divides every height
    int *offset;      // column
    int *pair;        // [i * count + j], i < j: column, 1 where i lies below j; -1: never at once
};

static bool is_alive(const struct pack_buffer *buffer)
{
    return buffer->lower < buffer->upper;
}

// Both are half-open: what ends where the other begins may lie in the same place.
static bool at_once(const struct pack_buffer *a, const struct pack_buffer *b)
{
    return is_alive(a) && is_alive(b) && a->lower < b->upper && b->lower < a->upper;
}

// Offsets are sums of sizes, rounded up to alignments, on top of fixed ones.
static int64_t granule_of(const struct pack_problem *problem)
{
    int64_t granule = 0;
    for (int i = 0; i < problem->count; i++) {
        const struct pack_buffer *buffer = &problem->buffers[i];
        if (!is_alive(buffer)) continue;
        granule = common_divisor(buffer->size, granule);
        if (buffer->alignment > 1) granule = common_divisor(buffer->alignment, granule);
        if (buffer->fixed_offset > 0) granule = common_divisor(buffer->fixed_offset, granule);
    }
    assert(granule >= 0);
    return granule > 0 ? granule : 1;
}

// Every buffer above every other, which fits whatever the alignments and fixed offsets are.
// A height that is surely enough, so that no row is switched off by too small a number.
static int64_t stacked(const struct pack_problem *problem)
{
    int64_t top = 0;
    for (int i = 0; i < problem->count; i++) {
        const struct pack_buffer *buffer = &problem->buffers[i];
        int64_t end = buffer->fixed_offset + buffer->size;
        if (is_alive(buffer) && buffer->fixed_offset >= 0 && end > top) top = end;
    }
    for (int i = 0; i < problem->count; i++) {
        const struct pack_buffer *buffer = &problem->buffers[i];
        if (is_alive(buffer) && buffer->fixed_offset < 0)
            top = round_up(top, buffer->alignment) + buffer->size;
    }
    return top;
}

// No packing is lower than what is alive at once, which is most where some buffer begins.
static int64_t alive_most(const struct pack_problem *problem)
{
    int64_t most = 0;
    for (int i = 0; i < problem->count; i++) {
        int64_t alive = 0, at = problem->buffers[i].lower;
        for (int j = 0; j < problem->count; j++) {
            const struct pack_buffer *buffer = &problem->buffers[j];
            if (buffer->lower <= at && at < buffer->upper) alive += buffer->size;
        }
        if (alive > most) most = alive;
    }
    return most;
}

// Offsets of buffers with an alignment count in alignments.
static double step_of(const struct pack_layout *layout, int i)
{
    const struct pack_buffer *buffer = &layout->problem->buffers[i];
    return buffer->alignment > 1 ? (double)buffer->alignment / layout->unit : 1;
}

static void add_offset(struct pack_layout *layout, int i, int height)
{
    const struct pack_buffer *buffer = &layout->problem->buffers[i];
    double step = step_of(layout, i), low = 0;
    double high = (double)(layout->large - buffer->size) / layout->unit / step;
    if (buffer->fixed_offset >= 0) low = high = (double)buffer->fixed_offset / layout->unit / step;
    if (!is_alive(buffer)) low = high = 0;
    bool is_counted = buffer->alignment > 1 && buffer->fixed_offset < 0;
    layout->offset[i] =
        milp_column(layout->milp, is_counted ? MILP_INTEGER : MILP_CONTINUOUS, low, high, 0);
    if (!is_alive(buffer)) return;
    int row = milp_row(layout->milp, (double)buffer->size / layout->unit, INFINITY);
    milp_put(layout->milp, row, height, 1);
    milp_put(layout->milp, row, layout->offset[i], -step);
}

// offset of above - offset of below >= size of below, unless the pair says otherwise.
static void add_above(struct pack_layout *layout, int below, int above, int pair, bool when)
{
    assert(below != above && layout->offset[below] >= 0 && layout->offset[above] >= 0);
    double large = (double)layout->large / layout->unit;
    double size = (double)layout->problem->buffers[below].size / layout->unit;
    int row = milp_row(layout->milp, when ? size - large : size, INFINITY);
    milp_put(layout->milp, row, layout->offset[above], step_of(layout, above));
    milp_put(layout->milp, row, layout->offset[below], -step_of(layout, below));
    milp_put(layout->milp, row, pair, when ? -large : large);
}

static void add_pairs(struct pack_layout *layout)
{
    const struct pack_problem *problem = layout->problem;
    for (int i = 0; i < problem->count; i++) {
        for (int j = i + 1; j < problem->count; j++) {
            int at = i * problem->count + j;
            layout->pair[at] = -1;
            if (!at_once(&problem->buffers[i], &problem->buffers[j])) continue;
            layout->pair[at] = milp_column(layout->milp, MILP_BINARY, 0, 1, 0);
            add_above(layout, i, j, layout->pair[at], true);
            add_above(layout, j, i, layout->pair[at], false);
        }
    }
}

static bool is_below(const struct pack_layout *layout, const double *values, int i, int j)
{
    int pair =
        layout->pair[i < j ? i * layout->problem->count + j : j * layout->problem->count + i];
    return pair >= 0 && (values[pair] > 0.5) == (i < j);
}

// The lowest offsets that keep every pair as it is; a chain of pairs is as long as there are
// buffers at most. Returns the height.
static int64_t lay(const struct pack_layout *layout, const double *values, int64_t *offsets)
{
    assert(layout->problem->count >= 0);
    const struct pack_problem *problem = layout->problem;
    int64_t height = 0;
    for (int i = 0; i < problem->count; i++)
        offsets[i] = problem->buffers[i].fixed_offset > 0 ? problem->buffers[i].fixed_offset : 0;
    for (int round = 0; round < problem->count; round++) {
        for (int i = 0; i < problem->count; i++) {
            const struct pack_buffer *above = &problem->buffers[i];
            for (int j = 0; above->fixed_offset < 0 && j < problem->count; j++) {
                if (j == i || !is_below(layout, values, j, i)) continue;
                int64_t end = round_up(offsets[j] + problem->buffers[j].size, above->alignment);
                if (end > offsets[i]) offsets[i] = end;
            }
        }
    }
    for (int i = 0; i < problem->count; i++) {
        int64_t end = offsets[i] + problem->buffers[i].size;
        if (is_alive(&problem->buffers[i]) && end > height) height = end;
    }
    return height;
}

static bool is_packed(const struct pack_problem *problem, const int64_t *offsets)
{
    for (int i = 0; i < problem->count; i++) {
        for (int j = 0; j < i; j++) {
            const struct pack_buffer *a = &problem->buffers[i], *b = &problem->buffers[j];
            if (!at_once(a, b)) continue;
            if (offsets[i] < offsets[j] + b->size && offsets[j] < offsets[i] + a->size)
                return false;
        }
    }
    return true;
}

// Counted in units, so that all numbers of the program are of like size.
static struct pack_layout layout_make(struct arena *arena, const struct pack_problem *problem)
{
    struct pack_layout layout = {.problem = problem, .milp = milp_new(arena, "layout")};
    size_t count = (size_t)problem->count;
    layout.offset = ARENA_NEW(arena, int, count);
    layout.pair = ARENA_NEW(arena, int, count *count);
    layout.granule = granule_of(problem);
    layout.large = stacked(problem);
    assert(layout.large >= 0 && layout.granule > 0);
    assert(layout.granule > 0 && layout.large >= 0);
    layout.unit = fmax(1, (double)layout.large) / SCALE;
    int64_t most = layout.large;
    if (problem->capacity > 0 && problem->capacity < most) most = problem->capacity;
    most = most / layout.granule * layout.granule;
    // Above any height by less than a granule, or GLPK's tolerances, whichever is more.
    double slack = fmax(0.5 * (double)layout.granule, 1e-6 * (double)most);
    int height =
        milp_column(layout.milp, MILP_CONTINUOUS, (double)alive_most(problem) / layout.unit,
                    ((double)most + slack) / layout.unit, 1);
    for (int i = 0; i < problem->count; i++)
        add_offset(&layout, i, height);
    add_pairs(&layout);
    return layout;
}

struct milp_result certify_pack(struct arena *arena, const struct pack_problem *problem,
                                const struct milp_options *options, int64_t *offsets)
{
    int64_t least = alive_most(problem);
    if (problem->capacity > 0 && least > problem->capacity)
        return (struct milp_result){MILP_INFEASIBLE, INFINITY, INFINITY, NULL, ""};
    struct pack_layout layout = layout_make(arena, problem);
    struct milp_options own = *options;
    own.start = NULL;
    own.has_cutoff = false;
    struct milp_result result = milp_solve(layout.milp, &own);
    if (result.status == MILP_UNKNOWN) result.bound = (double)least;
    if (!result.values) return result;
    double granule = (double)layout.granule, proven = result.bound * layout.unit * (1 - 1e-6);
    result.bound = fmax((double)least, ceil(proven / granule) * granule);
    assert(result.bound >= (double)least);
    result.objective = (double)lay(&layout, result.values, offsets);
    if (!is_packed(problem, offsets)) {
        // Pairs that close a circle: rows switched off by a binary that was not quite 0 or 1.
        result = (struct milp_result){MILP_FAILED, INFINITY, (double)least, NULL,
                                      "layout: pairs of buffers contradict each other"};
    } else if (result.status == MILP_OPTIMAL && result.objective > result.bound) {
        result.status = MILP_FEASIBLE;
    }
    return result;
}
