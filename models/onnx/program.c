#include "models/onnx/program.h"

#include "models/onnx/operators.h"
#include "models/onnx/reading.h"
#include "models/onnx/scalar.h"
#include "models/onnx/shape.h"

#include <assert.h>
#include <string.h>

// Sums over all tensors stay far from overflow.
static const int64_t ALL_BYTES_MOST = INT64_C(1) << 60;

int program_tensor(struct onnx_program *program, const char *name, enum onnx_role role, int rank,
                   const int64_t *dims, int element_bytes)
{
    ARENA_GROW(program->scratch, program->tensors, program->tensor_count, program->tensor_capacity);
    int64_t *copy = ARENA_NEW(program->arena, int64_t, rank), elements = 1;
    for (int i = 0; i < rank; i++)
        elements *= copy[i] = dims[i];
    program->tensors[program->tensor_count] = (struct onnx_tensor){
        .name = names_unique(program->arena, program->scratch, &program->tensor_names, name),
        .role = role,
        .rank = rank,
        .dims = copy,
        .element_bytes = element_bytes,
        .bytes = elements * element_bytes,
        .shares = -1,
    };
    assert(element_bytes > 0);  // value_set has seen to it
    return program->tensor_count++;
}

int program_tensor_of(struct onnx_program *program, int value)
{
    const struct onnx_value *from = &program->model->values[value];
    if (program->tensor_of[value] >= 0) return program->tensor_of[value];
    enum onnx_role role = from->is_constant ? ONNX_PARAMETER
                          : from->is_made   ? ONNX_ACTIVATION
                                            : ONNX_INPUT;
    int tensor = program_tensor(program, from->name, role, from->rank, from->dims,
                                element_bytes(from->element));
    program->tensors[tensor].is_output = from->is_output;
    program->tensors[tensor].is_whole = !element_is_float(from->element);
    program->tensor_of[value] = tensor;
    return tensor;
}

int program_node(struct onnx_program *program, enum onnx_pass pass, const char *name,
                 const char *type, const int *inputs, int input_count, const int *outputs,
                 int output_count, double flop)
{
    // Two lists grow alike: the first with a copy of the room that the second one is to see.
    int capacity = program->node_capacity;
    ARENA_GROW(program->scratch, program->overwritable, program->node_count, capacity);
    ARENA_GROW(program->scratch, program->nodes, program->node_count, program->node_capacity);
    int *read = ARENA_NEW(program->arena, int, input_count), read_count = 0;
    for (int i = 0; i < input_count; i++) {
        bool is_new = true;
        // An operand that is read twice (x * x) is one buffer that is alive.
        for (int j = 0; j < read_count && is_new; j++)
            is_new = read[j] != inputs[i];
        if (is_new) read[read_count++] = inputs[i];
    }
    int *made = ARENA_COPY(program->arena, int, outputs, output_count);
    program->nodes[program->node_count] = (struct onnx_node){
        .name = names_unique(program->arena, program->scratch, &program->node_names, name),
        .type = arena_copy(program->arena, type),
        .pass = pass,
        .inputs = read,
        .outputs = made,
        .input_count = read_count,
        .output_count = output_count,
        .flop = flop,
    };
    return program->node_count++;
}

// The dimensions of what training keeps beside the outputs, and the bytes of an element.
static int saved_dims(const struct onnx_model *model, const struct onnx_call *call, int64_t *dims,
                      int *rank)
{
    const struct onnx_value *input = call_input(model, call, 0);
    const struct onnx_value *output = &model->values[call->outputs[0]];
    int64_t axis = attribute_int(call, "axis", -1);
    const struct onnx_value *like = call->row->saved == SAVED_INDICES ? output : input;
    memcpy(dims, like->dims, (size_t)like->rank * sizeof *dims);
    *rank = like->rank;
    switch (call->row->saved) {
    case SAVED_CHANNELS:
        dims[0] = input->dims[1];
        *rank = 1;
        return 4;
    case SAVED_ROWS:
        for (int64_t i = axis < 0 ? axis + input->rank : axis; i < input->rank; i++)
            dims[i] = 1;
        return 4;
    case SAVED_PLANES:
        *rank = 2;
        return 4;
    case SAVED_GROUPS:
        dims[1] = attribute_int(call, "num_groups", 1);
        *rank = 2;
        return 4;
    case SAVED_SAMPLES:
        dims[1] = 1;
        *rank = 2;
        return 1;
    case SAVED_INDICES:
        return 8;
    case SAVED_GATES:
        memcpy(dims, output->dims, (size_t)output->rank * sizeof *dims);
        *rank = output->rank;
        dims[*rank - 1] *= recurrent_gates(call->type) + (strcmp(call->type, "RNN") != 0);
        return element_bytes(output->element);
    case SAVED_SUMS:
        *rank = input->rank - 1;
        return 4;
    default:
        return 1;
    }
}

// Makes the saved tensors where ONNX has an output of that meaning, or takes that output.
static void save(struct onnx_program *program, int index, int *outputs, int *count)
{
    const struct onnx_call *call = &program->model->calls[index];
    enum onnx_saved kind = call->row->saved;
    int first = kind == SAVED_CHANNELS || kind == SAVED_GATES ? 3 : 1;
    bool is_one = kind == SAVED_MASK || kind == SAVED_SAMPLES || kind == SAVED_INDICES ||
                  kind == SAVED_SUMS || kind == SAVED_GATES;
    int last = is_one ? first : first + 1;
    for (int i = first; i <= last; i++) {
        bool is_there = i < call->output_count && call->outputs[i] >= 0;
        if (is_there && program->model->values[call->outputs[i]].is_read) {
            program->saved[index][i] = program->tensor_of[call->outputs[i]];
            continue;
        }
        int64_t dims[RANK_MOST];
        int rank = 0, bytes = saved_dims(program->model, call, dims, &rank);
        const char *name = arena_print(program->scratch, "%s.saved%d", call->name, i - first + 1);
        int tensor = program_tensor(program, name, ONNX_ACTIVATION, rank, dims, bytes);
        program->saved[index][i] = outputs[(*count)++] = tensor;
    }
}

// Products take a matrix of weights either way round: to turn one for them takes no copy, and
// neither does its gradient.
static bool turns_weight(const struct onnx_model *model, const struct onnx_call *call,
                         const bool *has_plain)
{
    const struct onnx_value *weight = &model->values[call->inputs[0]];
    bool is_matrix = weight->is_constant && weight->is_learned && weight->rank == 2;
    return is_matrix && !has_plain[call->outputs[0]];
}

// Kernels of attention read and write heads that lie inside of tokens: to turn these takes no copy,
// other views of them in between or not.
static void find_strided(struct onnx_program *program)
{
    const struct onnx_model *model = program->model;
    bool *is_made = ARENA_NEW(program->scratch, bool, model->value_count);
    bool *is_read = ARENA_NEW(program->scratch, bool, model->value_count);
    bool *has_other = ARENA_NEW(program->scratch, bool, model->value_count);
    bool *has_plain = ARENA_NEW(program->scratch, bool, model->value_count);  // but for products
    for (int i = 0; i < model->call_count; i++) {
        const struct onnx_call *call = &model->calls[i];
        if (!call->is_live || call->outputs[0] < 0) continue;
        bool is_view = (call->row->traits & TRAIT_VIEW) && is_made[call->inputs[0]];
        is_made[call->outputs[0]] = is_view || strcmp(call->type, "Attention") == 0;
    }
    for (int i = model->call_count - 1; i >= 0; i--) {
        const struct onnx_call *call = &model->calls[i];
        if (!call->is_live || call->outputs[0] < 0) continue;
        bool is_only = is_read[call->outputs[0]] && !has_other[call->outputs[0]];
        bool reads_any = strcmp(call->type, "Attention") == 0;
        bool is_passed = reads_any || (is_only && (call->row->traits & TRAIT_VIEW));
        if (strcmp(call->type, "Transpose") == 0)
            program->is_strided[i] =
                is_only || is_made[call->inputs[0]] || turns_weight(model, call, has_plain);
        bool multiplies = strcmp(call->type, "MatMul") == 0 || strcmp(call->type, "Gemm") == 0;
        for (int j = 0; j < call->input_count; j++) {
            if (!call_reads(call, j)) continue;
            (is_passed ? is_read : has_other)[call->inputs[j]] = true;
            if (!multiplies) has_plain[call->inputs[j]] = true;
        }
    }
}

static void set_sharing(struct onnx_program *program, int index, int node)
{
    const struct onnx_call *call = &program->model->calls[index];
    const struct onnx_node *made = &program->nodes[node];
    bool training = program->model->options.training;
    unsigned traits = call->row->traits;
    bool is_view = (traits & TRAIT_VIEW) || program->is_strided[index] ||
                   (!training && (traits & TRAIT_DROPOUT));
    int first = program_tensor_of(program, call->inputs[0]);
    struct onnx_tensor *output = &program->tensors[made->outputs[0]];
    if (is_view && made->output_count == 1 && output->bytes == program->tensors[first].bytes) {
        output->shares = first;
        // What is never freed stays so under another shape.
        if (program->tensors[first].role == ONNX_PARAMETER) output->role = ONNX_PARAMETER;
        return;
    }
    bool in_place = (traits & TRAIT_IN_PLACE) || (!training && (traits & TRAIT_EVAL_IN_PLACE));
    if (!in_place) return;
    bool is_any = call->row->inputs_least == 2 || call->row->inputs_most == INPUTS_ANY;
    program->overwritable[node] = is_any ? made->input_count : 1;
}

// What a reader of the graph has to know of the attributes.
static const char *mode_of(const struct onnx_call *call)
{
    if (call->mode) return call->mode;
    if (attribute_is(call, "approximate", "tanh")) return "tanh";
    bool is_attention = strcmp(call->type, "Attention") == 0;
    return is_attention && attribute_int(call, "is_causal", 0) ? "causal" : NULL;
}

static void add_forward(struct onnx_program *program, int index)
{
    const struct onnx_model *model = program->model;
    const struct onnx_call *call = &model->calls[index];
    int *inputs = ARENA_NEW(program->scratch, int, call->input_count), input_count = 0;
    int *outputs = ARENA_NEW(program->scratch, int, call->output_count + 2), output_count = 0;
    for (int i = 0; i < call->input_count; i++) {
        if (call_reads(call, i))
            inputs[input_count++] = program_tensor_of(program, call->inputs[i]);
    }
    for (int i = 0; i < 5; i++)
        program->saved[index][i] = -1;
    for (int i = 0; i < call->output_count; i++) {
        int value = call->outputs[i];
        if (value < 0 || (i > 0 && !model->values[value].is_read)) continue;
        outputs[output_count++] = program_tensor_of(program, value);
        if (i < 5) program->saved[index][i] = program->tensor_of[value];
    }
    bool is_kept = call->outputs[0] >= 0 && program->needs_gradient[call->outputs[0]];
    if (model->options.training && is_kept && call->row->saved) {
        save(program, index, outputs, &output_count);
    }
    double flop = call->flop;
    if (!(flop > 0) && call->outputs[0] >= 0) {
        flop = call->row->flop_per_element * (double)model->values[call->outputs[0]].elements;
    }
    int node =
        program_node(program, ONNX_FORWARD, call->name, printable(program->scratch, call->type),
                     inputs, input_count, outputs, output_count, flop);
    program->nodes[node].mode = mode_of(call);
    program->nodes[node].scalar = scalar_of(model, call);
    program->nodes[node].reading = reading_of(program->arena, model, call);
    bool slides = call->windows[0].taps > 0 || call->windows[1].taps > 0;
    if (slides) {
        struct window *windows = ARENA_NEW(program->arena, struct window, WINDOW_DIMS);
        memcpy(windows, call->windows, sizeof call->windows);
        program->nodes[node].windows = windows;
    }
    if (call->outputs[0] >= 0 && call_reads(call, 0)) set_sharing(program, index, node);
}

static bool check_bytes(const struct onnx_program *program)
{
    int64_t sum_bytes = 0;
    for (int i = 0; i < program->tensor_count; i++) {
        sum_bytes += program->tensors[i].bytes;
        if (sum_bytes > ALL_BYTES_MOST) {
            return err_set(program->model->err, ERR_INPUT,
                           "%s: the tensors together have more than 2^60 bytes",
                           program->model->path);
        }
    }
    return true;
}

static struct onnx_graph *finish(const struct onnx_program *program)
{
    struct arena *arena = program->arena;
    struct onnx_graph *graph = ARENA_NEW(arena, struct onnx_graph, 1);
    size_t tensor_count = (size_t)program->tensor_count, node_count = (size_t)program->node_count;
    graph->name = arena_copy(arena, program->model->name);
    graph->tensors = ARENA_NEW(arena, struct onnx_tensor, tensor_count);
    graph->nodes = ARENA_NEW(arena, struct onnx_node, node_count);
    if (tensor_count)
        memcpy(graph->tensors, program->tensors, tensor_count * sizeof *graph->tensors);
    if (node_count) memcpy(graph->nodes, program->nodes, node_count * sizeof *graph->nodes);
    graph->tensor_count = program->tensor_count;
    graph->node_count = program->node_count;
    for (int i = 0; i < program->model->value_count; i++) {
        const struct onnx_value *value = &program->model->values[i];
        if (value->is_trained) graph->parameter_elements += value->elements;
    }
    return graph;
}

struct onnx_graph *program_make(struct arena *arena, const struct onnx_model *model)
{
    struct onnx_program program = {.arena = arena, .scratch = model->arena, .model = model};
    program.tensor_of = ARENA_NEW(model->arena, int, model->value_count);
    program.gradient_of = ARENA_NEW(model->arena, int, model->value_count);
    program.needs_gradient = ARENA_NEW(model->arena, bool, model->value_count);
    program.saved =
        (int(*)[5])arena_alloc(model->arena, (size_t)model->call_count, 5 * sizeof(int));
    for (int i = 0; i < model->value_count; i++)
        program.tensor_of[i] = program.gradient_of[i] = -1;
    program.is_strided = ARENA_NEW(model->arena, bool, model->call_count);
    program.is_turned = ARENA_NEW(model->arena, bool, model->value_count);
    find_strided(&program);
    if (model->options.training) program_mark_gradients(&program);
    for (int i = 0; i < model->call_count; i++) {
        if (model->calls[i].is_live) add_forward(&program, i);
    }
    for (int i = 0; i < model->value_count; i++) {
        if (model->values[i].is_output) program_tensor_of(&program, i);
    }
    if (model->options.training && !program_train(&program)) return NULL;
    if (!check_bytes(&program)) return NULL;
    program_overwrite(&program);
    return finish(&program);
}
