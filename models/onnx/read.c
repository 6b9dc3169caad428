#include "models/onnx/read.h"

#include "core/file.h"
#include "core/zip.h"
#include "models/onnx/chains.h"
#include "models/onnx/fold.h"
#include "models/onnx/model.h"
#include "models/onnx/names.h"
#include "models/onnx/operators.h"
#include "models/onnx/program.h"
#include "models/onnx/sequence.h"
#include "models/onnx/shape.h"
#include "models/pt2.h"
#include "models/stablehlo.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

// Protobuf holds no message beyond 2 GiB, and no larger one can be an ONNX file.
static const size_t FILE_BYTES_MOST = (size_t)1 << 31;

// Larger counts are no model; indices are int.
enum { ITEMS_MOST = 1 << 24 };

static struct onnx_value *value_new(struct onnx_model *model, struct names *names, const char *name)
{
    assert(names_find(names, name) < 0);  // callers say what is there twice
    names_put(model->arena, names, name, model->value_count);
    struct onnx_value *value = &model->values[model->value_count++];
    value->name = printable(model->arena, name);
    return value;
}

static bool read_initializers(struct onnx_model *model, const Onnx__GraphProto *graph,
                              struct names *names)
{
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const Onnx__TensorProto *tensor = graph->initializer[i];
        const char *name = tensor->name ? tensor->name : "";
        if (names_find(names, name) >= 0) {
            return err_set(model->err, ERR_INPUT, "%s: initializer %.400s is there twice",
                           model->path, printable(model->arena, name));
        }
        struct onnx_value *value = value_new(model, names, name);
        if (!value_set_tensor(model, value, tensor)) return false;
        // A single number is a factor or a bound, and whole numbers are indices: neither is
        // trained.
        value->is_learned = value->rank > 0 && element_is_float(value->element);
    }
    return true;
}

// The name of a dimension without value that stands first in an input is the batch everywhere.
static bool names_batch(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_input && name && *name; i++) {
        const Onnx__TypeProto *type = graph->input[i]->type;
        if (!type || !type->tensor_type || !type->tensor_type->shape) continue;
        const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
        if (shape->n_dim == 0 || shape->dim[0]->has_dim_value || !shape->dim[0]->dim_param)
            continue;
        if (strcmp(shape->dim[0]->dim_param, name) == 0) return true;
    }
    return false;
}

static bool read_dim(struct onnx_model *model, const Onnx__GraphProto *graph,
                     const struct onnx_value *value, const Onnx__TensorShapeProto *shape, size_t i,
                     int64_t *size, bool *is_batch)
{
    const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
    int64_t batch = model->options.batch;
    if (!dim->has_dim_value) {
        bool is_open = i > 0 && !names_batch(graph, dim->dim_param);
        if (is_open && model->options.length == 0) {
            return err_set(model->err, ERR_INPUT,
                           "%s: dimension %zu (%.100s) of input %.300s has no value, and only the "
                           "first one, the batch, may have none",
                           model->path, i,
                           printable(model->arena, dim->dim_param ? dim->dim_param : "no name"),
                           value->name);
        }
        *size = is_open ? model->options.length : batch ? batch : 1;
        *is_batch = !is_open;
        return true;
    }
    *size = dim->dim_value;
    if (*size <= 0) {
        return err_set(model->err, ERR_INPUT, "%s: dimension %zu of input %.400s is %" PRId64,
                       model->path, i, value->name, *size);
    }
    if (i == 0 && *size == 1 && batch) {
        *size = batch;
        *is_batch = true;
    }
    return true;
}

static bool read_input(struct onnx_model *model, const Onnx__GraphProto *graph, size_t index,
                       struct names *names)
{
    const Onnx__ValueInfoProto *input = graph->input[index];
    const char *name = input->name ? input->name : "";
    int known = names_find(names, name);
    if (known >= 0 && model->values[known].is_constant) return true;  // until IR version 3
    if (known >= 0) {
        return err_set(model->err, ERR_INPUT, "%s: input %.400s is there twice", model->path,
                       printable(model->arena, name));
    }
    struct onnx_value *value = value_new(model, names, name);
    const Onnx__TypeProto__Tensor *type = input->type ? input->type->tensor_type : NULL;
    const Onnx__TensorShapeProto *shape = type ? type->shape : NULL;
    if (!shape || shape->n_dim > RANK_MOST) {
        return err_set(model->err, ERR_INPUT,
                       "%s: input %.400s is no tensor with a shape of at most %d dimensions",
                       model->path, value->name, RANK_MOST);
    }
    int64_t dims[RANK_MOST];
    for (size_t i = 0; i < shape->n_dim; i++) {
        bool is_batch = false;
        if (!read_dim(model, graph, value, shape, i, &dims[i], &is_batch)) return false;
        value->follows_batch = value->follows_batch || is_batch;
        if (is_batch && shape->dim[i]->has_dim_value) model->has_batch = model->options.batch > 1;
    }
    return value_set(model, value, "input", (enum onnx_element)type->elem_type, (int)shape->n_dim,
                     dims);
}

static bool read_call(struct onnx_model *model, const Onnx__NodeProto *proto, struct names *names)
{
    struct onnx_call *call = &model->calls[model->call_count++];
    const char *name = proto->name && *proto->name ? proto->name
                       : proto->n_output           ? proto->output[0]
                                                   : "without name";
    *call = (struct onnx_call){.name = printable(model->arena, name), .proto = proto};
    call->type = proto->op_type ? proto->op_type : "";
    call->row = operator_find(proto->domain, call->type);
    if (!call->row) {
        const char *domain = proto->domain && *proto->domain ? proto->domain : "ai.onnx";
        bool branches = strcmp(call->type, "Loop") == 0 || strcmp(call->type, "If") == 0 ||
                        strcmp(call->type, "Scan") == 0;
        return call_fail(model, call, "an operator of domain %.100s that we do not know%s",
                         printable(model->arena, domain),
                         branches ? "; torch's newer exporter (dynamo=True) and .pt2 write none"
                                  : "");
    }
    int *outputs = ARENA_NEW(model->arena, int, proto->n_output);
    for (size_t i = 0; i < proto->n_output; i++) {
        outputs[i] = -1;
        if (!*proto->output[i]) continue;
        if (names_find(names, proto->output[i]) >= 0) {
            return call_fail(model, call, "%.400s is already made by another node, or an input",
                             printable(model->arena, proto->output[i]));
        }
        outputs[i] = model->value_count;
        value_new(model, names, proto->output[i])->is_made = true;
    }
    call->outputs = outputs;
    call->output_count = (int)proto->n_output;
    if (call->output_count < 1 || call->output_count > call->row->outputs_most) {
        return call_fail(model, call, "%d outputs, 1 to %d are wanted", call->output_count,
                         call->row->outputs_most);
    }
    return true;
}

static bool link_call(struct onnx_model *model, struct onnx_call *call, const struct names *names)
{
    const Onnx__NodeProto *proto = call->proto;
    int count = (int)proto->n_input;
    while (count && !*proto->input[count - 1])
        count--;  // left out at the end
    int *inputs = ARENA_NEW(model->arena, int, count);
    for (int i = 0; i < count; i++) {
        inputs[i] = *proto->input[i] ? names_find(names, proto->input[i]) : -1;
        if (inputs[i] < 0 && *proto->input[i]) {
            return call_fail(model, call,
                             "%.400s is read, but neither an input, an initializer nor "
                             "made by a node",
                             printable(model->arena, proto->input[i]));
        }
        if (inputs[i] < 0 && i < call->row->inputs_least) {
            return call_fail(model, call, "input %d is left out", i);
        }
    }
    call->inputs = inputs;
    call->input_count = count;
    if (count < call->row->inputs_least || count > call->row->inputs_most) {
        return call_fail(model, call, "%d inputs, %d to %d are wanted", count,
                         call->row->inputs_least, call->row->inputs_most);
    }
    return true;
}

// The order of the file where it respects the edges, as ONNX demands; else producers are taken
// before the first node that reads them (depth first, without recursion).
static bool order_calls(struct onnx_model *model)
{
    int *producer = ARENA_NEW(model->arena, int, model->value_count);
    for (int i = 0; i < model->value_count; i++)
        producer[i] = -1;
    for (int i = 0; i < model->call_count; i++) {
        for (int j = 0; j < model->calls[i].output_count; j++) {
            if (model->calls[i].outputs[j] >= 0) producer[model->calls[i].outputs[j]] = i;
        }
    }
    int *next = ARENA_NEW(model->arena, int, model->call_count);  // input to look at; -1: done
    int *stack = ARENA_NEW(model->arena, int, model->call_count), depth = 0, done = 0;
    bool *is_open = ARENA_NEW(model->arena, bool, model->call_count);
    struct onnx_call *ordered = ARENA_NEW(model->arena, struct onnx_call, model->call_count);
    for (int i = 0; i < model->call_count; i++) {
        if (next[i] < 0) continue;
        stack[depth++] = i;
        is_open[i] = true;
        while (depth) {
            int at = stack[depth - 1];
            const struct onnx_call *call = &model->calls[at];
            if (next[at] == call->input_count) {
                ordered[done++] = *call;
                next[at] = -1;
                is_open[at] = false;
                depth--;
                continue;
            }
            assert(call->inputs);
            int value = call->inputs[next[at]++];
            int before = value < 0 ? -1 : producer[value];
            if (before < 0 || next[before] < 0) continue;
            if (is_open[before]) {
                return call_fail(model, call, "it depends on itself through %s",
                                 model->values[value].name);
            }
            is_open[before] = true;
            stack[depth++] = before;
        }
    }
    assert(done == model->call_count);
    model->calls = ordered;
    return true;
}

static bool infer(struct onnx_model *model)
{
    for (int i = 0; i < model->call_count; i++) {
        struct onnx_call *call = &model->calls[i];
        bool follows_batch = false;
        for (int j = 0; j < call->input_count; j++) {
            const struct onnx_value *input = call_input(model, call, j);
            if (!input) continue;
            if (!input->is_known) {
                return call_fail(model, call, "%s is an output that is not computed", input->name);
            }
            follows_batch = follows_batch || input->follows_batch;
        }
        // In the order of the edges: shapes and constants of all inputs are known by now.
        if (!call->row->shape(model, call)) return false;
        call->is_folded = fold_is_constant(model, call);
        for (int j = 0; j < call->output_count && !call->is_folded; j++) {
            if (call->outputs[j] >= 0) {
                model->values[call->outputs[j]].follows_batch = follows_batch;
            }
        }
        if (call->is_folded) fold_outputs(model, call);
        if (model->err->kind) return false;
    }
    return true;
}

// Training makes the logarithms of probabilities itself where a model does not end with them.
static bool check_scores(const struct onnx_model *model, const struct onnx_call *loss)
{
    bool is_log = false, is_softmax = false;
    for (int i = 0; i < model->call_count; i++) {
        const struct onnx_call *call = &model->calls[i];
        if (call->outputs[0] != loss->inputs[0]) continue;
        is_log = strcmp(call->type, "LogSoftmax") == 0;
        is_softmax = is_log || strcmp(call->type, "Softmax") == 0;
    }
    bool wants_log = strcmp(loss->type, "NegativeLogLikelihoodLoss") == 0;
    return (wants_log ? is_log : !is_softmax) ||
           call_fail(model, loss,
                     wants_log ? "what a LogSoftmax makes is wanted"
                               : "scores are wanted, no probabilities");
}

// A model that ends with its loss has the scores of it in place of all outputs: training adds the
// loss again, with its gradient and labels of its own.
static bool take_loss(struct onnx_model *model)
{
    const struct onnx_call *loss = NULL;
    for (int i = 0; i < model->call_count; i++) {
        const struct onnx_call *call = &model->calls[i];
        if (call->row->shape != shape_loss) continue;
        if (loss || !model->values[call->outputs[0]].is_output)
            return call_fail(model, call, "one loss is wanted, which is an output of the model");
        loss = call;
        if (!check_scores(model, loss)) return false;
    }
    for (int i = 0; i < model->value_count && loss; i++)
        model->values[i].is_read = model->values[i].is_output = i == loss->inputs[0];
    return true;
}

static bool mark_outputs(struct onnx_model *model, const Onnx__GraphProto *graph,
                         const struct names *names)
{
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name ? graph->output[i]->name : "";
        int value = names_find(names, name);
        if (value < 0 || !model->values[value].is_known) {
            return err_set(model->err, ERR_INPUT, "%s: output %.400s is made by no node",
                           model->path, printable(model->arena, name));
        }
        model->values[value].is_read = model->values[value].is_output = true;
    }
    if (graph->n_output == 0) {
        return err_set(model->err, ERR_INPUT, "%s: the model has no output", model->path);
    }
    return take_loss(model);
}

// A constant mask is alike for all heads; a table of biases is not. What is written into a tensor
// are the regions of a mask.
static bool is_mask(const struct onnx_call *call, int input, const struct onnx_value *value)
{
    if (strcmp(call->type, "ScatterND") == 0) return input == 2;
    bool is_one = value->rank < 3 || value->dims[value->rank - 3] == 1;
    return input >= 3 && is_one && strcmp(call->type, "Attention") == 0;
}

// What no output of the model depends on does not run.
static void mark_live(struct onnx_model *model)
{
    // Backwards: whether an output is read is known when all that could read it have been asked.
    for (int i = model->call_count - 1; i >= 0; i--) {
        struct onnx_call *call = &model->calls[i];
        for (int j = 0; j < call->output_count && !call->is_folded; j++) {
            if (call->outputs[j] < 0 || !model->values[call->outputs[j]].is_read) continue;
            call->is_live = true;
        }
        for (int j = 0; j < call->input_count && call->is_live; j++) {
            if (!call_reads(call, j)) continue;
            struct onnx_value *input = &model->values[call->inputs[j]];
            input->is_read = true;
            bool is_weight = input->is_learned && input->is_constant && !is_mask(call, j, input);
            if (is_weight && operator_differentiates(call->row, j)) {
                input->is_trained = true;
            }
        }
    }
}

static bool read_graph(struct onnx_model *model, const Onnx__GraphProto *given)
{
    const Onnx__GraphProto *graph = sequences_split(model->arena, given);
    struct names names = {0};
    size_t value_count = graph->n_initializer + graph->n_input;
    for (size_t i = 0; i < graph->n_node; i++)
        value_count += graph->node[i]->n_output;
    if (value_count > ITEMS_MOST || graph->n_node > ITEMS_MOST) {
        return err_set(model->err, ERR_INPUT, "%s: %zu tensors, at most %d are wanted", model->path,
                       value_count, ITEMS_MOST);
    }
    model->values = ARENA_NEW(model->arena, struct onnx_value, value_count);
    model->calls = ARENA_NEW(model->arena, struct onnx_call, graph->n_node);
    if (!read_initializers(model, graph, &names)) return false;
    for (size_t i = 0; i < graph->n_input; i++) {
        if (!read_input(model, graph, i, &names)) return false;
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        if (!read_call(model, graph->node[i], &names)) return false;
    }
    for (int i = 0; i < model->call_count; i++) {
        if (!link_call(model, &model->calls[i], &names)) return false;
    }
    if (!order_calls(model) || !infer(model)) return false;
    if (!mark_outputs(model, graph, &names)) return false;
    chains_join(model);
    mark_live(model);
    return true;
}

// What else differs between opsets than the axis of a softmax is looked for in both places.
static bool read_opset(struct onnx_model *model, const Onnx__ModelProto *proto)
{
    for (size_t i = 0; i < proto->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *set = proto->opset_import[i];
        bool is_standard = !set->domain || !*set->domain || strcmp(set->domain, "ai.onnx") == 0;
        if (is_standard && set->version >= 1) model->opset = set->version;
    }
    if (model->opset > 0) return true;
    return err_set(model->err, ERR_INPUT, "%s: no ONNX model: it names no version of the operators",
                   model->path);
}

static struct onnx_graph *make(struct arena *arena, struct onnx_model *model,
                               const Onnx__GraphProto *graph)
{
    model->name = printable(model->arena, graph->name ? graph->name : "");
    return read_graph(model, graph) ? program_make(arena, model) : NULL;
}

struct onnx_graph *onnx_read_graph(struct arena *arena, const char *path,
                                   const Onnx__GraphProto *graph,
                                   const struct onnx_options *options, struct err *err)
{
    struct arena reading = {0};
    struct onnx_model model = {.arena = &reading, .path = path, .options = *options, .err = err};
    struct onnx_graph *result = make(arena, &model, graph);
    arena_free(&reading);
    return result;
}

struct onnx_graph *onnx_read(struct arena *arena, const char *path, const void *bytes,
                             size_t byte_count, const struct onnx_options *options, struct err *err)
{
    if (zip_is(bytes, byte_count)) return pt2_read(arena, path, bytes, byte_count, options, err);
    if (stablehlo_is(bytes, byte_count))
        return stablehlo_read(arena, path, bytes, byte_count, options, err);
    struct arena reading = {0};
    struct onnx_graph *result = NULL;
    struct onnx_model model = {.arena = &reading, .path = path, .options = *options, .err = err};
    const Onnx__ModelProto *proto = wire_decode(&reading, bytes, byte_count);
    if (!proto) {
        err_set(err, ERR_INPUT, "%s: no ONNX model: the protobuf ends early or is none", path);
    } else if (!proto->graph) {
        err_set(err, ERR_INPUT, "%s: no ONNX model: there is no graph", path);
    } else if (read_opset(&model, proto)) {
        result = make(arena, &model, proto->graph);
    }
    arena_free(&reading);
    return result;
}

struct onnx_graph *onnx_load(struct arena *arena, const char *path,
                             const struct onnx_options *options, struct err *err)
{
    struct arena file = {0};
    size_t byte_count = 0;
    const char *bytes = file_read(&file, path, FILE_BYTES_MOST, &byte_count, err);
    struct onnx_graph *graph =
        bytes ? onnx_read(arena, path, bytes, byte_count, options, err) : NULL;
    arena_free(&file);
    return graph;
}
