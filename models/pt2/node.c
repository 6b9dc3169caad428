#include "models/pt2/node.h"

#include <float.h>
#include <math.h>
#include <string.h>

bool pt2_fail(const struct pt2_node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprint(node->program->arena, format, args);
    va_end(args);
    return err_set(node->program->err, ERR_INPUT, "%s: node %.200s (%.100s): %s",
                   node->program->path, node->name, node->target, text);
}

// The value of an argument and what it is called: {"as_int": 3}. False where it is not there.
static bool argument(const struct pt2_node *node, const char *name, struct json *value,
                     const char **kind)
{
    for (int i = 0; i < node->input_count; i++) {
        if (strcmp(node->input_names[i], name) != 0) continue;
        *value = json_item(&node->inputs[i], 0);
        *kind = json_key(value);
        return strcmp(*kind, "as_none") != 0;
    }
    return false;
}

bool pt2_has(const struct pt2_node *node, const char *name)
{
    struct json value;
    const char *kind;
    return argument(node, name, &value, &kind);
}

static const struct pt2_value *find(const struct pt2_node *node, const struct json *object)
{
    struct pt2_program *program = node->program;
    struct json text = json_get(object, "name", program->err);
    const char *name = json_text(&text, program->err);
    int index = name ? names_find(&program->names, name) : -1;
    if (index >= 0) return &program->values[index];
    if (name) pt2_fail(node, "%.200s is read, but nothing is said of it", name);
    return NULL;
}

const struct pt2_value *pt2_tensor(const struct pt2_node *node, const char *name)
{
    struct json value;
    const char *kind;
    if (!argument(node, name, &value, &kind)) return NULL;
    if (strcmp(kind, "as_tensor") == 0) return find(node, &value);
    pt2_fail(node, "argument %s is no tensor", name);
    return NULL;
}

const struct pt2_value **pt2_tensors(const struct pt2_node *node, const char *name, int *count)
{
    struct json value;
    const char *kind;
    *count = 0;
    bool is_there = argument(node, name, &value, &kind);
    bool is_optional = is_there && strcmp(kind, "as_optional_tensors") == 0;
    if (!is_there || (!is_optional && strcmp(kind, "as_tensors") != 0)) {
        pt2_fail(node, "argument %s is no list of tensors", name);
        return NULL;
    }
    int wanted = json_count(&value, node->program->err);
    const struct pt2_value **list =
        ARENA_NEW(node->program->arena, const struct pt2_value *, wanted);
    for (int i = 0; i < wanted; i++) {
        struct json item = json_item(&value, i);
        bool is_object = json_is_object(&item) && json_count(&item, node->program->err) > 0;
        struct json named = is_optional && is_object ? json_item(&item, 0) : item;
        bool is_none = is_optional && (!is_object || strcmp(json_key(&named), "as_tensor") != 0);
        if (!is_none && !(list[i] = find(node, &named))) return NULL;
    }
    *count = wanted;
    return list;
}

// What an object holds first ({"as_int": 3}), or what is no object itself.
static struct json inside(const struct json *value)
{
    struct err fault = {0};
    bool holds = json_is_object(value) && json_count(value, &fault) > 0;
    return holds ? json_item(value, 0) : *value;
}

// A number that may be infinite, which JSON has no number for.
static double number_of(const struct pt2_node *node, const struct json *value, const char *kind)
{
    struct err *err = node->program->err;
    if (strcmp(kind, "as_bool") == 0) return json_bool(value, err) ? 1 : 0;
    if (strcmp(kind, "as_sym_int") == 0 || strcmp(kind, "as_sym_float") == 0) {
        struct json inner = inside(value);
        if (json_is_number(&inner)) return json_f64(&inner, -1e300, 1e300, err);
        pt2_fail(node, "%s is computed by the program", kind);
        return 0;
    }
    if (json_is_text(value)) {
        const char *text = json_text(value, err);
        return text && *text == '-' ? -(double)INFINITY : (double)INFINITY;
    }
    return json_f64(value, -DBL_MAX, DBL_MAX, err);
}

double pt2_number(const struct pt2_node *node, const char *name, double fallback)
{
    struct json value;
    const char *kind;
    return argument(node, name, &value, &kind) ? number_of(node, &value, kind) : fallback;
}

static int64_t whole_of(const struct pt2_node *node, const struct json *value)
{
    // The end of a slice is the largest number there is, which a double holds as one more.
    double number = json_f64(value, -1e19, 1e19, node->program->err);
    if (number > 0x1p62) return INT64_C(1) << 62;
    return number < -0x1p62 ? -(INT64_C(1) << 62) : (int64_t)number;
}

int64_t pt2_int(const struct pt2_node *node, const char *name, int64_t fallback)
{
    struct json value;
    const char *kind;
    if (!argument(node, name, &value, &kind)) return fallback;
    struct json inner = inside(&value);
    if (json_is_number(&inner)) return whole_of(node, &inner);
    pt2_fail(node, "argument %s is no whole number that the file holds", name);
    return fallback;
}

bool pt2_bool(const struct pt2_node *node, const char *name, bool fallback)
{
    struct json value;
    const char *kind;
    return argument(node, name, &value, &kind) ? json_bool(&value, node->program->err) : fallback;
}

const char *pt2_text(const struct pt2_node *node, const char *name)
{
    struct json value;
    const char *kind;
    bool is_there = argument(node, name, &value, &kind) && strcmp(kind, "as_string") == 0;
    return is_there ? json_text(&value, node->program->err) : NULL;
}

const int64_t *pt2_ints(const struct pt2_node *node, const char *name, int *count)
{
    struct json value;
    const char *kind;
    *count = 0;
    if (!argument(node, name, &value, &kind)) return NULL;
    bool is_list = json_is_array(&value);
    int wanted = is_list ? json_count(&value, node->program->err) : 1;
    int64_t *ints = ARENA_NEW(node->program->arena, int64_t, wanted);
    for (int i = 0; i < wanted; i++) {
        struct json item = is_list ? json_item(&value, i) : value;
        struct json inner = inside(&item);
        if (!json_is_number(&inner)) {
            pt2_fail(node, "argument %s is no list of whole numbers that the file holds", name);
            return NULL;
        }
        ints[i] = whole_of(node, &inner);
    }
    *count = wanted;
    return ints;
}

int64_t pt2_axis(const struct pt2_node *node, const char *name, int64_t fallback, int rank)
{
    int64_t axis = pt2_int(node, name, fallback);
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < rank) return axis;
    pt2_fail(node, "argument %s is no dimension of a tensor of %d", name, rank);
    return 0;
}

const char *pt2_between(const struct pt2_node *node)
{
    return arena_print(node->program->arena, "%s.part%d", node->name, ++node->program->made_count);
}

const char *pt2_output(const struct pt2_node *node, int i)
{
    const struct pt2_value *value = i < node->output_count ? node->outputs[i] : NULL;
    return value ? value->name : pt2_between(node);
}

static char *text_copy(const struct pt2_program *program, const char *text)
{
    return arena_copy(program->arena, text);
}

static Onnx__NodeProto *node_new(struct pt2_program *program, const char *type, const char *output,
                                 int count, const char *const *inputs)
{
    Onnx__NodeProto *proto = ARENA_NEW(program->arena, Onnx__NodeProto, 1);
    onnx__node_proto__init(proto);
    proto->op_type = text_copy(program, type);
    proto->name = text_copy(program, output);
    proto->input = ARENA_NEW(program->arena, char *, count);
    for (int i = 0; i < count; i++)
        proto->input[i] = text_copy(program, inputs[i] ? inputs[i] : "");
    proto->n_input = (size_t)count;
    proto->output = ARENA_NEW(program->arena, char *, 1);
    proto->output[0] = text_copy(program, output);
    proto->n_output = 1;
    ARENA_GROW(program->arena, program->nodes, program->node_count, program->node_room);
    program->nodes[program->node_count++] = proto;
    return proto;
}

Onnx__NodeProto *pt2_put(const struct pt2_node *node, const char *type, const char *output,
                         int count, const char *const *inputs)
{
    return node_new(node->program, type, output, count, inputs);
}

void pt2_put_output(const struct pt2_node *node, Onnx__NodeProto *proto, const char *output)
{
    char **grown = ARENA_NEW(node->program->arena, char *, proto->n_output + 1);
    memcpy(grown, proto->output, proto->n_output * sizeof *grown);
    grown[proto->n_output++] = text_copy(node->program, output);
    proto->output = grown;
}

static Onnx__AttributeProto *attribute_new(const struct pt2_program *program,
                                           Onnx__NodeProto *proto, const char *name)
{
    Onnx__AttributeProto **grown =
        ARENA_NEW(program->arena, Onnx__AttributeProto *, proto->n_attribute + 1);
    if (proto->n_attribute)
        memcpy(grown, proto->attribute, proto->n_attribute * sizeof(Onnx__AttributeProto *));
    Onnx__AttributeProto *made = ARENA_NEW(program->arena, Onnx__AttributeProto, 1);
    onnx__attribute_proto__init(made);
    made->name = text_copy(program, name);
    grown[proto->n_attribute++] = made;
    proto->attribute = grown;
    return made;
}

void pt2_put_int(const struct pt2_node *node, Onnx__NodeProto *proto, const char *name, int64_t i)
{
    Onnx__AttributeProto *made = attribute_new(node->program, proto, name);
    made->has_i = 1;
    made->i = i;
}

void pt2_put_ints(const struct pt2_node *node, Onnx__NodeProto *proto, const char *name,
                  const int64_t *ints, int count)
{
    Onnx__AttributeProto *made = attribute_new(node->program, proto, name);
    made->ints = ARENA_NEW(node->program->arena, int64_t, count);
    if (count) memcpy(made->ints, ints, (size_t)count * sizeof *ints);
    made->n_ints = (size_t)count;
}

void pt2_put_float(const struct pt2_node *node, Onnx__NodeProto *proto, const char *name,
                   double number)
{
    Onnx__AttributeProto *made = attribute_new(node->program, proto, name);
    made->has_f = 1;
    made->f = (float)number;
}

void pt2_put_text(const struct pt2_node *node, Onnx__NodeProto *proto, const char *name,
                  const char *text)
{
    Onnx__AttributeProto *made = attribute_new(node->program, proto, name);
    made->has_s = 1;
    made->s.data = (uint8_t *)text_copy(node->program, text);
    made->s.len = strlen(text);
}

static Onnx__TensorProto *constant_new(struct pt2_program *program, const char *name,
                                       enum onnx_element element, const int64_t *dims, int rank)
{
    Onnx__TensorProto *tensor = ARENA_NEW(program->arena, Onnx__TensorProto, 1);
    onnx__tensor_proto__init(tensor);
    tensor->has_data_type = 1;
    tensor->data_type = (int32_t)element;
    tensor->dims = ARENA_NEW(program->arena, int64_t, rank);
    if (rank) memcpy(tensor->dims, dims, (size_t)rank * sizeof *dims);
    tensor->n_dims = (size_t)rank;
    attribute_new(program, node_new(program, "Constant", name, 0, NULL), "value")->t = tensor;
    return tensor;
}

const char *pt2_put_list(const struct pt2_node *node, const int64_t *ints, int count)
{
    const char *name = pt2_between(node);
    int64_t size = count;
    Onnx__TensorProto *tensor = constant_new(node->program, name, ELEMENT_INT64, &size, 1);
    tensor->int64_data = ARENA_NEW(node->program->arena, int64_t, count);
    if (count) memcpy(tensor->int64_data, ints, (size_t)count * sizeof *ints);
    tensor->n_int64_data = (size_t)count;
    return name;
}

const char *pt2_put_number(const struct pt2_node *node, enum onnx_element element, double number)
{
    const char *name = pt2_between(node);
    Onnx__TensorProto *tensor = constant_new(node->program, name, element, NULL, 0);
    struct arena *arena = node->program->arena;
    if (element == ELEMENT_FLOAT) {
        tensor->float_data = ARENA_NEW(arena, float, 1);
        tensor->float_data[0] = (float)number;
        tensor->n_float_data = 1;
    } else if (element == ELEMENT_DOUBLE) {
        tensor->double_data = ARENA_NEW(arena, double, 1);
        tensor->double_data[0] = number;
        tensor->n_double_data = 1;
    } else if (element == ELEMENT_INT64) {
        tensor->int64_data = ARENA_NEW(arena, int64_t, 1);
        tensor->int64_data[0] = (int64_t)fmax(-0x1p62, fmin(0x1p62, number));
        tensor->n_int64_data = 1;
    }
    // Numbers of other types decide no shape: the constant has a size and no value.
    return name;
}

void pt2_put_weight(struct pt2_program *program, const struct pt2_value *value)
{
    constant_new(program, value->name, value->element, value->dims, value->rank);
}

void pt2_put_unknown(struct pt2_program *program, const struct pt2_value *value)
{
    constant_new(program, value->name, value->element, value->dims, value->rank);
    Onnx__NodeProto *proto = program->nodes[program->node_count - 1];
    Onnx__AttributeProto *fixed = attribute_new(program, proto, CONSTANT_FIXED);
    fixed->has_i = 1;
    fixed->i = 1;
}
