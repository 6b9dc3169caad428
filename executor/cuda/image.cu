#include "executor/cuda/image_code.h"

// Operators of imported graphs on images: functions, joins, resizing, products. A thread a number,
// bound by memory; sums over places are a warp's.

// The logistic function without the fast exponential: these are not bound by instructions.
DEVICE float logistic(float x)
{
    return 1 / (1 + expf(-x));
}
DEVICE float between(float x, float high)
{
    return x < 0 ? 0 : x > high ? high : x;
}
DEVICE float gelu_of(float s, float x)
{
    float u = 0.7978845608028654f * (x + 0.044715f * x * x * x);
    return s != 0 ? x * logistic(2 * u) : x * 0.5f * erfcf(-0.7071067811865476f * x);
}
DEVICE float gelu_slope_of(float s, float x)
{
    float u = 0.7978845608028654f * (x + 0.044715f * x * x * x), p = logistic(2 * u);
    if (s != 0) return p + x * p * (1 - p) * 2 * 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
    return 0.5f * erfcf(-0.7071067811865476f * x) + x * 0.3989422804014327f * expf(-0.5f * x * x);
}

DEVICE float bent(int kind, float s, float x)
{
    switch (kind) {
    case IMAGE_RELU:
        return x > 0 ? x : 0;
    case IMAGE_LEAKY_RELU:
        return x > 0 ? x : s * x;
    case IMAGE_ELU:
        return x > 0 ? x : s * expm1f(x);
    case IMAGE_CLIP:
        return between(x, s);
    case IMAGE_SIGMOID:
        return logistic(x);
    case IMAGE_HARD_SIGMOID:
        return between(s * x + 0.5f, 1);
    case IMAGE_TANH:
        return tanhf(x);
    case IMAGE_GELU:
        return gelu_of(s, x);
    case IMAGE_SWISH:
        return x * logistic(x);
    case IMAGE_HARD_SWISH:
        return x * between(x + 3, 6) / 6;
    case IMAGE_SOFTPLUS:
        return softplus_of(x);
    case IMAGE_MISH:
        return x * tanhf(softplus_of(x));
    case IMAGE_SCALE:
        return s * x;
    case IMAGE_SHIFT:
        return x + s;
    default:
        return x;
    }
}

DEVICE float mish_slope_of(float x)
{
    float t = tanhf(softplus_of(x));
    return t + x * (1 - t * t) * logistic(x);
}

// Given what backward reads: what the function was given, or what it made
// (models/onnx/operators.c).
DEVICE float bent_slope(int kind, float s, float x)
{
    float p = kind == IMAGE_SWISH || kind == IMAGE_SOFTPLUS ? logistic(x) : 0;
    switch (kind) {
    case IMAGE_RELU:
        return x > 0;
    case IMAGE_LEAKY_RELU:
        return x > 0 ? 1 : s;
    case IMAGE_ELU:
        return x > 0 ? 1 : x + s;
    case IMAGE_CLIP:
        return x > 0 && x < s;
    case IMAGE_SIGMOID:
        return x * (1 - x);
    case IMAGE_HARD_SIGMOID:
        return x > 0 && x < 1 ? s : 0;
    case IMAGE_TANH:
        return 1 - x * x;
    case IMAGE_GELU:
        return gelu_slope_of(s, x);
    case IMAGE_SWISH:
        return p * (1 + x * (1 - p));
    case IMAGE_HARD_SWISH:
        return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5f;
    case IMAGE_SOFTPLUS:
        return p;
    case IMAGE_MISH:
        return mish_slope_of(x);
    case IMAGE_SCALE:
        return s;
    default:
        return 1;
    }
}

KERNEL(bend, struct bend_args, a)
{
    for (int64_t i = INDEX; i < planes_elements(&a.y.at); i += INDICES) {
        struct image_spot s = spot_of(&a.y.at, i);
        float x = image_load(&a.x, s);
        float y = a.is_backward ? image_load(&a.d, s) * bent_slope(a.kind, a.scalar, x)
                                : bent(a.kind, a.scalar, x);
        store_sum(a.y.reals, spot_at(&a.y.at, s), a.adds, y);
    }
}

void kernel_bend(struct CUstream_st *stream, const struct bend_args *args)
{
    LAUNCH(bend, *args, blocks_for(planes_elements(&args->y.at), THREADS), THREADS, stream);
}

static inline int64_t channels_count(const struct channels_args *args)
{
    return args->to.at.batch * args->channels * args->to.at.height * args->to.at.width;
}

KERNEL(channels, struct channels_args, a)
{
    struct planes some = a.to.at;
    some.channels = a.channels;
    for (int64_t i = INDEX; i < planes_elements(&some); i += INDICES) {
        struct image_spot from = spot_of(&some, i), to = from;
        from.channel += a.from_channel;
        to.channel += a.to_channel;
        store_sum(a.to.reals, spot_at(&a.to.at, to), a.adds, a.factor * image_load(&a.from, from));
    }
}

void kernel_channels(struct CUstream_st *stream, const struct channels_args *args)
{
    LAUNCH(channels, *args, blocks_for(channels_count(args), THREADS), THREADS, stream);
}

// The two places that a place of the result lies between, and how much of it is the second's.
struct between_two {
    int64_t first, second;
    float share;
};
DEVICE struct between_two between_of(int way, int64_t place, int64_t from, int64_t to)
{
    int64_t before = split_of(place * from, to).line;
    struct between_two b = {before, before, 0};
    if (way == RESIZING_NEAREST) return b;
    float at = ((float)place + 0.5f) * (float)from / (float)to - 0.5f;
    if (way == RESIZING_CORNERS)
        at = to > 1 ? (float)place * (float)(from - 1) / (float)(to - 1) : 0;
    at = fmaxf(at, 0);
    b.first = (int64_t)at < from ? (int64_t)at : from - 1;
    b.second = b.first + 1 < from ? b.first + 1 : b.first;
    b.share = b.second > b.first ? at - (float)b.first : 0;
    return b;
}

KERNEL(resize, struct resize_args, a)
{
    const struct planes *large = &a.large.at, *small = &a.small.at;
    for (int64_t i = INDEX; i < planes_elements(large); i += INDICES) {
        struct image_spot s = spot_of(large, i), near = s;
        struct between_two rows =
            between_of(a.way, large->row + s.row, small->whole_height, large->whole_height);
        struct between_two columns =
            between_of(a.way, large->column + s.column, small->whole_width, large->whole_width);
        float sum = 0;
        for (int k = 0; k < 4; k++) {
            float share =
                (k & 2 ? rows.share : 1 - rows.share) * (k & 1 ? columns.share : 1 - columns.share);
            near.row = (k & 2 ? rows.second : rows.first) - small->row;
            near.column = (k & 1 ? columns.second : columns.first) - small->column;
            if (share != 0) sum += share * image_load(&a.small, near);
        }
        store(a.large.reals, spot_at(large, s), sum);
    }
}

void kernel_resize(struct CUstream_st *stream, const struct resize_args *args)
{
    LAUNCH(resize, *args, blocks_for(planes_elements(&args->large.at), THREADS), THREADS, stream);
}

// Places of the result that may be made of one place, from `first` to before `end`: no fewer.
struct made_of {
    int64_t first, end;
};
DEVICE struct made_of made_of(int way, int64_t place, int64_t from, int64_t to)
{
    bool is_by_corners = way == RESIZING_CORNERS && from > 1;
    float step = is_by_corners ? (float)(to - 1) / (float)(from - 1) : (float)to / (float)from;
    struct made_of made = {(int64_t)(((float)place - 1) * step) - 2,
                           (int64_t)(((float)place + 2) * step) + 2};
    if (place == 0 || made.first < 0) made.first = 0;
    if (place == from - 1 || made.end > to) made.end = to;
    return made;
}
DEVICE float share_of(int way, int64_t place, int64_t near, int64_t from, int64_t to)
{
    struct between_two b = between_of(way, place, from, to);
    return (b.first == near ? 1 - b.share : 0) + (b.second == near ? b.share : 0);
}

KERNEL(resize_back, struct resize_args, a)
{
    const struct planes *large = &a.large.at, *small = &a.small.at;
    for (int64_t i = INDEX; i < planes_elements(small); i += INDICES) {
        struct image_spot s = spot_of(small, i), at = s;
        int64_t row = small->row + s.row, column = small->column + s.column;
        struct made_of rows = made_of(a.way, row, small->whole_height, large->whole_height);
        struct made_of columns = made_of(a.way, column, small->whole_width, large->whole_width);
        float sum = 0;
        for (int64_t r = rows.first; r < rows.end; r++) {
            float of = share_of(a.way, r, row, small->whole_height, large->whole_height);
            at.row = r - large->row;
            if (of == 0 || at.row < 0 || at.row >= large->height) continue;
            for (int64_t c = columns.first; c < columns.end; c++) {
                at.column = c - large->column;
                if (at.column < 0 || at.column >= large->width) continue;
                sum += of * image_load(&a.large, at) *
                       share_of(a.way, c, column, small->whole_width, large->whole_width);
            }
        }
        store_sum(a.small.reals, spot_at(small, s), a.adds, sum);
    }
}

void kernel_resize_backward(struct CUstream_st *stream, const struct resize_args *args)
{
    LAUNCH(resize_back, *args, blocks_for(planes_elements(&args->small.at), THREADS), THREADS,
           stream);
}

DEVICE float product_at(const struct product_args *a, struct image_spot s)
{
    float left = image_load(&a->a, s);
    return a->b.reals.data ? left * image_load(&a->b, s) : left;
}

KERNEL(products, struct product_args, a)
{
    for (int64_t i = INDEX; i < planes_elements(&a.y.at); i += INDICES) {
        struct image_spot s = spot_of(&a.y.at, i);
        store_sum(a.y.reals, spot_at(&a.y.at, s), a.adds, a.factor * product_at(&a, s));
    }
}

// A warp a number.
BLOCK_KERNEL(product_sums, struct product_args, a)
{
    int64_t warps = INDICES / 32, terms = a.channels * a.rows * a.columns;
    for (int64_t i = INDEX / 32; i < planes_elements(&a.y.at); i += warps) {
        struct image_spot s = spot_of(&a.y.at, i);
        float sum = 0;
        for (int64_t k = threadIdx.x % 32; k < terms; k += 32) {
            struct split column = split_of(k, a.columns), row = split_of(column.line, a.rows);
            struct image_spot at = {s.sample, s.channel + row.line, s.row + row.column,
                                    s.column + column.column};
            sum += product_at(&a, at);
        }
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0)
            store_sum(a.y.reals, spot_at(&a.y.at, s), a.adds, a.factor * sum);
    }
}

void kernel_products(struct CUstream_st *stream, const struct product_args *args)
{
    int64_t count = planes_elements(&args->y.at);
    if (args->channels * args->rows * args->columns == 1)
        LAUNCH(products, *args, blocks_for(count, THREADS), THREADS, stream);
    else
        LAUNCH(product_sums, *args, blocks_for(32 * count, THREADS), THREADS, stream);
}
