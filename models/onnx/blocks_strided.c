#include "models/onnx/blocks_graph.h"

#include <math.h>
#include <string.h>

// What moves numbers, repeats them or cuts them apart, as loops over the numbers of a sample.

bool blocks_add_loop(struct strided *s, int64_t size, const int64_t steps[LOOPS_INPUTS])
{
    int last = s->count - 1;
    bool goes_on = last >= 0;
    if (size == 1) return true;
    for (int i = 0; i < LOOPS_INPUTS && goes_on; i++)
        goes_on = s->steps[i][last] == steps[i] * size;
    if (!goes_on && s->count == LOOPS_MOST) return false;
    int at = goes_on ? last : s->count++;
    s->sizes[at] = goes_on ? s->sizes[at] * size : size;
    for (int i = 0; i < LOOPS_INPUTS; i++)
        s->steps[i][at] = steps[i];
    return true;
}

static bool move(const struct blocks_graph *b, const struct blocks_operator *op, struct strided *s)
{
    const struct onnx_node *node = op->node;
    const struct onnx_reading *reading = node->reading;
    const int tensors[LOOPS_INPUTS] = {node->inputs[0], -1, -1, -1};
    int64_t steps[LOOPS_INPUTS][DIMS_MOST] = {0};
    if (!reading || op->input_count != 1 || !blocks_is_apart(b, node->inputs[0])) return false;
    memcpy(steps[0], reading->steps,
           (size_t)blocks_tensor(b, node->outputs[0])->rank * sizeof **steps);
    s->first[0] = blocks_sample_place(b, node->inputs[0], reading->first);
    return blocks_over_sample(b, node->outputs[0], tensors, steps, s) &&
           strided_fits(s, 0, blocks_elements(b, op->inputs[0]));
}

// The step of an operand along dimension `d` of a result with so many; 0 where it repeats.
static int64_t step_of(const struct onnx_tensor *x, int d, int rank)
{
    int own = d - (rank - x->rank);
    int64_t step = 1;
    if (own < 0 || x->dims[own] == 1) return 0;
    for (int i = own + 1; i < x->rank; i++)
        step *= x->dims[i];
    return step;
}

// Whether input i is a weight, or a view or a part of one, of which all samples and all of their
// parts have the same numbers, those of one where the batch is one. Its steps along the dimensions
// of a result of this rank.
static bool read_weight(const struct blocks_graph *b, const struct blocks_operator *op, int i,
                        int rank, int64_t steps[DIMS_MOST], int64_t *first)
{
    int tensor = op->node->inputs[i];
    const struct onnx_tensor *x = blocks_tensor(b, tensor);
    int64_t own[DIMS_MOST] = {0};
    bool is_it = op->inputs[i] == b->root[tensor] && b->is_trained[op->inputs[i]] &&
                 x->rank <= rank && blocks_steps(b, tensor, own, first);
    if (!is_it) return false;
    for (int d = 0; d < rank; d++) {
        int at = d - (rank - x->rank);
        steps[d] = at < 0 || x->dims[at] == 1 ? 0 : own[at];
    }
    return steps[0] == 0 || b->batch == 1;
}

// Whose samples it is read along; -1: it is a weight.
static bool read_operand(const struct blocks_graph *b, const struct blocks_operator *op, int i,
                         const struct onnx_tensor *y, int64_t steps[DIMS_MOST], int64_t *first,
                         int *of)
{
    int tensor = op->node->inputs[i];
    const struct onnx_tensor *x = blocks_tensor(b, tensor);
    *of = -1;
    if (read_weight(b, op, i, y->rank, steps, first)) return true;
    *first = 0;
    *of = tensor;
    if (!blocks_is_apart(b, tensor) || x->rank > y->rank) return false;
    for (int d = 0; d < y->rank; d++)
        steps[d] = step_of(x, d, y->rank);
    return true;
}

static bool pair(const struct blocks_graph *b, const struct blocks_operator *op, struct strided *s)
{
    const struct onnx_node *node = op->node;
    const struct onnx_tensor *y = blocks_tensor(b, node->outputs[0]);
    int64_t steps[LOOPS_INPUTS][DIMS_MOST] = {0};
    int tensors[LOOPS_INPUTS] = {-1, -1, -1, -1};
    if (op->input_count != 2 || node->input_count != 2) return false;
    for (int i = 0; i < 2; i++)
        if (!read_operand(b, op, i, y, steps[i], &s->first[i], &tensors[i])) return false;
    return blocks_over_sample(b, node->outputs[0], tensors, steps, s);
}

// Rows of the whole of several parts stand behind one another, and of each part its own. Samples
// are in front of what is cut, or behind it.
static bool cut(const struct blocks_graph *b, int whole, const int *parts, int count,
                struct strided *s)
{
    const struct onnx_tensor *x = blocks_tensor(b, whole), *first = blocks_tensor(b, parts[0]);
    int axis = 0;
    int64_t width = 0, row = 1, rows = 1, inner = 0;
    while (axis < x->rank && x->dims[axis] == first->dims[axis])
        axis++;
    int dim = blocks_sample_dim(b, whole, &inner);
    if (axis == x->rank || dim < 0 || dim == axis) return false;
    for (int i = 0; i < count; i++) {
        int64_t own = 0;
        width += blocks_tensor(b, parts[i])->dims[axis];
        bool is_alike = b->apart[parts[i]] == 0 ||
                        (blocks_sample_dim(b, parts[i], &own) == dim && own == inner);
        if (!is_alike) return false;
    }
    for (int d = 0; d < x->rank; d++)
        *(d < axis ? &rows : &row) *= d == dim ? x->dims[d] / b->batch : x->dims[d];
    s->count = 1;
    s->sizes[0] = rows;
    s->steps[0][0] = row;
    return width == x->dims[axis];
}

static bool split(const struct blocks_graph *b, const struct blocks_operator *op, struct strided *s)
{
    const struct onnx_node *node = op->node;
    return op->input_count == 1 && blocks_is_apart(b, node->inputs[0]) &&
           cut(b, node->inputs[0], node->outputs, node->output_count, s);
}

// A weight that each sample has as it lies, as the token of a class.
static bool is_given_out(const struct blocks_graph *b, const struct blocks_operator *op, int i)
{
    const struct onnx_tensor *x = blocks_tensor(b, op->node->inputs[i]);
    int64_t steps[DIMS_MOST] = {0}, first = 0, step = 1;
    bool is_it = read_weight(b, op, i, x->rank, steps, &first) && first == 0;
    for (int d = x->rank - 1; d > 0 && is_it; d--) {
        is_it = x->dims[d] == 1 || steps[d] == step;
        step *= x->dims[d];
    }
    return is_it && step == blocks_elements(b, op->inputs[i]) && x->dims[0] == b->batch;
}

static bool join(const struct blocks_graph *b, const struct blocks_operator *op, struct strided *s)
{
    const struct onnx_node *node = op->node;
    bool is_it = op->input_count == node->input_count;
    for (int i = 0; i < node->input_count && is_it; i++)
        is_it = blocks_is_apart(b, node->inputs[i]) || is_given_out(b, op, i);
    return is_it && cut(b, node->outputs[0], node->inputs, node->input_count, s);
}

static bool rows(const struct blocks_graph *b, const struct blocks_operator *op, struct strided *s)
{
    const struct onnx_tensor *x = blocks_tensor(b, op->node->inputs[0]);
    bool is_apart = blocks_is_apart(b, op->node->inputs[0]) && x->rank > 1 &&
                    b->apart[op->node->inputs[0]] % x->dims[x->rank - 1] == 0;
    if (op->input_count != 1 || !isfinite(op->node->scalar) || !is_apart) return false;
    s->count = 1;
    s->steps[0][0] = x->dims[x->rank - 1];
    s->sizes[0] = blocks_elements(b, op->inputs[0]) / x->dims[x->rank - 1];
    return true;
}

// What is read goes to places of the result.
static bool place(const struct blocks_graph *b, const struct blocks_operator *op, struct strided *s)
{
    const struct onnx_node *node = op->node;
    const struct onnx_tensor *x = blocks_tensor(b, node->inputs[0]);
    const struct onnx_reading *reading = node->reading;
    const int tensors[LOOPS_INPUTS] = {node->inputs[0], node->outputs[0], -1, -1};
    int64_t steps[LOOPS_INPUTS][DIMS_MOST] = {0};
    if (!reading || op->input_count != 1 || !blocks_is_apart(b, node->inputs[0]) ||
        b->apart[node->outputs[0]] == 0)
        return false;
    for (int d = 0; d < x->rank; d++)
        steps[0][d] = step_of(x, d, x->rank);
    memcpy(steps[1], reading->steps, (size_t)x->rank * sizeof **steps);
    s->first[1] = blocks_sample_place(b, node->outputs[0], reading->first);
    return blocks_over_sample(b, node->inputs[0], tensors, steps, s) &&
           strided_fits(s, 1, blocks_elements(b, node->outputs[0]));
}

static const struct strided_row {
    const char *type, *kernel;
    bool (*find)(const struct blocks_graph *b, const struct blocks_operator *op, struct strided *s);
} ROWS[] = {
    {"Mul", "Mul", pair},
    {"Add", "Add", pair},
    {"Sub", "Sub", pair},
    {"Div", "Div", pair},
    {"Split", "Split", split},
    {"Concat", "Join", join},
    {"Pad", "Pad", place},
    {"ReduceSum", "ReduceSum", place},
    {"Softmax", "Softmax", rows},
    {"ReduceMean", "ReduceMean", place},
    {"Attention", "Attention", blocks_attend},
};

const struct strided *blocks_strided(const struct blocks_graph *b, const struct blocks_operator *op,
                                     const char **kernel)
{
    static const struct strided_row MOVES = {"", "Transpose", move};
    const struct onnx_node *node = op->node;
    const struct strided_row *row = &MOVES;
    struct strided *s = ARENA_NEW(b->arena, struct strided, 1);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (strcmp(node->type, ROWS[i].type) == 0) row = &ROWS[i];
    bool is_causal = node->mode && strcmp(node->mode, "causal") == 0;
    *kernel = is_causal ? "CausalAttention" : row->kernel;
    return row->find(b, op, s) ? s : NULL;
}
