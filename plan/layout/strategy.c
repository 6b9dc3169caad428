#include "plan/layout/strategy.h"

#include "models/op_image.h"
#include "models/op_scan.h"
#include "plan/layout/entries.h"
#include "plan/layout/rules.h"
#include "plan/layout/spatial.h"

#include <assert.h>

enum { FLAT_GRIDS = 1 << TP_2D | 1 << TP_2D_SUMMA, DEEP_GRIDS = 1 << TP_2_5D | 1 << TP_2_5D_SUMMA };

// What tp prefers with and without sequence parallelism.
#define TENSOR_DIMS                               \
    {                                             \
        DIM_HEAD, DIM_KV_HEAD, DIM_FFN, DIM_VOCAB \
    }

static const struct technique TECHNIQUES[] = {
    {"data", AXIS_DP, .prefers = {DIM_BATCH}, .tokens = DIM_BATCH},
    {"tensor (1D)", AXIS_TP, .prefers = TENSOR_DIMS, .tp_kinds = 1 << TP_1D, .tokens = DIM_SEQ},
    {"tensor + sequence", AXIS_TP, .prefers = TENSOR_DIMS, .tp_kinds = 1 << TP_1D,
     .otherwise = DIM_SEQ, .tokens = DIM_SEQ},
    {"tensor grid, tokens",
     AXIS_TP,
     GRID_X,
     FLAT_GRIDS | DEEP_GRIDS | 1 << TP_3D,
     {DIM_BATCH},
     .tokens = DIM_BATCH,
     .stores = true},
    {"tensor grid, features (2D, 2.5D)", AXIS_TP, GRID_Y, 1 << TP_2D | 1 << TP_2_5D, TENSOR_DIMS,
     .otherwise = DIM_HIDDEN},
    {"tensor grid, results (SUMMA)", AXIS_TP, GRID_Y, SUMMA_GRIDS, TENSOR_DIMS,
     .otherwise = DIM_HIDDEN, .prefers_result = true},
    {"tensor grid, depth (2.5D)", AXIS_TP, GRID_Z, DEEP_GRIDS, {DIM_BATCH}, .tokens = DIM_BATCH},
    {"tensor grid, features (3D)", AXIS_TP, GRID_Y, 1 << TP_3D, TENSOR_DIMS,
     .otherwise = DIM_BATCH},
    {"tensor grid, hidden (3D)", AXIS_TP, GRID_Z, 1 << TP_3D, {DIM_HIDDEN}, .otherwise = DIM_BATCH},
    {"context (ring)", AXIS_CP, .prefers = {DIM_SEQ}, .tokens = DIM_SEQ, .splits_queries = true,
     .streams = true},
    {"context (all-gather)", AXIS_CP, .prefers = {DIM_SEQ}, .tokens = DIM_SEQ,
     .splits_queries = true},
    {"context (Ulysses)", AXIS_CP, .prefers = {DIM_SEQ}, .in_attention = {DIM_HEAD, DIM_KV_HEAD},
     .tokens = DIM_SEQ},
    {"spatial, rows", AXIS_SP_H, .prefers = {DIM_HEIGHT}},
    {"spatial, columns", AXIS_SP_W, .prefers = {DIM_WIDTH}},
    {"axial (two sequence dims in turn)", AXIS_CP,
     .prefers = {DIM_SEQ, DIM_TIME, DIM_MSA, DIM_RES_I}, .tokens = DIM_SEQ, .alternates = true},
    {"expert", AXIS_EP, .prefers = {DIM_EXPERT}, .otherwise = DIM_NONE},
    {"expert tensor", AXIS_ETP, .prefers = {DIM_FFN}, .otherwise = DIM_NONE},
};

enum { TECHNIQUE_COUNT = sizeof TECHNIQUES / sizeof *TECHNIQUES };

static bool is_in_force(const struct technique *technique, const struct parallel *parallel)
{
    switch (technique->axis) {
    case AXIS_TP:
        if (!(technique->tp_kinds >> parallel->tp_kind & 1)) return false;
        return parallel->tp_kind != TP_1D || (technique->otherwise == DIM_SEQ) == parallel->sp;
    case AXIS_CP:
        if (parallel->cp_kind == CP_AXIAL || technique->alternates)
            return technique->alternates && parallel->cp_kind == CP_AXIAL;
        return technique->splits_queries == (parallel->cp_kind != CP_ULYSSES) &&
               technique->streams == (parallel->cp_kind == CP_RING);
    default:
        return true;
    }
}

static const struct technique *find(const struct parallel *parallel, enum axis axis,
                                    enum grid_axis grid)
{
    for (int i = 0; i < TECHNIQUE_COUNT; i++) {
        const struct technique *technique = &TECHNIQUES[i];
        bool is_of = technique->axis == axis && technique->grid == grid;
        if (is_of && is_in_force(technique, parallel)) return technique;
    }
    return NULL;
}

const struct technique *technique_at(const struct parallel *parallel, const struct mesh_axis *axis)
{
    return find(parallel, axis->parent, axis->grid);
}

const struct technique *technique_of(const struct parallel *parallel, enum axis axis)
{
    return find(parallel, axis, GRID_LINE);
}

// Whether the axis can still split a dim of this size that outer axes divided into `parts`. Sizes
// that the workload gives (0 here) are large enough. kv heads are the dim that gets used up.
static bool divides(int64_t size, int64_t parts, int axis_size)
{
    return size == 0 || size >= parts * axis_size;
}

static bool allows(const struct technique *technique, const struct block *block,
                   const struct op *op, enum dim dim)
{
    if (op_rule(op->kind)->split(block, op, dim) != SPLIT_NO) return true;
    return technique->splits_queries && op->kind == OP_ATTENTION && dim == DIM_SEQ &&
           op_keys_dim(block, op) == DIM_SEQ;
}

static int64_t dim_size(const struct block *block, const struct op *op, enum dim dim)
{
    for (int i = 0; i < op->input_count + op->output_count; i++) {
        int t = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
        int position = tensor_find_dim(&block->tensors[t], dim);
        if (position >= 0) return block->tensors[t].extents[position].size;
    }
    return 0;
}

static bool moves_tokens(const struct op *op)
{
    return op->kind == OP_DISPATCH || op->kind == OP_COMBINE;
}

// A sum of gradients stands for itself, everything else for the forward op that it derives from.
static const struct op *own_op(const struct block *block, const struct op *op)
{
    return op->kind == OP_ADD ? op : &block->ops[op->forward_op];
}

bool strategy_in_attention(const struct block *block, const struct op *op)
{
    const struct op *forward = &block->ops[op->forward_op];
    return forward->kind == OP_ATTENTION || forward->class == OP_CLASS_ATTENTION ||
           op_mixes_tokens(forward->kind);
}

bool strategy_in_experts(const struct block *block, const struct op *op)
{
    return !moves_tokens(own_op(block, op)) && op_has_dim(block, op, DIM_EXPERT);
}

// What the model says that axial parallelism splits in an op. A sum of gradients lies as its terms
// do, which come from those that read what it is the gradient of: it turns once for all of them.
static enum dim told_dim(const struct block *block, const struct op *op)
{
    if (op->phase == PHASE_FORWARD) return op->axial;
    int tensor = block->tensors[op->outputs[0]].gradient_of;
    for (int o = 0; o < block->op_count && block->ops[o].phase == PHASE_FORWARD; o++) {
        for (int i = 0; i < block->ops[o].input_count; i++) {
            if (block->ops[o].inputs[i] == tensor) return block->ops[o].axial;
        }
    }
    return DIM_NONE;
}

// Of two dims that attention runs over in turn an axis splits the one that is not mixed next, so
// that what passes between ops changes hands once for each turn (Zhao et al. 2024, dynamic sequence
// parallelism, section 3). Behind the last turn it is the first, in which blocks hand on.
static bool is_mixed_next(const struct technique *technique, const struct block *block,
                          const struct op *op, enum dim dim)
{
    int first = (int)(op - block->ops);
    // A sum of gradients lies as what it is the gradient of: that of a block input as these do.
    if (op->phase != PHASE_FORWARD)
        first = block->tensors[block->tensors[op->outputs[0]].gradient_of].producer;
    for (int o = first; o >= 0 && o < block->op_count; o++) {
        const struct op *next = &block->ops[o];
        if (next->phase != PHASE_FORWARD) return false;
        for (int i = 0; i < PREFER_MAX && technique->prefers[i]; i++) {
            enum dim mixed = technique->prefers[i];
            bool mixes = op_has_dim(block, next, mixed) &&
                         op_rule(next->kind)->split(block, next, mixed) == SPLIT_NO;
            if (mixes) return mixed == dim;
        }
    }
    return false;
}

// What an axis would like to split in an op, in order.
struct wishes {
    enum dim dims[4 * PREFER_MAX];
    int count;
};

static void wish(struct wishes *wishes, const enum dim dims[PREFER_MAX])
{
    for (int i = 0; i < PREFER_MAX && dims[i]; i++)
        wishes->dims[wishes->count++] = dims[i];
}

static bool is_wanted(const struct technique *technique, enum dim dim)
{
    bool found = dim == technique->otherwise;
    for (int i = 0; i < PREFER_MAX; i++)
        found |= dim == technique->prefers[i];
    return found;
}

// Of a product with a parameter: the dims of the row that the parameter gives the result.
static void wish_result(struct wishes *wishes, const struct technique *technique,
                        const struct block *block, const struct op *op)
{
    if (op->kind != OP_CONTRACT) return;
    const struct tensor *left = &block->tensors[op->inputs[0]];
    const struct tensor *right = &block->tensors[op->inputs[1]];
    if (right->role != TENSOR_PARAMETER) return;
    const struct tensor *result = &block->tensors[op->outputs[0]];
    for (int i = 0; i < result->rank && wishes->count < PREFER_MAX; i++) {
        enum dim dim = result->extents[i].dim;
        bool is_free = tensor_find_dim(right, dim) >= 0 && tensor_find_dim(left, dim) < 0;
        if (is_free && is_wanted(technique, dim)) wishes->dims[wishes->count++] = dim;
    }
}

static struct wishes wishes_of(const struct technique *dense, const struct technique *inside,
                               const struct block *block, const struct op *op)
{
    const enum dim otherwise[PREFER_MAX] = {dense->otherwise}, tokens[PREFER_MAX] = {dense->tokens};
    struct wishes wishes = {.count = 0};
    const enum dim told[PREFER_MAX] = {dense->alternates ? told_dim(block, op) : DIM_NONE};
    wish(&wishes, told);
    if (told[0]) return wishes;
    bool in_experts = strategy_in_experts(block, op);
    if (in_experts && !inside) {
        wish(&wishes, tokens);
        return wishes;
    }
    if (in_experts) wish(&wishes, inside->prefers);
    // Attention that does not mix what the axis has already needs nothing else.
    bool is_apart = op->kind == OP_ATTENTION && op_has_dim(block, op, dense->prefers[0]) &&
                    op_rule(op->kind)->split(block, op, dense->prefers[0]) == SPLIT_FREE;
    if (strategy_in_attention(block, op) && !is_apart) wish(&wishes, dense->in_attention);
    if (dense->prefers_result) wish_result(&wishes, dense, block, op);
    wish(&wishes, dense->prefers);
    wish(&wishes, otherwise);
    if (moves_tokens(op)) wish(&wishes, inside ? inside->prefers : tokens);
    return wishes;
}

// What a plan says of one operator stands in place of what the table says of all.
static struct wishes ruled(const struct layout_rule *rule, const struct technique *dense)
{
    enum dim dim = rule->follows ? dense->otherwise : rule->dim;
    const enum dim wanted[PREFER_MAX] = {dim};
    struct wishes wishes = {.count = 0};
    wish(&wishes, wanted);
    return wishes;
}

// Which dim one axis takes, given how far other axes have divided each dim.
static enum dim choose(const struct wishes *wishes, const struct technique *technique,
                       const struct block *block, const struct op *op,
                       const int64_t parts[DIM_COUNT], int axis_size, bool *used_up)
{
    for (int i = 0; i < wishes->count; i++) {
        enum dim dim = wishes->dims[i];
        if (!allows(technique, block, op, dim)) continue;
        if (technique->alternates && !told_dim(block, op) &&
            is_mixed_next(technique, block, op, dim))
            continue;
        *used_up = !divides(dim_size(block, op, dim), parts[dim], axis_size);
        return *used_up ? DIM_NONE : dim;
    }
    return DIM_NONE;
}

// The order in which axes take the heads: tp from the outside, then the others from the inside, so
// that tp.0 and cp.0 take the kv heads before tp.1 and cp.1 find none left. Of a grid too the axis
// with the outer digit is first: the kv heads that a rank has are those of its query heads.
static void order_axes(const struct mesh *mesh, int order[MESH_AXIS_MAX])
{
    int count = 0;
    for (int i = mesh->axis_count - 1; i >= 0; i--) {
        if (mesh->axes[i].parent != AXIS_TP) continue;
        int at = count++;
        for (; at > 0 && layout_is_outer(mesh, DIM_HEAD, i, order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = 0; i < mesh->axis_count; i++) {
        if (mesh->axes[i].parent != AXIS_TP) order[count++] = i;
    }
    assert(count == mesh->axis_count);
}

// Of the two axes of a 3D grid that take tokens where they have nothing else, ty does in what has
// neither dimension: both would have to own the innermost digit.
static bool is_crowded(const struct mesh *mesh, const struct parallel *parallel,
                       const struct layout *layout, int axis)
{
    bool may_be = parallel->tp_kind == TP_3D && mesh->axes[axis].grid == GRID_Z;
    unsigned tokens = may_be ? layout_axes_on(layout, DIM_BATCH) : 0;
    for (int i = 0; tokens >> axis & 1 && i < mesh->axis_count; i++) {
        if (tokens >> i & 1 && mesh->axes[i].grid == GRID_Y) return true;
    }
    return false;
}

struct strategy strategy_of(const struct mesh *mesh, const struct parallel *parallel,
                            const struct block *block, const struct op *op)
{
    bool inherits = op->phase != PHASE_FORWARD && op->kind != OP_ADD;
    if (inherits) op = &block->ops[op->forward_op];
    struct strategy strategy = {{DIM_NONE}, 0};
    int64_t parts[DIM_COUNT];
    for (int d = 0; d < DIM_COUNT; d++)
        parts[d] = 1;
    int order[MESH_AXIS_MAX];
    order_axes(mesh, order);
    for (int n = 0; n < mesh->axis_count; n++) {
        int i = order[n];
        const struct mesh_axis *axis = &mesh->axes[i];
        const struct technique *dense = technique_at(parallel, axis);
        if (!dense) continue;
        bool is_data = axis->expert == AXIS_DP, used_up = false;
        const struct technique *inside = is_data ? NULL : technique_of(parallel, axis->expert);
        struct wishes wishes = wishes_of(dense, inside, block, op);
        const struct layout_rule *rule = layout_rule_of(parallel, axis->parent, block, op);
        if (rule) wishes = ruled(rule, dense);
        enum dim dim = choose(&wishes, dense, block, op, parts, axis->size, &used_up);
        strategy.of[i] = dim;
        strategy.used_up |= (unsigned)used_up << i;
        parts[dim] *= axis->size;
    }
    struct layout chosen = {.of = {0}};
    for (int i = 0; i < mesh->axis_count; i++)
        chosen.of[i] = (int8_t)strategy.of[i];
    for (int i = 0; i < mesh->axis_count; i++) {
        if (is_crowded(mesh, parallel, &chosen, i)) strategy.of[i] = DIM_NONE;
    }
    return strategy;
}

bool strategy_is_keys(const struct op *op, bool output, int index)
{
    // A choice is of its query.
    if (op->kind == OP_ATTENTION) return !output && (index == 1 || index == 2);
    if (op->kind == OP_CHOOSE || op->kind == OP_POOLED) return !output && index == 1;
    if (op->kind == OP_POOLED_BACKWARD) return index == (output ? 1 : 2);
    if (op->kind != OP_ATTENTION_BACKWARD) return false;
    return output ? index == 1 || index == 2 : index == 2 || index == 3;
}

// The split part of a tensor's layout under a strategy; axes that split another dim stay whole.
// An axis on the query heads splits the kv heads as far as they go. `keys`: the dim that is whole
// because every query needs all of it; DIM_NONE.
static struct layout split_layout(const struct mesh *mesh, const struct strategy *strategy,
                                  const struct tensor *tensor, enum dim keys)
{
    struct layout layout = {.of = {0}};
    int kv_head = tensor_find_dim(tensor, DIM_KV_HEAD), order[MESH_AXIS_MAX];
    int64_t kv_parts = 1;
    if (kv_head >= 0) order_axes(mesh, order);
    for (int n = 0; n < mesh->axis_count; n++) {
        int i = kv_head >= 0 ? order[n] : n;
        enum dim dim = strategy->of[i];
        if (dim == DIM_NONE || dim == keys) continue;
        if (dim == DIM_HEAD && kv_head >= 0) dim = DIM_KV_HEAD;
        int position = dim == DIM_KV_HEAD ? kv_head : tensor_find_dim(tensor, dim);
        if (position < 0) continue;
        if (dim == DIM_KV_HEAD) {
            int64_t size = tensor->extents[kv_head].size;
            if (!divides(size, kv_parts, mesh->axes[i].size)) continue;
            kv_parts *= mesh->axes[i].size;
        }
        layout.of[i] = (int8_t)dim;
    }
    return layout;
}

static enum dim whole_keys(const struct block *block, const struct op *op, bool output, int index)
{
    return strategy_is_keys(op, output, index) ? op_keys_dim(block, op) : DIM_NONE;
}

struct layout strategy_input(const struct mesh *mesh, const struct strategy *strategy,
                             const struct block *block, const struct op *op, int input)
{
    assert(input >= 0 && input < op->input_count);
    const struct tensor *tensor = &block->tensors[op->inputs[input]];
    struct layout layout =
        split_layout(mesh, strategy, tensor, whole_keys(block, op, false, input));
    spatial_halos(mesh, block, op, false, input, &layout);
    return layout;
}

// Whether a split of `dim` that an output does not show leaves the output partial.
static bool makes_partial(const struct block *block, const struct op *op, enum dim dim)
{
    for (int i = 0; i < op->input_count; i++) {
        if (tensor_find_dim(&block->tensors[op->inputs[i]], dim) < 0) continue;
        return op_rule(op->kind)->split(block, op, dim) != SPLIT_REDUCED;
    }
    return false;
}

struct layout strategy_output(const struct mesh *mesh, const struct strategy *strategy,
                              const struct block *block, const struct op *op, int output)
{
    assert(output >= 0 && output < op->output_count);
    const struct tensor *tensor = &block->tensors[op->outputs[output]];
    struct layout layout =
        split_layout(mesh, strategy, tensor, whole_keys(block, op, true, output));
    // Statistics are those of the samples that a rank has; over parts of an image they are whole,
    // and what each rank adds to the gradient of a factor is not. Which samples are dropped is the
    // same wherever parts of them are.
    bool is_mask = output > 0 && tensor->element == ELEMENT_BYTE;
    bool is_statistic = is_mask || op_is_statistic(block, op, op->outputs[output]);
    bool is_of_all = op->kind == OP_OPERATOR_BACKWARD && tensor->role == TENSOR_PARAMETER_GRADIENT;
    for (int i = 0; i < mesh->axis_count && !is_statistic; i++) {
        enum dim dim = strategy->of[i];
        if (dim == DIM_NONE || layout.of[i] != LAYOUT_WHOLE) continue;
        bool is_read = is_of_all && op_has_dim(block, op, dim);
        if (is_read || makes_partial(block, op, dim)) layout.of[i] = LAYOUT_SUM;
    }
    spatial_halos(mesh, block, op, true, output, &layout);
    return layout;
}

struct layout strategy_gradient(const struct mesh *mesh, const struct strategy *strategy,
                                struct layout read)
{
    for (int a = 0; a < mesh->axis_count; a++)
        if (strategy->of[a] && read.of[a] == LAYOUT_WHOLE) read.of[a] = LAYOUT_SUM;
    return read;
}

struct layout strategy_zeros(const struct mesh *mesh, const struct parallel *parallel,
                             const struct block *block, int gradient)
{
    for (int o = 0;; o++) {
        const struct op *reader = &block->ops[o];
        int i = 0;
        while (i < reader->input_count && reader->inputs[i] != block->tensors[gradient].gradient_of)
            i++;
        if (i == reader->input_count) continue;
        struct strategy strategy = strategy_of(mesh, parallel, block, reader);
        struct layout read = strategy_input(mesh, &strategy, block, reader, i);
        read = entries_gradient(mesh, &strategy, block, reader, read);
        return strategy_gradient(mesh, &strategy, read);
    }
}

struct layout strategy_boundary(const struct mesh *mesh, const struct parallel *parallel,
                                const struct tensor *tensor)
{
    struct layout layout = {.of = {0}};
    int order[MESH_AXIS_MAX], kv_head = tensor_find_dim(tensor, DIM_KV_HEAD);
    int64_t kv_parts = 1;
    order_axes(mesh, order);
    for (int n = 0; n < mesh->axis_count; n++) {
        int i = order[n];
        const struct technique *technique = technique_at(parallel, &mesh->axes[i]);
        if (!technique) continue;
        enum dim dim = DIM_NONE;
        for (int p = 0; p < PREFER_MAX && technique->prefers[p] && !dim; p++) {
            if (tensor_find_dim(tensor, technique->prefers[p]) >= 0) dim = technique->prefers[p];
        }
        if (!dim && technique->otherwise && tensor_find_dim(tensor, technique->otherwise) >= 0) {
            dim = technique->otherwise;
        }
        if (dim == DIM_KV_HEAD) {
            if (!divides(tensor->extents[kv_head].size, kv_parts, mesh->axes[i].size)) continue;
            kv_parts *= mesh->axes[i].size;
        }
        layout.of[i] = (int8_t)dim;
    }
    for (int i = 0; i < mesh->axis_count; i++) {
        if (is_crowded(mesh, parallel, &layout, i)) layout.of[i] = LAYOUT_WHOLE;
    }
    return layout;
}

// The first dim of a matrix that the axis still divides: hidden, which all but those between low
// ranks and heads have, else the first of the others. SUMMA splits what a product is summed over:
// not hidden where the result has that, so that both operands come in panels of one dim.
static enum dim stored_dim(const struct mesh *mesh, const struct parallel *parallel,
                           const struct tensor *tensor, const struct layout *layout, int axis)
{
    bool is_result = SUMMA_GRIDS >> parallel->tp_kind & 1 &&
                     tensor_find_dim(tensor, DIM_VOCAB) < 0 && layout_axes_on(layout, DIM_HIDDEN);
    int hidden = is_result ? -1 : tensor_find_dim(tensor, DIM_HIDDEN);
    for (int i = hidden >= 0 ? -1 : 0; i < tensor->rank; i++) {
        const struct extent *extent = &tensor->extents[i < 0 ? hidden : i];
        int64_t parts = mesh_size(mesh, layout_axes_on(layout, extent->dim));
        if (extent->size % (parts * mesh->axes[axis].size) == 0) return extent->dim;
    }
    return DIM_NONE;
}

struct layout strategy_stored(const struct mesh *mesh, const struct parallel *parallel,
                              const struct tensor *tensor, const struct layout *read)
{
    struct layout layout = *read;
    assert(tensor->role == TENSOR_PARAMETER);
    for (int i = 0; i < mesh->axis_count && tensor->rank > 1; i++) {
        const struct technique *technique = technique_at(parallel, &mesh->axes[i]);
        bool stores = technique && technique->stores && read->of[i] == LAYOUT_WHOLE;
        if (stores) layout.of[i] = (int8_t)stored_dim(mesh, parallel, tensor, &layout, i);
    }
    return layout;
}
