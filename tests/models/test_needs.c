#include "tests/support/test.h"

#include "core/units.h"
#include "models/scaled.h"
#include "planner/choice.h"
#include "reports/table/model_needs.h"

#include <math.h>

// The figures that requirements, section 9, collects: what slides and articles say that models
// need.

static struct scenario_request request_of(struct arena *arena, const char *model)
{
    struct err err = {0};
    struct scenario_request request = {
        .model = model_load(arena, model, NULL, NULL, &err),
        .stack = stack_load(arena, "meshwright", &err),
        .fabrics = fabrics_load(arena, &err),
    };
    assert_string_equal(err.text, "");
    return request;
}

static struct model_needs needs_of(struct arena *arena, const char *model, int64_t seq_len)
{
    struct err err = {0};
    struct scenario_request request = request_of(arena, model);
    const struct workload workload = {.seq_len = seq_len,
                                      .global_batch = 1024,
                                      .precision = PRECISION_BF16,
                                      .optimizer = OPTIMIZER_ADAMW};
    struct model_needs needs;
    bool done = model_needs_find(&request, cluster_load(arena, "dgx-a100-80g", &err), &workload,
                                 &needs, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    return needs;
}

// Weights in 16 bits, fp32 gradients, master weights and two moments.
static double state_bytes(const struct model_needs *needs)
{
    const struct memory_parts *memory = &needs->memory;
    return (double)(memory->weights_bytes + memory->gradients_bytes + memory->optimizer_bytes);
}

static void memory_is_what_the_sources_say(void **state)
{
    struct arena *arena = *state;
    static const struct {
        const char *model;
        int64_t seq_len;
        double least, most;  // bytes
    } CASES[] = {
        {"llama-2-70b", 4096, 1200e9, 1400e9},  // V5: "1200+ GB"
        {"gpt3-175b", 2048, 2400e9, 3300e9},    // V4: "2400+ GB", V3: 2.8 TB without activations
        {"pangu-200b", 1024, 3.6e12, 4.4e12},   // V2: 4 TB
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct model_needs needs = needs_of(arena, CASES[i].model, CASES[i].seq_len);
        assert_true((double)needs.memory.peak_bytes > CASES[i].least);
        assert_true((double)needs.memory.peak_bytes < CASES[i].most);
        assert_true(fabs(state_bytes(&needs) / needs.parameter_count - 18) < 0.1);
    }
    // V6: BERT-340M takes 8 GB: more than its states, less than with two sequences more a GB.
    struct model_needs bert = needs_of(arena, "bert-340m", 512);
    double one_sequence = (double)bert.memory.peak_bytes - state_bytes(&bert);
    assert_true(state_bytes(&bert) < 8e9);
    assert_true(state_bytes(&bert) + 8 * one_sequence > 8e9);
}

static void the_memory_wall_takes_a_hundred_cards(void **state)
{
    struct arena *arena = *state;
    struct model_needs pangu = needs_of(arena, "pangu-200b", 1024);
    double cards = (double)pangu.memory.peak_bytes / 32e9;
    assert_true(cards > 100 && cards < 140);  // V2: "more than 100", 125 at 4 TB
}

static void the_compute_wall_takes_decades(void **state)
{
    (void)state;
    // V1: 3.6e23 FLOP at 256 TFLOP/s are "44 years".
    assert_true(fabs(years_of(3.6e23, 256e12) - 44.6) < 0.05);
    // V7: 300 years of one A100 for $9.2M are $3.50 an hour; 6 N D of PaLM at the card's peak takes
    // less than that, at half of it more.
    assert_true(fabs(300 * 365.0 * 24 * 3.5 / 9.2e6 - 1) < 0.005);
    double palm_flop = 6 * 540e9 * 780e9;
    assert_true(years_of(palm_flop, 312e12) < 300 && years_of(palm_flop, 156e12) > 300);
}

static void a_device_needs_at_least_its_share_of_the_bytes(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct model_needs needs = needs_of(arena, "bert-340m", 512);
    struct scenario_request request = request_of(arena, "bert-340m");
    struct sweep sweep = {.workload = needs.workload, .pins = pins_none()};
    needs.workload.tokens = sweep.workload.tokens = 1e12;
    struct device_needs device;
    assert_true(device_needs_find(arena, &request, &sweep, &needs,
                                  cluster_load(arena, "rtx4090-pcie8", &err), 64, &device, &err));
    assert_int_equal(device.least_by_bytes, 1);
    assert_int_equal(device.least.cluster->rank_count, 1);
    double flop = needs.flop_per_token * 1e12;
    double peak = device.device->peak_flop_per_s[PRECISION_BF16];
    assert_true(device.years_at_peak == years_of(flop, peak));
    assert_true(device.gpu_years > device.years_at_peak);
    const struct prediction *prediction = &device.least.outcome.prediction;
    double wanted = prediction->mfu_ratio * prediction->goodput.goodput_ratio;
    assert_true(fabs(device.years_at_peak / device.gpu_years / wanted - 1) < 1e-4);
    assert_true(device.gpu_years == prediction->money.gpu_hours / (365 * 24));
}

static void scaled_models_keep_their_shape(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    static const struct {
        const char *model;
        int64_t step, same_steps;
    } CASES[] = {{"gpt3-175b", 8, 12},
                 {"llama-2-7b", 8, 4},
                 {"llama-3-70b", 8, 8},
                 {"mixtral-8x7b", 8, 4},
                 {"qwen2.5-7b", 28, 1}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct model_config *model = model_load(arena, CASES[i].model, NULL, NULL, &err);
        const struct import_options options = {.flash = true};
        assert_int_equal(model_scale_step(model, &err), CASES[i].step);
        double was = (double)model_graph(arena, model, &options)->parameter_count, last = 0;
        for (int64_t steps = 1; steps <= 2 * CASES[i].same_steps; steps++) {
            const struct model_config *scaled = model_scaled(arena, model, steps, &err);
            assert_string_equal(err.text, "");
            double is = (double)model_graph(arena, scaled, &options)->parameter_count;
            assert_true(is > last);
            if (steps == CASES[i].same_steps) assert_true(is == was);
            // Eight times the layers' parameters, twice those of the vocabulary.
            if (steps == 2 * CASES[i].same_steps) assert_true(is > 6.5 * was && is < 8.01 * was);
            last = is;
        }
    }
}

static void durations_are_read_with_their_unit(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double seconds;
    } GOOD[] = {{"90s", 90},         {"30m", 1800},      {"12h", 43200},
                {"30d", 30 * 86400}, {"2w", 14 * 86400}, {"1.5y", 1.5 * 365.25 * 86400}};
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        struct err err = {0};
        double seconds = 0;
        assert_true(units_parse_duration(GOOD[i].text, "--deadline", &seconds, &err));
        assert_true(seconds == GOOD[i].seconds);
    }
    static const char *const BAD[] = {"",   "d",      "30",     "30 d", "-1d",
                                      "0d", "1e999d", "30days", "nand"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct err err = {0};
        double seconds = 0;
        assert_false(units_parse_duration(BAD[i], "--deadline", &seconds, &err));
        assert_int_equal(err.kind, ERR_USAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_what_the_sources_say),
        cmocka_unit_test(the_memory_wall_takes_a_hundred_cards),
        cmocka_unit_test(the_compute_wall_takes_decades),
        cmocka_unit_test(a_device_needs_at_least_its_share_of_the_bytes),
        cmocka_unit_test(scaled_models_keep_their_shape),
        cmocka_unit_test(durations_are_read_with_their_unit),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
