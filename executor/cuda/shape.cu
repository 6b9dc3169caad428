#include "executor/cuda/device_code.h"

// What moves, repeats or adds without computing.

// Offset of a run's chunk: the last dim goes by chunks, the others by index.
DEVICE int64_t place_of(int64_t run, int rank, const int64_t *sizes, const int64_t *strides)
{
    int64_t at = 0;
    for (int i = rank - 2; i >= 0; i--) {
        at += run % sizes[i] * strides[i];
        run /= sizes[i];
    }
    return at;
}

DEVICE void add_term(struct reals x, int64_t at, int64_t step, int n, float *sum)
{
    float v[CHUNK];
    if (step == 1) {
        load_chunk(x, at, n, v);
    } else {
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            v[j] = j < n ? load(x, at + j * step) : 0;
    }
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        sum[j] += v[j];
}

KERNEL(terms, struct terms_args, a)
{
    int last = a.rank - 1;
    int64_t width = a.sizes[last], chunks = (width + CHUNK - 1) / CHUNK, runs = chunks;
    for (int i = 0; i < last; i++)
        runs *= a.sizes[i];
    for (int64_t i = INDEX; i < runs; i += INDICES) {
        int64_t run = i / chunks, column = i % chunks * CHUNK;
        int n = chunk_of(column, width);
        int64_t step = a.out_strides[last];
        int64_t to = place_of(run, a.rank, a.sizes, a.out_strides) + column * step;
        float sum[CHUNK] = {0};
        if (a.adds) add_term(a.out, to, step, n, sum);
        for (int t = 0; t < a.term_count; t++) {
            int64_t at = place_of(run, a.rank, a.sizes, a.strides[t]);
            add_term(a.term[t], at + column * a.strides[t][last], a.strides[t][last], n, sum);
        }
        if (step == 1) {
            store_chunk(a.out, to, n, sum);
        } else {
            UNROLL
            for (int j = 0; j < CHUNK; j++) {
                if (j < n) store(a.out, to + j * step, sum[j]);
            }
        }
    }
}

void kernel_terms(struct CUstream_st *stream, const struct terms_args *args)
{
    int64_t runs = (args->sizes[args->rank - 1] + CHUNK - 1) / CHUNK;
    for (int i = 0; i < args->rank - 1; i++)
        runs *= args->sizes[i];
    LAUNCH(terms, *args, blocks_for(runs, THREADS), THREADS, stream);
}

DEVICE int64_t element_at(int64_t index, int rank, const int64_t *sizes, const int64_t *strides)
{
    int64_t at = 0;
    for (int i = rank - 1; i >= 0; i--) {
        at += index % sizes[i] * strides[i];
        index /= sizes[i];
    }
    return at;
}

DEVICE int64_t product_of(const int64_t *sizes, int rank)
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= sizes[i];
    return count;
}

KERNEL(move_items, struct move_args, a)
{
    int64_t count = product_of(a.sizes, a.rank);
    for (int64_t i = INDEX; i < count; i += INDICES) {
        int64_t to = element_at(i, a.rank, a.sizes, a.to_strides);
        int64_t from = element_at(i, a.rank, a.sizes, a.from_strides);
        switch (a.item_bytes) {
        case 1:
            ((uint8_t *)a.to)[to] = ((const uint8_t *)a.from)[from];
            break;
        case 2:
            ((uint16_t *)a.to)[to] = ((const uint16_t *)a.from)[from];
            break;
        case 4:
            ((uint32_t *)a.to)[to] = ((const uint32_t *)a.from)[from];
            break;
        default:
            ((uint64_t *)a.to)[to] = ((const uint64_t *)a.from)[from];
        }
    }
}

static int64_t move_count(const struct move_args *args)
{
    int64_t count = 1;
    for (int i = 0; i < args->rank; i++)
        count *= args->sizes[i];
    return count;
}

void kernel_move(struct CUstream_st *stream, const struct move_args *args)
{
    LAUNCH(move_items, *args, blocks_for(move_count(args), THREADS), THREADS, stream);
}

struct maximum_args {
    struct move_args move;
    int number;
};
KERNEL(maximum, struct maximum_args, a)
{
    struct reals to = {a.move.to, a.number}, from = {(void *)a.move.from, a.number};
    int64_t count = product_of(a.move.sizes, a.move.rank);
    for (int64_t i = INDEX; i < count; i += INDICES) {
        int64_t at = element_at(i, a.move.rank, a.move.sizes, a.move.to_strides);
        int64_t other = element_at(i, a.move.rank, a.move.sizes, a.move.from_strides);
        store(to, at, fmaxf(load(to, at), load(from, other)));
    }
}

void kernel_maximum(struct CUstream_st *stream, const struct move_args *args, int number)
{
    struct maximum_args maximum_args = {*args, number};
    LAUNCH(maximum, maximum_args, blocks_for(move_count(args), THREADS), THREADS, stream);
}

KERNEL(expand, struct repeat_args, a)
{
    int64_t count = product_of(a.sizes, a.rank);
    for (int64_t e = INDEX; e < count; e += INDICES) {
        int64_t rest = e, wide = 0, narrow = 0;
        for (int i = a.rank - 1; i >= 0; i--) {
            int64_t index = rest % a.sizes[i];
            rest /= a.sizes[i];
            wide += index * a.strides[i];
            if (a.repeats[i] > 0) {
                int64_t at = (a.first[i] + index) / a.repeats[i] - a.narrow_first[i];
                narrow += at * a.narrow_strides[i];
            }
        }
        store(a.wide, wide, load(a.narrow, narrow));
    }
}

void kernel_expand(struct CUstream_st *stream, const struct repeat_args *args)
{
    int64_t count = 1;
    for (int i = 0; i < args->rank; i++)
        count *= args->sizes[i];
    LAUNCH(expand, *args, blocks_for(count, THREADS), THREADS, stream);
}

DEVICE int64_t clamp_to(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x < most ? x : most;
}

// One thread sums everything that belongs to its element, in order.
KERNEL(fold, struct repeat_args, a)
{
    int64_t count = product_of(a.narrow_sizes, a.rank);
    for (int64_t e = INDEX; e < count; e += INDICES) {
        int64_t low[WALK_DIMS], high[WALK_DIMS], index[WALK_DIMS];
        int64_t rest = e, narrow = 0, wide = 0;
        bool is_empty = false;
        UNROLL
        for (int i = WALK_DIMS - 1; i >= 0; i--) {
            if (i >= a.rank) continue;
            int64_t at = rest % a.narrow_sizes[i];
            rest /= a.narrow_sizes[i];
            narrow += at * a.narrow_strides[i];
            int64_t begin = (at + a.narrow_first[i]) * a.repeats[i] - a.first[i];
            low[i] = a.repeats[i] > 0 ? clamp_to(begin, a.sizes[i]) : 0;
            high[i] = a.repeats[i] > 0 ? clamp_to(begin + a.repeats[i], a.sizes[i]) : a.sizes[i];
            index[i] = low[i];
            wide += low[i] * a.strides[i];
            is_empty = is_empty || low[i] >= high[i];
        }
        float sum = 0;
        bool is_done = is_empty;
        while (!is_done) {
            sum += load(a.wide, wide);
            // The last index that can still rise rises; those behind it begin again.
            bool rises = true;
            UNROLL
            for (int i = WALK_DIMS - 1; i >= 0; i--) {
                if (i >= a.rank || !rises) continue;
                rises = ++index[i] >= high[i];
                wide += a.strides[i];
                if (!rises) continue;
                wide -= (high[i] - low[i]) * a.strides[i];
                index[i] = low[i];
            }
            is_done = rises;
        }
        store_sum(a.narrow, narrow, a.adds, sum);
    }
}

void kernel_fold(struct CUstream_st *stream, const struct repeat_args *args)
{
    int64_t count = 1;
    for (int i = 0; i < args->rank; i++)
        count *= args->narrow_sizes[i];
    LAUNCH(fold, *args, blocks_for(count, THREADS), THREADS, stream);
}

// Rows in chunks, each summed by one thread a column; then the chunks.
struct partial_args {
    struct columns_args columns;
    int64_t chunks;
};
KERNEL(partial_columns, struct partial_args, p)
{
    struct columns_args a = p.columns;
    for (int64_t i = INDEX; i < p.chunks * a.columns; i += INDICES) {
        int64_t chunk = i / a.columns, column = i % a.columns;
        int64_t first = chunk * a.rows / p.chunks, end = (chunk + 1) * a.rows / p.chunks;
        float sum = 0;
        for (int64_t row = first; row < end; row++)
            sum += load(a.in, row * a.stride + column);
        a.partial[i] = sum;
    }
}

struct chunks_args {
    const float *partial;
    int64_t chunks, columns;
    bool adds;
    struct reals out;
};
KERNEL(fold_chunks, struct chunks_args, a)
{
    for (int64_t column = INDEX; column < a.columns; column += INDICES) {
        float sum = 0;
        for (int64_t chunk = 0; chunk < a.chunks; chunk++)
            sum += a.partial[chunk * a.columns + column];
        store_sum(a.out, column, a.adds, sum);
    }
}

void kernel_chunks(struct CUstream_st *stream, const float *partial, int64_t chunks,
                   int64_t columns, bool adds, struct reals out)
{
    struct chunks_args args = {partial, chunks, columns, adds, out};
    LAUNCH(fold_chunks, args, blocks_for(columns, THREADS), THREADS, stream);
}

void kernel_columns(struct CUstream_st *stream, const struct columns_args *args)
{
    struct partial_args partial = {*args, column_chunks(args->rows)};
    int64_t threads = partial.chunks * args->columns;
    LAUNCH(partial_columns, partial, blocks_for(threads, THREADS), THREADS, stream);
    kernel_chunks(stream, args->partial, partial.chunks, args->columns, args->adds, args->out);
}
