#include "core/progress.h"
#include "memory/pack/pack_order.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

// Passes over the packings of all rules, the lowest first: chains of so many moves at most. Those
// of training graphs mostly come under the bound within some dozen moves from one rule or the
// other, so the first pass asks for no more; long chains are for what is left.
static const int64_t MOVE_CAPS[] = {200, 2000, 20000, 200000};
enum { PASS_COUNT = sizeof MOVE_CAPS / sizeof *MOVE_CAPS };
// A move costs time in proportion to the buffers there are, so their product measures the work:
// 1e9 took 6 to 15 seconds (problems of 1,000 to 35,000 buffers, a shared core). A rule takes as
// long as some 150 moves.
static const double WORK_MOST = 1e9;
enum { RULE_MOVES = 150 };
// Bisection ends when the target is this close to the height, as a part of it.
static const int64_t RESOLUTION = 50000;

enum { FAILURES_MOST = 3 };  // of one packing in one pass

struct attempt {
    int64_t *offsets;
    int64_t height, refuted;  // refuted: a target that was not reached
};

struct large {
    struct arena *scratch;
    const struct pack_problem *problem;
    const struct pack_sections *sections;
    double deadline_s;
    double patience, better_work;  // when the best was found
    int64_t goal;                  // no lower packing is of use
    int64_t best, move_count;
    int64_t *offsets;  // of the best
    int rule_count, repair_count;
};

static double work_of(const struct large *large)
{
    int64_t moves = large->move_count + (int64_t)RULE_MOVES * large->rule_count;
    return (double)moves * large->problem->count;
}

// By work before the clock, so that equal questions get equal answers.
static bool is_over(const struct large *large)
{
    bool late = large->deadline_s > 0 && clock_s() > large->deadline_s;
    double stale_work = work_of(large) - large->better_work;
    bool is_done = (double)large->move_count * large->problem->count > WORK_MOST ||
                   (large->patience > 0 && stale_work > large->patience);
    return large->best <= large->goal || late || is_done;
}

// Copied: the attempt goes on from its own packing.
static void take(struct large *large, const struct attempt *attempt)
{
    assert(attempt->height >= 0);
    if (attempt->height >= large->best) return;
    large->best = attempt->height;
    large->better_work = work_of(large);
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

// Between what failed and what stands, of use only below the best; where little is left, or a short
// chain is all that is allowed, the goal itself.
static int64_t next_target(const struct large *large, const struct attempt *attempt, int pass)
{
    int64_t ceiling = attempt->height < large->best ? attempt->height : large->best;
    int64_t floor = attempt->refuted > large->goal ? attempt->refuted : large->goal;
    int64_t least = 1 + ceiling / RESOLUTION;
    if (pass == 0 || (ceiling - floor < 2 * least && attempt->refuted < large->goal)) {
        return large->goal;
    }
    return ceiling - floor < least ? -1 : floor + (ceiling - floor) / 2;
}

static void improve(struct large *large, struct attempt *attempt, int pass)
{
    assert(pass >= 0 && pass < PASS_COUNT);
    attempt->refuted = large->goal - 1;
    for (int failures = 0; failures < FAILURES_MOST && !is_over(large);) {
        int64_t target = next_target(large, attempt, pass);
        if (target < 0) return;
        assert(target >= large->goal && target < INT64_MAX);
        large->repair_count++;
        bool reached =
            pack_repair(large->scratch, large->problem, large->sections, target, MOVE_CAPS[pass],
                        large->deadline_s, attempt->offsets, &large->move_count);
        if (reached) {
            attempt->height = height_of(large, attempt->offsets);
            assert(attempt->height <= target && "a repair comes under its target");
            take(large, attempt);
            continue;
        }
        attempt->refuted = target;
        failures++;
        if (pass == 0) return;
    }
}

// Every rule until one is at the goal, itself or by a short chain.
static void place_all(struct large *large, struct attempt *attempts)
{
    for (int rule = 0; rule < PACK_RULE_COUNT; rule++) {
        struct attempt *attempt = &attempts[rule];
        attempt->height = INT64_MAX;
        if (rule > 0 && is_over(large)) continue;
        large->rule_count++;
        attempt->offsets = ARENA_NEW(large->scratch, int64_t, large->problem->count);
        attempt->height = pack_by_rule(large->scratch, large->problem, large->sections, rule,
                                       INT64_MAX, attempt->offsets);
        take(large, attempt);
        improve(large, attempt, 0);
    }
}

// Stable, so that of equal packings the rule that came first is repaired first.
static void sort_by_height(struct attempt *attempts)
{
    for (int i = 1; i < PACK_RULE_COUNT; i++) {
        struct attempt attempt = attempts[i];
        int place = i;
        for (; place > 0 && attempts[place - 1].height > attempt.height; place--) {
            attempts[place] = attempts[place - 1];
        }
        attempts[place] = attempt;
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
                          .patience = options->patience,
                          .best = INT64_MAX,
                          .offsets = offsets};
    // Not below the fixed buffers, which repairs would have to move.
    large.goal = pack_bound(scratch, problem);
    if (large.goal < problem->capacity) large.goal = problem->capacity;
    struct attempt attempts[PACK_RULE_COUNT] = {0};
    place_all(&large, attempts);
    if (large.goal < options->enough) large.goal = options->enough;
    for (int pass = 1; pass < PASS_COUNT && !is_over(&large); pass++) {
        sort_by_height(attempts);
        for (int i = 0; i < PACK_RULE_COUNT && !is_over(&large); i++) {
            if (attempts[i].offsets) improve(&large, &attempts[i], pass);
        }
    }
    assert(large.best >= 0 && large.move_count >= 0);
    counts->mode = large.repair_count ? PACK_REPAIR : PACK_GREEDY;
    counts->node_count += large.move_count;
    counts->work += work_of(&large);
    counts->restart_count += large.repair_count;
    arena_reset(scratch, mark);
    return large.best;
}
