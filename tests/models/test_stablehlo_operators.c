#include "tests/support/onnx_graph.h"

#include <math.h>

// What single operators of StableHLO become (tests/data/stablehlo/make.py prints the programs).

#define FOLDER "tests/data/stablehlo/"

// Rows are picked and placed, sorted and summed by one operator each; what a loop wrote place by
// place is one join; a mask that is drawn is dropout, and what draws it is not there.
static void picks_are_one_operator_each(void **state)
{
    static const struct {
        const char *type;
        int count;
    } COUNTS[] = {{"TopK", 3},   {"ArgMax", 1},    {"GatherElements", 2}, {"GatherND", 1},
                  {"CumSum", 1}, {"ScatterND", 3}, {"Concat", 4},         {"Dropout", 1},
                  {"Tanh", 4},   {"Transpose", 4}, {"Where", 0},          {"Xor", 0}};
    const struct onnx_graph *graph = graph_of(*state, FOLDER "picks.mlir", true);
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++)
        assert_int_equal(count_of(graph, COUNTS[i].type), COUNTS[i].count);
}

// In flax of 8 places down to 4, up to 8, to (8 - 1) 2 + 4 = 18, and one that is plain.
static void transposed_convolutions_have_their_sizes(void **state)
{
    static const int64_t PLACES[] = {8, 18};
    const struct onnx_graph *graph = graph_of(*state, FOLDER "mirror.mlir", true);
    int found = 0;
    for (int n = 0; n < graph->node_count; n++) {
        const struct onnx_node *node = &graph->nodes[n];
        if (strcmp(node->type, "ConvTranspose") != 0) continue;
        assert_int_equal(node->input_count, 3);
        assert_int_equal(graph->tensors[node->outputs[0]].dims[2], PLACES[found]);
        assert_int_equal(graph->tensors[node->outputs[0]].dims[3], PLACES[found++]);
    }
    assert_int_equal(found, 2);
    assert_int_equal(count_of(graph, "Conv"), 2);
}

// A stride of 3 over a kernel of 2: of each place come 3, one of them nothing.
static void strides_beyond_the_kernel_leave_places(void **state)
{
    static const char TEXT[] =
        "module @m {\n  func.func public @main(%w: tensor<2x2x4x3xf32> loc(\"params['w']\"), "
        "%x: tensor<2x5x5x4xf32> loc(\"x\")) -> tensor<2x15x15x3xf32> {\n"
        "%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        "window = {stride = [1, 1], pad = [[1, 2], [1, 2]], lhs_dilate = [3, 3]} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x5x5x4xf32>, "
        "tensor<2x2x4x3xf32>) -> tensor<2x15x15x3xf32>\n"
        "return %0 : tensor<2x15x15x3xf32>\n}\n}\n";
    struct err err = {0};
    const struct onnx_options options = {.training = true};
    const struct onnx_graph *graph =
        onnx_read(*state, "x.mlir", TEXT, strlen(TEXT), &options, &err);
    assert_string_equal(err.text, "");
    for (int n = 0; n < graph->node_count; n++) {
        const struct onnx_tensor *made = &graph->tensors[graph->nodes[n].outputs[0]];
        bool is_it = strcmp(graph->nodes[n].type, "ConvTranspose") == 0;
        assert_true(!is_it || (made->dims[2] == 15 && made->dims[3] == 15));
    }
    assert_int_equal(count_of(graph, "ConvTranspose"), 1);
}

// Two bottlenecks with a branch each, and the stem: nine norms of 8 groups.
static void norms_of_groups_are_one_operator(void **state)
{
    const struct onnx_graph *graph = graph_of(*state, FOLDER "resnet_groups.mlir", true);
    assert_int_equal(count_of(graph, "GroupNormalization"), 9);
    assert_int_equal(count_of(graph, "ReduceMean"), 1);
    for (int n = 0; n < graph->node_count; n++) {
        const struct onnx_node *node = &graph->nodes[n];
        if (strcmp(node->type, "GroupNormalization") != 0) continue;
        const struct onnx_tensor *kept = &graph->tensors[node->outputs[1]];
        assert_int_equal(kept->bytes, 2 * 8 * 4);
        assert_true(fabs(node->scalar - 1e-6) < 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(picks_are_one_operator_each),
        cmocka_unit_test(transposed_convolutions_have_their_sizes),
        cmocka_unit_test(strides_beyond_the_kernel_leave_places),
        cmocka_unit_test(norms_of_groups_are_one_operator),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
