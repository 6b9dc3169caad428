#include "models/onnx/blocks_graph.h"

#include "core/names.h"

#include <math.h>
#include <string.h>

// Tensors that are views of others, as the steps of their dimensions in what these hold, and
// attention, whose kernels read and write heads where they lie.

void blocks_plain_steps(const struct onnx_tensor *tensor, int64_t steps[DIMS_MOST])
{
    int64_t step = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        steps[d] = step;
        step *= tensor->dims[d];
    }
}

// Of each dimension of a transposition the one of what it reads.
static bool find_order(const struct onnx_tensor *from, const struct onnx_node *node,
                       const struct onnx_tensor *to, int order[DIMS_MOST])
{
    int64_t own[DIMS_MOST] = {0};
    bool is_used[DIMS_MOST] = {0};
    if (!node->reading || from->rank != to->rank) return false;
    blocks_plain_steps(from, own);
    for (int d = 0; d < to->rank; d++) {
        int at = 0;
        while (at < from->rank &&
               (is_used[at] || own[at] != node->reading->steps[d] || from->dims[at] != to->dims[d]))
            at++;
        if (at == from->rank) return false;
        is_used[at] = true;
        order[d] = at;
    }
    return true;
}

// Another shape of the same numbers: runs of dimensions that go on as one are cut otherwise.
static bool reshape(const struct onnx_tensor *from, const int64_t *own,
                    const struct onnx_tensor *to, int64_t steps[DIMS_MOST])
{
    int d = to->rank - 1, at = from->rank - 1;
    while (at >= 0) {
        int64_t run = from->dims[at], step = own[at];
        while (at > 0 && (from->dims[at - 1] == 1 || own[at - 1] == step * run))
            run *= from->dims[--at];
        at--;
        for (; d >= 0 && (run > 1 || to->dims[d] == 1) && run % to->dims[d] == 0; d--) {
            steps[d] = step;
            step *= to->dims[d];
            run /= to->dims[d];
        }
        if (run != 1) return false;
    }
    for (; d >= 0 && to->dims[d] == 1; d--)
        steps[d] = 0;
    return d < 0;
}

static bool is_plain(const struct onnx_tensor *t, const int64_t *steps)
{
    int64_t plain[DIMS_MOST] = {0};
    bool is_it = true;
    blocks_plain_steps(t, plain);
    for (int d = 0; d < t->rank && is_it; d++)
        is_it = t->dims[d] == 1 || steps[d] == plain[d];
    return is_it;
}

static bool is_same(const struct onnx_tensor *a, const struct onnx_tensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

// What has the same numbers in the same order. A table of positions that is resized to the size
// that it has stays what it is, whatever stands between its places.
static bool is_shape(const struct blocks_graph *b, const struct onnx_node *view)
{
    static const char *const SHAPES[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
    if (strcmp(view->type, "Resize") == 0)
        return is_same(blocks_tensor(b, view->inputs[0]), blocks_tensor(b, view->outputs[0]));
    return NAME_INDEX(SHAPES, view->type) >= 0;
}

bool blocks_steps(const struct blocks_graph *b, int tensor, int64_t steps[], int64_t *first)
{
    const struct onnx_node *view = b->view[tensor];
    const struct onnx_tensor *to = blocks_tensor(b, tensor);
    *first = 0;
    if (!view && b->is_derived[tensor]) return false;
    if (!view) {
        blocks_plain_steps(to, steps);
        if (b->laid[tensor]) memcpy(steps, b->laid[tensor], (size_t)to->rank * sizeof *steps);
        return true;
    }
    // Between two shapes another one may be that has no steps.
    int before = view->inputs[0];
    while (is_shape(b, view) && b->view[before] && is_shape(b, b->view[before]))
        before = b->view[before]->inputs[0];
    const struct onnx_tensor *from = blocks_tensor(b, before);
    int64_t own[DIMS_MOST] = {0};
    int order[DIMS_MOST] = {0};
    if (!blocks_steps(b, before, own, first)) return false;
    bool is_turned = strcmp(view->type, "Transpose") == 0;
    if (!is_turned && view->reading) {
        // A part of a weight, or one that is repeated.
        bool reads = strncmp(view->type, "Reduce", 6) != 0 && strcmp(view->type, "Pad") != 0;
        if (!reads || !is_plain(from, own)) return false;
        *first += view->reading->first;
        memcpy(steps, view->reading->steps, (size_t)to->rank * sizeof *steps);
        return true;
    }
    if (!is_turned) return is_shape(b, view) && reshape(from, own, to, steps);
    if (!find_order(from, view, to, order)) return false;
    for (int d = 0; d < to->rank; d++)
        steps[d] = own[order[d]];
    return true;
}

static bool attends(const struct blocks_operator *op)
{
    return op->kind == BLOCKS_OPERATOR && strcmp(op->node->type, "Attention") == 0;
}

static void drop_kernel(struct blocks_operator *op)
{
    op->kernel = NULL;
    op->strided = NULL;
}

void blocks_lay(struct blocks_graph *b, const struct onnx_node *view)
{
    int tensor = b->root[view->inputs[0]], at = b->maker[tensor];
    if (at < 0 || !attends(&b->operators[at]) || b->laid[tensor]) return;
    struct blocks_operator *op = &b->operators[at];
    const struct onnx_tensor *y = blocks_tensor(b, view->inputs[0]);
    const struct onnx_tensor *to = blocks_tensor(b, view->outputs[0]);
    int64_t turned[DIMS_MOST] = {0}, *steps = ARENA_NEW(b->arena, int64_t, DIMS_MOST);
    int order[DIMS_MOST] = {0};
    if (!op->strided) return;
    if (!is_same(y, blocks_tensor(b, tensor)) || !find_order(y, view, to, order)) {
        drop_kernel(op);
        return;
    }
    blocks_plain_steps(to, turned);
    for (int d = 0; d < to->rank; d++)
        steps[order[d]] = turned[d];
    b->laid[tensor] = steps;
    b->apart[tensor] = b->apart[view->outputs[0]];
    struct strided *s = ARENA_NEW(b->arena, struct strided, 1);
    if (blocks_attend(b, op, s))
        op->strided = s;
    else
        drop_kernel(op);
}

// Whether a reader that goes by the order of the numbers sees them in order.
static bool is_in_order(const struct blocks_graph *b, int tensor)
{
    int64_t steps[DIMS_MOST] = {0}, first = 0;
    return blocks_steps(b, tensor, steps, &first) && is_plain(blocks_tensor(b, tensor), steps);
}

void blocks_check_laid(struct blocks_graph *b)
{
    for (int at = 0; at < b->operator_count; at++) {
        const struct blocks_operator *op = &b->operators[at];
        for (int i = 0; i < op->node->input_count; i++) {
            int tensor = op->node->inputs[i], maker = b->maker[b->root[tensor]];
            bool is_made = maker >= 0 && attends(&b->operators[maker]);
            if (is_made && !is_in_order(b, tensor)) drop_kernel(&b->operators[maker]);
        }
    }
}

// The steps of an operand with these dimensions in a sample. Along the first one are the parts of a
// sample, and then the next sample.
static bool read_operand(const struct blocks_graph *b, int tensor, int64_t steps[DIMS_MOST])
{
    const struct onnx_tensor *t = blocks_tensor(b, tensor);
    int root = b->root[tensor];
    int64_t first = 0, parts = t->dims[0] / b->batch;
    if (!blocks_steps(b, tensor, steps, &first) || t->dims[0] % b->batch != 0) return false;
    bool is_it = t->dims[t->rank - 1] == 1 || steps[t->rank - 1] == 1;
    is_it = is_it && (b->batch == 1 || steps[0] * parts == b->apart[root]);
    for (int d = 0; d < t->rank && is_it; d++)
        is_it = blocks_sample_step(b, root, d == 0 ? parts : t->dims[d], &steps[d]);
    return is_it;
}

enum { QUERY, KEY, VALUE, RESULT };

// Heads, of which some may share keys: at most two loops.
static bool add_heads(const struct blocks_graph *b,
                      const struct onnx_tensor *const of[LOOPS_INPUTS],
                      int64_t steps[LOOPS_INPUTS][DIMS_MOST], struct strided *s)
{
    for (int d = 0; d < of[QUERY]->rank - 2; d++) {
        int64_t heads = of[QUERY]->dims[d], kv = of[KEY]->dims[d];
        bool is_right = kv > 0 && heads % kv == 0 && of[VALUE]->dims[d] == kv &&
                        of[RESULT]->dims[d] == heads && (d > 0 || kv == heads);
        if (!is_right) return false;
        if (d == 0) heads = kv = heads / b->batch;
        int64_t shared = heads / kv, q = steps[QUERY][d], y = steps[RESULT][d];
        const int64_t outer[] = {q * shared, steps[KEY][d], steps[VALUE][d], y * shared};
        const int64_t inner[] = {q, 0, 0, y};
        if (!blocks_add_loop(s, kv, outer) || !blocks_add_loop(s, shared, inner)) return false;
    }
    return s->count <= 2;
}

bool blocks_attend(const struct blocks_graph *b, const struct blocks_operator *op,
                   struct strided *s)
{
    const struct onnx_node *node = op->node;
    const struct onnx_tensor *of[LOOPS_INPUTS];
    int64_t steps[LOOPS_INPUTS][DIMS_MOST] = {0};
    struct strided heads = {0};
    if (op->input_count != 3 || node->input_count != 3 || !isfinite(node->scalar)) return false;
    for (int i = 0; i < LOOPS_INPUTS; i++) {
        int tensor = i == RESULT ? node->outputs[0] : node->inputs[i];
        of[i] = blocks_tensor(b, tensor);
        bool is_right = of[i]->rank == blocks_tensor(b, node->inputs[0])->rank && of[i]->rank > 2 &&
                        (i == RESULT || blocks_is_apart(b, tensor)) &&
                        read_operand(b, tensor, steps[i]);
        if (!is_right) return false;
    }
    if (!add_heads(b, of, steps, &heads)) return false;
    int row = of[QUERY]->rank - 2, last = row + 1;
    *s = (struct strided){.count = LOOPS_MOST,
                          .sizes = {1, 1, of[QUERY]->dims[row], of[KEY]->dims[row],
                                    of[QUERY]->dims[last], of[VALUE]->dims[last]},
                          .steps = {[QUERY] = {0, 0, steps[QUERY][row], 0, 1, 0},
                                    [KEY] = {0, 0, 0, steps[KEY][row], 1, 0},
                                    [VALUE] = {0, 0, 0, steps[VALUE][row], 0, 1},
                                    [RESULT] = {0, 0, steps[RESULT][row], 0, 0, 1}}};
    for (int l = 0; l < heads.count; l++) {
        s->sizes[2 - heads.count + l] = heads.sizes[l];
        for (int i = 0; i < LOOPS_INPUTS; i++)
            s->steps[i][2 - heads.count + l] = heads.steps[i][l];
    }
    return of[KEY]->dims[last] == of[QUERY]->dims[last] && of[VALUE]->dims[row] == s->sizes[3] &&
           of[RESULT]->dims[row] == s->sizes[2] && of[RESULT]->dims[last] == s->sizes[5];
}
