#include "tests/support/graph_counts.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include "models/op_delta.h"

#include <math.h>

// The work of a scan, by hand, and its price as the GEMMs of its chunks.

static double flop_of(const struct scan_shape *shape, bool is_forward)
{
    struct scan_gemm gemms[SCAN_GEMM_MAX];
    int count = op_scan_gemms(shape, is_forward, gemms);
    double flop = 0;
    for (int i = 0; i < count; i++)
        flop += gemms[i].share * gemm_flop(&gemms[i].gemm);
    return flop;
}

// Two sequences of 10 tokens are six chunks of 4, the last of each padded. Of scores (4 x 4 x 5)
// there are 12, one a chunk and group; of a head and chunk 24: what is inside the chunk 4 x 3 x 4,
// half of it masked, its state 3 x 5 x 4 and what the state in front says 4 x 3 x 5.
static void the_work_of_chunks_is_counted_by_hand(void **state)
{
    (void)state;
    const struct scan_shape shape = {
        .batch = 2, .seq = 10, .heads = 4, .groups = 2, .head_dim = 3, .state = 5, .chunk = 4};
    assert_true(flop_of(&shape, true) == 2 * (12 * 80 + 24 * 24 + 24 * 60 + 24 * 60));
    // Scores and states again, five of the state's size, two inside the chunk, two of the scores.
    assert_true(flop_of(&shape, false) == 2 * (12 * 80 + 24 * 60 * 5 + 24 * 24 * 2 + 12 * 80 * 2));
    assert_int_equal(op_scan_states(&shape), 2 * 3 * 4 * 3 * 5);
}

// The same shape by the delta rule. Below the diagonal of 4 x 4, a half of it: of each of 24 chunks
// and heads the system and the scores 4 x 4 x 5, W 4 x 5 x 4, U and what is inside the chunk
// 4 x 3 x 4; whole: what is added, what is left and what the state says 4 x 3 x 5; the inverse is a
// sixth of 4 x 4 x 4.
static void the_delta_rule_is_counted_by_hand(void **state)
{
    (void)state;
    const struct scan_shape shape = {
        .batch = 2, .seq = 10, .heads = 4, .groups = 2, .head_dim = 3, .state = 5, .chunk = 4};
    struct scan_gemm gemms[SCAN_GEMM_MAX];
    double forward = 24 * (2 * 40 + 40 + 2 * 24 + 3 * 60 + 64.0 / 6);
    double flop = op_scan_gemms_flop(gemms, op_delta_gemms(&shape, true, gemms));
    assert_true(fabs(flop - 2 * forward) < 1e-9);
    // System, inverse, W, U, what is added, states and scores again; 1 inside and 1 through the
    // state for what is added, 2 of states, 3 through them; scores' gradient and its 2 ways; of T
    // 1 from W and 1 from U, to keys 1 and values 1; of the system 2 triangles, and 2 to keys.
    double again = 24 * (2 * 40 + 40 + 24 + 2 * 60 + 64.0 / 6);
    double back =
        24 * (24 + 60 + 2 * 60 + 3 * 60 + 24 + 2 * 40 + 40 + 24 + 40 + 24 + 2 * 64.0 / 6 + 2 * 40);
    flop = op_scan_gemms_flop(gemms, op_delta_gemms(&shape, false, gemms));
    assert_true(fabs(flop - 2 * (again + back)) < 1e-9);
}

// Of 48 layers 36 have states of 32 heads, 128 x 128, which are read for the key, written and read
// for the query; 12 attend with 16 heads of 256 to half of the tokens.
static void model_flops_of_the_delta_rule(void **state)
{
    struct priced of = priced_start(*state, "qwen3-next-80b-a3b", "dgx-h100", "megatron-core");
    double matrices = (double)graph_matmul_parameter_count(of.graph);
    double states = 36.0 * 32 * 128 * 128 * 6 * 3, pairs = 12.0 * 16 * 256 * 4096 * 2 * 3;
    double flop = graph_model_flop(of.graph, 4096) / 4096;
    assert_true(fabs(flop / (6 * matrices + states + pairs) - 1) < 1e-12);
    assert_int_equal(of.graph->active_parameter_count, INT64_C(3874929408));
}

// Matrices: 2560 to 2 x 5120 + 2 x 128 + 80 and back from 5120 in 64 layers, and the head. A number
// of the state is written and read by a multiplication and an addition each, three times with
// backward.
static void model_flops_are_those_of_matrices_and_states(void **state)
{
    struct priced of = priced_start(*state, "mamba2-2.7b", "dgx-h100", "megatron-core");
    int64_t matrices =
        INT64_C(64) * (2560 * (2 * 5120 + 2 * 128 + 80) + 5120 * 2560) + 50288 * 2560;
    assert_int_equal(graph_matmul_parameter_count(of.graph), matrices);
    double states = 64.0 * 80 * 64 * 128 * 4 * 3;
    assert_true(graph_model_flop(of.graph, 4096) == 4096 * (6 * (double)matrices + states));
}

// The same of Mamba-1: 2560 to 2 x 5120, from there to 160 + 2 x 16, from 160 to 5120 and back.
static void model_flops_of_states_of_channels(void **state)
{
    struct priced of = priced_start(*state, "mamba-2.8b", "dgx-h100", "megatron-core");
    int64_t layer = 2560 * 2 * 5120 + 5120 * (160 + 2 * 16) + 160 * 5120 + 5120 * 2560;
    int64_t matrices = INT64_C(64) * layer + INT64_C(50280) * 2560;
    assert_int_equal(graph_matmul_parameter_count(of.graph), matrices);
    double states = 64.0 * 5120 * 16 * 4 * 3;
    assert_true(graph_model_flop(of.graph, 4096) == 4096 * (6 * (double)matrices + states));
}

struct found {
    double forward_s, backward_s, forward_flop, backward_flop;
    double forward_kernels, backward_kernels;
};

static bool is_scan(enum op_kind kind)
{
    return kind == OP_SCAN || kind == OP_SCAN_BACKWARD || kind == OP_DELTA ||
           kind == OP_DELTA_BACKWARD;
}

static struct found find(struct arena *arena, const char *model, int64_t seq_len,
                         enum precision precision)
{
    struct priced of = priced_start(arena, model, "dgx-h100", "megatron-core");
    struct found found = {0};
    of.workload.seq_len = seq_len;
    of.workload.precision = precision;
    priced_finish(&of);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    for (int i = 0; i < layer->instr_count; i++) {
        const struct instr *instr = &layer->instrs[i];
        if (instr->collective || !is_scan(instr->kind)) continue;
        struct compute_cost cost = compute_price(&of.context.compute, layer, instr);
        bool is_forward = instr->kind == OP_SCAN || instr->kind == OP_DELTA;
        *(is_forward ? &found.forward_s : &found.backward_s) += cost.s;
        *(is_forward ? &found.forward_flop : &found.backward_flop) += instr->flop;
        *(is_forward ? &found.forward_kernels : &found.backward_kernels) += cost.kernel_count;
        assert_true(cost.s >
                    instr->flop / of.context.compute.device->peak_flop_per_s[PRECISION_BF16]);
    }
    assert_true(found.forward_s > 0 && found.backward_s > 0);
    return found;
}

static void check_costs(struct arena *arena, const char *model, int forward_kernels,
                        int backward_kernels)
{
    struct found some = find(arena, model, 4096, PRECISION_BF16);
    struct found more = find(arena, model, 8192, PRECISION_BF16);
    struct found narrow = find(arena, model, 4096, PRECISION_FP8);
    // A kernel a GEMM and one that passes the states on.
    assert_true(some.forward_kernels == forward_kernels &&
                some.backward_kernels == backward_kernels);
    // Work and, but for the launches, time grow with the sequence, not with its square.
    assert_true(more.forward_flop == 2 * some.forward_flop);
    assert_true(more.backward_flop == 2 * some.backward_flop);
    assert_true(more.forward_s > 1.5 * some.forward_s && more.forward_s <= 2 * some.forward_s);
    assert_true(more.backward_s > 1.5 * some.backward_s && more.backward_s <= 2 * some.backward_s);
    assert_true(narrow.forward_s == some.forward_s && narrow.backward_s == some.backward_s);
}

static void a_scan_costs_what_its_gemms_do(void **state)
{
    check_costs(*state, "mamba2-2.7b", 5, 11);
    check_costs(*state, "qwen3.5-9b", 10, 26);
}

// 7 operations a number of the state, 20 with backward's, or an exponential, in one kernel each:
// no less than what it computes takes, nor than reading x, steps, B and C and writing y; both grow
// with the sequence.
static void a_scan_of_channels_is_one_kernel(void **state)
{
    struct found some = find(*state, "mamba-2.8b", 4096, PRECISION_BF16);
    struct found more = find(*state, "mamba-2.8b", 8192, PRECISION_BF16);
    struct priced of = priced_start(*state, "mamba-2.8b", "dgx-h100", "megatron-core");
    priced_finish(&of);
    const struct device *device = of.context.compute.device;
    double numbers = some.forward_flop / 7, tokens = numbers / (5120 * 16);
    assert_true(some.backward_flop == 20 * numbers && fmod(tokens, 4096) == 0 && tokens > 0);
    assert_true(some.forward_kernels == 1 && some.backward_kernels == 1);
    double bytes = tokens * 2 * (3 * 5120 + 2 * 16);
    double least_s = fmax(numbers / device->exponential_per_s,
                          7 * numbers / device->peak_flop_per_s[PRECISION_FP32]);
    least_s = fmax(least_s, bytes / device->memory_bandwidth_bytes_per_s);
    assert_true(some.forward_s > least_s && some.forward_s < 1.5 * least_s);
    assert_true(some.backward_s > 20 * numbers / device->peak_flop_per_s[PRECISION_FP32]);
    assert_true(more.forward_flop == 2 * some.forward_flop);
    assert_true(more.forward_s > 1.9 * some.forward_s && more.forward_s <= 2 * some.forward_s);
}

// Where nothing is known of what it computes, what is read and what is written at the device's
// bandwidth, half of which kernels reach.
static void a_scan_of_channels_moves_what_it_reads_and_writes(void **state)
{
    struct priced of = priced_start(*state, "mamba-2.8b", "dgx-h100", "megatron-core");
    priced_finish(&of);
    struct device device = *of.context.compute.device;
    struct compute_context context = of.context.compute;
    device.peak_flop_per_s[PRECISION_FP32] = device.exponential_per_s = 0;
    device.memory_bandwidth_bytes_per_s = 1e12;
    device.efficiency.memory_ratio = 0.5;
    context.device = &device;
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    int count = 0;
    for (int i = 0; i < layer->instr_count; i++) {
        struct instr instr = layer->instrs[i];
        if (instr.collective || !is_scan(instr.kind)) continue;
        instr.read_bytes = 3000000;
        instr.write_bytes = 1000000;
        struct compute_cost cost = compute_price(&context, layer, &instr);
        assert_true(fabs(cost.s - (8e-6 + device.launch_latency_s)) < 1e-15);
        assert_int_equal(cost.bound, BOUND_MEMORY);
        count++;
    }
    assert_int_equal(count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_delta_rule_is_counted_by_hand),
        cmocka_unit_test(model_flops_of_the_delta_rule),
        cmocka_unit_test(the_work_of_chunks_is_counted_by_hand),
        cmocka_unit_test(model_flops_are_those_of_matrices_and_states),
        cmocka_unit_test(a_scan_costs_what_its_gemms_do),
        cmocka_unit_test(model_flops_of_states_of_channels),
        cmocka_unit_test(a_scan_of_channels_is_one_kernel),
        cmocka_unit_test(a_scan_of_channels_moves_what_it_reads_and_writes),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
