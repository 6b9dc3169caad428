#include "executor/cuda/device_code.h"

// Rotary positions and ALiBi, which both go by the index in the whole sequence.

struct table_args {
    double theta;
    int64_t dims, first, count;
    float *table;
};
// Angles in double: a position of some thousands leaves no digits of a float's angle.
KERNEL(rope_table, struct table_args, a)
{
    int64_t half = a.dims / 2;
    for (int64_t i = INDEX; i < a.count * half; i += INDICES) {
        int64_t position = i / half, pair = i % half;
        double rate = pow(a.theta, -2.0 * (double)pair / (double)a.dims);
        double angle = rate * (double)(a.first + position);
        a.table[position * a.dims + pair] = (float)cos(angle);
        a.table[position * a.dims + half + pair] = (float)sin(angle);
    }
}

void kernel_rope_table(struct CUstream_st *stream, double theta, int64_t dims, int64_t first,
                       int64_t count, float *table)
{
    struct table_args args = {theta, dims, first, count, table};
    LAUNCH(rope_table, args, blocks_for(count * dims / 2, THREADS), THREADS, stream);
}

// A thread reads both of a pair before it writes either: in place is allowed.
DEVICE void rotate(const struct rope_args a)
{
    int64_t half = a.dims / 2, items = a.width - half, rows = a.elements / a.width;
    for (int64_t i = INDEX; i < rows * items; i += INDICES) {
        int64_t row = i / items, item = i % items, at = row * a.width;
        int64_t from = apart(at, a.inner, a.x_stride), to = apart(at, a.inner, a.y_stride);
        if (item >= half) {  // what is not rotated
            int64_t rest = item - half;
            if (rest >= a.first) rest += a.dims;
            store(a.y, to + rest, load(a.x, from + rest));
            continue;
        }
        const float *table = a.table + at / a.inner % a.positions * a.dims;
        float cosine = table[item], sine = a.sign * table[half + item];
        from += a.first + item;
        to += a.first + item;
        float low = load(a.x, from), high = load(a.x, from + half);
        store(a.y, to, low * cosine - high * sine);
        store(a.y, to + half, high * cosine + low * sine);
    }
}

// Queries and keys have different heads, and with grouped queries different numbers of them:
// threads go through the one and then through the other.
KERNEL(ropes, struct ropes_args, a)
{
    rotate(a.first);
    if (a.second.elements > 0) rotate(a.second);
}

static int64_t rope_items(const struct rope_args *args)
{
    if (args->elements == 0) return 0;
    return args->elements / args->width * (args->width - args->dims / 2);
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
        float slope = (float)exp2(-8.0 * (double)(head + 1) / (double)a.whole_heads);
        store(a.y, i, load(a.x, i) + slope * (float)(a.first_key + i % a.keys));
    }
}

void kernel_alibi(struct CUstream_st *stream, const struct alibi_args *args)
{
    LAUNCH(alibi, *args, blocks_for(args->elements, THREADS), THREADS, stream);
}
