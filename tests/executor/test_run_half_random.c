#include "tests/support/test.h"

#include "tests/support/run_draw.h"

#include <math.h>
#include <stdlib.h>

// Random plans in bf16, fp16 and fp32, each against one rank that does it all in double precision,
// and against what was planned. MESHWRIGHT_CASES runs more of them.

enum { OTHERWISE_CASES = 4 };

// Of the norm and of gradients; see run_outcome_error. Attention as a chain and latent projections
// round more often than the models of test_run_half.c.
static double tolerance_of(enum precision precision)
{
    return precision == PRECISION_BF16 ? 6e-2 : precision == PRECISION_FP16 ? 8e-3 : 1e-5;
}

static const struct run_outcome *expected_of(struct arena *arena, const struct run_case *of)
{
    struct run_case serial = run_case_new(of->config, of->seq_len, of->global_batch);
    serial.steps = 1;
    serial.dropout = of->dropout;
    struct err err = {0};
    const struct run_outcome *outcome = run_case_run(arena, &serial, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(outcome->error, "");
    return outcome;
}

static const char *difference_of(struct arena *arena, const struct run_case *of,
                                 const struct run_outcome *found)
{
    if (!found->done) return found->error;
    const struct run_outcome *expected = expected_of(arena, of);
    double tolerance = tolerance_of(of->precision), planned_bytes;
    const char *worst;
    double loss = fabs(found->loss[0] / expected->loss[0] - 1);
    double norm = fabs(found->norm[0] / expected->norm[0] - 1);
    double gradient = run_outcome_error(expected, found, &worst);
    if (getenv("MESHWRIGHT_SHOW"))
        print_message("# %s: loss %.1e norm %.1e gradient %.1e\n", precision_name(of->precision),
                      loss, norm, gradient);
    if (!(loss <= tolerance / 10 && norm <= tolerance && gradient <= tolerance))
        return arena_print(arena, "loss off by %g, norm by %g, %s by %g", loss, norm, worst,
                           gradient);
    const char *difference = run_outcome_traffic(arena, found);
    if (!difference) difference = run_outcome_rounding(arena, found, of->precision);
    planned_bytes = (double)run_outcome_planned_bytes(found);
    bool is_held = planned_bytes < 0 ||
                   fabs((double)found->peak_bytes - planned_bytes) <= 0.01 * planned_bytes;
    if (difference || is_held) return difference;
    return arena_print(arena, "%lld bytes held, %.0f planned", (long long)found->peak_bytes,
                       planned_bytes);
}

static void random_plans_in_16_bits_compute_what_one_rank_does(void **state)
{
    static const enum precision PRECISIONS[] = {PRECISION_BF16, PRECISION_BF16, PRECISION_FP16,
                                                PRECISION_FP32};
    struct arena *arena = *state;
    struct draw draw = draw_start("random runs in 16 bits", 27);
    const char *given = getenv("MESHWRIGHT_CASES");
    int wanted = given ? atoi(given) : OTHERWISE_CASES, ran = 0, failed = 0, refused = 0;
    while (ran < wanted) {
        int model;
        struct draw seed = draw;
        struct arena_mark mark = arena_mark(arena);
        struct run_case of = run_draw(&draw, arena, &model);
        of.precision = DRAW_ONE(&draw, PRECISIONS);
        of.backend = draw_int(&draw, 0, 1) ? "cuda" : "cpu-half";
        of.steps = 1;
        // The largest one leaves no room for the gradients of some models in the first step.
        if (of.precision == PRECISION_FP16) of.loss_scale = 1024;
        struct err why = {0};
        struct run_outcome *found = run_case_run(arena, &of, &why);
        if (!found) {
            assert_int_equal(why.kind, ERR_USAGE);
            assert_in_range(++refused, 0, 20 * wanted + 100);
            arena_reset(arena, mark);
            continue;
        }
        ran++;
        const char *difference = difference_of(arena, &of, found);
        if (difference) {
            failed++;
            print_error("# MESHWRIGHT_SEED=%llu, %s, %s, dropout %d: %s: %s\n",
                        (unsigned long long)seed.state, found->program->graph->model_type,
                        of.backend, of.dropout, run_case_text(arena, &of), difference);
        }
        arena_reset(arena, mark);
    }
    print_message("# %d plans ran, %d drawn were refused\n", ran, refused);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_in_16_bits_compute_what_one_rank_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
