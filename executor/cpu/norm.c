#include "executor/cpu/array.h"
#include "executor/cpu/sums.h"

#include <math.h>

// Layer norm and RMS norm over the last dims. Backward makes mean and deviation again from x, which
// it reads anyway.

struct norm_moments {
    REAL mean, inverse;  // 1 / standard deviation, or 1 / root mean square
};

static inline __attribute__((always_inline)) struct norm_moments
moments_of(const struct op *op, const REAL *x, int64_t width)
{
    REAL mean = 0;
    if (op->function == FUNCTION_LAYER_NORM) mean = SUM(i, 0, width, x[i]) / (REAL)width;
    REAL squares = SUM(i, 0, width, (x[i] - mean) * (x[i] - mean));
    return (struct norm_moments){mean,
                                 1 / (REAL)sqrt((double)(squares / (REAL)width) + op->scalar)};
}

FAST static void norm_row(const struct op *op, int64_t width, const REAL *x, const REAL *weight,
                          const REAL *bias, REAL *y)
{
    struct norm_moments m = moments_of(op, x, width);
    if (weight && bias) {
        VECTOR for (int64_t i = 0; i < width; i++)
        {
            y[i] = (x[i] - m.mean) * m.inverse * weight[i] + bias[i];
        }
    } else if (weight) {
        VECTOR for (int64_t i = 0; i < width; i++) y[i] = (x[i] - m.mean) * m.inverse * weight[i];
    } else {
        VECTOR for (int64_t i = 0; i < width; i++) y[i] = (x[i] - m.mean) * m.inverse;
    }
}

const char *cpu_norm(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    int64_t width = call_norm_width(call, 0), elements = array_elements(&call->inputs[0]);
    const REAL *x = call->inputs[0].data;
    REAL *y = call->outputs[0].data;
    const REAL *weight = call->input_count > 1 ? call->inputs[1].data : NULL;
    const REAL *bias = call->input_count > 2 ? call->inputs[2].data : NULL;
    for (int64_t i = 0; i < elements; i += width)
        norm_row(call->op, width, x + i, weight, bias, y + i);
    return NULL;
}

// With n = (x - mean) * inverse and g = d_out * weight:
// d_x = inverse * (g - n * mean(g * n) - mean(g), the last for layer norm only).
struct backward {
    const struct op *op;
    int64_t width;
    const REAL *weight;  // NULL where the norm has none
    REAL *d_weight, *d_bias;
};

FAST static void parameters_backward(const struct backward *b, struct norm_moments m, const REAL *d,
                                     const REAL *x)
{
    int64_t width = b->width;
    REAL *d_weight = b->d_weight, *d_bias = b->d_bias;
    if (d_weight) {
        VECTOR for (int64_t i = 0; i < width; i++)
        {
            d_weight[i] += d[i] * (x[i] - m.mean) * m.inverse;
        }
    }
    if (d_bias) {
        VECTOR for (int64_t i = 0; i < width; i++) d_bias[i] += d[i];
    }
}

FAST static void input_backward(const struct backward *b, struct norm_moments m, const REAL *d,
                                const REAL *x, REAL *d_x)
{
    int64_t width = b->width;
    const REAL *weight = b->weight;
    REAL sum_g = SUM(i, 0, width, weight ? d[i] * weight[i] : d[i]);
    REAL sum_gn =
        SUM(i, 0, width, (weight ? d[i] * weight[i] : d[i]) * ((x[i] - m.mean) * m.inverse));
    REAL mean_g = b->op->function == FUNCTION_LAYER_NORM ? sum_g / (REAL)width : 0;
    REAL mean_gn = sum_gn / (REAL)width;
    VECTOR for (int64_t i = 0; i < width; i++)
    {
        REAL n = (x[i] - m.mean) * m.inverse, g = weight ? d[i] * weight[i] : d[i];
        d_x[i] = m.inverse * (g - n * mean_gn - mean_g);
    }
}

FAST static struct norm_moments row_moments(const struct op *op, const REAL *x, int64_t width)
{
    return moments_of(op, x, width);
}

const char *cpu_norm_backward(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct backward backward = {.op = call->op,
                                .width = call_norm_width(call, 1),
                                .weight = call->input_count > 2 ? call->inputs[2].data : NULL};
    if (call->output_count > 1) {
        call_begin_sum(call, 1);
        backward.d_weight = call->outputs[1].data;
    }
    if (call->output_count > 2) {
        call_begin_sum(call, 2);
        backward.d_bias = call->outputs[2].data;
    }
    const REAL *d = call->inputs[0].data, *x = call->inputs[1].data;
    REAL *d_x = call->outputs[0].data;
    int64_t elements = array_elements(&call->inputs[1]);
    for (int64_t i = 0; i < elements; i += backward.width) {
        struct norm_moments m = row_moments(call->op, x + i, backward.width);
        // Parameters first: d_x may take the place of what they read.
        parameters_backward(&backward, m, d + i, x + i);
        input_backward(&backward, m, d + i, x + i, d_x + i);
    }
    return NULL;
}
