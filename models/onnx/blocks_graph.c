#include "models/onnx/blocks_graph.h"

#include "models/onnx/names.h"

#include <string.h>

bool blocks_fail(const struct blocks_graph *b, const struct onnx_node *node, const char *why)
{
    return err_set(b->err, ERR_INPUT, "%s: node %s (%s): %s", b->path, node->name, node->type, why);
}

static int64_t product_of(const int64_t *dims, int from, int to)
{
    int64_t product = 1;
    for (int i = from; i < to; i++)
        product *= dims[i];
    return product;
}

int64_t blocks_elements(const struct blocks_graph *b, int tensor)
{
    const struct onnx_tensor *t = blocks_tensor(b, tensor);
    return product_of(t->dims, 0, t->rank) / (t->role == ONNX_PARAMETER ? 1 : b->batch);
}

static bool is_view(const struct blocks_graph *b, const struct onnx_node *node)
{
    if (node->output_count != 1 || node->input_count < 1) return false;
    const struct onnx_tensor *output = blocks_tensor(b, node->outputs[0]);
    bool is_shared = output->shares >= 0 && !output->overwrites;
    // A weight that is turned, or cast, is read as it lies.
    bool is_turned = strcmp(node->type, "Transpose") == 0 || strcmp(node->type, "Cast") == 0;
    // The loss over the classes makes the probabilities of what they are made of.
    bool is_made_twice =
        node->outputs[0] == b->scores && b->seen_count[b->scores] == 1 &&
        (strcmp(node->type, "Softmax") == 0 || strcmp(node->type, "LogSoftmax") == 0);
    return is_shared || is_made_twice || (is_turned && b->is_trained[b->root[node->inputs[0]]]);
}

bool blocks_is_constant(const struct blocks_graph *b, int tensor)
{
    bool is_data = b->is_data[tensor] || blocks_tensor(b, tensor)->role == ONNX_INPUT;
    // A single number is no tensor of a sample.
    if (is_data) return blocks_tensor(b, tensor)->rank == 0;
    bool is_parameter = blocks_tensor(b, tensor)->role == ONNX_PARAMETER;
    return b->is_fixed[tensor] || (is_parameter && !b->is_trained[tensor]);
}

// The first data of the model says how many samples the file is for.
static bool find_batch(struct blocks_graph *b)
{
    for (int t = 0; t < b->graph->tensor_count && !b->batch; t++) {
        const struct onnx_tensor *tensor = blocks_tensor(b, t);
        bool is_data = tensor->role == ONNX_INPUT && strcmp(tensor->name, "labels") != 0;
        if (is_data && tensor->rank > 1) b->batch = tensor->dims[0];
    }
    if (b->batch > 0) return true;
    return err_set(b->err, ERR_INPUT, "%s: no input of at least two dimensions, batch first",
                   b->path);
}

static void find_trained(struct blocks_graph *b)
{
    b->scores = -1;
    for (int n = 0; n < b->graph->node_count; n++) {
        const struct onnx_node *node = &b->graph->nodes[n];
        if (node->pass == ONNX_UPDATE) b->is_trained[node->inputs[0]] = true;
        for (int i = 0; i < node->input_count && node->pass == ONNX_FORWARD; i++)
            b->seen_count[node->inputs[i]]++;
        if (strcmp(node->type, "cross_entropy") == 0) b->scores = node->inputs[0];
    }
}

bool blocks_is_product(const struct onnx_node *node)
{
    static const char *const TYPES[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (strcmp(node->type, TYPES[i]) == 0) return node->input_count >= 2;
    return false;
}

// The sizes of the GEMM that a product is.
static bool measure_product(struct blocks_graph *b, struct blocks_operator *op)
{
    const struct onnx_node *node = op->node;
    const struct onnx_tensor *x = blocks_tensor(b, node->inputs[0]),
                             *w = blocks_tensor(b, op->inputs[1]);
    const struct onnx_tensor *y = blocks_tensor(b, node->outputs[0]);
    bool is_turned = strcmp(node->type, "ConvTranspose") == 0;
    if (is_turned || strcmp(node->type, "Conv") == 0) {
        w = blocks_tensor(b, node->inputs[1]);  // which may lie otherwise
        int64_t taps = product_of(w->dims, 2, w->rank);
        int64_t in = x->dims[1], out = y->dims[1];
        op->groups = is_turned ? out / w->dims[1] : in / w->dims[1];
        op->rows = is_turned ? product_of(x->dims, 2, x->rank) : product_of(y->dims, 2, y->rank);
        op->columns = is_turned ? w->dims[1] * taps : out / op->groups;
        op->depth = is_turned ? in / op->groups : w->dims[1] * taps;
        return true;
    }
    if (x->rank < 2 || y->rank < 2) return blocks_fail(b, node, "factors without rows");
    op->columns = y->dims[y->rank - 1];
    op->depth = x->dims[x->rank - 1];
    bool is_weight = b->is_trained[op->inputs[1]];
    int64_t outputs = blocks_elements(b, b->root[node->outputs[0]]);
    op->groups = is_weight ? 1 : product_of(y->dims, 0, y->rank - 2) / b->batch;
    if (op->groups < 1 || outputs % (op->columns * op->groups) != 0)
        return blocks_fail(b, node, "a product whose samples are not apart");
    op->rows = outputs / op->columns / op->groups;
    bool is_whole = !is_weight || product_of(w->dims, 0, w->rank) == op->columns * op->depth;
    return is_whole || blocks_fail(b, node, "its weight is not used as one matrix");
}

static bool is_alike(const struct blocks_graph *b, int a, int other)
{
    const struct onnx_tensor *x = blocks_tensor(b, a), *y = blocks_tensor(b, other);
    return x->rank == y->rank && b->apart[a] == b->apart[other] &&
           memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) == 0;
}

static enum blocks_kind kind_of(const struct blocks_graph *b, const struct blocks_operator *op)
{
    const struct onnx_node *node = op->node;
    if (strcmp(node->type, "cross_entropy") == 0) return BLOCKS_LOSS;
    // A matrix that is made of weights has no GEMM's sizes of its own.
    bool is_gemm = blocks_is_product(node) && op->input_count >= 2 && !op->is_derived;
    if (is_gemm) return BLOCKS_PRODUCT;
    bool adds = strcmp(node->type, "Add") == 0 || strcmp(node->type, "Sum") == 0;
    bool is_sum = adds && op->input_count == 2;
    // Sums go by the names of dimensions, which tensors of one shape have alike.
    for (int i = 0; i < 2 && is_sum; i++)
        is_sum =
            !b->is_trained[op->inputs[i]] && is_alike(b, op->inputs[i], b->root[node->outputs[0]]);
    return is_sum ? BLOCKS_ADD : BLOCKS_OPERATOR;
}

// What no weight goes into comes with the data: positions, masks, pictures that are scaled. No
// block hands it on, and it has no gradient.
static bool is_prepared(struct blocks_graph *b, const struct onnx_node *node)
{
    bool is_data = false;
    for (int i = 0; i < node->input_count; i++) {
        int tensor = b->root[node->inputs[i]];
        if (b->is_trained[tensor] || b->maker[tensor] >= 0) return false;
        is_data = is_data || b->is_data[tensor] || blocks_tensor(b, tensor)->role == ONNX_INPUT;
    }
    for (int o = 0; o < node->output_count; o++)
        (is_data ? b->is_data : b->is_fixed)[node->outputs[o]] = true;
    return true;
}

// Whether what is made of weights is no more than what the operator makes of it. Attention adds it
// to its scores.
static bool reads_derived(const struct blocks_graph *b, const struct blocks_operator *op)
{
    const struct onnx_node *node = op->node;
    const struct onnx_tensor *output = blocks_tensor(b, node->outputs[0]);
    int64_t made = product_of(output->dims, 0, output->rank);
    bool multiplies = blocks_is_product(node) || strcmp(node->type, "Attention") == 0;
    for (int i = 0; i < node->input_count && !multiplies; i++) {
        const struct onnx_tensor *t = blocks_tensor(b, node->inputs[i]);
        if (b->is_derived[node->inputs[i]] && product_of(t->dims, 0, t->rank) > made) return false;
    }
    return op->kind == BLOCKS_OPERATOR;
}

static bool take_inputs(struct blocks_graph *b, struct blocks_operator *op)
{
    const struct onnx_node *node = op->node;
    for (int i = 0; i < node->input_count; i++) {
        int tensor = b->root[node->inputs[i]];
        if (blocks_is_constant(b, tensor)) continue;
        if (b->is_derived[node->inputs[i]]) {
            if (!blocks_take_derived(b, op, i)) return false;
            continue;
        }
        if (op->input_count == INPUTS_MOST) return blocks_fail(b, node, "more than 8 inputs");
        op->inputs[op->input_count++] = tensor;
    }
    op->kind = kind_of(b, op);
    op->bias = -1;
    if (op->is_derived && !reads_derived(b, op))
        return blocks_fail(b, node, "it reads a large tensor that is made of weights");
    // Each of its inputs has a gradient.
    if (op->is_derived && op->input_count > DIFFERENTIATED_MOST)
        return blocks_fail(
            b, node, "with the weights that what it reads is made of, it has more than 6 inputs");
    if (op->kind == BLOCKS_PRODUCT && op->input_count > 2) {
        op->bias = op->inputs[2];
        op->input_count = 2;
    }
    return op->kind != BLOCKS_PRODUCT || measure_product(b, op);
}

// Operators with matrix products in them that are not one product.
static bool multiplies(const struct onnx_node *node)
{
    static const char *const TYPES[] = {"Attention", "Einsum", "LSTM",
                                        "GRU",       "RNN",    "GroupedMatMul"};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (strcmp(node->type, TYPES[i]) == 0) return true;
    return false;
}

int blocks_batch_dim(const struct blocks_graph *b, int tensor)
{
    const struct onnx_tensor *t = blocks_tensor(b, tensor);
    int64_t inner = 0;
    int dim = b->batch > 1 ? blocks_sample_dim(b, tensor, &inner) : -1;
    if (dim >= 0) return dim;
    if (t->rank > 0 && t->dims[0] > 0 && t->dims[0] % b->batch == 0) return 0;
    for (int d = 1; d < t->rank; d++)
        if (t->dims[d] == b->parts[tensor]) return d;
    for (int d = 1; d < t->rank; d++)
        if (t->dims[d] == b->batch) return d;
    return -1;
}

// The parts of samples, windows of images, that the first activation or data has along its
// dimension of the samples: results may have them elsewhere.
static int64_t parts_read(const struct blocks_graph *b, const struct onnx_node *node)
{
    for (int i = 0; i < node->input_count; i++) {
        int tensor = node->inputs[i], dim = blocks_batch_dim(b, tensor);
        bool is_weight = b->is_trained[b->root[tensor]] || blocks_is_constant(b, tensor);
        if (!is_weight && dim >= 0) return blocks_tensor(b, tensor)->dims[dim];
    }
    return 0;
}

static bool take_node(struct blocks_graph *b, int index, struct names *names)
{
    const struct onnx_node *node = &b->graph->nodes[index];
    int at = b->operator_count;
    struct blocks_operator *op = &b->operators[at];
    *op = (struct blocks_operator){.node = node, .flop = node->flop / (double)b->batch};
    // What holds no number, as the part of a head that is not rotated, is nothing.
    if (blocks_tensor(b, node->outputs[0])->bytes == 0) {
        b->is_fixed[node->outputs[0]] = true;
        return true;
    }
    blocks_set_apart(b, node);
    if (is_prepared(b, node)) return true;
    if (blocks_derive(b, node)) return true;
    if (!take_inputs(b, op)) return false;
    op->places = op->is_derived ? PLACES_WHOLE : blocks_places(b, op);
    bool is_product = blocks_is_product(node) || multiplies(node);
    op->multiplies = op->kind == BLOCKS_OPERATOR && is_product;
    blocks_find_kernel(b, op);
    b->operator_count++;
    names_put(b->arena, names, node->name, at);
    for (int i = 0; i <= op->input_count; i++) {
        int tensor = i < op->input_count ? op->inputs[i] : op->bias;
        if (tensor < 0) continue;
        b->last_reader[tensor] = at;
        b->reader_count[tensor]++;
    }
    for (int o = 0; o < node->output_count; o++) {
        b->maker[node->outputs[o]] = at;
        b->parts[node->outputs[o]] = parts_read(b, node);
    }
    if (op->kind == BLOCKS_LOSS) b->logits = op->inputs[0];
    if (op->kind == BLOCKS_LOSS || blocks_batch_dim(b, node->outputs[0]) >= 0) return true;
    bool is_mean = strcmp(node->type, "mean") == 0;
    return blocks_fail(b, node,
                       is_mean ? "the loss of several outputs, or of one number a sample; a plan "
                                 "takes one output of several numbers a sample"
                               : "its result has no dimension of the samples");
}

// Of each forward operator the flops of its backward, and what that reads of it.
static void read_backward(struct blocks_graph *b, const struct onnx_node *node,
                          const struct names *names)
{
    // Sums of what several readers hand back belong to none of them.
    if (!strchr(node->type, '.')) return;
    char *name = arena_copy(b->arena, node->name);
    char *dot = strrchr(name, '.');
    if (dot) *dot = '\0';
    int at = names_find(names, name);
    if (at < 0) return;
    struct blocks_operator *op = &b->operators[at];
    op->backward_flop += node->flop / (double)b->batch;
    for (int i = 0; i < node->input_count; i++) {
        int tensor = b->root[node->inputs[i]];
        for (int k = 0; k < op->input_count; k++)
            if (op->inputs[k] == tensor) op->kept |= 1u << k;
        for (int k = 0; k < op->node->output_count; k++)
            if (op->node->outputs[k] == tensor) op->kept |= 1u << (INPUTS_MOST + k);
    }
}

bool blocks_has_places(const struct blocks_graph *b)
{
    const struct onnx_tensor *logits = blocks_tensor(b, b->scores);
    // Of a sequence the classes stand behind its places.
    if (logits->rank == 3) return logits->dims[1] > 1;
    return (logits->rank == 4 || logits->rank == 5) &&
           product_of(logits->dims, 2, logits->rank) > 1;
}

int64_t blocks_classes(const struct blocks_graph *b)
{
    const struct onnx_tensor *logits = blocks_tensor(b, b->scores);
    return logits->dims[logits->rank == 3 ? 2 : 1];
}

static bool is_answered(const struct blocks_graph *b)
{
    if (b->logits < 0) {
        return err_set(
            b->err, ERR_INPUT,
            "%s: one output of (batch, classes) is wanted, or one with height and width behind "
            "them, for a loss over the classes",
            b->path);
    }
    const struct onnx_tensor *logits = blocks_tensor(b, b->scores);
    if (b->apart[b->scores] > 0 && !blocks_is_first(b, b->scores))
        return err_set(b->err, ERR_INPUT,
                       "%s: the samples of output %s are not its first dimension", b->path,
                       logits->name);
    // Behind a global pool images of one pixel may be left.
    bool is_flat =
        logits->rank >= 2 && logits->rank != 3 && product_of(logits->dims, 2, logits->rank) == 1;
    bool has_rows = logits->rank == 3 || blocks_has_places(b);
    if ((is_flat || has_rows) && blocks_classes(b) > 1) return true;
    return err_set(b->err, ERR_INPUT,
                   "%s: output %s has %d dimensions: losses over (batch, classes), with or without "
                   "the places of an image behind them, or (batch, places, classes) alone are "
                   "planned",
                   b->path, logits->name, logits->rank);
}

// What moves numbers makes them in the shape that its one reader sees them in.
static bool is_last_view(const struct blocks_graph *b, const struct onnx_node *node)
{
    int tensor = node->inputs[0], maker = b->maker[tensor];
    if (b->root[tensor] != tensor || maker < 0) return false;
    const char *kernel = b->operators[maker].kernel;
    return kernel && strcmp(kernel, "Transpose") == 0 && b->seen_count[tensor] == 1 &&
           blocks_batch_dim(b, node->outputs[0]) == 0;
}

static void take_shape(struct blocks_graph *b, const struct onnx_node *view)
{
    int from = view->inputs[0], to = view->outputs[0], at = b->maker[from];
    struct blocks_operator *op = &b->operators[at];
    struct onnx_node *node = ARENA_NEW(b->arena, struct onnx_node, 1);
    int *outputs = ARENA_NEW(b->arena, int, 1);
    *node = *op->node;
    *outputs = to;
    node->outputs = outputs;
    op->node = node;
    b->maker[to] = at;
    b->parts[to] = b->parts[from];
    b->apart[to] = b->apart[from];
}

bool blocks_read(struct blocks_graph *b)
{
    int tensors = b->graph->tensor_count;
    struct names names = {0};
    b->root = ARENA_NEW(b->arena, int, tensors);
    b->view = ARENA_NEW(b->arena, const struct onnx_node *, tensors);
    b->laid = ARENA_NEW(b->arena, const int64_t *, tensors);
    b->is_trained = ARENA_NEW(b->arena, bool, tensors);
    b->is_data = ARENA_NEW(b->arena, bool, tensors);
    b->is_fixed = ARENA_NEW(b->arena, bool, tensors);
    b->is_derived = ARENA_NEW(b->arena, bool, tensors);
    b->sources = ARENA_NEW(b->arena, const struct blocks_source *, tensors);
    b->derived_flop = ARENA_NEW(b->arena, double, tensors);
    b->is_tied = ARENA_NEW(b->arena, bool, tensors);
    b->is_turned = ARENA_NEW(b->arena, bool, tensors);
    b->maker = ARENA_NEW(b->arena, int, tensors);
    b->last_reader = ARENA_NEW(b->arena, int, tensors);
    b->parts = ARENA_NEW(b->arena, int64_t, tensors);
    b->apart = ARENA_NEW(b->arena, int64_t, tensors);
    b->reader_count = ARENA_NEW(b->arena, int, tensors);
    b->seen_count = ARENA_NEW(b->arena, int, tensors);
    b->operators = ARENA_NEW(b->arena, struct blocks_operator, b->graph->node_count);
    b->logits = -1;
    for (int t = 0; t < tensors; t++) {
        b->root[t] = t;
        b->maker[t] = b->last_reader[t] = -1;
    }
    find_trained(b);
    if (!find_batch(b)) return false;
    for (int t = 0; t < tensors; t++) {
        const struct onnx_tensor *given = blocks_tensor(b, t);
        bool is_batched = given->role == ONNX_INPUT && given->rank > 0 && given->dims[0] > 0 &&
                          given->dims[0] % b->batch == 0;
        if (is_batched) b->apart[t] = blocks_elements(b, t);
    }
    for (int n = 0; n < b->graph->node_count; n++) {
        const struct onnx_node *node = &b->graph->nodes[n];
        if (node->pass != ONNX_FORWARD || node->output_count == 0) continue;
        if (is_view(b, node) && is_last_view(b, node)) {
            take_shape(b, node);
        } else if (is_view(b, node)) {
            bool turns = strcmp(node->type, "Transpose") == 0;
            b->view[node->outputs[0]] = node;
            blocks_set_apart(b, node);
            if (turns) blocks_lay(b, node);
            b->root[node->outputs[0]] = b->root[node->inputs[0]];
            b->is_derived[node->outputs[0]] = b->is_derived[node->inputs[0]];
            b->sources[node->outputs[0]] = b->sources[node->inputs[0]];
            b->derived_flop[node->outputs[0]] = b->derived_flop[node->inputs[0]];
            b->is_turned[node->outputs[0]] = b->is_turned[node->inputs[0]] != turns;
        } else if (!take_node(b, n, &names)) {
            return false;
        }
    }
    for (int n = 0; n < b->graph->node_count; n++) {
        if (b->graph->nodes[n].pass == ONNX_BACKWARD) read_backward(b, &b->graph->nodes[n], &names);
    }
    blocks_check_laid(b);
    return is_answered(b);
}
