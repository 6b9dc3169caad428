#include "memory/order/order.h"

#include "core/progress.h"
#include "memory/order/order_certify.h"
#include "memory/order/order_cut.h"
#include "memory/order/order_relax.h"
#include "memory/order/order_walk.h"

#include <assert.h>
#include <string.h>

enum {
    PASSES_MAX = 48,         // halvings of an interval of 2^48 bytes
    SLACK_LEAST = 16,        // operators; branches that part and meet again are shorter
    SEEN_PART = 100000,      // of the peak: a smaller gap is not worth the search of a large graph
    WHOLE_SCANS = 20000000,  // arcs of the network of the whole graph: tenths of a second
    WHOLE_MAX = 512,         // operators of a segment that is searched with its side branches in it
};

struct solving {
    struct arena *arena, *scratch;
    const struct memory_problem *problem;
    struct order_limits limits;
    struct order_result result;
    int *birth, *death;
};

static bool is_late(const struct solving *solving)
{
    return solving->limits.deadline_s > 0 && clock_s() > solving->limits.deadline_s;
}

static bool is_open(const struct solving *solving)
{
    return solving->result.bound_bytes < solving->result.peak_bytes && !is_late(solving);
}

static void keep_better(struct solving *solving, const int *order)
{
    struct order_result *result = &solving->result;
    int64_t peak_bytes =
        memory_lifetimes(solving->scratch, solving->problem, order, solving->birth, solving->death);
    if (result->order && peak_bytes >= result->peak_bytes) return;
    int count = solving->problem->operator_count;
    if (!result->order) result->order = ARENA_NEW(solving->arena, int, count);
    memcpy(result->order, order, (size_t)count * sizeof *order);
    result->peak_bytes = peak_bytes;
}

static void raise_bound(struct solving *solving, int64_t bound_bytes)
{
    if (bound_bytes > solving->result.bound_bytes) solving->result.bound_bytes = bound_bytes;
}

// The orders of the segments one after another.
static void join_parts(struct solving *solving, const struct order_division *division,
                       const struct order_parts *parts)
{
    int *order = ARENA_NEW(solving->scratch, int, solving->problem->operator_count), at = 0;
    for (int k = 0; k < division->segment_count; k++) {
        const struct order_part *part = &parts->parts[parts->of_segment[k]];
        int first = division->first_unit[k];
        for (int i = 0; i < part->local->unit_count; i++) {
            const int *from = &division->first_operator[first + part->units[i]];
            for (int o = from[0]; o < from[1]; o++)
                order[at++] = division->operators[o];
        }
    }
    assert(at == solving->problem->operator_count);  // each operator is in one unit, each unit in
                                                     // one segment
    keep_better(solving, order);
}

static void raise_by_parts(struct solving *solving, const struct order_division *division,
                           const struct order_parts *parts)
{
    for (int k = 0; k < division->segment_count; k++) {
        const struct order_part *part = &parts->parts[parts->of_segment[k]];
        raise_bound(solving, division->relaxed_base_bytes[k]);
        // Side branches may wait for a later segment, where there is one.
        bool has_sides = part->local->unit_count > division->core_count[k];
        if (has_sides && division->segment_count > 1) continue;
        raise_bound(solving, division->relaxed_base_bytes[k] + part->bound_bytes);
    }
}

static struct order_walk_result pass(struct solving *solving, struct order_walk_request *request,
                                     int64_t limit_bytes)
{
    request->limit_bytes = limit_bytes;
    struct order_walk_result walk = order_walk(solving->arena, solving->scratch, request);
    solving->result.state_count += walk.state_count;
    return walk;
}

// The highest limit that can be refused: first the bound as it stands, then half way to what is
// known to pass.
static void refine_bound(struct solving *solving, struct order_walk_request *request)
{
    struct order_result *result = &solving->result;
    int64_t pass_bytes = result->peak_bytes, limit_bytes = result->bound_bytes;
    request->relaxed = true;
    for (int i = 0; i < PASSES_MAX && result->bound_bytes < pass_bytes; i++) {
        if (is_late(solving)) return;
        struct order_walk_result walk = pass(solving, request, limit_bytes);
        if (walk.passed) {
            pass_bytes = limit_bytes;
        } else {
            raise_bound(solving, walk.next_bytes < pass_bytes ? walk.next_bytes : pass_bytes);
        }
        // What passed is no order of the graph, so it lowers the search and never the peak.
        limit_bytes = result->bound_bytes + (pass_bytes - 1 - result->bound_bytes) / 2;
    }
}

static void refine_order(struct solving *solving, struct order_walk_request *request)
{
    struct order_result *result = &solving->result;
    int64_t low_bytes = result->bound_bytes, limit_bytes = low_bytes;
    request->relaxed = false;
    for (int i = 0; i < PASSES_MAX && low_bytes < result->peak_bytes; i++) {
        if (is_late(solving)) return;
        struct arena_mark mark = arena_mark(solving->arena);
        struct order_walk_result walk = pass(solving, request, limit_bytes);
        if (walk.passed) keep_better(solving, walk.order);
        arena_reset(solving->arena, mark);
        // The refusal proves nothing here: it ends the search for an order below, and is no bound.
        if (!walk.passed) low_bytes = walk.next_bytes;
        if (walk.passed && limit_bytes == low_bytes) return;
        limit_bytes = low_bytes + (result->peak_bytes - 1 - low_bytes) / 2;
    }
}

static void count_parts(struct solving *solving, const struct order_division *division,
                        const struct order_parts *parts)
{
    struct order_result *result = &solving->result;
    result->segment_count = division->segment_count;
    result->distinct_count = parts->count;
    result->largest_segment = parts->largest;
    for (int i = 0; i < parts->count; i++) {
        result->capped_count += parts->parts[i].capped;
        result->state_count += parts->parts[i].state_count;
    }
}

static bool has_sides(const struct order_division *division)
{
    for (int k = 0; k < division->segment_count; k++) {
        int units = division->first_unit[k + 1] - division->first_unit[k];
        if (units > division->core_count[k]) return true;
    }
    return false;
}

// Bounds of the problem of `division`, which may be relaxed, are bounds of this one.
static void bound_divided(struct solving *solving, const struct order_options *options,
                          const struct order_division *division, const struct order_parts *parts)
{
    count_parts(solving, division, parts);
    raise_by_parts(solving, division, parts);
    struct order_walk_request request = {division, parts, &solving->limits, 0, true};
    if (has_sides(division) && division->segment_count > 1) refine_bound(solving, &request);
    struct order_certificate certificate =
        order_certify(solving->scratch, division, parts, options);
    solving->result.certified_count = certificate.certified_count;
    solving->result.disputed_count = certificate.disputed_count;
}

static void order_divided(struct solving *solving, const struct order_division *division,
                          const struct order_parts *parts)
{
    join_parts(solving, division, parts);
    struct order_walk_request request = {division, parts, &solving->limits, 0, false};
    if (has_sides(division) && division->segment_count > 1) refine_order(solving, &request);
}

static struct order_parts solve_parts(struct solving *solving,
                                      const struct order_division *division)
{
    return order_parts_solve(solving->scratch, solving->arena, division, &solving->limits);
}

// Whether anything was treated apart that belongs together.
static bool solve_divided(struct solving *solving, const struct order_options *options)
{
    struct arena *arena = solving->scratch, *scratch = solving->arena;
    const struct memory_problem *problem = solving->problem;
    bool no_segments = options->no_segments, no_sides = options->no_update_branches;
    struct order_division *division =
        order_divide(arena, scratch, problem, NULL, no_segments, no_sides);
    struct order_relaxed relaxed = {0};
    int slack_least = options->slack_least ? options->slack_least : SLACK_LEAST;
    if (!no_segments) relaxed = order_relax(arena, scratch, division, slack_least);
    if (relaxed.count == 0) {
        struct order_parts parts = solve_parts(solving, division);
        join_parts(solving, division, &parts);
        bound_divided(solving, options, division, &parts);
        order_divided(solving, division, &parts);
        return has_sides(division) && division->segment_count > 1;
    }
    struct order_division *low =
        order_divide(arena, scratch, relaxed.problem, NULL, false, no_sides);
    struct order_parts low_parts = solve_parts(solving, low);
    struct order_division *high =
        order_divide(arena, scratch, problem, relaxed.anchor, false, no_sides);
    struct order_parts high_parts = solve_parts(solving, high);
    join_parts(solving, high, &high_parts);
    bound_divided(solving, options, low, &low_parts);
    order_divided(solving, high, &high_parts);
    return true;
}

// What the passes left open: the graph with its side branches as part of it, where that is small.
static void solve_whole(struct solving *solving, const struct order_options *options)
{
    struct order_division *division = order_divide(
        solving->scratch, solving->arena, solving->problem, NULL, options->no_segments, true);
    for (int k = 0; k < division->segment_count; k++) {
        if (division->first_unit[k + 1] - division->first_unit[k] > WHOLE_MAX) return;
    }
    struct order_parts parts = solve_parts(solving, division);
    for (int i = 0; i < parts.count; i++)
        solving->result.state_count += parts.parts[i].state_count;
    join_parts(solving, division, &parts);
    raise_by_parts(solving, division, &parts);
}

// The graph as one part, by cuts: what is known of segments does not see what waits from one to
// another.
static void bound_whole(struct solving *solving)
{
    struct arena *arena = solving->scratch;
    const struct memory_problem *problem = solving->problem;
    struct order_division *division =
        order_divide(arena, solving->arena, problem, NULL, true, true);
    int count = division->unit_count, listed = 0;
    int *units = ARENA_NEW(arena, int, count), *all = ARENA_NEW(arena, int, count);
    for (int step = 0; step < problem->operator_count; step++) {
        int op = solving->result.order[step], unit = division->unit[op];
        bool is_last = op == division->operators[division->first_operator[unit + 1] - 1];
        // A unit stands where its last operator runs: all that it needs has run by then.
        if (is_last) units[listed++] = unit;
    }
    for (int unit = 0; unit < count; unit++)
        all[unit] = unit;
    int64_t *bytes = ARENA_NEW(arena, int64_t, problem->buffer_count);
    for (int b = 0; b < problem->buffer_count; b++)
        bytes[b] = problem->buffers[b].bytes;
    struct order_builder builder = order_builder_make(arena, division, bytes);
    const struct order_local *local =
        order_local_make(arena, &builder, 0, all, count, count, division->base_bytes[0]);
    int64_t scans = WHOLE_SCANS;
    raise_bound(solving, order_cut_bound(arena, local, units, solving->result.bound_bytes, &scans));
}

struct order_result order_solve(struct arena *arena, struct arena *scratch,
                                const struct memory_problem *problem,
                                const struct order_options *options)
{
    struct solving solving = {.arena = arena, .scratch = scratch, .problem = problem};
    struct order_result *result = &solving.result;
    solving.limits =
        (struct order_limits){options->state_cap, options->deadline_s, options->no_forced_moves};
    result->order = ARENA_NEW(arena, int, problem->operator_count);
    if (problem->operator_count == 0) return *result;
    result->order = NULL;
    struct arena_mark mark = arena_mark(scratch);
    solving.birth = ARENA_NEW(scratch, int, problem->buffer_count);
    solving.death = ARENA_NEW(scratch, int, problem->buffer_count);
    keep_better(&solving, order_program(scratch, problem));
    result->bound_bytes = order_simple_bound(problem);
    keep_better(&solving, order_greedy(scratch, arena, problem));
    bool is_divided = !is_late(&solving) && solve_divided(&solving, options);
    if (is_divided && is_open(&solving)) bound_whole(&solving);
    bool is_seen = result->peak_bytes - result->bound_bytes > result->peak_bytes / SEEN_PART;
    if (is_divided && is_seen && is_open(&solving)) solve_whole(&solving, options);
    assert(result->bound_bytes <= result->peak_bytes);
    arena_reset(scratch, mark);
    return *result;
}
