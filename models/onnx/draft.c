#include "models/onnx/draft.h"

#include "models/onnx/read.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const char *draft_between(struct onnx_draft *draft)
{
    return arena_print(draft->arena, "%s.part%d", draft->name, ++draft->made_count);
}

static char *text_copy(const struct onnx_draft *draft, const char *text)
{
    return arena_copy(draft->arena, text);
}

Onnx__NodeProto *draft_put(struct onnx_draft *draft, const char *type, const char *output,
                           int count, const char *const *inputs)
{
    assert(type && *type && output && count >= 0);
    Onnx__NodeProto *proto = ARENA_NEW(draft->arena, Onnx__NodeProto, 1);
    onnx__node_proto__init(proto);
    proto->op_type = text_copy(draft, type);
    proto->name = text_copy(draft, output);
    proto->input = ARENA_NEW(draft->arena, char *, count);
    for (int i = 0; i < count; i++)
        proto->input[i] = text_copy(draft, inputs[i] ? inputs[i] : "");
    proto->n_input = (size_t)count;
    proto->output = ARENA_NEW(draft->arena, char *, 1);
    proto->output[0] = text_copy(draft, output);
    proto->n_output = 1;
    ARENA_GROW(draft->arena, draft->nodes, draft->node_count, draft->node_room);
    draft->nodes[draft->node_count++] = proto;
    return proto;
}

void draft_put_output(const struct onnx_draft *draft, Onnx__NodeProto *proto, const char *output)
{
    char **grown = ARENA_NEW(draft->arena, char *, proto->n_output + 1);
    memcpy(grown, proto->output, proto->n_output * sizeof *grown);
    grown[proto->n_output++] = text_copy(draft, output);
    proto->output = grown;
}

static Onnx__AttributeProto *attribute_new(const struct onnx_draft *draft, Onnx__NodeProto *proto,
                                           const char *name)
{
    Onnx__AttributeProto **grown =
        ARENA_NEW(draft->arena, Onnx__AttributeProto *, proto->n_attribute + 1);
    if (proto->n_attribute)
        memcpy(grown, proto->attribute, proto->n_attribute * sizeof(Onnx__AttributeProto *));
    Onnx__AttributeProto *made = ARENA_NEW(draft->arena, Onnx__AttributeProto, 1);
    onnx__attribute_proto__init(made);
    made->name = text_copy(draft, name);
    grown[proto->n_attribute++] = made;
    proto->attribute = grown;
    return made;
}

void draft_put_int(const struct onnx_draft *draft, Onnx__NodeProto *proto, const char *name,
                   int64_t i)
{
    Onnx__AttributeProto *made = attribute_new(draft, proto, name);
    made->has_i = 1;
    made->i = i;
}

void draft_put_ints(const struct onnx_draft *draft, Onnx__NodeProto *proto, const char *name,
                    const int64_t *ints, int count)
{
    assert(count >= 0);
    Onnx__AttributeProto *made = attribute_new(draft, proto, name);
    made->ints = ARENA_COPY(draft->arena, int64_t, ints, count);
    made->n_ints = (size_t)count;
}

void draft_put_float(const struct onnx_draft *draft, Onnx__NodeProto *proto, const char *name,
                     double number)
{
    Onnx__AttributeProto *made = attribute_new(draft, proto, name);
    made->has_f = 1;
    made->f = (float)number;
}

void draft_put_text(const struct onnx_draft *draft, Onnx__NodeProto *proto, const char *name,
                    const char *text)
{
    Onnx__AttributeProto *made = attribute_new(draft, proto, name);
    made->has_s = 1;
    made->s.data = (uint8_t *)text_copy(draft, text);
    made->s.len = strlen(text);
}

static Onnx__TensorProto *tensor_new(const struct onnx_draft *draft, enum onnx_element element,
                                     const int64_t *dims, int rank)
{
    assert(rank >= 0 && rank <= RANK_MOST);
    Onnx__TensorProto *tensor = ARENA_NEW(draft->arena, Onnx__TensorProto, 1);
    onnx__tensor_proto__init(tensor);
    tensor->has_data_type = 1;
    tensor->data_type = (int32_t)element;
    tensor->dims = ARENA_COPY(draft->arena, int64_t, dims, rank);
    tensor->n_dims = (size_t)rank;
    return tensor;
}

static Onnx__TensorProto *constant_new(struct onnx_draft *draft, const char *name,
                                       enum onnx_element element, const int64_t *dims, int rank)
{
    Onnx__TensorProto *tensor = tensor_new(draft, element, dims, rank);
    attribute_new(draft, draft_put(draft, "Constant", name, 0, NULL), "value")->t = tensor;
    return tensor;
}

const char *draft_list(struct onnx_draft *draft, const int64_t *ints, int count)
{
    const char *name = draft_between(draft);
    int64_t size = count;
    Onnx__TensorProto *tensor = constant_new(draft, name, ELEMENT_INT64, &size, 1);
    tensor->int64_data = ARENA_COPY(draft->arena, int64_t, ints, count);
    tensor->n_int64_data = (size_t)count;
    return name;
}

const char *draft_number(struct onnx_draft *draft, enum onnx_element element, double number)
{
    const char *name = draft_between(draft);
    Onnx__TensorProto *tensor = constant_new(draft, name, element, NULL, 0);
    struct arena *arena = draft->arena;
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
    } else {
        bool is_half = element_is_float(element);
        tensor->int32_data = ARENA_NEW(arena, int32_t, 1);
        tensor->int32_data[0] =
            is_half ? half_bits(number, element) : (int32_t)fmax(-0x1p31, fmin(0x1p31 - 1, number));
        tensor->n_int32_data = 1;
    }
    return name;
}

void draft_constant(struct onnx_draft *draft, const struct draft_value *value)
{
    constant_new(draft, value->name, value->element, value->dims, value->rank);
}

void draft_unknown(struct onnx_draft *draft, const struct draft_value *value)
{
    constant_new(draft, value->name, value->element, value->dims, value->rank);
    Onnx__NodeProto *proto = draft->nodes[draft->node_count - 1];
    Onnx__AttributeProto *fixed = attribute_new(draft, proto, CONSTANT_FIXED);
    fixed->has_i = 1;
    fixed->i = 1;
}

void draft_weight(struct onnx_draft *draft, const struct draft_value *value)
{
    Onnx__TensorProto *tensor = tensor_new(draft, value->element, value->dims, value->rank);
    tensor->name = text_copy(draft, value->name);
    ARENA_GROW(draft->arena, draft->weights, draft->weight_count, draft->weight_room);
    draft->weights[draft->weight_count++] = tensor;
}

static Onnx__ValueInfoProto *info_of(const struct onnx_draft *draft,
                                     const struct draft_value *value)
{
    struct arena *arena = draft->arena;
    Onnx__ValueInfoProto *info = ARENA_NEW(arena, Onnx__ValueInfoProto, 1);
    Onnx__TypeProto *type = ARENA_NEW(arena, Onnx__TypeProto, 1);
    Onnx__TypeProto__Tensor *tensor = ARENA_NEW(arena, Onnx__TypeProto__Tensor, 1);
    Onnx__TensorShapeProto *shape = ARENA_NEW(arena, Onnx__TensorShapeProto, 1);
    onnx__value_info_proto__init(info);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    onnx__tensor_shape_proto__init(shape);
    shape->dim = ARENA_NEW(arena, Onnx__TensorShapeProto__Dimension *, value->rank);
    shape->n_dim = (size_t)value->rank;
    for (int i = 0; i < value->rank; i++) {
        shape->dim[i] = ARENA_NEW(arena, Onnx__TensorShapeProto__Dimension, 1);
        onnx__tensor_shape_proto__dimension__init(shape->dim[i]);
        shape->dim[i]->has_dim_value = 1;
        shape->dim[i]->dim_value = value->dims[i];
    }
    tensor->has_elem_type = 1;
    tensor->elem_type = (int32_t)value->element;
    tensor->shape = shape;
    type->tensor_type = tensor;
    info->type = type;
    info->name = arena_copy(arena, value->name);
    return info;
}

void draft_input(struct onnx_draft *draft, const struct draft_value *value)
{
    ARENA_GROW(draft->arena, draft->inputs, draft->input_count, draft->input_room);
    draft->inputs[draft->input_count++] = info_of(draft, value);
}

void draft_output(struct onnx_draft *draft, const struct draft_value *value)
{
    ARENA_GROW(draft->arena, draft->outputs, draft->output_count, draft->output_room);
    draft->outputs[draft->output_count++] = info_of(draft, value);
}

struct onnx_graph *draft_read(struct arena *arena, const char *path, const struct onnx_draft *draft,
                              const char *name, const struct onnx_options *options, struct err *err)
{
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    graph.name = text_copy(draft, name);
    graph.node = draft->nodes;
    graph.n_node = (size_t)draft->node_count;
    graph.initializer = draft->weights;
    graph.n_initializer = (size_t)draft->weight_count;
    graph.input = draft->inputs;
    graph.n_input = (size_t)draft->input_count;
    graph.output = draft->outputs;
    graph.n_output = (size_t)draft->output_count;
    return onnx_read_graph(arena, path, &graph, options, err);
}
