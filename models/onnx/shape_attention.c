#include "models/onnx/shape.h"

#include <inttypes.h>

// Query (batch, head, seq, head_dim), key (batch, kv_head, kv_seq, head_dim) and value (batch,
// kv_head, kv_seq, value_dim), with groups of heads sharing keys; an optional mask broadcasts with
// the scores. Softmax between the two products stays on chip, and its work is in neither.
bool shape_attention(const struct onnx_model *model, struct onnx_call *call)
{
    const struct onnx_value *q = call_input(model, call, 0), *k = call_input(model, call, 1);
    const struct onnx_value *v = call_input(model, call, 2), *mask = call_input(model, call, 3);
    if (q->rank != 4 || k->rank != 4 || v->rank != 4)
        return call_fail(model, call, "query, key and value of 4 dimensions are wanted");
    int64_t heads = q->dims[1], kv_heads = k->dims[1], kv_seq = k->dims[2];
    bool is_right = k->dims[0] == q->dims[0] && v->dims[0] == q->dims[0] && kv_heads > 0 &&
                    heads % kv_heads == 0 && v->dims[1] == kv_heads && k->dims[3] == q->dims[3] &&
                    v->dims[2] == kv_seq;
    if (!is_right) {
        return call_fail(model, call,
                         "key %s (%" PRId64 " heads, %" PRId64 " rows) does not go with query %s",
                         k->name, kv_heads, kv_seq, q->name);
    }
    int64_t dims[RANK_MOST] = {q->dims[0], heads, q->dims[2], kv_seq};
    int rank = 4;
    if (mask && !broadcast(model, call, &rank, dims, mask)) return false;
    // Half of the scores are above the diagonal.
    double pairs = (double)q->dims[0] * (double)heads * (double)q->dims[2] * (double)kv_seq;
    if (attribute_int(call, "is_causal", 0)) pairs /= 2;
    call->flop = 2 * pairs * (double)(q->dims[3] + v->dims[3]);
    const int64_t out[] = {q->dims[0], heads, q->dims[2], v->dims[3]};
    return set_output(model, call, 0, q->element, 4, out);
}
