#include "tests/support/test.h"

#include "tests/support/fake_machine.h"

#include "cli/local.h"

#include <math.h>
#include <stdio.h>

// A GPU whose clock is a formula: what calibration makes of it is known beforehand.

static const struct backend_device_facts H200 = {
    .name = "NVIDIA H200",
    .libraries = "libraries",
    .driver = "580.1",
    .memory_bytes = 150000000000,
    .device_count = 2,
    .multiprocessor_count = 132,
    .capability = 90,
    .clock_hz = 1.98e9,
    .cache_bytes = 50 << 20,
    .exponential_per_s = 4.18e12,
};

static struct calibration measure(struct arena *arena, struct fake_machine *fake,
                                  int64_t memory_bytes)
{
    struct err err = {0};
    struct calibration calibration;
    fake_machine_use(fake);
    struct calibrate_request request = fake_device_request(fake);
    request.memory_bytes = memory_bytes;
    bool done = calibrate(arena, &request, &calibration, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    return calibration;
}

static struct machine make(struct arena *arena, const struct calibration *calibration,
                           const struct device *like)
{
    struct err err = {0};
    const struct stack *stack = stack_load(arena, GPU_STACK, &err);
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    const struct machine_facts facts = {.processor = H200.name,
                                        .libraries = H200.libraries,
                                        .date = "2026-11-21",
                                        .version = "0",
                                        .core_count = 16,
                                        .memory_bytes = 128000000000,
                                        .device = &H200,
                                        .like = like};
    assert_string_equal(err.text, "");
    return machine_make(arena, calibration, &facts, stack, fabrics);
}

static void assert_near(double found, double expected, double tolerance)
{
    if (fabs(found - expected) <= tolerance * fabs(expected)) return;
    fail_msg("found %g, expected %g within %g %%", found, expected, 100 * tolerance);
}

static void each_precision_has_the_rate_of_its_own_products(void **state)
{
    struct fake_machine fake = FAKE_DEVICE;
    struct calibration calibration = measure(*state, &fake, 0);
    struct machine machine = make(*state, &calibration, NULL);
    const struct device *device = machine.device;
    const double *ratio = device->efficiency.gemm_ratio, *peak = device->peak_flop_per_s;
    assert_int_equal(calibration.precision, PRECISION_BF16);
    assert_string_equal(device->kind, "gpu");
    assert_int_equal(device->multiprocessor_count, 132);
    assert_near(ratio[PRECISION_BF16] * peak[PRECISION_BF16], 700e12, 0.1);
    assert_near(ratio[PRECISION_FP32] * peak[PRECISION_FP32], 50e12, 0.1);
    // What the back end does not compute in the planner must not propose.
    assert_true(peak[PRECISION_FP16] == 0 && peak[PRECISION_FP8] == 0);
    assert_near(machine.errors[MACHINE_GEMM].mean_ratio, 1, 0.15);
}

static void the_device_and_its_host_are_told_apart(void **state)
{
    struct fake_machine fake = FAKE_DEVICE;
    struct calibration calibration = measure(*state, &fake, 0);
    assert_near(calibration.call_s, 3e-6, 1e-6);
    assert_near(calibration.host_call_s, 8e-6, 1e-6);  // the fake device works while it is called
    assert_near(calibration.to_host_bytes_per_s, 40e9, 1e-6);
    assert_near(calibration.from_host_bytes_per_s, 40e9, 1e-6);
    struct machine machine = make(*state, &calibration, NULL);
    assert_near(machine.device->launch_latency_s, 3e-6, 1e-6);
    assert_near(machine.stack->host_op_s, calibration.host_call_s, 1e-6);
    assert_near(machine.cluster->nodes[0].host.pcie_bytes_per_s, 40e9, 1e-6);
}

static void what_has_no_room_is_left_out(void **state)
{
    struct fake_machine fake = FAKE_DEVICE;
    struct calibration all = measure(*state, &fake, 0);
    fake = FAKE_DEVICE;
    struct calibration some = measure(*state, &fake, 4000000000);
    assert_true(some.kernel_count > 0 && some.kernel_count < all.kernel_count);
}

static void a_shipped_device_is_known_by_its_name_and_size(void **state)
{
    struct backend_device_facts facts = H200;
    const struct device *like = machine_like(*state, &facts);
    assert_non_null(like);
    assert_string_equal(like->name, "h200-sxm5-141g");
    snprintf(facts.name, sizeof facts.name, "NVIDIA H2001");
    assert_null(machine_like(*state, &facts));
    facts = H200;
    facts.memory_bytes = 80000000000;
    assert_null(machine_like(*state, &facts));
    facts = H200;
    facts.multiprocessor_count = 16;  // a part of one
    assert_null(machine_like(*state, &facts));
}

static void the_peak_is_that_of_the_data_sheet(void **state)
{
    struct fake_machine fake = FAKE_DEVICE;
    struct calibration calibration = measure(*state, &fake, 0);
    const struct device *like = machine_like(*state, &H200);
    struct machine machine = make(*state, &calibration, like);
    const struct device *device = machine.device;
    assert_near(device->peak_flop_per_s[PRECISION_BF16], 989e12, 1e-9);
    assert_near(device->efficiency.gemm_ratio[PRECISION_BF16], 700.0 / 989, 0.1);
    const struct provenance *peak = device_provenance(device, "peak_flop_per_s");
    assert_int_equal(peak->kind, PROVENANCE_DATASHEET);
    assert_non_null(strstr(peak->source, "h200-sxm5-141g"));
    const struct provenance *ratio = device_provenance(device, "efficiency.gemm_ratio");
    assert_int_equal(ratio->kind, PROVENANCE_MEASURED);
    assert_non_null(strstr(ratio->source, "2026-11-21, NVIDIA H200, driver 580.1"));
}

static void what_is_written_is_read_again(void **state)
{
    struct arena *arena = *state;
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        struct fake_machine fake = FAKE_DEVICE;
        struct err err = {0};
        struct local found;
        fake.rank_count = ranks;
        struct calibration calibration = measure(arena, &fake, 0);
        struct machine machine =
            make(arena, &calibration, ranks > 1 ? machine_like(arena, &H200) : NULL);
        const struct local_key key = {"NVIDIA H200", "libraries",  "0",   "b", 16,
                                      ranks,         150000000000, "cuda"};
        const struct local made = {machine.cluster, machine.stack, machine.kernels};
        bool done = local_parse(arena, local_text(arena, &key, &made), &key, &found, &err);
        assert_string_equal(err.text, "");
        assert_true(done);
        assert_true(
            device_equals(found.cluster->nodes[0].device, machine.cluster->nodes[0].device));
    }
}

static void ranks_beyond_the_devices_have_a_share_of_one(void **state)
{
    struct fake_machine fake = FAKE_DEVICE;
    fake.rank_count = 4;
    struct calibration calibration = measure(*state, &fake, 0);
    struct machine machine = make(*state, &calibration, NULL);
    const struct device *alone = machine.device, *shared = machine.cluster->nodes[0].device;
    assert_near(shared->peak_flop_per_s[PRECISION_BF16], alone->peak_flop_per_s[PRECISION_BF16] / 2,
                1e-9);
    assert_int_equal(shared->memory_bytes, alone->memory_bytes / 2);
    assert_near(machine.errors[MACHINE_EXCHANGE].mean_ratio, 1, 0.25);
}

static void a_kernel_that_fails_is_named(void **state)
{
    struct fake_machine fake = FAKE_DEVICE;
    struct err err = {0};
    struct calibration calibration;
    fake.fails_at = "mlp.down";
    fake_machine_use(&fake);
    struct calibrate_request request = fake_device_request(&fake);
    assert_false(calibrate(*state, &request, &calibration, &err));
    assert_string_equal(err.text, "measuring mlp.down: it is broken");
}

static void the_table_names_precisions(void **state)
{
    struct arena *arena = *state;
    struct fake_machine fake = FAKE_DEVICE;
    struct err err = {0};
    struct calibration calibration = measure(arena, &fake, 0);
    struct machine machine = make(arena, &calibration, NULL);
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    const struct machine_facts facts = {.libraries = "libraries", .device = &H200};
    const char *text = machine_text(arena, &machine, &calibration, &facts, fabrics, false);
    static const char *const WORDS[] = {"contract, weight, bf16", "attention, forward, fp32",
                                        "NVIDIA H200, libraries", "on 2 devices;", "to the host"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        assert_non_null(strstr(text, WORDS[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_precision_has_the_rate_of_its_own_products),
        cmocka_unit_test(the_device_and_its_host_are_told_apart),
        cmocka_unit_test(what_has_no_room_is_left_out),
        cmocka_unit_test(a_shipped_device_is_known_by_its_name_and_size),
        cmocka_unit_test(the_peak_is_that_of_the_data_sheet),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(ranks_beyond_the_devices_have_a_share_of_one),
        cmocka_unit_test(a_kernel_that_fails_is_named),
        cmocka_unit_test(the_table_names_precisions),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
