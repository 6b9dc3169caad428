#include "tests/support/interpreter_math.h"

#include <assert.h>
#include <math.h>

// Operators of imported graphs, each kind of them by one that is like it: an operator on each place
// is tanh, or the mean over all places where its result has none; one that slides is a maximum; one
// with statistics normalises each channel. Arrays may be parts of images: `firsts` says where they
// begin, and what lies outside of them belongs to other ranks or is padding.

struct image {
    double *values;
    int64_t batch, channels;
    int64_t first[2], count[2], whole[2];  // height, width
    int64_t strides[4];                    // of batch, channel, height, width
};

// Scores of places have their classes last.
static struct image image_of(const struct interpreter *in, int tensor)
{
    const struct tensor *t = &in->block->tensors[tensor];
    bool is_scores = tensor_find_dim(t, DIM_VOCAB) >= 0;
    const enum dim dims[] = {DIM_BATCH, is_scores ? DIM_VOCAB : DIM_CHANNEL, DIM_HEIGHT, DIM_WIDTH};
    struct image image = {.values = in->values[tensor]};
    int64_t *counts[] = {&image.batch, &image.channels, &image.count[0], &image.count[1]};
    for (int d = 0; d < 4; d++) {
        int position = tensor_find_dim(t, dims[d]);
        assert(t->rank == 4 && position >= 0);
        *counts[d] = in->sizes[tensor][position];
        image.strides[d] = 1;
        for (int i = position + 1; i < t->rank; i++)
            image.strides[d] *= in->sizes[tensor][i];
        if (d >= 2) image.first[d - 2] = in->firsts[tensor][position];
        if (d >= 2) image.whole[d - 2] = t->extents[position].size;
    }
    return image;
}

// NULL where the array has no such place.
static double *place(const struct image *image, int64_t batch, int64_t channel, int64_t y,
                     int64_t x)
{
    y -= image->first[0];
    x -= image->first[1];
    if (y < 0 || y >= image->count[0] || x < 0 || x >= image->count[1]) return NULL;
    return &image->values[batch * image->strides[0] + channel * image->strides[1] +
                          y * image->strides[2] + x * image->strides[3]];
}

// Every pair of a place of the narrow side and one of the wide side that a tap joins.
struct pair {
    int64_t batch, narrow[2], wide[2];
    int64_t tap, taps;
};

static bool next_pair(const struct op *op, const struct image *wide, const struct image *narrow,
                      struct pair *pair)
{
    const struct window *windows = op->work.windows;
    pair->taps = windows[0].taps * windows[1].taps;
    for (;; pair->tap++) {
        if (pair->tap == pair->taps) {
            pair->tap = 0;
            if (++pair->narrow[1] == narrow->first[1] + narrow->count[1]) {
                pair->narrow[1] = narrow->first[1];
                if (++pair->narrow[0] == narrow->first[0] + narrow->count[0]) {
                    pair->narrow[0] = narrow->first[0];
                    if (++pair->batch == narrow->batch) return false;
                }
            }
        }
        int64_t taps[] = {pair->tap / windows[1].taps, pair->tap % windows[1].taps};
        bool is_inside = true;
        for (int d = 0; d < 2; d++) {
            pair->wide[d] = pair->narrow[d] * windows[d].stride - windows[d].pad +
                            taps[d] * windows[d].dilation;
            int64_t within = pair->wide[d] - wide->first[d];
            is_inside = is_inside && within >= 0 && within < wide->count[d];
        }
        if (is_inside) return true;
    }
}

static struct pair first_pair(const struct image *narrow)
{
    return (struct pair){0, {narrow->first[0], narrow->first[1]}, {0, 0}, -1, 0};
}

// A convolution or one of its gradients: of the two sides and the weight the one that is written is
// a sum of products of the others. The weight has the channels of the narrow side first.
static void convolve(struct interpreter *in, const struct op *op, int input, int result, int weight,
                     int written)
{
    bool is_turned = op->work.places == PLACES_TURNED;
    struct image x = image_of(in, input), y = image_of(in, result);
    const struct image *wide = is_turned ? &y : &x, *narrow = is_turned ? &x : &y;
    struct pair pair = first_pair(narrow);
    for (pair.tap++; next_pair(op, wide, narrow, &pair); pair.tap++)
        for (int64_t o = 0; o < narrow->channels; o++)
            for (int64_t c = 0; c < wide->channels; c++) {
                double *a = place(wide, pair.batch, c, pair.wide[0], pair.wide[1]);
                double *b = place(narrow, pair.batch, o, pair.narrow[0], pair.narrow[1]);
                double *w = &in->values[weight][(o * wide->channels + c) * pair.taps + pair.tap];
                if (written == weight)
                    *w += *a * *b;
                else if (written == (is_turned ? result : input))
                    *a += *b * *w;
                else
                    *b += *a * *w;
            }
}

// x (batch, depth), weight (columns, depth), y (batch, one position of seq, columns).
static void multiply(struct interpreter *in, int x, int weight, int y, int written)
{
    int64_t batch = in->sizes[x][0], columns = in->sizes[weight][0], depth = in->sizes[weight][1];
    int64_t stride = interpreter_elements(in, y) / batch;
    assert(interpreter_elements(in, x) == batch * depth);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t o = 0; o < columns; o++)
            for (int64_t i = 0; i < depth; i++) {
                double *a = &in->values[x][b * depth + i], *c = &in->values[y][b * stride + o];
                double *w = &in->values[weight][o * depth + i];
                if (written == weight)
                    *w += *a * *c;
                else if (written == x)
                    *a += *c * *w;
                else
                    *c += *a * *w;
            }
}

void interpreter_product(struct interpreter *in, const struct op *op)
{
    const struct op *forward = &in->block->ops[op->forward_op];
    int input = forward->inputs[0], weight = forward->inputs[1], result = forward->outputs[0];
    int written = op->outputs[0];
    if (op->phase == PHASE_BACKWARD) {
        input = written;
        result = op->inputs[0];
    } else if (op->phase == PHASE_WEIGHT) {
        weight = written;
        result = op->inputs[1];
    }
    if (op->work.places == PLACES_WHOLE)
        multiply(in, input, weight, result, written);
    else
        convolve(in, op, input, result, weight, written);
}

// The largest of a window, and where it is.
static void run_pool(struct interpreter *in, const struct op *op)
{
    const struct op *forward = &in->block->ops[op->forward_op];
    bool is_forward = op->phase == PHASE_FORWARD;
    struct image wide = image_of(in, is_forward ? op->inputs[0] : op->outputs[0]);
    struct image narrow = image_of(in, is_forward ? op->outputs[0] : op->inputs[0]);
    struct image from = image_of(in, forward->outputs[1]);
    struct pair pair = first_pair(&narrow);
    for (int64_t i = 0; is_forward && i < interpreter_elements(in, op->outputs[0]); i++)
        narrow.values[i] = -INFINITY;
    for (pair.tap++; next_pair(op, &wide, &narrow, &pair); pair.tap++)
        for (int64_t c = 0; c < wide.channels; c++) {
            double *a = place(&wide, pair.batch, c, pair.wide[0], pair.wide[1]);
            double *b = place(&narrow, pair.batch, c, pair.narrow[0], pair.narrow[1]);
            double *at = place(&from, pair.batch, c, pair.narrow[0], pair.narrow[1]);
            double here = (double)(pair.wide[0] * wide.whole[1] + pair.wide[1]);
            if (!is_forward && *at == here) *a += *b;
            if (!is_forward || *a <= *b) continue;
            *b = *a;
            *at = here;
        }
}

static void run_each(struct interpreter *in, const struct op *op)
{
    const struct op *forward = &in->block->ops[op->forward_op];
    bool is_forward = op->phase == PHASE_FORWARD;
    const double *from = in->values[op->inputs[0]];
    double *to = in->values[op->outputs[0]];
    bool is_mean = in->block->tensors[forward->outputs[0]].rank < 4;
    if (!is_mean) {
        const double *y = in->values[is_forward ? op->inputs[0] : op->inputs[1]];
        for (int64_t i = 0; i < interpreter_elements(in, op->outputs[0]); i++)
            to[i] = is_forward ? tanh(from[i]) : from[i] * (1 - y[i] * y[i]);
        return;
    }
    struct image x = image_of(in, is_forward ? op->inputs[0] : op->outputs[0]);
    int64_t local = x.count[0] * x.count[1];
    double share = 1 / (double)(x.whole[0] * x.whole[1]);
    for (int64_t i = 0; i < x.batch * x.channels * local; i++) {
        if (is_forward) to[i / local] += share * from[i];
        if (!is_forward) to[i] = share * from[i / local];
    }
}

// x, weight, bias -> y, mean, 1 / deviation; d_y, x, weight, mean, 1 / deviation -> d_x, d_weight,
// d_bias. Of whole images.
static void run_statistics(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->phase == PHASE_FORWARD;
    struct image x = image_of(in, op->inputs[is_forward ? 0 : 1]);
    double *first = in->values[op->inputs[0]], *to = in->values[op->outputs[0]];
    int64_t places = x.count[0] * x.count[1];
    double count = (double)(x.batch * places);
    assert(places == x.whole[0] * x.whole[1]);
    for (int64_t c = 0; c < x.channels; c++) {
        double *mean = &in->values[is_forward ? op->outputs[1] : op->inputs[3]][c];
        double *inverse = &in->values[is_forward ? op->outputs[2] : op->inputs[4]][c];
        double weight = in->values[op->inputs[is_forward ? 1 : 2]][c], sum = 0, squares = 0;
        double given = 0, along = 0;
        for (int64_t i = 0; i < x.batch * places; i++) {
            int64_t at = (i / places * x.channels + c) * places + i % places;
            sum += x.values[at];
            squares += x.values[at] * x.values[at];
            given += first[at];
            along += first[at] * (x.values[at] - (is_forward ? 0 : *mean));
        }
        if (is_forward) *mean = sum / count;
        if (is_forward) *inverse = 1 / sqrt(squares / count - *mean * *mean + 1e-5);
        if (!is_forward) in->values[op->outputs[1]][c] = along * *inverse;
        if (!is_forward) in->values[op->outputs[2]][c] = given;
        for (int64_t i = 0; i < x.batch * places; i++) {
            int64_t at = (i / places * x.channels + c) * places + i % places;
            double n = (x.values[at] - *mean) * *inverse;
            to[at] = is_forward ? n * weight + in->values[op->inputs[2]][c]
                                : weight * *inverse *
                                      (first[at] - given / count - n * along * *inverse / count);
        }
    }
}

void interpreter_operator(struct interpreter *in, const struct op *op)
{
    switch (op->work.places) {
    case PLACES_EACH:
        return run_each(in, op);
    case PLACES_WINDOW:
        return run_pool(in, op);
    default:
        assert(op->work.places == PLACES_STATISTICS);
        return run_statistics(in, op);
    }
}
