#include "tests/support/interpreter_math.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Routing and what follows it. Rows that do not exist are zeros; a weight of zero says so.

enum { EXPERT_MAX = 64 };

// How many scores rank before this one; of equal scores the first does.
static int64_t rank_of(const double *scores, int64_t count, int64_t expert)
{
    int64_t rank = 0;
    for (int64_t i = 0; i < count; i++) {
        rank += scores[i] > scores[expert] || (scores[i] == scores[expert] && i < expert);
    }
    return rank;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static bool is_sigmoid(enum function function)
{
    return function == FUNCTION_ROUTE_SIGMOID_TOP_K || function == FUNCTION_ROUTE_SIGMOID;
}

// Positive scores, of which the weights are shares of the sum: over all experts or the chosen.
static double score(enum function function, double logit)
{
    if (function == FUNCTION_ROUTE_ROOT) return sqrt(log(1 + exp(logit)));
    return is_sigmoid(function) ? sigmoid(logit) : exp(logit);
}

// What the scores are divided by; `chosen` has a number above zero for those.
static double score_sum(const struct op *op, const double *logits, const double *chosen,
                        int64_t count)
{
    double sum = op->sum_epsilon;
    if (op->function == FUNCTION_ROUTE_SIGMOID) return 1;
    for (int64_t i = 0; i < count; i++) {
        bool counts = op->function == FUNCTION_ROUTE_SOFTMAX || chosen[i] > 0;
        if (counts) sum += score(op->function, logits[i]);
    }
    return sum;
}

// A group of neighbouring experts is worth its best score, or with a bias the sum of its two best;
// nothing is chosen from others than the open_groups worth most.
static void close_groups(const struct op *op, double *ranked, int64_t count, bool has_bias)
{
    double worth[EXPERT_MAX];
    int64_t size = count / op->group_count;
    for (int64_t g = 0; g < op->group_count; g++) {
        worth[g] = 0;
        for (int64_t i = 0; i < size; i++) {
            int64_t rank = rank_of(ranked + g * size, size, i);
            if (rank == 0 || (rank == 1 && has_bias)) worth[g] += ranked[g * size + i];
        }
    }
    for (int64_t i = 0; i < count; i++) {
        if (rank_of(worth, op->group_count, i / size) >= op->open_groups) ranked[i] = -INFINITY;
    }
}

// The weight of expert `own` at the nth choice, by how much of the softmax over what is near it is
// its own; 0 for what is not chosen then. `at` >= 0: its slope by that logit.
static double near_weight(const struct op *op, const double *logits, int64_t count, int64_t own,
                          int64_t at)
{
    int64_t rank = rank_of(logits, count, own);
    double sum = 0, other = 0;
    if (rank >= op->top_k) return 0;
    for (int64_t i = 0; i < count; i++) {
        double gap = logits[own] - logits[i], unit = fmax(fabs(logits[i]), logits[own]);
        if (rank_of(logits, count, i) < rank || gap / unit > op->scalar) continue;
        sum += exp(logits[i] - logits[own]);
        if (i == at) other = exp(logits[i] - logits[own]);
    }
    if (at < 0) return 1 / sum;
    return ((at == own) - other / sum) / sum;
}

static void route_near_best(const struct op *op, const double *logits, const double *d,
                            int64_t count, double *output)
{
    for (int64_t i = 0; i < count; i++) {
        output[i] = d ? 0 : near_weight(op, logits, count, i, -1);
        for (int64_t own = 0; own < count && d; own++)
            output[i] += d[own] * near_weight(op, logits, count, own, i);
    }
}

// `told`: the experts of the token, where a table of tokens says them.
static void route_told(const struct op *op, const double *logits, const double *told, int64_t count,
                       double *weights)
{
    for (int64_t i = 0; i < count; i++) {
        weights[i] = 0;
        for (int k = 0; k < op->top_k; k++)
            weights[i] += (int64_t)told[k] == i;
    }
    double sum = score_sum(op, logits, weights, count);
    for (int64_t i = 0; i < count; i++)
        weights[i] *= op->scalar * score(op->function, logits[i]) / sum;
}

static void route_token(const struct op *op, const double *logits, const double *bias,
                        int64_t count, double *weights)
{
    if (op->function == FUNCTION_ROUTE_NEAR_BEST)
        return route_near_best(op, logits, NULL, count, weights);
    double ranked[EXPERT_MAX], whole = 0;
    assert(count <= EXPERT_MAX);
    for (int64_t i = 0; i < count; i++)
        whole += is_sigmoid(op->function) || op->function == FUNCTION_ROUTE_ROOT
                     ? 1.0 / (double)count
                     : score(op->function, logits[i]);
    for (int64_t i = 0; i < count; i++)
        ranked[i] = bias ? score(op->function, logits[i]) / whole + bias[i] : logits[i];
    if (op->group_count > 1) close_groups(op, ranked, count, bias != NULL);
    for (int64_t i = 0; i < count; i++)
        weights[i] = rank_of(ranked, count, i) < op->top_k;
    double sum = score_sum(op, logits, weights, count);
    for (int64_t i = 0; i < count; i++)
        weights[i] *= op->scalar * score(op->function, logits[i]) / sum;
}

// With s the scores and S their sum, w_i = scalar s_i / S for the chosen:
// d_logit_j = s'_j / S * (scalar d_w_j, where chosen, - sum_i d_w_i w_i, where j is in S).
static void route_token_backward(const struct op *op, const double *d_weights, const double *logits,
                                 const double *weights, int64_t count, double *d_logits)
{
    if (op->function == FUNCTION_ROUTE_NEAR_BEST)
        return route_near_best(op, logits, d_weights, count, d_logits);
    double sum = score_sum(op, logits, weights, count), mean = 0;
    for (int64_t i = 0; i < count && op->function != FUNCTION_ROUTE_SIGMOID; i++) {
        mean += d_weights[i] * weights[i];
    }
    for (int64_t j = 0; j < count; j++) {
        double s = score(op->function, logits[j]);
        double slope = is_sigmoid(op->function) ? s * (1 - s) : s;
        if (op->function == FUNCTION_ROUTE_ROOT) slope = sigmoid(logits[j]) / (2 * s);
        double own = weights[j] > 0 ? op->scalar * d_weights[j] : 0;
        bool counts = op->function == FUNCTION_ROUTE_SOFTMAX || weights[j] > 0;
        d_logits[j] = slope / sum * (own - (counts ? mean : 0));
    }
}

void interpreter_route(struct interpreter *in, const struct op *op)
{
    int64_t count = interpreter_size(in, op->outputs[0], DIM_GATE);
    double *const *v = in->values;
    assert(op->top_k > 0 && op->top_k <= count && op->scalar > 0);
    for (int64_t i = 0; i < interpreter_elements(in, op->outputs[0]); i += count) {
        if (op->kind == OP_ROUTE) {
            const double *bias = op->input_count > 1 ? v[op->inputs[1]] : NULL;
            if (bias && in->block->tensors[op->inputs[1]].role == TENSOR_IDS) {
                route_told(op, v[op->inputs[0]] + i, bias + i / count * op->top_k, count,
                           v[op->outputs[0]] + i);
                continue;
            }
            route_token(op, v[op->inputs[0]] + i, bias, count, v[op->outputs[0]] + i);
        } else {
            route_token_backward(op, v[op->inputs[0]] + i, v[op->inputs[1]] + i,
                                 v[op->inputs[2]] + i, count, v[op->outputs[0]] + i);
        }
    }
}

// The weight of the token at `index` for the expert there.
static double *weight_at(const struct interpreter *in, int weights, int64_t index[DIM_COUNT])
{
    index[DIM_GATE] = index[DIM_EXPERT] + in->offset[DIM_EXPERT];
    return interpreter_at(in, weights, index);
}

// Whether the token at `index` has a row for the expert there: it chose it, and not too many before
// it in its sequence did.
static bool has_row(const struct interpreter *in, int weights, int64_t index[DIM_COUNT])
{
    if (*weight_at(in, weights, index) == 0) return false;
    int64_t before[DIM_COUNT], count = 0;
    memcpy(before, index, sizeof before);
    for (before[DIM_SEQ] = 0; before[DIM_SEQ] < index[DIM_SEQ]; before[DIM_SEQ]++)
        count += *weight_at(in, weights, before) != 0;
    return in->capacity == 0 || count < in->capacity;
}

void interpreter_dispatch(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_DISPATCH;
    int rows = is_forward ? op->outputs[0] : op->inputs[0], weights = op->inputs[1];
    int tokens = is_forward ? op->inputs[0] : op->outputs[0];
    int64_t index[DIM_COUNT] = {0}, size[DIM_COUNT];
    interpreter_sizes(in, rows, size);
    do {
        if (!has_row(in, weights, index)) continue;
        double *row = interpreter_at(in, rows, index), *x = interpreter_at(in, tokens, index);
        if (is_forward) {
            *row = *x;
        } else {
            *x += *row;
        }
    } while (interpreter_next(index, size));
}

void interpreter_combine(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_COMBINE;
    int first = is_forward ? 0 : 1, rows = op->inputs[first], weights = op->inputs[first + 1];
    int64_t index[DIM_COUNT] = {0}, size[DIM_COUNT];
    interpreter_sizes(in, rows, size);
    do {
        bool is_there = has_row(in, weights, index);
        double weight = is_there ? *weight_at(in, weights, index) : 0;
        double row = *interpreter_at(in, rows, index);
        if (is_forward) {
            *interpreter_at(in, op->outputs[0], index) += weight * row;
            continue;
        }
        // The experts that were not chosen, or had no room, have no row and tell their weight
        // nothing.
        double gradient = *interpreter_at(in, op->inputs[0], index);
        *interpreter_at(in, op->outputs[0], index) = weight * gradient;
        if (is_there) *weight_at(in, op->outputs[1], index) += gradient * row;
    } while (interpreter_next(index, size));
}
