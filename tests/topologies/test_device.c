#include "core/file.h"
#include "tests/support/test.h"
#include "topologies/device.h"

#include <math.h>

static struct device *load_device(struct arena *arena, const char *name)
{
    struct err err = {0};
    struct json_document document;
    const char *text = arena_print(arena, "\"%s\"", name);
    assert_true(json_parse(arena, "name", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    struct device *device = device_read(arena, &root, &err);
    assert_string_equal(err.text, "");
    assert_non_null(device);
    return device;
}

static char *text_of(struct arena *arena, const struct device *device)
{
    struct json_writer writer = {.arena = arena};
    device_write(&writer, NULL, device);
    return writer.text;
}

static void every_shipped_device_reads_and_has_the_name_of_its_file(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "topologies/devices", &count);
    assert_true(count >= 20);
    for (int i = 0; i < count; i++) {
        assert_string_equal(load_device(*state, names[i])->name, names[i]);
    }
}

static void every_published_run_finds_its_device(void **state)
{
    static const char *const NAMES[] = {
        "v100-sxm2-32g", "v100-sxm3-32g",  "a100-sxm4-40g",  "a100-sxm4-80g", "h100-sxm5-80g",
        "h800-sxm5-80g", "h200-sxm5-141g", "b200-sxm-180g",  "b300-sxm-288g", "gb200-186g",
        "gb300-288g",    "a100-pcie-80g",  "h100-96g-hbm2e",
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        assert_string_equal(load_device(*state, NAMES[i])->kind, "gpu");
    }
}

static void every_shipped_device_is_written_as_it_was_read(void **state)
{
    struct arena *arena = *state;
    int count = 0;
    const char **names = file_list_data(arena, "topologies/devices", &count);
    for (int i = 0; i < count; i++) {
        struct err err = {0};
        struct json_document document;
        struct device *device = load_device(arena, names[i]);
        const char *text = text_of(arena, device);
        assert_true(json_parse(arena, "copy", text, strlen(text), &document, &err));
        struct json root = json_root(&document);
        struct device *copy = device_read(arena, &root, &err);
        assert_string_equal(err.text, "");
        assert_true(device_equals(device, copy));
        assert_string_equal(text_of(arena, copy), text);
    }
}

// Slips of a factor of ten or of two (sparse peaks) in a device file would pass every other test.
static void the_constants_of_shipped_devices_are_plausible(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "topologies/devices", &count);
    for (int i = 0; i < count; i++) {
        const struct device *device = load_device(*state, names[i]);
        const double *peak = device->peak_flop_per_s;
        // A TPU and a Gaudi have matrix units for bf16 alone; those of a Gaudi take fp8 as fast.
        bool is_gpu = strcmp(device->kind, "gpu") == 0, is_hpu = strcmp(device->kind, "hpu") == 0;
        double half = fmax(peak[PRECISION_FP16], peak[PRECISION_BF16]);
        double least_fp8 = is_hpu ? 1 : 1.99;
        assert_true(half >= 100e12 && half <= 2.6e15);
        assert_true(!is_gpu || peak[PRECISION_FP16] == half);
        assert_true(peak[PRECISION_BF16] == 0 || peak[PRECISION_BF16] == half);
        assert_true(peak[PRECISION_FP16] == 0 || peak[PRECISION_FP16] == half);
        assert_true(peak[PRECISION_FP8] == 0 || peak[PRECISION_FP8] >= least_fp8 * half);
        assert_true(peak[PRECISION_FP8] <= 2.1 * half);
        assert_true(!is_gpu || peak[PRECISION_FP32] > 0);
        assert_true(peak[PRECISION_FP32] < half);
        assert_true(device->memory_bytes >= 24000000000 && device->memory_bytes <= 310000000000);
        double bytes_per_flop = device->memory_bandwidth_bytes_per_s / half;
        assert_true(bytes_per_flop > 1e-3 && bytes_per_flop < 2e-2);
    }
}

static void the_nearest_provenance_speaks_of_a_constant(void **state)
{
    const struct device *device = load_device(*state, "h100-sxm5-80g");
    const struct provenance *fp32 = device_provenance(device, "efficiency.gemm_ratio.fp32");
    const struct provenance *fp8 = device_provenance(device, "efficiency.gemm_ratio.fp8");
    assert_string_equal(fp32->key, "efficiency.gemm_ratio");
    assert_string_equal(fp8->key, "efficiency.gemm_ratio.fp8");
    assert_string_equal(provenance_kind_name(fp32->kind), "estimated");
    assert_null(device_provenance(device, "efficiency.gemm"));
    assert_null(device_provenance(device, "colour"));
}

static void volta_has_no_bf16_and_says_so_with_a_zero(void **state)
{
    const struct device *device = load_device(*state, "v100-sxm2-32g");
    assert_true(device->peak_flop_per_s[PRECISION_BF16] == 0);
    assert_true(device->peak_flop_per_s[PRECISION_FP16] == 125e12);
    assert_true(device->efficiency.gemm_ratio[PRECISION_BF16] == 0);
}

static void one_different_constant_makes_another_device(void **state)
{
    const struct device *device = load_device(*state, "h100-sxm5-80g");
    struct device other = *device;
    assert_true(device_equals(device, &other));
    other.efficiency.memory_ratio *= 0.99;
    assert_false(device_equals(device, &other));
    other = *device;
    other.peak_flop_per_s[PRECISION_FP8] = 0;
    assert_false(device_equals(device, &other));
}

static void kernels_alone_have_rates_of_their_own(void **state)
{
    const struct device *device = load_device(*state, "h200-sxm5-141g");
    const struct device *alone = device_alone(*state, device, PRECISION_BF16);
    assert_non_null(alone);
    assert_true(alone->efficiency.gemm_ratio[PRECISION_BF16] ==
                device->alone.gemm_ratio[PRECISION_BF16]);
    assert_true(alone->efficiency.gemm_ratio[PRECISION_BF16] >
                device->efficiency.gemm_ratio[PRECISION_BF16]);
    assert_true(alone->efficiency.memory_ratio == device->alone.memory_ratio);
    assert_true(alone->efficiency.gemm_k_ramp == device->efficiency.gemm_k_ramp);
    assert_true(alone->launch_latency_s == 0 && device->launch_latency_s > 0);
    assert_null(device_alone(*state, device, PRECISION_FP32));
    struct device other = *device;
    other.alone.memory_ratio *= 0.99;
    assert_false(device_equals(device, &other));
    device = load_device(*state, "h100-sxm5-80g");
    assert_null(device_alone(*state, device, PRECISION_BF16));
}

static void precisions_have_names_and_sizes(void **state)
{
    (void)state;
    static const double BYTES[PRECISION_COUNT] = {4, 2, 2, 1, 0.5};
    for (int i = 0; i < PRECISION_COUNT; i++) {
        enum precision precision = PRECISION_COUNT;
        assert_true(precision_from_name(precision_name((enum precision)i), &precision));
        assert_int_equal(precision, i);
        assert_true(precision_bytes(precision) == BYTES[i]);
    }
    enum precision unchanged = PRECISION_FP8;
    assert_false(precision_from_name("tf32", &unchanged));
    assert_int_equal(unchanged, PRECISION_FP8);
}

// Of bf16, fp8 and NVFP4, in TFLOP/s: what NVIDIA's recipes divide by (NVIDIA/dgxc-benchmarking).
static void peaks_are_those_that_recipes_count(void **state)
{
    static const struct {
        const char *name;
        double bf16, fp8, fp4;
    } PEAKS[] = {{"h100-sxm5-80g", 989, 1979, 0},
                 {"b200-sxm-180g", 2250, 4500, 9000},
                 {"gb200-186g", 2450, 4900, 9800},
                 {"gb300-288g", 2450, 4900, 14700}};
    for (size_t i = 0; i < sizeof PEAKS / sizeof *PEAKS; i++) {
        const double *found = load_device(*state, PEAKS[i].name)->peak_flop_per_s;
        assert_true(fabs(found[PRECISION_BF16] - PEAKS[i].bf16 * 1e12) < 1e12);
        assert_true(fabs(found[PRECISION_FP8] - PEAKS[i].fp8 * 1e12) < 1e12);
        assert_true(found[PRECISION_FP4] == PEAKS[i].fp4 * 1e12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shipped_device_reads_and_has_the_name_of_its_file),
        cmocka_unit_test(every_published_run_finds_its_device),
        cmocka_unit_test(every_shipped_device_is_written_as_it_was_read),
        cmocka_unit_test(the_constants_of_shipped_devices_are_plausible),
        cmocka_unit_test(peaks_are_those_that_recipes_count),
        cmocka_unit_test(the_nearest_provenance_speaks_of_a_constant),
        cmocka_unit_test(volta_has_no_bf16_and_says_so_with_a_zero),
        cmocka_unit_test(kernels_alone_have_rates_of_their_own),
        cmocka_unit_test(one_different_constant_makes_another_device),
        cmocka_unit_test(precisions_have_names_and_sizes),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
