#include "tests/support/test.h"

#include "executor/array.h"
#include "executor/half.h"
#include "tests/support/draw.h"
#include "tests/support/emulated.h"

#include <math.h>

// The gradients of a weight and of its bias as one call of the CUDA back end, whose kernels are on
// the host here, against the two by themselves; and what is no such pair.

enum { ROW_MOST = 24, WIDTH_MOST = 12, CANARY = 4 };
enum { ELEMENT_MOST = ROW_MOST * WIDTH_MOST * 4 };

struct world {
    const struct backend *backend;
    struct device *device;
};

// Values on the device, and what is kept of them on the host.
struct sum_buffer {
    void *there;
    int64_t bytes;
};

static struct sum_buffer buffer_new(struct draw *draw, const struct world *world, int element_bytes)
{
    static float wide[ELEMENT_MOST + CANARY];
    static uint16_t narrow[ELEMENT_MOST + CANARY];
    struct sum_buffer buffer = {.bytes = (ELEMENT_MOST + CANARY) * (int64_t)element_bytes};
    for (int i = 0; i < ELEMENT_MOST + CANARY; i++) {
        wide[i] = (float)draw_int(draw, -1000, 1000) / 1000;
        narrow[i] = bf16_round(wide[i]);
    }
    assert_null(world->backend->allocate(world->device, buffer.bytes, &buffer.there));
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_FROM_HOST, buffer.there,
                                     element_bytes == 4 ? (void *)wide : narrow, buffer.bytes));
    return buffer;
}

static struct sum_buffer buffer_copy(const struct world *world, const struct sum_buffer *of)
{
    struct sum_buffer copy = *of;
    assert_null(world->backend->allocate(world->device, copy.bytes, &copy.there));
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_DEVICE, copy.there,
                                     of->there, copy.bytes));
    return copy;
}

// Tokens x hidden, tokens x heads x head_dim, and what of them is summed over the tokens.
struct pair {
    int64_t batch, seq, hidden, heads, width;
    bool is_by_output;  // the weight: heads x head_dim x hidden
    struct op product_op, sum_op;
    struct kernel_call calls[2];
    int product;  // its place in calls
};

static struct kernel_array array_of(enum element element, int rank, const enum dim *dims,
                                    const int64_t *sizes)
{
    struct kernel_array array = {.rank = rank, .element = element};
    memcpy(array.dims, dims, (size_t)rank * sizeof *dims);
    memcpy(array.sizes, sizes, (size_t)rank * sizeof *sizes);
    memcpy(array.whole, sizes, (size_t)rank * sizeof *sizes);
    return array;
}

static void make_calls(struct pair *pair, bool is_sum_first, unsigned adds)
{
    static const enum dim X[] = {DIM_BATCH, DIM_SEQ, DIM_HIDDEN};
    static const enum dim D[] = {DIM_BATCH, DIM_SEQ, DIM_HEAD, DIM_HEAD_DIM};
    static const enum dim W[] = {DIM_HIDDEN, DIM_HEAD, DIM_HEAD_DIM, DIM_HIDDEN};
    const int64_t x[] = {pair->batch, pair->seq, pair->hidden};
    const int64_t d[] = {pair->batch, pair->seq, pair->heads, pair->width};
    const int64_t w[] = {pair->hidden, pair->heads, pair->width, pair->hidden};
    pair->product = is_sum_first;
    pair->product_op = (struct op){.kind = OP_CONTRACT, .scalar = 1};
    pair->sum_op = (struct op){.kind = OP_REDUCE, .scalar = 1};
    struct kernel_call *product = &pair->calls[is_sum_first], *sum = &pair->calls[!is_sum_first];
    *product = (struct kernel_call){.op = &pair->product_op, .input_count = 2, .output_count = 1};
    product->inputs[0] = array_of(ELEMENT_COMPUTE, 3, X, x);
    product->inputs[1] = array_of(ELEMENT_COMPUTE, 4, D, d);
    product->outputs[0] = array_of(ELEMENT_FP32, 3, W + pair->is_by_output, w + pair->is_by_output);
    product->adds = adds & 1;
    *sum = (struct kernel_call){.op = &pair->sum_op, .input_count = 1, .output_count = 1};
    sum->inputs[0] = product->inputs[1];
    sum->outputs[0] = array_of(ELEMENT_FP32, 2, D + 2, d + 2);
    sum->adds = adds >> 1;
}

static struct pair draw_pair(struct draw *draw)
{
    struct pair pair = {.batch = draw_int(draw, 1, 3),
                        .seq = draw_int(draw, 1, ROW_MOST / 3),
                        .hidden = draw_int(draw, 2, WIDTH_MOST),
                        .heads = draw_int(draw, 1, 4),
                        .width = draw_int(draw, 2, WIDTH_MOST),
                        .is_by_output = draw_int(draw, 0, 1)};
    return pair;
}

static struct world open_world(enum precision precision)
{
    struct world world = {.backend = emulated_backend(precision)};
    assert_non_null(world.backend);
    assert_null(world.backend->open(0, &world.device));
    return world;
}

static void compare(const struct world *world, const struct sum_buffer *a,
                    const struct sum_buffer *b)
{
    static float found[ELEMENT_MOST + CANARY], expected[ELEMENT_MOST + CANARY];
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, found, a->there,
                                     a->bytes));
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, expected,
                                     b->there, b->bytes));
    for (int i = 0; i < ELEMENT_MOST + CANARY; i++) {
        if (fabsf(found[i] - expected[i]) <= 1e-5F) continue;
        fail_msg("element %d: %g, expected %g", i, (double)found[i], (double)expected[i]);
    }
}

static void check(struct draw *draw, const struct world *world)
{
    struct pair pair = draw_pair(draw);
    make_calls(&pair, draw_int(draw, 0, 1), (unsigned)draw_int(draw, 0, 3));
    struct kernel_call *product = &pair.calls[pair.product], *sum = &pair.calls[!pair.product];
    // A factor is none of the epilogue's: the two run by themselves.
    if (draw_int(draw, 0, 3) == 0) pair.product_op.scalar = 2;
    struct sum_buffer x = buffer_new(draw, world, world->backend->compute_bytes);
    struct sum_buffer d = buffer_new(draw, world, world->backend->compute_bytes);
    struct sum_buffer weight = buffer_new(draw, world, 4), bias = buffer_new(draw, world, 4);
    struct sum_buffer own_weight = buffer_copy(world, &weight),
                      own_bias = buffer_copy(world, &bias);
    product->inputs[0].data = x.there;
    product->inputs[1].data = sum->inputs[0].data = d.there;
    product->outputs[0].data = weight.there;
    sum->outputs[0].data = bias.there;
    assert_null(world->backend->run_joined(world->device, STREAM_COMPUTE, pair.calls, 2));
    product->outputs[0].data = own_weight.there;
    sum->outputs[0].data = own_bias.there;
    for (int i = 0; i < 2; i++)
        assert_null(world->backend->run(world->device, STREAM_COMPUTE, &pair.calls[i]));
    compare(world, &weight, &own_weight);
    compare(world, &bias, &own_bias);
    struct sum_buffer *all[] = {&x, &d, &weight, &bias, &own_weight, &own_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        world->backend->release(world->device, all[i]->there);
}

static void a_bias_is_summed_beside_its_weight(void **state)
{
    (void)state;
    static const enum precision PRECISIONS[] = {PRECISION_FP32, PRECISION_BF16};
    struct draw draw = draw_start("sums beside weights", 11);
    for (int p = 0; p < 2; p++) {
        struct world world = open_world(PRECISIONS[p]);
        for (int trial = 0; trial < 60; trial++)
            check(&draw, &world);
        world.backend->close(world.device);
    }
}

// In 8 bits there is no such epilogue, and the two run by themselves.
static void products_of_8_bits_leave_the_sum_to_itself(void **state)
{
    (void)state;
    struct draw draw = draw_start("8 bits", 12);
    struct world world = open_world(PRECISION_FP8);
    struct pair pair = {.batch = 1, .seq = 16, .hidden = 4, .heads = 2, .width = 8};
    make_calls(&pair, false, 0);
    pair.calls[0].is_linear = true;
    struct sum_buffer x = buffer_new(&draw, &world, 2), d = buffer_new(&draw, &world, 2);
    struct sum_buffer weight = buffer_new(&draw, &world, 4), bias = buffer_new(&draw, &world, 4);
    struct sum_buffer own_weight = buffer_copy(&world, &weight),
                      own_bias = buffer_copy(&world, &bias);
    pair.calls[0].inputs[0].data = x.there;
    pair.calls[0].inputs[1].data = pair.calls[1].inputs[0].data = d.there;
    pair.calls[0].outputs[0].data = weight.there;
    pair.calls[1].outputs[0].data = bias.there;
    assert_null(world.backend->run_joined(world.device, STREAM_COMPUTE, pair.calls, 2));
    pair.calls[0].outputs[0].data = own_weight.there;
    pair.calls[1].outputs[0].data = own_bias.there;
    for (int i = 0; i < 2; i++)
        assert_null(world.backend->run(world.device, STREAM_COMPUTE, &pair.calls[i]));
    compare(&world, &weight, &own_weight);
    compare(&world, &bias, &own_bias);
    struct sum_buffer *all[] = {&x, &d, &weight, &bias, &own_weight, &own_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        world.backend->release(world.device, all[i]->there);
    world.backend->close(world.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bias_is_summed_beside_its_weight),
        cmocka_unit_test(products_of_8_bits_leave_the_sum_to_itself),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
