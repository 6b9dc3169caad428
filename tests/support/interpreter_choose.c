#include "tests/support/interpreter_math.h"

#include <assert.h>

// A choice of keys, by comparing each key with all others, and whether a key was chosen.

static double score_of(const struct interpreter *in, const struct op *op, int64_t row, int64_t key)
{
    int q = op->inputs[0], k = op->inputs[1];
    int64_t heads = interpreter_size(in, q, DIM_INDEX_HEAD);
    int64_t width = interpreter_size(in, q, DIM_HEAD_DIM);
    int64_t keys = interpreter_size(in, k, op->rate > 0 ? DIM_ENTRY : DIM_SEQ);
    int64_t queries = interpreter_size(in, q, DIM_SEQ);
    const double *to = in->values[k] + (row / queries * keys + key) * width;
    double sum = 0;
    for (int64_t h = 0; h < heads; h++) {
        const double *from = in->values[q] + (row * heads + h) * width;
        double product = 0;
        for (int64_t i = 0; i < width; i++)
            product += from[i] * to[i];
        if (product > 0) sum += in->values[op->inputs[2]][row * heads + h] * product;
    }
    return sum;
}

static void choose_row(struct interpreter *in, const struct op *op, int64_t row)
{
    int64_t queries = interpreter_size(in, op->inputs[0], DIM_SEQ), written = 0;
    int64_t keys = row % queries + in->offset[DIM_SEQ] + 1;
    // Entries whose last token is no further than the query.
    if (op->rate > 0) keys /= op->rate;
    assert(op->causal);
    double *chosen = in->values[op->outputs[0]] + row * op->top_k;
    for (int64_t j = 0; j < keys; j++) {
        double own = score_of(in, op, row, j);
        int64_t better = 0;
        for (int64_t i = 0; i < keys; i++) {
            double other = score_of(in, op, row, i);
            better += other > own || (i < j && other >= own);
        }
        if (better < op->top_k) chosen[written++] = (double)j;
    }
    while (written < op->top_k)
        chosen[written++] = -1;
}

void interpreter_choose(struct interpreter *in, const struct op *op)
{
    // The gradients of what was in front of the choice are zeros, as arrays are made.
    if (op->kind == OP_CHOOSE_BACKWARD) return;
    int64_t rows = interpreter_elements(in, op->outputs[0]) / op->top_k;
    for (int64_t row = 0; row < rows; row++)
        choose_row(in, op, row);
}

bool interpreter_is_chosen(const struct interpreter *in, const struct op *op, int64_t row,
                           int64_t key)
{
    if (op->top_k == 0) return true;
    int at = op->kind == OP_ATTENTION ? 3 : 4;
    if (in->block->tensors[op->inputs[at]].rank == 1) at++;  // the sink
    int input = op->inputs[at];
    assert(interpreter_size(in, input, DIM_CHOSEN) == op->top_k);
    for (int i = 0; i < op->top_k; i++) {
        if ((int64_t)in->values[input][row * op->top_k + i] == key + in->offset[DIM_KV_SEQ])
            return true;
    }
    return false;
}
