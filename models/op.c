#include "models/op.h"

#include "models/op_attention.h"
#include "models/op_choose.h"
#include "models/op_concat.h"
#include "models/op_delta.h"
#include "models/op_image.h"
#include "models/op_linear_loss.h"
#include "models/op_pool.h"
#include "models/op_scan.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const struct tensor *input_of(const struct block *block, const struct op *op, int index)
{
    assert(index < op->input_count);
    return &block->tensors[op->inputs[index]];
}

static const struct tensor *output_of(const struct block *block, const struct op *op, int index)
{
    assert(index < op->output_count);
    return &block->tensors[op->outputs[index]];
}

static bool has_dim(const struct tensor *tensor, enum dim dim)
{
    return tensor_find_dim(tensor, dim) >= 0;
}

static bool is_last_dim(const struct tensor *tensor, enum dim dim)
{
    return tensor->rank > 0 && tensor->extents[tensor->rank - 1].dim == dim;
}

// Bit i = enum dim.
static uint64_t dims_of(const struct tensor *tensor)
{
    uint64_t dims = 0;
    for (int i = 0; i < tensor->rank; i++) {
        dims |= UINT64_C(1) << tensor->extents[i].dim;
    }
    return dims;
}

bool op_has_dim(const struct block *block, const struct op *op, enum dim dim)
{
    for (int i = 0; i < op->input_count; i++) {
        if (has_dim(input_of(block, op, i), dim)) return true;
    }
    for (int i = 0; i < op->output_count; i++) {
        if (has_dim(output_of(block, op, i), dim)) return true;
    }
    return false;
}

// Whether the function needs no forward tensor in its backward (scale, rope).
static bool function_is_linear(enum function function)
{
    return function == FUNCTION_SCALE || function_is_rope(function) || function == FUNCTION_ALIBI;
}

// Splits

// What an einsum does, and every kind that treats its elements alone: a dim of all outputs is
// free, over one that an output lacks it is a sum.
static enum split split_einsum(const struct block *block, const struct op *op, enum dim dim)
{
    bool in_all = true;
    for (int i = 0; i < op->output_count; i++) {
        in_all = in_all && has_dim(output_of(block, op, i), dim);
    }
    if (in_all) return SPLIT_FREE;
    return op_has_dim(block, op, dim) ? SPLIT_PARTIAL : SPLIT_NO;
}

static enum split split_elementwise(const struct block *block, const struct op *op, enum dim dim)
{
    // Rope pairs the first half of head_dim with the second.
    if (function_is_rope(op->function) && dim == DIM_HEAD_DIM) return SPLIT_NO;
    return split_einsum(block, op, dim);
}

// Who goes where is decided over all experts. The rows of some experts need only their weights, and
// a sum over some of the experts is a part of the whole.
static enum split split_routed(const struct block *block, const struct op *op, enum dim dim)
{
    return dim == DIM_GATE ? SPLIT_NO : split_einsum(block, op, dim);
}

// Dims at the same position of input and output belong together. A renamed position must be whole
// (the new name is split by other rules than the old), a repeated one follows `head`.
static enum split split_renamed(const struct block *block, const struct op *op, enum dim dim)
{
    const struct tensor *input = input_of(block, op, 0), *output = output_of(block, op, 0);
    if (input->rank != output->rank) return split_einsum(block, op, dim);
    if (dim == DIM_HEAD && op_has_dim(block, op, DIM_KV_HEAD)) return SPLIT_FREE;
    int position = tensor_find_dim(input, dim);
    if (position < 0) return SPLIT_NO;
    return output->extents[position].dim == dim ? SPLIT_FREE : SPLIT_NO;
}

// Dims that become others are whole.
static enum split split_flattened(const struct block *block, const struct op *op, enum dim dim)
{
    bool stays = has_dim(input_of(block, op, 0), dim) && has_dim(output_of(block, op, 0), dim);
    return stays ? SPLIT_FREE : SPLIT_NO;
}

int op_norm_rank(const struct block *block, const struct op *op)
{
    assert(op->kind == OP_NORM || op->kind == OP_NORM_BACKWARD);
    int weight = op->kind == OP_NORM ? 1 : 2;
    return op->input_count > weight ? input_of(block, op, weight)->rank : 1;
}

// A norm needs the dims whole that it is taken over; hidden or ffn alone, and the heads of a norm
// by groups, it can be taken over in parts, and several groups by themselves.
static enum split split_norm(const struct block *block, const struct op *op, enum dim dim)
{
    const struct tensor *output = output_of(block, op, 0);
    int norm_rank = op_norm_rank(block, op);
    bool is_inside = tensor_find_dim(output, dim) >= output->rank - norm_rank;
    if (is_inside && (dim == DIM_HIDDEN || dim == DIM_FFN) && norm_rank == 1) return SPLIT_REDUCED;
    if (is_inside && dim == DIM_HEAD && op->groups > 0)
        return op->groups == 1 ? SPLIT_REDUCED : SPLIT_FREE;
    return is_inside ? SPLIT_NO : split_einsum(block, op, dim);
}

// Softmax needs its last dim whole.
static enum split split_rows(const struct block *block, const struct op *op, enum dim dim)
{
    return is_last_dim(output_of(block, op, 0), dim) ? SPLIT_NO : split_einsum(block, op, dim);
}

// Rows and columns of a matrix are whole.
static enum split split_matrices(const struct block *block, const struct op *op, enum dim dim)
{
    const struct tensor *output = output_of(block, op, 0);
    return tensor_find_dim(output, dim) >= output->rank - 2 ? SPLIT_NO
                                                            : split_einsum(block, op, dim);
}

static enum split split_loss(const struct block *block, const struct op *op, enum dim dim)
{
    bool is_softmax = op->function == FUNCTION_NONE;
    if (is_last_dim(input_of(block, op, 0), dim)) return is_softmax ? SPLIT_REDUCED : SPLIT_NO;
    return has_dim(output_of(block, op, 0), dim) ? SPLIT_FREE : SPLIT_NO;
}

// Work

static double elements_of(const struct tensor *tensor, const int64_t size[DIM_COUNT])
{
    double elements = tensor->density > 0 ? tensor->density : 1;
    for (int i = 0; i < tensor->rank; i++) {
        assert(size[tensor->extents[i].dim] > 0);
        elements *= (double)size[tensor->extents[i].dim];
    }
    return elements;
}

static double flop_none(const struct block *block, const struct op *op,
                        const int64_t size[DIM_COUNT])
{
    (void)block, (void)op, (void)size;
    return 0;
}

static double flop_contract(const struct block *block, const struct op *op,
                            const int64_t size[DIM_COUNT])
{
    struct gemm gemm = op_gemm(block, op, size);
    return gemm_flop(&gemm);
}

static double flop_samples(const struct block *block, const struct op *op,
                           const int64_t size[DIM_COUNT])
{
    assert(op->work.flop >= 0 && op->work.backward_flop >= 0);
    double each = op->phase == PHASE_FORWARD ? op->work.flop : op->work.backward_flop;
    return each * (double)size[DIM_BATCH] * op_image_share(block, op, size);
}

// Terms less one additions.
static double flop_sum(const struct block *block, const struct op *op,
                       const int64_t size[DIM_COUNT])
{
    return (op->input_count - 1) * elements_of(output_of(block, op, 0), size);
}

// One addition an element that goes in: reductions and the scattered sum of a lookup's backward.
static double flop_per_input(const struct block *block, const struct op *op,
                             const int64_t size[DIM_COUNT])
{
    return elements_of(input_of(block, op, 0), size);
}

static double flop_stream(const struct block *block, const struct op *op,
                          const int64_t size[DIM_COUNT])
{
    return op->flop_per_element * elements_of(input_of(block, op, 0), size);
}

// Backward starts from d_out, which is as large as the output even where a gate is narrower.
static double flop_elementwise(const struct block *block, const struct op *op,
                               const int64_t size[DIM_COUNT])
{
    bool is_forward = op->phase == PHASE_FORWARD;
    const struct tensor *whole = is_forward ? output_of(block, op, 0) : input_of(block, op, 0);
    return op->flop_per_element * op->output_count * elements_of(whole, size);
}

static double flop_outputs(const struct block *block, const struct op *op,
                           const int64_t size[DIM_COUNT])
{
    return op->flop_per_element * op->output_count * elements_of(output_of(block, op, 0), size);
}

static double flop_dropout(const struct block *block, const struct op *op,
                           const int64_t size[DIM_COUNT])
{
    return op->flop_per_element * elements_of(output_of(block, op, 0), size);
}

// One multiplication and one addition a row element for each of the results: the weighted sum, in
// backward the rows' gradients and the dot product that is the weight's.
static double flop_combine(const struct block *block, const struct op *op,
                           const int64_t size[DIM_COUNT])
{
    int rows = op->kind == OP_COMBINE ? 0 : 1;
    return 2.0 * op->output_count * elements_of(input_of(block, op, rows), size);
}

// What backward reads

// Sums and views: their backward is made of the gradient alone.
static unsigned saves_none(const struct block *block, const struct op *op)
{
    (void)block, (void)op;
    return 0;
}

static unsigned saves_inputs(const struct block *block, const struct op *op)
{
    assert(op->input_count <= SAVES_OUTPUT && "bits behind those are outputs");
    (void)block;
    return (1u << op->input_count) - 1;
}

static unsigned saves_work(const struct block *block, const struct op *op)
{
    (void)block;
    return op->work.kept;
}

static unsigned saves_elementwise(const struct block *block, const struct op *op)
{
    bool is_linear = function_is_linear(op->function) && op->input_count == 1;
    return is_linear ? 0 : saves_inputs(block, op);
}

// The bias of a norm is not read.
static unsigned saves_norm(const struct block *block, const struct op *op)
{
    (void)block;
    return op->input_count > 1 ? 3u : 1u;
}

// The second output: which elements stayed, or the log-sum-exp.
static unsigned saves_mask(const struct block *block, const struct op *op)
{
    (void)block, (void)op;
    return 1u << (SAVES_OUTPUT + 1);
}

static unsigned saves_output(const struct block *block, const struct op *op)
{
    (void)block, (void)op;
    return 1u << SAVES_OUTPUT;
}

static unsigned saves_attention(const struct block *block, const struct op *op)
{
    return saves_inputs(block, op) | 3u << SAVES_OUTPUT;
}

// The scores and which of them were chosen.
static unsigned saves_route(const struct block *block, const struct op *op)
{
    (void)block, (void)op;
    return 1u | 1u << SAVES_OUTPUT;
}

// Where the rows went.
static unsigned saves_dispatch(const struct block *block, const struct op *op)
{
    (void)block, (void)op;
    return 1u << 1;
}

static unsigned saves_ids(const struct block *block, const struct op *op)
{
    (void)block, (void)op;
    return 1u;
}

static unsigned saves_loss(const struct block *block, const struct op *op)
{
    if (op->function) return saves_inputs(block, op);
    return saves_inputs(block, op) | saves_mask(block, op);
}

// A row: name, split, flop, saves, element-wise.
static const struct op_rule RULES[OP_KIND_COUNT] = {
    [OP_CONTRACT] = {"contract", split_einsum, flop_contract, saves_inputs, false},
    [OP_ADD] = {"add", split_einsum, flop_sum, saves_none, true},
    [OP_ELEMENTWISE] = {"elementwise", split_elementwise, flop_elementwise, saves_elementwise,
                        true},
    [OP_EXPAND] = {"expand", split_renamed, flop_none, saves_none, true},
    [OP_DROPOUT] = {"dropout", split_elementwise, flop_dropout, saves_mask, true},
    [OP_NORM] = {"norm", split_norm, flop_stream, saves_norm, false},
    [OP_SOFTMAX] = {"softmax", split_rows, flop_stream, saves_output, false},
    [OP_ATTENTION] = {"attention", op_attention_split, op_attention_flop, saves_attention, false},
    [OP_GATHER] = {"gather", split_einsum, flop_none, saves_ids, false},
    [OP_CONCAT] = {"concat", op_concat_split, flop_none, saves_none, false},
    [OP_PART] = {"part", op_concat_split, flop_none, saves_none, false},
    [OP_FLATTEN] = {"flatten", split_flattened, flop_none, saves_none, false},
    [OP_ROUTE] = {"route", split_rows, flop_stream, saves_route, false},
    [OP_DISPATCH] = {"dispatch", split_routed, flop_none, saves_dispatch, false},
    [OP_COMBINE] = {"combine", split_routed, flop_combine, saves_inputs, false},
    [OP_LOSS] = {"loss", split_loss, flop_stream, saves_loss, false},
    [OP_NORM_BACKWARD] = {"norm_backward", split_norm, flop_stream, saves_none, false},
    [OP_SOFTMAX_BACKWARD] = {"softmax_backward", split_rows, flop_stream, saves_none, false},
    [OP_ATTENTION_BACKWARD] = {"attention_backward", op_attention_split, op_attention_backward_flop,
                               saves_none, false},
    [OP_GATHER_BACKWARD] = {"gather_backward", split_einsum, flop_per_input, saves_none, false},
    [OP_LOSS_BACKWARD] = {"loss_backward", split_einsum, flop_outputs, saves_none, false},
    [OP_CONCAT_BACKWARD] = {"concat_backward", op_concat_split, op_concat_backward_flop, saves_none,
                            false},
    [OP_ROUTE_BACKWARD] = {"route_backward", split_rows, flop_stream, saves_none, false},
    [OP_DISPATCH_BACKWARD] = {"dispatch_backward", split_routed, flop_per_input, saves_none, false},
    [OP_COMBINE_BACKWARD] = {"combine_backward", split_routed, flop_combine, saves_none, false},
    [OP_REDUCE] = {"reduce", split_renamed, flop_per_input, saves_none, false},
    [OP_PRODUCT] = {"product", op_image_split, flop_contract, saves_inputs, false},
    [OP_OPERATOR] = {"operator", op_image_split, flop_samples, saves_work, false},
    [OP_OPERATOR_BACKWARD] = {"operator_backward", op_image_split, flop_samples, saves_none, false},
    [OP_CONV] = {"conv", op_conv_split, op_conv_flop, saves_inputs, false},
    [OP_CONV_BACKWARD] = {"conv_backward", op_conv_split, op_conv_flop, saves_none, false},
    [OP_SCAN] = {"scan", op_scan_split, op_scan_flop, saves_inputs, false},
    [OP_SCAN_BACKWARD] = {"scan_backward", op_scan_split, op_scan_flop, saves_none, false},
    [OP_DELTA] = {"delta", op_delta_split, op_delta_flop, saves_inputs, false},
    [OP_DELTA_BACKWARD] = {"delta_backward", op_delta_split, op_delta_flop, saves_none, false},
    [OP_CHOOSE] = {"choose", op_choose_split, op_choose_flop, saves_output, false},
    [OP_CHOOSE_BACKWARD] = {"choose_backward", op_choose_split, op_choose_flop, saves_none, false},
    [OP_LINEAR_LOSS] = {"linear_loss", op_linear_loss_split, op_linear_loss_flop, saves_loss,
                        false},
    [OP_LINEAR_LOSS_BACKWARD] = {"linear_loss_backward", op_linear_loss_split, op_linear_loss_flop,
                                 saves_none, false},
    [OP_SINKHORN] = {"sinkhorn", split_matrices, flop_stream, saves_inputs, false},
    [OP_SINKHORN_BACKWARD] = {"sinkhorn_backward", split_matrices, flop_stream, saves_none, false},
    [OP_POOL] = {"pool", op_pool_split, op_pool_flop, saves_inputs, false},
    [OP_POOL_BACKWARD] = {"pool_backward", op_pool_split, op_pool_flop, saves_none, false},
    [OP_POOLED] = {"pooled", op_pooled_split, op_pooled_flop, saves_attention, false},
    [OP_POOLED_BACKWARD] = {"pooled_backward", op_pooled_split, op_pooled_flop, saves_none, false},
};

const struct op_rule *op_rule(enum op_kind kind)
{
    assert(kind >= 0 && kind < OP_KIND_COUNT);
    assert(RULES[kind].name && "every kind has its row");
    return &RULES[kind];
}

bool op_has_gradient(const struct block *block, const struct op *op, int input)
{
    const struct tensor *tensor = input_of(block, op, input);
    bool is_number = tensor->role == TENSOR_ACTIVATION || tensor->role == TENSOR_PARAMETER;
    if (op->kind == OP_DISPATCH && input == 1) return false;
    bool is_choice = op->chooses || has_dim(tensor, DIM_CHOSEN);
    return is_number && !is_choice && tensor->element != ELEMENT_BYTE && !tensor->frozen;
}

int op_inner_reductions(const struct op *op)
{
    bool is_layer_norm = op->function == FUNCTION_LAYER_NORM;
    switch (op->kind) {
    case OP_LOSS:
    case OP_LINEAR_LOSS:
        return op->function ? 0 : 3;
    case OP_NORM:
        return is_layer_norm ? 2 : 1;
    case OP_NORM_BACKWARD:
        return is_layer_norm ? 4 : 2;
    case OP_OPERATOR:
    case OP_OPERATOR_BACKWARD:
        return op->work.places == PLACES_STATISTICS ? 1 : 0;
    default:
        return 0;
    }
}

// Of the tokens times experts that a ragged operand has room for, `density` exist.
static double contract_density(const struct block *block, const struct op *op)
{
    double density = fmax(input_of(block, op, 0)->density, input_of(block, op, 1)->density);
    return fmax(density, output_of(block, op, 0)->density);
}

double gemm_flop(const struct gemm *gemm)
{
    return 2.0 * (double)gemm->batch * (double)gemm->m * (double)gemm->n * (double)gemm->k;
}

bool op_is_gemm(enum op_kind kind)
{
    return kind == OP_CONTRACT || kind == OP_PRODUCT;
}

// The implicit GEMM of a convolution (Chetlur et al. 2014, section 3): a row for each place of the
// window, a column for each output channel of a group. Its gradients are products of the same
// three sizes, those of x with columns and depth exchanged, those of the weight summed over rows.
// Factors that are both activations have a product for each sample.
static struct gemm product_gemm(const struct block *block, const struct op *op,
                                const int64_t size[DIM_COUNT])
{
    assert(op->forward_op >= 0 && op->forward_op < block->op_count);
    int64_t batch = size[DIM_BATCH];
    const struct op *forward = &block->ops[op->forward_op];
    const struct op_work *work = &op->work;
    bool is_weight = input_of(block, forward, 1)->role == TENSOR_PARAMETER;
    double share = op_image_share(block, op, size);
    int64_t each = share < 1 ? (int64_t)ceil((double)work->rows * share) : work->rows;
    int64_t rows = is_weight ? each * batch : each;
    int64_t groups = is_weight ? work->groups : work->groups * batch;
    if (op->phase == PHASE_FORWARD) return (struct gemm){groups, rows, work->columns, work->depth};
    assert(op->input_count == 2);
    bool is_first = op->inputs[0] != forward->inputs[0];
    if (is_first) return (struct gemm){groups, rows, work->depth, work->columns};
    return (struct gemm){groups, work->columns, work->depth, rows};
}

struct gemm op_gemm(const struct block *block, const struct op *op, const int64_t size[DIM_COUNT])
{
    if (op->kind == OP_PRODUCT) return product_gemm(block, op, size);
    assert(op->kind == OP_CONTRACT && op->input_count == 2);
    struct gemm gemm = {1, 1, 1, 1};
    int64_t *tokens = NULL;
    uint64_t a = dims_of(input_of(block, op, 0)), b = dims_of(input_of(block, op, 1));
    uint64_t c = dims_of(output_of(block, op, 0));
    for (uint64_t left = a | b; left; left &= left - 1) {
        int dim = __builtin_ctzll(left);
        bool in_a = a >> dim & 1, in_b = b >> dim & 1, in_c = c >> dim & 1;
        assert(size[dim] > 0 && (in_c || (in_a && in_b)));
        int64_t *part = !in_c ? &gemm.k : in_a && in_b ? &gemm.batch : in_a ? &gemm.m : &gemm.n;
        *part *= size[dim];
        if (dim == DIM_BATCH || dim == DIM_SEQ) tokens = part;
    }
    double density = contract_density(block, op);
    if (density > 0) {
        assert(tokens && tokens != &gemm.batch);
        *tokens = density_share(density, *tokens);
    }
    return gemm;
}

// Both limits may stand in one op: what is chosen is among the window's keys.
int64_t op_seen_most(const struct op *op)
{
    bool is_fewer = op->top_k > 0 && (op->window == 0 || op->top_k < op->window);
    return is_fewer ? op->top_k : op->window;
}

double op_attended_pairs(const struct op *op, int64_t queries, int64_t keys)
{
    assert(queries > 0 && keys > 0 && op->window >= 0 && op->prefix >= 0);
    double sides = op->causal ? 1 : 2;
    int64_t most = op_seen_most(op);
    double window = (double)(most > 0 && most < keys ? most : keys);
    double prefix = (double)(op->prefix < keys ? op->prefix : keys);
    double ahead = prefix * prefix / (2 * (double)keys);
    if (!op->chunked)
        return (double)queries * (sides * (window - window * window / (2 * (double)keys)) + ahead);
    double whole = floor((double)keys / window), rest = (double)keys - whole * window;
    return sides * (double)queries * (whole * window * window + rest * rest) / (2 * (double)keys);
}
