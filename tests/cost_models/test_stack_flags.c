#include "core/file.h"
#include "cost_models/stack.h"
#include "reports/machine/launch.h"
#include "tests/support/test.h"

static const struct stack *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    const struct stack *stack = stack_load(arena, name, &err);
    assert_string_equal(err.text, "");
    return stack;
}

static void every_ability_of_a_shipped_stack_has_its_flag(void **state)
{
    int count = 0, ability_count = 0;
    const char **names = file_list_data(*state, "cost_models/stacks", &count);
    for (int i = 0; i < count; i++) {
        const struct stack *stack = load(*state, names[i]);
        assert_non_null(stack->flags_of);
        const char **abilities = stack_abilities(*state, stack, &ability_count);
        assert_true(ability_count > 4);
        for (int j = 0; j < ability_count; j++) {
            assert_non_null(stack_flag_of(stack, abilities[j]));
        }
    }
}

static bool has(struct arena *arena, const char *stack, const char *ability)
{
    int count = 0;
    const char **abilities = stack_abilities(arena, load(arena, stack), &count);
    for (int i = 0; i < count; i++) {
        if (strcmp(abilities[i], ability) == 0) return true;
    }
    return false;
}

static void a_stack_offers_what_its_software_launches(void **state)
{
    static const struct {
        const char *stack, *ability;
        bool has;
    } CASES[] = {
        {"megatron-core", "schedule=interleaved", true},
        {"megatron-core", "schedule=zb-v", false},
        {"megatron-core", "schedule=gpipe", false},
        {"megatron-zero-bubble", "schedule=zb-v", true},
        {"megatron-core", "recompute=mla-up", true},
        {"megatron-core", "zero=3", true},
        {"megatron-core", "cp-kind=ulysses", true},
        {"megatron-deepspeed", "schedule=interleaved", false},
        {"fsdp2", "recompute=selective", false},
        {"fsdp2", "cp-kind=ulysses", false},
        {"fsdp2", "zero=1", false},
        {"fsdp2", "precision=fp8", true},
        {"meshwright", "sp=on", true},
        {"meshwright", "recompute=none", false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        assert_true(has(*state, CASES[i].stack, CASES[i].ability) == CASES[i].has);
    }
}

// Its modular recompute has moe_act and nothing for the function of a dense mlp.
static void recompute_of_experts_alone_is_offered_to_models_that_have_some(void **state)
{
    const struct stack *stack = load(*state, "megatron-core");
    unsigned activation = 1u << OP_CLASS_ACTIVATION;
    assert_false(stack->recompute_classes & activation);
    assert_ptr_equal(stack_for_model(*state, stack, false), stack);
    const struct stack *mixture = stack_for_model(*state, stack, true);
    assert_true(mixture->recompute_classes & activation);
    assert_ptr_equal(stack_for_model(*state, mixture, true), mixture);
    assert_false(stack_for_model(*state, mixture, false)->recompute_classes & activation);
}

static void an_alias_is_the_stack_in_any_case(void **state)
{
    static const char *const NAMES[][2] = {
        {"megatron", "megatron-core"},
        {"Megatron-LM", "megatron-core"},
        {"nemo", "megatron-core"},
        {"deepspeed", "megatron-deepspeed"},
        {"DeepSpeed", "megatron-deepspeed"},
        {"torchtitan", "fsdp2"},
        {"fsdp", "fsdp"},
        {"FSDP2", "fsdp2"},
        {"colossal-ai", "colossalai"},
        {"maxtext", "xla"},
        {"zero-bubble", "megatron-zero-bubble"},
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        assert_string_equal(load(*state, NAMES[i][0])->name, NAMES[i][1]);
    }
}

static void no_alias_names_two_stacks(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "cost_models/stacks", &count);
    for (int i = 0; i < count; i++) {
        const struct stack *stack = load(*state, names[i]);
        for (int j = 0; j < stack->alias_count; j++) {
            assert_string_equal(load(*state, stack->aliases[j])->name, names[i]);
        }
    }
}

static struct parallel plan_of(void)
{
    struct parallel parallel = {
        .vpp = 1, .micro_batch = 2, .zero = 1, .schedule = SCHEDULE_1F1B, .recompute_layers = -1};
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        parallel.degree[axis] = 1;
    }
    parallel.degree[AXIS_TP] = 4;
    parallel.degree[AXIS_PP] = 2;
    parallel.degree[AXIS_DP] = 8;
    parallel.sp = true;
    return parallel;
}

static void a_plan_has_the_flags_of_what_it_chooses(void **state)
{
    const struct stack *stack = stack_for_model(*state, load(*state, "megatron-core"), true);
    const struct workload workload = {
        .seq_len = 4096, .global_batch = 64, .precision = PRECISION_FP8};
    struct parallel parallel = plan_of();
    parallel.overlap = stack->overlap;
    assert_string_equal(
        launch_text(*state, stack, &parallel, &workload),
        "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 "
        "--sequence-parallel --use-distributed-optimizer --micro-batch-size 2 "
        "--global-batch-size 64 --seq-length 4096 --bf16 --fp8-format hybrid "
        "--fp8-param-gather --attention-backend flash --overlap-grad-reduce --overlap-param-gather "
        "--tp-comm-overlap");
    parallel.overlap = 0;
    parallel.vpp = 3;
    parallel.schedule = SCHEDULE_INTERLEAVED;
    parallel.recompute = RECOMPUTE_SELECTIVE;
    parallel.recompute_classes = 1u << OP_CLASS_ATTENTION | 1u << OP_CLASS_ACTIVATION;
    parallel.zero = 3;
    parallel.zero_group = 4;
    const char *text = launch_text(*state, stack, &parallel, &workload);
    // Without the distributed optimizer it has no weights in fp8, and ZeRO 3 gathers them.
    assert_null(strstr(text, "--fp8-param-gather"));
    assert_non_null(strstr(text, " --num-virtual-stages-per-pipeline-rank 3 "));
    assert_non_null(strstr(text, " --num-distributed-optimizer-instances 2 "));
    assert_non_null(strstr(text, " --recompute-granularity selective --recompute-modules core_attn "
                                 "moe_act"));
    parallel.recompute = RECOMPUTE_FULL;
    parallel.recompute_layers = 5;
    text = launch_text(*state, stack, &parallel, &workload);
    assert_non_null(strstr(text, "--recompute-method block --recompute-num-layers 5"));
    assert_null(strstr(text, "uniform"));
}

static void our_own_words_are_joined_by_commas(void **state)
{
    const struct stack *stack = load(*state, "meshwright");
    const struct workload workload = {
        .seq_len = 512, .global_batch = 16, .precision = PRECISION_BF16};
    struct parallel parallel = plan_of();
    parallel.recompute = RECOMPUTE_SELECTIVE;
    parallel.recompute_classes = 1u << OP_CLASS_NORM | 1u << OP_CLASS_MLP;
    const char *text = launch_text(*state, stack, &parallel, &workload);
    assert_non_null(strstr(text, "--recompute norm,mlp"));
}

static void wrong_flags_are_named(void **state)
{
    static const struct {
        const char *was, *is, *wanted;
    } CASES[] = {
        {"{\"ability\": \"zero=1\"", "{\"ability\": \"zero=4\"",
         "$.flags: expected the flag of \"zero=1\", which the stack offers"},
        {"{\"ability\": \"micro-batch\"", "{\"ability\": \"micro-bach\"",
         ".ability: the stack does not offer \"micro-bach\""},
        {"{\"ability\": \"seq-len\"", "{\"ability\": \"tp\"",
         ".ability: \"tp\" has a flag already"},
        {"\"flags_of\"", "\"flags_off\"", "$.flags_off: unknown key, did you mean \"flags_of\"?"},
    };
    struct err err = {0};
    const char *path = file_find_data(*state, "cost_models/stacks", "megatron-core", "", &err);
    size_t bytes = 0;
    const char *text = file_read(*state, path, 1 << 20, &bytes, &err);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *at = strstr(text, CASES[i].was);
        assert_non_null(at);
        char *wrong = arena_print(*state, "%.*s%s%s", (int)(at - text), text, CASES[i].is,
                                  at + strlen(CASES[i].was));
        struct json_document document;
        struct err found = {0};
        assert_true(json_parse(*state, "own.json", wrong, strlen(wrong), &document, &found));
        struct json root = json_root(&document);
        assert_null(stack_read(*state, &root, &found));
        assert_non_null(strstr(found.text, CASES[i].wanted));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ability_of_a_shipped_stack_has_its_flag),
        cmocka_unit_test(a_stack_offers_what_its_software_launches),
        cmocka_unit_test(recompute_of_experts_alone_is_offered_to_models_that_have_some),
        cmocka_unit_test(an_alias_is_the_stack_in_any_case),
        cmocka_unit_test(no_alias_names_two_stacks),
        cmocka_unit_test(a_plan_has_the_flags_of_what_it_chooses),
        cmocka_unit_test(our_own_words_are_joined_by_commas),
        cmocka_unit_test(wrong_flags_are_named),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
