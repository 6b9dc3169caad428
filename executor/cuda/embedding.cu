#include "executor/cuda/device_code.h"
#include "executor/cuda/pairs.h"

// Rows of a table by id, and their gradients back into it in the order of the tokens.

KERNEL(gather, struct lookup_args, a)
{
    for (int64_t token = blockIdx.x; token < a.count; token += gridDim.x) {
        int64_t id = a.ids[token], at = id - a.first;
        bool is_here = at >= 0 && at < a.held;
        if ((id < -1 || id >= a.whole) && threadIdx.x == 0) *a.fault = 1;
        for (int64_t i = threadIdx.x * CHUNK; i < a.width; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.width);
            float v[CHUNK] = {0}, sum[CHUNK] = {0};
            if (is_here) load_chunk(a.table, at * a.width + i, n, v);
            if (a.adds) load_chunk(a.rows, token * a.width + i, n, sum);
            for (int j = 0; j < CHUNK; j++)
                v[j] += sum[j];
            store_chunk(a.rows, token * a.width + i, n, v);
        }
    }
}

void kernel_gather(struct CUstream_st *stream, const struct lookup_args *args)
{
    LAUNCH(gather, *args, blocks_for(args->count, 1), THREADS, stream);
}

// The gradient of a table: tokens are sorted by their rows, equal ones in their own order, by
// digits from the lowest on. Then pieces of that order are summed, each by a block of its own, and
// of rows that reach over several pieces the sums of the pieces: no block walks all tokens of a
// row, however often it comes, and every sum has one order.

enum { DIGIT_BITS = 9, BINS_MAX = 1 << DIGIT_BITS, PIECE_LEAST = 32 };

struct sort_args {
    int64_t count, first, held, tiles;
    int shift, bins;
    const int64_t *ids;
    const int *from;   // tokens as the digits before have them; NULL: as they come
    int *to, *counts;  // counts[bin][tile]; scanned: where they begin in `to`
};

// Tokens whose row is elsewhere come last.
DEVICE int64_t row_of(const int64_t *ids, int64_t token, int64_t first, int64_t held)
{
    int64_t row = ids[token] - first;
    return row < 0 || row >= held ? held : row;
}
DEVICE int digit_of(const struct sort_args *a, int64_t token)
{
    return (int)(row_of(a->ids, token, a->first, a->held) >> a->shift) & (a->bins - 1);
}
DEVICE int64_t token_of(const struct sort_args *a, int64_t at)
{
    return a->from ? a->from[at] : at;
}

// A token a thread; the last of each digit knows how many there are.
BLOCK_KERNEL(count_digits, struct sort_args, a)
{
    __shared__ int digits[THREADS], found[BINS_MAX];
    int me = (int)threadIdx.x;
    for (int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
        int64_t at = tile * THREADS + me;
        int digit = at < a.count ? digit_of(&a, token_of(&a, at)) : -1, same = 0;
        bool is_last = digit >= 0;
        __syncthreads();
        digits[me] = digit;
        for (int bin = me; bin < a.bins; bin += THREADS)
            found[bin] = 0;
        __syncthreads();
        for (int i = 0; i < THREADS; i++) {
            bool is_same = digits[i] == digit;
            same += is_same;
            is_last = is_last && !(is_same && i > me);
        }
        if (is_last) found[digit] = same;
        __syncthreads();
        for (int bin = me; bin < a.bins; bin += THREADS)
            a.counts[bin * a.tiles + tile] = found[bin];
    }
}

// One block: each thread sums its share, then writes it with what stands before.
BLOCK_KERNEL(scan_counts, struct sort_args, a)
{
    __shared__ int sums[THREADS];
    int64_t all = a.bins * a.tiles, each = (all + THREADS - 1) / THREADS;
    int64_t begin = each * threadIdx.x, end = begin + each < all ? begin + each : all;
    int before = 0;
    sums[threadIdx.x] = 0;
    for (int64_t i = begin; i < end; i++)
        before += a.counts[i];
    sums[threadIdx.x] = before;
    __syncthreads();
    before = 0;
    for (unsigned i = 0; i < threadIdx.x; i++)
        before += sums[i];
    for (int64_t i = begin; i < end; i++) {
        int count = a.counts[i];
        a.counts[i] = before;
        before += count;
    }
}

BLOCK_KERNEL(place_tokens, struct sort_args, a)
{
    __shared__ int digits[THREADS];
    int me = (int)threadIdx.x;
    for (int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
        int64_t at = tile * THREADS + me, token = at < a.count ? token_of(&a, at) : 0;
        int digit = at < a.count ? digit_of(&a, token) : -1, before = 0;
        __syncthreads();
        digits[me] = digit;
        __syncthreads();
        for (int i = 0; i < me; i++)
            before += digits[i] == digit;
        if (digit >= 0) a.to[a.counts[digit * a.tiles + tile] + before] = (int)token;
    }
}

struct runs_args {
    struct lookup_args of;
    const int *order;  // [count] tokens, sorted
    int64_t piece, pieces;
};

DEVICE int64_t row_at(const struct runs_args *a, int64_t at)
{
    return row_of(a->of.ids, a->order[at], a->of.first, a->of.held);
}
DEVICE int64_t end_of(const struct runs_args *a, int64_t piece)
{
    int64_t end = (piece + 1) * a->piece;
    return end < a->of.count ? end : a->of.count;
}
// Whether the row at one of a piece's ends goes on in the piece before, or behind.
DEVICE bool comes_from_before(const struct runs_args *a, int64_t begin)
{
    return begin > 0 && row_at(a, begin - 1) == row_at(a, begin);
}
DEVICE bool goes_on_behind(const struct runs_args *a, int64_t end)
{
    return end < a->of.count && row_at(a, end - 1) == row_at(a, end);
}
DEVICE void add_to_table(const struct runs_args *a, int64_t row, int64_t i, int n, const float *sum)
{
    float v[CHUNK];
    load_chunk(a->of.table, row * a->of.width + i, n, v);
    UNROLL
    for (int j = 0; j < CHUNK; j++)
        v[j] += sum[j];
    store_chunk(a->of.table, row * a->of.width + i, n, v);
}
// Of a piece: the sum of a row that comes from before (0), or that goes on behind (1).
DEVICE int64_t partial_at(const struct runs_args *a, int64_t piece, int which)
{
    return (2 * piece + which) * a->of.width;
}

KERNEL(sum_pieces, struct runs_args, a)
{
    struct reals partial = {a.of.partial, NUMBER_FP32};
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        int64_t begin = piece * a.piece, end = end_of(&a, piece);
        for (int64_t i = threadIdx.x * CHUNK; i < a.of.width; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.of.width);
            for (int64_t t = begin; t < end;) {
                int64_t row = row_at(&a, t), first = t;
                if (row == a.of.held) break;
                float sum[CHUNK] = {0}, v[CHUNK];
                for (; t < end && row_at(&a, t) == row; t++) {
                    load_chunk(a.of.rows, a.order[t] * a.of.width + i, n, v);
                    UNROLL
                    for (int j = 0; j < CHUNK; j++)
                        sum[j] += v[j];
                }
                bool comes = first == begin && comes_from_before(&a, begin);
                bool goes = t == end && goes_on_behind(&a, end);
                if (comes || goes) {
                    store_chunk(partial, partial_at(&a, piece, !comes) + i, n, sum);
                } else {
                    add_to_table(&a, row, i, n, sum);
                }
            }
        }
    }
}

// Of a piece in which a row begins that goes on behind it.
KERNEL(sum_partials, struct runs_args, a)
{
    struct reals partial = {a.of.partial, NUMBER_FP32};
    for (int64_t piece = blockIdx.x; piece < a.pieces; piece += gridDim.x) {
        int64_t begin = piece * a.piece, end = end_of(&a, piece), row = row_at(&a, end - 1);
        bool begins = row_at(&a, begin) != row || !comes_from_before(&a, begin);
        if (row == a.of.held || !begins || !goes_on_behind(&a, end)) continue;
        for (int64_t i = threadIdx.x * CHUNK; i < a.of.width; i += blockDim.x * CHUNK) {
            int n = chunk_of(i, a.of.width);
            float sum[CHUNK], v[CHUNK];
            load_chunk(partial, partial_at(&a, piece, 1) + i, n, sum);
            for (int64_t p = piece + 1; p < a.pieces && row_at(&a, p * a.piece) == row; p++) {
                load_chunk(partial, partial_at(&a, p, 0) + i, n, v);
                UNROLL
                for (int j = 0; j < CHUNK; j++)
                    sum[j] += v[j];
            }
            add_to_table(&a, row, i, n, sum);
        }
    }
}

static int64_t tiles_of(const struct lookup_args *args)
{
    return (args->count + THREADS - 1) / THREADS;
}
static int bits_of(const struct lookup_args *args)
{
    int bits = 1;
    while (args->held >> bits)
        bits++;
    return bits;
}
// A block walks about as many tokens as there are sums of pieces to walk.
static int64_t piece_of(const struct lookup_args *args)
{
    int64_t piece = PIECE_LEAST;
    while (8 * piece * piece < args->count)
        piece *= 2;
    return piece;
}
static int64_t pieces_of(const struct lookup_args *args)
{
    return (args->count + piece_of(args) - 1) / piece_of(args);
}

int64_t kernel_lookup_ints(const struct lookup_args *args)
{
    return 2 * args->count + BINS_MAX * tiles_of(args);
}
int64_t kernel_lookup_floats(const struct lookup_args *args)
{
    return 2 * pieces_of(args) * args->width;
}

static const int *sort_tokens(struct CUstream_st *stream, const struct lookup_args *args)
{
    int bits = bits_of(args), passes = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
    int each = (bits + passes - 1) / passes;
    int *orders[2] = {args->sorting, args->sorting + args->count};
    struct sort_args a = {
        args->count, args->first, args->held, tiles_of(args), 0,
        1 << each,   args->ids,   NULL,       NULL,           args->sorting + 2 * args->count};
    for (int pass = 0; pass < passes; pass++) {
        a.shift = pass * each;
        a.to = orders[pass % 2];
        LAUNCH(count_digits, a, blocks_for(a.tiles, 1), THREADS, stream);
        LAUNCH(scan_counts, a, 1, THREADS, stream);
        LAUNCH(place_tokens, a, blocks_for(a.tiles, 1), THREADS, stream);
        a.from = a.to;
    }
    return a.to;
}

// Adds to the table: who wants no sum clears it first.
void kernel_gather_backward(struct CUstream_st *stream, const struct lookup_args *args)
{
    struct runs_args a = {*args, sort_tokens(stream, args), piece_of(args), pieces_of(args)};
    LAUNCH(sum_pieces, a, blocks_for(a.pieces, 1), THREADS, stream);
    LAUNCH(sum_partials, a, blocks_for(a.pieces, 1), THREADS, stream);
}

struct pair_at {
    int64_t ids, table, rows;
};
DEVICE struct pair_at pair_of(const struct pair_dims *dims, int64_t index)
{
    struct pair_at at = {0, 0, 0};
    for (int i = dims->rank - 1; i >= 0; i--) {
        struct split of = split_of(index, dims->sizes[i]);
        index = of.line;
        at.ids += of.column * dims->ids[i];
        at.table += of.column * dims->table[i];
        at.rows += of.column * dims->rows[i];
    }
    return at;
}

KERNEL(pairs, struct pairs_args, a)
{
    for (int64_t i = INDEX; i < a.all.count; i += INDICES) {
        struct pair_at at = pair_of(&a.all, i);
        int64_t id = a.ids[at.ids];
        bool is_here = id >= 0 && id < a.whole;
        if (!is_here) *a.fault = 1;
        store_sum(a.rows, at.rows, a.adds, is_here ? load(a.table, at.table + id * a.row) : 0);
    }
}

void kernel_pairs(struct CUstream_st *stream, const struct pairs_args *args)
{
    LAUNCH(pairs, *args, blocks_for(args->all.count, THREADS), THREADS, stream);
}

// Each thread sums its column in the order of what is walked.
BLOCK_KERNEL(pairs_back, struct pairs_args, a)
{
    __shared__ float sums[PAIR_ROWS][PAIR_LANES];
    int64_t lane = threadIdx.x;
    for (int64_t i = INDEX; i < a.columns.count; i += INDICES) {
        struct pair_at column = pair_of(&a.columns, i);
        for (int64_t first = 0; first < a.whole; first += PAIR_ROWS) {
            int64_t left = a.whole - first, held = left < PAIR_ROWS ? left : PAIR_ROWS;
            for (int64_t row = 0; row < held; row++)
                sums[row][lane] = 0;
            for (int64_t w = 0; w < a.walked.count; w++) {
                struct pair_at at = pair_of(&a.walked, w);
                int64_t row = a.ids[column.ids + at.ids] - first;
                if (first + row < 0 || first + row >= a.whole) *a.fault = 1;
                if (row >= 0 && row < held) sums[row][lane] += load(a.rows, column.rows + at.rows);
            }
            for (int64_t row = 0; row < held; row++)
                store_sum(a.table, column.table + (first + row) * a.row, a.adds, sums[row][lane]);
        }
    }
}

void kernel_pairs_backward(struct CUstream_st *stream, const struct pairs_args *args)
{
    LAUNCH(pairs_back, *args, blocks_for(args->columns.count, PAIR_LANES), PAIR_LANES, stream);
}
