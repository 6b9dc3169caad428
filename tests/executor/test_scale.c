#include "tests/support/test.h"

#include "executor/engine/engine.h"

#include <math.h>

// The scale of gradients and what the global norm does to a step, on an engine that has nothing
// else: fp16 doubles and halves, every other precision is never scaled and never skips.

struct scale_bench {
    struct backend backend;
    struct run_options options;
    struct run_request request;
    struct program program;
    struct engine engine;
};

static struct engine *scaling_open(struct scale_bench *scaling, enum precision compute,
                                   double loss_scale, double clip_norm)
{
    *scaling = (struct scale_bench){.backend = {.compute_bytes = 2, .compute = compute},
                                    .options = {.loss_scale = loss_scale, .clip_norm = clip_norm},
                                    .program.workload.precision = compute};
    scaling->request.options = &scaling->options;
    scaling->engine.backend = &scaling->backend;
    scaling->engine.request = &scaling->request;
    scaling->engine.program = &scaling->program;
    scale_open(&scaling->engine);
    return &scaling->engine;
}

static void step(struct engine *engine, double scaled_norm)
{
    scale_start(engine);
    scale_settle(engine, scaled_norm);
}

static void only_fp16_is_scaled(void **state)
{
    (void)state;
    struct scale_bench scaling;
    struct engine *engine = scaling_open(&scaling, PRECISION_FP16, 0, 0);
    assert_true(engine->scale.now == 65536 && engine->scale.of_step == 1);
    engine = scaling_open(&scaling, PRECISION_FP16, 8, 0);
    assert_true(engine->scale.now == 8);
    engine = scaling_open(&scaling, PRECISION_BF16, 8, 0);
    assert_true(engine->scale.now == 1);
    // Of a back end that computes fp16 plans in reals.
    scaling.backend = (struct backend){.compute_bytes = 4, .compute = PRECISION_FP16};
    scale_open(engine);
    assert_true(engine->scale.now == 1);
}

static void updates_take_out_the_scale_and_clip(void **state)
{
    (void)state;
    struct scale_bench scaling;
    struct engine *engine = scaling_open(&scaling, PRECISION_FP16, 8, 2);
    step(engine, 24);  // a norm of 3, over 2
    assert_true(engine->scale.of_step == 8 && engine->norm == 3);
    assert_true(engine->gradient_scale == 2. / 3 / 8);
    assert_int_equal(engine->update_count, 1);
    step(engine, 16);  // just 2
    assert_true(engine->norm == 2 && engine->gradient_scale == 1. / 8);
    assert_int_equal(engine->update_count, 2);
    engine = scaling_open(&scaling, PRECISION_FP16, 8, 0);
    step(engine, 8000);  // nobody clips
    assert_true(engine->norm == 1000 && engine->gradient_scale == 1. / 8);
    engine = scaling_open(&scaling, PRECISION_BF16, 0, 0.5);
    step(engine, 4);
    assert_true(engine->norm == 4 && engine->gradient_scale == 0.125);
}

static void a_gradient_without_room_halves_the_scale_and_skips(void **state)
{
    (void)state;
    struct scale_bench scaling;
    struct engine *engine = scaling_open(&scaling, PRECISION_FP16, 4, 1);
    const double expected[] = {2, 1, 1};  // never below 1
    for (int i = 0; i < 3; i++) {
        double before = engine->scale.now;
        step(engine, i == 1 ? NAN : INFINITY);
        assert_true(engine->scale.skips && engine->scale.now == expected[i]);
        assert_true(engine->scale.of_step == before);
        assert_int_equal(engine->update_count, 0);
    }
    step(engine, 0.5);
    assert_false(engine->scale.skips);
    assert_int_equal(engine->update_count, 1);
    // What has diverged shows where nothing is scaled.
    engine = scaling_open(&scaling, PRECISION_BF16, 0, 1);
    step(engine, NAN);
    assert_false(engine->scale.skips);
    assert_true(isnan(engine->norm) && engine->update_count == 1 && engine->scale.now == 1);
}

static void two_thousand_good_steps_double_the_scale(void **state)
{
    (void)state;
    struct scale_bench scaling;
    struct engine *engine = scaling_open(&scaling, PRECISION_FP16, 4, 0);
    for (int i = 0; i < 10; i++)
        step(engine, 1);
    step(engine, INFINITY);  // counts from the start again
    for (int i = 0; i < 1999; i++)
        step(engine, 1);
    assert_true(engine->scale.now == 2);
    step(engine, 1);
    assert_true(engine->scale.now == 4 && engine->scale.of_step == 2);
    for (int i = 0; i < 2000; i++)
        step(engine, 1);
    assert_true(engine->scale.now == 8);
    assert_int_equal(engine->update_count, 10 + 2000 + 2000);
    // Up to 2^24 and no farther.
    engine = scaling_open(&scaling, PRECISION_FP16, 0x1p23, 0);
    for (int i = 0; i < 6000; i++)
        step(engine, 1);
    assert_true(engine->scale.now == 0x1p24);
    // Another precision counts nothing.
    engine = scaling_open(&scaling, PRECISION_BF16, 0, 0);
    for (int i = 0; i < 2001; i++)
        step(engine, 1);
    assert_true(engine->scale.now == 1 && engine->scale.good_steps == 0);
}

static void without_a_norm_a_step_starts_settled(void **state)
{
    (void)state;
    struct scale_bench scaling;
    struct engine *engine = scaling_open(&scaling, PRECISION_BF16, 0, 0);
    scaling.program.workload.unclipped = true;
    engine->norm = 5;
    engine->gradient_scale = 7;
    engine->scale.skips = true;
    scale_start(engine);
    assert_true(engine->norm == 0 && engine->gradient_scale == 1 && !engine->scale.skips);
    assert_int_equal(engine->update_count, 1);
    // Where there is one, nothing is settled until it is known.
    scaling.program.workload.unclipped = false;
    engine->gradient_scale = 7;
    scale_start(engine);
    assert_true(engine->gradient_scale == 7 && engine->update_count == 1);
}

// A norm that is not finite at a scale of 1 is out of line like any other, so that a run which
// skips spikes may roll back; where none are skipped it is left out as it was.
static void what_has_no_room_at_a_scale_of_1_is_a_spike(void **state)
{
    static const struct {
        double loss_scale, deviations;
        enum run_skip skip;
    } CASES[] = {{1, 2.5, RUN_SKIP_SPIKE}, {2, 2.5, RUN_SKIP_ROOM}, {1, 0, RUN_SKIP_ROOM}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct scale_bench bench;
        struct engine *engine = scaling_open(&bench, PRECISION_FP16, CASES[i].loss_scale, 0);
        bench.options.spike_deviations = CASES[i].deviations;
        step(engine, INFINITY);
        assert_int_equal(engine->scale.skip, CASES[i].skip);
        assert_true(engine->scale.skips);
        assert_int_equal(engine->update_count, 0);
    }
}

static void elements_have_their_bytes(void **state)
{
    const struct engine engine = {.compute_bytes = 2, .real_bytes = 4};
    (void)state;
    assert_int_equal(engine_element_bytes(&engine, ELEMENT_INT64), 8);
    assert_int_equal(engine_element_bytes(&engine, ELEMENT_BYTE), 1);
    assert_int_equal(engine_element_bytes(&engine, ELEMENT_COMPUTE), 2);
    assert_int_equal(engine_element_bytes(&engine, ELEMENT_FP32), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_fp16_is_scaled),
        cmocka_unit_test(updates_take_out_the_scale_and_clip),
        cmocka_unit_test(a_gradient_without_room_halves_the_scale_and_skips),
        cmocka_unit_test(two_thousand_good_steps_double_the_scale),
        cmocka_unit_test(without_a_norm_a_step_starts_settled),
        cmocka_unit_test(what_has_no_room_at_a_scale_of_1_is_a_spike),
        cmocka_unit_test(elements_have_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
