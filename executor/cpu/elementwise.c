#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"
#include "executor/cpu/sums.h"

#include <assert.h>

// Functions of one element, alone or as the gate of f(gate) * up. Each has its value and its slope
// as one expression, from which all of its loops are made.

static const REAL GELU_FACTOR = (REAL)0.7978845608028654;  // sqrt(2 / pi)
static const REAL GELU_CUBIC = (REAL)0.044715;
static const REAL QUICK_GELU_FACTOR = (REAL)1.702;
static const REAL SWIGLU_LIMIT = 7;  // of gpt-oss

// The loops of one function: f(x), f(x) * up, and backward d f'(x), or both gradients of a gate.
struct loops {
    void (*value)(int64_t count, REAL scalar, const REAL *x, REAL *y);
    void (*gated)(int64_t count, REAL scalar, const REAL *x, const REAL *up, REAL *y);
    void (*slope)(int64_t count, REAL scalar, const REAL *d, const REAL *x, REAL *d_x);
    void (*gated_slope)(int64_t count, REAL scalar, const REAL *const in[3], REAL *d_x, REAL *d_up);
};

// x * normal(x), and x times the sigmoid of twice the inner polynomial: 1 + tanh(u) is twice the
// sigmoid of 2u, which keeps its digits where tanh is close to -1.
INLINE REAL gelu(REAL s, REAL x)
{
    (void)s;
    return x * real_normal(x);
}
INLINE REAL gelu_slope(REAL s, REAL x)
{
    (void)s;
    return real_normal(x) + x * (REAL)0.3989422804014327 * real_exp((REAL)-0.5 * x * x);
}
INLINE REAL gelu_tanh(REAL s, REAL x)
{
    (void)s;
    return x * real_sigmoid(2 * GELU_FACTOR * (x + GELU_CUBIC * x * x * x));
}
INLINE REAL gelu_tanh_slope(REAL s, REAL x)
{
    (void)s;
    REAL p = real_sigmoid(2 * GELU_FACTOR * (x + GELU_CUBIC * x * x * x));
    return p + x * p * (1 - p) * 2 * GELU_FACTOR * (1 + 3 * GELU_CUBIC * x * x);
}
INLINE REAL silu(REAL s, REAL x)
{
    (void)s;
    return x * real_sigmoid(x);
}
INLINE REAL silu_slope(REAL s, REAL x)
{
    (void)s;
    REAL p = real_sigmoid(x);
    return p * (1 + x * (1 - p));
}
INLINE REAL relu(REAL s, REAL x)
{
    (void)s;
    return x > 0 ? x : 0;
}
INLINE REAL relu_slope(REAL s, REAL x)
{
    (void)s;
    return x > 0 ? 1 : 0;
}
INLINE REAL relu_squared(REAL s, REAL x)
{
    REAL y = relu(s, x);
    return y * y;
}
INLINE REAL relu_squared_slope(REAL s, REAL x)
{
    return 2 * relu(s, x);
}
INLINE REAL scaled(REAL s, REAL x)
{
    return s * x;
}
INLINE REAL scaled_slope(REAL s, REAL x)
{
    (void)x;
    return s;
}
INLINE REAL softcap(REAL s, REAL x)
{
    return s * real_tanh(x / s);
}
INLINE REAL softcap_slope(REAL s, REAL x)
{
    REAL t = real_tanh(x / s);
    return 1 - t * t;
}
INLINE REAL sigmoid(REAL s, REAL x)
{
    (void)s;
    return real_sigmoid(x);
}
INLINE REAL sigmoid_slope(REAL s, REAL x)
{
    (void)s;
    REAL p = real_sigmoid(x);
    return p * (1 - p);
}

INLINE REAL sigmoid_above(REAL s, REAL x)
{
    return real_sigmoid(x) + s;
}
INLINE REAL sigmoid_above_slope(REAL s, REAL x)
{
    return sigmoid_slope(s, x);
}

INLINE REAL softplus(REAL s, REAL x)
{
    REAL y = real_softplus(x);
    return y > s ? y : s;
}
INLINE REAL softplus_slope(REAL s, REAL x)
{
    return real_softplus(x) > s ? real_sigmoid(x) : 0;
}

INLINE REAL quick_gelu(REAL s, REAL x)
{
    (void)s;
    return x * real_sigmoid(QUICK_GELU_FACTOR * x);
}
INLINE REAL quick_gelu_slope(REAL s, REAL x)
{
    (void)s;
    REAL p = real_sigmoid(QUICK_GELU_FACTOR * x);
    return p * (1 + QUICK_GELU_FACTOR * x * (1 - p));
}
INLINE REAL exponential(REAL s, REAL x)
{
    (void)s;
    return real_exp(x);
}
INLINE REAL exponential_slope(REAL s, REAL x)
{
    (void)s;
    return real_exp(x);
}

INLINE REAL relu_above(REAL s, REAL x)
{
    return x > s ? x - s : 0;
}
INLINE REAL relu_above_slope(REAL s, REAL x)
{
    return x > s ? 1 : 0;
}

INLINE REAL exp_below(REAL s, REAL x)
{
    (void)s;
    REAL low = x < 0 ? x : 0;
    return real_expm1(low) - low;
}
INLINE REAL exp_below_slope(REAL s, REAL x)
{
    (void)s;
    return real_expm1(x < 0 ? x : 0);
}

#define LOOPS(name)                                                                                \
    FAST static void name##_values(int64_t count, REAL s, const REAL *x, REAL *y)                  \
    {                                                                                              \
        VECTOR for (int64_t i = 0; i < count; i++) y[i] = name(s, x[i]);                           \
    }                                                                                              \
    FAST static void name##_gates(int64_t count, REAL s, const REAL *x, const REAL *up, REAL *y)   \
    {                                                                                              \
        VECTOR for (int64_t i = 0; i < count; i++) y[i] = name(s, x[i]) * up[i];                   \
    }                                                                                              \
    FAST static void name##_slopes(int64_t count, REAL s, const REAL *d, const REAL *x, REAL *d_x) \
    {                                                                                              \
        VECTOR for (int64_t i = 0; i < count; i++) d_x[i] = d[i] * name##_slope(s, x[i]);          \
    }                                                                                              \
    FAST static void name##_gate_slopes(int64_t count, REAL s, const REAL *const in[3], REAL *d_x, \
                                        REAL *d_up)                                                \
    {                                                                                              \
        const REAL *d = in[0], *x = in[1], *up = in[2];                                            \
        VECTOR for (int64_t i = 0; i < count; i++)                                                 \
        {                                                                                          \
            REAL gradient = d[i], gate = x[i], other = up[i];                                      \
            d_up[i] = gradient * name(s, gate);                                                    \
            d_x[i] = gradient * other * name##_slope(s, gate);                                     \
        }                                                                                          \
    }
#define ROW(name)                                                      \
    {                                                                  \
        name##_values, name##_gates, name##_slopes, name##_gate_slopes \
    }

LOOPS(gelu)
LOOPS(gelu_tanh)
LOOPS(silu)
LOOPS(relu)
LOOPS(relu_squared)
LOOPS(scaled)
LOOPS(softcap)
LOOPS(sigmoid)
LOOPS(softplus)
LOOPS(quick_gelu)
LOOPS(exponential)
LOOPS(relu_above)
LOOPS(exp_below)
LOOPS(sigmoid_above)

static const struct loops LOOPS_OF[] = {
    [FUNCTION_GELU] = ROW(gelu),           [FUNCTION_GELU_TANH] = ROW(gelu_tanh),
    [FUNCTION_SILU] = ROW(silu),           [FUNCTION_RELU] = ROW(relu),
    [FUNCTION_SCALE] = ROW(scaled),        [FUNCTION_RELU_SQUARED] = ROW(relu_squared),
    [FUNCTION_SOFTCAP] = ROW(softcap),     [FUNCTION_SIGMOID] = ROW(sigmoid),
    [FUNCTION_SOFTPLUS] = ROW(softplus),   [FUNCTION_QUICK_GELU] = ROW(quick_gelu),
    [FUNCTION_EXP] = ROW(exponential),     [FUNCTION_RELU_ABOVE] = ROW(relu_above),
    [FUNCTION_EXP_BELOW] = ROW(exp_below), [FUNCTION_SIGMOID_ABOVE] = ROW(sigmoid_above),
};

static const char NO_KERNEL[] = "no kernel for this element-wise function";

static const struct loops *loops_of(enum function function)
{
    bool is_known = function > 0 && (size_t)function < sizeof LOOPS_OF / sizeof *LOOPS_OF;
    return is_known && LOOPS_OF[function].value ? &LOOPS_OF[function] : NULL;
}

const char *cpu_function_values(enum function function, REAL scalar, int64_t count, const REAL *x,
                                REAL *y)
{
    const struct loops *loops = loops_of(function);
    if (loops) loops->value(count, scalar, x, y);
    return loops ? NULL : NO_KERNEL;
}

const char *cpu_function_slopes(enum function function, REAL scalar, int64_t count, const REAL *d,
                                const REAL *x, REAL *d_x)
{
    const struct loops *loops = loops_of(function);
    if (loops) loops->slope(count, scalar, d, x, d_x);
    return loops ? NULL : NO_KERNEL;
}

// gpt-oss: (up + 1) * g * sigmoid(scalar * g), with g at most the limit and up between it and its
// negative.
FAST static void clamped(int64_t count, REAL s, const REAL *gate, const REAL *up, REAL *y)
{
    VECTOR for (int64_t i = 0; i < count; i++)
    {
        REAL g = gate[i] > SWIGLU_LIMIT ? SWIGLU_LIMIT : gate[i];
        REAL u = up[i] > SWIGLU_LIMIT ? SWIGLU_LIMIT : up[i];
        u = u < -SWIGLU_LIMIT ? -SWIGLU_LIMIT : u;
        y[i] = (u + 1) * g * real_sigmoid(s * g);
    }
}

FAST static void clamped_slopes(int64_t count, REAL s, const REAL *const in[3], REAL *d_gate,
                                REAL *d_up)
{
    const REAL *d = in[0], *gate = in[1], *up = in[2];
    VECTOR for (int64_t i = 0; i < count; i++)
    {
        REAL gradient = d[i], x = gate[i], y = up[i];
        REAL g = x > SWIGLU_LIMIT ? SWIGLU_LIMIT : x, u = y > SWIGLU_LIMIT ? SWIGLU_LIMIT : y;
        u = u < -SWIGLU_LIMIT ? -SWIGLU_LIMIT : u;
        REAL p = real_sigmoid(s * g), slope = (u + 1) * p * (1 + s * g * (1 - p));
        d_gate[i] = x < SWIGLU_LIMIT ? gradient * slope : 0;
        d_up[i] = y < SWIGLU_LIMIT && y > -SWIGLU_LIMIT ? gradient * g * p : 0;
    }
}

// silu(g) * up, with g at most the scalar and up between it and its negative.
FAST static void clamped_silu(int64_t count, REAL s, const REAL *gate, const REAL *up, REAL *y)
{
    VECTOR for (int64_t i = 0; i < count; i++)
    {
        REAL g = gate[i] > s ? s : gate[i], u = up[i] > s ? s : up[i];
        y[i] = silu(s, g) * (u < -s ? -s : u);
    }
}

FAST static void clamped_silu_slopes(int64_t count, REAL s, const REAL *const in[3], REAL *d_gate,
                                     REAL *d_up)
{
    const REAL *d = in[0], *gate = in[1], *up = in[2];
    VECTOR for (int64_t i = 0; i < count; i++)
    {
        REAL gradient = d[i], x = gate[i], y = up[i];
        REAL g = x > s ? s : x, u = y > s ? s : y;
        u = u < -s ? -s : u;
        d_gate[i] = x < s ? gradient * u * silu_slope(s, g) : 0;
        d_up[i] = y < s && y > -s ? gradient * silu(s, g) : 0;
    }
}

static bool is_clamped(enum function function)
{
    return function == FUNCTION_CLAMPED_SWIGLU || function == FUNCTION_CLAMPED_SILU;
}

static void run_clamped(const struct kernel_call *call)
{
    REAL scalar = (REAL)call->op->scalar;
    int64_t count = array_elements(&call->outputs[0]);
    bool is_silu = call->op->function == FUNCTION_CLAMPED_SILU;
    if (call->op->phase == PHASE_FORWARD) {
        const REAL *gate = call->inputs[0].data, *up = call->inputs[1].data;
        (is_silu ? clamped_silu : clamped)(count, scalar, gate, up, call->outputs[0].data);
        return;
    }
    const REAL *in[3] = {call->inputs[0].data, call->inputs[1].data, call->inputs[2].data};
    REAL *d_gate = call->outputs[0].data, *d_up = call->outputs[1].data;
    (is_silu ? clamped_silu_slopes : clamped_slopes)(count, scalar, in, d_gate, d_up);
}

// A gate that lacks the last dims is repeated over them: one value for `repeats` neighbours.
FAST static void gate_rows(const struct loops *loops, REAL scalar, int64_t rows, int64_t repeats,
                           const REAL *gate, const REAL *up, REAL *y)
{
    assert(rows >= 0 && repeats > 0 && "a gate lacks the last dims");
    for (int64_t row = 0; row < rows; row++, up += repeats, y += repeats) {
        REAL value;
        loops->value(1, scalar, gate + row, &value);
        VECTOR for (int64_t i = 0; i < repeats; i++) y[i] = value * up[i];
    }
}

FAST static void gate_rows_backward(const struct loops *loops, REAL scalar, int64_t rows,
                                    int64_t repeats, const REAL *const in[3], REAL *d_gate,
                                    REAL *d_up)
{
    const REAL *d = in[0], *up = in[2];
    for (int64_t row = 0; row < rows; row++, up += repeats, d += repeats, d_up += repeats) {
        REAL value, sum = SUM(i, 0, repeats, d[i] * up[i]);
        loops->value(1, scalar, in[1] + row, &value);
        loops->slope(1, scalar, &sum, in[1] + row, d_gate + row);
        VECTOR for (int64_t i = 0; i < repeats; i++) d_up[i] = d[i] * value;
    }
}

static void run_forward(const struct kernel_call *call, const struct loops *loops)
{
    assert(call->op->phase == PHASE_FORWARD && call->output_count == 1);
    REAL scalar = (REAL)call->op->scalar;
    const REAL *x = call->inputs[0].data, *up = call->inputs[1].data;
    REAL *y = call->outputs[0].data;
    int64_t count = array_elements(&call->outputs[0]), gates = array_elements(&call->inputs[0]);
    if (call->input_count == 1) {
        loops->value(count, scalar, x, y);
    } else if (gates == count) {
        loops->gated(count, scalar, x, up, y);
    } else {
        gate_rows(loops, scalar, gates, count / gates, x, up, y);
    }
}

static void run_backward(const struct kernel_call *call, const struct loops *loops)
{
    assert(call->op->phase != PHASE_FORWARD && call->output_count <= 2);
    REAL scalar = (REAL)call->op->scalar, *d_x = call->outputs[0].data;
    const REAL *in[3] = {call->inputs[0].data, call->inputs[1].data, call->inputs[2].data};
    int64_t count = array_elements(&call->inputs[0]), gates = array_elements(&call->outputs[0]);
    if (call->output_count == 1) {
        // A linear function has no forward input; its slope is the same everywhere.
        loops->slope(count, scalar, in[0], call->input_count > 1 ? in[1] : in[0], d_x);
    } else if (gates == count) {
        loops->gated_slope(count, scalar, in, d_x, call->outputs[1].data);
    } else {
        gate_rows_backward(loops, scalar, gates, count / gates, in, d_x, call->outputs[1].data);
    }
}

const char *cpu_elementwise(struct cpu_device *device, const struct kernel_call *call)
{
    enum function function = call->op->function;
    if (function_is_rope(function)) return cpu_rope(device, call);
    if (function == FUNCTION_ALIBI) return cpu_alibi(device, call);
    if (function == FUNCTION_MODULATE) return cpu_modulate(device, call);
    bool is_empty = array_elements(&call->outputs[0]) == 0 || array_elements(&call->inputs[0]) == 0;
    if (is_clamped(function)) {
        if (!is_empty) run_clamped(call);
        return NULL;
    }
    const struct loops *loops = loops_of(function);
    if (!loops) return NO_KERNEL;
    // A gate that nothing was gated with has no gradient.
    if (is_empty && call->output_count == 2) array_zero(&call->outputs[0]);
    if (is_empty) return NULL;
    if (call->op->phase == PHASE_FORWARD) {
        run_forward(call, loops);
    } else {
        run_backward(call, loops);
    }
    return NULL;
}
