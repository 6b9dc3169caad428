#include "executor/checkpoint/pickle.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <string.h>

// Pickles worked by hand: what they say, and that no byte of any makes more of them.

// {'size': torch.Size((3, -2)), 'kept': [1, 300, None, True], 'same': what 'kept' is}
static const char PICKLE[] =
    "\x80\x04\x95\0\0\0\0\0\0\0\0}\x94("
    "\x8c\x04size\x8c\x05torch\x8c\x04Size\x93K\x03J\xfe\xff\xff\xff\x86\x85R"
    "X\x04\0\0\0kept](K\x01M\x2c\x01N\x88"
    "e\x94"
    "\x8c\x04sameh\x01u.";

static const struct pickle *read_all(struct arena *arena, struct err *err)
{
    return pickle_read(arena, "p", PICKLE, sizeof PICKLE - 1, err);
}

static void values_are_as_by_hand(void **state)
{
    struct err err = {0};
    int64_t numbers[2];
    const struct pickle *top = read_all(*state, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(top->kind, PICKLE_DICT);
    assert_int_equal(top->count, 6);
    const struct pickle *size = pickle_find(top, "size"), *kept = pickle_find(top, "kept");
    assert_int_equal(size->kind, PICKLE_MADE);
    assert_string_equal(size->items[0]->text, "torch.Size");
    assert_int_equal(pickle_numbers(size, numbers, 2), 2);
    assert_true(numbers[0] == 3 && numbers[1] == -2);
    assert_int_equal(pickle_numbers(size, numbers, 1), -1);
    assert_int_equal(kept->count, 4);
    assert_true(kept->items[0]->number == 1 && kept->items[1]->number == 300);
    assert_true(kept->items[2]->kind == PICKLE_NONE && kept->items[3]->number == 1);
    assert_ptr_equal(pickle_find(top, "same"), kept);
    assert_null(pickle_find(top, "other"));
    assert_null(pickle_find(kept, "same"));
    assert_int_equal(pickle_numbers(kept, numbers, 2), -1);
}

static void every_cut_is_refused(void **state)
{
    for (size_t size = 0; size < sizeof PICKLE - 1; size++) {
        struct err err = {0};
        assert_null(pickle_read(*state, "p", PICKLE, (int64_t)size, &err));
        assert_int_equal(err.kind, ERR_INPUT);
        assert_memory_equal(err.text, "p: byte ", 8);
    }
}

static void what_is_not_read_is_named_with_its_place(void **state)
{
    static const struct {
        const char *bytes, *text;
    } CASES[] = {
        {"\x80\x04i.", "p: byte 2: instruction 0x69 of pickles is not read"},
        {"t.", "p: byte 1: no mark to go back to"},
        {"a.", "p: byte 1: items of nothing"},
        {"N(Ne.", "p: byte 4: items of what has none such"},
        {"h\x01.", "p: byte 2: nothing was kept there"},
        {"(R.", "p: byte 2: nothing is left to take"},
        {"K\x01K\x02\x93.", "p: byte 5: a name that is no text"},
        {"\x8a\x09", "p: byte 2: a number that is too long"},
        {"\x94.", "p: byte 1: nothing to keep"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        int64_t size = (int64_t)strlen(CASES[i].bytes);
        assert_null(pickle_read(*state, "p", CASES[i].bytes, size, &err));
        assert_string_equal(err.text, CASES[i].text);
    }
}

// Whatever stands there ends as a tree or in one line.
static void any_bytes_end(void **state)
{
    static const char CODES[] = "\x80\x8c(]}t)aesuRbN\x88K\x01h\x01q\x01\x94\x85\x86\x93";
    struct draw draw = draw_start("pickles", 3);
    int read = 0;
    for (int n = 0; n < 20000; n++) {
        char bytes[40];
        int count = draw_int(&draw, 1, 39);
        struct err err = {0};
        struct arena_mark mark = arena_mark(*state);
        for (int i = 0; i < count; i++)
            bytes[i] = draw_int(&draw, 0, 9) ? CODES[draw_int(&draw, 0, (int)sizeof CODES - 2)]
                                             : (char)draw_int(&draw, 0, 255);
        bytes[count] = '.';
        read += pickle_read(*state, "p", bytes, count + 1, &err) != NULL;
        arena_reset(*state, mark);
    }
    assert_true(read > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_as_by_hand),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(what_is_not_read_is_named_with_its_place),
        cmocka_unit_test(any_bytes_end),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
