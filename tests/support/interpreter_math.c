#include "tests/support/interpreter_math.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static const double GELU_TANH = 0.7978845608028654;  // sqrt(2 / pi)

static double apply(enum function function, double scalar, double x)
{
    switch (function) {
    case FUNCTION_GELU:
        return x * 0.5 * erfc(-x * sqrt(0.5));
    case FUNCTION_GELU_TANH:
        return 0.5 * x * (1 + tanh(GELU_TANH * (x + 0.044715 * x * x * x)));
    case FUNCTION_SILU:
        return x / (1 + exp(-x));
    case FUNCTION_RELU:
        return x > 0 ? x : 0;
    case FUNCTION_RELU_SQUARED:
        return x > 0 ? x * x : 0;
    case FUNCTION_SCALE:
        return scalar * x;
    case FUNCTION_SOFTCAP:
        return scalar * tanh(x / scalar);
    case FUNCTION_SIGMOID:
        return 1 / (1 + exp(-x));
    case FUNCTION_SOFTPLUS:
        return fmax(log(1 + exp(x)), scalar);
    case FUNCTION_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case FUNCTION_EXP:
        return exp(x);
    case FUNCTION_RELU_ABOVE:
        return fmax(x - scalar, 0);
    case FUNCTION_EXP_BELOW:
        return x < 0 ? exp(x) - 1 - x : 0;
    case FUNCTION_SIGMOID_ABOVE:
        return 1 / (1 + exp(-x)) + scalar;
    default:
        assert(false && "no function of one element");
        return 0;
    }
}

static double slope(enum function function, double scalar, double x)
{
    double inner = tanh(GELU_TANH * (x + 0.044715 * x * x * x)), sigmoid = 1 / (1 + exp(-x));
    switch (function) {
    case FUNCTION_GELU:
        return 0.5 * erfc(-x * sqrt(0.5)) + x * GELU_TANH / 2 * exp(-x * x / 2);
    case FUNCTION_GELU_TANH:
        return 0.5 * (1 + inner + x * (1 - inner * inner) * GELU_TANH * (1 + 0.134145 * x * x));
    case FUNCTION_SILU:
        return sigmoid * (1 + x * (1 - sigmoid));
    case FUNCTION_RELU:
        return x > 0;
    case FUNCTION_RELU_SQUARED:
        return x > 0 ? 2 * x : 0;
    case FUNCTION_SCALE:
        return scalar;
    case FUNCTION_SOFTCAP:
        return 1 - pow(tanh(x / scalar), 2);
    case FUNCTION_SIGMOID:
    case FUNCTION_SIGMOID_ABOVE:
        return sigmoid * (1 - sigmoid);
    case FUNCTION_SOFTPLUS:
        return log(1 + exp(x)) > scalar ? sigmoid : 0;
    case FUNCTION_QUICK_GELU:
        return slope(FUNCTION_SILU, scalar, 1.702 * x);
    case FUNCTION_EXP:
        return exp(x);
    case FUNCTION_RELU_ABOVE:
        return x > scalar;
    case FUNCTION_EXP_BELOW:
        return fmin(exp(x) - 1, 0);
    default:
        assert(false && "no function of one element");
        return 0;
    }
}

static double alibi(const struct interpreter *in, double scale, int64_t head, int64_t key)
{
    double exponent = -8.0 * (double)(head + in->offset[DIM_HEAD] + 1) / (double)in->head_count;
    return scale * pow(2, exponent) * (double)(key + in->offset[DIM_KV_SEQ]);
}

// Rotates by the angle of the position, in backward the other way round.
static void rope(struct interpreter *in, const struct op *op)
{
    int from = op->inputs[0], to = op->outputs[0];
    int64_t index[DIM_COUNT] = {0}, size[DIM_COUNT];
    int64_t half = op->rotary_dims / 2, first = op->rotary_first;
    double sign = op->phase == PHASE_FORWARD ? 1 : -1;
    if (op->function == FUNCTION_ROPE_BACK) sign = -sign;
    enum dim place = op->rate > 0 ? DIM_ENTRY : DIM_SEQ;
    double tokens = op->rate > 0 ? (double)op->rate : 1;
    interpreter_sizes(in, from, size);
    do {
        int64_t at = index[DIM_HEAD_DIM], dim = at - first;
        double x = *interpreter_at(in, from, index), *out = interpreter_at(in, to, index);
        *out = x;
        if (dim < 0 || dim >= op->rotary_dims) continue;
        double rate = pow(op->scalar, -2.0 * (double)(dim % half) / (double)op->rotary_dims);
        double angle = sign * rate * tokens * (double)(index[place] + in->offset[place]);
        index[DIM_HEAD_DIM] = dim < half ? at + half : at - half;
        double other = *interpreter_at(in, from, index);
        index[DIM_HEAD_DIM] = at;
        *out = x * cos(angle) + (dim < half ? -other : other) * sin(angle);
    } while (interpreter_next(index, size));
}

static void add_alibi(struct interpreter *in, const struct op *op)
{
    int64_t index[DIM_COUNT] = {0}, size[DIM_COUNT];
    interpreter_sizes(in, op->inputs[0], size);
    do {
        double x = *interpreter_at(in, op->inputs[0], index);
        double bias = alibi(in, op->scalar, index[DIM_HEAD], index[DIM_KV_SEQ]);
        *interpreter_at(in, op->outputs[0], index) = x + bias;
    } while (interpreter_next(index, size));
}

// A gate that lacks the last dims is repeated over them.
static void elementwise_backward(struct interpreter *in, const struct op *op)
{
    double *const *v = in->values;
    int64_t elements = interpreter_elements(in, op->inputs[0]);
    int64_t repeats = elements / interpreter_elements(in, op->outputs[0]);
    for (int64_t i = 0; i < elements; i++) {
        double gradient = v[op->inputs[0]][i];
        double x = op->input_count > 1 ? v[op->inputs[1]][i / repeats] : 0;
        double d_x = gradient * slope(op->function, op->scalar, x);
        if (op->output_count == 2) {
            v[op->outputs[1]][i] = gradient * apply(op->function, op->scalar, x);
            d_x *= v[op->inputs[2]][i];
        }
        v[op->outputs[0]][i / repeats] += d_x;
    }
}

void interpreter_elementwise(struct interpreter *in, const struct op *op)
{
    if (function_is_rope(op->function)) {
        rope(in, op);
    } else if (op->function == FUNCTION_ALIBI) {
        add_alibi(in, op);
    } else if (op->function == FUNCTION_CLAMPED_SWIGLU || op->function == FUNCTION_CLAMPED_SILU) {
        interpreter_clamped(in, op);
    } else if (op->function == FUNCTION_MODULATE) {
        interpreter_modulate(in, op);
    } else if (op->phase != PHASE_FORWARD) {
        elementwise_backward(in, op);
    } else {
        double *const *v = in->values;
        int64_t elements = interpreter_elements(in, op->outputs[0]);
        int64_t repeats = elements / interpreter_elements(in, op->inputs[0]);
        for (int64_t i = 0; i < elements; i++) {
            double up = op->input_count > 1 ? v[op->inputs[1]][i] : 1;
            double x = v[op->inputs[0]][i / repeats];
            v[op->outputs[0]][i] = up * apply(op->function, op->scalar, x);
        }
    }
}

struct row_moments {
    double mean, inverse;  // 1 / standard deviation, or 1 / root mean square
};

static struct row_moments moments_of(const struct op *op, const double *x, int64_t width)
{
    double mean = 0, square = 0;
    for (int64_t i = 0; i < width && op->function == FUNCTION_LAYER_NORM; i++) {
        mean += x[i] / (double)width;
    }
    for (int64_t i = 0; i < width; i++) {
        square += (x[i] - mean) * (x[i] - mean) / (double)width;
    }
    return (struct row_moments){mean, 1 / sqrt(square + op->scalar)};
}

// With n = (x - mean) * inverse and g = d_out * weight:
// d_x = inverse * (g - n * mean(g * n) - mean(g), the last for layer norm only).
static void norm_row_backward(struct interpreter *in, const struct op *op, const double *x,
                              int64_t row, int64_t width, int64_t first)
{
    struct row_moments m = moments_of(op, x, width);
    const double *gradient = in->values[op->inputs[0]] + row * width;
    const double *weight = op->input_count > 2 ? in->values[op->inputs[2]] + first : NULL;
    double *d_weight = op->output_count > 1 ? in->values[op->outputs[1]] + first : NULL;
    double *d_bias = op->output_count > 2 ? in->values[op->outputs[2]] + first : NULL;
    double mean_g = 0, mean_gn = 0;
    for (int64_t i = 0; i < width; i++) {
        double n = (x[i] - m.mean) * m.inverse, g = gradient[i] * (weight ? weight[i] : 1);
        if (op->function == FUNCTION_LAYER_NORM) mean_g += g / (double)width;
        mean_gn += g * n / (double)width;
        if (d_weight) d_weight[i] += gradient[i] * n;
        if (d_bias) d_bias[i] += gradient[i];
    }
    for (int64_t i = 0; i < width; i++) {
        double n = (x[i] - m.mean) * m.inverse, g = gradient[i] * (weight ? weight[i] : 1);
        in->values[op->outputs[0]][row * width + i] = m.inverse * (g - n * mean_gn - mean_g);
    }
}

void interpreter_norm(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_NORM;
    int tensor = op->inputs[is_forward ? 0 : 1];
    int64_t width = in->sizes[tensor][in->block->tensors[tensor].rank - 1];
    int weight_at = is_forward ? 1 : 2;
    if (op->input_count > weight_at) width = interpreter_elements(in, op->inputs[weight_at]);
    int64_t whole = width;
    if (op->groups > 1)
        width = tensor_elements(&in->block->tensors[op->inputs[weight_at]], 1, 1) / op->groups;
    for (int64_t row = 0; row < interpreter_elements(in, tensor) / width; row++) {
        const double *x = in->values[tensor] + row * width;
        if (!is_forward) {
            norm_row_backward(in, op, x, row, width, row * width % whole);
            continue;
        }
        struct row_moments m = moments_of(op, x, width);
        for (int64_t i = 0; i < width; i++) {
            int64_t place = (row * width + i) % whole;
            double weight = op->input_count > 1 ? in->values[op->inputs[1]][place] : 1;
            double bias = op->input_count > 2 ? in->values[op->inputs[2]][place] : 0;
            in->values[op->outputs[0]][row * width + i] =
                (x[i] - m.mean) * m.inverse * weight + bias;
        }
    }
}

static bool is_visible(const struct interpreter *in, const struct op *op, int64_t query,
                       int64_t key)
{
    query += in->offset[DIM_SEQ];
    key += in->offset[DIM_KV_SEQ];
    if (op->causal && key > query) return key < op->prefix;
    if (op->window == 0) return true;
    if (op->chunked) return query / op->window == key / op->window;
    return llabs(query - key) < op->window;
}

// The sink of a head, which is input `index` of the op; NULL without one.
static const double *sink_of(const struct interpreter *in, const struct op *op, int index,
                             int64_t head)
{
    if (op->input_count <= index || in->block->tensors[op->inputs[index]].rank != 1) return NULL;
    return in->values[op->inputs[index]] + head;
}

// Rows of scores are (batch, head, seq).
static int64_t row_head(const struct interpreter *in, const struct op *op, int64_t row)
{
    int scores = op->outputs[0];
    return row / interpreter_size(in, scores, DIM_SEQ) % interpreter_size(in, scores, DIM_HEAD);
}

static void softmax_row(struct interpreter *in, const struct op *op, int64_t row, int64_t keys,
                        int64_t query)
{
    const double *x = in->values[op->inputs[0]] + row * keys;
    double *y = in->values[op->outputs[0]] + row * keys, largest = -HUGE_VAL, sum = 0;
    const double *sink = sink_of(in, op, 1, row_head(in, op, row));
    if (sink) largest = *sink;
    for (int64_t i = 0; i < keys; i++) {
        if (is_visible(in, op, query, i)) largest = fmax(largest, x[i]);
    }
    if (sink) sum = exp(*sink - largest);
    for (int64_t i = 0; i < keys; i++) {
        y[i] = is_visible(in, op, query, i) ? exp(x[i] - largest) : 0;
        sum += y[i];
    }
    for (int64_t i = 0; i < keys; i++) {
        y[i] /= sum;
    }
}

static void softmax_row_backward(struct interpreter *in, const struct op *op, int64_t row,
                                 int64_t keys)
{
    const double *gradient = in->values[op->inputs[0]] + row * keys;
    const double *p = in->values[op->inputs[1]] + row * keys;
    double dot = 0, sink = 1;
    for (int64_t i = 0; i < keys; i++) {
        dot += gradient[i] * p[i];
        sink -= p[i];
    }
    if (op->output_count > 1) in->values[op->outputs[1]][row_head(in, op, row)] -= sink * dot;
    for (int64_t i = 0; i < keys; i++) {
        in->values[op->outputs[0]][row * keys + i] = p[i] * (gradient[i] - dot);
    }
}

void interpreter_softmax(struct interpreter *in, const struct op *op)
{
    int64_t keys = interpreter_size(in, op->outputs[0], DIM_KV_SEQ);
    int64_t queries = interpreter_size(in, op->outputs[0], DIM_SEQ);
    for (int64_t row = 0; row < interpreter_elements(in, op->outputs[0]) / keys; row++) {
        if (op->kind == OP_SOFTMAX) {
            softmax_row(in, op, row, keys, row % queries);  // seq stands before kv_seq
        } else {
            softmax_row_backward(in, op, row, keys);
        }
    }
}

// One row of attention: a query of one head, all keys. q and its gradient stand at `q`, out and its
// gradient at `out`; key j and its value at rows_before(row, j) times their widths.
struct math_row {
    int64_t batch, query, queries, head, keys, width, value_width;
    int64_t q, out;  // offsets
    int64_t kv_head, kv_head_count;
};

static int64_t rows_before(const struct math_row *row, int64_t key)
{
    return (row->batch * row->keys + key) * row->kv_head_count + row->kv_head;
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static double score(const struct interpreter *in, const struct op *op, const struct math_row *row,
                    double product, int64_t key)
{
    double x = product * op->scalar;
    if (op->softcap > 0) x = apply(FUNCTION_SOFTCAP, op->softcap, x);
    return op->alibi > 0 ? x + alibi(in, op->alibi, row->head, key) : x;
}

static bool sees(const struct interpreter *in, const struct op *op, const struct math_row *row,
                 int64_t key)
{
    return is_visible(in, op, row->query, key) &&
           interpreter_is_chosen(in, op, row->batch * row->queries + row->query, key);
}

static void attention_row(struct interpreter *in, const struct op *op, const struct math_row *row,
                          double *lse)
{
    const double *q = in->values[op->inputs[0]] + row->q, *k = in->values[op->inputs[1]];
    const double *v = in->values[op->inputs[2]];
    double *out = in->values[op->outputs[0]] + row->out;
    const double *sink = sink_of(in, op, 3, row->head);
    double sum = sink ? exp(*sink) : 0;
    // Test values are small: no maximum is subtracted.
    for (int64_t j = 0; j < row->keys; j++) {
        if (!sees(in, op, row, j)) continue;
        int64_t at = rows_before(row, j);
        double p = exp(score(in, op, row, dot(q, k + at * row->width, row->width), j));
        sum += p;
        for (int64_t i = 0; i < row->value_width; i++) {
            out[i] += p * v[at * row->value_width + i];
        }
    }
    for (int64_t i = 0; i < row->value_width; i++) {
        out[i] /= sum;
    }
    *lse = log(sum);
}

static void attention_row_backward(struct interpreter *in, const struct op *op,
                                   const struct math_row *row, const double *lse)
{
    double *const *values = in->values;
    const double *gradient = values[op->inputs[0]] + row->out, *q = values[op->inputs[1]] + row->q;
    const double *k = values[op->inputs[2]], *v = values[op->inputs[3]];
    const double *out = values[op->inputs[op->input_count - 2]] + row->out;
    double mean = dot(gradient, out, row->value_width);
    const double *sink = sink_of(in, op, 4, row->head);
    if (sink && op->output_count > 3) values[op->outputs[3]][row->head] -= exp(*sink - *lse) * mean;
    for (int64_t j = 0; j < row->keys; j++) {
        if (!sees(in, op, row, j)) continue;
        int64_t at = rows_before(row, j) * row->width;
        int64_t value_at = rows_before(row, j) * row->value_width;
        double product = dot(q, k + at, row->width);
        double p = exp(score(in, op, row, product, j) - *lse);
        double d_p = dot(gradient, v + value_at, row->value_width);
        double d_score = p * (d_p - mean) * op->scalar;
        if (op->softcap > 0) d_score *= slope(FUNCTION_SOFTCAP, op->softcap, product * op->scalar);
        for (int64_t i = 0; i < row->width; i++) {
            values[op->outputs[0]][row->q + i] += d_score * k[at + i];
            values[op->outputs[1]][at + i] += d_score * q[i];
        }
        for (int64_t i = 0; i < row->value_width; i++) {
            values[op->outputs[2]][value_at + i] += p * gradient[i];
        }
    }
}

void interpreter_attention(struct interpreter *in, const struct op *op)
{
    assert(op->dropout_ratio == 0 && "the mask of the fused kernel is its own");
    bool is_forward = op->kind == OP_ATTENTION;
    int q = op->inputs[is_forward ? 0 : 1], k = op->inputs[is_forward ? 1 : 2];
    double *lse = in->values[is_forward ? op->outputs[1] : op->inputs[op->input_count - 1]];
    int64_t heads = interpreter_size(in, q, DIM_HEAD),
            width = interpreter_size(in, q, DIM_HEAD_DIM);
    int64_t rows = interpreter_elements(in, q) / width;
    int64_t queries = rows / heads / interpreter_size(in, q, DIM_BATCH);
    int v = op->inputs[is_forward ? 2 : 3];
    bool is_grouped = tensor_find_dim(&in->block->tensors[k], DIM_KV_HEAD) >= 0;
    enum dim kv_head = is_grouped ? DIM_KV_HEAD : DIM_HEAD;
    struct math_row row = {.queries = queries,
                           .keys = interpreter_size(in, k, DIM_SEQ),
                           .width = width,
                           .value_width = in->sizes[v][in->block->tensors[v].rank - 1],
                           .kv_head_count = interpreter_size(in, k, kv_head)};
    for (int64_t i = 0; i < rows; i++) {
        row.q = i * row.width;
        row.out = i * row.value_width;
        row.head = i % heads;
        row.kv_head = row.head * row.kv_head_count / heads;
        row.query = i / heads % queries;
        row.batch = i / heads / queries;
        if (is_forward) {
            attention_row(in, op, &row, lse + i);
        } else {
            attention_row_backward(in, op, &row, lse + i);
        }
    }
}

// Where the label is negative nothing is asked; one of another part of the vocabulary is none here.
void interpreter_loss(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_LOSS;
    int logits = op->inputs[is_forward ? 0 : 1], labels = op->inputs[is_forward ? 1 : 2];
    const struct tensor *scores = &in->block->tensors[logits];
    int64_t vocab = in->sizes[logits][scores->rank - 1];
    bool is_softmax = op->function == FUNCTION_NONE;
    for (int64_t i = 0; i < interpreter_elements(in, labels); i++) {
        const double *x = in->values[logits] + i * vocab;
        int64_t asked = (int64_t)in->values[labels][i], label = asked - in->offset[DIM_VOCAB];
        double sum = 0, each = 0;
        for (int64_t j = 0; j < vocab; j++) {
            sum += exp(x[j]);
        }
        if (is_forward) {
            for (int64_t j = 0; j < vocab; j++)
                each += log(1 + exp(j == label ? -x[j] : x[j]));
            double own = asked < 0 ? 0 : log(sum) - x[label];
            in->values[op->outputs[0]][i] = is_softmax ? own : each;
            in->values[op->outputs[1]][i] = log(sum);
            continue;
        }
        for (int64_t j = 0; j < vocab; j++) {
            double own =
                is_softmax ? exp(x[j] - in->values[op->inputs[3]][i]) : 1 / (1 + exp(-x[j]));
            double p = is_softmax && asked < 0 ? 0 : own - (j == label);
            in->values[op->outputs[0]][i * vocab + j] = in->values[op->inputs[0]][i] * p;
        }
    }
}
