#include "models/onnx/shape.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

// An input that does not follow the batch, such as the class token of a vision model exported for
// batch 1, is concatenated once a sample.
static bool is_repeated(const struct onnx_model *model, const struct onnx_value *value, int axis)
{
    return model->has_batch && !value->follows_batch && axis != 0 && value->dims[0] == 1;
}

bool shape_concat(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *first = call_input(model, call, 0);
    int axis = 0;
    int64_t dims[RANK_MOST];
    if (!axis_of(model, call, attribute_int(call, "axis", 1), first->rank, &axis)) return false;
    memcpy(dims, first->dims, (size_t)first->rank * sizeof *dims);
    for (int i = 1; i < call->input_count; i++) {
        const struct onnx_value *other = call_input(model, call, i);
        if (!other || other->rank != first->rank || other->element != first->element) {
            return call_fail(model, call, "input %d differs in rank or element type from %s", i,
                             first->name);
        }
        for (int j = 0; j < first->rank; j++) {
            if (j == axis) {
                dims[j] += other->dims[j];
            } else if (j == 0 && (is_repeated(model, other, axis) ||
                                  (dims[0] == 1 && is_repeated(model, first, axis)))) {
                if (dims[0] == 1) dims[0] = other->dims[0];
            } else if (dims[j] != other->dims[j]) {
                return call_fail(model, call,
                                 "dimension %d of %s is %" PRId64 ", %" PRId64 " is wanted", j,
                                 other->name, other->dims[j], dims[j]);
            }
        }
        if (dims[axis] > INT64_C(1) << 52) break;  // set_output says so
    }
    return set_output(model, call, 0, first->element, first->rank, dims);
}

bool shape_split(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const int64_t *sizes = NULL;
    int count = 0, axis = 0, parts = call->output_count;
    int64_t dims[RANK_MOST], left = 0;
    if (!axis_of(model, call, attribute_int(call, "axis", 0), input->rank, &axis)) return false;
    if (!call_ints(model, call, "split", 1, &sizes, &count)) return false;
    memcpy(dims, input->dims, (size_t)input->rank * sizeof *dims);
    left = dims[axis];
    int64_t part = (left + parts - 1) / parts;  // the last one is smaller where they do not divide
    const struct onnx_value *given = call_input(model, call, 1);
    if (given && given->rank == 0 && count == 1) {
        part = sizes[0];
        count = -1;
    }
    if (count >= 0 && count != parts) {
        return call_fail(model, call, "%d sizes for %d outputs", count, parts);
    }
    for (int i = 0; i < parts; i++) {
        dims[axis] = count >= 0 ? sizes[i] : part < left ? part : left;
        if (dims[axis] < 0 || dims[axis] > left) {
            return call_fail(model, call, "output %d wants %" PRId64 " of the %" PRId64 " left", i,
                             dims[axis], left);
        }
        left -= dims[axis];
        if (!set_output(model, call, i, input->element, input->rank, dims)) return false;
    }
    if (left) return call_fail(model, call, "%" PRId64 " are left over by the outputs", left);
    return true;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    assert(least <= most || most == -1);
    return value < least ? least : value > most ? most : value;
}

static bool slice_range(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *first,
                        int64_t *count)
{
    assert(size >= 0);
    if (step == 0 || step == INT64_MIN) return false;
    if (start < 0) start += size;
    if (end < 0) end += size;
    start = step > 0 ? clamp(start, 0, size) : clamp(start, 0, size - 1);
    end = step > 0 ? clamp(end, 0, size) : clamp(end, -1, size - 1);
    int64_t room = step > 0 ? end - start : start - end, stride = step > 0 ? step : -step;
    *first = start;
    *count = room > 0 && size > 0 ? (room - 1) / stride + 1 : 0;
    return true;
}

bool read_slice(const struct onnx_model *model, const struct onnx_call *call,
                struct onnx_slice slices[RANK_MOST])
{
    const struct onnx_value *input = call_input(model, call, 0);
    const int64_t *starts = NULL, *ends = NULL, *axes = NULL, *steps = NULL;
    int count = 0, end_count = 0, axis_count = 0, step_count = 0;
    if (!call_ints(model, call, "starts", 1, &starts, &count)) return false;
    if (!call_ints(model, call, "ends", 2, &ends, &end_count)) return false;
    if (!call_ints(model, call, "axes", 3, &axes, &axis_count)) return false;
    if (!call_ints(model, call, "", 4, &steps, &step_count)) return false;
    if (count < 0 || end_count != count || (axis_count >= 0 && axis_count != count) ||
        (step_count >= 0 && step_count != count)) {
        return call_fail(model, call, "starts, ends, axes and steps differ in length");
    }
    for (int i = 0; i < input->rank; i++)
        slices[i] = (struct onnx_slice){.count = input->dims[i], .step = 1};
    for (int i = 0; i < count; i++) {
        int axis = 0;
        if (!axis_of(model, call, axis_count >= 0 ? axes[i] : i, input->rank, &axis)) return false;
        int64_t step = step_count >= 0 ? steps[i] : 1;
        slices[axis].step = step;
        if (!slice_range(input->dims[axis], starts[i], ends[i], step, &slices[axis].first,
                         &slices[axis].count)) {
            return call_fail(model, call, "a step of %" PRId64, step);
        }
    }
    return true;
}

bool shape_slice(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    struct onnx_slice slices[RANK_MOST] = {0};
    int64_t dims[RANK_MOST];
    if (!read_slice(model, call, slices)) return false;
    for (int i = 0; i < input->rank; i++)
        dims[i] = slices[i].count;
    return set_output(model, call, 0, input->element, input->rank, dims);
}

bool shape_gather(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const struct onnx_value *indices = call_input(model, call, 1);
    int axis = 0, rank = 0;
    int64_t dims[2 * RANK_MOST];
    if (!axis_of(model, call, attribute_int(call, "axis", 0), input->rank, &axis)) return false;
    for (int i = 0; i < input->rank; i++) {
        if (i != axis) {
            dims[rank++] = input->dims[i];
            continue;
        }
        for (int j = 0; j < indices->rank; j++)
            dims[rank++] = indices->dims[j];
    }
    return set_output(model, call, 0, input->element, rank, dims);
}

bool shape_gather_elements(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const struct onnx_value *indices = call_input(model, call, 1);
    if (input->rank != indices->rank) {
        return call_fail(model, call, "%s has %d dimensions, %s has %d", input->name, input->rank,
                         indices->name, indices->rank);
    }
    return set_output(model, call, 0, input->element, indices->rank, indices->dims);
}

bool shape_gather_nd(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const struct onnx_value *indices = call_input(model, call, 1);
    int64_t shared = attribute_int(call, "batch_dims", 0), dims[2 * RANK_MOST];
    int64_t depth = indices->rank > 0 ? indices->dims[indices->rank - 1] : 0;
    if (depth < 1 || shared < 0 || shared >= indices->rank || shared > input->rank ||
        depth > input->rank - shared) {
        return call_fail(model, call, "indices of %" PRId64 " entries for %s of %d dimensions",
                         depth, input->name, input->rank);
    }
    int rank = indices->rank - 1;
    memcpy(dims, indices->dims, (size_t)rank * sizeof *dims);
    for (int i = (int)(shared + depth); i < input->rank; i++)
        dims[rank++] = input->dims[i];
    return set_output(model, call, 0, input->element, rank, dims);
}

bool shape_pad(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const int64_t *pads = NULL, *axes = NULL;
    int count = 0, axis_count = 0;
    int64_t dims[RANK_MOST];
    const char *name = attribute_has(call, "paddings") ? "paddings" : "pads";
    if (!call_ints(model, call, name, 1, &pads, &count)) return false;
    if (!call_ints(model, call, "", 3, &axes, &axis_count)) return false;
    int padded = axis_count >= 0 ? axis_count : input->rank;
    if (count != 2 * padded) {
        return call_fail(model, call, "%d pads for %d dimensions", count, padded);
    }
    memcpy(dims, input->dims, (size_t)input->rank * sizeof *dims);
    for (int i = 0; i < padded; i++) {
        int axis = i;
        if (axis_count >= 0 && !axis_of(model, call, axes[i], input->rank, &axis)) return false;
        int64_t both = 0;
        if (__builtin_add_overflow(pads[i], pads[padded + i], &both) ||
            __builtin_add_overflow(dims[axis], both, &dims[axis])) {
            return call_fail(model, call, "dimension %d has more than 2^50 bytes", axis);
        }
    }
    return set_output(model, call, 0, input->element, input->rank, dims);
}

// The value of a Constant is a tensor, or numbers in attributes of their own (opset 12).
bool shape_constant(const struct onnx_model *model, struct onnx_call *call)
{
    const Onnx__TensorProto *tensor = attribute_tensor(call, "value");
    if (call->outputs[0] < 0) return true;
    struct onnx_value *output = &model->values[call->outputs[0]];
    if (tensor) return value_set_tensor(model, output, tensor);
    static const char *const names[] = {"value_int", "value_ints", "value_float", "value_floats"};
    for (size_t i = 0; i < call->proto->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = call->proto->attribute[i];
        for (int kind = 0; kind < 4; kind++) {
            if (!attribute->name || strcmp(attribute->name, names[kind]) != 0) continue;
            Onnx__TensorProto made = ONNX__TENSOR_PROTO__INIT;
            int64_t count = (int64_t)(kind == 1 ? attribute->n_ints : attribute->n_floats);
            made.data_type = kind < 2 ? ELEMENT_INT64 : ELEMENT_FLOAT;
            made.n_dims = kind % 2 ? 1 : 0;
            made.dims = &count;
            made.n_int64_data = kind == 0 ? 1 : attribute->n_ints;
            made.int64_data = kind == 0 ? &call->proto->attribute[i]->i : attribute->ints;
            made.n_float_data = kind == 2 ? 1 : attribute->n_floats;
            made.float_data = kind == 2 ? &call->proto->attribute[i]->f : attribute->floats;
            return value_set_tensor(model, output, &made);
        }
    }
    return call_fail(model, call, "there is no value that we read (tensor, ints or floats)");
}

bool shape_constant_of_shape(const struct onnx_model *model, struct onnx_call *call)
{
    const int64_t *dims = NULL;
    int rank = 0;
    const Onnx__TensorProto *value = attribute_tensor(call, "value");
    enum onnx_element element = value ? (enum onnx_element)value->data_type : ELEMENT_FLOAT;
    if (!call_ints(model, call, "", 0, &dims, &rank)) return false;
    return set_output(model, call, 0, element, rank, dims);
}

bool shape_range(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *bounds[3];
    for (int i = 0; i < 3; i++) {
        bounds[i] = call_input(model, call, i);
        if (!bounds[i]->numbers || bounds[i]->elements != 1) {
            return call_fail(model, call, "%s is no constant number", bounds[i]->name);
        }
    }
    double count = ceil((bounds[1]->numbers[0] - bounds[0]->numbers[0]) / bounds[2]->numbers[0]);
    if (!(count < 0x1p50)) return call_fail(model, call, "the range has no end");
    int64_t elements = count > 0 ? (int64_t)count : 0;
    return set_output(model, call, 0, bounds[0]->element, 1, &elements);
}

bool shape_one_hot(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *indices = call_input(model, call, 0);
    const struct onnx_value *values = call_input(model, call, 2);
    const int64_t *depth = NULL;
    int count = 0, axis = 0, from = 0;
    int64_t dims[RANK_MOST + 1];
    if (!call_ints(model, call, "", 1, &depth, &count)) return false;
    if (count != 1) return call_fail(model, call, "the depth is no number");
    if (!axis_of(model, call, attribute_int(call, "axis", -1), indices->rank + 1, &axis)) {
        return false;
    }
    for (int i = 0; i <= indices->rank; i++)
        dims[i] = i == axis ? depth[0] : indices->dims[from++];
    return set_output(model, call, 0, values->element, indices->rank + 1, dims);
}

// Sums of rows of a table, as many as ATen's embedding_bag has bags; of the rows themselves nothing
// is written.
bool shape_bags(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *table = call_input(model, call, 0);
    const struct onnx_value *indices = call_input(model, call, 1);
    int64_t bags = attribute_int(call, "bags", 0);
    if (table->rank != 2 || bags < 1)
        return call_fail(model, call, "a table of rows and at least one bag are wanted");
    const int64_t dims[] = {bags, table->dims[1]};
    call->flop = (double)indices->elements * (double)table->dims[1];
    return set_output(model, call, 0, table->element, 2, dims);
}
