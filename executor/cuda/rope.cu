#include "executor/cuda/device_code.h"

// Rotary positions and ALiBi, which both go by the index in the whole sequence.

// Angles in double: a position of some thousands leaves no digits of a float's angle.
KERNEL(rope_table, struct table_args, a)
{
    int64_t half = a.dims / 2, pairs = a.columns ? half / 2 : half;
    for (int64_t i = INDEX; i < a.count * half; i += INDICES) {
        int64_t position = i / half, pair = i % half, token = a.first + position;
        if (a.columns) {
            token -= a.still;
            token = token < 0 ? 0 : pair < pairs ? token / a.columns : token % a.columns;
        }
        double rate = pow(a.theta, -(double)(pair % pairs) / (double)pairs);
        double angle = rate * (double)token;
        a.table[position * a.dims + pair] = (float)cos(angle);
        a.table[position * a.dims + half + pair] = (float)sin(angle);
    }
}

void kernel_rope_table(struct CUstream_st *stream, const struct table_args *args)
{
    LAUNCH(rope_table, *args, blocks_for(args->count * args->dims / 2, THREADS), THREADS, stream);
}

// A thread reads both of a pair before it writes either: in place is allowed.
DEVICE void rotate_each(const struct rope_args *a)
{
    int64_t half = a->dims / 2, items = a->width - half, rows = a->elements / a->width;
    for (int64_t i = INDEX; i < rows * items; i += INDICES) {
        int64_t row = i / items, item = i % items, at = row * a->width;
        int64_t from = apart(at, a->inner, a->x_stride), to = apart(at, a->inner, a->y_stride);
        if (item >= half) {  // what is not rotated
            int64_t rest = item - half;
            if (rest >= a->first) rest += a->dims;
            store(a->y, to + rest, load(a->x, from + rest));
            continue;
        }
        const float *table = a->table + at / a->inner % a->positions * a->dims;
        float cosine = table[item], sine = a->sign * table[half + item];
        from += a->first + item;
        to += a->first + item;
        float low = load(a->x, from), high = load(a->x, from + half);
        store(a->y, to, low * cosine - high * sine);
        store(a->y, to + half, high * cosine + low * sine);
    }
}

// Rows whose first dims are rotated, by chunks.
static inline HOST_AND_DEVICE bool rotates_chunks(const struct rope_args *a)
{
    return a->first == 0 && a->dims % (2 * CHUNK) == 0 && (a->width - a->dims) % CHUNK == 0;
}

DEVICE void rotate_chunk(const struct rope_args *a, int64_t from, int64_t to, int64_t table,
                         float sign)
{
    struct reals angles = {(void *)a->table, NUMBER_FP32};
    float low[CHUNK], high[CHUNK], cosine[CHUNK], sine[CHUNK];
    int64_t half = a->dims / 2;
    load_chunk(a->x, from, CHUNK, low);
    load_chunk(a->x, from + half, CHUNK, high);
    load_chunk(angles, table, CHUNK, cosine);
    load_chunk(angles, table + half, CHUNK, sine);
    UNROLL
    for (int j = 0; j < CHUNK; j++) {
        float x = low[j], y = high[j], s = sign * sine[j];
        low[j] = x * cosine[j] - y * s;
        high[j] = y * cosine[j] + x * s;
    }
    store_chunk(a->y, to, CHUNK, low);
    store_chunk(a->y, to + half, CHUNK, high);
}

DEVICE void rotate_chunks(const struct rope_args *a)
{
    int64_t halves = a->dims / 2 / CHUNK, each = halves + (a->width - a->dims) / CHUNK;
    int64_t heads = a->inner / a->width, count = a->elements / a->width * each;
    for (int64_t i = INDEX; i < count; i += INDICES) {
        struct split of = split_of(i, each), at = split_of(of.line, heads);
        int64_t head = at.column * a->width, chunk = of.column * CHUNK;
        int64_t from = at.line * (a->x_stride ? a->x_stride : a->inner) + head + chunk;
        int64_t to = at.line * (a->y_stride ? a->y_stride : a->inner) + head + chunk;
        if (of.column < halves) {
            int64_t position = split_of(at.line, a->positions).column;
            rotate_chunk(a, from, to, position * a->dims + chunk, a->sign);
        } else {  // what is not rotated begins behind the other half
            float rest[CHUNK];
            load_chunk(a->x, from + a->dims / 2, CHUNK, rest);
            store_chunk(a->y, to + a->dims / 2, CHUNK, rest);
        }
    }
}

DEVICE void rotate(const struct rope_args *a)
{
    if (rotates_chunks(a)) {
        rotate_chunks(a);
    } else {
        rotate_each(a);
    }
}

// Queries and keys have different heads, and with grouped queries different numbers of them:
// threads go through the one and then through the other.
KERNEL(ropes, struct ropes_args, a)
{
    rotate(&a.first);
    if (a.second.elements > 0) rotate(&a.second);
}

static int64_t rope_items(const struct rope_args *args)
{
    if (args->elements == 0) return 0;
    int64_t items = args->width - args->dims / 2;
    return args->elements / args->width * (rotates_chunks(args) ? items / CHUNK : items);
}

void kernel_ropes(struct CUstream_st *stream, const struct ropes_args *args)
{
    int64_t first = rope_items(&args->first), second = rope_items(&args->second);
    int64_t threads = first > second ? first : second;
    LAUNCH(ropes, *args, blocks_for(threads, THREADS), THREADS, stream);
}

KERNEL(alibi, struct alibi_args, a)
{
    for (int64_t i = INDEX; i < a.elements; i += INDICES) {
        int64_t head = a.first_head + i / a.head_stride % a.heads;
        float slope = (float)(a.scale * exp2(-8.0 * (double)(head + 1) / (double)a.whole_heads));
        store(a.y, i, load(a.x, i) + slope * (float)(a.first_key + i % a.keys));
    }
}

void kernel_alibi(struct CUstream_st *stream, const struct alibi_args *args)
{
    LAUNCH(alibi, *args, blocks_for(args->elements, THREADS), THREADS, stream);
}
