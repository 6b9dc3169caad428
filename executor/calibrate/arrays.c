#include "executor/calibrate/calibrate.h"

#include "executor/array.h"

#include <stdlib.h>

// Memory to measure in. A device is given a pattern once and copies it over its arrays.

enum { PATTERN = 1 << 20 };

static uint64_t next_state(uint64_t state)
{
    return state * 6364136223846793005u + 1442695040888963407u;
}

// The speed of arithmetic depends on values where they are denormal, and power on how many bits
// change.
void calibrate_fill_host(float *reals, int64_t count)
{
    uint64_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = next_state(state);
        reals[i] = (float)(state >> 40) * 0x1p-24f - 0.5f;
    }
}

static void fill_ids(int64_t *ids, int64_t count)
{
    uint64_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = next_state(state);
        ids[i] = (int64_t)(state >> 33) % CALIBRATE_IDS;
    }
}

static int64_t element_bytes(const struct backend *backend, enum element element)
{
    switch (element) {
    case ELEMENT_INT64:
        return 8;
    case ELEMENT_BYTE:
        return 1;
    case ELEMENT_FP32:
        return backend->real_bytes;
    default:
        return backend->compute_bytes ? backend->compute_bytes : backend->real_bytes;
    }
}

static const char *put(const struct calibrate_side *side, void **memory, const void *from,
                       int64_t bytes)
{
    const struct backend *backend = side->backend;
    const char *fault = backend->allocate(side->device, bytes, memory);
    if (fault || !from) return fault;
    return backend->copy(side->device, STREAM_COMPUTE, COPY_FROM_HOST, *memory, from, bytes);
}

bool calibrate_pattern_make(const struct calibrate_side *side, struct calibrate_pattern *pattern,
                            struct err *err)
{
    *pattern = (struct calibrate_pattern){0};
    if (!calibrate_has_marks(side)) return true;
    struct arena scratch = {0};
    float *reals = ARENA_NEW(&scratch, float, PATTERN);
    int64_t *ids = ARENA_NEW(&scratch, int64_t, PATTERN);
    calibrate_fill_host(reals, PATTERN);
    fill_ids(ids, PATTERN);
    const struct backend *backend = side->backend;
    const char *fault = put(side, &pattern->reals, reals, PATTERN * backend->real_bytes);
    if (!fault) fault = put(side, &pattern->ids, ids, PATTERN * (int64_t)sizeof *ids);
    if (!fault && backend->compute_bytes != backend->real_bytes) {
        fault = put(side, &pattern->rounded, NULL, PATTERN * backend->compute_bytes);
        if (!fault)
            fault = backend->round(side->device, STREAM_COMPUTE, pattern->rounded, pattern->reals,
                                   PATTERN);
    }
    arena_free(&scratch);
    return calibrate_ok(err, "memory to measure in", fault);
}

void calibrate_pattern_free(const struct calibrate_side *side, struct calibrate_pattern *pattern)
{
    void *parts[] = {pattern->reals, pattern->rounded, pattern->ids};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i]) side->backend->release(side->device, parts[i]);
    }
}

static const char *copy_pattern(const struct calibrate_side *side,
                                const struct calibrate_pattern *pattern,
                                const struct kernel_array *array, int64_t bytes)
{
    const struct backend *backend = side->backend;
    int64_t each = element_bytes(backend, array->element), step = PATTERN * each;
    const void *from = array->element == ELEMENT_INT64 ? pattern->ids
                       : each == backend->real_bytes   ? pattern->reals
                                                       : pattern->rounded;
    const char *fault = NULL;
    if (array->element == ELEMENT_BYTE)
        return backend->fill(side->device, STREAM_COMPUTE, array->data, 0, bytes);
    for (int64_t at = 0; at < bytes && !fault; at += step) {
        fault = backend->copy(side->device, STREAM_COMPUTE, COPY_DEVICE, (char *)array->data + at,
                              from, bytes - at < step ? bytes - at : step);
    }
    return fault;
}

static const char *fill(const struct calibrate_side *side, const struct calibrate_pattern *pattern,
                        const struct kernel_array *array, int64_t bytes)
{
    if (pattern->reals) return copy_pattern(side, pattern, array, bytes);
    if (!side->backend->is_host || array->element == ELEMENT_BYTE) return NULL;
    if (array->element == ELEMENT_INT64) {
        fill_ids(array->data, bytes / 8);
    } else {
        calibrate_fill_host(array->data, bytes / (int64_t)sizeof(float));
    }
    return NULL;
}

// What is kept in full precision beside narrow activations: executor/backend.h.
static enum element element_of(const struct tensor *tensor)
{
    if (tensor->role == TENSOR_IDS) return ELEMENT_INT64;
    if (tensor->role == TENSOR_PARAMETER_GRADIENT) return ELEMENT_FP32;
    return tensor->element;
}

static struct kernel_array array_of(const struct calibrate_block *block, int index)
{
    const struct tensor *tensor = calibrate_tensor(block, index);
    struct kernel_array array = {.rank = tensor->rank, .element = element_of(tensor)};
    for (int i = 0; i < tensor->rank; i++) {
        array.dims[i] = tensor->extents[i].dim;
        array.sizes[i] = array.whole[i] =
            extent_size(&tensor->extents[i], block->batch, block->seq);
    }
    calibrate_hold(block, index, &array);
    return array;
}

static int64_t bytes_of(const struct calibrate_side *side, const struct kernel_array *array)
{
    return array_elements(array) * element_bytes(side->backend, array->element);
}

// Without an engine for it attention keeps its scores, weights and their gradients.
static int64_t scores_bytes(const struct calibrate_side *side, const struct calibrate_block *block)
{
    enum { MATRICES = 4 };
    int64_t most = 0;
    if (side->backend->is_host || side->precision != PRECISION_FP32) return 0;
    for (int i = 0; i < block->program->instr_count; i++) {
        const struct instr *instr = &block->program->instrs[i];
        int64_t bytes = MATRICES * side->backend->real_bytes * instr->batch * instr->heads *
                        instr->seq * instr->kv_seq;
        if (bytes > most) most = bytes;
    }
    return most;
}

int64_t calibrate_block_bytes(const struct calibrate_side *side,
                              const struct calibrate_block *block)
{
    int64_t bytes = scores_bytes(side, block);
    for (int a = 0; a < calibrate_array_count(block); a++) {
        if (!calibrate_is_needed(block, a)) continue;
        struct kernel_array array = array_of(block, a);
        bytes += bytes_of(side, &array);
    }
    return bytes;
}

void calibrate_shapes(const struct calibrate_block *block, struct kernel_array *arrays)
{
    for (int a = 0; a < calibrate_array_count(block); a++)
        arrays[a] = array_of(block, a);
}

bool calibrate_arrays(const struct calibrate_side *side, const struct calibrate_pattern *pattern,
                      const struct calibrate_block *block, struct kernel_array *arrays,
                      struct err *err)
{
    const char *fault = NULL;
    for (int a = 0; a < calibrate_array_count(block) && !fault; a++) {
        if (!calibrate_is_needed(block, a)) continue;
        arrays[a] = array_of(block, a);
        int64_t bytes = bytes_of(side, &arrays[a]);
        fault = side->backend->allocate(side->device, bytes, &arrays[a].data);
        if (!fault) fault = fill(side, pattern, &arrays[a], bytes);
    }
    return calibrate_ok(err, "memory to measure in", fault);
}
