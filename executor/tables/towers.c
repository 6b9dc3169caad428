#include "executor/tables/parts.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static double *reals(struct arena *arena, int64_t rows, int64_t columns)
{
    return ARENA_NEW(arena, double, rows *columns + 1);
}

struct towers towers_make(struct arena *arena, const struct recommender *model, int64_t samples,
                          const struct table_data *data)
{
    struct towers towers = {.model = model, .samples = samples};
    int64_t joined = recommender_joined_width(model), top = recommender_top_inputs(model);
    int64_t rows = model->table_count * recommender_row_width(model), widest = most(joined, top);
    assert(samples > 0);
    towers.layer_count = recommender_layers(model, towers.layers);
    for (int l = 0; l < towers.layer_count; l++) {
        const struct dense_layer *layer = &towers.layers[l];
        towers.first[l] = towers.parameter_count;
        towers.parameter_count += (layer->inputs + layer->has_bias) * layer->outputs;
        towers.inputs[l] = reals(arena, samples, layer->inputs);
        towers.outputs[l] = reals(arena, samples, layer->outputs);
        widest = most(widest, most(layer->inputs, layer->outputs));
    }
    assert(towers.parameter_count == recommender_dense_parameters(model));
    assert(towers.layers[towers.layer_count - 1].outputs == 1 && "the last layer gives the logit");
    towers.parameters = reals(arena, towers.parameter_count, 1);
    towers.gradients = reals(arena, towers.parameter_count, 1);
    towers.state = reals(arena, towers.parameter_count, 1);
    for (int l = 0; l < towers.layer_count; l++) {
        const struct dense_layer *layer = &towers.layers[l];
        for (int64_t i = 0; i < layer->inputs * layer->outputs; i++)
            towers.parameters[towers.first[l] + i] = table_data_dense(data, l, i, layer->inputs);
    }
    towers.features = reals(arena, samples, model->dense_features);
    towers.joined = reals(arena, samples, joined);
    towers.d_joined = reals(arena, samples, joined);
    towers.d_cross = reals(arena, samples, joined);
    towers.top_inputs = reals(arena, samples, top);
    towers.d_top_inputs = reals(arena, samples, top);
    towers.sums = reals(arena, samples, rows);
    towers.d_sums = reals(arena, samples, rows);
    towers.logits = reals(arena, samples, 1);
    towers.labels = reals(arena, samples, 1);
    towers.flow[0] = reals(arena, samples, widest);
    towers.flow[1] = reals(arena, samples, widest);
    return towers;
}

// ReLU behind every layer of the towers but the last, whose result is the logit.
static bool is_activated(const struct towers *towers, int l)
{
    return towers->layers[l].part != DENSE_CROSS && l != towers->layer_count - 1;
}

// outputs = inputs W^T + b, and of towers what is positive of it.
static void forward(struct towers *towers, int l, const double *inputs)
{
    const struct dense_layer *layer = &towers->layers[l];
    const double *weights = towers->parameters + towers->first[l];
    const double *bias = weights + layer->inputs * layer->outputs;
    memcpy(towers->inputs[l], inputs, (size_t)(towers->samples * layer->inputs) * sizeof *inputs);
    for (int64_t s = 0; s < towers->samples; s++) {
        const double *x = inputs + s * layer->inputs;
        for (int64_t o = 0; o < layer->outputs; o++) {
            double sum = layer->has_bias ? bias[o] : 0;
            for (int64_t i = 0; i < layer->inputs; i++)
                sum += weights[o * layer->inputs + i] * x[i];
            bool is_cut = is_activated(towers, l) && sum < 0;
            towers->outputs[l][s * layer->outputs + o] = is_cut ? 0 : sum;
        }
    }
}

// `d_outputs` is masked in place; `d_inputs` NULL: nobody asks for it; it may not be `d_outputs`.
static void backward(struct towers *towers, int l, double *d_outputs, double *d_inputs)
{
    const struct dense_layer *layer = &towers->layers[l];
    const double *weights = towers->parameters + towers->first[l];
    double *d_weights = towers->gradients + towers->first[l];
    double *d_bias = d_weights + layer->inputs * layer->outputs;
    assert(d_inputs != d_outputs && "the one is cleared before the other is read");
    if (d_inputs) memset(d_inputs, 0, (size_t)(towers->samples * layer->inputs) * sizeof *d_inputs);
    for (int64_t s = 0; s < towers->samples; s++) {
        const double *x = towers->inputs[l] + s * layer->inputs;
        for (int64_t o = 0; o < layer->outputs; o++) {
            double *d = &d_outputs[s * layer->outputs + o];
            if (is_activated(towers, l) && towers->outputs[l][s * layer->outputs + o] <= 0) *d = 0;
            if (layer->has_bias) d_bias[o] += *d;
            for (int64_t i = 0; i < layer->inputs; i++)
                d_weights[o * layer->inputs + i] += *d * x[i];
            for (int64_t i = 0; d_inputs && i < layer->inputs; i++)
                d_inputs[s * layer->inputs + i] += *d * weights[o * layer->inputs + i];
        }
    }
}

static int bottom_count(const struct towers *towers)
{
    return towers->model->bottom.layer_count;
}

static int cross_count(const struct towers *towers)
{
    return (int)towers->model->cross_layers;
}

static int64_t bottom_width(const struct towers *towers)
{
    return recommender_joined_width(towers->model) -
           towers->model->table_count * towers->model->embedding_dim;
}

// Gradients of the step begin at zero here, in front of the first that is added.
void towers_bottom(struct towers *towers)
{
    const double *x = towers->features;
    memset(towers->gradients, 0, (size_t)towers->parameter_count * sizeof *towers->gradients);
    for (int l = 0; l < bottom_count(towers); l++) {
        forward(towers, l, x);
        x = towers->outputs[l];
    }
    int64_t width = bottom_width(towers), joined = recommender_joined_width(towers->model);
    for (int64_t s = 0; s < towers->samples; s++)
        memcpy(towers->joined + s * joined, x + s * width, (size_t)width * sizeof *x);
}

// The tables' vectors behind the bottom's; of wide rows the last number is not among them.
static void join(struct towers *towers)
{
    const struct recommender *model = towers->model;
    int64_t width = recommender_row_width(model), dim = model->embedding_dim;
    int64_t joined = recommender_joined_width(model), bottom = bottom_width(towers);
    for (int64_t s = 0; s < towers->samples; s++) {
        for (int t = 0; t < model->table_count; t++)
            memcpy(towers->joined + s * joined + bottom + t * dim,
                   towers->sums + (s * model->table_count + t) * width,
                   (size_t)dim * sizeof(double));
    }
}

// Products of every two vectors, the later by the earlier ones, behind the bottom's own.
// None is multiplied by itself: the order of `top_inputs` is that of DLRM's lower triangle.
static void multiply_pairs(struct towers *towers)
{
    const struct recommender *model = towers->model;
    int64_t dim = model->embedding_dim, joined = recommender_joined_width(model);
    int64_t bottom = bottom_width(towers), top = recommender_top_inputs(model);
    assert(joined % dim == 0 && "the bottom's vector is as wide as a table's");
    for (int64_t s = 0; s < towers->samples; s++) {
        const double *x = towers->joined + s * joined;
        double *out = towers->top_inputs + s * top;
        memcpy(out, x, (size_t)bottom * sizeof *x);
        out += bottom;
        for (int64_t i = 0; i < joined / dim; i++) {
            for (int64_t k = 0; k < i; k++, out++) {
                *out = 0;
                // Rows of the table are summed by now: a vector is one number a column.
                for (int64_t d = 0; d < dim; d++)
                    *out += x[i * dim + d] * x[k * dim + d];
            }
        }
    }
}

// A product's gradient goes to both of its vectors; the bottom's own stands for itself.
static void multiply_pairs_back(struct towers *towers)
{
    const struct recommender *model = towers->model;
    int64_t dim = model->embedding_dim, joined = recommender_joined_width(model);
    int64_t bottom = bottom_width(towers), top = recommender_top_inputs(model);
    for (int64_t s = 0; s < towers->samples; s++) {
        const double *x = towers->joined + s * joined, *d_out = towers->d_top_inputs + s * top;
        double *dx = towers->d_joined + s * joined;
        memset(dx, 0, (size_t)joined * sizeof *dx);
        memcpy(dx, d_out, (size_t)bottom * sizeof *dx);
        d_out += bottom;
        for (int64_t i = 0; i < joined / dim; i++) {
            for (int64_t k = 0; k < i; k++, d_out++) {
                for (int64_t d = 0; d < dim; d++) {
                    dx[i * dim + d] += *d_out * x[k * dim + d];
                    dx[k * dim + d] += *d_out * x[i * dim + d];
                }
            }
        }
    }
}

// x := x0 * (V (U x) + b) + x; the layers keep U's and V's inputs, so x can be found again.
// In place: the first x0 stays in `joined`, of which every layer takes its own product.
static void cross(struct towers *towers)
{
    int64_t count = towers->samples * recommender_joined_width(towers->model);
    double *x = towers->top_inputs;
    assert(recommender_top_inputs(towers->model) == recommender_joined_width(towers->model));
    memcpy(x, towers->joined, (size_t)count * sizeof *x);
    for (int c = 0; c < cross_count(towers); c++) {
        int l = bottom_count(towers) + 2 * c;
        forward(towers, l, x);
        forward(towers, l + 1, towers->outputs[l]);
        for (int64_t i = 0; i < count; i++)
            x[i] += towers->joined[i] * towers->outputs[l + 1][i];
    }
}

// x0 is a factor of every layer and the input of the first: what they give it is added up aside.
// The outputs of layers are no longer needed behind them, and their gradients take their place.
static void cross_back(struct towers *towers)
{
    int64_t count = towers->samples * recommender_joined_width(towers->model);
    double *dx = towers->d_joined, *d_first = towers->d_cross;
    memcpy(dx, towers->d_top_inputs, (size_t)count * sizeof *dx);
    memset(d_first, 0, (size_t)count * sizeof *d_first);
    for (int c = cross_count(towers) - 1; c >= 0; c--) {
        int l = bottom_count(towers) + 2 * c;
        double *d_low = towers->outputs[l], *d_inner = towers->outputs[l + 1];
        for (int64_t i = 0; i < count; i++) {
            d_first[i] += dx[i] * d_inner[i];
            d_inner[i] = dx[i] * towers->joined[i];
        }
        backward(towers, l + 1, d_inner, d_low);
        backward(towers, l, d_low, towers->flow[0]);
        for (int64_t i = 0; i < count; i++)
            dx[i] += towers->flow[0][i];
    }
    for (int64_t i = 0; i < count; i++)
        dx[i] += d_first[i];
}

double towers_top(struct towers *towers, int64_t global_batch)
{
    const struct recommender *model = towers->model;
    int64_t width = recommender_row_width(model);
    int first = bottom_count(towers) + 2 * cross_count(towers), last = towers->layer_count - 1;
    assert(global_batch >= towers->samples);
    join(towers);
    if (model->interaction == INTERACTION_DOT) {
        multiply_pairs(towers);
    } else {
        cross(towers);  // of no layers: the vectors as they are
    }
    const double *x = towers->top_inputs;
    for (int l = first; l <= last; l++) {
        forward(towers, l, x);
        x = towers->outputs[l];
    }
    double loss = 0;
    for (int64_t s = 0; s < towers->samples; s++) {
        double logit = towers->outputs[last][s];
        // The wide part: the last number of each row goes to the logit as it is.
        for (int t = 0; t < model->table_count && model->wide; t++)
            logit += towers->sums[(s * model->table_count + t + 1) * width - 1];
        towers->logits[s] = logit;
        // log(1 + e^z) - y z, without overflow.
        loss += fmax(logit, 0) + log1p(exp(-fabs(logit))) - towers->labels[s] * logit;
    }
    return loss / (double)global_batch;
}

void towers_top_back(struct towers *towers, int64_t global_batch)
{
    const struct recommender *model = towers->model;
    int64_t width = recommender_row_width(model), dim = model->embedding_dim;
    int64_t joined = recommender_joined_width(model), bottom = bottom_width(towers);
    int first = bottom_count(towers) + 2 * cross_count(towers), last = towers->layer_count - 1;
    double *d = towers->flow[0];
    for (int64_t s = 0; s < towers->samples; s++) {
        // The derivative of the loss by the logit is the chance less the label.
        double chance = 1 / (1 + exp(-towers->logits[s]));
        d[s] = (chance - towers->labels[s]) / (double)global_batch;
        for (int t = 0; t < model->table_count && model->wide; t++)
            towers->d_sums[(s * model->table_count + t + 1) * width - 1] = d[s];
    }
    for (int l = last; l >= first; l--) {
        // Two buffers in turn: a layer may not write what it still reads.
        double *next = l == first ? towers->d_top_inputs : towers->flow[(last - l + 1) % 2];
        backward(towers, l, d, next);
        d = next;
    }
    if (model->interaction == INTERACTION_DOT) {
        multiply_pairs_back(towers);
    } else {
        cross_back(towers);
    }
    for (int64_t s = 0; s < towers->samples; s++) {
        for (int t = 0; t < model->table_count; t++)
            memcpy(towers->d_sums + (s * model->table_count + t) * width,
                   towers->d_joined + s * joined + bottom + t * dim, (size_t)dim * sizeof(double));
    }
}

// The features are data: the first layer's input has no gradient.
void towers_bottom_back(struct towers *towers)
{
    int64_t width = bottom_width(towers), joined = recommender_joined_width(towers->model);
    if (bottom_count(towers) == 0) return;
    double *d = towers->flow[0];
    for (int64_t s = 0; s < towers->samples; s++)
        memcpy(d + s * width, towers->d_joined + s * joined, (size_t)width * sizeof *d);
    for (int l = bottom_count(towers) - 1, turn = 1; l >= 0; l--, turn = !turn) {
        double *next = l > 0 ? towers->flow[turn] : NULL;
        backward(towers, l, d, next);
        d = next;
    }
}
