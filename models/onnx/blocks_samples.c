#include "core/names.h"
#include "models/onnx/blocks_graph.h"

#include <assert.h>
#include <string.h>

// Where samples lie. Kernels have the numbers of a sample behind one another; in the file they may
// lie inside of other dimensions, as in (places, batch, width). What is known of a tensor is how
// many numbers on the same number of the next sample stands: another shape of it changes nothing
// of that, and what is in front and behind keeps its order in a sample.

bool blocks_is_apart(const struct blocks_graph *b, int tensor)
{
    int root = b->root[tensor];
    return b->maker[root] >= 0 && b->apart[root] > 0 && b->apart[tensor] > 0;
}

bool blocks_is_first(const struct blocks_graph *b, int tensor)
{
    return b->apart[tensor] == blocks_elements(b, tensor);
}

int blocks_sample_dim(const struct blocks_graph *b, int tensor, int64_t *inner)
{
    const struct onnx_tensor *t = blocks_tensor(b, tensor);
    int64_t steps[DIMS_MOST] = {0}, apart = b->apart[tensor];
    blocks_plain_steps(t, steps);
    for (int d = t->rank - 1; d >= 0 && apart > 0; d--) {
        *inner = steps[d] > 0 && apart % steps[d] == 0 ? apart / steps[d] : 0;
        if (*inner > 0 && t->dims[d] % (*inner * b->batch) == 0) return d;
    }
    return -1;
}

// Of a result whose numbers are read elsewhere: along one dimension lie the samples of what it
// reads.
static int64_t apart_read(const struct blocks_graph *b, int64_t apart, const int64_t *reads,
                          const struct onnx_tensor *y)
{
    int64_t steps[DIMS_MOST] = {0};
    blocks_plain_steps(y, steps);
    for (int d = 0; d < y->rank; d++) {
        int64_t inner = reads[d] > 0 && apart % reads[d] == 0 ? apart / reads[d] : 0;
        if (inner > 0 && y->dims[d] % (inner * b->batch) == 0) return inner * steps[d];
    }
    return 0;
}

// What follows for a result from input `x`; 0: nothing.
static int64_t apart_from(const struct blocks_graph *b, const struct onnx_node *node, int x, int to)
{
    const struct onnx_tensor *from = blocks_tensor(b, x), *y = blocks_tensor(b, to);
    const struct onnx_reading *reading = node->reading;
    bool goes_to = strncmp(node->type, "Reduce", 6) == 0 || strcmp(node->type, "Pad") == 0;
    int64_t steps[DIMS_MOST] = {0}, inner = 0;
    if (reading && !goes_to) return apart_read(b, b->apart[x], reading->steps, y);
    if (!reading && blocks_elements(b, x) == blocks_elements(b, to)) return b->apart[x];
    int dim = blocks_sample_dim(b, x, &inner), at = dim + y->rank - from->rank;
    if (dim < 0) return 0;
    if (reading) return inner * reading->steps[dim];
    blocks_plain_steps(y, steps);
    return at >= 0 && y->dims[at] == from->dims[dim] ? inner * steps[at] : 0;
}

void blocks_set_apart(struct blocks_graph *b, const struct onnx_node *node)
{
    for (int o = 0; o < node->output_count; o++) {
        int to = node->outputs[o];
        const struct onnx_tensor *y = blocks_tensor(b, to);
        int64_t apart = 0;
        bool is_read = false, is_first = y->rank > 0 && y->dims[0] % b->batch == 0;
        for (int i = 0; i < node->input_count; i++) {
            int x = node->inputs[i];
            if (b->apart[x] == 0) continue;
            is_read = true;
            is_first = is_first && blocks_is_first(b, x);
            if (apart == 0) apart = apart_from(b, node, x, to);
        }
        bool is_whole = is_read && (b->batch == 1 || (apart == 0 && is_first));
        b->apart[to] = is_whole ? blocks_elements(b, to) : apart;
    }
}

int64_t blocks_sample_place(const struct blocks_graph *b, int tensor, int64_t place)
{
    int64_t apart = b->apart[tensor], before = place / (apart * b->batch);
    int64_t behind = place % (apart * b->batch);
    assert(apart > 0 && place >= 0);
    return behind < apart ? before * apart + behind : -1;
}

bool blocks_sample_step(const struct blocks_graph *b, int tensor, int64_t size, int64_t *step)
{
    int64_t apart = b->apart[tensor];
    if (b->batch == 1 || size == 1) return true;
    if (apart > 0 && *step % (apart * b->batch) == 0) {
        *step /= b->batch;
        return true;
    }
    return apart > 0 && llabs(*step) * (size - 1) < apart;
}

// One loop more over operands, of which those that have no samples are weights.
static bool add_loop(const struct blocks_graph *b, const int tensors[LOOPS_INPUTS], int64_t size,
                     const int64_t steps[LOOPS_INPUTS], struct strided *s)
{
    int64_t own[LOOPS_INPUTS];
    memcpy(own, steps, sizeof own);
    for (int i = 0; i < LOOPS_INPUTS; i++)
        if (tensors[i] >= 0 && !blocks_sample_step(b, tensors[i], size, &own[i])) return false;
    return blocks_add_loop(s, size, own);
}

bool blocks_over_sample(const struct blocks_graph *b, int tensor, const int tensors[LOOPS_INPUTS],
                        int64_t steps[LOOPS_INPUTS][DIMS_MOST], struct strided *s)
{
    const struct onnx_tensor *t = blocks_tensor(b, tensor);
    int64_t inner = 0;
    int dim = blocks_sample_dim(b, tensor, &inner);
    if (dim < 0) return false;
    for (int d = 0; d < t->rank; d++) {
        int64_t size = t->dims[d], outer[LOOPS_INPUTS], own[LOOPS_INPUTS];
        for (int i = 0; i < LOOPS_INPUTS; i++) {
            own[i] = steps[i][d];
            outer[i] = own[i] * inner * b->batch;
            // The next sample of the loops is that of each operand, and the same of a weight.
            int64_t wanted = tensors[i] < 0 ? 0 : b->apart[tensors[i]];
            if (d == dim && b->batch > 1 && own[i] * inner != wanted) return false;
        }
        if (d == dim && !add_loop(b, tensors, size / (inner * b->batch), outer, s)) return false;
        if (!add_loop(b, tensors, d == dim ? inner : size, own, s)) return false;
    }
    return true;
}
