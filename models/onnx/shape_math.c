#include "models/onnx/shape.h"

#include <inttypes.h>
#include <string.h>

bool axis_of(const struct onnx_model *model, const struct onnx_call *call, int64_t axis, int rank,
             int *result)
{
    if (axis < -rank || axis >= rank) {
        return call_fail(model, call, "axis %" PRId64 " is out of range for rank %d", axis, rank);
    }
    *result = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

bool broadcast(const struct onnx_model *model, const struct onnx_call *call, int *rank,
               int64_t *dims, const struct onnx_value *other)
{
    int widest = *rank > other->rank ? *rank : other->rank;
    int64_t joined[RANK_MOST];
    for (int i = 0; i < widest; i++) {
        int at = i - (widest - *rank), other_at = i - (widest - other->rank);
        int64_t left = at < 0 ? 1 : dims[at], right = other_at < 0 ? 1 : other->dims[other_at];
        if (left != right && left != 1 && right != 1) {
            return call_fail(model, call,
                             "dimension %d of input %s is %" PRId64
                             ", which does not broadcast with %" PRId64,
                             other_at, other->name, right, left);
        }
        joined[i] = left == 1 ? right : left;
    }
    memcpy(dims, joined, (size_t)widest * sizeof *dims);
    *rank = widest;
    return true;
}

bool shape_same(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    return set_output(model, call, 0, input->element, input->rank, input->dims);
}

// Until opset 6 the second input was laid along `axis` of the first one.
static bool is_old_broadcast(const struct onnx_call *call)
{
    return attribute_int(call, "broadcast", 0) != 0;
}

static bool set_broadcast(const struct onnx_model *model, const struct onnx_call *call, int first,
                          enum onnx_element element)
{
    const struct onnx_value *input = call_input(model, call, first);
    int rank = input->rank;
    int64_t dims[RANK_MOST];
    memcpy(dims, input->dims, (size_t)rank * sizeof *dims);
    for (int i = 0; i < call->input_count && !is_old_broadcast(call); i++) {
        const struct onnx_value *other = call_input(model, call, i);
        if (other && !broadcast(model, call, &rank, dims, other)) return false;
    }
    return set_output(model, call, 0, element, rank, dims);
}

static bool check_elements(const struct onnx_model *model, const struct onnx_call *call, int first)
{
    const struct onnx_value *left = call_input(model, call, first);
    for (int i = first + 1; i < call->input_count; i++) {
        const struct onnx_value *right = call_input(model, call, i);
        if (right && right->element != left->element) {
            return call_fail(model, call, "inputs %s and %s differ in element type (%d, %d)",
                             left->name, right->name, (int)left->element, (int)right->element);
        }
    }
    return true;
}

bool shape_variadic(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *first = call_input(model, call, 0);
    return check_elements(model, call, 0) && set_broadcast(model, call, 0, first->element);
}

bool shape_broadcast(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *first = call_input(model, call, 0);
    bool is_pow = strcmp(call->type, "Pow") == 0;  // the exponent may be of another type
    bool is_shift = strcmp(call->type, "PRelu") == 0;
    if (!is_pow && !is_shift && !check_elements(model, call, 0)) return false;
    return set_broadcast(model, call, 0, first->element);
}

bool shape_compare(const struct onnx_model *model, struct onnx_call *call)
{
    return check_elements(model, call, 0) && set_broadcast(model, call, 0, ELEMENT_BOOL);
}

bool shape_bool(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    return set_output(model, call, 0, ELEMENT_BOOL, input->rank, input->dims);
}

bool shape_where(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *first = call_input(model, call, 1);
    return check_elements(model, call, 1) && set_broadcast(model, call, 0, first->element);
}

bool shape_cast(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0), *like = call_input(model, call, 1);
    int64_t element = like ? (int64_t)like->element : attribute_int(call, "to", 0);
    if (element < 1 || element > 100 || !element_bytes((enum onnx_element)element)) {
        return call_fail(model, call, "attribute to is %" PRId64 ", no element type that we know",
                         element);
    }
    return set_output(model, call, 0, (enum onnx_element)element, input->rank, input->dims);
}

bool shape_dropout(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    // Before opset 10 the mask had the type of the data; what is kept is a byte an element.
    return set_output(model, call, 1, ELEMENT_BOOL, input->rank, input->dims) &&
           shape_same(model, call);
}
