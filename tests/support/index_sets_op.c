#include "tests/support/index_sets_op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Indices of an operator are variables, named by dims. Two inner ones have no name of their own:
// the row that a norm or softmax takes together, and what attention sums over inside a score.
enum { ROW = DIM_COUNT, INNER, VARIABLE_COUNT };

void sets_violate(struct sets_result *result, const char *format, ...)
{
    if (result->violation_count++ > 0) return;
    va_list args;
    va_start(args, format);
    vsnprintf(result->text, sizeof result->text, format, args);
    va_end(args);
}

void box_index(const struct index_box *box, int64_t at, int64_t index[VIEW_RANK_MAX])
{
    for (int e = box->rank - 1; e >= 0; e--) {
        index[e] = box->first[e] + at % box->count[e];
        at /= box->count[e];
    }
}

int64_t box_place(const struct index_box *box, const int64_t index[VIEW_RANK_MAX])
{
    int64_t at = 0;
    for (int e = 0; e < box->rank; e++) {
        int64_t within = index[e] - box->first[e];
        if (within < 0 || within >= box->count[e]) return -1;
        at = at * box->count[e] + within;
    }
    return at;
}

// SplitMix64 (Steele, Lea, Flood 2014).
static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t sets_signature(uint64_t what, uint64_t element)
{
    uint64_t value = mix(mix(what) ^ element) >> 3;
    return value >= FIELD_PRIME || value == 0 ? 1 : value;
}

// Modulo a Mersenne prime the upper bits fold onto the lower ones.
static uint64_t field_multiply(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;
    uint64_t low = (uint64_t)product & FIELD_PRIME, high = (uint64_t)(product >> 61);
    return field_add(low, high);
}

static bool is_last(const struct tensor *tensor, int extent)
{
    return extent == tensor->rank - 1;
}

static bool is_attention(const struct op *op)
{
    return op->kind == OP_ATTENTION || op->kind == OP_ATTENTION_BACKWARD;
}

static bool has_keys(const struct op *op, bool output, int slot)
{
    if (op->kind == OP_ATTENTION) return !output && (slot == 1 || slot == 2);
    return output ? slot == 1 || slot == 2 : slot == 2 || slot == 3;
}

// Which variable indexes an extent. Keys are many along what stands before their heads.
static int attention_variable(const struct op *op, bool output, int slot,
                              const struct tensor *tensor, int extent)
{
    enum dim dim = tensor->extents[extent].dim;
    if (extent == tensor->rank - 3 && has_keys(op, output, slot)) return DIM_KV_SEQ;
    if (output || (dim != DIM_HEAD_DIM && dim != DIM_VALUE_DIM)) return (int)dim;
    return op->kind == OP_ATTENTION_BACKWARD && slot == 0 ? ROW : INNER;
}

static int variable(const struct op *op, bool output, int slot, int wanted,
                    const struct tensor *tensor, int extent)
{
    enum dim dim = tensor->extents[extent].dim;
    switch ((int)op->kind) {
    case OP_ATTENTION:
    case OP_ATTENTION_BACKWARD:
        return attention_variable(op, output, slot, tensor, extent);
    case OP_CHOOSE:
        if (!output && slot == 1 && dim == DIM_SEQ) return DIM_KV_SEQ;
        return dim == DIM_INDEX_HEAD || dim == DIM_HEAD_DIM ? INNER : (int)dim;
    case OP_NORM:
        return !output && slot == 0 && is_last(tensor, extent) ? ROW : (int)dim;
    case OP_NORM_BACKWARD:
        if (output || !is_last(tensor, extent)) return (int)dim;
        if (slot == 1) return INNER;
        return wanted == 0 ? ROW : (int)dim;
    case OP_SOFTMAX:
    case OP_SOFTMAX_BACKWARD:
    case OP_ROUTE:
    case OP_ROUTE_BACKWARD:
        // A sink has its head alone.
        return !output && is_last(tensor, extent) && tensor->rank > 1 ? ROW : (int)dim;
    case OP_ELEMENTWISE:
        if (op->function != FUNCTION_ROPE || output) return (int)dim;
        return dim == DIM_HEAD_DIM ? ROW : (int)dim;
    case OP_DISPATCH:
    case OP_COMBINE:
    case OP_DISPATCH_BACKWARD:
    case OP_COMBINE_BACKWARD:
        return dim == DIM_GATE ? DIM_EXPERT : (int)dim;
    default:
        return (int)dim;
    }
}

// Inputs in which the op is linear: they may come in parts. Of every other input whatever is read
// has to be complete.
static unsigned linear_inputs(const struct op *op, int wanted)
{
    switch ((int)op->kind) {
    case OP_CONTRACT:
    case OP_LINEAR_LOSS:
        return 3;
    case OP_LINEAR_LOSS_BACKWARD:
        return wanted == 0 ? 5 : 3;  // the gradient with the matrix, or with the rows
    case OP_ELEMENTWISE:
        return op->phase != PHASE_FORWARD || op->function == FUNCTION_SCALE ||
               op->function == FUNCTION_ROPE || op->function == FUNCTION_ALIBI;
    case OP_NORM:
    case OP_SOFTMAX:
    case OP_ATTENTION:
    case OP_CHOOSE:
    case OP_ROUTE:
        return 0;
    case OP_GATHER:
        return 2;
    default:
        return 1;
    }
}

// One output of one operator on one rank: how its inputs are indexed.
struct form {
    struct index_work *work;
    int wanted;
    int of[OP_INPUT_MAX][VIEW_RANK_MAX];  // variable of each extent
    int loops[VARIABLE_COUNT], loop_count;
    int64_t first[VARIABLE_COUNT], count[VARIABLE_COUNT];  // of output and loops
    bool known[VARIABLE_COUNT];
    int64_t at[VARIABLE_COUNT];
    int64_t heads_per_kv_head;  // 0: the op has not both
};

static void complain(const struct form *form, int input, const char *what)
{
    const struct index_work *work = form->work;
    sets_violate(work->result, "%s on rank %d: %s %s", work->op->name, work->rank,
                 work->inputs[input].tensor->name, what);
}

static int64_t whole_size(const struct index_work *work, bool output, enum dim dim)
{
    int count = output ? work->output_count : work->input_count;
    for (int i = 0; i < count; i++) {
        const struct view *view = output ? &work->outputs[i] : &work->inputs[i];
        int position = tensor_find_dim(view->tensor, dim);
        if (position >= 0) return view->whole.count[position];
    }
    return 0;
}

// A variable that output or loops fix runs over the same range wherever it occurs. Not so the
// scores of the gate, whole beside the rows of a few experts, shared kv heads, and keys, of which
// those that no query here attends to need not be there.
static void meet(struct form *form, int input, int extent)
{
    const struct index_work *work = form->work;
    const struct view *view = &work->inputs[input];
    int v = form->of[input][extent];
    enum dim dim = view->tensor->extents[extent].dim;
    bool is_shared = is_attention(work->op) && (dim == DIM_KV_HEAD || v == DIM_KV_SEQ);
    bool is_gate = v == DIM_EXPERT && (dim == DIM_GATE || work->op->kind == OP_COMBINE_BACKWARD);
    if (is_shared || is_gate || !form->known[v]) return;
    bool same = view->box.count[extent] == form->count[v] &&
                (form->count[v] == 0 || view->box.first[extent] == form->first[v]);
    if (!same && view->box.elements > 0) complain(form, input, "does not line up");
}

static void know(struct form *form, int v, const struct view *view, int extent)
{
    form->known[v] = true;
    form->first[v] = view->box.first[extent];
    form->count[v] = view->box.count[extent];
}

static struct form form_of(struct index_work *work, int wanted)
{
    struct form form = {.work = work, .wanted = wanted};
    const struct view *output = &work->outputs[wanted];
    unsigned linear = linear_inputs(work->op, wanted);
    if (is_attention(work->op)) {
        int64_t heads = whole_size(work, false, DIM_HEAD),
                kv = whole_size(work, false, DIM_KV_HEAD);
        form.heads_per_kv_head = kv ? heads / kv : 0;
    }
    for (int e = 0; e < output->tensor->rank; e++) {
        know(&form, variable(work->op, true, wanted, wanted, output->tensor, e), output, e);
    }
    for (int i = 0; i < work->input_count; i++) {
        const struct view *input = &work->inputs[i];
        for (int e = 0; e < input->tensor->rank; e++) {
            int v = form.of[i][e] = variable(work->op, false, i, wanted, input->tensor, e);
            if (form.known[v] || !(linear >> i & 1)) continue;
            know(&form, v, input, e);
            form.loops[form.loop_count++] = v;
        }
    }
    for (int i = 0; i < work->input_count; i++) {
        for (int e = 0; e < work->inputs[i].tensor->rank; e++)
            meet(&form, i, e);
    }
    return form;
}

// Whether the causal mask or the window hides this key from this query.
static bool is_hidden(const struct op *op, int64_t query, int64_t key)
{
    if (op->causal && key > query) return key >= op->prefix;
    if (op->window > 0 && op->chunked) return query / op->window != key / op->window;
    if (op->window > 0 && key - query >= op->window) return true;
    return op->window > 0 && query - key >= op->window;
}

// Whether the present values of the loops contribute at all: heads of another group and masked
// pairs do not.
static bool takes_part(const struct form *form)
{
    const struct op *op = form->work->op;
    if (!is_attention(op)) return true;
    bool knows_heads = form->known[DIM_HEAD] && form->known[DIM_KV_HEAD] && form->heads_per_kv_head;
    if (knows_heads && form->at[DIM_HEAD] / form->heads_per_kv_head != form->at[DIM_KV_HEAD]) {
        return false;
    }
    bool knows_pair = form->known[DIM_SEQ] && form->known[DIM_KV_SEQ];
    return !knows_pair || !is_hidden(op, form->at[DIM_SEQ], form->at[DIM_KV_SEQ]);
}

// The range of an extent that one term reads: one index where the variable is fixed, else all.
static void span(const struct form *form, int input, int extent, int64_t *first, int64_t *count)
{
    int v = form->of[input][extent];
    const struct view *view = &form->work->inputs[input];
    bool follows = v == DIM_KV_HEAD && !form->known[v] && form->known[DIM_HEAD];
    *first = 0;
    *count = view->whole.count[extent];
    if (form->known[v]) *first = form->at[v], *count = 1;
    if (follows) *first = form->at[DIM_HEAD] / form->heads_per_kv_head, *count = 1;
}

static bool is_masked_key(const struct form *form, int input, int extent, int64_t key)
{
    bool is_key = is_attention(form->work->op) && form->of[input][extent] == DIM_KV_SEQ;
    if (!is_key || form->known[DIM_KV_SEQ]) return false;
    return is_hidden(form->work->op, form->at[DIM_SEQ], key);
}

// Everything that one term reads of an input in which the op is not linear is there and complete.
static bool require(struct form *form, int input, int extent, int64_t index[VIEW_RANK_MAX])
{
    const struct view *view = &form->work->inputs[input];
    if (extent == view->tensor->rank) {
        int64_t at = box_place(&view->box, index);
        if (at < 0) return complain(form, input, "lacks an element"), false;
        if (view->values[at] == view->truth[box_place(&view->whole, index)]) return true;
        return complain(form, input, "is read incomplete"), false;
    }
    int64_t first, count;
    span(form, input, extent, &first, &count);
    for (int64_t i = first; i < first + count; i++) {
        if (is_masked_key(form, input, extent, i)) continue;
        index[extent] = i;
        if (!require(form, input, extent + 1, index)) return false;
    }
    return true;
}

static uint64_t weight(const struct form *form)
{
    uint64_t key = (uint64_t)form->work->op_index * OP_OUTPUT_MAX + (uint64_t)form->wanted;
    for (int v = 0; v < VARIABLE_COUNT; v++) {
        if (form->known[v]) key = mix(key) ^ (uint64_t)v << 32 ^ (uint64_t)form->at[v];
    }
    return sets_signature(1, key);
}

// Rows of experts that live elsewhere add nothing to the gradient of their weights here.
static bool is_elsewhere(const struct form *form)
{
    const struct index_work *work = form->work;
    if (work->op->kind != OP_COMBINE_BACKWARD || form->wanted != 1) return false;
    const struct view *rows = &work->inputs[1];
    int extent = tensor_find_dim(rows->tensor, DIM_EXPERT);
    int64_t within = form->at[DIM_EXPERT] - rows->box.first[extent];
    return within < 0 || within >= rows->box.count[extent];
}

// One term: the product of what the linear inputs hold, and a weight that nothing else has.
static uint64_t term(struct form *form)
{
    struct index_work *work = form->work;
    unsigned linear = linear_inputs(work->op, form->wanted);
    if (!takes_part(form) || is_elsewhere(form)) return 0;
    uint64_t value = weight(form);
    for (int i = 0; i < work->input_count; i++) {
        const struct view *view = &work->inputs[i];
        int64_t index[VIEW_RANK_MAX];
        // The loss is a sum over the vocabulary, of what is complete.
        bool is_guarded = !(linear >> i & 1) || op_is_loss(work->op->kind);
        if (is_guarded && !require(form, i, 0, index)) return 0;
        if (!(linear >> i & 1)) continue;
        for (int e = 0; e < view->tensor->rank; e++)
            index[e] = form->at[form->of[i][e]];
        int64_t at = box_place(&view->box, index);
        if (at < 0) return complain(form, i, "lacks an element"), 0;
        value = field_multiply(value, view->values[at]);
    }
    return value;
}

static uint64_t sum_loops(struct form *form, int depth)
{
    if (depth == form->loop_count) return term(form);
    int v = form->loops[depth];
    uint64_t sum = 0;
    for (int64_t i = 0; i < form->count[v]; i++) {
        form->at[v] = form->first[v] + i;
        sum = field_add(sum, sum_loops(form, depth + 1));
    }
    return sum;
}

// The inputs whose last dim this output needs all of, as a group of ranks has them together.
static struct index_work with_rows(const struct index_work *work, int wanted)
{
    struct index_work seen = *work;
    for (int i = 0; i < work->input_count && work->has_rows; i++) {
        const struct tensor *tensor = work->inputs[i].tensor;
        int v = variable(work->op, false, i, wanted, tensor, tensor->rank - 1);
        if (v == ROW || v == INNER) seen.inputs[i] = work->rows[i];
    }
    return seen;
}

static void compute_form(struct index_work *whole, int wanted)
{
    struct index_work seen = with_rows(whole, wanted), *work = &seen;
    struct form form = form_of(work, wanted);
    struct view *output = &work->outputs[wanted];
    for (int64_t i = 0; i < output->box.elements && !work->result->violation_count; i++) {
        int64_t index[VIEW_RANK_MAX];
        box_index(&output->box, i, index);
        for (int e = 0; e < output->tensor->rank; e++) {
            form.at[variable(work->op, true, wanted, wanted, output->tensor, e)] = index[e];
        }
        output->values[i] = sum_loops(&form, 0);
    }
}

// A term of a sum may lack dims of the result (biases).
static void compute_sum(struct index_work *work)
{
    struct view *output = &work->outputs[0];
    for (int64_t i = 0; i < output->box.elements; i++) {
        int64_t index[VIEW_RANK_MAX], own[VIEW_RANK_MAX];
        box_index(&output->box, i, index);
        output->values[i] = 0;
        for (int j = 0; j < work->input_count; j++) {
            const struct view *input = &work->inputs[j];
            for (int e = 0; e < input->tensor->rank; e++) {
                int position = tensor_find_dim(output->tensor, input->tensor->extents[e].dim);
                own[e] = index[position];
                if (input->box.count[e] == output->box.count[position]) continue;
                sets_violate(work->result, "%s on rank %d: %s does not line up", work->op->name,
                             work->rank, input->tensor->name);
            }
            int64_t at = box_place(&input->box, own);
            if (at < 0) {
                sets_violate(work->result, "%s on rank %d: %s lacks an element", work->op->name,
                             work->rank, input->tensor->name);
                return;
            }
            output->values[i] = field_add(output->values[i], input->values[at]);
        }
    }
}

// OP_EXPAND, OP_CONCAT and the ops that undo them pair one element of a `short` tensor with one or
// more of a `wide` one: dims pair by position (expand) or by name, the last dims of a concatenation
// behind one another. Writes the element of the short tensor; false when it has none.
static bool narrow(const struct index_work *work, const struct view *wide,
                   const struct view *narrowed, int64_t before, const int64_t index[VIEW_RANK_MAX],
                   int64_t to[VIEW_RANK_MAX])
{
    bool joins = work->op->kind == OP_CONCAT || work->op->kind == OP_CONCAT_BACKWARD;
    int last = narrowed->tensor->rank - 1;
    for (int e = 0; e <= last; e++) {
        int from = joins && e < last
                       ? tensor_find_dim(wide->tensor, narrowed->tensor->extents[e].dim)
                       : e - last + wide->tensor->rank - 1;
        int64_t ratio = joins ? 1 : wide->whole.count[from] / narrowed->whole.count[e];
        to[e] = index[from] / ratio - (joins && e == last ? before : 0);
    }
    return to[last] >= 0 && to[last] < narrowed->whole.count[last];
}

static uint64_t pair_weight(const struct index_work *work, const struct view *wide, int side,
                            const int64_t index[VIEW_RANK_MAX])
{
    uint64_t place = (uint64_t)box_place(&wide->whole, index);
    return sets_signature(2 + (uint64_t)work->op_index, place * 2 + (uint64_t)side);
}

// Dims that pair one to one have the same range on both sides.
static void meet_pair(const struct index_work *work, const struct view *wide,
                      const struct view *narrowed)
{
    for (int e = 0; e < narrowed->tensor->rank; e++) {
        int from = tensor_find_dim(wide->tensor, narrowed->tensor->extents[e].dim);
        if (from < 0 || wide->whole.count[from] != narrowed->whole.count[e]) continue;
        if (wide->box.count[from] == narrowed->box.count[e]) continue;
        sets_violate(work->result, "%s on rank %d: %s does not line up", work->op->name, work->rank,
                     narrowed->tensor->name);
    }
}

static void compute_widening(struct index_work *work)
{
    struct view *wide = &work->outputs[0];
    for (int64_t i = 0; i < wide->box.elements; i++) {
        int64_t index[VIEW_RANK_MAX], own[VIEW_RANK_MAX], before = 0;
        box_index(&wide->box, i, index);
        for (int j = 0; j < work->input_count; j++) {
            const struct view *input = &work->inputs[j];
            if (i == 0) meet_pair(work, wide, input);
            if (narrow(work, wide, input, before, index, own)) {
                int64_t at = box_place(&input->box, own);
                if (at < 0) {
                    sets_violate(work->result, "%s on rank %d: %s lacks an element", work->op->name,
                                 work->rank, input->tensor->name);
                    return;
                }
                uint64_t factor = pair_weight(work, wide, 0, index);
                wide->values[i] = field_multiply(factor, input->values[at]);
            }
            before += input->whole.count[input->tensor->rank - 1];
        }
    }
}

static void compute_narrowing(struct index_work *work)
{
    const struct view *wide = &work->inputs[0];
    int64_t before = 0;
    for (int j = 0; j < work->output_count; j++) {
        struct view *output = &work->outputs[j];
        memset(output->values, 0, (size_t)output->box.elements * sizeof *output->values);
        if (wide->box.elements && output->box.elements) meet_pair(work, wide, output);
        for (int64_t i = 0; i < wide->box.elements; i++) {
            int64_t index[VIEW_RANK_MAX], own[VIEW_RANK_MAX];
            box_index(&wide->box, i, index);
            if (!narrow(work, wide, output, before, index, own)) continue;
            int64_t at = box_place(&output->box, own);
            if (at < 0) continue;
            uint64_t factor = pair_weight(work, wide, 1, index);
            uint64_t value = field_multiply(factor, wide->values[i]);
            output->values[at] = field_add(output->values[at], value);
        }
        before += output->whole.count[output->tensor->rank - 1];
    }
}

void sets_compute(struct index_work *work)
{
    enum op_kind kind = work->op->kind;
    bool same_rank = work->inputs[0].tensor->rank == work->outputs[0].tensor->rank;
    if (kind == OP_ADD) return compute_sum(work);
    if (kind == OP_EXPAND || kind == OP_CONCAT) return compute_widening(work);
    bool narrows = kind == OP_CONCAT_BACKWARD || (kind == OP_REDUCE && same_rank);
    if (narrows) return compute_narrowing(work);
    for (int i = 0; i < work->output_count && !work->result->violation_count; i++)
        compute_form(work, i);
}
