#include "tests/support/test.h"

#include "core/file.h"
#include "core/json_write.h"
#include "models/import.h"
#include "plan/unexecuted.h"
#include "tests/support/run_case.h"
#include "tests/support/tiny_models.h"

#include <math.h>

// Imported networks on several ranks, each plan against one rank that does it all, in double
// precision: losses, weights, gradients, what ranks exchanged and what they held. What one rank
// computes is held against PyTorch by tests/judges/images.py.

#define PARTS "tests/data/onnx/parts.onnx"
#define JAX "tests/data/stablehlo/convolutions.mlir"
#define DROPPED "tests/data/pt2/dropped.pt2"
#define ATTENDS "tests/data/pt2/attends.pt2"
#define BEHIND "tests/data/onnx/behind.onnx"
#define BERNOULLI "tests/data/onnx/bernoulli.onnx"
#define UNET "tests/data/onnx/unet_small.onnx"

static const double TOLERANCE = 1e-11;
enum { BATCH = 8 };

static const char *text_of(struct arena *arena, const char *path)
{
    struct err err = {0};
    struct json_writer writer = {.arena = arena};
    struct model_config *config = model_load(arena, path, NULL, NULL, &err);
    assert_string_equal(err.text, "");
    json_put_copy(&writer, NULL, &config->config);
    return writer.text;
}

struct layout_case {
    int sp_h, sp_w, dp, pp, zero;
    enum recompute recompute;
};

static struct run_case case_of(struct arena *arena, const char *path)
{
    struct run_case of = run_case_new(text_of(arena, path), 1, BATCH);
    of.parallel.micro_batch = 2;
    // Gradients that are nothing but rounding, of a bias in front of a norm, stay so.
    of.optimizer = OPTIMIZER_SGD;
    return of;
}

static struct parallel parallel_of(const struct parallel *otherwise,
                                   const struct layout_case *layout)
{
    struct parallel parallel = *otherwise;
    parallel.degree[AXIS_SP_H] = layout->sp_h;
    parallel.degree[AXIS_SP_W] = layout->sp_w;
    parallel.degree[AXIS_DP] = layout->dp;
    parallel.degree[AXIS_PP] = layout->pp;
    parallel.zero = layout->zero;
    parallel.recompute = layout->recompute;
    if (layout->recompute) parallel.recompute_layers = -1;
    return parallel;
}

// A rank's micro-batch is 2 samples in each of them, which is what batch norms are taken over.
static void equals_one_rank(struct arena *arena, const char *path, const struct layout_case *layout)
{
    struct err why = {0};
    struct run_case one = case_of(arena, path), many = one;
    many.parallel = parallel_of(&many.parallel, layout);
    struct run_outcome *expected = run_case_done(arena, &one);
    struct run_outcome *found = run_case_run(arena, &many, &why);
    if (!found || !found->done) {
        fail_msg("%s: %s", run_case_text(arena, &many), found ? found->error : why.text);
        return;
    }
    const char *difference = run_outcome_difference(arena, expected, found, TOLERANCE);
    // Windows whose strides reach to one side alone: the fullest rank, of which plans speak, gets
    // a strip, and the other none.
    bool is_even = strcmp(path, UNET) == 0 || layout->sp_h * layout->sp_w == 1;
    if (!difference && is_even && layout->sp_h < 4) difference = run_outcome_traffic(arena, found);
    double planned = (double)run_outcome_planned_bytes(found);
    if (!difference && fabs((double)found->peak_bytes - planned) > 0.01 * planned)
        difference = "held bytes are not those planned";
    if (difference) fail_msg("%s: %s", run_case_text(arena, &many), difference);
    assert_true(found->loss[0] > 0);
    assert_true(found->loss[found->step_count - 1] != found->loss[0]);
}

static const struct layout_case PLANS[] = {
    {2, 2, 1, 1, 0, RECOMPUTE_NONE}, {2, 1, 1, 1, 0, RECOMPUTE_NONE},
    {1, 2, 1, 1, 0, RECOMPUTE_FULL}, {2, 1, 2, 1, 1, RECOMPUTE_NONE},
    {1, 2, 2, 1, 3, RECOMPUTE_FULL}, {1, 1, 4, 1, 2, RECOMPUTE_NONE},
    {1, 1, 1, 2, 0, RECOMPUTE_NONE}, {1, 2, 1, 2, 0, RECOMPUTE_NONE},
};

static void classifiers_equal_one_rank(void **state)
{
    for (size_t i = 0; i < sizeof PLANS / sizeof *PLANS; i++)
        equals_one_rank(*state, PARTS, &PLANS[i]);
}

static void segmentation_equals_one_rank(void **state)
{
    static const struct layout_case FOUR = {4, 2, 1, 1, 0, RECOMPUTE_NONE};
    for (size_t i = 0; i < sizeof PLANS / sizeof *PLANS; i++)
        equals_one_rank(*state, UNET, &PLANS[i]);
    equals_one_rank(*state, UNET, &FOUR);
    equals_one_rank(*state, "tests/data/onnx/resized.onnx", &PLANS[0]);
    equals_one_rank(*state, "tests/data/onnx/resized.onnx", &PLANS[6]);
}

// Loss and norm of the gradients of a step as another software computes them with the same weights
// and images, a row a file of the folder.
static void learns_as_told(struct arena *arena, const char *folder, const char *ending, int batch,
                           int rows)
{
    struct err err = {0};
    size_t bytes = 0;
    char *text =
        file_read(arena, arena_print(arena, "%s/steps.tsv", folder), 1 << 16, &bytes, &err);
    assert_string_equal(err.text, "");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), rows--) {
        char name[64];
        double loss = 0, norm = 0;
        assert_int_equal(sscanf(line, "%63s %lf %lf", name, &loss, &norm), 3);
        struct run_case of = case_of(arena, arena_print(arena, "%s/%s.%s", folder, name, ending));
        of.global_batch = of.parallel.micro_batch = batch;
        const struct run_outcome *found = run_case_done(arena, &of);
        bool is_right = fabs(found->loss[0] - loss) <= 1e-13 * loss &&
                        fabs(found->norm[0] - norm) <= 1e-12 * norm;
        if (!is_right) fail_msg("%s: loss %.17g, norm %.17g", name, found->loss[0], found->norm[0]);
    }
    assert_int_equal(rows, 0);
}

// Of the loss over the classes: equal with and without a softmax before it.
static void a_softmax_at_the_end_changes_nothing(void **state)
{
    struct run_case of[2] = {case_of(*state, "tests/data/onnx/pixel.onnx"),
                             case_of(*state, "tests/data/onnx/pixel_scored.onnx")};
    const struct run_outcome *plain = run_case_done(*state, &of[0]);
    const struct run_outcome *scored = run_case_done(*state, &of[1]);
    assert_true(plain->loss[0] > 0 && plain->norm[0] > 0);
    assert_true(scored->loss[0] == plain->loss[0] && scored->norm[0] == plain->norm[0]);
}

// tests/judges/programs.py
static void programs_of_jax_learn_as_in_jax(void **state)
{
    learns_as_told(*state, "tests/data/stablehlo", "mlir", 8, 4);
}

// tests/judges/images.py, and moves.py: layers of PyTorch whose samples stand behind their places
static void networks_learn_as_in_pytorch(void **state)
{
    learns_as_told(*state, "tests/data/onnx", "onnx", 4, 4);
}

// tests/judges/moves.py
static void permutations_learn_as_in_pytorch(void **state)
{
    learns_as_told(*state, "tests/data/pt2", "pt2", 4, 2);
}

// What permutes, cuts and shuffles takes whole images of its ranks; samples that are dropped are
// the same ones whoever has them.
static void permutations_equal_one_rank(void **state)
{
    static const int TRIED[] = {0, 4, 7};
    for (size_t i = 0; i < sizeof TRIED / sizeof *TRIED; i++) {
        equals_one_rank(*state, DROPPED, &PLANS[TRIED[i]]);
        equals_one_rank(*state, ATTENDS, &PLANS[TRIED[i]]);
        equals_one_rank(*state, BEHIND, &PLANS[TRIED[i]]);
    }
    struct run_case pairs = case_of(*state, DROPPED), all = pairs;
    all.parallel.micro_batch = BATCH;
    const struct run_outcome *expected = run_case_done(*state, &pairs);
    const char *difference =
        run_outcome_difference(*state, expected, run_case_done(*state, &all), TOLERANCE);
    if (difference) fail_msg("one micro-batch: %s", difference);
}

static int count_of(const char *text, const char *word)
{
    int count = 0;
    while ((text = strstr(text, word))) {
        count++;
        text++;
    }
    return count;
}

// The same network as ONNX writes it, of numbers that are drawn, is not one with a constant mask.
static void what_bernoulli_draws_is_dropped(void **state)
{
    int expected = count_of(text_of(*state, DROPPED), "\"DropPath\"");
    assert_true(expected > 0);
    assert_int_equal(count_of(text_of(*state, BERNOULLI), "\"DropPath\""), expected);
    assert_int_equal(count_of(text_of(*state, BERNOULLI), "\"scalar\":0.25"),
                     count_of(text_of(*state, DROPPED), "\"scalar\":0.25"));
    equals_one_rank(*state, BERNOULLI, &PLANS[5]);
}

// What JAX writes as separate operators are kernels: biases, means, functions.
static void programs_of_jax_equal_one_rank(void **state)
{
    static const struct layout_case SPLIT = {2, 2, 1, 1, 0, RECOMPUTE_NONE};
    static const struct layout_case BOTH[] = {{1, 1, 4, 1, 2, RECOMPUTE_NONE},
                                              {1, 1, 1, 2, 0, RECOMPUTE_FULL}};
    for (int i = 0; i < 2; i++) {
        equals_one_rank(*state, "tests/data/stablehlo/mlp.mlir", &BOTH[i]);
        equals_one_rank(*state, JAX, &BOTH[i]);
        equals_one_rank(*state, "tests/data/stablehlo/resnet_groups.mlir", &BOTH[i]);
    }
    equals_one_rank(*state, JAX, &SPLIT);
    equals_one_rank(*state, "tests/data/stablehlo/resnet_groups.mlir", &SPLIT);
}

// Strips of the two convolutions at full size on 2 x 2 ranks, of one micro-batch: the second reads
// 4 channels; a rank with 8 x 12 places gets a row of 12 and then a column of 8 + 1.
static void strips_are_radius_times_edge_times_channels(void **state)
{
    struct run_case of = case_of(*state, UNET);
    of.parallel.degree[AXIS_SP_H] = of.parallel.degree[AXIS_SP_W] = 2;
    struct run_outcome *found = run_case_done(*state, &of);
    const struct block_program *second = found->program->blocks[1];
    int64_t rows = 0, columns = 0;
    for (int i = 0; i < second->instr_count; i++) {
        const struct instr *instr = &second->instrs[i];
        bool is_strip = instr->collective == COLLECTIVE_SEND_RECV && instr->phase == PHASE_FORWARD;
        if (is_strip && instr->dim == DIM_HEIGHT && !rows) rows = instr->bytes;
        if (is_strip && instr->dim == DIM_WIDTH && !columns) columns = instr->bytes;
    }
    enum { SAMPLES = 2, CHANNELS = 4, BYTES = 4 };
    assert_int_equal(rows, SAMPLES * CHANNELS * BYTES * 12);
    assert_int_equal(columns, SAMPLES * CHANNELS * BYTES * (8 + 1));
    assert_null(run_outcome_traffic(*state, found));
}

// The CUDA back end, its kernels on the host, against a CPU rank in double precision.
static void emulated_gpus_compute_what_a_cpu_does(void **state)
{
    static const struct layout_case WHOLE = {1, 1, 1, 1, 0, RECOMPUTE_NONE};
    static const struct layout_case PARTS_OF = {2, 2, 1, 1, 0, RECOMPUTE_NONE};
    static const struct layout_case SHARDS = {1, 1, 2, 2, 1, RECOMPUTE_FULL};
    static const struct {
        const char *path;
        const struct layout_case *layout;
        enum precision precision;
        double tolerance;
    } RUNS[] = {{PARTS, &WHOLE, PRECISION_FP32, 1e-4},
                {PARTS, &PARTS_OF, PRECISION_FP32, 1e-4},
                {PARTS, &SHARDS, PRECISION_FP32, 1e-4},
                {UNET, &PARTS_OF, PRECISION_FP32, 1e-4},
                {"tests/data/onnx/resized.onnx", &WHOLE, PRECISION_FP32, 1e-4},
                {"tests/data/onnx/resized.onnx", &PARTS_OF, PRECISION_FP32, 1e-4},
                {UNET, &SHARDS, PRECISION_FP32, 1e-4},
                {"tests/data/stablehlo/resnet_groups.mlir", &PARTS_OF, PRECISION_FP32, 1e-4},
                {"tests/data/pt2/moved.pt2", &WHOLE, PRECISION_FP32, 1e-4},
                {ATTENDS, &WHOLE, PRECISION_FP32, 1e-4},
                {ATTENDS, &SHARDS, PRECISION_FP32, 1e-4},
                {"tests/data/pt2/dropped.pt2", &PARTS_OF, PRECISION_FP32, 1e-4},
                {"tests/data/pt2/dropped.pt2", &SHARDS, PRECISION_FP32, 1e-4},
                {JAX, &WHOLE, PRECISION_BF16, 6e-2}};
    for (size_t i = 0; i < sizeof RUNS / sizeof *RUNS; i++) {
        struct run_case one = case_of(*state, RUNS[i].path), many = one;
        const char *worst = NULL;
        one.steps = many.steps = 1;
        many.parallel = parallel_of(&many.parallel, RUNS[i].layout);
        many.backend = "cuda";
        many.precision = RUNS[i].precision;
        const struct run_outcome *expected = run_case_done(*state, &one);
        const struct run_outcome *found = run_case_done(*state, &many);
        double loss = fabs(found->loss[0] / expected->loss[0] - 1);
        double error = run_outcome_error(expected, found, &worst);
        if (!(loss <= RUNS[i].tolerance && error <= RUNS[i].tolerance))
            fail_msg("%s (%s): loss off by %g, %s by %g", RUNS[i].path,
                     run_case_text(*state, &many), loss, worst, error);
    }
}

// What CPUs alone have kernels for, by who plans for GPUs and by who runs there: here loops two
// turns of which read one number.
static void operators_of_cpus_are_named(void **state)
{
    struct err err = {0};
    const struct import_options options = {0};
    struct graph *graph = tiny_graph(*state, text_of(*state, ATTENDS), &options);
    const struct strided twice = {.count = 2, .sizes = {2, 2}, .steps = {{1, 1}}};
    assert_true(unexecuted_check_graph(graph, "gpu", &err));
    struct op *op = &graph->blocks[0].ops[0];
    op->work.strided = &twice;
    assert_true(unexecuted_check_graph(graph, "cpu", &err));
    assert_false(unexecuted_check_graph(graph, "gpu", &err));
    assert_non_null(strstr(err.text, "is not executed on a gpu, because CPUs alone have a kernel"));
}

// A config whose loops of attention reach past its tensors is no model: the first number but 0 of
// each list made larger.
static void loops_past_tensors_are_refused(void **state)
{
    static const char *const KEYS[] = {"\"sizes\"", "\"steps\"", "\"other_steps\"",
                                       "\"third_steps\"", "\"fourth_steps\""};
    char *text = arena_copy(*state, text_of(*state, ATTENDS));
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        struct err err = {0};
        struct json_document document;
        char *at = strstr(strstr(text, "\"CausalAttention\""), KEYS[i]);
        char *digit = strpbrk(at + strlen(KEYS[i]), "123456789"), kept = *digit;
        *digit = '9';
        assert_true(json_parse(*state, "tiny.json", text, strlen(text), &document, &err));
        struct json root = json_root(&document);
        assert_null(model_read(*state, "tiny", &root, NULL, NULL, &err));
        assert_non_null(strstr(err.text, "loops that its tensors have not"));
        *digit = kept;
    }
}

// Operators without a kernel are named, by who plans and by who runs: all of them, of many the
// first twelve.
static void operators_without_kernels_are_named(void **state)
{
    struct err err = {0};
    const struct import_options options = {0};
    struct graph *whole = tiny_graph(*state, text_of(*state, PARTS), &options);
    assert_true(unexecuted_check_graph(whole, NULL, &err));
    assert_true(unexecuted_check_graph(whole, "cpu", &err));
    assert_true(unexecuted_check_graph(whole, "gpu", &err));
    struct graph *volume =
        tiny_graph(*state, text_of(*state, "tests/data/onnx/volume.onnx"), &options);
    assert_false(unexecuted_check_graph(volume, "cpu", &err));
    assert_string_equal(err.text, "tiny is not executed, because no back end has a kernel for its "
                                  "operators c, n, r, p, d, t, u, v, classes");
    assert_int_equal(err.kind, ERR_USAGE);
    static const char *const MANY[][2] = {
        {"bags", "for its operators getitem, getitem_4, getitem_8, getitem_12, getitem_16, "
                 "getitem_20, getitem_24, getitem_28, getitem_32, index"},
        {"mixtral", "pow_2 and 14 more"},
    };
    for (size_t i = 0; i < sizeof MANY / sizeof *MANY; i++) {
        const char *path = arena_print(*state, "tests/data/pt2/%s.pt2", MANY[i][0]);
        struct graph *graph = tiny_graph(*state, text_of(*state, path), &options);
        err = (struct err){0};
        assert_false(unexecuted_check_graph(graph, "cpu", &err));
        const char *end = strstr(err.text, MANY[i][1]);
        assert_true(end && end[strlen(MANY[i][1])] == '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classifiers_equal_one_rank),
        cmocka_unit_test(segmentation_equals_one_rank),
        cmocka_unit_test(programs_of_jax_learn_as_in_jax),
        cmocka_unit_test(networks_learn_as_in_pytorch),
        cmocka_unit_test(a_softmax_at_the_end_changes_nothing),
        cmocka_unit_test(permutations_learn_as_in_pytorch),
        cmocka_unit_test(permutations_equal_one_rank),
        cmocka_unit_test(what_bernoulli_draws_is_dropped),
        cmocka_unit_test(programs_of_jax_equal_one_rank),
        cmocka_unit_test(strips_are_radius_times_edge_times_channels),
        cmocka_unit_test(emulated_gpus_compute_what_a_cpu_does),
        cmocka_unit_test(operators_without_kernels_are_named),
        cmocka_unit_test(operators_of_cpus_are_named),
        cmocka_unit_test(loops_past_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
