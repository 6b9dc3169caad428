#include "plan/strategy.h"

#include <assert.h>

static const struct technique TECHNIQUES[] = {
    {"data", AXIS_DP, {DIM_BATCH}, DIM_NONE, false},
    {"tensor (1D)", AXIS_TP, {DIM_HEAD, DIM_KV_HEAD, DIM_FFN, DIM_VOCAB}, DIM_NONE, false},
    {"tensor + sequence", AXIS_TP, {DIM_HEAD, DIM_KV_HEAD, DIM_FFN, DIM_VOCAB}, DIM_SEQ, false},
    {"context", AXIS_CP, {DIM_SEQ}, DIM_NONE, true},
};

enum { TECHNIQUE_COUNT = sizeof TECHNIQUES / sizeof *TECHNIQUES };

const struct technique *technique_table(int *count)
{
    *count = TECHNIQUE_COUNT;
    return TECHNIQUES;
}

const struct technique *technique_of(const struct parallel *parallel, enum axis axis)
{
    for (int i = 0; i < TECHNIQUE_COUNT; i++) {
        const struct technique *technique = &TECHNIQUES[i];
        bool falls_back = technique->otherwise == DIM_SEQ;
        if (technique->axis != axis) continue;
        if (axis != AXIS_TP || falls_back == parallel->sp) return technique;
    }
    return NULL;
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
    return technique->splits_queries && op->kind == OP_ATTENTION && dim == DIM_SEQ;
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

// Which dim one axis takes, given how far outer axes have divided each dim.
static enum dim choose(const struct technique *technique, const struct block *block,
                       const struct op *op, const int64_t parts[DIM_COUNT], int axis_size,
                       bool *used_up)
{
    for (int i = 0; i < PREFER_MAX && technique->prefers[i]; i++) {
        enum dim dim = technique->prefers[i];
        if (!allows(technique, block, op, dim)) continue;
        *used_up = !divides(dim_size(block, op, dim), parts[dim], axis_size);
        return *used_up ? DIM_NONE : dim;
    }
    enum dim dim = technique->otherwise;
    return dim != DIM_NONE && allows(technique, block, op, dim) ? dim : DIM_NONE;
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
    // Outer axes first: tp.0 takes the kv heads before tp.1 finds none left.
    for (int i = mesh->axis_count - 1; i >= 0; i--) {
        const struct technique *technique = technique_of(parallel, mesh->axes[i].parent);
        if (!technique) continue;
        bool used_up = false;
        enum dim dim = choose(technique, block, op, parts, mesh->axes[i].size, &used_up);
        strategy.of[i] = dim;
        strategy.used_up |= (unsigned)used_up << i;
        parts[dim] *= mesh->axes[i].size;
    }
    return strategy;
}

// k and v of attention keep the name seq but are read whole by every query.
static bool is_keys(const struct op *op, bool output, int index)
{
    if (op->kind == OP_ATTENTION) return !output && index >= 1;
    if (op->kind != OP_ATTENTION_BACKWARD) return false;
    return output ? index >= 1 : index == 2 || index == 3;
}

// The split part of a tensor's layout under a strategy; axes that split another dim stay whole.
// An axis on the query heads splits the kv heads as far as they go.
static struct layout split_layout(const struct mesh *mesh, const struct strategy *strategy,
                                  const struct tensor *tensor, bool keys)
{
    struct layout layout = {{0}};
    int kv_head = tensor_find_dim(tensor, DIM_KV_HEAD);
    int64_t kv_parts = 1;
    for (int i = mesh->axis_count - 1; i >= 0; i--) {
        enum dim dim = strategy->of[i];
        if (dim == DIM_NONE || (keys && dim == DIM_SEQ)) continue;
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

struct layout strategy_input(const struct mesh *mesh, const struct strategy *strategy,
                             const struct block *block, const struct op *op, int input)
{
    assert(input >= 0 && input < op->input_count);
    const struct tensor *tensor = &block->tensors[op->inputs[input]];
    return split_layout(mesh, strategy, tensor, is_keys(op, false, input));
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
    struct layout layout = split_layout(mesh, strategy, tensor, is_keys(op, true, output));
    for (int i = 0; i < mesh->axis_count; i++) {
        enum dim dim = strategy->of[i];
        if (dim == DIM_NONE || layout.of[i] != LAYOUT_WHOLE) continue;
        if (makes_partial(block, op, dim)) layout.of[i] = LAYOUT_SUM;
    }
    return layout;
}

struct layout strategy_boundary(const struct mesh *mesh, const struct parallel *parallel,
                                const struct tensor *tensor)
{
    struct layout layout = {{0}};
    for (int i = 0; i < mesh->axis_count; i++) {
        const struct technique *technique = technique_of(parallel, mesh->axes[i].parent);
        if (!technique) continue;
        enum dim dim = DIM_NONE;
        for (int p = 0; p < PREFER_MAX && technique->prefers[p] && !dim; p++) {
            if (tensor_find_dim(tensor, technique->prefers[p]) >= 0) dim = technique->prefers[p];
        }
        if (!dim && technique->otherwise && tensor_find_dim(tensor, technique->otherwise) >= 0) {
            dim = technique->otherwise;
        }
        layout.of[i] = (int8_t)dim;
    }
    return layout;
}
