#include "models/op_delta.h"

#include <assert.h>

enum split op_delta_split(const struct block *block, const struct op *op, enum dim dim)
{
    return op_scan_split(block, op, dim);
}

double op_delta_flop(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT])
{
    (void)block;
    const struct scan_shape shape = op_scan_shape(op, size);
    struct scan_gemm gemms[SCAN_GEMM_MAX];
    return op_scan_gemms_flop(gemms, op_delta_gemms(&shape, op->phase == PHASE_FORWARD, gemms));
}

double op_delta_model_flop(const struct block *block, const struct op *op)
{
    // Of v and k: heads times their width times the width of keys.
    const struct tensor *v = &block->tensors[op->inputs[0]], *k = &block->tensors[op->inputs[2]];
    int head = tensor_find_dim(v, DIM_HEAD), width = tensor_find_dim(v, DIM_HEAD_DIM);
    int state = tensor_find_dim(k, DIM_STATE);
    assert(head >= 0 && width >= 0 && state >= 0);
    return 6.0 * (double)v->extents[head].size * (double)v->extents[width].size *
           (double)k->extents[state].size;
}

int op_delta_gemms(const struct scan_shape *shape, bool is_forward,
                   struct scan_gemm gemms[SCAN_GEMM_MAX])
{
    assert(shape->chunk > 0 && shape->chunk <= shape->seq && shape->groups > 0);
    // Below the diagonal alone; a triangle inverted, and one times another.
    static const double WHOLE = 1, CAUSAL = 0.5, INVERSE = 1.0 / 6;
    int64_t q = shape->chunk, p = shape->head_dim, n = shape->state;
    int64_t heads = op_scan_chunks(shape) * shape->heads;
    const struct scan_gemm forward[] = {
        {{heads, q, q, n}, CAUSAL},   // the triangular system: beta K K^T
        {{heads, q, q, q}, INVERSE},  // T, its inverse
        {{heads, q, n, q}, CAUSAL},   // W = T beta K
        {{heads, q, p, q}, CAUSAL},   // U = T beta V
        {{heads, q, p, n}, WHOLE},    // what the tokens add: U - W S
        {{heads, p, n, q}, WHOLE},    // what the chunk leaves
        {{heads, q, q, n}, CAUSAL},   // scores: Q K^T
        {{heads, q, p, n}, WHOLE},    // y of all tokens before: Q S
        {{heads, q, p, q}, CAUSAL},   // y of the chunk's own tokens
    };
    const struct scan_gemm backward[] = {
        // The system, its inverse, W, U, what is added, states and scores again.
        {{heads, q, q, n}, CAUSAL},
        {{heads, q, q, q}, INVERSE},
        {{heads, q, n, q}, CAUSAL},
        {{heads, q, p, q}, CAUSAL},
        {{heads, q, p, n}, WHOLE},
        {{heads, p, n, q}, WHOLE},
        {{heads, q, q, n}, CAUSAL},
        {{heads, q, p, q}, CAUSAL},  // of what is added: scores^T d_y, and K d_S
        {{heads, q, p, n}, WHOLE},
        {{heads, p, n, q}, WHOLE},  // of the state: d_y^T Q, and what W took from it
        {{heads, p, n, q}, WHOLE},
        {{heads, q, n, p}, WHOLE},  // of Q, of K and of W, through the state
        {{heads, q, n, p}, WHOLE},
        {{heads, q, n, p}, WHOLE},
        {{heads, q, q, p}, CAUSAL},  // of the scores, and what of it goes to Q and K
        {{heads, q, n, q}, CAUSAL},
        {{heads, q, n, q}, CAUSAL},
        {{heads, q, q, n}, CAUSAL},  // of T, from W and from U
        {{heads, q, q, p}, CAUSAL},
        {{heads, q, n, q}, CAUSAL},  // of beta K and of beta V: T^T
        {{heads, q, p, q}, CAUSAL},
        {{heads, q, q, q}, INVERSE},  // of the system: T^T d_T T^T, and what of it goes to K
        {{heads, q, q, q}, INVERSE},
        {{heads, q, n, q}, CAUSAL},
        {{heads, q, n, q}, CAUSAL},
    };
    const struct scan_gemm *from = is_forward ? forward : backward;
    int count = is_forward ? (int)(sizeof forward / sizeof *forward)
                           : (int)(sizeof backward / sizeof *backward);
    assert(count <= SCAN_GEMM_MAX);
    for (int i = 0; i < count; i++)
        gemms[i] = from[i];
    return count;
}
