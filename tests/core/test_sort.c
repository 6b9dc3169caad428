#include "core/names.h"
#include "core/sort.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <limits.h>

struct item {
    int key, nth;
};

static bool is_before(const void *a, const void *b)
{
    const struct item *first = a, *second = b;
    return first->key < second->key;
}

static void ties_stay_as_they_were(void **state)
{
    struct draw draw = draw_start("sort", 20261129);
    for (int count = 0; count <= 70; count++) {
        struct item items[70];
        int seen[6] = {0}, drawn[6] = {0};
        for (int i = 0; i < count; i++) {
            int key = (int)draw_int(&draw, 0, 5);
            items[i] = (struct item){key, drawn[key]++};
        }
        sort_stable(*state, items, count, sizeof *items, is_before);
        for (int i = 0; i < count; i++) {
            assert_true(i == 0 || items[i - 1].key <= items[i].key);
            assert_int_equal(items[i].nth, seen[items[i].key]++);
        }
        assert_memory_equal(seen, drawn, sizeof seen);
    }
}

static void medians_are_the_middle_or_the_mean_of_two(void **state)
{
    (void)state;
    double odd[] = {3, -1, 7}, even[] = {4, 1, 9, 2}, one[] = {5};
    assert_true(sort_median(odd, 3) == 3);
    assert_true(sort_median(even, 4) == 3);
    assert_true(sort_median(one, 1) == 5);
    assert_true(even[0] == 1 && even[1] == 2 && even[2] == 4 && even[3] == 9);
}

// Of numbers that differ by more than an int holds, and by one where a double sees none.
static void whole_numbers_are_sorted(void **state)
{
    (void)state;
    int64_t wide[] = {INT64_MAX, 3, INT64_MIN, INT64_MAX - 1, 3};
    const int64_t wide_sorted[] = {INT64_MIN, 3, 3, INT64_MAX - 1, INT64_MAX};
    int narrow[] = {INT_MAX, -1, INT_MIN, 0, -1}, one = 4;
    const int narrow_sorted[] = {INT_MIN, -1, -1, 0, INT_MAX};
    sort_i64s(wide, 5);
    sort_ints(narrow, 5);
    assert_memory_equal(wide, wide_sorted, sizeof wide);
    assert_memory_equal(narrow, narrow_sorted, sizeof narrow);
    sort_ints(&one, 1);
    sort_i64s(NULL, 0);
    assert_int_equal(one, 4);
}

static void texts_are_sorted_and_found(void **state)
{
    (void)state;
    const char *texts[] = {"pp", "dp", "tp", "cp"};
    assert_int_equal(NAME_INDEX(texts, "tp"), 2);
    assert_int_equal(name_index(texts, 2, "tp"), -1);
    sort_texts(texts, 4);
    assert_int_equal(NAME_INDEX(texts, "cp"), 0);
    assert_int_equal(NAME_INDEX(texts, "tp"), 3);
    assert_int_equal(NAME_INDEX(texts, "t"), -1);
    sort_texts(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties_stay_as_they_were),
        cmocka_unit_test(medians_are_the_middle_or_the_mean_of_two),
        cmocka_unit_test(whole_numbers_are_sorted),
        cmocka_unit_test(texts_are_sorted_and_found),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
