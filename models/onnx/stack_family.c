#include "models/onnx/stack_family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(struct stack_finder *f, const char *why)
{
    return err_set(f->err, ERR_INPUT, "%s: %s", f->path, why);
}

const char *stack_note_biases(struct arena *arena, const struct stack_finder *f)
{
    return arena_print(arena,
                       "%s: biases are not there, as exporters leave zeros out; planned with all "
                       "that its family has",
                       f->path);
}

void stack_put_epsilon(const struct stack_finder *f, const char *key, struct json_writer *writer)
{
    char text[32];
    // What is kept in fp32 has about seven digits, and was written with fewer.
    (void)snprintf(text, sizeof text, "%.6g", f->epsilon);
    if (f->epsilon > 0) json_put_f64(writer, key, strtod(text, NULL));
}

static void put_gpt2(const struct stack_finder *f, const struct stack_layer *shape, bool is_tied,
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
    stack_put_epsilon(f, "layer_norm_epsilon", writer);
    if (is_tied) json_put_bool(writer, "tie_word_embeddings", true);
}

static void put_llama(const struct stack_finder *f, const struct stack_layer *shape, bool is_tied,
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
    stack_put_epsilon(f, "rms_norm_eps", writer);
    if (is_tied) json_put_bool(writer, "tie_word_embeddings", true);
}

static void put_bert(const struct stack_finder *f, const struct stack_layer *shape, bool is_tied,
                     struct json_writer *writer)
{
    static const char *const NAMES[] = {"Tanh", "gelu_new", "Erf", "gelu", "Relu", "relu"};
    json_put_text(writer, "model_type", "bert");
    json_put_i64(writer, "vocab_size", f->vocab);
    json_put_i64(writer, "hidden_size", f->hidden);
    json_put_i64(writer, "num_hidden_layers", f->softmax_count);
    json_put_i64(writer, "num_attention_heads", f->head_count);
    json_put_i64(writer, "intermediate_size", shape->ffn);
    json_put_i64(writer, "max_position_embeddings", f->position_count);
    json_put_i64(writer, "type_vocab_size", f->second_count);
    stack_put_epsilon(f, "layer_norm_eps", writer);
    for (int i = 0; i < 6; i += 2) {
        if (strcmp(f->activation, NAMES[i]) == 0) json_put_text(writer, "hidden_act", NAMES[i + 1]);
    }
    if (is_tied) json_put_bool(writer, "tie_word_embeddings", true);
}

// A masked language model: types of tokens, a norm behind the tables and each part of a layer, and
// a head of two products. Its mask is none of order: it hides padding, if anything.
static bool is_bert(const struct stack_finder *f, const struct stack_layer *s, bool is_masked)
{
    bool is_known =
        f->activation && (strcmp(f->activation, "Tanh") == 0 || strcmp(f->activation, "Erf") == 0 ||
                          strcmp(f->activation, "Relu") == 0);
    return is_masked && f->layer_norm_count == 2 * f->softmax_count + 2 && f->norm_has_bias &&
           f->position_count > 0 && f->second_count > 0 && f->rms_norm_count == 0 &&
           f->scale_count == 0 && f->rotation_count == 0 && !s->is_gated && is_known &&
           f->head_count * f->head_dim == f->hidden && s->kv_head_count == f->head_count &&
           s->qkv_bias && s->out_bias && s->mlp_bias;
}

bool stack_put_family(struct stack_finder *f, const struct stack_layer *s, bool is_tied,
                      bool is_masked, struct json_writer *writer)
{
    int norms = 2 * f->softmax_count + 1;
    if (is_bert(f, s, is_masked)) {
        json_open(writer, NULL, '{');
        put_bert(f, s, is_tied, writer);
        json_close(writer, '}');
        return true;
    }
    bool is_whole = f->head_count * f->head_dim == f->hidden;
    const char *activation = f->activation ? f->activation : "";
    bool is_gelu = strcmp(activation, "Tanh") == 0 || strcmp(activation, "Erf") == 0;
    bool is_gpt2 = f->layer_norm_count == norms && f->norm_has_bias && f->position_count > 0 &&
                   !is_masked && f->second_count == 0 && f->rms_norm_count == 0 &&
                   f->scale_count == 0 && f->rotation_count == 0 && !s->is_gated && is_gelu &&
                   is_whole && s->kv_head_count == f->head_count && s->qkv_bias && s->out_bias &&
                   s->mlp_bias;
    bool is_llama = f->rms_norm_count == norms && f->scale_count == norms &&
                    f->layer_norm_count == 0 && f->position_count == 0 && !is_masked &&
                    f->rotation_count == 2 * f->softmax_count && s->is_gated &&
                    strcmp(activation, "Sigmoid") == 0 && !s->out_bias && !s->mlp_bias &&
                    (is_whole || !s->qkv_bias);
    if (!f->has_mask)
        return fail(f, "no mask on the scores: attention both ways is not recognised");
    if (!is_gpt2 && !is_llama) {
        return fail(
            f, "a stack of layers whose norms, positions, mlp and biases are together those of "
               "none of gpt2, llama, qwen2, bert");
    }
    json_open(writer, NULL, '{');
    if (is_gpt2) put_gpt2(f, s, is_tied, writer);
    if (is_llama) put_llama(f, s, is_tied, writer);
    json_close(writer, '}');
    return true;
}
