#include "reports/table/fit_table.h"
#include "tests/support/test.h"
#include "validation/fit.h"

#include <math.h>
#include <stdio.h>

static struct rows rows_of(struct arena *arena, const char *family)
{
    struct err err = {0};
    struct rows rows;
    assert_true(rows_read(arena, "tests/validation/published.jsonl", &rows, &err));
    rows_keep(&rows, &(struct row_filter){.tiers = "A", .family = family});
    assert_true(rows.count > 0);
    return rows;
}

static struct fit_result run(struct arena *arena, const struct rows *rows, unsigned leave_out)
{
    struct err err = {0};
    struct fit_result result;
    const struct fit_options options = {.tiers = "A", .leave_out = leave_out};
    bool done = fit_run(arena, rows, &options, &result, &err);
    assert_string_equal(err.text, "");
    assert_true(done && result.converged);
    return result;
}

static const struct fit_constant *find(const struct fit_result *result, const char *owner,
                                       const char *key)
{
    for (int i = 0; i < result->constant_count; i++) {
        const struct fit_constant *constant = &result->constants[i];
        bool is_it = strcmp(constant->owner_name, owner) == 0 && strcmp(constant->key, key) == 0;
        if (is_it) return constant;
    }
    return NULL;
}

// Rows as a machine would measure them whose products reach `product` and whose memory `memory`
// times what the shipped files say.
static struct rows measured_elsewhere(struct arena *arena, const char *family, double product,
                                      double memory)
{
    struct err err = {0};
    struct rows rows = rows_of(arena, family);
    struct trials trials;
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    trials_ask(arena, &rows, QUESTION_STATED, &trials);
    for (int i = 0; i < trials.count; i++) {
        struct trial *trial = &trials.items[i];
        struct device *device = device_copy(arena, trial->cluster->nodes[0].device);
        device->efficiency.gemm_ratio[PRECISION_BF16] *= product;
        device->efficiency.gemm_ratio[PRECISION_FP16] *= product;
        device->efficiency.memory_ratio *= memory;
        device->efficiency.gemm_memory_ratio *= memory;
        trial->cluster = cluster_with_device(arena, trial->cluster, device);
        trial_answer(arena, trial, fabrics, NULL);
        assert_true(trial->answered);
        rows.items[i].step_s = trial->prediction.step_s;
    }
    return rows;
}

// What was shifted comes back as far as the prior lets it, and the steps with it: a constant of the
// device and its factor of the stack are one product.
static void shifted_constants_of_a_device_come_back(void **state)
{
    struct rows rows = measured_elsewhere(*state, "mpt-a100", 0.88, 1.1);
    struct fit_result result = run(*state, &rows, 0);
    assert_int_equal(result.row_count, rows.count);
    assert_int_equal(result.family_count, 1);
    double before = 0, after = 0;
    for (int i = 0; i < result.prediction_count; i++) {
        const struct fit_prediction *prediction = &result.predictions[i];
        before += fabs(log(prediction->prior_s / prediction->row->step_s)) / rows.count;
        after += fabs(log(prediction->step_s / prediction->row->step_s)) / rows.count;
    }
    assert_true(before > 0.04);
    assert_true(after < 0.3 * before);
    const struct fit_constant *ratio = find(&result, "a100-sxm4-80g", "efficiency.gemm_ratio.bf16");
    const struct fit_constant *scale = find(&result, "fsdp", "gemm_scale");
    double product = ratio->value / ratio->prior * scale->value / scale->prior;
    assert_true(fabs(product - 0.88) < 0.05);
    assert_true(ratio->row_count > 0 && ratio->moved < 0);
}

// A row measured at half its step among sixty is an outlier, not a faster machine.
static void one_wrong_row_does_not_move_the_others(void **state)
{
    struct rows rows = measured_elsewhere(*state, "mpt-a100", 1, 1);
    struct fit_result right = run(*state, &rows, 0);
    rows.items[7].step_s /= 2;
    struct fit_result result = run(*state, &rows, 0);
    for (int i = 0; i < result.prediction_count; i++) {
        double moved = log(result.predictions[i].step_s / right.predictions[i].step_s);
        assert_true(fabs(moved) < 0.01);
    }
}

// The prediction of a family that was left out is that of a fit that never saw it.
static void leaving_a_family_out_equals_a_fit_without_it(void **state)
{
    struct rows rows = rows_of(*state, "dgxc-h100-llama8b");
    struct rows others = rows_of(*state, "mbridge-llama3_8b-h100");
    struct rows both = {ARENA_NEW(*state, struct row, rows.count + others.count), 0};
    for (int i = 0; i < rows.count; i++) {
        both.items[both.count++] = rows.items[i];
    }
    for (int i = 0; i < others.count; i++) {
        both.items[both.count++] = others.items[i];
    }
    struct fit_result all = run(
        *state, &both, 1u << FIT_LEAVE_FAMILY | 1u << FIT_LEAVE_DEVICE | 1u << FIT_LEAVE_SOFTWARE);
    for (int i = rows.count; i < both.count; i++) {
        both.items[i].tier = 'B';  // predicted, not fitted
    }
    struct fit_result without = run(*state, &both, 0);
    assert_int_equal(all.prediction_count, without.prediction_count);
    for (int i = rows.count; i < both.count; i++) {
        double left_out_s = all.predictions[i].left_out_s[FIT_LEAVE_FAMILY];
        assert_false(without.predictions[i].fitted);
        assert_true(fabs(log(left_out_s / without.predictions[i].step_s)) < 3e-3);
        // Without their device or their software, which is that of all, nothing is left: the
        // priors.
        double software_out_s = all.predictions[i].left_out_s[FIT_LEAVE_SOFTWARE];
        assert_true(software_out_s == all.predictions[i].left_out_s[FIT_LEAVE_DEVICE]);
        double device_out_s = all.predictions[i].left_out_s[FIT_LEAVE_DEVICE];
        assert_true(fabs(log(device_out_s / all.predictions[i].prior_s)) < 1e-6);
        assert_true(all.predictions[i].left_out_s[FIT_LEAVE_SOURCE] == 0);
    }
}

static void the_same_rows_give_the_same_bytes(void **state)
{
    struct rows rows = rows_of(*state, "dgxc-h100-llama8b");
    struct fit_result first = run(*state, &rows, 1u << FIT_LEAVE_DEVICE);
    struct fit_result second = run(*state, &rows, 1u << FIT_LEAVE_DEVICE);
    assert_string_equal(fit_json_text(*state, &first), fit_json_text(*state, &second));
    assert_string_equal(fit_errors_text(*state, &first), fit_errors_text(*state, &second));
}

// Also where no family was left out, and the columns of that are empty.
static void a_family_shows_how_many_of_its_rows_were_fitted(void **state)
{
    struct rows rows = rows_of(*state, "dgxc-h100-llama8b");
    struct fit_result result = run(*state, &rows, 0);
    const char *line = strstr(fit_errors_text(*state, &result), "\ndgxc-h100-llama8b");
    int count = 0;
    assert_non_null(line);
    assert_int_equal(sscanf(line, "\n%*s %d", &count), 1);
    assert_int_equal(count, result.row_count);
}

static void silicon_of_other_devices_moves_along(void **state)
{
    struct rows rows = measured_elsewhere(*state, "dgxc-h100-llama8b", 0.88, 1);
    struct fit_result result = run(*state, &rows, 0);
    const struct fit_constant *known = find(&result, "h100-sxm5-80g", "efficiency.gemm_ratio.bf16");
    const struct fit_constant *other = find(&result, "h800-sxm5-80g", "efficiency.gemm_ratio.bf16");
    assert_int_equal(other->row_count, 0);
    assert_true(known->moved < -0.2 && other->moved < 0.2 * known->moved);
    assert_null(find(&result, "a100-sxm4-80g", "efficiency.gemm_ratio.bf16"));
}

static void a_network_that_was_assumed_teaches_nothing(void **state)
{
    struct rows rows = rows_of(*state, "zero-bubble-14.6b");
    struct fit_result result = run(*state, &rows, 0);
    assert_false(rows.items[0].network_stated);
    assert_null(find(&result, "megatron-zero-bubble", "network_scale"));
    assert_null(find(&result, "infiniband", "efficiency_ratio"));
    assert_non_null(find(&result, "megatron-zero-bubble", "gemm_scale"));
}

static void rows_of_no_wanted_tier_are_an_error(void **state)
{
    struct err err = {0};
    struct fit_result result;
    struct rows rows = rows_of(*state, "dgxc-h100-llama8b");
    const struct fit_options options = {.tiers = "C"};
    assert_false(fit_run(*state, &rows, &options, &result, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_string_equal(err.text, "no row of tier C with a measured step can be predicted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shifted_constants_of_a_device_come_back),
        cmocka_unit_test(one_wrong_row_does_not_move_the_others),
        cmocka_unit_test(leaving_a_family_out_equals_a_fit_without_it),
        cmocka_unit_test(the_same_rows_give_the_same_bytes),
        cmocka_unit_test(a_family_shows_how_many_of_its_rows_were_fitted),
        cmocka_unit_test(silicon_of_other_devices_moves_along),
        cmocka_unit_test(a_network_that_was_assumed_teaches_nothing),
        cmocka_unit_test(rows_of_no_wanted_tier_are_an_error),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
