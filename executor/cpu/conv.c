#include "executor/cpu/array.h"
#include "executor/cpu/functions.h"
#include "executor/scan_call.h"

// The causal convolution of each channel along seq with taps of its own, and a function of it: tap
// k of K reads the token K - 1 - k places before. Channels are innermost, so that taps are turned
// to stand outermost. Backward makes what the function was given again.

struct conv {
    int64_t batch, seq, channels, taps;
    const struct op *op;
    const REAL *x, *bias;
    REAL *weight;  // [tap][channel]
};

// Taps outermost (`turned`), or as they are stored.
static void turn(const struct conv *c, const REAL *stored, REAL *turned)
{
    for (int64_t i = 0; i < c->channels; i++) {
        for (int64_t k = 0; k < c->taps; k++)
            turned[k * c->channels + i] = stored[i * c->taps + k];
    }
}

static const char *read_conv(struct cpu_device *device, const struct kernel_call *call,
                             int first_input, struct conv *c)
{
    const struct kernel_array *x = &call->inputs[first_input];
    int bias = first_input + 2;
    *c = (struct conv){.batch = x->sizes[0],
                       .seq = x->sizes[1],
                       .channels = array_row(x),
                       .taps = array_last(x + 1),
                       .op = call->op,
                       .x = x->data,
                       .bias = call->input_count > bias ? call->inputs[bias].data : NULL};
    const char *fault = call_check_conv(call, first_input);
    if (fault) return fault;
    c->weight = cpu_scratch(device, SCRATCH_A, c->taps * c->channels * (int64_t)sizeof(REAL));
    if (!c->weight) return cpu_no_memory(device);
    turn(c, call->inputs[first_input + 1].data, c->weight);
    return NULL;
}

FAST static void add_product(int64_t count, const REAL *a, const REAL *b, REAL *sum)
{
    VECTOR for (int64_t i = 0; i < count; i++) sum[i] += a[i] * b[i];
}

FAST static void add_row(int64_t count, const REAL *a, REAL *sum)
{
    VECTOR for (int64_t i = 0; i < count; i++) sum[i] += a[i];
}

// Of token t of a sequence whose first row is x.
static void convolve(const struct conv *c, const REAL *x, int64_t t, REAL *sum)
{
    size_t bytes = (size_t)c->channels * sizeof(REAL);
    if (c->bias) memcpy(sum, c->bias, bytes);
    if (!c->bias) memset(sum, 0, bytes);
    for (int64_t k = 0; k < c->taps; k++) {
        int64_t from = t - (c->taps - 1) + k;
        if (from >= 0)
            add_product(c->channels, c->weight + k * c->channels, x + from * c->channels, sum);
    }
}

const char *cpu_conv(struct cpu_device *device, const struct kernel_call *call)
{
    struct conv c;
    const char *fault = read_conv(device, call, 0, &c);
    REAL *y = call->outputs[0].data;
    for (int64_t i = 0; i < c.batch * c.seq && !fault; i++) {
        const REAL *x = c.x + i / c.seq * c.seq * c.channels;
        REAL *row = y + i * c.channels;
        convolve(&c, x, i % c.seq, row);
        if (c.op->function == FUNCTION_NONE) continue;
        fault = cpu_function_values(c.op->function, (REAL)c.op->scalar, c.channels, row, row);
    }
    return fault;
}

struct conv_gradients {
    REAL *x, *weight, *bias;  // weight: taps outermost
};

// The gradient of one token's sum goes to the tokens that it reads, the taps and the bias.
static void spread(const struct conv *c, const struct conv_gradients *to, int64_t sequence,
                   int64_t t, const REAL *d_sum)
{
    int64_t first = sequence * c->seq;
    for (int64_t k = 0; k < c->taps; k++) {
        int64_t from = t - (c->taps - 1) + k, row = (first + from) * c->channels;
        if (from < 0) continue;
        add_product(c->channels, c->weight + k * c->channels, d_sum, to->x + row);
        add_product(c->channels, c->x + row, d_sum, to->weight + k * c->channels);
    }
    if (to->bias) add_row(c->channels, d_sum, to->bias);
}

// Adds the gradient of the taps to where they are stored.
static void turn_back(const struct conv *c, const REAL *turned, REAL *stored)
{
    for (int64_t i = 0; i < c->channels; i++) {
        for (int64_t k = 0; k < c->taps; k++)
            stored[i * c->taps + k] += turned[k * c->channels + i];
    }
}

const char *cpu_conv_backward(struct cpu_device *device, const struct kernel_call *call)
{
    struct conv c;
    const char *fault = read_conv(device, call, 1, &c);
    if (fault) return fault;
    int64_t row_bytes = c.channels * (int64_t)sizeof(REAL), taps_bytes = c.taps * row_bytes;
    REAL *d_sum = cpu_scratch(device, SCRATCH_ROWS, row_bytes);
    struct conv_gradients to = {.x = call->outputs[0].data,
                                .weight = cpu_scratch(device, SCRATCH_B, taps_bytes)};
    if (!d_sum || !to.weight) return cpu_no_memory(device);
    memset(to.weight, 0, (size_t)taps_bytes);
    array_zero(&call->outputs[0]);
    for (int output = 1; output < call->output_count; output++)
        call_begin_sum(call, output);
    if (call->output_count > 2) to.bias = call->outputs[2].data;
    const REAL *d_y = call->inputs[0].data;
    for (int64_t i = 0; i < c.batch * c.seq && !fault; i++) {
        const REAL *d = d_y + i * c.channels;
        if (c.op->function != FUNCTION_NONE) {
            convolve(&c, c.x + i / c.seq * c.seq * c.channels, i % c.seq, d_sum);
            fault = cpu_function_slopes(c.op->function, (REAL)c.op->scalar, c.channels, d, d_sum,
                                        d_sum);
            d = d_sum;
        }
        spread(&c, &to, i / c.seq, i % c.seq, d);
    }
    turn_back(&c, to.weight, call->outputs[1].data);
    return fault;
}
