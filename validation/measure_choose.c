#include "core/random.h"
#include "validation/measure_next.h"

#include <assert.h>
#include <math.h>

// A gain below this is the noise of the draws.
static const double GAIN_LEAST = 1e-5;
// A benchmark that leaves more than this of the spread tells too little to be worth minutes.
static const double NARROWER_LEAST = 0.97;

struct draws {
    int plan_count;
    const double *ln_s;
    // [draw][plan]: what the terms of a kind that a benchmark tells add to ln step; and all terms
    double *told[MEASURE_KIND_COUNT];
    double *truth;
};

// The same draws judge all choices, so that their noise cancels in differences.
static struct draws draw(struct arena *arena, const double *ln_s, int plan_count,
                         const double *slope, const enum measure_kind *kind, int term_count,
                         uint64_t seed)
{
    struct draws draws = {.plan_count = plan_count, .ln_s = ln_s};
    int count = MEASURE_DRAWS * plan_count;
    draws.truth = ARENA_NEW(arena, double, count);
    for (int k = 0; k < MEASURE_KIND_COUNT; k++)
        draws.told[k] = ARENA_NEW(arena, double, count);
    double told_share = sqrt(1 - MEASURE_LEFT * MEASURE_LEFT);
    for (int d = 0; d < MEASURE_DRAWS; d++) {
        for (int t = 0; t < term_count; t++) {
            double told = told_share * random_normal(&seed);
            double truth = told + MEASURE_LEFT * random_normal(&seed);
            for (int p = 0; p < plan_count; p++) {
                double by = slope[p * term_count + t];
                draws.truth[d * plan_count + p] += by * truth;
                if (kind[t] < MEASURE_KIND_COUNT)
                    draws.told[kind[t]][d * plan_count + p] += by * told;
            }
        }
    }
    return draws;
}

// Expected regret of the plan that is first by what benchmarks of these kinds (a bit each) tell.
static double regret(const struct draws *draws, unsigned kinds)
{
    double sum = 0;
    for (int d = 0; d < MEASURE_DRAWS; d++) {
        double chosen_ln = INFINITY, best = INFINITY, chosen_truth = 0;
        for (int p = 0; p < draws->plan_count; p++) {
            int at = d * draws->plan_count + p;
            double believed = draws->ln_s[p], truth = draws->ln_s[p] + draws->truth[at];
            for (int k = 0; k < MEASURE_KIND_COUNT; k++)
                if (kinds >> k & 1) believed += draws->told[k][at];
            best = fmin(best, truth);
            if (believed >= chosen_ln) continue;
            chosen_ln = believed;
            chosen_truth = truth;
        }
        sum += exp(chosen_truth - best) - 1;
    }
    assert(sum >= 0 && "no plan beats the best");
    return sum / MEASURE_DRAWS;
}

// Of terms that are told what a benchmark leaves remains.
static double spread(const double *slope, const enum measure_kind *kind, int term_count,
                     unsigned kinds)
{
    double sum = 0;
    for (int t = 0; t < term_count; t++) {
        bool is_told = kind[t] < MEASURE_KIND_COUNT && kinds >> kind[t] & 1;
        double by = slope[t] * (is_told ? MEASURE_LEFT : 1);
        sum += by * by;
    }
    return sqrt(sum);
}

// Of the benchmarks that are not taken yet, that which leaves least regret; where none lowers it,
// that which leaves the step known best. False: neither gains.
static bool pick(const struct draws *draws, const double *slope, const enum measure_kind *kind,
                 int term_count, unsigned taken, struct measure_step *step)
{
    double regret_now = regret(draws, taken), spread_now = spread(slope, kind, term_count, taken);
    double least_regret = regret_now - GAIN_LEAST, least_spread = NARROWER_LEAST * spread_now;
    int by_regret = -1, by_spread = -1;
    for (int k = 0; k < MEASURE_KIND_COUNT; k++) {
        if (taken >> k & 1) continue;
        double left = regret(draws, taken | 1u << k);
        double narrow = spread(slope, kind, term_count, taken | 1u << k);
        if (left < least_regret) by_regret = k;
        if (narrow < least_spread) by_spread = k;
        least_regret = fmin(least_regret, left);
        least_spread = fmin(least_spread, narrow);
    }
    if (by_regret < 0 && by_spread < 0) return false;
    step->kind = (enum measure_kind)(by_regret < 0 ? by_spread : by_regret);
    assert(!(taken >> step->kind & 1));
    step->lowers_regret = by_regret >= 0;
    unsigned all = taken | 1u << step->kind;
    step->regret_ratio = regret(draws, all);
    step->spread_ratio = spread(slope, kind, term_count, all);
    return true;
}

// Greedy: one benchmark after the other, the best beside those taken.
void measure_choose(struct arena *arena, const double *ln_s, int plan_count, const double *slope,
                    const enum measure_kind *kind, int term_count, int wanted, uint64_t seed,
                    struct measure_next *next)
{
    assert(plan_count > 0 && term_count >= 0 && wanted >= 0);
    struct draws draws = draw(arena, ln_s, plan_count, slope, kind, term_count, seed);
    unsigned taken = 0;
    next->plan_count = plan_count;
    next->regret_ratio = regret(&draws, 0);
    next->spread_ratio = spread(slope, kind, term_count, 0);
    for (next->step_count = 0; next->step_count < wanted; next->step_count++) {
        struct measure_step *step = &next->steps[next->step_count];
        if (!pick(&draws, slope, kind, term_count, taken, step)) return;
        taken |= 1u << step->kind;
    }
}
