#include "tests/support/interpreter_math.h"

#include <assert.h>
#include <math.h>

// A causal convolution as its definition, and a scan as the matrix that it is (Dao and Gu 2024,
// arXiv 2405.21060, equation 3): no state, but every pair of a token and one before it, so that
// nothing is shared with a kernel that walks along the sequence.

// Indices of a place, and of the same channels at another token.
struct spot {
    int64_t index[DIM_COUNT];
};

static double at(const struct interpreter *in, int tensor, const struct spot *place)
{
    return *interpreter_at(in, tensor, place->index);
}

static void add(struct interpreter *in, int tensor, const struct spot *place, double value)
{
    *interpreter_at(in, tensor, place->index) += value;
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double silu_slope(double x)
{
    double p = 1 / (1 + exp(-x));
    return p * (1 + x * (1 - p));
}

// What the function of a convolution is given: x, weight and bias are inputs from `first` on.
static double convolved(const struct interpreter *in, const struct op *op, int first,
                        struct spot place)
{
    int64_t taps = interpreter_size(in, op->inputs[first + 1], DIM_TAP);
    int64_t t = place.index[DIM_SEQ];
    double sum = op->input_count > first + 2 ? at(in, op->inputs[first + 2], &place) : 0;
    for (int64_t k = 0; k < taps; k++) {
        int64_t from = t - (taps - 1) + k;
        place.index[DIM_TAP] = k;
        place.index[DIM_SEQ] = from;
        if (from >= 0)
            sum += at(in, op->inputs[first + 1], &place) * at(in, op->inputs[first], &place);
    }
    return sum;
}

static void spread(struct interpreter *in, const struct op *op, struct spot place, double d)
{
    int64_t taps = interpreter_size(in, op->inputs[2], DIM_TAP), t = place.index[DIM_SEQ];
    if (op->output_count > 2) add(in, op->outputs[2], &place, d);
    for (int64_t k = 0; k < taps; k++) {
        place.index[DIM_TAP] = k;
        place.index[DIM_SEQ] = t - (taps - 1) + k;
        if (place.index[DIM_SEQ] < 0) continue;
        add(in, op->outputs[0], &place, d * at(in, op->inputs[2], &place));
        add(in, op->outputs[1], &place, d * at(in, op->inputs[1], &place));
    }
}

void interpreter_conv(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_CONV, has_function = op->function == FUNCTION_SILU;
    assert(has_function || op->function == FUNCTION_NONE);
    int64_t size[DIM_COUNT];
    struct spot place = {{0}};
    interpreter_sizes(in, op->inputs[0], size);
    do {
        double sum = convolved(in, op, is_forward ? 0 : 1, place);
        if (is_forward) {
            *interpreter_at(in, op->outputs[0], place.index) = has_function ? silu(sum) : sum;
        } else {
            double d = at(in, op->inputs[0], &place);
            spread(in, op, place, has_function ? d * silu_slope(sum) : d);
        }
    } while (interpreter_next(place.index, size));
}

// The inputs of a scan, from `first` on.
enum { X, DT, B, C, A_LOG, D };

// A pair of tokens, the later of which reads what the other wrote.
struct pair {
    const struct op *op;
    int of[6], to[6];  // inputs, and what their gradients go to; -1: a steady scan has none
    struct spot late, early;
    double steps, dot;  // between the two; of C and B, each number of the state with its decay
};

static double step_at(const struct interpreter *in, const struct pair *pair,
                      const struct spot *place)
{
    return pair->of[DT] < 0 ? 1 : at(in, pair->of[DT], place);
}

static double rate(const struct interpreter *in, const struct pair *pair)
{
    double rate = at(in, pair->of[A_LOG], &pair->late);
    return pair->of[DT] < 0 ? -rate : -exp(rate);
}

// The sum of the steps behind the early token, up to the late one.
static double steps_between(const struct interpreter *in, const struct pair *pair)
{
    struct spot place = pair->late;
    double sum = 0;
    for (int64_t t = pair->early.index[DIM_SEQ] + 1; t <= pair->late.index[DIM_SEQ]; t++) {
        place.index[DIM_SEQ] = t;
        sum += step_at(in, pair, &place);
    }
    return sum;
}

static void measure(const struct interpreter *in, struct pair *pair)
{
    int64_t state = interpreter_size(in, pair->of[B], DIM_STATE);
    pair->steps = steps_between(in, pair);
    pair->dot = 0;
    for (int64_t n = 0; n < state; n++) {
        pair->late.index[DIM_STATE] = pair->early.index[DIM_STATE] = n;
        pair->dot += exp(rate(in, pair) * pair->steps) * at(in, pair->of[C], &pair->late) *
                     at(in, pair->of[B], &pair->early);
    }
}

// With y(late) += dot dt x(early), the gradient of each factor; d is that of y(late).
static void pair_backward(struct interpreter *in, struct pair *pair, double d)
{
    const int *to = pair->to;
    bool is_steady = to[DT] < 0;
    double dt = step_at(in, pair, &pair->early), x = at(in, pair->of[X], &pair->early);
    add(in, to[X], &pair->early, d * pair->dot * dt);
    if (!is_steady) add(in, to[DT], &pair->early, d * pair->dot * x);
    int64_t state = interpreter_size(in, pair->of[B], DIM_STATE);
    for (int64_t n = 0; n < state; n++) {
        pair->late.index[DIM_STATE] = pair->early.index[DIM_STATE] = n;
        double b = at(in, pair->of[B], &pair->early), c = at(in, pair->of[C], &pair->late);
        double d_dot = d * exp(rate(in, pair) * pair->steps) * dt * x;
        add(in, to[C], &pair->late, d_dot * b);
        add(in, to[B], &pair->early, d_dot * c);
        if (is_steady) continue;
        double d_exponent = d_dot * b * c;
        add(in, to[A_LOG], &pair->late, d_exponent * rate(in, pair) * pair->steps);
        struct spot place = pair->late;
        for (int64_t t = pair->early.index[DIM_SEQ] + 1; t <= pair->late.index[DIM_SEQ]; t++) {
            place.index[DIM_SEQ] = t;
            add(in, to[DT], &place, d_exponent * rate(in, pair));
        }
    }
}

// One number of the result, or what its gradient says.
static void run_result(struct interpreter *in, struct pair *pair, bool is_forward)
{
    const struct op *op = pair->op;
    int result = is_forward ? op->outputs[0] : op->inputs[0];
    double *y = interpreter_at(in, result, pair->late.index), d = *y;
    double x = at(in, pair->of[X], &pair->late);
    double skip = pair->of[D] < 0 ? 0 : at(in, pair->of[D], &pair->late);
    if (is_forward) *y = skip * x;
    if (!is_forward) add(in, pair->to[X], &pair->late, d * skip);
    if (!is_forward && pair->to[D] >= 0) add(in, pair->to[D], &pair->late, d * x);
    for (int64_t t = 0; t <= pair->late.index[DIM_SEQ]; t++) {
        pair->early = pair->late;
        pair->early.index[DIM_SEQ] = t;
        measure(in, pair);
        double dt = step_at(in, pair, &pair->early), from = at(in, pair->of[X], &pair->early);
        if (is_forward) *y += pair->dot * dt * from;
        if (!is_forward) pair_backward(in, pair, d);
    }
}

void interpreter_scan(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_SCAN;
    struct pair pair = {.op = op};
    static const int ALL[] = {0, 1, 2, 3, 4, 5}, STEADY[] = {0, -1, 1, 2, 3, -1};
    const int *places = op->input_count < 6 ? STEADY : ALL;
    for (int i = 0; i < 6; i++) {
        pair.of[i] = places[i] < 0 ? -1 : op->inputs[places[i] + !is_forward];
        pair.to[i] = is_forward || places[i] < 0 || places[i] >= op->output_count
                         ? -1
                         : op->outputs[places[i]];
    }
    int64_t size[DIM_COUNT], heads = interpreter_size(in, pair.of[X], DIM_HEAD);
    interpreter_sizes(in, pair.of[B], size);
    int64_t groups = size[DIM_KV_HEAD];  // 0: one, which has no dim
    struct spot place = {{0}};
    interpreter_sizes(in, pair.of[X], size);
    do {
        pair.late = place;
        pair.late.index[DIM_KV_HEAD] = place.index[DIM_HEAD] * groups / heads;
        run_result(in, &pair, is_forward);
    } while (interpreter_next(place.index, size));
}
