#include "tests/support/test.h"
#include "validation/fit_terms.h"

#include <math.h>

static struct device *device_of(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct json_document document;
    const char *text = arena_print(arena, "\"%s\"", name);
    assert_true(json_parse(arena, "name", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    struct device *device = device_read(arena, &root, &err);
    assert_non_null(device);
    return device;
}

static struct fit_machines machines_of(struct arena *arena)
{
    struct err err = {0};
    struct fit_machines machines = {
        .devices = ARENA_NEW(arena, struct device *, 3),
        .stacks = ARENA_NEW(arena, struct stack *, 1),
        .fabrics = fabrics_copy(arena, fabrics_load(arena, &err)),
        .device_count = 3,
        .stack_count = 1,
    };
    machines.devices[0] = device_copy(arena, device_of(arena, "h100-sxm5-80g"));
    machines.devices[1] = device_copy(arena, device_of(arena, "h800-sxm5-80g"));
    machines.devices[2] = device_copy(arena, device_of(arena, "l40s-48g"));
    machines.stacks[0] = stack_copy(arena, stack_load(arena, "megatron-core", &err));
    assert_string_equal(err.text, "");
    return machines;
}

static const struct fit_parameter *find(const struct fit_parameters *parameters, const char *owner,
                                        const char *key)
{
    for (int i = 0; i < parameters->count; i++) {
        const struct fit_parameter *parameter = &parameters->items[i];
        if (strcmp(parameter->owner_name, owner) != 0) continue;
        for (int k = 0; k < parameter->member_count; k++) {
            if (strcmp(parameter->members[k].key, key) == 0) return parameter;
        }
    }
    return NULL;
}

static void fp16_and_bf16_move_together_and_every_owner_by_itself(void **state)
{
    struct fit_machines machines = machines_of(*state);
    struct fit_parameters parameters = fit_parameters_make(*state, &machines, false);
    const char *key = "efficiency.gemm_ratio.bf16";
    const struct fit_parameter *products = find(&parameters, "h100-sxm5-80g", key);
    assert_ptr_equal(products, find(&parameters, "h100-sxm5-80g", "efficiency.gemm_ratio.fp16"));
    assert_int_equal(products->member_count, 2);
    assert_int_equal(products->owner_index, 0);
    const struct fit_parameter *other = find(&parameters, "h800-sxm5-80g", key);
    assert_ptr_not_equal(products, other);
    assert_int_equal(other->owner_index, 1);
    assert_null(find(&parameters, "h100-sxm5-80g", "efficiency.gemm_ratio.fp32"));
    assert_non_null(find(&parameters, "megatron-core", "gemm_scale"));
    assert_non_null(find(&parameters, "infiniband", "efficiency_ratio"));
}

// 0 is switched off, whatever the runs say.
static void what_is_switched_off_is_not_fitted(void **state)
{
    struct fit_machines machines = machines_of(*state);
    machines.stacks[0]->tp_overlap_ratio = 0;
    machines.stacks[0]->overlap_ratio = 1;
    struct fit_parameters parameters = fit_parameters_make(*state, &machines, false);
    assert_null(find(&parameters, "megatron-core", "tp_overlap_ratio"));
    assert_null(find(&parameters, "megatron-core", "overlap_ratio"));
}

static void a_spread_is_the_relative_change_near_the_prior(void **state)
{
    (void)state;
    struct fit_member rate = {.prior = 3, .spread = 0.1, .low = 0, .high = 100};
    struct fit_member share = {.prior = 0.7, .spread = 0.1, .low = 0, .high = 1, .is_share = true};
    assert_true(fit_member_value(&rate, 0) == 3 && fit_member_value(&share, 0) == 0.7);
    assert_true(fabs(fit_member_value(&rate, 2) - 3 * exp(0.2)) < 1e-12);
    double slope = (fit_member_value(&share, 0.01) - fit_member_value(&share, -0.01)) / 0.02;
    assert_true(fabs(slope / 0.7 - 0.1) < 1e-4);
}

static void values_stay_within_what_a_file_may_hold(void **state)
{
    (void)state;
    struct fit_member rate = {.prior = 3, .spread = 0.5, .low = 0.05, .high = 4};
    struct fit_member share = {
        .prior = 0.9, .spread = 0.3, .low = 1e-4, .high = 1, .is_share = true};
    assert_true(fit_member_value(&rate, 5) == 4);
    assert_true(fit_member_value(&rate, -20) == 0.05);
    for (double z = -6; z < 6; z += 0.5) {
        double value = fit_member_value(&share, z);
        assert_true(value >= 1e-4 && value < 1);
        assert_true(value < fit_member_value(&share, z + 0.5));
    }
}

static void setting_moves_every_member_and_zero_brings_the_priors_back(void **state)
{
    struct fit_machines machines = machines_of(*state);
    struct fit_parameters parameters = fit_parameters_make(*state, &machines, false);
    double *z = ARENA_NEW(*state, double, parameters.count);
    const struct fit_parameter *host = find(&parameters, "megatron-core", "host_op_s");
    fit_parameters_set(&parameters, z);
    double bf16 = machines.devices[0]->efficiency.gemm_ratio[PRECISION_BF16];
    double host_s = machines.stacks[0]->host_op_s;
    assert_true(host_s == host->members[0].prior);
    for (int i = 0; i < parameters.count; i++) {
        z[i] = 1;
    }
    fit_parameters_set(&parameters, z);
    assert_true(machines.devices[0]->efficiency.gemm_ratio[PRECISION_BF16] > 1.05 * bf16);
    assert_true(machines.devices[0]->efficiency.gemm_ratio[PRECISION_FP16] > 1.05 * bf16);
    // A duration has 1 s as its limit and is no share for that.
    double grown = machines.stacks[0]->host_op_s / host_s;
    assert_true(fabs(grown - exp(host->members[0].spread)) < 1e-9);
    memset(z, 0, (size_t)parameters.count * sizeof *z);
    fit_parameters_set(&parameters, z);
    assert_true(machines.devices[0]->efficiency.gemm_ratio[PRECISION_BF16] == bf16);
    assert_true(machines.stacks[0]->host_op_s == host_s);
}

// A fitted constant starts from the prior of the fit before, not from where that fit led.
static void the_prior_of_a_fitted_constant_is_that_of_its_provenance(void **state)
{
    struct fit_machines machines = machines_of(*state);
    struct stack *stack = machines.stacks[0];
    for (int i = 0; i < stack->provenance_count; i++) {
        if (strcmp(stack->provenance[i].key, "gemm_scale") != 0) continue;
        stack->provenance[i] =
            (struct provenance){"gemm_scale", PROVENANCE_FITTED, "a fit", 0.8, 0.07};
    }
    struct fit_parameters parameters = fit_parameters_make(*state, &machines, false);
    const struct fit_parameter *scale = find(&parameters, "megatron-core", "gemm_scale");
    assert_true(scale->members[0].prior == 0.8 && scale->members[0].spread == 0.07);
}

static void published_values_are_trusted_more_than_estimated_ones(void **state)
{
    struct fit_machines machines = machines_of(*state);
    struct fit_parameters parameters = fit_parameters_make(*state, &machines, false);
    double spread[2] = {0};
    struct stack *stack = machines.stacks[0];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < stack->provenance_count; i++) {
            if (strcmp(stack->provenance[i].key, "gemm_scale") != 0) continue;
            stack->provenance[i].kind = round ? PROVENANCE_PUBLISHED : PROVENANCE_ESTIMATED;
        }
        parameters = fit_parameters_make(*state, &machines, false);
        spread[round] = find(&parameters, "megatron-core", "gemm_scale")->members[0].spread;
    }
    assert_true(spread[1] > 0 && spread[1] < spread[0]);
}

// H100 and H800 are one chip, the L40S another.
static void devices_of_one_silicon_are_tied(void **state)
{
    struct fit_machines machines = machines_of(*state);
    struct fit_parameters parameters = fit_parameters_make(*state, &machines, false);
    assert_true(parameters.tie_count > 0);
    for (int i = 0; i < parameters.tie_count; i++) {
        const struct fit_parameter *a = &parameters.items[parameters.ties[i].a];
        const struct fit_parameter *b = &parameters.items[parameters.ties[i].b];
        assert_ptr_equal(a->term, b->term);
        assert_int_equal(a->owner_index + b->owner_index, 1);
    }
    bool *kept = ARENA_NEW(*state, bool, parameters.count);
    for (int i = 0; i < parameters.count; i++) {
        kept[i] = parameters.items[i].owner == CONSTANT_DEVICE;
    }
    struct fit_parameters devices = fit_parameters_keep(*state, &parameters, kept);
    assert_int_equal(devices.tie_count, parameters.tie_count);
    for (int i = 0; i < devices.tie_count; i++) {
        assert_string_equal(devices.items[devices.ties[i].a].members[0].key,
                            devices.items[devices.ties[i].b].members[0].key);
    }
    kept[0] = false;
    assert_true(fit_parameters_keep(*state, &parameters, kept).tie_count < parameters.tie_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp16_and_bf16_move_together_and_every_owner_by_itself),
        cmocka_unit_test(what_is_switched_off_is_not_fitted),
        cmocka_unit_test(a_spread_is_the_relative_change_near_the_prior),
        cmocka_unit_test(values_stay_within_what_a_file_may_hold),
        cmocka_unit_test(setting_moves_every_member_and_zero_brings_the_priors_back),
        cmocka_unit_test(the_prior_of_a_fitted_constant_is_that_of_its_provenance),
        cmocka_unit_test(published_values_are_trusted_more_than_estimated_ones),
        cmocka_unit_test(devices_of_one_silicon_are_tied),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
