#include "tests/support/test.h"

#include <malloc.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void memory_is_zeroed_and_aligned(void **state)
{
    struct arena *arena = *state;
    for (size_t size = 0; size < 300; size += 7) {
        unsigned char *memory = arena_alloc(arena, 1, size);
        assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(memory[i], 0);
            memory[i] = 0xff;
        }
    }
}

static void memory_of_no_bytes_is_not_null(void **state)
{
    assert_non_null(arena_alloc(*state, 0, 8));
    assert_non_null(arena_alloc(*state, 8, 0));
}

static void a_large_request_gets_its_own_block(void **state)
{
    struct arena *arena = *state;
    char *memory = ARENA_NEW(arena, char, 40 << 20);
    memory[(40 << 20) - 1] = 1;
    assert_int_equal(*ARENA_NEW(arena, char, 1), 0);
}

static void memory_after_a_reset_is_zeroed_again(void **state)
{
    (void)state;
    struct arena arena = {0};
    arena_copy(&arena, "kept");
    struct arena_mark mark = arena_mark(&arena);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 50; i++) {
            char *memory = ARENA_NEW(&arena, char, 5000);
            assert_int_equal(memory[0], 0);
            assert_int_equal(memory[4999], 0);
            memset(memory, 1, 5000);
        }
        arena_reset(&arena, mark);
        assert_int_equal(arena.used_bytes, mark.used_bytes);
    }
    arena_free(&arena);
    assert_int_equal(arena.used_bytes, 0);
}

static void what_is_older_than_the_mark_survives_a_reset(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct arena_mark empty = arena_mark(&arena);
    char *kept = arena_copy(&arena, "kept");
    struct arena_mark mark = arena_mark(&arena);
    ARENA_NEW(&arena, char, 1 << 20);
    arena_reset(&arena, mark);
    struct arena_mark inner = arena_mark(&arena);
    memset(ARENA_NEW(&arena, char, 100), 7, 100);
    arena_reset(&arena, inner);
    arena_reset(&arena, mark);
    assert_string_equal(kept, "kept");
    arena_reset(&arena, empty);
    assert_int_equal(arena.used_bytes, 0);
    arena_free(&arena);
}

// A reset to a mark in an empty block, over and over: one block is kept, not one more each time.
static void resets_keep_no_more_than_one_block(void **state)
{
    (void)state;
    enum { ROUNDS = 8, BYTES = 5 << 20, COUNT = 8 };  // more than the largest block
    struct arena arena = {0};
    struct arena_mark empty = arena_mark(&arena);
    ARENA_NEW(&arena, char, 100);
    arena_reset(&arena, empty);
    size_t held_bytes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct arena_mark mark = arena_mark(&arena);
        for (int i = 0; i < COUNT; i++) {
            char *memory = ARENA_NEW(&arena, char, BYTES);
            assert_int_equal(memory[0], 0);
            memory[0] = 1;
        }
        arena_reset(&arena, mark);
        struct mallinfo2 of = mallinfo2();
        if (round == 2) held_bytes = of.uordblks + of.hblkhd;
        if (round > 2) assert_true(of.uordblks + of.hblkhd <= held_bytes);
    }
    arena_free(&arena);
}

static void texts_are_formatted_into_the_arena(void **state)
{
    assert_string_equal(arena_print(*state, "%s has %d", "dp", 8), "dp has 8");
    // As long as what is written at once, a byte less and more, and much more.
    static const int LENGTHS[] = {254, 255, 256, 5000};
    for (int i = 0; i < 4; i++) {
        const char *text = arena_print(*state, "%*d|", LENGTHS[i], 7);
        assert_int_equal(strlen(text), LENGTHS[i] + 1);
        assert_string_equal(text + LENGTHS[i] - 2, " 7|");
    }
    assert_string_equal(arena_copy(*state, ""), "");
}

// Runs in a child: the process ends.
static void ask_for_too_much(size_t count, size_t size, int *status, char *line, size_t line_size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        struct arena arena = {0};
        arena_alloc(&arena, count, size);
        _exit(0);
    }
    close(ends[1]);
    ssize_t length = read(ends[0], line, line_size - 1);
    line[length > 0 ? length : 0] = '\0';
    close(ends[0]);
    waitpid(child, status, 0);
}

static void running_out_of_memory_ends_with_status_4_and_one_line(void **state)
{
    (void)state;
    char line[256];
    int status = 0;
    ask_for_too_much(SIZE_MAX / 2, 4, &status, line, sizeof line);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 4);
    assert_string_equal(line, "meshwright: out of memory, 18446744073709551615 bytes wanted\n");
    ask_for_too_much(1, SIZE_MAX - 64, &status, line, sizeof line);
    assert_int_equal(WEXITSTATUS(status), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(memory_of_no_bytes_is_not_null),
        cmocka_unit_test(a_large_request_gets_its_own_block),
        cmocka_unit_test(memory_after_a_reset_is_zeroed_again),
        cmocka_unit_test(what_is_older_than_the_mark_survives_a_reset),
        cmocka_unit_test(resets_keep_no_more_than_one_block),
        cmocka_unit_test(texts_are_formatted_into_the_arena),
        cmocka_unit_test(running_out_of_memory_ends_with_status_4_and_one_line),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
