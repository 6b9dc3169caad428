#include "planner/memory/pack_order.h"

#include <stdint.h>
#include <string.h>

// No rule wins everywhere: one that is a quarter of a percent over the bound on one graph is forty
// percent over on the next, so all are tried until one is at the bound.
static const struct {
    enum pack_key key;
    enum pack_fit fit;
} RULES[] = {
    {KEY_SIZE, FIT_FIRST},         {KEY_FULLEST_START, FIT_FIRST},
    {KEY_FULLEST_LIFE, FIT_FIRST}, {KEY_LIFE, FIT_FIRST},
    {KEY_AREA, FIT_FIRST},         {KEY_FULLEST_SIZE, FIT_FIRST},
    {KEY_LOAD_SIZE, FIT_FIRST},    {KEY_LOAD_AREA, FIT_FIRST},
    {KEY_START, FIT_FIRST},        {KEY_END, FIT_FIRST},
    {KEY_SIZE, FIT_BEST},          {KEY_FULLEST_START, FIT_BEST},
    {KEY_FULLEST_LIFE, FIT_BEST},  {KEY_LIFE, FIT_BEST},
    {KEY_AREA, FIT_BEST},          {KEY_FULLEST_SIZE, FIT_BEST},
    {KEY_LOAD_SIZE, FIT_BEST},     {KEY_LOAD_AREA, FIT_BEST},
    {KEY_START, FIT_BEST},         {KEY_END, FIT_BEST},
};
enum { RULE_COUNT = sizeof RULES / sizeof *RULES };

int64_t pack_greedy(struct arena *scratch, const struct pack_problem *problem, int64_t *offsets)
{
    struct arena_mark mark = arena_mark(scratch);
    struct pack_sections *sections = pack_sections_make(scratch, problem);
    int64_t *trial = ARENA_NEW(scratch, int64_t, problem->count);
    int64_t best = INT64_MAX;
    for (int r = 0; r < RULE_COUNT && best > sections->load_most; r++) {
        struct arena_mark rule_mark = arena_mark(scratch);
        int *order = pack_sorted(scratch, problem, sections, RULES[r].key);
        int64_t limit = best == INT64_MAX ? best : best - 1;
        int64_t height = pack_in_order(scratch, problem, sections, order, problem->count,
                                       RULES[r].fit, limit, trial);
        if (height < best) {
            best = height;
            memcpy(offsets, trial, (size_t)problem->count * sizeof *offsets);
        }
        arena_reset(scratch, rule_mark);
    }
    arena_reset(scratch, mark);
    return best;
}

int64_t pack_long_lived_best_fit(struct arena *scratch, const struct pack_problem *problem,
                                 int64_t *offsets)
{
    struct arena_mark mark = arena_mark(scratch);
    struct pack_sections *sections = pack_sections_make(scratch, problem);
    int *order = pack_sorted(scratch, problem, sections, KEY_LIFE);
    memset(offsets, 0, (size_t)problem->count * sizeof *offsets);
    int64_t height = pack_in_order(scratch, problem, sections, order, problem->count, FIT_BEST,
                                   INT64_MAX, offsets);
    arena_reset(scratch, mark);
    return height;
}
