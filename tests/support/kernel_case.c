#include "tests/support/kernel_case.h"

#include "models/op.h"
#include "tests/support/test.h"

#include <math.h>

static const struct block *block_of(const struct kernel_case *c)
{
    return c->whole->block;
}
static const struct op *op_of(const struct kernel_case *c)
{
    return &block_of(c)->ops[c->op];
}

struct slices slices_whole(const struct interpreter *whole, int op)
{
    struct slices slices = {{0}, {0}};
    const struct op *o = &whole->block->ops[op];
    for (int i = 0; i < o->input_count + o->output_count; i++) {
        int tensor = i < o->input_count ? o->inputs[i] : o->outputs[i - o->input_count];
        const struct tensor *t = &whole->block->tensors[tensor];
        for (int e = 0; e < t->rank; e++)
            slices.count[t->extents[e].dim] = whole->sizes[tensor][e];
    }
    bool attends =
        o->kind == OP_ATTENTION || o->kind == OP_ATTENTION_BACKWARD || o->kind == OP_CHOOSE;
    if (attends) slices.count[DIM_KV_SEQ] = slices.count[DIM_SEQ];
    return slices;
}

static void draw_range(struct draw *draw, struct slices *slices, enum dim dim, int64_t unit)
{
    int units = (int)(slices->count[dim] / unit);
    int first = draw_int(draw, 0, units - 1), count = draw_int(draw, 1, units - first);
    slices->first[dim] = first * unit;
    slices->count[dim] = count * unit;
}

// Queries in the middle see keys from the first on; without a mask keys are any, and with a window
// on both sides they are all here.
static void draw_keys(struct draw *draw, const struct op *op, struct slices *slices)
{
    int seq = (int)slices->count[DIM_SEQ];
    draw_range(draw, slices, DIM_SEQ, 1);
    if (!op->causal && op->window > 0) return;
    if (!op->causal) return draw_range(draw, slices, DIM_KV_SEQ, 1);
    int least = (int)(slices->first[DIM_SEQ] + slices->count[DIM_SEQ]);
    slices->count[DIM_KV_SEQ] = draw_int(draw, least, seq);
}

struct slices slices_draw(struct draw *draw, const struct interpreter *whole, int index)
{
    const struct block *block = whole->block;
    const struct op *op = &block->ops[index];
    struct slices slices = slices_whole(whole, index);
    int64_t heads = slices.count[DIM_HEAD], kv_heads = slices.count[DIM_KV_HEAD];
    for (enum dim dim = 1; dim < DIM_COUNT; dim++) {
        bool follows = dim == DIM_KV_HEAD && heads > 0 && kv_heads > 0;
        if (slices.count[dim] == 0 || dim == DIM_KV_SEQ || follows) continue;
        enum split split = op_rule(op->kind)->split(block, op, dim);
        if (split != SPLIT_FREE && split != SPLIT_PARTIAL) continue;
        bool leads = dim == DIM_HEAD && kv_heads > 0;
        // Of a norm by groups a rank has whole ones.
        int64_t groups = leads ? kv_heads : dim == DIM_HEAD && op->groups > 1 ? op->groups : heads;
        draw_range(draw, &slices, dim, dim == DIM_HEAD ? heads / groups : 1);
        if (!leads) continue;
        slices.first[DIM_KV_HEAD] = slices.first[dim] * kv_heads / heads;
        slices.count[DIM_KV_HEAD] = slices.count[dim] * kv_heads / heads;
    }
    bool attends = op->kind == OP_ATTENTION || op->kind == OP_ATTENTION_BACKWARD;
    if (attends) draw_keys(draw, op, &slices);
    return slices;
}

// Whether this operand is keys or values: then its seq is kv_seq.
static bool is_keys(const struct op *op, bool is_output, int index)
{
    if (op->kind == OP_ATTENTION) return !is_output && (index == 1 || index == 2);
    if (op->kind == OP_CHOOSE) return !is_output && index == 1;
    if (op->kind != OP_ATTENTION_BACKWARD) return false;
    return is_output ? index == 1 || index == 2 : index == 2 || index == 3;
}

static struct kernel_array shape_of(const struct kernel_case *c, int tensor, bool keys)
{
    const struct tensor *t = &block_of(c)->tensors[tensor];
    struct kernel_array array = {.rank = t->rank, .element = t->element};
    if (t->role == TENSOR_IDS && t->element != ELEMENT_COMPUTE) array.element = ELEMENT_INT64;
    // See executor/backend.h: gradients of parameters are summed in fp32.
    bool is_sum = t->role == TENSOR_PARAMETER_GRADIENT && c->backend->at;
    if (is_sum && array.element == ELEMENT_COMPUTE) array.element = ELEMENT_FP32;
    for (int i = 0; i < t->rank; i++) {
        enum dim dim = t->extents[i].dim, as = keys && dim == DIM_SEQ ? DIM_KV_SEQ : dim;
        array.dims[i] = dim;
        array.first[i] = c->slices.first[as];
        array.sizes[i] = c->slices.count[as];
        array.whole[i] = extent_size(&t->extents[i], c->batch, c->seq);
    }
    // Parts of a concatenation may have a dim of one name and several sizes: it is whole.
    enum op_kind kind = op_of(c)->kind;
    if (kind == OP_CONCAT || kind == OP_CONCAT_BACKWARD) {
        array.first[t->rank - 1] = 0;
        array.sizes[t->rank - 1] = array.whole[t->rank - 1];
    }
    return array;
}

static int64_t elements_of(const struct kernel_array *array)
{
    int64_t elements = 1;
    for (int i = 0; i < array->rank; i++)
        elements *= array->sizes[i];
    return elements;
}

// Numbers of 16 bits: bf16 is the upper half of a float, fp16 what the compiler says.
static uint16_t to_narrow(const struct kernel_case *c, double value)
{
    float wide = (float)value;
    uint32_t bits;
    memcpy(&bits, &wide, sizeof bits);
    if (isnan(wide)) return 0x7FFF;
    if (!c->is_half) return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    double size = fabs(value), unit = ldexp(1, size > 0 ? (int)fmax(ilogb(size), -14) - 10 : -24);
    double units = nearbyint(size / unit);
    int exponent = size > 0 ? (int)fmax(ilogb(size), -14) : -14;
    unsigned result = (unsigned)units;
    if (units >= 1024) result += (unsigned)(exponent + 14) << 10;
    return (uint16_t)(result | (value < 0 ? 0x8000u : 0u));
}

static double from_narrow(const struct kernel_case *c, uint16_t narrow)
{
    uint32_t bits = (uint32_t)narrow << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    if (!c->is_half) return (double)wide;
    int exponent = narrow >> 10 & 31, mantissa = narrow & 1023;
    if (exponent == 31) return (double)NAN;
    double size = ldexp(mantissa + (exponent ? 1024 : 0), (exponent ? exponent : 1) - 25);
    return narrow >> 15 ? -size : size;
}

int64_t kernel_case_element_bytes(const struct kernel_case *c, enum element element)
{
    if (element == ELEMENT_BYTE) return 1;
    if (element == ELEMENT_INT64) return 8;
    return element == ELEMENT_FP32 ? c->backend->real_bytes : c->backend->compute_bytes;
}

static bool is_narrow(const struct kernel_case *c, enum element element)
{
    return element == ELEMENT_COMPUTE && c->backend->compute_bytes == 2;
}

// The slice of a whole tensor, dense; rounded as the back end will have it.
static double *cut(const struct kernel_case *c, int tensor, const struct kernel_array *shape)
{
    double *values = ARENA_NEW(c->arena, double, elements_of(shape) + 1);
    for (int64_t i = 0; i < elements_of(shape); i++) {
        int64_t rest = i, at = 0, stride = 1;
        for (int e = shape->rank - 1; e >= 0; e--) {
            at += (shape->first[e] + rest % shape->sizes[e]) * stride;
            rest /= shape->sizes[e];
            stride *= shape->whole[e];
        }
        double value = c->whole->values[tensor][at];
        bool rounds = is_narrow(c, shape->element);
        values[i] = rounds ? from_narrow(c, to_narrow(c, value)) : value;
    }
    return values;
}

static double next_number(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 33) / (double)(1u << 31) - 0.5;
}

static void write_array(const struct kernel_case *c, struct kernel_array *array,
                        const double *values, int64_t count)
{
    array->data = arena_alloc(c->arena, (size_t)count + 1, 8);
    for (int64_t i = 0; i < count; i++) {
        if (array->element == ELEMENT_INT64) {
            ((int64_t *)array->data)[i] = (int64_t)values[i];
        } else if (array->element == ELEMENT_BYTE) {
            ((unsigned char *)array->data)[i] = (unsigned char)values[i];
        } else if (is_narrow(c, array->element)) {
            ((uint16_t *)array->data)[i] = to_narrow(c, values[i]);
        } else if (c->backend->real_bytes == 8) {
            ((double *)array->data)[i] = values[i];
        } else {
            ((float *)array->data)[i] = (float)values[i];
        }
    }
}

double *kernel_case_read(const struct kernel_case *c, const struct kernel_array *array)
{
    int64_t count = elements_of(array);
    double *values = ARENA_NEW(c->arena, double, count + 1);
    for (int64_t i = 0; i < count; i++) {
        if (array->element == ELEMENT_BYTE) {
            values[i] = ((unsigned char *)array->data)[i];
        } else if (is_narrow(c, array->element)) {
            values[i] = from_narrow(c, ((uint16_t *)array->data)[i]);
        } else if (c->backend->real_bytes == 8) {
            values[i] = ((double *)array->data)[i];
        } else {
            values[i] = (double)((float *)array->data)[i];
        }
    }
    return values;
}

static bool is_rows(const struct kernel_case *c, int tensor)
{
    return c->is_ragged && block_of(c)->tensors[tensor].density > 0;
}

// The rows that exist, by expert and then by token.
static struct kernel_routing *route(const struct kernel_case *c)
{
    int64_t experts = c->slices.count[DIM_EXPERT], batch = c->slices.count[DIM_BATCH];
    int64_t seq = c->slices.count[DIM_SEQ], gates = c->whole->sizes[c->weights][2];
    struct kernel_routing *routing = ARENA_NEW(c->arena, struct kernel_routing, 1);
    routing->expert_count = experts;
    routing->first_expert = c->slices.first[DIM_EXPERT];
    routing->rows_of = ARENA_NEW(c->arena, int64_t, experts + 1);
    routing->token_of = ARENA_NEW(c->arena, int64_t, experts * batch * seq + 1);
    int64_t count = 0;
    for (int64_t e = 0; e < experts; e++) {
        for (int64_t i = 0; i < batch * seq; i++) {
            int64_t b = c->slices.first[DIM_BATCH] + i / seq,
                    s = c->slices.first[DIM_SEQ] + i % seq;
            const double *row = &c->whole->values[c->weights][(b * c->seq + s) * gates];
            if (row[routing->first_expert + e] != 0) routing->token_of[count++] = i;
        }
        routing->rows_of[e + 1] = count;
    }
    return routing;
}

// Between the dense shape (batch, seq, expert, ...) and the rows that exist; returns how many
// elements these are.
static int64_t pack_rows(const struct kernel_case *c, const struct kernel_routing *routing,
                         const struct kernel_array *shape, double *dense, double *rows, bool packs)
{
    int64_t width = 1, experts = shape->sizes[2];
    for (int i = 3; i < shape->rank; i++)
        width *= shape->sizes[i];
    (void)c;
    for (int64_t e = 0; e < experts; e++) {
        for (int64_t r = routing->rows_of[e]; r < routing->rows_of[e + 1]; r++) {
            double *at = dense + (routing->token_of[r] * experts + e) * width;
            memcpy(packs ? rows + r * width : at, packs ? at : rows + r * width,
                   (size_t)width * sizeof(double));
        }
    }
    return routing->rows_of[experts] * width;
}

static void add_operand(const struct kernel_case *c, const struct kernel_call *call,
                        struct kernel_array *array, int tensor, bool keys, double *values)
{
    *array = shape_of(c, tensor, keys);
    int64_t count = elements_of(array);
    if (!is_rows(c, tensor)) return write_array(c, array, values, count);
    double *rows = ARENA_NEW(c->arena, double, count + 1);
    count = pack_rows(c, call->routing, array, values, rows, true);
    write_array(c, array, rows, count);
}

struct kernel_call kernel_case_call(const struct kernel_case *c, double *before[OP_OUTPUT_MAX])
{
    const struct op *op = op_of(c);
    uint64_t seed = 3;
    struct kernel_call call = {.op = op,
                               .input_count = op->input_count,
                               .output_count = op->output_count,
                               .adds = c->adds,
                               .key = c->key,
                               .head_count = c->whole->head_count,
                               .merges = c->merges};
    if (c->is_ragged) call.routing = route(c);
    for (int i = 0; i < op->input_count; i++) {
        bool keys = is_keys(op, false, i);
        struct kernel_array shape = shape_of(c, op->inputs[i], keys);
        double *values = cut(c, op->inputs[i], &shape);
        add_operand(c, &call, &call.inputs[i], op->inputs[i], keys, values);
    }
    for (int i = 0; i < op->output_count; i++) {
        bool keys = is_keys(op, true, i);
        struct kernel_array shape = shape_of(c, op->outputs[i], keys);
        double *values = ARENA_NEW(c->arena, double, elements_of(&shape) + 1);
        bool is_number = c->adds >> i & 1 || shape.element == ELEMENT_BYTE;
        for (int64_t j = 0; j < elements_of(&shape); j++)
            values[j] = is_number ? next_number(&seed) : (double)NAN;
        before[i] = values;
        add_operand(c, &call, &call.outputs[i], op->outputs[i], keys, values);
    }
    return call;
}

// Memory of the back end's own with what the host has.
static void *carry(const struct kernel_case *c, const void *from, int64_t bytes)
{
    void *memory;
    assert_null(c->backend->allocate(c->device, bytes, &memory));
    assert_null(c->backend->copy(c->device, STREAM_COMPUTE, COPY_FROM_HOST, memory, from, bytes));
    return memory;
}

static void bring_back(const struct kernel_case *c, void *to, void *memory, int64_t bytes)
{
    assert_null(c->backend->copy(c->device, STREAM_COMPUTE, COPY_TO_HOST, to, memory, bytes));
    c->backend->release(c->device, memory);
}

static int64_t bytes_of(const struct kernel_case *c, const struct kernel_array *array)
{
    return elements_of(array) * kernel_case_element_bytes(c, array->element);
}

static const char *run_there(const struct kernel_case *c, const struct kernel_call *call)
{
    struct kernel_call own = *call;
    if (c->backend->is_host) return c->backend->run(c->device, STREAM_COMPUTE, call);
    for (int i = 0; i < own.input_count; i++)
        own.inputs[i].data = carry(c, call->inputs[i].data, bytes_of(c, &call->inputs[i]));
    for (int i = 0; i < own.output_count; i++)
        own.outputs[i].data = carry(c, call->outputs[i].data, bytes_of(c, &call->outputs[i]));
    const char *fault = c->backend->run(c->device, STREAM_COMPUTE, &own);
    if (!fault) fault = c->backend->synchronize(c->device, STREAM_COMPUTE);
    for (int i = 0; i < own.input_count; i++)
        c->backend->release(c->device, own.inputs[i].data);
    for (int i = 0; i < own.output_count; i++)
        bring_back(c, call->outputs[i].data, own.outputs[i].data, bytes_of(c, &call->outputs[i]));
    return fault;
}

void kernel_case_run(const struct kernel_case *c, const struct kernel_call *call)
{
    const char *fault = c->backend->can_run(call);
    if (!fault) fault = run_there(c, call);
    if (fault) fail_msg("%s: %s", call->op->name, fault);
}

// Against the largest expected number or `largest`, whichever is larger.
static void compare(const struct kernel_case *c, const char *what, const double *found,
                    const double *expected, int64_t count, double largest)
{
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (int64_t i = 0; i < count; i++) {
        if (fabs(found[i] - expected[i]) <= c->tolerance * largest) continue;
        fail_msg("%s on %s, element %lld of %lld: %.15g, expected %.15g", what, c->backend->name,
                 (long long)i, (long long)count, found[i], expected[i]);
    }
}

void kernel_case_compare(const struct kernel_case *c, const char *what, const double *found,
                         const double *expected, int64_t count)
{
    compare(c, what, found, expected, count, 1e-2);
}

static struct interpreter expected_of(const struct kernel_case *c)
{
    const struct op *op = op_of(c);
    struct interpreter local = interpreter_new(c->arena, block_of(c), c->batch, c->seq);
    local.head_count = c->whole->head_count;
    memcpy(local.offset, c->slices.first, sizeof local.offset);
    for (int i = 0; i < op->input_count + op->output_count; i++) {
        bool is_output = i >= op->input_count;
        int index = is_output ? i - op->input_count : i;
        int tensor = is_output ? op->outputs[index] : op->inputs[index];
        struct kernel_array shape = shape_of(c, tensor, is_keys(op, is_output, index));
        memcpy(local.sizes[tensor], shape.sizes, sizeof shape.sizes);
        local.values[tensor] = is_output ? NULL : cut(c, tensor, &shape);
    }
    interpreter_run(&local, c->op, c->op + 1);
    return local;
}

void kernel_case_check(const struct kernel_case *c)
{
    const struct op *op = op_of(c);
    double *before[OP_OUTPUT_MAX];
    struct kernel_call call = kernel_case_call(c, before);
    struct interpreter expected = expected_of(c);
    kernel_case_run(c, &call);
    for (int i = 0; i < op->output_count; i++) {
        struct kernel_array *array = &call.outputs[i];
        int64_t count = elements_of(array);
        double *values = expected.values[op->outputs[i]];
        if (is_rows(c, op->outputs[i])) {
            double *rows = ARENA_NEW(c->arena, double, count + 1);
            double *sums = ARENA_NEW(c->arena, double, count + 1);
            count = pack_rows(c, call.routing, array, values, rows, true);
            pack_rows(c, call.routing, array, before[i], sums, true);
            values = rows;
            before[i] = sums;
        }
        double largest = 1e-2;  // a sum of two may be smaller than the rounding of either
        for (int64_t j = 0; j < count && c->adds >> i & 1; j++) {
            largest = fmax(largest, fabs(before[i][j]));
            values[j] += before[i][j];
        }
        struct kernel_array held = *array;
        held.rank = 1;
        held.sizes[0] = count;
        compare(c, op->name, kernel_case_read(c, &held), values, count, largest);
    }
}

static int64_t id_limit(const struct block *block, int ids)
{
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        bool looks_up = op->kind == OP_GATHER && op->inputs[0] == ids;
        if (looks_up) return block->tensors[op->inputs[1]].extents[0].size;
        bool is_label = op->kind == OP_LOSS && op->inputs[1] == ids;
        if (is_label) return block->tensors[op->inputs[0]].extents[2].size;
        if (op->kind != OP_LINEAR_LOSS || op->inputs[2] != ids) continue;
        const struct tensor *matrix = &block->tensors[op->inputs[1]];
        return matrix->extents[tensor_find_dim(matrix, DIM_VOCAB)].size;
    }
    fail_msg("ids that nobody reads");
    return 1;
}

struct interpreter *kernel_whole(struct arena *arena, const struct block *forward, int64_t batch,
                                 int64_t seq)
{
    uint64_t seed = 99;
    struct block_gradients gradients;
    const struct block *block = autodiff_block(arena, forward, &gradients);
    struct interpreter *in = ARENA_NEW(arena, struct interpreter, 1);
    *in = interpreter_new(arena, block, batch, seq);
    for (int t = 0; t < block->tensor_count; t++) {
        const struct tensor *tensor = &block->tensors[t];
        if (tensor->producer >= 0) continue;
        double *values = interpreter_array(in, t);
        for (int64_t i = 0; i < interpreter_elements(in, t); i++) {
            double number = next_number(&seed);
            bool is_ids = tensor->role == TENSOR_IDS;
            values[i] = is_ids ? floor((number + 0.5) * (double)id_limit(block, t)) : 2 * number;
        }
    }
    interpreter_run(in, 0, block->op_count);
    return in;
}

struct box_copy draw_box(struct draw *draw, enum element element)
{
    struct box_copy copy = {.element = element,
                            .combine = (enum box_combine)draw_int(draw, BOX_SET, BOX_MAX),
                            .rank = draw_int(draw, 0, 4)};
    int64_t to = 1, from = 1;
    for (int i = copy.rank - 1; i >= 0; i--) {
        copy.sizes[i] = draw_int(draw, 1, 5);
        copy.to_strides[i] = to;
        copy.from_strides[i] = from;
        to *= copy.sizes[i] + (draw_int(draw, 0, 2) == 0);
        from *= copy.sizes[i] + (draw_int(draw, 0, 2) == 0);
    }
    return copy;
}
