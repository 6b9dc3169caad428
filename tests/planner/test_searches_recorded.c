#include "tests/support/recorded_search.h"
#include "tests/support/test.h"

// Searches of whole spaces, and of what leaves the device, go as recorded.

// Draws that differ in what they come to, and take a few milliseconds each.
static const struct recorded_draws SPACES[] = {
    {WAY_TIME, {43, 32, 27, 33, 10, 24, 28, 39}},
    {WAY_MEMORY, {84, 87, 71, 73, 99, 58}},
    {WAY_ALL, {452, 467, 493, 472, 460}},
};
static const struct recorded_draws MOVES[] = {
    {WAY_OFFLOAD, {120, 112, 134, 145, 118, 103, 121, 144, 148, 108, 129,
                   101, 104, 106, 107, 113, 127, 131, 132, 137, 142}},
    {WAY_GRADIENTS, {183, 185, 151, 187, 166, 171}},
    {WAY_PARAMETERS, {203, 218, 221, 201, 223, 242, 212}},
    {WAY_MEMORY_OFFLOAD, {3, 4, 9, 10, 11, 5}},
};

static void whole_spaces_are_searched_as_recorded(void **state)
{
    recorded_check_draws(*state, SPACES, sizeof SPACES / sizeof *SPACES);
}

static void what_leaves_the_device_is_searched_as_recorded(void **state)
{
    recorded_check_draws(*state, MOVES, sizeof MOVES / sizeof *MOVES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_spaces_are_searched_as_recorded),
        cmocka_unit_test(what_leaves_the_device_is_searched_as_recorded),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
