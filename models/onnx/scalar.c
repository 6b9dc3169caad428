#include "models/onnx/scalar.h"

#include "core/names.h"
#include "models/onnx/draft.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef double reads_scalar(const struct onnx_model *model, const struct onnx_call *call);

static double none(const struct onnx_model *model, const struct onnx_call *call)
{
    (void)model;
    (void)call;
    return 0;
}

static double epsilon(const struct onnx_model *model, const struct onnx_call *call)
{
    (void)model;
    return attribute_float(call, "epsilon", 1e-5);
}

static double number_at(const struct onnx_model *model, const struct onnx_call *call, int input)
{
    assert(input >= 0);
    const struct onnx_value *value = call_input(model, call, input);
    return value && value->numbers && value->elements == 1 ? value->numbers[0] : (double)NAN;
}

// A number that is added, as epsilon is to the mean of squares.
static double added(const struct onnx_model *model, const struct onnx_call *call)
{
    double second = number_at(model, call, 1);
    return isfinite(second) ? second : number_at(model, call, 0);
}

static double taken_away(const struct onnx_model *model, const struct onnx_call *call)
{
    return -number_at(model, call, 1);
}

// 0 of two tensors.
static double multiplied(const struct onnx_model *model, const struct onnx_call *call)
{
    double factor = added(model, call);
    return isfinite(factor) ? factor : 0;
}

static double divided(const struct onnx_model *model, const struct onnx_call *call)
{
    return 1 / number_at(model, call, 1);
}

bool softmax_is_of_last(const struct onnx_model *model, const struct onnx_call *call)
{
    const struct onnx_value *x = call_input(model, call, 0);
    // What a chain became is no operator of the file.
    bool is_own = call->proto->op_type && strcmp(call->proto->op_type, call->type) == 0;
    bool is_old = is_own && model->opset > 0 && model->opset < 13;
    int64_t axis = attribute_int(call, "axis", is_old ? 1 : -1);
    return axis == -1 || (x && axis + 1 == x->rank);
}

static double last_axis(const struct onnx_model *model, const struct onnx_call *call)
{
    return softmax_is_of_last(model, call) ? 0 : (double)NAN;
}

// The factor on scores, of which attributes have 32 bits; kernels drop nothing and cap nothing.
static double score_factor(const struct onnx_model *model, const struct onnx_call *call)
{
    const struct onnx_value *query = call_input(model, call, 0);
    bool is_plain = !attribute_has(call, "dropout") && attribute_float(call, "softcap", 0) == 0;
    if (!is_plain || !query || query->rank < 1) return (double)NAN;
    double usual = 1 / sqrt((double)query->dims[query->rank - 1]);
    double scale = attribute_float(call, "scale", usual);
    return fabs(scale / usual - 1) < 1e-6 ? usual : scale;
}

static double slope_below(const struct onnx_model *model, const struct onnx_call *call)
{
    (void)model;
    return attribute_float(call, "alpha", 0.01);
}

// Of ATen's elu the scales of the input and of the result have no place in ONNX.
static double depth_below(const struct onnx_model *model, const struct onnx_call *call)
{
    (void)model;
    return attribute_float(call, "alpha", 1);
}

// A slope of 1/6, as of ATen's, is none of the numbers of an attribute.
static double slope_between(const struct onnx_model *model, const struct onnx_call *call)
{
    (void)model;
    double slope = attribute_float(call, "alpha", 0.2);
    if (fabs(slope - 1.0 / 6) < 1e-7) slope = 1.0 / 6;
    return attribute_float(call, "beta", 0.5) == 0.5 ? slope : (double)NAN;
}

// ATen's softplus of beta x, over beta.
static double unit_softplus(const struct onnx_model *model, const struct onnx_call *call)
{
    (void)model;
    return attribute_float(call, "beta", 1) == 1 ? 0 : (double)NAN;
}

static double by_tanh(const struct onnx_model *model, const struct onnx_call *call)
{
    (void)model;
    return call->mode || attribute_is(call, "approximate", "tanh");
}

// A bound stands in an input, or in an attribute as old opsets have it.
static double bound(const struct onnx_model *model, const struct onnx_call *call, int input,
                    const char *name)
{
    if (attribute_has(call, name)) return attribute_float(call, name, 0);
    return number_at(model, call, input);
}

// In an input since opset 12, which may be left out as the attribute may.
static double dropped(const struct onnx_model *model, const struct onnx_call *call)
{
    bool is_there = attribute_has(call, "ratio") || call_input(model, call, 1);
    return is_there ? bound(model, call, 1, "ratio") : 0.5;
}

static double highest(const struct onnx_model *model, const struct onnx_call *call)
{
    double low = bound(model, call, 1, "min"), high = bound(model, call, 2, "max");
    return low == 0 && high > 0 ? high : (double)NAN;
}

// Factors that are multiplied by a number, and a first one that is turned, have no kernel.
static double plain_product(const struct onnx_model *model, const struct onnx_call *call)
{
    (void)model;
    bool is_plain = attribute_int(call, "transA", 0) == 0 &&
                    attribute_float(call, "alpha", 1) == 1 && attribute_float(call, "beta", 1) == 1;
    return is_plain ? (double)(attribute_int(call, "transB", 0) != 0) : (double)NAN;
}

// Whether padding counts. Where the last window may reach past it, what counts is not known here.
static double counts_padding(const struct onnx_model *model, const struct onnx_call *call)
{
    (void)model;
    bool counts = attribute_int(call, "count_include_pad", 0) != 0;
    if (attribute_has(call, "divisor_override")) return (double)NAN;
    return counts && attribute_int(call, "ceil_mode", 0) ? (double)NAN : (double)counts;
}

static double joins_channels(const struct onnx_model *model, const struct onnx_call *call)
{
    int64_t axis = attribute_int(call, "axis", 0);
    const struct onnx_value *first = call_input(model, call, 0);
    return axis == 1 || (first && axis + first->rank == 1) ? 0 : (double)NAN;
}

// Rows and columns alone, and where their count is given as a factor one that it is a multiple of.
static bool keeps_channels(const struct onnx_model *model, const struct onnx_call *call,
                           bool is_whole)
{
    assert(call->outputs[0] >= 0);
    const struct onnx_value *from = call_input(model, call, 0);
    const struct onnx_value *to = &model->values[call->outputs[0]];
    bool is_right = from && from->rank > 2;
    for (int i = 0; is_right && i < from->rank; i++) {
        bool is_multiple = from->dims[i] > 0 && to->dims[i] % from->dims[i] == 0;
        is_right = i < 2 ? to->dims[i] == from->dims[i] : is_multiple || !is_whole;
    }
    return is_right;
}

// The nearest place in front of it, as torch.nn.Upsample has it, and whole multiples alone: 0. Of
// the two next places on either side the mean, by how near they are: 1, or 2 where the places at
// the corners stay there.
static double ways_of_resizing(const struct onnx_model *model, const struct onnx_call *call)
{
    const char *const way = "coordinate_transformation_mode";
    const struct onnx_value *sizes = call_input(model, call, 3);
    bool is_nearest = !attribute_has(call, "mode") || attribute_is(call, "mode", "nearest");
    bool is_old = strcmp(call->type, "Resize") != 0;
    bool is_before = attribute_is(call, way, "asymmetric") || is_old;
    bool is_floored = attribute_is(call, "nearest_mode", "floor") || is_old;
    if (is_nearest)
        return is_before && is_floored && keeps_channels(model, call, true) ? 0 : (double)NAN;
    bool is_linear =
        attribute_is(call, "mode", "linear") && !is_old && attribute_int(call, "antialias", 0) == 0;
    if (!is_linear || !keeps_channels(model, call, !sizes || !sizes->elements)) return (double)NAN;
    if (attribute_is(call, way, "align_corners")) return 2;
    // One place alone is in the middle to PyTorch, and the first to ONNX's way of this name.
    const struct onnx_value *to = &model->values[call->outputs[0]];
    bool is_one = attribute_is(call, way, "pytorch_half_pixel") &&
                  (to->dims[to->rank - 1] == 1 || to->dims[to->rank - 2] == 1);
    bool is_half = !attribute_has(call, way) || attribute_is(call, way, "half_pixel") ||
                   (attribute_is(call, way, "pytorch_half_pixel") && !is_one);
    return is_half ? 1 : (double)NAN;
}

// A kernel computes what these attributes say, or they say nothing of numbers (a seed, an axis that
// stands in the shape); what else a call says no kernel knows.
static const struct scalar_row {
    const char *type;
    reads_scalar *read;
    const char *attributes;  // joined by blanks
} ROWS[] = {
    {"Conv", none, "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", none,
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"MatMul", none, ""},
    {"Gemm", plain_product, "alpha beta transA transB"},
    {"MaxPool", none, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {"AveragePool", counts_padding,
     "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"GlobalAveragePool", none, ""},
    {"Add", added, ""},
    {"LayerNormalization", epsilon, "axis epsilon stash_type"},
    {"BatchNormalization", epsilon, "epsilon momentum training_mode spatial is_test"},
    {"InstanceNormalization", epsilon, "epsilon"},
    {"GroupNormalization", epsilon, "epsilon num_groups stash_type"},
    {"Concat", joins_channels, "axis"},
    {"Resize", ways_of_resizing,
     "mode coordinate_transformation_mode nearest_mode antialias cubic_coeff_a exclude_outside "
     "extrapolation_value"},
    {"Upsample", ways_of_resizing, "mode scales height_scale width_scale"},
    {"Mul", multiplied, ""},
    {"Div", divided, ""},
    {"Sub", taken_away, ""},
    {"Softmax", last_axis, "axis"},
    {"Attention", score_factor,
     "is_causal scale dropout softcap q_num_heads kv_num_heads softmax_precision"},
    {"Dropout", dropped, "ratio seed is_test"},
    {"DropPath", dropped, "ratio"},
    {"ReduceMean", none, "axes keepdims noop_with_empty_axes"},
    {"Relu", none, ""},
    {"LeakyRelu", slope_below, "alpha"},
    {"Elu", depth_below, "alpha"},
    {"Clip", highest, "min max"},
    {"Sigmoid", none, ""},
    {"HardSigmoid", slope_between, "alpha beta"},
    {"Tanh", none, ""},
    {"Gelu", by_tanh, "approximate"},
    {"Swish", none, ""},
    {"HardSwish", none, ""},
    {"Softplus", unit_softplus, "beta"},
    {"Mish", none, ""},
};

// A chain is known by what it is made of; of those of a call the attributes must be.
static bool knows_all(const struct scalar_row *row, const struct onnx_call *call)
{
    const Onnx__NodeProto *proto = call->proto;
    bool is_chain = call->mode || !proto || strcmp(proto->op_type, row->type) != 0;
    for (size_t i = 0; !is_chain && i < proto->n_attribute; i++) {
        const char *name = proto->attribute[i]->name;
        if (name && !names_hold(row->attributes, name)) return false;
    }
    return true;
}

double scalar_of(const struct onnx_model *model, const struct onnx_call *call)
{
    if (call->proto && attribute_has(call, DRAFT_ROUGH)) return (double)NAN;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        bool is_it = strcmp(ROWS[i].type, call->type) == 0 && call->outputs[0] >= 0;
        if (is_it) return knows_all(&ROWS[i], call) ? ROWS[i].read(model, call) : (double)NAN;
    }
    return (double)NAN;
}
