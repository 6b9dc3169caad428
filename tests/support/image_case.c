#include "tests/support/image_case.h"

#include "tests/support/emulated.h"
#include "tests/support/test.h"

#include <math.h>

struct image_pair image_pair_open(struct arena *arena, enum precision precision, double tolerance)
{
    struct err err = {0};
    struct image_pair pair = {
        .arena = arena, .draw = draw_start("images", 91), .tolerance = tolerance};
    pair.backend[0] = backend_open("cpu-fp64", &err);
    pair.backend[1] = emulated_backend(precision);
    assert_string_equal(err.text, "");
    for (int i = 0; i < 2; i++)
        assert_null(pair.backend[i]->open(0, &pair.device[i]));
    return pair;
}

void image_pair_close(struct image_pair *pair)
{
    for (int i = 0; i < 2; i++)
        pair->backend[i]->close(pair->device[i]);
}

static int64_t bytes_of(const struct backend *backend, enum element element)
{
    if (element == ELEMENT_BYTE) return 1;
    if (element == ELEMENT_INT64) return 8;
    return element == ELEMENT_FP32 ? backend->real_bytes : backend->compute_bytes;
}

// Of 2 bytes bf16, which has every multiple of 1/64 below 1.
static void convert(double *value, void *there, enum element element, int64_t bytes, bool reads)
{
    float wide = (float)*value;
    uint32_t bits = 0;
    int64_t whole = (int64_t)*value;
    if (element == ELEMENT_BYTE) {
        *(unsigned char *)there = (unsigned char)whole;
    } else if (element == ELEMENT_INT64) {
        if (reads) *value = (double)*(int64_t *)there;
        if (!reads) *(int64_t *)there = whole;
    } else if (bytes == 8) {
        memcpy(reads ? (void *)value : there, reads ? there : (void *)value, 8);
    } else if (bytes == 4) {
        memcpy(reads ? (void *)&wide : there, reads ? there : (void *)&wide, 4);
        if (reads) *value = (double)wide;
    } else {
        memcpy(&bits, &wide, 4);
        if (!reads) memcpy(there, (char *)&bits + 2, 2);
        bits = 0;
        memcpy((char *)&bits + 2, there, 2);
        memcpy(&wide, &bits, 4);
        if (reads) *value = (double)wide;
    }
}

static void put(const struct image_pair *pair, int side, struct kernel_array *array,
                const double *values)
{
    const struct backend *backend = pair->backend[side];
    int64_t count = array_elements(array), bytes = bytes_of(backend, array->element);
    char *host = arena_alloc(pair->arena, (size_t)(count * bytes) + 1, 8);
    for (int64_t i = 0; i < count; i++) {
        double value = values[i];
        convert(&value, host + i * bytes, array->element, bytes, false);
    }
    assert_null(backend->allocate(pair->device[side], count * bytes + 1, &array->data));
    assert_null(backend->copy(pair->device[side], STREAM_COMPUTE, COPY_FROM_HOST, array->data, host,
                              count * bytes));
}

static double *get(const struct image_pair *pair, int side, const struct kernel_array *array)
{
    const struct backend *backend = pair->backend[side];
    int64_t count = array_elements(array), bytes = bytes_of(backend, array->element);
    char *host = arena_alloc(pair->arena, (size_t)(count * bytes) + 1, 8);
    double *values = ARENA_NEW(pair->arena, double, count + 1);
    assert_null(backend->copy(pair->device[side], STREAM_COMPUTE, COPY_TO_HOST, host, array->data,
                              count * bytes));
    for (int64_t i = 0; i < count; i++)
        convert(&values[i], host + i * bytes, array->element, bytes, true);
    return values;
}

static double *draw_values(struct image_pair *pair, const struct kernel_array *array)
{
    double *values = ARENA_NEW(pair->arena, double, array_elements(array) + 1);
    for (int64_t i = 0; i < array_elements(array); i++)
        values[i] = array->element == ELEMENT_BYTE ? draw_int(&pair->draw, 0, 1)
                                                   : draw_int(&pair->draw, -63, 63) / 64.0;
    return values;
}

// Those that are not given yet.
static void draw_all(struct image_pair *pair, struct image_call *tried)
{
    for (int i = 0; i < tried->call.input_count; i++)
        if (!tried->inputs[i]) tried->inputs[i] = draw_values(pair, &tried->call.inputs[i]);
    for (int i = 0; i < tried->call.output_count; i++)
        if (!tried->outputs[i]) tried->outputs[i] = draw_values(pair, &tried->call.outputs[i]);
}

static void run(struct image_pair *pair, int side, struct image_call *tried, double **results)
{
    struct kernel_call *call = &tried->call;
    call->op = &tried->op;
    for (int i = 0; i < call->input_count; i++)
        put(pair, side, &call->inputs[i], tried->inputs[i]);
    for (int i = 0; i < call->output_count; i++)
        put(pair, side, &call->outputs[i], tried->outputs[i]);
    if (call->part > 0) put(pair, side, &call->inner, tried->inner[side]);
    const char *fault = pair->backend[side]->can_run(call);
    if (!fault) fault = pair->backend[side]->run(pair->device[side], STREAM_COMPUTE, call);
    if (fault) fail_msg("%s on %s: %s", tried->op.name, pair->backend[side]->name, fault);
    assert_null(pair->backend[side]->synchronize(pair->device[side], STREAM_COMPUTE));
    for (int i = 0; i < call->output_count; i++)
        results[i] = get(pair, side, &call->outputs[i]);
    if (call->part > 0) {
        tried->inner[side] = get(pair, side, &call->inner);
        pair->backend[side]->release(pair->device[side], call->inner.data);
    }
    for (int i = 0; i < call->input_count; i++)
        pair->backend[side]->release(pair->device[side], call->inputs[i].data);
    for (int i = 0; i < call->output_count; i++)
        pair->backend[side]->release(pair->device[side], call->outputs[i].data);
}

static void compare(const struct image_pair *pair, const struct image_call *tried, int output,
                    const double *found, const double *expected)
{
    int64_t count = array_elements(&tried->call.outputs[output]);
    double largest = 1;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (int64_t i = 0; i < count; i++) {
        if (fabs(found[i] - expected[i]) <= pair->tolerance * largest) continue;
        fail_msg("%s (kind %d, phase %d), output %d, element %lld of %lld: %.9g, expected %.9g",
                 tried->op.name, (int)tried->op.work.type, (int)tried->op.phase, output,
                 (long long)i, (long long)count, found[i], expected[i]);
    }
}

void image_call_check(struct image_pair *pair, struct image_call *tried, double **kept)
{
    double *expected[OP_OUTPUT_MAX], *found[OP_OUTPUT_MAX];
    draw_all(pair, tried);
    run(pair, 0, tried, expected);
    run(pair, 1, tried, found);
    for (int i = 0; i < tried->call.output_count; i++) {
        compare(pair, tried, i, found[i], expected[i]);
        if (kept) kept[i] = expected[i];
    }
}

void image_calls_check(struct image_pair *pair, struct image_call ranks[2], int64_t sums)
{
    double *made[2][2][OP_OUTPUT_MAX];
    for (int r = 0; r < 2; r++) {
        draw_all(pair, &ranks[r]);
        ranks[r].call.inner = image_vector(DIM_CHANNEL, sums, ELEMENT_FP32);
        for (int side = 0; side < 2; side++)
            ranks[r].inner[side] = draw_values(pair, &ranks[r].call.inner);
    }
    for (int part = 1; part <= 2; part++) {
        for (int r = 0; r < 2; r++) {
            ranks[r].call.part = part;
            for (int side = 0; side < 2; side++)
                run(pair, side, &ranks[r], made[r][side]);
        }
        for (int64_t i = 0; i < 2 * sums && part == 1; i++) {
            double **first = &ranks[0].inner[i / sums], **second = &ranks[1].inner[i / sums];
            (*first)[i % sums] += (*second)[i % sums];
            (*second)[i % sums] = (*first)[i % sums];
        }
    }
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < ranks[r].call.output_count; i++)
            compare(pair, &ranks[r], i, made[r][1][i], made[r][0][i]);
    }
}

struct kernel_array image_vector(enum dim dim, int64_t size, enum element element)
{
    return (struct kernel_array){
        .rank = 1, .element = element, .dims = {dim}, .sizes = {size}, .whole = {size}};
}

void image_add_dim(struct kernel_array *array, enum dim dim, struct image_range range)
{
    int at = array->rank++;
    array->dims[at] = dim;
    array->sizes[at] = range.count;
    array->first[at] = range.first;
    array->whole[at] = range.whole;
}

struct kernel_array image_array(const struct sizes *s)
{
    struct kernel_array array = {.element = ELEMENT_COMPUTE};
    struct image_range channels = {0, s->channels, s->channels};
    image_add_dim(&array, DIM_BATCH, (struct image_range){0, s->batch, s->batch});
    if (!s->is_inward) image_add_dim(&array, DIM_CHANNEL, channels);
    if (s->height.whole) image_add_dim(&array, DIM_HEIGHT, s->height);
    image_add_dim(&array, DIM_WIDTH, s->width);
    if (s->is_inward) image_add_dim(&array, DIM_VOCAB, channels);
    return array;
}

struct image_range draw_range(struct draw *draw, int64_t whole)
{
    int64_t first = draw_int(draw, 0, 1) ? 0 : draw_int(draw, 0, (int)whole - 1);
    bool is_whole = first == 0 && draw_int(draw, 0, 1);
    return (struct image_range){first, is_whole ? whole : draw_int(draw, 1, (int)(whole - first)),
                                whole};
}

struct image_call image_call_new(struct image_pair *pair, const char *name, enum op_kind kind,
                                 enum phase phase, enum imported_kind type)
{
    struct image_call tried = {.op = {.name = name, .kind = kind, .phase = phase}};
    tried.op.work.type = type;
    if (phase != PHASE_FORWARD) tried.call.adds = (unsigned)draw_int(&pair->draw, 0, 7);
    return tried;
}

struct kernel_array *image_call_input(struct image_call *tried, struct kernel_array array)
{
    tried->call.inputs[tried->call.input_count] = array;
    return &tried->call.inputs[tried->call.input_count++];
}
struct kernel_array *image_call_output(struct image_call *tried, struct kernel_array array)
{
    tried->call.outputs[tried->call.output_count] = array;
    return &tried->call.outputs[tried->call.output_count++];
}
