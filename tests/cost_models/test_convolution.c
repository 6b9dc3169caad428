#include "cost_models/convolution.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <math.h>

// Convolutions as our back end for GPUs runs them, priced by hand: 128 channels of 100 x 50 places
// become 8. In 16 bits a row of places has 9 * 128 * 50 * 2 bytes of the matrix: 582 rows have room
// in 64 MiB, which are 5 samples, and in fp32 291 and 2. Half a TB/s, 1 us between kernels.
enum { DEPTH = 9 * 128, PLACES = 100 * 50, X_BYTES = 10000000 };

struct priced_convolution {
    struct device device;
    struct stack stack;
    struct compute_context context;
    struct buffer buffers[3];
    struct op op;
    struct block block;
    struct instr instr;
    struct block_program program;
};

static struct priced_convolution *bench_new(struct arena *arena)
{
    struct priced_convolution *bench = ARENA_NEW(arena, struct priced_convolution, 1);
    bench->device.peak_flop_per_s[PRECISION_BF16] = 100e12;
    bench->device.memory_bandwidth_bytes_per_s = 1e12;
    bench->device.multiprocessor_count = 100;
    bench->device.launch_latency_s = 1e-6;
    bench->device.efficiency.memory_ratio = bench->device.efficiency.gemm_memory_ratio = 0.5;
    bench->device.efficiency.gemm_ratio[PRECISION_BF16] = 0.5;
    bench->stack.gemm_scale = bench->stack.unaligned_gemm_ratio = 1;
    bench->stack.flags_of = "meshwright plan";
    bench->stack.device_kinds = 1u << DEVICE_KIND_GPU;
    bench->context = (struct compute_context){
        .device = &bench->device, .stack = &bench->stack, .precision = PRECISION_BF16};
    const struct window window = {3, 1, 1, 1};
    bench->op = (struct op){.kind = OP_PRODUCT,
                            .work = {.groups = 1,
                                     .rows = PLACES,
                                     .columns = 8,
                                     .depth = DEPTH,
                                     .windows = {window, window},
                                     .type = IMPORTED_CONV}};
    bench->block = (struct block){.ops = &bench->op, .op_count = 1};
    bench->buffers[0].bytes = X_BYTES;
    bench->buffers[1].bytes = 1;
    bench->buffers[2].bytes = X_BYTES / 10;
    bench->instr = (struct instr){.kind = OP_PRODUCT,
                                  .batch = 12,
                                  .seq = 100,
                                  .kv_seq = 50,
                                  .inputs = {0, 1},
                                  .input_count = 2,
                                  .outputs = {2},
                                  .output_count = 1};
    bench->program = (struct block_program){.block = &bench->block,
                                            .instrs = &bench->instr,
                                            .instr_count = 1,
                                            .buffers = bench->buffers,
                                            .buffer_count = 3};
    return bench;
}

static double product_s(const struct priced_convolution *bench, struct gemm gemm, unsigned traits)
{
    enum bound bound;
    return gemm_s(&bench->context, &gemm, traits, &bound);
}

static double walk_s(double bytes)
{
    return bytes / 0.5e12;
}

static void check(const struct priced_convolution *bench, double s, double kernels, double bytes)
{
    struct compute_cost cost = compute_price(&bench->context, &bench->program, &bench->instr);
    if (fabs(cost.s / s - 1) > 1e-9) print_error("%.12g s, by hand %.12g s\n", cost.s, s);
    assert_true(fabs(cost.s / s - 1) <= 1e-9);
    assert_true(cost.kernel_count == kernels);
    double found = convolution_bytes(&bench->stack, PRECISION_BF16, &bench->program);
    assert_true(found == bytes);
}

// 5 samples at a time, then the 2 that are left: the matrix is written, and the image read.
static void results_are_products_of_some_samples(void **state)
{
    struct priced_convolution *bench = bench_new(*state);
    double each = 2.0 * PLACES * DEPTH;
    double s = 2 * (product_s(bench, (struct gemm){5, 8, PLACES, DEPTH}, 0) + walk_s(5 * each)) +
               product_s(bench, (struct gemm){2, 8, PLACES, DEPTH}, 0) + walk_s(2 * each);
    check(bench, s + 3e-6 + walk_s(X_BYTES), 6, 5 * each);
}

// Sums of taps are made of fp32, 2 samples at a time: 2 bytes more are written, and 4 read.
static void input_gradients_are_folded_in_fp32(void **state)
{
    struct priced_convolution *bench = bench_new(*state);
    bench->op.phase = PHASE_BACKWARD;
    double each = 1.0 * PLACES * DEPTH;
    double s = 6 * (product_s(bench, (struct gemm){2, DEPTH, PLACES, 8}, 0) + walk_s(12 * each));
    check(bench, s + 6e-6 + walk_s(X_BYTES / 10), 12, 8 * each);
    // The same of what a transposed one makes.
    bench->op.phase = PHASE_FORWARD;
    bench->op.work.type = IMPORTED_CONV_TURNED;
    bench->op.work.columns = DEPTH;
    bench->op.work.depth = 8;
    check(bench, s + 6e-6 + walk_s(X_BYTES / 10), 12, 8 * each);
}

// A GEMM a sample, each of which adds to the sum in fp32. The wide side is the first of what is
// read, of a transposed one the second.
static void weight_gradients_are_a_product_a_sample(void **state)
{
    struct priced_convolution *bench = bench_new(*state);
    bench->op.phase = PHASE_WEIGHT;
    double each = 2.0 * PLACES * DEPTH;
    double s = 12 * product_s(bench, (struct gemm){1, 8, DEPTH, PLACES}, GEMM_ACCUMULATES) +
               walk_s(12 * each) + 3e-6;
    check(bench, s + walk_s(X_BYTES), 15, 5 * each);
    bench->op.work.type = IMPORTED_CONV_TURNED;
    bench->op.work.columns = DEPTH;
    bench->op.work.depth = 8;
    check(bench, s + walk_s(1), 15, 5 * each);
}

static void groups_are_a_batch_of_products_a_sample(void **state)
{
    struct priced_convolution *bench = bench_new(*state);
    bench->op.work.groups = 4;
    bench->op.work.columns = 2;
    bench->op.work.depth = DEPTH / 4;
    double each = 2.0 * PLACES * DEPTH;
    double s =
        12 * product_s(bench, (struct gemm){4, 2, PLACES, DEPTH / 4}, 0) + walk_s(12 * each) + 3e-6;
    check(bench, s + walk_s(X_BYTES), 15, 5 * each);
}

// One sample of 1000 rows, 582 at a time.
static void large_images_are_unfolded_by_rows(void **state)
{
    struct priced_convolution *bench = bench_new(*state);
    bench->instr.batch = 1;
    bench->instr.seq = 1000;
    double row = 2.0 * 50 * DEPTH;
    double s = product_s(bench, (struct gemm){1, 8, 582 * 50, DEPTH}, 0) +
               product_s(bench, (struct gemm){1, 8, 418 * 50, DEPTH}, 0) + walk_s(1000 * row);
    check(bench, s + 2e-6 + walk_s(X_BYTES), 4, 582 * row);
}

// With one tap, moved by nothing, the image is the matrix.
static void single_taps_are_products_alone(void **state)
{
    struct priced_convolution *bench = bench_new(*state);
    const struct window window = {1, 1, 1, 0};
    bench->op.work.windows[0] = bench->op.work.windows[1] = window;
    bench->op.work.depth = 128;
    check(bench, product_s(bench, (struct gemm){12, 8, PLACES, 128}, 0), 1, 0);
    bench->op.work.windows[1].stride = 2;
    double each = 2.0 * PLACES * 128;
    check(bench,
          product_s(bench, (struct gemm){12, 8, PLACES, 128}, 0) + walk_s(12 * each + X_BYTES) +
              1e-6,
          2, 12 * each);
}

// Of one channel a group there is a kernel, and other software and CPUs have others.
static void others_have_no_matrix(void **state)
{
    struct priced_convolution *bench = bench_new(*state);
    assert_true(convolution_unfolds(&bench->stack, &bench->block, &bench->instr));
    bench->op.work.columns = 1;
    assert_false(convolution_unfolds(&bench->stack, &bench->block, &bench->instr));
    bench->op.work.columns = 8;
    bench->stack.device_kinds = 1u << DEVICE_KIND_CPU;
    assert_false(convolution_unfolds(&bench->stack, &bench->block, &bench->instr));
    bench->stack.device_kinds = 1u << DEVICE_KIND_GPU;
    bench->stack.flags_of = NULL;
    assert_false(convolution_unfolds(&bench->stack, &bench->block, &bench->instr));
    assert_true(convolution_bytes(&bench->stack, PRECISION_BF16, &bench->program) == 0);
}

// A U-Net on 1024 x 768 places, whose last level joins 8 channels: 9 * 8 * 768 numbers a row, of
// which 606 rows have room in 16 bits, and 303 of fp32. In quarters of its width two samples have
// most where 16 channels of 512 rows are folded, each part with a column of a neighbour's on either
// side: 98 columns of fp32.
static void plans_count_the_largest_matrix(void **state)
{
    struct priced of = priced_start(*state, "tests/data/onnx/unet.onnx", "dgx-h100", "meshwright");
    of.workload.seq_len = 1;
    priced_finish(&of);
    struct memory_parts parts = memory_of_stage(of.program, of.stack, 0);
    assert_true(parts.standing_bytes == 606 * 9 * 8 * 768 * 2);
    of.parallel.degree[AXIS_SP_W] = 4;
    of.parallel.micro_batch = 2;
    priced_finish(&of);
    parts = memory_of_stage(of.program, of.stack, 0);
    assert_true(parts.standing_bytes == 2 * 512 * 9 * 16 * 98 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_products_of_some_samples),
        cmocka_unit_test(input_gradients_are_folded_in_fp32),
        cmocka_unit_test(weight_gradients_are_a_product_a_sample),
        cmocka_unit_test(groups_are_a_batch_of_products_a_sample),
        cmocka_unit_test(large_images_are_unfolded_by_rows),
        cmocka_unit_test(single_taps_are_products_alone),
        cmocka_unit_test(others_have_no_matrix),
        cmocka_unit_test(plans_count_the_largest_matrix),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
