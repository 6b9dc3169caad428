#include "tests/support/interpreter_math.h"

#include <math.h>

// A product and the loss of its scores (models/op_linear_loss.h), with all scores of a row at once.

struct scores {
    int x, weight, labels;
    int64_t depth, columns;
    bool is_turned;
    double factor;
};

static struct scores scores_of(const struct interpreter *in, const struct op *op, int input)
{
    struct scores s = {
        .x = op->inputs[input], .weight = op->inputs[input + 1], .labels = op->inputs[input + 2]};
    const struct tensor *x = &in->block->tensors[s.x], *weight = &in->block->tensors[s.weight];
    s.is_turned = weight->extents[0].dim != x->extents[x->rank - 1].dim;
    s.depth = in->sizes[s.x][x->rank - 1];
    s.columns = in->sizes[s.weight][!s.is_turned];
    s.factor = op->scalar;
    return s;
}

static int64_t place(const struct scores *s, int64_t row, int64_t column)
{
    return s->is_turned ? column * s->depth + row : row * s->columns + column;
}

static double score(const struct interpreter *in, const struct scores *s, int64_t row, int64_t j)
{
    double sum = 0;
    for (int64_t h = 0; h < s->depth; h++)
        sum += in->values[s->x][row * s->depth + h] * in->values[s->weight][place(s, h, j)];
    return s->factor * sum;
}

static void forward(struct interpreter *in, const struct op *op)
{
    struct scores s = scores_of(in, op, 0);
    for (int64_t i = 0; i < interpreter_elements(in, s.labels); i++) {
        int64_t asked = (int64_t)in->values[s.labels][i];
        double sum = 0;
        for (int64_t j = 0; j < s.columns; j++)
            sum += exp(score(in, &s, i, j));
        int64_t label = asked - in->offset[DIM_VOCAB];
        in->values[op->outputs[0]][i] = asked < 0 ? 0 : log(sum) - score(in, &s, i, label);
        in->values[op->outputs[1]][i] = log(sum);
    }
}

static void backward(struct interpreter *in, const struct op *op)
{
    struct scores s = scores_of(in, op, 1);
    for (int64_t i = 0; i < interpreter_elements(in, s.labels); i++) {
        int64_t asked = (int64_t)in->values[s.labels][i];
        double d = in->values[op->inputs[0]][i], lse = in->values[op->inputs[4]][i];
        for (int64_t j = 0; j < s.columns && asked >= 0; j++) {
            double p = exp(score(in, &s, i, j) - lse) - (j == asked - in->offset[DIM_VOCAB]);
            for (int64_t h = 0; h < s.depth; h++) {
                double x = in->values[s.x][i * s.depth + h];
                double w = in->values[s.weight][place(&s, h, j)];
                in->values[op->outputs[0]][i * s.depth + h] += s.factor * d * p * w;
                if (op->output_count < 2) continue;
                in->values[op->outputs[1]][place(&s, h, j)] += s.factor * d * p * x;
            }
        }
    }
}

void interpreter_linear_loss(struct interpreter *in, const struct op *op)
{
    if (op->kind == OP_LINEAR_LOSS) return forward(in, op);
    backward(in, op);
}
