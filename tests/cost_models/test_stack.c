#include "core/file.h"
#include "cost_models/stack.h"
#include "tests/support/test.h"

static const struct stack *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    const struct stack *stack = stack_load(arena, name, &err);
    assert_string_equal(err.text, "");
    assert_non_null(stack);
    return stack;
}

static char *text_of(struct arena *arena, const struct stack *stack)
{
    struct json_writer writer = {.arena = arena};
    stack_write(&writer, NULL, stack);
    return writer.text;
}

// A choice without any degree above 1.
static struct parallel plain(const struct stack *stack)
{
    struct parallel parallel = {
        .vpp = 1, .micro_batch = 1, .schedule = SCHEDULE_1F1B, .recompute_layers = -1};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    bool flash = stack->attention >> ATTENTION_FLASH & 1;
    parallel.attention = flash ? ATTENTION_FLASH : ATTENTION_UNFUSED;
    parallel.zero = stack->zero_stages & 1 ? 0 : 3;
    return parallel;
}

static void every_shipped_stack_reads_and_has_the_name_of_its_file(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "cost_models/stacks", &count);
    assert_int_equal(count, 19);
    for (int i = 0; i < count; i++) {
        assert_string_equal(load(*state, names[i])->name, names[i]);
    }
}

static void every_shipped_stack_is_written_as_it_was_read(void **state)
{
    struct arena *arena = *state;
    int count = 0;
    const char **names = file_list_data(arena, "cost_models/stacks", &count);
    for (int i = 0; i < count; i++) {
        struct err err = {0};
        struct json_document document;
        const char *text = text_of(arena, load(arena, names[i]));
        assert_true(json_parse(arena, "copy", text, strlen(text), &document, &err));
        struct json root = json_root(&document);
        const struct stack *copy = stack_read(arena, &root, &err);
        assert_string_equal(err.text, "");
        assert_string_equal(text_of(arena, copy), text);
    }
}

static void every_shipped_stack_runs_plain_data_parallelism(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "cost_models/stacks", &count);
    for (int i = 0; i < count; i++) {
        const struct stack *stack = load(*state, names[i]);
        struct parallel parallel = plain(stack);
        parallel.degree[AXIS_DP] = 8;
        parallel.overlap = stack->overlap_default;
        const char *why = NULL;
        assert_true(stack_can_run(stack, &parallel, *state, &why));
        assert_null(why);
    }
}

// What the published runs of each stack used.
static const struct run {
    const char *stack;
    int tp, pp, vpp, zero;
    bool sp;
    enum recompute recompute;
    enum schedule_kind schedule;
    enum attention attention;
} RUNS[] = {
    {"megatron-2021", 8, 8, 3, 0, true, RECOMPUTE_SELECTIVE, SCHEDULE_INTERLEAVED,
     ATTENTION_UNFUSED},
    {"megatron-2021", 8, 1, 1, 0, false, RECOMPUTE_FULL, SCHEDULE_1F1B, ATTENTION_UNFUSED},
    {"megatron-core", 4, 8, 6, 1, true, RECOMPUTE_NONE, SCHEDULE_INTERLEAVED, ATTENTION_FLASH},
    {"megatron-core", 1, 16, 1, 0, false, RECOMPUTE_NONE, SCHEDULE_1F1B, ATTENTION_UNFUSED},
    {"megatron-core", 1, 1, 1, 3, false, RECOMPUTE_FULL, SCHEDULE_1F1B, ATTENTION_FLASH},
    {"megatron-deepspeed", 8, 8, 1, 0, false, RECOMPUTE_FULL, SCHEDULE_1F1B, ATTENTION_UNFUSED},
    {"megatron-deepspeed", 4, 4, 1, 1, false, RECOMPUTE_FULL, SCHEDULE_1F1B, ATTENTION_UNFUSED},
    {"fsdp", 1, 1, 1, 3, false, RECOMPUTE_SELECTIVE, SCHEDULE_1F1B, ATTENTION_FLASH},
    {"fsdp2", 4, 1, 1, 3, true, RECOMPUTE_FULL, SCHEDULE_1F1B, ATTENTION_FLASH},
    {"fsdp2", 4, 1, 1, 0, false, RECOMPUTE_FULL, SCHEDULE_1F1B, ATTENTION_FLASH},
    {"internevo", 2, 1, 1, 1, false, RECOMPUTE_FULL, SCHEDULE_1F1B, ATTENTION_FLASH},
    {"xla", 1, 1, 1, 3, false, RECOMPUTE_NONE, SCHEDULE_1F1B, ATTENTION_FLASH},
};

static void every_stack_can_run_what_its_published_runs_used(void **state)
{
    for (size_t i = 0; i < sizeof RUNS / sizeof *RUNS; i++) {
        const struct run *run = &RUNS[i];
        const struct stack *stack = load(*state, run->stack);
        struct parallel parallel = plain(stack);
        parallel.degree[AXIS_TP] = run->tp;
        parallel.degree[AXIS_PP] = run->pp;
        parallel.degree[AXIS_DP] = 4;
        parallel.vpp = run->vpp;
        parallel.zero = run->zero;
        parallel.sp = run->sp;
        parallel.recompute = run->recompute;
        parallel.schedule = run->schedule;
        parallel.attention = run->attention;
        const char *why = NULL;
        bool can_run = stack_can_run(stack, &parallel, *state, &why);
        assert_null(why);
        assert_true(can_run);
    }
}

static void check_refusal(struct arena *arena, const char *name, const struct parallel *parallel,
                          const char *expected)
{
    const char *why = NULL;
    assert_false(stack_can_run(load(arena, name), parallel, arena, &why));
    assert_string_equal(why, expected);
    // A search asks for no words and has no room for them.
    assert_false(stack_can_run(load(arena, name), parallel, NULL, NULL));
}

static void what_a_stack_cannot_run_has_a_reason(void **state)
{
    struct arena *arena = *state;
    const struct stack *old = load(arena, "megatron-2021");
    struct parallel parallel = plain(old);
    parallel.zero = 3;
    check_refusal(arena, "megatron-2021", &parallel, "stack megatron-2021 has no zero stage 3");
    parallel = plain(old);
    parallel.attention = ATTENTION_FLASH;
    check_refusal(arena, "megatron-2021", &parallel, "stack megatron-2021 has no flash attention");
    parallel = plain(old);
    parallel.overlap = OVERLAP_TP | OVERLAP_PP;
    check_refusal(arena, "megatron-2021", &parallel, "stack megatron-2021 cannot overlap tp,pp");
    parallel = plain(old);
    parallel.degree[AXIS_CP] = 2;
    check_refusal(arena, "megatron-2021", &parallel, "stack megatron-2021 cannot split over cp");
    parallel = plain(old);
    parallel.degree[AXIS_PP] = 2;
    parallel.schedule = SCHEDULE_GPIPE;
    check_refusal(arena, "megatron-2021", &parallel, "stack megatron-2021 has no schedule gpipe");
    parallel = plain(load(arena, "megatron-core"));
    parallel.degree[AXIS_PP] = 2;
    parallel.zero = 3;
    check_refusal(arena, "megatron-core", &parallel,
                  "stack megatron-core has no zero stage 3 together with a pipeline");
    parallel = plain(load(arena, "fsdp"));
    parallel.sp = true;
    check_refusal(arena, "fsdp", &parallel, "stack fsdp has no sequence parallelism");
}

// Which choices a stack refuses, one differing from what it runs.
static void what_only_some_stacks_have_is_asked_for(void **state)
{
    struct arena *arena = *state;
    struct parallel parallel = plain(load(arena, "mindspore"));
    parallel.degree[AXIS_CP] = 2;
    parallel.cp_kind = CP_ALL_GATHER;
    check_refusal(arena, "mindspore", &parallel,
                  "stack mindspore has no allgather context parallelism");
    parallel.degree[AXIS_CP] = 1;
    const char *why = NULL;
    assert_true(stack_can_run(load(arena, "mindspore"), &parallel, arena, &why));

    parallel = plain(load(arena, "megatron-2021"));
    parallel.passes = 1u << PASS_FUSION | 1u << PASS_STREAMS;
    check_refusal(arena, "megatron-2021", &parallel, "stack megatron-2021 has no pass streams");
    parallel = plain(load(arena, "fsdp"));
    parallel.recompute = RECOMPUTE_SELECTIVE;
    assert_true(stack_can_run(load(arena, "fsdp"), &parallel, arena, &why));
    parallel.recompute_classes = 1u << OP_CLASS_ATTENTION | 1u << OP_CLASS_NORM;
    check_refusal(arena, "fsdp", &parallel, "stack fsdp has no selective recompute of norm");
    assert_true(stack_can_run(load(arena, "megatron-core"), &parallel, arena, &why));
    // Classes of a run that recomputes nothing are not asked for.
    parallel.recompute = RECOMPUTE_NONE;
    assert_true(stack_can_run(load(arena, "fsdp"), &parallel, arena, &why));
}

static void zero_bubble_runs_where_the_software_has_it(void **state)
{
    static const struct {
        const char *stack;
        enum schedule_kind schedule;
        bool runs;
    } CASES[] = {
        {"megatron-zero-bubble", SCHEDULE_ZB_H1, true},
        {"megatron-zero-bubble", SCHEDULE_ZB_H2, true},
        {"megatron-core", SCHEDULE_ZB_H1, false},
        {"megatron-core", SCHEDULE_ZB_V, false},
        {"meshwright", SCHEDULE_ZB_AUTO, true},
        {"fsdp2", SCHEDULE_ZB_V, true},
        {"fsdp2", SCHEDULE_ZB_H1, false},
        {"megatron-2021", SCHEDULE_ZB_V, false},
        {"xla", SCHEDULE_ZB_AUTO, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct stack *stack = load(*state, CASES[i].stack);
        struct parallel parallel = plain(stack);
        parallel.degree[AXIS_PP] = 4;
        parallel.schedule = CASES[i].schedule;
        const char *why = NULL;
        assert_true(stack_can_run(stack, &parallel, *state, &why) == CASES[i].runs);
    }
}

static void a_stack_without_low_precision_gemms_does_not_train_in_them(void **state)
{
    struct err err = {0};
    assert_true(stack_check_precision(load(*state, "fsdp2"), PRECISION_FP8, &err));
    assert_true(stack_check_precision(load(*state, "megatron-2021"), PRECISION_BF16, &err));
    assert_false(stack_check_precision(load(*state, "fsdp2"), PRECISION_FP4, &err));
    assert_string_equal(err.text, "--precision fp4: stack fsdp2 runs no GEMMs in it");
    assert_int_equal(err.kind, ERR_USAGE);
}

// Without a pipeline its schedule is not asked for: no stack lists one for that.
static void a_schedule_counts_only_in_a_pipeline(void **state)
{
    struct parallel parallel = plain(load(*state, "fsdp"));
    parallel.schedule = SCHEDULE_GPIPE;
    const char *why = NULL;
    assert_true(stack_can_run(load(*state, "fsdp"), &parallel, *state, &why));
}

// `at` is where the file is wrong, in words that it holds once: lines move with every new key.
static const struct {
    const char *name, *at, *message;
} BAD_FILES[] = {
    {"hearsay", "\"rumour\"",
     "$.provenance[0].kind: expected measured, published, fitted, datasheet, estimated or assumed, "
     "found "
     "\"rumour\""},
    {"cp_kinds", "[\"ring\"]", "$.cp_kinds: expected some where axes has cp and none elsewhere"},
    {"missing_key", "{\n  \"name\"", "$: missing \"host_op_s\""},
    {"negative_scale", "-0.7", "$.element_wise_scale: must be between 0.05 and 4, found -0.7"},
    {"no_attention", "[],\n  \"axes\"", "$.attention: expected at least one"},
    {"no_provenance", "5e-6",
     "$.host_op_s: expected an entry for \"host_op_s\" in provenance, found none"},
    {"overlap", "\"grad-reduce,tensor\"",
     "$.overlap: expected none or some of grad-reduce,param-gather,tp,pp,cp,ep, found "
     "\"grad-reduce,tensor\""},
    {"overlap_default", "\"tp\",\n", "$.overlap_default: expected a subset of overlap"},
    {"slow_attention", "1e7",
     "$.attention_flop_per_s_most: expected 0 (no limit) or at least 1e9, found 1e+07"},
    {"unknown_key", "\"gemm_scle\"", "$.gemm_scle: unknown key, did you mean \"gemm_scale\"?"},
    {"recompute_classes", "[],\n  \"attention\"",
     "$.recompute_classes: expected some where recompute has selective and none elsewhere"},
    {"unknown_pass", "\"unrolling\"",
     "$.passes[1]: expected one of attention, fusion, buckets, combine, latency-hiding, streams, "
     "early-stop, found \"unrolling\""},
    {"unknown_gemm", "\"update\"",
     "$.fp8_gemms[0]: expected one of forward, backward, weight, found \"update\""},
    {"unknown_recompute", "\"block\"",
     "$.recompute[1]: expected one of none, selective, full, per-op, found \"block\""},
    {"wrong_provenance", "\"host_op\"",
     "$.provenance[5].key: this stack has no constant called \"host_op\""},
    {"zero_stage", "4]", "$.zero_stages[1]: must be between 0 and 3, found 4"},
    {"zero_with_pipeline", "[0, 1]",
     "$.zero_stages_with_pipeline: expected a subset of zero_stages"},
};

// "line:column" of `at`, which must be in the file once.
static char *place_of(struct arena *arena, const char *path, const char *at)
{
    struct err err = {0};
    size_t bytes = 0;
    const char *text = file_read(arena, path, 1 << 20, &bytes, &err);
    assert_string_equal(err.text, "");
    const char *place = strstr(text, at);
    assert_non_null(place);
    assert_null(strstr(place + 1, at));
    int line = 1;
    const char *start = text;
    for (const char *c = text; c < place; c++) {
        if (*c != '\n') continue;
        line++;
        start = c + 1;
    }
    return arena_print(arena, "%d:%d", line, (int)(place - start) + 1);
}

static void each_bad_file_gets_its_message(void **state)
{
    struct arena *arena = *state;
    for (size_t i = 0; i < sizeof BAD_FILES / sizeof *BAD_FILES; i++) {
        struct err err = {0};
        char *path = arena_print(arena, "tests/data/stack_%s.json", BAD_FILES[i].name);
        assert_null(stack_load(arena, path, &err));
        char *place = place_of(arena, path, BAD_FILES[i].at);
        assert_string_equal(err.text,
                            arena_print(arena, "%s:%s: %s", path, place, BAD_FILES[i].message));
        assert_int_equal(err.kind, ERR_INPUT);
    }
}

// What only some stacks say is written back as it was read, and left out where nothing was said.
static void optional_facts_are_read_and_written(void **state)
{
    const struct stack *core = load(*state, "megatron-core");
    assert_int_equal(core->fp16_attention, 1u << ATTENTION_UNFUSED);
    assert_true(core->fp16_gradient_bytes == 2 && !core->fp32_weights);
    assert_true(stack_gradient_bytes(core, PRECISION_FP16) == 2);
    assert_true(stack_gradient_bytes(core, PRECISION_BF16) == 4);
    assert_non_null(strstr(text_of(*state, core), "fp16_attention"));
    const struct stack *fsdp = load(*state, "fsdp2");
    assert_true(fsdp->fp32_weights && !fsdp->fp16_attention);
    assert_true(stack_keeps_low_precision_weights(fsdp, PRECISION_BF16, false));
    assert_false(stack_keeps_low_precision_weights(fsdp, PRECISION_BF16, true));
    assert_true(stack_keeps_low_precision_weights(fsdp, PRECISION_FP32, true));
    assert_true(stack_gradient_bytes(fsdp, PRECISION_FP16) == fsdp->gradient_bytes);
    assert_null(strstr(text_of(*state, fsdp), "fp16_attention"));
}

// A file that is older than grids of tensor parallel ranks has them in a line.
static void a_stack_without_kinds_of_tensor_parallelism_has_a_line(void **state)
{
    static const char KINDS[] = "\"tp_kinds\": [\"1d\"],";
    struct arena *arena = *state;
    const char *whole = text_of(arena, load(arena, "fsdp2"));
    const char *at = strstr(whole, KINDS);
    assert_non_null(at);
    const char *text = arena_print(arena, "%.*s%s", (int)(at - whole), whole, at + strlen(KINDS));
    struct err err = {0};
    struct json_document document;
    assert_true(json_parse(arena, "old", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    const struct stack *stack = stack_read(arena, &root, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(stack->tp_kinds, 1u << TP_1D);
    assert_string_equal(text_of(arena, stack), whole);
}

static void fp16_runs_have_no_attention_that_the_stack_lacks(void **state)
{
    struct stack stack = *load(*state, "megatron-2021");
    stack.fp16_attention = 1u << ATTENTION_FLASH;
    struct err err = {0};
    struct json_document document;
    const char *text = text_of(*state, &stack);
    assert_true(json_parse(*state, "stack.json", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    assert_null(stack_read(*state, &root, &err));
    assert_non_null(strstr(err.text, "$.fp16_attention: expected a subset of attention"));
}

static void an_unknown_stack_is_answered_with_the_nearest(void **state)
{
    static const char MESSAGE[] =
        "no stack is called \"megatron-cor\", did you mean "
        "\"megatron-core\"? There are: accelerate, automodel, colossalai, eager, ";
    struct err err = {0};
    assert_null(stack_load(*state, "megatron-cor", &err));
    assert_memory_equal(err.text, MESSAGE, strlen(MESSAGE));
    assert_int_equal(err.kind, ERR_INPUT);
}

static void optimizer_state_is_as_wide_as_the_stack_keeps_it(void **state)
{
    struct err err = {0};
    const struct stack *stack = stack_load(*state, "megatron-core", &err);
    assert_string_equal(err.text, "");
    assert_true(stack_state_bytes(stack, OPTIMIZER_ADAMW, PRECISION_BF16) == 12);
    assert_true(stack_state_bytes(stack, OPTIMIZER_ADAMW, PRECISION_FP32) == 8);
    assert_true(stack_state_bytes(stack, OPTIMIZER_SGD, PRECISION_FP8) == 8);
    struct stack narrow = *stack;
    narrow.moment_bytes = 2;  // as DeepSeek-V3 keeps them (arXiv 2412.19437, section 3.3.3)
    assert_true(stack_state_bytes(&narrow, OPTIMIZER_ADAMW, PRECISION_FP8) == 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shipped_stack_reads_and_has_the_name_of_its_file),
        cmocka_unit_test(every_shipped_stack_is_written_as_it_was_read),
        cmocka_unit_test(every_shipped_stack_runs_plain_data_parallelism),
        cmocka_unit_test(every_stack_can_run_what_its_published_runs_used),
        cmocka_unit_test(what_a_stack_cannot_run_has_a_reason),
        cmocka_unit_test(what_only_some_stacks_have_is_asked_for),
        cmocka_unit_test(zero_bubble_runs_where_the_software_has_it),
        cmocka_unit_test(a_stack_without_low_precision_gemms_does_not_train_in_them),
        cmocka_unit_test(a_schedule_counts_only_in_a_pipeline),
        cmocka_unit_test(each_bad_file_gets_its_message),
        cmocka_unit_test(optional_facts_are_read_and_written),
        cmocka_unit_test(a_stack_without_kinds_of_tensor_parallelism_has_a_line),
        cmocka_unit_test(fp16_runs_have_no_attention_that_the_stack_lacks),
        cmocka_unit_test(an_unknown_stack_is_answered_with_the_nearest),
        cmocka_unit_test(optimizer_state_is_as_wide_as_the_stack_keeps_it),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
