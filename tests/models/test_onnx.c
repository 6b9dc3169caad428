#include "tests/support/test.h"

#include "core/file.h"
#include "models/onnx.h"
#include "tests/support/real_graphs.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const FOLDER = "tests/data/onnx";

static struct onnx_graph *load(struct arena *arena, const char *name, int64_t batch, bool training,
                               struct err *err)
{
    struct onnx_options options = {.batch = batch, .training = training, .moment_count = 2};
    return onnx_load(arena, arena_print(arena, "%s/%s.onnx", FOLDER, name), &options, err);
}

static struct onnx_graph *load_good(struct arena *arena, const char *name, int64_t batch,
                                    bool training)
{
    struct err err = {0};
    struct onnx_graph *graph = load(arena, name, batch, training, &err);
    assert_string_equal(err.text, "");
    assert_non_null(graph);
    return graph;
}

static int find_tensor(const struct onnx_graph *graph, const char *name)
{
    for (int i = 0; i < graph->tensor_count; i++) {
        if (strcmp(graph->tensors[i].name, name) == 0) return i;
    }
    fail_msg("no tensor %s", name);
    return -1;
}

static const struct onnx_node *find_node(const struct onnx_graph *graph, const char *name)
{
    for (int i = 0; i < graph->node_count; i++) {
        if (strcmp(graph->nodes[i].name, name) == 0) return &graph->nodes[i];
    }
    fail_msg("no node %s", name);
    return NULL;
}

static bool reads(const struct onnx_graph *graph, const char *node, const char *tensor)
{
    const struct onnx_node *of = find_node(graph, node);
    for (int i = 0; i < of->input_count; i++) {
        if (of->inputs[i] == find_tensor(graph, tensor)) return true;
    }
    return false;
}

static const char *dims_text(struct arena *arena, const struct onnx_tensor *tensor)
{
    const char *text = "";
    for (int i = 0; i < tensor->rank; i++)
        text = arena_print(arena, "%s%s%" PRId64, text, i ? "," : "", tensor->dims[i]);
    return text;
}

static int root_of(const struct onnx_graph *graph, int tensor)
{
    while (graph->tensors[tensor].shares >= 0)
        tensor = graph->tensors[tensor].shares;
    return tensor;
}

// Runs the nodes in order and remembers which value each storage holds: a tensor that is read must
// have been made and must not have been overwritten since.
static void check_program(struct arena *arena, const struct onnx_graph *graph)
{
    int *held = ARENA_NEW(arena, int, graph->tensor_count);  // of a root: number of the value in it
    int *value =
        ARENA_NEW(arena, int, graph->tensor_count);  // of a tensor: the value it stands for
    bool *is_made = ARENA_NEW(arena, bool, graph->tensor_count);
    int value_count = 0;
    for (int i = 0; i < graph->node_count; i++) {
        for (int j = 0; j < graph->nodes[i].output_count; j++)
            value[graph->nodes[i].outputs[j]] = -1;
    }
    for (int i = 0; i < graph->tensor_count; i++) {
        assert_true(graph->tensors[i].bytes >= 0);
        if (value[i] < 0) continue;
        is_made[i] = true;
        held[i] = value[i] = ++value_count;
    }
    for (int i = 0; i < graph->node_count; i++) {
        const struct onnx_node *node = &graph->nodes[i];
        for (int j = 0; j < node->input_count; j++) {
            int input = node->inputs[j];
            assert_true(is_made[input]);
            assert_int_equal(held[root_of(graph, input)], value[input]);
            for (int k = 0; k < j; k++)
                assert_int_not_equal(input, node->inputs[k]);
        }
        for (int j = 0; j < node->output_count; j++) {
            int output = node->outputs[j], root = root_of(graph, output);
            const struct onnx_tensor *made = &graph->tensors[output];
            assert_false(is_made[output]);
            is_made[output] = true;
            bool is_view = made->shares >= 0 && !made->overwrites;
            value[output] = is_view ? value[made->shares] : ++value_count;
            held[root] = value[output];
            if (made->shares >= 0) assert_true(made->bytes == graph->tensors[made->shares].bytes);
        }
    }
    for (int i = 0; i < graph->tensor_count; i++) {
        if (graph->tensors[i].is_output) assert_int_equal(held[root_of(graph, i)], value[i]);
    }
}

// shapes.tsv is what onnx's own shape inference says of the same file.
static void shapes_agree_with_those_of_onnx(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    size_t bytes = 0;
    const struct onnx_graph *graph = load_good(arena, "shapes", 0, false);
    char *text = file_read(arena, "tests/data/onnx/shapes.tsv", 1 << 20, &bytes, &err);
    assert_non_null(text);
    int count = 0;
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *name = strsep(&line, "\t");
        char *element = strsep(&line, "\t");
        const struct onnx_tensor *tensor = &graph->tensors[find_tensor(graph, name)];
        assert_string_equal(arena_print(arena, "%s %s", name, dims_text(arena, tensor)),
                            arena_print(arena, "%s %s", name, line));
        const int sizes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8};
        assert_int_equal(tensor->element_bytes, sizes[atoi(element)]);
        count++;
    }
    assert_int_equal(count, 84);
    check_program(arena, graph);
}

static void shapes_of_exported_attention_follow_the_batch(void **state)
{
    struct arena *arena = *state;
    const struct onnx_graph *graph = load_good(arena, "attention", 7, false);
    check_program(arena, graph);
    assert_string_equal(dims_text(arena, &graph->tensors[find_tensor(graph, "qt")]), "7,4,6,4");
    assert_string_equal(dims_text(arena, &graph->tensors[find_tensor(graph, "joined")]), "7,6,16");
    const struct onnx_tensor *logits = &graph->tensors[find_tensor(graph, "logits")];
    assert_string_equal(dims_text(arena, logits), "7,6,50");
    assert_true(logits->is_output);
    // Computed shapes are constants: nothing that makes one runs.
    for (int i = 0; i < graph->node_count; i++)
        assert_string_not_equal(graph->nodes[i].type, "Shape");
}

static void a_batch_of_one_in_shapes_becomes_the_new_one(void **state)
{
    struct arena *arena = *state;
    const struct onnx_graph *graph = load_good(arena, "batch_one", 32, false);
    assert_string_equal(dims_text(arena, &graph->tensors[find_tensor(graph, "rows")]), "32,6,4");
    assert_string_equal(dims_text(arena, &graph->tensors[find_tensor(graph, "all")]), "32,5,6");
    assert_string_equal(dims_text(arena, &graph->tensors[find_tensor(graph, "heads")]), "96,5,2");
    assert_string_equal(dims_text(arena, &graph->tensors[find_tensor(graph, "joined")]), "32,5,6");
    assert_string_equal(dims_text(arena, &graph->tensors[find_tensor(graph, "logits")]), "32,10");
    graph = load_good(arena, "batch_one", 0, false);
    assert_string_equal(dims_text(arena, &graph->tensors[find_tensor(graph, "heads")]), "3,5,2");
}

static void backward_reads_what_its_kernels_need(void **state)
{
    struct arena *arena = *state;
    const struct onnx_graph *graph = load_good(arena, "residual", 4, true);
    check_program(arena, graph);
    assert_true(reads(graph, "d.weight_gradient", "r"));
    assert_true(reads(graph, "d.input_gradient", "w2"));
    assert_false(reads(graph, "d.input_gradient", "r"));
    assert_true(reads(graph, "n.gradient", "c"));  // normalisation: its input and the statistics
    assert_true(reads(graph, "n.gradient", "n.saved1"));
    assert_true(reads(graph, "r.gradient", "r"));
    assert_true(reads(graph, "p.gradient", "p.saved1"));
    assert_false(reads(graph, "p.gradient", "t"));
    assert_true(reads(graph, "o.gradient", "o.saved1"));
    assert_int_equal(graph->tensors[find_tensor(graph, "o.saved1")].bytes, 4 * 64);
    for (int i = 0; i < graph->node_count; i++)  // the image is data: no gradient of it
        assert_string_not_equal(graph->nodes[i].name, "c.input_gradient");
    int sum = find_tensor(graph, "r.gradient~2");  // two readers: the second convolution and Add
    assert_true(graph->tensors[sum].overwrites);
    assert_string_equal(find_node(graph, "r.gradient_sum")->type, "Sum");
}

static void only_what_nobody_else_reads_is_overwritten(void **state)
{
    struct arena *arena = *state;
    const struct onnx_graph *graph = load_good(arena, "outputs", 0, false);
    check_program(arena, graph);
    assert_int_equal(graph->tensors[find_tensor(graph, "a")].shares, -1);  // x is the user's
    assert_int_equal(graph->tensors[find_tensor(graph, "b")].shares, find_tensor(graph, "a"));
    assert_int_equal(graph->tensors[find_tensor(graph, "c")].shares, -1);  // b is an output
    assert_int_equal(graph->tensors[find_tensor(graph, "d")].shares, -1);
    assert_int_equal(graph->tensors[find_tensor(graph, "e")].shares, find_tensor(graph, "d"));
    assert_true(graph->tensors[find_tensor(graph, "e")].overwrites);
}

static void every_trained_parameter_is_updated_in_place(void **state)
{
    struct arena *arena = *state;
    const char *const names[] = {"residual", "attention", "batch_one"};
    for (int m = 0; m < 3; m++) {
        const struct onnx_graph *graph = load_good(arena, names[m], 2, true);
        check_program(arena, graph);
        int64_t updated = 0;
        enum onnx_pass pass = ONNX_FORWARD;
        for (int i = 0; i < graph->node_count; i++) {
            const struct onnx_node *node = &graph->nodes[i];
            assert_true(node->pass >= pass);
            pass = node->pass;
            if (pass != ONNX_UPDATE) continue;
            assert_string_equal(node->type, "adamw");
            assert_int_equal(node->input_count, 4);
            assert_int_equal(node->output_count, 3);
            const struct onnx_tensor *parameter = &graph->tensors[node->inputs[0]];
            const struct onnx_tensor *gradient = &graph->tensors[node->inputs[1]];
            assert_int_equal(parameter->role, ONNX_PARAMETER);
            assert_int_equal(gradient->bytes, parameter->bytes);
            assert_int_equal(graph->tensors[node->outputs[0]].shares, node->inputs[0]);
            updated += parameter->bytes / parameter->element_bytes;
        }
        assert_int_equal(updated, graph->parameter_elements);
    }
}

static void a_tied_weight_has_one_gradient_and_one_update(void **state)
{
    struct arena *arena = *state;
    const struct onnx_graph *graph = load_good(arena, "attention", 1, true);
    // wte 50 x 16, wpe 12 x 16, g 16, wqkv, wo, w1, w2: the head is wte again.
    assert_int_equal(graph->parameter_elements, 800 + 192 + 16 + 768 + 256 + 1024 + 1024);
    assert_true(reads(graph, "head.gradient", "head.gradient"));
    find_node(graph, "wte.gradient_sum");
    find_node(graph, "wte.adamw");
}

static void matrix_products_take_twice_their_flops_backward(void **state)
{
    struct arena *arena = *state;
    const struct onnx_graph *graph = load_good(arena, "attention", 3, true);
    const struct onnx_node *forward = find_node(graph, "up");
    assert_float_equal(forward->flop, 2.0 * 3 * 6 * 16 * 64, 0);
    assert_float_equal(find_node(graph, "up.input_gradient")->flop, forward->flop, 0);
    assert_float_equal(find_node(graph, "up.weight_gradient")->flop, forward->flop, 0);
}

// The next node that is no view; NULL behind the last.
static const struct onnx_node *next_node(const struct onnx_graph *graph, int *at)
{
    while (*at < graph->node_count && strncmp(graph->nodes[*at].type, "Reshape", 7) == 0)
        (*at)++;
    return *at < graph->node_count ? &graph->nodes[(*at)++] : NULL;
}

// Forward and backward of two files are alike but for names and views.
static void expect_alike(struct arena *arena, const char *whole_name, const char *chain_name)
{
    const struct onnx_graph *whole = load_good(arena, whole_name, 4, true);
    const struct onnx_graph *chains = load_good(arena, chain_name, 4, true);
    const struct onnx_node *a, *b;
    int at = 0, of = 0;
    do {
        a = next_node(whole, &at);
        b = next_node(chains, &of);
        assert_true((a == NULL) == (b == NULL));
        if (!a) break;
        assert_string_equal(a->type, b->type);
        assert_int_equal(a->input_count, b->input_count);
        assert_true(a->flop == b->flop);
        assert_int_equal(a->mode != NULL, b->mode != NULL);
        for (int k = 0; k < a->input_count; k++)
            assert_int_equal(whole->tensors[a->inputs[k]].bytes,
                             chains->tensors[b->inputs[k]].bytes);
    } while (a);
}

static int count_type(const struct onnx_graph *graph, const char *type)
{
    int count = 0;
    for (int i = 0; i < graph->node_count; i++)
        count += strcmp(graph->nodes[i].type, type) == 0;
    return count;
}

// Written out in four ways, forward and backward are those of a file that has the function itself:
// its backward reads what it was given, as PyTorch's, and nothing in between.
static void gelu_written_out_is_gelu(void **state)
{
    expect_alike(*state, "gelus", "gelus_written_out");
    const struct onnx_graph *graph = load_good(*state, "gelus_written_out", 4, true);
    assert_int_equal(count_type(graph, "Gelu.gradient"), 4);
    for (int i = 0; i < graph->node_count; i++)
        if (strcmp(graph->nodes[i].type, "Gelu.gradient") == 0)
            assert_int_equal(graph->nodes[i].input_count, 2);
}

// In three ways, with layer norm and swish behind each: scaled before the scores and masked by a
// sum, keys turned on their way and chosen by Where, batch and heads as one dimension.
static void attention_written_out_keeps_no_scores(void **state)
{
    expect_alike(*state, "attentions", "attentions_written_out");
    const struct onnx_graph *graph = load_good(*state, "attentions_written_out", 4, true);
    assert_int_equal(count_type(graph, "Attention"), 3);
    assert_int_equal(count_type(graph, "Attention.gradient"), 3);
    assert_int_equal(count_type(graph, "LayerNormalization"), 3);
    assert_int_equal(count_type(graph, "Swish.gradient"), 3);
    assert_int_equal(count_type(graph, "Softmax"), 0);
}

// A file's own loss is the one that training adds, and its other outputs are none.
static void a_loss_of_its_own_adds_nothing(void **state)
{
    expect_alike(*state, "residual", "residual_loss");
}

static void scores_that_others_need_stay(void **state)
{
    const struct onnx_graph *graph = load_good(*state, "scores_read", 0, true);
    assert_int_equal(count_type(graph, "Softmax"), 2);
    assert_int_equal(count_type(graph, "Attention"), 0);
}

static void bad_models_get_one_line(void **state)
{
    struct arena *arena = *state;
    static const char *const cases[][2] = {
        {"bad_cycle", "node b (Relu): it depends on itself through a"},
        {"bad_twice", "node a (Tanh): a is already made by another node, or an input"},
        {"bad_missing", "node a (Add): w is read, but neither an input, an initializer nor made by "
                        "a node"},
        {"bad_operator", "node odd (Fold): an operator of domain ai.onnx that we do not know"},
        {"bad_rank", "node a (Conv): input x has 2 dimensions, at least 3 are wanted"},
        {"bad_zero", "dimension 0 of input x is 0"},
        {"bad_negative", "dimension 1 of input x is -3"},
        {"bad_huge", "input: x has more than 2^50 bytes"},
        {"bad_symbol", "dimension 1 (length) of input x has no value, and only the first one, the "
                       "batch, may have none"},
        {"bad_inputs", "node a (Conv): 1 inputs, 2 to 3 are wanted"},
        {"bad_output", "output b is made by no node"},
        {"bad_reshape", "node a (Reshape): the 6 elements of x do not fit the shape with one entry "
                        "free"},
        {"bad_dynamic", "node a (Reshape): the values of input to are needed and are no small "
                        "constant"},
        {"bad_broadcast", "node sum (Add): dimension 0 of input w is 4, which does not broadcast "
                          "with 3"},
        {"bad_matmul", "node a (MatMul): x has 3 columns, x has 2 rows"},
        {"bad_loss_rank", "node end (SoftmaxCrossEntropyLoss): scores of 3 dimensions, rows of "
                          "classes are wanted"},
        {"bad_loss_weights", "node end (SoftmaxCrossEntropyLoss): 3 inputs, 2 to 2 are wanted"},
        {"bad_loss_sum", "node end (SoftmaxCrossEntropyLoss): a loss that is no mean"},
        {"bad_loss_inside", "node end (SoftmaxCrossEntropyLoss): one loss is wanted, which is an "
                            "output of the model"},
        {"bad_loss_scores", "node end (NegativeLogLikelihoodLoss): what a LogSoftmax makes is "
                            "wanted"},
        {"bad_loss_twice", "node end (SoftmaxCrossEntropyLoss): scores are wanted, no "
                           "probabilities"},
        {"no_weights", "no output depends on a weight that could be trained"},
        {"absent", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        assert_null(load(arena, cases[i][0], 0, true, &err));
        assert_int_equal(err.kind, ERR_INPUT);
        const char *path = arena_print(arena, "%s/%s.onnx", FOLDER, cases[i][0]);
        const char *wanted = arena_print(arena, "%s: %s", path, cases[i][1]);
        if (!cases[i][1])
            wanted = arena_print(arena, "cannot read %s: %s", path, "No such file or directory");
        assert_string_equal(err.text, wanted);
    }
}

// Whatever the damage, the answer is a graph that holds together or one line.
static void damaged_files_end_with_a_graph_or_a_line(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    size_t count = 0;
    char *bytes = file_read(arena, "tests/data/onnx/residual.onnx", 1 << 20, &count, &err);
    assert_non_null(bytes);
    struct onnx_options options = {.batch = 2, .training = true, .moment_count = 1};
    int refused = 0;
    for (size_t i = 0; i < count; i++) {
        struct arena_mark mark = arena_mark(arena);
        struct err cut = {0}, flip = {0};
        if (!onnx_read(arena, "cut", bytes, i, &options, &cut)) refused++;
        assert_int_equal(cut.kind, ERR_INPUT);
        bytes[i] = (char)(bytes[i] ^ 0x15);
        const struct onnx_graph *graph = onnx_read(arena, "flip", bytes, count, &options, &flip);
        bytes[i] = (char)(bytes[i] ^ 0x15);
        assert_true((graph != NULL) == (flip.kind == ERR_NONE));
        assert_null(strchr(flip.text, '\n'));
        if (graph) check_program(arena, graph);
        arena_reset(arena, mark);
    }
    assert_int_equal(refused, count);
}

// Sizes counted by hand: activations of ResNet-50 a sample that its backward reads. Inputs of
// convolutions, and of normalisations (outputs of convolutions); a rectifier reads its output,
// which is the input of a convolution.
static void resnet50_keeps_the_bytes_of_a_hand_count(void **state)
{
    struct arena *arena = *state;
    const char *path = real_graph(arena, "onnx-light/light_resnet50.onnx");
    if (!path) return;
    struct onnx_options options = {.batch = 32, .training = true, .moment_count = 2};
    struct err err = {0};
    const struct onnx_graph *graph = onnx_load(arena, path, &options, &err);
    assert_string_equal(err.text, "");
    check_program(arena, graph);
    assert_int_equal(graph->parameter_elements, 25557032);
    int64_t kept = 0;
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct onnx_tensor *tensor = &graph->tensors[i];
        bool is_read = false;
        for (int j = 0; j < graph->node_count && tensor->role == ONNX_ACTIVATION; j++) {
            const struct onnx_node *node = &graph->nodes[j];
            for (int k = 0; k < node->input_count && node->pass == ONNX_BACKWARD; k++)
                is_read = is_read || node->inputs[k] == i;
        }
        if (is_read && tensor->rank == 4 && tensor->element_bytes == 4) kept += tensor->bytes;
    }
    // Elements a sample: the first convolution and its rectifier 2 * 64 * 112^2, the pool's output
    // 64 * 56^2; then a block of width w and side s has its convolutions' outputs (w, w, 4w), the
    // rectifiers (w, w, 4w), and the first of a stage 4w of the shortcut. The stride of a stage is
    // in its second convolution: the first one and its rectifier are still of four times the area.
    int64_t elements = 2 * 64 * 112 * 112 + 64 * 56 * 56;
    const int blocks[] = {3, 4, 6, 3};
    for (int stage = 0; stage < 4; stage++) {
        int64_t width = 64 << stage, side = 56 >> stage;
        elements += blocks[stage] * 12 * width * side * side + 4 * width * side * side;
        if (stage) elements += 3 * 2 * width * side * side;
    }
    assert_int_equal(kept, 32 * 4 * elements);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_agree_with_those_of_onnx),
        cmocka_unit_test(shapes_of_exported_attention_follow_the_batch),
        cmocka_unit_test(a_batch_of_one_in_shapes_becomes_the_new_one),
        cmocka_unit_test(backward_reads_what_its_kernels_need),
        cmocka_unit_test(only_what_nobody_else_reads_is_overwritten),
        cmocka_unit_test(every_trained_parameter_is_updated_in_place),
        cmocka_unit_test(a_tied_weight_has_one_gradient_and_one_update),
        cmocka_unit_test(matrix_products_take_twice_their_flops_backward),
        cmocka_unit_test(gelu_written_out_is_gelu),
        cmocka_unit_test(attention_written_out_keeps_no_scores),
        cmocka_unit_test(a_loss_of_its_own_adds_nothing),
        cmocka_unit_test(scores_that_others_need_stay),
        cmocka_unit_test(bad_models_get_one_line),
        cmocka_unit_test(damaged_files_end_with_a_graph_or_a_line),
        cmocka_unit_test(resnet50_keeps_the_bytes_of_a_hand_count),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
