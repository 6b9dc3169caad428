#include "executor/calibrate/calibrate.h"

#include "executor/array.h"

#include <assert.h>
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
    assert(bytes > 0);
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
    // A whole number of elements each time: the pattern goes on where it began.
    for (int64_t at = 0; at < bytes && !fault; at += step) {
        fault = backend->copy(side->device, STREAM_COMPUTE, COPY_DEVICE, (char *)array->data + at,
                              from, bytes - at < step ? bytes - at : step);
    }
    return fault;
}

// A byte is a mask of dropout: zeros, as fresh memory has them on a host.
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
    for (int i = 0; i < array.rank; i++)
        assert(array.sizes[i] >= 0 && array.sizes[i] <= array.whole[i]);
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
    for (int a = 0; a < calibrate_array_count(block); a++) {
        if (calibrate_is_needed(block, a)) arrays[a] = array_of(block, a);
    }
}

struct placing {
    const struct calibrate_side *side;
    const struct calibrate_pattern *pattern;
    const struct calibrate_block *block;
    struct kernel_array *arrays;
    struct calibrate_rooms *rooms;
};

// Memory that is filled like an array of `elements`.
static const char *make_room(const struct placing *placing, enum element element, int64_t elements,
                             void **memory)
{
    const struct calibrate_side *side = placing->side;
    int64_t bytes = elements * element_bytes(side->backend, element);
    assert(elements >= 0);
    const char *fault = side->backend->allocate(side->device, bytes, memory);
    if (fault) return fault;
    placing->rooms->memory[placing->rooms->count++] = *memory;
    const struct kernel_array filled = {.data = *memory, .element = element};
    return fill(side, placing->pattern, &filled, bytes);
}

// Arrays of a plan are by buffer, of others by tensor.
static int array_of_buffer(const struct calibrate_block *block, int buffer)
{
    return block->plan ? buffer : block->program->buffers[buffer].tensor;
}

// The views of one packed buffer.
static const char *place_views(const struct placing *placing, int whole)
{
    const struct block_program *program = placing->block->program;
    void *memory = NULL;
    for (int v = 0; v < program->view_count; v++) {
        const struct packed_view *view = &program->views[v];
        int at = array_of_buffer(placing->block, view->buffer);
        struct kernel_array *array = &placing->arrays[at];
        if (view->whole != whole || !calibrate_is_needed(placing->block, at)) continue;
        int64_t elements = array->sizes[0] * array->sizes[1] * view->row;
        const char *fault = memory ? NULL : make_room(placing, array->element, elements, &memory);
        if (fault) return fault;
        int64_t each = element_bytes(placing->side->backend, array->element);
        array->data = (char *)memory + view->first * each;
        array->row_stride = view->row;
    }
    return NULL;
}

// The array that is a parameter (or of its gradient); -1: nothing reads or writes it.
static int find_parameter(const struct calibrate_block *block, int parameter, bool is_gradient)
{
    for (int a = 0; a < calibrate_array_count(block); a++) {
        if (!calibrate_is_needed(block, a)) continue;  // a packed buffer is no tensor
        const struct tensor *tensor = calibrate_tensor(block, a);
        bool is_it = is_gradient ? tensor->role == TENSOR_PARAMETER_GRADIENT &&
                                       tensor->gradient_of == parameter
                                 : tensor == &block->program->block->tensors[parameter];
        if (is_it) return a;
    }
    return -1;
}

// All parameters, or all of their gradients, one behind another.
static const char *place_parameters(const struct placing *placing, bool is_gradient)
{
    const struct block_program *program = placing->block->program;
    enum element element = is_gradient ? ELEMENT_FP32 : ELEMENT_COMPUTE;
    void *memory = NULL;
    int64_t elements = 0;
    for (int p = 0; p < program->parameter_count; p++) {
        int a = find_parameter(placing->block, program->parameters[p].tensor, is_gradient);
        elements += a < 0 ? 0 : array_elements(&placing->arrays[a]);
    }
    const char *fault = elements ? make_room(placing, element, elements, &memory) : NULL;
    elements = 0;
    for (int p = 0; p < program->parameter_count && memory && !fault; p++) {
        int a = find_parameter(placing->block, program->parameters[p].tensor, is_gradient);
        if (a < 0) continue;
        placing->arrays[a].data =
            (char *)memory + elements * element_bytes(placing->side->backend, element);
        elements += array_elements(&placing->arrays[a]);
    }
    return fault;
}

bool calibrate_arrays(const struct calibrate_side *side, const struct calibrate_pattern *pattern,
                      const struct calibrate_block *block, struct kernel_array *arrays,
                      struct calibrate_rooms *rooms, struct err *err)
{
    struct placing placing = {side, pattern, block, arrays, rooms};
    for (int a = 0; a < calibrate_array_count(block); a++) {
        if (calibrate_is_needed(block, a)) arrays[a] = array_of(block, a);
    }
    // Those that share memory first, as an engine has them: what is left has its own.
    const char *fault = place_parameters(&placing, false);
    if (!fault) fault = place_parameters(&placing, true);
    for (int b = 0; b < block->program->buffer_count && !fault; b++) {
        if (block->program->buffers[b].packed) fault = place_views(&placing, b);
    }
    for (int a = 0; a < calibrate_array_count(block) && !fault; a++) {
        if (!calibrate_is_needed(block, a) || arrays[a].data) continue;
        fault = make_room(&placing, arrays[a].element, array_elements(&arrays[a]), &arrays[a].data);
    }
    return calibrate_ok(err, "memory to measure in", fault);
}
