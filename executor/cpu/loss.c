#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/sums.h"

#include <assert.h>

// Softmax cross entropy over the vocabulary. Where ranks hold parts of it they exchange the largest
// logit, the sum of exponentials and the logit of the label (Shoeybi et al. 2019, section 3); what
// is known so far stands in the log-sum-exp: first the largest logit, then what it will be.
// Columns past the vocabulary do not count and get no gradient; nor does a label that is negative.

struct columns {
    int64_t count, real;  // here; of them those that exist
    int64_t first;
    int64_t rows;
    bool is_split;  // others hold more
};

static struct columns columns_of(const struct kernel_call *call, const struct kernel_array *logits)
{
    int last = logits->rank - 1;
    struct columns c = {.count = logits->sizes[last], .first = logits->first[last]};
    bool is_vocab = call->vocab > 0 && logits->dims[last] == DIM_VOCAB;
    int64_t vocab = is_vocab ? call->vocab : logits->whole[last];
    int64_t real = vocab - c.first;
    c.real = real < 0 ? 0 : real < c.count ? real : c.count;
    c.rows = 1;
    for (int i = 0; i < last; i++)
        c.rows *= logits->sizes[i];
    c.is_split = c.count < logits->whole[last];
    assert(c.first >= 0 && c.real >= 0 && c.real <= c.count);
    return c;
}

FAST REAL cpu_largest(int64_t count, const REAL *x)
{
    return LARGEST(i, 0, count, -(REAL)HUGE_VAL, x[i]);
}

FAST double cpu_sum_exp(int64_t count, REAL largest, const REAL *x)
{
    double sum = 0;
    for (int64_t first = 0; first < count; first += 4096) {
        int64_t end = first + 4096 < count ? first + 4096 : count;
        sum += (double)SUM(i, first, end, real_exp(x[i] - largest));
    }
    return sum;
}

struct loss {
    struct columns columns;
    const REAL *logits;
    const int64_t *labels;
    REAL *value, *lse, *inner;
};

static REAL label_logit(const struct loss *l, int64_t row)
{
    int64_t at = l->labels[row] - l->columns.first;
    bool is_here = at >= 0 && at < l->columns.real;
    return is_here ? l->logits[row * l->columns.count + at] : 0;
}

static void whole_row(const struct loss *l, int64_t row)
{
    const REAL *x = l->logits + row * l->columns.count;
    REAL largest = cpu_largest(l->columns.real, x);
    l->lse[row] = largest + (REAL)log(cpu_sum_exp(l->columns.real, largest, x));
    l->value[row] = l->labels[row] < 0 ? 0 : l->lse[row] - label_logit(l, row);
}

static void part_of_row(const struct loss *l, int part, int64_t row)
{
    const REAL *x = l->logits + row * l->columns.count;
    int64_t real = l->columns.real;
    switch (part) {
    case 1:
        l->inner[row] = cpu_largest(real, x);
        break;
    case 2:
        l->lse[row] = l->inner[row];
        break;
    case 3:
        l->inner[row] = (REAL)cpu_sum_exp(real, l->lse[row], x);
        break;
    case 4:
        l->lse[row] += (REAL)log((double)l->inner[row]);
        break;
    case 5:
        l->inner[row] = label_logit(l, row);
        break;
    default:
        l->value[row] = l->labels[row] < 0 ? 0 : l->lse[row] - l->inner[row];
    }
}

// The mean of the squares over the last dim, which is whole.
static const char *squared_error(const struct kernel_call *call)
{
    bool is_backward = call->op->kind == OP_LOSS_BACKWARD;
    const struct kernel_array *x = &call->inputs[is_backward], *target = x + 1;
    int64_t width = array_last(x), rows = width > 0 ? array_elements(x) / width : 0;
    const REAL *from = x->data, *to = target->data, *d = call->inputs[0].data;
    REAL *y = call->outputs[0].data;
    if (x->element != target->element) return "a squared error wants a target of reals";
    if (array_elements(x) != array_elements(target)) return "a prediction without a target";
    if (width < x->whole[x->rank - 1]) return "a squared error wants its last dim whole";
    for (int64_t row = 0; row < rows; row++, from += width, to += width) {
        REAL sum = 0;
        for (int64_t i = 0; i < width; i++) {
            REAL difference = from[i] - to[i];
            sum += difference * difference;
            if (is_backward) y[row * width + i] = 2 * d[row] * difference / (REAL)width;
        }
        if (!is_backward) y[row] = sum / (REAL)width;
    }
    return NULL;
}

// Of each column by itself whether it is the label's: the logarithms of the sigmoids of all of
// them, of others than the label's with the sign turned (Zhai et al. 2023, equation 1).
static const char *each_column(const struct kernel_call *call)
{
    bool is_backward = call->op->kind == OP_LOSS_BACKWARD;
    const struct kernel_array *logits = &call->inputs[is_backward];
    struct columns c = columns_of(call, logits);
    const REAL *x = logits->data, *d = call->inputs[0].data;
    const int64_t *labels = logits[1].data;
    REAL *y = call->outputs[0].data;
    if (logits[1].element != ELEMENT_INT64) return "labels are 64-bit integers";
    if (array_elements(&logits[1]) != c.rows) return "logits without a label";
    if (c.is_split || c.real < c.count) return "a loss of each column wants all of them";
    for (int64_t row = 0; row < c.rows; row++, x += c.count) {
        REAL sum = 0;
        for (int64_t i = 0; i < c.count; i++) {
            REAL is_label = i == labels[row] ? 1 : 0;
            sum += real_softplus(x[i]) - is_label * x[i];
            if (is_backward) y[row * c.count + i] = d[row] * (real_sigmoid(x[i]) - is_label);
        }
        if (!is_backward) y[row] = sum;
    }
    return NULL;
}

const char *cpu_loss(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    if (call->op->function == FUNCTION_SQUARED_ERROR) return squared_error(call);
    if (call->op->function == FUNCTION_SIGMOID) return each_column(call);
    const struct kernel_array *logits = &call->inputs[0];
    struct loss l = {.columns = columns_of(call, logits),
                     .logits = logits->data,
                     .labels = call->inputs[1].data,
                     .value = call->outputs[0].data,
                     .lse = call->outputs[1].data,
                     .inner = call->inner.data};
    if (call->inputs[1].element != ELEMENT_INT64) return "labels are 64-bit integers";
    if (call->part < 0 || call->part > 6) return "the loss has three exchanges";
    if (array_elements(&call->inputs[1]) != l.columns.rows) return "logits without a label";
    bool needs_inner = call->part > 0;
    if (needs_inner && array_elements(&call->inner) != l.columns.rows) return "no room to exchange";
    // Nothing can be said yet: parts 1 to 6 follow.
    if (call->part == 0 && l.columns.is_split) return NULL;
    for (int64_t row = 0; row < l.columns.rows; row++) {
        if (call->part == 0) {
            whole_row(&l, row);
        } else {
            part_of_row(&l, call->part, row);
        }
    }
    return NULL;
}

FAST static void row_backward(int64_t count, REAL gradient, REAL lse, const REAL *x, REAL *d_x)
{
    VECTOR for (int64_t i = 0; i < count; i++) d_x[i] = gradient * real_exp(x[i] - lse);
}

const char *cpu_loss_backward(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    if (call->op->function == FUNCTION_SQUARED_ERROR) return squared_error(call);
    if (call->op->function == FUNCTION_SIGMOID) return each_column(call);
    struct columns c = columns_of(call, &call->inputs[1]);
    const REAL *d = call->inputs[0].data, *x = call->inputs[1].data, *lse = call->inputs[3].data;
    const int64_t *labels = call->inputs[2].data;
    REAL *d_x = call->outputs[0].data;
    if (call->inputs[2].element != ELEMENT_INT64) return "labels are 64-bit integers";
    for (int64_t row = 0; row < c.rows; row++, x += c.count, d_x += c.count) {
        int64_t at = labels[row] - c.first;
        REAL gradient = labels[row] < 0 ? 0 : d[row];
        row_backward(c.real, gradient, lse[row], x, d_x);
        for (int64_t i = c.real; i < c.count; i++)
            d_x[i] = 0;
        if (at >= 0 && at < c.real) d_x[at] -= gradient;
    }
    return NULL;
}
