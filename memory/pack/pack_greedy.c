#include "memory/pack/pack_order.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int64_t pack_by_rule(struct arena *scratch, const struct pack_problem *problem,
                     const struct pack_sections *sections, int rule, int64_t limit,
                     int64_t *offsets)
{
    assert(rule >= 0 && rule < PACK_RULE_COUNT);
    struct arena_mark mark = arena_mark(scratch);
    enum pack_key key = (enum pack_key)(rule % PACK_KEY_COUNT);
    enum pack_fit fit = rule < PACK_KEY_COUNT ? FIT_FIRST : FIT_BEST;
    int *order = pack_sorted(scratch, problem, sections, key);
    int64_t height =
        pack_in_order(scratch, problem, sections, order, problem->count, fit, limit, offsets);
    arena_reset(scratch, mark);
    return height;
}

// No rule wins everywhere: one that is a quarter of a percent over the bound on one graph is forty
// percent over on the next, so all are tried until one is at the bound.
int64_t pack_greedy(struct arena *scratch, const struct pack_problem *problem, int64_t *offsets)
{
    struct arena_mark mark = arena_mark(scratch);
    struct pack_sections *sections = pack_sections_make(scratch, problem);
    int64_t *trial = ARENA_NEW(scratch, int64_t, problem->count);
    int64_t best = INT64_MAX;
    for (int rule = 0; rule < PACK_RULE_COUNT && best > sections->load_most; rule++) {
        // A rule is given up on as soon as it cannot win.
        int64_t limit = best == INT64_MAX ? best : best - 1;
        int64_t height = pack_by_rule(scratch, problem, sections, rule, limit, trial);
        if (height >= best) continue;
        best = height;
        memcpy(offsets, trial, (size_t)problem->count * sizeof *offsets);
    }
    arena_reset(scratch, mark);
    return best;
}

int64_t pack_long_lived_best_fit(struct arena *scratch, const struct pack_problem *problem,
                                 int64_t *offsets)
{
    struct arena_mark mark = arena_mark(scratch);
    struct pack_sections *sections = pack_sections_make(scratch, problem);
    memset(offsets, 0, (size_t)problem->count * sizeof *offsets);
    int64_t height =
        pack_by_rule(scratch, problem, sections, PACK_KEY_COUNT + KEY_LIFE, INT64_MAX, offsets);
    arena_reset(scratch, mark);
    return height;
}
