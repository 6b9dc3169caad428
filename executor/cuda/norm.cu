#include "executor/cuda/device_code.h"

// Layer norm and RMS norm over the last dim, a block a row. With n = (x - mean) * inverse and
// g = d * weight: d_x = inverse * (g - n * mean(g * n) - mean(g), the last for layer norm only).
//
// Both are bound by memory. A row of at most ROW_THREADS chunks is read once: each thread keeps its
// chunk in registers between the sums that it is needed for (norm_row_kept and norm_kept_first).
// Wider rows, and those that ranks share, are read again for each.

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

DEVICE void round_chunk(int number, float *v)
{
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        v[j] = number == NUMBER_FP32 ? v[j] : narrow_float(number, float_narrow(number, v[j]));
}

// x of a row's chunk, or the sum that it is, which is written first.
DEVICE void load_row(const struct norm_args *a, int64_t row, int64_t i, int n, float *x)
{
    float v[CHUNK];
    if (a->term_count == 0) {
        load_chunk(a->x, apart(row * a->width, a->row, a->x_stride) + i, n, x);
        return;
    }
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        x[j] = 0;
    for (int t = 0; t < a->term_count; t++) {
        load_chunk(a->term[t], (a->vectors >> t & 1 ? 0 : row * a->width) + i, n, v);
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            x[j] += v[j];
    }
    store_chunk(a->x, row * a->width + i, n, x);
    round_chunk(a->x.number, x);
}

// Threads behind the row's end have no chunk: n is 0, and they take part in the sums alone.
ROW_KERNEL(norm_row_kept, struct norm_args, a)
{
    int64_t i = (int64_t)threadIdx.x * CHUNK;
    int n = i < a.width ? chunk_of(i, a.width) : 0;
    float x[CHUNK], weight[CHUNK], bias[CHUNK] = {0};
    load_weight(a.weight, i, n, weight);
    if (a.bias.data) load_chunk(a.bias, i, n, bias);
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        float sum = 0, squares = 0, mean = 0;
        load_row(&a, row, i, n, x);
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            sum += x[j];
        if (a.has_mean) mean = block_sum(sum) / (float)a.width;
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            squares += j < n ? (x[j] - mean) * (x[j] - mean) : 0;
        float inverse = 1 / sqrtf(block_sum(squares) / (float)a.width + a.epsilon);
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            x[j] = (x[j] - mean) * inverse * weight[j] + bias[j];
        store_chunk(a.y, apart(row * a.width, a.row, a.y_stride) + i, n, x);
    }
}

// Whole warps that have a chunk a thread; 0: there are not as many.
static int threads_of(const struct norm_args *a)
{
    int64_t threads = (a->width + 32 * CHUNK - 1) / (32 * CHUNK) * 32;
    return a->inner || threads > ROW_THREADS ? 0 : (int)threads;
}

void kernel_norm(struct CUstream_st *stream, const struct norm_args *args)
{
    enum { EACH = 8 };  // rows of a block, so that weights are read once for them
    int threads = threads_of(args);
    if (threads > 0) {
        LAUNCH(norm_row_kept, *args, blocks_for(args->rows, EACH), (unsigned)threads, stream);
    } else if (args->term_count > 0) {
        LAUNCH(sum_norm, *args, blocks_for(args->rows, 1), THREADS, stream);
    } else {
        LAUNCH(norm, *args, blocks_for(args->rows, 1), THREADS, stream);
    }
}

// Backward, rows by fours: what is known of each, then the gradient of the input, and what the four
// give to the parameters' gradients, which a block adds up in its part of `partial`; a thread has
// columns of its own. Behind them all, the parts of all blocks, in one order.
enum { ROWS = 4, FOLDED = 32 };

// What a row's gradient is made with.
struct norm_slope {
    float mean, inverse, mean_gn, mean_g;
};

DEVICE struct norm_slope slope_of(const struct norm_args *a, int64_t row)
{
    struct norm_moments m = moments_of(a, row);
    int64_t d_at = apart(row * a->width, a->row, a->d_stride);
    int64_t x_at = apart(row * a->width, a->row, a->x_stride);
    float d[CHUNK], x[CHUNK], weight[CHUNK], sum_g = 0, sum_gn = 0;
    float shared_g = a->inner && a->has_mean ? kept(a, row, NORM_GRADIENT) : 0;
    for (int64_t i = threadIdx.x * CHUNK; i < a->width; i += blockDim.x * CHUNK) {
        int n = chunk_of(i, a->width);
        load_chunk(a->d, d_at + i, n, d);
        load_chunk(a->x, x_at + i, n, x);
        load_weight(a->weight, i, n, weight);
        // Behind the row's end d is zero.
        UNROLL
        for (int j = 0; j < CHUNK; j++) {
            sum_g += d[j] * weight[j];
            sum_gn += d[j] * weight[j] * ((x[j] - m.mean) * m.inverse);
        }
    }
    float mean_g = block_sum(sum_g) / (float)a->width;
    float mean_gn = block_sum(sum_gn) / (float)a->width;
    if (a->inner) mean_g = shared_g, mean_gn = taken_in(a, row, NORM_PRODUCT);
    struct norm_slope slope = {m.mean, m.inverse, mean_gn, a->has_mean ? mean_g : 0};
    return slope;
}

// CHUNK columns of a row. What is read of it may lie where the gradient is written.
DEVICE void norm_input(const struct norm_args *a, int64_t row, int64_t i, struct norm_slope s,
                       float *d_weight, float *d_bias)
{
    int n = chunk_of(i, a->width);
    int64_t d_x_at = apart(row * a->width, a->row, a->d_x_stride);
    float d[CHUNK], x[CHUNK], weight[CHUNK], sum[CHUNK] = {0};
    load_chunk(a->d, apart(row * a->width, a->row, a->d_stride) + i, n, d);
    load_chunk(a->x, apart(row * a->width, a->row, a->x_stride) + i, n, x);
    load_weight(a->weight, i, n, weight);
    if (a->adds_x) load_chunk(a->d_x, d_x_at + i, n, sum);
    if (a->beside.data) load_chunk(a->beside, row * a->width + i, n, sum);
    UNROLL
    for (int j = 0; j < CHUNK; j++) {
        float normal = (x[j] - s.mean) * s.inverse;
        sum[j] += s.inverse * (d[j] * weight[j] - normal * s.mean_gn - s.mean_g);
        d_weight[j] += d[j] * normal;
        d_bias[j] += d[j];
    }
    store_chunk(a->d_x, d_x_at + i, n, sum);
}

DEVICE void add_partial(const struct norm_args *a, int64_t part, int64_t i, int n, bool is_first,
                        const float *v)
{
    struct reals to = {a->partial + part * a->width, NUMBER_FP32};
    float sum[CHUNK] = {0};
    if (!is_first) load_chunk(to, i, n, sum);
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        sum[j] += v[j];
    store_chunk(to, i, n, sum);
}

DEVICE void norm_backward_first(const struct norm_args *a)
{
    __shared__ struct norm_slope slopes[ROWS];
    int64_t fours = (a->rows + ROWS - 1) / ROWS;
    for (int64_t four = blockIdx.x; four < fours; four += gridDim.x) {
        int64_t first = four * ROWS, end = first + ROWS < a->rows ? first + ROWS : a->rows;
        __syncthreads();
        for (int64_t row = first; row < end; row++) {
            struct norm_slope slope = slope_of(a, row);
            if (threadIdx.x == 0) slopes[row - first] = slope;
        }
        __syncthreads();
        for (int64_t i = threadIdx.x * CHUNK; i < a->width; i += blockDim.x * CHUNK) {
            float d_weight[CHUNK] = {0}, d_bias[CHUNK] = {0};
            for (int64_t row = first; row < end; row++)
                norm_input(a, row, i, slopes[row - first], d_weight, d_bias);
            bool is_first = four == blockIdx.x;
            int n = chunk_of(i, a->width);
            if (a->d_weight.data) add_partial(a, blockIdx.x, i, n, is_first, d_weight);
            if (a->d_bias.data) add_partial(a, gridDim.x + blockIdx.x, i, n, is_first, d_bias);
        }
    }
}

// A line of threads a column: each adds up some of the blocks.
DEVICE void fold_partials(const struct norm_args *a, int64_t part, bool adds, struct reals out)
{
    __shared__ float sums[1024];
    unsigned line = threadIdx.x / FOLDED, lines = blockDim.x / FOLDED, at = threadIdx.x % FOLDED;
    for (int64_t first = blockIdx.x * FOLDED; first < a->width; first += gridDim.x * FOLDED) {
        int64_t column = first + at;
        float sum = 0;
        for (unsigned b = line; b < gridDim.x && column < a->width; b += lines)
            sum += a->partial[(part + b) * a->width + column];
        sums[threadIdx.x] = sum;
        __syncthreads();
        if (line == 0 && column < a->width) {
            for (unsigned l = 1; l < lines; l++)
                sum += sums[l * FOLDED + at];
            store_sum(out, column, adds, sum);
        }
        __syncthreads();
    }
}

DEVICE void norm_backward_second(const struct norm_args *a)
{
    if (a->d_weight.data) fold_partials(a, 0, a->adds_weight, a->d_weight);
    if (a->d_bias.data) fold_partials(a, gridDim.x, a->adds_bias, a->d_bias);
}
GRID_KERNEL(norm_backward, struct norm_args)

// The same of rows whose chunks stay in registers: two sums at a time, and what a column gives to
// the parameters' gradients until the block has seen its rows.
// What has a mean is told at compile time: there are no registers for what is not needed, and with
// it for fewer threads.
enum { LAYER_THREADS = 768 };

DEVICE struct norm_slope slope_kept(const struct norm_args *a, bool has_mean, const float *x,
                                    const float *d, const float *weight, int n)
{
    struct norm_slope s = {0, 0, 0, 0};
    float sum = 0, squares = 0, sum_g = 0, sum_gx = 0, width = (float)a->width;
    if (has_mean) {
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            sum += x[j], sum_g += d[j] * weight[j];
        block_sums(&sum, &sum_g);
        s.mean = sum / width, s.mean_g = sum_g / width;
    }
    UNROLL
    for (int j = 0; j < CHUNK; j++) {
        float centred = j < n ? x[j] - s.mean : 0;
        squares += centred * centred, sum_gx += d[j] * weight[j] * centred;
    }
    block_sums(&squares, &sum_gx);
    s.inverse = 1 / sqrtf(squares / width + a->epsilon);
    s.mean_gn = sum_gx * s.inverse / width;
    return s;
}

DEVICE void norm_kept_rows(const struct norm_args *a, bool has_mean)
{
    int64_t i = (int64_t)threadIdx.x * CHUNK;
    int n = i < a->width ? chunk_of(i, a->width) : 0;
    float x[CHUNK], d[CHUNK], weight[CHUNK], d_weight[CHUNK] = {0}, d_bias[CHUNK] = {0};
    for (int64_t row = blockIdx.x; row < a->rows; row += gridDim.x) {
        int64_t d_x_at = apart(row * a->width, a->row, a->d_x_stride) + i;
        load_chunk(a->x, apart(row * a->width, a->row, a->x_stride) + i, n, x);
        load_chunk(a->d, apart(row * a->width, a->row, a->d_stride) + i, n, d);
        load_weight(a->weight, i, n, weight);
        struct norm_slope s = slope_kept(a, has_mean, x, d, weight, n);
        UNROLL
        for (int j = 0; j < CHUNK; j++) {
            float normal = (x[j] - s.mean) * s.inverse;
            d_weight[j] += d[j] * normal;
            if (has_mean) d_bias[j] += d[j];
            d[j] = s.inverse * (d[j] * weight[j] - normal * s.mean_gn - s.mean_g);
        }
        if (a->adds_x) load_chunk(a->d_x, d_x_at, n, x);
        if (a->beside.data) load_chunk(a->beside, row * a->width + i, n, x);
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            d[j] += a->adds_x || a->beside.data ? x[j] : 0;
        store_chunk(a->d_x, d_x_at, n, d);
    }
    if (a->d_weight.data) add_partial(a, blockIdx.x, i, n, true, d_weight);
    if (has_mean && a->d_bias.data) add_partial(a, gridDim.x + blockIdx.x, i, n, true, d_bias);
}

DEVICE void layer_norm_kept_first(const struct norm_args *a)
{
    norm_kept_rows(a, true);
}
DEVICE void layer_norm_kept_second(const struct norm_args *a)
{
    norm_backward_second(a);
}
ROW_GRID_KERNEL(layer_norm_kept, struct norm_args, LAYER_THREADS)

DEVICE void rms_norm_kept_first(const struct norm_args *a)
{
    norm_kept_rows(a, false);
}
DEVICE void rms_norm_kept_second(const struct norm_args *a)
{
    norm_backward_second(a);
}
ROW_GRID_KERNEL(rms_norm_kept, struct norm_args, ROW_THREADS)

// Blocks of few threads are more.
int64_t norm_partials(int64_t rows, int64_t width)
{
    enum { FULL = 512 };
    int64_t threads = (width + CHUNK - 1) / CHUNK, blocks = GRID_BLOCKS;
    if (threads < FULL) blocks *= FULL / threads;
    return rows < blocks ? rows : blocks;
}

void kernel_norm_backward(struct CUstream_st *stream, const struct norm_args *args)
{
    int threads = threads_of(args);
    int64_t blocks = norm_partials(args->rows, args->width);
    if (threads > 0 && threads <= LAYER_THREADS && args->has_mean) {
        LAUNCH_GRID(layer_norm_kept, *args, blocks, threads, stream);
    } else if (threads > 0 && !args->has_mean && !args->d_bias.data) {
        LAUNCH_GRID(rms_norm_kept, *args, blocks, threads, stream);
    } else {
        LAUNCH_GRID(norm_backward, *args, grid_blocks((args->rows + ROWS - 1) / ROWS), THREADS,
                    stream);
    }
}
