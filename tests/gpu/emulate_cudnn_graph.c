#include "tests/gpu/emulate_cudnn.h"

#include "tests/gpu/emulate_streams.h"

#include <stdlib.h>
#include <string.h>

// Runs a graph of cuDNN operations. Virtual tensors are arrays of doubles, rounded as their type
// is, and lie as their strides say: a reshape is another view of the same. Sums are in doubles.

enum { HELD = 2 * EMULATED_OPERATIONS };

struct held {
    int64_t uid;
    double *data;
};
struct evaluation {
    const struct emulated_argument *arguments;
    int argument_count;
    struct held held[HELD];
    int held_count;
};

// Where a tensor's elements are: one of the three.
struct place {
    struct emulated_tensor tensor;
    double *held, value;
    struct reals memory;
};

static int64_t extent(const struct emulated_tensor *t)
{
    int64_t last = 0;
    for (int d = 0; d < 4; d++)
        last += (t->size[d] - 1) * t->stride[d];
    return last + 1;
}

static double *find_held(const struct evaluation *e, int64_t uid)
{
    for (int i = 0; i < e->held_count; i++) {
        if (e->held[i].uid == uid) return e->held[i].data;
    }
    return NULL;
}

static struct place find_place(const struct evaluation *e, const struct emulated_tensor *tensor)
{
    struct place place = {.tensor = *tensor, .held = find_held(e, tensor->uid)};
    int number = tensor->type == CUDNN_DATA_BFLOAT16 ? NUMBER_BF16
                 : tensor->type == CUDNN_DATA_HALF   ? NUMBER_FP16
                                                     : NUMBER_FP32;
    for (int i = 0; i < e->argument_count && !tensor->is_virtual; i++) {
        if (e->arguments[i].uid != tensor->uid) continue;
        place.value = e->arguments[i].value;
        place.memory = (struct reals){e->arguments[i].data, number};
    }
    if (!place.held && !place.memory.data) abort();
    return place;
}

static struct place make_place(struct evaluation *e, const struct emulated_tensor *tensor)
{
    if (!tensor->is_virtual || find_held(e, tensor->uid)) return find_place(e, tensor);
    if (e->held_count == HELD) abort();
    size_t bytes = (size_t)extent(tensor) * sizeof(double);
    double *data = malloc(bytes);
    if (!data) abort();
    memset(data, 0xFF, bytes);  // no number until it is written
    e->held[e->held_count++] = (struct held){tensor->uid, data};
    return find_place(e, tensor);
}

// A dim of size 1 goes with all of the other's.
static int64_t offset(const struct emulated_tensor *t, const int64_t at[4])
{
    int64_t sum = 0;
    for (int d = 0; d < 4; d++)
        sum += (t->size[d] == 1 ? 0 : at[d]) * t->stride[d];
    return sum;
}

static double read(const struct place *place, const int64_t at[4])
{
    if (place->tensor.is_value) return place->value;
    int64_t i = offset(&place->tensor, at);
    return place->held ? place->held[i] : emulate_read(place->memory, i);
}

static double rounded(cudnnDataType_t type, double x)
{
    switch (type) {
    case CUDNN_DATA_BFLOAT16:
        return (double)emulate_from_bf16(emulate_to_bf16((float)x));
    case CUDNN_DATA_HALF:
        return (double)emulate_from_fp16(emulate_to_fp16((float)x));
    default:
        return (double)(float)x;
    }
}

static void write(const struct place *place, const int64_t at[4], double x)
{
    int64_t i = offset(&place->tensor, at);
    if (place->held) {
        place->held[i] = rounded(place->tensor.type, x);
    } else {
        emulate_write(place->memory, i, x);
    }
}

static bool next(const int64_t size[4], int64_t at[4])
{
    for (int d = 3; d >= 0; d--) {
        if (++at[d] < size[d]) return true;
        at[d] = 0;
    }
    return false;
}

static double point(const struct emulated_operation *op, const int64_t at[4], double x, double b,
                    double c)
{
    switch (op->mode) {
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_MAX:
        return x > b ? x : b;
    case CUDNN_POINTWISE_EXP:
        return exp(x);
    case CUDNN_POINTWISE_LOG:
        return log(x);
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    case CUDNN_POINTWISE_TANH_FWD:
        return tanh(x);
    case CUDNN_POINTWISE_TANH_BWD:
        return c * (1 - tanh(x) * tanh(x));
    case CUDNN_POINTWISE_CMP_GT:
        return x > b;
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b;
    case CUDNN_POINTWISE_GEN_INDEX:
        return (double)at[op->axis];
    case CUDNN_POINTWISE_BINARY_SELECT:
        return c != 0 ? x : b;
    default:
        abort();
    }
}

static void run_pointwise(struct evaluation *e, const struct emulated_operation *op)
{
    bool reads_x = op->mode != CUDNN_POINTWISE_GEN_INDEX, reads_c = op->has_c || op->is_gradient;
    struct place x = find_place(e, &op->x), y = make_place(e, &op->y), b = {0}, c = {0};
    if (op->has_b) b = find_place(e, &op->b);
    if (reads_c) c = find_place(e, &op->c);
    int64_t at[4] = {0};
    do {
        write(&y, at,
              point(op, at, reads_x ? read(&x, at) : 0, op->has_b ? read(&b, at) : 0,
                    reads_c ? read(&c, at) : 0));
    } while (next(op->y.size, at));
}

// Heads may share the second operand. Into memory of fp32 it is added: several blocks of a kernel
// do so.
static void run_product(struct evaluation *e, const struct emulated_operation *op)
{
    struct place a = find_place(e, &op->x), b = find_place(e, &op->b), c = make_place(e, &op->y);
    bool adds = !op->y.is_virtual && op->y.type == CUDNN_DATA_FLOAT;
    int64_t at[4] = {0}, share = op->y.size[1] / op->b.size[1];
    do {
        double sum = adds ? read(&c, at) : 0;
        for (int64_t i = 0; i < op->x.size[3]; i++) {
            const int64_t left[4] = {at[0], at[1], at[2], i};
            const int64_t right[4] = {at[0], at[1] / share, i, at[3]};
            sum += read(&a, left) * read(&b, right);
        }
        write(&c, at, sum);
    } while (next(op->y.size, at));
}

// Neighbours along a dim that is smaller in the result are reduced to one of it.
static void run_reduction(struct evaluation *e, const struct emulated_operation *op)
{
    struct place x = find_place(e, &op->x), y = make_place(e, &op->y);
    int64_t at[4] = {0};
    do {
        int64_t of[4], within[4] = {0}, share[4];
        bool is_max = op->mode == CUDNN_REDUCE_TENSOR_MAX;
        double result = is_max ? -INFINITY : 0;
        for (int d = 0; d < 4; d++)
            share[d] = op->x.size[d] / op->y.size[d];
        do {
            for (int d = 0; d < 4; d++)
                of[d] = at[d] * share[d] + within[d];
            double one = read(&x, of);
            result = is_max ? (one > result ? one : result) : result + one;
        } while (next(share, within));
        write(&y, at, result);
    } while (next(op->y.size, at));
}

static void run_reshape(struct evaluation *e, const struct emulated_operation *op)
{
    struct place x = find_place(e, &op->x), y = make_place(e, &op->y);
    int64_t count = extent(&op->x);
    if (count != extent(&op->y) || !y.held) abort();
    for (int64_t i = 0; i < count; i++) {
        double one = x.held ? x.held[i] : emulate_read(x.memory, i);
        y.held[i] = rounded(op->y.type, one);
    }
}

void emulate_run_graph(const struct emulated_graph *graph,
                       const struct emulated_argument *arguments, int count)
{
    struct evaluation e = {.arguments = arguments, .argument_count = count};
    for (int i = 0; i < graph->count; i++) {
        const struct emulated_operation *op = &graph->operations[i];
        switch (op->type) {
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
            run_pointwise(&e, op);
            break;
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
            run_product(&e, op);
            break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
            run_reduction(&e, op);
            break;
        case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
            run_reshape(&e, op);
            break;
        default:
            abort();
        }
    }
    for (int i = 0; i < e.held_count; i++)
        free(e.held[i].data);
}

bool emulate_reads_dense_rows(const struct emulated_graph *graph)
{
    for (int i = 0; i < graph->count; i++) {
        const struct emulated_operation *op = &graph->operations[i];
        const struct emulated_tensor *b = &op->b;
        bool is_row = op->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR &&
                      op->mode == CUDNN_POINTWISE_SUB && op->has_b && !b->is_virtual &&
                      !b->is_value && b->size[3] == 1;
        bool is_dense = b->stride[2] == 1 && b->stride[1] == b->size[2] &&
                        b->stride[0] == b->size[1] * b->size[2];
        if (is_row && !is_dense) return false;
    }
    return true;
}
