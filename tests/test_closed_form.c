#include "simulator/closed_form.h"
#include "simulator/engine.h"
#include "tests/random_plan.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>

enum { PLANS = 10000 };
#ifndef SEED
#define SEED 20260101
#endif

struct agreement {
    double sum, worst;
    int count;
};

static void agreement_add(struct agreement *agreement, double ratio)
{
    agreement->sum += fabs(ratio);
    if (fabs(ratio) > agreement->worst) agreement->worst = fabs(ratio);
    agreement->count++;
}

static void agreement_print(const char *what, const struct agreement *agreement)
{
    printf("# %s: %d, mean %.3f %%, worst %.2f %%\n", what, agreement->count,
           100 * agreement->sum / agreement->count, 100 * agreement->worst);
}

static void the_closed_form_agrees_with_the_events_on_random_plans(void **state)
{
    struct arena *arena = *state, scratch = {0};
    struct random random = random_start(SEED);
    struct engine_options options = {0};
    struct agreement all = {0}, of[SCHEDULE_KIND_COUNT] = {{0}}, bubble = {0};
    printf("# seed %d\n", SEED);
    for (int i = 0; i < PLANS; i++) {
        struct arena_mark mark = arena_mark(arena);
        enum schedule_kind schedule = (enum schedule_kind)random_int(&random, 0, 2);
        const struct step_price *price = random_plan(arena, &random, schedule);
        const struct simulation *events = simulate_step(arena, &scratch, price, &options);
        struct cost formula = closed_form(price);
        double ratio = formula.step_s / events->cost.step_s - 1;
        agreement_add(&all, ratio);
        agreement_add(&of[schedule], ratio);
        agreement_add(&bubble, (formula.bubble_s - events->cost.bubble_s) / events->cost.step_s);
        assert_true(fabs(cost_parts_sum(&formula) / formula.step_s - 1) < 1e-9);
        assert_true(formula.bubble_s >= 0);
        if (getenv("SHOW") && fabs(ratio) > atof(getenv("SHOW")))
            printf("# plan %d %s p %d v %d m %d hop %g %d reduce %g x%d %d gather %g %d speed %g: %+.4f\n",
                   i, schedule_row(schedule)->name, price->shape.stage_count,
                   price->shape.chunk_count, price->shape.micro_batch_count, price->hop_s,
                   price->hop_overlapped, price->classes[0].gradient_reduce_s / price->classes[0].phase_s[1][0],
                   price->classes[0].bucket_count, price->reduce_overlapped,
                   price->classes[0].parameter_gather_s/ price->classes[0].phase_s[1][0], price->gather_overlapped,
                   price->overlap_ratio, ratio);
        arena_reset(arena, mark);
    }
    arena_free(&scratch);
    for (int i = 0; i < SCHEDULE_KIND_COUNT; i++)
        agreement_print(schedule_row((enum schedule_kind)i)->name, &of[i]);
    agreement_print("bubble, share of the step", &bubble);
    agreement_print("all", &all);
    assert_true(all.sum / all.count <= 0.01);
    assert_true(all.worst <= 0.03);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_closed_form_agrees_with_the_events_on_random_plans),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
