#include "reports/table/band_text.h"
#include "tests/support/test.h"

#include <math.h>

// What a prediction says that it rests on, and in which words.

static struct band ROWS[] = {
    {"*", "*", "dense", CONFIDENCE_DATASHEET, 0.5, 2, 90, 9, "a test", false},
    {"*", "*", "dense", CONFIDENCE_EXTRAPOLATED, 0.7, 1.5, 90, 9, "a test", false},
    {"a100-sxm4-80g", "*", "dense", CONFIDENCE_EXTRAPOLATED, 0.8, 1.25, 60, 3, "a test", false},
    {"a100-sxm4-80g", "megatron-core", "dense", CONFIDENCE_VALIDATED, 0.9, 1.1, 30, 2, "a test",
     false},
    {"h100-sxm5-80g", "megatron-core", "dense", CONFIDENCE_VALIDATED, 0.9, 1.2, 30, 2, "a test",
     false},
    {"h100-sxm5-80g", "*", "dense", CONFIDENCE_EXTRAPOLATED, 0.8, 1.3, 30, 2, "a test", false},
    {"*", "*", "dense-low-precision", CONFIDENCE_DATASHEET, 0.4, 2, 9, 2, "a test", false},
};
static struct band_pairs PAIRS[] = {{0.05, 40, 0.6, "a test"}, {0, 70, 0.9, "a test"}};
static const struct bands BANDS = {
    .rows = ROWS, .count = sizeof ROWS / sizeof *ROWS, .pairs = PAIRS, .pairs_count = 2};

// gpt2 on the GPUs of a cluster by data parallelism alone.
static struct evaluation_request ask(struct arena *arena, const char *cluster, const char *stack)
{
    struct err err = {0};
    struct evaluation_request request = {
        .model = model_load(arena, "gpt2", NULL, NULL, &err),
        .cluster = cluster_load(arena, cluster, &err),
        .stack = stack_load(arena, stack, &err),
        .fabrics = fabrics_load(arena, &err),
        .bands = &BANDS,
        .workload = {.seq_len = 1024, .precision = PRECISION_BF16, .tokens = 1e12},
        .parallel = {.vpp = 1,
                     .micro_batch = 1,
                     .schedule = SCHEDULE_1F1B,
                     .recompute_layers = -1,
                     .attention = ATTENTION_FLASH},
    };
    assert_string_equal(err.text, "");
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        request.parallel.degree[axis] = 1;
    request.parallel.degree[AXIS_DP] = request.cluster->rank_count;
    request.parallel.overlap = request.stack->overlap_default;
    request.parallel.passes = request.stack->passes;
    request.workload.global_batch = request.cluster->rank_count;
    parallel_default_order(&request.parallel);
    return request;
}

static struct prediction answer(struct arena *arena, const struct evaluation_request *request)
{
    struct err err = {0};
    struct arena scratch = {0};
    struct evaluation evaluation = {0};
    assert_true(evaluate(arena, &scratch, request, &evaluation, &err));
    assert_string_equal(err.text, "");
    arena_free(&scratch);
    return evaluation.prediction;
}

static void a_measured_pair_is_validated(void **state)
{
    struct evaluation_request request = ask(*state, "dgx-a100-80g", "megatron-core");
    struct prediction found = answer(*state, &request);
    assert_ptr_equal(found.band, &ROWS[3]);
    assert_true(found.step_s_low == found.step_s * 0.9);
    assert_true(found.step_s_high == found.step_s * 1.1);
    request.bands = NULL;
    struct prediction without = answer(*state, &request);
    assert_null(without.band);
    assert_true(without.step_s == found.step_s && without.step_s_high == 0);
}

static void another_stack_is_extrapolated(void **state)
{
    struct evaluation_request request = ask(*state, "dgx-a100-80g", "fsdp");
    assert_ptr_equal(answer(*state, &request).band, &ROWS[2]);
}

// Runs of one family show what software does on the devices that they ran on; on another it has the
// band of software without a fit, and so has software on a kind of device that it is not for, and
// any on a device whose rates are guesses.
static void one_family_shows_nothing_of_other_devices(void **state)
{
    struct band rows[] = {
        ROWS[0],
        ROWS[1],
        ROWS[2],
        {"h200-sxm5-141g", "fsdp2", "dense", CONFIDENCE_VALIDATED, 0.9, 1.1, 25, 1, "a test",
         false},
        {"*", "fsdp2", "dense", CONFIDENCE_EXTRAPOLATED, 0.8, 1.2, 25, 1, "a test", false},
    };
    rows[0].low_ratio = 0.65;
    struct bands bands = {
        .rows = rows, .count = 5, .unfitted = {0.6, 1.6, 30, 4, "software without a fit"}};
    struct {
        const char *cluster, *stack;
        int families;
        double low_ratio;
    } cases[] = {
        {"dgx-h200", "fsdp2", 1, 0.9},
        {"dgx-a100-80g", "fsdp2", 1, 0.6},
        {"dgx-a100-80g", "fsdp2", 2, 0.8},
        {"dgx-a100-80g", "megatron-core", 1, 0.8},
        {"dgx-a100-80g", "megatron-zero-bubble", 2, 0.8},  // never taken unasked, but fitted
        {"ascend-910b", "megatron-core", 1, 0.6},
        {"ascend-910b", "mindspeed", 1, 0.6},
        {"mi355x-8", "megatron-core", 2, 0.6},
        {"a100-pcie8", "megatron-core", 2, 0.65},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows[4].family_count = cases[i].families;
        struct evaluation_request request = ask(*state, cases[i].cluster, cases[i].stack);
        request.bands = &bands;
        struct prediction found = answer(*state, &request);
        assert_true(found.band->low_ratio == cases[i].low_ratio);
        assert_true(found.step_s_low == found.step_s * cases[i].low_ratio);
    }
}

// tests/data: a sheet of H100, and one of a device of its own under a name that was measured.
static void what_was_assumed_is_not_what_was_measured(void **state)
{
    struct evaluation_request request = ask(*state, "dgx-h100", "megatron-core");
    assert_ptr_equal(answer(*state, &request).band, &ROWS[4]);
    request = ask(*state, "tests/data/cluster_sheet.json", "megatron-core");
    assert_ptr_equal(answer(*state, &request).band, &ROWS[5]);
    request = ask(*state, "tests/data/cluster_sheet_device.json", "megatron-core");
    assert_ptr_equal(answer(*state, &request).band, &ROWS[0]);
    struct device *renamed = device_copy(*state, request.cluster->nodes[0].device);
    renamed->name = "h100-sxm5-80g";
    request.cluster->nodes[0].device = renamed;
    assert_ptr_equal(answer(*state, &request).band, &ROWS[0]);
}

static void fp32_is_extrapolated(void **state)
{
    struct evaluation_request request = ask(*state, "dgx-a100-80g", "megatron-core");
    request.workload.precision = PRECISION_FP32;
    request.parallel.attention = ATTENTION_UNFUSED;
    request.parallel.passes &= ~(1u << PASS_ATTENTION);
    assert_ptr_equal(answer(*state, &request).band, &ROWS[2]);
}

static void an_unknown_device_is_datasheet_until_its_kernels_are_measured(void **state)
{
    struct evaluation_request request = ask(*state, "dgx-a100-80g", "megatron-core");
    struct cluster cluster = *request.cluster;
    struct node_group group = cluster.nodes[0];
    struct device device = *group.device;
    struct provenance provenance[] = {
        {.key = "efficiency", .kind = PROVENANCE_MEASURED, .source = "here"},
        {.key = "efficiency.attention_backward_ratio", .kind = PROVENANCE_ESTIMATED, .source = "-"},
        {.key = "efficiency.gemm_ratio.fp32", .kind = PROVENANCE_ESTIMATED, .source = "-"},
    };
    device.name = "mine";
    device.provenance = provenance;
    device.provenance_count = 3;
    group.device = &device;
    cluster.nodes = &group;
    request.cluster = &cluster;
    assert_ptr_equal(answer(*state, &request).band, &ROWS[0]);
    // fp32 is not what the plan computes in.
    provenance[1].kind = PROVENANCE_MEASURED;
    assert_ptr_equal(answer(*state, &request).band, &ROWS[1]);
    provenance[2].key = "efficiency.gemm_ratio.bf16";
    assert_ptr_equal(answer(*state, &request).band, &ROWS[0]);
}

static void a_mixed_cluster_is_never_validated(void **state)
{
    struct evaluation_request request = ask(*state, "dgx-h100-x2", "megatron-core");
    struct evaluation_request other = ask(*state, "dgx-a100-80g", "megatron-core");
    struct cluster cluster = *request.cluster;
    struct node_group groups[] = {cluster.nodes[0], cluster.nodes[0]};
    groups[0].count = 1;
    groups[1].count = 1;
    cluster.nodes = groups;
    cluster.node_group_count = 2;
    request.cluster = &cluster;
    assert_ptr_equal(answer(*state, &request).band, &ROWS[4]);  // two groups of one device
    groups[1].device = other.cluster->nodes[0].device;
    assert_ptr_equal(answer(*state, &request).band, &ROWS[2]);  // the slower one's
    struct device unknown = *groups[0].device;
    unknown.name = "mine";
    groups[0].device = &unknown;
    assert_ptr_equal(answer(*state, &request).band, &ROWS[0]);  // the least known
}

static void money_and_time_have_the_same_band(void **state)
{
    struct evaluation_request request = ask(*state, "dgx-a100-80g", "megatron-core");
    struct cluster cluster = *request.cluster;
    cluster.price.per_gpu_hour = 2;
    cluster.price.currency = "EUR";
    request.cluster = &cluster;
    struct prediction found = answer(*state, &request);
    const struct money *pairs[][2] = {{&found.money_low, &found.money},
                                      {&found.money_high, &found.money}};
    const double ratios[] = {0.9, 1.1};
    for (int i = 0; i < 2; i++) {
        const struct money *end = pairs[i][0], *money = pairs[i][1];
        assert_true(money->total > 0);
        assert_true(fabs(end->uninterrupted_s / money->uninterrupted_s / ratios[i] - 1) < 1e-12);
        // Interruptions come at their own pace, and checkpoints with them.
        assert_true(fabs(end->train_s / money->train_s / ratios[i] - 1) < 1e-3);
        assert_true(fabs(end->gpu_hours / money->gpu_hours / ratios[i] - 1) < 1e-3);
        assert_true(fabs(end->total / money->total / ratios[i] - 1) < 1e-3);
        assert_true(fabs(end->per_billion_tokens / money->per_billion_tokens / ratios[i] - 1) <
                    1e-3);
    }
}

static struct prediction with_band(const struct band *band)
{
    return (struct prediction){
        .step_s = 10, .step_s_low = 9, .step_s_high = 11, .band = band, .bands = &BANDS};
}

static void each_band_says_what_it_rests_on(void **state)
{
    const struct graph graph = {0};
    struct band few = {.device = "d", .stack = "s", .kind = "mixture", .row_count = 1};
    few.confidence = CONFIDENCE_EXTRAPOLATED;
    struct band none = few;
    none.row_count = 0;
    const struct {
        const struct band *band;
        const char *text;
    } cases[] = {
        {&ROWS[3], "validated by 30 measured dense runs (a100-sxm4-80g, megatron-core)"},
        {&ROWS[2], "extrapolated from 60 measured dense runs (a100-sxm4-80g, other stacks)"},
        {&few, "extrapolated from 1 measured mixture run (d, s)"},
        {&none, "extrapolated: no measured mixture run (d)"},
        {&ROWS[1], "extrapolated from 90 measured dense runs (other devices, other stacks)"},
        {&ROWS[0], "datasheet: this device was never measured in a run"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct prediction prediction = with_band(cases[i].band);
        assert_string_equal(band_text(*state, &prediction, &graph),
                            arena_print(*state, "90 %% band 9.00 s to 11.00 s, %s", cases[i].text));
    }
    struct prediction borrowed = with_band(&ROWS[2]);
    const struct graph images = {.seq_len_max = 1};
    assert_string_equal(band_text(*state, &borrowed, &images),
                        "90 % band 9.00 s to 11.00 s, extrapolated: no run of such a model was "
                        "measured; the band is that of 60 dense runs of transformers "
                        "(a100-sxm4-80g, any stack)");
    struct prediction without = {.step_s = 10};
    assert_string_equal(band_text(*state, &without, &graph), "");
}

static const char *overlap_of(struct arena *arena, int count, const double *step_s)
{
    struct candidate best[8] = {0};
    for (int i = 0; i < count; i++) {
        best[i].cost.step_s = step_s[i];
    }
    struct search_result result = {.best = best, .best_count = count};
    struct prediction prediction = with_band(&ROWS[3]);  // up to 1.1 / 0.9, 22.2 % apart
    return band_overlap_text(arena, &result, &prediction);
}

static void the_table_says_which_plans_cannot_be_told_apart(void **state)
{
    static const char OVERLAP[] = "   The bands of %s overlap: predicted times cannot tell them "
                                  "apart\n   Of %s\n";
    assert_string_equal(overlap_of(*state, 1, (const double[]){10}), "");
    assert_string_equal(overlap_of(*state, 3, (const double[]){10, 12.3, 14}),
                        "   The band of 1 overlaps no other: predicted times tell it apart\n");
    assert_string_equal(overlap_of(*state, 3, (const double[]){10, 10.4, 14}),
                        arena_print(*state, OVERLAP, "1 and 2",
                                    "40 pairs of published runs predicted 0 to 5 % apart, 60 % "
                                    "came out in the predicted order"));
    assert_string_equal(overlap_of(*state, 4, (const double[]){10, 10.4, 12.2, 14}),
                        arena_print(*state, OVERLAP, "1 to 3",
                                    "40 pairs of published runs predicted 0 to 5 % apart, 60 % "
                                    "came out in the predicted order; of 70 predicted over 5 % "
                                    "apart, 90 %"));
    // By memory: a faster plan may stand below a slower one.
    assert_string_equal(overlap_of(*state, 4, (const double[]){10, 14, 9, 11.5}),
                        arena_print(*state, OVERLAP, "1, 3, 4",
                                    "70 pairs of published runs predicted over 5 % apart, 90 % "
                                    "came out in the predicted order"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_measured_pair_is_validated),
        cmocka_unit_test(another_stack_is_extrapolated),
        cmocka_unit_test(one_family_shows_nothing_of_other_devices),
        cmocka_unit_test(what_was_assumed_is_not_what_was_measured),
        cmocka_unit_test(fp32_is_extrapolated),
        cmocka_unit_test(an_unknown_device_is_datasheet_until_its_kernels_are_measured),
        cmocka_unit_test(a_mixed_cluster_is_never_validated),
        cmocka_unit_test(money_and_time_have_the_same_band),
        cmocka_unit_test(each_band_says_what_it_rests_on),
        cmocka_unit_test(the_table_says_which_plans_cannot_be_told_apart),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
