#include "models/onnx/blocks.h"

#include "models/onnx/blocks_graph.h"
#include "models/onnx/model.h"
#include "models/onnx/names.h"

#include <math.h>
#include <string.h>

struct segment {
    const struct blocks_graph *b;
    struct json_writer *writer;
    int first, last;  // operators, both included
    int *names_of;    // of a tensor: its number in this segment, or -1 between segments
    int *named;       // the tensors that have one, so that a segment costs no more than it holds
    int name_count;
    bool is_plain;  // numbers in place of names, so that segments compare
};

static const char *name_of(struct segment *s, int tensor)
{
    if (s->names_of[tensor] < 0) {
        s->named[s->name_count] = tensor;
        s->names_of[tensor] = s->name_count++;
    }
    struct arena *arena = s->b->arena;
    if (s->is_plain) return arena_print(arena, "t%d", s->names_of[tensor]);
    return s->b->graph->tensors[tensor].name;
}

// Whole numbers are as wide as they are in the file, whatever the precision of the plan.
static const char *element_of(const struct onnx_tensor *tensor, bool is_first)
{
    if (tensor->element_bytes == 1) return "byte";
    if (tensor->element_bytes == 8) return "int64";
    if (tensor->is_whole && tensor->element_bytes == 4) return "fp32";
    return is_first || tensor->element_bytes == 2 ? "compute" : "fp32";
}

// Names and sizes of dimensions, side by side.
struct dims {
    struct json_writer names, sizes;
};

static struct dims open_dims(const struct segment *s)
{
    struct dims dims = {.names = {.arena = s->b->arena}, .sizes = {.arena = s->b->arena}};
    json_open_flat(&dims.names, NULL, '[');
    json_open_flat(&dims.sizes, NULL, '[');
    return dims;
}

static void put_dim(struct dims *dims, const char *name, int64_t size)
{
    json_put_text(&dims->names, NULL, name);
    json_put_i64(&dims->sizes, NULL, size);
}

static bool close_list(const struct segment *s, const char *key, struct json_writer *list)
{
    struct json_document document;
    struct err fault = {0};
    json_close(list, ']');
    if (!json_parse(s->b->arena, key, list->text, list->length, &document, &fault)) return false;
    struct json root = json_root(&document);
    json_put_copy(s->writer, key, &root);
    return true;
}

static bool close_dims(const struct segment *s, struct dims *dims)
{
    return close_list(s, "dims", &dims->names) && close_list(s, "sizes", &dims->sizes);
}

// What scores have a distribution over the classes for: each place of an image, or the one position
// of a sample.
static void put_answer_dims(const struct blocks_graph *b, struct dims *dims)
{
    const struct onnx_tensor *logits = &b->graph->tensors[b->scores];
    if (logits->rank == 3) {
        put_dim(dims, "width", logits->dims[1]);
    } else if (blocks_has_places(b)) {
        if (logits->rank == 5) put_dim(dims, "depth", logits->dims[2]);
        put_dim(dims, "height", logits->dims[logits->rank - 2]);
        put_dim(dims, "width", logits->dims[logits->rank - 1]);
    } else {
        put_dim(dims, "seq", 0);
    }
}

// The classes of what is added to the scores have the name that those have there.
static bool is_answer_bias(const struct blocks_graph *b, int tensor)
{
    int maker = b->maker[b->logits];
    return maker >= 0 && b->operators[maker].bias == tensor;
}

// Names of dimensions by place, as images have them: batch, channel, depth, height, width.
static bool put_dims(struct segment *s, const struct onnx_tensor *tensor, bool has_batch,
                     bool is_weight, bool is_logits)
{
    static const char *const PLACES[4][4] = {{"channel"},
                                             {"channel", "width"},
                                             {"channel", "height", "width"},
                                             {"channel", "depth", "height", "width"}};
    int place = has_batch ? blocks_batch_dim(s->b, (int)(tensor - s->b->graph->tensors)) : -1;
    int64_t repeats = place >= 0 ? tensor->dims[place] / s->b->batch : 1, sizes[RANK_MOST];
    struct dims dims = open_dims(s);
    int rank = 0;
    for (int i = 0; i < tensor->rank; i++)
        if (i != place) sizes[rank++] = tensor->dims[i];
    if (place >= 0) put_dim(&dims, "batch", 0);
    if (repeats > 1) put_dim(&dims, "table", repeats);
    if (is_logits) {
        put_answer_dims(s->b, &dims);
        put_dim(&dims, "vocab", blocks_classes(s->b));
    } else if (is_weight && rank == 1 &&
               is_answer_bias(s->b, (int)(tensor - s->b->graph->tensors))) {
        put_dim(&dims, "vocab", tensor->dims[0]);
    } else if (is_weight && rank >= 2) {
        int64_t taps = 1;
        for (int i = 2; i < rank; i++)
            taps *= tensor->dims[i];
        put_dim(&dims, "out_channel", tensor->dims[0]);
        put_dim(&dims, "channel", tensor->dims[1]);
        if (rank > 2) put_dim(&dims, "tap", taps);
    } else {
        // What has more dimensions is split along none of them: the last are one.
        int named = rank < 4 ? rank : 4;
        for (int i = 0; i < named; i++) {
            for (int j = named; j < rank && i == named - 1; j++)
                sizes[i] *= sizes[j];
            put_dim(&dims, PLACES[named - 1][i], sizes[i]);
        }
    }
    return close_dims(s, &dims);
}

// `kind` of what is written beside the outputs of an operator: its saved statistics.
static bool put_tensor(struct segment *s, int tensor, const struct blocks_operator *maker)
{
    const struct onnx_tensor *t = &s->b->graph->tensors[tensor];
    bool is_weight = s->b->is_trained[tensor];
    bool is_data = t->role == ONNX_INPUT || s->b->is_data[tensor];
    bool is_main = !maker || tensor == maker->node->outputs[0];
    const struct onnx_tensor *main = maker ? &s->b->graph->tensors[maker->node->outputs[0]] : t;
    bool has_batch = !is_weight && (is_main || (t->rank > 1 && t->dims[0] == main->dims[0]));
    json_open_flat(s->writer, NULL, '{');
    json_put_text(s->writer, "name", name_of(s, tensor));
    json_put_text(s->writer, "role", is_weight ? "parameter" : is_data ? "data" : "activation");
    json_put_text(s->writer, "element", element_of(t, is_main));
    if (is_weight && s->b->is_tied[tensor]) json_put_text(s->writer, "tie", t->name);
    if (!put_dims(s, t, has_batch, is_weight, tensor == s->b->logits)) return false;
    json_close(s->writer, '}');
    return true;
}

// Labels and losses: one for each distribution over the classes.
static bool put_answers(struct segment *s, const char *name, const char *role, const char *element)
{
    struct dims dims = open_dims(s);
    put_dim(&dims, "batch", 0);
    put_answer_dims(s->b, &dims);
    json_open_flat(s->writer, NULL, '{');
    json_put_text(s->writer, "name", name);
    json_put_text(s->writer, "role", role);
    json_put_text(s->writer, "element", element);
    if (!close_dims(s, &dims)) return false;
    json_close(s->writer, '}');
    return true;
}

// Of a product with a bias: what it makes before the bias is added.
static const char *unbiased(struct segment *s, const struct blocks_operator *op)
{
    return arena_print(s->b->arena, "%s.product", name_of(s, op->node->outputs[0]));
}

static bool put_tensors(struct segment *s)
{
    const struct blocks_graph *b = s->b;
    for (int at = s->first; at <= s->last; at++) {
        const struct blocks_operator *op = &b->operators[at];
        if (op->kind == BLOCKS_LOSS) {
            if (s->names_of[op->inputs[0]] < 0) return false;
            if (!put_answers(s, "labels", "data", "int64") ||
                !put_answers(s, "loss", "activation", "fp32") ||
                !put_answers(s, "loss.lse", "activation", "fp32"))
                return false;
            continue;
        }
        for (int i = 0; i <= op->input_count; i++) {
            int tensor = i < op->input_count ? op->inputs[i] : op->bias;
            if (tensor < 0 || s->names_of[tensor] >= 0) continue;
            if (!put_tensor(s, tensor, NULL))
                return blocks_fail(b, op->node, "a tensor of more than 5 dimensions");
        }
        for (int o = 0; o < op->node->output_count; o++)
            if (!put_tensor(s, op->node->outputs[o], op))
                return blocks_fail(b, op->node, "a tensor of more than 5 dimensions");
        if (op->bias < 0) continue;
        json_open_flat(s->writer, NULL, '{');
        json_put_text(s->writer, "name", unbiased(s, op));
        json_put_text(s->writer, "role", "activation");
        json_put_text(s->writer, "element", "compute");
        int y = op->node->outputs[0];
        if (!put_dims(s, &b->graph->tensors[y], true, false, y == b->logits)) return false;
        json_close(s->writer, '}');
    }
    return true;
}

static void put_list(struct segment *s, const char *key, const char *const *names, int count)
{
    json_open(s->writer, key, '[');
    for (int i = 0; i < count; i++)
        json_put_text(s->writer, NULL, names[i]);
    json_close(s->writer, ']');
}

// Whole is what is not said.
static void put_places(struct json_writer *writer, const struct blocks_operator *op)
{
    if (op->places != PLACES_WHOLE) json_put_text(writer, "places", places_name(op->places));
    if (op->places != PLACES_WINDOW && op->places != PLACES_TURNED) return;
    json_open(writer, "windows", '[');
    for (int d = 0; d < WINDOW_DIMS; d++) {
        const struct window *window = &op->node->windows[d];
        json_open_flat(writer, NULL, '{');
        json_put_i64(writer, "taps", window->taps);
        json_put_i64(writer, "stride", window->stride);
        json_put_i64(writer, "dilation", window->dilation);
        json_put_i64(writer, "pad", window->pad);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

static void put_kernel(struct segment *s, const struct blocks_operator *op)
{
    if (!op->kernel) return;
    json_put_text(s->writer, "type", op->kernel);
    if (isfinite(op->node->scalar) && op->node->scalar != 0)
        json_put_f64(s->writer, "scalar", op->node->scalar);
    if (op->strided) strided_write(s->writer, "strided", op->strided);
}

static void put_operator(struct segment *s, const struct blocks_operator *op)
{
    static const char *const KINDS[] = {"product", "operator", "add", "loss"};
    const char *names[16];
    const char *output = name_of(s, op->node->outputs[0]);
    const char *name = s->is_plain ? output : op->node->name;
    json_open_flat(s->writer, NULL, '{');
    json_put_text(s->writer, "name", name);
    json_put_text(s->writer, "kind", KINDS[op->kind]);
    for (int i = 0; i < op->input_count; i++)
        names[i] = op->kind == BLOCKS_LOSS && i ? "labels" : name_of(s, op->inputs[i]);
    put_list(s, "inputs", names, op->input_count);
    for (int i = 0; i < op->node->output_count && i < 4; i++)
        names[i] = name_of(s, op->node->outputs[i]);
    if (op->bias >= 0) names[0] = unbiased(s, op);
    if (op->kind == BLOCKS_LOSS) {
        names[0] = "loss";
        names[1] = "loss.lse";
    }
    put_list(s, "outputs", names, op->kind == BLOCKS_LOSS ? 2 : op->node->output_count);
    if (op->kind == BLOCKS_PRODUCT) {
        json_put_i64(s->writer, "groups", op->groups);
        json_put_i64(s->writer, "rows", op->rows);
        json_put_i64(s->writer, "columns", op->columns);
        json_put_i64(s->writer, "depth", op->depth);
    } else if (op->kind == BLOCKS_OPERATOR) {
        json_put_i64(s->writer, "kept", op->kept);
        json_put_f64(s->writer, "flop", op->flop);
        json_put_f64(s->writer, "backward_flop", op->backward_flop);
        if (op->multiplies) json_put_bool(s->writer, "multiplies", true);
    }
    put_places(s->writer, op);
    put_kernel(s, op);
    json_close(s->writer, '}');
    if (op->bias < 0) return;
    const char *const terms[] = {unbiased(s, op), name_of(s, op->bias)};
    json_open_flat(s->writer, NULL, '{');
    json_put_text(s->writer, "name", arena_print(s->b->arena, "%s.bias", name));
    json_put_text(s->writer, "kind", "add");
    put_list(s, "inputs", terms, 2);
    put_list(s, "outputs", &output, 1);
    json_close(s->writer, '}');
}

static struct segment segment_new(const struct blocks_graph *b)
{
    struct segment s = {.b = b};
    s.names_of = ARENA_NEW(b->arena, int, b->graph->tensor_count);
    s.named = ARENA_NEW(b->arena, int, b->graph->tensor_count);
    for (int t = 0; t < b->graph->tensor_count; t++)
        s.names_of[t] = -1;
    return s;
}

static const char *block_text(const struct segment *whole, int first, int last, bool is_plain,
                              const char *name)
{
    const struct blocks_graph *b = whole->b;
    struct json_writer writer = {.arena = b->arena};
    struct segment s = *whole;
    s.writer = &writer;
    s.first = first;
    s.last = last;
    s.is_plain = is_plain;
    const struct blocks_operator *end = &b->operators[last];
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "name", name);
    json_open(&writer, "tensors", '[');
    if (!put_tensors(&s)) return NULL;
    json_close(&writer, ']');
    json_open(&writer, "operators", '[');
    for (int at = first; at <= last; at++)
        put_operator(&s, &b->operators[at]);
    json_close(&writer, ']');
    json_put_text(&writer, "output",
                  end->kind == BLOCKS_LOSS ? "loss" : name_of(&s, end->node->outputs[0]));
    json_close(&writer, '}');
    for (int i = 0; i < s.name_count; i++)
        s.names_of[s.named[i]] = -1;
    return writer.text;
}

static bool put_blocks(struct blocks_graph *b, const bool *is_cut, struct json_writer *writer,
                       int *sequence, int *count)
{
    struct names known = {0};
    struct segment whole = segment_new(b);
    int first = 0, kinds = 0;
    for (int at = 0; at < b->operator_count; at++) {
        if (!is_cut[at] && at + 1 < b->operator_count) continue;
        const char *plain = block_text(&whole, first, at, true, "block");
        if (!plain)
            return b->err->kind ? false
                                : blocks_fail(b, b->operators[first].node,
                                              "its dimensions are not those of images");
        int kind = names_find(&known, plain);
        if (kind < 0 && kinds == BLOCKS_KINDS_MOST) return false;
        if (kind < 0) {
            kind = kinds++;
            names_put(b->arena, &known, plain, kind);
            const char *name = arena_print(b->arena, "block%d", kind);
            const char *text = block_text(&whole, first, at, false, name);
            struct json_document document;
            if (!text || !json_parse(b->arena, b->path, text, strlen(text), &document, b->err))
                return false;
            struct json root = json_root(&document);
            json_put_copy(writer, NULL, &root);
        }
        sequence[(*count)++] = kind;
        first = at + 1;
    }
    return true;
}

// NULL without an error where the blocks are of too many kinds.
static const char *put_config(struct blocks_graph *b, struct arena *arena, const bool *is_cut,
                              int cuts)
{
    struct json_writer writer = {.arena = arena};
    int *sequence = ARENA_NEW(b->arena, int, cuts + 1), count = 0;
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "model_type", "operators");
    json_put_i64(&writer, "classes", blocks_classes(b));
    json_open(&writer, "blocks", '[');
    if (!put_blocks(b, is_cut, &writer, sequence, &count)) return NULL;
    json_close(&writer, ']');
    json_put_ints(&writer, "sequence", sequence, count);
    json_close(&writer, '}');
    return writer.text;
}

const char *onnx_blocks(struct arena *arena, const char *path, const struct onnx_graph *graph,
                        struct err *err)
{
    struct arena reading = {0};
    struct blocks_graph b = {.arena = &reading, .path = path, .err = err};
    const char *text = NULL;
    int cuts = 0;
    b.graph = blocks_widen(&reading, graph);
    if (!blocks_read(&b)) goto done;
    bool *is_cut = blocks_cut(&b, &cuts);
    if (cuts < 2) {
        err_set(err, ERR_INPUT,
                "%s: there are no two places where one activation alone goes on, and no weight is "
                "read on both sides but by the first and the last block",
                path);
        goto done;
    }
    text = put_config(&b, arena, is_cut, cuts);
    while (!text && !err->kind) {
        blocks_join(&b, is_cut, &cuts);
        text = put_config(&b, arena, is_cut, cuts);
    }
done:
    arena_free(&reading);
    return text;
}

bool onnx_reads_tokens(const struct onnx_graph *graph)
{
    for (int t = 0; t < graph->tensor_count; t++) {
        const struct onnx_tensor *tensor = &graph->tensors[t];
        bool is_labels = strcmp(tensor->name, "labels") == 0;
        if (tensor->role == ONNX_INPUT && !tensor->is_whole && !is_labels) return false;
    }
    return true;
}
