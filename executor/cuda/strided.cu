#include "executor/cuda/image_code.h"

// What goes with loops over numbers. All are bound by memory: a thread a number in the order of the
// loops, so that neighbours write neighbours; moves that turn rows into columns go by tiles in
// shared memory, so that they read neighbours as well.

struct strided_places {
    int64_t a, b, y;
};
DEVICE struct strided_places begin_of(const struct strided_args *a)
{
    struct strided_places p = {a->a.first, a->b.first, a->y.first};
    return p;
}
DEVICE void turn(const struct strided_args *a, int loop, int64_t times, struct strided_places *p)
{
    p->a += times * a->a.steps[loop];
    p->b += times * a->b.steps[loop];
    p->y += times * a->y.steps[loop];
}

DEVICE int64_t turns_of(const struct strided_args *a)
{
    int64_t turns = 1;
    for (int l = 0; l < a->count; l++)
        turns *= a->sizes[l];
    return turns;
}

DEVICE float paired(int kind, float a, float b)
{
    switch (kind) {
    case STRIDED_ADD:
        return a + b;
    case STRIDED_SUBTRACT:
        return a - b;
    case STRIDED_MULTIPLY:
        return a * b;
    default:
        return a / b;
    }
}

KERNEL(strided, struct strided_args, a)
{
    int64_t turns = turns_of(&a);
    for (int64_t i = INDEX; i < turns; i += INDICES) {
        struct strided_places p = begin_of(&a);
        struct split s = {i, 0};
        for (int l = a.count - 1; l >= 0; l--) {
            s = split_of(s.line, a.sizes[l]);
            turn(&a, l, s.column, &p);
        }
        float value = load(a.a.reals, p.a);
        if (a.kind != STRIDED_MOVE) value = paired(a.kind, value, load(a.b.reals, p.b));
        store_sum(a.y.reals, p.y, a.adds, value);
    }
}

// A tile of each turn of the loops that are neither's; one column more keeps banks apart.
enum { STRIDED_TILE = 32 };
DEVICE struct strided_places tile_of(const struct strided_args *a, int64_t tile, int64_t *row,
                                     int64_t *column)
{
    struct strided_places p = begin_of(a);
    int64_t columns = (a->sizes[a->y_unit] + STRIDED_TILE - 1) / STRIDED_TILE;
    int64_t rows = (a->sizes[a->a_unit] + STRIDED_TILE - 1) / STRIDED_TILE;
    struct split s = split_of(tile, columns);
    *column = s.column * STRIDED_TILE;
    s = split_of(s.line, rows);
    *row = s.column * STRIDED_TILE;
    for (int l = a->count - 1; l >= 0; l--) {
        if (l == a->a_unit || l == a->y_unit) continue;
        s = split_of(s.line, a->sizes[l]);
        turn(a, l, s.column, &p);
    }
    return p;
}

HOST_AND_DEVICE static inline int64_t tile_count(const struct strided_args *a)
{
    int64_t tiles = 1;
    for (int l = 0; l < a->count; l++) {
        bool is_tiled = l == a->a_unit || l == a->y_unit;
        tiles *= is_tiled ? (a->sizes[l] + STRIDED_TILE - 1) / STRIDED_TILE : a->sizes[l];
    }
    return tiles;
}

BLOCK_KERNEL(strided_tiles, struct strided_args, a)
{
    __shared__ float tile[STRIDED_TILE][STRIDED_TILE + 1];
    int64_t tiles = tile_count(&a), rows = a.sizes[a.a_unit], columns = a.sizes[a.y_unit];
    int lane = (int)(threadIdx.x % STRIDED_TILE), first = (int)(threadIdx.x / STRIDED_TILE);
    int warps = (int)(blockDim.x / STRIDED_TILE);
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        int64_t row, column;
        struct strided_places p = tile_of(&a, t, &row, &column);
        for (int i = first; i < STRIDED_TILE; i += warps) {
            if (row + lane < rows && column + i < columns)
                tile[lane][i] = load(a.a.reals, p.a + (row + lane) * a.a.steps[a.a_unit] +
                                                    (column + i) * a.a.steps[a.y_unit]);
        }
        __syncthreads();
        for (int i = first; i < STRIDED_TILE; i += warps) {
            if (row + i < rows && column + lane < columns)
                store_sum(a.y.reals,
                          p.y + (row + i) * a.y.steps[a.a_unit] +
                              (column + lane) * a.y.steps[a.y_unit],
                          a.adds, tile[i][lane]);
        }
        __syncthreads();
    }
}

void kernel_strided(struct CUstream_st *stream, const struct strided_args *args)
{
    int64_t turns = 1;
    for (int l = 0; l < args->count; l++)
        turns *= args->sizes[l];
    if (args->a_unit >= 0)
        LAUNCH(strided_tiles, *args, blocks_for(tile_count(args), 1), THREADS, stream);
    else
        LAUNCH(strided, *args, blocks_for(turns, THREADS), THREADS, stream);
}

// Which turns go with a number of y, as where a and b stand at the first of them.
DEVICE bool turns_with(const struct strided_sums_args *s, int64_t number, int64_t *a, int64_t *b)
{
    int64_t left = number - s->y.first;
    *a = s->a.first, *b = s->b.first;
    if (left < 0) return false;
    for (int l = 0; l < s->nested; l++) {
        struct split at = split_of(left, s->y.steps[l]);
        if (at.line >= s->sizes[l]) return false;
        left = at.column;
        *a += at.line * s->a.steps[l];
        *b += at.line * s->b.steps[l];
    }
    return left == 0;
}

// Turns of the loops that repeat, from one to before another. The last loop goes on by itself.
DEVICE float sum_of(const struct strided_sums_args *s, int64_t a_first, int64_t b_first,
                    int64_t turn, int64_t end)
{
    float sum = 0;
    int last = s->count - 1;
    bool repeats = s->count > s->nested;
    while (turn < end) {
        int64_t a = a_first, b = b_first, n = 1;
        struct split at = {turn, 0};
        for (int l = last; l >= s->nested; l--) {
            at = split_of(at.line, s->sizes[l]);
            if (l == last) n = s->sizes[l] - at.column;
            a += at.column * s->a.steps[l];
            b += at.column * s->b.steps[l];
        }
        if (n > end - turn) n = end - turn;
        turn += n;
        for (int64_t i = 0; i < n; i++) {
            float value = load(s->a.reals, a);
            bool is_pair = s->kind == STRIDED_MULTIPLY || s->kind == STRIDED_DIVIDE;
            sum += is_pair ? paired(s->kind, value, load(s->b.reals, b)) : value;
            if (!repeats) break;
            a += s->a.steps[last];
            b += s->b.steps[last];
        }
    }
    return sum;
}

KERNEL(strided_sums, struct strided_sums_args, s)
{
    for (int64_t i = INDEX; i < s.pieces * s.numbers; i += INDICES) {
        struct split at = split_of(i, s.numbers);
        int64_t a, b, first = at.line * s.turns / s.pieces;
        int64_t end = (at.line + 1) * s.turns / s.pieces;
        float sum = turns_with(&s, at.column, &a, &b) ? sum_of(&s, a, b, first, end) : 0;
        sum *= s.factor;
        if (s.divisor.data) sum /= load(s.divisor, at.column);
        if (s.pieces > 1)
            s.partial[i] = sum;
        else
            store_sum(s.y.reals, i, s.adds, sum);
    }
}

void kernel_strided_sums(struct CUstream_st *stream, const struct strided_sums_args *args)
{
    LAUNCH(strided_sums, *args, blocks_for(args->pieces * args->numbers, THREADS), THREADS, stream);
    if (args->pieces > 1)
        kernel_chunks(stream, args->partial, args->pieces, args->numbers, args->adds,
                      args->y.reals);
}
