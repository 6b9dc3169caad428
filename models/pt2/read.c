#include "models/pt2.h"

#include "core/gzip.h"
#include "core/names.h"
#include "core/zip.h"
#include "models/onnx/read.h"
#include "models/pt2/rules.h"

#include <assert.h>
#include <string.h>

// The text of a graph: as much as a document may have.
static const size_t TEXT_BYTES_MOST = (size_t)64 << 20;

static bool open_document(struct arena *arena, const char *path, const char *bytes,
                          size_t byte_count, struct json_document *document, struct err *err)
{
    const struct zip archive = {.bytes = bytes, .size = (int64_t)byte_count};
    struct zip member;
    if (!zip_find_in(&archive, "/models/", ".json", &member) &&
        !zip_find(&archive, "serialized_exported_program.json", &member)) {
        return err_set(err, ERR_INPUT,
                       "%s: a zip, but no program of torch.export: there is neither "
                       "models/NAME.json nor serialized_exported_program.json in it",
                       path);
    }
    size_t text_bytes = (size_t)member.size;
    const char *text = member.bytes;
    if (member.method == ZIP_DEFLATED) {
        text = gzip_unpack_bare(arena, path, member.bytes, (size_t)member.size, TEXT_BYTES_MOST,
                                &text_bytes, err);
    } else if (member.method != ZIP_STORED) {
        err_set(err, ERR_INPUT, "%s: its graph is packed by method %d, which we do not know", path,
                member.method);
    }
    return !err->kind && json_parse(arena, path, text, text_bytes, document, err);
}

static int value_new(struct pt2_program *program, const struct draft_value *value)
{
    assert(names_find(&program->names, value->name) < 0);
    int index = program->value_count++;
    program->values[index] = *value;
    names_put(program->arena, &program->names, value->name, index);
    return index;
}

// {"dtype": 7, "sizes": [{"as_int": 4}, {"as_expr": {"expr_str": "s0", "hint": {"as_int": 2}}}]}
static bool read_size(struct pt2_program *program, const struct json *size, int64_t *found)
{
    struct json value = json_item(size, 0);
    if (json_is_object(&value)) {
        struct json hint = json_find(&value, "hint");
        if (!json_is_object(&hint) || json_member_count(&hint, program->err) < 1)
            return json_fail(size, program->err, "a dimension without value or example");
        struct json number = json_item(&hint, 0);
        *found = json_i64(&number, 0, 1e15, program->err);
    } else {
        *found = json_i64(&value, 0, 1e15, program->err);
    }
    return !program->err->kind;
}

static bool read_value(struct pt2_program *program, const struct json *object)
{
    struct err *err = program->err;
    struct json dtype = json_get(object, "dtype", err), sizes = json_get(object, "sizes", err);
    struct draft_value value = {.name = arena_copy(program->arena, json_key(object))};
    int64_t number = json_i64(&dtype, 0, 1000, err);
    value.rank = json_count(&sizes, err);
    if (err->kind) return false;
    value.element = pt2_element(number);
    if (!value.element)
        return json_fail(&dtype, err, "an element type (%lld) that we do not know",
                         (long long)number);
    if (value.rank > RANK_MOST)
        return json_fail(&sizes, err, "%d dimensions, at most %d are wanted", value.rank,
                         RANK_MOST);
    int64_t *dims = ARENA_NEW(program->arena, int64_t, value.rank);
    for (int i = 0; i < value.rank; i++) {
        struct json size = json_item(&sizes, i);
        if (json_member_count(&size, err) < 1) return json_fail(&size, err, "a size is wanted");
        if (!read_size(program, &size, &dims[i])) return false;
    }
    value.dims = dims;
    if (!element_fits(value.element, value.rank, dims))
        return json_fail(&sizes, err, "a tensor of more than 2^50 bytes");
    if (names_find(&program->names, value.name) >= 0)
        return json_fail(object, err, "a tensor that is there twice");
    value_new(program, &value);
    return true;
}

static struct draft_value *value_of(struct pt2_program *program, const struct json *named)
{
    struct json text = json_get(named, "name", program->err);
    const char *name = json_text(&text, program->err);
    int index = name ? names_find(&program->names, name) : -1;
    if (index >= 0) return &program->values[index];
    if (name) json_fail(&text, program->err, "nothing is said of this tensor");
    return NULL;
}

// {"parameter": {"arg": {"name": "p_w"}, ...}}, {"buffer": ...}, {"user_input": {"arg":
// {"as_tensor": {"name": "x"}}}}: numbers among the inputs are no tensors and read by nobody.
static bool read_input(struct pt2_program *program, const struct json *spec)
{
    struct json body = json_item(spec, 0), arg = json_find(&body, "arg");
    const char *kind = json_key(&body);
    bool is_input = strcmp(kind, "user_input") == 0, is_weight = strcmp(kind, "parameter") == 0;
    bool is_tensor = is_input || is_weight || strcmp(kind, "buffer") == 0 ||
                     strcmp(kind, "tensor_constant") == 0;
    if (!is_tensor || !json_is_object(&arg) || json_member_count(&arg, program->err) < 1)
        return true;
    struct json inner = json_item(&arg, 0);
    if (is_input && strcmp(json_key(&inner), "as_tensor") != 0) return true;
    struct draft_value *value = value_of(program, is_input ? &inner : &arg);
    if (!value) return false;
    value->is_fixed = !is_input && !is_weight;
    if (is_input) {
        draft_input(&program->draft, value);
    } else if (is_weight) {
        draft_weight(&program->draft, value);
    } else {
        draft_unknown(&program->draft, value);
    }
    return true;
}

static bool read_output(struct pt2_program *program, const struct json *spec)
{
    struct json body = json_item(spec, 0), arg = json_find(&body, "arg");
    bool is_answer = strcmp(json_key(&body), "user_output") == 0;
    bool is_loss = strcmp(json_key(&body), "loss_output") == 0;
    if ((!is_answer && !is_loss) || !json_is_object(&arg) ||
        json_member_count(&arg, program->err) < 1)
        return true;
    struct json inner = json_item(&arg, 0);
    if (is_answer && strcmp(json_key(&inner), "as_tensor") != 0) return true;
    const struct draft_value *value = value_of(program, is_answer ? &inner : &arg);
    if (!value) return false;
    draft_output(&program->draft, value);
    return true;
}

static bool each(struct pt2_program *program, const struct json *object, const char *key,
                 bool (*read)(struct pt2_program *program, const struct json *item))
{
    struct json list = json_get(object, key, program->err);
    int count = json_count(&list, program->err);
    for (int i = 0; i < count && !program->err->kind; i++) {
        struct json item = json_item(&list, i);
        bool is_wanted = json_is_object(&item) && json_member_count(&item, program->err) > 0;
        if (!is_wanted) return json_fail(&item, program->err, "an object with members is wanted");
        if (!read(program, &item)) return false;
    }
    return !program->err->kind;
}

// Whether the argument names a tensor that inputs or parameters go into.
static bool is_moving(struct pt2_program *program, const struct json *argument)
{
    struct json value = json_item(argument, 0);
    const char *kind = json_key(&value);
    bool is_optional = strcmp(kind, "as_optional_tensors") == 0;
    bool is_list = strcmp(kind, "as_tensors") == 0 || is_optional;
    if (!is_list && strcmp(kind, "as_tensor") != 0) return false;
    int count = is_list ? json_count(&value, program->err) : 1;
    for (int i = 0; i < count && !program->err->kind; i++) {
        struct json item = is_list ? json_item(&value, i) : value, named = item;
        if (is_optional) {
            if (!json_is_object(&item) || json_member_count(&item, program->err) < 1) continue;
            named = json_item(&item, 0);
            if (strcmp(json_key(&named), "as_tensor") != 0) continue;
        }
        const struct draft_value *found = value_of(program, &named);
        if (found && !found->is_fixed) return true;
    }
    return false;
}

static bool read_results(struct pt2_node *node, const struct json *outputs)
{
    struct pt2_program *program = node->program;
    int count = json_count(outputs, program->err);
    struct json list = *outputs, first = count ? json_item(outputs, 0) : list, inner = list;
    if (count && json_is_object(&first) && json_member_count(&first, program->err) > 0)
        inner = json_item(&first, 0);
    bool is_list = count == 1 && json_is_array(&inner) && inner.parent == &first &&
                   strcmp(json_key(&inner), "as_tensors") == 0;
    if (is_list) {
        list = inner;
        count = json_count(&list, program->err);
    }
    node->outputs = ARENA_NEW(program->arena, const struct draft_value *, count + 1);
    for (int i = 0; i < count && !program->err->kind; i++) {
        struct json item = json_item(&list, i), named = item;
        if (!json_is_object(&item) || json_member_count(&item, program->err) < 1)
            return json_fail(&item, program->err, "a result is wanted");
        if (!is_list) named = json_item(&item, 0);
        bool is_tensor = is_list || strcmp(json_key(&named), "as_tensor") == 0;
        if (is_tensor) node->outputs[node->output_count] = value_of(program, &named);
        node->output_count += is_tensor;
    }
    return !program->err->kind;
}

// True and `moves` set: whether it depends on inputs or parameters.
static bool read_arguments(struct pt2_node *node, const struct json *inputs, bool *moves)
{
    struct pt2_program *program = node->program;
    int count = json_count(inputs, program->err);
    if (count > PT2_ARGUMENTS_MOST)
        return pt2_fail(node, "%d arguments, at most %d are wanted", count, PT2_ARGUMENTS_MOST);
    for (int i = 0; i < count && !program->err->kind; i++) {
        struct json input = json_item(inputs, i), name = json_get(&input, "name", program->err);
        struct json argument = json_get(&input, "arg", program->err);
        const char *text = json_text(&name, program->err);
        if (program->err->kind) return false;
        if (!json_is_object(&argument) || json_member_count(&argument, program->err) < 1)
            return json_fail(&argument, program->err, "an argument is wanted");
        // Cursors point at the ones that they came from, which end with this loop.
        struct json *kept = ARENA_NEW(program->arena, struct json, 1);
        *kept = input;
        argument.parent = kept;
        node->inputs[i] = argument;
        node->input_names[i] = text;
        node->input_count = i + 1;
        *moves = *moves || is_moving(program, &node->inputs[i]);
    }
    return !program->err->kind;
}

// Arguments that change no number: where and how it is computed, what only training keeps, and what
// the stated result says as well.
static const char IDLE[] = "dtype layout device pin_memory memory_format non_blocking copy "
                           "generator half_to_float cudnn_enable cudnn_enabled benchmark "
                           "deterministic allow_tf32 momentum training N C HxW output_size keepdim "
                           "enable_gqa return_debug_mask compute_log_sumexp threshold";

// What a rule did not ask for is in none of the nodes that it made, of which `first` is the first.
static void note_unread(const struct pt2_node *node, int first)
{
    bool is_rough = node->is_rough;
    for (int i = 0; i < node->input_count; i++) {
        struct json value = json_item(&node->inputs[i], 0);
        bool is_said = !node->was_read[i] && strcmp(json_key(&value), "as_none") != 0;
        is_rough = is_rough || (is_said && !names_hold(IDLE, node->input_names[i]));
    }
    for (int n = first; is_rough && n < node->draft->node_count; n++)
        draft_put_int(node->draft, node->draft->nodes[n], DRAFT_ROUGH, 1);
}

static bool read_node(struct pt2_program *program, const struct json *object)
{
    struct err *err = program->err;
    struct json target = json_get(object, "target", err);
    struct json inputs = json_get(object, "inputs", err),
                outputs = json_get(object, "outputs", err);
    bool moves = false, was_read[PT2_ARGUMENTS_MOST] = {false};
    struct pt2_node node = {.program = program, .draft = &program->draft, .was_read = was_read};
    node.target = json_text(&target, err);
    if (err->kind) return false;
    node.name = node.target;
    if (!read_results(&node, &outputs)) return false;
    if (node.output_count && node.outputs[0]) node.name = node.outputs[0]->name;
    program->draft.name = node.name;
    if (!read_arguments(&node, &inputs, &moves)) return false;
    if (node.output_count == 0) return true;  // an assertion, or a size
    const struct pt2_rule *rule = pt2_rule_find(program->arena, node.target);
    if (moves && !rule) return pt2_fail(&node, "an operator that we do not know");
    if (moves) {
        int first = program->draft.node_count;
        if (!rule->make(&node, rule->type) || err->kind) return false;
        note_unread(&node, first);
        int index = node.outputs[0] ? names_find(&program->names, node.outputs[0]->name) : -1;
        if (index >= 0) pt2_know_made(&node, &program->values[index]);
        return !err->kind;
    }
    for (int i = 0; i < node.output_count; i++) {
        assert(node.outputs[i]);  // read_results has found them
        int index = names_find(&program->names, node.outputs[i]->name);
        program->values[index].is_fixed = true;
        pt2_know_drawn(&node, &program->values[index]);
        draft_unknown(&program->draft, &program->values[index]);
    }
    return true;
}

static bool read_values(struct pt2_program *program, const struct json *graph)
{
    struct json values = json_get(graph, "tensor_values", program->err);
    int count = json_member_count(&values, program->err);
    program->values = ARENA_NEW(program->arena, struct draft_value, count);
    for (int i = 0; i < count && !program->err->kind; i++) {
        struct json value = json_item(&values, i);
        read_value(program, &value);
    }
    return !program->err->kind;
}

static bool convert(struct pt2_program *program, const struct json *root)
{
    struct err *err = program->err;
    struct json module = json_get(root, "graph_module", err);
    struct json graph = json_get(&module, "graph", err);
    struct json signature = json_get(&module, "signature", err);
    return !err->kind && read_values(program, &graph) &&
           each(program, &signature, "input_specs", read_input) &&
           each(program, &graph, "nodes", read_node) &&
           each(program, &signature, "output_specs", read_output);
}

struct onnx_graph *pt2_read(struct arena *arena, const char *path, const char *bytes,
                            size_t byte_count, const struct onnx_options *options, struct err *err)
{
    struct arena reading = {0};
    struct json_document document;
    struct onnx_graph *result = NULL;
    struct pt2_program program = {
        .arena = &reading, .draft = {.arena = &reading}, .path = path, .err = err};
    if (open_document(&reading, path, bytes, byte_count, &document, err)) {
        struct json root = json_root(&document);
        if (convert(&program, &root))
            result = draft_read(arena, path, &program.draft, "torch.export", options, err);
    }
    arena_free(&reading);
    return result;
}
