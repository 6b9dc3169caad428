#include "models/pt2/rules.h"

#include <string.h>

static const struct pt2_rule RULES[] = {
    {"relu", pt2_unary, "Relu"},
    {"sigmoid", pt2_unary, "Sigmoid"},
    {"tanh", pt2_unary, "Tanh"},
    {"silu", pt2_unary, "Swish"},
    {"mish", pt2_unary, "Mish"},
    {"elu", pt2_elu, "Elu"},
    {"selu", pt2_unary, "Selu"},
    {"leaky_relu", pt2_leaky, "LeakyRelu"},
    {"softplus", pt2_softplus, "Softplus"},
    {"hardswish", pt2_unary, "HardSwish"},
    {"hardsigmoid", pt2_unary, "HardSigmoid"},
    {"exp", pt2_unary, "Exp"},
    {"erf", pt2_unary, "Erf"},
    {"log", pt2_unary, "Log"},
    {"sin", pt2_unary, "Sin"},
    {"cos", pt2_unary, "Cos"},
    {"sqrt", pt2_unary, "Sqrt"},
    {"neg", pt2_unary, "Neg"},
    {"abs", pt2_unary, "Abs"},
    {"reciprocal", pt2_unary, "Reciprocal"},
    {"logical_not", pt2_unary, "Not"},
    {"bitwise_not", pt2_unary, "Not"},
    {"rsqrt", pt2_rsqrt, NULL},
    {"gelu", pt2_gelu, NULL},
    {"clamp", pt2_clip, NULL},
    {"hardtanh", pt2_clip, NULL},
    {"relu6", pt2_clip, NULL},
    {"add", pt2_binary, "Add"},
    {"sub", pt2_binary, "Sub"},
    {"mul", pt2_binary, "Mul"},
    {"div", pt2_binary, "Div"},
    {"pow", pt2_binary, "Pow"},
    {"maximum", pt2_binary, "Max"},
    {"minimum", pt2_binary, "Min"},
    {"eq", pt2_binary, "Equal"},
    {"ne", pt2_binary, "Xor"},  // not equal, which ONNX has for truths alone
    {"lt", pt2_binary, "Less"},
    {"le", pt2_binary, "LessOrEqual"},
    {"gt", pt2_binary, "Greater"},
    {"ge", pt2_binary, "GreaterOrEqual"},
    {"logical_and", pt2_binary, "And"},
    {"bitwise_and", pt2_binary, "And"},
    {"__and__", pt2_binary, "And"},
    {"logical_or", pt2_binary, "Or"},
    {"bitwise_or", pt2_binary, "Or"},
    {"__or__", pt2_binary, "Or"},
    {"where", pt2_where, NULL},
    {"masked_fill", pt2_masked_fill, NULL},
    {"dropout", pt2_dropout, NULL},
    {"native_dropout", pt2_dropout, NULL},

    {"mm", pt2_product, NULL},
    {"bmm", pt2_product, NULL},
    {"matmul", pt2_product, NULL},
    {"addmm", pt2_addmm, NULL},
    {"baddbmm", pt2_baddbmm, NULL},
    {"linear", pt2_linear, NULL},
    {"scaled_dot_product_attention", pt2_attention, NULL},
    {"_scaled_dot_product_flash_attention", pt2_attention, NULL},
    {"_scaled_dot_product_flash_attention_for_cpu", pt2_attention, NULL},
    {"_scaled_dot_product_efficient_attention", pt2_attention, NULL},
    {"softmax", pt2_softmax, "Softmax"},
    {"_softmax", pt2_softmax, "Softmax"},
    {"log_softmax", pt2_softmax, "LogSoftmax"},
    {"_log_softmax", pt2_softmax, "LogSoftmax"},
    {"mean", pt2_reduce, "ReduceMean"},
    {"sum", pt2_reduce, "ReduceSum"},
    {"amax", pt2_reduce, "ReduceMax"},
    {"amin", pt2_reduce, "ReduceMin"},
    {"any", pt2_reduce, "ReduceMax"},
    {"layer_norm", pt2_layer_norm, NULL},
    {"native_layer_norm", pt2_layer_norm, NULL},
    {"rms_norm", pt2_rms_norm, NULL},
    {"group_norm", pt2_group_norm, NULL},
    {"native_group_norm", pt2_group_norm, NULL},
    {"batch_norm", pt2_batch_norm, NULL},
    {"_native_batch_norm_legit", pt2_batch_norm, NULL},
    {"_native_batch_norm_legit_functional", pt2_batch_norm, NULL},
    {"_native_batch_norm_legit_no_training", pt2_batch_norm, NULL},

    {"conv1d", pt2_conv, NULL},
    {"conv2d", pt2_conv, NULL},
    {"conv3d", pt2_conv, NULL},
    {"convolution", pt2_conv, NULL},
    {"conv_transpose1d", pt2_conv, "ConvTranspose"},
    {"conv_transpose2d", pt2_conv, "ConvTranspose"},
    {"conv_transpose3d", pt2_conv, "ConvTranspose"},
    {"max_pool1d", pt2_pool, "MaxPool"},
    {"max_pool2d", pt2_pool, "MaxPool"},
    {"max_pool3d", pt2_pool, "MaxPool"},
    {"max_pool2d_with_indices", pt2_pool, "MaxPool"},
    {"max_pool3d_with_indices", pt2_pool, "MaxPool"},
    {"avg_pool1d", pt2_pool, "AveragePool"},
    {"avg_pool2d", pt2_pool, "AveragePool"},
    {"avg_pool3d", pt2_pool, "AveragePool"},
    {"adaptive_avg_pool1d", pt2_adaptive_pool, "Average"},
    {"adaptive_avg_pool2d", pt2_adaptive_pool, "Average"},
    {"adaptive_avg_pool3d", pt2_adaptive_pool, "Average"},
    {"_adaptive_avg_pool2d", pt2_adaptive_pool, "Average"},
    {"adaptive_max_pool2d", pt2_adaptive_pool, "Max"},
    {"upsample_nearest2d", pt2_resize, NULL},
    {"upsample_bilinear2d", pt2_resize, NULL},

    {"alias", pt2_same, NULL},
    {"clone", pt2_same, NULL},
    {"contiguous", pt2_same, NULL},
    {"detach", pt2_same, NULL},
    {"lift_fresh_copy", pt2_same, NULL},
    {"to", pt2_cast, NULL},
    {"_to_copy", pt2_cast, NULL},
    {"type_as", pt2_cast, NULL},
    {"view", pt2_reshape, NULL},
    {"_unsafe_view", pt2_reshape, NULL},
    {"reshape", pt2_reshape, NULL},
    {"flatten", pt2_reshape, NULL},
    {"unflatten", pt2_reshape, NULL},
    {"squeeze", pt2_reshape, NULL},
    {"unsqueeze", pt2_reshape, NULL},
    {"transpose", pt2_transpose, NULL},
    {"permute", pt2_transpose, NULL},
    {"t", pt2_transpose, NULL},
    {"numpy_T", pt2_transpose, NULL},
    {"expand", pt2_expand, NULL},
    {"expand_as", pt2_expand, NULL},
    {"slice", pt2_slice, NULL},
    {"narrow", pt2_slice, NULL},
    {"select", pt2_select, NULL},
    {"split", pt2_split, NULL},
    {"split_with_sizes", pt2_split, NULL},
    {"chunk", pt2_split, NULL},
    {"cat", pt2_concat, NULL},
    {"concat", pt2_concat, NULL},
    {"stack", pt2_stack, NULL},
    {"embedding", pt2_embedding, NULL},
    {"index_select", pt2_gather, "Gather"},
    {"gather", pt2_gather, "GatherElements"},
    {"index", pt2_index, NULL},
    {"cumsum", pt2_cumsum, NULL},
    {"zeros_like", pt2_made, NULL},
    {"ones_like", pt2_made, NULL},
    {"full_like", pt2_made, NULL},
    {"empty_like", pt2_made, NULL},
    {"new_zeros", pt2_made, NULL},
    {"new_ones", pt2_made, NULL},
    {"new_full", pt2_made, NULL},
    {"new_empty", pt2_made, NULL},
};

// "torch.ops.aten.add_.Tensor" is "add"; "__and__" keeps its underscores.
static const char *base_of(struct arena *arena, const char *target)
{
    static const char ATEN[] = "torch.ops.aten.";
    if (strncmp(target, ATEN, strlen(ATEN)) != 0) return "";
    char *base = arena_copy(arena, target + strlen(ATEN));
    base[strcspn(base, ".")] = '\0';
    size_t length = strlen(base);
    if (length > 1 && base[length - 1] == '_' && base[length - 2] != '_') base[length - 1] = '\0';
    return base;
}

const struct pt2_rule *pt2_rule_find(struct arena *arena, const char *target)
{
    const char *base = base_of(arena, target);
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++) {
        if (strcmp(RULES[i].name, base) == 0) return &RULES[i];
    }
    return NULL;
}

enum onnx_element pt2_element(int64_t scalar_type)
{
    // ScalarType of torch/_export/serde/schema.py.
    static const enum onnx_element ELEMENTS[] = {
        [1] = ELEMENT_UINT8, [2] = ELEMENT_INT8,      [3] = ELEMENT_INT16, [4] = ELEMENT_INT32,
        [5] = ELEMENT_INT64, [6] = ELEMENT_FLOAT16,   [7] = ELEMENT_FLOAT, [8] = ELEMENT_DOUBLE,
        [12] = ELEMENT_BOOL, [13] = ELEMENT_BFLOAT16,
    };
    int64_t count = sizeof ELEMENTS / sizeof *ELEMENTS;
    return scalar_type >= 0 && scalar_type < count ? ELEMENTS[scalar_type] : (enum onnx_element)0;
}
