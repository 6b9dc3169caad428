#include "tests/support/graph_text.h"
#include "tests/support/onnx_graph.h"
#include "tests/support/test.h"

#include "core/file.h"
#include "core/json.h"
#include "models/import.h"
#include "models/stablehlo.h"

// Programs of StableHLO (tests/data/stablehlo/make.py) are the models that JAX printed them of.

#define FOLDER "tests/data/stablehlo/"

static const struct import_options OPTIONS = {.flash = true, .dropout = true};

static const char *text_of(struct arena *arena, const char *path)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, path, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    config->name = "same";
    return graph_text(arena, model_graph(arena, config, &OPTIONS));
}

static const char *text_of_config(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct json_document document;
    assert_true(json_parse(arena, "mine.json", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    struct model_config *config = model_read(arena, "same", &root, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return graph_text(arena, model_graph(arena, config, &OPTIONS));
}

// With the token of a class a ViT is one of transformers, here in bf16.
static void vit_is_its_config(void **state)
{
    const char *config =
        "{\"model_type\": \"vit\", \"image_size\": 32, \"patch_size\": 8, \"num_labels\": 10, "
        "\"hidden_size\": 64, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
        "\"intermediate_size\": 256, \"layer_norm_eps\": 1e-6}";
    assert_string_equal(text_of(*state, FOLDER "vit_class.mlir"), text_of_config(*state, config));
}

static double flop_of(const struct onnx_graph *graph)
{
    double sum = 0;
    for (int n = 0; n < graph->node_count; n++)
        sum += graph->nodes[n].flop;
    return sum;
}

static void gpt2_is_the_shipped_one(void **state)
{
    assert_string_equal(text_of(*state, FOLDER "gpt2.mlir"), text_of(*state, "gpt2"));
    // In bf16, with an epsilon that is rounded to it, and in bf16 with weights in fp32: casts are
    // no part of a layer. In nnx.
    static const struct {
        const char *name, *epsilon;
    } CASES[] = {{"gpt_apart", "1e-05"},
                 {"gpt_bf16", "1.00136e-05"},
                 {"gpt_mixed", "1e-06"},
                 {"gpt_nnx", "1e-06"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *config =
            arena_print(*state,
                        "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_embd\": 32, "
                        "\"n_head\": 4, \"vocab_size\": 100, \"n_positions\": 64, "
                        "\"layer_norm_epsilon\": %s}",
                        CASES[i].epsilon);
        assert_string_equal(text_of(*state, arena_print(*state, FOLDER "%s.mlir", CASES[i].name)),
                            text_of_config(*state, config));
    }
}

// One layer behind the other in fp32, with keys repeated; and a scan in bf16, whose weights are
// stacks, with queries in groups and the other way to rotate.
static void llama_is_its_config(void **state)
{
    static const struct {
        const char *path;
        int heads;
    } CASES[] = {{FOLDER "llama.mlir", 4}, {FOLDER "llama_scan.mlir", 8}};
    for (int i = 0; i < 2; i++) {
        const char *config = arena_print(
            *state,
            "{\"model_type\": \"llama\", \"num_hidden_layers\": 3, \"hidden_size\": 32, "
            "\"num_attention_heads\": %d, \"num_key_value_heads\": 2, \"head_dim\": %d, "
            "\"intermediate_size\": 48, \"vocab_size\": 100, \"rms_norm_eps\": 1e-5}",
            CASES[i].heads, 32 / CASES[i].heads);
        assert_string_equal(text_of(*state, CASES[i].path), text_of_config(*state, config));
    }
}

// Operator by operator, as PyTorch's export of it is.
static void gpt2_has_the_flops_of_its_export(void **state)
{
    for (int training = 0; training < 2; training++) {
        const struct onnx_graph *jax = graph_of(*state, FOLDER "gpt2.mlir", training);
        const struct onnx_graph *torch = graph_of(*state, "tests/data/pt2/gpt2.pt2", training);
        assert_int_equal(jax->parameter_elements, torch->parameter_elements);
        double ratio = flop_of(jax) / flop_of(torch);
        if (ratio < 0.99 || ratio > 1.01) fail_msg("%g of the flops", ratio);
    }
}

// A weight that is read in several places is one.
static void parameters_are_those_of_the_pytree(void **state)
{
    struct err err = {0};
    size_t bytes = 0;
    int rows = 0;
    char *text = file_read(*state, FOLDER "parameters.tsv", 1 << 16, &bytes, &err);
    assert_string_equal(err.text, "");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char name[64];
        long long count = 0;
        assert_int_equal(sscanf(line, "%63s %lld", name, &count), 2);
        const char *path = arena_print(*state, FOLDER "%s.mlir", name);
        assert_int_equal(graph_of(*state, path, true)->parameter_elements, count);
        struct model_config *config = model_load(*state, path, NULL, NULL, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(model_graph(*state, config, &OPTIONS)->parameter_count, count);
        rows++;
    }
    assert_int_equal(rows, 15);
}

// Flax's ResNet-50 is that of transformers: twice its products for two pictures, and norms that are
// one operator each.
static void resnet_is_that_of_torch(void **state)
{
    const struct onnx_graph *jax = graph_of(*state, FOLDER "resnet50.mlir", true);
    const struct onnx_graph *torch = graph_of(*state, "tests/data/pt2/resnet50.pt2", true);
    static const char *const TYPES[] = {"Conv", "BatchNormalization", "Relu", "MaxPool", "Gemm"};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        assert_int_equal(count_of(jax, TYPES[i]), count_of(torch, TYPES[i]));
    double flop[2] = {0};
    for (int i = 0; i < 2; i++) {
        const struct onnx_graph *graph = i ? torch : jax;
        for (int n = 0; n < graph->node_count; n++)
            if (strcmp(graph->nodes[n].type, "Conv") == 0) flop[i] += graph->nodes[n].flop;
    }
    assert_true(flop[0] == 2 * flop[1]);
}

// Norms of layers, attention and GELU of a ViT are one operator each: three layers and a last norm.
static void parts_of_a_vit_are_found(void **state)
{
    const struct onnx_graph *vit = graph_of(*state, FOLDER "vit.mlir", true);
    assert_int_equal(count_of(vit, "LayerNormalization"), 7);
    assert_int_equal(count_of(vit, "Attention"), 3);
    assert_int_equal(count_of(vit, "Gelu"), 3);
    assert_int_equal(count_of(vit, "Softmax"), 0);
}

#define ARGUMENTS                                                                                  \
    "%w: tensor<4x3xf32> loc(\"params['w']\"), %x: tensor<2x4xf32> loc(\"x\"), %n: tensor<2xi32> " \
    "loc(\"n\")"
#define PROGRAM(arguments, result, body)                                                       \
    "module @m {\n  func.func public @main(" arguments ") -> (" result ") {\n    " body "\n  " \
    "}\n}\n"
#define DOT                                                                                \
    "%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, " \
    "tensor<4x3xf32>) -> tensor<2x3xf32>\n    "
#define WORKS(body) PROGRAM(ARGUMENTS, "tensor<2x3xf32>", DOT body)

// A product, with what is added to it as often as a counter says.
#define LOOP(start, from, until, returned)                                                       \
    WORKS("%c = stablehlo.constant dense<0> : tensor<i32>\n"                                     \
          "    %n1 = stablehlo.slice %n [0:1] : (tensor<2xi32>) -> tensor<1xi32>\n"              \
          "    %n0 = stablehlo.reshape %n1 : (tensor<1xi32>) -> tensor<i32>\n"                   \
          "    %5:2 = stablehlo.while(%y = " start ", %i = " from ") : tensor<2x3xf32>, "        \
          "tensor<i32>\n"                                                                        \
          "    cond {\n"                                                                         \
          "      %u = stablehlo.constant dense<" until "> : tensor<i32>\n"                       \
          "      %6 = stablehlo.compare LT, %i, %u : (tensor<i32>, tensor<i32>) -> tensor<i1>\n" \
          "      stablehlo.return %6 : tensor<i1>\n    } do {\n"                                 \
          "      %7 = stablehlo.add %y, %0 : tensor<2x3xf32>\n"                                  \
          "      %o = stablehlo.constant dense<1> : tensor<i32>\n"                               \
          "      %8 = stablehlo.add %i, %o : tensor<i32>\n"                                      \
          "      stablehlo.return " returned " : tensor<2x3xf32>, tensor<i32>\n    }\n"          \
          "    return %5#0 : tensor<2x3xf32>")

#define ROWS(name, picked, gone, windows)                                             \
    "%4 = \"stablehlo." name                                                          \
    "\"(%0, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [" windows      \
    "], collapsed_slice_dims = [" gone "], start_index_map = [" picked                \
    "], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}> : (tensor<2x3xf32>, " \
    "tensor<2xi32>) -> tensor<2x3xf32>\n return %4 : tensor<2x3xf32>"

static const char *message_of(struct arena *arena, const char *text)
{
    struct err err = {0};
    const struct onnx_options options = {.training = true};
    struct onnx_graph *graph = onnx_read(arena, "x.mlir", text, strlen(text), &options, &err);
    assert_true((graph != NULL) == (err.kind == ERR_NONE));
    assert_null(strchr(err.text, '\n'));
    return arena_copy(arena, err.text);
}

static const struct {
    const char *text, *message;
} PROGRAMS[] = {
    {WORKS("return %0 : tensor<2x3xf32>"), ""},
    {"// a comment\n#loc1 = loc(\"params['w']\")\n" PROGRAM(
         "%w: tensor<2x3xf32> loc(#loc1), %x: tensor<2x3xf32> loc(\"x\")", "tensor<2x3xf32>",
         "%0 = stablehlo.multiply %w, %x : tensor<2x3xf32>\n return %0 : tensor<2x3xf32>"),
     ""},
    {PROGRAM("%w: tensor<4x3xf32>, %x: tensor<2x4xf32>", "tensor<2x3xf32>",
             DOT "return %0 : tensor<2x3xf32>"),
     "x.mlir:2:26: whether this argument is a weight is not said: print the text with the "
     "names"},
    {WORKS("%1 = stablehlo.cbrt %0 : tensor<2x3xf32>\n    return %1 : tensor<2x3xf32>"),
     "x.mlir:4:10: stablehlo.cbrt: an operator that we do not know"},
    {WORKS("%1 = sdy.sharding_constraint %0 <@mesh, [{\"a\"}, {}]> : tensor<2x3xf32>\n"
           "    return %1 : tensor<2x3xf32>"),
     ""},
    {PROGRAM("%w: tensor<2x4x3xf32> loc(\"params['w']\"), %x: tensor<2x4xf32> loc(\"x\")",
             "tensor<1x4x3xf32>",
             "%0 = stablehlo.slice %w [7:8, 0:4, 0:3] : (tensor<2x4x3xf32>) -> tensor<1x4x3xf32>\n"
             "return %0 : tensor<1x4x3xf32>"),
     "x.mlir:3:10: slice: its bounds are not in dimension 0"},
    {LOOP("%0", "%c", "4", "%7, %8"), ""},
    {LOOP("%0", "%c", "0", "%7, %8"), ""},
    {LOOP("%0", "%n0", "4", "%7, %8"),
     "x.mlir:7:12: while: how often it goes round is computed from data"},
    {LOOP("%0", "%c", "4", "%7, %i"), "more than 262144 operators"},
    {LOOP("%0", "%c", "4", "%7"), "x.mlir:7:12: while: its body returns 1 values, 2 are wanted"},
    {LOOP("%0", "%c", "4", "%8, %7"), "value 0 is not of the type that is stated"},
    {LOOP("%x", "%c", "4", "%7, %8"), "value 0 is not of the type that is stated"},
    {LOOP("%9", "%c", "4", "%7, %8"), "%9 is read, but not made"},
    {WORKS("%1 = stablehlo.broadcast_in_dim %0, dims = [1, 1e300] : (tensor<2x3xf32>) -> "
           "tensor<9x2x3xf32>\n    return %1 : tensor<9x2x3xf32>"),
     "dims"},
    {PROGRAM("%w: tensor<2x4x3xf32> loc(\"params['w']\"), %x: tensor<2x4xf32> loc(\"x\")",
             "tensor<1x4x3xf32>",
             "%0 = stablehlo.slice %w [0:1e30, 0:4, 0:3] : (tensor<2x4x3xf32>) -> "
             "tensor<1x4x3xf32>\nreturn %0 : tensor<1x4x3xf32>"),
     "bound 0 is no number"},
    {PROGRAM("%w: tensor<3x3x4x4xf32> loc(\"params['w']\"), %x: tensor<2x8x8x4xf32> loc(\"x\")",
             "tensor<2x6x6x4xf32>",
             "%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 4294967296, f]x[0, 1, i, "
             "o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]]} "
             "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
             "(tensor<2x8x8x4xf32>, tensor<3x3x4x4xf32>) -> tensor<2x6x6x4xf32>\n"
             "return %0 : tensor<2x6x6x4xf32>"),
     "dim_numbers are none of 4 dimensions"},
    {WORKS("%1 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<2x3xf32>) -> "
           "tensor<999999999x2x3xf32>\n    return %1 : tensor<999999999x2x3xf32>"),
     ""},
    {WORKS("%1 = stablehlo.broadcast_in_dim %0, dims = [1, 2] : (tensor<2x3xf32>) -> "
           "tensor<999999999999999x2x3xf32>\n    return %1 : tensor<999999999999999x2x3xf32>"),
     "a tensor of more than 2^50 bytes"},
    {WORKS("%1 = stablehlo.while(%2 = %0) : tensor<2x3xf32>\n cond { }"),
     "x.mlir:6:3: do is wanted, not '}'"},
    {WORKS("%1 = stablehlo.while(%2 = %0) : tensor<2x3xf32>\n while { }"),
     "x.mlir:5:2: cond is wanted, not 'while'"},
    {WORKS("%1 = stablehlo.while(%2 = %0, %3 = %0) : tensor<2x3xf32>\n cond { }"),
     "while: more values than results"},
    {WORKS(ROWS("gather", "0", "0", "1")), ""},
    {WORKS(ROWS("gather", "0", "1", "1")), "gather: gathers of whole rows alone are read"},
    {WORKS(ROWS("gather", "1", "1", "1")), "gather: gathers of whole rows alone are read"},
    {WORKS(ROWS("gather", "2", "2", "1")), "gather: dimension 2 is none of 2, or is there"},
    {WORKS(ROWS("gather", "0", "0", "0, 1")), "gather: gathers of whole rows alone are read"},
    {WORKS("%1 = \"stablehlo.sort\"(%0) <{dimension = 2 : i64}> ({ }) : (tensor<2x3xf32>) -> "
           "tensor<2x3xf32>"),
     "sort: dimension 2 is none of 2"},
    {WORKS("%1 = \"stablehlo.sort\"(%0) <{dimension = 1 : i64}> ({ }) : (tensor<2x3xf32>) -> "
           "tensor<2x3xf32>"),
     "sort: an order that neither rises nor falls"},
    {WORKS("%1, %2 = chlo.top_k(%0, k = 4) : tensor<2x3xf32> -> (tensor<2x4xf32>, "
           "tensor<2x4xi32>)\n return %1 : tensor<2x4xf32>"),
     "k is 4, the dimension has 3"},
    {WORKS("%1 = stablehlo.slice %n [0:1] : (tensor<2xi32>) -> tensor<1xi32>\n"
           "%2 = stablehlo.reshape %1 : (tensor<1xi32>) -> tensor<i32>\n"
           "%3 = stablehlo.dynamic_update_slice %0, %x, %2, %2 : (tensor<2x3xf32>, "
           "tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>"),
     "x.mlir:6:6: dynamic_update_slice: where it begins is computed"},
    {WORKS("return %7 : tensor<2x3xf32>"), "x.mlir:4:12: %7 is returned, but not made"},
    {WORKS("%1 = stablehlo.add %0, %5 : tensor<2x3xf32>"), "x.mlir:4:28: %5 is read, but not"},
    {WORKS("%1 = stablehlo.add %0, %x : tensor<2x3xf32>"),
     "x.mlir:4:10: add: operand 1 is not of the size of the result"},
    {WORKS("%1 = stablehlo.negate %0 : tensor<?x3xf32>"), "a dimension has no value"},
    {WORKS("%1 = stablehlo.negate %0 : tensor<2x3xf8E4M3FN>"),
     "x.mlir:4:32: an element type (f8E4M3FN) that we do not know"},
    {WORKS("%1 = stablehlo.transpose %0, dims = [0, 0] : (tensor<2x3xf32>) -> "
           "tensor<2x3xf32>"),
     "x.mlir:4:10: transpose: dimension 0 is none of 2, or is there twice"},
    {WORKS("%1 = call @f(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
     "x.mlir:4:10: call: no function is called @f"},
    {"module @m {\n func.func public @main(%x: tensor<2xf32> loc(\"x\")) -> tensor<2xf32> {\n"
     "  %0 = call @main(%x) : (tensor<2xf32>) -> tensor<2xf32>\n }\n}",
     "x.mlir:3:8: call: 64 calls in each other, or one of itself"},
    {WORKS("%1 = stablehlo.reduce(%0 init: %n) across dimensions = [1] : (tensor<2x3xf32>, "
           "tensor<f32>) -> tensor<2xf32>\n reducer(%a: tensor<f32>, %b: tensor<f32>) { }"),
     "reductions by sum, product, maximum and minimum alone are read"},
    {"module @m {\n  func.func @main(", "x.mlir:2:18: ( is not closed"},
    {"module @m { }", "x.mlir:1:1: there is no function @main"},
    {"module @m { \"", "x.mlir:1:13: a text without end"},
};

static void wrong_programs_are_one_line(void **state)
{
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS; i++) {
        const char *message = message_of(*state, PROGRAMS[i].text);
        if (!*PROGRAMS[i].message) assert_string_equal(message, "");
        if (!strstr(message, PROGRAMS[i].message))
            assert_string_equal(message, PROGRAMS[i].message);
    }
}

// A body stands there as often as it goes round; of the stack of weights that it reads one by one
// each is a weight, and what reads the whole of it reads them joined.
static void loops_are_unrolled(void **state)
{
    static const char *const TEXTS[] = {LOOP("%0", "%c", "4", "%7, %8"),
                                        LOOP("%0", "%c", "0", "%7, %8")};
    static const int COUNTS[] = {4, 0};
    struct err err = {0};
    const struct onnx_options options = {.training = true};
    for (int i = 0; i < 2; i++) {
        const struct onnx_graph *graph =
            onnx_read(*state, "x.mlir", TEXTS[i], strlen(TEXTS[i]), &options, &err);
        assert_int_equal(count_of(graph, "Add"), COUNTS[i]);
        assert_int_equal(count_of(graph, "MatMul"), 1);
    }
    assert_string_equal(err.text, "");
    const struct onnx_graph *stacked = graph_of(*state, FOLDER "llama_scan.mlir", true);
    const struct onnx_graph *apart = graph_of(*state, FOLDER "llama.mlir", true);
    assert_int_equal(count_of(stacked, "MatMul"), count_of(apart, "MatMul"));
    assert_int_equal(count_of(stacked, "Slice"), 2 * 3 * 2);  // halves of heads
}

static void stacks_that_are_read_whole_are_joined(void **state)
{
    static const char TEXT[] =
        PROGRAM("%w: tensor<2x4x4xf32> loc(\"params['w']\"), %x: tensor<2x4xf32> loc(\"x\")",
                "tensor<2x4xf32>",
                "%0 = stablehlo.slice %w [1:2, 0:4, 0:4] : (tensor<2x4x4xf32>) -> "
                "tensor<1x4x4xf32>\n"
                "%1 = stablehlo.reshape %0 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>\n"
                "%2 = stablehlo.dot_general %x, %1, contracting_dims = [1] x [0] : "
                "(tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>\n"
                "%3 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : "
                "(tensor<2x4xf32>, tensor<2x4x4xf32>) -> tensor<2x2x4xf32>\n"
                "%4 = stablehlo.slice %3 [0:2, 1:2, 0:4] : (tensor<2x2x4xf32>) -> "
                "tensor<2x1x4xf32>\n"
                "%5 = stablehlo.reshape %4 : (tensor<2x1x4xf32>) -> tensor<2x4xf32>\n"
                "%6 = stablehlo.add %2, %5 : tensor<2x4xf32>\n"
                "return %6 : tensor<2x4xf32>");
    struct err err = {0};
    const struct onnx_options options = {.training = true};
    const struct onnx_graph *graph =
        onnx_read(*state, "x.mlir", TEXT, strlen(TEXT), &options, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(graph->parameter_elements, 32);
    assert_int_equal(count_of(graph, "Concat"), 1);
}

static void constants_of_floats_are_weights(void **state)
{
    static const struct {
        const char *constant;
        int64_t parameters;
    } CASES[] = {
        {"dense<[[1.0, 2.0, -3.0e-05], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [0.0, 1.0, 2.0]]>", 12},
        {"dense<\"0x0000803F0000803F\">", 12},
        {"dense_resource<__elided__>", 12},
        {"dense<1.0>", 3},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        const struct onnx_options options = {.training = true};
        const char *text = arena_print(
            *state,
            PROGRAM("%%x: tensor<2x4xf32> loc(\"x\"), %%b: tensor<3xf32> loc(\"model.b\")",
                    "tensor<2x3xf32>",
                    "%%w = stablehlo.constant %s : tensor<4x3xf32>\n"
                    "%%0 = stablehlo.dot_general %%x, %%w, contracting_dims = [1] x [0] : "
                    "(tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>\n"
                    "%%1 = stablehlo.broadcast_in_dim %%b, dims = [1] : (tensor<3xf32>) -> "
                    "tensor<2x3xf32>\n"
                    "%%2 = stablehlo.add %%0, %%1 : tensor<2x3xf32>\n"
                    "return %%2 : tensor<2x3xf32>"),
            CASES[i].constant);
        struct onnx_graph *graph = onnx_read(*state, "x.mlir", text, strlen(text), &options, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(graph->parameter_elements, CASES[i].parameters + (i < 3 ? 3 : 0));
    }
}

// Whatever one byte becomes, and wherever the text ends, reading ends with a graph or one line.
static void damaged_programs_end_in_a_line(void **state)
{
    static const char OTHERS[] = "0-\"}],[{:(<%x\xff";
    static const char TEXT[] = WORKS(
        "%cst = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "%1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x3xf32>\n"
        "%2 = stablehlo.maximum %1, %0 : tensor<2x3xf32>\n"
        "%3 = stablehlo.reduce(%2 init: %cst) applies stablehlo.add across dimensions = [1] : "
        "(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n"
        "%4 = stablehlo.reshape %3 : (tensor<2xf32>) -> tensor<2x1xf32>\n"
        "%5 = \"stablehlo.gather\"(%4, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = "
        "[1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
        "slice_sizes = array<i64: 1, 1>}> : (tensor<2x1xf32>, tensor<2xi32>) -> tensor<2x1xf32>\n"
        "%6:2 = stablehlo.optimization_barrier %5, %0 : tensor<2x1xf32>, tensor<2x3xf32>\n"
        "%7 = stablehlo.concatenate %6#0, %6#1, dim = 1 : (tensor<2x1xf32>, tensor<2x3xf32>) -> "
        "tensor<2x4xf32>\n"
        "%8 = stablehlo.slice %7 [0:2, 1:4] : (tensor<2x4xf32>) -> tensor<2x3xf32>\n"
        "return %8 : tensor<2x3xf32>");
    struct arena *arena = *state;
    assert_string_equal(message_of(arena, TEXT), "");
    char *text = arena_copy(arena, TEXT);
    for (size_t at = 0; at < sizeof TEXT - 1; at++) {
        for (size_t other = 0; other < sizeof OTHERS; other++) {
            struct arena_mark mark = arena_mark(arena);
            char kept = text[at];
            text[at] = OTHERS[other];  // the last one ends the text here
            (void)message_of(arena, text);
            text[at] = kept;
            arena_reset(arena, mark);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_is_the_shipped_one),
        cmocka_unit_test(llama_is_its_config),
        cmocka_unit_test(vit_is_its_config),
        cmocka_unit_test(loops_are_unrolled),
        cmocka_unit_test(stacks_that_are_read_whole_are_joined),
        cmocka_unit_test(gpt2_has_the_flops_of_its_export),
        cmocka_unit_test(parameters_are_those_of_the_pytree),
        cmocka_unit_test(resnet_is_that_of_torch),
        cmocka_unit_test(parts_of_a_vit_are_found),
        cmocka_unit_test(wrong_programs_are_one_line),
        cmocka_unit_test(constants_of_floats_are_weights),
        cmocka_unit_test(damaged_programs_end_in_a_line),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
