#include "tests/support/test.h"

#include "cost_models/memory.h"
#include "memory/plan_script.h"

#include "tests/support/run_case.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

// Optimizer states on the host: the same training, less on the device, as much on the host as the
// memory model says.

static const double TOLERANCE = 1e-12;
// By back end of a test of three.
static const double TOLERANCES[] = {1e-12, 4e-3, 1e-5};
static const char GPT2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 37, \"n_embd\": 16, \"n_layer\": 4, \"n_head\": 4, "
    "\"n_positions\": 16}";
static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 41, \"hidden_size\": 16, \"intermediate_size\": "
    "24, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"tie_word_embeddings\": false}";
enum { SEQ = 16, BATCH = 8 };

struct spread {
    int dp, tp, pp, zero, zero_group;
    enum optimizer optimizer;
    double clip_norm;
};

static const struct spread SPREADS[] = {
    {.optimizer = OPTIMIZER_ADAMW, .clip_norm = 1},
    {.optimizer = OPTIMIZER_ADAM},
    {.optimizer = OPTIMIZER_SGD, .clip_norm = 1},
    {.dp = 2, .zero = 1, .optimizer = OPTIMIZER_ADAMW, .clip_norm = 1},
    {.dp = 4, .zero = 2, .optimizer = OPTIMIZER_ADAMW},
    {.dp = 4, .zero = 3, .optimizer = OPTIMIZER_ADAMW, .clip_norm = 1},
    {.dp = 4, .zero = 3, .zero_group = 2, .optimizer = OPTIMIZER_ADAM},
    {.dp = 2, .tp = 2, .pp = 2, .zero = 1, .optimizer = OPTIMIZER_ADAMW, .clip_norm = 1},
    {.pp = 2, .optimizer = OPTIMIZER_SGD},
};
enum { SPREAD_COUNT = sizeof SPREADS / sizeof *SPREADS };

static struct run_case case_of(const char *config, const struct spread *spread)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    if (spread->dp) of.parallel.degree[AXIS_DP] = spread->dp;
    if (spread->tp) of.parallel.degree[AXIS_TP] = spread->tp;
    if (spread->pp) of.parallel.degree[AXIS_PP] = spread->pp;
    if (spread->pp) of.parallel.schedule = SCHEDULE_1F1B;
    of.parallel.micro_batch = 1;
    of.parallel.zero = spread->zero;
    of.parallel.zero_group = spread->zero_group;
    of.optimizer = spread->optimizer;
    of.clip_norm = spread->clip_norm;
    of.steps = 2;
    return of;
}

static void check_none(struct arena *arena, const struct run_case *of, const char *difference)
{
    if (difference) fail_msg("%s: %s", run_case_text(arena, of), difference);
}

// Of host, drive and device. Shares of units are rounded up on one side, sums on the other.
static void check_bytes(struct arena *arena, const struct run_case *of,
                        const struct run_outcome *found)
{
    const struct script *const *scripts = (const struct script *const *)found->scripts;
    double held = (double)found->host_peak_bytes;
    double planned = (double)plan_scripts_host_bytes(scripts, found->stack, found->real_bytes,
                                                     found->compute_bytes);
    if (fabs(held - planned) > 0.02 * planned)
        fail_msg("%s: %.0f bytes on the host, planned %.0f", run_case_text(arena, of), held,
                 planned);
    planned = (double)plan_scripts_nvme_bytes(scripts, found->stack, found->real_bytes,
                                              found->compute_bytes);
    held = (double)found->nvme_bytes;
    assert_true(offload_reaches_nvme(&of->parallel.offload) == (held > 0));
    if (fabs(held - planned) > 0.02 * planned)
        fail_msg("%s: %.0f bytes on NVMe, planned %.0f", run_case_text(arena, of), held, planned);
    int64_t peak = run_outcome_planned_bytes(found);
    if (labs(found->peak_bytes - peak) > peak / 50)
        fail_msg("%s: %lld bytes on the device, planned %lld", run_case_text(arena, of),
                 (long long)found->peak_bytes, (long long)peak);
}

static void states_on_the_host_change_nothing(void **state)
{
    static const char *const MODELS[] = {GPT2, LLAMA};
    char folder[] = "/tmp/meshwright-nvme-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int s = 0; s < SPREAD_COUNT; s++) {
        struct run_case of = case_of(MODELS[s % 2], &SPREADS[s]);
        const struct run_outcome *expected = run_case_done(*state, &of);
        assert_int_equal(expected->host_peak_bytes, 0);
        of.parallel.offload.optimizer = TIER_HOST;
        const struct run_outcome *found = run_case_done(*state, &of);
        check_none(*state, &of, run_outcome_difference(*state, expected, found, TOLERANCE));
        check_bytes(*state, &of, found);
        // The device has no moments any more, and nothing else instead.
        int moments = optimizer_moment_count(of.optimizer);
        assert_true(found->peak_bytes < expected->peak_bytes || moments == 0);
        of.parallel.offload.optimizer = TIER_NVME;
        of.nvme = folder;
        found = run_case_done(*state, &of);
        check_none(*state, &of, run_outcome_difference(*state, expected, found, TOLERANCE));
        check_bytes(*state, &of, found);
    }
    assert_int_equal(rmdir(folder), 0);  // empty
}

// Of the first layers alone: the more of them, the less is on the device. Equal to the last bit
// where states are not in shards of buckets, which are others then.
static void states_of_some_layers_change_nothing(void **state)
{
    static const char *const BACKENDS[] = {"cpu-fp64", "cpu-half", "cuda"};
    char folder[] = "/tmp/meshwright-nvme-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int s = 0; s < SPREAD_COUNT; s++) {
        struct run_case of = case_of(s % 2 ? GPT2 : LLAMA, &SPREADS[s]);
        of.backend = BACKENDS[s % 3];
        if (s % 3 == 1) of.precision = PRECISION_BF16;
        of.nvme = folder;
        of.parallel.bucket_bytes = 256;
        const struct run_outcome *expected = run_case_done(*state, &of);
        int64_t before = expected->peak_bytes;
        for (int layers = 1; layers <= 4 / of.parallel.degree[AXIS_PP]; layers++) {
            of.parallel.offload = (struct offload){.optimizer = layers % 2 ? TIER_HOST : TIER_NVME,
                                                   .optimizer_layers = (int16_t)layers};
            if (s < 3 && layers == 3) of.parallel.offload.gradients = true;
            const struct run_outcome *found = run_case_done(*state, &of);
            bool is_split = of.parallel.zero > 0;
            check_none(*state, &of,
                       is_split ? run_outcome_difference(*state, expected, found, TOLERANCES[s % 3])
                                : run_outcome_bits(*state, expected, found));
            check_bytes(*state, &of, found);
            assert_true(found->peak_bytes <= before);
            before = found->peak_bytes;
        }
    }
    assert_int_equal(rmdir(folder), 0);
}

// Back ends with masters in another width; CUDA's is one whose memory the host cannot touch, and
// whose states the portable kernels update.
static void masters_on_the_host_are_those_of_the_device(void **state)
{
    static const struct {
        const char *backend;
        enum precision precision;
        double tolerance;
    } WIDTHS[] = {{"cpu", PRECISION_FP32, 0},
                  {"cpu-half", PRECISION_BF16, 0},
                  {"cpu-half", PRECISION_FP16, 0},
                  {"cuda", PRECISION_FP32, 1e-5},
                  {"cuda", PRECISION_BF16, 4e-3}};
    char folder[] = "/tmp/meshwright-nvme-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (size_t w = 0; w < sizeof WIDTHS / sizeof *WIDTHS; w++) {
        struct run_case of = case_of(GPT2, &SPREADS[3]);
        of.backend = WIDTHS[w].backend;
        of.precision = WIDTHS[w].precision;
        of.steps = 2;
        const struct run_outcome *expected = run_case_done(*state, &of);
        of.parallel.offload.optimizer = TIER_HOST;
        const struct run_outcome *found = run_case_done(*state, &of);
        const char *difference =
            run_outcome_difference(*state, expected, found, WIDTHS[w].tolerance);
        if (difference) fail_msg("%s: %s", of.backend, difference);
        assert_null(run_outcome_rounding(*state, found, of.precision));
        check_bytes(*state, &of, found);
        of.parallel.offload.optimizer = TIER_NVME;
        of.nvme = folder;
        const char *elsewhere =
            run_outcome_difference(*state, found, run_case_done(*state, &of), 0);
        if (elsewhere) fail_msg("%s on NVMe: %s", of.backend, elsewhere);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void without_its_folder_no_run_begins(void **state)
{
    struct run_case of = case_of(GPT2, &SPREADS[3]);
    struct err err = {0};
    of.parallel.offload.optimizer = TIER_NVME;
    of.nvme = "/nowhere/at/all";
    const struct run_outcome *found = run_case_run(*state, &of, &err);
    assert_string_equal(err.text, "");
    assert_false(found->done);
    const char *line = "making a file in /nowhere/at/all: No such file or directory";
    assert_non_null(strstr(found->error, line));
}

// What comes back leaves its room to what goes next.
static void activations_take_as_much_of_the_host_as_is_in_flight(void **state)
{
    struct run_case of = case_of(LLAMA, &(struct spread){.pp = 2, .optimizer = OPTIMIZER_ADAMW});
    const struct run_outcome *expected = run_case_done(*state, &of);
    of.parallel.offload.activations = TIER_HOST;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        of.parallel.offload.layers[class] = -1;
    const struct run_outcome *found = run_case_done(*state, &of);
    assert_null(run_outcome_difference(*state, expected, found, TOLERANCE));
    check_bytes(*state, &of, found);
    of.parallel.offload.optimizer = TIER_HOST;
    found = run_case_done(*state, &of);
    assert_null(run_outcome_difference(*state, expected, found, TOLERANCE));
    check_bytes(*state, &of, found);
}

// Written and read by a thread beside the work, of all layers and of some, on every back end.
static void activations_on_nvme_change_nothing(void **state)
{
    static const char *const BACKENDS[] = {"cpu-fp64", "cpu-half", "cuda"};
    char folder[] = "/tmp/meshwright-nvme-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int s = 0; s < SPREAD_COUNT; s++) {
        int layers = s % 2 ? 1 : -1;  // every back end meets both
        struct run_case of = case_of(GPT2, &SPREADS[s]);
        of.backend = BACKENDS[s % 3];
        if (s % 3 == 1) {
            // Nor in 16 bits, where each operator alone rounds what it makes.
            of.precision = PRECISION_BF16;
            of.without_joins = 1u << JOIN_SUM | 1u << JOIN_ROWS;
        }
        of.steps = 2;
        const struct run_outcome *expected = run_case_done(*state, &of);
        for (int class = 0; class < OP_CLASS_COUNT; class ++)
            of.parallel.offload.layers[class] = (int16_t)layers;
        of.parallel.offload.activations = TIER_NVME;
        of.nvme = folder;
        of.poison = s % 3 == 0;
        const struct run_outcome *found = run_case_done(*state, &of);
        // What is saved on CUDA is not made as one with what reads it.
        const char *worst;
        if (s % 3 < 2) check_none(*state, &of, run_outcome_difference(*state, expected, found, 0));
        assert_true(run_outcome_error(expected, found, &worst) < 1e-5);
        check_bytes(*state, &of, found);
    }
    assert_int_equal(rmdir(folder), 0);
}

// Weights of a block are on the device while it works, and nowhere else: the same training to the
// last bit, less on the device. What gathers ahead has those of the next block there as well.
static void parameters_on_the_host_change_nothing(void **state)
{
    static const struct spread WAYS[] = {
        {.optimizer = OPTIMIZER_ADAMW, .clip_norm = 1},
        {.optimizer = OPTIMIZER_SGD},
        {.dp = 2, .optimizer = OPTIMIZER_ADAM, .clip_norm = 1},
        {.tp = 2, .dp = 2, .optimizer = OPTIMIZER_ADAMW},
        {.tp = 2, .pp = 2, .optimizer = OPTIMIZER_ADAMW, .clip_norm = 1},
    };
    static const char *const BACKENDS[] = {"cpu-fp64", "cpu", "cpu-half"};
    char folder[] = "/tmp/meshwright-nvme-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (size_t w = 0; w < sizeof WAYS / sizeof *WAYS; w++) {
        struct run_case of = case_of(w % 2 ? LLAMA : GPT2, &WAYS[w]);
        of.backend = BACKENDS[w % 3];
        of.nvme = folder;
        of.steps = 2;
        if (w % 3 == 2) of.precision = PRECISION_BF16;
        if (w % 2) of.parallel.passes &= ~(unsigned)(1 << PASS_COMBINE);
        of.parallel.offload.optimizer = TIER_HOST;
        const struct run_outcome *expected = run_case_done(*state, &of);
        of.parallel.offload.parameters = TIER_HOST;
        for (int ahead = 0; ahead < 2; ahead++) {
            of.parallel.overlap &= ~(unsigned)OVERLAP_PARAM_GATHER;
            if (ahead) of.parallel.overlap |= OVERLAP_PARAM_GATHER;
            const struct run_outcome *found = run_case_done(*state, &of);
            check_none(*state, &of, run_outcome_difference(*state, expected, found, 0));
            check_bytes(*state, &of, found);
            if (!ahead) assert_true(found->peak_bytes < expected->peak_bytes);
            assert_true(found->host_peak_bytes > expected->host_peak_bytes);
            if (!ahead) continue;
            of.parallel.offload.parameters = TIER_NVME;
            const struct run_outcome *below = run_case_done(*state, &of);
            check_none(*state, &of, run_outcome_difference(*state, expected, below, 0));
            check_bytes(*state, &of, below);
            of.parallel.offload.parameters = TIER_HOST;
        }
    }
    assert_int_equal(rmdir(folder), 0);
}

// Of the first layers alone, no more than leave with their states: equal to the last bit to a run
// that fetches none, and the more of them the less is on the device, but for rooms of their own.
static void parameters_of_some_layers_change_nothing(void **state)
{
    static const struct {
        struct spread spread;
        const char *model, *backend;
        enum precision precision;
        int states;
    } WAYS[] = {
        {{.optimizer = OPTIMIZER_ADAMW, .clip_norm = 0.05}, GPT2, "cpu-fp64", 0, 0},
        {{.optimizer = OPTIMIZER_SGD}, LLAMA, "cpu-half", PRECISION_BF16, 3},
        {{.optimizer = OPTIMIZER_ADAMW, .dp = 2, .clip_norm = 0.05}, GPT2, "cuda", 0, 2},
        {{.optimizer = OPTIMIZER_ADAM, .tp = 2, .pp = 2}, LLAMA, "cpu", 0, 0},
    };
    char folder[] = "/tmp/meshwright-nvme-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (size_t w = 0; w < sizeof WAYS / sizeof *WAYS; w++) {
        struct run_case of = case_of(WAYS[w].model, &WAYS[w].spread);
        int stages = of.parallel.degree[AXIS_PP] > 1 ? of.parallel.degree[AXIS_PP] : 1;
        int most = WAYS[w].states > 0 ? WAYS[w].states : 4 / stages;
        of.backend = WAYS[w].backend;
        if (WAYS[w].precision) of.precision = WAYS[w].precision;
        of.nvme = folder;
        of.steps = 2;
        of.parallel.overlap &= ~(unsigned)OVERLAP_PARAM_GATHER;
        if (w % 2) of.parallel.passes &= ~(unsigned)(1 << PASS_COMBINE);
        struct offload *offload = &of.parallel.offload;
        *offload =
            (struct offload){.optimizer = TIER_HOST, .optimizer_layers = (int16_t)WAYS[w].states};
        const struct run_outcome *expected = run_case_done(*state, &of);
        int64_t before = INT64_MAX;
        for (int layers = 1; layers <= most; layers++) {
            offload->parameters = layers % 2 ? TIER_HOST : TIER_NVME;
            offload->parameter_layers = (int16_t)layers;
            offload->gradients = w == 0 && layers == 3;
            const struct run_outcome *found = run_case_done(*state, &of);
            check_none(*state, &of, run_outcome_bits(*state, expected, found));
            check_bytes(*state, &of, found);
            assert_true(found->peak_bytes < before);
            before = found->peak_bytes;
        }
    }
    assert_int_equal(rmdir(folder), 0);
}

static int fetches(const struct run_outcome *found)
{
    const struct script *script = found->scripts[0];
    int count = 0;
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        if (task->kind != TASK_INSTR) continue;
        const struct instr *instr = &script->program->blocks[task->block]->instrs[task->instr];
        count += instr->collective == COLLECTIVE_FETCH;
    }
    return count;
}

// From forward to backward, and from there to the next micro-batch's forward: what is fetched less
// is all that changes, on every back end and tier.
static void parameters_that_stay_for_a_while_change_nothing(void **state)
{
    static const struct {
        struct spread spread;
        const char *model, *backend;
        enum precision precision;
        const char *words;
    } WAYS[] = {
        {{.clip_norm = 0.05}, GPT2, "cpu-fp64", 0, "turn:2,between:3,gradients"},
        {{.dp = 2, .clip_norm = 0.05}, LLAMA, "cpu", 0, "turn,between"},
        {{.tp = 2}, LLAMA, "cpu-half", PRECISION_BF16, "between:2"},
        {{.clip_norm = 0.05}, LLAMA, "cuda", PRECISION_BF16, "turn:1,between:2"},
        {{.dp = 2}, GPT2, "cuda", 0, "turn:3,between,activations:2"},
    };
    char folder[] = "/tmp/meshwright-nvme-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (size_t w = 0; w < sizeof WAYS / sizeof *WAYS; w++) {
        struct run_case of = case_of(WAYS[w].model, &WAYS[w].spread);
        of.backend = WAYS[w].backend;
        if (WAYS[w].precision) of.precision = WAYS[w].precision;
        of.nvme = folder;
        of.steps = 2;
        if (w % 2) of.parallel.passes &= ~(unsigned)(1 << PASS_COMBINE);
        assert_true(of.global_batch > of.parallel.micro_batch * of.parallel.degree[AXIS_DP]);
        const char *tier = w % 2 ? "@nvme" : "";
        for (int ahead = 0; ahead < 2; ahead++) {
            of.parallel.overlap &= ~(unsigned)OVERLAP_PARAM_GATHER;
            if (ahead) of.parallel.overlap |= OVERLAP_PARAM_GATHER;
            const char *words = arena_print(*state, "optimizer,parameters%s", tier);
            assert_true(offload_parse(words, &of.parallel.offload));
            const struct run_outcome *expected = run_case_done(*state, &of);
            words = arena_print(*state, "%s,%s", words, WAYS[w].words);
            assert_true(offload_parse(words, &of.parallel.offload));
            const struct run_outcome *found = run_case_done(*state, &of);
            check_none(*state, &of, run_outcome_bits(*state, expected, found));
            check_bytes(*state, &of, found);
            assert_true(fetches(found) < fetches(expected));
            check_none(*state, &of, run_outcome_traffic(*state, found));
        }
    }
    assert_int_equal(rmdir(folder), 0);
}

// On a back end whose memory the host cannot touch, with streams beside each other.
static void parameters_are_fetched_on_a_stream_of_their_own(void **state)
{
    static const enum precision WIDTHS[] = {PRECISION_FP32, PRECISION_BF16};
    char folder[] = "/tmp/meshwright-nvme-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int w = 0; w < 2; w++) {
        struct run_case of = case_of(GPT2, &SPREADS[0]);
        of.backend = "cuda";
        of.precision = WIDTHS[w];
        of.parallel.offload.optimizer = TIER_HOST;
        const struct run_outcome *expected = run_case_done(*state, &of);
        of.parallel.offload.parameters = TIER_HOST;
        const struct run_outcome *found = run_case_done(*state, &of);
        check_none(*state, &of, run_outcome_difference(*state, expected, found, 0));
        check_bytes(*state, &of, found);
        of.nvme = folder;
        of.parallel.offload.parameters = TIER_NVME;
        found = run_case_done(*state, &of);
        check_none(*state, &of, run_outcome_difference(*state, expected, found, 0));
        check_bytes(*state, &of, found);
    }
    assert_int_equal(rmdir(folder), 0);
}

static int gradient_copies(const struct script *script)
{
    int count = 0;
    for (int t = 0; t < script->task_count; t++) {
        enum task_kind kind = script->tasks[t].kind;
        count += kind == TASK_GRADIENT_OUT || kind == TASK_GRADIENT_IN;
    }
    return count;
}

// Gradients that are kept on the host pass through two rooms of the device: equal to the last bit
// over one micro-batch and over several, with a norm and without, and as much less on the device.
static void gradients_on_the_host_change_nothing(void **state)
{
    static const struct {
        struct spread spread;
        const char *model, *backend;
        enum precision precision;
        int64_t micro_batch;
        int zero;
    } WAYS[] = {
        {{.optimizer = OPTIMIZER_ADAMW, .clip_norm = 0.05}, GPT2, "cpu-fp64", PRECISION_FP32, 1, 0},
        {{.optimizer = OPTIMIZER_ADAMW}, LLAMA, "cpu", PRECISION_FP32, 2, 0},
        {{.optimizer = OPTIMIZER_SGD, .dp = 2, .clip_norm = 0.05}, GPT2, "cpu-fp64", 0, 1, 1},
        {{.optimizer = OPTIMIZER_ADAM, .tp = 2, .clip_norm = 0.05}, LLAMA, "cpu-fp64", 0, 1, 0},
        {{.optimizer = OPTIMIZER_ADAMW, .clip_norm = 0.05}, GPT2, "cpu-half", PRECISION_BF16, 1, 0},
        {{.optimizer = OPTIMIZER_ADAMW, .clip_norm = 0.05}, GPT2, "cuda", PRECISION_FP32, 1, 0},
        {{.optimizer = OPTIMIZER_ADAMW, .clip_norm = 0.05}, LLAMA, "cuda", PRECISION_BF16, 1, 0},
    };
    for (size_t w = 0; w < sizeof WAYS / sizeof *WAYS; w++) {
        struct run_case of = case_of(WAYS[w].model, &WAYS[w].spread);
        of.backend = WAYS[w].backend;
        if (WAYS[w].precision) of.precision = WAYS[w].precision;
        of.parallel.micro_batch = (int)WAYS[w].micro_batch;
        of.parallel.zero = WAYS[w].zero;
        of.parallel.bucket_bytes = 256;
        of.poison = true;
        of.parallel.offload.optimizer = TIER_HOST;
        const struct run_outcome *expected = run_case_done(*state, &of);
        of.parallel.offload.gradients = true;
        // Those of three of four layers, every other time, then all: the more, the less is on the
        // device.
        int64_t before = expected->peak_bytes;
        int tasks = 0;
        for (int layers = w % 2 ? 0 : 3; layers >= 0; layers -= 3) {
            of.parallel.offload.gradient_layers = (int16_t)layers;
            const struct run_outcome *found = run_case_done(*state, &of);
            // Where buckets are split over ranks, other buckets are other sums.
            bool is_split = of.parallel.zero > 0;
            check_none(*state, &of,
                       is_split ? run_outcome_difference(*state, expected, found, TOLERANCE)
                                : run_outcome_bits(*state, expected, found));
            for (int s = 0; s < of.steps && !is_split; s++)
                assert_true(found->norm[s] == expected->norm[s]);
            check_bytes(*state, &of, found);
            check_none(*state, &of, run_outcome_traffic(*state, found));
            assert_true(found->peak_bytes < before);
            before = found->peak_bytes;
            int rounds = (int)(BATCH / of.parallel.micro_batch / of.parallel.degree[AXIS_DP]);
            int copies = gradient_copies(found->scripts[0]);
            assert_true(layers > 0 ? copies == 3 * (2 * rounds - 1) : copies > tasks);
            tasks = copies;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_on_the_host_change_nothing),
        cmocka_unit_test(states_of_some_layers_change_nothing),
        cmocka_unit_test(masters_on_the_host_are_those_of_the_device),
        cmocka_unit_test(without_its_folder_no_run_begins),
        cmocka_unit_test(activations_take_as_much_of_the_host_as_is_in_flight),
        cmocka_unit_test(activations_on_nvme_change_nothing),
        cmocka_unit_test(parameters_on_the_host_change_nothing),
        cmocka_unit_test(parameters_of_some_layers_change_nothing),
        cmocka_unit_test(parameters_that_stay_for_a_while_change_nothing),
        cmocka_unit_test(parameters_are_fetched_on_a_stream_of_their_own),
        cmocka_unit_test(gradients_on_the_host_change_nothing),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
