#include "tests/support/memory_graphs.h"
#include "tests/support/memory_net.h"

#include <assert.h>

struct memory_graph *graph_four(struct arena *arena)
{
    struct net net = {.arena = arena};
    int small = net_tensor(&net, "a", 10), large = net_tensor(&net, "b", 40);
    int from_small = net_tensor(&net, "c", 50), from_large = net_tensor(&net, "d", 10);
    net_operator(&net, "V0", NULL, 0, (int[]){small, large}, 2);
    net_operator(&net, "V1", &small, 1, &from_small, 1);
    net_operator(&net, "V2", &large, 1, &from_large, 1);
    net_operator(&net, "V3", (int[]){from_small, from_large}, 2, NULL, 0);
    return net_finish(&net, "four");
}

struct memory_graph *graph_layered(struct arena *arena, struct draw *draw, int operator_count,
                                   int width)
{
    struct net net = {.arena = arena};
    for (int i = 0; i < operator_count; i++) {
        int inputs[3], count = 0, layer = i / width * width;
        int low = layer < 2 * width ? 0 : layer - 2 * width;
        for (int wanted = layer > 0 ? draw_int(draw, 1, 3) : 0; wanted > 0; wanted--) {
            int input = draw_int(draw, low, layer - 1);
            bool is_new = true;
            for (int j = 0; j < count; j++) {
                is_new = is_new && inputs[j] != input;
            }
            if (is_new) inputs[count++] = input;
        }
        int output = net_tensor(&net, "t", draw_int(draw, 1, 100));
        net_operator(&net, "op", inputs, count, &output, 1);
    }
    return net_finish(&net, "layered");
}

// Tensors that later operators may read, and whether something was made of them already.
enum { RANDOM_TENSORS_MAX = 512, RANDOM_READS_MAX = 3, RANDOM_OUTPUTS_MAX = 2 };

struct random_net {
    struct net net;
    struct draw *draw;
    bool spoiled[RANDOM_TENSORS_MAX];  // overwritten: may not be read any more
};

static bool one_in(struct draw *draw, int n)
{
    return draw_int(draw, 1, n) == 1;
}

static int draw_inputs(struct random_net *random, int *inputs)
{
    int count = 0, tensor_count = random->net.tensor_count;
    for (int wanted = draw_int(random->draw, 0, RANDOM_READS_MAX); wanted > 0 && tensor_count > 0;
         wanted--) {
        int low = tensor_count > 8 && !one_in(random->draw, 3) ? tensor_count - 8 : 0;
        int input = draw_int(random->draw, low, tensor_count - 1);
        bool is_new = !random->spoiled[input];
        for (int j = 0; j < count; j++) {
            is_new = is_new && inputs[j] != input;
        }
        if (is_new) inputs[count++] = input;
    }
    return count;
}

// Whether `tensor` and `other` are one value: joined by views alone.
static bool is_same_value(const struct net *net, int tensor, int other)
{
    while (net->tensors[tensor].shares >= 0 && !net->tensors[tensor].overwrites) {
        tensor = net->tensors[tensor].shares;
    }
    while (net->tensors[other].shares >= 0 && !net->tensors[other].overwrites) {
        other = net->tensors[other].shares;
    }
    return tensor == other;
}

// Makes the output a view of the input or lets it take its place. No later operator may then read
// the input or its views.
static void share(struct random_net *random, int output, int input)
{
    struct net *net = &random->net;
    struct memory_tensor *tensor = &net->tensors[output];
    tensor->shares = input;
    tensor->persistent = net->tensors[input].persistent;
    tensor->bytes = draw_int(random->draw, 0, (int)net->tensors[input].bytes);
    if (one_in(random->draw, 2)) return;
    for (int i = 0; i < output; i++) {
        if (is_same_value(net, i, input)) random->spoiled[i] = true;
    }
    tensor->overwrites = true;
}

static void add_operator(struct random_net *random)
{
    struct net *net = &random->net;
    struct draw *draw = random->draw;
    int inputs[RANDOM_READS_MAX], outputs[RANDOM_OUTPUTS_MAX];
    int input_count = draw_inputs(random, inputs);
    int output_count = draw_int(draw, one_in(draw, 6) ? 0 : 1, RANDOM_OUTPUTS_MAX);
    for (int i = 0; i < output_count; i++) {
        outputs[i] = net_tensor(net, "t", one_in(draw, 10) ? 0 : draw_int(draw, 1, 60));
        net->tensors[outputs[i]].kept = one_in(draw, 12);
        net->tensors[outputs[i]].persistent = one_in(draw, 20);
        if (i == 0 && input_count > 0 && one_in(draw, 4)) share(random, outputs[i], inputs[0]);
    }
    int op = net_operator(net, "op", inputs, input_count, outputs, output_count);
    if (one_in(draw, 5)) net->operators[op].workspace_bytes = draw_int(draw, 1, 40);
    net->operators[op].update = one_in(draw, 5);
    if (op == 0 || !one_in(draw, 6)) return;
    int *after = ARENA_NEW(net->arena, int, 1);
    *after = draw_int(draw, 0, op - 1);
    net->operators[op].after = after;
    net->operators[op].after_count = 1;
}

struct memory_graph *graph_random(struct arena *arena, struct draw *draw, int operator_count)
{
    struct random_net random = {{.arena = arena}, draw, {0}};
    assert(operator_count * RANDOM_OUTPUTS_MAX + 2 <= RANDOM_TENSORS_MAX);
    for (int i = draw_int(draw, 0, 2); i > 0; i--) {
        int tensor = net_tensor(&random.net, "given", draw_int(draw, 0, 60));
        random.net.tensors[tensor].persistent = one_in(draw, 4);
    }
    for (int i = 0; i < operator_count; i++) {
        add_operator(&random);
    }
    return net_finish(&random.net, "random");
}

struct memory_graph *graph_random_plain(struct arena *arena, struct draw *draw, int operator_count)
{
    struct random_net random = {{.arena = arena}, draw, {0}};
    for (int i = 0; i < operator_count; i++) {
        int inputs[RANDOM_READS_MAX], count = draw_inputs(&random, inputs);
        int output = net_tensor(&random.net, "t", draw_int(draw, 1, 60));
        net_operator(&random.net, "op", inputs, count, &output, 1);
    }
    return net_finish(&random.net, "random");
}
