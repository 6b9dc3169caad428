#include "models/builder.h"
#include "models/families/family.h"
#include "models/op_image.h"

#include <assert.h>
#include <string.h>

// A model that is no stack of known layers: blocks of operators, as models/onnx/blocks.c finds them
// in an imported graph. Each block reads what the one before it hands on; the first reads data, the
// last ends in the loss over its classes. A dimension of size 0 is the batch, or the sequence of
// one that a sample is.

enum { KINDS_MAX = 32 };  // of distinct blocks, over which plans are searched

struct operators {
    int64_t classes;
    struct graph *graph;
};

static const struct json_field FIELDS[] = {
    {JSON_I64(struct operators, classes, 1, VOCAB_MAX)},
    {JSON_ANY("model_type")},
    {JSON_ANY("blocks")},
    {JSON_ANY("sequence")},
    {0},
};

struct block_text {
    const char *name, *output;
};
static const struct json_field BLOCK_FIELDS[] = {
    {JSON_TEXT(struct block_text, name)},
    {JSON_TEXT(struct block_text, output)},
    {JSON_ANY("tensors")},
    {JSON_ANY("operators")},
    {0},
};

struct tensor_text {
    const char *name, *role, *element, *tie;
};
static const struct json_field TENSOR_FIELDS[] = {
    {JSON_TEXT(struct tensor_text, name)},
    {JSON_TEXT(struct tensor_text, role)},
    {JSON_TEXT(struct tensor_text, element)},
    {JSON_OPT_TEXT(struct tensor_text, tie)},
    {JSON_ANY("dims")},
    {JSON_ANY("sizes")},
    {0},
};

struct operator_text {
    const char *name, *kind, *places, *type;
    int64_t groups, rows, columns, depth, kept;
    double flop, backward_flop, scalar;
    bool multiplies;
};
static const struct json_field OPERATOR_FIELDS[] = {
    {JSON_TEXT(struct operator_text, name)},
    {JSON_TEXT(struct operator_text, kind)},
    {JSON_ANY("inputs")},
    {JSON_ANY("outputs")},
    {JSON_OPT_I64(struct operator_text, groups, 1, 1e12)},
    {JSON_OPT_I64(struct operator_text, rows, 1, 1e12)},
    {JSON_OPT_I64(struct operator_text, columns, 1, 1e12)},
    {JSON_OPT_I64(struct operator_text, depth, 1, 1e12)},
    {JSON_OPT_I64(struct operator_text, kept, 0, 1 << 12)},
    {JSON_OPT_TEXT(struct operator_text, places)},
    {JSON_OPT_ANY("windows")},
    {JSON_OPT_TEXT(struct operator_text, type)},
    {JSON_OPT_F64(struct operator_text, scalar, -1e30, 1e30)},
    {JSON_OPT_ANY("strided")},
    {JSON_OPT_F64(struct operator_text, flop, 0, 1e30)},
    {JSON_OPT_BOOL(struct operator_text, multiplies)},
    {JSON_OPT_F64(struct operator_text, backward_flop, 0, 1e30)},
    {0},
};

struct reading {
    struct arena *arena;
    struct builder builder;
    struct err *err;
};

static int find_name(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) return i;
    }
    return -1;
}

static bool read_shape(struct reading *r, const struct json *object, struct shape *shape)
{
    struct json dims = json_get(object, "dims", r->err), sizes = json_get(object, "sizes", r->err);
    int count = json_count(&dims, r->err);
    if (!r->err->kind && (count > TENSOR_RANK_MAX || json_count(&sizes, r->err) != count))
        json_fail(&sizes, r->err, "as many sizes as dims are wanted, at most %d", TENSOR_RANK_MAX);
    for (int i = 0, at = 0; i < count && !r->err->kind; i++) {
        struct json name = json_item(&dims, i), size = json_item(&sizes, i);
        const char *text = json_text(&name, r->err);
        int64_t number = json_i64(&size, 0, 1e12, r->err);
        int dim = DIM_NONE;
        for (int d = 1; d < DIM_COUNT && text; d++)
            if (strcmp(dim_name((enum dim)d), text) == 0) dim = d;
        bool is_open = dim == DIM_BATCH || dim == DIM_SEQ;
        if (!r->err->kind && (dim == DIM_NONE || is_open != (number == 0)))
            json_fail(&name, r->err, "no dimension of this size");
        // An image of one row has no rows to tell apart.
        bool is_one = (dim == DIM_HEIGHT || dim == DIM_WIDTH) && number == 1;
        if (!is_one) shape->extents[at++] = (struct extent){(enum dim)dim, number};
    }
    return !r->err->kind;
}

static int find_tensor(const struct reading *r, const char *name)
{
    const struct block *block = r->builder.block;
    for (int t = 0; t < block->tensor_count; t++) {
        if (strcmp(block->tensors[t].name, name) == 0) return t;
    }
    return -1;
}

static bool read_tensor(struct reading *r, const struct json *object)
{
    static const char *const ROLES[] = {"activation", "parameter", "data"};
    static const char *const ELEMENTS[] = {"compute", "fp32", "int64", "byte"};
    struct tensor_text text = {0};
    struct shape shape = {0};
    json_read(object, TENSOR_FIELDS, &text, r->err);
    if (r->err->kind || !read_shape(r, object, &shape)) return false;
    int role = find_name(text.role, ROLES, 3), element = find_name(text.element, ELEMENTS, 4);
    if (role < 0 || element < 0 || find_tensor(r, text.name) >= 0)
        return json_fail(object, r->err, "an unknown role or element, or a name that is taken");
    if (text.tie && role != TENSOR_PARAMETER)
        return json_fail(object, r->err, "weights alone are tied");
    int made = builder_tensor(&r->builder, arena_copy(r->arena, text.name), (enum tensor_role)role,
                              (enum element)element, shape);
    if (text.tie) r->builder.block->tensors[made].tie = arena_copy(r->arena, text.tie);
    return true;
}

static int read_names(struct reading *r, const struct json *object, const char *key, int most,
                      int *tensors)
{
    struct json list = json_get(object, key, r->err);
    int count = json_count(&list, r->err);
    if (!r->err->kind && (count < 1 || count > most))
        json_fail(&list, r->err, "1 to %d tensors are wanted", most);
    for (int i = 0; i < count && !r->err->kind; i++) {
        struct json name = json_item(&list, i);
        const char *text = json_text(&name, r->err);
        tensors[i] = text ? find_tensor(r, text) : -1;
        if (!r->err->kind && tensors[i] < 0) json_fail(&name, r->err, "no tensor of this block");
    }
    return count;
}

// What is kept leaves room for the gradient among the inputs of backward, and its gradients are
// few enough.
static bool fits_backward(const struct reading *r, const struct op *op)
{
    int gradients = 0, parts = op->kind == OP_OPERATOR ? op->output_count : 1;
    for (int i = 0; i < op->input_count; i++)
        gradients += op_has_gradient(r->builder.block, op, i);
    return __builtin_popcount(op->work.kept) + parts <= OP_INPUT_MAX && gradients <= OP_OUTPUT_MAX;
}

static const struct json_field WINDOW_FIELDS[] = {
    {JSON_I64(struct window, taps, 0, 1 << 30)},
    {JSON_I64(struct window, stride, 0, 1 << 30)},
    {JSON_I64(struct window, dilation, 0, 1 << 30)},
    {JSON_I64(struct window, pad, 0, 1 << 30)},
    {0},
};

// What the operator does over an image: of height and width each a window where it slides.
static bool read_places(struct reading *r, const struct json *object, const char *text,
                        struct op_work *work)
{
    const char *const names[] = {places_name(PLACES_WHOLE), places_name(PLACES_EACH),
                                 places_name(PLACES_WINDOW), places_name(PLACES_TURNED),
                                 places_name(PLACES_STATISTICS)};
    int places = text ? find_name(text, names, PLACES_COUNT) : PLACES_WHOLE;
    if (places < 0) return json_fail(object, r->err, "places: \"%s\" is none of them", text);
    work->places = (enum places)places;
    if (places != PLACES_WINDOW && places != PLACES_TURNED) return true;
    struct json list = json_get(object, "windows", r->err);
    if (json_count(&list, r->err) != WINDOW_DIMS && !r->err->kind)
        return json_fail(&list, r->err, "a window of height and one of width are wanted");
    for (int d = 0; d < WINDOW_DIMS && !r->err->kind; d++) {
        struct json item = json_item(&list, d);
        struct window *window = &work->windows[d];
        json_read(&item, WINDOW_FIELDS, window, r->err);
        bool is_right = window->taps == 0 || (window->stride > 0 && window->dilation > 0);
        if (!r->err->kind && !is_right)
            return json_fail(&item, r->err, "a stride and a dilation of at least 1 are wanted");
    }
    return !r->err->kind;
}

// Whether the last window begins in the image and ends behind its padding, on sides as large as
// those of what the operator reads and makes.
static bool fits_windows(const struct block *block, const struct op *op)
{
    static const enum dim DIMS[WINDOW_DIMS] = {DIM_HEIGHT, DIM_WIDTH};
    bool is_turned = op->work.places == PLACES_TURNED;
    if (op->work.places != PLACES_WINDOW && !is_turned) return true;
    const struct tensor *input = &block->tensors[op->inputs[0]];
    const struct tensor *result = &block->tensors[op->outputs[0]];
    for (int d = 0; d < WINDOW_DIMS; d++) {
        const struct window *window = &op->work.windows[d];
        int in = tensor_find_dim(input, DIMS[d]), out = tensor_find_dim(result, DIMS[d]);
        if (window->taps == 0 || in < 0 || out < 0) continue;
        int64_t wide = (is_turned ? result : input)->extents[is_turned ? out : in].size;
        int64_t narrow = (is_turned ? input : result)->extents[is_turned ? in : out].size;
        double first = (double)(narrow - 1) * (double)window->stride - (double)window->pad;
        double extent = (double)(window->taps - 1) * (double)window->dilation + 1;
        if (first >= (double)wide || first + extent <= 0) return false;
    }
    return true;
}

// Rows that parts have their own of, and all together those of the whole.
static bool fits_parts(const struct block *block, const int *parts, int count, int64_t rows,
                       int64_t whole)
{
    assert(count > 0);
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
        int64_t part = tensor_elements(&block->tensors[parts[i]], 1, 1);
        if (rows < 1 || part % rows != 0) return false;
        sum += part;
    }
    return sum == whole;
}

// Query, key, value and result, whose last dimensions are read number after number.
static bool fits_attention(const struct block *block, const struct op *op)
{
    static const int LAST[LOOPS_INPUTS] = {4, 4, 5, 5};
    const struct strided *s = op->work.strided;
    bool is_it = op->input_count == 3 && op->output_count == 2 && s->count == LOOPS_MOST;
    for (int i = 0; i < LOOPS_INPUTS && is_it; i++) {
        int tensor = i < 3 ? op->inputs[i] : op->outputs[0];
        is_it = strided_fits(s, i, tensor_elements(&block->tensors[tensor], 1, 1)) &&
                s->steps[i][LAST[i]] == 1;
    }
    return is_it && tensor_elements(&block->tensors[op->outputs[1]], 1, 1) ==
                        s->sizes[0] * s->sizes[1] * s->sizes[2];
}

// Whether its loops are over the numbers that its tensors have of a sample.
static bool fits_loops(const struct block *block, const struct op *op)
{
    const struct strided *s = op->work.strided;
    enum imported_kind type = op->work.type;
    bool is_pair = type == IMPORTED_MULTIPLY || type == IMPORTED_ADD || type == IMPORTED_SUBTRACT ||
                   type == IMPORTED_DIVIDE;
    int64_t loops = s ? strided_elements(s) : 0;
    int64_t made = tensor_elements(&block->tensors[op->outputs[0]], 1, 1);
    int64_t read = tensor_elements(&block->tensors[op->inputs[0]], 1, 1);
    bool wants = type >= IMPORTED_SUBTRACT && type != IMPORTED_PRODUCTS;
    if (!s)
        return type != IMPORTED_MOVE && type != IMPORTED_SPLIT && type != IMPORTED_ADD && !wants;
    if (op->kind != OP_OPERATOR || op->work.places != PLACES_WHOLE) return false;
    if (type == IMPORTED_ATTENTION || type == IMPORTED_CAUSAL_ATTENTION)
        return fits_attention(block, op);
    if (type == IMPORTED_SOFTMAX)
        return op->input_count == 1 && read == made && loops > 0 && s->steps[0][0] > 0 &&
               loops * s->steps[0][0] == read;
    if (type == IMPORTED_ROW_SUM || type == IMPORTED_ROW_MEAN || type == IMPORTED_PAD)
        return op->input_count == 1 && op->output_count == 1 && loops > 0 &&
               strided_fits(s, 0, read) && strided_fits(s, 1, made);
    if (type == IMPORTED_SPLIT)
        return op->input_count == 1 &&
               fits_parts(block, op->outputs, op->output_count, loops, read);
    if (type == IMPORTED_JOIN)
        return op->output_count == 1 && fits_parts(block, op->inputs, op->input_count, loops, made);
    bool is_it = is_pair ? op->input_count == 2 : type == IMPORTED_MOVE && op->input_count == 1;
    for (int i = 0; i < op->input_count && is_it; i++)
        is_it = strided_fits(s, i, tensor_elements(&block->tensors[op->inputs[i]], 1, 1));
    return is_it && op->output_count == 1 && loops == made;
}

static bool read_operator(struct reading *r, const struct json *object)
{
    static const char *const KINDS[] = {"product", "operator", "add", "loss"};
    static const enum op_kind KIND_OF[] = {OP_PRODUCT, OP_OPERATOR, OP_ADD, OP_LOSS};
    static const double LOSS_FLOP = 5;
    struct operator_text text = {.groups = 1, .rows = 1, .columns = 1, .depth = 1};
    json_read(object, OPERATOR_FIELDS, &text, r->err);
    int kind = r->err->kind ? -1 : find_name(text.kind, KINDS, 4);
    if (kind < 0) return json_fail(object, r->err, "an unknown kind");
    struct op op = {.name = arena_copy(r->arena, text.name), .kind = KIND_OF[kind], .scalar = 1};
    op.input_count = read_names(r, object, "inputs", OP_INPUT_MAX, op.inputs);
    op.output_count = read_names(r, object, "outputs", OP_OUTPUT_MAX, op.outputs);
    op.flop_per_element = op.kind == OP_LOSS ? LOSS_FLOP : 0;
    op.work = (struct op_work){.groups = text.groups,
                               .rows = text.rows,
                               .columns = text.columns,
                               .depth = text.depth,
                               .flop = text.flop,
                               .backward_flop = text.backward_flop,
                               .multiplies = text.multiplies,
                               .kept = (unsigned)text.kept,
                               .type = text.type ? imported_find(text.type) : IMPORTED_NONE,
                               .scalar = text.scalar};
    if (r->err->kind || !read_places(r, object, text.places, &op.work)) return false;
    if (text.type && !op.work.type)
        return json_fail(object, r->err, "type: \"%s\" is no operator with kernels", text.type);
    struct json strided = json_find(object, "strided");
    if (strided.value) op.work.strided = strided_read(r->arena, &strided, r->err);
    if (r->err->kind || !fits_loops(r->builder.block, &op))
        return json_fail(object, r->err, "loops that its tensors have not");
    bool has_places = op.kind == OP_PRODUCT || op.kind == OP_OPERATOR;
    if ((op.work.places && !has_places) || !fits_windows(r->builder.block, &op))
        return json_fail(object, r->err, "places or windows that its images have not");
    const struct block *block = r->builder.block;
    bool is_right = fits_backward(r, &op) && (op.kind != OP_PRODUCT || op.input_count == 2) &&
                    (op.kind != OP_LOSS || (op.input_count == 2 && op.output_count == 2));
    for (int i = 0; i < op.output_count; i++) {
        const struct tensor *made = &block->tensors[op.outputs[i]];
        is_right = is_right && made->role == TENSOR_ACTIVATION && made->producer < 0;
    }
    if (!is_right) return json_fail(object, r->err, "tensors that its kind has not");
    builder_op(&r->builder, op);
    return true;
}

static bool each(struct reading *r, const struct json *object, const char *key,
                 bool (*read)(struct reading *r, const struct json *item))
{
    struct json list = json_get(object, key, r->err);
    int count = json_count(&list, r->err);
    if (!r->err->kind && (!json_is_array(&list) || count < 1))
        return json_fail(&list, r->err, "a list is wanted");
    for (int i = 0; i < count && !r->err->kind; i++) {
        struct json item = json_item(&list, i);
        if (!read(r, &item)) return false;
    }
    return !r->err->kind;
}

// An activation that the block reads and no operator of it makes comes from the block before.
static bool finish_block(struct reading *r, const struct json *object, const char *output)
{
    struct block *block = r->builder.block;
    bool *is_made = ARENA_NEW(r->arena, bool, block->tensor_count);
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        for (int i = 0; i < op->input_count; i++) {
            const struct tensor *read = &block->tensors[op->inputs[i]];
            bool is_input = read->role == TENSOR_ACTIVATION && read->producer < 0;
            bool is_known = block->input_count > 0 && block->inputs[0] == op->inputs[i];
            if (read->producer >= 0 && !is_made[op->inputs[i]])
                return json_fail(object, r->err, "%s is read before it is made", read->name);
            if (!is_input || is_known) continue;
            if (block->input_count == 1)
                return json_fail(object, r->err, "a second input, %s", read->name);
            block->inputs[block->input_count++] = op->inputs[i];
        }
        for (int i = 0; i < op->output_count; i++)
            is_made[op->outputs[i]] = true;
    }
    block->outputs[0] = find_tensor(r, output);
    block->output_count = 1;
    if (block->outputs[0] >= 0 && is_made[block->outputs[0]]) return true;
    return json_fail(object, r->err, "its output is made by no operator");
}

static bool read_block(struct reading *r, const struct json *object, struct block *block)
{
    struct block_text text = {0};
    json_read(object, BLOCK_FIELDS, &text, r->err);
    if (r->err->kind) return false;
    r->builder = builder_new(r->arena, arena_copy(r->arena, text.name), BLOCK_LAYER);
    if (!each(r, object, "tensors", read_tensor) || !each(r, object, "operators", read_operator) ||
        !finish_block(r, object, text.output))
        return false;
    *block = *r->builder.block;
    return true;
}

// The first and the last block are there once; what one hands on has the shape that the next reads.
static bool check_sequence(const struct graph *graph, const struct json *list, struct err *err)
{
    int last = graph->sequence_count - 1;
    for (int i = 0; i <= last; i++) {
        const struct block *block = &graph->blocks[graph->sequence[i]];
        bool is_end = i == 0 || i == last;
        for (int j = 0; j <= last && is_end; j++) {
            if (j != i && graph->sequence[j] == graph->sequence[i])
                return json_fail(list, err, "its first or last block is there twice");
        }
        if ((i == 0) != (block->input_count == 0))
            return json_fail(list, err, "the first block alone reads no other");
        if (i == 0) continue;
        const struct block *before = &graph->blocks[graph->sequence[i - 1]];
        const struct tensor *from = &before->tensors[before->outputs[0]];
        const struct tensor *to = &block->tensors[block->inputs[0]];
        if (tensor_elements(from, 1, 1) != tensor_elements(to, 1, 1))
            return json_fail(list, err, "block %d reads another size than it is handed", i);
    }
    const struct block *head = &graph->blocks[graph->sequence[last]];
    if (head->ops[head->op_count - 1].kind == OP_LOSS) return true;
    return json_fail(list, err, "the last block does not end in a loss");
}

static bool read_sequence(struct family_reader *reader, struct graph *graph)
{
    struct json list = json_get(reader->object, "sequence", reader->err);
    int count = json_count(&list, reader->err);
    if (reader->err->kind) return false;
    if (!json_is_array(&list) || count < 3 || count > LAYERS_MAX)
        return json_fail(&list, reader->err, "3 to %d blocks are wanted", LAYERS_MAX);
    graph->sequence = ARENA_NEW(reader->arena, int, count);
    for (int i = 0; i < count && !reader->err->kind; i++) {
        struct json item = json_item(&list, i);
        graph->sequence[i] = (int)json_i64(&item, 0, graph->block_count - 1, reader->err);
    }
    graph->sequence_count = count;
    graph->layer_count = count - 2;
    return !reader->err->kind && check_sequence(graph, &list, reader->err);
}

static const void *read_operators(struct family_reader *reader)
{
    struct operators *imported = ARENA_NEW(reader->arena, struct operators, 1);
    struct graph *graph = imported->graph = ARENA_NEW(reader->arena, struct graph, 1);
    struct reading r = {.arena = reader->arena, .err = reader->err};
    json_read(reader->object, FIELDS, imported, reader->err);
    if (reader->err->kind) return NULL;
    struct json blocks = json_get(reader->object, "blocks", reader->err);
    int count = json_count(&blocks, reader->err);
    if (!reader->err->kind && (!json_is_array(&blocks) || count < 1 || count > KINDS_MAX))
        json_fail(&blocks, reader->err, "a list of 1 to %d blocks is wanted", KINDS_MAX);
    graph->blocks = ARENA_NEW(reader->arena, struct block, count);
    for (int b = 0; b < count && !reader->err->kind; b++) {
        struct json object = json_item(&blocks, b);
        if (!read_block(&r, &object, &graph->blocks[b])) return NULL;
    }
    graph->block_count = count;
    if (reader->err->kind || !read_sequence(reader, graph)) return NULL;
    reader->ledger->remark =
        "priced operator by operator; no run of such a model was measured, and "
        "the bands are those of transformers";
    graph->blocks[graph->sequence[0]].role = BLOCK_EMBEDDING;
    graph->blocks[graph->sequence[graph->sequence_count - 1]].role = BLOCK_HEAD;
    return imported;
}

static struct graph *build_operators(struct arena *arena, const void *fields,
                                     const struct import_options *options)
{
    (void)options;
    const struct operators *imported = fields;
    struct graph *graph = ARENA_NEW(arena, struct graph, 1);
    *graph = *imported->graph;
    const struct block *first = &graph->blocks[graph->sequence[0]];
    assert(graph->sequence_count >= 3 && first->output_count == 1);
    graph->model_type = "operators";
    graph->hidden = tensor_elements(&first->tensors[first->outputs[0]], 1, 1);
    assert(graph->hidden > 0);
    graph->head_count = graph->kv_head_count = graph->head_dim = graph->ffn = 1;
    graph->vocab = graph->vocab_padded = imported->classes;
    graph->seq_len_max = 1;
    graph->parameter_count = graph_parameter_count(graph);
    graph->active_parameter_count = graph_active_parameter_count(graph);
    return graph;
}

const struct model_family FAMILY_OPERATORS = {"operators", read_operators, build_operators,
                                              "models/onnx"};
