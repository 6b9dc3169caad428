#include "models/onnx/stack.h"

#include "core/names.h"
#include "models/onnx/stack_family.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// What the parts of a layer are exported to beside those that tell something.
static const char *const GLUE[] = {"And",
                                   "Cast",
                                   "Concat",
                                   "Constant",
                                   "Cos",
                                   "Div",
                                   "Dropout",
                                   "Equal",
                                   "Expand",
                                   "Greater",
                                   "GreaterOrEqual",
                                   "Identity",
                                   "Less",
                                   "LessOrEqual",
                                   "Mul",
                                   "Not",
                                   "Or",
                                   "Pow",
                                   "Range",
                                   "Reciprocal",
                                   "Reshape",
                                   "Shape",
                                   "Sin",
                                   "Slice",
                                   "Split",
                                   "Sqrt",
                                   "Squeeze",
                                   "Transpose",
                                   "Trilu",
                                   "Unsqueeze",
                                   "Flatten",
                                   "ConstantOfShape",
                                   "Where",
                                   "Mod",
                                   "ReduceMax",
                                   "Xor",
                                   "GatherND"};

static bool refuse(struct stack_finder *f, const struct onnx_node *node, const char *why)
{
    return err_set(f->err, ERR_INPUT, "%s: node %s (%s): %s", f->path, node->name, node->type, why);
}

static const struct onnx_tensor *tensor_of(const struct stack_finder *f, int tensor)
{
    return &f->graph->tensors[tensor];
}

static int64_t last_dim(const struct onnx_tensor *tensor)
{
    return tensor->rank > 0 ? tensor->dims[tensor->rank - 1] : 1;
}

static int64_t elements(const struct onnx_tensor *tensor)
{
    int64_t product = 1;
    for (int i = 0; i < tensor->rank; i++)
        product *= tensor->dims[i];
    return product;
}

static const char *const VIEWS[] = {"Transpose", "Reshape", "Identity", "Cast"};

int stack_source(const struct stack_finder *f, int tensor)
{
    assert(tensor >= 0 && tensor < f->graph->tensor_count);
    while (f->maker[tensor] >= 0) {
        const struct onnx_node *node = &f->graph->nodes[f->maker[tensor]];
        if (NAME_INDEX(VIEWS, node->type) < 0) return -1;
        tensor = node->inputs[0];
    }
    return tensor_of(f, tensor)->role == ONNX_PARAMETER ? tensor : -1;
}

static const struct onnx_tensor *output_of(const struct stack_finder *f,
                                           const struct onnx_node *node)
{
    return tensor_of(f, node->outputs[0]);
}

// The initializer of this rank among the inputs of a node; -1 without one.
static int weight_among(const struct stack_finder *f, const struct onnx_node *node, int rank)
{
    for (int i = 0; i < node->input_count; i++) {
        int source = stack_source(f, node->inputs[i]);
        if (source >= 0 && tensor_of(f, source)->rank == rank) return source;
    }
    return -1;
}

// The one that is read as a matrix, whatever its own dimensions: heads may be one or two.
static int matrix_among(const struct stack_finder *f, const struct onnx_node *node)
{
    for (int i = 0; i < node->input_count; i++) {
        int source = stack_source(f, node->inputs[i]);
        if (source >= 0 && tensor_of(f, node->inputs[i])->rank == 2) return source;
    }
    return -1;
}

// Tokens first, then positions: both are rows of tables.
static bool see_gather(struct stack_finder *f, const struct onnx_node *node)
{
    int source = weight_among(f, node, 2);
    const struct onnx_tensor *output = output_of(f, node);
    if (source < 0) return true;
    const struct onnx_tensor *table = tensor_of(f, source);
    if (f->table < 0 && output->rank == 3) {
        f->table = source;
        f->vocab = table->dims[0];
        f->hidden = table->dims[1];
        f->batch = output->dims[0];
        f->seq_len = output->dims[1];
        return true;
    }
    bool is_early = f->product_count == 0 && table->dims[1] == f->hidden && f->table >= 0;
    if (!is_early || f->second_count)
        return refuse(f, node, "a table that is neither of tokens, of positions nor of types");
    if (f->position_count) f->second_count = table->dims[0];
    if (!f->position_count) f->position_count = table->dims[0];
    return true;
}

static bool fail(struct stack_finder *f, const char *why)
{
    return err_set(f->err, ERR_INPUT, "%s: %s", f->path, why);
}

// Of two tables beside that of tokens the one of positions has a row for each place, and the one of
// token types has not: there are few of them.
static bool tell_tables(struct stack_finder *f)
{
    if (!f->second_count || f->has_rows) return true;
    int64_t first = f->position_count, second = f->second_count;
    bool is_first = first >= f->seq_len, is_second = second >= f->seq_len;
    if (is_first == is_second) return fail(f, "which of two tables is of positions cannot be told");
    f->position_count = is_first ? first : second;
    f->second_count = is_first ? second : first;
    return true;
}

static void see_scores(struct stack_finder *f, const struct onnx_tensor *output, int64_t in)
{
    // Batch and heads may be one dimension.
    bool is_flat = output->rank == 3;
    bool is_score = output->dims[output->rank - 2] == f->seq_len &&
                    output->dims[output->rank - 1] == f->seq_len && f->softmax_count == 0;
    if (!is_score) return;
    f->head_count = is_flat ? output->dims[0] / f->batch : output->dims[1];
    f->head_dim = in;
}

static bool see_product(struct stack_finder *f, const struct onnx_node *node)
{
    int weight = matrix_among(f, node);
    int64_t in = last_dim(tensor_of(f, node->inputs[0])), out = last_dim(output_of(f, node));
    bool has_places = f->table >= 0 || f->patch_side > 0;
    if (weight < 0) {
        // Scores come before their softmax; what follows it has the same head count.
        const struct onnx_tensor *output = output_of(f, node);
        if ((output->rank != 3 && output->rank != 4) || !has_places)
            return refuse(f, node, "a product of activations that has no heads");
        see_scores(f, output, in);
        return true;
    }
    if (in * out != elements(tensor_of(f, weight)))
        return refuse(f, node, "its weight is not used as one matrix");
    f->products[f->product_count++] = (struct stack_product){.node = (int)(node - f->graph->nodes),
                                                             .weight = weight,
                                                             .in = in,
                                                             .out = out,
                                                             .has_bias = node->input_count > 2};
    return true;
}

// Positions that were folded; a table seen before them is then that of types.
static bool see_rows(struct stack_finder *f, const struct onnx_node *node, int64_t row_count)
{
    if (f->has_rows)
        return refuse(f, node, "a second constant for each place: export with types as an input");
    f->has_rows = true;
    f->second_count = f->position_count;
    f->position_count = row_count;
    return true;
}

// Of a norm, or of what a sum after a mean adds to it.
static bool see_epsilon(struct stack_finder *f, const struct onnx_node *node)
{
    if (!isfinite(node->scalar)) return true;
    if (f->epsilon > 0 && f->epsilon != node->scalar)
        return refuse(f, node, "a norm with another epsilon than the one before");
    f->epsilon = node->scalar;
    return true;
}

// A sum with a mean, where that of squares has its epsilon.
static bool is_of_mean(const struct stack_finder *f, const struct onnx_node *node)
{
    for (int i = 0; i < node->input_count; i++) {
        int maker = f->maker[node->inputs[i]];
        if (maker >= 0 && strcmp(f->graph->nodes[maker].type, "ReduceMean") == 0) return true;
    }
    return false;
}

// A bias, the residual, positions that were folded, the mask, or a part of a function.
static bool see_add(struct stack_finder *f, const struct onnx_node *node)
{
    const struct onnx_tensor *output = output_of(f, node);
    if (is_of_mean(f, node)) return see_epsilon(f, node);
    bool is_square = output->rank == 4 && output->dims[2] == f->seq_len &&
                     output->dims[3] == f->seq_len && output->dims[1] == f->head_count;
    if (is_square) f->has_mask = true;
    int vector = weight_among(f, node, 1), rows = weight_among(f, node, 3);
    int table = weight_among(f, node, 2);
    if (rows < 0 && table >= 0 && last_dim(tensor_of(f, table)) == f->hidden) rows = table;
    if (rows >= 0 && f->product_count == 0) {
        const struct onnx_tensor *positions = tensor_of(f, rows);
        return see_rows(f, node, positions->dims[positions->rank - 2]);
    }
    struct stack_product *last = f->product_count ? &f->products[f->product_count - 1] : NULL;
    // One for each head is a vector in two dimensions.
    bool is_each = vector < 0 && table >= 0 && last && elements(tensor_of(f, table)) == last->out;
    if (is_each) vector = table;
    if (vector < 0 || elements(tensor_of(f, vector)) == 1) return true;
    if (!last || last->has_bias || last->out != elements(tensor_of(f, vector)))
        return refuse(f, node, "a vector of weights that is no bias of the product before it");
    last->has_bias = true;
    return true;
}

// Weights that are read in passing would be left out.
static bool no_matrix(struct stack_finder *f, const struct onnx_node *node)
{
    enum { HALF_BYTES = 2, FLOAT_BYTES = 4 };
    int matrix = weight_among(f, node, 2);
    if (matrix < 0 || NAME_INDEX(VIEWS, node->type) >= 0) return true;
    const struct onnx_tensor *weight = tensor_of(f, matrix);
    bool is_mask = weight->dims[0] == f->seq_len && weight->dims[1] == f->seq_len;
    bool is_real = weight->element_bytes == HALF_BYTES || weight->element_bytes == FLOAT_BYTES;
    if (is_mask || !is_real || elements(weight) <= weight->dims[0]) return true;
    return refuse(f, node, "a matrix of weights in no product");
}

static bool see_scale(struct stack_finder *f, const struct onnx_node *node)
{
    int vector = weight_among(f, node, 1);
    bool is_norm = vector < 0 || elements(tensor_of(f, vector)) == 1 ||
                   elements(tensor_of(f, vector)) == f->hidden;
    if (!is_norm) return refuse(f, node, "a vector of weights that is none of a norm of tokens");
    f->scale_count += vector >= 0 && elements(tensor_of(f, vector)) > 1;
    return no_matrix(f, node);
}

// What a function is called by the operator that tells it from others where it is written out.
static const char *activation_of(const struct onnx_node *node)
{
    if (strcmp(node->type, "Swish") == 0) return "Sigmoid";
    if (strcmp(node->type, "Gelu") == 0) return node->mode ? "Tanh" : "Erf";
    return node->type;
}

static bool see_activation(struct stack_finder *f, const struct onnx_node *node)
{
    const char *activation = activation_of(node);
    if (f->activation && strcmp(f->activation, activation) != 0)
        return refuse(f, node, "a second kind of activation");
    f->activation = activation;
    return true;
}

// The fused operator: scores, softmax and the product with the values in one.
static bool see_attention(struct stack_finder *f, const struct onnx_node *node)
{
    const struct onnx_tensor *query = tensor_of(f, node->inputs[0]);
    bool has_places = f->table >= 0 || f->patch_side > 0;
    if (node->input_count < 3 || query->rank < 3 || query->rank > 5 || !has_places)
        return refuse(f, node, "query, key and value are not apart");
    // Batch and heads may be one dimension, and heads in groups that share their keys two.
    f->head_count = query->rank == 3 ? query->dims[0] / f->batch : query->dims[1];
    if (query->rank == 5) f->head_count *= query->dims[2];
    f->head_dim = query->dims[query->rank - 1];
    f->has_mask = f->has_mask || node->mode || node->input_count > 3;
    return f->softmax_count++, true;
}

// Rotation of halves: x1 cos - x2 sin, where -x2 stands in none of its places.
static bool is_rotation(const struct stack_finder *f, const struct onnx_node *node)
{
    bool is_it = true;
    for (int i = 0; i < 2; i++) {
        int maker = f->maker[node->inputs[i]];
        is_it = is_it && maker >= 0 && strcmp(f->graph->nodes[maker].type, "Mul") == 0;
    }
    return is_it;
}

static bool see(struct stack_finder *f, const struct onnx_node *node)
{
    static const char *const ACTIVATIONS[] = {"Tanh", "Erf", "Sigmoid", "Relu", "Gelu", "Swish"};
    const char *type = node->type;
    if (strcmp(type, "Conv") == 0 && stack_see_patches(f, node)) return true;
    if (strcmp(type, "Concat") == 0) stack_see_class(f, node);
    if (strcmp(type, "Gather") == 0) return see_gather(f, node);
    if (strcmp(type, "MatMul") == 0 || strcmp(type, "Gemm") == 0) return see_product(f, node);
    if (strcmp(type, "Add") == 0) return see_add(f, node);
    if (strcmp(type, "Mul") == 0) return see_scale(f, node);
    if (NAME_INDEX(ACTIVATIONS, type) >= 0) return see_activation(f, node);
    if (strcmp(type, "Attention") == 0) return see_attention(f, node);
    if (strcmp(type, "Softmax") == 0) return f->softmax_count++, true;
    if (strcmp(type, "ReduceMean") == 0) return f->rms_norm_count++, true;
    if (strcmp(type, "Neg") == 0) return f->rotation_count++, true;
    if (strcmp(type, "Sub") == 0) {
        f->rotation_count += is_rotation(f, node);
        return no_matrix(f, node);
    }
    if (strcmp(type, "LayerNormalization") == 0) {
        f->norm_has_bias = node->input_count > 2;
        f->layer_norm_count++;
        return see_epsilon(f, node);
    }
    if (strcmp(type, "Where") == 0) f->has_mask = true;
    if (NAME_INDEX(GLUE, type) >= 0) return no_matrix(f, node);
    return refuse(f, node, "no part of the stacks of layers that are recognised");
}

// All layers have the products of the first.
static bool fold(struct stack_finder *f, int each)
{
    for (int i = each; i < each * f->softmax_count; i++) {
        const struct stack_product *a = &f->products[i], *b = &f->products[i - each];
        bool is_alike = a->in == b->in && a->out == b->out && a->has_bias == b->has_bias;
        if (!is_alike) {
            return refuse(f, &f->graph->nodes[a->node],
                          "layers that are not alike are not recognised");
        }
    }
    return true;
}

static bool read_layer(struct stack_finder *f, int each, struct stack_layer *shape)
{
    const struct stack_product *p = f->products;
    int64_t heads = f->head_count * f->head_dim;
    bool is_joined = each > 1 && p[0].out > heads && p[1].in == heads;
    int next = is_joined ? 1 : 3;
    if (f->head_dim < 1 || each < next + 3) return fail(f, "too few products for a layer");
    shape->kv_head_count = (is_joined ? (p[0].out - heads) / 2 : p[1].out) / f->head_dim;
    shape->qkv_bias = p[0].has_bias;
    bool is_attention = p[0].in == f->hidden && p[next].in == heads && p[next].out == f->hidden;
    if (!is_joined) {
        is_attention = is_attention && p[0].out == heads && p[1].out == p[2].out &&
                       p[1].has_bias == p[0].has_bias && p[2].has_bias == p[0].has_bias;
    }
    int rest = each - next - 1;
    const struct stack_product *mlp = &p[next + 1], *down = &p[each - 1];
    shape->out_bias = p[next].has_bias;
    shape->mlp_bias = mlp->has_bias;
    shape->is_gated = rest == 3;
    shape->ffn = down->in;
    bool is_mlp = (rest == 2 || rest == 3) && down->out == f->hidden && mlp->in == f->hidden &&
                  mlp->out == down->in && mlp[rest - 2].out == down->in &&
                  down->has_bias == mlp->has_bias;
    if (is_attention && is_mlp) return true;
    return refuse(f, &f->graph->nodes[is_attention ? mlp->node : p[0].node],
                  "its layer is no attention and mlp as they are recognised");
}

// But for the matrix of the head.
static int64_t count_parameters(const struct stack_finder *f)
{
    int norms = f->layer_norm_count + f->rms_norm_count;
    int64_t sum = (f->vocab + f->position_count + f->second_count) * f->hidden +
                  norms * f->hidden * (f->norm_has_bias ? 2 : 1);
    for (int i = 0; i < f->product_count - 1; i++)
        sum +=
            f->products[i].in * f->products[i].out + f->products[i].has_bias * f->products[i].out;
    return sum + f->products[f->product_count - 1].has_bias * f->vocab;
}

// Behind the layers stands the head: one product, or of a masked model a dense layer of tokens and
// a product with a bias. False where there is none.
static bool read_head(struct stack_finder *f, int *in_layers, bool *is_masked)
{
    const struct stack_product *head = &f->products[f->product_count - 1];
    *is_masked = head->has_bias;
    *in_layers = f->product_count - 1 - *is_masked;
    bool is_head = head->out == f->vocab && head->in == f->hidden && *in_layers > 0 &&
                   *in_layers % f->softmax_count == 0;
    if (*is_masked && is_head) {
        const struct stack_product *dense = head - 1;
        is_head = dense->in == f->hidden && dense->out == f->hidden && dense->has_bias;
    }
    if (is_head) return true;
    return refuse(f, &f->graph->nodes[head->node],
                  "the last product is no head over the vocabulary");
}

bool stack_read_layers(struct stack_finder *f, int each, struct stack_layer *layer)
{
    return fold(f, each) && read_layer(f, each, layer);
}

// The layers of a gpt2 that was never trained come without any biases, though its norms have
// theirs.
static const char *put_back_biases(struct arena *arena, struct stack_finder *f, int in_layers,
                                   struct stack_layer *shape)
{
    if (!f->norm_has_bias || f->position_count == 0 || shape->qkv_bias || shape->out_bias ||
        shape->mlp_bias)
        return NULL;
    shape->qkv_bias = shape->out_bias = shape->mlp_bias = true;
    for (int i = 0; i < in_layers; i++)
        f->products[i].has_bias = true;
    return stack_note_biases(arena, f);
}

static struct onnx_stack *finish(struct arena *arena, struct stack_finder *f)
{
    struct stack_layer shape = {0};
    struct json_writer writer = {.arena = arena};
    int in_layers = 0;
    bool is_masked = false;
    if (f->patch_side > 0 && f->product_count > 0) return stack_finish_picture(arena, f);
    if (f->table < 0 || f->softmax_count == 0 || f->product_count < 2) {
        fail(f, "no stack of transformer layers: no table of tokens, or no attention");
        return NULL;
    }
    if (!tell_tables(f) || !read_head(f, &in_layers, &is_masked)) return NULL;
    const struct stack_product *head = &f->products[f->product_count - 1];
    int each = in_layers / f->softmax_count;
    bool is_tied = head->weight == f->table;
    if (!stack_read_layers(f, each, &shape)) return NULL;
    const char *note = put_back_biases(arena, f, in_layers, &shape);
    if (!stack_put_family(f, &shape, is_tied, is_masked, &writer)) return NULL;
    struct onnx_stack *stack = ARENA_NEW(arena, struct onnx_stack, 1);
    stack->config = writer.text;
    stack->parameter_elements = count_parameters(f);
    stack->head_elements = head->in * head->out;
    stack->note = note;
    return stack;
}

struct onnx_stack *onnx_stack_find(struct arena *arena, const char *path,
                                   const struct onnx_graph *graph, struct err *err)
{
    struct stack_finder finder = {.path = path, .graph = graph, .err = err, .table = -1};
    finder.maker = ARENA_NEW(arena, int, graph->tensor_count);
    finder.products = ARENA_NEW(arena, struct stack_product, graph->node_count + 1);
    for (int i = 0; i < graph->tensor_count; i++)
        finder.maker[i] = -1;
    for (int n = 0; n < graph->node_count; n++) {
        const struct onnx_node *node = &graph->nodes[n];
        if (node->pass != ONNX_FORWARD) continue;
        for (int o = 0; o < node->output_count; o++)
            finder.maker[node->outputs[o]] = n;
        // What training adds has types in small letters.
        if (node->type[0] >= 'a' || node->output_count == 0) continue;
        if (!see(&finder, node)) return NULL;
    }
    return finish(arena, &finder);
}
