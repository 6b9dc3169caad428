#include "models/onnx/reading.h"

#include "models/onnx/shape.h"

#include <string.h>

// Numbers of the input that a step along each of its dimensions skips.
static void skip(const struct onnx_value *input, int64_t steps[RANK_MOST])
{
    int64_t step = 1;
    for (int i = input->rank - 1; i >= 0; i--) {
        steps[i] = step;
        step *= input->dims[i];
    }
}

static bool turn(const struct onnx_model *model, const struct onnx_call *call,
                 struct onnx_reading *reading, int64_t *steps)
{
    const struct onnx_value *input = call_input(model, call, 0);
    int64_t own[RANK_MOST] = {0};
    int count = 0;
    const int64_t *order = attribute_ints(call, "perm", &count);
    (void)reading;
    skip(input, own);
    for (int i = 0; i < input->rank; i++) {
        int64_t axis = count ? order[i] : input->rank - 1 - i;
        steps[i] = own[axis < 0 ? axis + input->rank : axis];
    }
    return true;
}

static bool cut(const struct onnx_model *model, const struct onnx_call *call,
                struct onnx_reading *reading, int64_t *steps)
{
    const struct onnx_value *input = call_input(model, call, 0);
    struct onnx_slice slices[RANK_MOST] = {0};
    int64_t own[RANK_MOST] = {0};
    if (!read_slice(model, call, slices)) return false;
    skip(input, own);
    for (int i = 0; i < input->rank; i++) {
        reading->first += slices[i].first * own[i];
        steps[i] = slices[i].step * own[i];
    }
    return true;
}

// The steps that indices go on by along each of their dimensions; false: by others.
static bool index_steps(const struct onnx_value *at, int64_t size, int64_t steps[RANK_MOST])
{
    int64_t own[RANK_MOST] = {0};
    if (at->elements < 1) return false;
    skip(at, own);
    for (int d = 0; d < at->rank; d++)
        steps[d] = at->dims[d] > 1 ? (int64_t)(at->numbers[own[d]] - at->numbers[0]) : 0;
    for (int64_t i = 0; i < at->elements; i++) {
        int64_t place = (int64_t)at->numbers[0];
        for (int d = 0; d < at->rank; d++)
            place += i / own[d] % at->dims[d] * steps[d];
        if ((double)place != at->numbers[i] || place >= size || place < -size) return false;
        if ((place < 0) != (at->numbers[0] < 0)) return false;
    }
    return true;
}

// Places of a dimension, one of them or as many as go on by the same steps.
static bool choose(const struct onnx_model *model, const struct onnx_call *call,
                   struct onnx_reading *reading, int64_t *steps)
{
    const struct onnx_value *input = call_input(model, call, 0), *at = call_input(model, call, 1);
    int64_t axis = attribute_int(call, "axis", 0), own[RANK_MOST] = {0}, along[RANK_MOST] = {0};
    if (axis < 0) axis += input->rank;
    if (!at || !at->numbers || !index_steps(at, input->dims[axis], along)) return false;
    int64_t place = (int64_t)at->numbers[0];
    skip(input, own);
    reading->first = (place < 0 ? place + input->dims[axis] : place) * own[axis];
    for (int i = 0, made = 0; i < input->rank; i++) {
        if (i != axis) steps[made++] = own[i];
        for (int d = 0; i == axis && d < at->rank; d++)
            steps[made++] = along[d] * own[axis];
    }
    return true;
}

static bool repeat(const struct onnx_model *model, const struct onnx_call *call,
                   struct onnx_reading *reading, int64_t *steps)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const struct onnx_value *output = &model->values[call->outputs[0]];
    int64_t own[RANK_MOST] = {0};
    int more = output->rank - input->rank;
    (void)reading;
    skip(input, own);
    for (int i = 0; i < output->rank; i++)
        steps[i] = i < more || input->dims[i - more] == 1 ? 0 : own[i - more];
    return true;
}

// Where numbers of the input stand in the result, of which these dimensions are one.
static bool sum(const struct onnx_model *model, const struct onnx_call *call,
                struct onnx_reading *reading, int64_t *steps)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const int64_t *axes = NULL;
    int count = 0;
    bool is_summed[RANK_MOST] = {0};
    (void)reading;
    if (!call_ints(model, call, "axes", 1, &axes, &count)) return false;
    for (int i = 0; i < count; i++)
        is_summed[axes[i] < 0 ? axes[i] + input->rank : axes[i]] = true;
    int64_t step = 1;
    for (int i = input->rank - 1; i >= 0; i--) {
        bool is_one = is_summed[i] || count <= 0;
        steps[i] = is_one ? 0 : step;
        step *= is_one ? 1 : input->dims[i];
    }
    return true;
}

// In front of which zeros stand, and behind which; nothing else, and nothing is cut off.
static bool pad(const struct onnx_model *model, const struct onnx_call *call,
                struct onnx_reading *reading, int64_t *steps)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const struct onnx_value *output = &model->values[call->outputs[0]];
    const struct onnx_value *with = call_input(model, call, 2);
    const int64_t *pads = NULL;
    int count = 0;
    bool is_zero = !with || (with->numbers && with->elements == 1 && with->numbers[0] == 0);
    bool is_constant = !attribute_has(call, "mode") || attribute_is(call, "mode", "constant");
    if (!is_zero || !is_constant || attribute_float(call, "value", 0) != 0) return false;
    if (!call_ints(model, call, "pads", 1, &pads, &count) || count != 2 * input->rank) return false;
    skip(output, steps);
    for (int i = 0; i < input->rank; i++) {
        if (pads[i] < 0 || pads[input->rank + i] < 0) return false;
        reading->first += pads[i] * steps[i];
    }
    return true;
}

const struct onnx_reading *reading_of(struct arena *arena, const struct onnx_model *model,
                                      const struct onnx_call *call)
{
    static const struct {
        const char *type;
        bool (*read)(const struct onnx_model *model, const struct onnx_call *call,
                     struct onnx_reading *reading, int64_t *steps);
    } ROWS[] = {{"Transpose", turn}, {"Slice", cut},      {"Gather", choose}, {"Expand", repeat},
                {"ReduceSum", sum},  {"ReduceMean", sum}, {"Pad", pad}};
    if (!call_input(model, call, 0) || call->outputs[0] < 0) return NULL;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        if (strcmp(ROWS[i].type, call->type) != 0) continue;
        struct onnx_reading *reading = ARENA_NEW(arena, struct onnx_reading, 1);
        int64_t *steps = ARENA_NEW(arena, int64_t, RANK_MOST);
        reading->steps = steps;
        return ROWS[i].read(model, call, reading, steps) ? reading : NULL;
    }
    return NULL;
}
