#include "models/onnx/program.h"

// Tensors that share storage are a group, found through its root. Overwriting is safe when every
// read of the group's tensors is by the node itself or is spent: a view only passes the storage
// on, and an earlier overwriting of the group needed the same. It then orders nothing that data do
// not order already, so that no schedule is lost.
struct groups {
    struct onnx_tensor *tensors;
    int *above;        // towards the root, which is its own
    int *reads;        // of a root: reads of its group that are not spent
    bool *has_output;  // of a root: a tensor of the group is an output of the model
};

static int root_of(const struct groups *groups, int tensor)
{
    int *above = groups->above;
    while (above[tensor] != tensor)
        tensor = above[tensor] = above[above[tensor]];
    return tensor;
}

static bool is_view_of(const struct groups *groups, const struct onnx_node *node, int tensor)
{
    return node->output_count > 0 && groups->tensors[node->outputs[0]].shares == tensor;
}

static bool is_temporary(const struct onnx_tensor *tensor)
{
    return tensor->role == ONNX_ACTIVATION || tensor->role == ONNX_GRADIENT ||
           tensor->role == ONNX_PARAMETER_GRADIENT;
}

static bool overwrite(struct groups *groups, const struct onnx_node *node, int input)
{
    int output = node->outputs[0], root = root_of(groups, input), own_reads = 0;
    struct onnx_tensor *made = &groups->tensors[output];
    if (made->shares >= 0 || made->bytes != groups->tensors[input].bytes || made->bytes == 0) {
        return false;
    }
    if (!is_temporary(&groups->tensors[root]) || groups->has_output[root] || root == output) {
        return false;
    }
    for (int i = 0; i < node->input_count; i++)
        own_reads += root_of(groups, node->inputs[i]) == root;
    if (groups->reads[root] != own_reads) return false;
    groups->reads[root] = groups->reads[output];
    groups->has_output[root] = groups->has_output[output];
    groups->above[output] = root;
    made->shares = input;
    made->overwrites = true;
    return true;
}

void program_overwrite(struct onnx_program *program)
{
    struct groups groups = {.tensors = program->tensors};
    groups.above = ARENA_NEW(program->scratch, int, program->tensor_count);
    groups.reads = ARENA_NEW(program->scratch, int, program->tensor_count);
    groups.has_output = ARENA_NEW(program->scratch, bool, program->tensor_count);
    for (int i = 0; i < program->tensor_count; i++) {
        int shares = program->tensors[i].shares;
        groups.above[i] = shares >= 0 ? shares : i;
    }
    for (int i = 0; i < program->tensor_count; i++) {
        if (program->tensors[i].is_output) groups.has_output[root_of(&groups, i)] = true;
    }
    for (int i = 0; i < program->node_count; i++) {
        const struct onnx_node *node = &program->nodes[i];
        for (int j = 0; j < node->input_count; j++) {
            if (is_view_of(&groups, node, node->inputs[j])) continue;
            groups.reads[root_of(&groups, node->inputs[j])]++;
        }
    }
    for (int i = 0; i < program->node_count; i++) {
        const struct onnx_node *node = &program->nodes[i];
        bool is_done = node->output_count == 0;
        for (int j = 0; j < program->overwritable[i] && j < node->input_count && !is_done; j++)
            is_done = overwrite(&groups, node, node->inputs[j]);
    }
}
