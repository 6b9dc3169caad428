#include "tests/support/interpreter.h"

#include "tests/support/interpreter_math.h"

#include <assert.h>
#include <string.h>

struct interpreter interpreter_new(struct arena *arena, const struct block *block, int64_t batch,
                                   int64_t seq)
{
    struct interpreter in = {.block = block, .arena = arena};
    in.values = ARENA_NEW(arena, double *, block->tensor_count);
    in.sizes = arena_alloc(arena, (size_t)block->tensor_count, sizeof *in.sizes);
    in.firsts = arena_alloc(arena, (size_t)block->tensor_count, sizeof *in.firsts);
    for (int t = 0; t < block->tensor_count; t++) {
        for (int i = 0; i < block->tensors[t].rank; i++) {
            const struct extent *extent = &block->tensors[t].extents[i];
            in.sizes[t][i] = extent_size(extent, batch, seq);
            if (extent->dim == DIM_HEAD) in.head_count = extent->size;
        }
    }
    return in;
}

int64_t interpreter_elements(const struct interpreter *in, int tensor)
{
    int64_t elements = 1;
    for (int i = 0; i < in->block->tensors[tensor].rank; i++) {
        elements *= in->sizes[tensor][i];
    }
    return elements;
}

int64_t interpreter_place(const struct interpreter *in, int tensor, int64_t index)
{
    const struct tensor *weight = &in->block->tensors[tensor];
    int last = weight->rank - 1;
    for (int o = 0; o < in->block->op_count; o++) {
        const struct op *op = &in->block->ops[o];
        bool is_shared = op->kind == OP_CONTRACT && op->inputs[1] == tensor && op->merge > 0;
        if (!is_shared || weight->extents[0].dim == DIM_EXPERT) continue;
        int64_t inputs = in->sizes[tensor][last];
        int64_t outputs = interpreter_elements(in, tensor) / inputs;
        return index % outputs * inputs + index / outputs;
    }
    return index;
}

double *interpreter_array(struct interpreter *in, int tensor)
{
    if (!in->values[tensor]) {
        in->values[tensor] = ARENA_NEW(in->arena, double, interpreter_elements(in, tensor));
    }
    return in->values[tensor];
}

int64_t interpreter_size(const struct interpreter *in, int tensor, enum dim dim)
{
    int position = tensor_find_dim(&in->block->tensors[tensor], dim);
    assert(position >= 0);
    return in->sizes[tensor][position];
}

double *interpreter_at(const struct interpreter *in, int tensor, const int64_t index[DIM_COUNT])
{
    int64_t offset = 0;
    const struct tensor *t = &in->block->tensors[tensor];
    for (int i = 0; i < t->rank; i++) {
        assert(index[t->extents[i].dim] < in->sizes[tensor][i]);
        offset = offset * in->sizes[tensor][i] + index[t->extents[i].dim];
    }
    assert(in->values[tensor]);
    return &in->values[tensor][offset];
}

static void add_dims(const struct interpreter *in, int tensor, int64_t size[DIM_COUNT])
{
    const struct tensor *t = &in->block->tensors[tensor];
    for (int i = 0; i < t->rank; i++) {
        int64_t *known = &size[t->extents[i].dim];
        assert(*known == 0 || *known == in->sizes[tensor][i]);
        *known = in->sizes[tensor][i];
    }
}

bool interpreter_next(int64_t index[DIM_COUNT], const int64_t size[DIM_COUNT])
{
    for (int dim = DIM_COUNT - 1; dim > 0; dim--) {
        if (size[dim] == 0) continue;
        if (++index[dim] < size[dim]) return true;
        index[dim] = 0;
    }
    return false;
}

void interpreter_sizes(const struct interpreter *in, int tensor, int64_t size[DIM_COUNT])
{
    memset(size, 0, DIM_COUNT * sizeof *size);
    add_dims(in, tensor, size);
}

// One dim of an einsum, and how far a step along it leads in each array; 0 where a tensor lacks it.
struct stride {
    int64_t size, a, b, c;
};

static int64_t stride_of(const struct interpreter *in, int tensor, enum dim dim)
{
    int position = tensor_find_dim(&in->block->tensors[tensor], dim);
    int64_t stride = position >= 0;
    for (int i = position + 1; position >= 0 && i < in->block->tensors[tensor].rank; i++) {
        stride *= in->sizes[tensor][i];
    }
    return stride;
}

static void multiply_innermost(const struct stride *stride, const double *a, const double *b,
                               double *c, double scalar)
{
    const int64_t size = stride->size, to_a = stride->a, to_b = stride->b, to_c = stride->c;
    double sum = *c;
    for (int64_t i = 0; i < size; i++) {
        if (to_c) sum = c[i * to_c];
        sum += scalar * (a[i * to_a] * b[i * to_b]);
        if (to_c) c[i * to_c] = sum;
    }
    if (!to_c) *c = sum;
}

static void multiply(const struct stride *stride, int depth, const double *a, const double *b,
                     double *c, double scalar)
{
    if (depth == 1) return multiply_innermost(stride, a, b, c, scalar);
    for (int64_t i = 0; i < stride->size; i++) {
        multiply(stride + 1, depth - 1, a, b, c, scalar);
        a += stride->a;
        b += stride->b;
        c += stride->c;
    }
}

static void run_contract(struct interpreter *in, const struct op *op)
{
    int64_t size[DIM_COUNT] = {0};
    struct stride strides[DIM_COUNT];
    int depth = 0;
    // A rank may hold an empty slice.
    bool is_empty = interpreter_elements(in, op->inputs[0]) == 0 ||
                    interpreter_elements(in, op->inputs[1]) == 0;
    if (is_empty) return;
    add_dims(in, op->inputs[0], size);
    add_dims(in, op->inputs[1], size);
    add_dims(in, op->outputs[0], size);
    for (enum dim dim = 0; dim < DIM_COUNT; dim++) {
        if (size[dim] == 0) continue;
        strides[depth++] =
            (struct stride){size[dim], stride_of(in, op->inputs[0], dim),
                            stride_of(in, op->inputs[1], dim), stride_of(in, op->outputs[0], dim)};
    }
    multiply(strides, depth, in->values[op->inputs[0]], in->values[op->inputs[1]],
             in->values[op->outputs[0]], op->scalar);
}

static void run_add(struct interpreter *in, const struct op *op)
{
    int64_t index[DIM_COUNT] = {0}, size[DIM_COUNT];
    interpreter_sizes(in, op->outputs[0], size);
    do {
        double *sum = interpreter_at(in, op->outputs[0], index);
        for (int i = 0; i < op->input_count; i++)
            *sum += *interpreter_at(in, op->inputs[i], index);
    } while (interpreter_next(index, size));
}

// The flat offset in `narrow` of element `flat` of `wide`, dims matched by position: repeated
// positions divide by the number of repeats.
static int64_t narrow_offset(const struct interpreter *in, int wide, int narrow, int64_t flat)
{
    int rank = in->block->tensors[wide].rank;
    int64_t offset = 0, stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        int64_t size = in->sizes[wide][i], kept = in->sizes[narrow][i];
        assert(size % kept == 0);
        offset += flat % size / (size / kept) * stride;
        flat /= size;
        stride *= kept;
    }
    return offset;
}

static void run_expand(struct interpreter *in, const struct op *op)
{
    int from = op->inputs[0], to = op->outputs[0];
    for (int64_t i = 0; i < interpreter_elements(in, to); i++) {
        in->values[to][i] = in->values[from][narrow_offset(in, to, from, i)];
    }
}

static void run_reduce(struct interpreter *in, const struct op *op)
{
    int from = op->inputs[0], to = op->outputs[0];
    if (in->block->tensors[from].rank == in->block->tensors[to].rank) {
        for (int64_t i = 0; i < interpreter_elements(in, from); i++) {
            in->values[to][narrow_offset(in, from, to, i)] += in->values[from][i];
        }
        return;
    }
    int64_t index[DIM_COUNT] = {0}, size[DIM_COUNT];
    interpreter_sizes(in, from, size);
    do {
        *interpreter_at(in, to, index) += *interpreter_at(in, from, index);
    } while (interpreter_next(index, size));
}

// The mask is a hash of the place, so that equal runs drop alike.
static void run_dropout(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->phase == PHASE_FORWARD;
    double *mask = in->values[is_forward ? op->outputs[1] : op->inputs[1]];
    for (int64_t i = 0; i < interpreter_elements(in, op->outputs[0]); i++) {
        uint32_t hash = (uint32_t)(i + 1) * 2654435761u >> 8 & 1023;
        if (is_forward) mask[i] = hash >= op->dropout_ratio * 1024;
        double x = in->values[op->inputs[0]][i];
        in->values[op->outputs[0]][i] = x * mask[i] / (1 - op->dropout_ratio);
    }
}

// Where in the table the row of an id is; false when another rank holds it.
static bool find_row(const struct interpreter *in, int table, double id, int64_t index[DIM_COUNT])
{
    const struct tensor *tensor = &in->block->tensors[table];
    enum dim rows = tensor->extents[0].dim;
    index[rows] = (int64_t)id - in->offset[rows];
    return index[rows] >= 0 && index[rows] < in->sizes[table][0];
}

static void run_gather(struct interpreter *in, const struct op *op)
{
    bool is_forward = op->kind == OP_GATHER;
    int ids = op->inputs[is_forward ? 0 : 1], rows = is_forward ? op->outputs[0] : op->inputs[0];
    int table = is_forward ? op->inputs[1] : op->outputs[0];
    int64_t index[DIM_COUNT] = {0}, size[DIM_COUNT];
    interpreter_sizes(in, rows, size);
    do {
        if (!find_row(in, table, *interpreter_at(in, ids, index), index)) continue;
        double *row = interpreter_at(in, rows, index), *at = interpreter_at(in, table, index);
        if (is_forward) {
            *row = *at;
        } else {
            *at += *row;
        }
    } while (interpreter_next(index, size));
}

static void (*const RUN[OP_KIND_COUNT])(struct interpreter *in, const struct op *op) = {
    [OP_CONTRACT] = run_contract,
    [OP_ADD] = run_add,
    [OP_ELEMENTWISE] = interpreter_elementwise,
    [OP_EXPAND] = run_expand,
    [OP_DROPOUT] = run_dropout,
    [OP_NORM] = interpreter_norm,
    [OP_SOFTMAX] = interpreter_softmax,
    [OP_ATTENTION] = interpreter_attention,
    [OP_GATHER] = run_gather,
    [OP_ROUTE] = interpreter_route,
    [OP_DISPATCH] = interpreter_dispatch,
    [OP_COMBINE] = interpreter_combine,
    [OP_LOSS] = interpreter_loss,
    [OP_NORM_BACKWARD] = interpreter_norm,
    [OP_SOFTMAX_BACKWARD] = interpreter_softmax,
    [OP_ATTENTION_BACKWARD] = interpreter_attention,
    [OP_GATHER_BACKWARD] = run_gather,
    [OP_LOSS_BACKWARD] = interpreter_loss,
    [OP_CONCAT] = interpreter_concat,
    [OP_CONCAT_BACKWARD] = interpreter_concat,
    [OP_FLATTEN] = interpreter_flatten,
    [OP_ROUTE_BACKWARD] = interpreter_route,
    [OP_DISPATCH_BACKWARD] = interpreter_dispatch,
    [OP_COMBINE_BACKWARD] = interpreter_combine,
    [OP_REDUCE] = run_reduce,
    [OP_PRODUCT] = interpreter_product,
    [OP_OPERATOR] = interpreter_operator,
    [OP_OPERATOR_BACKWARD] = interpreter_operator,
    [OP_CONV] = interpreter_conv,
    [OP_CONV_BACKWARD] = interpreter_conv,
    [OP_SCAN] = interpreter_scan,
    [OP_SCAN_BACKWARD] = interpreter_scan,
    [OP_DELTA] = interpreter_delta,
    [OP_DELTA_BACKWARD] = interpreter_delta,
    [OP_CHOOSE] = interpreter_choose,
    [OP_CHOOSE_BACKWARD] = interpreter_choose,
    [OP_SINKHORN] = interpreter_sinkhorn,
    [OP_SINKHORN_BACKWARD] = interpreter_sinkhorn,
    [OP_POOL] = interpreter_pool,
    [OP_POOL_BACKWARD] = interpreter_pool,
    [OP_POOLED] = interpreter_pooled,
    [OP_POOLED_BACKWARD] = interpreter_pooled,
    [OP_LINEAR_LOSS] = interpreter_linear_loss,
    [OP_LINEAR_LOSS_BACKWARD] = interpreter_linear_loss,
};

void interpreter_run(struct interpreter *in, int first, int last)
{
    for (int o = first; o < last; o++) {
        const struct op *op = &in->block->ops[o];
        for (int i = 0; i < op->input_count; i++) {
            assert(in->values[op->inputs[i]] && "an input that no op before has written");
        }
        for (int i = 0; i < op->output_count; i++) {
            int tensor = op->outputs[i];
            int64_t elements = interpreter_elements(in, tensor);
            memset(interpreter_array(in, tensor), 0, (size_t)elements * sizeof(double));
        }
        RUN[op->kind](in, op);
    }
}
