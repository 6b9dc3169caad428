#include "models/onnx/blocks_graph.h"

#include "models/op_image.h"

#include <math.h>
#include <string.h>

// Which operators are calls that kernels of back ends know: by what of them is left in a block, its
// tensors and one number. Volumes, constants that are not trained and operands that are there twice
// are not.

static bool has_rank(const struct blocks_graph *b, int tensor, int least, int most)
{
    int rank = blocks_tensor(b, tensor)->rank;
    return rank >= least && rank <= most;
}

// Whether a weight has the dimensions that it is read with.
static bool lies_plain(const struct blocks_graph *b, const struct blocks_operator *op)
{
    const struct onnx_tensor *own = blocks_tensor(b, op->inputs[1]);
    const struct onnx_tensor *read = blocks_tensor(b, op->node->inputs[1]);
    bool is_it = own->rank == read->rank && b->is_trained[op->inputs[1]];
    for (int i = 0; i < own->rank && is_it; i++)
        is_it = own->dims[i] == read->dims[i];
    return is_it;
}

// Whether samples have so many matrices of this size in front of those of the next one, or of all.
static bool lies_with(const struct blocks_graph *b, int tensor, int64_t size, int64_t *matrices)
{
    int64_t apart = b->apart[tensor], own = apart / size;
    bool is_it = apart > 0 && apart % size == 0 && (*matrices == 0 || *matrices == own);
    *matrices = own;
    return is_it || b->batch == 1;
}

// Both factors are made, and each has a matrix for every group.
static bool is_of_samples(const struct blocks_graph *b, const struct blocks_operator *op)
{
    int64_t left = op->rows * op->depth, right = op->depth * op->columns, matrices = 0;
    return strcmp(op->node->type, "MatMul") == 0 &&
           blocks_elements(b, op->inputs[0]) == op->groups * left &&
           blocks_elements(b, op->inputs[1]) == op->groups * right &&
           lies_with(b, op->node->inputs[0], left, &matrices) &&
           lies_with(b, op->node->inputs[1], right, &matrices) &&
           lies_with(b, op->node->outputs[0], op->rows * op->columns, &matrices);
}

// A weight is read as it lies: whether by columns depends on how often it was turned on the way.
static const char *matrix_name(const struct blocks_graph *b, const struct blocks_operator *op)
{
    bool is_turned = strcmp(op->node->type, "Gemm") == 0 && op->node->scalar != 0;
    is_turned = is_turned != b->is_turned[op->node->inputs[1]];
    if (op->input_count == 2 && blocks_is_apart(b, op->inputs[0]) &&
        blocks_is_apart(b, op->inputs[1]))
        return is_of_samples(b, op) ? "Products" : NULL;
    bool is_one = op->groups == 1 && b->is_trained[op->inputs[1]] &&
                  blocks_tensor(b, op->inputs[1])->rank == 2;
    return !is_one ? NULL : is_turned ? "Gemm" : "MatMul";
}

// x, scale and bias of each channel, and what is kept of them.
static bool is_norm(const struct blocks_graph *b, const struct blocks_operator *op)
{
    const struct onnx_tensor *x = blocks_tensor(b, op->inputs[0]);
    if (op->input_count != 3 || op->node->output_count != 3 || x->rank > 4) return false;
    if (!blocks_is_first(b, op->node->inputs[0])) return false;
    for (int i = 1; i < 3; i++) {
        const struct onnx_tensor *factor = blocks_tensor(b, op->inputs[i]);
        bool is_each = b->is_trained[op->inputs[i]] && factor->rank == 1 && x->rank > 1 &&
                       factor->dims[0] == x->dims[1];
        if (!is_each) return false;
    }
    return true;
}

// Two operands of the same rank: kernels repeat what is 1, and no weight.
static bool is_of_two(const struct blocks_graph *b, const struct blocks_operator *op)
{
    const struct onnx_tensor *y = blocks_tensor(b, op->node->outputs[0]);
    if (op->input_count != 2 || op->node->input_count != 2 || y->rank > 4) return false;
    for (int i = 0; i < 2; i++) {
        const struct onnx_tensor *x = blocks_tensor(b, op->inputs[i]);
        // Kernels tell gradients by their places: both have one.
        if (b->maker[op->inputs[i]] < 0 || x->rank != y->rank || x->dims[0] != y->dims[0] ||
            !blocks_is_first(b, op->inputs[i]))
            return false;
    }
    return true;
}

// Rows of as many numbers as there are factors, which stand behind one another in a sample.
static bool is_row_norm(const struct blocks_graph *b, const struct blocks_operator *op)
{
    const struct onnx_tensor *x = blocks_tensor(b, op->node->inputs[0]);
    bool is_it = (op->input_count == 2 || op->input_count == 3) && op->node->output_count == 3 &&
                 blocks_is_apart(b, op->node->inputs[0]) &&
                 op->input_count == op->node->input_count;
    int64_t width = 1, counted = 1;
    for (int i = 1; i < op->input_count && is_it; i++) {
        const struct onnx_tensor *factor = blocks_tensor(b, op->inputs[i]);
        is_it = b->is_trained[op->inputs[i]] && !b->is_turned[op->node->inputs[i]];
        for (int d = i == 1 ? 0 : factor->rank; d < factor->rank; d++)
            width *= factor->dims[d];
        is_it = is_it && factor->rank == blocks_tensor(b, op->inputs[1])->rank;
    }
    for (int d = x->rank - 1; d > 0 && counted < width && is_it; d--)
        counted *= x->dims[d];
    return is_it && counted == width && b->apart[op->node->inputs[0]] % width == 0;
}

static bool is_whole_input(const struct blocks_graph *b, const struct blocks_operator *op)
{
    bool is_all = op->input_count == op->node->input_count;
    for (int i = 0; i < op->input_count; i++)
        is_all = is_all && !b->is_trained[op->inputs[i]] && has_rank(b, op->inputs[i], 2, 4);
    return is_all;
}

// What is beside a tensor is a number: what that does to each element.
static const char *number_name(const struct blocks_graph *b, const struct blocks_operator *op)
{
    const char *type = op->node->type;
    bool scales = strcmp(type, "Mul") == 0 || strcmp(type, "Div") == 0;
    bool shifts = strcmp(type, "Add") == 0 || strcmp(type, "Sub") == 0;
    bool is_one = op->input_count == 1 && op->node->input_count == 2 && op->node->scalar != 0 &&
                  has_rank(b, op->node->outputs[0], 2, 4);
    return !is_one || b->is_trained[op->inputs[0]] ? NULL
           : scales                                ? "Scale"
           : shifts                                ? "Shift"
                                                   : NULL;
}

static const char *name_of(const struct blocks_graph *b, const struct blocks_operator *op)
{
    const char *type = op->node->type;
    if (!isfinite(op->node->scalar) || op->is_derived) return NULL;
    if (op->kind == BLOCKS_PRODUCT) {
        bool slides = strcmp(type, "Conv") == 0 || strcmp(type, "ConvTranspose") == 0;
        if (!slides) return matrix_name(b, op);
        return has_rank(b, op->inputs[0], 3, 4) && lies_plain(b, op) &&
                       blocks_is_first(b, op->node->inputs[0])
                   ? type
                   : NULL;
    }
    if (op->kind != BLOCKS_OPERATOR || strcmp(type, "Attention") == 0) return NULL;
    if (strcmp(type, "Softmax") == 0) return NULL;
    if (number_name(b, op)) return number_name(b, op);
    if (strcmp(type, "LayerNormalization") == 0) return is_row_norm(b, op) ? type : NULL;
    if (strcmp(type, "DropPath") == 0)
        return op->node->output_count == 2 && blocks_is_apart(b, op->inputs[0]) ? type : NULL;
    if (strstr(type, "Normalization")) return is_norm(b, op) ? type : NULL;
    if (strcmp(type, "Mul") == 0) return is_of_two(b, op) ? type : NULL;
    if (strcmp(type, "Upsample") == 0) type = "Resize";
    // A mean over all places, as others write that pool.
    if (strcmp(type, "ReduceMean") == 0) {
        if (op->places != PLACES_EACH) return NULL;
        type = "GlobalAveragePool";
    }
    // Where samples are not first, functions of each number alone.
    int x = op->node->inputs[0], y = op->node->outputs[0];
    bool is_function = op->input_count == 1 && !op->node->windows && !op->node->reading &&
                       blocks_elements(b, x) == blocks_elements(b, y) && b->apart[x] == b->apart[y];
    bool is_known =
        has_rank(b, y, 2, 4) && is_whole_input(b, op) && (is_function || blocks_is_first(b, x));
    return is_known ? type : NULL;
}

void blocks_find_kernel(const struct blocks_graph *b, struct blocks_operator *op)
{
    const char *name = name_of(b, op);
    op->kernel = name && imported_find(name) ? name : NULL;
    if (op->kernel || op->kind != BLOCKS_OPERATOR) return;
    op->strided = blocks_strided(b, op, &name);
    if (!op->strided) return;
    op->kernel = name;
    op->places = PLACES_WHOLE;
}
