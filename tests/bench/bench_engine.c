// Speed of the closed form and of the event engine. A rate alone says more about the machine than
// about the code: each is printed beside the same run's baseline, a loop that does the arithmetic
// of one task (a maximum and an addition that wait for the one before) and nothing else.
#include "core/progress.h"
#include "simulator/closed_form.h"
#include "simulator/engine.h"
#include "tests/support/random_plan.h"

#include <stdio.h>

enum { PLANS = 300, SEED = 7 };

static double baseline_per_s(void)
{
    enum { COUNT = 100 * 1000 * 1000 };
    volatile int64_t length_ns = 3;
    int64_t length = length_ns, end_ns = 0, arrive_ns = 1;
    double start_s = clock_s();
    for (int i = 0; i < COUNT; i++) {
        end_ns = (end_ns > arrive_ns ? end_ns : arrive_ns) + length;
        arrive_ns = end_ns ^ (i & 1);
    }
    double rate = COUNT / (clock_s() - start_s);
    length_ns = end_ns;
    return rate;
}

struct rates {
    double formula_per_s, step_per_s, event_per_s;
};

static struct rates measure(enum schedule_kind schedule)
{
    struct arena arena = {0}, scratch = {0};
    struct random random = random_start(SEED);
    struct step_price *plans[PLANS];
    for (int i = 0; i < PLANS; i++)
        plans[i] = random_plan(&arena, &random, schedule);
    double sum_s = 0, start_s = clock_s(), taken_s = 0;
    int rounds = 0;
    while (taken_s < 0.5) {
        for (int i = 0; i < PLANS; i++)
            sum_s += closed_form(plans[i]).step_s;
        rounds++;
        taken_s = clock_s() - start_s;
    }
    struct rates rates = {.formula_per_s = rounds * PLANS / taken_s};
    struct engine_options options = {0};
    int64_t events = 0;
    start_s = clock_s();
    for (int i = 0; i < PLANS; i++) {
        const struct simulation *simulation = simulate_step(&arena, &scratch, plans[i], &options);
        events += simulation->event_count;
        sum_s += simulation->cost.step_s;
    }
    taken_s = clock_s() - start_s;
    rates.step_per_s = PLANS / taken_s;
    rates.event_per_s = (double)events / taken_s;
    arena_free(&arena);
    arena_free(&scratch);
    return sum_s > 0 ? rates : (struct rates){0};
}

static void bench_random_plans(double baseline)
{
    double all_s = 0;
    for (int i = 0; i < SCHEDULE_KIND_COUNT; i++) {
        struct rates rates = measure((enum schedule_kind)i);
        all_s += 1 / rates.formula_per_s;
        printf("%-12s closed form %9.0f /s, engine %6.0f steps/s (closed form %.0f x as fast), "
               "%.3g events/s (%.1f x the baseline's time each)\n",
               schedule_row((enum schedule_kind)i)->name, rates.formula_per_s, rates.step_per_s,
               rates.formula_per_s / rates.step_per_s, rates.event_per_s,
               baseline / rates.event_per_s);
    }
    printf("%-12s closed form %9.0f /s\n", "all alike", SCHEDULE_KIND_COUNT / all_s);
}

// An evenly cut model, as most candidates of a search are.
static void bench_even_plans(void)
{
    struct arena arena = {0};
    double all_s = 0, sum_s = 0;
    for (int i = 0; i < SCHEDULE_KIND_COUNT; i++) {
        struct schedule_shape shape = {8, i == SCHEDULE_INTERLEAVED || i == SCHEDULE_ZB_V ? 2 : 1,
                                       64, 0, NULL};
        enum { COUNT = 200 * 1000 };
        struct step_price *price = even_plan(&arena, (enum schedule_kind)i, shape, 1e-3, 2e-3);
        double start_s = clock_s();
        for (int n = 0; n < COUNT; n++)
            sum_s += closed_form(price).step_s;
        all_s += (clock_s() - start_s) / COUNT;
    }
    arena_free(&arena);
    if (sum_s > 0)
        printf("%-12s closed form %9.0f /s\n", "even plans", SCHEDULE_KIND_COUNT / all_s);
}

// One closed form of each schedule on 16 stages; that of zero bubble plays a part of the tasks.
static void bench_sixteen_stages(void)
{
    struct arena arena = {0};
    enum { COUNT = 20 * 1000 };
    for (int i = 0; i < SCHEDULE_KIND_COUNT; i++) {
        bool two = i == SCHEDULE_INTERLEAVED || i == SCHEDULE_ZB_V;
        struct schedule_shape shape = {16, two ? 2 : 1, 128, 0, NULL};
        struct step_price *price = even_plan(&arena, (enum schedule_kind)i, shape, 1e-3, 2e-3);
        double sum_s = 0, start_s = clock_s();
        for (int n = 0; n < COUNT; n++)
            sum_s += closed_form(price).step_s;
        if (sum_s > 0)
            printf("pp 16, 128 micro-batches, %s: %.2f us a closed form\n",
                   schedule_name((enum schedule_kind)i), (clock_s() - start_s) / COUNT * 1e6);
    }
    arena_free(&arena);
}

static void bench_step(void)
{
    struct arena arena = {0}, scratch = {0};
    enum { ROUNDS = 200 };
    struct schedule_shape shape = {8, 1, 64, 0, NULL};
    struct step_price *price = even_plan(&arena, SCHEDULE_1F1B, shape, 10e-3, 20e-3);
    price->hop_s = 50e-6;
    struct engine_options options = {0};
    double start_s = clock_s();
    for (int i = 0; i < ROUNDS; i++)
        simulate_step(&arena, &scratch, price, &options);
    printf("pp 8, 64 micro-batches: %.3f ms a step (wanted below 20)\n",
           (clock_s() - start_s) / ROUNDS * 1e3);
    arena_free(&arena);
    arena_free(&scratch);
}

static void bench_ranks(int micro_batches, double baseline)
{
    enum { STAGES = 64, RANKS = 16384 };
    struct arena arena = {0}, scratch = {0};
    struct schedule_shape shape = {STAGES, 1, micro_batches, 0, NULL};
    struct step_price *price = even_plan(&arena, SCHEDULE_1F1B, shape, 10e-3, 20e-3);
    price->hop_s = 50e-6;
    price->reduce_overlapped = true;
    int *stage_of_rank = ARENA_NEW(&arena, int, RANKS);
    double *slowdown_of_rank = ARENA_NEW(&arena, double, RANKS);
    for (int rank = 0; rank < RANKS; rank++) {
        stage_of_rank[rank] = rank / (RANKS / STAGES);
        slowdown_of_rank[rank] = rank == RANKS / 2 ? 1.2 : 1;
    }
    struct engine_options options = {.all_ranks = true,
                                     .rank_count = RANKS,
                                     .stage_of_rank = stage_of_rank,
                                     .slowdown_of_rank = slowdown_of_rank};
    double start_s = clock_s();
    const struct simulation *simulation = simulate_step(&arena, &scratch, price, &options);
    double taken_s = clock_s() - start_s;
    printf("16,384 ranks, pp 64, %d micro-batches, one rank slow: %.2f s (wanted below 10), "
           "%.3g events/s (%.1f x the baseline's time each)\n",
           micro_batches, taken_s, (double)simulation->event_count / taken_s,
           baseline * taken_s / (double)simulation->event_count);
    arena_free(&arena);
    arena_free(&scratch);
}

int main(void)
{
    double baseline = baseline_per_s();
    printf("baseline: %.3g additions that wait for each other /s\n", baseline);
    bench_random_plans(baseline);
    bench_even_plans();
    bench_sixteen_stages();
    bench_step();
    bench_ranks(64, baseline);
    bench_ranks(512, baseline);
    return 0;
}
