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

// One place of a dimension, which the result has no more.
static bool choose(const struct onnx_model *model, const struct onnx_call *call,
                   struct onnx_reading *reading, int64_t *steps)
{
    const struct onnx_value *input = call_input(model, call, 0), *at = call_input(model, call, 1);
    int64_t axis = attribute_int(call, "axis", 0), own[RANK_MOST] = {0};
    if (!at || !at->numbers || at->rank > 0) return false;
    if (axis < 0) axis += input->rank;
    int64_t place = (int64_t)at->numbers[0];
    if (place < 0) place += input->dims[axis];
    if (place < 0 || place >= input->dims[axis]) return false;
    skip(input, own);
    reading->first = place * own[axis];
    for (int i = 0, made = 0; i < input->rank; i++)
        if (i != axis) steps[made++] = own[i];
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

const struct onnx_reading *reading_of(struct arena *arena, const struct onnx_model *model,
                                      const struct onnx_call *call)
{
    static const struct {
        const char *type;
        bool (*read)(const struct onnx_model *model, const struct onnx_call *call,
                     struct onnx_reading *reading, int64_t *steps);
    } ROWS[] = {{"Transpose", turn}, {"Slice", cut}, {"Gather", choose}, {"Expand", repeat}};
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
