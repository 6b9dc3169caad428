#include "models/pt2/rules.h"

#include "core/names.h"

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
    {"hardsigmoid", pt2_hard_sigmoid, NULL},
    {"exp", pt2_unary, "Exp"},
    {"erf", pt2_unary, "Erf"},
    {"log", pt2_unary, "Log"},
    {"sin", pt2_unary, "Sin"},
    {"cos", pt2_unary, "Cos"},
    {"sqrt", pt2_unary, "Sqrt"},
    {"neg", pt2_unary, "Neg"},
    {"abs", pt2_unary, "Abs"},
    {"reciprocal", pt2_unary, "Reciprocal"},
    {"floor", pt2_unary, "Floor"},
    {"ceil", pt2_unary, "Ceil"},
    {"round", pt2_unary, "Round"},
    {"sign", pt2_unary, "Sign"},
    {"isnan", pt2_unary, "IsNaN"},
    {"isinf", pt2_unary, "IsInf"},
    {"celu", pt2_elu, "Celu"},
    {"softsign", pt2_unary, "Softsign"},
    {"square", pt2_square, NULL},
    {"prelu", pt2_prelu, NULL},
    {"logical_not bitwise_not", pt2_unary, "Not"},
    {"rsqrt", pt2_rsqrt, NULL},
    {"gelu", pt2_gelu, NULL},
    {"clamp clamp_min clamp_max hardtanh relu6", pt2_clip, NULL},
    {"add", pt2_binary, "Add"},
    {"sub", pt2_binary, "Sub"},
    {"mul", pt2_binary, "Mul"},
    {"div floor_divide", pt2_divide, "Div"},
    {"pow", pt2_binary, "Pow"},
    {"true_divide", pt2_binary, "Div"},
    {"remainder fmod", pt2_binary, "Mod"},
    {"rsub", pt2_rsub, NULL},
    {"addcmul", pt2_addcmul, NULL},
    {"maximum", pt2_binary, "Max"},
    {"minimum", pt2_binary, "Min"},
    {"eq", pt2_binary, "Equal"},
    {"ne", pt2_unequal, NULL},
    {"lt", pt2_binary, "Less"},
    {"le", pt2_binary, "LessOrEqual"},
    {"gt", pt2_binary, "Greater"},
    {"ge", pt2_binary, "GreaterOrEqual"},
    {"logical_and bitwise_and __and__", pt2_binary, "And"},
    {"logical_or bitwise_or __or__", pt2_binary, "Or"},
    {"where", pt2_where, NULL},
    {"masked_fill", pt2_masked_fill, NULL},
    {"dropout native_dropout", pt2_dropout, NULL},

    {"mm bmm matmul", pt2_product, NULL},
    {"addmm", pt2_addmm, NULL},
    {"baddbmm", pt2_baddbmm, NULL},
    {"linear", pt2_linear, NULL},
    {"scaled_dot_product_attention _scaled_dot_product_flash_attention "
     "_scaled_dot_product_flash_attention_for_cpu "
     "_scaled_dot_product_efficient_attention",
     pt2_attention, NULL},
    {"softmax _softmax", pt2_softmax, "Softmax"},
    {"log_softmax _log_softmax", pt2_softmax, "LogSoftmax"},
    {"cross_entropy_loss", pt2_loss, "SoftmaxCrossEntropyLoss"},
    {"nll_loss nll_loss_nd", pt2_loss, "NegativeLogLikelihoodLoss"},
    {"mean", pt2_reduce, "ReduceMean"},
    {"sum", pt2_reduce, "ReduceSum"},
    {"amax any", pt2_reduce, "ReduceMax"},
    {"amin all", pt2_reduce, "ReduceMin"},
    {"prod", pt2_reduce, "ReduceProd"},
    {"logsumexp", pt2_reduce, "ReduceLogSumExp"},
    {"linalg_vector_norm norm", pt2_reduce, "ReduceL2"},
    {"var", pt2_variance, NULL},
    {"std", pt2_variance, "Sqrt"},
    {"var_mean", pt2_variance_mean, NULL},
    {"argmax", pt2_arg, "ArgMax"},
    {"argmin", pt2_arg, "ArgMin"},
    {"topk sort", pt2_top, NULL},
    {"layer_norm native_layer_norm", pt2_layer_norm, NULL},
    {"rms_norm", pt2_rms_norm, NULL},
    {"group_norm native_group_norm", pt2_group_norm, NULL},
    {"batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
     "_native_batch_norm_legit_no_training",
     pt2_batch_norm, NULL},

    {"conv1d conv2d conv3d convolution", pt2_conv, NULL},
    {"conv_transpose1d conv_transpose2d conv_transpose3d", pt2_conv, "ConvTranspose"},
    {"max_pool1d max_pool2d max_pool3d max_pool2d_with_indices "
     "max_pool3d_with_indices",
     pt2_pool, "MaxPool"},
    {"avg_pool1d avg_pool2d avg_pool3d", pt2_pool, "AveragePool"},
    {"adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d "
     "_adaptive_avg_pool3d",
     pt2_adaptive_pool, "Average"},
    {"adaptive_max_pool2d adaptive_max_pool1d adaptive_max_pool3d", pt2_adaptive_pool, "Max"},
    {"upsample_nearest2d upsample_bilinear2d upsample_nearest1d upsample_nearest3d "
     "upsample_linear1d upsample_trilinear3d upsample_bicubic2d",
     pt2_resize, NULL},
    {"instance_norm", pt2_instance_norm, NULL},

    {"alias clone contiguous detach lift_fresh_copy", pt2_same, NULL},
    {"to _to_copy type_as", pt2_cast, NULL},
    {"view _unsafe_view reshape flatten unflatten squeeze unsqueeze", pt2_reshape, NULL},
    {"transpose permute t swapaxes swapdims numpy_T", pt2_transpose, NULL},
    {"expand expand_as", pt2_expand, NULL},
    {"slice narrow", pt2_slice, NULL},
    {"select", pt2_select, NULL},
    {"split split_with_sizes chunk", pt2_split, NULL},
    {"cat concat", pt2_concat, NULL},
    {"stack", pt2_stack, NULL},
    {"embedding", pt2_embedding, NULL},
    {"index_select", pt2_gather, "Gather"},
    {"gather", pt2_gather, "GatherElements"},
    {"index", pt2_index, NULL},
    {"index_put", pt2_index_put, NULL},
    {"histc", pt2_histogram, NULL},
    {"_grouped_mm grouped_mm_fallback", pt2_grouped_product, "GroupedMatMul"},
    {"cumsum", pt2_cumsum, NULL},
    {"embedding_bag _embedding_bag _embedding_bag_forward_only", pt2_embedding_bag, NULL},
    {"lstm", pt2_recurrent, "LSTM"},
    {"gru", pt2_recurrent, "GRU"},
    {"rnn_tanh rnn_relu", pt2_recurrent, "RNN"},
    {"einsum", pt2_einsum, NULL},
    {"constant_pad_nd pad reflection_pad2d replication_pad2d", pt2_pad, NULL},
    {"repeat tile", pt2_tile, NULL},
    {"repeat_interleave", pt2_repeat_each, NULL},
    {"roll", pt2_roll, NULL},
    {"flip", pt2_flip, NULL},
    {"unbind", pt2_unbind, NULL},
    {"tril triu", pt2_triangle, NULL},
    {"pixel_shuffle", pt2_shuffle, "DepthToSpace"},
    {"pixel_unshuffle", pt2_shuffle, "SpaceToDepth"},
    {"scatter scatter_add scatter_reduce index_add index_copy", pt2_scatter, "ScatterElements"},
    {"glu", pt2_glu, NULL},
    {"_weight_norm _weight_norm_interface", pt2_weight_norm, NULL},
    {"zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty fill "
     "rand_like randn_like bernoulli",
     pt2_made, NULL},
};

// "torch.ops.aten.add_.Tensor" is "add"; "__and__" keeps its underscores. Operators of transformers
// are their own stand-ins for those of ATen.
static const char *base_of(struct arena *arena, const char *target)
{
    static const char *const SPACES[] = {"torch.ops.aten.", "torch.ops.transformers."};
    size_t prefix = 0;
    for (size_t i = 0; i < sizeof SPACES / sizeof *SPACES; i++)
        if (strncmp(target, SPACES[i], strlen(SPACES[i])) == 0) prefix = strlen(SPACES[i]);
    if (prefix == 0) return "";
    char *base = arena_copy(arena, target + prefix);
    base[strcspn(base, ".")] = '\0';
    size_t length = strlen(base);
    if (length > 1 && base[length - 1] == '_' && base[length - 2] != '_') base[length - 1] = '\0';
    return base;
}

const struct pt2_rule *pt2_rule_find(struct arena *arena, const char *target)
{
    const char *base = base_of(arena, target);
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++) {
        if (names_hold(RULES[i].names, base)) return &RULES[i];
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
