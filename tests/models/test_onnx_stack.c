#include "tests/support/graph_text.h"
#include "tests/support/test.h"

#include "models/import.h"
#include "models/onnx/stack.h"

#include <math.h>

// A stack of layers found in an ONNX graph is the model that its config.json says
// (tests/data/onnx_stacks/make.py); what is no such stack is one line that names the operator.

#define FOLDER "tests/data/onnx_stacks/"

static const char *text_of(struct arena *arena, const char *path)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, path, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    config->name = "same";
    const struct import_options options = {.flash = true, .dropout = true};
    return graph_text(arena, model_graph(arena, config, &options));
}

static void gpt2_is_the_shipped_one(void **state)
{
    assert_string_equal(text_of(*state, FOLDER "gpt2.onnx"), text_of(*state, "gpt2"));
}

static const char *text_of_config(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct json_document document;
    assert_true(json_parse(arena, "mine.json", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    struct model_config *config = model_read(arena, "same", &root, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    const struct import_options options = {.flash = true, .dropout = true};
    return graph_text(arena, model_graph(arena, config, &options));
}

#define TINY                                                                      \
    "\"num_hidden_layers\": 3, \"hidden_size\": 32, \"num_attention_heads\": 4, " \
    "\"num_key_value_heads\": 2, \"intermediate_size\": 48, \"vocab_size\": 100}"

static void grouped_heads_and_gates_are_found(void **state)
{
    assert_string_equal(text_of(*state, FOLDER "llama.onnx"),
                        text_of_config(*state, "{\"model_type\": \"llama\", " TINY));
    assert_string_equal(text_of(*state, FOLDER "qwen2.onnx"),
                        text_of_config(*state, "{\"model_type\": \"qwen2\", " TINY));
}

// Positions were folded by the exporter into a constant of as many rows as the example had tokens.
static void a_masked_model_is_found_by_its_head(void **state)
{
    assert_string_equal(
        text_of(*state, FOLDER "bert.onnx"),
        text_of_config(*state,
                       "{\"model_type\": \"bert\", \"num_hidden_layers\": 2, \"hidden_size\": 32, "
                       "\"num_attention_heads\": 4, \"intermediate_size\": 64, "
                       "\"vocab_size\": 100, \"max_position_embeddings\": 16}"));
}

// Its loss, its biases of zeros and the length of its sequences make no other model of it.
static void an_untrained_model_with_a_loss_is_its_config(void **state)
{
    assert_string_equal(text_of(*state, FOLDER "untrained.onnx"),
                        text_of_config(*state,
                                       "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_embd\": 32, "
                                       "\"n_head\": 4, \"vocab_size\": 100, \"n_positions\": 64}"));
    struct err err = {0};
    struct model_config *config = model_load(*state, FOLDER "untrained.onnx", NULL, NULL, &err);
    assert_non_null(strstr(config->notes[0], "biases are not there, as exporters leave zeros out"));
}

static void an_untrained_encoder_of_pictures_is_its_config(void **state)
{
    assert_string_equal(
        text_of(*state, FOLDER "vit.onnx"),
        text_of_config(*state, "{\"model_type\": \"vit\", \"image_size\": 32, \"patch_size\": 8, "
                               "\"num_labels\": 10, \"hidden_size\": 32, \"num_hidden_layers\": 2, "
                               "\"num_attention_heads\": 4, \"intermediate_size\": 64}"));
}

// What was taken for keys that no graph has is said.
static void what_a_graph_does_not_say_is_noted(void **state)
{
    struct err err = {0};
    struct model_config *config = model_load(*state, FOLDER "llama.onnx", NULL, NULL, &err);
    assert_string_equal(config->name, "llama");
    assert_non_null(strstr(config->notes[0], "rope_theta 10000"));
    assert_non_null(strstr(config->notes[0], "tie_word_embeddings"));
    assert_null(strstr(config->notes[0], "rms_norm_eps"));
}

static struct onnx_graph *load(struct arena *arena, const char *path)
{
    struct err err = {0};
    const struct onnx_options options = {.batch = 1, .training = true};
    struct onnx_graph *graph = onnx_load(arena, path, &options, &err);
    assert_string_equal(err.text, "");
    return graph;
}

static struct onnx_node *node_of(const struct onnx_graph *graph, const char *type, int number)
{
    for (int n = 0; n < graph->node_count; n++) {
        if (strcmp(graph->nodes[n].type, type) == 0 && number-- == 0) return &graph->nodes[n];
    }
    fail_msg("no %s", type);
    return NULL;
}

static void must_refuse(struct arena *arena, const struct onnx_graph *graph, const char *text)
{
    struct err err = {0};
    assert_null(onnx_stack_find(arena, "mine.onnx", graph, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    if (!strstr(err.text, text)) assert_string_equal(err.text, text);
    assert_null(strchr(err.text, '\n'));
}

static void check_config(struct arena *arena, const struct onnx_graph *graph, const char *text)
{
    struct err err = {0};
    const struct onnx_stack *stack = onnx_stack_find(arena, "mine.onnx", graph, &err);
    assert_string_equal(err.text, "");
    if (!strstr(stack->config, text)) assert_string_equal(stack->config, text);
}

// Kept in fp32 and written as it was: of layer norms, and added to the mean of squares.
static void the_epsilon_of_norms_is_read(void **state)
{
    struct onnx_graph *graph = load(*state, FOLDER "gpt2.onnx");
    check_config(*state, graph, "\"layer_norm_epsilon\": 1e-05");
    for (int n = 0; n < graph->node_count; n++) {
        bool is_norm = strcmp(graph->nodes[n].type, "LayerNormalization") == 0;
        if (is_norm) graph->nodes[n].scalar = (double)1e-3f;
    }
    check_config(*state, graph, "\"layer_norm_epsilon\": 0.001");
    graph = load(*state, FOLDER "llama.onnx");
    check_config(*state, graph, "\"rms_norm_eps\": 1e-06");
    int found = 0;
    for (int n = 0; n < graph->node_count; n++) {
        struct onnx_node *node = &graph->nodes[n];
        bool is_it = strcmp(node->type, "Add") == 0 && fabs(node->scalar - 1e-6) < 1e-12;
        if (is_it) node->scalar = (double)1e-5f, found++;
    }
    assert_int_equal(found, 7);
    check_config(*state, graph, "\"rms_norm_eps\": 1e-05");
    graph = load(*state, FOLDER "bert.onnx");
    check_config(*state, graph, "\"layer_norm_eps\": 1e-12");
}

// Planted faults: an operator of another type, a layer of another width, a third norm, a softmax
// less, two kinds of activation.
static void other_graphs_are_refused_by_name(void **state)
{
    struct onnx_graph *graph = load(*state, FOLDER "llama.onnx");
    node_of(graph, "Neg", 1)->type = "Einsum";
    must_refuse(*state, graph, "(Einsum): no part of the stacks of layers that are recognised");

    graph = load(*state, FOLDER "llama.onnx");
    node_of(graph, "Swish", 2)->type = "Erf";
    must_refuse(*state, graph, "(Erf): a second kind of activation");

    graph = load(*state, FOLDER "llama.onnx");
    node_of(graph, "Sqrt", 1)->type = "ReduceMean";
    must_refuse(*state, graph,
                "mine.onnx: a stack of layers whose norms, positions, mlp and biases");

    graph = load(*state, FOLDER "llama.onnx");
    node_of(graph, "Attention", 2)->type = "Identity";
    must_refuse(*state, graph, "(MatMul): the last product is no head over the vocabulary");

    graph = load(*state, FOLDER "llama.onnx");
    struct onnx_node *concat = node_of(graph, "Concat", 0);
    const int table[] = {node_of(graph, "Gather", 0)->inputs[0], concat->inputs[1]};
    concat->inputs = table;
    must_refuse(*state, graph, "(Concat): a matrix of weights in no product");

    graph = load(*state, FOLDER "bert.onnx");
    node_of(graph, "Gelu", 1)->mode = "tanh";
    must_refuse(*state, graph, "(Gelu): a second kind of activation");

    graph = load(*state, FOLDER "bert.onnx");
    node_of(graph, "LayerNormalization", 2)->type = "Identity";
    must_refuse(*state, graph, "are together those of none of gpt2, llama, qwen2, bert");

    graph = load(*state, FOLDER "gpt2.onnx");
    node_of(graph, "LayerNormalization", 3)->scalar = 1e-4;
    must_refuse(*state, graph,
                "(LayerNormalization): a norm with another epsilon than the one before");

    graph = load(*state, FOLDER "gpt2.onnx");
    struct onnx_node *product = node_of(graph, "Gemm", 5);
    product->input_count = 2;
    must_refuse(*state, graph, "(Gemm): layers that are not alike are not recognised");
}

static void what_has_no_layers_is_refused(void **state)
{
    struct onnx_graph *graph = load(*state, "tests/data/onnx/residual.onnx");
    must_refuse(*state, graph, "mine.onnx: node ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_is_the_shipped_one),
        cmocka_unit_test(grouped_heads_and_gates_are_found),
        cmocka_unit_test(a_masked_model_is_found_by_its_head),
        cmocka_unit_test(an_untrained_model_with_a_loss_is_its_config),
        cmocka_unit_test(an_untrained_encoder_of_pictures_is_its_config),
        cmocka_unit_test(what_a_graph_does_not_say_is_noted),
        cmocka_unit_test(the_epsilon_of_norms_is_read),
        cmocka_unit_test(other_graphs_are_refused_by_name),
        cmocka_unit_test(what_has_no_layers_is_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
