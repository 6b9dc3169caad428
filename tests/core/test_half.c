#include "executor/half.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>

// Numbers of 16 bits against their definition: sign, exponent, significand, each worked out in
// doubles.

struct format {
    const char *name;
    int significand_bits, exponent_bits;
    float (*widen)(uint16_t bits);
    uint16_t (*round)(float value);
};

static float widen_bf16(uint16_t bits)
{
    return bf16_widen(bits);
}
static uint16_t round_bf16(float value)
{
    return bf16_round(value);
}
static float widen_fp16(uint16_t bits)
{
    return fp16_widen(bits);
}
static uint16_t round_fp16(float value)
{
    return fp16_round(value);
}

static const struct format FORMATS[] = {{"bf16", 7, 8, widen_bf16, round_bf16},
                                        {"fp16", 10, 5, widen_fp16, round_fp16}};
enum { FORMAT_COUNT = 2 };

static double defined(const struct format *format, uint16_t bits)
{
    int fraction = bits & ((1 << format->significand_bits) - 1);
    int exponent = bits >> format->significand_bits & ((1 << format->exponent_bits) - 1);
    int bias = (1 << (format->exponent_bits - 1)) - 1;
    double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << format->exponent_bits) - 1)
        return fraction ? (double)NAN : sign * HUGE_VAL;
    int whole = exponent ? 1 << format->significand_bits : 0;
    int shift = (exponent ? exponent : 1) - bias - format->significand_bits;
    return sign * ldexp(whole + fraction, shift);
}

static void every_number_is_what_its_bits_say_and_is_rounded_to_itself(void **state)
{
    (void)state;
    for (int f = 0; f < FORMAT_COUNT; f++) {
        for (uint32_t bits = 0; bits < 1 << 16; bits++) {
            double wanted = defined(&FORMATS[f], (uint16_t)bits);
            float found = FORMATS[f].widen((uint16_t)bits);
            uint16_t back = FORMATS[f].round(found);
            if (isnan(wanted)) {
                assert_true(isnan(found) && isnan(defined(&FORMATS[f], back)));
                continue;
            }
            if ((double)found != wanted || back != bits)
                fail_msg("%s %#x is %g and goes back to %#x, not %g", FORMATS[f].name, bits,
                         (double)found, back, wanted);
        }
    }
}

// The two neighbours of a value are 16-bit patterns in a row; the nearer wins, or the even one.
static void check_rounding(const struct format *format, float value)
{
    uint16_t found = format->round(value);
    uint16_t low = 0,
             high = (uint16_t)(((1 << format->exponent_bits) - 1) << format->significand_bits);
    double magnitude = fabs((double)value);
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (defined(format, middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    // Past the largest number comes the one that would follow it if there were room.
    double above = 2 * defined(format, low) - defined(format, (uint16_t)(low - 1));
    if (low == 0 || !isinf(defined(format, high))) above = defined(format, high);
    double down = magnitude - defined(format, low), up = above - magnitude;
    uint16_t wanted = down < up || (down == up && low % 2 == 0) ? low : high;
    if (signbit(value)) wanted |= 0x8000;
    if (found != wanted)
        fail_msg("%s of %.9g is %#x, not %#x", format->name, (double)value, found, wanted);
}

static void every_value_goes_to_the_nearest_ties_to_even(void **state)
{
    (void)state;
    struct draw draw = draw_start("half", 5);
    for (int f = 0; f < FORMAT_COUNT; f++) {
        for (int i = 0; i < 40000; i++) {
            float value = float_of_bits((uint32_t)draw_bits(&draw));
            if (!isfinite(value)) continue;
            check_rounding(&FORMATS[f], value);
            // Values of all sizes that fp16 has, and ties of both formats.
            float near =
                (float)ldexp((double)(int32_t)draw_bits(&draw), -31 + draw_int(&draw, -28, 17));
            check_rounding(&FORMATS[f], near);
            check_rounding(&FORMATS[f], float_of_bits((bits_of_float(near) & 0xffff0000) | 0x8000));
            check_rounding(&FORMATS[f], float_of_bits((bits_of_float(near) & 0xffffe000) | 0x1000));
        }
        assert_int_equal(FORMATS[f].round(INFINITY), FORMATS[f].round((float)HUGE_VAL));
        assert_true(isinf(FORMATS[f].widen(FORMATS[f].round(-INFINITY))));
        assert_true(isnan(FORMATS[f].widen(FORMATS[f].round(NAN))));
        // Whose upper half alone would be an infinity.
        assert_true(isnan(FORMATS[f].widen(FORMATS[f].round(float_of_bits(0x7f800001)))));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_what_its_bits_say_and_is_rounded_to_itself),
        cmocka_unit_test(every_value_goes_to_the_nearest_ties_to_even),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
