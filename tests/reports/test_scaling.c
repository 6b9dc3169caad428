#include "tests/support/test.h"

#include "planner/choice.h"
#include "reports/whatif/scaling.h"
#include "reports/whatif/whatif_chart.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static bool load_text(struct arena *arena, const char *text, struct scaling_points *points,
                      const char **fault)
{
    char path[] = "/tmp/scaling.XXXXXX.csv";
    int file = mkstemps(path, 4);
    assert_true(file >= 0);
    FILE *stream = fdopen(file, "w");
    fputs(text, stream);
    fclose(stream);
    struct err err = {0};
    bool loaded = scaling_load(arena, path, points, &err);
    unlink(path);
    assert_int_equal(loaded, err.kind == ERR_NONE);
    *fault = loaded ? "" : arena_copy(arena, err.text + strlen(path));
    return loaded;
}

static void measured_points_are_read_and_faults_told_by_line(void **state)
{
    struct arena *arena = *state;
    static const char HEAD[] = "gpus,tokens_per_s_per_gpu\n";
    static const struct {
        const char *rest, *fault;
    } CASES[] = {
        {"8,4078\n16,3.9k\r\n", ""},
        {"8,4078", ""},
        {"", ": holds no measured point"},
        {"8\n", ":2: expected gpus,tokens_per_s_per_gpu, found \"8\""},
        {"8,1,2\n", ":2: expected gpus,tokens_per_s_per_gpu, found \"8,1,2\""},
        {"8,1\n\n", ":3: expected gpus,tokens_per_s_per_gpu, found \"\""},
        {"8,1\n0,2\n", ":3: gpus: must be between 1 and 1073741824, found 0"},
        {"8,x\n", ":2: tokens_per_s_per_gpu: expected a number such as 4096, 1e12 or 2T, found "
                  "\"x\""},
        {"8,0\n", ":2: tokens_per_s_per_gpu: must be more than 0, found 0"},
        {"8,1\n8,2\n", ":3: 8 GPUs stand there twice"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct scaling_points points;
        const char *fault;
        load_text(arena, arena_print(arena, "%s%s", HEAD, CASES[i].rest), &points, &fault);
        assert_string_equal(fault, CASES[i].fault);
    }
    struct scaling_points points;
    const char *fault;
    assert_false(load_text(arena, "gpu,speed\n8,1\n", &points, &fault));
    assert_string_equal(fault, ":1: expected gpus,tokens_per_s_per_gpu, found \"gpu,speed\"");
    assert_true(load_text(arena, "gpus,tokens_per_s_per_gpu\n8,4078\n16,3.9k\n", &points, &fault));
    assert_true(scaling_measured_at(&points, 16) == 3900);
    assert_true(scaling_measured_at(&points, 32) == 0);
}

static void a_calibration_is_a_count_and_a_value(void **state)
{
    struct arena *arena = *state;
    struct scaling_point items[] = {{8, 4078}}, point;
    struct scaling_points measured = {items, 1};
    struct err err = {0};
    assert_true(scaling_parse(arena, "16=3900", &measured, &point, &err));
    assert_true(point.gpus == 16 && point.tokens_per_s_per_gpu == 3900);
    assert_true(scaling_parse(arena, "8", &measured, &point, &err));
    assert_true(point.gpus == 8 && point.tokens_per_s_per_gpu == 4078);
    assert_false(scaling_parse(arena, "16", &measured, &point, &err));
    assert_string_equal(err.text, "--calibrate 16: --measured has no such point; GPUS=VALUE gives "
                                  "one");
    err = (struct err){0};
    assert_false(scaling_parse(arena, "8=-1", &measured, &point, &err));
    assert_string_equal(err.text,
                        "--calibrate: tokens a second and GPU must be more than 0, found -1");
}

struct curve {
    struct scenario_request request;
    struct sweep sweep;
    struct sweep_points points;
    struct scenario_outcome outcomes[8];
    struct whatif whatif;
};

// The published runs of InternLM-7B on 8 to 1,024 A100s: tests/validation/published.jsonl,
// internlm-7b-tp1-z8-*.
static void predict(struct arena *arena, struct curve *curve)
{
    struct err err = {0};
    const struct cluster **cluster = ARENA_NEW(arena, const struct cluster *, 1);
    *cluster = cluster_load(arena, "tests/data/scaling/a100-100g4.json", &err);
    curve->request = (struct scenario_request){
        .model = model_load(arena, "tests/data/scaling/internlm-7b.json", NULL, NULL, &err),
        .stack = stack_load(arena, "internevo", &err),
        .fabrics = fabrics_load(arena, &err),
        .bands = bands_load(arena, &err),
    };
    curve->sweep = (struct sweep){
        .clusters = cluster,
        .cluster_count = 1,
        .workload = {.seq_len = 2048, .precision = PRECISION_BF16, .optimizer = OPTIMIZER_ADAMW},
        .pins = pins_none(),
        .sequences_per_gpu = 8};
    pins_set(&curve->sweep.pins, CHOICE_TP, 1, 1);
    pins_set(&curve->sweep.pins, CHOICE_PP, 1, 1);
    pins_set(&curve->sweep.pins, CHOICE_ZERO, 1, 1);
    pins_set(&curve->sweep.pins, CHOICE_ZERO_GROUP, 8, 8);
    pins_set(&curve->sweep.pins, CHOICE_MICRO_BATCH, 2, 2);
    pins_set(&curve->sweep.pins, CHOICE_RECOMPUTE, RECOMPUTE_NONE, RECOMPUTE_NONE);
    assert_true(sweep_parse(arena, SWEEP_GPUS, "8..1024", &curve->sweep.axes[SWEEP_GPUS], &err));
    assert_true(sweep_points(arena, &curve->sweep, &curve->points, &err));
    struct scenario scenarios[8];
    assert_int_equal(curve->points.count, 8);
    for (int i = 0; i < 8; i++) {
        scenarios[i] = curve->points.items[i].scenario;
    }
    assert_true(scenarios_run(arena, &curve->request, scenarios, 8, curve->outcomes, &err));
    assert_string_equal(err.text, "");
}

static void judge(struct arena *arena, struct curve *curve)
{
    struct err err = {0};
    const struct whatif_question none = {0};
    assert_true(whatif_make(arena, &none, &curve->sweep, &curve->request, &curve->points,
                            curve->outcomes, &curve->whatif, &err));
}

static void one_calibrated_point_scales_the_others(void **state)
{
    struct arena *arena = *state;
    struct curve curve = {0};
    struct err err = {0};
    struct scaling scaling = {.whatif = &curve.whatif};
    assert_true(scaling_load(arena, "tests/data/scaling/internlm-7b.csv", &scaling.measured, &err));
    assert_int_equal(scaling.measured.count, 8);
    predict(arena, &curve);
    struct scenario_outcome before[8];
    memcpy(before, curve.outcomes, sizeof before);
    assert_true(scaling_parse(arena, "8", &scaling.measured, &scaling.calibrated, &err));
    scaling.ratio = scaling_calibrate(&curve.points, &scaling.calibrated, curve.outcomes, &err);
    judge(arena, &curve);
    double worst = 0, sum = 0;
    for (int i = 0; i < 8; i++) {
        const struct prediction *is = &curve.outcomes[i].prediction, *was = &before[i].prediction;
        assert_true(fabs(is->step_s * scaling.ratio / was->step_s - 1) < 1e-12);
        assert_true(fabs(is->tokens_per_s * is->step_s - was->tokens_per_s * was->step_s) < 1);
        double measured = scaling_measured_at(&scaling.measured, 8 << i);
        double error = fabs(is->tokens_per_s_per_gpu / measured - 1);
        if (i == 0) assert_true(error < 1e-12);
        if (i == 0) continue;
        worst = fmax(worst, error);
        sum += error;
    }
    struct scaling_error error = scaling_error(&scaling);
    assert_int_equal(error.count, 7);
    assert_true(error.worst_ratio == worst);
    assert_true(fabs(error.mean_ratio - sum / 7) < 1e-12);
    // The claim: from 8 GPUs alone the other seven are known to a tenth.
    assert_true(worst < 0.10);
    struct chart chart = {.arena = arena};
    assert_true(whatif_scaling_chart(&scaling, &chart));
    assert_true(whatif_pareto_chart(&curve.whatif, &(struct chart){.arena = arena}));
}

static void a_count_that_was_not_asked_cannot_calibrate(void **state)
{
    struct arena *arena = *state;
    struct curve curve = {0};
    struct err err = {0};
    predict(arena, &curve);
    const struct scaling_point point = {24, 4000};
    assert_true(scaling_calibrate(&curve.points, &point, curve.outcomes, &err) == 0);
    assert_string_equal(err.text, "--calibrate: no plan of 24 GPUs is among the scenarios");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_points_are_read_and_faults_told_by_line),
        cmocka_unit_test(a_calibration_is_a_count_and_a_value),
        cmocka_unit_test(one_calibrated_point_scales_the_others),
        cmocka_unit_test(a_count_that_was_not_asked_cannot_calibrate),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
