#include "executor/cuda/device_code.h"

// Optimizers, one pass over the memory each; sums of squares; scaling. The formulas and their
// sources are those of executor/cpu/update.c.

DEVICE float moments_step(const struct update_args *a, const struct update_array *of, int64_t i,
                          float g)
{
    float m = a->beta1 * of->first_moments[i] + (1 - a->beta1) * g;
    float v = a->beta2 * of->second_moments[i] + (1 - a->beta2) * g * g;
    of->first_moments[i] = m;
    of->second_moments[i] = v;
    return m * a->correction1 / (sqrtf(v * a->correction2) + a->epsilon);
}

DEVICE void update_element(const struct update_args *a, const struct update_array *of, int64_t i)
{
    float w = of->weights[i], step;
    float g = of->gradients ? of->gradients[i] * a->scale : 0;
    switch (a->rule) {
    case UPDATE_ADAMW:
        w -= a->rate * (moments_step(a, of, i, g) + of->decay * w);
        break;
    case UPDATE_ADAM:
        w -= a->rate * moments_step(a, of, i, g + of->decay * w);
        break;
    case UPDATE_SGD:
        step = g + of->decay * w;
        if (of->first_moments) step += a->momentum * of->first_moments[i];
        if (of->first_moments) of->first_moments[i] = step;
        w -= a->rate * step;
        break;
    case UPDATE_LAMB:
        of->direction[i] = moments_step(a, of, i, g) + of->decay * w;
        return;
    case UPDATE_DECAY:
        of->direction[i] = g + of->decay * w;
        return;
    case UPDATE_DESCEND:
        w -= a->rate * of->direction[i];
        break;
    default:
        step = a->momentum * of->first_moments[i] + a->rate * of->direction[i];
        of->first_moments[i] = step;
        w -= step;
    }
    of->weights[i] = w;
    if (of->rounded.data) store(of->rounded, i, w);
}

// A block takes one chunk of one array after another.
KERNEL(update, struct update_args, a)
{
    for (int64_t chunk = blockIdx.x; chunk < a.chunk_count; chunk += gridDim.x) {
        int at = 0;
        while (at + 1 < a.array_count && a.arrays[at + 1].first_chunk <= chunk)
            at++;
        const struct update_array *of = &a.arrays[at];
        int64_t first = (chunk - of->first_chunk) * UPDATE_CHUNK;
        int64_t end = first + UPDATE_CHUNK < of->count ? first + UPDATE_CHUNK : of->count;
        for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x)
            update_element(&a, of, i);
    }
}

void kernel_update(struct CUstream_st *stream, const struct update_args *args)
{
    LAUNCH(update, *args, blocks_for(args->chunk_count, 1), THREADS, stream);
}

DEVICE double block_sum_double(double x)
{
    __shared__ double part[32];
    for (int mask = 16; mask > 0; mask /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, mask);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = 0;
    for (unsigned i = 0; i < blockDim.x / 32; i++)
        sum += part[i];
    return sum;
}

struct squares_args {
    const float *x;
    int64_t count;
    double *partial;  // one a block
    double *sum;
};
BLOCK_KERNEL(partial_squares, struct squares_args, a)
{
    double sum = 0;
    for (int64_t i = INDEX; i < a.count; i += INDICES)
        sum += (double)a.x[i] * (double)a.x[i];
    sum = block_sum_double(sum);
    if (threadIdx.x == 0) a.partial[blockIdx.x] = sum;
}
BLOCK_KERNEL(sum_partial, struct squares_args, a)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < a.count; i += blockDim.x)
        sum += a.partial[i];
    sum = block_sum_double(sum);
    if (threadIdx.x == 0) a.sum[0] = sum;
}

void kernel_sum_squares(struct CUstream_st *stream, const float *x, int64_t count, double *partial,
                        double *sum)
{
    struct squares_args args = {x, count, partial, sum};
    int64_t blocks = blocks_for(count, THREADS);
    if (blocks > SQUARE_BLOCKS) blocks = SQUARE_BLOCKS;
    LAUNCH(partial_squares, args, blocks, THREADS, stream);
    args.count = blocks;
    LAUNCH(sum_partial, args, 1, THREADS, stream);
}

struct scale_args {
    struct reals x;
    int64_t count;
    float factor;
};
KERNEL(scale_reals, struct scale_args, a)
{
    for (int64_t at = INDEX * CHUNK; at < a.count; at += INDICES * CHUNK) {
        int n = chunk_of(at, a.count);
        float v[CHUNK];
        load_chunk(a.x, at, n, v);
        for (int j = 0; j < CHUNK; j++)
            v[j] *= a.factor;
        store_chunk(a.x, at, n, v);
    }
}

void kernel_scale(struct CUstream_st *stream, struct reals x, int64_t count, float factor)
{
    struct scale_args args = {x, count, factor};
    LAUNCH(scale_reals, args, blocks_for(count, THREADS * CHUNK), THREADS, stream);
}
