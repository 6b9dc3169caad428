#include "tests/support/test.h"

#include "tests/support/draw.h"
#include "tests/support/emulated.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Operands in 8 bits, seen through a product with the identity: every element is the nearest number
// of its format, in the units that the largest one sets. The formats are worked out here anew
// (Micikevicius et al. 2022, "FP8 formats for deep learning", table 1).

struct format {
    int bits_behind_point, least_exponent;
    double largest;
};
static const struct format E4M3 = {3, -6, 448}, E5M2 = {2, -14, 57344};

static double nearest(const struct format *format, double x)
{
    if (x == 0) return 0;
    int exponent = ilogb(x) > format->least_exponent ? ilogb(x) : format->least_exponent;
    double unit = ldexp(1, exponent - format->bits_behind_point);
    double rounded = nearbyint(x / unit) * unit;  // to the even one of two
    return fmin(fmax(rounded, -format->largest), format->largest);
}

struct cast {
    int64_t rows, inner, stride;  // stride: from a row to the next, where it is not turned
    bool is_turned, is_gradient;
    float *x;  // [rows][inner], as a product reads it
};

struct world {
    const struct backend *backend;
    struct device *device;
};

static struct kernel_array put(const struct world *world, enum dim first, int64_t first_size,
                               enum dim second, int64_t second_size, const float *values)
{
    struct kernel_array array = {.rank = 2,
                                 .element = ELEMENT_FP32,
                                 .dims = {first, second},
                                 .sizes = {first_size, second_size},
                                 .whole = {first_size, second_size}};
    int64_t bytes = first_size * second_size * (int64_t)sizeof *values;
    assert_null(world->backend->allocate(world->device, bytes, &array.data));
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_FROM_HOST, array.data,
                                     values, bytes));
    return array;
}

// Rows that lie apart are parts of longer ones.
static struct kernel_array put_operand(const struct world *world, const struct cast *cast)
{
    int64_t width = cast->is_turned ? cast->rows : cast->stride;
    int64_t height = cast->is_turned ? cast->inner : cast->rows;
    float *there = calloc((size_t)(width * height), sizeof *there);
    assert_non_null(there);
    for (int64_t i = 0; i < width * height; i++)
        there[i] = 1e6F;  // of another part of the row
    for (int64_t r = 0; r < cast->rows; r++) {
        for (int64_t c = 0; c < cast->inner; c++)
            there[cast->is_turned ? c * width + r : r * width + c] = cast->x[r * cast->inner + c];
    }
    struct kernel_array array = cast->is_turned
                                    ? put(world, DIM_HIDDEN, height, DIM_SEQ, width, there)
                                    : put(world, DIM_SEQ, height, DIM_HIDDEN, width, there);
    free(there);
    if (cast->is_turned || cast->stride == cast->inner) return array;
    array.rank = 3;
    array.row_stride = cast->stride;
    const enum dim dims[] = {DIM_BATCH, DIM_SEQ, DIM_HIDDEN};
    const int64_t sizes[] = {1, cast->rows, cast->inner};
    for (int i = 0; i < 3; i++) {
        array.dims[i] = dims[i];
        array.sizes[i] = array.whole[i] = sizes[i];
    }
    return array;
}

static float *identity(int64_t size)
{
    float *values = calloc((size_t)(size * size), sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < size; i++)
        values[i * size + i] = 1;
    return values;
}

static void check(const struct cast *cast, const float *found)
{
    const struct format *format = cast->is_gradient ? &E5M2 : &E4M3;
    float largest = 0;
    for (int64_t i = 0; i < cast->rows * cast->inner; i++)
        largest = fmaxf(largest, fabsf(cast->x[i]));
    float factor = largest > 0 ? largest / (float)format->largest : 1;
    for (int64_t i = 0; i < cast->rows * cast->inner; i++) {
        double expected = nearest(format, (double)(cast->x[i] * (1 / factor))) * (double)factor;
        if (!(fabs((double)found[i] - expected) <= 1e-6 * fabs(expected)))
            fail_msg("%lld x %lld, element %lld: %.9g, expected %.9g", (long long)cast->rows,
                     (long long)cast->inner, (long long)i, (double)found[i], expected);
    }
}

static void try_cast(const struct world *world, const struct cast *cast)
{
    const struct op op = {.kind = OP_CONTRACT, .name = "product", .scalar = 1};
    int64_t count = cast->rows * cast->inner;
    float *one = identity(cast->inner), *found = calloc((size_t)count, sizeof *found);
    assert_non_null(found);
    struct kernel_call call = {
        .op = &op,
        .inputs = {put_operand(world, cast),
                   put(world, DIM_HIDDEN, cast->inner, DIM_FFN, cast->inner, one)},
        .outputs = {put(world, DIM_SEQ, cast->rows, DIM_FFN, cast->inner, found)},
        .input_count = 2,
        .output_count = 1,
        .is_linear = true,
        .gradients = cast->is_gradient};
    if (call.inputs[0].rank == 3) {
        struct kernel_array *out = &call.outputs[0];
        *out = (struct kernel_array){.data = out->data,
                                     .rank = 3,
                                     .element = ELEMENT_FP32,
                                     .dims = {DIM_BATCH, DIM_SEQ, DIM_FFN},
                                     .sizes = {1, cast->rows, cast->inner},
                                     .whole = {1, cast->rows, cast->inner}};
    }
    assert_null(world->backend->run(world->device, STREAM_COMPUTE, &call));
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, found,
                                     call.outputs[0].data, count * (int64_t)sizeof *found));
    check(cast, found);
    for (int i = 0; i < 2; i++)
        world->backend->release(world->device, call.inputs[i].data);
    world->backend->release(world->device, call.outputs[0].data);
    free(one);
    free(found);
}

// Numbers of very different sizes, some of them zero: down to what the format takes for zero.
static float draw_number(struct draw *draw)
{
    int exponent = (int)draw_int(draw, -24, 4);
    return draw_int(draw, 0, 9) == 0 ? 0
                                     : ldexpf((float)draw_int(draw, -1000, 1000) / 1000, exponent);
}

static void operands_are_the_nearest_of_their_format(void **state)
{
    (void)state;
    struct draw draw = draw_start("8 bits", 21);
    struct world world = {.backend = emulated_backend(PRECISION_FP8)};
    assert_null(world.backend->open(0, &world.device));
    for (int trial = 0; trial < 40; trial++) {
        struct cast cast = {.rows = draw_int(&draw, 2, 140), .inner = 16 * draw_int(&draw, 1, 6)};
        cast.is_turned = draw_int(&draw, 0, 1);
        cast.is_gradient = draw_int(&draw, 0, 1);
        cast.stride = cast.inner + 16 * draw_int(&draw, 0, 2);
        cast.x = calloc((size_t)(cast.rows * cast.inner), sizeof *cast.x);
        assert_non_null(cast.x);
        for (int64_t i = 0; i < cast.rows * cast.inner && trial > 0; i++)
            cast.x[i] = draw_number(&draw);
        try_cast(&world, &cast);
        free(cast.x);
    }
    world.backend->close(world.device);
}

static void put_numbers(const struct world *world, void *memory, const float *values, int64_t count)
{
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_FROM_HOST, memory, values,
                                     count * (int64_t)sizeof *values));
}

// The weight as the identity sees it: x . W of W [inner][columns], or y . W' of the same one.
static void read_weight(const struct world *world, struct kernel_weight_cast cast,
                        const struct kernel_array *weight, bool is_turned, float *found)
{
    int64_t sizes[] = {weight->sizes[0], weight->sizes[1]};
    int64_t inner = sizes[is_turned], outer = sizes[!is_turned];
    const struct op op = {.kind = OP_CONTRACT, .name = "product", .scalar = 1};
    float *one = identity(inner);
    enum dim summed = weight->dims[is_turned], kept = weight->dims[!is_turned];
    struct kernel_call call = {.op = &op,
                               .inputs = {put(world, DIM_SEQ, inner, summed, inner, one), *weight},
                               .outputs = {put(world, DIM_SEQ, inner, kept, outer, found)},
                               .input_count = 2,
                               .output_count = 1,
                               .is_linear = true,
                               .weight_cast = cast};
    assert_null(world->backend->run(world->device, STREAM_COMPUTE, &call));
    assert_null(world->backend->copy(world->device, STREAM_COMPUTE, COPY_TO_HOST, found,
                                     call.outputs[0].data, inner * outer * (int64_t)sizeof *found));
    world->backend->release(world->device, call.inputs[0].data);
    world->backend->release(world->device, call.outputs[0].data);
    free(one);
}

// The first product of a step makes both copies; the others look at nothing else: the weight is
// overwritten between.
static void a_weight_is_cast_for_all_that_read_it(void **state)
{
    (void)state;
    enum { INNER = 48, COLUMNS = 96, COUNT = INNER * COLUMNS };
    struct draw draw = draw_start("weights in 8 bits", 5);
    struct world world = {.backend = emulated_backend(PRECISION_FP8)};
    assert_null(world.backend->open(0, &world.device));
    for (int first_turned = 0; first_turned < 2; first_turned++) {
        static float values[COUNT], other[COUNT], found[COUNT], turned[COUNT];
        for (int i = 0; i < COUNT; i++)
            values[i] = draw_number(&draw), other[i] = 1e3F;
        struct kernel_array weight = put(&world, DIM_HIDDEN, INNER, DIM_FFN, COLUMNS, values);
        void *memory = NULL;
        assert_null(world.backend->allocate(world.device, 2 * COUNT + 16, &memory));
        uint8_t *bytes = memory;
        struct kernel_weight_cast cast = {.input = 1,
                                          .rows = bytes,
                                          .turned = bytes + COUNT,
                                          .factor = (float *)(void *)(bytes + 2 * COUNT),
                                          .makes = true};
        for (int i = 0; i < 2; i++) {
            bool is_turned = i != first_turned;
            read_weight(&world, cast, &weight, is_turned, is_turned ? turned : found);
            cast.makes = false;
            put_numbers(&world, weight.data, other, COUNT);
        }
        const struct cast whole = {.rows = INNER, .inner = COLUMNS, .x = values};
        check(&whole, found);
        for (int r = 0; r < INNER; r++) {
            for (int c = 0; c < COLUMNS; c++)
                assert_true(turned[c * INNER + r] == found[r * COLUMNS + c]);
        }
        world.backend->release(world.device, weight.data);
        world.backend->release(world.device, memory);
    }
    world.backend->close(world.device);
}

int main(void)
{
    if (getenv("MESHWRIGHT_TEST_GPU")) {
        puts("1..0 # SKIP of the emulation");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_are_the_nearest_of_their_format),
        cmocka_unit_test(a_weight_is_cast_for_all_that_read_it),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
