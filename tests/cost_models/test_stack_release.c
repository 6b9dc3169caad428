#include "cost_models/stack.h"

#include "core/json_write.h"
#include "tests/support/test.h"

static const struct stack *load(struct arena *arena, const char *name)
{
    struct err err = {0};
    const struct stack *stack = stack_load(arena, name, &err);
    assert_string_equal(err.text, "");
    return stack;
}

static void a_release_has_what_newer_ones_have_but_for_what_it_says(void **state)
{
    const struct stack *newest = load(*state, "megatron-core");
    const struct stack *before = load(*state, "nemo@26.04.01"),
                       *older = load(*state, "mcore@25.09");
    assert_true(newest->expert_graph && newest->expert_fusion);
    assert_false(before->expert_graph || before->expert_fusion);
    assert_false(older->expert_graph || older->expert_fusion);
    assert_true(load(*state, "megatron-core@26.06")->expert_graph);
    assert_true(newest->expert_attention && !before->expert_attention && !newest->narrow_head);
    const struct stack *head = load(*state, "megatron-core@fp8-head");
    assert_true(head->narrow_head && head->expert_attention);
    head = load(*state, "megatron-core@fp8-head-bf16-attention");
    assert_true(head->narrow_head && !head->expert_attention);
    assert_string_equal(older->release, "25.09");
    assert_string_equal(older->name, "megatron-core");
    assert_string_equal(older->newest->release, newest->release);
    assert_true(older->gemm_scale == newest->gemm_scale);
}

static void a_release_may_be_one_of_several_builds(void **state)
{
    const struct stack *newest = load(*state, "megatron-core");
    assert_true(newest->gradient_bytes == 4 && newest->reduce_bytes == 4);
    const struct stack *narrow = load(*state, "megatron-core@bf16-gradients");
    assert_true(narrow->gradient_bytes == 2 && narrow->reduce_bytes == 2);
    assert_true(narrow->expert_graph && !narrow->narrow_head);
    const struct stack *both = load(*state, "megatron-core@26.04.01+bf16-gradients");
    assert_true(both->gradient_bytes == 2 && both->reduce_bytes == 2);
    assert_false(both->expert_graph || both->expert_fusion);
    assert_string_equal(both->release, "26.04.01+bf16-gradients");
    assert_ptr_equal(both->newest->newest, NULL);
    assert_string_equal(both->newest->release, newest->release);
    const struct stack *three = load(*state, "megatron-core@26.06+fp8-head+bf16-gradients");
    assert_true(three->narrow_head && three->expert_graph && three->gradient_bytes == 2);
    // The newest release as a build is that build, and the one before it keeps its own.
    const char *named = arena_print(*state, "mcore@%s+fp8-head", newest->release);
    assert_true(load(*state, named)->narrow_head && load(*state, named)->gradient_bytes == 4);
    assert_true(load(*state, "megatron-core@26.04.01")->gradient_bytes == 4);
}

// A plan holds its stack whole, and is refused where a number has no source.
static void every_build_can_be_written_and_read(void **state)
{
    static const char *const STACKS[] = {"fsdp", "fsdp2", "megatron-core"};
    int builds = 0;
    for (size_t i = 0; i < sizeof STACKS / sizeof *STACKS; i++) {
        const struct stack *newest = load(*state, STACKS[i]);
        for (int b = 0; b < newest->build_count; b++, builds++) {
            const char *name = newest->builds[b].name;
            const struct stack *built = stack_at_release(*state, newest, name);
            struct json_writer writer = {.arena = *state};
            json_open(&writer, NULL, '{');
            stack_write(&writer, "stack", built);
            json_close(&writer, '}');
            struct json_document document;
            struct err err = {0};
            assert_true(
                json_parse(*state, name, writer.text, strlen(writer.text), &document, &err));
            struct json root = json_root(&document), object = json_get(&root, "stack", &err);
            const struct stack *read = stack_read(*state, &object, &err);
            assert_string_equal(err.text, "");
            assert_true(read->gradient_bytes == built->gradient_bytes);
            assert_true(read->loss_forward_bytes == built->loss_forward_bytes);
            assert_string_equal(stack_builds_among(*state, newest, read->release), name);
        }
    }
    assert_int_equal(builds, 10);
    const struct stack *core = load(*state, "megatron-core");
    assert_string_equal(stack_builds_among(*state, core, "26.04+fp8-head+bf16-gradients"),
                        "fp8-head+bf16-gradients");
    assert_null(stack_builds_among(*state, core, "26.04"));
    assert_null(stack_builds_among(*state, core, NULL));
}

static void a_number_of_a_build_has_the_source_of_the_build(void **state)
{
    const struct stack *newest = load(*state, "fsdp2"), *eager = load(*state, "fsdp2@eager");
    const char *source = NULL;
    int found = 0;
    for (int i = 0; i < eager->provenance_count; i++) {
        if (strcmp(eager->provenance[i].key, "element_wise_scale") != 0) continue;
        source = eager->provenance[i].source;
        found++;
    }
    assert_int_equal(found, 1);
    assert_memory_equal(source, "eager: torchtitan's performance page", 36);
    // Of what the newest has no number of there is an entry more.
    assert_true(eager->provenance_count > newest->provenance_count);
}

static void a_release_stands_before_its_builds_and_each_is_known(void **state)
{
    static const char *const WRONG[] = {
        "megatron-core@26.04.01+", "megatron-core@+fp8-head", "megatron-core@fp8-head+26.04.01",
        "megatron-core@26.04.01+26.06", "megatron-core@26.04.01+fp8"};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        struct err err = {0};
        assert_null(stack_load(*state, WRONG[i], &err));
        assert_int_equal(err.kind, ERR_INPUT);
        assert_non_null(strstr(err.text, "stack megatron-core has no release \""));
    }
}

static void the_newest_release_may_be_named(void **state)
{
    const struct stack *newest = load(*state, "megatron-core");
    const struct stack *named = load(*state, arena_print(*state, "megatron@%s", newest->release));
    assert_null(named->newest);
    assert_true(named->expert_graph);
}

static void unknown_releases_are_refused_with_those_that_are_there(void **state)
{
    struct err err = {0};
    assert_null(stack_load(*state, "megatron-core@24.01", &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.text, "stack megatron-core has no release \"24.01\". There are: "));
    assert_non_null(strstr(err.text, ", 25.09"));
    err = (struct err){0};
    assert_null(stack_load(*state, "internevo@2.9", &err));
    assert_string_equal(err.text,
                        "stack internevo: its releases are not told apart, \"2.9\" is none");
    err = (struct err){0};
    assert_null(stack_load(*state, "fsdp2@2.9", &err));
    assert_string_equal(err.text,
                        "stack fsdp2 has no release \"2.9\". There are: eager, eager-loss, "
                        "standard-ep, kempnerforge, kempnerforge-eager");
}

static void a_plan_file_holds_its_release_alone(void **state)
{
    struct err err = {0};
    struct json_writer writer = {.arena = *state};
    stack_write(&writer, NULL, load(*state, "megatron-core@26.02"));
    struct json_document document;
    assert_true(json_parse(*state, "plan", writer.text, strlen(writer.text), &document, &err));
    struct json root = json_root(&document);
    assert_false(json_has(&root, "releases"));
    const struct stack *read = stack_read(*state, &root, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(read->release, "26.02");
    assert_int_equal(read->release_count, 0);
    assert_false(read->expert_graph);
}

static void a_build_has_what_the_newest_has_but_for_what_it_says(void **state)
{
    const struct stack *compiled = load(*state, "fsdp2"), *eager = load(*state, "titan@eager");
    assert_string_equal(eager->name, "fsdp2");
    assert_string_equal(eager->release, "eager");
    assert_string_equal(eager->newest->name, "fsdp2");
    assert_true(eager->element_wise_scale == 4 && compiled->element_wise_scale < 2);
    assert_true(eager->gemm_scale == compiled->gemm_scale);
    // The second of two builds takes nothing from the first.
    const struct stack *fsdp = load(*state, "fsdp"), *slow = load(*state, "fsdp@eager");
    assert_true(slow->attention_flop_per_s_most > fsdp->attention_flop_per_s_most);
    assert_true(slow->element_wise_scale == 4);
    assert_true(load(*state, "fsdp@torch.compile")->element_wise_scale < 2);
    // What nobody described is between software that fuses its norms and one that does not.
    const struct stack *unknown = load(*state, "eager");
    assert_true(unknown->element_wise_scale > fsdp->element_wise_scale &&
                unknown->element_wise_scale < slow->element_wise_scale);
    assert_true(unknown->only_when_named && stack_is_for(unknown, "gpu"));
}

static void numbers_differ_where_a_model_has_experts(void **state)
{
    const struct stack *stack = load(*state, "automodel");
    const struct stack *dense = stack_for_model(*state, stack, false);
    const struct stack *mixture = stack_for_model(*state, stack, true);
    assert_ptr_equal(dense, stack);
    assert_true(dense->attention_flop_per_s_most > 0);
    assert_true(mixture->attention_flop_per_s_most == 0);
    assert_true(mixture->gemm_scale == dense->gemm_scale);
    struct err err = {0};
    struct json_writer writer = {.arena = *state};
    stack_write(&writer, NULL, mixture);
    struct json_document document;
    assert_true(json_parse(*state, "plan", writer.text, strlen(writer.text), &document, &err));
    struct json root = json_root(&document);
    assert_false(json_has(&root, "with_experts"));
    const struct stack *read = stack_read(*state, &root, &err);
    assert_string_equal(err.text, "");
    assert_true(read->attention_flop_per_s_most == 0);
}

static void what_no_stack_has_cannot_change(void **state)
{
    struct err err = {0};
    struct json_writer writer = {.arena = *state};
    struct stack *stack = stack_copy(*state, load(*state, "fsdp2"));
    stack_write(&writer, NULL, stack);
    const char *text = arena_print(
        *state,
        "{\"releases\": [{\"name\": \"1\", \"date\": \"2026-01\", \"source\": \"a test\", "
        "\"before\": {\"speed\": 2}}], %s",
        strchr(writer.text, '{') + 1);
    struct json_document document;
    assert_true(json_parse(*state, "file", text, strlen(text), &document, &err));
    struct json root = json_root(&document);
    assert_null(stack_read(*state, &root, &err));
    assert_non_null(strstr(err.text, "releases[0].before.speed: expected a number or a switch of "
                                     "the stack, found \"speed\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_has_what_newer_ones_have_but_for_what_it_says),
        cmocka_unit_test(a_release_may_be_one_of_several_builds),
        cmocka_unit_test(every_build_can_be_written_and_read),
        cmocka_unit_test(a_number_of_a_build_has_the_source_of_the_build),
        cmocka_unit_test(a_release_stands_before_its_builds_and_each_is_known),
        cmocka_unit_test(the_newest_release_may_be_named),
        cmocka_unit_test(unknown_releases_are_refused_with_those_that_are_there),
        cmocka_unit_test(a_plan_file_holds_its_release_alone),
        cmocka_unit_test(a_build_has_what_the_newest_has_but_for_what_it_says),
        cmocka_unit_test(numbers_differ_where_a_model_has_experts),
        cmocka_unit_test(what_no_stack_has_cannot_change),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
