#include "executor/cuda/sdpa_graph.h"

#include <assert.h>
#include <string.h>

// cuDNN's fused attention is found by the pattern of its operations (see the support matrix of its
// graph API): the order and the types below are part of the interface.

enum { FIRST_VIRTUAL = 100 };
_Static_assert((int)SDPA_TENSORS < (int)FIRST_VIRTUAL, "no two tensors have one number");

static void keep_fault(struct sdpa_graph *g, cudnnStatus_t status)
{
    if (g->status == CUDNN_STATUS_SUCCESS) g->status = status;
}

void sdpa_set(struct sdpa_graph *g, cudnnBackendDescriptor_t descriptor,
              cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
              const void *values)
{
    if (g->status != CUDNN_STATUS_SUCCESS) return;
    keep_fault(g, cudnn()->BackendSetAttribute(descriptor, name, type, count, values));
}

cudnnBackendDescriptor_t sdpa_begin(struct sdpa_graph *g, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t descriptor = NULL;
    if (g->held_count == SDPA_DESCRIPTORS) keep_fault(g, CUDNN_STATUS_INTERNAL_ERROR);
    if (g->status != CUDNN_STATUS_SUCCESS) return NULL;
    keep_fault(g, cudnn()->BackendCreateDescriptor(type, &descriptor));
    if (g->status == CUDNN_STATUS_SUCCESS) g->held[g->held_count++] = descriptor;
    return descriptor;
}

void sdpa_end(struct sdpa_graph *g, cudnnBackendDescriptor_t descriptor)
{
    if (g->status == CUDNN_STATUS_SUCCESS) keep_fault(g, cudnn()->BackendFinalize(descriptor));
}

static void end_operation(struct sdpa_graph *g, cudnnBackendDescriptor_t operation)
{
    sdpa_end(g, operation);
    if (g->operation_count == SDPA_OPERATIONS) keep_fault(g, CUDNN_STATUS_INTERNAL_ERROR);
    if (g->status == CUDNN_STATUS_SUCCESS) g->operations[g->operation_count++] = operation;
}

// Dims and strides of a tensor: (batch, head, row, column).
struct extents {
    int64_t size[4], stride[4];
};

static struct extents packed(int64_t batch, int64_t heads, int64_t rows, int64_t columns)
{
    return (struct extents){{batch, heads, rows, columns},
                            {heads * rows * columns, rows * columns, columns, 1}};
}
// As arrays of the executor lie: (batch, seq, head, width); rows `stride` apart, 0: dense.
static struct extents by_row(int64_t batch, int64_t heads, int64_t rows, int64_t columns,
                             int64_t stride)
{
    if (!stride) stride = heads * columns;
    assert(stride >= heads * columns && "rows do not overlap");
    return (struct extents){{batch, heads, rows, columns}, {rows * stride, columns, stride, 1}};
}
static struct extents by_token(int64_t batch, int64_t heads, int64_t rows, int64_t columns)
{
    return by_row(batch, heads, rows, columns, 0);
}
static struct extents turned(struct extents x)
{
    return (struct extents){{x.size[0], x.size[1], x.size[3], x.size[2]},
                            {x.stride[0], x.stride[1], x.stride[3], x.stride[2]}};
}

// Tensor 0 is virtual: between two operations.
static cudnnBackendDescriptor_t tensor(struct sdpa_graph *g, enum sdpa_tensor name,
                                       cudnnDataType_t type, struct extents extents)
{
    bool is_virtual = name == 0;
    bool is_value = name >= SDPA_SCALE && name <= SDPA_FIRST_KEY;
    assert((int)name < SDPA_TENSORS);
    int64_t id = is_virtual ? g->next_virtual++ : (int64_t)name, alignment = 16;
    cudnnBackendDescriptor_t t = sdpa_begin(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    sdpa_set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    sdpa_set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, extents.size);
    sdpa_set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, extents.stride);
    sdpa_set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    sdpa_set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    sdpa_set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    if (is_value) sdpa_set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_value);
    sdpa_end(g, t);
    return t;
}

static void point_to(struct sdpa_graph *g, cudnnBackendDescriptor_t operation,
                     cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    if (value) sdpa_set(g, operation, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

// y = mode(x, b), or b where the mask says no; or what x had as its gradient if y has d.
struct pointwise {
    cudnnPointwiseMode_t mode;
    cudnnBackendDescriptor_t x, b, mask, d;
    cudnnDataType_t precision;  // CUDNN_DATA_FLOAT is 0
    int64_t axis;               // of an index
};

static void add_pointwise(struct sdpa_graph *g, struct pointwise p, cudnnBackendDescriptor_t y)
{
    cudnnDataType_t precision = p.precision;
    cudnnBackendDescriptor_t mode = sdpa_begin(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    sdpa_set(g, mode, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &p.mode);
    sdpa_set(g, mode, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    if (p.mode == CUDNN_POINTWISE_GEN_INDEX)
        sdpa_set(g, mode, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &p.axis);
    sdpa_end(g, mode);
    cudnnBackendDescriptor_t op = sdpa_begin(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    point_to(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
    point_to(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p.x);
    point_to(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p.b);
    point_to(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p.mask);
    point_to(g, op, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, p.d);
    point_to(g, op,
             p.d ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC : CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    end_operation(g, op);
}

static cudnnBackendDescriptor_t combine(struct sdpa_graph *g, cudnnPointwiseMode_t mode,
                                        cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                        cudnnDataType_t type, struct extents extents)
{
    cudnnBackendDescriptor_t y = tensor(g, 0, type, extents);
    add_pointwise(g, (struct pointwise){.mode = mode, .x = x, .b = b}, y);
    return y;
}

static void add_product(struct sdpa_graph *g, cudnnBackendDescriptor_t a,
                        cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t c)
{
    cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t product = sdpa_begin(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    sdpa_set(g, product, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    sdpa_end(g, product);
    cudnnBackendDescriptor_t op = sdpa_begin(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    point_to(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    point_to(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    point_to(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    point_to(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
    end_operation(g, op);
}

static void add_reduction(struct sdpa_graph *g, cudnnReduceTensorOp_t mode,
                          cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y)
{
    cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t reduction = sdpa_begin(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    sdpa_set(g, reduction, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
             &mode);
    sdpa_set(g, reduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    sdpa_end(g, reduction);
    cudnnBackendDescriptor_t op = sdpa_begin(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    point_to(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
    point_to(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    point_to(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    end_operation(g, op);
}

static cudnnBackendDescriptor_t reshape(struct sdpa_graph *g, cudnnBackendDescriptor_t x,
                                        cudnnDataType_t type, struct extents extents)
{
    cudnnBackendDescriptor_t y = tensor(g, 0, type, extents);
    cudnnBackendDescriptor_t op = sdpa_begin(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    point_to(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    point_to(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    end_operation(g, op);
    return y;
}

// What both directions name: arguments by their places, shapes of scores and rows.
struct parts {
    cudnnDataType_t type;
    struct extents scores, rows, by_query, by_key, by_value, out;
    cudnnBackendDescriptor_t q, k_turned, v, lse, scale;
};

static struct parts parts_of(struct sdpa_graph *g)
{
    const struct sdpa_shape *s = g->shape;
    struct parts p = {
        .type = s->number == NUMBER_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF,
        .scores = packed(s->batch, s->heads, s->queries, s->keys),
        .rows = packed(s->batch, s->heads, s->queries, 1),
        .by_query = by_row(s->batch, s->heads, s->queries, s->width, s->strides[0]),
        .by_key = by_row(s->batch, s->kv_heads, s->keys, s->width, s->strides[1]),
        .by_value = by_row(s->batch, s->kv_heads, s->keys, s->value_width, s->strides[2]),
        .out = by_token(s->batch, s->heads, s->queries, s->value_width),
    };
    p.q = tensor(g, SDPA_Q, p.type, p.by_query);
    p.k_turned = tensor(g, SDPA_K, p.type, turned(p.by_key));
    p.scale = tensor(g, SDPA_SCALE, CUDNN_DATA_FLOAT, packed(1, 1, 1, 1));
    p.lse = tensor(g, SDPA_LSE, CUDNN_DATA_FLOAT,
                   s->turns_lse ? p.rows : by_token(s->batch, s->heads, s->queries, 1));
    return p;
}

static cudnnBackendDescriptor_t value(struct sdpa_graph *g, enum sdpa_tensor name)
{
    cudnnDataType_t type = name >= SDPA_AHEAD ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT;
    return tensor(g, name, type, packed(1, 1, 1, 1));
}

// Where in its row (axis 3) or column (2) each score stands.
static cudnnBackendDescriptor_t place(struct sdpa_graph *g, const struct parts *p,
                                      cudnnBackendDescriptor_t scores, int64_t axis)
{
    cudnnBackendDescriptor_t y = tensor(g, 0, CUDNN_DATA_INT32, p->scores);
    add_pointwise(
        g, (struct pointwise){.mode = CUDNN_POINTWISE_GEN_INDEX, .x = scores, .axis = axis}, y);
    return y;
}

// Places and a number by value.
static cudnnBackendDescriptor_t move(struct sdpa_graph *g, const struct parts *p,
                                     cudnnBackendDescriptor_t places, enum sdpa_tensor by)
{
    cudnnDataType_t type = by >= SDPA_AHEAD ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t y = tensor(g, 0, type, p->scores);
    struct pointwise sum = {
        .mode = CUDNN_POINTWISE_ADD, .x = places, .b = value(g, by), .precision = type};
    add_pointwise(g, sum, y);
    return y;
}

// A truth for each score.
static cudnnBackendDescriptor_t compare(struct sdpa_graph *g, const struct parts *p,
                                        cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x,
                                        cudnnBackendDescriptor_t y)
{
    cudnnDataType_t type = CUDNN_DATA_BOOLEAN;
    cudnnBackendDescriptor_t is_so = tensor(g, 0, type, p->scores);
    add_pointwise(g, (struct pointwise){.mode = mode, .x = x, .b = y, .precision = type}, is_so);
    return is_so;
}

// Scores where they are seen; elsewhere minus infinity.
static cudnnBackendDescriptor_t keep(struct sdpa_graph *g, const struct parts *p,
                                     cudnnBackendDescriptor_t scores,
                                     cudnnBackendDescriptor_t is_seen)
{
    cudnnBackendDescriptor_t masked = tensor(g, 0, CUDNN_DATA_FLOAT, p->scores);
    struct pointwise choice = {.mode = CUDNN_POINTWISE_BINARY_SELECT,
                               .x = scores,
                               .b = value(g, SDPA_LOWEST),
                               .mask = is_seen};
    add_pointwise(g, choice, masked);
    return masked;
}

// Keys that a query does not see have a score of minus infinity.
static cudnnBackendDescriptor_t mask(struct sdpa_graph *g, const struct parts *p,
                                     cudnnBackendDescriptor_t scores)
{
    const struct sdpa_shape *s = g->shape;
    if (s->has_end) {
        cudnnBackendDescriptor_t row = place(g, p, scores, 2), column = place(g, p, scores, 3);
        if (s->ahead != 0) row = move(g, p, row, SDPA_AHEAD);
        scores = keep(g, p, scores, compare(g, p, CUDNN_POINTWISE_CMP_GE, row, column));
    }
    if (s->has_start) {
        cudnnBackendDescriptor_t row = place(g, p, scores, 2), column = place(g, p, scores, 3);
        column = move(g, p, column, SDPA_BACK);
        scores = keep(g, p, scores, compare(g, p, CUDNN_POINTWISE_CMP_GT, column, row));
    }
    return scores;
}

// Scores before they are masked, and what their cap was taken of.
static cudnnBackendDescriptor_t whole_scores(struct sdpa_graph *g, const struct parts *p,
                                             cudnnBackendDescriptor_t *before_cap)
{
    const struct sdpa_shape *s = g->shape;
    cudnnDataType_t wide = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t scores = tensor(g, 0, wide, p->scores);
    add_product(g, p->q, p->k_turned, scores);
    scores = combine(g, CUDNN_POINTWISE_MUL, scores, p->scale, wide, p->scores);
    if (s->softcap > 0) {
        cudnnBackendDescriptor_t cap = value(g, SDPA_SOFTCAP);
        scores = *before_cap = combine(g, CUDNN_POINTWISE_DIV, scores, cap, wide, p->scores);
        scores = combine(g, CUDNN_POINTWISE_TANH_FWD, scores, NULL, wide, p->scores);
        scores = combine(g, CUDNN_POINTWISE_MUL, scores, cap, wide, p->scores);
    }
    if (s->has_slopes) {
        cudnnBackendDescriptor_t column = place(g, p, scores, 3);
        cudnnBackendDescriptor_t slopes = tensor(g, SDPA_SLOPES, wide, packed(1, s->heads, 1, 1));
        if (s->first_key != 0) column = move(g, p, column, SDPA_FIRST_KEY);
        column = combine(g, CUDNN_POINTWISE_MUL, column, slopes, wide, p->scores);
        scores = combine(g, CUDNN_POINTWISE_ADD, scores, column, wide, p->scores);
    }
    if (s->has_choice) {
        int64_t row = s->choice_stride, each = s->queries * row;
        struct extents all = {{s->batch, 1, s->queries, s->keys}, {each, each, row, 1}};
        cudnnBackendDescriptor_t chosen = tensor(g, SDPA_CHOSEN, p->type, all);
        scores = combine(g, CUDNN_POINTWISE_ADD, scores, chosen, wide, p->scores);
    }
    return scores;
}

static void add_forward(struct sdpa_graph *g)
{
    struct parts p = parts_of(g);
    cudnnDataType_t wide = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t v = tensor(g, SDPA_V, p.type, p.by_value);
    cudnnBackendDescriptor_t out = tensor(g, SDPA_OUT, p.type, p.out);
    cudnnBackendDescriptor_t most = tensor(g, 0, wide, p.rows), sum = tensor(g, 0, wide, p.rows);
    cudnnBackendDescriptor_t sinks = NULL, before_cap;
    cudnnBackendDescriptor_t scores = mask(g, &p, whole_scores(g, &p, &before_cap));
    add_reduction(g, CUDNN_REDUCE_TENSOR_MAX, scores, most);
    if (g->shape->has_sinks) {
        sinks = tensor(g, SDPA_SINKS, wide, packed(1, g->shape->heads, 1, 1));
        most = combine(g, CUDNN_POINTWISE_MAX, most, sinks, wide, p.rows);
    }
    cudnnBackendDescriptor_t less = combine(g, CUDNN_POINTWISE_SUB, scores, most, wide, p.scores);
    cudnnBackendDescriptor_t powers = combine(g, CUDNN_POINTWISE_EXP, less, NULL, wide, p.scores);
    if (sinks) {
        sinks = combine(g, CUDNN_POINTWISE_SUB, sinks, most, wide, p.rows);
        sinks = combine(g, CUDNN_POINTWISE_EXP, sinks, NULL, wide, p.rows);
    }
    add_reduction(g, CUDNN_REDUCE_TENSOR_ADD, powers, sum);
    if (sinks) sum = combine(g, CUDNN_POINTWISE_ADD, sum, sinks, wide, p.rows);
    cudnnBackendDescriptor_t log = combine(g, CUDNN_POINTWISE_LOG, sum, NULL, wide, p.rows);
    add_pointwise(g, (struct pointwise){.mode = CUDNN_POINTWISE_ADD, .x = most, .b = log}, p.lse);
    cudnnBackendDescriptor_t weights =
        combine(g, CUDNN_POINTWISE_DIV, powers, sum, p.type, p.scores);
    add_product(g, weights, v, out);
}

// Where heads share keys each has a gradient, and these are summed.
static void add_key_gradient(struct sdpa_graph *g, const struct parts *p,
                             cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                             enum sdpa_tensor name, enum sdpa_tensor wide, struct extents extents)
{
    const struct sdpa_shape *s = g->shape;
    cudnnBackendDescriptor_t result = tensor(g, name, p->type, extents);
    if (s->heads == s->kv_heads) {
        add_product(g, a, b, result);
        return;
    }
    cudnnBackendDescriptor_t every =
        tensor(g, wide, p->type, by_token(s->batch, s->heads, s->keys, extents.size[3]));
    add_product(g, a, b, every);
    add_reduction(g, CUDNN_REDUCE_TENSOR_ADD, every, result);
}

// The mean of the weights' gradients over a row's keys, by its result: sum of d * out (Dao et al.
// 2022, FlashAttention, appendix B.4).
static cudnnBackendDescriptor_t add_means(struct sdpa_graph *g, const struct parts *p,
                                          cudnnBackendDescriptor_t d)
{
    cudnnDataType_t wide = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t out = tensor(g, SDPA_OUT, p->type, p->out);
    cudnnBackendDescriptor_t one = tensor(g, SDPA_ONE, wide, packed(1, 1, 1, 1));
    cudnnBackendDescriptor_t means = tensor(g, SDPA_MEANS, wide, p->rows);
    cudnnBackendDescriptor_t sums = tensor(g, 0, wide, p->rows);
    cudnnBackendDescriptor_t both =
        combine(g, CUDNN_POINTWISE_MUL, d, out, wide,
                packed(g->shape->batch, g->shape->heads, g->shape->queries, g->shape->value_width));
    add_reduction(g, CUDNN_REDUCE_TENSOR_ADD, both, sums);
    add_pointwise(g, (struct pointwise){.mode = CUDNN_POINTWISE_MUL, .x = sums, .b = one}, means);
    return means;
}

static void add_query_gradient(struct sdpa_graph *g, const struct parts *p,
                               cudnnBackendDescriptor_t d_scores)
{
    cudnnBackendDescriptor_t k = reshape(g, p->k_turned, p->type, p->by_key);
    const struct sdpa_shape *s = g->shape;
    struct extents dense = by_token(s->batch, s->heads, s->queries, s->width);
    struct extents made = by_row(s->batch, s->heads, s->queries, s->width, s->gradient_strides[0]);
    cudnnBackendDescriptor_t sum = tensor(g, SDPA_D_Q_SUM, CUDNN_DATA_FLOAT, dense);
    cudnnBackendDescriptor_t d_q = tensor(g, SDPA_D_Q, p->type, made);
    add_product(g, d_scores, k, sum);
    add_pointwise(g, (struct pointwise){.mode = CUDNN_POINTWISE_IDENTITY, .x = sum}, d_q);
}

static cudnnBackendDescriptor_t cap_backward(struct sdpa_graph *g, const struct parts *p,
                                             cudnnBackendDescriptor_t d,
                                             cudnnBackendDescriptor_t before_cap)
{
    cudnnBackendDescriptor_t cap = value(g, SDPA_SOFTCAP);
    cudnnBackendDescriptor_t slope = tensor(g, 0, CUDNN_DATA_FLOAT, p->scores);
    d = combine(g, CUDNN_POINTWISE_MUL, d, cap, CUDNN_DATA_FLOAT, p->scores);
    add_pointwise(g, (struct pointwise){.mode = CUDNN_POINTWISE_TANH_BWD, .x = before_cap, .d = d},
                  slope);
    return combine(g, CUDNN_POINTWISE_DIV, slope, cap, CUDNN_DATA_FLOAT, p->scores);
}

static void add_backward(struct sdpa_graph *g)
{
    struct parts p = parts_of(g);
    cudnnDataType_t wide = CUDNN_DATA_FLOAT;
    struct extents by_key = turned(p.scores);
    cudnnBackendDescriptor_t d = tensor(g, SDPA_D, p.type, p.out);
    cudnnBackendDescriptor_t v = tensor(g, SDPA_V, p.type, turned(p.by_value));
    cudnnBackendDescriptor_t means = add_means(g, &p, d), d_weights, before_cap = NULL;
    cudnnBackendDescriptor_t scores = whole_scores(g, &p, &before_cap);
    scores = combine(g, CUDNN_POINTWISE_SUB, scores, p.lse, wide, p.scores);
    scores = mask(g, &p, scores);
    cudnnBackendDescriptor_t weights =
        combine(g, CUDNN_POINTWISE_EXP, scores, NULL, wide, p.scores);
    const struct sdpa_shape *s = g->shape;
    add_key_gradient(
        g, &p, reshape(g, weights, p.type, by_key), d, SDPA_D_V, SDPA_D_V_WIDE,
        by_row(s->batch, s->kv_heads, s->keys, s->value_width, s->gradient_strides[2]));
    d_weights = tensor(g, 0, wide, p.scores);
    add_product(g, d, v, d_weights);
    d_weights = combine(g, CUDNN_POINTWISE_SUB, d_weights, means, wide, p.scores);
    d_weights = combine(g, CUDNN_POINTWISE_MUL, d_weights, weights, wide, p.scores);
    if (g->shape->softcap > 0) d_weights = cap_backward(g, &p, d_weights, before_cap);
    cudnnBackendDescriptor_t d_scores =
        combine(g, CUDNN_POINTWISE_MUL, d_weights, p.scale, p.type, p.scores);
    add_key_gradient(g, &p, reshape(g, d_scores, p.type, by_key), p.q, SDPA_D_K, SDPA_D_K_WIDE,
                     by_row(s->batch, s->kv_heads, s->keys, s->width, s->gradient_strides[1]));
    add_query_gradient(g, &p, d_scores);
}

const char *sdpa_graph_make(struct sdpa_graph *g, const struct sdpa_shape *shape,
                            cudnnHandle_t handle)
{
    memset(g, 0, sizeof *g);
    assert(shape->heads % shape->kv_heads == 0 && shape->queries > 0 && shape->keys > 0);
    g->shape = shape;
    g->next_virtual = FIRST_VIRTUAL;
    if (shape->is_backward) {
        add_backward(g);
    } else {
        add_forward(g);
    }
    g->graph = sdpa_begin(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    sdpa_set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             g->operation_count, g->operations);
    if (handle) sdpa_set(g, g->graph, SDPA_GRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    sdpa_end(g, g->graph);
    return g->status == CUDNN_STATUS_SUCCESS ? NULL : cudnn()->GetErrorString(g->status);
}

// The last made first: what holds another is gone before it.
void sdpa_graph_free(struct sdpa_graph *g)
{
    while (g->held_count > 0)
        cudnn()->BackendDestroyDescriptor(g->held[--g->held_count]);
}

int64_t sdpa_temporary_bytes(const struct sdpa_shape *s, enum sdpa_tensor tensor)
{
    int64_t rows = s->batch * s->heads * s->queries, keys = s->batch * s->heads * s->keys;
    bool is_grouped = s->heads != s->kv_heads;
    switch (tensor) {
    case SDPA_MEANS:
        return s->is_backward ? rows * 4 : 0;
    case SDPA_D_Q_SUM:
        return s->is_backward ? rows * s->width * 4 : 0;
    case SDPA_D_K_WIDE:
        return s->is_backward && is_grouped ? keys * s->width * 2 : 0;
    case SDPA_D_V_WIDE:
        return s->is_backward && is_grouped ? keys * s->value_width * 2 : 0;
    default:
        return 0;
    }
}
