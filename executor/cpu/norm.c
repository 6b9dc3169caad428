#include "executor/cpu/array.h"

#include <math.h>

// Layer norm and RMS norm over the last dim. Backward makes mean and deviation again from x, which
// it reads anyway.

struct moments {
    REAL mean, inverse;  // 1 / standard deviation, or 1 / root mean square
};

static inline __attribute__((always_inline)) struct moments moments_of(const struct op *op,
                                                                       const REAL *x, int64_t width)
{
    REAL sum = 0, squares = 0, mean = 0;
    if (op->function == FUNCTION_LAYER_NORM) {
        VECTOR_SUM(sum) for (int64_t i = 0; i < width; i++) sum += x[i];
        mean = sum / (REAL)width;
    }
    VECTOR_SUM(squares) for (int64_t i = 0; i < width; i++)
    {
        squares += (x[i] - mean) * (x[i] - mean);
    }
    return (struct moments){mean, 1 / (REAL)sqrt((double)(squares / (REAL)width) + op->scalar)};
}

FAST static void norm_row(const struct op *op, int64_t width, const REAL *x, const REAL *weight,
                          const REAL *bias, REAL *y)
{
    struct moments m = moments_of(op, x, width);
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
    int64_t width = array_last(&call->inputs[0]), elements = array_elements(&call->inputs[0]);
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

FAST static void norm_row_backward(const struct backward *b, const REAL *d, const REAL *x,
                                   REAL *d_x)
{
    int64_t width = b->width;
    const REAL *weight = b->weight;
    REAL sum_g = 0, sum_gn = 0, *d_weight = b->d_weight, *d_bias = b->d_bias;
    struct moments m = moments_of(b->op, x, width);
    if (d_weight) {
        VECTOR for (int64_t i = 0; i < width; i++)
        {
            d_weight[i] += d[i] * (x[i] - m.mean) * m.inverse;
        }
    }
    if (d_bias) {
        VECTOR for (int64_t i = 0; i < width; i++) d_bias[i] += d[i];
    }
    _Pragma("omp simd reduction(+ : sum_g, sum_gn)") for (int64_t i = 0; i < width; i++)
    {
        REAL g = weight ? d[i] * weight[i] : d[i];
        sum_g += g;
        sum_gn += g * (x[i] - m.mean) * m.inverse;
    }
    REAL mean_g = b->op->function == FUNCTION_LAYER_NORM ? sum_g / (REAL)width : 0;
    REAL mean_gn = sum_gn / (REAL)width;
    VECTOR for (int64_t i = 0; i < width; i++)
    {
        REAL n = (x[i] - m.mean) * m.inverse, g = weight ? d[i] * weight[i] : d[i];
        d_x[i] = m.inverse * (g - n * mean_gn - mean_g);
    }
}

const char *cpu_norm_backward(struct cpu_device *device, const struct kernel_call *call)
{
    (void)device;
    struct backward backward = {.op = call->op,
                                .width = array_last(&call->inputs[1]),
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
        norm_row_backward(&backward, d + i, x + i, d_x + i);
    }
    return NULL;
}
