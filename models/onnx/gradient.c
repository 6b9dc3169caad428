#include "models/onnx/program.h"

#include "models/onnx/operators.h"

#include <assert.h>
#include <string.h>

// The backward pass: for each forward node in reverse the kernels of its row, as far as anything
// trained depends on what they make. A tensor with several readers gets a contribution from each;
// the second and every later one is added as it comes, so that no more than the sum and one
// contribution are alive.

void program_mark_gradients(struct onnx_program *program)
{
    const struct onnx_model *model = program->model;
    for (int i = 0; i < model->value_count; i++)
        program->needs_gradient[i] = model->values[i].is_trained;
    for (int i = 0; i < model->call_count; i++) {
        const struct onnx_call *call = &model->calls[i];
        bool needs = false;
        for (int j = 0; j < call->input_count && call->is_live; j++) {
            needs = needs || (call_reads(call, j) && operator_differentiates(call->row, j) &&
                              program->needs_gradient[call->inputs[j]]);
        }
        for (int j = 0; j < call->output_count && needs; j++) {
            if (call->outputs[j] < 0) continue;
            bool is_float = element_is_float(model->values[call->outputs[j]].element);
            program->needs_gradient[call->outputs[j]] = is_float;
        }
    }
}

static int gradient_tensor(struct onnx_program *program, int value)
{
    const struct onnx_value *from = &program->model->values[value];
    const char *name = arena_print(program->scratch, "%s.gradient", from->name);
    return program_tensor(program, name, from->is_trained ? ONNX_PARAMETER_GRADIENT : ONNX_GRADIENT,
                          from->rank, from->dims, element_bytes(from->element));
}

// Of a weight that is read turned PyTorch has the first gradient as a view of a turned product,
// which it does not add to in place: with the other term and the sum there are three.
static void contribute(struct onnx_program *program, int value, int tensor, bool is_turned)
{
    int before = program->gradient_of[value];
    if (before < 0) {
        program->gradient_of[value] = tensor;
        program->is_turned[value] = is_turned;
        return;
    }
    const struct onnx_value *of = &program->model->values[value];
    const char *name = arena_print(program->scratch, "%s.gradient_sum", of->name);
    assert(before < program->tensor_count && tensor < program->tensor_count);
    int sum = gradient_tensor(program, value);
    int terms[] = {before, tensor};
    int node =
        program_node(program, ONNX_BACKWARD, name, "Sum", terms, 2, &sum, 1, (double)of->elements);
    program->overwritable[node] = program->is_turned[value] ? 0 : program->nodes[node].input_count;
    program->is_turned[value] = false;
    program->gradient_of[value] = sum;
}

// What a backward kernel reads and makes while it is put together.
struct gradient_kernel {
    int *inputs, *outputs, *values;  // values: what the outputs are gradients of
    int input_count, output_count;
    double flop;
};

static bool has_bit(unsigned bits, int i)
{
    return i < 32 ? (bits >> i & 1) != 0 : bits == ~0U;
}

static bool wants(const struct onnx_program *program, const struct onnx_call *call, unsigned makes,
                  int input)
{
    return has_bit(makes, input) && call_reads(call, input) &&
           program->needs_gradient[call->inputs[input]];
}

// Gradients of the outputs first: those may be overwritten.
static int read_gradients(const struct onnx_program *program, const struct onnx_call *call,
                          struct gradient_kernel *kernel)
{
    for (int i = 0; i < call->output_count; i++) {
        if (call->outputs[i] < 0 || program->gradient_of[call->outputs[i]] < 0) continue;
        kernel->inputs[kernel->input_count++] = program->gradient_of[call->outputs[i]];
    }
    return kernel->input_count;
}

static void read_forward(struct onnx_program *program, int index,
                         const struct onnx_gradient *gradient, struct gradient_kernel *kernel)
{
    const struct onnx_call *call = &program->model->calls[index];
    for (int i = 0; i < call->input_count; i++) {
        if (!has_bit(gradient->reads_inputs, i) || !call_reads(call, i)) continue;
        kernel->inputs[kernel->input_count++] = program_tensor_of(program, call->inputs[i]);
    }
    for (int i = 0; i < 5; i++) {
        if (!has_bit(gradient->reads_outputs, i) || program->saved[index][i] < 0) continue;
        kernel->inputs[kernel->input_count++] = program->saved[index][i];
    }
}

static void add_kernel(struct onnx_program *program, int index,
                       const struct onnx_gradient *gradient, struct gradient_kernel *kernel)
{
    const struct onnx_call *call = &program->model->calls[index];
    assert(kernel->output_count > 0);
    int gradient_count = read_gradients(program, call, kernel);
    read_forward(program, index, gradient, kernel);
    for (int i = 0; i < kernel->output_count; i++) {
        kernel->outputs[i] = gradient_tensor(program, kernel->values[i]);
        kernel->flop += (double)program->model->values[kernel->values[i]].elements;
    }
    if (gradient->traits & GRADIENT_SCALED) kernel->flop = call->flop;
    if (gradient->traits & GRADIENT_AGAIN) kernel->flop = 2.5 * call->flop;
    if (gradient->traits & GRADIENT_VIEW) kernel->flop = 0;
    const char *name = arena_print(program->scratch, "%s.%s", call->name, gradient->suffix);
    const char *type = arena_print(program->scratch, "%s.%s", call->type, gradient->suffix);
    int node = program_node(program, ONNX_BACKWARD, name, type, kernel->inputs, kernel->input_count,
                            kernel->outputs, kernel->output_count, kernel->flop);
    assert(gradient_count > 0);  // only calls that a gradient reaches get here
    struct onnx_tensor *output = &program->tensors[kernel->outputs[0]];
    bool same_bytes = output->bytes == program->tensors[kernel->inputs[0]].bytes;
    bool is_view = (gradient->traits & GRADIENT_VIEW) || program->is_strided[index];
    if (is_view && same_bytes) output->shares = kernel->inputs[0];
    if (gradient->traits & GRADIENT_IN_PLACE) program->overwritable[node] = gradient_count;
    bool turns = strcmp(call->type, "Transpose") == 0 ||
                 (strcmp(call->type, "Gemm") == 0 && attribute_int(call, "transB", 0));
    for (int i = 0; i < kernel->output_count; i++) {
        const struct onnx_value *of = &program->model->values[kernel->values[i]];
        contribute(program, kernel->values[i], kernel->outputs[i],
                   turns && of->is_trained && of->rank == 2);
    }
}

// A term of a sum has the sum's gradient, where neither was broadcast: no kernel, no tensor.
static bool pass_on(struct onnx_program *program, const struct onnx_call *call, int input)
{
    int gradient = program->gradient_of[call->outputs[0]], value = call->inputs[input];
    const struct onnx_value *to = &program->model->values[value];
    const struct onnx_value *from = &program->model->values[call->outputs[0]];
    if (to->elements != from->elements || to->element != from->element) return false;
    contribute(program, value, gradient, false);
    return true;
}

static void add_gradient(struct onnx_program *program, int index,
                         const struct onnx_gradient *gradient)
{
    const struct onnx_call *call = &program->model->calls[index];
    bool is_each = (gradient->traits & (GRADIENT_EACH | GRADIENT_PASS)) != 0;
    size_t room = (size_t)call->input_count + (size_t)call->output_count + 5;
    struct gradient_kernel kernel = {0};
    kernel.inputs = ARENA_NEW(program->scratch, int, room);
    kernel.outputs = ARENA_NEW(program->scratch, int, room);
    kernel.values = ARENA_NEW(program->scratch, int, room);
    for (int i = 0; i < call->input_count; i++) {
        if (!wants(program, call, gradient->makes, i)) continue;
        if ((gradient->traits & GRADIENT_PASS) && pass_on(program, call, i)) continue;
        kernel.values[kernel.output_count++] = call->inputs[i];
        if (!is_each) continue;
        add_kernel(program, index, gradient, &kernel);
        kernel.input_count = kernel.output_count = 0;
        kernel.flop = 0;
    }
    if (!is_each && kernel.output_count) add_kernel(program, index, gradient, &kernel);
}

static void add_backward(struct onnx_program *program, int index)
{
    const struct onnx_call *call = &program->model->calls[index];
    bool is_reached = false;
    for (int i = 0; i < call->output_count; i++) {
        is_reached =
            is_reached || (call->outputs[i] >= 0 && program->gradient_of[call->outputs[i]] >= 0);
    }
    for (int i = 0; i < GRADIENTS_MOST && is_reached && call->row->gradients[i].makes; i++)
        add_gradient(program, index, &call->row->gradients[i]);
}

// The dimension over which a classifier's output is a distribution: the last one of a sequence
// [batch, position, class], the channels else. 1 where the output is no classifier's.
static int64_t class_count(const struct onnx_value *output)
{
    if (output->rank < 2) return 1;
    return output->dims[output->rank == 3 ? 2 : 1];
}

static const struct onnx_call *producer_of(const struct onnx_model *model, int value)
{
    for (int i = 0; i < model->call_count; i++) {
        for (int j = 0; j < model->calls[i].output_count; j++) {
            if (model->calls[i].outputs[j] == value) return &model->calls[i];
        }
    }
    return NULL;
}

// Softmax cross-entropy: with the labels the probabilities give the loss, and its gradient by the
// logits is probabilities minus labels. A model that ends with a softmax has the probabilities; of
// logits they are made here, and the gradient overwrites them.
static void add_cross_entropy(struct onnx_program *program, int value)
{
    const struct onnx_model *model = program->model;
    const struct onnx_value *output = &model->values[value];
    const struct onnx_call *producer = producer_of(model, value);
    bool is_softmax = producer && (strcmp(producer->type, "Softmax") == 0 ||
                                   strcmp(producer->type, "LogSoftmax") == 0);
    int64_t label_count = output->elements / class_count(output);
    int labels = program_tensor(program, "labels", ONNX_INPUT, 1, &label_count, 8);
    int reads[] = {program_tensor_of(program, value), labels}, makes[2];
    makes[0] = program_tensor(program, "loss", ONNX_ACTIVATION, 0, NULL, 4);
    makes[1] = is_softmax ? reads[0]
                          : program_tensor(program, "probabilities", ONNX_ACTIVATION, output->rank,
                                           output->dims, element_bytes(output->element));
    program_node(program, ONNX_FORWARD, "cross_entropy", "cross_entropy", reads, 2, makes,
                 is_softmax ? 1 : 2, (is_softmax ? 1 : 5) * (double)output->elements);
    int target = is_softmax ? producer->inputs[0] : value;
    int gradient = gradient_tensor(program, target), kept[] = {makes[1], labels, makes[0]};
    int node =
        program_node(program, ONNX_BACKWARD, "cross_entropy.gradient", "cross_entropy.gradient",
                     kept, 3, &gradient, 1, (double)output->elements);
    program->overwritable[node] = 1;
    contribute(program, target, gradient, false);
}

static void add_mean(struct onnx_program *program, const int *values, int count)
{
    int *reads = ARENA_NEW(program->scratch, int, count);
    double flop = 0;
    for (int i = 0; i < count; i++) {
        reads[i] = program_tensor_of(program, values[i]);
        flop += (double)program->model->values[values[i]].elements;
    }
    int loss = program_tensor(program, "loss", ONNX_ACTIVATION, 0, NULL, 4);
    program_node(program, ONNX_FORWARD, "mean", "mean", reads, count, &loss, 1, flop);
    for (int i = 0; i < count; i++) {
        int gradient = gradient_tensor(program, values[i]);
        program_node(program, ONNX_BACKWARD, "mean.gradient", "mean.gradient", &loss, 1, &gradient,
                     1, (double)program->model->values[values[i]].elements);
        contribute(program, values[i], gradient, false);
    }
}

static bool add_loss(struct onnx_program *program)
{
    const struct onnx_model *model = program->model;
    int *values = ARENA_NEW(program->scratch, int, model->value_count), count = 0;
    for (int i = 0; i < model->value_count; i++) {
        if (model->values[i].is_output && program->needs_gradient[i]) values[count++] = i;
    }
    if (count == 0) {
        return err_set(model->err, ERR_INPUT,
                       "%s: no output depends on a weight that could be trained", model->path);
    }
    if (count == 1 && class_count(&model->values[values[0]]) > 1) {
        add_cross_entropy(program, values[0]);
    } else {
        add_mean(program, values, count);
    }
    return true;
}

// Reads parameter, gradient and states, and writes parameter and states in place.
static void add_update(struct onnx_program *program, int value)
{
    const struct onnx_value *from = &program->model->values[value];
    int state_count = program->model->options.moment_count;
    int *reads = ARENA_NEW(program->scratch, int, state_count + 2);
    int *makes = ARENA_NEW(program->scratch, int, state_count + 1);
    assert(from->is_trained && program->gradient_of[value] >= 0);
    reads[0] = program_tensor_of(program, value);
    reads[1] = program->gradient_of[value];
    for (int i = 0; i <= state_count; i++) {
        enum onnx_role role = i ? ONNX_STATE : ONNX_PARAMETER;
        const char *what = i ? arena_print(program->scratch, ".state%d", i) : "";
        const char *name = arena_print(program->scratch, "%s%s", from->name, what);
        int bytes = element_bytes(from->element), old = reads[0];
        if (i)
            old = reads[i + 1] = program_tensor(program, name, role, from->rank, from->dims, bytes);
        name = arena_print(program->scratch, "%s.updated", name);
        makes[i] = program_tensor(program, name, role, from->rank, from->dims, bytes);
        program->tensors[makes[i]].shares = old;
        program->tensors[makes[i]].overwrites = true;
    }
    static const char *const types[] = {"sgd", "momentum", "adamw"};
    const char *type = state_count < 3 ? types[state_count] : "update";
    const char *name = arena_print(program->scratch, "%s.%s", from->name, type);
    // Multiply and add of the parameter, and of each state its decay, its square and its share.
    double flop = (2 + 5 * (double)state_count) * (double)from->elements;
    program_node(program, ONNX_UPDATE, name, type, reads, state_count + 2, makes, state_count + 1,
                 flop);
}

bool program_train(struct onnx_program *program)
{
    const struct onnx_model *model = program->model;
    if (!add_loss(program)) return false;
    for (int i = model->call_count - 1; i >= 0; i--) {
        if (model->calls[i].is_live) add_backward(program, i);
    }
    for (int i = 0; i < model->value_count; i++) {
        if (model->values[i].is_trained && program->gradient_of[i] >= 0) add_update(program, i);
    }
    return true;
}
