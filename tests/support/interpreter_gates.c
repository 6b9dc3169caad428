#include "tests/support/interpreter_math.h"

#include <math.h>

// Gates that are more than a function of one element.

static const double SWIGLU_LIMIT = 7;  // of gpt-oss

// gpt-oss: (up + 1) * g * sigmoid(scalar * g), with g at most the limit and up between it and its
// negative; both gradients.
static double clamped_swiglu(double scalar, double gate, double up, double *d_gate, double *d_up)
{
    double g = fmin(gate, SWIGLU_LIMIT), u = fmax(fmin(up, SWIGLU_LIMIT), -SWIGLU_LIMIT);
    double sigmoid = 1 / (1 + exp(-scalar * g));
    *d_gate = gate < SWIGLU_LIMIT ? (u + 1) * sigmoid * (1 + scalar * g * (1 - sigmoid)) : 0;
    *d_up = fabs(up) < SWIGLU_LIMIT ? g * sigmoid : 0;
    return (u + 1) * g * sigmoid;
}

// The product of silu and up, each of what the scalar leaves.
static double clamped_silu(double limit, double gate, double up, double *d_gate, double *d_up)
{
    double g = fmin(gate, limit), u = fmax(-limit, fmin(limit, up));
    double sigmoid = 1 / (1 + exp(-g));
    *d_gate = gate < limit ? u * (sigmoid + g * sigmoid * (1 - sigmoid)) : 0;
    *d_up = fabs(up) < limit ? g * sigmoid : 0;
    return u * g * sigmoid;
}

void interpreter_clamped(struct interpreter *in, const struct op *op)
{
    bool is_silu = op->function == FUNCTION_CLAMPED_SILU;
    double *const *v = in->values, d_gate = 0, d_up = 0;
    bool is_forward = op->phase == PHASE_FORWARD;
    int gate = op->inputs[is_forward ? 0 : 1], up = op->inputs[is_forward ? 1 : 2];
    for (int64_t i = 0; i < interpreter_elements(in, op->outputs[0]); i++) {
        double y = (is_silu ? clamped_silu : clamped_swiglu)(op->scalar, v[gate][i], v[up][i],
                                                             &d_gate, &d_up);
        v[op->outputs[0]][i] = is_forward ? y : v[op->inputs[0]][i] * d_gate;
        if (!is_forward) v[op->outputs[1]][i] = v[op->inputs[0]][i] * d_up;
    }
}

// (scalar + gate) * up, by their dims; both gradients.
void interpreter_modulate(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->phase == PHASE_FORWARD;
    int gate = op->inputs[is_forward ? 0 : 1], up = op->inputs[is_forward ? 1 : 2];
    int64_t index[DIM_COUNT] = {0}, size[DIM_COUNT];
    interpreter_sizes(in, up, size);
    do {
        double factor = op->scalar + *interpreter_at(in, gate, index);
        double x = *interpreter_at(in, up, index);
        if (is_forward) {
            *interpreter_at(in, op->outputs[0], index) = factor * x;
            continue;
        }
        double gradient = *interpreter_at(in, op->inputs[0], index);
        *interpreter_at(in, op->outputs[0], index) += gradient * x;
        *interpreter_at(in, op->outputs[1], index) = gradient * factor;
    } while (interpreter_next(index, size));
}
