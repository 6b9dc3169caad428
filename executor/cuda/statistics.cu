#include "executor/cuda/image_code.h"

// Norms over places: sums over pieces of planes by warps, of a set's pieces by a block, and then
// each number by a thread. All are bound by memory. Squares are summed about one number of the set,
// so that a mean far from 0 takes nothing from the deviation.

DEVICE int64_t set_of(const struct statistics_args *a, int64_t sample, int64_t channel)
{
    int64_t set = channel / a->channels_of_set;
    return a->is_of_sample ? sample * (a->x.at.channels / a->channels_of_set) + set : set;
}

// The sample and channel of a set's plane number `plane`.
DEVICE struct image_spot plane_of(const struct statistics_args *a, int64_t set, int64_t plane)
{
    struct split of = split_of(plane, a->channels_of_set);
    struct split sample = split_of(set, a->x.at.channels / a->channels_of_set);
    struct image_spot s = {a->is_of_sample ? sample.line : of.line,
                           sample.column * a->channels_of_set + of.column, 0, 0};
    return s;
}

DEVICE float middle_of(const struct statistics_args *a, int64_t set)
{
    return image_load(&a->x, plane_of(a, set, 0));
}

DEVICE float normed(const struct statistics_args *a, int64_t set, float x)
{
    return (x - load(a->mean, set)) * load(a->inverse, set);
}

// A warp a piece.
BLOCK_KERNEL(statistics_pieces, struct statistics_args, a)
{
    const struct planes *x = &a.x.at;
    int64_t warps = INDICES / 32, places = x->height * x->width;
    for (int64_t i = INDEX / 32; i < x->batch * x->channels * a.pieces; i += warps) {
        struct split plane = split_of(i, a.pieces), of = split_of(plane.line, x->channels);
        int64_t set = set_of(&a, of.line, of.column), first = plane.column * STATISTICS_PIECE;
        int64_t end = first + STATISTICS_PIECE < places ? first + STATISTICS_PIECE : places;
        float middle = a.d.reals.data ? 0 : middle_of(&a, set), sum = 0, along = 0;
        for (int64_t k = first + threadIdx.x % 32; k < end; k += 32) {
            struct split place = split_of(k, x->width);
            struct image_spot s = {of.line, of.column, place.line, place.column};
            float value = image_load(&a.x, s), d = value - middle, by = d;
            if (a.d.reals.data) d = image_load(&a.d, s), by = normed(&a, set, value);
            sum += d;
            along += d * by;
        }
        sum = warp_sum(sum);
        along = warp_sum(along);
        if (threadIdx.x % 32 == 0) a.partial[2 * i] = sum, a.partial[2 * i + 1] = along;
    }
}

// A block a set.
BLOCK_KERNEL(statistics_sets, struct statistics_args, a)
{
    const struct planes *x = &a.x.at;
    int64_t planes = a.channels_of_set * (a.is_of_sample ? 1 : x->batch);
    float count = (float)a.count, here = (float)(planes * x->height * x->width);
    for (int64_t set = blockIdx.x; set < a.sets; set += gridDim.x) {
        float sum = 0, along = 0;
        for (int64_t k = threadIdx.x; k < planes * a.pieces; k += blockDim.x) {
            struct split plane = split_of(k, a.pieces);
            struct image_spot s = plane_of(&a, set, plane.line);
            int64_t at = ((s.sample * x->channels + s.channel) * a.pieces + plane.column) * 2;
            float scale = a.d.reals.data ? load(a.scale, s.channel) : 1;
            sum += a.partial[at] * scale;
            along += a.partial[at + 1] * scale;
        }
        block_sums(&sum, &along);
        if (threadIdx.x != 0) continue;
        float middle = !a.d.reals.data && here > 0 ? middle_of(&a, set) : 0;
        // Alone the variance, and of a part the squares, which are added up.
        if (a.is_shared) along += middle * (2 * sum + middle * here);
        a.sums[set] = (sum + middle * here) / count;
        if (!a.is_shared && !a.d.reals.data) along -= sum * (sum / here);
        a.sums[a.sets + set] = along / count;
    }
}

void kernel_statistics_sums(struct CUstream_st *stream, const struct statistics_args *args)
{
    int64_t pieces = args->x.at.batch * args->x.at.channels * args->pieces;
    LAUNCH(statistics_pieces, *args, blocks_for(32 * pieces, THREADS), THREADS, stream);
    LAUNCH(statistics_sets, *args, blocks_for(args->sets, 1), THREADS, stream);
}

KERNEL(statistics_take, struct statistics_args, a)
{
    for (int64_t set = INDEX; set < a.sets; set += INDICES) {
        float mean = a.sums[set], squares = a.sums[a.sets + set];
        float variance = a.is_shared ? squares - mean * mean : squares;
        store(a.mean, set, mean);
        store(a.inverse, set, 1 / sqrtf(fmaxf(variance, 0) + a.epsilon));
    }
}

KERNEL(statistics, struct statistics_args, a)
{
    for (int64_t i = INDEX; i < planes_elements(&a.y.at); i += INDICES) {
        struct image_spot s = spot_of(&a.y.at, i);
        float n = normed(&a, set_of(&a, s.sample, s.channel), image_load(&a.x, s));
        store(a.y.reals, spot_at(&a.y.at, s),
              n * load(a.scale, s.channel) + load(a.bias, s.channel));
    }
}

void kernel_statistics(struct CUstream_st *stream, const struct statistics_args *args)
{
    LAUNCH(statistics_take, *args, blocks_for(args->sets, THREADS), THREADS, stream);
    LAUNCH(statistics, *args, blocks_for(planes_elements(&args->y.at), THREADS), THREADS, stream);
}

KERNEL(statistics_back, struct statistics_args, a)
{
    for (int64_t i = INDEX; i < planes_elements(&a.d_x.at); i += INDICES) {
        struct image_spot s = spot_of(&a.d_x.at, i);
        int64_t set = set_of(&a, s.sample, s.channel);
        float n = normed(&a, set, image_load(&a.x, s));
        float g = image_load(&a.d, s) * load(a.scale, s.channel);
        float d = load(a.inverse, set) * (g - a.sums[set] - n * a.sums[a.sets + set]);
        store_sum(a.d_x.reals, spot_at(&a.d_x.at, s), a.adds_x, d);
    }
}

// A block a channel.
BLOCK_KERNEL(statistics_channels, struct statistics_args, a)
{
    const struct planes *x = &a.x.at;
    for (int64_t channel = blockIdx.x; channel < x->channels; channel += gridDim.x) {
        float sum = 0, along = 0;
        for (int64_t k = threadIdx.x; k < x->batch * a.pieces; k += blockDim.x) {
            struct split sample = split_of(k, a.pieces);
            int64_t at = ((sample.line * x->channels + channel) * a.pieces + sample.column) * 2;
            sum += a.partial[at];
            along += a.partial[at + 1];
        }
        block_sums(&sum, &along);
        if (threadIdx.x != 0) continue;
        store_sum(a.d_bias, channel, a.adds_bias, sum);
        store_sum(a.d_scale, channel, a.adds_scale, along);
    }
}

void kernel_statistics_backward(struct CUstream_st *stream, const struct statistics_args *args)
{
    int64_t count = planes_elements(&args->d_x.at);
    if (args->d_x.reals.data)
        LAUNCH(statistics_back, *args, blocks_for(count, THREADS), THREADS, stream);
    LAUNCH(statistics_channels, *args, blocks_for(args->x.at.channels, 1), THREADS, stream);
}
