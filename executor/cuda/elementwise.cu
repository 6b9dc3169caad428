#include "executor/cuda/device_code.h"

// Functions of one element, alone or as the gate of f(gate) * up, and their slopes: the numbers are
// those of enum function, which elementwise.c checks.

#include "executor/cuda/functions.h"

// sqrt(2 / pi) (x + 0.044715 x^3), twice: 1 + tanh(u) is twice the sigmoid of 2u.
DEVICE float gelu_inner(float x)
{
    return 2 * 0.7978845608028654f * (x + 0.044715f * x * x * x);
}

DEVICE float value_of(int function, float s, float x)
{
    float r;
    switch (function) {
    case MAP_GELU:
        return 0.5f * x * erfcf(-x * 0.7071067811865476f);
    case MAP_GELU_TANH:
        return x * sigmoid_of(gelu_inner(x));
    case MAP_SILU:
        return x * sigmoid_of(x);
    case MAP_RELU:
        return x > 0 ? x : 0;
    case MAP_RELU_SQUARED:
        r = x > 0 ? x : 0;
        return r * r;
    case MAP_SCALE:
        return s * x;
    case MAP_SOFTCAP:
        return s * tanhf(x / s);
    case MAP_SOFTPLUS:
        return fmaxf(softplus_of(x), s);
    case MAP_QUICK_GELU:
        return x * sigmoid_of(1.702f * x);
    case MAP_EXP:
        return expf(x);
    case MAP_RELU_ABOVE:
        return x > s ? x - s : 0;
    case MAP_EXP_BELOW:
        return x < 0 ? expm1f(x) - x : 0;
    case MAP_SIGMOID_ABOVE:
        return sigmoid_of(x) + s;
    default:
        return sigmoid_of(x);
    }
}

DEVICE float slope_of(int function, float s, float x)
{
    float p;
    switch (function) {
    case MAP_GELU:
        return 0.5f * erfcf(-x * 0.7071067811865476f) +
               x * 0.3989422804014327f * expf(-0.5f * x * x);
    case MAP_GELU_TANH:
        p = sigmoid_of(gelu_inner(x));
        return p + x * p * (1 - p) * 2 * 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
    case MAP_SILU:
        p = sigmoid_of(x);
        return p * (1 + x * (1 - p));
    case MAP_RELU:
        return x > 0 ? 1 : 0;
    case MAP_RELU_SQUARED:
        return x > 0 ? 2 * x : 0;
    case MAP_SCALE:
        return s;
    case MAP_SOFTCAP:
        p = tanhf(x / s);
        return 1 - p * p;
    case MAP_SOFTPLUS:
        return softplus_of(x) > s ? sigmoid_of(x) : 0;
    case MAP_QUICK_GELU:
        p = sigmoid_of(1.702f * x);
        return p * (1 + 1.702f * x * (1 - p));
    case MAP_EXP:
        return expf(x);
    case MAP_RELU_ABOVE:
        return x > s ? 1 : 0;
    case MAP_EXP_BELOW:
        return x < 0 ? expm1f(x) : 0;
    default:
        p = sigmoid_of(x);
        return p * (1 - p);
    }
}

// gpt-oss: (up + 1) * g * sigmoid(scalar * g), g at most the limit, up between it and its negative.
// The other is up * silu(g), with the scalar as its limit.
#define CLAMP 7.0f

DEVICE bool is_clamped(int function)
{
    return function == MAP_CLAMPED_SWIGLU || function == MAP_CLAMPED_SILU;
}

DEVICE float gated_value(int function, float s, float gate, float up)
{
    if (!is_clamped(function)) return value_of(function, s, gate) * up;
    bool is_silu = function == MAP_CLAMPED_SILU;
    float limit = is_silu ? s : CLAMP, steep = is_silu ? 1 : s;
    float g = fminf(gate, limit), u = fmaxf(fminf(up, limit), -limit) + (is_silu ? 0 : 1);
    return u * g * sigmoid_of(steep * g);
}

DEVICE void gated_slopes(int function, float s, float d, float gate, float up, float *d_gate,
                         float *d_up)
{
    if (!is_clamped(function)) {
        *d_up = d * value_of(function, s, gate);
        *d_gate = d * up * slope_of(function, s, gate);
        return;
    }
    bool is_silu = function == MAP_CLAMPED_SILU;
    float limit = is_silu ? s : CLAMP, steep = is_silu ? 1 : s;
    float g = fminf(gate, limit), u = fmaxf(fminf(up, limit), -limit) + (is_silu ? 0 : 1);
    float p = sigmoid_of(steep * g);
    *d_gate = gate < limit ? d * u * p * (1 + steep * g * (1 - p)) : 0;
    *d_up = up < limit && up > -limit ? d * g * p : 0;
}

// What is told of a function at compile time costs nothing an element.
#define BY_FUNCTION(number, call)    \
    switch (number) {                \
    case MAP_SILU:                   \
        call(&a, MAP_SILU, at);      \
        break;                       \
    case MAP_GELU_TANH:              \
        call(&a, MAP_GELU_TANH, at); \
        break;                       \
    default:                         \
        call(&a, number, at);        \
    }

DEVICE void map_chunk(const struct map_args *a, int function, int64_t at)
{
    int n = chunk_of(at, a->count);
    float x[CHUNK], up[CHUNK], y[CHUNK];
    if (a->repeats == 1) load_apart(a->x, at, n, a->row, a->x_stride, x);
    if (a->up.data) load_apart(a->up, at, n, a->row, a->up_stride, up);
    UNROLL
    for (int j = 0; j < CHUNK; j++) {
        float gate = a->repeats == 1 ? x[j] : j < n ? load(a->x, (at + j) / a->repeats) : 0;
        y[j] = a->up.data ? gated_value(function, a->scalar, gate, up[j])
                          : value_of(function, a->scalar, gate);
    }
    store_apart(a->y, at, n, a->row, a->y_stride, y);
}

KERNEL(map_chunks, struct map_args, a)
{
    for (int64_t at = INDEX * CHUNK; at < a.count; at += INDICES * CHUNK)
        BY_FUNCTION(a.function, map_chunk)
}

void kernel_map(struct CUstream_st *stream, const struct map_args *args)
{
    LAUNCH(map_chunks, *args, blocks_for(args->count, THREADS * CHUNK), THREADS, stream);
}

DEVICE void map_chunk_back(const struct map_args *a, int function, int64_t at)
{
    int n = chunk_of(at, a->count);
    float d[CHUNK], x[CHUNK], up[CHUNK];
    load_apart(a->d, at, n, a->row, a->d_stride, d);
    load_apart(a->x, at, n, a->row, a->x_stride, x);
    if (a->up.data) load_apart(a->up, at, n, a->row, a->up_stride, up);
    UNROLL
    for (int j = 0; j < CHUNK; j++) {
        if (a->up.data) {
            gated_slopes(function, a->scalar, d[j], x[j], up[j], &x[j], &up[j]);
        } else {
            x[j] = d[j] * slope_of(function, a->scalar, x[j]);
        }
    }
    store_apart(a->d_x, at, n, a->row, a->d_x_stride, x);
    if (a->up.data) store_apart(a->d_up, at, n, a->row, a->d_up_stride, up);
}

KERNEL(map_back, struct map_args, a)
{
    for (int64_t at = INDEX * CHUNK; at < a.count; at += INDICES * CHUNK)
        BY_FUNCTION(a.function, map_chunk_back)
}

// One gate for a row of neighbours: its gradient is a sum.
BLOCK_KERNEL(map_rows_back, struct map_args, a)
{
    for (int64_t row = blockIdx.x; row < a.count / a.repeats; row += gridDim.x) {
        float gate = load(a.x, row), value = value_of(a.function, a.scalar, gate), sum = 0;
        for (int64_t i = threadIdx.x; i < a.repeats; i += blockDim.x) {
            int64_t at = row * a.repeats + i;
            float d = load(a.d, at);
            sum += d * load(a.up, at);
            store(a.d_up, at, d * value);
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) store(a.d_x, row, sum * slope_of(a.function, a.scalar, gate));
    }
}

void kernel_map_backward(struct CUstream_st *stream, const struct map_args *args)
{
    if (args->repeats == 1) {
        LAUNCH(map_back, *args, blocks_for(args->count, THREADS * CHUNK), THREADS, stream);
    } else {
        LAUNCH(map_rows_back, *args, blocks_for(args->count / args->repeats, 1), THREADS, stream);
    }
}

DEVICE int64_t whole_index(const struct dropout_args *a, int64_t at)
{
    int64_t index = 0, stride = 1;
    for (int i = a->rank - 1; i >= 0; i--) {
        index += (a->first[i] + at % a->sizes[i]) * stride;
        at /= a->sizes[i];
        stride *= a->whole[i];
    }
    return index;
}

// Where several numbers have one byte, the thread of the first writes it.
KERNEL(dropout, struct dropout_args, a)
{
    int64_t count = a.each;
    for (int i = 0; i < a.rank; i++)
        count *= a.sizes[i];
    float factor = (float)(1 / (1 - a.ratio));
    for (int64_t i = INDEX; i < count; i += INDICES) {
        struct split s = {i, 0};
        if (a.each > 1) s = split_of(i, a.each);
        bool stays = a.draws ? random_keeps(key_of(a.key, a.key_at),
                                            (uint64_t)whole_index(&a, s.line), a.ratio)
                             : a.mask[s.line];
        if (a.draws && s.column == 0) a.mask[s.line] = stays;
        store_sum(a.y, i, a.adds, load(a.x, i) * (factor * (float)stays));
    }
}

void kernel_dropout(struct CUstream_st *stream, const struct dropout_args *args)
{
    int64_t count = args->each;
    for (int i = 0; i < args->rank; i++)
        count *= args->sizes[i];
    LAUNCH(dropout, *args, blocks_for(count, THREADS), THREADS, stream);
}
