#include "models/op_scan.h"

#include <assert.h>

static bool is_whole_seq(enum dim dim)
{
    return dim == DIM_SEQ || dim == DIM_TAP;
}

// Free where the result has the dim, a sum where it lacks it: taps aside, gradients of weights.
enum split op_conv_split(const struct block *block, const struct op *op, enum dim dim)
{
    const struct tensor *output = &block->tensors[op->outputs[0]];
    if (is_whole_seq(dim) || !op_has_dim(block, op, dim)) return SPLIT_NO;
    return tensor_find_dim(output, dim) >= 0 ? SPLIT_FREE : SPLIT_PARTIAL;
}

enum split op_scan_split(const struct block *block, const struct op *op, enum dim dim)
{
    (void)block, (void)op;
    return dim == DIM_BATCH || dim == DIM_HEAD ? SPLIT_FREE : SPLIT_NO;
}

// A multiplication and an addition a tap; in backward for x and for the weight.
double op_conv_flop(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT])
{
    assert(size[DIM_TAP] > 0);
    const struct op *forward = &block->ops[op->forward_op];
    const struct tensor *x = &block->tensors[forward->inputs[0]];
    double elements = (double)size[DIM_TAP];
    for (int i = 0; i < x->rank; i++)
        elements *= (double)size[x->extents[i].dim];
    return (op->phase == PHASE_FORWARD ? 2.0 : 4.0) * elements;
}

static int64_t chunk_of(int64_t chunk, int64_t seq)
{
    return chunk > 0 && chunk < seq ? chunk : seq;
}

struct scan_shape op_scan_shape(const struct op *op, const int64_t size[DIM_COUNT])
{
    return (struct scan_shape){.batch = size[DIM_BATCH],
                               .seq = size[DIM_SEQ],
                               .heads = size[DIM_HEAD],
                               .groups = size[DIM_KV_HEAD],
                               .head_dim = size[DIM_HEAD_DIM] ? size[DIM_HEAD_DIM] : 1,
                               .state = size[DIM_STATE],
                               .chunk = chunk_of(op->chunk, size[DIM_SEQ])};
}

double op_scan_gemms_flop(const struct scan_gemm *gemms, int count)
{
    double flop = 0;
    for (int i = 0; i < count; i++)
        flop += gemms[i].share * gemm_flop(&gemms[i].gemm);
    return flop;
}

bool op_scan_is_by_state(const struct block *block, const struct op *op)
{
    enum { A_LOG = 4 };
    bool is_forward = op->phase == PHASE_FORWARD;
    if (op_scan_is_steady(op)) return false;
    return tensor_find_dim(&block->tensors[op->inputs[is_forward ? A_LOG : A_LOG + 1]],
                           DIM_STATE) >= 0;
}

double op_scan_numbers(const struct scan_shape *shape)
{
    return (double)shape->batch * (double)shape->seq * (double)shape->heads *
           (double)shape->head_dim * (double)shape->state;
}

// Of a number of the state: its decay's exponent and exponential, what decays and what is added, a
// multiplication and an addition each, and the same of what is read. Backward makes the state again
// without reading it, and adds to its gradient, to those of B and C, and to what the step, x and A
// have of it.
static double by_state_flop(const struct scan_shape *shape, bool is_forward)
{
    enum { FORWARD = 7, BACKWARD = 5 + 15 };
    return op_scan_numbers(shape) * (is_forward ? FORWARD : BACKWARD);
}

double op_scan_flop(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT])
{
    const struct scan_shape shape = op_scan_shape(op, size);
    if (op_scan_is_by_state(block, op)) return by_state_flop(&shape, op->phase == PHASE_FORWARD);
    struct scan_gemm gemms[SCAN_GEMM_MAX];
    return op_scan_gemms_flop(gemms, op_scan_gemms(&shape, op->phase == PHASE_FORWARD, gemms));
}

double op_scan_model_flop(const struct block *block, const struct op *op)
{
    const struct tensor *x = &block->tensors[op->inputs[0]],
                        *b = &block->tensors[op->inputs[op_scan_b(op)]];
    int head = tensor_find_dim(x, DIM_HEAD), width = tensor_find_dim(x, DIM_HEAD_DIM);
    int state = tensor_find_dim(b, DIM_STATE);
    assert(head >= 0 && state >= 0);
    double channels = width >= 0 ? (double)x->extents[width].size : 1;
    return 4.0 * (double)x->extents[head].size * channels * (double)b->extents[state].size;
}

int64_t op_scan_chunks(const struct scan_shape *shape)
{
    assert(shape->batch > 0 && shape->chunk > 0 && shape->chunk <= shape->seq);
    return shape->batch * ((shape->seq + shape->chunk - 1) / shape->chunk);
}

int op_scan_gemms(const struct scan_shape *shape, bool is_forward,
                  struct scan_gemm gemms[SCAN_GEMM_MAX])
{
    assert(shape->chunk > 0 && shape->chunk <= shape->seq && shape->groups > 0);
    static const double WHOLE = 1, CAUSAL = 0.5;
    int64_t q = shape->chunk, p = shape->head_dim, n = shape->state;
    int64_t chunks = op_scan_chunks(shape);
    int64_t heads = chunks * shape->heads, groups = chunks * shape->groups;
    const struct scan_gemm forward[] = {
        {{groups, q, q, n}, WHOLE},  // scores: C B^T
        {{heads, q, p, q}, CAUSAL},  // y of the chunk's own tokens: decayed scores x
        {{heads, p, n, q}, WHOLE},   // what the chunk leaves: x^T B
        {{heads, q, p, n}, WHOLE},   // y of all tokens before: C h
    };
    const struct scan_gemm backward[] = {
        {{groups, q, q, n}, WHOLE},  // scores, and what each chunk leaves, again
        {{heads, p, n, q}, WHOLE},  {{heads, p, n, q}, WHOLE},  // gradient of the state: d_y^T C
        {{heads, q, p, q}, CAUSAL},                             // d_x: scores^T d_y, and B d_h
        {{heads, q, p, n}, WHOLE},  {{heads, q, n, p}, WHOLE},  // d_C: d_y h
        {{heads, q, n, p}, WHOLE},                              // d_B: x d_h
        {{heads, q, q, p}, CAUSAL},                             // gradient of the scores: d_y x^T
        {{groups, q, n, q}, WHOLE},                             // and what of it goes to C and B
        {{groups, q, n, q}, WHOLE},
    };
    const struct scan_gemm *from = is_forward ? forward : backward;
    int count = is_forward ? (int)(sizeof forward / sizeof *forward)
                           : (int)(sizeof backward / sizeof *backward);
    for (int i = 0; i < count; i++)
        gemms[i] = from[i];
    return count;
}

int64_t op_scan_states(const struct scan_shape *shape)
{
    return op_scan_chunks(shape) * shape->heads * shape->head_dim * shape->state;
}
