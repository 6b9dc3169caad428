#include "executor/cpu/array.h"

#include <assert.h>
#include <math.h>

// The choice of experts. A token at a time, in double: there are as many numbers as experts.

static bool is_sigmoid(enum function function)
{
    return function == FUNCTION_ROUTE_SIGMOID_TOP_K || function == FUNCTION_ROUTE_SIGMOID;
}

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double score_of(const struct op *op, double logit, double largest)
{
    if (op->function == FUNCTION_ROUTE_ROOT) return sqrt(softplus(logit));
    return is_sigmoid(op->function) ? 1 / (1 + exp(-logit)) : exp(logit - largest);
}

static double largest_of(const REAL *x, int64_t count)
{
    double largest = -HUGE_VAL;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, (double)x[i]);
    return largest;
}

// Whether the scores are divided by a sum, and whether this one is part of it.
static bool is_in_sum(const struct op *op, bool is_chosen)
{
    if (op->function == FUNCTION_ROUTE_SIGMOID) return false;
    return op->function == FUNCTION_ROUTE_SOFTMAX || is_chosen;
}

static double slope_of(const struct op *op, double logit, double score)
{
    if (op->function == FUNCTION_ROUTE_ROOT) return 1 / (1 + exp(-logit)) / (2 * score);
    return is_sigmoid(op->function) ? score * (1 - score) : score;
}

// The best of `count` not yet taken; of equal ones the first. -1 when none is left.
static int64_t best_of(const double *x, int64_t count)
{
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++) {
        if (x[i] > -HUGE_VAL && (best < 0 || x[i] > x[best])) best = i;
    }
    return best;
}

// A group is worth its best score, or with a bias to choose by the sum of its two best (DeepSeek-V2
// and V3). The groups that are not open are taken out.
static void close_groups(const struct op *op, double *ranked, int64_t count, bool has_bias,
                         double *worth)
{
    int64_t size = count / op->group_count;
    assert(size > 0);
    for (int64_t g = 0; g < op->group_count; g++) {
        const double *group = ranked + g * size;
        double first = -HUGE_VAL, second = -HUGE_VAL;
        for (int64_t i = 0; i < size; i++) {
            double x = group[i];
            second = fmax(second, fmin(x, first));
            first = fmax(first, x);
        }
        worth[g] = has_bias && size > 1 ? first + second : first;
    }
    for (int n = 0; n < op->open_groups; n++) {
        int64_t best = best_of(worth, op->group_count);
        if (best >= 0) worth[best] = -HUGE_VAL;
    }
    for (int64_t i = 0; i < count; i++) {
        if (worth[i / size] > -HUGE_VAL) ranked[i] = -HUGE_VAL;
    }
}

// Weights of 1 for those that are chosen, 0 for others.
static void choose_experts(const struct op *op, const REAL *logits, const REAL *bias, int64_t count,
                           double *ranked, REAL *weights)
{
    double largest = largest_of(logits, count), whole = 0;
    for (int64_t i = 0; i < count; i++)
        whole += score_of(op, (double)logits[i], largest);
    // A bias is added to what the score is worth among all experts.
    if (is_sigmoid(op->function) || op->function == FUNCTION_ROUTE_ROOT) whole = 1;
    for (int64_t i = 0; i < count; i++) {
        double x = (double)logits[i];
        ranked[i] = bias ? score_of(op, x, largest) / whole + (double)bias[i] : x;
    }
    if (op->group_count > 1) close_groups(op, ranked, count, bias, ranked + count);
    for (int n = 0; n < op->top_k; n++) {
        int64_t best = best_of(ranked, count);
        if (best < 0) break;
        ranked[best] = -HUGE_VAL;
        weights[best] = 1;
    }
}

// `told`: the experts of the token, where the data says them; else NULL.
static void route_token(const struct op *op, const REAL *logits, const REAL *bias,
                        const int64_t *told, int64_t count, double *ranked, REAL *weights)
{
    double largest = largest_of(logits, count), sum = 0;
    for (int64_t i = 0; i < count; i++)
        weights[i] = 0;
    for (int n = 0; n < op->top_k && told; n++)
        weights[told[n]] = 1;
    if (!told) choose_experts(op, logits, bias, count, ranked, weights);
    for (int64_t i = 0; i < count; i++) {
        if (is_in_sum(op, weights[i] > 0)) sum += score_of(op, (double)logits[i], largest);
    }
    sum = op->function == FUNCTION_ROUTE_SIGMOID ? 1 : sum + op->sum_epsilon;
    for (int64_t i = 0; i < count; i++) {
        if (weights[i] > 0)
            weights[i] = (REAL)(op->scalar * score_of(op, (double)logits[i], largest) / sum);
    }
}

// Of a choice of ROUTE_NEAR_BEST, the best of those left: by how much each of them is as near it as
// counts, of which it returns the sum. `ranked` is -inf for those taken before.
static double near_best(const struct op *op, const double *ranked, int64_t count, int64_t best,
                        double *shares)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double most = ranked[best], apart = most - ranked[i];
        bool is_near = ranked[i] > -HUGE_VAL && apart <= op->scalar * fmax(fabs(ranked[i]), most);
        shares[i] = is_near ? exp(-apart) : 0;
        sum += shares[i];
    }
    return sum;
}

// Two choices, whose weights are made; backward (d not NULL, then the gradient of the logits is)
// each of them adds w (d_own - d_own p_j) to those that count.
static void route_near_best(const struct op *op, const REAL *logits, const REAL *d, int64_t count,
                            double *ranked, REAL *made)
{
    double *shares = ranked + count;
    for (int64_t i = 0; i < count; i++) {
        ranked[i] = (double)logits[i];
        made[i] = 0;
    }
    for (int n = 0; n < op->top_k; n++) {
        int64_t best = best_of(ranked, count);
        if (best < 0) break;
        double sum = near_best(op, ranked, count, best, shares);
        if (!d) made[best] = (REAL)(1 / sum);
        for (int64_t j = 0; j < count && d; j++) {
            double slope = (j == best) - shares[j] / sum;
            if (shares[j] > 0) made[j] += (REAL)((double)d[best] / sum * slope);
        }
        ranked[best] = -HUGE_VAL;
    }
}

const char *cpu_route(struct cpu_device *device, const struct kernel_call *call)
{
    const struct kernel_array *logits = &call->inputs[0];
    const struct op *op = call->op;
    int64_t count = array_last(logits), elements = array_elements(logits);
    const struct kernel_array *second = call->input_count > 1 ? &call->inputs[1] : NULL;
    bool is_told = second && second->element == ELEMENT_INT64;
    const REAL *x = logits->data, *bias = second && !is_told ? second->data : NULL;
    const int64_t *told = is_told ? second->data : NULL;
    if (op->group_count > 1 && count % op->group_count) return "groups of experts of unequal size";
    double *ranked = cpu_scratch(device, SCRATCH_ROWS, 2 * count * (int64_t)sizeof *ranked);
    if (!ranked) return cpu_no_memory(device);
    for (int64_t i = 0; i < elements; i += count) {
        REAL *weights = (REAL *)call->outputs[0].data + i;
        if (op->function == FUNCTION_ROUTE_NEAR_BEST)
            route_near_best(op, x + i, NULL, count, ranked, weights);
        else
            route_token(op, x + i, bias, told ? told + i / count * op->top_k : NULL, count, ranked,
                        weights);
    }
    return NULL;
}

// With s the scores and S their sum, to which a number may be added, w_i = scalar s_i / S for the
// chosen: d_logit_j = s'_j / S * (scalar d_w_j, where chosen, - sum_i d_w_i w_i, where j is in S).
static void route_token_backward(const struct op *op, const REAL *d, const REAL *logits,
                                 const REAL *weights, int64_t count, REAL *d_logits)
{
    double largest = largest_of(logits, count), sum = 0, mean = 0;
    for (int64_t i = 0; i < count; i++) {
        if (is_in_sum(op, weights[i] > 0)) sum += score_of(op, (double)logits[i], largest);
        if (op->function != FUNCTION_ROUTE_SIGMOID) mean += (double)d[i] * (double)weights[i];
    }
    sum = op->function == FUNCTION_ROUTE_SIGMOID ? 1 : sum + op->sum_epsilon;
    for (int64_t j = 0; j < count; j++) {
        double s = score_of(op, (double)logits[j], largest);
        double slope = slope_of(op, (double)logits[j], s);
        double own = weights[j] > 0 ? op->scalar * (double)d[j] : 0;
        d_logits[j] = (REAL)(slope / sum * (own - (is_in_sum(op, weights[j] > 0) ? mean : 0)));
    }
}

const char *cpu_route_backward(struct cpu_device *device, const struct kernel_call *call)
{
    const struct kernel_array *d = &call->inputs[0];
    int64_t count = array_last(d), elements = array_elements(d);
    const REAL *x = call->inputs[1].data, *weights = call->inputs[2].data;
    double *ranked = cpu_scratch(device, SCRATCH_ROWS, 2 * count * (int64_t)sizeof *ranked);
    if (!ranked) return cpu_no_memory(device);
    for (int64_t i = 0; i < elements; i += count) {
        const REAL *d_weights = (const REAL *)d->data + i;
        REAL *d_logits = (REAL *)call->outputs[0].data + i;
        if (call->op->function == FUNCTION_ROUTE_NEAR_BEST)
            route_near_best(call->op, x + i, d_weights, count, ranked, d_logits);
        else
            route_token_backward(call->op, d_weights, x + i, weights + i, count, d_logits);
    }
    // The choice does not depend on the bias by a derivative.
    if (call->output_count > 1) call_begin_sum(call, 1);
    return NULL;
}
