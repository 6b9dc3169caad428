#include "tests/support/test.h"

#include "planner/choice.h"
#include "planner/scan.h"

// What is pinned is kept, what is forbidden is never proposed, and a pin that leaves no plan is
// answered with the values that would.

static struct search_request request_of(struct arena *arena, const char *model, const char *cluster,
                                        int64_t gpus, const char *stack, int64_t global_batch)
{
    struct err err = {0};
    struct search_request request = {.pins = pins_none(), .top = 10};
    request.model = model_load(arena, model, NULL, NULL, &err);
    struct cluster *loaded = cluster_load(arena, cluster, &err);
    assert_string_equal(err.text, "");
    assert_true(gpus == 0 || cluster_take_gpus(loaded, gpus, &err));
    request.cluster = loaded;
    request.stack = stack_load(arena, stack, &err);
    request.fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    request.workload = (struct workload){.seq_len = 2048,
                                         .global_batch = global_batch,
                                         .precision = PRECISION_BF16,
                                         .optimizer = OPTIMIZER_ADAMW};
    return request;
}

static struct search_result search(struct arena *arena, const struct search_request *request)
{
    struct search_result result = {0};
    struct err err = {0};
    bool ok = search_plans(arena, request, &result, &err);
    assert_string_equal(err.text, "");
    assert_true(ok);
    return result;
}

static const char *refusal(struct arena *arena, const struct search_request *request)
{
    struct search_result result = {0};
    struct err err = {0};
    assert_false(search_plans(arena, request, &result, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    return arena_copy(arena, err.text);
}

static void every_pin_is_kept(void **state)
{
    struct arena *arena = *state;
    const struct {
        enum choice choice;
        int64_t value;
    } PINS[] = {{CHOICE_TP, 2},
                {CHOICE_SP, 0},
                {CHOICE_SP, 1},
                {CHOICE_PP, 4},
                {CHOICE_DP, 2},
                {CHOICE_VPP, 2},
                {CHOICE_MICRO_BATCH, 4},
                {CHOICE_ZERO, 1},
                {CHOICE_ZERO, 0},
                {CHOICE_RECOMPUTE, RECOMPUTE_FULL},
                {CHOICE_RECOMPUTE, RECOMPUTE_NONE},
                {CHOICE_RECOMPUTE_LAYERS, 3},
                {CHOICE_SCHEDULE, SCHEDULE_1F1B},
                {CHOICE_SCHEDULE, SCHEDULE_INTERLEAVED},
                {CHOICE_RECOMPUTE, recompute_value(RECOMPUTE_SELECTIVE, 1u << OP_CLASS_NORM)},
                {CHOICE_SCHEDULE, SCHEDULE_ZB_H1},
                {CHOICE_SCHEDULE, SCHEDULE_ZB_V},
                {CHOICE_IN_FLIGHT, 6},
                {CHOICE_CP, 2},
                {CHOICE_CP_KIND, CP_ULYSSES},
                {CHOICE_ZERO_GROUP, 4},
                {CHOICE_PASSES, 1 << PASS_FUSION},
                {CHOICE_BUCKET_BYTES, 25000000},
                {CHOICE_OVERLAP, 0}};
    for (size_t i = 0; i < sizeof PINS / sizeof *PINS; i++) {
        struct search_request request =
            request_of(arena, "llama-2-7b", "dgx-a100-80g-x2", 0, "meshwright", 64);
        pins_set(&request.pins, PINS[i].choice, PINS[i].value, PINS[i].value);
        struct search_result result = search(arena, &request);
        assert_true(result.best_count > 0);
        for (int k = 0; k < result.best_count; k++) {
            assert_true(choice_value(&result.best[k].parallel, PINS[i].choice) == PINS[i].value);
        }
    }
}

static struct search_request mixture(struct arena *arena)
{
    struct search_request request =
        request_of(arena, "mixtral-8x7b", "dgx-h100-x4", 0, "megatron-core", 64);
    request.workload.seq_len = 4096;
    return request;
}

static void pins_of_experts_are_kept(void **state)
{
    struct arena *arena = *state;
    static const struct {
        int ep, etp;
    } CASES[] = {{8, 1}, {4, 2}, {2, 2}, {2, 4}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct search_request request = mixture(arena);
        pins_set(&request.pins, CHOICE_EP, CASES[i].ep, CASES[i].ep);
        pins_set(&request.pins, CHOICE_ETP, CASES[i].etp, CASES[i].etp);
        struct search_result result = search(arena, &request);
        assert_true(result.best_count > 0);
        for (int k = 0; k < result.best_count; k++) {
            assert_int_equal(result.best[k].parallel.degree[AXIS_EP], CASES[i].ep);
            assert_int_equal(result.best[k].parallel.degree[AXIS_ETP], CASES[i].etp);
        }
    }
}

static void a_forbidden_expert_degree_is_not_proposed(void **state)
{
    struct arena *arena = *state;
    struct search_request request = mixture(arena);
    int best = search(arena, &request).best[0].parallel.degree[AXIS_EP];
    assert_true(best > 1);
    request.pins.forbidden[0].key = "ep";
    request.pins.forbidden[0].value = best;
    request.pins.forbidden_count = 1;
    struct search_result result = search(arena, &request);
    assert_true(result.best_count > 0);
    for (int k = 0; k < result.best_count; k++) {
        assert_int_not_equal(result.best[k].parallel.degree[AXIS_EP], best);
    }
}

static void expert_degrees_that_do_not_divide_are_refused(void **state)
{
    struct arena *arena = *state;
    struct search_request request = mixture(arena);
    pins_set(&request.pins, CHOICE_EP, 3, 3);
    assert_string_equal(refusal(arena, &request),
                        "--ep 3: 8 experts cannot be split by 3; the nearest that divide are 2 and "
                        "4; with all else as it is, --ep may be 1, 2, 4, 8");
    request = request_of(arena, "llama-2-7b", "dgx-a100-80g", 0, "megatron-core", 64);
    pins_set(&request.pins, CHOICE_EP, 2, 2);
    assert_string_equal(refusal(arena, &request),
                        "--ep 2: the model has no experts; only 1 works; with all else as it is, "
                        "--ep may be 1");
}

static void long_sequences_are_split_and_short_ones_are_not(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-h100", 0, "megatron-core", 8);
    struct search_result result = search(arena, &request);
    assert_int_equal(result.best[0].parallel.degree[AXIS_CP], 1);
    request.workload.seq_len = 131072;
    result = search(arena, &request);
    assert_true(result.best_count > 0 && result.best[0].parallel.degree[AXIS_CP] > 1);
}

static void a_cap_without_its_schedule_is_refused(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-a100-80g", 0, "meshwright", 64);
    pins_set(&request.pins, CHOICE_IN_FLIGHT, 6, 6);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    const char *text = refusal(arena, &request);
    assert_memory_equal(text, "--schedule 1f1b: ", 17);
    assert_non_null(strstr(text, "--schedule may be zb-auto"));
}

static void ranges_and_forbidden_values_are_kept(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-a100-80g-x2", 0, "megatron-core", 64);
    pins_set(&request.pins, CHOICE_TP, 2, 8);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 2, 4);
    request.pins.forbidden[0].key = "tp";
    request.pins.forbidden[0].value = 4;
    request.pins.forbidden[1].key = "zero";
    request.pins.forbidden[1].value = 1;
    request.pins.forbidden_count = 2;
    struct search_result result = search(arena, &request);
    assert_true(result.best_count > 1);
    for (int k = 0; k < result.best_count; k++) {
        const struct parallel *parallel = &result.best[k].parallel;
        assert_true(pins_allow_all(&request.pins, parallel, NULL));
        assert_true(parallel->degree[AXIS_TP] == 2 || parallel->degree[AXIS_TP] == 8);
        assert_int_not_equal(parallel->zero, 1);
    }
}

static void a_pin_never_gives_a_faster_plan(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-13b", "dgx-a100-80g-x2", 0, "megatron-core", 64);
    int64_t best_ns = step_ns(search(arena, &request).bound_s);
    for (int tp = 1; tp <= 8; tp *= 2) {
        pins_set(&request.pins, CHOICE_TP, tp, tp);
        assert_true(step_ns(search(arena, &request).bound_s) >= best_ns);
    }
}

static void any_whole_number_of_gpus_has_a_plan(void **state)
{
    struct arena *arena = *state;
    static const int GPUS[] = {1, 3, 5, 6, 7, 12, 100, 384};
    for (size_t i = 0; i < sizeof GPUS / sizeof *GPUS; i++) {
        struct search_request request =
            request_of(arena, "gpt3-1.3b", "dgx-a100-80g-x48", GPUS[i], "megatron-core", 9600);
        request.workload.global_batch = GPUS[i] == 7 ? 56 : 9600;
        struct search_result result = search(arena, &request);
        assert_true(result.best_count > 0);
        assert_int_equal(parallel_rank_count(&result.best[0].parallel), GPUS[i]);
    }
}

static void pinned_stages_are_kept(void **state)
{
    struct arena *arena = *state;
    static const int LAYERS[] = {6, 10, 9, 7};  // of no free split, whatever the chunks
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-a100-80g", 0, "megatron-core", 64);
    request.pins.stage_layers = LAYERS;
    request.pins.stage_layers_count = 4;
    struct search_result result = search(arena, &request);
    assert_true(result.best_count > 0);
    for (int k = 0; k < result.best_count; k++) {
        assert_int_equal(result.best[k].parallel.degree[AXIS_PP], 4);
        assert_memory_equal(result.best[k].parallel.stage_layers, LAYERS, sizeof LAYERS);
    }
}

// The head of this model weighs as much as four layers. A question gets stages that allow for that;
// a run that is described gets those that its software makes by itself.
static void the_stages_of_a_described_run_are_even(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-3-8b", "dgx-h100", 0, "megatron-core", 64);
    pins_set(&request.pins, CHOICE_PP, 2, 2);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 2);
    struct search_result result = search(arena, &request);
    assert_int_equal(result.best[0].parallel.stage_layers_count, 2);
    assert_true(result.best[0].parallel.stage_layers[0] > 16);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    result = search(arena, &request);
    assert_int_equal(result.best[0].parallel.stage_layers_count, 0);
}

static void the_stages_of_a_described_run_are_said_to_be_so(void **state)
{
    static const int LAYERS[] = {16, 16};
    struct search_request request =
        request_of(*state, "llama-3-8b", "dgx-h100", 0, "megatron-core", 64);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    assert_false(search_describes_stages(&request));
    pins_set(&request.pins, CHOICE_PP, 1, 1);
    assert_false(search_describes_stages(&request));
    pins_set(&request.pins, CHOICE_PP, 2, 2);
    assert_true(search_describes_stages(&request));
    request.pins.stage_layers = LAYERS;
    request.pins.stage_layers_count = 2;
    assert_false(search_describes_stages(&request));
}

static enum attention attention_of(struct arena *arena, const struct search_request *request)
{
    return search(arena, request).best[0].parallel.attention;
}

static void a_described_run_in_fp16_has_the_attention_of_its_stack(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-3-8b", "dgx-h100", 0, "megatron-core", 64);
    enum attention attention = ATTENTION_COUNT;
    request.workload.precision = PRECISION_FP16;
    pins_set(&request.pins, CHOICE_PP, 2, 2);
    pins_set(&request.pins, CHOICE_SCHEDULE, SCHEDULE_1F1B, SCHEDULE_1F1B);
    assert_false(search_describes_attention(&request, &attention));
    assert_int_equal(attention_of(arena, &request), ATTENTION_FLASH);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 1, 1);
    assert_true(search_describes_attention(&request, &attention));
    assert_int_equal(attention, ATTENTION_UNFUSED);
    assert_int_equal(attention_of(arena, &request), ATTENTION_UNFUSED);
    request.workload.precision = PRECISION_BF16;
    assert_false(search_describes_attention(&request, &attention));
    request.workload.precision = PRECISION_FP16;
    pins_set(&request.pins, CHOICE_ATTENTION, ATTENTION_FLASH, ATTENTION_FLASH);
    assert_false(search_describes_attention(&request, &attention));
    assert_int_equal(attention_of(arena, &request), ATTENTION_FLASH);
}

static void stages_that_do_not_add_up_are_refused(void **state)
{
    struct arena *arena = *state;
    static const int LAYERS[] = {7, 9, 9, 8};
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-a100-80g", 0, "megatron-core", 64);
    request.pins.stage_layers = LAYERS;
    request.pins.stage_layers_count = 4;
    assert_string_equal(refusal(arena, &request),
                        "--stages: the numbers add up to 33; the model has 32 layers");
    request.pins.stage_layers_count = 3;
    assert_string_equal(refusal(arena, &request), "--stages: 3 stages do not divide 8 GPUs");
    request.pins.stage_layers_count = 2;
    pins_set(&request.pins, CHOICE_PP, 4, 4);
    assert_string_equal(refusal(arena, &request),
                        "--stages: 2 numbers are as many stages; --pp is 4");
}

static void a_shard_group_that_does_not_divide_names_those_that_do(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-a100-80g", 0, "megatron-core", 64);
    pins_set(&request.pins, CHOICE_ZERO_GROUP, 5, 5);
    assert_string_equal(refusal(arena, &request),
                        "--zero-group 5: no plan of batch 64 on 8 GPUs has it; with all else as it "
                        "is, --zero-group may be 1, 2, 4, 8");
}

static void a_fully_pinned_plan_is_answered_also_when_it_does_not_fit(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-70b", "dgx-a100-80g", 0, "megatron-core", 64);
    pins_set(&request.pins, CHOICE_TP, 8, 8);
    pins_set(&request.pins, CHOICE_SP, 1, 1);
    pins_set(&request.pins, CHOICE_PP, 1, 1);
    pins_set(&request.pins, CHOICE_DP, 1, 1);
    pins_set(&request.pins, CHOICE_ZERO, 0, 0);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 2, 2);
    pins_set(&request.pins, CHOICE_RECOMPUTE, RECOMPUTE_FULL, RECOMPUTE_FULL);
    pins_set(&request.pins, CHOICE_RECOMPUTE_LAYERS, 80, 80);
    struct search_result result = search(arena, &request);
    assert_true(result.considered_count == 1);
    assert_int_equal(result.status, SEARCH_NOTHING_FITS);
    assert_true(pins_allow_all(&request.pins, &result.closest.parallel, NULL));
    assert_true(result.closest.simulated);
    assert_string_equal(result.limit, "optimizer");
}

static void a_pin_that_does_not_divide_names_the_values_that_do(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-a100-80g", 6, "megatron-core", 60);
    pins_set(&request.pins, CHOICE_TP, 3, 3);
    assert_string_equal(refusal(arena, &request),
                        "--tp 3: 32 heads cannot be split by 3; the nearest that divide are 2 and "
                        "4; with all else as it is, --tp may be 1, 2");
}

static void a_micro_batch_that_does_not_divide_names_those_that_do(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-a100-80g", 0, "megatron-core", 64);
    pins_set(&request.pins, CHOICE_MICRO_BATCH, 5, 5);
    assert_string_equal(refusal(arena, &request),
                        "--micro-batch 5: a global batch of 64 over dp 1 cannot be split by 5; the "
                        "nearest that divide are 4 and 8; with all else as it is, --micro-batch "
                        "may be 1, 2, 4, 8, 16, 32, 64");
}

static void degrees_that_do_not_use_all_gpus_are_refused(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-a100-80g", 0, "megatron-core", 64);
    pins_set(&request.pins, CHOICE_TP, 2, 2);
    pins_set(&request.pins, CHOICE_PP, 2, 2);
    pins_set(&request.pins, CHOICE_DP, 4, 4);
    assert_string_equal(
        refusal(arena, &request),
        "--tp 2: no plan of batch 64 on 8 GPUs has it; with all else as it is, --tp "
        "may be 1");
}

// The search proposes one value of these; it does not propose it when it is forbidden.
static void a_forbidden_value_that_has_no_other_leaves_no_plan(void **state)
{
    struct arena *arena = *state;
    static const char *const KEYS[] = {"bucket_bytes", "passes", "overlap"};
    for (int i = 0; i < 3; i++) {
        struct search_request request =
            request_of(arena, "llama-2-7b", "dgx-a100-80g", 0, "megatron-core", 64);
        const struct stack *stack = request.stack;
        const int64_t values[] = {0, stack->passes, stack->overlap_default};
        request.pins.forbidden[0].key = KEYS[i];
        request.pins.forbidden[0].value = values[i];
        request.pins.forbidden_count = 1;
        const char *text = refusal(arena, &request);
        assert_non_null(strstr(text, "as forbidden"));
    }
}

static void what_the_stack_cannot_run_is_refused_with_its_reason(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-a100-80g", 0, "megatron-2021", 64);
    pins_set(&request.pins, CHOICE_ZERO, 3, 3);
    assert_string_equal(refusal(arena, &request),
                        "stack megatron-2021 has no zero stage 3; with all else as it is, --zero "
                        "may be 0");
}

static void an_axis_that_the_stack_lacks_is_refused_with_its_reason(void **state)
{
    struct arena *arena = *state;
    struct search_request request = mixture(arena);
    request.stack = stack_load(arena, "megatron-2021", &(struct err){0});
    pins_set(&request.pins, CHOICE_EP, 2, 2);
    assert_string_equal(refusal(arena, &request),
                        "stack megatron-2021 cannot split over ep; with all else as it is, --ep "
                        "may be 1");
}

static void a_number_of_gpus_that_nothing_divides_is_refused_with_one_that_works(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "gpt3-1.3b", "dgx-a100-80g-x8", 61, "megatron-core", 64);
    const char *text = refusal(arena, &request);
    assert_memory_equal(text, "no plan uses all 61 GPUs (", 26);
    assert_non_null(strstr(text, "); --gpus 60 has one"));
}

static void an_unknown_forbidden_key_is_refused(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-a100-80g", 0, "megatron-core", 64);
    request.pins.forbidden[0].key = "zer";
    request.pins.forbidden_count = 1;
    assert_string_equal(refusal(arena, &request), "unknown choice \"zer\": did you mean \"zero\"?");
}

static void every_choice_reads_back_what_it_writes(void **state)
{
    struct arena *arena = *state;
    struct search_request request =
        request_of(arena, "llama-2-7b", "dgx-a100-80g", 0, "megatron-core", 64);
    struct parallel parallel = search(arena, &request).best[0].parallel;
    parallel.recompute_layers = 3;
    for (int i = 0; i < CHOICE_COUNT; i++) {
        enum choice choice = (enum choice)i, found;
        struct err err = {0};
        int64_t value = choice_value(&parallel, choice), again = -2;
        assert_true(choice_from_name(choice_name(choice), &found, &err));
        assert_int_equal(found, choice);
        assert_true(choice_parse(choice, choice_text(arena, choice, value), &again, &err));
        assert_true(again == value);
        struct pins pins = pins_none();
        assert_false(pins_get(&pins, choice).set);
        pins_set(&pins, choice, value, value);
        assert_true(pins_allow(&pins, choice, value) && !pins_allow(&pins, choice, value + 1));
        pins_clear(&pins, choice);
        assert_true(pins_allow(&pins, choice, value + 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pin_is_kept),
        cmocka_unit_test(pins_of_experts_are_kept),
        cmocka_unit_test(a_forbidden_expert_degree_is_not_proposed),
        cmocka_unit_test(expert_degrees_that_do_not_divide_are_refused),
        cmocka_unit_test(long_sequences_are_split_and_short_ones_are_not),
        cmocka_unit_test(a_cap_without_its_schedule_is_refused),
        cmocka_unit_test(ranges_and_forbidden_values_are_kept),
        cmocka_unit_test(a_pin_never_gives_a_faster_plan),
        cmocka_unit_test(any_whole_number_of_gpus_has_a_plan),
        cmocka_unit_test(pinned_stages_are_kept),
        cmocka_unit_test(the_stages_of_a_described_run_are_even),
        cmocka_unit_test(the_stages_of_a_described_run_are_said_to_be_so),
        cmocka_unit_test(a_described_run_in_fp16_has_the_attention_of_its_stack),
        cmocka_unit_test(stages_that_do_not_add_up_are_refused),
        cmocka_unit_test(a_shard_group_that_does_not_divide_names_those_that_do),
        cmocka_unit_test(a_fully_pinned_plan_is_answered_also_when_it_does_not_fit),
        cmocka_unit_test(a_pin_that_does_not_divide_names_the_values_that_do),
        cmocka_unit_test(a_micro_batch_that_does_not_divide_names_those_that_do),
        cmocka_unit_test(degrees_that_do_not_use_all_gpus_are_refused),
        cmocka_unit_test(a_forbidden_value_that_has_no_other_leaves_no_plan),
        cmocka_unit_test(what_the_stack_cannot_run_is_refused_with_its_reason),
        cmocka_unit_test(an_axis_that_the_stack_lacks_is_refused_with_its_reason),
        cmocka_unit_test(a_number_of_gpus_that_nothing_divides_is_refused_with_one_that_works),
        cmocka_unit_test(an_unknown_forbidden_key_is_refused),
        cmocka_unit_test(every_choice_reads_back_what_it_writes),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
