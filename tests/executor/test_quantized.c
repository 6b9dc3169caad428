#include "executor/checkpoint/quantized.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

// Weights in whole numbers: rows worked by hand, and of drawn ones that none is further off than
// half a scale.

static void eight_bits_are_as_by_hand(void **state)
{
    (void)state;
    // The scale is 254 / 127 = 2: 127, -64 (of -63.5 the even one), 1, 0, 2.
    static const double VALUES[] = {254, -127, 2.5, 0.9, 3.1};
    static const unsigned char WANTED[] = {255, 64, 129, 128, 130, 0, 0, 0};
    const struct quantized of = {
        .bits = 8, .columns = 5, .group = 5, .scale_number = CHECKPOINT_F32};
    unsigned char codes[8];
    float scale;
    struct quantized_error error = {0};
    assert_int_equal(quantized_row_bytes(8, 5), 8);
    quantized_put(&of, 1, VALUES, codes, &scale, &error);
    assert_true(scale == 2);
    assert_memory_equal(codes, WANTED, sizeof codes);
    assert_int_equal(error.elements, 5);
    assert_true(fabs(error.most - 1) < 1e-12);
    assert_true(fabs(error.lost - (1 + 0.25 + 0.81 + 0.81)) < 1e-12);
    static const double BACK[] = {254, -128, 2, 0, 4};
    for (int i = 0; i < 5; i++)
        assert_true(quantized_get(&of, &scale, codes, i) == BACK[i]);
}

static void four_bits_have_a_scale_a_group(void **state)
{
    (void)state;
    // Two rows of two groups of two: scales 1, 0.5; 0 (all zero), 2.
    static const double VALUES[] = {7, -3.4, 3.5, -0.6, 0, 0, -14, 5};
    const struct quantized of = {
        .bits = 4, .columns = 4, .group = 2, .scale_number = CHECKPOINT_F32};
    uint32_t codes[2];
    float scales[4];
    struct quantized_error error = {0};
    quantized_put(&of, 2, VALUES, codes, scales, &error);
    assert_true(scales[0] == 1 && scales[1] == 0.5f && scales[2] == 0 && scales[3] == 2);
    // 7 - 3 7 - 1, and 0 0 -7 2 (of 2.5 the even one), 8 more each.
    assert_int_equal(codes[0], 0x7f5f);
    assert_int_equal(codes[1], 0xa188);
    static const double BACK[] = {7, -3, 3.5, -0.5, 0, 0, -14, 4};
    for (int i = 0; i < 8; i++)
        assert_true(quantized_get(&of, scales, codes, i) == BACK[i]);
}

static void none_is_further_off_than_half_a_scale(void **state)
{
    (void)state;
    enum { ROWS = 3, COLUMNS = 96, GROUP = 32 };
    struct draw draw = draw_start("quantized", 5);
    for (int n = 0; n < 200; n++) {
        double values[ROWS * COLUMNS];
        char codes[ROWS * COLUMNS];
        float scales[ROWS * COLUMNS / GROUP];
        const struct quantized of = {.bits = n % 2 ? 4 : 8,
                                     .columns = COLUMNS,
                                     .group = GROUP,
                                     .scale_number = CHECKPOINT_F32};
        struct quantized_error error = {0};
        double most = 0, lost = 0;
        for (int i = 0; i < ROWS * COLUMNS; i++)
            values[i] = draw_int(&draw, -1000000, 1000000) * 1e-7;
        quantized_put(&of, ROWS, values, codes, scales, &error);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            double apart = fabs(quantized_get(&of, scales, codes, i) - values[i]);
            assert_true(apart <= (double)scales[i / GROUP] * (0.5 + 1e-6));
            if (apart > most) most = apart;
            lost += apart * apart;
        }
        assert_true(error.most == most && fabs(error.lost - lost) <= 1e-12 * lost);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_bits_are_as_by_hand),
        cmocka_unit_test(four_bits_have_a_scale_a_group),
        cmocka_unit_test(none_is_further_off_than_half_a_scale),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
