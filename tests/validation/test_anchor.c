#include "tests/support/test.h"
#include "validation/anchor.h"

#include <math.h>

static struct trials asked(struct arena *arena, const char *family)
{
    struct err err = {0};
    struct rows *rows = ARENA_NEW(arena, struct rows, 1);
    struct trials trials;
    assert_true(rows_read(arena, "tests/validation/published.jsonl", rows, &err));
    rows_keep(rows, &(struct row_filter){.tiers = "A", .family = family});
    trials_ask(arena, rows, QUESTION_STATED, &trials);
    assert_true(trials_answer(arena, &trials, NULL, NULL, &err));
    return trials;
}

// Steps as a machine would measure them whose products reach `share` of what the files say.
static void measure_elsewhere(struct arena *arena, struct trials *trials, double share)
{
    struct err err = {0};
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    for (int i = 0; i < trials->count; i++) {
        struct trial other = trials->items[i];
        struct device *device = device_copy(arena, other.cluster->nodes[0].device);
        for (int k = 0; k < PRECISION_COUNT; k++)
            device->efficiency.gemm_ratio[k] *= share;
        other.cluster = cluster_with_device(arena, other.cluster, device);
        trial_answer(arena, &other, fabrics, NULL);
        assert_true(other.answered);
        ((struct row *)other.row)->step_s = other.prediction.step_s;
    }
}

static void larger_runs_of_a_slower_machine_are_predicted_by_its_smallest(void **state)
{
    struct err err = {0};
    struct anchor_sweep sweep;
    struct trials trials = asked(*state, "dgxc-h100-nemotron15b");
    measure_elsewhere(*state, &trials, 0.85);
    assert_true(anchor_sweep_make(*state, &trials, "A", "a test", &sweep, &err));
    assert_true(sweep.row_count > 10 && sweep.series_count > 1);
    assert_true(sweep.before.mape > 0.06);
    assert_true(sweep.after.mape < 0.25 * sweep.before.mape);
    assert_int_equal(sweep.band.row_count, 0);  // one family shows no band
}

// Rows of tier B were fitted by nobody: what their smallest runs are worth is what
// docs/anchoring.md says, and may not get worse unseen.
static void unfitted_series_are_met_by_their_smallest_runs(void **state)
{
    struct err err = {0};
    struct rows *rows = ARENA_NEW(*state, struct rows, 1);
    struct trials trials;
    struct anchor_sweep sweep;
    assert_true(rows_read(*state, "tests/validation/published.jsonl", rows, &err));
    rows_keep(rows, &(struct row_filter){.tiers = "B", .stack = "xla"});
    trials_ask(*state, rows, QUESTION_STATED, &trials);
    assert_true(trials_answer(*state, &trials, NULL, NULL, &err));
    assert_true(anchor_sweep_make(*state, &trials, "B", "a test", &sweep, &err));
    assert_true(sweep.row_count >= 18 && sweep.family_count == 2);
    assert_true(sweep.before_family_mape > 0.10);
    assert_true(sweep.family_mape < 0.04);
}

static void only_runs_on_the_fewest_gpus_anchor_a_series(void **state)
{
    struct err err = {0};
    struct anchor_sweep sweep;
    struct trials trials = asked(*state, "dgxc-h100-nemotron15b");
    assert_true(anchor_sweep_make(*state, &trials, "A", "a test", &sweep, &err));
    int rows = 0;
    for (int i = 0; i < sweep.series_count; i++) {
        const struct anchor_series *series = &sweep.series[i];
        rows += series->count + series->anchor_count;
        for (int k = series->first; k < series->first + series->count; k++)
            assert_true(sweep.rows[k].trial->row->facts.gpus > series->gpus);
    }
    assert_int_equal(rows, trials.count);
}

static void a_run_at_the_memory_limit_corrects_nothing(void **state)
{
    struct err err = {0};
    struct anchor anchor;
    struct trials trials = asked(*state, "mpt-h100-80");
    trials.count = 1;
    struct row *row = (struct row *)trials.items[0].row;
    row->step_s *= 3;
    row->peak_bytes = 0.95 * (double)trials.items[0].prediction.device_bytes;
    assert_false(anchor_make(*state, &trials, &anchor, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.text, "took more than 90 % of the device's memory"));
}

static void corrected_constants_are_those_of_device_and_stack_and_say_so(void **state)
{
    struct err err = {0};
    struct anchor anchor;
    struct trials trials = asked(*state, "mpt-a100-80");
    trials.count = 1;
    struct trial *trial = &trials.items[0];
    trial->is_given = true;
    ((struct row *)trial->row)->step_s = 1.2 * trial->prediction.step_s;
    const struct cluster *cluster = trial->cluster;
    const struct stack *stack = trial->stack;
    double before = cluster->nodes[0].device->efficiency.gemm_ratio[PRECISION_BF16];
    assert_true(anchor_make(*state, &trials, &anchor, &err));
    assert_int_equal(anchor.used_count, 1);
    assert_true(anchor.runs[0].after_s > 1.12 * anchor.runs[0].before_s);
    assert_true(anchor_apply(*state, &anchor, "a test", &cluster, &stack, &err));
    const struct device *device = cluster->nodes[0].device;
    assert_true(device->efficiency.gemm_ratio[PRECISION_BF16] < before);
    const struct provenance *entry = device_provenance(device, "efficiency.gemm_ratio.bf16");
    assert_int_equal(entry->kind, PROVENANCE_FITTED);
    assert_non_null(strstr(entry->source, "anchored to a test, from "));
    for (int i = 0; i < anchor.constant_count; i++)
        assert_int_not_equal(anchor.constants[i].owner, CONSTANT_FABRIC);
    struct trial other = *trial;
    other.cluster = cluster;
    other.stack = stack;
    trial_answer(*state, &other, fabrics_load(*state, &err), NULL);
    assert_true(fabs(other.prediction.step_s / anchor.runs[0].after_s - 1) < 1e-9);
}

static void runs_of_other_machines_and_software_are_refused(void **state)
{
    struct err err = {0};
    struct anchor anchor;
    struct trials here = asked(*state, "mpt-a100-80"), there = asked(*state, "mbridge-llama3_8b-b");
    here.count = 1;
    assert_true(anchor_make(*state, &here, &anchor, &err));
    const struct cluster *cluster = there.items[0].cluster;
    const struct stack *stack = there.items[0].stack;
    assert_false(anchor_apply(*state, &anchor, "x.log", &cluster, &stack, &err));
    assert_string_equal(err.text, "x.log ran on another device and with other software than "
                                  "b200-sxm-180g with megatron-core");
}

static void an_anchored_band_is_no_wider_than_either(void **state)
{
    struct err err = {0};
    struct bands bands = *bands_load(*state, &err);
    bands.anchored = (struct anchored_band){0.95, 1.06, 40, 8, "a test"};
    const struct bands *anchored = bands_anchored(*state, &bands);
    for (int i = 0; i < bands.count; i++) {
        assert_true(anchored->rows[i].low_ratio >= bands.rows[i].low_ratio);
        assert_true(anchored->rows[i].low_ratio >= 0.95);
        assert_true(anchored->rows[i].high_ratio <= 1.06);
        assert_int_equal(anchored->rows[i].confidence, CONFIDENCE_ANCHORED);
        assert_true(band_is_datasheet(&anchored->rows[i]) == band_is_datasheet(&bands.rows[i]));
    }
    bands.anchored.row_count = 0;
    assert_ptr_equal(bands_anchored(*state, &bands), &bands);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(larger_runs_of_a_slower_machine_are_predicted_by_its_smallest),
        cmocka_unit_test(unfitted_series_are_met_by_their_smallest_runs),
        cmocka_unit_test(only_runs_on_the_fewest_gpus_anchor_a_series),
        cmocka_unit_test(a_run_at_the_memory_limit_corrects_nothing),
        cmocka_unit_test(corrected_constants_are_those_of_device_and_stack_and_say_so),
        cmocka_unit_test(runs_of_other_machines_and_software_are_refused),
        cmocka_unit_test(an_anchored_band_is_no_wider_than_either),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
