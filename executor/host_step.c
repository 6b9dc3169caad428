#include "executor/host_step.h"

#include <math.h>

struct step {
    float rate, beta1, beta2, epsilon, decay, scale, momentum;
    float correction1, correction2;  // 1 / (1 - beta^step)
};

static struct step step_of(const struct update_call *call)
{
    double steps = (double)call->step;
    return (struct step){.rate = (float)call->learning_rate,
                         .beta1 = (float)call->beta1,
                         .beta2 = (float)call->beta2,
                         .epsilon = (float)call->epsilon,
                         .decay = (float)call->weight_decay,
                         .scale = (float)call->gradient_scale,
                         .momentum = (float)call->momentum,
                         .correction1 = (float)(1 / (1 - pow(call->beta1, steps))),
                         .correction2 = (float)(1 / (1 - pow(call->beta2, steps)))};
}

// Kingma and Ba 2015, algorithm 1; AdamW decays apart from the gradient (Loshchilov and Hutter
// 2019, algorithm 2).
static void adam(const struct update_call *call, const struct step *s)
{
    float *restrict w = call->weights, *restrict m = call->first_moments;
    float *restrict v = call->second_moments;
    const float *restrict g = call->gradients;
    float inside = call->optimizer == OPTIMIZER_ADAM ? s->decay : 0, apart = s->decay - inside;
    for (int64_t i = 0; i < call->count; i++) {
        float x = g[i] * s->scale + inside * w[i];
        m[i] = s->beta1 * m[i] + (1 - s->beta1) * x;
        v[i] = s->beta2 * v[i] + (1 - s->beta2) * x * x;
        float moved = m[i] * s->correction1 / (sqrtf(v[i] * s->correction2) + s->epsilon);
        w[i] -= s->rate * (moved + apart * w[i]);
    }
}

static void sgd(const struct update_call *call, const struct step *s)
{
    float *restrict w = call->weights, *restrict buffer = call->first_moments;
    const float *restrict g = call->gradients;
    for (int64_t i = 0; i < call->count; i++) {
        float x = g[i] * s->scale + s->decay * w[i];
        if (buffer) x = buffer[i] = s->momentum * buffer[i] + x;
        w[i] -= s->rate * x;
    }
}

const char *host_step(const struct update_call *call, enum number number)
{
    const struct step step = step_of(call);
    switch (call->optimizer) {
    case OPTIMIZER_ADAMW:
    case OPTIMIZER_ADAM:
        if (!call->first_moments || !call->second_moments) return "Adam needs two moments";
        adam(call, &step);
        break;
    case OPTIMIZER_SGD:
        sgd(call, &step);
        break;
    default:
        return "the host updates by SGD, Adam and AdamW only";
    }
    const float *weights = call->weights;
    for (int64_t i = 0; i < call->count && call->rounded; i++)
        number_put(number, call->rounded, i, (double)weights[i]);
    return NULL;
}
