#include "plan/layout/spatial.h"

#include "models/op_image.h"

#include <assert.h>

// What an operand of a windowed op, or of its backward, has to do with the window.
enum side { SIDE_NONE, SIDE_INPUT, SIDE_RESULT };

static bool is_activation(const struct block *block, int tensor)
{
    enum tensor_role role = block->tensors[tensor].role;
    return role != TENSOR_PARAMETER && role != TENSOR_PARAMETER_GRADIENT;
}

static enum side side_of(const struct block *block, const struct op *op, bool output, int index)
{
    const struct op *forward = &block->ops[op->forward_op];
    int tensor = output ? op->outputs[index] : op->inputs[index];
    if (!is_activation(block, tensor)) return SIDE_NONE;
    if (op->phase == PHASE_FORWARD) return output ? SIDE_RESULT : SIDE_INPUT;
    if (output || tensor == forward->inputs[0]) return SIDE_INPUT;
    return SIDE_RESULT;
}

// A dim as the window sees it: both sides' sizes and how many ranks share it.
struct image_cut {
    const struct window *window;
    int64_t input, result;
    int parts;
};

static int64_t size_of(const struct block *block, int tensor, enum dim dim)
{
    int position = tensor_find_dim(&block->tensors[tensor], dim);
    assert(position >= 0);
    return block->tensors[tensor].extents[position].size;
}

static struct image_cut cut_of(const struct block *block, const struct op *op, enum dim dim,
                               int parts)
{
    const struct op *forward = &block->ops[op->forward_op];
    return (struct image_cut){op_window(op, dim), size_of(block, forward->inputs[0], dim),
                              size_of(block, forward->outputs[0], dim), parts};
}

// Around the slices of the input, so that those of the result can be made; and the other way round.
static struct halo around_input(const struct op *op, const struct image_cut *cut)
{
    return op->work.places == PLACES_WINDOW
               ? halo_to_read(cut->window, cut->input, cut->result, cut->parts)
               : halo_to_feed(cut->window, cut->result, cut->input, cut->parts);
}

static struct halo around_result(const struct op *op, const struct image_cut *cut)
{
    return op->work.places == PLACES_WINDOW
               ? halo_to_feed(cut->window, cut->input, cut->result, cut->parts)
               : halo_to_read(cut->window, cut->result, cut->input, cut->parts);
}

static int parts_of(const struct mesh *mesh, const struct layout *layout, enum dim dim)
{
    assert(dim == DIM_HEIGHT || dim == DIM_WIDTH);
    return mesh_size(mesh, layout_axes_on(layout, dim));
}

static const enum dim DIMS[HALO_DIMS] = {DIM_HEIGHT, DIM_WIDTH};

// Elements of a sample that the fullest rank gets of its neighbours around its slice of `tensor`.
static int64_t received(const struct mesh *mesh, const struct block *block, int tensor,
                        const struct layout *with, const struct layout *without)
{
    const struct tensor *of = &block->tensors[tensor];
    return layout_local_elements(with, mesh, of, 1, 1) -
           layout_local_elements(without, mesh, of, 1, 1);
}

// Whether the gradient of the input is made from a halo of the gradient of the result: a product
// alone can, where that is less. `layout` has the splits.
static bool takes_way_a(const struct mesh *mesh, const struct block *block, const struct op *op,
                        const struct layout *layout)
{
    const struct op *forward = &block->ops[op->forward_op];
    if (op->kind != OP_PRODUCT) return false;
    struct layout plain = {.of = {0}};
    for (int i = 0; i < mesh->axis_count; i++)
        plain.of[i] = layout->of[i];
    struct layout a = plain, b = plain;
    for (int d = 0; d < HALO_DIMS; d++) {
        int parts = parts_of(mesh, &plain, DIMS[d]);
        if (parts == 1) continue;
        struct image_cut cut = cut_of(block, op, DIMS[d], parts);
        a.halos[d] = around_result(op, &cut);
        b.halos[d] = around_input(op, &cut);
    }
    return received(mesh, block, forward->outputs[0], &a, &plain) <=
           received(mesh, block, forward->inputs[0], &b, &plain);
}

static bool makes_input_gradient(const struct block *block, const struct op *op)
{
    return op->phase != PHASE_FORWARD && is_activation(block, op->outputs[0]);
}

void spatial_halos(const struct mesh *mesh, const struct block *block, const struct op *op,
                   bool output, int index, struct layout *layout)
{
    bool slides = op->work.places == PLACES_WINDOW || op->work.places == PLACES_TURNED;
    bool is_split =
        slides && (layout_axes_on(layout, DIM_HEIGHT) | layout_axes_on(layout, DIM_WIDTH));
    enum side side = is_split ? side_of(block, op, output, index) : SIDE_NONE;
    if (side == SIDE_NONE) return;
    bool is_gradient = makes_input_gradient(block, op);
    bool way_a = is_gradient && takes_way_a(mesh, block, op, layout);
    // Of what backward reads of forward only the input is read in windows.
    bool is_read = !output && side == SIDE_INPUT;
    bool is_fed = !output && side == SIDE_RESULT && way_a && index == 0;
    bool is_summed = output && is_gradient && !way_a;
    if (!is_read && !is_fed && !is_summed) return;
    for (int d = 0; d < HALO_DIMS; d++) {
        int parts = parts_of(mesh, layout, DIMS[d]);
        if (parts == 1 || !op_window(op, DIMS[d])) continue;
        struct image_cut cut = cut_of(block, op, DIMS[d], parts);
        struct halo halo = is_fed ? around_result(op, &cut) : around_input(op, &cut);
        halo.sums = is_summed && (halo.lo || halo.hi);
        layout->halos[d] = halo;
    }
}

static int degree_of(const struct parallel *parallel, enum dim dim)
{
    return parallel->degree[dim == DIM_HEIGHT ? AXIS_SP_H : AXIS_SP_W];
}

bool spatial_has_images(const struct graph *graph, enum dim dim)
{
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int t = 0; t < block->tensor_count; t++) {
            if (tensor_find_dim(&block->tensors[t], dim) >= 0) return true;
        }
    }
    return false;
}

static bool check_sizes(const struct graph *graph, const struct block *block, enum dim dim,
                        int parts, struct err *err)
{
    const struct halo none = {0, 0, 0};
    for (int t = 0; t < block->tensor_count; t++) {
        const struct tensor *tensor = &block->tensors[t];
        int position = tensor_find_dim(tensor, dim);
        if (position < 0) continue;
        int64_t size = tensor->extents[position].size;
        if (halo_is_near(&none, size, parts)) continue;
        return err_set(err, ERR_USAGE,
                       "--sp-%c %d: %s of %s has %lld %s, which so many ranks cannot share",
                       dim == DIM_HEIGHT ? 'h' : 'w', parts, tensor->name, graph->name,
                       (long long)size, dim == DIM_HEIGHT ? "rows" : "columns");
    }
    return true;
}

static bool check_windows(const struct graph *graph, const struct block *block, enum dim dim,
                          int parts, struct err *err)
{
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        if (op_image_split(block, op, dim) != SPLIT_FREE || !op_window(op, dim)) continue;
        struct image_cut cut = cut_of(block, op, dim, parts);
        struct halo input = around_input(op, &cut), result = around_result(op, &cut);
        if (halo_is_near(&input, cut.input, parts) && halo_is_near(&result, cut.result, parts))
            continue;
        return err_set(err, ERR_USAGE,
                       "--sp-%c %d: the window of %s of %s reaches further than the next rank",
                       dim == DIM_HEIGHT ? 'h' : 'w', parts, op->name, graph->name);
    }
    return true;
}

bool spatial_check(const struct graph *graph, const struct parallel *parallel, struct err *err)
{
    for (int d = 0; d < HALO_DIMS; d++) {
        int parts = degree_of(parallel, DIMS[d]);
        if (parts == 1) continue;
        if (!spatial_has_images(graph, DIMS[d])) {
            return err_set(err, ERR_USAGE, "--sp-%c %d: %s has no images to split",
                           DIMS[d] == DIM_HEIGHT ? 'h' : 'w', parts, graph->name);
        }
        for (int b = 0; b < graph->block_count; b++) {
            const struct block *block = &graph->blocks[b];
            if (!check_sizes(graph, block, DIMS[d], parts, err) ||
                !check_windows(graph, block, DIMS[d], parts, err))
                return false;
        }
    }
    return true;
}
