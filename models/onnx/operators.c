#include "models/onnx/operators.h"

#include "models/onnx/shape.h"

#include <string.h>

// Bits of inputs and outputs.
enum { X0 = 1, X1 = 2, X2 = 4, X3 = 8, X4 = 16, Y0 = 1, Y1 = 2, Y2 = 4, Y3 = 8, Y4 = 16 };
enum { ALL_BUT_FIRST = ~1U & 0x3ff };

enum {
    EACH = GRADIENT_EACH,
    PASS = GRADIENT_PASS,
    VIEW = GRADIENT_VIEW,
    OVER = GRADIENT_IN_PLACE,
    SCALED = GRADIENT_SCALED,
};

// The lists of gradients, which end with an empty row. READS_INPUT and READS_OUTPUT are of
// functions of one tensor whose derivative is written with x, or with y so that x may go.
static const struct onnx_gradient
    NO_GRADIENT[] = {{0}},
    READS_NOTHING[] = {{"gradient", X0, 0, 0, OVER}, {0}},
    READS_INPUT[] = {{"gradient", X0, X0, 0, OVER}, {0}},
    READS_OUTPUT[] = {{"gradient", X0, 0, Y0, OVER}, {0}},
    READS_BOTH[] = {{"gradient", X0, X0, Y0, 0}, {0}}, MOVES[] = {{"gradient", X0, 0, 0, 0}, {0}},
    IS_VIEW[] = {{"gradient", X0, 0, 0, VIEW}, {0}},
    PRODUCT[] = {{"input_gradient", X0, X1, 0, SCALED},
                 {"weight_gradient", X1, X0, 0, SCALED},
                 {"bias_gradient", X2, 0, 0, PASS},
                 {0}},
    GROUPED[] = {{"input_gradient", X0, X1, 0, SCALED},
                 {"weight_gradient", X1, X0, 0, SCALED},
                 {0}},
    NORM[] = {{"gradient", X0 | X1 | X2, X0 | X1, Y1 | Y2, 0}, {0}},
    // What is read has its gradient back through all steps, weights a product over them. Of states
    // and lengths that are given there is none.
    RECURS[] = {{"input_gradient", X0, X1 | X2, Y0 | Y3, SCALED},
                {"weight_gradient", X1 | X2 | X3, X0, Y0 | Y3, SCALED},
                {0}},
    ATTENDS[] = {{"gradient", X0 | X1 | X2, X0 | X1 | X2 | X3 | X4, Y0 | Y1, GRADIENT_AGAIN},
                 {"mask_gradient", X3, X0 | X1 | X2 | X3, Y0 | Y1, 0},
                 {0}},
    READS_SECOND[] = {{"gradient", X0, 0, Y1, 0}, {0}},
    BATCH_NORM[] = {{"gradient", X0 | X1 | X2, X0 | X1, Y3 | Y4, 0}, {0}},
    PARAMETRIC[] = {{"input_gradient", X0, X0 | X1, 0, OVER},
                    {"weight_gradient", X1, X0, 0, 0},
                    {0}},
    PASSES[] = {{"gradient", X0 | X1, 0, 0, PASS}, {0}},
    SUBTRACTS[] = {{"gradient", X0, 0, 0, PASS}, {"negative_gradient", X1, 0, 0, OVER}, {0}},
    MULTIPLIES[] = {{"left_gradient", X0, X1, 0, OVER}, {"right_gradient", X1, X0, 0, OVER}, {0}},
    DIVIDES[] = {{"left_gradient", X0, X1, 0, OVER}, {"right_gradient", X1, X1, Y0, OVER}, {0}},
    RAISES[] = {{"left_gradient", X0, X0 | X1, 0, OVER}, {"right_gradient", X1, X0, Y0, OVER}, {0}},
    SUMS[] = {{"gradient", ~0U, 0, 0, PASS | EACH}, {0}},
    MOVES_EACH[] = {{"gradient", ~0U, 0, 0, EACH}, {0}},
    READS_EACH[] = {{"gradient", ~0U, ~0U, Y0, EACH}, {0}},
    CHOOSES[] = {{"left_gradient", X1, X0, 0, OVER}, {"right_gradient", X2, X0, 0, OVER}, {0}},
    DROPS[] = {{"gradient", X0, 0, Y1, OVER}, {0}}, LOOKS_UP[] = {{"gradient", X0, X1, 0, 0}, {0}},
    SCATTERS[] = {{"input_gradient", X0, X1, 0, OVER}, {"update_gradient", X2, X1, 0, 0}, {0}};

#define UNARY(type, flop, reads)                                     \
    {                                                                \
        type, shape_same, 1, 1, 1, 0, TRAIT_IN_PLACE, 0, flop, reads \
    }
#define STEP(type)                                                      \
    {                                                                   \
        type, shape_same, 1, 1, 1, 0, TRAIT_IN_PLACE, 0, 1, NO_GRADIENT \
    }
#define COMPARE(type, inputs)                                           \
    {                                                                   \
        type, shape_compare, inputs, inputs, 1, 0, 0, 0, 1, NO_GRADIENT \
    }
#define REDUCE(type, reads)                             \
    {                                                   \
        type, shape_reduce, 1, 2, 1, X1, 0, 0, 1, reads \
    }

#define RECURRENT(type, inputs, outputs)                                        \
    {                                                                           \
        type, shape_recurrent, 3, inputs, outputs, 0, 0, SAVED_GATES, 0, RECURS \
    }

// Flops of element-wise functions are one for each arithmetic operation and one for each
// transcendental: no machine is kept busy by them, their bytes count.
static const struct onnx_operator OPERATORS[] = {
    // type, shape, inputs least and most, outputs most, values, traits, saved, flops, gradients
    {"Conv", shape_conv, 2, 3, 1, 0, 0, 0, 0, PRODUCT},
    {"ConvTranspose", shape_conv_transpose, 2, 3, 1, 0, 0, 0, 0, PRODUCT},
    {"Gemm", shape_gemm, 2, 3, 1, 0, 0, 0, 0, PRODUCT},
    {"MatMul", shape_matmul, 2, 2, 1, 0, 0, 0, 0, PRODUCT},
    {"GroupedMatMul", shape_grouped_matmul, 2, 2, 1, 0, 0, 0, 0, GROUPED},  // of .pt2 alone
    {"Einsum", shape_einsum, 1, 2, 1, 0, 0, 0, 0, PRODUCT},

    {"Attention", shape_attention, 3, 4, 1, 0, 0, SAVED_SUMS, 0, ATTENDS},

    RECURRENT("LSTM", 8, 3),
    RECURRENT("GRU", 6, 2),
    RECURRENT("RNN", 6, 2),

    {"MaxPool", shape_pool, 1, 1, 2, 0, 0, SAVED_INDICES, 0, READS_SECOND},
    {"AveragePool", shape_pool, 1, 1, 1, 0, 0, 0, 0, MOVES},
    {"GlobalAveragePool", shape_global_pool, 1, 1, 1, 0, 0, 0, 0, MOVES},
    {"GlobalMaxPool", shape_global_pool, 1, 1, 1, 0, 0, 0, 0, READS_BOTH},
    {"Resize", shape_resize, 1, 4, 1, X1 | X2 | X3, 0, 0, 7, MOVES},
    {"Upsample", shape_resize, 1, 2, 1, X1, 0, 0, 7, MOVES},

    {"BatchNormalization", shape_batch_norm, 5, 5, 5, 0, TRAIT_EVAL_IN_PLACE, SAVED_CHANNELS, 5,
     BATCH_NORM},
    {"InstanceNormalization", shape_batch_norm, 3, 3, 1, 0, 0, SAVED_PLANES, 8, NORM},
    {"LayerNormalization", shape_normalized, 2, 3, 3, 0, 0, SAVED_ROWS, 8, NORM},
    {"GroupNormalization", shape_normalized, 3, 3, 1, 0, 0, SAVED_GROUPS, 8, NORM},
    {"LRN", shape_normalized, 1, 1, 1, 0, 0, 0, 8, READS_BOTH},
    {"Softmax", shape_normalized, 1, 1, 1, 0, TRAIT_IN_PLACE, 0, 5, READS_OUTPUT},
    {"LogSoftmax", shape_normalized, 1, 1, 1, 0, TRAIT_IN_PLACE, 0, 5, READS_OUTPUT},

    // The loss of training is that of their scores (models/onnx/read.c).
    {"SoftmaxCrossEntropyLoss", shape_loss, 2, 2, 2, 0, 0, 0, 5, NO_GRADIENT},
    {"NegativeLogLikelihoodLoss", shape_loss, 2, 2, 1, 0, 0, 0, 1, NO_GRADIENT},

    UNARY("Relu", 1, READS_OUTPUT),
    UNARY("LeakyRelu", 2, READS_OUTPUT),
    UNARY("ThresholdedRelu", 1, READS_OUTPUT),
    UNARY("Elu", 3, READS_OUTPUT),
    UNARY("Selu", 4, READS_OUTPUT),
    UNARY("Celu", 4, READS_OUTPUT),
    UNARY("Sigmoid", 3, READS_OUTPUT),
    UNARY("HardSigmoid", 3, READS_OUTPUT),
    UNARY("Tanh", 1, READS_OUTPUT),
    UNARY("Exp", 1, READS_OUTPUT),
    UNARY("Sqrt", 1, READS_OUTPUT),
    UNARY("Reciprocal", 1, READS_OUTPUT),
    UNARY("Neg", 1, READS_NOTHING),
    UNARY("Abs", 1, READS_INPUT),
    UNARY("Log", 1, READS_INPUT),
    UNARY("Sin", 1, READS_INPUT),
    UNARY("Cos", 1, READS_INPUT),
    UNARY("Erf", 1, READS_INPUT),
    UNARY("Gelu", 8, READS_INPUT),
    UNARY("Mish", 6, READS_INPUT),
    UNARY("Swish", 4, READS_INPUT),
    UNARY("HardSwish", 4, READS_INPUT),
    UNARY("Softplus", 3, READS_INPUT),
    UNARY("Softsign", 3, READS_INPUT),
    {"Clip", shape_same, 1, 3, 1, X1 | X2, TRAIT_IN_PLACE, 0, 2, READS_INPUT},
    {"PRelu", shape_broadcast, 2, 2, 1, 0, 0, 0, 2, PARAMETRIC},
    STEP("Floor"),
    STEP("Ceil"),
    STEP("Round"),
    STEP("Sign"),
    {"Not", shape_bool, 1, 1, 1, 0, TRAIT_IN_PLACE, 0, 1, NO_GRADIENT},
    {"IsNaN", shape_bool, 1, 1, 1, 0, 0, 0, 1, NO_GRADIENT},
    {"IsInf", shape_bool, 1, 1, 1, 0, 0, 0, 1, NO_GRADIENT},

    {"Add", shape_broadcast, 2, 2, 1, 0, TRAIT_IN_PLACE, 0, 1, PASSES},
    {"Sub", shape_broadcast, 2, 2, 1, 0, TRAIT_IN_PLACE, 0, 1, SUBTRACTS},
    {"Mul", shape_broadcast, 2, 2, 1, 0, TRAIT_IN_PLACE, 0, 1, MULTIPLIES},
    {"Div", shape_broadcast, 2, 2, 1, 0, TRAIT_IN_PLACE, 0, 1, DIVIDES},
    {"Pow", shape_broadcast, 2, 2, 1, 0, TRAIT_IN_PLACE, 0, 2, RAISES},
    {"Mod", shape_broadcast, 2, 2, 1, 0, 0, 0, 1, NO_GRADIENT},
    {"Sum", shape_variadic, 1, INPUTS_ANY, 1, 0, TRAIT_IN_PLACE, 0, 1, SUMS},
    {"Mean", shape_variadic, 1, INPUTS_ANY, 1, 0, TRAIT_IN_PLACE, 0, 1, MOVES_EACH},
    {"Max", shape_variadic, 1, INPUTS_ANY, 1, 0, TRAIT_IN_PLACE, 0, 1, READS_EACH},
    {"Min", shape_variadic, 1, INPUTS_ANY, 1, 0, TRAIT_IN_PLACE, 0, 1, READS_EACH},
    {"Where", shape_where, 3, 3, 1, 0, 0, 0, 1, CHOOSES},
    COMPARE("Equal", 2),
    COMPARE("Less", 2),
    COMPARE("LessOrEqual", 2),
    COMPARE("Greater", 2),
    COMPARE("GreaterOrEqual", 2),
    COMPARE("And", 2),
    COMPARE("Or", 2),
    COMPARE("Xor", 2),

    REDUCE("ReduceMean", MOVES),
    REDUCE("ReduceSum", MOVES),
    REDUCE("ReduceMax", READS_BOTH),
    REDUCE("ReduceMin", READS_BOTH),
    REDUCE("ReduceProd", READS_BOTH),
    REDUCE("ReduceL1", READS_INPUT),
    REDUCE("ReduceL2", READS_BOTH),
    REDUCE("ReduceSumSquare", READS_INPUT),
    REDUCE("ReduceLogSum", READS_BOTH),
    REDUCE("ReduceLogSumExp", READS_BOTH),
    {"ArgMax", shape_arg, 1, 1, 1, 0, 0, 0, 1, NO_GRADIENT},
    {"ArgMin", shape_arg, 1, 1, 1, 0, 0, 0, 1, NO_GRADIENT},
    {"TopK", shape_top_k, 1, 2, 2, X1, 0, 0, 1, READS_SECOND},
    {"CumSum", shape_same, 2, 2, 1, X1, 0, 0, 1, MOVES},

    {"Identity", shape_same, 1, 1, 1, 0, TRAIT_VIEW, 0, 0, IS_VIEW},
    {"Reshape", shape_reshape, 1, 2, 1, X1, TRAIT_VIEW, 0, 0, IS_VIEW},
    {"Flatten", shape_flatten, 1, 1, 1, 0, TRAIT_VIEW, 0, 0, IS_VIEW},
    {"Squeeze", shape_squeeze, 1, 2, 1, X1, TRAIT_VIEW, 0, 0, IS_VIEW},
    {"Unsqueeze", shape_unsqueeze, 1, 2, 1, X1, TRAIT_VIEW, 0, 0, IS_VIEW},
    {"Dropout", shape_dropout, 1, 3, 2, X1 | X2, TRAIT_DROPOUT | TRAIT_IN_PLACE, SAVED_MASK, 2,
     DROPS},
    // of .pt2 alone: whole samples
    {"DropPath", shape_same, 1, 1, 2, 0, TRAIT_IN_PLACE, SAVED_SAMPLES, 1, DROPS},
    {"Cast", shape_cast, 1, 1, 1, 0, 0, 0, 0, MOVES},
    {"CastLike", shape_cast, 2, 2, 1, X1, 0, 0, 0, MOVES},
    {"Transpose", shape_transpose, 1, 1, 1, 0, 0, 0, 0, MOVES},
    {"Expand", shape_expand, 2, 2, 1, X1, 0, 0, 0, MOVES},
    {"Tile", shape_tile, 2, 2, 1, X1, 0, 0, 0, MOVES},
    {"Concat", shape_concat, 1, INPUTS_ANY, 1, 0, 0, 0, 0, MOVES_EACH},
    {"Split", shape_split, 1, 2, INPUTS_ANY, X1, 0, 0, 0, MOVES},
    {"Slice", shape_slice, 1, 5, 1, ALL_BUT_FIRST, 0, 0, 0, MOVES},
    {"Pad", shape_pad, 1, 4, 1, ALL_BUT_FIRST, 0, 0, 0, MOVES},
    {"Gather", shape_gather, 2, 2, 1, 0, 0, 0, 0, LOOKS_UP},
    {"EmbeddingBag", shape_bags, 2, 3, 1, 0, 0, 0, 0, LOOKS_UP},
    {"GatherElements", shape_gather_elements, 2, 2, 1, 0, 0, 0, 0, LOOKS_UP},
    {"GatherND", shape_gather_nd, 2, 2, 1, 0, 0, 0, 0, LOOKS_UP},
    {"ScatterND", shape_same, 3, 3, 1, 0, TRAIT_IN_PLACE, 0, 0, SCATTERS},
    {"ScatterElements", shape_same, 3, 3, 1, 0, TRAIT_IN_PLACE, 0, 0, SCATTERS},
    {"Trilu", shape_same, 1, 2, 1, X1, TRAIT_IN_PLACE, 0, 0, READS_NOTHING},
    {"DepthToSpace", shape_depth_to_space, 1, 1, 1, 0, 0, 0, 0, MOVES},
    {"SpaceToDepth", shape_space_to_depth, 1, 1, 1, 0, 0, 0, 0, MOVES},

    {"Constant", shape_constant, 0, 0, 1, 0, 0, 0, 0, NO_GRADIENT},
    {"ConstantOfShape", shape_constant_of_shape, 1, 1, 1, X0, 0, 0, 0, NO_GRADIENT},
    {"Shape", shape_shape, 1, 1, 1, X0, 0, 0, 0, NO_GRADIENT},
    {"Size", shape_size, 1, 1, 1, X0, 0, 0, 0, NO_GRADIENT},
    {"Range", shape_range, 3, 3, 1, X0 | X1 | X2, 0, 0, 0, NO_GRADIENT},
    {"RandomUniformLike", shape_same, 1, 1, 1, 0, 0, 0, 10, NO_GRADIENT},
    {"RandomNormalLike", shape_same, 1, 1, 1, 0, 0, 0, 20, NO_GRADIENT},
    {"Bernoulli", shape_same, 1, 1, 1, 0, 0, 0, 10, NO_GRADIENT},
    {"OneHot", shape_one_hot, 3, 3, 1, X1 | X2, 0, 0, 0, NO_GRADIENT},
};

const struct onnx_operator *operator_find(const char *domain, const char *type)
{
    bool is_standard = !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
    for (size_t i = 0; is_standard && i < sizeof OPERATORS / sizeof *OPERATORS; i++) {
        if (strcmp(OPERATORS[i].type, type) == 0) return &OPERATORS[i];
    }
    return NULL;
}

static bool has_bit(unsigned bits, int i)
{
    return i < 32 ? (bits >> i & 1) != 0 : bits == ~0U;
}

bool operator_differentiates(const struct onnx_operator *row, int i)
{
    for (int j = 0; j < GRADIENTS_MOST && row->gradients[j].makes; j++) {
        if (has_bit(row->gradients[j].makes, i)) return true;
    }
    return false;
}
