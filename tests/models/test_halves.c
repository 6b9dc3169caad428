#include "tests/support/test.h"

#include "models/onnx/model.h"

#include <math.h>

// Bits of half floats by hand, and every one of them there and back.
static void halves_are_their_numbers(void **state)
{
    (void)state;
    static const struct {
        double number;
        uint16_t fp16, bf16;
    } CASES[] = {
        {1, 0x3c00, 0x3f80},           {-2, 0xc000, 0xc000},
        {65504, 0x7bff, 0x4780},       {65520, 0x7c00, 0x4780},
        {0x1p-24, 0x0001, 0x3380},     {0.1, 0x2e66, 0x3dcd},
        {1 + 0x1p-11, 0x3c00, 0x3f80}, {1 + 3 * 0x1p-11, 0x3c02, 0x3f80},
        {1 + 0x1p-8, 0x3c04, 0x3f80},  {1 + 3 * 0x1p-8, 0x3c0c, 0x3f82},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        assert_int_equal(half_bits(CASES[i].number, ELEMENT_FLOAT16), CASES[i].fp16);
        assert_int_equal(half_bits(CASES[i].number, ELEMENT_BFLOAT16), CASES[i].bf16);
    }
    for (int kind = 0; kind < 2; kind++) {
        enum onnx_element element = kind ? ELEMENT_BFLOAT16 : ELEMENT_FLOAT16;
        for (int bits = 0; bits <= UINT16_MAX; bits++) {
            double number = half_number((uint16_t)bits, element);
            if (!isnan(number)) assert_int_equal(half_bits(number, element), bits);
        }
        assert_true(isnan(half_number(half_bits(NAN, element), element)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_are_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
