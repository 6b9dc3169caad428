#include "executor/cpu/image.h"

#include <assert.h>
#include <math.h>

// Norms over places: batch norm takes mean and deviation of each channel over all samples that are
// here, instance norm those of each channel of each sample, group norm those of several channels.
// What is kept says which: mean and inverse deviation of each set. Ranks that have parts of an
// image exchange two sums a set (part 1) and go on with those of the whole (part 2).
//
// With xhat = (x - mean) / deviation and g = d_y scale the gradient of x is
// (g - mean(g) - xhat mean(g xhat)) / deviation (Ioffe and Szegedy 2015, section 3).

struct norm_call {
    struct planes x, y;    // y: the result; backward what is known of it, d_y
    struct planes d_x;     // backward; without data: nobody wants it
    REAL *mean, *inverse;  // [set]
    const REAL *scale, *bias;
    REAL *d_scale, *d_bias;
    REAL *sums;  // [2 set] of the whole
    int64_t sets, channels_of_set;
    bool is_of_sample, is_split;
    double count;  // numbers of a set in the whole
    double epsilon;
};

static int64_t set_of(const struct norm_call *n, int64_t sample, int64_t channel)
{
    int64_t set = channel / n->channels_of_set;
    return n->is_of_sample ? sample * (n->x.channels / n->channels_of_set) + set : set;
}

// `stats` is what is kept of mean or deviation.
static const char *norm_read(const struct kernel_call *call, const struct kernel_array *x,
                             const struct kernel_array *y, const struct kernel_array *stats,
                             struct norm_call *n)
{
    const char *fault = image_read(x, &n->x);
    if (!fault) fault = image_read(y, &n->y);
    if (fault) return fault;
    n->sets = array_elements(stats);
    n->is_of_sample = array_find(stats, DIM_BATCH) >= 0;
    int64_t each = n->is_of_sample && n->x.batch > 0 ? n->sets / n->x.batch : n->sets;
    n->channels_of_set = each > 0 ? n->x.channels / each : 1;
    if (each > 0 && n->x.channels % each != 0) return "channels are no multiple of what is kept";
    n->is_split = n->x.height < n->x.whole_height || n->x.width < n->x.whole_width;
    n->count = (double)n->x.whole_height * (double)n->x.whole_width * (double)n->channels_of_set *
               (double)(n->is_of_sample ? 1 : n->x.batch);
    n->epsilon = call->op->work.scalar;
    return NULL;
}

typedef double term(const struct norm_call *n, int64_t sample, int64_t channel, const REAL *x,
                    const REAL *y);

static double value(const struct norm_call *n, int64_t sample, int64_t channel, const REAL *x,
                    const REAL *y)
{
    (void)n;
    (void)sample;
    (void)channel;
    (void)y;
    return (double)*x;
}
// Means of squares: ranks exchange both sums at once.
static double square(const struct norm_call *n, int64_t sample, int64_t channel, const REAL *x,
                     const REAL *y)
{
    return value(n, sample, channel, x, y) * (double)*x;
}
static double normed(const struct norm_call *n, int64_t sample, int64_t channel, const REAL *x)
{
    int64_t set = set_of(n, sample, channel);
    return ((double)*x - (double)n->mean[set]) * (double)n->inverse[set];
}
static double gradient(const struct norm_call *n, int64_t sample, int64_t channel, const REAL *x,
                       const REAL *y)
{
    (void)n;
    (void)sample;
    (void)channel;
    (void)x;
    return (double)*y;
}
static double gradient_normed(const struct norm_call *n, int64_t sample, int64_t channel,
                              const REAL *x, const REAL *y)
{
    return (double)*y * normed(n, sample, channel, x);
}

// The sum of a term over one plane.
static double sum_plane(const struct norm_call *n, term *of, int64_t sample, int64_t channel)
{
    const struct planes *x = &n->x, *y = &n->y;
    const REAL *from = image_plane(x, sample, channel);
    const REAL *beside = image_plane(y, sample, channel);
    double sum = 0;
    for (int64_t row = 0; row < x->height; row++) {
        for (int64_t column = 0; column < x->width; column++)
            sum += of(n, sample, channel, from + row * x->row_stride + column * x->column_stride,
                      beside + row * y->row_stride + column * y->column_stride);
    }
    return sum;
}

// Means of two terms, of which this rank knows its part; `by_scale`: each times the channel's.
static void take_sums(const struct norm_call *n, term *first, term *second, bool by_scale)
{
    assert(n->count > 0 && n->channels_of_set > 0 && "means are of something");
    for (int64_t i = 0; i < 2 * n->sets; i++)
        n->sums[i] = 0;
    for (int64_t i = 0; i < n->x.batch * n->x.channels; i++) {
        int64_t sample = i / n->x.channels, channel = i % n->x.channels;
        int64_t set = set_of(n, sample, channel);
        double share = (by_scale ? (double)n->scale[channel] : 1) / n->count;
        n->sums[set] += (REAL)(sum_plane(n, first, sample, channel) * share);
        n->sums[n->sets + set] += (REAL)(sum_plane(n, second, sample, channel) * share);
    }
}

static void write_forward(const struct norm_call *n)
{
    assert(n->epsilon >= 0);
    const struct planes *x = &n->x, *y = &n->y;
    for (int64_t set = 0; set < n->sets; set++) {
        double mean = (double)n->sums[set];
        double variance = (double)n->sums[n->sets + set] - mean * mean;
        n->mean[set] = (REAL)mean;
        n->inverse[set] = (REAL)(1 / sqrt((variance > 0 ? variance : 0) + n->epsilon));
    }
    for (int64_t i = 0; i < x->batch * x->channels; i++) {
        int64_t sample = i / x->channels, channel = i % x->channels;
        int64_t set = set_of(n, sample, channel);
        REAL factor = n->inverse[set] * n->scale[channel];
        REAL shift = n->bias[channel] - n->mean[set] * factor;
        for (int64_t row = 0; row < x->height; row++) {
            const REAL *from = image_plane(x, sample, channel) + row * x->row_stride;
            REAL *to = image_plane(y, sample, channel) + row * y->row_stride;
            for (int64_t column = 0; column < x->width; column++)
                to[column * y->column_stride] = from[column * x->column_stride] * factor + shift;
        }
    }
}

static void add_input_gradient(const struct norm_call *n, int64_t sample, int64_t channel)
{
    const struct planes *x = &n->x, *y = &n->y, *d = &n->d_x;
    int64_t set = set_of(n, sample, channel);
    REAL mean = n->sums[set], along = n->sums[n->sets + set], inverse = n->inverse[set];
    for (int64_t row = 0; row < x->height; row++) {
        const REAL *from = image_plane(x, sample, channel) + row * x->row_stride;
        const REAL *d_y = image_plane(y, sample, channel) + row * y->row_stride;
        REAL *to = image_plane(d, sample, channel) + row * d->row_stride;
        for (int64_t column = 0; column < x->width; column++) {
            REAL hat = (from[column * x->column_stride] - n->mean[set]) * inverse;
            REAL g = d_y[column * y->column_stride] * n->scale[channel];
            to[column * d->column_stride] += inverse * (g - mean - hat * along);
        }
    }
}

// Of a factor each rank has the sum over its own places.
static void write_backward(const struct norm_call *n)
{
    for (int64_t i = 0; i < n->x.batch * n->x.channels; i++) {
        int64_t sample = i / n->x.channels, channel = i % n->x.channels;
        if (n->d_x.data) add_input_gradient(n, sample, channel);
        n->d_scale[channel] += (REAL)sum_plane(n, gradient_normed, sample, channel);
        n->d_bias[channel] += (REAL)sum_plane(n, gradient, sample, channel);
    }
}

// Where the two sums are that are exchanged: those of the caller, or scratch.
static const char *find_sums(struct cpu_device *device, const struct kernel_call *call,
                             struct norm_call *n)
{
    if (call->part > 0) {
        if (array_elements(&call->inner) != 2 * n->sets) return "no room to exchange";
        n->sums = call->inner.data;
        return NULL;
    }
    n->sums = cpu_scratch(device, SCRATCH_ROWS, 2 * n->sets * (int64_t)sizeof(REAL) + 1);
    return n->sums ? NULL : cpu_no_memory(device);
}

const char *cpu_statistics(struct cpu_device *device, const struct kernel_call *call)
{
    struct norm_call n = {0};
    const struct kernel_array *in = call->inputs, *out = call->outputs;
    if (call->input_count != 3 || call->output_count != 3) return "a norm without scale and bias";
    const char *fault = norm_read(call, &in[0], &out[0], &out[1], &n);
    if (fault || !out[0].data) return fault;
    if (call->part == 0 && n.is_split) return NULL;
    n.scale = in[1].data;
    n.bias = in[2].data;
    n.mean = out[1].data;
    n.inverse = out[2].data;
    if ((fault = find_sums(device, call, &n))) return fault;
    if (call->part < 2) take_sums(&n, value, square, false);
    if (call->part != 1) write_forward(&n);
    return NULL;
}

// d_y, x, scale, mean, inverse deviation; of an image that is data nobody wants a gradient.
const char *cpu_statistics_backward(struct cpu_device *device, const struct kernel_call *call)
{
    struct norm_call n = {0};
    const struct kernel_array *in = call->inputs, *out = call->outputs;
    int factor = call->output_count - 2;
    if (call->input_count != 5 || factor < 0 || factor > 1) return "a norm without scale and bias";
    const char *fault = norm_read(call, &in[1], &in[0], &in[3], &n);
    if (!fault && factor == 1) fault = image_read(&out[0], &n.d_x);
    if (fault || !in[0].data) return fault;
    if (call->part == 0 && n.is_split) return NULL;
    n.scale = in[2].data;
    n.mean = in[3].data;
    n.inverse = in[4].data;
    n.d_scale = out[factor].data;
    n.d_bias = out[factor + 1].data;
    if ((fault = find_sums(device, call, &n))) return fault;
    if (call->part < 2) take_sums(&n, gradient, gradient_normed, true);
    if (call->part == 1) return NULL;
    for (int i = 0; i < call->output_count; i++)
        call_begin_sum(call, i);
    write_backward(&n);
    return NULL;
}
