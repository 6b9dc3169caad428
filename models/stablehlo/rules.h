#pragma once
#include "models/stablehlo/op.h"

// What an operator of StableHLO becomes. `type` is an operator of ONNX (models/onnx/operators.c)
// for rules that make one of any such type.

typedef bool hlo_maker(struct hlo_op *op, const char *type);

struct hlo_rule {
    const char *name;  // without its dialect
    hlo_maker *make;
    const char *type;
    bool is_own;  // also where all operands are constants: else the result is one of its shape
};

// NULL where the table has no such row.
const struct hlo_rule *hlo_rule_find(const char *name);

// Element by element: rules_math.c
hlo_maker hlo_unary, hlo_rsqrt, hlo_shifted, hlo_erfc, hlo_square, hlo_binary, hlo_maximum,
    hlo_divide, hlo_compare, hlo_select, hlo_clamp, hlo_convert;
// Views and constants: rules_view.c
hlo_maker hlo_constant, hlo_iota, hlo_broadcast, hlo_reshape, hlo_transpose, hlo_same, hlo_custom;
// Moving data: rules_move.c
hlo_maker hlo_concatenate, hlo_slice, hlo_dynamic_slice, hlo_dynamic_update, hlo_reverse, hlo_pad;
// By indices: rules_pick.c
hlo_maker hlo_gather, hlo_scatter, hlo_sort, hlo_top_k;
bool hlo_reduce_arg(struct hlo_op *op);
// Products and reductions: rules_product.c
hlo_maker hlo_dot, hlo_reduce;
// Windows over images: rules_window.c
hlo_maker hlo_convolution, hlo_reduce_window;
