#include "cost_models/onnx_seconds.h"
#include "tests/support/test.h"

// A device of round numbers: 100 bytes and 50 (fp32), 200 (bf16), 400 (fp16) flops a second are
// reached, and a second lies between two kernels.
static struct device device_of_round_numbers(void)
{
    struct device device = {
        .name = "round", .memory_bandwidth_bytes_per_s = 200, .launch_latency_s = 1};
    static const double PEAKS[PRECISION_COUNT] = {
        [PRECISION_FP32] = 100, [PRECISION_BF16] = 400, [PRECISION_FP16] = 800};
    for (int p = 0; p < PRECISION_COUNT; p++) {
        device.peak_flop_per_s[p] = PEAKS[p];
        device.efficiency.gemm_ratio[p] = 0.5;
    }
    device.efficiency.memory_ratio = 0.5;
    return device;
}

// x is read, y made of it, z shares y's memory; "half" is of 2 bytes an element, and "over" lies
// where y lay but is written.
enum { X, Y, Z, HALF, OVER, TENSORS };
static struct onnx_tensor TENSORS_OF_NODES[TENSORS] = {
    [X] = {.element_bytes = 4, .bytes = 300, .shares = -1},
    [Y] = {.element_bytes = 4, .bytes = 100, .shares = -1},
    [Z] = {.element_bytes = 4, .bytes = 100, .shares = Y},
    [HALF] = {.element_bytes = 2, .bytes = 500, .shares = -1},
    [OVER] = {.element_bytes = 4, .bytes = 100, .shares = Y, .overwrites = true},
};

static double seconds_of(struct arena *arena, const struct device *device, double flop,
                         const int *inputs, int input_count, const int *outputs, int output_count)
{
    // Behind one that takes its bytes alone: places in the answer are those of the nodes.
    struct onnx_node nodes[] = {
        {.name = "first",
         .inputs = (int[]){X},
         .outputs = (int[]){Y},
         .input_count = 1,
         .output_count = 1},
        {.name = "node",
         .inputs = inputs,
         .outputs = outputs,
         .input_count = input_count,
         .output_count = output_count,
         .flop = flop},
    };
    struct onnx_graph graph = {
        .tensors = TENSORS_OF_NODES, .tensor_count = TENSORS, .nodes = nodes, .node_count = 2};
    struct err err = {0};
    const double *seconds = onnx_seconds(arena, &graph, device, &err);
    assert_string_equal(err.text, "");
    assert_true(seconds[0] == 1 + 4);
    return seconds[1];
}

static void a_node_takes_its_bytes_or_its_flops_behind_the_gap(void **state)
{
    struct device device = device_of_round_numbers();
    // 300 + 500 bytes at 100 a second, and 8 and 9 seconds of flops of 2 bytes at 200 a second.
    assert_true(seconds_of(*state, &device, 0, (int[]){X}, 1, (int[]){HALF}, 1) == 1 + 8);
    assert_true(seconds_of(*state, &device, 1600, (int[]){X}, 1, (int[]){HALF}, 1) == 1 + 8);
    assert_true(seconds_of(*state, &device, 1800, (int[]){X}, 1, (int[]){HALF}, 1) == 1 + 9);
    // All of its inputs and outputs: 300 + 500 in, 100 + 300 out.
    assert_true(seconds_of(*state, &device, 0, (int[]){X, HALF}, 2, (int[]){Y, X}, 2) == 1 + 12);
}

static void its_precision_is_that_of_what_it_makes(void **state)
{
    struct device device = device_of_round_numbers();
    assert_true(seconds_of(*state, &device, 1800, (int[]){HALF}, 1, (int[]){Y}, 1) == 1 + 36);
    assert_true(seconds_of(*state, &device, 3600, (int[]){Y}, 1, (int[]){HALF}, 1) == 1 + 18);
    device.peak_flop_per_s[PRECISION_BF16] = 0;  // then fp16's
    assert_true(seconds_of(*state, &device, 3600, (int[]){Y}, 1, (int[]){HALF}, 1) == 1 + 9);
}

static void views_take_no_time_and_what_is_written_in_place_does(void **state)
{
    struct device device = device_of_round_numbers();
    assert_true(seconds_of(*state, &device, 0, (int[]){Y}, 1, (int[]){Z}, 1) == 0);
    assert_true(seconds_of(*state, &device, 0, (int[]){Y}, 1, (int[]){OVER}, 1) == 1 + 2);
    // One output of its own is written, whichever it is.
    assert_true(seconds_of(*state, &device, 0, (int[]){Y}, 1, (int[]){Z, X}, 2) == 1 + 5);
    assert_true(seconds_of(*state, &device, 0, (int[]){Y}, 1, (int[]){X, Z}, 2) == 1 + 5);
}

static void a_precision_without_a_rate_is_named(void **state)
{
    struct device device = device_of_round_numbers();
    device.peak_flop_per_s[PRECISION_FP32] = 0;
    struct onnx_node node = {.name = "dense",
                             .inputs = (int[]){X},
                             .outputs = (int[]){Y},
                             .input_count = 1,
                             .output_count = 1,
                             .flop = 1};
    struct onnx_graph graph = {
        .tensors = TENSORS_OF_NODES, .tensor_count = TENSORS, .nodes = &node, .node_count = 1};
    struct err err = {0};
    assert_null(onnx_seconds(*state, &graph, &device, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, "round has no rate in fp32, which node dense computes in");
    node.flop = 0;  // nothing is computed: only its bytes are moved
    err = (struct err){0};
    const double *seconds = onnx_seconds(*state, &graph, &device, &err);
    assert_true(seconds && seconds[0] == 1 + 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_takes_its_bytes_or_its_flops_behind_the_gap),
        cmocka_unit_test(its_precision_is_that_of_what_it_makes),
        cmocka_unit_test(views_take_no_time_and_what_is_written_in_place_does),
        cmocka_unit_test(a_precision_without_a_rate_is_named),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
