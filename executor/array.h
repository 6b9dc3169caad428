#pragma once
#include "executor/kernel.h"

#include <assert.h>
#include <stdbool.h>

// Questions about the arrays of a call, alike for all back ends.

static inline int64_t array_elements(const struct kernel_array *array)
{
    int64_t elements = 1;
    for (int i = 0; i < array->rank; i++)
        elements *= array->sizes[i];
    return elements;
}

// Position of a dim or -1.
static inline int array_find(const struct kernel_array *array, enum dim dim)
{
    for (int i = 0; i < array->rank; i++) {
        if (array->dims[i] == dim) return i;
    }
    return -1;
}

static inline bool array_shares_dims(const struct kernel_array *a, const struct kernel_array *b)
{
    for (int i = 0; i < a->rank; i++) {
        if (array_find(b, a->dims[i]) >= 0) return true;
    }
    return false;
}

// Size of a dim here, 1 when the array lacks it; and where it begins.
static inline int64_t array_size(const struct kernel_array *array, enum dim dim)
{
    int at = array_find(array, dim);
    return at < 0 ? 1 : array->sizes[at];
}
static inline int64_t array_first(const struct kernel_array *array, enum dim dim)
{
    int at = array_find(array, dim);
    return at < 0 ? 0 : array->first[at];
}
static inline int64_t array_last(const struct kernel_array *array)
{
    return array->rank > 0 ? array->sizes[array->rank - 1] : 1;
}

// How many elements a norm is taken over whose x is input `x` of the call: as many as its weight
// has, which stands behind x.
static inline int64_t call_norm_width(const struct kernel_call *call, int x)
{
    if (call->input_count <= x + 1) return array_last(&call->inputs[x]);
    return array_elements(&call->inputs[x + 1]);
}

// The same in the whole: more where ranks share a row, or its groups.
static inline int64_t call_norm_whole(const struct kernel_call *call, int x)
{
    int64_t whole = 1;
    const struct kernel_array *of = &call->inputs[x];
    if (call->input_count <= x + 1) return of->rank > 0 ? of->whole[of->rank - 1] : 1;
    of = &call->inputs[x + 1];
    for (int i = 0; i < of->rank; i++)
        whole *= of->whole[i];
    return whole;
}

// Of how many neighbours moments are taken: of a row, or of one of its groups.
static inline int64_t call_norm_each(const struct kernel_call *call, int x)
{
    if (call->op->groups < 2) return call_norm_width(call, x);
    return call_norm_whole(call, x) / call->op->groups;
}

// Elements that a step along position `at` skips.
static inline int64_t array_stride(const struct kernel_array *array, int at)
{
    int64_t stride = 1;
    if (array->row_stride && at <= 1) return array->row_stride * (at == 0 ? array->sizes[1] : 1);
    for (int i = at + 1; i < array->rank; i++)
        stride *= array->sizes[i];
    return stride;
}

// Where a concatenation joins its arrays: `joint` of the whole, or its last dim.
static inline int array_joined(const struct kernel_array *whole)
{
    int joint = array_find(whole, DIM_JOINT);
    return joint < 0 ? whole->rank - 1 : joint;
}

// The array with so many of its last dims as one.
static inline struct kernel_array array_fold_last(const struct kernel_array *array, int count)
{
    struct kernel_array folded = *array;
    int at = array->rank - count;
    for (int i = at + 1; i < array->rank; i++) {
        folded.sizes[at] *= array->sizes[i];
        folded.whole[at] *= array->whole[i];
    }
    folded.rank = at + 1;
    return folded;
}

// The calls of OP_CONCAT, OP_PART and OP_CONCAT_BACKWARD join last dims alone: what stands behind
// `joint` is folded into it. What is in front of the parts that are there is returned.
static inline int64_t call_fold_joint(struct kernel_call *call)
{
    struct kernel_array *whole = call->op->kind == OP_CONCAT ? call->outputs : call->inputs;
    struct kernel_array *parts = call->op->kind == OP_CONCAT ? call->inputs : call->outputs;
    int count = call->op->kind == OP_CONCAT ? call->input_count : call->output_count;
    int behind = whole->rank - array_joined(whole);
    *whole = array_fold_last(whole, behind);
    int64_t before = behind > 1 ? array_last(whole) : 0;
    for (int i = 0; i < count; i++) {
        parts[i] = array_fold_last(&parts[i], behind);
        if (behind > 1) before -= array_last(&parts[i]);
    }
    return before;
}

// Rows of (batch, seq).
static inline bool array_has_rows(const struct kernel_array *array)
{
    return array->rank > 2 && array->dims[0] == DIM_BATCH && array->dims[1] == DIM_SEQ;
}
// Elements of one row.
static inline int64_t array_row(const struct kernel_array *array)
{
    int64_t elements = 1;
    for (int i = 2; i < array->rank; i++)
        elements *= array->sizes[i];
    return elements;
}

// Whether rows of an operand lie apart.
static inline bool call_is_apart(const struct kernel_call *call)
{
    for (int i = 0; i < call->input_count; i++) {
        if (call->inputs[i].row_stride) return true;
    }
    for (int i = 0; i < call->output_count; i++) {
        if (call->outputs[i].row_stride) return true;
    }
    return false;
}

// Whether the result is added to what is there.
static inline bool call_adds(const struct kernel_call *call, int output)
{
    return call->adds >> output & 1;
}

// Whether the rows of this array exist for the chosen tokens only.
static inline bool array_is_ragged(const struct kernel_array *array)
{
    return array_find(array, DIM_EXPERT) >= 0 && array_find(array, DIM_SEQ) >= 0;
}

// Elements of an array, or of its rows that exist.
static inline int64_t call_held_elements(const struct kernel_call *call,
                                         const struct kernel_array *array)
{
    if (!call->routing || !array_is_ragged(array)) return array_elements(array);
    int64_t rows = call->routing->rows_of[call->routing->expert_count];
    return rows * array_stride(array, array_find(array, DIM_EXPERT));
}

// What one expert has of an array whose elements are so wide: its rows where there are rows, its
// part of a parameter. NULL, or the rule that is broken.
static inline const char *array_cut_expert(struct kernel_array *array,
                                           const struct kernel_routing *routing, int64_t expert,
                                           int64_t element_bytes)
{
    int at = array_find(array, DIM_EXPERT);
    if (at < 0) return NULL;
    int64_t part = expert;
    if (array_is_ragged(array)) {
        bool is_usual = at == 2 && array->dims[0] == DIM_BATCH && array->dims[1] == DIM_SEQ;
        if (!is_usual) return "rows of experts want (batch, seq, expert, ...)";
        part = routing->rows_of[expert];
        array->sizes[0] = 1;
        array->sizes[1] = routing->rows_of[expert + 1] - routing->rows_of[expert];
    } else if (at != 0) {
        return "parameters of experts want the dim expert first";
    }
    array->data = (char *)array->data + part * array_stride(array, at) * element_bytes;
    array->sizes[at] = 1;
    return NULL;
}

// Whether it works on rows of experts, without moving any.
static inline bool call_is_inside_experts(const struct kernel_call *call)
{
    bool moves = call->op->kind == OP_DISPATCH || call->op->kind == OP_DISPATCH_BACKWARD ||
                 call->op->kind == OP_COMBINE || call->op->kind == OP_COMBINE_BACKWARD;
    if (!call->routing || moves) return false;
    for (int i = 0; i < call->input_count; i++) {
        if (array_is_ragged(&call->inputs[i])) return true;
    }
    return call->output_count > 0 && array_is_ragged(&call->outputs[0]);
}

// Results that all experts write into: those behind the first expert add.
static inline unsigned call_shared_outputs(const struct kernel_call *call)
{
    unsigned outputs = 0;
    for (int i = 0; i < call->output_count; i++) {
        if (array_find(&call->outputs[i], DIM_EXPERT) < 0) outputs |= 1u << i;
    }
    return outputs;
}

static inline bool array_is_of_heads(const struct kernel_array *array, enum dim heads)
{
    return array->rank == 4 && array->dims[0] == DIM_BATCH && array->dims[1] == DIM_SEQ &&
           array->dims[2] == heads;
}

// An array of attention as (batch, seq, head, width): its first `outer` dims as one, and those from
// there to the heads as one. Where they begin in the whole is not known of several dims.
static inline void array_fold_heads(struct kernel_array *array, int outer)
{
    int rank = array->rank;
    int64_t sizes[2] = {1, 1}, whole[2] = {1, 1};
    assert(rank >= 4 && rank <= TENSOR_RANK_MAX && outer >= 1 && outer + 2 < rank);
    for (int i = 0; i < rank - 2; i++) {
        sizes[i >= outer] *= array->sizes[i];
        whole[i >= outer] *= array->whole[i];
    }
    for (int i = 2; i < 4; i++) {
        array->dims[i] = array->dims[rank - 4 + i];
        array->sizes[i] = array->sizes[rank - 4 + i];
        array->first[i] = array->first[rank - 4 + i];
        array->whole[i] = array->whole[rank - 4 + i];
    }
    for (int i = 0; i < 2; i++) {
        array->dims[i] = i == 0 ? DIM_BATCH : DIM_SEQ;
        array->sizes[i] = sizes[i];
        array->first[i] = 0;
        array->whole[i] = whole[i];
    }
    array->rank = 4;
}

// Attention over one dim of several (struct op): as attention of (batch, seq, head, width). NULL,
// or why it is not that.
static inline const char *call_fold_attention(struct kernel_call *call, int first_input)
{
    const struct kernel_array *q = &call->inputs[first_input], *k = q + 1;
    bool are_tokens = q->dims[1] == DIM_SEQ && k->dims[1] == DIM_SEQ;
    if (q->rank == 4 && k->rank == 4 && are_tokens) return NULL;
    if (call->op->causal || call->op->dropout_ratio > 0 || call->documents)
        return "attention over one of several dims is neither masked nor dropped from";
    int outer = k->rank - 3, gradients = first_input == 1 ? 3 : 0;
    bool are_alike = outer >= 1 && q->rank >= k->rank && q[2].rank == k->rank;
    for (int i = 0; i < 3; i++)
        are_alike = are_alike && !q[i].row_stride;
    for (int i = 0; i < outer && are_alike; i++)
        are_alike = q->dims[i] == k->dims[i] && q->sizes[i] == k->sizes[i];
    if (!are_alike) return "attention wants (batch, ..., keys, head, width)";
    for (int i = 0; i < 3; i++)
        array_fold_heads(&call->inputs[first_input + i], outer);
    for (int i = 0; i < gradients; i++)
        array_fold_heads(&call->outputs[i], outer);
    return NULL;
}

// Of scores every query sees every key, and there is no sink: which dims stand before the keys does
// not matter.
static inline bool call_is_plain_softmax(const struct kernel_call *call)
{
    bool has_sink = call->op->kind == OP_SOFTMAX ? call->input_count > 1 : call->output_count > 1;
    return !call->op->causal && call->op->window <= 0 && !has_sink;
}

static inline const char *call_check_softmax(const struct kernel_call *call)
{
    const struct kernel_array *scores = &call->inputs[0];
    bool has_all = array_find(scores, DIM_SEQ) >= 0 && array_find(scores, DIM_BATCH) >= 0 &&
                   scores->dims[scores->rank - 1] == DIM_KV_SEQ &&
                   array_find(scores, DIM_HEAD) >= 0;
    bool is_right = has_all || call_is_plain_softmax(call);
    return is_right ? NULL : "softmax needs batch, head, seq and, last, kv_seq";
}

// A score for each head whose probability is dropped, behind queries, keys and values: NULL where
// there is none.
static inline const struct kernel_array *call_sink(const struct kernel_call *call, int first_input)
{
    const struct kernel_array *sink = &call->inputs[first_input + 3];
    return call->input_count > first_input + 3 && sink->rank == 1 ? sink : NULL;
}

// The keys that were chosen for each query, behind those and the sink: NULL where there are none.
static inline const struct kernel_array *call_chosen(const struct kernel_call *call,
                                                     int first_input)
{
    int at = first_input + 3 + (call_sink(call, first_input) != NULL);
    return call->input_count > at && call->inputs[at].rank == 3 ? &call->inputs[at] : NULL;
}

static inline const char *call_check_chosen(const struct kernel_call *call, int first_input)
{
    const struct kernel_array *q = &call->inputs[first_input];
    const struct kernel_array *chosen = call_chosen(call, first_input);
    const struct op *op = call->op;
    bool is_plain = op->alibi <= 0 && op->softcap <= 0 && op->dropout_ratio <= 0;
    bool has_choice = chosen && chosen->sizes[0] == q->sizes[0] && chosen->sizes[1] == q->sizes[1];
    return is_plain && has_choice
               ? NULL
               : "attention to chosen keys wants them by query, and scores as they are";
}

// Queries, keys and values of attention, from an input on: NULL, or what is wrong with them.
static inline const char *call_check_attention(const struct kernel_call *call, int first_input)
{
    const struct kernel_array *q = &call->inputs[first_input], *k = q + 1, *v = q + 2;
    enum dim kv = array_find(k, DIM_KV_HEAD) >= 0 ? DIM_KV_HEAD : DIM_HEAD;
    bool are_heads =
        array_is_of_heads(q, DIM_HEAD) && array_is_of_heads(k, kv) && array_is_of_heads(v, kv);
    if (!are_heads) return "attention wants (batch, seq, head, width)";
    if (q->sizes[3] != k->sizes[3] || k->sizes[2] != v->sizes[2] || k->sizes[1] != v->sizes[1])
        return "queries, keys and values of attention do not fit together";
    if (k->whole[2] <= 0 || q->whole[2] % k->whole[2] != 0)
        return "query heads are no multiple of key heads";
    if (call->op->alibi > 0 && call->head_count <= 0) return "alibi needs the number of heads";
    return NULL;
}
