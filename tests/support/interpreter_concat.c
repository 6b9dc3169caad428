#include "tests/support/interpreter_math.h"

#include <assert.h>
#include <string.h>

// Where element `index` of the whole stands in part `i` of a concatenation, whose last dims begin
// at `first`; NULL when it is in another part.
static double *part_at(struct interpreter *in, int whole, int part, int64_t first,
                       const int64_t index[DIM_COUNT])
{
    const struct tensor *w = &in->block->tensors[whole], *p = &in->block->tensors[part];
    int64_t at = index[w->extents[w->rank - 1].dim] - first;
    if (at < 0 || at >= in->sizes[part][p->rank - 1]) return NULL;
    int64_t own[DIM_COUNT];
    memcpy(own, index, sizeof own);
    own[p->extents[p->rank - 1].dim] = at;
    return interpreter_at(in, part, own);
}

void interpreter_concat(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_CONCAT;
    int whole = is_forward ? op->outputs[0] : op->inputs[0];
    const int *parts = is_forward ? op->inputs : op->outputs;
    int64_t index[DIM_COUNT] = {0}, size[DIM_COUNT];
    int64_t second = in->sizes[parts[0]][in->block->tensors[parts[0]].rank - 1];
    interpreter_sizes(in, whole, size);
    do {
        for (int i = 0; i < (is_forward ? 2 : op->output_count); i++) {
            double *part = part_at(in, whole, parts[i], i * second, index);
            if (!part) continue;
            double *joined = interpreter_at(in, whole, index);
            if (is_forward) {
                *joined = *part;
            } else {
                *part += *joined;
            }
        }
    } while (interpreter_next(index, size));
}

// The same numbers in the same order.
void interpreter_flatten(struct interpreter *in, const struct op *op)
{
    int64_t elements = interpreter_elements(in, op->inputs[0]);
    assert(elements == interpreter_elements(in, op->outputs[0]));
    for (int64_t i = 0; i < elements; i++)
        in->values[op->outputs[0]][i] = in->values[op->inputs[0]][i];
}
