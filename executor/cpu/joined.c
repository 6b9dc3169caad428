#include "executor/cpu/array.h"
#include "executor/merged.h"
#include "plan/lower/groups.h"

#include <assert.h>

// Groups of operators as one call (plan/lower/joins.inc).
//
// SUM: the other terms first, then every GEMM adds to them. OpenBLAS begins a GEMM by writing zeros
// where it does not add, so that the terms cost what the zeros would.
//
// MERGED: executor/merged.h makes one GEMM of them.
//
// ROWS: some rows of (batch, seq) at a time go through all operators while they are in the cache;
// results that nobody else reads stay in a room of so many rows. The kernels are those that run
// alone: rows do not look at each other, and sums over them go on in the same order.

// Of the second-level cache, which other operands want as well.
enum { TILE_BYTES = 256 << 10 };

static int find_term(const struct kernel_call *sum, const void *data)
{
    int k = 0;
    while (k < sum->input_count && sum->inputs[k].data != data)
        k++;
    return k < sum->input_count ? k : -1;
}

static const char *run_sum(struct device *device, enum stream stream,
                           const struct kernel_call *calls, int count)
{
    assert(count > 1 && count <= GROUP_MEMBERS_MAX);
    struct kernel_call sum = calls[count - 1];
    const char *fault = NULL;
    for (int i = 0; i + 1 < count; i++) {
        int k = find_term(&sum, calls[i].outputs[0].data);
        if (k < 0) return "a sum lacks the GEMM that is added to it";
        memmove(&sum.inputs[k], &sum.inputs[k + 1],
                (size_t)(--sum.input_count - k) * sizeof *sum.inputs);
    }
    if (sum.input_count > 0) fault = cpu_run(device, stream, &sum);
    for (int i = 0; i + 1 < count && !fault; i++) {
        struct kernel_call gemm = calls[i];
        gemm.outputs[0].data = sum.outputs[0].data;
        gemm.adds = i > 0 || sum.input_count > 0 || call_adds(&sum, 0);
        fault = cpu_run(device, stream, &gemm);
    }
    return fault;
}

// Of a row of (batch, seq), whatever stands behind.
static int64_t row_bytes(const struct kernel_array *array)
{
    return array_row(array) * array_element_bytes(array);
}

// Results that stay in the room, and where in it: bytes from its beginning for a row.
struct passing {
    const void *data[GROUP_MEMBERS_MAX];
    int64_t row_first[GROUP_MEMBERS_MAX];
    int count;
    int64_t row_bytes;
};

struct row_tile {
    const struct passing *passing;
    char *room;
    int64_t capacity;  // rows
    int64_t batch, first, count;
};

static struct passing passing_of(const struct kernel_call *calls, int count)
{
    struct passing passing = {.count = 0};
    for (int i = 0; i < count; i++) {
        if (!(calls[i].passing & 1) || !array_has_rows(&calls[i].outputs[0])) continue;
        passing.data[passing.count] = calls[i].outputs[0].data;
        passing.row_first[passing.count++] = passing.row_bytes;
        passing.row_bytes += row_bytes(&calls[i].outputs[0]);
    }
    return passing;
}

// The rows of an array that are in the tile.
static void cut(const struct row_tile *tile, struct kernel_array *array)
{
    const void *data = array->data;
    bool has_rows = array_has_rows(array);
    array_cut_rows(array, tile->batch, tile->first, tile->count);
    for (int i = 0; i < tile->passing->count && has_rows; i++) {
        if (tile->passing->data[i] == data)
            array->data = tile->room + tile->capacity * tile->passing->row_first[i];
    }
}

static const char *run_tile(struct device *device, enum stream stream,
                            const struct kernel_call *calls, int count, const struct row_tile *tile)
{
    const char *fault = NULL;
    for (int i = 0; i < count && !fault; i++) {
        struct kernel_call call = calls[i];
        for (int k = 0; k < call.input_count; k++)
            cut(tile, &call.inputs[k]);
        for (int k = 0; k < call.output_count; k++) {
            // Sums over all rows: the first tile begins them.
            bool is_begun = !array_has_rows(&call.outputs[k]) && tile->batch + tile->first > 0;
            if (is_begun) call.adds |= 1u << k;
            cut(tile, &call.outputs[k]);
        }
        fault = cpu_run(device, stream, &call);
    }
    return fault;
}

static int64_t tile_rows(const struct kernel_call *calls, int count)
{
    int64_t bytes = 1;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < calls[i].input_count; k++)
            bytes += array_has_rows(&calls[i].inputs[k]) ? row_bytes(&calls[i].inputs[k]) : 0;
        for (int k = 0; k < calls[i].output_count; k++)
            bytes += array_has_rows(&calls[i].outputs[k]) ? row_bytes(&calls[i].outputs[k]) : 0;
    }
    return bytes < TILE_BYTES ? TILE_BYTES / bytes : 1;
}

static const char *run_rows(struct device *device, enum stream stream,
                            const struct kernel_call *calls, int count)
{
    assert(count > 0 && count <= GROUP_MEMBERS_MAX);
    struct cpu_device *own = (struct cpu_device *)(void *)device;
    const struct kernel_array *rows = &calls[count - 1].outputs[0];
    struct passing passing = passing_of(calls, count);
    struct row_tile tile = {.passing = &passing, .capacity = tile_rows(calls, count)};
    assert(tile.capacity > 0 && passing.count <= count);
    if (tile.capacity > rows->sizes[1]) tile.capacity = rows->sizes[1];
    tile.room = cpu_scratch(own, SCRATCH_TILE, tile.capacity * passing.row_bytes + 1);
    if (!tile.room) return cpu_no_memory(own);
    // Sums over no rows at all are made all the same.
    tile.count = 0;
    if (rows->sizes[0] * rows->sizes[1] == 0) return run_tile(device, stream, calls, count, &tile);
    for (tile.batch = 0; tile.batch < rows->sizes[0]; tile.batch++) {
        for (tile.first = 0; tile.first < rows->sizes[1]; tile.first += tile.count) {
            int64_t left = rows->sizes[1] - tile.first;
            tile.count = left < tile.capacity ? left : tile.capacity;
            const char *fault = run_tile(device, stream, calls, count, &tile);
            if (fault) return fault;
        }
    }
    return NULL;
}

// One GEMM, which is added to its biases as to the terms of any sum.
static const char *run_merged(struct device *device, enum stream stream,
                              const struct kernel_call *calls, int count)
{
    struct kernel_call folded[MERGED_CALLS];
    int left = merged_fold(calls, count, sizeof(REAL), sizeof(REAL), folded);
    if (left == 2 && folded[1].op->kind == OP_ADD) return run_sum(device, stream, folded, left);
    const char *fault = left ? NULL : MERGED_APART;
    for (int i = 0; i < left && !fault; i++)
        fault = cpu_run(device, stream, &folded[i]);
    return fault;
}

const char *cpu_run_joined(struct device *device, enum stream stream,
                           const struct kernel_call *calls, int count)
{
    bool is_sum = calls[0].op->kind == OP_CONTRACT;
    if (calls[0].merged) return run_merged(device, stream, calls, count);
    return (is_sum ? run_sum : run_rows)(device, stream, calls, count);
}
