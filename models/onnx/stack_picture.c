#include "models/onnx/stack_family.h"

#include <string.h>

// An encoder of pictures (ViT, Dosovitskiy et al. 2020) as a stack: patches by a convolution whose
// stride is its kernel, the token of a class in front of them, a table of places, layers as a
// model of tokens has them, and a head of classes.

static const struct onnx_tensor *tensor_of(const struct stack_finder *f, int tensor)
{
    return &f->graph->tensors[tensor];
}

bool stack_see_patches(struct stack_finder *f, const struct onnx_node *node)
{
    const struct onnx_tensor *x = tensor_of(f, node->inputs[0]);
    const struct onnx_tensor *weight = tensor_of(f, node->inputs[1]);
    const struct onnx_tensor *out = tensor_of(f, node->outputs[0]);
    bool is_it = f->table < 0 && f->product_count == 0 && f->patch_side == 0 && x->rank == 4 &&
                 weight->rank == 4 && stack_source(f, node->inputs[1]) >= 0 && node->windows;
    for (int i = 0; i < 2 && is_it; i++) {
        const struct window *window = &node->windows[i];
        is_it = window->taps == window->stride && window->dilation == 1 && window->pad == 0 &&
                weight->dims[2 + i] == window->taps && weight->dims[2] == weight->dims[3] &&
                x->dims[2] == x->dims[3] && x->dims[1] == weight->dims[1];
    }
    if (!is_it) return false;
    f->picture_side = x->dims[2];
    f->patch_side = weight->dims[2];
    f->channel_count = weight->dims[1];
    f->hidden = weight->dims[0];
    f->lacks_bias = node->input_count < 3;
    f->batch = out->dims[0];
    f->seq_len = out->dims[2] * out->dims[3] + 1;
    return true;
}

void stack_see_class(struct stack_finder *f, const struct onnx_node *node)
{
    const struct onnx_tensor *out = tensor_of(f, node->outputs[0]);
    bool is_it = f->patch_side > 0 && f->product_count == 0 && node->input_count == 2 &&
                 out->rank == 3 && out->dims[1] == f->seq_len && out->dims[2] == f->hidden;
    for (int i = 0; i < node->input_count && is_it; i++) {
        int tensor = node->inputs[i], maker = f->maker[tensor];
        while (maker >= 0 && (strcmp(f->graph->nodes[maker].type, "Expand") == 0 ||
                              strcmp(f->graph->nodes[maker].type, "Tile") == 0)) {
            tensor = f->graph->nodes[maker].inputs[0];
            maker = f->maker[tensor];
        }
        const struct onnx_tensor *token = tensor_of(f, tensor);
        // Exporters give each picture a copy of the token.
        bool is_token = stack_source(f, tensor) >= 0 && token->rank == 3 && token->dims[1] == 1 &&
                        (token->dims[0] == 1 || token->dims[0] == f->batch);
        if (is_token) f->class_copies = token->dims[0];
    }
}

static bool fail(const struct stack_finder *f, const char *why)
{
    return err_set(f->err, ERR_INPUT, "%s: %s", f->path, why);
}

static int64_t count_parameters(const struct stack_finder *f)
{
    int64_t sum = f->hidden * f->channel_count * f->patch_side * f->patch_side + 2 * f->hidden +
                  f->position_count * f->hidden + 2 * (int64_t)f->layer_norm_count * f->hidden;
    for (int i = 0; i < f->product_count; i++)
        sum +=
            f->products[i].in * f->products[i].out + f->products[i].has_bias * f->products[i].out;
    return sum;
}

static bool is_vit(const struct stack_finder *f, const struct stack_layer *layer)
{
    bool is_known =
        f->activation && (strcmp(f->activation, "Tanh") == 0 || strcmp(f->activation, "Erf") == 0 ||
                          strcmp(f->activation, "Relu") == 0);
    // Exporters make one of weights that are equal, as those of norms that were never trained.
    int64_t most = count_parameters(f) + (f->class_copies - 1) * f->hidden;
    return f->class_copies > 0 && f->position_count == f->seq_len && f->norm_has_bias && is_known &&
           f->layer_norm_count == 2 * f->softmax_count + 1 && f->rms_norm_count == 0 &&
           f->scale_count == 0 && f->rotation_count == 0 && f->second_count == 0 &&
           !layer->is_gated && f->head_count * f->head_dim == f->hidden &&
           layer->kv_head_count == f->head_count && layer->out_bias && layer->mlp_bias &&
           f->graph->parameter_elements <= most;
}

static const char *put_config(const struct stack_finder *f, const struct stack_layer *layer,
                              struct arena *arena)
{
    static const char *const NAMES[] = {"Tanh", "gelu_new", "Erf", "gelu", "Relu", "relu"};
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "model_type", "vit");
    json_put_i64(&writer, "image_size", f->picture_side);
    json_put_i64(&writer, "patch_size", f->patch_side);
    json_put_i64(&writer, "num_channels", f->channel_count);
    json_put_i64(&writer, "num_labels", f->products[f->product_count - 1].out);
    json_put_i64(&writer, "hidden_size", f->hidden);
    json_put_i64(&writer, "num_hidden_layers", f->softmax_count);
    json_put_i64(&writer, "num_attention_heads", f->head_count);
    json_put_i64(&writer, "intermediate_size", layer->ffn);
    for (int i = 0; i < 6; i += 2)
        if (strcmp(f->activation, NAMES[i]) == 0)
            json_put_text(&writer, "hidden_act", NAMES[i + 1]);
    stack_put_epsilon(f, "layer_norm_eps", &writer);
    json_put_bool(&writer, "qkv_bias", layer->qkv_bias);
    json_close(&writer, '}');
    return writer.text;
}

struct onnx_stack *stack_finish_picture(struct arena *arena, struct stack_finder *f)
{
    struct stack_layer layer = {0};
    struct stack_product *head = &f->products[f->product_count - 1];
    int in_layers = f->product_count - 1;
    bool is_stack = f->softmax_count > 0 && in_layers > 0 && in_layers % f->softmax_count == 0 &&
                    head->in == f->hidden;
    f->lacks_bias = f->lacks_bias || !head->has_bias;
    head->has_bias = true;
    if (!is_stack || !stack_read_layers(f, in_layers / f->softmax_count, &layer) ||
        !is_vit(f, &layer)) {
        fail(f, "no encoder of pictures that is recognised");
        return NULL;
    }
    struct onnx_stack *stack = ARENA_NEW(arena, struct onnx_stack, 1);
    stack->config = put_config(f, &layer, arena);
    stack->parameter_elements = count_parameters(f);
    if (f->lacks_bias) stack->note = stack_note_biases(arena, f);
    return stack;
}
