#include "memory/placement/placement.h"

#include "memory/placement/placement_parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { NODE_CAP = 50, COLUMN_MOST = 3000, EXACT_MOST = 400 };

// Below this two placements take equally long.
static const double SAME_TIME_RATIO = 1e-3;
// Within what GLPK's tolerances leave.
static const double SAME_BYTES_RATIO = 1e-6;

const char *placed_kind_name(enum placed_kind kind)
{
    static const char *const NAMES[] = {"parameters", "gradients", "optimizer", "activations"};
    assert((size_t)kind < sizeof NAMES / sizeof *NAMES);
    return NAMES[kind];
}

const char *placement_policy_name(enum placement_policy policy)
{
    static const char *const NAMES[] = {"static", "least recently used", "planned"};
    assert((size_t)policy < sizeof NAMES / sizeof *NAMES);
    return NAMES[policy];
}

int64_t placed_moment_bytes(const struct placement_problem *problem, int moment)
{
    const struct placed_moment *at = &problem->moments[moment];
    int64_t bytes = at->work_bytes;
    for (int i = 0; i < at->access_count && !at->on_host; i++)
        bytes += problem->chunks[at->accesses[i].chunk].bytes;
    return bytes;
}

int64_t placement_least_bytes(const struct placement_problem *problem)
{
    int64_t least = 0;
    for (int t = 0; t < problem->moment_count; t++) {
        int64_t bytes = placed_moment_bytes(problem, t);
        if (bytes > least) least = bytes;
    }
    return least;
}

// The accesses of one chunk in order.
struct uses {
    int *moments;
    const struct placed_access **accesses;
    int count;
};

static struct uses *uses_of(struct arena *arena, const struct placement_problem *problem)
{
    struct uses *uses = ARENA_NEW(arena, struct uses, problem->chunk_count);
    for (int pass = 0; pass < 2; pass++) {
        for (int t = 0; t < problem->moment_count; t++) {
            const struct placed_moment *moment = &problem->moments[t];
            for (int i = 0; i < moment->access_count; i++) {
                struct uses *of = &uses[moment->accesses[i].chunk];
                assert(of->count == 0 || pass == 0 || of->moments[of->count - 1] < t);
                if (pass == 1) of->moments[of->count] = t;
                if (pass == 1) of->accesses[of->count] = &moment->accesses[i];
                of->count++;
            }
        }
        for (int c = 0; c < problem->chunk_count && pass == 0; c++) {
            uses[c].moments = ARENA_NEW(arena, int, uses[c].count);
            uses[c].accesses = ARENA_NEW(arena, const struct placed_access *, uses[c].count);
            uses[c].count = 0;
        }
    }
    return uses;
}

// Which of the writings of its chunk use `from` follows or is; -1: one of the host, or none.
static int writing_of(const struct placement_problem *problem, const struct uses *uses, int from,
                      const int *numbers)
{
    for (int back = 0; back < uses->count; back++) {
        int at = (from - back + uses->count) % uses->count;
        if (!uses->accesses[at]->writes) continue;
        return problem->moments[uses->moments[at]].on_host ? -1 : numbers[at];
    }
    return -1;
}

static void add_intervals(struct arena *arena, const struct placement_problem *problem,
                          const struct uses *uses, int chunk, struct placed_interval *items,
                          struct placed_intervals *intervals)
{
    int *numbers = ARENA_NEW(arena, int, uses->count);
    for (int i = 0; i < uses->count; i++) {
        bool on_host = problem->moments[uses->moments[i]].on_host;
        numbers[i] = uses->accesses[i]->writes && !on_host ? intervals->write_count++ : -1;
    }
    for (int i = 0; i < uses->count; i++) {
        int next = (i + 1) % uses->count;
        if (!uses->accesses[next]->reads) continue;
        int start = uses->moments[i], end = uses->moments[next];
        bool from_host = problem->moments[start].on_host;
        bool to_host = problem->moments[end].on_host;
        items[intervals->count++] = (struct placed_interval){
            .chunk = chunk,
            .start = start,
            .end = end > start ? end : end + problem->moment_count,
            .may_keep = !from_host && !to_host,
            .is_written = uses->accesses[i]->writes && !from_host,
            .is_fetched = !to_host,
            .write = writing_of(problem, uses, i, numbers),
        };
    }
}

static struct placed_intervals placed_intervals_make(struct arena *arena,
                                                     const struct placement_problem *problem)
{
    struct uses *uses = uses_of(arena, problem);
    int most = 0;
    for (int c = 0; c < problem->chunk_count; c++)
        most += uses[c].count;
    struct placed_interval *items = ARENA_NEW(arena, struct placed_interval, most);
    struct placed_intervals intervals = {.items = items};
    for (int c = 0; c < problem->chunk_count; c++)
        add_intervals(arena, problem, &uses[c], c, items, &intervals);
    return intervals;
}

static bool is_better(const struct placed_result *a, const struct placed_result *b)
{
    double difference_s = a->step_s - b->step_s;
    if (fabs(difference_s) > SAME_TIME_RATIO * b->step_s) return difference_s < 0;
    return a->up_bytes + a->down_bytes < b->up_bytes + b->down_bytes;
}

static void weigh_policy(struct arena *arena, const struct placed_search *placing,
                         enum placement_policy policy, struct placement_solution *solution)
{
    bool *keep = ARENA_NEW(arena, bool, placing->intervals.count + 1);
    if (policy == PLACEMENT_STATIC) placed_static(arena, placing, keep);
    if (policy == PLACEMENT_LRU) placed_on_demand(arena, placing, PLACED_RULE_OLDEST, keep);
    struct placed_result *placement = &solution->policies[policy];
    *placement = (struct placed_result){.keep = keep};
    placement_weigh(arena, placing->problem, &placing->intervals, policy == PLACEMENT_LRU,
                    placement);
}

static int64_t moved_bytes(struct arena *arena, const struct placed_search *placing,
                           const bool *keep)
{
    struct placed_moved moved = placed_moved(arena, placing, keep);
    return moved.up_bytes + moved.down_bytes;
}

static void take_better(struct arena *arena, const struct placed_search *placing, const bool *found,
                        bool *keep)
{
    size_t bytes = (size_t)placing->intervals.count * sizeof *keep;
    if (moved_bytes(arena, placing, found) < moved_bytes(arena, placing, keep))
        memcpy(keep, found, bytes);
}

struct proof {
    double bound_bytes;
    bool is_optimal;
};

// Planned with this distance. False where that leaves no room at all.
static bool plan(struct arena *arena, const struct placed_search *placing, bool *keep,
                 struct proof *proof)
{
    int count = placing->intervals.count;
    int64_t *room = ARENA_NEW(arena, int64_t, placing->problem->moment_count);
    if (!placed_room(placing, room)) return false;
    bool *found = ARENA_NEW(arena, bool, count + 1);
    placed_by_saving(arena, placing, NULL, keep);
    for (enum placed_rule rule = PLACED_RULE_FARTHEST; rule <= PLACED_RULE_CHEAPEST; rule++) {
        placed_on_demand(arena, placing, rule, found);
        take_better(arena, placing, found, keep);
    }
    struct placed_relaxed relaxed = placed_relax(arena, placing);
    *proof = (struct proof){.bound_bytes = relaxed.bound_bytes};
    if (relaxed.shares) {
        placed_by_saving(arena, placing, relaxed.shares, found);
        take_better(arena, placing, found, keep);
    }
    double best = (double)moved_bytes(arena, placing, keep);
    proof->is_optimal = best <= relaxed.bound_bytes * (1 + SAME_BYTES_RATIO);
    if (proof->is_optimal || !relaxed.shares) return true;
    memcpy(found, keep, (size_t)count * sizeof *keep);
    proof->is_optimal = placed_exact(arena, placing, found);
    take_better(arena, placing, found, keep);
    return true;
}

bool placement_solve(struct arena *arena, const struct placement_problem *problem,
                     const struct placement_options *options, struct placement_solution *solution)
{
    *solution = (struct placement_solution){0};
    if (placement_least_bytes(problem) > problem->device_bytes) return false;
    struct placed_search placing = {
        .problem = problem,
        .intervals = placed_intervals_make(arena, problem),
        .node_cap = options->node_cap ? options->node_cap : NODE_CAP,
        .column_most = options->column_most ? options->column_most : COLUMN_MOST,
        .exact_most = options->exact_most ? options->exact_most : EXACT_MOST,
    };
    for (int p = 0; p < PLACEMENT_PLANNED && !options->planned_alone; p++)
        weigh_policy(arena, &placing, (enum placement_policy)p, solution);
    struct placed_result *planned = &solution->policies[PLACEMENT_PLANNED], near = {0};
    bool near_is_optimal = false;
    for (int ahead = 0; ahead <= options->ahead_most; ahead++) {
        placing.ahead = ahead;
        bool *keep = ARENA_NEW(arena, bool, placing.intervals.count + 1);
        struct proof proof = {0};
        if (!plan(arena, &placing, keep, &proof)) break;
        struct placed_result found = {.keep = keep, .ahead = ahead};
        placement_weigh(arena, problem, &placing.intervals, false, &found);
        if (ahead == 0) solution->bound_bytes = proof.bound_bytes;
        if (ahead == 0) near = found, near_is_optimal = proof.is_optimal;
        if (ahead == 0 || is_better(&found, planned)) *planned = found;
    }
    const struct placed_result *fixed = &solution->policies[PLACEMENT_STATIC];
    if (fixed->keep && options->ahead_most > 0 && is_better(fixed, planned)) *planned = *fixed;
    double moved = (double)(planned->up_bytes + planned->down_bytes);
    solution->is_optimal = near_is_optimal && planned->up_bytes + planned->down_bytes ==
                                                  near.up_bytes + near.down_bytes;
    double rate = problem->up_bytes_per_s + problem->down_bytes_per_s;
    solution->bound_s = fmax(planned->compute_s, solution->bound_bytes / rate);
    assert(solution->bound_bytes <= moved * (1 + 1e-6));
    return true;
}
