#include "executor/cuda/device_code.h"

// y = (scalar + gate) * x, a gate of some dims being repeated over the others, and what such a gate
// gets back: sums of rows, in chunks of rows that are added up in order.

// How far place `index` leads along the dims that are repeated, or along the others.
DEVICE int64_t along(const struct modulate_args *a, int64_t index, bool is_repeated,
                     const int64_t *strides)
{
    int64_t at = 0;
    UNROLL
    for (int i = WALK_DIMS - 1; i >= 0; i--) {
        if (i >= a->rank || (a->gate_strides[i] == 0) != is_repeated) continue;
        struct split s = split_of(index, a->sizes[i]);
        at += s.column * strides[i];
        index = s.line;
    }
    return at;
}

// Where the gate of a row begins.
DEVICE int64_t gate_of_row(const struct modulate_args *a, int64_t row)
{
    int64_t at = 0;
    UNROLL
    for (int i = WALK_DIMS - 1; i >= 0; i--) {
        if (i >= a->rank) continue;
        struct split s = split_of(row, a->sizes[i]);
        at += s.column * a->gate_strides[i];
        row = s.line;
    }
    return at;
}

KERNEL(modulate, struct modulate_args, a)
{
    int64_t pieces = (a.width + CHUNK - 1) / CHUNK;
    for (int64_t at = INDEX; at < a.rows * pieces; at += INDICES) {
        struct split s = split_of(at, pieces);
        int64_t column = s.column * CHUNK, here = s.line * a.width + column;
        int n = chunk_of(column, a.width);
        float gate[CHUNK], x[CHUNK];
        load_chunk(a.gate, gate_of_row(&a, s.line) + column, n, gate);
        load_chunk(a.x, here, n, x);
        UNROLL
        for (int j = 0; j < CHUNK; j++)
            x[j] *= a.scalar + gate[j];
        store_chunk(a.y, here, n, x);
    }
}

void kernel_modulate(struct CUstream_st *stream, const struct modulate_args *args)
{
    int64_t pieces = args->rows * ((args->width + CHUNK - 1) / CHUNK);
    LAUNCH(modulate, *args, blocks_for(pieces, THREADS), THREADS, stream);
}

// A thread sums some columns of a chunk of the rows that share a gate.
KERNEL(gate_sums, struct modulate_args, a)
{
    int64_t pieces = (a.width + CHUNK - 1) / CHUNK, gates = a.gates * pieces;
    for (int64_t at = INDEX; at < a.chunks * gates; at += INDICES) {
        struct split chunk = split_of(at, gates), s = split_of(chunk.column, pieces);
        int64_t column = s.column * CHUNK, row = along(&a, s.line, false, a.row_strides) + column;
        int64_t to = along(&a, s.line, false, a.gate_strides) + column;
        int64_t first = chunk.line * a.repeats / a.chunks;
        int64_t end = (chunk.line + 1) * a.repeats / a.chunks;
        int n = chunk_of(column, a.width);
        float sum[CHUNK] = {0}, x[CHUNK], d[CHUNK];
        for (int64_t i = first; i < end; i++) {
            int64_t from = row + along(&a, i, true, a.row_strides);
            load_chunk(a.x, from, n, x);
            if (a.d.data) load_chunk(a.d, from, n, d);
            UNROLL
            for (int j = 0; j < CHUNK; j++)
                sum[j] += a.d.data ? d[j] * x[j] : x[j];
        }
        store_chunk(a.d_gate, chunk.line * a.gates * a.width + to, n, sum);
    }
}

void kernel_gate_sums(struct CUstream_st *stream, const struct modulate_args *args)
{
    struct modulate_args own = *args;
    int64_t columns = args->gates * args->width;
    own.chunks = args->repeats > 1 ? column_chunks(args->repeats) : 1;
    bool is_direct = own.chunks == 1 && !args->adds;
    if (!is_direct) own.d_gate = (struct reals){args->partial, NUMBER_FP32};
    int64_t pieces = own.chunks * args->gates * ((args->width + CHUNK - 1) / CHUNK);
    LAUNCH(gate_sums, own, blocks_for(pieces, THREADS), THREADS, stream);
    if (!is_direct)
        kernel_chunks(stream, args->partial, own.chunks, columns, args->adds, args->d_gate);
}
