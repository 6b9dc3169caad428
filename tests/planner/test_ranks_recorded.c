#include "tests/support/recorded_search.h"
#include "tests/support/test.h"

// Searches with pinned numbers of ranks for each stage go as recorded, those that are refused in
// their words.

static const struct recorded_draws RANKS[] = {{WAY_RANKS_PINNED, {7, 8, 9, 16, 18, 33}}};

static void pinned_numbers_of_ranks_are_searched_as_recorded(void **state)
{
    recorded_check_draws(*state, RANKS, sizeof RANKS / sizeof *RANKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_numbers_of_ranks_are_searched_as_recorded),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
