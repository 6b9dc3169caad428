#include "tests/support/memory_net.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void *grown(struct arena *arena, const void *old, int count, int capacity, size_t size)
{
    char *bytes = arena_alloc(arena, (size_t)capacity, size);
    if (count) memcpy(bytes, old, (size_t)count * size);
    return bytes;
}

int net_tensor(struct net *net, const char *name, int64_t bytes)
{
    if (net->tensor_count == net->tensor_capacity) {
        int count = net->tensor_count, capacity = net->tensor_capacity = 2 * count + 64;
        net->tensors = grown(net->arena, net->tensors, count, capacity, sizeof *net->tensors);
        net->is_parameter = grown(net->arena, net->is_parameter, count, capacity, sizeof(bool));
        net->is_data = grown(net->arena, net->is_data, count, capacity, sizeof(bool));
        net->gradient = grown(net->arena, net->gradient, count, capacity, sizeof(int));
    }
    net->tensors[net->tensor_count] = (struct memory_tensor){
        .name = arena_print(net->arena, "%s.%d", name, net->tensor_count),
        .bytes = bytes,
        .producer = -1,
        .shares = -1,
    };
    net->gradient[net->tensor_count] = -1;
    return net->tensor_count++;
}

static const int *copied(struct arena *arena, const int *items, int count)
{
    int *copy = ARENA_NEW(arena, int, count);
    if (count) memcpy(copy, items, (size_t)count * sizeof *copy);
    return copy;
}

int net_operator(struct net *net, const char *name, const int *inputs, int input_count,
                 const int *outputs, int output_count)
{
    if (net->operator_count == net->operator_capacity) {
        int count = net->operator_count, capacity = net->operator_capacity = 2 * count + 64;
        net->operators = grown(net->arena, net->operators, count, capacity, sizeof *net->operators);
        net->ops = grown(net->arena, net->ops, count, capacity, sizeof *net->ops);
    }
    net->operators[net->operator_count] = (struct memory_operator){
        .name = arena_print(net->arena, "%s_%d", name, net->operator_count),
        .inputs = copied(net->arena, inputs, input_count),
        .outputs = copied(net->arena, outputs, output_count),
        .input_count = input_count,
        .output_count = output_count,
    };
    return net->operator_count++;
}

struct memory_graph *net_finish(struct net *net, const char *name)
{
    struct memory_graph *graph = ARENA_NEW(net->arena, struct memory_graph, 1);
    *graph = (struct memory_graph){
        .name = name,
        .operators = net->operators,
        .operator_count = net->operator_count,
        .tensors = net->tensors,
        .tensor_count = net->tensor_count,
    };
    struct err err = {0};
    if (!memory_graph_finish(net->arena, graph, name, &err)) fprintf(stderr, "# %s\n", err.text);
    assert(!err.kind);
    return graph;
}

int net_data(struct net *net, const char *name, int64_t bytes)
{
    int tensor = net_tensor(net, name, bytes);
    net->is_data[tensor] = true;
    return tensor;
}

int net_parameter(struct net *net, const char *name, int64_t elements)
{
    int tensor = net_tensor(net, name, 4 * elements);
    net->is_parameter[tensor] = net->tensors[tensor].persistent = true;
    return tensor;
}

int net_op_4(struct net *net, const char *name, enum net_saves saves, int64_t elements,
             const int *inputs, int count)
{
    int output = net_tensor(net, name, 4 * elements);
    int index = net_operator(net, name, inputs, count, &output, 1);
    net->ops[index] = (struct net_op){.input_count = count, .output = output, .saves = saves};
    memcpy(net->ops[index].inputs, inputs, (size_t)count * sizeof *inputs);
    return output;
}

int net_op(struct net *net, const char *name, enum net_saves saves, int64_t elements, int a, int b)
{
    const int inputs[] = {a, b};
    return net_op_4(net, name, saves, elements, inputs, b < 0 ? 1 : 2);
}

static void add_gradient(struct net *net, int tensor, int gradient)
{
    int other = net->gradient[tensor];
    net->gradient[tensor] = gradient;
    if (other < 0) return;
    int sum = net_tensor(net, "sum", net->tensors[tensor].bytes);
    const int inputs[] = {other, gradient};
    net_operator(net, "add", inputs, 2, &sum, 1);
    net->gradient[tensor] = sum;
}

// The gradient operator of input i, with what it reads.
static void input_gradient(struct net *net, const struct net_op *op, int i)
{
    int tensor = op->inputs[i], count = 0, inputs[NET_INPUTS_MAX + 2];
    if (net->is_data[tensor]) return;
    if (op->saves == SAVES_FLOW && !net->is_parameter[tensor]) {
        add_gradient(net, tensor, net->gradient[op->output]);
        return;
    }
    inputs[count++] = net->gradient[op->output];
    if (op->saves == SAVES_OUTPUT) inputs[count++] = op->output;
    for (int j = 0; j < op->input_count; j++) {
        bool is_read = op->saves == SAVES_INPUTS ||
                       (op->saves == SAVES_OTHERS && (j != i || op->input_count == 1));
        if (is_read) inputs[count++] = op->inputs[j];
    }
    int gradient = net_tensor(net, "gradient", net->tensors[tensor].bytes);
    net_operator(net, "gradient", inputs, count, &gradient, 1);
    add_gradient(net, tensor, gradient);
}

static int in_place(struct net *net, const char *name, int tensor)
{
    int made = net_tensor(net, name, net->tensors[tensor].bytes);
    net->tensors[made].persistent = true;
    net->tensors[made].shares = tensor;
    net->tensors[made].overwrites = true;
    return made;
}

static void update(struct net *net, const char *name, const int *inputs, int count, int output)
{
    net->operators[net_operator(net, name, inputs, count, &output, 1)].update = true;
}

// Adam: first moment, squared gradient, second moment, root, quotient, step.
static void adam(struct net *net, int parameter)
{
    int64_t bytes = net->tensors[parameter].bytes;
    int gradient = net->gradient[parameter], first = net_tensor(net, "m", bytes);
    int second = net_tensor(net, "v", bytes);
    net->tensors[first].persistent = net->tensors[second].persistent = true;
    int new_first = in_place(net, "m_next", first), square = net_tensor(net, "square", bytes);
    int new_second = in_place(net, "v_next", second), root = net_tensor(net, "root", bytes);
    int quotient = net_tensor(net, "quotient", bytes);
    int new_weight = in_place(net, "weight_next", parameter);
    update(net, "m", (int[]){gradient, first}, 2, new_first);
    update(net, "square", (int[]){gradient}, 1, square);
    update(net, "v", (int[]){square, second}, 2, new_second);
    update(net, "sqrt", (int[]){new_second}, 1, root);
    update(net, "div", (int[]){new_first, root}, 2, quotient);
    update(net, "apply", (int[]){parameter, quotient}, 2, new_weight);
}

struct memory_graph *net_train(struct net *net, const char *name, int loss)
{
    int forward_count = net->operator_count, forward_tensors = net->tensor_count;
    int seed = net_tensor(net, "seed", net->tensors[loss].bytes);
    net_operator(net, "one", NULL, 0, &seed, 1);
    net->gradient[loss] = seed;
    for (int i = forward_count - 1; i >= 0; i--) {
        const struct net_op op = net->ops[i];
        if (net->gradient[op.output] < 0) continue;
        for (int j = 0; j < op.input_count; j++) {
            input_gradient(net, &op, j);
        }
    }
    for (int i = 0; i < forward_tensors; i++) {
        if (net->is_parameter[i]) adam(net, i);
    }
    return net_finish(net, name);
}
