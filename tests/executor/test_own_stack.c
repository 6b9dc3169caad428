#include "tests/support/test.h"

#include "core/file.h"
#include "executor/communicators/plugin.h"
#include "executor/plugin.h"
#include "reports/machine/own_stack.h"
#include "tests/support/emulated.h"

#include <stdlib.h>

// Our own stacks are what the back ends answer: the shipped files are compared with it, and written
// with UPDATE=1. CUDA's table is that of its emulation, which is compiled from the same sources.

static const struct stack *make(struct arena *arena, const struct backend *const *backends,
                                int count)
{
    struct err err = {0};
    const struct stack *stack = own_stack_make(arena, backends, count, &err);
    assert_string_equal(err.text, "");
    return stack;
}

static const struct stack *of_host(struct arena *arena)
{
    struct err err = {0};
    const struct backend *backends[] = {backend_open("cpu", &err), backend_open("cpu-half", &err)};
    assert_string_equal(err.text, "");
    return make(arena, backends, 2);
}

static const struct stack *of_device(struct arena *arena)
{
    const struct backend *backends[] = {emulated_backend(PRECISION_FP32)};
    return make(arena, backends, 1);
}

static char *text_of(struct arena *arena, const struct stack *stack)
{
    struct json_writer writer = {.arena = arena};
    stack_write(&writer, NULL, stack);
    return writer.text;
}

static void check_file(struct arena *arena, const struct stack *stack)
{
    struct err err = {0};
    size_t bytes = 0;
    enum { BYTES_MOST = 1 << 20 };
    const char *path = arena_print(arena, "cost_models/stacks/%s.json", stack->name);
    const struct file_text file = {path, text_of(arena, stack)};
    if (getenv("UPDATE")) assert_true(file_write_all(&file, 1, &err));
    const char *shipped = file_read(arena, path, BYTES_MOST, &bytes, &err);
    assert_string_equal(err.text, "");
    if (strcmp(shipped, file.text) != 0)
        fail_msg("%s is not what the back end answers: UPDATE=1 build/tests/test_own_stack", path);
}

static void shipped_stacks_are_what_back_ends_answer(void **state)
{
    check_file(*state, of_host(*state));
    check_file(*state, of_device(*state));
}

// A file that is read again says the same, and needs nothing that the reader refuses.
static void they_are_read_as_they_were_made(void **state)
{
    const struct stack *made[] = {of_host(*state), of_device(*state)};
    for (int i = 0; i < 2; i++) {
        struct json_document document;
        struct err err = {0};
        const char *text = text_of(*state, made[i]);
        assert_true(json_parse(*state, "made", text, strlen(text), &document, &err));
        struct json root = json_root(&document);
        const struct stack *read = stack_read(*state, &root, &err);
        assert_string_equal(err.text, "");
        assert_string_equal(text_of(*state, read), text);
        assert_int_equal(stack_joins(read), stack_joins(made[i]));
    }
}

// What a back end does not answer is not offered.
static void answers_decide_what_is_offered(void **state)
{
    struct err err = {0};
    struct backend apart = *backend_open("cpu", &err);
    apart.joins = 0;
    const struct backend *backends[] = {&apart};
    const struct stack *stack = make(*state, backends, 1);
    assert_int_equal(stack->passes >> PASS_FUSION & 1, 0);
    assert_null(stack_flag_of(stack, "precision=bf16"));
    assert_int_equal(stack->overlap, 0);
    const struct stack *device = of_device(*state);
    assert_true(device->passes >> PASS_FUSION & 1 && device->overlap & OVERLAP_CP);
    assert_true(device->fp8_gemms && !device->fp4_gemms);
    assert_true(device->merge_contractions);
    assert_true(device->joins >> JOIN_GELU & 1 && !(device->joins >> JOIN_CHAIN & 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_stacks_are_what_back_ends_answer),
        cmocka_unit_test(they_are_read_as_they_were_made),
        cmocka_unit_test(answers_decide_what_is_offered),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
