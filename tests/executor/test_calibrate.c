#include "tests/support/test.h"

#include "tests/support/fake_machine.h"

#include "cli/local.h"
#include "models/op.h"

#include <math.h>
#include <unistd.h>

static const struct machine_facts FACTS = {
    .processor = "a processor",
    .libraries = "a library",
    .date = "2026-11-21",
    .version = "0",
    .core_count = 2,
    .memory_bytes = 8000000000,
    .cache_bytes = 1000000,
};

static struct calibration measure(struct arena *arena, struct fake_machine *fake)
{
    struct err err = {0};
    struct calibration calibration;
    fake_machine_use(fake);
    struct calibrate_request request = fake_machine_request(fake);
    bool done = calibrate(arena, &request, &calibration, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    return calibration;
}

static struct machine make(struct arena *arena, const struct calibration *calibration)
{
    struct err err = {0};
    const struct stack *stack = stack_load(arena, "meshwright-cpu", &err);
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    return machine_make(arena, calibration, &FACTS, stack, fabrics);
}

static void assert_near(double found, double expected, double tolerance)
{
    if (fabs(found - expected) <= tolerance * fabs(expected)) return;
    fail_msg("found %g, expected %g within %g %%", found, expected, 100 * tolerance);
}

static void the_rates_of_a_machine_are_found_again(void **state)
{
    struct fake_machine fake = FAKE_PROCESSOR;
    struct calibration calibration = measure(*state, &fake);
    struct machine machine = make(*state, &calibration);
    const struct device *device = machine.device;
    const struct device_efficiency *efficiency = &device->efficiency;
    double peak = device->peak_flop_per_s[PRECISION_FP32];
    assert_near(peak * efficiency->gemm_ratio[PRECISION_FP32], 80e9, 0.05);
    assert_near(efficiency->gemm_k_ramp, 24, 0.7);
    assert_near(device->memory_bandwidth_bytes_per_s * efficiency->memory_ratio, 25e9, 0.01);
    assert_near(device->launch_latency_s, 1e-7, 0.01);
    assert_near(machine.errors[MACHINE_GEMM].mean_ratio, 1, 0.03);
    assert_near(machine.errors[MACHINE_ATTENTION].mean_ratio, 1, 0.1);
    for (int k = MACHINE_GEMM; k <= MACHINE_MEMORY; k++)
        assert_near(machine.errors[k].predicted_s, machine.errors[k].measured_s, 0.02);
}

static void collectives_are_priced_as_they_were_measured(void **state)
{
    struct fake_machine fake = FAKE_PROCESSOR;
    fake.rank_count = 4;
    struct calibration calibration = measure(*state, &fake);
    struct machine machine = make(*state, &calibration);
    const struct intra_fabric *intra = &machine.cluster->nodes[0].intra;
    assert_int_equal(machine.cluster->rank_count, 4);
    assert_near(intra->latency_s, 3e-6, 0.3);
    assert_near(intra->bandwidth_bytes_per_s, 4e9, 0.1);
    assert_near(machine.errors[MACHINE_EXCHANGE].mean_ratio, 1, 0.15);
}

static void ranks_beyond_the_cores_have_a_share_of_one(void **state)
{
    struct fake_machine fake = FAKE_PROCESSOR;
    fake.rank_count = 8;
    struct calibration calibration = measure(*state, &fake);
    struct machine machine = make(*state, &calibration);
    const struct device *alone = machine.device, *shared = machine.cluster->nodes[0].device;
    assert_near(shared->peak_flop_per_s[PRECISION_FP32], alone->peak_flop_per_s[PRECISION_FP32] / 4,
                1e-9);
    assert_near(shared->launch_latency_s, 4 * alone->launch_latency_s, 1e-9);
    assert_int_equal(shared->memory_bytes, 1000000000);
    // Waiting for a collective takes no core.
    assert_near(machine.errors[MACHINE_EXCHANGE].mean_ratio, 1, 0.15);
}

static void a_slow_machine_is_measured_with_less(void **state)
{
    struct fake_machine fake = FAKE_PROCESSOR;
    struct calibration all = measure(*state, &fake);
    fake = FAKE_PROCESSOR;
    fake.slowness = 20;
    struct calibration some = measure(*state, &fake);
    assert_true(some.kernel_count < all.kernel_count);
    assert_true(some.kernel_count > 0 && some.round_count >= 1);
    assert_true(all.taken_s <= 15 && some.taken_s <= 15);
    fake = FAKE_PROCESSOR;
    fake.slowness = 1e6;
    struct calibration least = measure(*state, &fake);
    assert_int_equal(least.round_count, 1);
    assert_true(least.kernel_count > 0 && least.kernel_count < some.kernel_count);
    // What others leave of the machine changes what can be measured, not what is.
    assert_near(least.kernels[0].s, all.kernels[0].s, 1e-9);
}

static void a_kernel_that_fails_is_named(void **state)
{
    struct fake_machine fake = FAKE_PROCESSOR;
    struct err err = {0};
    struct calibration calibration;
    fake.fails_at = "mlp.down";
    fake_machine_use(&fake);
    struct calibrate_request request = fake_machine_request(&fake);
    assert_false(calibrate(*state, &request, &calibration, &err));
    assert_string_equal(err.text, "measuring mlp.down: it is broken");
    assert_int_equal(err.kind, ERR_SYSTEM);
}

static void what_is_written_is_read_again(void **state)
{
    struct arena *arena = *state;
    struct fake_machine fake = FAKE_PROCESSOR;
    fake.rank_count = 2;
    struct calibration calibration = measure(arena, &fake);
    struct machine machine = make(arena, &calibration);
    const struct local_key key = {"a processor", "a library", "0", "b", 2, 2, 8000000000, "cpu"};
    const struct local made = {machine.cluster, machine.stack, machine.kernels};
    const char *text = local_text(arena, &key, &made);
    char path[] = "/tmp/meshwright-test-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    struct local found;
    bool is_stale = true;
    struct err err = {0};
    bool done = local_read(arena, path, &key, &found, &is_stale, &err);
    unlink(path);
    assert_string_equal(err.text, "");
    assert_true(done && !is_stale);
    assert_true(device_equals(found.cluster->nodes[0].device, machine.cluster->nodes[0].device));
    assert_string_equal(local_text(arena, &key, &found), text);
    const struct provenance *origin = device_provenance(machine.device, "efficiency.memory_ratio");
    assert_int_equal(origin->kind, PROVENANCE_MEASURED);
    assert_non_null(strstr(origin->source, "2026-11-21, a processor"));
}

// Whatever the last bits of a rate are, no ratio of the peak is above 1.
static void what_any_machine_gives_is_read_again(void **state)
{
    struct arena *arena = *state;
    const struct local_key key = {"a processor", "a library", "0", "b", 2, 1, 8000000000, "cpu"};
    for (int i = 0; i < 60; i++) {
        struct err err = {0};
        struct fake_machine fake = FAKE_PROCESSOR;
        fake.gemm_flop_per_s = 80e9 * pow(1.07, i);
        fake.gemm_k_ramp = 2 * i;
        fake.attention_flop_per_s = 90e9 * pow(1.06, i);
        fake_machine_use(&fake);
        struct calibrate_request request = fake_machine_request(&fake);
        struct calibration calibration;
        request.is_short = true;
        assert_true(calibrate(arena, &request, &calibration, &err));
        struct machine machine = make(arena, &calibration);
        const struct local made = {machine.cluster, machine.stack, machine.kernels};
        struct local found;
        bool done = local_parse(arena, local_text(arena, &key, &made), &key, &found, &err);
        assert_string_equal(err.text, "");
        assert_true(done);
    }
}

static void the_table_has_every_kind_and_every_size(void **state)
{
    struct arena *arena = *state;
    struct fake_machine fake = FAKE_PROCESSOR;
    fake.rank_count = 2;
    struct calibration calibration = measure(arena, &fake);
    struct machine machine = make(arena, &calibration);
    struct err err = {0};
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    const char *text = machine_text(arena, &machine, &calibration, &FACTS, fabrics, false);
    static const char *const WORDS[] = {"contract, weight", "attention_backward, backward",
                                        "norm, forward",    "adamw and its norm",
                                        "all-reduce",       "send-recv",
                                        "16.0 MiB",         "a processor, a library"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        assert_non_null(strstr(text, WORDS[i]));
    const char *rows = machine_text(arena, &machine, &calibration, &FACTS, fabrics, true);
    assert_non_null(strstr(rows, "256 x 2560 x 640"));
}

static void ranks_are_bound_where_there_are_cores_enough(void **state)
{
    (void)state;
    int cores = binding_core_count();
    assert_true(cores >= 1);
    struct binding crowded = binding_make(0, cores + 1);
    assert_false(crowded.is_bound);
    assert_int_equal(crowded.core_count, cores);
    struct binding alone = binding_make(0, 1);
    struct binding inside = binding_make(0, 1);
    binding_undo(&inside);
    binding_undo(&alone);
    assert_false(alone.is_bound);
    assert_int_equal(binding_core_count(), cores);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rates_of_a_machine_are_found_again),
        cmocka_unit_test(collectives_are_priced_as_they_were_measured),
        cmocka_unit_test(ranks_beyond_the_cores_have_a_share_of_one),
        cmocka_unit_test(a_slow_machine_is_measured_with_less),
        cmocka_unit_test(a_kernel_that_fails_is_named),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(what_any_machine_gives_is_read_again),
        cmocka_unit_test(the_table_has_every_kind_and_every_size),
        cmocka_unit_test(ranks_are_bound_where_there_are_cores_enough),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
