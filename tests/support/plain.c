#include "tests/support/plain.h"

#include "executor/engine/reals.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

struct run_outcome *plain_trained(struct arena *arena, const char *config, int64_t tokens,
                                  int64_t batch, int steps)
{
    struct run_case of = run_case_new(config, tokens, batch);
    of.steps = steps;
    of.learning_rate = 0.02;
    of.clip_norm = 1e9;
    return run_case_done(arena, &of);
}

double *plain_weight(const struct plain *plain, const char *name, const char *suffix)
{
    const char *key = arena_print(plain->arena, "weight %s.%s %d", name, suffix, plain->position);
    for (int i = 0; i < plain->outcome->tensor_count; i++) {
        if (strcmp(plain->outcome->tensors[i].key, key) == 0)
            return plain->outcome->tensors[i].values;
    }
    fail_msg("%s is not there", key);
    return NULL;
}

double *plain_data(struct arena *arena, const struct graph *graph, uint64_t sample,
                   const char *name, struct tensor tensor)
{
    enum { SEED = 7 };  // of run_case_new
    int64_t count = tensor_elements(&tensor, 1, 1);
    double *values = ARENA_NEW(arena, double, count);
    tensor.name = name;
    for (int64_t e = 0; e < count; e++) {
        int64_t index[TENSOR_RANK_MAX] = {0}, rest = e;
        for (int i = tensor.rank - 1; i >= 0; i--) {
            index[i] = rest % tensor.extents[i].size;
            rest /= tensor.extents[i].size;
        }
        values[e] = reals_at(graph, SEED, sample, &tensor, index);
    }
    return values;
}

double plain_silu(double x)
{
    return x / (1 + exp(-x));
}

double plain_gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

void plain_linear(const struct plain *plain, const char *name, int in, int out, const double *x,
                  double *y)
{
    const double *w = plain_weight(plain, name, "weight"),
                 *bias = plain_weight(plain, name, "bias");
    for (int o = 0; o < out; o++) {
        y[o] = bias[o];
        for (int i = 0; i < in; i++)
            y[o] += x[i] * w[i * out + o];
    }
}

void plain_embed(const struct plain *plain, const char *name, int in, int hidden, const double *x,
                 double (*function)(double x), double *y)
{
    double *inner = ARENA_NEW(plain->arena, double, hidden);
    plain_linear(plain, arena_print(plain->arena, "%s.in", name), in, hidden, x, inner);
    for (int i = 0; i < hidden; i++)
        inner[i] = function(inner[i]);
    plain_linear(plain, arena_print(plain->arena, "%s.out", name), hidden, hidden, inner, y);
}

void plain_adapt(int hidden, const double *x, const double *shift, const double *scale, double *y)
{
    double mean = 0, variance = 0;
    for (int i = 0; i < hidden; i++)
        mean += x[i] / hidden;
    for (int i = 0; i < hidden; i++)
        variance += (x[i] - mean) * (x[i] - mean) / hidden;
    for (int i = 0; i < hidden; i++)
        y[i] = (x[i] - mean) / sqrt(variance + 1e-6) * (1 + scale[i]) + shift[i];
}

void plain_head_norm(int heads, int width, const double *by, double *x)
{
    for (int h = 0; h < heads; h++) {
        double squares = 0;
        for (int i = 0; i < width; i++)
            squares += x[h * width + i] * x[h * width + i] / width;
        for (int i = 0; i < width; i++)
            x[h * width + i] *= by[i] / sqrt(squares + 1e-6);
    }
}

void plain_attend(int heads, int width, int count, const double *query, const double *keys,
                  const double *values, double *y)
{
    enum { KEYS_MOST = 64 };
    assert_true(count <= KEYS_MOST);
    for (int h = 0; h < heads; h++) {
        double scores[KEYS_MOST], sum = 0;
        for (int k = 0; k < count; k++) {
            scores[k] = 0;
            for (int i = h * width; i < (h + 1) * width; i++)
                scores[k] += query[i] * keys[k * heads * width + i] / sqrt(width);
            sum += scores[k] = exp(scores[k]);
        }
        for (int i = h * width; i < (h + 1) * width; i++) {
            y[i] = 0;
            for (int k = 0; k < count; k++)
                y[i] += scores[k] / sum * values[k * heads * width + i];
        }
    }
}

void plain_check_gradients(const struct plain *plain, const struct run_outcome *last,
                           double (*loss)(void *context), void *context, int least)
{
    static const double STEP = 1e-5;
    int checked = 0;
    for (int i = 0; i < last->tensor_count; i++) {
        const struct run_tensor *gradient = &last->tensors[i];
        if (strncmp(gradient->key, "gradient ", 9) != 0) continue;
        const char *key = arena_print(plain->arena, "weight %s", gradient->key + 9);
        double *values = NULL;
        int64_t count = 1;
        for (int d = 0; d < gradient->rank; d++)
            count *= gradient->sizes[d];
        for (int k = 0; k < plain->outcome->tensor_count && !values; k++) {
            if (strcmp(plain->outcome->tensors[k].key, key) == 0)
                values = plain->outcome->tensors[k].values;
        }
        assert_non_null(values);
        int64_t e = checked % 2 ? 0 : count - 1;
        double was = values[e];
        values[e] = was + STEP;
        double above = loss(context);
        values[e] = was - STEP;
        double below = loss(context);
        values[e] = was;
        double slope = (above - below) / (2 * STEP), found = gradient->values[e];
        if (fabs(slope - found) > 1e-8 + 1e-5 * fabs(slope))
            fail_msg("%s, element %lld: %.12g, the loss changes by %.12g", gradient->key,
                     (long long)e, found, slope);
        checked++;
    }
    assert_true(checked > least);
}
