#include "executor/cuda/device_code.h"

// Layer norm and RMS norm over the last dim, a block a row. With n = (x - mean) * inverse and
// g = d * weight: d_x = inverse * (g - n * mean(g * n) - mean(g), the last for layer norm only).

struct norm_moments {
    float mean, inverse;
};

// What is known of a row that ranks share, where it will be written: by halves, because rows begin
// anywhere.
DEVICE uint16_t *kept_of(const struct norm_args *a, int64_t row, int term)
{
    struct reals to = a->d.data ? a->d_x : a->y;
    int64_t at = apart(row * a->width, a->row, a->d.data ? a->d_x_stride : a->y_stride);
    return (uint16_t *)to.data + at * (to.number == NUMBER_FP32 ? 2 : 1) + 2 * term;
}

DEVICE float kept(const struct norm_args *a, int64_t row, int term)
{
    union {
        float value;
        uint16_t halves[2];
    } as;
    const uint16_t *at = kept_of(a, row, term);
    as.halves[0] = at[0], as.halves[1] = at[1];
    return as.value;
}

// The mean, or of squares what x is divided by.
DEVICE float taken_in(const struct norm_args *a, int64_t row, int term)
{
    float mean = a->inner[row] / (float)a->whole;
    return term == NORM_SQUARE ? 1 / sqrtf(mean + a->epsilon) : mean;
}

DEVICE float known(const struct norm_args *a, int64_t row, int term)
{
    return term == a->exchange ? taken_in(a, row, term) : kept(a, row, term);
}

DEVICE struct norm_moments moments_of(const struct norm_args *a, int64_t row)
{
    if (a->inner) {
        struct norm_moments shared = {a->has_mean ? known(a, row, NORM_VALUE) : 0,
                                      known(a, row, NORM_SQUARE)};
        return shared;
    }
    float v[CHUNK], sum = 0, squares = 0;
    struct norm_moments m = {0, 0};
    for (int64_t i = threadIdx.x * CHUNK; a->has_mean && i < a->width; i += blockDim.x * CHUNK) {
        load_chunk(a->x, apart(row * a->width, a->row, a->x_stride) + i, chunk_of(i, a->width), v);
        for (int j = 0; j < CHUNK; j++)
            sum += v[j];
    }
    if (a->has_mean) m.mean = block_sum(sum) / (float)a->width;
    for (int64_t i = threadIdx.x * CHUNK; i < a->width; i += blockDim.x * CHUNK) {
        int n = chunk_of(i, a->width);
        load_chunk(a->x, apart(row * a->width, a->row, a->x_stride) + i, n, v);
        for (int j = 0; j < CHUNK; j++)
            squares += j < n ? (v[j] - m.mean) * (v[j] - m.mean) : 0;
    }
    m.inverse = 1 / sqrtf(block_sum(squares) / (float)a->width + a->epsilon);
    return m;
}

DEVICE void load_weight(struct reals weight, int64_t at, int n, float *v)
{
    if (weight.data) {
        load_chunk(weight, at, n, v);
    } else {
        for (int j = 0; j < CHUNK; j++)
            v[j] = 1;
    }
}

DEVICE void norm_row(const struct norm_args *a, int64_t row)
{
    struct norm_moments m = moments_of(a, row);
    if (a->inner) __syncthreads();  // all have read what is kept where they write
    for (int64_t i = threadIdx.x * CHUNK; i < a->width; i += blockDim.x * CHUNK) {
        float v[CHUNK], weight[CHUNK], bias[CHUNK] = {0};
        int n = chunk_of(i, a->width);
        load_chunk(a->x, apart(row * a->width, a->row, a->x_stride) + i, n, v);
        load_weight(a->weight, i, n, weight);
        if (a->bias.data) load_chunk(a->bias, i, n, bias);
        for (int j = 0; j < CHUNK; j++)
            v[j] = (v[j] - m.mean) * m.inverse * weight[j] + bias[j];
        store_chunk(a->y, apart(row * a->width, a->row, a->y_stride) + i, n, v);
    }
}

BLOCK_KERNEL(norm, struct norm_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x)
        norm_row(&a, row);
}

DEVICE float term_of(int term, float x, float g, struct norm_moments m)
{
    if (term == NORM_VALUE) return x;
    if (term == NORM_SQUARE) return (x - m.mean) * (x - m.mean);
    return term == NORM_GRADIENT ? g : g * (x - m.mean) * m.inverse;
}

// A row's part of a sum, in front of its exchange.
BLOCK_KERNEL(norm_fill, struct norm_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        struct norm_moments m = {0, 0};
        float x[CHUNK], d[CHUNK] = {0}, weight[CHUNK], sum = 0;
        if (a.has_mean && a.exchange > NORM_VALUE) m.mean = kept(&a, row, NORM_VALUE);
        if (a.exchange > NORM_SQUARE) m.inverse = kept(&a, row, NORM_SQUARE);
        for (int64_t i = threadIdx.x * CHUNK; i < a.width; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.width);
            load_chunk(a.x, apart(row * a.width, a.row, a.x_stride) + i, n, x);
            if (a.d.data) load_chunk(a.d, apart(row * a.width, a.row, a.d_stride) + i, n, d);
            load_weight(a.weight, i, n, weight);
            UNROLL
            for (int j = 0; j < CHUNK; j++)
                sum += j < n ? term_of(a.exchange, x[j], d[j] * weight[j], m) : 0;
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) a.inner[row] = sum;
    }
}

KERNEL(norm_keep, struct norm_args, a)
{
    for (int64_t row = INDEX; row < a.rows; row += INDICES) {
        union {
            float value;
            uint16_t halves[2];
        } as;
        uint16_t *at = kept_of(&a, row, a.exchange);
        as.value = taken_in(&a, row, a.exchange);
        at[0] = as.halves[0], at[1] = as.halves[1];
    }
}

void kernel_norm_exchange(struct CUstream_st *stream, const struct norm_args *args)
{
    if (args->fills) {
        LAUNCH(norm_fill, *args, blocks_for(args->rows, 1), THREADS, stream);
    } else {
        LAUNCH(norm_keep, *args, blocks_for(args->rows, THREADS), THREADS, stream);
    }
}

// Each thread reads again what it wrote itself, from the cache.
BLOCK_KERNEL(sum_norm, struct norm_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        for (int64_t i = threadIdx.x * CHUNK; i < a.width; i += blockDim.x * CHUNK) {
            float v[CHUNK], sum[CHUNK] = {0};
            int n = chunk_of(i, a.width);
            for (int t = 0; t < a.term_count; t++) {
                int64_t first = a.vectors >> t & 1 ? 0 : row * a.width;
                load_chunk(a.term[t], first + i, n, v);
                for (int j = 0; j < CHUNK; j++)
                    sum[j] += v[j];
            }
            store_chunk(a.x, row * a.width + i, n, sum);
        }
        norm_row(&a, row);
    }
}

void kernel_norm(struct CUstream_st *stream, const struct norm_args *args)
{
    if (args->term_count > 0) {
        LAUNCH(sum_norm, *args, blocks_for(args->rows, 1), THREADS, stream);
    } else {
        LAUNCH(norm, *args, blocks_for(args->rows, 1), THREADS, stream);
    }
}

BLOCK_KERNEL(norm_moments, struct norm_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        struct norm_moments m = moments_of(&a, row);
        if (threadIdx.x > 0) continue;
        a.moments[2 * row] = m.mean;
        a.moments[2 * row + 1] = m.inverse;
    }
}

struct parameter_args {
    struct norm_args norm;
    int64_t chunks;
};
KERNEL(norm_parameters, struct parameter_args, p)
{
    struct norm_args a = p.norm;
    for (int64_t i = INDEX; i < p.chunks * a.width; i += INDICES) {
        int64_t chunk = i / a.width, column = i % a.width;
        int64_t first = chunk * a.rows / p.chunks, end = (chunk + 1) * a.rows / p.chunks;
        float weight = 0, bias = 0;
        for (int64_t row = first; row < end; row++) {
            float d = load(a.d, apart(row * a.width, a.row, a.d_stride) + column);
            float x = load(a.x, apart(row * a.width, a.row, a.x_stride) + column);
            weight += d * (x - a.moments[2 * row]) * a.moments[2 * row + 1];
            bias += d;
        }
        a.partial[i] = weight;
        a.partial[p.chunks * a.width + i] = bias;
    }
}

BLOCK_KERNEL(norm_input, struct norm_args, a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        float mean = a.moments[2 * row], inverse = a.moments[2 * row + 1];
        int64_t d_at = apart(row * a.width, a.row, a.d_stride);
        int64_t x_at = apart(row * a.width, a.row, a.x_stride);
        int64_t d_x_at = apart(row * a.width, a.row, a.d_x_stride);
        float d[CHUNK], x[CHUNK], weight[CHUNK], sum_g = 0, sum_gn = 0;
        float shared_g = a.inner && a.has_mean ? kept(&a, row, NORM_GRADIENT) : 0;
        for (int64_t i = threadIdx.x * CHUNK; i < a.width; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.width);
            load_chunk(a.d, d_at + i, n, d);
            load_chunk(a.x, x_at + i, n, x);
            load_weight(a.weight, i, n, weight);
            // Behind the row's end d is zero.
            UNROLL
            for (int j = 0; j < CHUNK; j++) {
                sum_g += d[j] * weight[j];
                sum_gn += d[j] * weight[j] * ((x[j] - mean) * inverse);
            }
        }
        float mean_g = block_sum(sum_g) / (float)a.width;
        float mean_gn = block_sum(sum_gn) / (float)a.width;
        if (a.inner) mean_g = shared_g, mean_gn = taken_in(&a, row, NORM_PRODUCT);
        if (!a.has_mean) mean_g = 0;
        for (int64_t i = threadIdx.x * CHUNK; i < a.width; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.width);
            float sum[CHUNK] = {0};
            load_chunk(a.d, d_at + i, n, d);
            load_chunk(a.x, x_at + i, n, x);
            load_weight(a.weight, i, n, weight);
            if (a.adds_x) load_chunk(a.d_x, d_x_at + i, n, sum);
            if (a.beside.data) load_chunk(a.beside, row * a.width + i, n, sum);
            for (int j = 0; j < CHUNK; j++) {
                float normal = (x[j] - mean) * inverse;
                sum[j] += inverse * (d[j] * weight[j] - normal * mean_gn - mean_g);
            }
            store_chunk(a.d_x, d_x_at + i, n, sum);
        }
    }
}

// Parameters before the input: d_x may take the place of what they read.
void kernel_norm_backward(struct CUstream_st *stream, const struct norm_args *args)
{
    struct parameter_args parameters = {*args, column_chunks(args->rows)};
    int64_t threads = parameters.chunks * args->width;
    LAUNCH(norm_moments, *args, blocks_for(args->rows, 1), THREADS, stream);
    if (args->d_weight.data) {
        LAUNCH(norm_parameters, parameters, blocks_for(threads, THREADS), THREADS, stream);
        kernel_chunks(stream, args->partial, parameters.chunks, args->width, args->adds_weight,
                      args->d_weight);
    }
    if (args->d_bias.data) {
        kernel_chunks(stream, args->partial + threads, parameters.chunks, args->width,
                      args->adds_bias, args->d_bias);
    }
    LAUNCH(norm_input, *args, blocks_for(args->rows, 1), THREADS, stream);
}
