#include "executor/cpu/cpu.h"
#include "executor/cpu/sums.h"
#include "executor/cpu/vector.h"

#include <assert.h>
#include <math.h>

// Optimizers, one pass over the memory each: bound by it.

struct adam {
    REAL rate, beta1, beta2, epsilon, decay, scale;
    REAL correction1, correction2;  // 1 / (1 - beta^step)
};

static struct adam adam_of(const struct update_call *call)
{
    double step = (double)call->step;
    return (struct adam){.rate = (REAL)call->learning_rate,
                         .beta1 = (REAL)call->beta1,
                         .beta2 = (REAL)call->beta2,
                         .epsilon = (REAL)call->epsilon,
                         .decay = (REAL)call->weight_decay,
                         .scale = (REAL)call->gradient_scale,
                         .correction1 = (REAL)(1 / (1 - pow(call->beta1, step))),
                         .correction2 = (REAL)(1 / (1 - pow(call->beta2, step)))};
}

// Kingma and Ba 2015, algorithm 1: moves both moments by gradient g and returns the step.
static inline __attribute__((always_inline)) REAL moments_step(const struct adam *a, REAL g,
                                                               REAL *m, REAL *v)
{
    *m = a->beta1 * *m + (1 - a->beta1) * g;
    *v = a->beta2 * *v + (1 - a->beta2) * g * g;
    REAL root = sizeof(REAL) == 4 ? (REAL)sqrtf((float)(*v * a->correction2))
                                  : (REAL)sqrt((double)(*v * a->correction2));
    return *m * a->correction1 / (root + a->epsilon);
}

// Decay apart from the gradient (Loshchilov and Hutter 2019, algorithm 2).
FAST static void adamw(int64_t count, struct adam a, REAL *w, const REAL *g, REAL *m, REAL *v)
{
    VECTOR for (int64_t i = 0; i < count; i++)
    {
        REAL step = moments_step(&a, g[i] * a.scale, &m[i], &v[i]);
        w[i] -= a.rate * (step + a.decay * w[i]);
    }
}

FAST static void adam(int64_t count, struct adam a, REAL *w, const REAL *g, REAL *m, REAL *v)
{
    VECTOR for (int64_t i = 0; i < count; i++)
    {
        w[i] -= a.rate * moments_step(&a, g[i] * a.scale + a.decay * w[i], &m[i], &v[i]);
    }
}

// You et al. 2020, algorithm 2: the step that the ratio of norms then scales.
FAST static void lamb(int64_t count, struct adam a, const REAL *w, const REAL *g, REAL *m, REAL *v,
                      REAL *direction)
{
    VECTOR for (int64_t i = 0; i < count; i++)
    {
        direction[i] = moments_step(&a, g[i] * a.scale, &m[i], &v[i]) + a.decay * w[i];
    }
}

FAST static void descend(int64_t count, REAL rate, REAL *w, const REAL *direction)
{
    VECTOR for (int64_t i = 0; i < count; i++) w[i] -= rate * direction[i];
}

// Momentum as Sutskever et al. 2013 without dampening: the buffer begins as the first gradient.
FAST static void descend_with(int64_t count, REAL rate, REAL momentum, REAL factor, REAL *w,
                              const REAL *direction, REAL *buffer)
{
    VECTOR for (int64_t i = 0; i < count; i++)
    {
        buffer[i] = momentum * buffer[i] + factor * direction[i];
        w[i] -= rate * buffer[i];
    }
}

FAST static void sgd(int64_t count, struct adam a, REAL momentum, REAL *w, const REAL *g,
                     REAL *buffer)
{
    if (!buffer) {
        VECTOR for (int64_t i = 0; i < count; i++)
        {
            w[i] -= a.rate * (g[i] * a.scale + a.decay * w[i]);
        }
        return;
    }
    VECTOR for (int64_t i = 0; i < count; i++)
    {
        buffer[i] = momentum * buffer[i] + (g[i] * a.scale + a.decay * w[i]);
        w[i] -= a.rate * buffer[i];
    }
}

FAST static void decayed(int64_t count, struct adam a, const REAL *w, const REAL *g,
                         REAL *direction)
{
    VECTOR for (int64_t i = 0; i < count; i++) direction[i] = g[i] * a.scale + a.decay * w[i];
}

// LAMB: w -= rate * ratio * direction. LARS (You et al. 2017, algorithm 1): the ratio is inside the
// momentum, whose buffer so has the rate of its time.
static const char *update_in_parts(const struct update_call *call)
{
    assert(call->count >= 0);
    struct adam a = adam_of(call);
    bool is_lamb = call->optimizer == OPTIMIZER_LAMB;
    if (call->part == UPDATE_ALL) return "LAMB and LARS update in two parts";
    if (!call->direction) return "LAMB and LARS need room for the direction";
    if (call->part == UPDATE_DIRECTION && is_lamb) {
        lamb(call->count, a, call->weights, call->gradients, call->first_moments,
             call->second_moments, call->direction);
    } else if (call->part == UPDATE_DIRECTION) {
        decayed(call->count, a, call->weights, call->gradients, call->direction);
    } else if (is_lamb || !call->first_moments) {
        descend(call->count, (REAL)(call->learning_rate * call->trust_ratio), call->weights,
                call->direction);
    } else {
        descend_with(call->count, 1, (REAL)call->momentum,
                     (REAL)(call->learning_rate * call->trust_ratio), call->weights,
                     call->direction, call->first_moments);
    }
    return NULL;
}

const char *cpu_update(struct device *device, enum stream stream, const struct update_call *call)
{
    (void)device;
    (void)stream;
    struct adam a = adam_of(call);
    bool has_moments = call->first_moments && call->second_moments;
    switch (call->optimizer) {
    case OPTIMIZER_ADAMW:
    case OPTIMIZER_ADAM:
        if (!has_moments) return "Adam needs two moments";
        (call->optimizer == OPTIMIZER_ADAMW ? adamw : adam)(call->count, a, call->weights,
                                                            call->gradients, call->first_moments,
                                                            call->second_moments);
        return NULL;
    case OPTIMIZER_SGD:
        sgd(call->count, a, (REAL)call->momentum, call->weights, call->gradients,
            call->first_moments);
        return NULL;
    case OPTIMIZER_LAMB:
        if (!has_moments) return "LAMB needs two moments";
        return update_in_parts(call);
    case OPTIMIZER_LARS:
        return update_in_parts(call);
    default:
        return "no such optimizer";
    }
}

FAST static double sum_block(int64_t count, const REAL *x)
{
    return SUM_AS(double, i, 0, count, (double)x[i] * (double)x[i]);
}

// Halves down to blocks of a fixed size: the order depends on the count alone.
static double sum_pairwise(const REAL *x, int64_t count)
{
    enum { BLOCK = 1024 };
    if (count <= BLOCK) return sum_block(count, x);
    int64_t half = (count / 2 + BLOCK - 1) / BLOCK * BLOCK;
    return sum_pairwise(x, half) + sum_pairwise(x + half, count - half);
}

const char *cpu_sum_squares(struct device *device, enum stream stream, const void *reals,
                            int64_t count, double *sum)
{
    assert(count >= 0);
    (void)device;
    (void)stream;
    *sum += sum_pairwise(reals, count);
    return NULL;
}

const char *cpu_scale(struct device *device, enum stream stream, void *reals, int64_t count,
                      double factor)
{
    (void)device;
    (void)stream;
    vector_scale(count, (REAL)factor, reals);
    return NULL;
}
