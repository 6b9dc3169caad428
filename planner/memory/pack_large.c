#include "core/progress.h"
#include "planner/memory/pack_order.h"

#include <stdint.h>
#include <string.h>

// Repair passes over all rules: chains of so many steps at most. Most packings of training graphs
// come under the bound within a dozen steps from one rule or the other; long chains are for what
// is left.
static const int64_t STEP_CAPS[] = {300, 3000, 30000};
enum { PASS_COUNT = sizeof STEP_CAPS / sizeof *STEP_CAPS };
// A step looks at every placed buffer, so steps times buffers measure the work: 1.5e9 took 5 to 15
// seconds on a core of 2024.
static const double WORK_MOST = 1.5e9;
// Bisection ends when the target is this close to the height, as a part of it.
static const int64_t RESOLUTION = 50000;

struct attempt {
    int64_t *offsets;
    int64_t height, refuted;  // refuted: a target that was not reached
};

struct large {
    struct arena *scratch;
    const struct pack_problem *problem;
    const struct pack_sections *sections;
    double deadline_s;
    int64_t goal;  // no lower packing is of use
    int64_t best, step_count;
    int64_t *offsets;  // of the best
    int repair_count;
};

static bool is_over(const struct large *large)
{
    bool late = large->deadline_s > 0 && clock_s() > large->deadline_s;
    double work = (double)large->step_count * large->problem->count;
    return large->best <= large->goal || late || work > WORK_MOST;
}

static void take(struct large *large, const struct attempt *attempt)
{
    if (attempt->height >= large->best) return;
    large->best = attempt->height;
    memcpy(large->offsets, attempt->offsets,
           (size_t)large->problem->count * sizeof *large->offsets);
}

static int64_t height_of(const struct large *large, const int64_t *offsets)
{
    int64_t height = 0;
    for (int b = 0; b < large->problem->count; b++) {
        if (large->sections->first[b] >= large->sections->end[b]) continue;
        int64_t top = offsets[b] + large->problem->buffers[b].size;
        if (height < top) height = top;
    }
    return height;
}

// The goal at once, then halves between what failed and what stands, of use only below the best.
static void improve(struct large *large, struct attempt *attempt, int64_t step_cap)
{
    attempt->refuted = large->goal - 1;
    int64_t target = large->goal;
    while (attempt->height > large->goal && !is_over(large)) {
        large->repair_count++;
        bool reached =
            pack_repair(large->scratch, large->problem, large->sections, target, step_cap,
                        large->deadline_s, attempt->offsets, &large->step_count);
        if (reached) {
            attempt->height = height_of(large, attempt->offsets);
            take(large, attempt);
        } else {
            attempt->refuted = target;
        }
        int64_t ceiling = attempt->height < large->best ? attempt->height : large->best;
        if (ceiling - attempt->refuted <= 1 + ceiling / RESOLUTION) return;
        target = attempt->refuted + (ceiling - attempt->refuted) / 2;
    }
}

// Rules first: every one of them until one is at the goal, each brought down by a short chain.
static void first_pass(struct large *large, struct attempt *attempts)
{
    for (int rule = 0; rule < PACK_RULE_COUNT; rule++) {
        struct attempt *attempt = &attempts[rule];
        attempt->height = INT64_MAX;
        if (rule > 0 && is_over(large)) continue;
        attempt->offsets = ARENA_NEW(large->scratch, int64_t, large->problem->count);
        attempt->height = pack_by_rule(large->scratch, large->problem, large->sections, rule,
                                       INT64_MAX, attempt->offsets);
        take(large, attempt);
        improve(large, attempt, STEP_CAPS[0]);
    }
}

int64_t pack_large(struct arena *scratch, const struct pack_problem *problem,
                   const struct pack_options *options, int64_t *offsets, struct pack_result *counts)
{
    struct arena_mark mark = arena_mark(scratch);
    memset(offsets, 0, (size_t)problem->count * sizeof *offsets);
    struct large large = {.scratch = scratch,
                          .problem = problem,
                          .sections = pack_sections_make(scratch, problem),
                          .deadline_s = options->deadline_s,
                          .best = INT64_MAX,
                          .offsets = offsets};
    large.goal = large.sections->load_most;
    if (large.goal < problem->capacity) large.goal = problem->capacity;
    struct attempt attempts[PACK_RULE_COUNT] = {0};
    first_pass(&large, attempts);
    for (int pass = 1; pass < PASS_COUNT && !is_over(&large); pass++) {
        for (int rule = 0; rule < PACK_RULE_COUNT && !is_over(&large); rule++) {
            if (attempts[rule].offsets) improve(&large, &attempts[rule], STEP_CAPS[pass]);
        }
    }
    counts->mode = large.repair_count ? PACK_REPAIR : PACK_GREEDY;
    counts->node_count += large.step_count;
    counts->restart_count += large.repair_count;
    arena_reset(scratch, mark);
    return large.best;
}
