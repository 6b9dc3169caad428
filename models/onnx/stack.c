#include "models/onnx/stack.h"

#include "core/json_write.h"

#include <string.h>

// A product with a weight.
struct product {
    int node, weight;  // the weight is the initializer, before any Transpose
    int64_t in, out;
    bool has_bias;
};

struct finder {
    const char *path;
    const struct onnx_graph *graph;
    struct err *err;
    int *maker;  // by tensor: the forward node that makes it, or -1
    struct product *products;
    int product_count;
    int table;  // of tokens; -1 until it is found
    int64_t vocab, hidden, seq_len, position_count;
    int64_t head_count, head_dim;
    int softmax_count, layer_norm_count, rms_norm_count, rotation_count;
    int scale_count;  // products of tokens with a vector of weights: those of rms norms
    bool norm_has_bias, has_mask;
    const char *activation;  // type of the operator
};

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
                                   "Sub",
                                   "Transpose",
                                   "Trilu",
                                   "Unsqueeze",
                                   "Flatten",
                                   "ConstantOfShape",
                                   "Where",
                                   "Mod"};

static bool is_one_of(const char *type, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(type, names[i]) == 0) return true;
    }
    return false;
}

static bool refuse(struct finder *f, const struct onnx_node *node, const char *why)
{
    return err_set(f->err, ERR_INPUT, "%s: node %s (%s): %s", f->path, node->name, node->type, why);
}

static const struct onnx_tensor *tensor_of(const struct finder *f, int tensor)
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

// The initializer that a tensor is, or is another view of; -1 if it is none.
static int source_of(const struct finder *f, int tensor)
{
    while (f->maker[tensor] >= 0) {
        const struct onnx_node *node = &f->graph->nodes[f->maker[tensor]];
        if (!is_one_of(node->type, VIEWS, sizeof VIEWS / sizeof *VIEWS)) return -1;
        tensor = node->inputs[0];
    }
    return tensor_of(f, tensor)->role == ONNX_PARAMETER ? tensor : -1;
}

static const struct onnx_tensor *output_of(const struct finder *f, const struct onnx_node *node)
{
    return tensor_of(f, node->outputs[0]);
}

// The initializer of this rank among the inputs of a node; -1 without one.
static int weight_among(const struct finder *f, const struct onnx_node *node, int rank)
{
    for (int i = 0; i < node->input_count; i++) {
        int source = source_of(f, node->inputs[i]);
        if (source >= 0 && tensor_of(f, source)->rank == rank) return source;
    }
    return -1;
}

// Tokens first, then positions: both are rows of tables.
static bool see_gather(struct finder *f, const struct onnx_node *node)
{
    int source = weight_among(f, node, 2);
    const struct onnx_tensor *output = output_of(f, node);
    if (source < 0) return true;
    const struct onnx_tensor *table = tensor_of(f, source);
    if (f->table < 0 && output->rank == 3) {
        f->table = source;
        f->vocab = table->dims[0];
        f->hidden = table->dims[1];
        f->seq_len = output->dims[1];
        return true;
    }
    bool is_position = f->product_count == 0 && f->position_count == 0 &&
                       table->dims[1] == f->hidden && f->table >= 0;
    if (!is_position) return refuse(f, node, "a table that is neither of tokens nor of positions");
    f->position_count = table->dims[0];
    return true;
}

static bool see_product(struct finder *f, const struct onnx_node *node)
{
    int weight = weight_among(f, node, 2);
    int64_t in = last_dim(tensor_of(f, node->inputs[0])), out = last_dim(output_of(f, node));
    if (weight < 0) {
        // Scores come before their softmax; what follows it has the same head count.
        const struct onnx_tensor *output = output_of(f, node);
        if (output->rank != 4) return refuse(f, node, "a product of activations that has no heads");
        bool is_score =
            output->dims[2] == f->seq_len && output->dims[3] == f->seq_len && f->softmax_count == 0;
        if (is_score) f->head_count = output->dims[1];
        if (is_score) f->head_dim = in;
        return true;
    }
    if (in * out != elements(tensor_of(f, weight)))
        return refuse(f, node, "its weight is not used as one matrix");
    f->products[f->product_count++] = (struct product){.node = (int)(node - f->graph->nodes),
                                                       .weight = weight,
                                                       .in = in,
                                                       .out = out,
                                                       .has_bias = node->input_count > 2};
    return true;
}

// A bias, the residual, positions that were folded, the mask, or a part of a function.
static bool see_add(struct finder *f, const struct onnx_node *node)
{
    const struct onnx_tensor *output = output_of(f, node);
    bool is_square = output->rank == 4 && output->dims[2] == f->seq_len &&
                     output->dims[3] == f->seq_len && output->dims[1] == f->head_count;
    if (is_square) f->has_mask = true;
    int vector = weight_among(f, node, 1), rows = weight_among(f, node, 3);
    if (rows >= 0 && f->product_count == 0 && f->position_count == 0) {
        f->position_count = tensor_of(f, rows)->dims[1];
        return true;
    }
    if (vector < 0 || elements(tensor_of(f, vector)) == 1) return true;
    struct product *last = f->product_count ? &f->products[f->product_count - 1] : NULL;
    if (!last || last->has_bias || last->out != elements(tensor_of(f, vector)))
        return refuse(f, node, "a vector of weights that is no bias of the product before it");
    last->has_bias = true;
    return true;
}

// Weights that are read in passing would be left out.
static bool no_matrix(struct finder *f, const struct onnx_node *node)
{
    enum { HALF_BYTES = 2, FLOAT_BYTES = 4 };
    int matrix = weight_among(f, node, 2);
    if (matrix < 0 || is_one_of(node->type, VIEWS, sizeof VIEWS / sizeof *VIEWS)) return true;
    const struct onnx_tensor *weight = tensor_of(f, matrix);
    bool is_mask = weight->dims[0] == f->seq_len && weight->dims[1] == f->seq_len;
    bool is_real = weight->element_bytes == HALF_BYTES || weight->element_bytes == FLOAT_BYTES;
    if (is_mask || !is_real || elements(weight) <= weight->dims[0]) return true;
    return refuse(f, node, "a matrix of weights in no product");
}

static bool see_scale(struct finder *f, const struct onnx_node *node)
{
    int vector = weight_among(f, node, 1);
    bool is_norm = vector < 0 || elements(tensor_of(f, vector)) == 1 ||
                   elements(tensor_of(f, vector)) == f->hidden;
    if (!is_norm) return refuse(f, node, "a vector of weights that is none of a norm of tokens");
    f->scale_count += vector >= 0 && elements(tensor_of(f, vector)) > 1;
    return no_matrix(f, node);
}

static bool see_activation(struct finder *f, const struct onnx_node *node)
{
    if (f->activation && strcmp(f->activation, node->type) != 0)
        return refuse(f, node, "a second kind of activation");
    f->activation = node->type;
    return true;
}

static bool see(struct finder *f, const struct onnx_node *node)
{
    static const char *const ACTIVATIONS[] = {"Tanh", "Erf", "Sigmoid", "Relu"};
    const char *type = node->type;
    if (strcmp(type, "Gather") == 0) return see_gather(f, node);
    if (strcmp(type, "MatMul") == 0 || strcmp(type, "Gemm") == 0) return see_product(f, node);
    if (strcmp(type, "Add") == 0) return see_add(f, node);
    if (strcmp(type, "Mul") == 0) return see_scale(f, node);
    if (is_one_of(type, ACTIVATIONS, sizeof ACTIVATIONS / sizeof *ACTIVATIONS))
        return see_activation(f, node);
    if (strcmp(type, "Softmax") == 0) return f->softmax_count++, true;
    if (strcmp(type, "ReduceMean") == 0) return f->rms_norm_count++, true;
    if (strcmp(type, "Neg") == 0) return f->rotation_count++, true;
    if (strcmp(type, "LayerNormalization") == 0) {
        f->norm_has_bias = node->input_count > 2;
        return f->layer_norm_count++, true;
    }
    if (strcmp(type, "Where") == 0) f->has_mask = true;
    if (is_one_of(type, GLUE, sizeof GLUE / sizeof *GLUE)) return no_matrix(f, node);
    return refuse(f, node, "no part of the stacks of layers that are recognised");
}

// What one layer consists of, by its products.
struct layer_shape {
    int64_t kv_head_count, ffn;
    bool is_gated, qkv_bias, out_bias, mlp_bias;
};

static bool fail(struct finder *f, const char *why)
{
    return err_set(f->err, ERR_INPUT, "%s: %s", f->path, why);
}

// All layers have the products of the first.
static bool fold(struct finder *f, int each)
{
    for (int i = each; i < each * f->softmax_count; i++) {
        const struct product *a = &f->products[i], *b = &f->products[i - each];
        bool is_alike = a->in == b->in && a->out == b->out && a->has_bias == b->has_bias;
        if (!is_alike) {
            return refuse(f, &f->graph->nodes[a->node],
                          "layers that are not alike are not recognised");
        }
    }
    return true;
}

static bool read_layer(struct finder *f, int each, struct layer_shape *shape)
{
    const struct product *p = f->products;
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
    const struct product *mlp = &p[next + 1], *down = &p[each - 1];
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

static void put_gpt2(const struct finder *f, const struct layer_shape *shape, bool is_tied,
                     struct json_writer *writer)
{
    bool is_tanh = strcmp(f->activation, "Tanh") == 0;
    json_put_text(writer, "model_type", "gpt2");
    json_put_i64(writer, "vocab_size", f->vocab);
    json_put_i64(writer, "n_positions", f->position_count);
    json_put_i64(writer, "n_embd", f->hidden);
    json_put_i64(writer, "n_layer", f->softmax_count);
    json_put_i64(writer, "n_head", f->head_count);
    json_put_i64(writer, "n_inner", shape->ffn);
    json_put_text(writer, "activation_function", is_tanh ? "gelu_new" : "gelu");
    if (is_tied) json_put_bool(writer, "tie_word_embeddings", true);
}

static void put_llama(const struct finder *f, const struct layer_shape *shape, bool is_tied,
                      struct json_writer *writer)
{
    json_put_text(writer, "model_type", shape->qkv_bias ? "qwen2" : "llama");
    json_put_i64(writer, "vocab_size", f->vocab);
    json_put_i64(writer, "hidden_size", f->hidden);
    json_put_i64(writer, "intermediate_size", shape->ffn);
    json_put_i64(writer, "num_hidden_layers", f->softmax_count);
    json_put_i64(writer, "num_attention_heads", f->head_count);
    json_put_i64(writer, "num_key_value_heads", shape->kv_head_count);
    json_put_i64(writer, "head_dim", f->head_dim);
    if (is_tied) json_put_bool(writer, "tie_word_embeddings", true);
}

static bool put_family(struct finder *f, const struct layer_shape *s, bool is_tied,
                       struct json_writer *writer)
{
    int norms = 2 * f->softmax_count + 1;
    bool is_whole = f->head_count * f->head_dim == f->hidden;
    const char *activation = f->activation ? f->activation : "";
    bool is_gelu = strcmp(activation, "Tanh") == 0 || strcmp(activation, "Erf") == 0;
    bool is_gpt2 = f->layer_norm_count == norms && f->norm_has_bias && f->position_count > 0 &&
                   f->rms_norm_count == 0 && f->scale_count == 0 && f->rotation_count == 0 &&
                   !s->is_gated && is_gelu && is_whole && s->kv_head_count == f->head_count &&
                   s->qkv_bias && s->out_bias && s->mlp_bias;
    bool is_llama = f->rms_norm_count == norms && f->scale_count == norms &&
                    f->layer_norm_count == 0 && f->position_count == 0 &&
                    f->rotation_count == 2 * f->softmax_count && s->is_gated &&
                    strcmp(activation, "Sigmoid") == 0 && !s->out_bias && !s->mlp_bias &&
                    (is_whole || !s->qkv_bias);
    if (!f->has_mask)
        return fail(f, "no mask on the scores: attention both ways is not recognised");
    if (!is_gpt2 && !is_llama) {
        return fail(
            f, "a stack of layers whose norms, positions, mlp and biases are together those of "
               "none of gpt2, llama, qwen2");
    }
    json_open(writer, NULL, '{');
    if (is_gpt2) put_gpt2(f, s, is_tied, writer);
    if (is_llama) put_llama(f, s, is_tied, writer);
    json_close(writer, '}');
    return true;
}

// But for the head.
static int64_t count_parameters(const struct finder *f)
{
    int norms = f->layer_norm_count + f->rms_norm_count;
    int64_t sum =
        (f->vocab + f->position_count) * f->hidden + norms * f->hidden * (f->norm_has_bias ? 2 : 1);
    for (int i = 0; i < f->product_count - 1; i++)
        sum +=
            f->products[i].in * f->products[i].out + f->products[i].has_bias * f->products[i].out;
    return sum;
}

static struct onnx_stack *finish(struct arena *arena, struct finder *f)
{
    struct layer_shape shape = {0};
    struct json_writer writer = {.arena = arena};
    int in_layers = f->product_count - 1;
    const struct product *head = &f->products[f->product_count - 1];
    if (f->table < 0 || f->softmax_count == 0 || in_layers < 1) {
        fail(f, "no stack of transformer layers: no table of tokens, or no attention");
        return NULL;
    }
    if (head->out != f->vocab || head->in != f->hidden || head->has_bias ||
        in_layers % f->softmax_count != 0) {
        refuse(f, &f->graph->nodes[head->node], "the last product is no head over the vocabulary");
        return NULL;
    }
    int each = in_layers / f->softmax_count;
    bool is_tied = head->weight == f->table;
    if (!fold(f, each) || !read_layer(f, each, &shape)) return NULL;
    if (!put_family(f, &shape, is_tied, &writer)) return NULL;
    struct onnx_stack *stack = ARENA_NEW(arena, struct onnx_stack, 1);
    stack->config = writer.text;
    stack->parameter_elements = count_parameters(f);
    stack->head_elements = head->in * head->out;
    return stack;
}

struct onnx_stack *onnx_stack_find(struct arena *arena, const char *path,
                                   const struct onnx_graph *graph, struct err *err)
{
    struct finder finder = {.path = path, .graph = graph, .err = err, .table = -1};
    finder.maker = ARENA_NEW(arena, int, graph->tensor_count);
    finder.products = ARENA_NEW(arena, struct product, graph->node_count + 1);
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
