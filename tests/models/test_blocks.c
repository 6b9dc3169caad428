#include "tests/support/graph_counts.h"
#include "tests/support/test.h"

#include "models/autodiff.h"
#include "models/import.h"
#include "models/op.h"
#include "plan/unexecuted.h"
#include "tests/support/real_graphs.h"

#include <math.h>

// Graphs that are no stack of known layers, as blocks of operators.

#define RESNET "tests/data/pt2/resnet50.pt2"

static const struct import_options OPTIONS = {0};

static struct graph *graph_of(struct arena *arena, const char *path)
{
    struct err err = {0};
    struct model_config *config = model_load(arena, path, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    return model_graph(arena, config, &OPTIONS);
}

// A first block, four stages of which the first bottleneck differs from the others, and a head: the
// 16 bottlenecks are 8 kinds, those of one kind stored once.
static void bottlenecks_that_are_alike_are_one_block(void **state)
{
    const struct graph *graph = graph_of(*state, RESNET);
    assert_int_equal(graph->parameter_count, 25557032);
    assert_int_equal(graph->layer_count, 16);
    assert_int_equal(graph->block_count, 10);
    static const int SEQUENCE[] = {0, 1, 2, 2, 3, 4, 4, 4, 5, 6, 6, 6, 6, 6, 7, 8, 8, 9};
    assert_int_equal(graph->sequence_count, 18);
    for (int i = 0; i < 18; i++)
        assert_int_equal(graph->sequence[i], SEQUENCE[i]);
    assert_string_equal(graph_of(*state, "tests/data/pt2/resnet50_core.pt2")->model_type,
                        "operators");
}

// 4.09 billion multiply-adds a sample (tests/models/test_pt2.c works them out), twice that in flops
// and three times that with both products of backward.
static void the_work_of_a_sample_is_that_of_its_layers(void **state)
{
    const struct graph *graph = graph_of(*state, RESNET);
    assert_true(graph_model_flop(graph, 1) == 6 * 4089184256.0);
}

// Three products end blocks. The last one looks like them, but a loss alone would have no scores.
static void the_last_scores_stay_with_the_loss(void **state)
{
    const struct graph *graph = graph_of(*state, "tests/data/stablehlo/bent.mlir");
    assert_int_equal(graph->parameter_count, 3 * 64 + 40);
    assert_int_equal(graph->sequence_count, 4);
    assert_true(graph_model_flop(graph, 1) == 6 * (3 * 64 + 40));
}

// Its answer is (1, 1000, 1, 1), behind concatenations: 1,235,496 parameters, and multiply-adds by
// hand over its layers (squeezenet 1.1: 3 x 3 of 64 at stride 2, eight fire modules, 1 x 1 of
// 1000).
static void squeezenet_answers_with_an_image_of_one_pixel(void **state)
{
    static const int FIRES[][4] = {{64, 16, 64, 55},   {128, 16, 64, 55},  {128, 32, 128, 27},
                                   {256, 32, 128, 27}, {256, 48, 192, 13}, {384, 48, 192, 13},
                                   {384, 64, 256, 13}, {512, 64, 256, 13}};
    const char *path = real_graph(*state, "onnx-light/light_squeezenet.onnx");
    if (!path) return;
    const struct graph *graph = graph_of(*state, path);
    double products = 111.0 * 111 * 64 * 27 + 13.0 * 13 * 512 * 1000;
    for (int i = 0; i < 8; i++) {
        const int *fire = FIRES[i];
        products += (double)fire[3] * fire[3] * fire[1] * (fire[0] + 10 * fire[2]);
    }
    assert_int_equal(graph->parameter_count, 1235496);
    assert_true(graph_model_flop(graph, 1) == 6 * products);
}

// A loss over the classes makes the probabilities of what a softmax at the end is of: no operator
// is left of it, before or behind the loss.
static void a_softmax_at_the_end_is_the_loss(void **state)
{
    const struct graph *scored = graph_of(*state, "tests/data/onnx/pixel_scored.onnx");
    const struct graph *pixel = graph_of(*state, "tests/data/onnx/pixel.onnx");
    assert_int_equal(scored->block_count, pixel->block_count);
    for (int b = 0; b < pixel->block_count; b++)
        assert_int_equal(scored->blocks[b].op_count, pixel->blocks[b].op_count);
}

// Before opset 13 a softmax that names no axis is over more than rows, which kernels are for.
static void an_old_softmax_is_over_all_but_the_first(void **state)
{
    struct err err = {0};
    const struct graph *graph = graph_of(*state, "tests/data/onnx/softmax_inside.onnx");
    assert_false(unexecuted_check_graph(graph, "cpu", &err));
    assert_string_equal(err.text, "softmax_inside is not executed, because no back end has a "
                                  "kernel for its operator b");
}

// Whatever the batch, forward and each of the two products of backward have the same work; the
// first convolution has no gradient of its images.
static void products_have_the_same_work_both_ways(void **state)
{
    const struct graph *graph = graph_of(*state, RESNET);
    double forward = 0, weight = 0, input = 0;
    int64_t size[DIM_COUNT] = {[DIM_BATCH] = 3};
    for (int i = 0; i < graph->sequence_count; i++) {
        struct block_gradients gradients;
        const struct block *block =
            autodiff_block(*state, &graph->blocks[graph->sequence[i]], &gradients);
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            if (op->kind != OP_PRODUCT) continue;
            struct gemm gemm = op_gemm(block, op, size);
            double *sum = op->phase == PHASE_FORWARD  ? &forward
                          : op->phase == PHASE_WEIGHT ? &weight
                                                      : &input;
            *sum += gemm_flop(&gemm);
        }
    }
    assert_true(forward == 3 * 2 * 4089184256.0);
    assert_true(weight == forward);
    assert_true(input == forward - 3 * 2 * 64.0 * 112 * 112 * 3 * 49);
}

// What backward reads of a bottleneck: the inputs of its convolutions and norms, each once.
static void a_bottleneck_keeps_what_its_backward_reads(void **state)
{
    const struct graph *graph = graph_of(*state, RESNET);
    const struct block *block = &graph->blocks[2];  // 256 channels of 56 x 56, inside 64
    bool *saved = ARENA_NEW(*state, bool, block->tensor_count);
    block_saved_tensors(block, saved);
    int64_t elements = 0;
    for (int t = 0; t < block->tensor_count; t++) {
        const struct tensor *tensor = &block->tensors[t];
        bool is_counted = saved[t] && tensor_find_dim(tensor, DIM_BATCH) >= 0;
        if (is_counted) elements += tensor_elements(tensor, 1, 1);
    }
    // Inputs of three convolutions (256, 64, 64 channels), of three norms (64, 64, 256) and what
    // the last relu made (256), which its backward tells the sign by.
    assert_int_equal(elements, 56 * 56 * (256 + 64 + 64 + 64 + 64 + 256 + 256));
}

// Of models of tokens that are no stack: parameters by hand. The three layers of recurrences have
// gates x hidden x (input + hidden) in each direction and two biases, but for that without; t5 is
// what transformers counts (tests/data/pt2/make.py).
static void tokens_that_are_no_stack_are_blocks(void **state)
{
    int64_t lstm = 2 * (24 * (8 + 6) + 48) + 2 * (24 * (12 + 6) + 48);
    int64_t recurrent = 50 * 8 + lstm + 30 * (12 + 10) + 2 * (4 * (10 + 4) + 8) + 20 * 5 + 5;
    int64_t bags = 9 * 20 * 8 + 36 * 16 + 16 + 16 * 8 + 8 + 8 * 2 + 2;
    assert_int_equal(graph_of(*state, "tests/data/pt2/recurrent.pt2")->parameter_count, recurrent);
    assert_int_equal(graph_of(*state, "tests/data/pt2/bags.pt2")->parameter_count, bags);
    const struct graph *t5 = graph_of(*state, "tests/data/pt2/t5.pt2");
    assert_int_equal(t5->parameter_count, 11712);
    int ties = 0;
    for (int b = 0; b < t5->block_count; b++)
        for (int t = 0; t < t5->blocks[b].tensor_count; t++)
            ties += t5->blocks[b].tensors[t].tie != NULL;
    assert_int_equal(ties, 2);  // one table for encoder, decoder and head, of which two are a block
    struct err err = {0};
    struct model_config *config = model_load(*state, "tests/data/pt2/bags.pt2", NULL, NULL, &err);
    assert_non_null(strstr(config->notes[0], "planned as blocks of its operators"));
}

// What is taken of a table by numbers that are the same for all samples, or made of a weight alone,
// is read as the table: it has no samples, and whoever reads it adds to the table's gradient.
// Parameters by hand: tables of 50, 30 and 2 rows, three layers (qkv and out, an mlp of 12, two
// norms), a gate, a head; and a convolution, three times qkv, out and a table of 9 biases, a head.
// Tokens of 32 bits stay so in plans of any precision.
static void whole_numbers_are_as_wide_as_in_the_file(void **state)
{
    const struct graph *graph = graph_of(*state, "tests/data/stablehlo/picks.mlir");
    int found = 0;
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int t = 0; t < block->tensor_count; t++) {
            if (strcmp(block->tensors[t].name, "places") != 0) continue;
            assert_int_equal(block->tensors[t].element, ELEMENT_FP32);
            found++;
        }
    }
    assert_true(found > 0);
}

static void what_is_made_of_a_weight_is_read_as_the_weight(void **state)
{
    int64_t layer = 8 * 24 + 24 + 8 * 8 + 8 + 2 * 8 * 12 + 12 + 8 + 4 * 8;
    const struct graph *positions = graph_of(*state, "tests/data/pt2/positions.pt2");
    assert_int_equal(positions->parameter_count, 82 * 8 + 3 * layer + 8 + 8 * 5 + 5);
    const struct graph *windows = graph_of(*state, "tests/data/pt2/windows.pt2");
    int64_t window = 8 * 24 + 24 + 8 * 8 + 8 + 9 * 2;
    assert_int_equal(windows->parameter_count, 12 * 8 + 8 + 3 * window + 8 * 5 + 5);
    // qkv and out of 64 places, scores of 4 places with 4 in 16 windows of 2 heads, and the values.
    double attend = 64 * (8 * 24 + 8 * 8) + 2 * 16 * 2 * 4 * 4 * 4;
    assert_true(graph_model_flop(windows, 1) == 6 * (64 * 12 * 8 + 3 * attend + 8 * 5));
    for (int t = 0; t < 2; t++) {
        const struct graph *graph = t ? windows : positions;
        const struct block *block = &graph->blocks[graph->sequence[1]];
        for (int i = 0; i < block->tensor_count; i++) {
            const struct tensor *tensor = &block->tensors[i];
            bool is_statistic = tensor->element == ELEMENT_FP32 && tensor->producer >= 0;
            if (tensor->role == TENSOR_ACTIVATION && !is_statistic)
                assert_true(tensor_find_dim(tensor, DIM_BATCH) >= 0);
        }
    }
}

static const struct op *op_named(const struct graph *graph, const char *name)
{
    for (int b = 0; b < graph->block_count; b++) {
        for (int o = 0; o < graph->blocks[b].op_count; o++)
            if (strcmp(graph->blocks[b].ops[o].name, name) == 0) return &graph->blocks[b].ops[o];
    }
    fail_msg("no operator is called %s", name);
    return NULL;
}

// A product with a matrix that is made of weights reads these, and takes what making it takes, a
// third of it for each of three samples: a weight over its norm is 64 squares that are summed, 8
// quotients and 64 products; keys of 14 places apart are 8 operations each in their norm and 64
// multiply-adds each in their projection. Backward is twice as much.
static void matrices_made_of_weights_are_read_as_these(void **state)
{
    const struct graph *graph = graph_of(*state, "tests/data/pt2/made.pt2");
    int64_t parameters = 50 * 8 + 14 * 8 + 2 * 8 + 72 + 3 * (64 + 8 + 8) + (192 + 3 + 8) + 32 + 45;
    assert_int_equal(graph->parameter_count, parameters);
    const struct op *normed = op_named(graph, "linear.part6");
    assert_int_equal(normed->input_count, 3);
    assert_true(normed->work.multiplies);
    assert_true(fabs(normed->work.flop - (2 * 7 * 64 + (64 + 8 + 64) / 3.0)) < 1e-9);
    assert_true(fabs(normed->work.backward_flop - 2 * normed->work.flop) < 1e-9);
    const struct op *apart = op_named(graph, "matmul_1");
    assert_int_equal(apart->input_count, 6);
    assert_true(fabs(apart->work.flop - (2 * 7 * 8 * 14 + 14 * (8 * 8 + 2 * 64) / 3.0)) < 1e-9);
}

// Each token goes to 2 of 4 experts, which are one product of rows with a matrix of their own.
static void experts_are_grouped_products(void **state)
{
    const struct graph *graph = graph_of(*state, "tests/data/pt2/mixtral.pt2");
    int64_t layer = 2 * 32 * 32 + 2 * 32 * 16 + 2 * 32 + 4 * 32 + 4 * (96 + 48) * 32;
    assert_int_equal(graph->parameter_count, 2 * 100 * 32 + 3 * layer + 32);
    const struct op *up = op_named(graph, "grouped_mm_fallback");
    const struct op *down = op_named(graph, "grouped_mm_fallback_1");
    assert_true(up->work.multiplies && down->work.multiplies);
    assert_true(up->work.flop == 2.0 * 16 * 2 * 32 * 96 && down->work.flop == up->work.flop / 2);
    assert_true(up->work.backward_flop == 2 * up->work.flop);
}

// No plan is searched for over more kinds of blocks than 32: of 39 cuts, one in front of each
// product but the first, every other one stays.
static void blocks_of_many_kinds_are_joined(void **state)
{
    const struct graph *graph = graph_of(*state, "tests/data/onnx/many_kinds.onnx");
    int64_t parameters = 0;
    for (int64_t i = 0; i < 40; i++)
        parameters += (4 + i) * (5 + i);
    assert_int_equal(graph->parameter_count, parameters);
    assert_int_equal(graph->block_count, 21);
    assert_int_equal(graph->sequence_count, 21);
}

// Attention is a product: scores and what is taken of the values, forward once and backward twice.
static void attention_in_a_block_is_model_work(void **state)
{
    const struct graph *graph = graph_of(*state, "tests/data/onnx/attentions_classes.onnx");
    double products = 3 * (4 * 6 * 8 * 8 + 2 * 2 * 6 * 6 * 4) + 6 * 8 * 3;
    assert_true(graph_model_flop(graph, 1) == 6 * products);
}

static const char *message_of(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct json_document document;
    assert_true(json_parse(arena, "m.json", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    assert_null(model_read(arena, "m", &root, NULL, NULL, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    return arena_copy(arena, err.text);
}

#define ACTIVATION(name)                                                            \
    "{\"name\": \"" name "\", \"role\": \"activation\", \"element\": \"compute\", " \
    "\"dims\": [\"batch\", \"channel\"], \"sizes\": [0, 4]}"
#define OPERATOR(in, out)                                                        \
    "{\"name\": \"" out "\", \"kind\": \"operator\", \"inputs\": [\"" in "\"], " \
    "\"outputs\": [\"" out "\"]}"
#define IMAGE(name, size)                                                           \
    "{\"name\": \"" name "\", \"role\": \"activation\", \"element\": \"compute\", " \
    "\"dims\": [\"batch\", \"channel\", \"height\", \"width\"], \"sizes\": [0, 4, " size "]}"
#define PLACED(kind, more)                                                  \
    BLOCK(IMAGE("x", "8, 8") "," IMAGE("y", "4, 4"),                        \
          "{\"name\": \"y\", \"kind\": \"" kind "\", \"inputs\": [\"x\"], " \
          "\"outputs\": [\"y\"], " more "}",                                \
          "y")
#define WINDOW(stride) "{\"taps\": 3, \"stride\": " stride ", \"dilation\": 1, \"pad\": 1}"
#define MODEL(blocks, sequence)                                                  \
    "{\"model_type\": \"operators\", \"classes\": 4, \"blocks\": [" blocks "], " \
    "\"sequence\": [" sequence "]}"
#define BLOCK(tensors, operators, output)                                            \
    "{\"name\": \"b\", \"tensors\": [" tensors "], \"operators\": [" operators "], " \
    "\"output\": \"" output "\"}"

static void wrong_blocks_are_one_line(void **state)
{
    static const char *const CASES[][2] = {
        {MODEL(BLOCK(ACTIVATION("x"), OPERATOR("x", "y"), "y"), "0, 0, 0"),
         "no tensor of this block"},
        {MODEL(BLOCK(ACTIVATION("x") "," ACTIVATION("y"), OPERATOR("x", "y"), "x"), "0, 0, 0"),
         "its output is made by no operator"},
        {MODEL(BLOCK(ACTIVATION("x") "," ACTIVATION("x"), OPERATOR("x", "x"), "x"), "0, 0, 0"),
         "a name that is taken"},
        {MODEL(BLOCK(ACTIVATION("x") "," ACTIVATION("y"), OPERATOR("x", "y"), "y"), "0, 0, 0"),
         "its first or last block is there twice"},
        {MODEL(BLOCK(ACTIVATION("x") "," ACTIVATION("y"), OPERATOR("x", "y"), "y"), "0, 1"),
         "3 to 10000 blocks are wanted"},
        {MODEL(BLOCK(ACTIVATION("x") "," ACTIVATION("y"), OPERATOR("y", "x") "," OPERATOR("x", "y"),
                     "y"),
               "0, 0, 0"),
         "is read before it is made"},
        {MODEL(PLACED("operator", "\"places\": \"some\""), "0, 0, 0"),
         "places: \"some\" is none of them"},
        {MODEL(PLACED("operator", "\"places\": \"window\""), "0, 0, 0"), "windows"},
        {MODEL(PLACED("operator", "\"places\": \"window\", \"windows\": [" WINDOW("2") "]"),
               "0, 0, 0"),
         "a window of height and one of width are wanted"},
        {MODEL(PLACED("operator",
                      "\"places\": \"turned\", \"windows\": [" WINDOW("0") ", " WINDOW("1") "]"),
               "0, 0, 0"),
         "a stride and a dilation of at least 1 are wanted"},
        {MODEL(PLACED("operator",
                      "\"places\": \"window\", \"windows\": [" WINDOW("2") ", " WINDOW("3") "]"),
               "0, 0, 0"),
         "places or windows that its images have not"},
        {MODEL(PLACED("add", "\"places\": \"each\""), "0, 0, 0"),
         "places or windows that its images have not"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *message = message_of(*state, CASES[i][0]);
        assert_null(strchr(message, '\n'));
        if (!strstr(message, CASES[i][1])) assert_string_equal(message, CASES[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bottlenecks_that_are_alike_are_one_block),
        cmocka_unit_test(the_work_of_a_sample_is_that_of_its_layers),
        cmocka_unit_test(the_last_scores_stay_with_the_loss),
        cmocka_unit_test(squeezenet_answers_with_an_image_of_one_pixel),
        cmocka_unit_test(a_softmax_at_the_end_is_the_loss),
        cmocka_unit_test(an_old_softmax_is_over_all_but_the_first),
        cmocka_unit_test(products_have_the_same_work_both_ways),
        cmocka_unit_test(a_bottleneck_keeps_what_its_backward_reads),
        cmocka_unit_test(tokens_that_are_no_stack_are_blocks),
        cmocka_unit_test(whole_numbers_are_as_wide_as_in_the_file),
        cmocka_unit_test(what_is_made_of_a_weight_is_read_as_the_weight),
        cmocka_unit_test(matrices_made_of_weights_are_read_as_these),
        cmocka_unit_test(experts_are_grouped_products),
        cmocka_unit_test(blocks_of_many_kinds_are_joined),
        cmocka_unit_test(attention_in_a_block_is_model_work),
        cmocka_unit_test(wrong_blocks_are_one_line),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
