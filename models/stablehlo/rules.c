#include "models/stablehlo/rules.h"

#include <string.h>

static const struct hlo_rule RULES[] = {
    {"exponential", hlo_unary, "Exp", true},
    {"exponential_minus_one", hlo_shifted, "Exp", true},
    {"log", hlo_unary, "Log", true},
    {"log_plus_one", hlo_shifted, "Log", true},
    {"tanh", hlo_unary, "Tanh", true},
    {"logistic", hlo_unary, "Sigmoid", true},
    {"sqrt", hlo_unary, "Sqrt", true},
    {"rsqrt", hlo_rsqrt, NULL, true},
    {"negate", hlo_unary, "Neg", true},
    {"abs", hlo_unary, "Abs", true},
    {"sine", hlo_unary, "Sin", true},
    {"cosine", hlo_unary, "Cos", true},
    {"sign", hlo_unary, "Sign", true},
    {"floor", hlo_unary, "Floor", true},
    {"ceil", hlo_unary, "Ceil", true},
    {"round_nearest_even", hlo_unary, "Round", true},
    {"not", hlo_unary, "Not", true},
    {"erf", hlo_unary, "Erf", true},
    {"erfc", hlo_erfc, NULL, true},
    {"square", hlo_square, NULL, true},
    {"convert", hlo_convert, NULL, true},

    {"add", hlo_binary, "Add", true},
    {"subtract", hlo_binary, "Sub", true},
    {"multiply", hlo_binary, "Mul", true},
    {"divide", hlo_divide, "Div", true},
    {"power", hlo_binary, "Pow", true},
    {"remainder", hlo_binary, "Mod", true},
    {"maximum", hlo_maximum, "Max", true},
    {"minimum", hlo_maximum, "Min", true},
    {"and", hlo_binary, "And", true},
    {"or", hlo_binary, "Or", true},
    {"xor", hlo_binary, "Xor", true},
    {"compare", hlo_compare, NULL, true},
    {"select", hlo_select, NULL, true},
    {"clamp", hlo_clamp, NULL, true},

    {"constant", hlo_constant, NULL, true},
    {"iota", hlo_iota, NULL, true},
    {"broadcast_in_dim", hlo_broadcast, NULL, true},
    {"reshape", hlo_reshape, NULL, true},
    {"transpose", hlo_transpose, NULL, true},
    {"optimization_barrier", hlo_same, NULL, true},
    {"sharding_constraint", hlo_same, NULL, true},
    {"custom_call", hlo_custom, NULL, true},
    {"composite", hlo_custom, NULL, true},

    {"concatenate", hlo_concatenate, NULL, false},
    {"slice", hlo_slice, NULL, false},
    {"dynamic_slice", hlo_dynamic_slice, NULL, false},
    {"dynamic_update_slice", hlo_dynamic_update, NULL, false},
    {"reverse", hlo_reverse, NULL, false},
    {"pad", hlo_pad, NULL, false},
    {"scatter", hlo_scatter, NULL, false},
    {"sort", hlo_sort, NULL, false},
    {"top_k", hlo_top_k, NULL, false},
    {"gather", hlo_gather, NULL, false},
    {"dot_general", hlo_dot, NULL, false},
    {"reduce", hlo_reduce, NULL, false},
    {"convolution", hlo_convolution, NULL, false},
    {"reduce_window", hlo_reduce_window, NULL, false},
};

const struct hlo_rule *hlo_rule_find(const char *name)
{
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++)
        if (strcmp(RULES[i].name, name) == 0) return &RULES[i];
    return NULL;
}
