#include "core/names.h"
#include "models/onnx/blocks_graph.h"
#include "models/onnx/operators.h"
#include "models/onnx/shape.h"

#include <string.h>

// Which operators can work on parts of an image. What is not known to is taken to need all of it.

// Samples, channels, rows and columns; of a volume layers of these.
static bool is_image(const struct onnx_tensor *tensor)
{
    return tensor->rank == 4 || tensor->rank == 5;
}

static int64_t places_of(const struct onnx_tensor *tensor)
{
    int64_t places = 1;
    for (int i = 2; i < tensor->rank; i++)
        places *= tensor->dims[i];
    return places;
}

// A tensor beside an image of this many rows and columns: an image as large, or what has none of
// either (a factor for each channel). Weights have neither.
static bool is_beside(const struct blocks_graph *b, int tensor, const struct onnx_tensor *image)
{
    const struct onnx_tensor *t = blocks_tensor(b, tensor);
    if (t->rank <= 2) return true;
    if (t->rank != image->rank || b->is_trained[tensor]) return t->rank == 4 && places_of(t) == 1;
    for (int i = 2; i < t->rank && places_of(t) > 1; i++)
        if (t->dims[i] != image->dims[i]) return false;
    return true;
}

// Functions of each element, and what joins channels.
static bool is_local(const struct onnx_operator *row)
{
    static const char *const MIXERS[] = {"CumSum", "ScatterND", "ScatterElements", "Trilu"};
    bool is_function = row->shape == shape_same || row->shape == shape_broadcast ||
                       row->shape == shape_variadic || row->shape == shape_where ||
                       row->shape == shape_cast || row->shape == shape_dropout ||
                       row->shape == shape_concat;
    return is_function && NAME_INDEX(MIXERS, row->type) < 0;
}

// Sums over all places; means are sums whose parts each rank divides by the whole count.
static bool is_sum(const struct blocks_graph *b, const struct blocks_operator *op)
{
    static const char *const TYPES[] = {"GlobalAveragePool", "ReduceMean", "ReduceSum"};
    const struct onnx_tensor *x = blocks_tensor(b, op->inputs[0]);
    const struct onnx_tensor *y = blocks_tensor(b, op->node->outputs[0]);
    return NAME_INDEX(TYPES, op->node->type) >= 0 && is_image(x) && places_of(y) == 1 &&
           (y->rank == 2 || y->rank == x->rank) && y->dims[0] == x->dims[0] &&
           y->dims[1] == x->dims[1];
}

static bool is_each(const struct blocks_graph *b, const struct blocks_operator *op)
{
    const struct onnx_tensor *y = blocks_tensor(b, op->node->outputs[0]);
    const struct onnx_operator *row = operator_find("", op->node->type);
    if (is_sum(b, op)) return true;
    if (!row || !is_local(row) || !is_image(y)) return false;
    for (int i = 0; i < op->input_count; i++)
        if (!is_beside(b, op->inputs[i], y)) return false;
    return true;
}

// An image that is read as it lies, not as a view of something else.
static bool reads_image(const struct blocks_graph *b, const struct blocks_operator *op)
{
    const struct onnx_tensor *own = blocks_tensor(b, op->inputs[0]);
    const struct onnx_tensor *read = blocks_tensor(b, op->node->inputs[0]);
    bool is_it = is_image(own) && own->rank == read->rank;
    for (int i = 0; i < own->rank && is_it; i++)
        is_it = own->dims[i] == read->dims[i];
    return is_it;
}

static bool slides(const struct blocks_graph *b, const struct blocks_operator *op)
{
    static const char *const TYPES[] = {"Conv", "ConvTranspose", "MaxPool", "AveragePool"};
    return op->node->windows && NAME_INDEX(TYPES, op->node->type) >= 0 && reads_image(b, op);
}

// Whose statistics are what it keeps beside its result.
static bool has_statistics(const struct blocks_graph *b, const struct blocks_operator *op)
{
    static const char *const TYPES[] = {"BatchNormalization", "InstanceNormalization",
                                        "GroupNormalization"};
    return NAME_INDEX(TYPES, op->node->type) >= 0 && op->node->output_count == 3 &&
           reads_image(b, op);
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
