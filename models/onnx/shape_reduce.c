#include "models/onnx/shape.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

// Rank 1 operands count as a row on the left and a column on the right, and that dimension is
// taken out again.
bool shape_matmul(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *left = call_input(model, call, 0), *right = call_input(model, call, 1);
    if (left->rank < 1 || right->rank < 1) return call_fail(model, call, "an operand is a scalar");
    int64_t inner = left->dims[left->rank - 1];
    int64_t right_inner = right->dims[right->rank > 1 ? right->rank - 2 : 0];
    if (inner != right_inner) {
        return call_fail(model, call, "%s has %" PRId64 " columns, %s has %" PRId64 " rows",
                         left->name, inner, right->name, right_inner);
    }
    struct onnx_value stack = *right;
    stack.rank = right->rank > 2 ? right->rank - 2 : 0;
    int rank = left->rank > 2 ? left->rank - 2 : 0;
    int64_t dims[RANK_MOST + 2];
    memcpy(dims, left->dims, (size_t)rank * sizeof *dims);
    if (!broadcast(model, call, &rank, dims, &stack)) return false;
    if (left->rank > 1) dims[rank++] = left->dims[left->rank - 2];
    if (right->rank > 1) dims[rank++] = right->dims[right->rank - 1];
    if (!set_output(model, call, 0, left->element, rank, dims)) return false;
    double elements = 1;
    for (int i = 0; i < rank; i++)
        elements *= (double)dims[i];
    call->flop = 2 * elements * (double)inner;
    return true;
}

// Rows in groups, each of which is multiplied with a matrix of its own.
bool shape_grouped_matmul(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *rows = call_input(model, call, 0);
    const struct onnx_value *matrices = call_input(model, call, 1);
    if (rows->rank != 2 || matrices->rank != 3 || rows->dims[1] != matrices->dims[1])
        return call_fail(model, call, "rows and a matrix of as many for each group are wanted");
    const int64_t dims[] = {rows->dims[0], matrices->dims[2]};
    call->flop = 2 * (double)rows->elements * (double)dims[1];
    return set_output(model, call, 0, rows->element, 2, dims);
}

bool shape_gemm(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *left = call_input(model, call, 0), *right = call_input(model, call, 1);
    const struct onnx_value *bias = call_input(model, call, 2);
    if (left->rank != 2 || right->rank != 2) {
        return call_fail(model, call, "%s and %s have %d and %d dimensions, 2 are wanted",
                         left->name, right->name, left->rank, right->rank);
    }
    int left_is_turned = attribute_int(call, "transA", 0) != 0;
    int right_is_turned = attribute_int(call, "transB", 0) != 0;
    int64_t inner = left->dims[1 - left_is_turned], right_inner = right->dims[right_is_turned];
    int64_t dims[] = {left->dims[left_is_turned], right->dims[1 - right_is_turned]};
    if (inner != right_inner) {
        return call_fail(model, call, "%s has %" PRId64 " columns, %s has %" PRId64 " rows",
                         left->name, inner, right->name, right_inner);
    }
    int rank = 2;
    int64_t joined[RANK_MOST] = {dims[0], dims[1]};
    if (bias && !broadcast(model, call, &rank, joined, bias)) return false;
    if (rank != 2 || joined[0] != dims[0] || joined[1] != dims[1]) {
        return call_fail(model, call, "bias %s is larger than the product", bias->name);
    }
    call->flop = 2 * (double)dims[0] * (double)dims[1] * (double)inner;
    return set_output(model, call, 0, left->element, 2, dims);
}

static bool set_reduced(const struct onnx_model *model, struct onnx_call *call,
                        const bool *is_reduced, enum onnx_element element)
{
    assert(call_input(model, call, 0)->rank <= RANK_MOST);
    const struct onnx_value *input = call_input(model, call, 0);
    bool keeps = attribute_int(call, "keepdims", 1) != 0;
    int64_t dims[RANK_MOST];
    int rank = 0;
    for (int i = 0; i < input->rank; i++) {
        if (!is_reduced[i]) {
            dims[rank++] = input->dims[i];
        } else if (keeps) {
            dims[rank++] = 1;
        }
    }
    call->flop = (double)input->elements;
    return set_output(model, call, 0, element, rank, dims);
}

bool shape_reduce(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const int64_t *axes = NULL;
    int count = 0;
    if (!call_ints(model, call, "axes", 1, &axes, &count)) return false;
    bool is_all = count <= 0 && !attribute_int(call, "noop_with_empty_axes", 0);
    bool is_reduced[RANK_MOST] = {0};
    for (int i = 0; i < count; i++) {
        int axis = 0;
        if (!axis_of(model, call, axes[i], input->rank, &axis)) return false;
        is_reduced[axis] = true;
    }
    for (int i = 0; i < input->rank && is_all; i++)
        is_reduced[i] = true;
    return set_reduced(model, call, is_reduced, input->element);
}

bool shape_arg(const struct onnx_model *model, struct onnx_call *call)
{
    bool is_reduced[RANK_MOST] = {0};
    int axis = 0, rank = call_input(model, call, 0)->rank;
    if (!axis_of(model, call, attribute_int(call, "axis", 0), rank, &axis)) return false;
    is_reduced[axis] = true;
    return set_reduced(model, call, is_reduced, ELEMENT_INT64);
}

bool shape_top_k(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const int64_t *k = NULL;
    int count = 0, axis = 0;
    int64_t attribute = attribute_int(call, "k", 0), dims[RANK_MOST];
    if (!axis_of(model, call, attribute_int(call, "axis", -1), input->rank, &axis)) return false;
    if (!call_ints(model, call, "", 1, &k, &count)) return false;
    int64_t wanted = count == 1 ? k[0] : attribute;
    if (wanted < 1 || wanted > input->dims[axis]) {
        return call_fail(model, call, "k is %" PRId64 ", the dimension has %" PRId64, wanted,
                         input->dims[axis]);
    }
    memcpy(dims, input->dims, (size_t)input->rank * sizeof *dims);
    dims[axis] = wanted;
    return set_output(model, call, 0, input->element, input->rank, dims) &&
           set_output(model, call, 1, ELEMENT_INT64, input->rank, dims);
}

bool shape_normalized(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    int axis = 0;
    if (strcmp(call->type, "LayerNormalization") == 0) {
        if (!axis_of(model, call, attribute_int(call, "axis", -1), input->rank, &axis)) {
            return false;
        }
    } else if (input->rank < 1) {
        return call_fail(model, call, "input %s is a scalar", input->name);
    }
    int64_t groups = attribute_int(call, "num_groups", 1), dims[RANK_MOST];
    if (strcmp(call->type, "GroupNormalization") == 0 &&
        (input->rank < 2 || groups < 1 || input->dims[1] % groups != 0)) {
        return call_fail(model, call, "input %s has no channels in %" PRId64 " groups", input->name,
                         groups);
    }
    for (int i = 0; i < input->rank; i++)
        dims[i] = i < axis ? input->dims[i] : 1;
    return set_output(model, call, 1, ELEMENT_FLOAT, input->rank, dims) &&
           set_output(model, call, 2, ELEMENT_FLOAT, input->rank, dims) && shape_same(model, call);
}

bool shape_batch_norm(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    if (input->rank < 2) {
        return call_fail(model, call, "input %s has %d dimensions, at least 2 are wanted",
                         input->name, input->rank);
    }
    int64_t channels = input->dims[1];
    for (int i = 1; i < call->input_count; i++) {
        const struct onnx_value *other = call_input(model, call, i);
        if (other && (other->rank != 1 || other->dims[0] != channels)) {
            return call_fail(model, call, "%s has not the %" PRId64 " elements of the channels",
                             other->name, channels);
        }
    }
    for (int i = 1; i < call->output_count; i++) {
        if (!set_output(model, call, i, ELEMENT_FLOAT, 1, &channels)) return false;
    }
    return shape_same(model, call);
}

// An equation over single letters, "bij,bjk->bik": dimensions by letter, an ellipsis is refused.
struct equation {
    int64_t dims[128];
    bool is_named[128];
    double all;  // product over all letters: multiplications
};

static bool read_term(const struct onnx_model *model, const struct onnx_call *call,
                      struct equation *equation, const char **at, const char *end, int input)
{
    const struct onnx_value *value = call_input(model, call, input);
    int rank = 0;
    for (; *at < end && **at != ',' && **at != '-'; (*at)++) {
        unsigned char letter = (unsigned char)**at;
        if (letter == ' ') continue;
        if (!isalpha(letter)) return call_fail(model, call, "the equation is not of letters alone");
        if (!value || rank >= value->rank) {
            return call_fail(model, call, "term %d of the equation has too many letters", input);
        }
        int64_t size = value->dims[rank++];
        if (equation->is_named[letter] && equation->dims[letter] != size) {
            return call_fail(model, call, "letter %c is %" PRId64 " and %" PRId64, letter,
                             equation->dims[letter], size);
        }
        if (!equation->is_named[letter]) equation->all *= (double)size;
        equation->is_named[letter] = true;
        equation->dims[letter] = size;
    }
    if (value && rank == value->rank) return true;
    return call_fail(model, call, "term %d of the equation has %d letters", input, rank);
}

bool shape_einsum(const struct onnx_model *model, struct onnx_call *call)
{
    struct equation equation = {.all = 1};
    const char *text = NULL;
    size_t length = 0;
    for (size_t i = 0; i < call->proto->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = call->proto->attribute[i];
        if (!attribute->name || strcmp(attribute->name, "equation") != 0) continue;
        text = (const char *)attribute->s.data;
        length = attribute->s.len;
    }
    if (!text) return call_fail(model, call, "there is no attribute equation");
    const char *at = text, *end = text + length;
    for (int i = 0; i < call->input_count; i++) {
        if (!read_term(model, call, &equation, &at, end, i)) return false;
        if (at < end && *at == ',') at++;
    }
    if (end - at < 2 || at[0] != '-' || at[1] != '>') {
        return call_fail(model, call, "the equation names no output");
    }
    int64_t dims[RANK_MOST];
    int rank = 0;
    for (at += 2; at < end; at++) {
        if (*at == ' ') continue;
        unsigned char letter = (unsigned char)*at;
        if (!isalpha(letter) || !equation.is_named[letter] || rank == RANK_MOST) {
            return call_fail(model, call, "the equation's output is not made of its inputs");
        }
        dims[rank++] = equation.dims[letter];
    }
    call->flop = 2 * equation.all;
    return set_output(model, call, 0, call_input(model, call, 0)->element, rank, dims);
}

// The mean of the cross-entropy of rows of scores, or of their logarithms.
bool shape_loss(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *scores = call_input(model, call, 0);
    if (scores->rank != 2)
        return call_fail(model, call, "scores of %d dimensions, rows of classes are wanted",
                         scores->rank);
    if (attribute_has(call, "reduction") && !attribute_is(call, "reduction", "mean"))
        return call_fail(model, call, "a loss that is no mean");
    if (call->output_count > 1 && call->outputs[1] >= 0 &&
        !set_output(model, call, 1, scores->element, scores->rank, scores->dims))
        return false;
    return set_output(model, call, 0, scores->element, 0, NULL);
}
