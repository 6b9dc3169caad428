#include "tests/bench/plain_gpt2.h"

#include "tests/bench/plain_gpt2_parts.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WIDER = 4 };
static const float BETA1 = 0.9F, BETA2 = 0.95F, EPSILON = 1e-8F, WEIGHT_DECAY = 0.1F;

struct plain_gpt2 {
    struct plain_shape shape;
    size_t count;
    int step;
    struct weights weights, gradients;
    float *moments[2];
    float *embedded, *norm, *mean, *scale, *logits, *losses;
    float *d_embedded, *d_norm, *d_logits;
    struct kept *kept;
    struct kept back;
    float *memory;
};

// Hands out parts of one array; with a NULL array only counts.
struct cutter {
    float *array;
    size_t used;
};

static float *cut(struct cutter *cutter, size_t count)
{
    float *part = cutter->array ? cutter->array + cutter->used : NULL;
    cutter->used += count;
    return part;
}

static void cut_weights(struct weights *to, struct cutter *from, const struct plain_shape *shape)
{
    size_t c = (size_t)shape->width, w = WIDER * c;
    to->all = from->array;
    to->tokens = cut(from, (size_t)shape->vocab * c);
    to->positions = cut(from, (size_t)shape->positions * c);
    for (int l = 0; l < shape->layers; l++) {
        to->layers[l] = (struct gpt2_layer){
            cut(from, c),     cut(from, c), cut(from, 3 * c * c), cut(from, 3 * c),
            cut(from, c * c), cut(from, c), cut(from, c),         cut(from, c),
            cut(from, w * c), cut(from, w), cut(from, w * c),     cut(from, c)};
    }
    to->norm = cut(from, c);
    to->norm_bias = cut(from, c);
}

static void cut_kept(struct kept *to, struct cutter *from, const struct plain_shape *shape)
{
    size_t c = (size_t)shape->width, n = (size_t)shape->batch * (size_t)shape->seq;
    size_t pairs = n * (size_t)shape->heads * (size_t)shape->seq;
    *to = (struct kept){
        cut(from, n * c),     cut(from, n),         cut(from, n),     cut(from, n * 3 * c),
        cut(from, pairs),     cut(from, pairs),     cut(from, n * c), cut(from, n * c),
        cut(from, n * c),     cut(from, n * c),     cut(from, n),     cut(from, n),
        cut(from, n * 4 * c), cut(from, n * 4 * c), cut(from, n * c), cut(from, n * c)};
}

static void cut_rest(struct plain_gpt2 *model, struct cutter *from)
{
    const struct plain_shape *shape = &model->shape;
    size_t n = (size_t)shape->batch * (size_t)shape->seq, c = (size_t)shape->width;
    for (int i = 0; i < 2; i++)
        model->moments[i] = cut(from, model->count);
    model->embedded = cut(from, n * c);
    model->norm = cut(from, n * c);
    model->mean = cut(from, n);
    model->scale = cut(from, n);
    model->logits = cut(from, n * (size_t)shape->vocab);
    model->losses = cut(from, n);
    for (int l = 0; l < shape->layers; l++)
        cut_kept(&model->kept[l], from, shape);
    cut_kept(&model->back, from, shape);
    model->d_embedded = cut(from, n * c);
    model->d_norm = cut(from, n * c);
    model->d_logits = cut(from, n * (size_t)shape->vocab);
}

static void cut_all(struct plain_gpt2 *model, struct cutter *from)
{
    cut_weights(&model->weights, from, &model->shape);
    model->count = from->used;
    struct cutter rest = {from->array ? from->array + model->count : NULL, 0};
    cut_weights(&model->gradients, &rest, &model->shape);
    from->used += rest.used;
    cut_rest(model, from);
}

// A sum of four uniform numbers is near enough to a normal one here.
static void draw(float *to, size_t count, float deviation, uint64_t *state)
{
    for (size_t i = 0; i < count; i++) {
        float sum = -2;
        for (int k = 0; k < 4; k++) {
            *state = *state * 6364136223846793005u + 1442695040888963407u;
            sum += (float)(*state >> 40) * 0x1p-24F;
        }
        to[i] = sum * deviation * 1.7320508F;
    }
}

static void fill(float *to, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        to[i] = value;
}

static void draw_weights(struct plain_gpt2 *model)
{
    const struct plain_shape *shape = &model->shape;
    struct weights *w = &model->weights;
    size_t c = (size_t)shape->width;
    uint64_t state = 42;
    float residual = 0.02F / sqrtf(2.0F * (float)shape->layers);
    draw(w->tokens, (size_t)shape->vocab * c, 0.02F, &state);
    draw(w->positions, (size_t)shape->positions * c, 0.02F, &state);
    for (int l = 0; l < shape->layers; l++) {
        const struct gpt2_layer *layer = &w->layers[l];
        fill(layer->norm1, c, 1);
        fill(layer->norm2, c, 1);
        draw(layer->qkv, 3 * c * c, 0.02F, &state);
        draw(layer->out, c * c, residual, &state);
        draw(layer->up, WIDER * c * c, 0.02F, &state);
        draw(layer->down, WIDER * c * c, residual, &state);
    }
    fill(w->norm, c, 1);
}

struct plain_gpt2 *plain_gpt2_new(const struct plain_shape *shape)
{
    struct plain_gpt2 *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    size_t layers = (size_t)shape->layers;
    struct cutter counting = {NULL, 0};
    model->shape = *shape;
    model->weights.layers = calloc(layers, sizeof(struct gpt2_layer));
    model->gradients.layers = calloc(layers, sizeof(struct gpt2_layer));
    model->kept = calloc(layers, sizeof(struct kept));
    if (model->weights.layers && model->gradients.layers && model->kept) {
        cut_all(model, &counting);
        model->memory = calloc(counting.used, sizeof(float));
    }
    if (!model->memory) {
        plain_gpt2_free(model);
        return NULL;
    }
    struct cutter cutter = {model->memory, 0};
    cut_all(model, &cutter);
    draw_weights(model);
    return model;
}

void plain_gpt2_free(struct plain_gpt2 *model)
{
    if (!model) return;
    free(model->weights.layers);
    free(model->gradients.layers);
    free(model->kept);
    free(model->memory);
    free(model);
}

static void layer_forward(const struct plain_shape *shape, const struct gpt2_layer *w,
                          struct kept *k, const float *in)
{
    int n = shape->batch * shape->seq, c = shape->width;
    size_t size = (size_t)n * (size_t)c;
    plain_normalise(k->norm1, k->mean1, k->scale1, in, w->norm1, w->norm1_bias, n, c);
    plain_multiply(k->qkv, k->norm1, w->qkv, w->qkv_bias, n, c, 3 * c);
    plain_attend(shape, k, NULL);
    plain_multiply(k->attended, k->mixed, w->out, w->out_bias, n, c, c);
    plain_add(k->middle, in, k->attended, size);
    plain_normalise(k->norm2, k->mean2, k->scale2, k->middle, w->norm2, w->norm2_bias, n, c);
    plain_multiply(k->up, k->norm2, w->up, w->up_bias, n, c, WIDER * c);
    plain_gelu(k->active, k->up, WIDER * size);
    plain_multiply(k->down, k->active, w->down, w->down_bias, n, WIDER * c, c);
    plain_add(k->result, k->middle, k->down, size);
}

// d->result comes in; the gradient of the layer's input is added to d_in.
static void layer_back(struct plain_gpt2 *model, int l, const float *in, float *d_in)
{
    const struct plain_shape *shape = &model->shape;
    const struct gpt2_layer *w = &model->weights.layers[l], *g = &model->gradients.layers[l];
    const struct kept *k = &model->kept[l], *d = &model->back;
    int n = shape->batch * shape->seq, c = shape->width;
    size_t size = (size_t)n * (size_t)c;
    plain_add_to(d->middle, d->result, size);
    plain_add_to(d->down, d->result, size);
    plain_multiply_back(d->active, g->down, g->down_bias, d->down, k->active, w->down, n, WIDER * c,
                        c);
    plain_gelu_back(d->up, k->up, d->active, WIDER * size);
    plain_multiply_back(d->norm2, g->up, g->up_bias, d->up, k->norm2, w->up, n, c, WIDER * c);
    plain_normalise_back(d->middle, g->norm2, g->norm2_bias, d->norm2, k->middle, w->norm2,
                         k->mean2, k->scale2, n, c);
    plain_add_to(d_in, d->middle, size);
    plain_add_to(d->attended, d->middle, size);
    plain_multiply_back(d->mixed, g->out, g->out_bias, d->attended, k->mixed, w->out, n, c, c);
    plain_attend(shape, k, d);
    plain_multiply_back(d->norm1, g->qkv, g->qkv_bias, d->qkv, k->norm1, w->qkv, n, c, 3 * c);
    plain_normalise_back(d_in, g->norm1, g->norm1_bias, d->norm1, in, w->norm1, k->mean1, k->scale1,
                         n, c);
}

// Losses, and in the logits' place the gradient of their mean.
static float take_loss(struct plain_gpt2 *model, const int *labels)
{
    int n = model->shape.batch * model->shape.seq, vocab = model->shape.vocab;
    float total = 0;
    for (int r = 0; r < n; r++) {
        const float *row = model->logits + (size_t)r * (size_t)vocab;
        float *d = model->d_logits + (size_t)r * (size_t)vocab, most = row[0], sum = 0;
        for (int i = 1; i < vocab; i++)
            most = row[i] > most ? row[i] : most;
        for (int i = 0; i < vocab; i++) {
            d[i] = expf(row[i] - most);
            sum += d[i];
        }
        model->losses[r] = -logf(d[labels[r]] / sum);
        total += model->losses[r];
        for (int i = 0; i < vocab; i++)
            d[i] = (d[i] / sum - (i == labels[r] ? 1.0F : 0.0F)) / (float)n;
    }
    return total / (float)n;
}

static void embed(struct plain_gpt2 *model, const int *tokens)
{
    size_t c = (size_t)model->shape.width, seq = (size_t)model->shape.seq;
    for (size_t r = 0; r < (size_t)model->shape.batch * seq; r++)
        plain_add(model->embedded + r * c, model->weights.tokens + (size_t)tokens[r] * c,
                  model->weights.positions + r % seq * c, c);
}

static void embed_back(struct plain_gpt2 *model, const int *tokens)
{
    size_t c = (size_t)model->shape.width, seq = (size_t)model->shape.seq;
    for (size_t r = 0; r < (size_t)model->shape.batch * seq; r++) {
        const float *d = model->d_embedded + r * c;
        plain_add_to(model->gradients.tokens + (size_t)tokens[r] * c, d, c);
        plain_add_to(model->gradients.positions + r % seq * c, d, c);
    }
}

static void update(struct plain_gpt2 *model, float learning_rate)
{
    model->step++;
    float first_scale = 1 / (1 - powf(BETA1, (float)model->step));
    float second_scale = 1 / (1 - powf(BETA2, (float)model->step));
    for (size_t i = 0; i < model->count; i++) {
        float g = model->gradients.all[i], w = model->weights.all[i];
        float m = BETA1 * model->moments[0][i] + (1 - BETA1) * g;
        float v = BETA2 * model->moments[1][i] + (1 - BETA2) * g * g;
        model->moments[0][i] = m;
        model->moments[1][i] = v;
        m *= first_scale;
        v *= second_scale;
        model->weights.all[i] = w - learning_rate * (m / (sqrtf(v) + EPSILON) + WEIGHT_DECAY * w);
    }
}

static void clear(float *from, size_t count)
{
    memset(from, 0, count * sizeof *from);
}

static void forward(struct plain_gpt2 *model, const int *tokens)
{
    const struct plain_shape *shape = &model->shape;
    int n = shape->batch * shape->seq, c = shape->width;
    const float *in = model->embedded;
    embed(model, tokens);
    for (int l = 0; l < shape->layers; l++) {
        layer_forward(shape, &model->weights.layers[l], &model->kept[l], in);
        in = model->kept[l].result;
    }
    plain_normalise(model->norm, model->mean, model->scale, in, model->weights.norm,
                    model->weights.norm_bias, n, c);
    plain_multiply(model->logits, model->norm, model->weights.tokens, NULL, n, c, shape->vocab);
}

static void backward(struct plain_gpt2 *model, const int *tokens)
{
    const struct plain_shape *shape = &model->shape;
    const struct weights *w = &model->weights, *g = &model->gradients;
    int n = shape->batch * shape->seq, c = shape->width;
    size_t size = (size_t)n * (size_t)c;
    size_t back = (size_t)(model->back.result - model->back.norm1) + size;
    clear(model->d_norm, size);
    clear(model->d_embedded, size);
    plain_multiply_back(model->d_norm, g->tokens, NULL, model->d_logits, model->norm, w->tokens, n,
                        c, shape->vocab);
    plain_normalise_back(model->d_embedded, g->norm, g->norm_bias, model->d_norm,
                         model->kept[shape->layers - 1].result, w->norm, model->mean, model->scale,
                         n, c);
    for (int l = shape->layers - 1; l >= 0; l--) {
        clear(model->back.norm1, back);
        memcpy(model->back.result, model->d_embedded, size * sizeof(float));
        clear(model->d_embedded, size);
        layer_back(model, l, l > 0 ? model->kept[l - 1].result : model->embedded,
                   model->d_embedded);
    }
    embed_back(model, tokens);
}

float plain_gpt2_step(struct plain_gpt2 *model, const int *tokens, const int *labels,
                      float learning_rate)
{
    clear(model->gradients.all, model->count);
    forward(model, tokens);
    float loss = take_loss(model, labels);
    backward(model, tokens);
    update(model, learning_rate);
    return loss;
}
