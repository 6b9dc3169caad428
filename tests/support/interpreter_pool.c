#include "tests/support/interpreter_math.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// What deepseek_v4 has beside others, by its definition (models/op_pool.h): entries and attention
// to them, and matrices whose rows and columns sum up to one.

// A number, and by how much it grows with one number that it is made of.
struct grown {
    double value, slope;
};

enum { MATRIX_MAX = 64 };

static struct grown quotient(struct grown x, struct grown by)
{
    return (struct grown){x.value / by.value, (x.slope - x.value / by.value * by.slope) / by.value};
}

// Divides each row, or each column, by its sum and `epsilon`.
static void divide(struct grown *m, int64_t rows, int64_t columns, bool by_row, double epsilon)
{
    struct grown divided[MATRIX_MAX];
    for (int64_t i = 0; i < rows * columns; i++) {
        struct grown sum = {epsilon, 0};
        for (int64_t j = 0; j < rows * columns; j++) {
            bool is_in = by_row ? i / columns == j / columns : i % columns == j % columns;
            if (!is_in) continue;
            sum.value += m[j].value;
            sum.slope += m[j].slope;
        }
        divided[i] = quotient(m[i], sum);
    }
    memcpy(m, divided, (size_t)(rows * columns) * sizeof *m);
}

// `at`: the number by which slopes are taken; negative: none.
static void balance(const struct op *op, const double *x, int64_t rows, int64_t columns, int64_t at,
                    struct grown *m)
{
    assert(rows * columns <= MATRIX_MAX);
    for (int64_t i = 0; i < rows * columns; i++)
        m[i] = (struct grown){exp(x[i]), i == at ? exp(x[i]) : 0};
    divide(m, rows, columns, true, 0);
    for (int64_t i = 0; i < rows * columns; i++)
        m[i].value += op->scalar;
    divide(m, rows, columns, false, op->scalar);
    for (int n = 1; n < op->rounds; n++) {
        divide(m, rows, columns, true, op->scalar);
        divide(m, rows, columns, false, op->scalar);
    }
}

void interpreter_sinkhorn(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_SINKHORN;
    int x = op->inputs[is_forward ? 0 : 1];
    int64_t columns = interpreter_size(in, x, DIM_TO_STREAM), size;
    size = interpreter_size(in, x, DIM_STREAM) * columns;
    for (int64_t i = 0; i < interpreter_elements(in, x); i++) {
        struct grown m[MATRIX_MAX];
        int64_t first = i / size * size;
        balance(op, in->values[x] + first, size / columns, columns, i - first, m);
        double sum = 0;
        for (int64_t j = 0; j < size && !is_forward; j++)
            sum += in->values[op->inputs[0]][first + j] * m[j].slope;
        in->values[op->outputs[0]][i] = is_forward ? m[i - first].value : sum;
    }
}

// What a channel of an entry reads of a token: its number there, and the row of the bias; negative
// where it reads nothing of it.
struct read {
    int64_t at, bias;
};
static struct read read_of(const struct interpreter *in, const struct op *op, int x, int64_t entry,
                           int64_t token, int64_t channel, int64_t width)
{
    int64_t channels = interpreter_size(in, x, DIM_RANK), rate = op->rate;
    bool is_own = token / rate == entry;
    bool is_before = channels > width && token / rate == entry - 1 && token < entry * rate;
    if (channels > width && is_own) channel += width;
    if (!is_own && !is_before) return (struct read){-1, -1};
    return (struct read){token * channels + channel, token % rate * channels + channel};
}

// Of one channel of an entry: the weight of a token.
static double weight_of(const struct interpreter *in, const double *gate, const double *bias,
                        int64_t tokens, const struct read *reads, int64_t token)
{
    double sum = 0;
    (void)in;
    for (int64_t t = 0; t < tokens; t++)
        if (reads[t].at >= 0) sum += exp(gate[reads[t].at] + bias[reads[t].bias]);
    if (reads[token].at < 0) return 0;
    return exp(gate[reads[token].at] + bias[reads[token].bias]) / sum;
}

enum { TOKENS_MAX = 64 };

void interpreter_pool(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_POOL;
    int first = is_forward ? 0 : 1, x = op->inputs[first];
    int made = is_forward ? op->outputs[0] : op->inputs[0];
    int64_t tokens = interpreter_size(in, x, DIM_SEQ), channels = interpreter_size(in, x, DIM_RANK);
    int64_t entries = interpreter_size(in, made, DIM_ENTRY);
    int64_t width = interpreter_size(in, made, DIM_HEAD_DIM);
    const double *bias = in->values[op->inputs[first + 2]];
    assert(tokens <= TOKENS_MAX);
    for (int64_t i = 0; i < interpreter_elements(in, made); i++) {
        int64_t of = i / width / entries * tokens * channels;
        const double *values = in->values[x] + of, *gate = in->values[op->inputs[first + 1]] + of;
        struct read reads[TOKENS_MAX];
        double mean = 0;
        for (int64_t t = 0; t < tokens; t++)
            reads[t] = read_of(in, op, x, i / width % entries, t, i % width, width);
        for (int64_t t = 0; t < tokens; t++) {
            double weight = weight_of(in, gate, bias, tokens, reads, t);
            if (weight > 0) mean += weight * values[reads[t].at];
        }
        if (is_forward) in->values[made][i] = mean;
        for (int64_t t = 0; t < tokens && !is_forward; t++) {
            double weight = weight_of(in, gate, bias, tokens, reads, t) * in->values[made][i];
            if (reads[t].at < 0) continue;
            double slope = weight * (values[reads[t].at] - mean);
            in->values[op->outputs[0]][of + reads[t].at] += weight;
            in->values[op->outputs[1]][of + reads[t].at] += slope;
            in->values[op->outputs[2]][reads[t].bias] += slope;
        }
    }
}

// Whether a query of the whole sees a token, or an entry, there.
static bool sees(const struct interpreter *in, const struct op *op, int64_t row, int64_t query,
                 int64_t key, int64_t tokens)
{
    if (key < tokens) return key <= query && (op->window == 0 || query - key < op->window);
    int64_t entry = key - tokens;
    if ((entry + 1) * op->rate > query + 1) return false;
    int chosen = op->inputs[op->kind == OP_POOLED ? 4 : 5];
    for (int i = 0; i < op->top_k; i++)
        if ((int64_t)in->values[chosen][row * op->top_k + i] == entry) return true;
    return op->top_k == 0;
}

// Numbers of one key, and of its gradient.
struct key {
    const double *value;
    double *slope;
};

// All that is attended to by a query: `inputs` are those of tokens and entries, `outputs` what
// their gradients are.
static struct key key_at(const struct interpreter *in, const int inputs[2], const int outputs[2],
                         int64_t batch, int64_t key)
{
    int64_t tokens = interpreter_size(in, inputs[0], DIM_SEQ);
    bool is_entry = key >= tokens;
    int of = inputs[is_entry], to = outputs[is_entry];
    int64_t width = interpreter_size(in, of, DIM_HEAD_DIM);
    int64_t count = is_entry ? interpreter_size(in, of, DIM_ENTRY) : tokens;
    int64_t at = (batch * count + (is_entry ? key - tokens : key)) * width;
    return (struct key){in->values[of] + at, to >= 0 ? in->values[to] + at : NULL};
}

static double product(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

void interpreter_pooled(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_POOLED;
    const int *inputs = op->inputs + !is_forward, of[2] = {inputs[1], inputs[3]};
    const int to[2] = {is_forward ? -1 : op->outputs[1], is_forward ? -1 : op->outputs[3]};
    int q = inputs[0], out = is_forward ? op->outputs[0] : op->inputs[op->input_count - 2];
    double *lse = in->values[is_forward ? op->outputs[1] : op->inputs[op->input_count - 1]];
    int64_t width = interpreter_size(in, q, DIM_HEAD_DIM),
            heads = interpreter_size(in, q, DIM_HEAD);
    int64_t queries = interpreter_size(in, q, DIM_SEQ),
            tokens = interpreter_size(in, of[0], DIM_SEQ);
    int64_t keys = tokens + interpreter_size(in, of[1], DIM_ENTRY);
    for (int64_t i = 0; i < interpreter_elements(in, q) / width; i++) {
        int64_t row = i / heads, batch = row / queries, query = row % queries + in->offset[DIM_SEQ];
        const double *own = in->values[q] + i * width, sink = in->values[inputs[2]][i % heads];
        double *result = in->values[out] + i * width, sum = exp(sink);
        for (int64_t k = 0; k < keys && is_forward; k++) {
            struct key key = key_at(in, of, to, batch, k);
            if (sees(in, op, row, query, k, tokens))
                sum += exp(op->scalar * product(own, key.value, width));
        }
        if (is_forward) lse[i] = log(sum);
        const double *d = is_forward ? NULL : in->values[op->inputs[0]] + i * width;
        double mean = is_forward ? 0 : product(d, result, width);
        if (!is_forward) in->values[op->outputs[2]][i % heads] -= exp(sink - lse[i]) * mean;
        for (int64_t k = 0; k < keys; k++) {
            struct key key = key_at(in, of, to, batch, k);
            if (!sees(in, op, row, query, k, tokens)) continue;
            double p = exp(op->scalar * product(own, key.value, width) - lse[i]);
            double slope = is_forward ? 0 : p * (product(d, key.value, width) - mean) * op->scalar;
            for (int64_t c = 0; c < width; c++) {
                if (is_forward) result[c] += p * key.value[c];
                if (is_forward) continue;
                in->values[op->outputs[0]][i * width + c] += slope * key.value[c];
                key.slope[c] += slope * own[c] + p * d[c];
            }
        }
    }
}
