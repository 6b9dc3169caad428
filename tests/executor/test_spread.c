#include "tests/support/test.h"

#include "executor/launcher/spread.h"

#include <assert.h>
#include <stdlib.h>

// Every element is done once, whatever the threads.

static void mark(void *context, int64_t first, int64_t end)
{
    int *marks = context;
    assert(first <= end);
    for (int64_t i = first; i < end; i++)
        marks[i]++;
}

static void every_element_is_done_once(void **state)
{
    static const int64_t COUNTS[] = {0, 1, 1000, 16384, 32769, 100003, 1 << 20};
    static const int THREADS[] = {-1, 0, 1, 2, 3, 7, 64, 1000};
    (void)state;
    for (size_t c = 0; c < sizeof COUNTS / sizeof *COUNTS; c++) {
        for (size_t t = 0; t < sizeof THREADS / sizeof *THREADS; t++) {
            int *marks = calloc((size_t)COUNTS[c] + 1, sizeof *marks);
            assert_non_null(marks);
            spread(COUNTS[c], THREADS[t], mark, marks);
            for (int64_t i = 0; i < COUNTS[c]; i++)
                assert_int_equal(marks[i], 1);
            assert_int_equal(marks[COUNTS[c]], 0);
            free(marks);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_element_is_done_once)};
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
