#include "models/onnx/fold.h"

#include "models/onnx/operators.h"
#include "models/onnx/shape.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// What training changes is no constant there, except where its numbers are known: those are
// scales and bounds, not weights.
static bool is_fixed(const struct onnx_model *model, const struct onnx_call *call, int i)
{
    const struct onnx_value *value = call_input(model, call, i);
    if (!value) return true;
    if (!value->is_constant) return false;
    return !model->options.training || !value->is_learned || value->numbers ||
           !operator_differentiates(call->row, i);
}

bool fold_is_constant(const struct onnx_model *model, const struct onnx_call *call)
{
    if (strcmp(call->type, "Shape") == 0 || strcmp(call->type, "Size") == 0) return true;
    if (strncmp(call->type, "Random", 6) == 0) return false;  // it is drawn anew each step
    // Of the second input of a CastLike only the type is asked, which is known.
    int count = strcmp(call->type, "CastLike") == 0 ? 1 : call->input_count;
    for (int i = 0; i < count; i++) {
        if (!is_fixed(model, call, i)) return false;
    }
    return true;
}

static double truth(bool answer)
{
    return answer ? 1 : 0;
}

// Whether `type` is a function of one number that we compute.
static bool apply_unary(const char *type, double x, double *y)
{
    static const char *const copies[] = {"Identity",  "Reshape", "Flatten", "Squeeze",
                                         "Unsqueeze", "Cast",    "Dropout", "CastLike"};
    *y = x;
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        if (strcmp(type, copies[i]) == 0) return true;
    }
    if (strcmp(type, "Neg") == 0) return *y = -x, true;
    if (strcmp(type, "Abs") == 0) return *y = fabs(x), true;
    if (strcmp(type, "Floor") == 0) return *y = floor(x), true;
    if (strcmp(type, "Ceil") == 0) return *y = ceil(x), true;
    if (strcmp(type, "Round") == 0) return *y = nearbyint(x), true;
    if (strcmp(type, "Sqrt") == 0) return *y = sqrt(x), true;
    if (strcmp(type, "Reciprocal") == 0) return *y = 1 / x, true;
    if (strcmp(type, "Not") == 0) return *y = truth(x == 0), true;
    return false;
}

static bool apply_binary(const char *type, bool is_float, double a, double b, double *y)
{
    *y = 0;
    if (strcmp(type, "Add") == 0) return *y = a + b, true;
    if (strcmp(type, "Sub") == 0) return *y = a - b, true;
    if (strcmp(type, "Mul") == 0) return *y = a * b, true;
    if (strcmp(type, "Div") == 0) return *y = is_float ? a / b : b == 0 ? 0 : trunc(a / b), true;
    if (strcmp(type, "Mod") == 0) return *y = b == 0 ? 0 : a - b * floor(a / b), true;
    if (strcmp(type, "Pow") == 0) return *y = pow(a, b), true;
    if (strcmp(type, "Min") == 0) return *y = a < b ? a : b, true;
    if (strcmp(type, "Max") == 0) return *y = a > b ? a : b, true;
    if (strcmp(type, "Equal") == 0) return *y = truth(a == b), true;
    if (strcmp(type, "Less") == 0) return *y = truth(a < b), true;
    if (strcmp(type, "LessOrEqual") == 0) return *y = truth(a <= b), true;
    if (strcmp(type, "Greater") == 0) return *y = truth(a > b), true;
    if (strcmp(type, "GreaterOrEqual") == 0) return *y = truth(a >= b), true;
    if (strcmp(type, "And") == 0) return *y = truth(a != 0 && b != 0), true;
    if (strcmp(type, "Or") == 0) return *y = truth(a != 0 || b != 0), true;
    if (strcmp(type, "Xor") == 0) return *y = truth((a != 0) != (b != 0)), true;
    return false;
}

// The numbers as the element type holds them.
static double as_element(enum onnx_element element, double number)
{
    if (element == ELEMENT_BOOL) return truth(number != 0);
    return element_is_float(element) ? number : trunc(number);
}

static void place_of(const struct onnx_value *value, int64_t index, int64_t *place)
{
    assert(value->rank >= 0 && value->rank <= RANK_MOST);
    for (int i = value->rank - 1; i >= 0; i--) {
        place[i] = index % value->dims[i];
        index /= value->dims[i];
    }
}

// The element of `value` at a place of a shape of `rank` dimensions that it broadcasts to.
static double number_at(const struct onnx_value *value, int rank, const int64_t *place)
{
    assert(value->numbers && value->rank <= rank);
    int64_t index = 0;
    for (int i = 0; i < value->rank; i++) {
        int64_t at = place[i + rank - value->rank];
        index = index * value->dims[i] + (value->dims[i] == 1 ? 0 : at);
    }
    return value->numbers[index];
}

static bool fold_elements(const struct onnx_model *model, const struct onnx_call *call,
                          const struct onnx_value *output, double *numbers)
{
    const struct onnx_value *a = call_input(model, call, 0), *b = call_input(model, call, 1);
    const struct onnx_value *c = call_input(model, call, 2);
    bool is_where = strcmp(call->type, "Where") == 0, is_expand = strcmp(call->type, "Expand") == 0;
    double probe = 0;
    bool is_unary = apply_unary(call->type, 0, &probe);
    bool is_binary = call->input_count == 2 && apply_binary(call->type, true, 1, 1, &probe);
    if (!is_unary && !is_binary && !is_where && !is_expand) return false;
    if (!a->numbers || ((is_binary || is_where) && !b->numbers) || (is_where && !c->numbers)) {
        return false;
    }
    for (int64_t i = 0; i < output->elements; i++) {
        int64_t place[RANK_MOST] = {0};
        place_of(output, i, place);
        if (is_unary) {
            apply_unary(call->type, a->numbers[i], &numbers[i]);
        } else if (is_expand) {
            numbers[i] = number_at(a, output->rank, place);
        } else if (is_where) {
            bool takes = number_at(a, output->rank, place) != 0;
            numbers[i] = number_at(takes ? b : c, output->rank, place);
        } else {
            apply_binary(call->type, element_is_float(a->element),
                         number_at(a, output->rank, place), number_at(b, output->rank, place),
                         &numbers[i]);
        }
        numbers[i] = as_element(output->element, numbers[i]);
    }
    return true;
}

static bool fold_slice(const struct onnx_model *model, const struct onnx_call *call,
                       const struct onnx_value *output, double *numbers)
{
    assert(output->rank == call_input(model, call, 0)->rank);
    const struct onnx_value *input = call_input(model, call, 0);
    struct onnx_slice slices[RANK_MOST] = {0};
    if (!input->numbers || !read_slice(model, call, slices)) return false;
    for (int64_t i = 0; i < output->elements; i++) {
        int64_t place[RANK_MOST] = {0};
        place_of(output, i, place);
        for (int j = 0; j < input->rank; j++)
            place[j] = slices[j].first + place[j] * slices[j].step;
        numbers[i] = number_at(input, input->rank, place);
    }
    return true;
}

static bool fold_transpose(const struct onnx_model *model, const struct onnx_call *call,
                           const struct onnx_value *output, double *numbers)
{
    const struct onnx_value *input = call_input(model, call, 0);
    int count = 0;
    const int64_t *order = attribute_ints(call, "perm", &count);
    if (!input->numbers) return false;
    for (int64_t i = 0; i < output->elements; i++) {
        int64_t place[RANK_MOST] = {0}, from[RANK_MOST] = {0};
        place_of(output, i, place);
        for (int j = 0; j < input->rank; j++) {
            int64_t axis = count ? order[j] : input->rank - 1 - j;
            from[axis < 0 ? axis + input->rank : axis] = place[j];
        }
        numbers[i] = number_at(input, input->rank, from);
    }
    return true;
}

// Input [before, size, after] and indices [count] give [before, count, after].
static bool fold_gather(const struct onnx_model *model, const struct onnx_call *call,
                        const struct onnx_value *output, double *numbers)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const struct onnx_value *indices = call_input(model, call, 1);
    if (!input->numbers || !indices->numbers || output->elements == 0) return false;
    int axis = (int)attribute_int(call, "axis", 0);
    if (axis < 0) axis += input->rank;
    int64_t after = 1, size = input->dims[axis], count = indices->elements;
    for (int i = axis + 1; i < input->rank; i++)
        after *= input->dims[i];
    for (int64_t i = 0; i < output->elements; i++) {
        double index = indices->numbers[i / after % count];
        if (index < 0) index += (double)size;
        // Written so that a NaN fails as well.
        if (!(index >= 0 && index < (double)size)) return false;
        numbers[i] =
            input->numbers[(i / after / count * size + (int64_t)index) * after + i % after];
    }
    return true;
}

static bool fold_concat(const struct onnx_model *model, const struct onnx_call *call,
                        const struct onnx_value *output, double *numbers)
{
    int axis = (int)attribute_int(call, "axis", 1);
    if (axis < 0) axis += output->rank;
    int64_t row = 1, done = 0;  // elements of the output in one step of the dimension before axis
    for (int i = axis; i < output->rank; i++)
        row *= output->dims[i];
    for (int i = 0; i < call->input_count; i++) {
        const struct onnx_value *input = call_input(model, call, i);
        if (!input->numbers) return false;
        int64_t part = 1;
        for (int j = axis; j < input->rank; j++)
            part *= input->dims[j];
        // An input that is repeated once a sample (shape_cut.c) has fewer rows than the output.
        if (part * (output->elements / (row ? row : 1)) != input->elements) return false;
        for (int64_t j = 0; j < input->elements; j++)
            numbers[j / part * row + done + j % part] = input->numbers[j];
        done += part;
    }
    return true;
}

static bool fold_reduce(const struct onnx_model *model, const struct onnx_call *call,
                        const struct onnx_value *output, double *numbers)
{
    const struct onnx_value *input = call_input(model, call, 0);
    if (!input->numbers || output->elements != 1 || input->elements == 0) return false;
    const char *kind = call->type + strlen("Reduce");
    double result = input->numbers[0];
    for (int64_t i = 1; i < input->elements; i++) {
        double next = input->numbers[i];
        if (strcmp(kind, "Prod") == 0) {
            result *= next;
        } else if (strcmp(kind, "Sum") == 0) {
            result += next;
        } else if (strcmp(kind, "Max") == 0) {
            result = next > result ? next : result;
        } else if (strcmp(kind, "Min") == 0) {
            result = next < result ? next : result;
        } else {
            return false;
        }
    }
    numbers[0] = result;
    return true;
}

static bool fold_made(const struct onnx_model *model, const struct onnx_call *call,
                      const struct onnx_value *output, double *numbers)
{
    const struct onnx_value *first = call_input(model, call, 0);
    struct onnx_value fill = {.name = "value"};
    const Onnx__TensorProto *tensor = attribute_tensor(call, "value");
    if (tensor && (!value_set_tensor(model, &fill, tensor) || !fill.numbers)) return false;
    for (int64_t i = 0; i < output->elements; i++) {
        if (strcmp(call->type, "Range") == 0) {
            const struct onnx_value *step = call_input(model, call, 2);
            numbers[i] = first->numbers[0] + (double)i * step->numbers[0];
        } else if (strcmp(call->type, "ConstantOfShape") == 0) {
            numbers[i] = fill.numbers && fill.elements == 1 ? fill.numbers[0] : 0;
        } else if (strcmp(call->type, "Shape") == 0) {
            int64_t start = attribute_int(call, "start", 0);
            if (start < 0) start = start < -first->rank ? 0 : start + first->rank;
            numbers[i] = (double)first->dims[start + i];
        } else {
            numbers[i] = (double)first->elements;
        }
    }
    return true;
}

static bool fold_numbers(const struct onnx_model *model, const struct onnx_call *call,
                         const struct onnx_value *output, double *numbers)
{
    static const struct {
        const char *type;
        bool (*fold)(const struct onnx_model *, const struct onnx_call *, const struct onnx_value *,
                     double *);
    } folds[] = {
        {"Range", fold_made},       {"ConstantOfShape", fold_made}, {"Shape", fold_made},
        {"Size", fold_made},        {"Slice", fold_slice},          {"Gather", fold_gather},
        {"Concat", fold_concat},    {"Transpose", fold_transpose},  {"ReduceProd", fold_reduce},
        {"ReduceSum", fold_reduce}, {"ReduceMax", fold_reduce},     {"ReduceMin", fold_reduce},
    };
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
        if (strcmp(call->type, folds[i].type) == 0) {
            return folds[i].fold(model, call, output, numbers);
        }
    }
    return fold_elements(model, call, output, numbers);
}

static bool fold_split(const struct onnx_model *model, const struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    if (strcmp(call->type, "Split") != 0 || !input->numbers || input->rank != 1) return false;
    int64_t done = 0;
    for (int i = 0; i < call->output_count; i++) {
        if (call->outputs[i] < 0) return false;
        model->values[call->outputs[i]].numbers = input->numbers + done;
        done += model->values[call->outputs[i]].elements;
    }
    return true;
}

// Weights may also stand in the graph as constants of their own, or filled with one number where a
// model is published without them; a single number is a factor, not a weight.
static bool makes_weights(const struct onnx_model *model, const struct onnx_call *call,
                          const struct onnx_value *output)
{
    bool is_made =
        strcmp(call->type, "Constant") == 0 || strcmp(call->type, "ConstantOfShape") == 0;
    bool is_learned =
        is_made && output->elements > 1 && attribute_int(call, CONSTANT_FIXED, 0) == 0;
    bool asks_shape = strcmp(call->type, "Shape") == 0 || strcmp(call->type, "Size") == 0;
    for (int i = 0; i < call->input_count && !asks_shape; i++) {
        const struct onnx_value *input = call_input(model, call, i);
        is_learned = is_learned || (input && input->is_learned);
    }
    return is_learned && output->rank > 0 && element_is_float(output->element);
}

void fold_outputs(const struct onnx_model *model, const struct onnx_call *call)
{
    for (int i = 0; i < call->output_count; i++) {
        if (call->outputs[i] < 0) continue;
        struct onnx_value *output = &model->values[call->outputs[i]];
        output->is_constant = true;
        output->is_learned = makes_weights(model, call, output);
    }
    if (call->outputs[0] < 0 || fold_split(model, call)) return;
    struct onnx_value *output = &model->values[call->outputs[0]];
    bool is_float = element_is_float(output->element);
    if (output->numbers || strcmp(call->type, "Constant") == 0) return;
    // Only what may become a shape, an index or a bound is followed: not the weights.
    if (output->elements > (is_float ? FLOAT_NUMBERS_MOST : NUMBERS_MOST)) return;
    double *numbers = ARENA_NEW(model->arena, double, output->elements);
    if (fold_numbers(model, call, output, numbers)) output->numbers = numbers;
}
