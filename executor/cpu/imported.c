#include "executor/cpu/functions.h"
#include "executor/cpu/image.h"

#include <assert.h>
#include <math.h>

// Operators of imported graphs that are no products: functions of one number, joins of channels,
// products of two, and what other files have.

typedef REAL function_of(REAL scalar, REAL x);

// A function and its slope, which is given what backward reads: what the function was given, or
// what it made (models/onnx/operators.c).
struct bend {
    function_of *value, *slope;
};

static REAL relu(REAL s, REAL x)
{
    (void)s;
    return x > 0 ? x : 0;
}
static REAL relu_slope(REAL s, REAL y)
{
    (void)s;
    return y > 0;
}
static REAL leaky(REAL s, REAL x)
{
    return x > 0 ? x : s * x;
}
static REAL leaky_slope(REAL s, REAL y)
{
    return y > 0 ? 1 : s;
}
static REAL elu(REAL s, REAL x)
{
    return x > 0 ? x : s * real_expm1(x);
}
static REAL elu_slope(REAL s, REAL y)
{
    return y > 0 ? 1 : y + s;
}
static REAL clip(REAL s, REAL x)
{
    return x < 0 ? 0 : x > s ? s : x;
}
static REAL clip_slope(REAL s, REAL x)
{
    return x > 0 && x < s;
}
static REAL sigmoid(REAL s, REAL x)
{
    (void)s;
    return real_sigmoid(x);
}
static REAL sigmoid_slope(REAL s, REAL y)
{
    (void)s;
    return y * (1 - y);
}
static REAL hard_sigmoid(REAL s, REAL x)
{
    return clip(1, s * x + (REAL)0.5);
}
static REAL hard_sigmoid_slope(REAL s, REAL y)
{
    return y > 0 && y < 1 ? s : 0;
}
static REAL bent_tanh(REAL s, REAL x)
{
    (void)s;
    return real_tanh(x);
}
static REAL tanh_slope(REAL s, REAL y)
{
    (void)s;
    return 1 - y * y;
}
static REAL gelu(REAL s, REAL x)
{
    REAL u = (REAL)0.7978845608028654 * (x + (REAL)0.044715 * x * x * x);
    return s != 0 ? x * real_sigmoid(2 * u) : x * real_normal(x);
}
static REAL gelu_slope(REAL s, REAL x)
{
    REAL u = (REAL)0.7978845608028654 * (x + (REAL)0.044715 * x * x * x);
    REAL p = real_sigmoid(2 * u);
    if (s != 0)
        return p +
               x * p * (1 - p) * 2 * (REAL)0.7978845608028654 * (1 + 3 * (REAL)0.044715 * x * x);
    return real_normal(x) + x * (REAL)0.3989422804014327 * real_exp((REAL)-0.5 * x * x);
}
static REAL swish(REAL s, REAL x)
{
    (void)s;
    return x * real_sigmoid(x);
}
static REAL swish_slope(REAL s, REAL x)
{
    (void)s;
    REAL p = real_sigmoid(x);
    return p * (1 + x * (1 - p));
}
static REAL hard_swish(REAL s, REAL x)
{
    (void)s;
    return x * clip(6, x + 3) / 6;
}
static REAL hard_swish_slope(REAL s, REAL x)
{
    (void)s;
    return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + (REAL)0.5;
}
static REAL softplus(REAL s, REAL x)
{
    (void)s;
    return real_softplus(x);
}
static REAL softplus_slope(REAL s, REAL x)
{
    (void)s;
    return real_sigmoid(x);
}
static REAL mish(REAL s, REAL x)
{
    (void)s;
    return x * real_tanh(real_softplus(x));
}
static REAL mish_slope(REAL s, REAL x)
{
    (void)s;
    REAL t = real_tanh(real_softplus(x));
    return t + x * (1 - t * t) * real_sigmoid(x);
}

static REAL scale(REAL s, REAL x)
{
    return s * x;
}
static REAL scale_slope(REAL s, REAL x)
{
    (void)x;
    return s;
}
static REAL shift(REAL s, REAL x)
{
    return x + s;
}
static REAL shift_slope(REAL s, REAL x)
{
    (void)s;
    (void)x;
    return 1;
}

static const struct bend BENDS[IMPORTED_COUNT] = {
    [IMPORTED_RELU] = {relu, relu_slope},
    [IMPORTED_LEAKY_RELU] = {leaky, leaky_slope},
    [IMPORTED_ELU] = {elu, elu_slope},
    [IMPORTED_CLIP] = {clip, clip_slope},
    [IMPORTED_SIGMOID] = {sigmoid, sigmoid_slope},
    [IMPORTED_HARD_SIGMOID] = {hard_sigmoid, hard_sigmoid_slope},
    [IMPORTED_TANH] = {bent_tanh, tanh_slope},
    [IMPORTED_GELU] = {gelu, gelu_slope},
    [IMPORTED_SWISH] = {swish, swish_slope},
    [IMPORTED_HARD_SWISH] = {hard_swish, hard_swish_slope},
    [IMPORTED_SOFTPLUS] = {softplus, softplus_slope},
    [IMPORTED_MISH] = {mish, mish_slope},
    [IMPORTED_SCALE] = {scale, scale_slope},
    [IMPORTED_SHIFT] = {shift, shift_slope},
};

// Elements of the result and of what it is made from stand in the same order, unless scores are
// made of an image. What is a number times x, or beside it, reads nothing more in backward.
static const char *run_bend(const struct kernel_call *call, const struct bend *bend)
{
    const struct kernel_array *in = &call->inputs[0], *out = &call->outputs[0];
    bool is_backward = call->op->phase != PHASE_FORWARD;
    bool keeps = call->op->work.type != IMPORTED_SCALE && call->op->work.type != IMPORTED_SHIFT;
    struct planes d, x, y;
    const char *fault = image_read(in, &d);
    if (!fault) fault = image_read(out, &y);
    if (!fault) fault = image_read(&call->inputs[is_backward && keeps ? 1 : 0], &x);
    if (!fault && call->input_count != 1 + (is_backward && keeps))
        fault = "a function of one tensor";
    if (fault || !out->data) return fault;
    REAL scalar = (REAL)call->op->work.scalar;
    if (is_backward) call_begin_sum(call, 0);
    for (int64_t i = 0; i < y.batch * y.channels * y.height; i++) {
        int64_t row = i % y.height, plane = i / y.height;
        int64_t sample = plane / y.channels, channel = plane % y.channels;
        const REAL *from = image_plane(&x, sample, channel) + row * x.row_stride;
        const REAL *slope = image_plane(&d, sample, channel) + row * d.row_stride;
        REAL *to = image_plane(&y, sample, channel) + row * y.row_stride;
        for (int64_t column = 0; column < y.width; column++) {
            REAL *at = to + column * y.column_stride, read = from[column * x.column_stride];
            if (!is_backward) *at = bend->value(scalar, read);
            if (is_backward) *at += slope[column * d.column_stride] * bend->slope(scalar, read);
        }
    }
    return NULL;
}

// Row by row: channels may be innermost on one side and outermost on the other.
static void copy_planes(const struct planes *from, int64_t from_channel, const struct planes *to,
                        int64_t to_channel, int64_t channels, bool adds)
{
    for (int64_t i = 0; i < from->batch * channels * from->height; i++) {
        int64_t row = i % from->height, plane = i / from->height;
        int64_t sample = plane / channels, channel = plane % channels;
        const REAL *source =
            image_plane(from, sample, from_channel + channel) + row * from->row_stride;
        REAL *target = image_plane(to, sample, to_channel + channel) + row * to->row_stride;
        for (int64_t c = 0; c < from->width; c++) {
            REAL *at = target + c * to->column_stride, value = source[c * from->column_stride];
            *at = adds ? *at + value : value;
        }
    }
}

// Channels side by side, and the gradient of each part.
static const char *run_concat(const struct kernel_call *call)
{
    bool is_backward = call->op->phase != PHASE_FORWARD;
    const struct kernel_array *joined = is_backward ? &call->inputs[0] : &call->outputs[0];
    int parts = is_backward ? call->output_count : call->input_count;
    struct planes whole, part;
    int64_t before = 0;
    const char *fault = image_read(joined, &whole);
    for (int i = 0; i < parts && !fault; i++) {
        fault = image_read(is_backward ? &call->outputs[i] : &call->inputs[i], &part);
        if (fault || !joined->data) continue;
        if (is_backward) {
            call_begin_sum(call, i);
            copy_planes(&whole, before, &part, 0, part.channels, true);
        } else {
            copy_planes(&part, 0, &whole, before, part.channels, false);
        }
        before += part.channels;
    }
    return fault;
}

// The mean of all places, of which this rank adds up its own.
static const char *run_mean(const struct kernel_call *call)
{
    bool is_backward = call->op->phase != PHASE_FORWARD;
    struct planes x, y;
    const char *fault = image_read(is_backward ? &call->outputs[0] : &call->inputs[0], &x);
    if (!fault) fault = image_read(is_backward ? &call->inputs[0] : &call->outputs[0], &y);
    if (fault || !call->outputs[0].data) return fault;
    REAL share = 1 / ((REAL)x.whole_height * (REAL)x.whole_width);
    call_begin_sum(call, 0);
    for (int64_t i = 0; i < x.batch * x.channels; i++) {
        REAL *one = image_plane(&y, i / x.channels, i % x.channels), sum = 0;
        REAL *plane = image_plane(&x, i / x.channels, i % x.channels);
        for (int64_t p = 0; p < x.height * x.width; p++) {
            REAL *at = plane + p / x.width * x.row_stride + p % x.width * x.column_stride;
            if (is_backward) *at += *one * share;
            sum += *at;
        }
        if (!is_backward) *one += sum * share;
    }
    return NULL;
}

// The two places that a place of the result lies between, and how much of it is the second's.
struct between {
    int64_t first, second;
    REAL share;
};
static struct between between_of(enum resizing way, int64_t place, int64_t from, int64_t to)
{
    assert(place >= 0 && place < to && from > 0);
    struct between b = {place * from / to, place * from / to, 0};
    if (way == RESIZING_NEAREST) return b;
    double at = ((double)place + 0.5) * (double)from / (double)to - 0.5;
    if (way == RESIZING_CORNERS)
        at = to > 1 ? (double)place * (double)(from - 1) / (double)(to - 1) : 0;
    if (at < 0) at = 0;
    b.first = (int64_t)at < from ? (int64_t)at : from - 1;
    b.second = b.first + 1 < from ? b.first + 1 : b.first;
    b.share = b.second > b.first ? (REAL)(at - (double)b.first) : 0;
    return b;
}

// Between one place of the result and the four of its input that it is made of, some of which may
// be the same, or count nothing.
static void resize_place(REAL *plane, const struct planes *x, const struct between *row,
                         const struct between *column, REAL *to, bool is_backward)
{
    REAL sum = 0;
    for (int i = 0; i < 4; i++) {
        REAL share =
            (i & 2 ? row->share : 1 - row->share) * (i & 1 ? column->share : 1 - column->share);
        REAL *near = plane + ((i & 2 ? row->second : row->first) - x->row) * x->row_stride +
                     ((i & 1 ? column->second : column->first) - x->column) * x->column_stride;
        if (share == 0) continue;
        if (is_backward) *near += share * *to;
        if (!is_backward) sum += share * *near;
    }
    if (!is_backward) *to = sum;
}

static const char *run_resize(const struct kernel_call *call)
{
    bool is_backward = call->op->phase != PHASE_FORWARD;
    struct planes x, y;
    const char *fault = image_read(is_backward ? &call->outputs[0] : &call->inputs[0], &x);
    if (!fault) fault = image_read(is_backward ? &call->inputs[0] : &call->outputs[0], &y);
    if (fault || !call->outputs[0].data) return fault;
    enum resizing way = (enum resizing)call->op->work.scalar;
    if (is_backward) call_begin_sum(call, 0);
    for (int64_t i = 0; i < y.batch * y.channels * y.height; i++) {
        int64_t row = i % y.height, plane = i / y.height;
        REAL *to = image_plane(&y, plane / y.channels, plane % y.channels) + row * y.row_stride;
        REAL *from = image_plane(&x, plane / y.channels, plane % y.channels);
        struct between rows = between_of(way, y.row + row, x.whole_height, y.whole_height);
        for (int64_t c = 0; c < y.width; c++) {
            struct between columns = between_of(way, y.column + c, x.whole_width, y.whole_width);
            resize_place(from, &x, &rows, &columns, to + c * y.column_stride, is_backward);
        }
    }
    return NULL;
}

// y += a b over the places of `over`; each of the three may be repeated.
static void multiply(const struct planes *over, const struct planes *a, const struct planes *b,
                     const struct planes *y)
{
    for (int64_t i = 0; i < over->batch * over->channels * over->height; i++) {
        int64_t row = i % over->height, plane = i / over->height;
        int64_t sample = plane / over->channels, channel = plane % over->channels;
        const REAL *left = image_plane(a, sample, channel) + row * a->row_stride;
        const REAL *right = image_plane(b, sample, channel) + row * b->row_stride;
        REAL *to = image_plane(y, sample, channel) + row * y->row_stride;
        for (int64_t c = 0; c < over->width; c++)
            to[c * y->column_stride] += left[c * a->column_stride] * right[c * b->column_stride];
    }
}

static const char *run_multiply(const struct kernel_call *call)
{
    assert(call->output_count >= 1 && call->output_count <= 2);
    bool is_backward = call->op->phase != PHASE_FORWARD;
    const struct kernel_array *large = is_backward ? &call->inputs[0] : &call->outputs[0];
    struct planes over, a, b, made;
    if (call->input_count != 2 + is_backward) return "a product of two tensors";
    const char *fault = image_read(large, &over);
    if (!fault) fault = image_read(&call->inputs[is_backward], &a);
    if (!fault) fault = image_read(&call->inputs[1 + is_backward], &b);
    if (fault || !large->data) return fault;
    image_repeat(&a, &over);
    image_repeat(&b, &over);
    for (int i = 0; i < call->output_count && !fault; i++) {
        call_begin_sum(call, i);
        fault = image_read(&call->outputs[i], &made);
        image_repeat(&made, &over);
        if (!fault && !is_backward) multiply(&over, &a, &b, &made);
        if (!fault && is_backward) multiply(&over, &over, i == 0 ? &b : &a, &made);
    }
    return fault;
}

// What forward dropped, and what it kept times the same factor.
static const char *run_dropout(struct cpu_device *device, const struct kernel_call *call)
{
    struct op op = *call->op;
    struct kernel_call drops = *call;
    op.dropout_ratio = op.work.scalar;
    assert(op.dropout_ratio >= 0 && op.dropout_ratio < 1 && "what is kept is divided by the rest");
    drops.op = &op;
    if (call->op->phase == PHASE_FORWARD) return cpu_dropout(device, &drops);
    const REAL *d = call->inputs[0].data;
    const unsigned char *mask = call->inputs[1].data;
    REAL *to = call->outputs[0].data, factor = (REAL)(1 / (1 - op.dropout_ratio));
    call_begin_sum(call, 0);
    for (int64_t i = 0; i < array_elements(&call->outputs[0]); i++)
        to[i] += d[i] * factor * (REAL)mask[i];
    return NULL;
}

static const char *run_of(struct cpu_device *device, const struct kernel_call *call,
                          bool is_backward)
{
    enum imported_kind type = call->op->work.type;
    switch (type) {
    case IMPORTED_MAX_POOL:
    case IMPORTED_AVERAGE_POOL:
        return (is_backward ? cpu_pool_backward : cpu_pool)(device, call);
    case IMPORTED_BATCH_NORM:
    case IMPORTED_INSTANCE_NORM:
    case IMPORTED_GROUP_NORM:
        return (is_backward ? cpu_statistics_backward : cpu_statistics)(device, call);
    case IMPORTED_GLOBAL_AVERAGE_POOL:
        return run_mean(call);
    case IMPORTED_CONCAT:
        return run_concat(call);
    case IMPORTED_DROPOUT:
        return run_dropout(device, call);
    case IMPORTED_RESIZE:
        return run_resize(call);
    case IMPORTED_MULTIPLY:
        return call->op->work.strided ? cpu_strided(call) : run_multiply(call);
    case IMPORTED_MOVE:
    case IMPORTED_ADD:
    case IMPORTED_SUBTRACT:
    case IMPORTED_DIVIDE:
        return cpu_strided(call);
    case IMPORTED_SOFTMAX:
        return cpu_row_softmax(call);
    case IMPORTED_ROW_SUM:
    case IMPORTED_ROW_MEAN:
    case IMPORTED_PAD:
        return cpu_row_place(call);
    case IMPORTED_ATTENTION:
    case IMPORTED_CAUSAL_ATTENTION:
        return cpu_row_attention(device, call);
    case IMPORTED_JOIN:
    case IMPORTED_SPLIT:
        return cpu_split(call);
    case IMPORTED_LAYER_NORM:
        return cpu_row_norm(device, call);
    case IMPORTED_DROP_PATH:
        return cpu_drop_path(call);
    default:
        return BENDS[type].value ? run_bend(call, &BENDS[type]) : "no kernel for this operator";
    }
}

const char *cpu_operator(struct cpu_device *device, const struct kernel_call *call)
{
    return run_of(device, call, false);
}

const char *cpu_operator_backward(struct cpu_device *device, const struct kernel_call *call)
{
    return run_of(device, call, true);
}
