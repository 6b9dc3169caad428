#include "executor/cuda/cuda.h"
#include "executor/cuda/functions.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(MAP_GELU == (int)FUNCTION_GELU && MAP_GELU_TANH == (int)FUNCTION_GELU_TANH &&
                   MAP_SILU == (int)FUNCTION_SILU && MAP_RELU == (int)FUNCTION_RELU &&
                   MAP_RELU_SQUARED == (int)FUNCTION_RELU_SQUARED &&
                   MAP_SCALE == (int)FUNCTION_SCALE && MAP_SOFTCAP == (int)FUNCTION_SOFTCAP &&
                   MAP_SIGMOID == (int)FUNCTION_SIGMOID &&
                   MAP_CLAMPED_SWIGLU == (int)FUNCTION_CLAMPED_SWIGLU &&
                   MAP_SOFTPLUS == (int)FUNCTION_SOFTPLUS &&
                   MAP_QUICK_GELU == (int)FUNCTION_QUICK_GELU && MAP_EXP == (int)FUNCTION_EXP &&
                   MAP_RELU_ABOVE == (int)FUNCTION_RELU_ABOVE &&
                   MAP_EXP_BELOW == (int)FUNCTION_EXP_BELOW &&
                   MAP_SIGMOID_ABOVE == (int)FUNCTION_SIGMOID_ABOVE &&
                   MAP_CLAMPED_SILU == (int)FUNCTION_CLAMPED_SILU,
               "device code has its own numbers for these");

static bool is_known(enum function function)
{
    switch (function) {
    case FUNCTION_GELU:
    case FUNCTION_GELU_TANH:
    case FUNCTION_SILU:
    case FUNCTION_RELU:
    case FUNCTION_RELU_SQUARED:
    case FUNCTION_SCALE:
    case FUNCTION_SOFTCAP:
    case FUNCTION_SIGMOID:
    case FUNCTION_CLAMPED_SWIGLU:
    case FUNCTION_SOFTPLUS:
    case FUNCTION_QUICK_GELU:
    case FUNCTION_EXP:
    case FUNCTION_RELU_ABOVE:
    case FUNCTION_EXP_BELOW:
    case FUNCTION_SIGMOID_ABOVE:
    case FUNCTION_CLAMPED_SILU:
        return true;
    default:
        return false;
    }
}

// A gate may be repeated over what it gates: `repeats` says how often.
static void run_forward(const struct run *run, struct map_args args)
{
    int64_t gates = array_elements(&run->call->inputs[0]);
    args.count = array_elements(&run->call->outputs[0]);
    assert(gates > 0 && args.count % gates == 0);
    args.repeats = args.count / gates;
    args.x = run_input(run, 0);
    args.up = run_input(run, 1);
    args.y = run_output(run, 0);
    const struct kernel_call *call = run->call;
    args.row = array_row(&call->outputs[0]);
    args.x_stride = call->inputs[0].row_stride;
    args.up_stride = call->inputs[1].row_stride;
    args.y_stride = call->outputs[0].row_stride;
    kernel_map(run->on, &args);
}

static void run_backward(const struct run *run, struct map_args args)
{
    bool is_gated = run->call->output_count == 2;
    args.count = array_elements(&run->call->inputs[0]);
    assert(args.count % array_elements(&run->call->outputs[0]) == 0);
    args.repeats = args.count / array_elements(&run->call->outputs[0]);
    args.d = run_input(run, 0);
    // A linear function has no forward input; its slope is the same everywhere.
    args.x = run_input(run, run->call->input_count > 1 ? 1 : 0);
    args.up = is_gated ? run_input(run, 2) : (struct reals){0};
    args.d_x = run_output(run, 0);
    args.d_up = run_output(run, 1);
    const struct kernel_call *call = run->call;
    args.row = array_row(&call->inputs[0]);
    args.d_stride = call->inputs[0].row_stride;
    args.x_stride = call->inputs[call->input_count > 1 ? 1 : 0].row_stride;
    args.up_stride = is_gated ? call->inputs[2].row_stride : 0;
    args.d_x_stride = call->outputs[0].row_stride;
    args.d_up_stride = call->outputs[1].row_stride;
    kernel_map_backward(run->on, &args);
}

const char *cuda_elementwise(const struct run *run)
{
    const struct kernel_call *call = run->call;
    const struct op *op = call->op;
    if (op->function == FUNCTION_ROPE) return cuda_rope(run);
    if (op->function == FUNCTION_ALIBI) return cuda_alibi(run);
    if (op->function == FUNCTION_MODULATE) return cuda_modulate(run);
    if (!is_known(op->function)) return "no kernel for this element-wise function";
    bool is_empty = array_elements(&call->outputs[0]) == 0 || array_elements(&call->inputs[0]) == 0;
    // A gate that nothing was gated with has no gradient.
    if (is_empty && call->output_count == 2)
        return cuda_begin_sum(run->device, run->stream, call, 0);
    if (is_empty) return NULL;
    bool is_shared = array_elements(&call->inputs[0]) != array_elements(&call->outputs[0]);
    if (is_shared && call_is_apart(call)) return "a gate that is repeated over rows that lie apart";
    struct map_args args = {.function = (int)op->function, .scalar = (float)op->scalar};
    if (op->phase == PHASE_FORWARD) {
        run_forward(run, args);
    } else {
        run_backward(run, args);
    }
    return NULL;
}

// Forward draws by the place in the whole, backward reads the mask: equal for every plan.
const char *cuda_dropout(const struct run *run)
{
    const struct kernel_call *call = run->call;
    const struct kernel_array *in = &call->inputs[0];
    bool is_forward = call->op->phase == PHASE_FORWARD;
    const struct kernel_array *mask = is_forward ? &call->outputs[1] : &call->inputs[1];
    if (mask->element != ELEMENT_BYTE) return "a dropout mask is of bytes";
    if (array_elements(in) == 0) return NULL;
    struct dropout_args args = {.rank = in->rank,
                                .each = 1,
                                .draws = is_forward,
                                .key = call->key,
                                .key_at = call->key_at,
                                .ratio = call->op->dropout_ratio,
                                .mask = mask->data,
                                .x = run_input(run, 0),
                                .y = run_output(run, 0),
                                .adds = call_adds(call, 0)};
    memcpy(args.sizes, in->sizes, sizeof args.sizes);
    memcpy(args.first, in->first, sizeof args.first);
    memcpy(args.whole, in->whole, sizeof args.whole);
    kernel_dropout(run->on, &args);
    return NULL;
}

static bool is_same(const struct cuda_rotation *a, const struct cuda_rotation *b)
{
    return a->theta == b->theta && a->dims == b->dims && a->first == b->first &&
           a->count == b->count && a->columns == b->columns && a->still == b->still;
}

static bool has_room(struct cuda_device *device)
{
    if (device->rotation_count < device->rotation_room) return true;
    int room = 2 * device->rotation_room + 4;
    struct cuda_rotation *more =
        realloc(device->rotations, (size_t)room * sizeof *device->rotations);
    if (!more) return false;
    device->rotations = more;
    device->rotation_room = room;
    return true;
}

// The table of a rope, made where there was none like it; NULL without memory. None gives way to
// another: a model has as many as it has kinds of layers and parts of a sequence.
static const float *table_of(const struct run *run, const struct cuda_rotation *wanted)
{
    struct cuda_device *device = run->device;
    for (int i = 0; i < device->rotation_count; i++) {
        if (is_same(&device->rotations[i], wanted)) return device->rotations[i].table;
    }
    void *table;
    assert(wanted->count > 0 && wanted->dims >= 0);
    size_t bytes = (size_t)(wanted->count * wanted->dims) * sizeof(float);
    if (device->is_capturing || !has_room(device)) return NULL;
    if (cuda_fault(cudaMalloc(&table, bytes))) return NULL;
    struct cuda_rotation *rotation = &device->rotations[device->rotation_count++];
    *rotation = *wanted;
    rotation->table = table;
    struct table_args args = {.theta = wanted->theta,
                              .dims = wanted->dims,
                              .first = wanted->first,
                              .count = wanted->count,
                              .columns = wanted->columns,
                              .still = wanted->still,
                              .table = rotation->table};
    kernel_rope_table(run->on, &args);
    // Other streams may read it.
    return cuda_fault(cudaStreamSynchronize(run->on)) ? NULL : rotation->table;
}

// Backward turns the other way: a rotation's inverse is its transpose.
static const char *rope_of(const struct run *run, struct rope_args *args)
{
    const struct kernel_array *in = &run->call->inputs[0];
    const struct op *op = run->call->op;
    // Of a video's frames the place is that of the frame, which stands in front of the heads.
    int at = in->rank > 4 ? in->rank - 3 : array_find(in, DIM_SEQ);
    if (at < 0) at = array_find(in, DIM_JOINT);
    int64_t width = array_last(in);
    if (at < 0) return "rope needs the dim seq";
    if (op->rotary_first + op->rotary_dims > width) return "rope is wider than a head";
    *args = (struct rope_args){.elements = 0};
    if (array_elements(in) == 0) return NULL;
    struct cuda_rotation wanted = {.theta = op->scalar,
                                   .dims = op->rotary_dims,
                                   .first = in->first[at],
                                   .count = in->sizes[at],
                                   .columns = op->rotary_columns,
                                   .still = op->rotary_still};
    *args = (struct rope_args){.elements = array_elements(in),
                               .width = width,
                               .inner = in->row_stride ? array_row(in) : array_stride(in, at),
                               .x_stride = in->row_stride,
                               .y_stride = run->call->outputs[0].row_stride,
                               .positions = wanted.count,
                               .dims = op->rotary_dims,
                               .first = op->rotary_first,
                               .sign = op->phase == PHASE_FORWARD ? 1 : -1,
                               .table = table_of(run, &wanted),
                               .x = run_input(run, 0),
                               .y = run_output(run, 0)};
    return args->table ? NULL : CUDA_NO_MEMORY;
}

const char *cuda_rope(const struct run *run)
{
    struct ropes_args args = {.second = {.elements = 0}};
    const char *fault = rope_of(run, &args.first);
    if (!fault && args.first.elements > 0) kernel_ropes(run->on, &args);
    return fault;
}

// Either may be empty on this rank: then the other runs alone.
const char *cuda_ropes(const struct run *first, const struct run *second)
{
    struct ropes_args args;
    const char *fault = rope_of(first, &args.first);
    if (!fault) fault = rope_of(second, &args.second);
    if (fault) return fault;
    if (args.first.elements == 0) {
        args.first = args.second;
        args.second.elements = 0;
    }
    if (args.first.elements > 0) kernel_ropes(first->on, &args);
    return NULL;
}

// Biases go by the key's place in the whole and the head's number in the whole.
const char *cuda_alibi(const struct run *run)
{
    const struct kernel_array *in = &run->call->inputs[0];
    int head = array_find(in, DIM_HEAD);
    if (head < 0 || in->dims[in->rank - 1] != DIM_KV_SEQ) return "alibi needs head and kv_seq";
    if (run->call->head_count <= 0) return "alibi needs the number of heads";
    struct alibi_args args = {.elements = array_elements(in),
                              .keys = array_last(in),
                              .first_key = in->first[in->rank - 1],
                              .head_stride = array_stride(in, head),
                              .heads = in->sizes[head],
                              .first_head = in->first[head],
                              .whole_heads = run->call->head_count,
                              .scale = run->call->op->scalar,
                              .x = run_input(run, 0),
                              .y = run_output(run, 0)};
    if (args.elements > 0) kernel_alibi(run->on, &args);
    return NULL;
}
