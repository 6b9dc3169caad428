#include "models/onnx/blocks_graph.h"
#include "models/onnx/operators.h"
#include "models/onnx/shape.h"

#include <string.h>

// Which operators can work on parts of an image. What is not known to is taken to need all of it.

enum { IMAGE_RANK = 4 };  // samples, channels, rows, columns

static const struct onnx_tensor *tensor_at(const struct blocks_graph *b, int tensor)
{
    return &b->graph->tensors[tensor];
}

static bool is_one_of(const char *type, const char *const *types)
{
    for (int i = 0; types[i]; i++)
        if (strcmp(type, types[i]) == 0) return true;
    return false;
}

// A tensor beside an image of this many rows and columns: an image as large, or what has none of
// either (a factor for each channel). Weights have neither.
static bool is_beside(const struct blocks_graph *b, int tensor, const struct onnx_tensor *image)
{
    const struct onnx_tensor *t = tensor_at(b, tensor);
    int64_t places = t->rank == IMAGE_RANK ? t->dims[2] * t->dims[3] : 1;
    if (t->rank <= 2 || places == 1) return t->rank <= 2 || t->rank == IMAGE_RANK;
    return t->rank == IMAGE_RANK && !b->is_trained[tensor] && t->dims[2] == image->dims[2] &&
           t->dims[3] == image->dims[3];
}

// Functions of each element, and what joins channels.
static bool is_local(const struct onnx_operator *row)
{
    static const char *const MIXERS[] = {"CumSum", "ScatterND", "ScatterElements", "Trilu", NULL};
    bool is_function = row->shape == shape_same || row->shape == shape_broadcast ||
                       row->shape == shape_variadic || row->shape == shape_where ||
                       row->shape == shape_cast || row->shape == shape_dropout ||
                       row->shape == shape_concat;
    return is_function && !is_one_of(row->type, MIXERS);
}

// Sums over all places; means are sums whose parts each rank divides by the whole count.
static bool is_sum(const struct blocks_graph *b, const struct blocks_operator *op)
{
    static const char *const TYPES[] = {"GlobalAveragePool", "ReduceMean", "ReduceSum", NULL};
    const struct onnx_tensor *x = tensor_at(b, op->inputs[0]);
    const struct onnx_tensor *y = tensor_at(b, op->node->outputs[0]);
    bool has_places = y->rank == IMAGE_RANK && y->dims[2] * y->dims[3] > 1;
    return is_one_of(op->node->type, TYPES) && x->rank == IMAGE_RANK && !has_places &&
           (y->rank == 2 || y->rank == IMAGE_RANK) && y->dims[0] == x->dims[0] &&
           y->dims[1] == x->dims[1];
}

static bool is_each(const struct blocks_graph *b, const struct blocks_operator *op)
{
    const struct onnx_tensor *y = tensor_at(b, op->node->outputs[0]);
    const struct onnx_operator *row = operator_find("", op->node->type);
    if (is_sum(b, op)) return true;
    if (!row || !is_local(row) || y->rank != IMAGE_RANK) return false;
    for (int i = 0; i < op->input_count; i++)
        if (!is_beside(b, op->inputs[i], y)) return false;
    return true;
}

static bool slides(const struct blocks_graph *b, const struct blocks_operator *op)
{
    static const char *const TYPES[] = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", NULL};
    return op->node->windows && is_one_of(op->node->type, TYPES) &&
           tensor_at(b, op->inputs[0])->rank == IMAGE_RANK;
}

// Whose statistics are what it keeps beside its result.
static bool has_statistics(const struct blocks_graph *b, const struct blocks_operator *op)
{
    static const char *const TYPES[] = {"BatchNormalization", "InstanceNormalization",
                                        "GroupNormalization", NULL};
    return is_one_of(op->node->type, TYPES) && op->node->output_count == 3 &&
           tensor_at(b, op->inputs[0])->rank == IMAGE_RANK;
}

enum places blocks_places(const struct blocks_graph *b, const struct blocks_operator *op)
{
    if (op->kind == BLOCKS_LOSS || op->kind == BLOCKS_ADD) return PLACES_WHOLE;
    if (slides(b, op))
        return strcmp(op->node->type, "ConvTranspose") == 0 ? PLACES_TURNED : PLACES_WINDOW;
    if (op->kind == BLOCKS_PRODUCT) return PLACES_WHOLE;
    if (has_statistics(b, op)) return PLACES_STATISTICS;
    return is_each(b, op) ? PLACES_EACH : PLACES_WHOLE;
}
