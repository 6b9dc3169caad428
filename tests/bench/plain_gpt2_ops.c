#include "tests/bench/plain_gpt2_parts.h"

#include <math.h>

// The operators, each the loop that its formula says.

enum { TILE = 8 };
static const float NORM_EPSILON = 1e-5F;

void plain_normalise(float *out, float *mean, float *scale, const float *in, const float *weight,
                     const float *bias, int rows, int width)
{
    for (int r = 0; r < rows; r++) {
        const float *x = in + (size_t)r * (size_t)width;
        float *y = out + (size_t)r * (size_t)width, sum = 0, squares = 0;
        for (int i = 0; i < width; i++)
            sum += x[i];
        float m = sum / (float)width;
        for (int i = 0; i < width; i++)
            squares += (x[i] - m) * (x[i] - m);
        float s = 1 / sqrtf(squares / (float)width + NORM_EPSILON);
        for (int i = 0; i < width; i++)
            y[i] = (x[i] - m) * s * weight[i] + bias[i];
        mean[r] = m;
        scale[r] = s;
    }
}

void plain_normalise_back(float *d_in, float *d_weight, float *d_bias, const float *d_out,
                          const float *in, const float *weight, const float *mean,
                          const float *scale, int rows, int width)
{
    for (int r = 0; r < rows; r++) {
        const float *dy = d_out + (size_t)r * (size_t)width, *x = in + (size_t)r * (size_t)width;
        float *dx = d_in + (size_t)r * (size_t)width, first = 0, second = 0;
        for (int i = 0; i < width; i++) {
            float d = weight[i] * dy[i];
            first += d;
            second += d * (x[i] - mean[r]) * scale[r];
        }
        first /= (float)width;
        second /= (float)width;
        for (int i = 0; i < width; i++) {
            float hat = (x[i] - mean[r]) * scale[r];
            d_bias[i] += dy[i];
            d_weight[i] += hat * dy[i];
            dx[i] += (weight[i] * dy[i] - first - hat * second) * scale[r];
        }
    }
}

// out[rows][columns] = in[rows][inner] weight[columns][inner]^T + bias, TILE rows at a time.
void plain_multiply(float *out, const float *in, const float *weight, const float *bias, int rows,
                    int inner, int columns)
{
    for (int r = 0; r < rows; r += TILE) {
        for (int o = 0; o < columns; o++) {
            const float *w = weight + (size_t)o * (size_t)inner;
            float sums[TILE];
            for (int t = 0; t < TILE; t++)
                sums[t] = bias ? bias[o] : 0;
            for (int i = 0; i < inner; i++) {
                for (int t = 0; t < TILE; t++)
                    sums[t] += in[(size_t)(r + t) * (size_t)inner + (size_t)i] * w[i];
            }
            for (int t = 0; t < TILE; t++)
                out[(size_t)(r + t) * (size_t)columns + (size_t)o] = sums[t];
        }
    }
}

void plain_multiply_back(float *d_in, float *d_weight, float *d_bias, const float *d_out,
                         const float *in, const float *weight, int rows, int inner, int columns)
{
    for (int r = 0; r < rows; r++) {
        float *dx = d_in + (size_t)r * (size_t)inner;
        for (int o = 0; o < columns; o++) {
            const float *w = weight + (size_t)o * (size_t)inner;
            float d = d_out[(size_t)r * (size_t)columns + (size_t)o];
            for (int i = 0; i < inner; i++)
                dx[i] += w[i] * d;
        }
    }
    for (int o = 0; o < columns; o++) {
        float *dw = d_weight + (size_t)o * (size_t)inner;
        for (int r = 0; r < rows; r++) {
            const float *x = in + (size_t)r * (size_t)inner;
            float d = d_out[(size_t)r * (size_t)columns + (size_t)o];
            if (d_bias) d_bias[o] += d;
            for (int i = 0; i < inner; i++)
                dw[i] += x[i] * d;
        }
    }
}

// Where one query of one head is, and its rows of scores.
struct query {
    size_t at, row;
    int t;
};

static struct query query_at(const struct plain_shape *shape, int b, int h, int t)
{
    size_t c = (size_t)shape->width, head = c / (size_t)shape->heads, seq = (size_t)shape->seq;
    size_t token = (size_t)b * seq + (size_t)t;
    size_t row = (((size_t)b * (size_t)shape->heads + (size_t)h) * seq + (size_t)t) * seq;
    return (struct query){token * 3 * c + (size_t)h * head, row, t};
}

static void attend_one(const struct plain_shape *shape, const struct kept *k, struct query q,
                       float *out)
{
    size_t c = (size_t)shape->width, seq_stride = 3 * c, first = q.at - (size_t)q.t * seq_stride;
    int head = shape->width / shape->heads;
    float scale = 1 / sqrtf((float)head), most = -1e30F, sum = 0;
    float *scores = k->scores + q.row, *shares = k->shares + q.row;
    for (int t = 0; t <= q.t; t++) {
        const float *key = k->qkv + first + (size_t)t * seq_stride + c;
        float dot = 0;
        for (int i = 0; i < head; i++)
            dot += k->qkv[q.at + (size_t)i] * key[i];
        scores[t] = dot * scale;
        if (scores[t] > most) most = scores[t];
    }
    for (int t = 0; t <= q.t; t++) {
        shares[t] = expf(scores[t] - most);
        sum += shares[t];
    }
    for (int t = 0; t < shape->seq; t++)
        shares[t] = t <= q.t ? shares[t] / sum : 0;
    for (int i = 0; i < head; i++)
        out[i] = 0;
    for (int t = 0; t <= q.t; t++) {
        const float *value = k->qkv + first + (size_t)t * seq_stride + 2 * c;
        for (int i = 0; i < head; i++)
            out[i] += shares[t] * value[i];
    }
}

static void attend_one_back(const struct plain_shape *shape, const struct kept *k,
                            const struct kept *d, struct query q, const float *d_out)
{
    size_t c = (size_t)shape->width, seq_stride = 3 * c, first = q.at - (size_t)q.t * seq_stride;
    int head = shape->width / shape->heads;
    float scale = 1 / sqrtf((float)head);
    const float *shares = k->shares + q.row;
    float *d_scores = d->scores + q.row, *d_shares = d->shares + q.row;
    for (int t = 0; t <= q.t; t++) {
        size_t at = first + (size_t)t * seq_stride + 2 * c;
        for (int i = 0; i < head; i++) {
            d_shares[t] += k->qkv[at + (size_t)i] * d_out[i];
            d->qkv[at + (size_t)i] += shares[t] * d_out[i];
        }
    }
    for (int t = 0; t <= q.t; t++) {
        for (int u = 0; u <= q.t; u++)
            d_scores[u] += shares[t] * ((t == u ? 1.0F : 0.0F) - shares[u]) * d_shares[t];
    }
    for (int t = 0; t <= q.t; t++) {
        size_t key = first + (size_t)t * seq_stride + c;
        for (int i = 0; i < head; i++) {
            d->qkv[q.at + (size_t)i] += k->qkv[key + (size_t)i] * d_scores[t] * scale;
            d->qkv[key + (size_t)i] += k->qkv[q.at + (size_t)i] * d_scores[t] * scale;
        }
    }
}

// Every query of every head; backward where `d` is given.
void plain_attend(const struct plain_shape *shape, const struct kept *k, const struct kept *d)
{
    size_t c = (size_t)shape->width, head = c / (size_t)shape->heads;
    for (int b = 0; b < shape->batch; b++) {
        for (int t = 0; t < shape->seq; t++) {
            for (int h = 0; h < shape->heads; h++) {
                size_t token = (size_t)b * (size_t)shape->seq + (size_t)t;
                size_t at = token * c + (size_t)h * head;
                struct query q = query_at(shape, b, h, t);
                if (d) {
                    attend_one_back(shape, k, d, q, d->mixed + at);
                } else {
                    attend_one(shape, k, q, k->mixed + at);
                }
            }
        }
    }
}

static const float GELU = 0.7978845608F, CUBE = 0.044715F;

void plain_gelu(float *out, const float *in, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x = in[i];
        out[i] = 0.5F * x * (1 + tanhf(GELU * (x + CUBE * x * x * x)));
    }
}

void plain_gelu_back(float *d_in, const float *in, const float *d_out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float x = in[i], inner = GELU * (x + CUBE * x * x * x), hyper = tanhf(inner);
        float cosine = coshf(inner), square = 1 / (cosine * cosine);
        float slope = 0.5F * (1 + hyper) + 0.5F * x * square * GELU * (1 + 3 * CUBE * x * x);
        d_in[i] += slope * d_out[i];
    }
}

void plain_add(float *out, const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

void plain_add_to(float *out, const float *in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] += in[i];
}
